-- Every entry has a cause, and every state of a transfer or refund has its entries.
--
-- What is allowed stands in two small tables. A later state is added to them by an insert; the functions below stay as they are.
-- They run as the owner with a search_path of their own, so that whoever has the service's password can neither call them nor
-- put other tables in the place of ours.

-- Money that comes from nowhere: play money. Only pixconnect_funding may add a row, and only the preparation of a sandbox lets it
-- do so and lets the service's login take it. In live mode nobody can.
do $$
begin
    create role pixconnect_funding nologin;
exception when duplicate_object or unique_violation then
    null; -- roles belong to the whole server: another database of it has made this one
end $$;
grant usage on schema {schema} to pixconnect_funding;
create table deposit (
    id bigint not null check (id between 1 and 9007199254740991), -- of its entry too
    holder_id bigint not null references balance,
    amount_cents bigint not null check (amount_cents between 1 and 999999999999),
    created_at timestamptz not null,
    primary key (id, holder_id)
);
grant select on deposit to pixconnect_service;
create trigger deposit_is_append_only before update or delete or truncate on deposit
    for each statement execute function refuse_change();

-- The postings that a deposit, transfer or refund in a status has: these, once each, and no others.
create table allowed_posting (
    kind text not null,
    direction text not null,
    is_book boolean not null,
    status text not null,
    debit_account ledger_account not null,
    credit_account ledger_account not null,
    primary key (kind, direction, is_book, status, debit_account, credit_account)
);
insert into allowed_posting (kind, direction, is_book, status, debit_account, credit_account) values
    ('deposit', 'IN', false, 'MADE', 'funding', 'available'),
    ('transfer', 'OUT', false, 'PROCESSING', 'available', 'reserved'),
    ('transfer', 'OUT', false, 'CONFIRMED', 'available', 'reserved'),
    ('transfer', 'OUT', false, 'CONFIRMED', 'reserved', 'settlement'),
    ('transfer', 'OUT', false, 'RETURNED', 'available', 'reserved'),
    ('transfer', 'OUT', false, 'RETURNED', 'reserved', 'settlement'),
    ('transfer', 'OUT', false, 'ERROR', 'available', 'reserved'),
    ('transfer', 'OUT', false, 'ERROR', 'reserved', 'available'),
    ('transfer', 'OUT', false, 'CANCELLED', 'available', 'reserved'),
    ('transfer', 'OUT', false, 'CANCELLED', 'reserved', 'available'),
    ('transfer', 'OUT', true, 'CONFIRMED', 'available', 'settlement'),
    ('transfer', 'OUT', true, 'RETURNED', 'available', 'settlement'),
    ('transfer', 'IN', false, 'CONFIRMED', 'settlement', 'available'),
    ('transfer', 'IN', false, 'RETURNED', 'settlement', 'available'),
    ('transfer', 'IN', true, 'CONFIRMED', 'settlement', 'available'),
    ('transfer', 'IN', true, 'RETURNED', 'settlement', 'available'),
    ('refund', 'OUT', false, 'PROCESSING', 'available', 'reserved'),
    ('refund', 'OUT', false, 'RETURNED', 'available', 'reserved'),
    ('refund', 'OUT', false, 'RETURNED', 'reserved', 'settlement'),
    ('refund', 'OUT', false, 'ERROR', 'available', 'reserved'),
    ('refund', 'OUT', false, 'ERROR', 'reserved', 'available'),
    ('refund', 'OUT', true, 'RETURNED', 'available', 'settlement'),
    ('refund', 'IN', false, 'RETURNED', 'settlement', 'available'),
    ('refund', 'IN', true, 'RETURNED', 'settlement', 'available');

