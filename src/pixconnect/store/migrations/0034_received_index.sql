-- outside a transaction
-- Received Pix by the instant at which they settled, and those of a code without a charge by the code's txid.
create index concurrently transfer_received on transfer ((holder_id + 0), settled_at, id)
    where direction = 'IN' and settled_at is not null;
create index concurrently transfer_received_by_txid on transfer ((holder_id + 0), txid)
    where direction = 'IN' and settled_at is not null and charge_id is null and txid is not null;
