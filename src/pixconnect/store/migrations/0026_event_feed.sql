-- The feed: every event of a holder in an order that never changes, for programs that fetch their events.
--
-- Whoever writes an event knows nothing of the feed. Positions are given after the commit, some at a time, to what has become
-- visible since. A row is what one look found of one holder: the events stand in it in the order of their ids.

create sequence event_feed_position;
grant usage, select on sequence event_feed_position to pixconnect_service;
create table event_feed (
    position bigint not null check (position between 1 and 9007199254740991),
    holder_id bigint not null,
    event_ids bigint[] not null check (cardinality(event_ids) between 1 and 200), -- more would be stored out of line
    primary key (holder_id, position)
) partition by range (position);
create index event_feed_order on event_feed (position);
grant select on event_feed to pixconnect_service;
create table event_feed_1 partition of event_feed for values from (1) to (1073741824);

-- How far positions have been given. Locked while some are given: so they become visible in their order, whoever gives them.
create table event_feed_state (
    is_only_row boolean primary key default true check (is_only_row),
    last_position bigint not null default 0, -- the last one given
    given_at timestamptz not null default clock_timestamp(), -- when that was; real time
    -- Each event up to this id that will ever be there has its position, and those beyond it stand behind this position.
    settled_id bigint not null default 0,
    settled_position bigint not null default 0,
    -- The same once these transactions have ended, which may still write an event up to this id.
    asked_id bigint,
    asked_position bigint,
    asked_of text[],
    -- The sweep: each event up to this id was looked for a second time; the next sweep goes to the next id.
    swept_id bigint not null default 0,
    swept_position bigint not null default 0,
    next_id bigint not null default 0,
    next_position bigint not null default 0
) with (fillfactor = 20);
insert into event_feed_state default values;
grant select on event_feed_state to pixconnect_service;

-- The last event id that has been given out, to whoever may still write it: they are given out in blocks.
create function last_event_id_given() returns bigint language sql volatile as $$
    select case when is_called then last_value + seqincrement - 1 else last_value - 1 end
    from write_group_id, pg_sequence where seqrelid = to_regclass('write_group_id')
$$;

-- Gives positions to events that have become visible; at most so many, the oldest first.
--
-- An event may become visible long after events with higher ids. That none is missed rests on three things. Whoever takes a block
-- of ids holds a lock on their sequence until its transaction has ended, and what it wrote is visible before the lock is gone. The
-- last id given out is read before these locks are, so whoever may still write an id up to it is among their holders. And events
-- are looked for by a later snapshot than that: once those holders have gone, all up to that id has been seen.
create function give_event_positions(count_max integer, out holder_ids bigint[], out events_count bigint, out has_more boolean)
language plpgsql security definer set search_path = {schema}, pg_temp set enable_hashjoin = on as $$
declare
    state event_feed_state;
    given_id bigint;
    writers text[];
    seen_id bigint;
    bound_id bigint;
    given_position bigint;
