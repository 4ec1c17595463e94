-- outside a transaction
-- What a transfer or a refund does to a balance it does once; and whoever looks up its entries finds them here.
create unique index concurrently ledger_entry_once on ledger_entry
    (transfer_id, holder_id, refund_id, debit_account, credit_account) nulls not distinct where transfer_id is not null;
