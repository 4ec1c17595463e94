-- What belongs together agrees when a statement is over, whichever of its rows the statement wrote: a transfer and its refunds,
-- what is under way and its order, a payment and its charge, both directions of one name. How something ended is written once.
--
-- A look at another row is a select of one value, which has one plan, by an index: `exists` might be planned as a list of all rows
-- that there are. In offending_row nothing is looked for unless a rule is broken.

-- Their place is taken by the indexes of the step before, which do not name the holder.
alter table transfer drop constraint transfer_end_to_end_id_is_used_once;
alter table refund drop constraint refund_return_id_is_used_once;

create or replace function check_transfers() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    misfit record;
begin
    if tg_op = 'INSERT' then
        select way.* into misfit from (
            select max(id) as id, max(holder_id) as holder_id, direction, is_book, 'NEW'::text as before, status as after,
                entries_count, bool_and(has_legs and agrees) as agrees
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
                    ), false) as has_legs,
                    coalesce(case
                        when direction = 'OUT' and status = 'PROCESSING' and not is_book then (
                            select ordered.resource_id = new_row.id and ordered.holder_id = new_row.holder_id
                                and ordered.slot = new_row.slot and ordered.network_id is not distinct from new_row.network_id
                            from open_order as ordered where ordered.name = new_row.end_to_end_id
                        )
                        when charge_id is not null and settled_at is not null then (
                            select charge.amount_cents = new_row.amount_cents
                                and charge.status = case new_row.status when 'RETURNED' then 'RETURNED' else 'APPROVED' end
                            from charge where charge.id = new_row.charge_id and charge.holder_id = new_row.holder_id
                        )
                        else true
                    end, false)
                    and (returned_cents + returning_cents = 0 or (
                        select coalesce(sum(given.amount_cents) filter (where given.status = 'RETURNED'), 0) = returned_cents
                            and coalesce(sum(given.amount_cents)
                                filter (where given.status = 'PROCESSING' and given.flow = 'OUT'), 0) = returning_cents
                        from refund as given where given.transfer_id = new_row.id and given.holder_id = new_row.holder_id
                    ))
                    -- A name that goes out and comes in is one payment between two of ours, and of one amount.
                    and namesake = 0 and (is_book or (
                        select count(*) from transfer as other
                        where other.end_to_end_id = new_row.end_to_end_id and other.amount_cents <> new_row.amount_cents
                    ) + (
                        select count(*) from transfer as other
                        where other.network_id = new_row.end_to_end_id
                            and (new_row.direction = 'OUT' or other.amount_cents <> new_row.amount_cents)
                    ) = 0) as agrees
                from new_row
            ) as each
            group by direction, is_book, status, entries_count
        ) as way
        where way.agrees is not true
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
                bool_and(has_legs and agrees) as agrees
            from (
                select id, holder_id, direction, is_book, before, after,
                    case when before <> after then (
                        select count(*) from ledger_entry as entry
                        where entry.transfer_id = moved.id and entry.holder_id = moved.holder_id and entry.refund_id is null
                    ) end as entries_count,
                    before = after or is_book is false or coalesce((
                        select count(*) = 2 and bool_or(leg.direction = 'IN') and bool_or(leg.direction = 'OUT')
                            and bool_and(leg.is_book and leg.amount_cents = moved.amount_cents and leg.status = moved.after)
                        from transfer as leg where leg.end_to_end_id = moved.end_to_end_id
                    ), false) as has_legs,
                    coalesce(case
                        when before = after then true
                        when before = 'PROCESSING' and direction = 'OUT' then (
                            select count(*) from open_order as ordered where ordered.name = moved.end_to_end_id
                        ) = 0
                        when charge_id is not null and after in ('CONFIRMED', 'RETURNED') then (
                            select charge.amount_cents = moved.amount_cents
                                and charge.status = case moved.after when 'RETURNED' then 'RETURNED' else 'APPROVED' end
                            from charge where charge.id = moved.charge_id and charge.holder_id = moved.holder_id
                        )
                        else true
                    end, false)
                    and (returned_cents = returned_before and returning_cents = returning_before or (
                        select coalesce(sum(given.amount_cents) filter (where given.status = 'RETURNED'), 0) = returned_cents
                            and coalesce(sum(given.amount_cents)
                                filter (where given.status = 'PROCESSING' and given.flow = 'OUT'), 0) = returning_cents
                        from refund as given where given.transfer_id = moved.id and given.holder_id = moved.holder_id
                    ))
                    or (
                        select count(*) from offending_row as listed
                        where listed.table_name = 'transfer' and listed.id = moved.id and listed.holder_id = moved.holder_id
                    ) > 0 as agrees
                from ( -- grouped, not joined: a plan that was made for one row must serve a whole group
                    select id, holder_id, max(before) as before, max(after) as after, max(direction) as direction,
                        bool_or(is_book) as is_book, max(amount_cents) as amount_cents, max(end_to_end_id) as end_to_end_id,
                        max(charge_id) as charge_id, max(returned_before) as returned_before,
                        max(returning_before) as returning_before, max(returned_cents) as returned_cents,
                        max(returning_cents) as returning_cents
                    from (
                        select id, holder_id, status as before, null as after, null as direction, null::boolean as is_book,
                            null::bigint as amount_cents, null as end_to_end_id, null::bigint as charge_id,
                            returned_cents as returned_before, returning_cents as returning_before,
                            null::bigint as returned_cents, null::bigint as returning_cents
                        from old_row
                        union all
                        select id, holder_id, null, status, direction, is_book, amount_cents, end_to_end_id, charge_id,
                            null, null, returned_cents, returning_cents
                        from new_row
                    ) as side
                    group by id, holder_id
                    having max(before) is distinct from max(after) or max(returned_before) <> max(returned_cents)
                        or max(returning_before) <> max(returning_cents)
                ) as moved
            ) as each
            group by direction, is_book, before, after, entries_count
        ) as way
        where way.agrees is not true
            or way.before is distinct from way.after and (
                not exists (
                    select from allowed_transition as allowed
                    where allowed.kind = 'transfer' and allowed.direction = way.direction and allowed.is_book = way.is_book
                        and allowed.before = way.before and allowed.after = way.after
                )
                or way.entries_count <> (
                    select count(*) from allowed_posting as allowed
                    where allowed.kind = 'transfer' and allowed.direction = way.direction and allowed.is_book = way.is_book
                        and allowed.status = way.after
                )
            )
        limit 1;
    end if;
    if found then
        raise exception 'transfer % of holder % cannot go from % to % with the entries, refunds, order and charge that it has',
            misfit.id, misfit.holder_id, misfit.before, misfit.after
            using errcode = 'integrity_constraint_violation', constraint = 'a_transfer_has_what_belongs_to_it';
    end if;
    return null;