begin
    events_count := 0;
    has_more := false;
    -- Nothing was given out since all was settled: the usual answer while nothing happens, which locks and writes nothing.
    if (select settled_id from event_feed_state) >= last_event_id_given() then
        return;
    end if;
    select * into state from event_feed_state for update;
    given_id := last_event_id_given();
    select coalesce(array_agg(distinct virtualtransaction), '{}') into writers from pg_locks
    where locktype = 'relation' and relation = to_regclass('write_group_id') and mode = 'RowExclusiveLock' and granted
        and database = (select oid from pg_database where datname = current_database());

    with placed as materialized (
        select id from event_feed cross join unnest(event_ids) as id
        where position > state.settled_position and id > state.settled_id
    ),
    seen as materialized (
        select id, holder_id from event where id > state.settled_id
        order by id limit count_max + (select count(*) from placed)
    ),
    numbered as (
        select id, holder_id, (row_number() over (partition by holder_id order by id) - 1) / 200 as part
        from seen where not exists (select from placed where placed.id = seen.id)
    ),
    gathered as (
        select holder_id, array_agg(id order by id) as event_ids from numbered group by holder_id, part order by min(id)
    ),
    given as (
        insert into event_feed (position, holder_id, event_ids)
        select nextval('event_feed_position'), gathered.* from gathered
        returning *
    )
    select array_agg(distinct given.holder_id), coalesce(sum(cardinality(event_ids)), 0),
        (select count(*) >= count_max + (select count(*) from placed) from seen),
        (select max(id) from seen), greatest(max(position), state.last_position)
    into holder_ids, events_count, has_more, seen_id, given_position from given;

    if state.asked_id is not null and not state.asked_of && writers and (not has_more or seen_id >= state.asked_id) then
        state.settled_id := state.asked_id;
        state.settled_position := state.asked_position;
        state.asked_id := null;
    end if;
    if state.asked_id is null then
        bound_id := case when has_more then least(given_id, seen_id) else given_id end;
        state.asked_id := bound_id;
        state.asked_of := writers;
        -- What is beyond the bound may have been given its position in earlier looks already.
        select coalesce(min(position) - 1, state.last_position) into state.asked_position from event_feed
        where position > state.settled_position and position <= state.last_position
            and exists (select from unnest(event_ids) as id where id > bound_id);
        if writers = '{}' then
            state.settled_id := state.asked_id;
            state.settled_position := state.asked_position;
            state.asked_id := null;
        end if;
    end if;
    update event_feed_state set last_position = given_position,
        given_at = case when events_count > 0 then clock_timestamp() else given_at end,
        settled_id = state.settled_id, settled_position = state.settled_position,
        asked_id = state.asked_id, asked_position = state.asked_position, asked_of = state.asked_of;
end $$;
grant execute on function give_event_positions(integer) to pixconnect_service;

-- Looks a second time for events without a position, among those whose ids were given out between the last two calls; answers
-- whose they were. There are none unless something above does not hold.
create function sweep_event_positions(count_max integer) returns bigint[]
language plpgsql security definer set search_path = {schema}, pg_temp set enable_hashjoin = on as $$
declare
    state event_feed_state;
    late bigint[];
    late_holder_ids bigint[];
begin
    select * into state from event_feed_state;
    if state.swept_id < least(state.next_id, state.settled_id) then
        with seen as materialized (
            -- The newest, if there are more than can be looked at: what is late has been written lately.
            select id from event where id > state.swept_id and id <= least(state.next_id, state.settled_id)
            order by id desc limit count_max
        )
        select array_agg(id) into late from seen where not exists (
            select from event_feed cross join unnest(event_ids) as placed (id)
            where position > state.swept_position and placed.id = seen.id
        );
    end if;
    select * into state from event_feed_state for update;
    if late is not null then
        with given as (
            insert into event_feed (position, holder_id, event_ids)
            select nextval('event_feed_position'), holder_id, array[id] from (
                select id, holder_id from event where id = any(late) and not exists (
                    select from event_feed cross join unnest(event_ids) as placed (id)
                    where position > state.swept_position and placed.id = event.id
                ) order by id
            ) as missed
            returning *
        )
        select array_agg(holder_id), greatest(max(position), state.last_position)
        into late_holder_ids, state.last_position from given;
    end if;
    -- Who holds the lock is the only one to give positions: what is given out from here on gets a later one.
    update event_feed_state set last_position = state.last_position, swept_id = next_id, swept_position = next_position,
        next_id = last_event_id_given(), next_position = state.last_position;
    return late_holder_ids;
end $$;
grant execute on function sweep_event_positions(integer) to pixconnect_service;

-- Its partitions are made, closed and dropped with those of the events.
alter table event_partition drop constraint event_partition_parent_check;
alter table event_partition
    add constraint event_partition_parent_check check (parent in ('event', 'delivery', 'event_feed')) not valid;
insert into event_partition (name, parent, first_id, end_id) values ('event_feed_1', 'event_feed', 1, 1073741824);