-- From which status to which; what is new comes from 'NEW'. A state that is not here cannot be reached.
create table allowed_transition (
    kind text not null,
    direction text not null,
    is_book boolean not null,
    before text not null,
    after text not null,
    primary key (kind, direction, is_book, before, after)
);
insert into allowed_transition (kind, direction, is_book, before, after) values
    ('charge', 'IN', false, 'NEW', 'PENDING'),
    ('charge', 'IN', false, 'PENDING', 'APPROVED'),
    ('charge', 'IN', false, 'PENDING', 'EXPIRED'),
    ('charge', 'IN', false, 'APPROVED', 'RETURNED'),
    ('transfer', 'OUT', false, 'NEW', 'PROCESSING'),
    ('transfer', 'OUT', false, 'PROCESSING', 'CONFIRMED'),
    ('transfer', 'OUT', false, 'PROCESSING', 'ERROR'),
    ('transfer', 'OUT', false, 'PROCESSING', 'CANCELLED'),
    ('transfer', 'OUT', false, 'CONFIRMED', 'RETURNED'),
    ('transfer', 'OUT', true, 'NEW', 'CONFIRMED'),
    ('transfer', 'OUT', true, 'NEW', 'ERROR'),
    ('transfer', 'OUT', true, 'CONFIRMED', 'RETURNED'),
    ('transfer', 'IN', false, 'NEW', 'CONFIRMED'),
    ('transfer', 'IN', false, 'NEW', 'ERROR'),
    ('transfer', 'IN', false, 'CONFIRMED', 'RETURNED'),
    ('transfer', 'IN', true, 'NEW', 'CONFIRMED'),
    ('transfer', 'IN', true, 'NEW', 'ERROR'),
    ('transfer', 'IN', true, 'CONFIRMED', 'RETURNED'),
    ('refund', 'OUT', false, 'NEW', 'PROCESSING'),
    ('refund', 'OUT', false, 'PROCESSING', 'RETURNED'),
    ('refund', 'OUT', false, 'PROCESSING', 'ERROR'),
    ('refund', 'OUT', true, 'NEW', 'RETURNED'),
    ('refund', 'OUT', true, 'NEW', 'ERROR'),
    ('refund', 'IN', false, 'NEW', 'RETURNED'),
    ('refund', 'IN', false, 'NEW', 'ERROR'),
    ('refund', 'IN', true, 'NEW', 'RETURNED'),
    ('refund', 'IN', true, 'NEW', 'ERROR');
grant select on allowed_posting, allowed_transition to pixconnect_service;

-- As in 0001, and it judges the cause of each entry. It runs for the ledger alone: by its trigger, at no other table.
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
    join balance on balance.holder_id = entry.holder_id
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

    -- What a null is compared with is not looked for: an entry has one cause, and costs one look.
    select entry.id, entry.holder_id into misfit from new_entry as entry
    left join refund on refund.id = entry.refund_id and refund.holder_id = entry.holder_id
        and refund.transfer_id = entry.transfer_id
    left join transfer on transfer.id = case when entry.refund_id is null then entry.transfer_id end
        and transfer.holder_id = entry.holder_id
    left join deposit on deposit.id = case when entry.refund_id is null and entry.transfer_id is null then entry.id end
        and deposit.holder_id = entry.holder_id
    left join allowed_posting as allowed
        on allowed.kind = case when refund.id is not null then 'refund' when transfer.id is not null then 'transfer'
            when deposit.id is not null then 'deposit' end
        and allowed.direction = coalesce(refund.flow, transfer.direction, 'IN')
        and allowed.is_book = coalesce(refund.is_book, transfer.is_book, false)
        and allowed.status = coalesce(refund.status, transfer.status, 'MADE')
        and allowed.debit_account = entry.debit_account and allowed.credit_account = entry.credit_account
    where allowed.kind is null
        or entry.amount_cents is distinct from coalesce(refund.amount_cents, transfer.amount_cents, deposit.amount_cents)
    limit 1;
    if found then
        raise exception 'ledger entry % of holder % has no cause', misfit.id, misfit.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'every_entry_has_a_cause';
    end if;
    return null;
end $$;

create function check_transfers() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    ids bigint[];
    holder_ids bigint[];
    befores text[];
    misfit record;
begin
    if tg_op = 'INSERT' then
        select array_agg(id), array_agg(holder_id), array_agg('NEW'::text) into ids, holder_ids, befores from new_row;
    else -- grouped, not joined: a plan that was made for one row must serve a whole group
        select array_agg(id), array_agg(holder_id), array_agg(before) into ids, holder_ids, befores from (
            select id, holder_id, max(before) as before from (
                select id, holder_id, status as before, null as after from old_row
                union all
                select id, holder_id, null, status from new_row
            ) as side
            group by id, holder_id having max(before) is distinct from max(after)
        ) as moved;
    end if;
    if ids is null then
        return null;
    end if;

    select transfer.id, transfer.holder_id, transfer.status, before into misfit
    from unnest(ids, holder_ids, befores) as moved (id, holder_id, before)
    left join transfer on transfer.id = moved.id and transfer.holder_id = moved.holder_id
    where not exists (
        select from allowed_transition as allowed
        where allowed.kind = 'transfer' and allowed.direction = transfer.direction and allowed.is_book = transfer.is_book
            and allowed.before = moved.before and allowed.after = transfer.status
    ) or (
        select count(*) from ledger_entry as entry
        where entry.transfer_id = moved.id and entry.holder_id = moved.holder_id and entry.refund_id is null
    ) <> (
        select count(*) from allowed_posting as allowed
        where allowed.kind = 'transfer' and allowed.direction = transfer.direction and allowed.is_book = transfer.is_book
            and allowed.status = transfer.status
    ) or transfer.is_book and not (
        select count(*) = 2 and bool_or(leg.direction = 'IN') and bool_or(leg.direction = 'OUT')
            and bool_and(leg.is_book and leg.amount_cents = transfer.amount_cents and leg.status = transfer.status)
        from transfer as leg where leg.end_to_end_id = transfer.end_to_end_id
    )
    limit 1;
    if found then
        raise exception 'transfer % of holder % cannot go from % to % with the entries that it has', misfit.id, misfit.holder_id,
            misfit.before, misfit.status
            using errcode = 'integrity_constraint_violation', constraint = 'a_transfer_has_its_entries';
    end if;
    return null;