end $$;

create or replace function check_refunds() returns trigger
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
        or coalesce(original.network_id, original.end_to_end_id) <> refund.original_end_to_end_id
        or original.amount_cents < refund.amount_cents
    ) or refund.is_book and not (
        select count(*) = 2 and bool_or(leg.flow = 'IN') and bool_or(leg.flow = 'OUT')
            and bool_and(leg.is_book and leg.amount_cents = refund.amount_cents and leg.status = refund.status)
        from refund as leg where leg.return_id = refund.return_id
    ) or (
        refund.flow = 'OUT' and not refund.is_book and case refund.status
            when 'PROCESSING' then (
                select ordered.resource_id = refund.id and ordered.holder_id = refund.holder_id and ordered.slot = refund.slot
                    and ordered.network_id is not distinct from refund.network_id
                from open_order as ordered where ordered.name = refund.return_id
            ) is not true
            else moved.before = 'PROCESSING'
                and (select count(*) from open_order as ordered where ordered.name = refund.return_id) > 0
        end
        -- One that was refused at once was never counted.
        or (refund.status <> 'ERROR' or moved.before <> 'NEW') and (
            select coalesce(sum(given.amount_cents) filter (where given.status = 'RETURNED'), 0) <> original.returned_cents
                or coalesce(sum(given.amount_cents) filter (where given.status = 'PROCESSING' and given.flow = 'OUT'), 0)
                    <> original.returning_cents
            from refund as given where given.transfer_id = refund.transfer_id and given.holder_id = refund.holder_id
        )
        or moved.before = 'NEW' and (
            refund.namesake <> 0
            or not refund.is_book and (
                select count(*) from refund as other
                where other.return_id = refund.return_id and other.amount_cents <> refund.amount_cents
            ) + (
                select count(*) from refund as other
                where other.network_id = refund.return_id
                    and (refund.flow = 'OUT' or other.amount_cents <> refund.amount_cents)
            ) > 0
        )
    ) and (
        select count(*) from offending_row as listed
        where listed.holder_id = refund.holder_id and (
            listed.table_name = 'refund' and listed.id = refund.id
            or listed.table_name = 'transfer' and listed.id = refund.transfer_id
        )
    ) = 0
    limit 1;
    if found then
        raise exception 'refund % of holder % cannot go from % to % with the entries, original and order that it has',
            misfit.id, misfit.holder_id, misfit.before, misfit.status
            using errcode = 'integrity_constraint_violation', constraint = 'a_refund_has_what_belongs_to_it';
    end if;
    return null;
