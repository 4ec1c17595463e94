-- outside a transaction
--
-- 0014 and 0026 left these for ever.
alter table webhook_endpoint validate constraint event_types_are_bounded;
alter table event_partition validate constraint event_partition_parent_check;
