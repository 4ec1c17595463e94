-- The webhook of a key may have been set at the face of an institution, which tells other things and in another way.
alter table webhook_endpoint add column profile text;
alter table webhook_endpoint add column only_with_txid boolean not null default false;
comment on column webhook_endpoint.profile is
    'The institution as which the webhook of a key is told; null is as the central bank''s Pix API has it.';
comment on column webhook_endpoint.only_with_txid is 'Whether the webhook of a key is not told of a Pix without a txid.';
comment on column transfer.own_key is
    'The holder''s Pix key: by which the payer of an incoming one found it, or by which it sent one at an institution''s face.';
comment on column transfer.payer_message is 'What the payer wrote.';