end $$;
create trigger check_new after insert on transfer
    referencing new table as new_row for each statement execute function check_transfers();
create trigger check_moved after update on transfer
    referencing old table as old_row new table as new_row for each statement execute function check_transfers();

create function check_refunds() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    ids bigint[];
    holder_ids bigint[];
    befores text[];
    misfit record;
begin
    if tg_op = 'INSERT' then
        select array_agg(id), array_agg(holder_id), array_agg('NEW'::text) into ids, holder_ids, befores from new_row;
    else
        select array_agg(id), array_agg(holder_id), array_agg(before) into ids, holder_ids, befores from (
            select id, holder_id, max(before) as before from (
                select id, holder_id, status as before, null as after from old_row
                union all
                select id, holder_id, null, status from new_row
            ) as side
            group by id, holder_id having max(before) is distinct from max(after)
        ) as moved;
    end if;
    if ids is null then
        return null;
    end if;

    select refund.id, refund.holder_id, refund.status, before into misfit
    from unnest(ids, holder_ids, befores) as moved (id, holder_id, before)
    left join refund on refund.id = moved.id and refund.holder_id = moved.holder_id
    left join transfer as original on original.id = refund.transfer_id and original.holder_id = refund.holder_id
    where not exists (
        select from allowed_transition as allowed
        where allowed.kind = 'refund' and allowed.direction = refund.flow and allowed.is_book = refund.is_book
            and allowed.before = moved.before and allowed.after = refund.status
    ) or (
        select count(*) from ledger_entry as entry
        where entry.transfer_id = refund.transfer_id and entry.holder_id = moved.holder_id and entry.refund_id = moved.id
    ) <> (
        select count(*) from allowed_posting as allowed
        where allowed.kind = 'refund' and allowed.direction = refund.flow and allowed.is_book = refund.is_book
            and allowed.status = refund.status
    ) or refund.status <> 'ERROR' and (
        original.settled_at is null or original.direction = refund.flow or original.is_book <> refund.is_book
        or original.end_to_end_id <> refund.original_end_to_end_id or original.amount_cents < refund.amount_cents
    ) or refund.is_book and not (
        select count(*) = 2 and bool_or(leg.flow = 'IN') and bool_or(leg.flow = 'OUT')
            and bool_and(leg.is_book and leg.amount_cents = refund.amount_cents and leg.status = refund.status)
        from refund as leg where leg.return_id = refund.return_id
    )
    limit 1;
    if found then
        raise exception 'refund % of holder % cannot go from % to % with the entries that it has', misfit.id, misfit.holder_id,
            misfit.before, misfit.status
            using errcode = 'integrity_constraint_violation', constraint = 'a_refund_has_its_entries';
    end if;
    return null;
end $$;
create trigger check_new after insert on refund
    referencing new table as new_row for each statement execute function check_refunds();
create trigger check_moved after update on refund
    referencing old table as old_row new table as new_row for each statement execute function check_refunds();

create function check_charges() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    misfit record;
begin
    if tg_op = 'INSERT' then
        select id, holder_id, 'NEW' as before, status as after into misfit from new_row
        where not exists (
            select from allowed_transition as allowed
            where allowed.kind = 'charge' and allowed.direction = 'IN' and not allowed.is_book
                and allowed.before = 'NEW' and allowed.after = new_row.status
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
create trigger check_new after insert on charge
    referencing new table as new_row for each statement execute function check_charges();
create trigger check_moved after update on charge
    referencing old table as old_row new table as new_row for each statement execute function check_charges();
