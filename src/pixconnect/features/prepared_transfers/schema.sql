-- Transfers that are prepared or initiated first, and sent later.

create table initiated_transfer (
    end_to_end_id text collate "C" not null,
    holder_id bigint not null,
    key text not null,
    key_type text not null,
    counterparty jsonb not null,
    created_at timestamp with time zone not null,
    constraint initiated_transfer_pkey primary key (end_to_end_id),
    constraint initiated_transfer_created_at_check check (isfinite(created_at)),
    constraint initiated_transfer_end_to_end_id_check check (length(end_to_end_id) = 32 and end_to_end_id ~~ 'E%'),
    constraint initiated_transfer_holder_id_fkey foreign key (holder_id) references holder(id)
);
comment on table initiated_transfer is
    'Names of transfers issued to holders by API faces that send in two steps; no money moves by it.';
comment on column initiated_transfer.end_to_end_id is 'The name, which the transfer has too once it is confirmed.';
comment on column initiated_transfer.holder_id is 'The holder that was given the name; only this holder can confirm it.';
comment on column initiated_transfer.key is 'The Pix key that is paid.';
comment on column initiated_transfer.key_type is 'The key''s type.';
comment on column initiated_transfer.counterparty is
    'The key''s owner then: if another has it at the second step, nothing is sent.';
comment on column initiated_transfer.created_at is 'When the name was issued, in service time.';
grant insert, select on table initiated_transfer to pixconnect_service;

create table prepared_transfer (
    holder_id bigint not null,
    external_id text collate "C" not null,
    initiation_type text not null,
    amount_cents bigint not null,
    key text,
    key_type text,
    br_code text,
    counterparty jsonb,
    payer_message text,
    rejected_as text,
    created_at timestamp with time zone not null,
    constraint prepared_transfer_pkey primary key (external_id, holder_id),
    constraint it_names_whom_to_pay check ((initiation_type = 'MANUAL') = (counterparty is not null) and (initiation_type =
        'QRCODE') = (br_code is not null) and (initiation_type <> 'KEY' or key is not null) and (initiation_type <> 'QRCODE' or
        key is null) and (key is null) = (key_type is null)),
    constraint prepared_transfer_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint prepared_transfer_created_at_check check (isfinite(created_at)),
    constraint prepared_transfer_external_id_check check (length(external_id) >= 1 and length(external_id) <= 255),
    constraint prepared_transfer_initiation_type_check check (initiation_type in ('KEY', 'MANUAL', 'QRCODE')),
    constraint prepared_transfer_payer_message_check check (length(payer_message) <= 140),
    constraint prepared_transfer_holder_id_fkey foreign key (holder_id) references holder(id)
);
comment on table prepared_transfer is
    'Transfers that holders requested through API faces with a later approval step; no money moves by it.';
comment on column prepared_transfer.holder_id is 'The payer.';
comment on column prepared_transfer.external_id is 'The holder''s name for it, which the transfer has too once it is approved.';
comment on column prepared_transfer.initiation_type is 'How the payee is named: by key, by account, or by QR code.';
comment on column prepared_transfer.amount_cents is 'Cents.';
comment on column prepared_transfer.key is
    'The Pix key that is paid; beside an account, the one that a test environment pays in its place.';
comment on column prepared_transfer.key_type is 'The key''s type.';
comment on column prepared_transfer.br_code is 'The QR code that is paid.';
comment on column prepared_transfer.counterparty is 'The payee''s account and its owner.';
comment on column prepared_transfer.payer_message is 'The message to the payee.';
comment on column prepared_transfer.rejected_as is
    'The rejection code that a test environment returns; null leaves it to the network.';
comment on column prepared_transfer.created_at is 'When it was requested, in service time.';
create index prepared_transfer_list on prepared_transfer (holder_id, created_at, external_id);
grant insert, select on table prepared_transfer to pixconnect_service;
