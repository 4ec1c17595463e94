-- outside a transaction
-- What left an account within an hour is looked at every 20 seconds, and must not cost what its history is long.
create index concurrently refund_left on refund (settled_at) where flow = 'OUT' and not is_book and settled_at is not null;
create index concurrently movement_made on movement (institution_id, created_at) where institution_id is not null;
