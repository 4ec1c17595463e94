-- outside a transaction
-- Few orders have an id of the network's that is not ours, so few rows are in these.
create unique index concurrently transfer_network_id_is_used_once on transfer (network_id) where network_id is not null;
create unique index concurrently refund_network_id_is_used_once on refund (network_id) where network_id is not null;
alter table transfer validate constraint network_id_is_of_an_order;
alter table refund validate constraint network_id_is_of_an_order;
alter table kept_report validate constraint kept_report_kind_check;