end $$;

-- As before, and what is RETURNED has a payment that is so too.
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
                select id, holder_id, status as before, null as after, null::bigint as amount_cents from old_row
                union all
                select id, holder_id, null, status, amount_cents from new_row
            ) as side
            group by id, holder_id having max(before) is distinct from max(after)
        ) as moved
        where not exists (
            select from allowed_transition as allowed
            where allowed.kind = 'charge' and allowed.direction = 'IN' and not allowed.is_book
                and allowed.before = moved.before and allowed.after = moved.after
        ) or moved.after in ('APPROVED', 'RETURNED') and not exists (
            select from transfer where transfer.charge_id = moved.id and transfer.holder_id = moved.holder_id
                and transfer.settled_at is not null and transfer.amount_cents = moved.amount_cents
                and (transfer.status = 'RETURNED') = (moved.after = 'RETURNED')
        )
        limit 1;
    end if;
    if found then
        raise exception 'charge % of holder % cannot go from % to %', misfit.id, misfit.holder_id, misfit.before, misfit.after
            using errcode = 'integrity_constraint_violation', constraint = 'a_charge_has_its_payment';
    end if;
    return null;
end $$;

-- An order is of something that is under way.
create function check_new_orders() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    misfit text;
begin
    select ordered.name into misfit from new_row as ordered
    left join transfer on transfer.id = case when left(ordered.name, 1) = 'E' then ordered.resource_id end
        and transfer.holder_id = ordered.holder_id
    left join refund on refund.id = case when left(ordered.name, 1) = 'D' then ordered.resource_id end
        and refund.holder_id = ordered.holder_id
    where coalesce(transfer.status, refund.status) is distinct from 'PROCESSING'
        or coalesce(transfer.direction, refund.flow) <> 'OUT' or coalesce(transfer.is_book, refund.is_book)
        or coalesce(transfer.end_to_end_id, refund.return_id) <> ordered.name
        or coalesce(transfer.slot, refund.slot) <> ordered.slot
        or coalesce(transfer.network_id, refund.network_id) is distinct from ordered.network_id
    limit 1;
    if found then
        raise exception 'the order % is of nothing that is under way', misfit
            using errcode = 'integrity_constraint_violation', constraint = 'an_order_is_of_what_is_under_way';
    end if;
    return null;
end $$;
create trigger check_new after insert on open_order
    referencing new table as new_row for each statement execute function check_new_orders();

-- As before, and one that was listed because nothing was ever ordered by it can be cleared away.
create or replace function check_ended_orders() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    misfit text;
begin
    select ended_order.name into misfit from ended_order
    left join transfer on transfer.id = case when left(name, 1) = 'E' then resource_id end
        and transfer.holder_id = ended_order.holder_id
    left join refund on refund.id = case when left(name, 1) = 'D' then resource_id end
        and refund.holder_id = ended_order.holder_id
    where (
        coalesce(transfer.status, refund.status, 'PROCESSING') = 'PROCESSING'
        or coalesce(transfer.handed_at, refund.handed_at) is distinct from ended_order.handed_at
    ) and (
        select count(*) from offending_row as listed
        where listed.table_name = 'open_order' and listed.id = resource_id and listed.holder_id = ended_order.holder_id
    ) = 0
    limit 1;
    if found then
        raise exception 'the order % ends otherwise than what was ordered', misfit
            using errcode = 'integrity_constraint_violation', constraint = 'order_ends_with_what_was_ordered';
    end if;
    return null;
end $$;

-- What somebody has asked the rail about was handed over: that is never taken back, nor the instant exchanged.
create function refuse_to_forget() returns trigger language plpgsql as $$
begin
    raise exception 'the order % was handed over at %, and the rail was asked % times', old.name, old.handed_at, old.asked_count
        using errcode = 'integrity_constraint_violation', constraint = 'what_was_asked_about_stays_handed_over';
