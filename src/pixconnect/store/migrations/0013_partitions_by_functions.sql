-- Partitions are made, begun and dropped by functions that run as the owner: whoever serves needs no owner's login for it. They
-- judge by this server's clock and by what is noted here, which the service may read and not write: its login can make no young
-- events go. Real time only, never the instants in rows, which the sandbox clock moves.

create table event_partition (
    name text primary key, -- its own table
    parent text not null check (parent in ('event', 'delivery')), -- attempts have the bounds of their deliveries, and go with them
    first_id bigint not null,
    end_id bigint not null, -- the first that it may not hold
    begun_at timestamptz, -- when its first id was given out
    closed_at timestamptz, -- when its last one was
    detached_at timestamptz,
    unique (parent, first_id),
    check (closed_at is null or begun_at is not null)
);
create table partition_pass (
    is_only_row boolean primary key default true check (is_only_row),
    passed_at timestamptz not null default clock_timestamp(),
    jumped_at timestamptz, -- when two passes were last too far apart to tell how much time had really passed
    retention interval not null default '90 days' -- the owner's word; the service may keep things longer, not shorter
);
insert into partition_pass default values;
grant select on event_partition, partition_pass to pixconnect_service;
grant select on sequence write_group_id, delivery_id to pixconnect_service;

create function last_id_given(parent text) returns bigint language plpgsql as $$
begin
    if parent = 'event' then
        return (select case when is_called then last_value else last_value - 1 end from write_group_id);
    end if;
    return (select case when is_called then last_value else last_value - 1 end from delivery_id);
end $$;
grant execute on function last_id_given(text) to pixconnect_service;

-- What is there already counts from today.
insert into event_partition (name, parent, first_id, end_id)
select relname, parent,
    (regexp_match(pg_get_expr(relpartbound, pg_class.oid), 'FROM \(''?(\d+)''?\)'))[1]::bigint,
    (regexp_match(pg_get_expr(relpartbound, pg_class.oid), 'TO \(''?(\d+)''?\)'))[1]::bigint
from (values ('event'), ('delivery')) as parents (parent)
join pg_inherits on inhparent = parent::regclass
join pg_class on pg_class.oid = inhrelid;
update event_partition set begun_at = clock_timestamp() where first_id <= last_id_given(parent);
update event_partition set closed_at = clock_timestamp() where end_id <= last_id_given(parent);

-- Makes what is missing of two partitions ahead of those that have been begun; answers the names of the new ones.
create function make_partitions() returns setof text
language plpgsql security definer set search_path = {schema}, pg_temp set lock_timeout = '100ms' as $$
declare
    wanted text;
    child text;
    start_id bigint;
    span bigint;
begin
    perform from partition_pass for update;
    foreach wanted in array array['event', 'delivery'] loop
        span := case wanted when 'event' then 17179869184 else 16777216 end;
        while (select count(*) from event_partition where parent = wanted and first_id > last_id_given(wanted)) < 2 loop
            select max(end_id) into start_id from event_partition where parent = wanted;
            start_id := greatest(start_id, last_id_given(wanted) / span * span);
            foreach child in array case wanted when 'event' then array['event'] else array['delivery', 'delivery_attempt'] end
            loop
                execute format('create table %I (like %I including defaults including constraints)',
                    child || '_' || start_id, child);
                execute format('alter table %I attach partition %I for values from (%s) to (%s)',
                    child, child || '_' || start_id, start_id, start_id + span);
            end loop;
            insert into event_partition (name, parent, first_id, end_id)
            values (wanted || '_' || start_id, wanted, start_id, start_id + span);
            return next wanted || '_' || start_id;
        end loop;
    end loop;
end $$;
grant execute on function make_partitions() to pixconnect_service;

-- Notes which partitions have been begun and closed, and when a pass was made. Two passes more than ten minutes apart, or a clock
-- that went back, are a jump: nothing is dropped for an hour. Answers how far it was, or null.
create function note_partitions() returns interval
language plpgsql security definer set search_path = {schema}, pg_temp set lock_timeout = '100ms' as $$
declare
    now_at timestamptz;
    apart interval;
begin
    select clock_timestamp() - passed_at into apart from partition_pass for update;
    now_at := clock_timestamp();
    update partition_pass set passed_at = now_at,
        jumped_at = case when apart not between interval '0' and interval '10 minutes' then now_at else jumped_at end;
    update event_partition set begun_at = now_at where begun_at is null and first_id <= last_id_given(parent);
    update event_partition set closed_at = now_at
    where closed_at is null and begun_at is not null and end_id <= last_id_given(parent);
    return case when apart not between interval '0' and interval '10 minutes' then apart end;
