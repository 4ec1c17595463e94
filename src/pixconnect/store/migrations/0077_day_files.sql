-- Files that institutions write of days that are over: asked for, and fetched once they are written.

create table institution_day_file (
    institution_id smallint not null references institution_account on delete cascade,
    day date not null check (isfinite(day)),
    name text not null check (length(name) between 1 and 100),
    asked_at timestamptz not null check (isfinite(asked_at)),
    ended_at timestamptz check (isfinite(ended_at)),
    failure text check (length(failure) between 1 and 300),
    primary key (institution_id, day),
    constraint what_failed_has_ended check (failure is null or ended_at is not null)
);
grant select, insert, update (name, asked_at, ended_at, failure) on institution_day_file to pixconnect_service;

comment on table institution_day_file is 'Files of days that an institution was asked to write.';
comment on column institution_day_file.institution_id is 'The account.';
comment on column institution_day_file.day is 'The day in Sao Paulo that the file is of.';
comment on column institution_day_file.name is 'What the file that was asked for last is fetched by.';
comment on column institution_day_file.asked_at is 'When it was asked for, in real time.';
comment on column institution_day_file.ended_at is 'When it was read or refused, in real time; null while it is awaited.';
comment on column institution_day_file.failure is 'Why it was refused; null where it was read.';
