-- At some institutions a first step finds the payee of a key and tells the name of the transfer; a second one sends it.
create table initiated_transfer (
    end_to_end_id text collate "C" primary key check (length(end_to_end_id) = 32 and end_to_end_id like 'E%'),
    holder_id bigint not null references holder (id),
    key text not null,
    key_type text not null,
    counterparty jsonb not null,
    created_at timestamptz not null check (isfinite(created_at))
);
-- No update and no delete: what somebody was told is what is sent.
grant select, insert on initiated_transfer to pixconnect_service;

comment on table initiated_transfer is
    'Names of transfers that holders were told at the faces of institutions that send in two steps; no money moves by it.';
comment on column initiated_transfer.end_to_end_id is 'The name, which the transfer has too once it is confirmed.';
comment on column initiated_transfer.holder_id is 'Who was told it, and alone can confirm it.';
comment on column initiated_transfer.key is 'The Pix key that is paid.';
comment on column initiated_transfer.key_type is 'What kind of key that is.';
comment on column initiated_transfer.counterparty is 'Whose the key was then: when another has it at the second step, nothing is sent.';
comment on column initiated_transfer.created_at is 'When it was told, service time.';
