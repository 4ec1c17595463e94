-- The schema sandbox as the migrations beside this file leave it; `make docs` writes it from a database that they have made. It
-- is for reading, and nothing runs it: `pixconnect migrate` runs the migrations, and a test holds that a database made from
-- this file is the same. A function that several migrations define stands here as the last of them left it, under their
-- numbers. Definitions are PostgreSQL's own, not the words of the migrations. Rows that migrations insert are left out.
-- `pixconnect migrate --roles-only` makes the roles; what only one mode grants is granted at each start
-- (src/pixconnect/foundation/privileges.py). A function that triggers call stands before the first table with such a trigger;
-- all others stand at the end.

create schema sandbox;
set search_path = sandbox;
set check_function_bodies = off;

grant usage on schema sandbox to pixconnect_sandbox;

create table schema_version (
    version integer not null,
    name text not null,
    checksum text not null,
    applied_at timestamp with time zone default clock_timestamp() not null,
    constraint schema_version_pkey primary key (version)
);
grant select on table schema_version to pixconnect_sandbox;

create table clock (
    is_only boolean default true not null,
    moved_by interval not null,
    constraint clock_pkey primary key (is_only),
    constraint clock_is_only_check check (is_only)
);
grant insert, select, update on table clock to pixconnect_sandbox;

create table settlement (
    id text not null,
    kind text not null,
    original_id text,
    amount_cents bigint not null,
    key text,
    taken_at timestamp with time zone not null,
    due_at timestamp with time zone not null,
    code text,
    is_due boolean default false not null,
    is_open boolean not null,
    is_closed boolean default false not null,
    constraint settlement_pkey primary key (id),
    constraint settlement_kind_check check (kind in ('order', 'refund'))
) with (fillfactor=70);
create index settlement_by_time on settlement (due_at, id) where code is null;
create index settlement_of_original on settlement (original_id) where original_id is not null;
grant insert, select, update on table settlement to pixconnect_sandbox;
comment on column settlement.is_due is 'its time had come, whatever the clock says now';
comment on column settlement.is_open is 'a report of it is still to be acknowledged';
comment on column settlement.is_closed is
    'no order: nothing had come under this id when its window was over, and nothing is taken';

create table arrival (
    number bigint not null,
    id text not null,
    kind text not null,
    original_id text,
    amount_cents bigint not null,
    key text,
    report text not null,
    taken_at timestamp with time zone not null,
    due_at timestamp with time zone not null,
    code text,
    is_due boolean default false not null,
    is_open boolean not null,
    settled_at timestamp with time zone,
    next_report text,
    next_after_ms integer,
    constraint arrival_pkey primary key (number),
    constraint arrival_id_key unique (id),
    constraint arrival_amount_cents_check check (amount_cents > 0),
    constraint arrival_kind_check check (kind in ('credit', 'return'))
) with (fillfactor=70);
create index arrival_by_time on arrival (coalesce(settled_at, due_at), id) where code is null and not is_open;
grant insert, select, update on table arrival to pixconnect_sandbox;
comment on column arrival.report is 'what the service is told, as JSON';
comment on column arrival.next_report is
    'what the service is told once it has acknowledged this report, as JSON; null at the last step';
comment on column arrival.next_after_ms is 'how long after that acknowledgement';

create table directory_entry (
    number bigint not null,
    key text not null,
    key_type text not null,
    account_number text not null,
    name text not null,
    tax_id text not null,
    constraint directory_entry_pkey primary key (number),
    constraint directory_entry_account_number_key unique (account_number),
    constraint directory_entry_key_key unique (key),
    constraint directory_entry_key_type_check check (key_type in ('CPF', 'CNPJ', 'PHONE', 'EMAIL', 'EVP'))
);
grant insert, select, update on table directory_entry to pixconnect_sandbox;

create table merchant_code (
    number bigint not null,
    txid text not null,
    token text not null,
    key text not null,
    amount_cents bigint not null,
    created_at timestamp with time zone not null,
    paid_by text,
    constraint merchant_code_pkey primary key (number),
    constraint merchant_code_token_key unique (token),
    constraint merchant_code_txid_key unique (txid),
    constraint merchant_code_amount_cents_check check (amount_cents > 0)
);
grant insert, select, update on table merchant_code to pixconnect_sandbox;

create table fault_rule (
    position integer not null,
    rule text not null,
    times_left integer,
    constraint fault_rule_pkey primary key ("position"),
    constraint fault_rule_times_left_check check (times_left >= 0)
);
grant delete, insert, select, update on table fault_rule to pixconnect_sandbox;

-- certificate: of the merchants outside; its keys protect nothing but play money
create table certificate (
    is_only boolean default true not null,
    authority bytea not null,
    authority_key bytea not null,
    leaf bytea not null,
    leaf_key bytea not null,
    expires_at timestamp with time zone not null,
    constraint certificate_pkey primary key (is_only),
    constraint certificate_is_only_check check (is_only)
);
grant insert, select, update on table certificate to pixconnect_sandbox;
comment on table certificate is 'of the merchants outside; its keys protect nothing but play money';
