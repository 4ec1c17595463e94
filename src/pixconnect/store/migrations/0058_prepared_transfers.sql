-- At some institutions a transfer is prepared first and approved later, and each webhook has a name, and a text by which its
-- receiver knows it; their callbacks are signed with a key that they publish.
create table prepared_transfer (
    holder_id bigint not null references holder (id),
    external_id text collate "C" not null check (length(external_id) between 1 and 255),
    initiation_type text not null check (initiation_type in ('KEY', 'MANUAL', 'QRCODE')),
    amount_cents bigint not null check (amount_cents between 1 and 999999999999),
    key text,
    key_type text,
    br_code text,
    counterparty jsonb,
    payer_message text check (length(payer_message) <= 140),
    rejected_as text,
    created_at timestamptz not null check (isfinite(created_at)),
    primary key (external_id, holder_id),
    constraint it_names_whom_to_pay check (
        (initiation_type = 'MANUAL') = (counterparty is not null) and (initiation_type = 'QRCODE') = (br_code is not null)
        and (initiation_type <> 'KEY' or key is not null)
        and (initiation_type <> 'QRCODE' or key is null) and (key is null) = (key_type is null)
    )
);
create index prepared_transfer_list on prepared_transfer (holder_id, created_at, external_id);
-- No update and no delete: what was prepared is what is approved.
grant select, insert on prepared_transfer to pixconnect_service;

comment on table prepared_transfer is
    'What holders have asked to send at the faces of institutions where somebody approves it afterwards; no money moves by it.';
comment on column prepared_transfer.holder_id is 'Who sends.';
comment on column prepared_transfer.external_id is 'The holder''s name for it, which the transfer has too once it is approved.';
comment on column prepared_transfer.initiation_type is 'How the payee is named: by key, by account, or by QR code.';
comment on column prepared_transfer.amount_cents is 'Cents.';
comment on column prepared_transfer.key is 'The Pix key that is paid; beside an account, the one that a test environment pays in its place.';
comment on column prepared_transfer.key_type is 'What kind of key that is.';
comment on column prepared_transfer.br_code is 'The QR code that is paid.';
comment on column prepared_transfer.counterparty is 'The account that is paid, and whose it is.';
comment on column prepared_transfer.payer_message is 'What the payee is told.';
comment on column prepared_transfer.rejected_as is 'Why a test environment says that it was rejected; null is what the network says.';
comment on column prepared_transfer.created_at is 'When it was asked for, service time.';

alter table webhook_endpoint add column name text;
alter table webhook_endpoint add column authorization_sealed bytea;
comment on column webhook_endpoint.name is 'Its owner''s name for it, at faces of institutions where webhooks have one.';
comment on column webhook_endpoint.authorization_sealed is
    'What it is sent as Authorization, sealed; null where its owner has said nothing.';

create table callback_key (
    key_identifier text primary key check (key_identifier ~ '^[0-9a-f]{64}$'),
    profile text not null,
    public_pem text not null,
    private_sealed bytea not null,
    created_at timestamptz not null check (isfinite(created_at))
);
grant select, insert on callback_key to pixconnect_service;
comment on table callback_key is
    'The keys that sign callbacks as institutions sign them that publish theirs; where the newest cannot be opened, another is made.';
comment on column callback_key.key_identifier is 'The SHA-256 of the public key in DER, in hexadecimal digits.';
comment on column callback_key.profile is 'The institution as which it signs.';
comment on column callback_key.public_pem is 'The public key, as it is published.';
comment on column callback_key.private_sealed is 'The private key, sealed.';
comment on column callback_key.created_at is 'Real time.';
