-- What the network calls an outgoing transfer or refund, where that is not the id that we made. Some rails tell it only later: it
-- is written once, by an update of its own, so that nothing else pays for it.

alter table transfer add column network_id text collate "C";
alter table transfer add constraint network_id_is_of_an_order check (
    network_id is null
    or length(network_id) = 32 and network_id like 'E%' and network_id <> end_to_end_id and direction = 'OUT' and not is_book
) not valid;
grant update (network_id) on transfer to pixconnect_service;

alter table refund add column network_id text collate "C";
alter table refund add constraint network_id_is_of_an_order check (
    network_id is null
    or length(network_id) = 32 and network_id like 'D%' and network_id <> return_id and flow = 'OUT' and not is_book
) not valid;
grant update (network_id) on refund to pixconnect_service;

alter table open_order add column network_id text collate "C";
grant update (network_id) on open_order to pixconnect_service;

-- An id that was told is never exchanged, and is not the one that another transfer or refund was made with. The refunds of a
-- transfer show its id, and follow when the network's is told.
create function take_network_id() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if old.network_id is not null
        or exists (select from transfer where end_to_end_id = new.network_id)
        or exists (select from refund where return_id = new.network_id)
    then
        raise exception '% cannot be called % on the network', new.id, new.network_id
            using errcode = 'integrity_constraint_violation', constraint = 'network_id_is_told_once';
    end if;
    if tg_table_name = 'transfer' then
        update refund set original_end_to_end_id = new.network_id
        where refund.transfer_id = new.id and refund.holder_id = new.holder_id;
    end if;
    return new;
end $$;
create trigger take_network_id before update of network_id on transfer
    for each row when (new.network_id is distinct from old.network_id) execute function take_network_id();
create trigger take_network_id before update of network_id on refund
    for each row when (new.network_id is distinct from old.network_id) execute function take_network_id();

alter table kept_report drop constraint kept_report_kind_check;
alter table kept_report add constraint kept_report_kind_check
    check (
        kind in ('credit', 'credit_accepted', 'credit_cancelled', 'return', 'settled', 'rejected', 'never_taken', 'taken')
    ) not valid;

-- As in 0010, except that a refund shows the network's id of its original, where that was told.
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
    )
    limit 1;
    if found then
        raise exception 'refund % of holder % cannot go from % to % with the entries that it has', misfit.id, misfit.holder_id,
            misfit.before, misfit.status
            using errcode = 'integrity_constraint_violation', constraint = 'a_refund_has_its_entries';
    end if;
    return null;
end $$;
