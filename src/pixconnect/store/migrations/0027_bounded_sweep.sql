-- After a backlog was worked off, a sweep would compare millions of positions, for longer than a statement may take. There is
-- nothing to be found then: whoever wrote the backlog ended long before. So the sweep only goes on behind it.
create or replace function sweep_event_positions(count_max integer) returns bigint[]
language plpgsql security definer set search_path = {schema}, pg_temp set enable_hashjoin = on as $$
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
