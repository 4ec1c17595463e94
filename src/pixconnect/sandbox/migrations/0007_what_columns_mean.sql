-- What each table and column means, for whoever looks at the database, and for the pages that are made from it. Comments keep
-- no writer waiting.
--
-- Service time is the instant that callers see, which a sandbox may move; real time is the server's clock.

comment on table settlement is 'What the service has ordered, and how each order ends: that is decided when it is taken.';
comment on column settlement.id is 'The end_to_end_id of a transfer, or the return_id of a refund.';
comment on column settlement.kind is 'Whether it is a transfer (order) or a refund.';
comment on column settlement.original_id is 'The payment that a refund gives back; null for a transfer.';
comment on column settlement.amount_cents is
    'How much was ordered, in cents, whatever it was: zero is rejected and remembered too.';
comment on column settlement.key is 'The Pix key that a transfer was sent to; null where it named an account.';
comment on column settlement.taken_at is 'When it was taken, by the sandbox''s clock.';
comment on column settlement.due_at is 'When it ends, by the sandbox''s clock.';
comment on column settlement.code is 'The code by which it is rejected; null settles it.';
comment on column settlement.is_due is 'Whether its time had come before the clock was moved back.';
comment on column settlement.is_open is 'Whether a report of it is still to be acknowledged.';
comment on column settlement.is_closed is
    'Whether it is no order: nothing had come under this id when its window was over, and nothing is taken any more.';

comment on table arrival is 'Payments and returns from outside that the service is told of.';
comment on column arrival.number is 'Counts up in the order in which they were made.';
comment on column arrival.id is 'The end_to_end_id of a payment, or the return_id of a return.';
comment on column arrival.kind is 'Whether it is a payment (credit) or a return.';
comment on column arrival.original_id is 'The transfer that a return gives back; null for a payment.';
comment on column arrival.amount_cents is 'How much, in cents.';
comment on column arrival.key is 'The Pix key that is paid; null where the payment names an account.';
comment on column arrival.report is 'What the service is told, as JSON.';
comment on column arrival.taken_at is 'When it was made, by the sandbox''s clock.';
comment on column arrival.due_at is 'When the service is told, by the sandbox''s clock.';
comment on column arrival.code is 'The code by which the service refused it; null where it has not.';
comment on column arrival.is_due is 'Whether its time had come before the clock was moved back.';
comment on column arrival.is_open is 'Whether the service has not acknowledged it yet.';
comment on column arrival.settled_at is
    'When it settled, by the sandbox''s clock; null before, and in rows that are older than this column.';
comment on column arrival.next_report is
    'What the service is told once it has acknowledged this report, as JSON; null at the last step.';
comment on column arrival.next_after_ms is 'How long after that acknowledgement it is told, in milliseconds.';

comment on table directory_entry is 'The Pix keys of people and shops outside.';
comment on column directory_entry.number is 'Counts up.';
comment on column directory_entry.key is 'The key.';
comment on column directory_entry.key_type is 'What kind of key it is.';
comment on column directory_entry.account_number is 'The number of the account that it leads to.';
comment on column directory_entry.name is 'The name of its owner.';
comment on column directory_entry.tax_id is 'The CPF or CNPJ of its owner.';

comment on table merchant_code is 'The QR codes of shops outside, which the service can pay.';
comment on column merchant_code.number is 'Counts up.';
comment on column merchant_code.txid is 'Its name on the network.';
comment on column merchant_code.token is 'The last part of the address that it leads to.';
comment on column merchant_code.key is 'The Pix key that is paid.';
comment on column merchant_code.amount_cents is 'How much, in cents.';
comment on column merchant_code.created_at is 'When it was made, by the sandbox''s clock.';
comment on column merchant_code.paid_by is 'The order that paid it; null until then.';

comment on table fault_rule is 'What the simulated network does wrong on purpose, as callers have set it.';
comment on column fault_rule.position is 'The place among the rules, of which the first that fits is taken.';
comment on column fault_rule.rule is 'The rule, as JSON.';
comment on column fault_rule.times_left is 'How often it is still taken; null is always.';

comment on table clock is 'How far the sandbox''s clock has been moved.';
comment on column clock.is_only is 'True: there is one row.';
comment on column clock.moved_by is 'How far.';

comment on table certificate is 'The certificate of the shops outside; its keys protect nothing but play money.';
comment on column certificate.is_only is 'True: there is one row.';
comment on column certificate.authority is 'The certificate of the authority that signed it, in DER.';
comment on column certificate.authority_key is 'The private key of that authority.';
comment on column certificate.leaf is 'The certificate itself, in DER.';
comment on column certificate.leaf_key is 'Its private key.';
comment on column certificate.expires_at is 'When it ends, in real time.';

comment on table schema_version is 'The migrations that made these tables.';
comment on column schema_version.version is 'The number of the migration.';
comment on column schema_version.name is 'Its name.';
comment on column schema_version.checksum is
    'The SHA-256 of its text, in hex: a program with another text refuses these tables.';
comment on column schema_version.applied_at is 'When it was applied, in real time.';
