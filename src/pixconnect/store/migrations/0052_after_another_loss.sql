-- A loss is the same as one that was noticed before only for who has not heard of the server since: which start noticed it is kept.
alter table database_loss add column started_at timestamptz;
comment on column database_loss.started_at is 'of the server that had forgotten something, when that was noticed';
grant insert (started_at) on database_loss to pixconnect_service;

-- As before, but that nobody's long read of a partition that is not needed keeps the service from beginning: it goes at another start.
create or replace function move_ids_ahead() returns void
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
    -- One by one, so that a failure is heard of: without them nothing could be written.
    perform make_partitions('event');
    perform make_partitions('delivery');
    perform make_partitions('event_feed');
end $$;

-- Moves one sequence above the largest id in use, at once: at each start ids go ahead by more than can be asked for one by one.
create function catch_up_sequence(wanted text) returns void
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    largest bigint;
begin
    -- One at a time: nobody may set it back to where it was when he looked.
    perform from id_high_water where sequence = wanted for update;
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
    -- Whoever asks the sequence meanwhile gets less than 64 blocks.
    execute format(
        'select setval(%L, greatest(last_value + 64 * seqincrement, $1)) from %I, pg_sequence where seqrelid = $2', wanted, wanted
    ) using coalesce(largest, 0), to_regclass(wanted);
end $$;
grant execute on function catch_up_sequence(text) to pixconnect_service;