end $$;
grant execute on function note_partitions() to pixconnect_service;

-- Goes on in the next partition where the present one has been filled for a tenth of the retention; answers those that are closed.
create function close_partitions(asked_retention interval) returns setof text
language plpgsql security definer set search_path = {schema}, pg_temp set lock_timeout = '100ms' as $$
declare
    present event_partition;
    kept interval;
begin
    select greatest(retention, asked_retention) into kept from partition_pass for update;
    for present in
        select * from event_partition
        where begun_at < clock_timestamp() - kept / 10 and closed_at is null order by parent, first_id
    loop
        -- Held until the end: nobody takes an id between the look at the last one and the next one's being set.
        execute format('alter sequence %I no cycle', case present.parent when 'event' then 'write_group_id' else 'delivery_id' end);
        if present.parent = 'event' then
            perform setval('write_group_id', greatest(last_value, present.end_id), is_called and last_value >= present.end_id)
            from write_group_id;
        else
            perform setval('delivery_id', greatest(last_value, present.end_id), is_called and last_value >= present.end_id)
            from delivery_id;
        end if;
        update event_partition set closed_at = clock_timestamp() where name = present.name;
        return next present.name;
    end loop;
end $$;
grant execute on function close_partitions(interval) to pixconnect_service;

-- Takes one partition that is old, and that nothing pending needs, out of its table; answers its name, or null. Being closed for
-- longer than events are kept makes it old. What is pending is looked for before anybody is kept waiting, and again then.
create function detach_old_partition(asked_retention interval) returns text
language plpgsql security definer set search_path = {schema}, pg_temp set lock_timeout = '100ms' as $$
declare
    old event_partition;
    kept interval;
    is_steady boolean;
begin
    select greatest(retention, asked_retention), coalesce(jumped_at < clock_timestamp() - interval '1 hour', true)
    into kept, is_steady from partition_pass for update;
    if not is_steady then
        return null;
    end if;
    select * into old from event_partition
    where closed_at < clock_timestamp() - kept and detached_at is null and not is_partition_needed(parent, first_id, end_id)
    order by closed_at limit 1;
    if not found then
        return null;
    end if;
    execute format('lock table %I in access exclusive mode', old.parent);
    if is_partition_needed(old.parent, old.first_id, old.end_id) then
        return null;
    end if;
    execute format('alter table %I detach partition %I', old.parent, old.name);
    if old.parent = 'delivery' then
        execute format('alter table delivery_attempt detach partition %I', 'delivery_attempt_' || old.first_id);
    end if;
    update event_partition set detached_at = clock_timestamp() where name = old.name;
    return old.name;
end $$;
grant execute on function detach_old_partition(interval) to pixconnect_service;

create function is_partition_needed(parent text, first_id bigint, end_id bigint) returns boolean language plpgsql as $$
begin
    if parent = 'event' then
        return exists (
            select from delivery where status = 'pending' and event_id >= is_partition_needed.first_id
                and event_id < is_partition_needed.end_id
        );
    end if;
    return exists (
        select from delivery where status = 'pending' and id >= is_partition_needed.first_id and id < is_partition_needed.end_id
    );
end $$;

-- Drops a partition that was detached, and counts what was in it no more; answers its name, or null.
create function drop_detached_partition() returns text
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    old event_partition;
begin
    select * into old from event_partition where detached_at is not null order by name limit 1 for update skip locked;
    if not found then
        return null;
    end if;
    if old.parent = 'event' then
        execute format('insert into webhook_tally_change (kind, owner_id, status, hour, change)
            select ''event'', holder_id, ''made'', date_trunc(''hour'', created_at, ''UTC''), -count(*) from %I
            group by holder_id, 4', old.name);
    else
        execute format('insert into webhook_tally_change (kind, owner_id, status, hour, change)
            select ''delivery'', endpoint_id, word, hour, -sum(count) from (
                select endpoint_id, status, date_trunc(''hour'', created_at, ''UTC'') as hour, count(*) as count from %I
                group by 1, 2, 3
            ) as dropped
            cross join lateral (values (''made''), (nullif(status, ''pending''))) as counted (word)
            where word is not null group by 1, 2, 3, 4', old.name);
        execute format('drop table %I', 'delivery_attempt_' || old.first_id);
    end if;
    execute format('drop table %I', old.name);
    delete from webhook_tally where count = 0;
    delete from event_partition where name = old.name;
    return old.name;
end $$;
grant execute on function drop_detached_partition() to pixconnect_service;