end $$;
create trigger keep_handed after update of handed_at, asked_count on open_order
    for each row when (old.asked_count > new.asked_count or old.handed_at <> new.handed_at) execute function refuse_to_forget();

create function check_order_name() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if new.network_id is distinct from (
        case left(new.name, 1)
            when 'E' then (select network_id from transfer where id = new.resource_id and holder_id = new.holder_id)
            else (select network_id from refund where id = new.resource_id and holder_id = new.holder_id)
        end
    ) then
        raise exception 'the order % cannot be called % on the network', new.name, new.network_id
            using errcode = 'integrity_constraint_violation', constraint = 'an_order_is_called_as_what_was_ordered';
    end if;
    return null;
end $$;
create trigger check_name after update of network_id on open_order
    for each row when (old.network_id is distinct from new.network_id) execute function check_order_name();

-- As before, but that a name which goes out may come in again for the same amount: one payment, between two of ours. It looks when
-- the statement is over, which costs less: before each update of any column the row would be locked for it.
create or replace function take_network_id() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    own_name text;
begin
    if old.network_id is not null
        or exists (
            select from transfer where end_to_end_id = new.network_id
                and (direction = 'OUT' or amount_cents <> new.amount_cents)
        )
        or exists (
            select from refund where return_id = new.network_id and (flow = 'OUT' or amount_cents <> new.amount_cents)
        )
    then
        raise exception '% cannot be called % on the network', new.id, new.network_id
            using errcode = 'integrity_constraint_violation', constraint = 'network_id_is_told_once';
    end if;
    if tg_table_name = 'transfer' then
        own_name := new.end_to_end_id;
        update refund set original_end_to_end_id = new.network_id
        where refund.transfer_id = new.id and refund.holder_id = new.holder_id;
    else
        own_name := new.return_id;
    end if;
    if (select count(*) from open_order where name = own_name and network_id is distinct from new.network_id) > 0 then
        raise exception 'the order % is not called % on the network', own_name, new.network_id
            using errcode = 'integrity_constraint_violation', constraint = 'an_order_is_called_as_what_was_ordered';
    end if;
    return null;
end $$;
drop trigger take_network_id on transfer;
create trigger take_network_id after update of network_id on transfer
    for each row when (new.network_id is distinct from old.network_id) execute function take_network_id();
drop trigger take_network_id on refund;
create trigger take_network_id after update of network_id on refund
    for each row when (new.network_id is distinct from old.network_id) execute function take_network_id();

-- How something ended is written with its end, and stays.
create function refuse_other_end() returns trigger language plpgsql as $$
begin
    raise exception '% % of holder % is % and keeps when and how it ended', tg_table_name, old.id, old.holder_id, old.status
        using errcode = 'integrity_constraint_violation', constraint = 'an_end_is_written_once';
end $$;
create trigger keep_end after update of handed_at, settled_at, outcome_code, outcome_reason on transfer for each row when (
    (old.status <> 'PROCESSING' or new.status = 'PROCESSING')
    and (old.handed_at, old.settled_at, old.outcome_code, old.outcome_reason)
        is distinct from (new.handed_at, new.settled_at, new.outcome_code, new.outcome_reason)
) execute function refuse_other_end();
create trigger keep_end after update of handed_at, settled_at, outcome_code, outcome_reason on refund for each row when (
    (old.status <> 'PROCESSING' or new.status = 'PROCESSING')
    and (old.handed_at, old.settled_at, old.outcome_code, old.outcome_reason)
        is distinct from (new.handed_at, new.settled_at, new.outcome_code, new.outcome_reason)
) execute function refuse_other_end();

-- What a charge said before is kept once, and each revision has what was before it.
create function check_revisions() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if tg_table_name = 'charge_revision' then
        if new.revision < (select revision from charge where id = new.charge_id and holder_id = new.holder_id) is true then
            return null;
        end if;
    elsif new.revision > coalesce(old.revision, 0) and new.revision = (
        select count(*) from charge_revision as kept
        where kept.charge_id = new.id and kept.holder_id = new.holder_id and kept.revision < new.revision
    ) then
        return null;
    end if;
    raise exception 'the revision % is not the next one of its charge', new.revision
        using errcode = 'integrity_constraint_violation', constraint = 'revisions_follow_each_other';
end $$;
create trigger check_new after insert on charge_revision for each row execute function check_revisions();
create trigger check_revision after update of revision on charge
    for each row when (old.revision is distinct from new.revision) execute function check_revisions();
