-- Cases: what an institution or the rail says and we do not know, or the other way round, from when it was found until it ended. A
-- case moves no money.

create table kept_case (
    id bigint generated always as identity primary key,
    kind text collate "C" not null check (kind in ('report', 'day', 'line_there', 'line_here', 'rail')),
    institution_id smallint references institution_account,
    holder_id bigint references holder,
    name text collate "C" not null check (length(name) between 1 and 255),
    amount_cents bigint check (amount_cents <> 0 and amount_cents between -999999999999 and 999999999999),
    said text not null check (length(said) between 1 and 1000),
    since timestamptz not null check (isfinite(since)),
    opened_at timestamptz not null default clock_timestamp(),
    opened_count integer not null default 1 check (opened_count > 0),
    ended_at timestamptz,
    ended_as text collate "C" check (ended_as in ('recorded', 'adjusted', 'closed')),
    ended_by text check (length(ended_by) between 1 and 255),
    end_reason text check (length(end_reason) between 1 and 1000),
    constraint a_difference_is_one_case unique nulls not distinct (kind, institution_id, name),
    constraint an_end_says_how check ((ended_at is null) = (ended_as is null)),
    constraint closing_a_case_says_who_and_why check (
        (ended_by is null) = (end_reason is null) and (ended_by is not null) = (ended_as in ('adjusted', 'closed'))
    ),
    constraint only_days_and_lines_lie_at_an_account check (
        (institution_id is not null) = (kind in ('day', 'line_there', 'line_here'))
    )
);
create index kept_case_open on kept_case (kind, since) where ended_at is null;
grant select on kept_case to pixconnect_service;
grant insert (kind, institution_id, holder_id, name, amount_cents, said, since) on kept_case to pixconnect_service;
grant update (holder_id, amount_cents, said, opened_count, ended_at, ended_as, ended_by, end_reason)
    on kept_case to pixconnect_service;

-- What it is about stays; what has ended is only opened again, which counts.
create function keep_case() returns trigger language plpgsql as $$
begin
    raise exception 'the case % is of one difference, and its end stays', old.id
        using errcode = 'integrity_constraint_violation', constraint = 'an_end_of_a_case_stays';
end $$;
create trigger an_end_of_a_case_stays before update on kept_case for each row
    when (
        (new.id, new.kind, new.institution_id, new.name, new.since, new.opened_at)
            is distinct from (old.id, old.kind, old.institution_id, old.name, old.since, old.opened_at)
        or new.opened_count <> old.opened_count + (old.ended_at is not null)::integer
    )
    execute function keep_case();

create table case_note (
    id bigint generated always as identity primary key,
    case_id bigint not null references kept_case,
    operator text not null check (length(operator) between 1 and 255),
    noted_at timestamptz not null default clock_timestamp(),
    note text not null check (length(note) between 1 and 1000)
);
create index case_note_by_case on case_note (case_id, id);
grant select on case_note to pixconnect_service;
grant insert (case_id, operator, note) on case_note to pixconnect_operator;
create trigger case_note_is_append_only before delete or update or truncate on case_note
    for each statement execute function refuse_change();

comment on table kept_case is 'What an institution or the rail says and we do not know, or the other way round, until it ended.';
comment on column kept_case.id is 'Counts up.';
comment on column kept_case.kind is
    'A kept report; a day whose balances and lines disagree; a line there or here that the other has not; or what verify found.';
comment on column kept_case.institution_id is 'The account at an institution; null where it is none''s.';
comment on column kept_case.holder_id is 'Whose it is, where that is known.';
comment on column kept_case.name is 'What is different: the report''s id, the day, the line''s id, or what verify names.';
comment on column kept_case.amount_cents is
    'By how much the institution says more than we do, in cents; negative where it says less, null where it is no sum.';
comment on column kept_case.said is 'What is known, in words.';
comment on column kept_case.since is 'Of when it is: of a day its begin, in service time; of a report when it came, in real time.';
comment on column kept_case.opened_at is 'When it was found first, in real time.';
comment on column kept_case.opened_count is 'How often it was opened: a difference that comes back opens its case again.';
comment on column kept_case.ended_at is 'When it ended, in real time; null while it is open.';
comment on column kept_case.ended_as is
    'Recorded: the missing fact came, and it ended by itself; adjusted: entries stand in for it; closed: by an operator''s word.';
comment on column kept_case.ended_by is 'The operator who ended it; null where it ended by itself.';
comment on column kept_case.end_reason is 'What was found, and done about it.';
comment on table case_note is 'Who looked at a case and what they found; rows are never changed or deleted.';
comment on column case_note.id is 'Counts up.';
comment on column case_note.case_id is 'The case.';
comment on column case_note.operator is 'Who looked.';
comment on column case_note.noted_at is 'When, in real time.';
comment on column case_note.note is 'What they found.';
