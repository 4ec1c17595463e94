-- What the rail has reported and we can neither record nor pass over: it waits for a person. A row is here before the report is
-- acknowledged, once however often it comes. Nothing of it moves money; closing it only ends the waiting.

create table kept_report (
    id bigint generated always as identity primary key,
    kind text not null check (kind in ('credit', 'return', 'settled', 'rejected', 'never_taken')),
    reason text not null check (reason in ('unknown_order', 'contradiction', 'changed_repeat', 'cannot_be_recorded')),
    explanation text not null,
    name text collate "C" not null,
    report_id text not null,
    report text not null,
    fingerprint bytea not null,
    refusal_code text,
    seen_count bigint not null default 1 check (seen_count > 0),
    first_seen_at timestamptz not null default clock_timestamp(),
    last_seen_at timestamptz not null default clock_timestamp(),
    closed_at timestamptz,
    closed_by text check (length(closed_by) between 1 and 255),
    close_reason text check (length(close_reason) between 1 and 1000),
    constraint report_is_kept_once unique (fingerprint),
    constraint closing_says_who_and_why check (
        (closed_at is null) = (closed_by is null) and (closed_at is null) = (close_reason is null)
    )
);
comment on column kept_report.name is 'on the network: of the transfer, refund or return that it is about';
comment on column kept_report.report is 'as the rail gave it, as JSON, whatever texts it has';
comment on column kept_report.refusal_code is 'a payment or return that was refused with it, and is refused whenever it comes again';
create index kept_report_open on kept_report (id) where closed_at is null;
create index kept_report_refused on kept_report (name) where refusal_code is not null;
grant select, insert on kept_report to pixconnect_service;
grant update (seen_count, last_seen_at, closed_at, closed_by, close_reason) on kept_report to pixconnect_service;

-- What was closed stays closed, as it was closed.
create function keep_closing() returns trigger language plpgsql as $$
begin
    raise exception 'the report % is closed', old.id
        using errcode = 'integrity_constraint_violation', constraint = 'closed_report_stays_closed';
end $$;
create trigger closed_report_stays_closed before update on kept_report for each row
    when (old.closed_at is not null
        and (new.closed_at, new.closed_by, new.close_reason)
            is distinct from (old.closed_at, old.closed_by, old.close_reason))
    execute function keep_closing();
