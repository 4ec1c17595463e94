-- What payers contest: the sandbox is the holder's institution, which blocks, judges and gives back. Each row has what the service was
-- told last, and what it will be told when its time has come.

create table infraction (
    number bigint primary key,
    name text not null unique,
    report text not null,
    sequence integer not null,
    is_open boolean not null,
    judged text not null check (judged in ('by_answer', 'take', 'release', 'never')),
    defence text,
    next_report text,
    taken_at timestamptz not null,
    due_at timestamptz,
    is_due boolean not null default false
);
grant select, insert, update on infraction to pixconnect_sandbox;

comment on table infraction is 'Payments that somebody outside contests, as the service is told of them.';
comment on column infraction.number is 'Counts up in the order in which they were opened.';
comment on column infraction.name is 'Its name; what is told of it has this name and its sequence.';
comment on column infraction.report is 'What the service was told last, as JSON.';
comment on column infraction.sequence is 'Counts what it was told.';
comment on column infraction.is_open is 'Whether it has not acknowledged that yet.';
comment on column infraction.judged is 'How it is judged when the time to answer is over.';
comment on column infraction.defence is 'What the holder answered; null where nothing.';
comment on column infraction.next_report is 'What the service is told next, as JSON; null where nothing is to come.';
comment on column infraction.taken_at is 'When this was decided, by the sandbox''s clock.';
comment on column infraction.due_at is 'When the service is told next, by the sandbox''s clock; null where nothing is to come.';
comment on column infraction.is_due is 'Whether its time had come before the clock was moved back.';
