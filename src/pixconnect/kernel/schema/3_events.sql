-- Events and their feed.

create function tally_events() returns trigger language plpgsql
as $function$
begin
    insert into webhook_tally_change (kind, owner_id, status, hour, change)
    select 'event', holder_id, 'made', date_trunc('hour', created_at, 'UTC') as hour, count(*) from new_row group by holder_id, 4;
    return null;
end $function$;

create table event (
    id bigint not null,
    holder_id bigint not null,
    name text not null,
    resource text not null,
    resource_id bigint not null,
    slot smallint not null,
    body text not null,
    created_at timestamp with time zone not null,
    constraint event_pkey primary key (id, holder_id),
    constraint event_id_check check (id >= 1 and id <= 9007199254740991),
    constraint event_resource_check check (length(resource) >= 1 and length(resource) <= 32),
    constraint event_slot_check check (slot >= 0 and slot <= 255)
) partition by range (id);
comment on table event is 'Events of charges, transfers, refunds and movements; written with the fact, partitioned by id.';
comment on column event.id is 'Rises with the events of one resource, in the order in which they happened.';
comment on column event.holder_id is 'The holder of the fact.';
comment on column event.name is 'The event: transfer.out.confirmed.';
comment on column event.resource is 'The kind of resource, such as charge; the program has the list.';
comment on column event.resource_id is 'The id of that.';
comment on column event.slot is 'The slot of work it belongs to, 0 to 255.';
comment on column event.body is 'The very text that is sent, on each attempt.';
comment on column event.created_at is 'When it happened, in service time.';
create table event_1 partition of event for values from ('1') to ('17179869184');
create index event_list on event (holder_id, created_at, id);
create trigger tally_events after insert on event referencing new table as new_row for each statement execute function
    tally_events();
grant insert, select on table event to pixconnect_service;

create sequence event_feed_position;
grant select, usage on sequence event_feed_position to pixconnect_service;

create table event_feed (
    position bigint not null,
    holder_id bigint not null,
    event_ids bigint[] not null,
    constraint event_feed_pkey primary key (holder_id, "position"),
    constraint event_feed_event_ids_check check (cardinality(event_ids) >= 1 and cardinality(event_ids) <= 200),
    constraint event_feed_position_check check ("position" >= 1 and "position" <= 9007199254740991)
) partition by range ("position");
comment on table event_feed is 'The order in which events are read by cursor, given after the commit; partitioned by position.';
comment on column event_feed.position is 'The place in the feed, which never changes.';
comment on column event_feed.holder_id is 'The holder that reads them.';
comment on column event_feed.event_ids is 'The events at this place, 1 to 200, in the order of their ids.';
create table event_feed_1 partition of event_feed for values from ('1') to ('1073741824');
create index event_feed_order on event_feed ("position");
grant select on table event_feed to pixconnect_service;

create function sweep_event_positions(count_max integer) returns bigint[] language plpgsql security definer set search_path to
    'pixconnect', 'pg_temp' set enable_hashjoin to 'on'
as $function$
declare
    state event_feed_state;
    late bigint[];
    late_holder_ids bigint[];
begin
    select * into state from event_feed_state;
    -- Where nothing happens, nothing is written.
    if state.swept_id = state.next_id and state.next_id >= last_event_id_given() then
        return null;
    end if;
    if state.swept_id < least(state.next_id, state.settled_id) and (
        select coalesce(sum(cardinality(event_ids)), 0) from event_feed where position > state.swept_position
    ) <= 10 * count_max then
        with seen as materialized (
            -- The newest, if there are too many to read: late ones were written recently.
            select id from event where id > state.swept_id and id <= least(state.next_id, state.settled_id)
            order by id desc limit count_max
        )
        -- By a difference of sets: an anti join becomes a loop over all that have one in a generic plan.
        select array_agg(id) into late from (
            select id from seen
            except select placed.id from event_feed cross join unnest(event_ids) as placed (id) where position > state.swept_position
        ) as missed;
    end if;
    select * into state from event_feed_state for update;
    if late is not null then
        with given as (
            insert into event_feed (position, holder_id, event_ids)
            select nextval('event_feed_position'), holder_id, array[id] from (
                select id, holder_id from event where id = any(array(
                    select unnest(late) except select placed.id from event_feed cross join unnest(event_ids) as placed (id)
                    where position > state.swept_position
                )) order by id
            ) as missed
            returning *
        )
        select array_agg(holder_id), greatest(max(position), state.last_position)
        into late_holder_ids, state.last_position from given;
    end if;
    -- The holder of the lock alone assigns positions: later assignments get later positions.
    update event_feed_state set last_position = state.last_position, swept_id = next_id, swept_position = next_position,
        next_id = last_event_id_given(), next_position = state.last_position;
    return late_holder_ids;
end $function$;
grant execute on function sweep_event_positions(count_max integer) to pixconnect_service;

create table event_feed_state (
    is_only_row boolean default true not null,
    last_position bigint default 0 not null,
    given_at timestamp with time zone default clock_timestamp() not null,
    settled_id bigint default 0 not null,
    settled_position bigint default 0 not null,
    asked_id bigint,
    asked_position bigint,
    asked_of text[],
    swept_id bigint default 0 not null,
    swept_position bigint default 0 not null,
    next_id bigint default 0 not null,
    next_position bigint default 0 not null,
    constraint event_feed_state_pkey primary key (is_only_row),
    constraint event_feed_state_is_only_row_check check (is_only_row)
) with (fillfactor=20);
comment on table event_feed_state is 'The last assigned event position; assigning takes a lock on the one row.';
comment on column event_feed_state.is_only_row is 'True: there is one row.';
comment on column event_feed_state.last_position is 'The last position that was given.';
comment on column event_feed_state.given_at is 'When that was, in real time.';
comment on column event_feed_state.settled_id is 'Each event up to this id that will ever exist has its position.';
comment on column event_feed_state.settled_position is 'The events beyond settled_id follow this position.';
comment on column event_feed_state.asked_id is 'The next settled_id, once the transactions in asked_of have ended.';
comment on column event_feed_state.asked_position is 'The next settled_position, at the same time.';
comment on column event_feed_state.asked_of is 'The transactions that may still write an event up to asked_id.';
comment on column event_feed_state.swept_id is 'Each event up to this id was searched for a second time.';
comment on column event_feed_state.swept_position is 'The events beyond swept_id follow this position.';
comment on column event_feed_state.next_id is 'The id at which the next sweep ends.';
comment on column event_feed_state.next_position is 'The next swept_position, at the same time.';
grant select on table event_feed_state to pixconnect_service;
insert into event_feed_state default values;

create function give_event_positions(count_max integer, out holder_ids bigint[], out events_count bigint, out has_more boolean)
    returns record language plpgsql security definer set search_path to 'pixconnect', 'pg_temp' set enable_hashjoin to 'on'
as $function$
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
        -- An event beyond the bound may already have a position from earlier passes.
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
end $function$;
grant execute on function give_event_positions(count_max integer, OUT holder_ids bigint[], OUT events_count bigint, OUT has_more
    boolean) to pixconnect_service;

create sequence webhook_endpoint_id;
grant usage on sequence webhook_endpoint_id to pixconnect_service;

create sequence delivery_id;
grant select, usage on sequence delivery_id to pixconnect_service;
