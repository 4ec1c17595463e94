-- outside a transaction
create index concurrently arrival_held_by_time on arrival (held_at, id) where held_at is not null;
create index concurrently arrival_let_go_by_time on arrival (let_go_at, id) where let_go_at is not null;
