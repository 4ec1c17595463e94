-- outside a transaction
create index concurrently settlement_under_way on settlement (id) where crosses and due_at = 'infinity';
