-- What these tables are of: the sandbox or live, and which server they were last seen on.

create table installation (
    is_only_row boolean primary key default true check (is_only_row),
    mode text not null check (mode in ('sandbox', 'live')),
    made_at timestamptz not null default clock_timestamp(),
    system_identifier bigint,
    timeline bigint,
    seen_at timestamptz
);
comment on column installation.system_identifier is 'of the server''s data folder: a restore by pg_dump has another';
comment on column installation.timeline is 'another after a restore to a point in time, and after a standby took over';
grant select, insert (mode), update (system_identifier, timeline, seen_at) on installation to pixconnect_service;

create function refuse_other_mode() returns trigger language plpgsql as $$
begin
    raise exception 'the mode of an installation never changes'
        using errcode = 'integrity_constraint_violation', constraint = 'mode_is_kept';
end $$;
create trigger mode_is_kept before update of mode on installation for each row
    when (old.mode is distinct from new.mode) execute function refuse_other_mode();
create trigger installation_is_kept before delete or truncate on installation
    for each statement execute function refuse_other_mode();

-- Live time is real time, whoever asks.
create function refuse_moved_clock() returns trigger language plpgsql as $$
begin
    if new.offset_us <> 0 and exists (select from installation where mode = 'live') then
        raise exception 'the clock of a live installation is not moved'
            using errcode = 'integrity_constraint_violation', constraint = 'live_time_is_real';
    end if;
    return new;
end $$;
create trigger live_time_is_real before update of offset_us on clock for each row execute function refuse_moved_clock();
