-- The judgements of 0010 and 0011 at less than half of their price; what they refuse is the same.
--
-- What is allowed was looked up for each row. A group of many has few ways in which things go from one state to another, so
-- rows are put together by their way, and each way is looked up once. A refusal names one of them: the ids that it says are
-- the highest of its way.

create or replace function post_ledger_entries() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    holders_count bigint;
    misfit record;
begin
    if tg_table_name <> 'ledger_entry' or tg_table_schema <> current_schema() or tg_level <> 'STATEMENT' then
        raise exception 'entries are posted for the ledger alone' using errcode = 'insufficient_privilege';
    end if;

    update balance set
        available_cents = balance.available_cents + posting.available_cents,
        reserved_cents = balance.reserved_cents + posting.reserved_cents,
        settlement_cents = balance.settlement_cents + posting.settlement_cents,
        funding_cents = balance.funding_cents + posting.funding_cents,
        last_number = balance.last_number + posting.numbered_count,
        last_entry_at = coalesce(posting.last_entry_at, balance.last_entry_at),
        modified_at = greatest(balance.modified_at, posting.modified_at)
    from (
        select holder_id,
            sum(amount_cents * ((credit_account = 'available')::int - (debit_account = 'available')::int)) as available_cents,
            sum(amount_cents * ((credit_account = 'reserved')::int - (debit_account = 'reserved')::int)) as reserved_cents,
            sum(amount_cents * ((credit_account = 'settlement')::int - (debit_account = 'settlement')::int)) as settlement_cents,
            sum(amount_cents * ((credit_account = 'funding')::int - (debit_account = 'funding')::int)) as funding_cents,
            count(number) as numbered_count,
            min(created_at) filter (where number is not null) as first_entry_at,
            max(created_at) filter (where number is not null) as last_entry_at,
            max(created_at) as modified_at
        from new_entry group by holder_id
    ) as posting
    where balance.holder_id = posting.holder_id
        and (posting.first_entry_at is null or posting.first_entry_at > balance.last_entry_at);
    get diagnostics holders_count = row_count;
    if holders_count <> (select count(distinct holder_id) from new_entry) then
        raise exception 'a ledger entry has no balance to follow, or is dated before the one that it follows'
            using errcode = 'integrity_constraint_violation', constraint = 'entries_follow_each_other';
    end if;

    select entry.holder_id, entry.number into misfit from (
        select numbered.*,
            lag(number, 1, number - 1) over following as number_before,
            lag(running_balance_cents) over following as balance_before,
            lag(created_at) over following as created_before,
            lead(number) over following is null as is_last
        from (
            select holder_id, number, running_balance_cents, created_at,
                case when credit_account in ('available', 'reserved') then amount_cents else -amount_cents end as change_cents
            from new_entry where number is not null
        ) as numbered
        window following as (partition by holder_id order by number)
    ) as entry
    left join balance on balance.holder_id = case when entry.is_last then entry.holder_id end
    where entry.number <> entry.number_before + 1
        or entry.running_balance_cents <> entry.balance_before + entry.change_cents
        or entry.created_at <= entry.created_before
        or entry.is_last and (
            entry.number <> balance.last_number
            or entry.running_balance_cents <> balance.available_cents + balance.reserved_cents
        )
    limit 1;
    if found then
        raise exception 'ledger entry % of holder % does not follow from the one before', misfit.number, misfit.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'entries_follow_each_other';
    end if;

    -- What a null is compared with is not looked for: an entry has one cause, and costs one look. What is allowed is looked up
    -- once for each way of moving money in this statement, not for each entry.
    select moved.id, moved.holder_id into misfit from (
        select max(entry.id) as id, max(entry.holder_id) as holder_id, debit_account, credit_account,
            case when refund.id is not null then 'refund' when transfer.id is not null then 'transfer'
                when deposit.id is not null then 'deposit' end as kind,
            coalesce(refund.flow, transfer.direction, 'IN') as direction,
            coalesce(refund.is_book, transfer.is_book, false) as is_book,
            coalesce(refund.status, transfer.status, 'MADE') as status,
            bool_and(entry.amount_cents is not distinct from
                coalesce(refund.amount_cents, transfer.amount_cents, deposit.amount_cents)) as has_amount
        from new_entry as entry
        left join refund on refund.id = entry.refund_id and refund.holder_id = entry.holder_id
            and refund.transfer_id = entry.transfer_id
        left join transfer on transfer.id = case when entry.refund_id is null then entry.transfer_id end
            and transfer.holder_id = entry.holder_id
        left join deposit on deposit.id = case when entry.refund_id is null and entry.transfer_id is null then entry.id end
            and deposit.holder_id = entry.holder_id
        group by 3, 4, 5, 6, 7, 8
    ) as moved
    where not moved.has_amount or not exists (
        select from allowed_posting as allowed
        where allowed.kind = moved.kind and allowed.direction = moved.direction and allowed.is_book = moved.is_book
            and allowed.status = moved.status and allowed.debit_account = moved.debit_account
            and allowed.credit_account = moved.credit_account
    )
    limit 1;
    if found then
        raise exception 'ledger entry % of holder % has no cause', misfit.id, misfit.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'every_entry_has_a_cause';
    end if;
    return null;
