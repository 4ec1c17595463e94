-- The simulated network: what it was ordered to settle, what comes from outside, its directory, its faults, its clock.
--
-- An order's outcome is decided and written when it is taken: `due_at` says when, `code` says how (null settles). Nothing is
-- written when it falls due; it has settled when its time has come, or when `is_due` says that it had before the clock was
-- moved back.

do $$
begin
    create role pixconnect_sandbox nologin;
exception when duplicate_object or unique_violation then
    null; -- roles belong to the whole server: another database of it has made this one
end
$$;

create table settlement (
    id text not null primary key,
    kind text not null check (kind in ('order', 'refund')),
    original_id text,
    amount_cents bigint not null, -- whatever was ordered: nothing at all is rejected (AM01), and remembered
    key text,
    taken_at timestamptz not null,
    due_at timestamptz not null,
    code text,
    is_due boolean not null default false,
    is_open boolean not null
) with (fillfactor = 70); -- room on the page for the one update, so that no index is touched by it

comment on column settlement.is_open is 'a report of it is still to be acknowledged';
comment on column settlement.is_due is 'its time had come, whatever the clock says now';

create index settlement_of_original on settlement (original_id) where original_id is not null;

create table arrival (
    number bigint not null primary key,
    id text not null unique,
    kind text not null check (kind in ('credit', 'return')),
    original_id text,
    amount_cents bigint not null check (amount_cents > 0),
    key text,
    report text not null,
    taken_at timestamptz not null,
    due_at timestamptz not null,
    code text,
    is_due boolean not null default false,
    is_open boolean not null
) with (fillfactor = 70);

comment on column arrival.report is 'what the service is told, as JSON';

create table directory_entry (
    number bigint not null primary key,
    key text not null unique,
    key_type text not null check (key_type in ('CPF', 'CNPJ', 'PHONE', 'EMAIL', 'EVP')),
    account_number text not null unique,
    name text not null,
    tax_id text not null
);

create table merchant_code (
    number bigint not null primary key,
    txid text not null unique,
    token text not null unique,
    key text not null,
    amount_cents bigint not null check (amount_cents > 0),
    created_at timestamptz not null,
    paid_by text
);

create table fault_rule (
    position integer not null primary key,
    rule text not null,
    times_left integer check (times_left >= 0)
);

create table clock (
    is_only boolean not null primary key default true check (is_only),
    moved_by interval not null
);

insert into clock (moved_by) values ('0');

create table certificate (
    is_only boolean not null primary key default true check (is_only),
    authority bytea not null,
    authority_key bytea not null,
    leaf bytea not null,
    leaf_key bytea not null,
    expires_at timestamptz not null
);

comment on table certificate is 'of the merchants outside; its keys protect nothing but play money';

grant usage on schema sandbox to pixconnect_sandbox;
grant select, insert, update on settlement, arrival, directory_entry, merchant_code, clock, certificate to pixconnect_sandbox;
grant select, insert, update, delete on fault_rule to pixconnect_sandbox;
