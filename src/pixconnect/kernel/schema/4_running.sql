-- The installation, its clock and workers, partitions and the marks against reused ids.

create table installation (
    is_only_row boolean default true not null,
    mode text not null,
    made_at timestamp with time zone default clock_timestamp() not null,
    system_identifier bigint,
    timeline bigint,
    seen_at timestamp with time zone,
    database_oid bigint,
    started_at timestamp with time zone,
    first_transfer_id bigint default 0 not null,
    first_refund_id bigint default 0 not null,
    tables_oid bigint,
    notes_count bigint default 0 not null,
    environment text,
    waiting_cluster text,
    beat_at timestamp with time zone,
    location_prefixes text[] default '{}' not null,
    constraint installation_pkey primary key (is_only_row),
    constraint installation_environment_check check (environment in ('production', 'homologation', 'counterpart')),
    constraint installation_is_only_row_check check (is_only_row),
    constraint installation_mode_check check (mode in ('sandbox', 'live')),
    constraint installation_waiting_cluster_check check (length(waiting_cluster) >= 1 and length(waiting_cluster) <= 64)
);
comment on table installation is 'The purpose of these tables, and the server on which they were last seen.';
comment on column installation.is_only_row is 'True: there is one row.';
comment on column installation.mode is 'Whether it is a sandbox or live; it never changes.';
comment on column installation.made_at is 'When the mode was set, in real time.';
comment on column installation.system_identifier is
    'The identifier of the server''s data folder: a restore by pg_dump has another.';
comment on column installation.timeline is
    'The server''s timeline: another after a restore to a point in time, and after a standby took over.';
comment on column installation.seen_at is
    'When the data came to that server, in real time, or when a stay elsewhere was detected.';
comment on column installation.database_oid is
    'The database''s number on the server: another where a dump was restored beside its original.';
comment on column installation.started_at is
    'When the server was started that was seen last, in real time: another start may be that of a copy.';
comment on column installation.first_transfer_id is
    'The first transfer id after the server''s last start: transfers with lower ids were open before it, or about to be.';
comment on column installation.first_refund_id is 'The same for refunds.';
comment on column installation.tables_oid is
    'The number of this table in the database: another where a dump was restored in its place.';
comment on column installation.notes_count is
    'How often the highest ids were recorded; restored data have a lower number than running processes.';
comment on column installation.environment is 'That of all its accounts at institutions; null before the first one.';
comment on column installation.waiting_cluster is
    'The name of the cluster whose commits wait for a standby, as last seen; null if they wait for none.';
comment on column installation.beat_at is
    'When the primary last recorded its own clock, in real time: a standby with this instant is no older. Only with a replica.';
comment on column installation.location_prefixes is
    'The earlier and present address prefixes, without scheme, in codes of charges of its own rail.';
create trigger environment_is_kept before update of environment on installation for each row when (old.environment is not null
    and old.environment is distinct from new.environment) execute function refuse_row('mode_is_kept',
    'the mode of an installation never changes');
create trigger installation_is_kept before delete or truncate on installation for each statement execute function
    refuse_row('mode_is_kept', 'the mode of an installation never changes');
create trigger mode_is_kept before update of mode on installation for each row when (old.mode is distinct from new.mode) execute
    function refuse_row('mode_is_kept', 'the mode of an installation never changes');
grant update (environment) on table installation to pixconnect_operator;
grant insert (mode), select, update (system_identifier, timeline, seen_at, database_oid, started_at, tables_oid,
    waiting_cluster, beat_at, location_prefixes) on table installation to pixconnect_service;

create function refuse_old_session() returns boolean language plpgsql stable
as $function$
begin
    if nullif(current_setting('session.tables_oid', true), '')::bigint <> to_regclass('installation')::bigint then
        raise exception 'the tables were put back after this session had looked at them'
            using errcode = 'read_only_sql_transaction';
    end if;
    return true;
end $function$;
grant execute on function refuse_old_session() to pixconnect_service;

