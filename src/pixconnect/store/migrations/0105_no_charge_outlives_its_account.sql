-- No charge is left on an account that is closed, and none begins on one that is closed or removed, or on which its holder is not:
-- nobody would ever ask about it, nor end it. Whoever begins one locks holder and account, so that moving and closing wait for it
-- and then look.

create or replace function check_closed_account() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if old.state = 'closed' then
        raise exception 'account % is closed for good', old.name
            using errcode = 'integrity_constraint_violation', constraint = 'what_is_closed_stays_closed';
    end if;
    if exists (
        select from holder join balance on balance.holder_id = holder.id
        where holder.institution_id = new.id
            and (available_cents <> 0 or reserved_cents <> 0 or deficit_cents <> 0 or settlement_cents <> 0)
    ) or exists (select from charge_opening where institution_id = new.id and state = 'opening')
        or exists (select from charge where institution_id = new.id and status = 'PENDING') then
        raise exception 'account % has money, or charges that are open or being opened', new.name
            using errcode = 'integrity_constraint_violation', constraint = 'a_closed_account_is_empty';
    end if;
    return new;
end $$;

create function check_opening() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    perform from holder join institution_account as account on account.id = holder.institution_id
    where holder.id = new.holder_id and account.id = new.institution_id and account.state <> 'closed'
        and account.removed_at is null
    for share;
    if not found then
        raise exception 'charge % cannot open on the account %, which is closed, removed, or not that of its holder',
            new.txid, new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_charge_opens_on_its_holders_account';
    end if;
    return null;
end $$;
create trigger check_opening after insert on charge_opening for each row execute function check_opening();
