-- outside a transaction
-- Those of a debtor, and those that no code leads to: what a list looks for. A charge without a debtor costs nothing here.
create index concurrently charge_of_debtor on charge ((holder_id + 0), payer_tax_id, created_at, id) where payer_tax_id is not null;
create index concurrently charge_unbound on charge ((holder_id + 0), created_at, id) where is_unbound;
alter table charge validate constraint revision_has_contents;
alter table charge validate constraint charge_amount_cents_check;
alter table charge validate constraint charge_status_check;
alter table tally validate constraint tally_kind_check;
