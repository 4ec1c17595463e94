-- The directory counts what a payer looks up and does not pay, whichever process asks: so all processes share one count.

create table lookup_budget (
    holder_id bigint primary key references holder,
    tokens double precision not null check (tokens between -1e9 and 1e9),
    read_at timestamptz not null check (isfinite(read_at)),
    settled_until timestamptz not null check (isfinite(settled_until))
) with (fillfactor = 50);
grant select, insert, update on lookup_budget to pixconnect_service;

comment on table lookup_budget is
    'What holders have left of their look-ups of keys and accounts: a row for each that has spent one; no money hangs on it.';
comment on column lookup_budget.holder_id is 'Who looks up.';
comment on column lookup_budget.tokens is 'What was left at read_at; below zero where more was spent than there was.';
comment on column lookup_budget.read_at is 'Real time, from which tokens come back again.';
comment on column lookup_budget.settled_until is
    'Service time: payments that were made until then and have settled are among the tokens already.';