create function refuse_moved_clock() returns trigger language plpgsql
as $function$
begin
    if new.offset_us <> 0 and exists (select from installation where mode = 'live') then
        raise exception 'the clock of a live installation is not moved'
            using errcode = 'integrity_constraint_violation', constraint = 'live_time_is_real';
    end if;
    return new;
end $function$;

create table clock (
    is_only_row boolean default true not null,
    offset_us bigint default 0 not null,
    revision bigint default 0 not null,
    constraint clock_pkey primary key (is_only_row),
    constraint clock_is_only_row_check check (is_only_row)
);
comment on table clock is 'How far the sandbox has moved service time from real time; in live mode always zero.';
comment on column clock.is_only_row is 'True: there is one row.';
comment on column clock.offset_us is 'How far, in microseconds.';
comment on column clock.revision is 'Counts up each time it is moved.';
create trigger live_time_is_real before update of offset_us on clock for each row execute function refuse_moved_clock();
grant select, update on table clock to pixconnect_service;
insert into clock default values;

create sequence worker_id as integer cycle;
grant usage on sequence worker_id to pixconnect_service;

create table worker (
    id integer not null,
    expires_at timestamp with time zone not null,
    oldest_due_at timestamp with time zone,
    constraint worker_pkey primary key (id)
) with (fillfactor=25);
comment on table worker is 'The running workers: each renews its row by the server''s clock.';
comment on column worker.id is 'Counts up, and begins again at its largest value.';
comment on column worker.expires_at is 'When it counts as gone unless it renews its row, in real time.';
comment on column worker.oldest_due_at is
    'Since when the oldest delivery is due that it could make and has not made, in real time.';
grant delete, insert, select, update on table worker to pixconnect_service;

create table slot_lease (
    slot smallint not null,
    epoch bigint default 0 not null,
    worker_id integer,
    constraint slot_lease_pkey primary key (slot),
    constraint slot_lease_epoch unique (slot, epoch),
    constraint slot_lease_slot_check check (slot >= 0 and slot <= 255),
    constraint slot_lease_worker_id_fkey foreign key (worker_id) references worker(id) on delete set null
) with (fillfactor=50);
comment on table slot_lease is 'The 256 slots of work, and the worker that has each.';
comment on column slot_lease.slot is 'The slot, 0 to 255.';
comment on column slot_lease.epoch is
    'Counts up each time another worker takes the slot: the former one''s writes are refused by it.';
comment on column slot_lease.worker_id is 'The worker that holds it; null if it is free.';
grant select, update on table slot_lease to pixconnect_service;
insert into slot_lease (slot) select generate_series(0, 255);

create table event_partition (
    name text not null,
    parent text not null,
    first_id bigint not null,
    end_id bigint not null,
    begun_at timestamp with time zone,
    closed_at timestamp with time zone,
    detached_at timestamp with time zone,
    constraint event_partition_pkey primary key (name),
    constraint event_partition_parent_first_id_key unique (parent, first_id),
    constraint event_partition_check check (closed_at is null or begun_at is not null),
    constraint event_partition_parent_check check (parent in ('event', 'delivery', 'event_feed'))
);
comment on table event_partition is 'The partitions of events, deliveries and the feed; attempts go with their deliveries.';
comment on column event_partition.name is 'The partition''s own table.';
comment on column event_partition.parent is 'The table that it is a part of.';
comment on column event_partition.first_id is 'The first id, or position, that it may hold.';
comment on column event_partition.end_id is 'The first that it may not hold.';
comment on column event_partition.begun_at is 'When its first id was given out, in real time; null before.';
comment on column event_partition.closed_at is 'When its last id was given out, in real time; null before.';
comment on column event_partition.detached_at is 'When it was taken off its parent, in real time: it is dropped next.';
grant select on table event_partition to pixconnect_service;
insert into event_partition (name, parent, first_id, end_id) values
    ('event_1', 'event', 1, 17179869184),
    ('delivery_1', 'delivery', 1, 16777216),
    ('event_feed_1', 'event_feed', 1, 1073741824);

create function add_partition(parent text, first_id bigint, end_id bigint) returns void language plpgsql
as $function$
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
end $function$;

