-- Tables that were put back in their place, and a data folder that was put back whose log has come further since, are seen too.

alter table installation
    add column tables_oid bigint,
    add column notes_count bigint not null default 0;
comment on column installation.tables_oid is
    'The number of this table in the database: another where a dump was restored in its place.';
comment on column installation.notes_count is
    'How often it was noted how far ids are; in data that was put back it is less than what processes know.';
grant update (tables_oid) on installation to pixconnect_service;

create or replace function note_high_water() returns void
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    update id_high_water
    set last_id = coalesce(pg_sequence_last_value(to_regclass(sequence)), 0), noted_at = clock_timestamp();
    update installation set notes_count = notes_count + 1;
end $$;

-- A session that has looked at the tables before they were put back takes no id from them and moves nothing in them: it is closed,
-- and a new one looks first. The error is that of a server that has become a standby, for the same reason. A session that has
-- not looked at them is not asked.
create function refuse_old_session() returns boolean language plpgsql stable as $$
begin
    if nullif(current_setting('session.tables_oid', true), '')::bigint <> to_regclass('installation')::bigint then
        raise exception 'the tables were put back after this session had looked at them'
            using errcode = 'read_only_sql_transaction';
    end if;
    return true;
end $$;
grant execute on function refuse_old_session() to pixconnect_service;
