-- outside a transaction
create index concurrently movement_by_account on movement (institution_id, item_id) where institution_id is not null;
