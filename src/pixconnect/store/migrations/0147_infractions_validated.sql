-- outside a transaction
alter table event validate constraint event_resource_check;
