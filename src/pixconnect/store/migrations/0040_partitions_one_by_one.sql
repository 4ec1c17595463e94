-- Partitions of one parent are looked after whatever becomes of the others', and those that somebody else has made are adopted.
--
-- While an installation is upgraded, a worker of before 0013 may still make partitions as the owner, and drop them. What it made was
-- unknown here, and so was made again, which failed, in every pass. Now what hangs on a parent is compared with what is known first.
-- The functions without a parent's name are for processes of before this step.

create function add_partition(parent text, first_id bigint, end_id bigint) returns void language plpgsql as $$
declare
    child text := parent || '_' || first_id;
begin
    if exists (
        select from pg_inherits where inhparent = to_regclass(parent) and inhrelid = to_regclass(format('%I', child))
    ) then
        return;
    end if;
    execute format('create table %I (like %I including defaults including constraints)', child, parent);
    execute format('alter table %I attach partition %I for values from (%s) to (%s)', parent, child, first_id, end_id);
end $$;

-- Makes what is known the same as what hangs on the parent. A table that hangs there no more is left to whoever took it off.
create function adopt_partitions(wanted text) returns void language plpgsql as $$
declare
    adopted event_partition;
begin
    delete from event_partition as known where parent = wanted and case when detached_at is null
        then not exists (
            select from pg_inherits where inhparent = to_regclass(wanted) and inhrelid = to_regclass(format('%I', known.name))
                and not inhdetachpending
        )
        else to_regclass(format('%I', known.name)) is null
    end;
    for adopted in
        insert into event_partition (name, parent, first_id, end_id)
        select relname, wanted,
            (regexp_match(pg_get_expr(relpartbound, pg_class.oid), 'FROM \(''?(\d+)''?\)'))[1]::bigint,
            (regexp_match(pg_get_expr(relpartbound, pg_class.oid), 'TO \(''?(\d+)''?\)'))[1]::bigint
        from pg_inherits join pg_class on pg_class.oid = inhrelid
        where inhparent = to_regclass(wanted) and not inhdetachpending
        on conflict do nothing
        returning *
    loop
        -- Whoever made it may have been killed before it made that of the attempts.
        if wanted = 'delivery' then
            perform add_partition('delivery_attempt', adopted.first_id, adopted.end_id);
        end if;
    end loop;
end $$;

create function make_partitions(wanted text) returns setof text
language plpgsql security definer set search_path = {schema}, pg_temp set lock_timeout = '100ms' as $$
declare
    start_id bigint;
    span bigint := case wanted when 'event' then 17179869184 when 'delivery' then 16777216 when 'event_feed' then 1073741824 end;
begin
    perform from partition_pass for update;
    perform adopt_partitions(wanted);
    while (select count(*) from event_partition where parent = wanted and first_id > last_id_given(wanted)) < 2 loop
        select max(end_id) into start_id from event_partition where parent = wanted;
        start_id := greatest(start_id, last_id_given(wanted) / span * span, 1);
        perform add_partition(wanted, start_id, start_id + span);
        if wanted = 'delivery' then
            perform add_partition('delivery_attempt', start_id, start_id + span);
        end if;
        insert into event_partition (name, parent, first_id, end_id)
        values (wanted || '_' || start_id, wanted, start_id, start_id + span);
        return next wanted || '_' || start_id;
    end loop;
end $$;
grant execute on function make_partitions(text) to pixconnect_service;

create or replace function make_partitions() returns setof text
language plpgsql security definer set search_path = {schema}, pg_temp set lock_timeout = '100ms' as $$
declare
    wanted text;
begin
    foreach wanted in array array['event', 'delivery', 'event_feed'] loop
        begin
            return query select make_partitions(wanted);
        exception when others then
            raise warning 'partitions of % are not made: %', wanted, sqlerrm;
        end;
    end loop;
end $$;

create function close_partitions(wanted text, asked_retention interval) returns setof text
language plpgsql security definer set search_path = {schema}, pg_temp set lock_timeout = '100ms' as $$
declare
    present event_partition;
    kept interval;
    ids text := case wanted when 'event' then 'write_group_id' when 'delivery' then 'delivery_id'
        when 'event_feed' then 'event_feed_position' end;
begin
    select greatest(retention, asked_retention) into kept from partition_pass for update;
    for present in
        select * from event_partition
        where parent = wanted and begun_at < clock_timestamp() - kept / 10 and closed_at is null order by first_id
    loop
        -- Held until the end: nobody takes an id between the look at the last one and the next one's being set.
        execute format('alter sequence %I no cycle', ids);
        execute format('select setval(%L, greatest(last_value, $1), is_called and last_value >= $1) from %I', ids, ids)
        using present.end_id;
        update event_partition set closed_at = clock_timestamp() where name = present.name;
        return next present.name;
    end loop;
end $$;
grant execute on function close_partitions(text, interval) to pixconnect_service;

create function detach_old_partition(wanted text, asked_retention interval) returns text
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
    where parent = wanted and closed_at < clock_timestamp() - kept and detached_at is null
        and not is_partition_needed(parent, first_id, end_id)
    order by closed_at limit 1;
    if not found then
        return null;
    end if;
    execute format('lock table %I in access exclusive mode', wanted);
    if is_partition_needed(wanted, old.first_id, old.end_id) then
        return null;
    end if;
    execute format('alter table %I detach partition %I', wanted, old.name);
    if wanted = 'delivery' then
        execute format('alter table delivery_attempt detach partition %I', 'delivery_attempt_' || old.first_id);
    end if;
    update event_partition set detached_at = clock_timestamp() where name = old.name;
    return old.name;
end $$;
grant execute on function detach_old_partition(text, interval) to pixconnect_service;
