-- outside a transaction
-- Each account moves its own orders.
create index concurrently open_order_due_there on open_order (institution_id, due_at) where institution_id is not null;