create function adopt_partitions(wanted text) returns void language plpgsql
as $function$
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
        -- The process that made it may have been killed before it made the partition of the attempts.
        if wanted = 'delivery' then
            perform add_partition('delivery_attempt', adopted.first_id, adopted.end_id);
        end if;
    end loop;
end $function$;

create function close_partitions(asked_retention interval) returns setof text language plpgsql security definer set search_path
    to 'pixconnect', 'pg_temp' set lock_timeout to '100ms'
as $function$
declare
    present event_partition;
    kept interval;
begin
    select greatest(retention, asked_retention) into kept from partition_pass for update;
    for present in
        select * from event_partition
        where begun_at < clock_timestamp() - kept / 10 and closed_at is null order by parent, first_id
    loop
        -- Held until the end, so that no id is taken between reading the last one and setting the next one.
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
end $function$;
grant execute on function close_partitions(asked_retention interval) to pixconnect_service;

create function close_partitions(wanted text, asked_retention interval) returns setof text language plpgsql security definer set
    search_path to 'pixconnect', 'pg_temp' set lock_timeout to '100ms'
as $function$
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
        -- Held until the end, so that no id is taken between reading the last one and setting the next one.
        execute format('alter sequence %I no cycle', ids);
        execute format('select setval(%L, greatest(last_value, $1), is_called and last_value >= $1) from %I', ids, ids)
        using present.end_id;
        update event_partition set closed_at = clock_timestamp() where name = present.name;
        return next present.name;
    end loop;
end $function$;
grant execute on function close_partitions(wanted text, asked_retention interval) to pixconnect_service;

create function detach_old_partition(asked_retention interval) returns text language plpgsql security definer set search_path to
    'pixconnect', 'pg_temp' set lock_timeout to '100ms'
as $function$
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
end $function$;
grant execute on function detach_old_partition(asked_retention interval) to pixconnect_service;

create function detach_old_partition(wanted text, asked_retention interval) returns text language plpgsql security definer set
    search_path to 'pixconnect', 'pg_temp' set lock_timeout to '100ms'
as $function$
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
end $function$;
grant execute on function detach_old_partition(wanted text, asked_retention interval) to pixconnect_service;

create function drop_detached_partition() returns text language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
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
            null; -- no tally counts its rows
    end case;
    execute format('drop table %I', old.name);
    delete from webhook_tally where count = 0;
    delete from event_partition where name = old.name;
    return old.name;
end $function$;
grant execute on function drop_detached_partition() to pixconnect_service;

create function is_partition_needed(parent text, first_id bigint, end_id bigint) returns boolean language plpgsql
as $function$
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
end $function$;

create function last_event_id_given() returns bigint language sql
as $function$
    select case when is_called then last_value + seqincrement - 1 else last_value - 1 end
    from write_group_id, pg_sequence where seqrelid = to_regclass('write_group_id')
$function$;

create function last_id_given(parent text) returns bigint language plpgsql
as $function$
begin
    case parent
        when 'event' then
            return (select case when is_called then last_value else last_value - 1 end from write_group_id);
        when 'delivery' then
            return (select case when is_called then last_value else last_value - 1 end from delivery_id);
        when 'event_feed' then
            return (select case when is_called then last_value else last_value - 1 end from event_feed_position);
    end case;
end $function$;
grant execute on function last_id_given(parent text) to pixconnect_service;

create function make_partitions() returns setof text language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp' set lock_timeout to '100ms'
as $function$
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
end $function$;
grant execute on function make_partitions() to pixconnect_service;

create function make_partitions(wanted text) returns setof text language plpgsql security definer set search_path to
    'pixconnect', 'pg_temp' set lock_timeout to '100ms'
as $function$
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
end $function$;
grant execute on function make_partitions(wanted text) to pixconnect_service;

create function note_partitions() returns interval language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
    set lock_timeout to '100ms'
as $function$
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
end $function$;
grant execute on function note_partitions() to pixconnect_service;

