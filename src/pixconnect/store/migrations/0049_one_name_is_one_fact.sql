-- outside a transaction
-- A name of the network is one fact in each direction, whoever the holder is.
create unique index concurrently transfer_name_is_used_once on transfer (end_to_end_id, direction, namesake);
create unique index concurrently refund_name_is_used_once on refund (return_id, flow, namesake);