end $$;

create or replace function check_transfers() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    misfit record;
begin
    if tg_op = 'INSERT' then
        select way.* into misfit from (
            select max(id) as id, max(holder_id) as holder_id, direction, is_book, 'NEW'::text as before, status as after,
                entries_count, bool_and(has_legs) as has_legs
            from (
                select id, holder_id, direction, is_book, status,
                    (
                        select count(*) from ledger_entry as entry
                        where entry.transfer_id = new_row.id and entry.holder_id = new_row.holder_id and entry.refund_id is null
                    ) as entries_count,
                    not is_book or coalesce((
                        select count(*) = 2 and bool_or(leg.direction = 'IN') and bool_or(leg.direction = 'OUT')
                            and bool_and(leg.is_book and leg.amount_cents = new_row.amount_cents and leg.status = new_row.status)
                        from transfer as leg where leg.end_to_end_id = new_row.end_to_end_id
                    ), false) as has_legs
                from new_row
            ) as each
            group by direction, is_book, status, entries_count
        ) as way
        where way.has_legs is not true
            or not exists (
                select from allowed_transition as allowed
                where allowed.kind = 'transfer' and allowed.direction = way.direction and allowed.is_book = way.is_book
                    and allowed.before = way.before and allowed.after = way.after
            )
            or way.entries_count <> (
                select count(*) from allowed_posting as allowed
                where allowed.kind = 'transfer' and allowed.direction = way.direction and allowed.is_book = way.is_book
                    and allowed.status = way.after
            )
        limit 1;
    else
        select way.* into misfit from (
            select max(id) as id, max(holder_id) as holder_id, direction, is_book, before, after, entries_count,
                bool_and(has_legs) as has_legs
            from (
                select id, holder_id, direction, is_book, before, after,
                    (
                        select count(*) from ledger_entry as entry
                        where entry.transfer_id = moved.id and entry.holder_id = moved.holder_id and entry.refund_id is null
                    ) as entries_count,
                    is_book is false or coalesce((
                        select count(*) = 2 and bool_or(leg.direction = 'IN') and bool_or(leg.direction = 'OUT')
                            and bool_and(leg.is_book and leg.amount_cents = moved.amount_cents and leg.status = moved.after)
                        from transfer as leg where leg.end_to_end_id = moved.end_to_end_id
                    ), false) as has_legs
                from ( -- grouped, not joined: a plan that was made for one row must serve a whole group
                    select id, holder_id, max(before) as before, max(after) as after, max(direction) as direction,
                        bool_or(is_book) as is_book, max(amount_cents) as amount_cents, max(end_to_end_id) as end_to_end_id
                    from (
                        select id, holder_id, status as before, null as after, null as direction, null::boolean as is_book,
                            null::bigint as amount_cents, null as end_to_end_id
                        from old_row
                        union all
                        select id, holder_id, null, status, direction, is_book, amount_cents, end_to_end_id from new_row
                    ) as side
                    group by id, holder_id having max(before) is distinct from max(after)
                ) as moved
            ) as each
            group by direction, is_book, before, after, entries_count
        ) as way
        where way.has_legs is not true
            or not exists (
                select from allowed_transition as allowed
                where allowed.kind = 'transfer' and allowed.direction = way.direction and allowed.is_book = way.is_book
                    and allowed.before = way.before and allowed.after = way.after
            )
            or way.entries_count <> (
                select count(*) from allowed_posting as allowed
                where allowed.kind = 'transfer' and allowed.direction = way.direction and allowed.is_book = way.is_book
                    and allowed.status = way.after
            )
        limit 1;
    end if;
    if found then
        raise exception 'transfer % of holder % cannot go from % to % with the entries that it has', misfit.id, misfit.holder_id,
            misfit.before, misfit.after
            using errcode = 'integrity_constraint_violation', constraint = 'a_transfer_has_its_entries';
    end if;
    return null;