create table partition_pass (
    is_only_row boolean default true not null,
    passed_at timestamp with time zone default clock_timestamp() not null,
    jumped_at timestamp with time zone,
    retention interval default '90 days'::interval not null,
    constraint partition_pass_pkey primary key (is_only_row),
    constraint partition_pass_is_only_row_check check (is_only_row)
);
comment on table partition_pass is 'When partitions were last processed, and their retention.';
comment on column partition_pass.is_only_row is 'True: there is one row.';
comment on column partition_pass.passed_at is 'When they were last processed, in real time.';
comment on column partition_pass.jumped_at is 'When two passes were last too far apart to measure the real time between them.';
comment on column partition_pass.retention is 'How long they are kept at least after they were closed, as the owner set it.';
grant select on table partition_pass to pixconnect_service;
insert into partition_pass default values;

create table id_high_water (
    sequence text not null,
    ids_per_s_max bigint not null,
    last_id bigint not null,
    noted_at timestamp with time zone default clock_timestamp() not null,
    constraint id_high_water_pkey primary key (sequence),
    constraint id_high_water_ids_per_s_max_check check (ids_per_s_max > 0)
);
comment on table id_high_water is
    'The highest id of each sequence at an instant: after a restore it is moved beyond all ids possibly used since.';
comment on column id_high_water.sequence is 'The sequence.';
comment on column id_high_water.ids_per_s_max is 'The most ids a second that it may give out.';
comment on column id_high_water.last_id is 'The last id that had been given out.';
comment on column id_high_water.noted_at is 'When that was noted, in real time.';
grant select on table id_high_water to pixconnect_service;
insert into id_high_water (sequence, ids_per_s_max, last_id) values
    ('charge_id', 32768, 0),
    ('transfer_id', 32768, 0),
    ('refund_id', 32768, 0),
    ('location_id', 32768, 0),
    ('write_group_id', 4194304, 0),
    ('delivery_id', 8192, 0),
    ('webhook_endpoint_id', 256, 0),
    ('event_feed_position', 8192, 0);

create function catch_up_sequence(wanted text) returns void language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
declare
    largest bigint;
begin
    -- One at a time: no transaction may set it back to the value that it read.
    perform from id_high_water where sequence = wanted for update;
    if not found then
        raise exception 'no sequence of ids is called %', wanted;
    end if;
    largest := case wanted
        when 'charge_id' then (select max(id) from charge)
        when 'transfer_id' then (select max(id) from transfer)
        when 'refund_id' then (select max(id) from refund)
        when 'location_id' then (select max(id) from location)
        when 'write_group_id' then greatest((select max(id) from ledger_entry), (select max(id) from event))
        when 'delivery_id' then (select max(id) from delivery)
        when 'webhook_endpoint_id' then (select max(id) from webhook_endpoint)
        when 'event_feed_position' then (select max(position) from event_feed)
    end;
    -- Concurrent reads of the sequence get fewer than 64 blocks. A sequence that is not behind stays unchanged.
    execute format(
        'select setval(%L, greatest(last_value + 64 * seqincrement, $1)) from %I, pg_sequence where seqrelid = $2
            and $1 >= case when is_called then last_value + seqincrement else last_value end', wanted, wanted
    ) using coalesce(largest, 0), to_regclass(wanted);
end $function$;
grant execute on function catch_up_sequence(wanted text) to pixconnect_service;

create function move_ids_ahead() returns void language plpgsql security definer set search_path to 'pixconnect', 'pg_temp' set
    lock_timeout to '1s'
as $function$
declare
    noted id_high_water;
    passed_s double precision;
    unused event_partition;
    child text;
    is_empty boolean;
begin
    for noted in select * from id_high_water order by sequence for update loop
        passed_s := least(greatest(extract(epoch from clock_timestamp() - noted.noted_at), 0), 31536000);
        -- Concurrent reads of the sequence get fewer than 64 blocks: it never goes back.
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
    begin
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
    exception when lock_not_available then
        null;
    end;
    -- One by one, so that a failure is reported: without partitions no row could be written.
    perform make_partitions('event');
    perform make_partitions('delivery');
    perform make_partitions('event_feed');
end $function$;
grant execute on function move_ids_ahead() to pixconnect_service;

