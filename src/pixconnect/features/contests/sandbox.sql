-- What the simulated network keeps of contests.

create table infraction (
    number bigint not null,
    name text not null,
    report text not null,
    sequence integer not null,
    is_open boolean not null,
    judged text not null,
    defence text,
    next_report text,
    taken_at timestamp with time zone not null,
    due_at timestamp with time zone,
    is_due boolean default false not null,
    constraint infraction_pkey primary key (number),
    constraint infraction_name_key unique (name),
    constraint infraction_judged_check check (judged in ('by_answer', 'take', 'release', 'never'))
);
comment on table infraction is 'Payments that an outside payer contests, as reported to the service.';
comment on column infraction.number is 'Counts up in the order in which they were opened.';
comment on column infraction.name is 'The infraction''s name; each report of it has this name and its sequence.';
comment on column infraction.report is 'The last report sent to the service, as JSON.';
comment on column infraction.sequence is 'Number of reports sent.';
comment on column infraction.is_open is 'Whether it has not acknowledged that yet.';
comment on column infraction.judged is 'How it is judged when the time to answer is over.';
comment on column infraction.defence is 'The holder''s answer; null without one.';
comment on column infraction.next_report is 'The next report, as JSON; null if none is due.';
comment on column infraction.taken_at is 'When this was decided, by the sandbox''s clock.';
comment on column infraction.due_at is 'When the next report is due, by the sandbox''s clock; null if none is due.';
comment on column infraction.is_due is 'Whether its time had come before the clock was moved back.';
grant insert, select, update on table infraction to pixconnect_sandbox;
