-- outside a transaction
-- A statement is read in pages, in the order in which items settled.
create index concurrently settlement_by_time on settlement (due_at, id) where code is null;
create index concurrently arrival_by_time on arrival ((coalesce(settled_at, due_at)), id) where code is null and not is_open;