create function note_high_water() returns void language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    update id_high_water
    set last_id = coalesce(pg_sequence_last_value(to_regclass(sequence)), 0), noted_at = clock_timestamp();
    update installation set notes_count = notes_count + 1;
end $function$;
grant execute on function note_high_water() to pixconnect_service;

create function count_steps_as_calling() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    update rail_step set state = case when state in ('new', 'minted') then 'calling' else state end,
        called_at = coalesce(called_at, clock_timestamp()), only_asked = true
    where state <> 'closed' and not only_asked
        and order_name in (select name from open_order where institution_id is not null);
    select coalesce(max(resource_id) filter (where left(name, 1) = 'D'), 0),
        coalesce(max(resource_id) filter (where left(name, 1) = 'E'), 0)
        into new.last_refund_id, new.last_transfer_id
    from open_order where institution_id is not null;
    return new;
end $function$;

create function pause_accounts() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    -- While a worker runs it records ids every minute, so everything before the last record is present.
    select max(noted_at) into new.known_until from id_high_water;
    with paused as (
        update institution_account set state = 'paused', revision = revision + 1, lost_at = clock_timestamp(),
            paused_because = case when state = 'active' or paused_because is not null then left(new.reason, 1000) end
        where state <> 'closed' and removed_at is null returning id
    )
    select count(*) into new.accounts_count from paused;
    return new;
end $function$;

create table database_loss (
    id bigint generated always as identity not null,
    noticed_at timestamp with time zone default clock_timestamp() not null,
    reason text not null,
    system_identifier bigint not null,
    timeline_before bigint,
    position_before bigint,
    orders_count bigint not null,
    recovered_at timestamp with time zone,
    recovered_by text,
    started_at timestamp with time zone,
    accounts_count bigint default 0 not null,
    last_refund_id bigint default 0 not null,
    known_until timestamp with time zone,
    last_transfer_id bigint default 0 not null,
    constraint database_loss_pkey primary key (id),
    constraint database_loss_check check ((recovered_at is null) = (recovered_by is null)),
    constraint database_loss_known_until_check check (isfinite(known_until)),
    constraint database_loss_reason_check check (length(reason) >= 1 and length(reason) <= 1000),
    constraint database_loss_recovered_by_check check (length(recovered_by) >= 1 and length(recovered_by) <= 255)
);
comment on table database_loss is 'Each detected loss of data; an operator has to acknowledge it.';
comment on column database_loss.id is 'Counts up.';
comment on column database_loss.noticed_at is 'When it was noticed, in real time.';
comment on column database_loss.reason is 'The observed sign of the loss.';
comment on column database_loss.system_identifier is 'The identifier of the server that lost the data.';
comment on column database_loss.timeline_before is 'The timeline that was known before; null where the server was another.';
comment on column database_loss.position_before is
    'How far its write-ahead log was known to be, in octets; null where the server was another.';
comment on column database_loss.orders_count is
    'How many orders were open then; all of them have counted as handed over since.';
comment on column database_loss.recovered_at is 'When an operator had read of it, in real time; null until then.';
comment on column database_loss.recovered_by is 'That operator.';
comment on column database_loss.started_at is 'When the server that lost data was started, in real time.';
comment on column database_loss.accounts_count is 'Accounts at institutions that were paused by it.';
comment on column database_loss.last_refund_id is
    'The last of the refunds that were open over accounts at institutions; steps of those up to it may be lost.';
comment on column database_loss.known_until is
    'The last instant at which ids were recorded before it: later facts may be lost.';
comment on column database_loss.last_transfer_id is
    'The last of the transfers that were open over accounts at institutions; steps of those up to it may be lost.';
create trigger count_steps_as_calling before insert on database_loss for each row execute function count_steps_as_calling();
create trigger pause_accounts before insert on database_loss for each row execute function pause_accounts();
grant update (recovered_at, recovered_by) on table database_loss to pixconnect_operator;
grant insert (reason, system_identifier, timeline_before, position_before, orders_count, started_at), select on table
    database_loss to pixconnect_service;
