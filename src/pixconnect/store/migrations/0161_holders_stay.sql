-- A holder stays on the account on which it has had anything: returns, contests and payments of printed codes may come for a long
-- time, and are posted to a balance whose money must lie where they happen.

create function find_past_of_holder(of_holder bigint) returns text
language sql stable security definer set search_path = {schema}, pg_temp as $$
    select case
        when last_number > 0 or blocks_count > 0 or available_cents <> 0 or reserved_cents <> 0 or blocked_cents <> 0
            or deficit_cents <> 0 or settlement_cents <> 0 or funding_cents <> 0 or difference_cents <> 0
            or exists (select from movement where movement.holder_id = balance.holder_id)
        then 'it has had money there'
        when exists (select from transfer where transfer.holder_id + 0 = balance.holder_id)
        then 'payments of it are recorded there'
        when exists (select from charge where charge.holder_id + 0 = balance.holder_id)
        then 'it has made charges there, whose codes can be paid for as long as somebody has them'
        when exists (
            select from charge_opening where charge_opening.holder_id = balance.holder_id and state = 'opening'
        ) then 'it has charges that are being opened'
        when exists (
            select from kept_case where kept_case.holder_id = balance.holder_id and ended_at is null
        ) then 'it has open cases'
        when exists (
            select from holder join institution_account as account on account.id = holder.institution_id
            where holder.id = balance.holder_id and account.house_id = holder.id and account.state in ('active', 'paused')
        ) then 'it is the house of its account, to which belongs what belongs to nobody else there'
    end
    from balance where holder_id = of_holder
$$;
grant execute on function find_past_of_holder(bigint) to pixconnect_operator;

create function keep_account() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    past text;
begin
    -- Entries are posted under the balance's lock, and what has no entries is made while it holds the holder's row.
    perform from balance where holder_id = old.id for update;
    perform from holder where id = old.id for update;
    past := find_past_of_holder(old.id);
    if past is not null then
        raise exception 'holder % stays on its account: %', old.id, past
            using errcode = 'integrity_constraint_violation', constraint = 'a_holder_stays_on_its_account';
    end if;
    return new;
end $$;
create trigger keep_account before update of institution_id on holder for each row
    when (old.institution_id is distinct from new.institution_id) execute function keep_account();

-- Every process remembers on which account a holder lies.
drop trigger holder_moves_access_revision on holder;
create trigger holder_moves_access_revision after update of disabled_at, institution_id on holder for each row
    when (old.disabled_at is distinct from new.disabled_at or old.institution_id is distinct from new.institution_id)
    execute function move_access_revision();

-- By book goes only what stays on one account. Both legs have their entries by now, so no holder can change its account meanwhile.
create function check_legs() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if tg_table_name = 'transfer' then
        perform from transfer as leg join holder as payer on payer.id = leg.holder_id join holder as payee on payee.id = new.holder_id
        where leg.end_to_end_id = new.end_to_end_id and leg.direction = 'OUT'
            and payer.institution_id is distinct from payee.institution_id;
    else
        perform from refund as leg join holder as payer on payer.id = leg.holder_id join holder as payee on payee.id = new.holder_id
        where leg.return_id = new.return_id and leg.flow = 'OUT' and payer.institution_id is distinct from payee.institution_id;
    end if;
    if found then
        raise exception '% % of holder % goes by book between two accounts', tg_table_name, new.id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'both_legs_lie_on_one_account';
    end if;
    return null;
end $$;
create trigger check_legs after insert on transfer for each row when (new.is_book and new.direction = 'IN')
    execute function check_legs();
create trigger check_legs after insert on refund for each row when (new.is_book and new.flow = 'IN')
    execute function check_legs();

-- What is posted for a fact is posted where the fact is: refunds on the account of their transfer, blocks and contests on that which
-- tells of them.
create function check_account_of_refund() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    perform from transfer join holder on holder.id = transfer.holder_id
    where transfer.id = new.transfer_id and transfer.holder_id = new.holder_id
        and transfer.institution_id is distinct from holder.institution_id;
    if found then
        raise exception 'refund % of holder % is of a transfer on another account', new.id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'what_happens_on_an_account_is_of_its_holders';
    end if;
    return null;
end $$;
create trigger check_institution after insert on refund for each row when (not new.is_book)
    execute function check_account_of_refund();
create trigger check_institution after insert on block for each row when (new.institution_id is not null)
    execute function check_institution_of_row();
create trigger check_institution after insert on infraction for each row when (new.institution_id is not null)
    execute function check_institution_of_row();

-- On which account each of its balances lies is judged again by whoever holds them.
drop function read_held(bigint[]);
create function read_held(wanted bigint[])
returns table (
    holder_id bigint, available_cents bigint, reserved_cents bigint, blocked_cents bigint, deficit_cents bigint,
    last_number bigint, last_entry_at timestamptz, modified_at timestamptz, may_deposit boolean, may_withdraw boolean,
    may_lend boolean, transfer_limit_cents bigint, day_limit_cents bigint, night_limit_cents bigint, has_key_webhooks boolean,
    offset_us bigint, revision bigint, approve_above_cents bigint, approve_new_payees boolean, night_begins_late boolean,
    blocks_count integer, institution_id smallint
)
language plpgsql set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
    return query
        select balance.holder_id, balance.available_cents, balance.reserved_cents, balance.blocked_cents,
            balance.deficit_cents, balance.last_number, balance.last_entry_at, balance.modified_at, holder.may_deposit,
            holder.may_withdraw, holder.may_lend, holder.transfer_limit_cents, holder.day_limit_cents,
            holder.night_limit_cents, exists (select from key_webhook where key_webhook.holder_id = held.id),
            clock.offset_us, clock.revision, holder.approve_above_cents, holder.approve_new_payees,
            holder.night_begins_late, balance.blocks_count, holder.institution_id
        from unnest(wanted) as held (id)
        join balance on balance.holder_id = held.id
        join holder on holder.id = held.id
        cross join clock;
end $$;
grant execute on function read_held(bigint[]) to pixconnect_service;
