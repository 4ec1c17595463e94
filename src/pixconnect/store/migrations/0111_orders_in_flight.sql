-- outside a transaction
alter table rail_step validate constraint an_order_has_its_payee;
create index concurrently rail_step_in_flight on rail_step (institution_id, called_at)
    where kind = 'order' and state in ('calling', 'asked');
