-- Several schemas of this kind may live side by side in one database: what runs in one finds its tables by the session's
-- search_path, and none by a name that is written down.

create or replace function check_ended_orders() returns trigger language plpgsql as $$
declare
    misfit text;
begin
    select ended_order.name into misfit from ended_order
    left join transfer on left(name, 1) = 'E' and transfer.id = resource_id and transfer.holder_id = ended_order.holder_id
    left join refund on left(name, 1) = 'D' and refund.id = resource_id and refund.holder_id = ended_order.holder_id
    where coalesce(transfer.status, refund.status, 'PROCESSING') = 'PROCESSING'
        or coalesce(transfer.handed_at, refund.handed_at) is distinct from ended_order.handed_at
    limit 1;
    if found then
        raise exception 'the order % ends otherwise than what was ordered', misfit
            using errcode = 'integrity_constraint_violation', constraint = 'order_ends_with_what_was_ordered';
    end if;
    return null;
end $$;

create or replace function tally_events() returns trigger language plpgsql as $$
begin
    insert into webhook_tally_change (kind, owner_id, status, hour, change)
    select 'event', holder_id, 'made', date_trunc('hour', created_at, 'UTC') as hour, count(*) from new_row group by holder_id, 4;
    return null;
end $$;

create or replace function tally_new_deliveries() returns trigger language plpgsql as $$
begin
    if not exists (select from new_row) then -- nobody wants to be told: much the most frequent case of some installations
        return null;
    end if;
    insert into webhook_tally_change (kind, owner_id, status, hour, change)
    select 'delivery', endpoint_id, 'made', date_trunc('hour', created_at, 'UTC'), count(*) from new_row group by endpoint_id, 4
    union all
    select 'delivery', endpoint_id, status, date_trunc('hour', created_at, 'UTC'), count(*) from new_row
    where status <> 'pending' group by endpoint_id, status, 4;
    return null;
end $$;

create or replace function tally_changed_deliveries() returns trigger language plpgsql as $$
begin
    insert into webhook_tally_change (kind, owner_id, status, hour, change)
    select 'delivery', endpoint_id, status, hour, sum(change) from (
        select endpoint_id, status, date_trunc('hour', created_at, 'UTC') as hour, 1 as change from new_row
        where status <> 'pending'
        union all
        select endpoint_id, status, date_trunc('hour', created_at, 'UTC'), -1 from old_row where status <> 'pending'
    ) as moved
    group by endpoint_id, status, hour having sum(change) <> 0;
    return null;
end $$;
