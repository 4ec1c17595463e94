-- An account that is closed for good has no money, so nothing moves on it any more: a reading that was under way while it was
-- closed must not credit it afterwards. Whoever writes locks the account, so that closing waits for it and then looks.
create function check_account_is_open() returns trigger language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    account record;
begin
    select institution_account.name, institution_account.state into account
    from holder join institution_account on institution_account.id = holder.institution_id
    where holder.id = new.holder_id for share of institution_account;
    if account.state = 'closed' then
        raise exception 'holder % is on the account %, which is closed', new.holder_id, account.name
            using errcode = 'integrity_constraint_violation', constraint = 'nothing_moves_on_a_closed_account';
    end if;
    return null;
end $$;

create trigger check_open after insert on transfer for each row when (new.institution_id is not null)
    execute function check_account_is_open();
create trigger check_open after insert on refund for each row when (new.made_by = 'institution')
    execute function check_account_is_open();
create trigger check_open after insert on movement for each row execute function check_account_is_open();
