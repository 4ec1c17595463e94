-- What is known of the server and of the ids that were given out, so that none is given out twice after a copy was put back, and so
-- that a database that has forgotten something is told from one that was only started again.

alter table installation add column database_oid bigint;
alter table installation add column started_at timestamptz;
-- The first ids after the server's last start: an order with a lower one was open before it, or about to be.
alter table installation add column first_transfer_id bigint not null default 0;
alter table installation add column first_refund_id bigint not null default 0;
comment on column installation.database_oid is 'another where a dump was restored beside the database that it is of';
comment on column installation.started_at is 'of the server, when it was last seen: another start may be that of a copy';
grant update (database_oid, started_at) on installation to pixconnect_service;

-- How far each sequence was at an instant, and how many ids a second it may have given out since, in a history that this database
-- has forgotten. 2048 groups of ids a second go into 2^53 for 68 years; of the others there is more room.
create table id_high_water (
    sequence text primary key,
    ids_per_s_max bigint not null check (ids_per_s_max > 0),
    last_id bigint not null,
    noted_at timestamptz not null default clock_timestamp()
);
insert into id_high_water (sequence, ids_per_s_max, last_id)
select sequence, ids_per_s_max, coalesce(pg_sequence_last_value(to_regclass(sequence)), 0)
from (values
    ('charge_id', 32768),
    ('transfer_id', 32768),
    ('refund_id', 32768),
    ('location_id', 32768),
    ('write_group_id', 4194304), -- 2048 groups with 2048 ids each
    ('delivery_id', 8192),
    ('webhook_endpoint_id', 256),
    ('event_feed_position', 8192)
) as counted (sequence, ids_per_s_max);
grant select on id_high_water to pixconnect_service;

create function note_high_water() returns void
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    update id_high_water
    set last_id = coalesce(pg_sequence_last_value(to_regclass(sequence)), 0), noted_at = clock_timestamp();
end $$;
grant execute on function note_high_water() to pixconnect_service;

-- Moves each sequence above what it can have given out since it was last noted, whatever of that is forgotten. The distance goes by
-- time, for a fixed one would lead from the same copy to the same ids again. Of more than a year a year counts, so that one wrong
-- clock does not use up all ids; where the clock went back, 64 blocks.
create function move_ids_ahead() returns void
language plpgsql security definer set search_path = {schema}, pg_temp set lock_timeout = '1s' as $$
declare
    noted id_high_water;
    passed_s double precision;
    unused event_partition;
    child text;
    is_empty boolean;
begin
    for noted in select * from id_high_water order by sequence for update loop
        passed_s := least(greatest(extract(epoch from clock_timestamp() - noted.noted_at), 0), 31536000);
        -- Whoever asks the sequence meanwhile gets less than 64 blocks: it never goes back.
        execute format(
            'select setval(%L, greatest(last_value + 64 * seqincrement, $1)) from %I, pg_sequence where seqrelid = $2',
            noted.sequence, noted.sequence
        ) using noted.last_id + ceil(passed_s * noted.ids_per_s_max)::bigint, to_regclass(noted.sequence);
    end loop;
    perform note_high_water();
    update installation set
        first_transfer_id = (select last_value + seqincrement from transfer_id, pg_sequence where seqrelid = to_regclass('transfer_id')),
        first_refund_id = (select last_value + seqincrement from refund_id, pg_sequence where seqrelid = to_regclass('refund_id'));
    -- Partitions that were made ahead and are passed over would be kept, empty, for as long as events are.
    for unused in
        select * from event_partition where begun_at is null and end_id <= last_id_given(parent) order by name
    loop
        execute format('lock table %I in access exclusive mode', unused.name);
        execute format('select not exists (select from %I)', unused.name) into is_empty;
        continue when not is_empty;
        foreach child in array case unused.parent when 'delivery'
            then array['delivery_attempt_' || unused.first_id, unused.name] else array[unused.name] end
        loop
            execute format('drop table if exists %I', child);
        end loop;
        delete from event_partition where name = unused.name;
    end loop;
    -- One by one, so that a failure is heard of: without them nothing could be written.
    perform make_partitions('event');
    perform make_partitions('delivery');
    perform make_partitions('event_feed');
end $$;
grant execute on function move_ids_ahead() to pixconnect_service;

-- Each time it was seen that the database had forgotten something. Until an operator has read of it the service is degraded.
create table database_loss (
    id bigint generated always as identity primary key,
    noticed_at timestamptz not null default clock_timestamp(),
    reason text not null check (length(reason) between 1 and 1000),
    system_identifier bigint not null,
    -- How far the write-ahead log of that server was known to be; null where the server itself was another.
    timeline_before bigint,
    position_before bigint,
    orders_count bigint not null, -- open ones, which have counted as handed over since
    recovered_at timestamptz,
    recovered_by text check (length(recovered_by) between 1 and 255),
    check ((recovered_at is null) = (recovered_by is null))
);
grant select, insert (reason, system_identifier, timeline_before, position_before, orders_count)
    on database_loss to pixconnect_service;
grant update (recovered_at, recovered_by) on database_loss to pixconnect_operator;
