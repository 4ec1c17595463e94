-- What leaves an account at an institution in a way that a stolen credential looks like pauses it at once, and is told; only an
-- operator resumes it.

create table account_alarm (
    id bigint generated always as identity primary key,
    institution_id smallint not null references institution_account,
    kind text collate "C" not null check (kind in ('strays', 'drain')),
    said text not null check (length(said) between 1 and 1000),
    noticed_at timestamptz not null check (isfinite(noticed_at)),
    ended_at timestamptz check (isfinite(ended_at)),
    ended_by text check (length(ended_by) between 1 and 255),
    constraint an_alarm_is_ended_by_somebody check ((ended_at is null) = (ended_by is null))
);
create unique index account_alarm_stands on account_alarm (institution_id) where ended_at is null;
create index account_alarm_last on account_alarm (institution_id, noticed_at);
grant select on account_alarm to pixconnect_service;
grant update (ended_at, ended_by) on account_alarm to pixconnect_operator;
create trigger account_alarm_is_append_only before delete or truncate on account_alarm
    for each statement execute function refuse_change();

-- Whoever notices it pauses the account, which the service may do in no other way.
create function raise_alarm(account_id smallint, what text, words text, at timestamptz) returns boolean
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    update institution_account set state = 'paused', revision = revision + 1
        where id = account_id and state = 'active' and removed_at is null;
    if not found then
        return false;
    end if;
    insert into account_alarm (institution_id, kind, said, noticed_at) values (account_id, what, words, at)
        on conflict do nothing;
    return true;
end $$;
revoke execute on function raise_alarm(smallint, text, text, timestamptz) from public;
grant execute on function raise_alarm(smallint, text, text, timestamptz) to pixconnect_service;

comment on table account_alarm is 'When an account at an institution was paused since what left it looked like theft; rows stay.';
comment on column account_alarm.id is 'Counts up.';
comment on column account_alarm.institution_id is 'The account.';
comment on column account_alarm.kind is
    'Strays: sends that nobody here ordered; drain: a large part of what was there left within an hour.';
comment on column account_alarm.said is 'What was seen, in words.';
comment on column account_alarm.noticed_at is 'When, in service time; what was before it raises no alarm again.';
comment on column account_alarm.ended_at is 'When an operator resumed the account, in real time; null while it is paused by it.';
comment on column account_alarm.ended_by is 'That operator.';
