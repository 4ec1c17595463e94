-- The simulated network: settlements, its directory, rules of faults and certificates.

grant usage on schema sandbox to pixconnect_sandbox;

create table schema_version (
    version integer not null,
    name text not null,
    checksum text not null,
    applied_at timestamp with time zone default clock_timestamp() not null,
    constraint schema_version_pkey primary key (version)
);
comment on table schema_version is 'The baseline that made these tables, and the migrations that they have had since.';
comment on column schema_version.version is 'The number of the step: a baseline has that of the last migration in it.';
comment on column schema_version.name is 'Its name.';
comment on column schema_version.checksum is
    'The SHA-256 of its text, in hex: a program with another text refuses these tables.';
comment on column schema_version.applied_at is 'When it was applied, in real time.';
grant select on table schema_version to pixconnect_sandbox;

create table clock (
    is_only boolean default true not null,
    moved_by interval not null,
    constraint clock_pkey primary key (is_only),
    constraint clock_is_only_check check (is_only)
);
comment on table clock is 'How far the sandbox''s clock has been moved.';
comment on column clock.is_only is 'True: there is one row.';
comment on column clock.moved_by is 'How far.';
grant insert, select, update on table clock to pixconnect_sandbox;
insert into clock (moved_by) values ('0 s');

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
comment on table settlement is 'The service''s orders, and how each ends, which is decided when it is accepted.';
comment on column settlement.id is 'The end_to_end_id of a transfer, or the return_id of a refund.';
comment on column settlement.kind is 'Whether it is a transfer (order) or a refund.';
comment on column settlement.original_id is 'The payment that a refund gives back; null for a transfer.';
comment on column settlement.amount_cents is 'The ordered amount, in cents. An order for zero is rejected and recorded too.';
comment on column settlement.key is 'The Pix key that a transfer was sent to; null if it named an account.';
comment on column settlement.taken_at is 'When it was taken, by the sandbox''s clock.';
comment on column settlement.due_at is 'When it ends, by the sandbox''s clock.';
comment on column settlement.code is 'The code by which it is rejected; null settles it.';
comment on column settlement.is_due is 'Whether its time had come before the clock was moved back.';
comment on column settlement.is_open is 'Whether a report of it is still to be acknowledged.';
comment on column settlement.is_closed is
    'Whether it is no order: nothing had come under this id when its window was over, and nothing is taken any more.';
create index settlement_by_time on settlement (due_at, id) where code is null;
create index settlement_of_original on settlement (original_id) where original_id is not null;
grant insert, select, update on table settlement to pixconnect_sandbox;

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
    waits_for text,
    held_at timestamp with time zone,
    hold_ended_at timestamp with time zone,
    constraint arrival_pkey primary key (number),
    constraint arrival_id_key unique (id),
    constraint arrival_amount_cents_check check (amount_cents > 0),
    constraint arrival_kind_check check (kind in ('credit', 'return', 'movement_in', 'movement_out'))
) with (fillfactor=70);
comment on table arrival is 'Payments, returns and the institution''s own movements that the sandbox reports to the service.';
comment on column arrival.number is 'Counts up in the order in which they were made.';
comment on column arrival.id is 'The end_to_end_id of a payment, the return_id of a return, or the item of a movement.';
comment on column arrival.kind is
    'Whether it is a payment (credit), a return, or what the institution pays in or takes out (movement_in, movement_out).';
comment on column arrival.original_id is 'The transfer that a return gives back; null for all others.';
comment on column arrival.amount_cents is 'How much, in cents.';
comment on column arrival.key is 'The Pix key that is paid; null where the payment names an account.';
comment on column arrival.report is 'The report, as JSON.';
comment on column arrival.taken_at is 'When it was made, by the sandbox''s clock.';
comment on column arrival.due_at is 'When the report is due, by the sandbox''s clock.';
comment on column arrival.code is 'The service''s refusal code; null if not refused.';
comment on column arrival.is_due is 'Whether its time had come before the clock was moved back.';
comment on column arrival.is_open is 'Whether the service has not acknowledged it yet.';
comment on column arrival.settled_at is
    'When it settled, by the sandbox''s clock; null before, and in rows that are older than this column.';
comment on column arrival.next_report is
    'The report that follows once the service has acknowledged this one, as JSON; null at the last step.';
comment on column arrival.next_after_ms is 'Delay between that acknowledgement and the next report, in milliseconds.';
comment on column arrival.waits_for is 'For a fee, its payment while that has not settled; null for all others.';
comment on column arrival.held_at is 'Since when it is held as suspect, by the sandbox''s clock; null if it never was.';
comment on column arrival.hold_ended_at is
    'When it was released or returned, by the sandbox''s clock; null if it was not held or still is.';
create index arrival_by_time on arrival (coalesce(settled_at, due_at), id) where code is null and not is_open;
create index arrival_held_by_time on arrival (held_at, id) where held_at is not null;
create index arrival_hold_ended_by_time on arrival (hold_ended_at, id) where hold_ended_at is not null;
grant insert, select, update on table arrival to pixconnect_sandbox;

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
comment on table directory_entry is 'The Pix keys of people and shops outside.';
comment on column directory_entry.number is 'Counts up.';
comment on column directory_entry.key is 'The key.';
comment on column directory_entry.key_type is 'The key''s type.';
comment on column directory_entry.account_number is 'The number of the account that it leads to.';
comment on column directory_entry.name is 'The name of its owner.';
comment on column directory_entry.tax_id is 'The CPF or CNPJ of its owner.';
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
comment on table merchant_code is 'The QR codes of shops outside, which the service can pay.';
comment on column merchant_code.number is 'Counts up.';
comment on column merchant_code.txid is 'Its name on the network.';
comment on column merchant_code.token is 'The last part of the address that it leads to.';
comment on column merchant_code.key is 'The Pix key that is paid.';
comment on column merchant_code.amount_cents is 'How much, in cents.';
comment on column merchant_code.created_at is 'When it was made, by the sandbox''s clock.';
comment on column merchant_code.paid_by is 'The order that paid it; null until then.';
grant insert, select, update on table merchant_code to pixconnect_sandbox;

create table fault_rule (
    position integer not null,
    rule text not null,
    times_left integer,
    constraint fault_rule_pkey primary key ("position"),
    constraint fault_rule_times_left_check check (times_left >= 0)
);
comment on table fault_rule is 'Deliberate faults of the simulated network, as set by callers.';
comment on column fault_rule.position is 'Order among the rules: the first match applies.';
comment on column fault_rule.rule is 'The rule, as JSON.';
comment on column fault_rule.times_left is 'How often it is still taken; null is always.';
grant delete, insert, select, update on table fault_rule to pixconnect_sandbox;

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
comment on table certificate is 'The certificate of the shops outside; its keys protect nothing but play money.';
comment on column certificate.is_only is 'True: there is one row.';
comment on column certificate.authority is 'The certificate of the authority that signed it, in DER.';
comment on column certificate.authority_key is 'The private key of that authority.';
comment on column certificate.leaf is 'The certificate itself, in DER.';
comment on column certificate.leaf_key is 'Its private key.';
comment on column certificate.expires_at is 'When it ends, in real time.';
grant insert, select, update on table certificate to pixconnect_sandbox;