end $$;

create or replace function check_charges() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    misfit record;
begin
    if tg_op = 'INSERT' then
        select way.* into misfit from (
            select max(id) as id, max(holder_id) as holder_id, 'NEW' as before, status as after from new_row group by status
        ) as way
        where not exists (
            select from allowed_transition as allowed
            where allowed.kind = 'charge' and allowed.direction = 'IN' and not allowed.is_book
                and allowed.before = 'NEW' and allowed.after = way.after
        )
        limit 1;
    else
        select moved.* into misfit from (
            select id, holder_id, max(before) as before, max(after) as after, max(amount_cents) as amount_cents from (
                select id, holder_id, status as before, null as after, amount_cents from old_row
                union all
                select id, holder_id, null, status, amount_cents from new_row
            ) as side
            group by id, holder_id having max(before) is distinct from max(after)
        ) as moved
        where not exists (
            select from allowed_transition as allowed
            where allowed.kind = 'charge' and allowed.direction = 'IN' and not allowed.is_book
                and allowed.before = moved.before and allowed.after = moved.after
        ) or moved.after = 'APPROVED' and not exists (
            select from transfer where transfer.charge_id = moved.id and transfer.holder_id = moved.holder_id
                and transfer.settled_at is not null and transfer.amount_cents = moved.amount_cents
        )
        limit 1;
    end if;
    if found then
        raise exception 'charge % of holder % cannot go from % to %', misfit.id, misfit.holder_id, misfit.before, misfit.after
            using errcode = 'integrity_constraint_violation', constraint = 'a_charge_has_its_payment';
    end if;
    return null;
end $$;

-- As read_facts, which it takes the place of, for all holders of a group in one call, and the balances with them: in a volatile
-- function a query has a snapshot of its own, so that it reads what holds after the wait for the locks. Without the setting a
-- plan for few holders looks so cheap that it would be made anew in each call, which takes longer than the call.
create function read_held(wanted bigint[])
returns table (
    holder_id bigint, available_cents bigint, reserved_cents bigint, last_number bigint, last_entry_at timestamptz,
    modified_at timestamptz, may_deposit boolean, may_withdraw boolean, may_lend boolean, transfer_limit_cents bigint,
    day_limit_cents bigint, night_limit_cents bigint, offset_us bigint, revision bigint
)
language plpgsql volatile set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
    return query
        select balance.holder_id, balance.available_cents, balance.reserved_cents, balance.last_number, balance.last_entry_at,
            balance.modified_at, holder.may_deposit, holder.may_withdraw, holder.may_lend, holder.transfer_limit_cents,
            holder.day_limit_cents, holder.night_limit_cents, clock.offset_us, clock.revision
        from unnest(wanted) as held (id)
        join balance on balance.holder_id = held.id
        join holder on holder.id = held.id
        cross join clock;
end $$;
grant execute on function read_held(bigint[]) to pixconnect_service;
drop function read_facts(bigint);
