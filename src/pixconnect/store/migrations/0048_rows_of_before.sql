-- Rows that were there before a rule, and that break it. The operator who migrates sees them first; with his consent they are listed
-- here, where the new rules pass them over, so that what is under way can still end. Only the owner adds to the list.

create table offending_row (
    table_name text not null,
    id bigint not null,
    holder_id bigint not null,
    rule text not null,
    found_at timestamptz not null default clock_timestamp(),
    primary key (table_name, id, holder_id, rule)
);
grant select on offending_row to pixconnect_service;

-- Tells rows of one name apart that were there before a name was one fact: 0 for every other row, and for every new one.
alter table transfer add column namesake smallint not null default 0;
alter table refund add column namesake smallint not null default 0;