create or replace function last_id_given(parent text) returns bigint language plpgsql as $$
begin
    case parent
        when 'event' then
            return (select case when is_called then last_value else last_value - 1 end from write_group_id);
        when 'delivery' then
            return (select case when is_called then last_value else last_value - 1 end from delivery_id);
        when 'event_feed' then
            return (select case when is_called then last_value else last_value - 1 end from event_feed_position);
    end case;
end $$;

create or replace function make_partitions() returns setof text
language plpgsql security definer set search_path = {schema}, pg_temp set lock_timeout = '100ms' as $$
declare
    wanted text;
    child text;
    start_id bigint;
    span bigint;
begin
    perform from partition_pass for update;
    foreach wanted in array array['event', 'delivery', 'event_feed'] loop
        span := case wanted when 'event' then 17179869184 when 'delivery' then 16777216 else 1073741824 end;
        while (select count(*) from event_partition where parent = wanted and first_id > last_id_given(wanted)) < 2 loop
            select max(end_id) into start_id from event_partition where parent = wanted;
            start_id := greatest(start_id, last_id_given(wanted) / span * span);
            foreach child in array case wanted when 'delivery' then array['delivery', 'delivery_attempt'] else array[wanted] end
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

create or replace function close_partitions(asked_retention interval) returns setof text
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
        execute format('alter sequence %I no cycle', case present.parent
            when 'event' then 'write_group_id' when 'delivery' then 'delivery_id' else 'event_feed_position' end);
        case present.parent
            when 'event' then
                perform setval('write_group_id', greatest(last_value, present.end_id), is_called and last_value >= present.end_id)
                from write_group_id;
            when 'delivery' then
                perform setval('delivery_id', greatest(last_value, present.end_id), is_called and last_value >= present.end_id)
                from delivery_id;
            when 'event_feed' then
                perform setval('event_feed_position', greatest(last_value, present.end_id),
                    is_called and last_value >= present.end_id)
                from event_feed_position;
        end case;
        update event_partition set closed_at = clock_timestamp() where name = present.name;
        return next present.name;
    end loop;
end $$;

create or replace function is_partition_needed(parent text, first_id bigint, end_id bigint) returns boolean
language plpgsql as $$
begin
    case parent
        when 'event' then
            return exists (
                select from delivery where status = 'pending' and event_id >= is_partition_needed.first_id
                    and event_id < is_partition_needed.end_id
            );
        when 'delivery' then
            return exists (
                select from delivery where status = 'pending' and id >= is_partition_needed.first_id
                    and id < is_partition_needed.end_id
            );
        when 'event_feed' then
            return false;
    end case;
end $$;

create or replace function drop_detached_partition() returns text
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    old event_partition;
begin
    select * into old from event_partition where detached_at is not null order by name limit 1 for update skip locked;
    if not found then
        return null;
    end if;
    case old.parent
        when 'event' then
            execute format('insert into webhook_tally_change (kind, owner_id, status, hour, change)
                select ''event'', holder_id, ''made'', date_trunc(''hour'', created_at, ''UTC''), -count(*) from %I
                group by holder_id, 4', old.name);
        when 'delivery' then
            execute format('insert into webhook_tally_change (kind, owner_id, status, hour, change)
                select ''delivery'', endpoint_id, word, hour, -sum(count) from (
                    select endpoint_id, status, date_trunc(''hour'', created_at, ''UTC'') as hour, count(*) as count from %I
                    group by 1, 2, 3
                ) as dropped
                cross join lateral (values (''made''), (nullif(status, ''pending''))) as counted (word)
                where word is not null group by 1, 2, 3, 4', old.name);
            execute format('drop table %I', 'delivery_attempt_' || old.first_id);
        when 'event_feed' then
            null; -- nothing counts what is in it
    end case;
    execute format('drop table %I', old.name);
    delete from webhook_tally where count = 0;
    delete from event_partition where name = old.name;
    return old.name;
end $$;
