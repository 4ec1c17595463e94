-- outside a transaction
-- Lists of received Pix go by the network's instant where it is minutes from ours, which is so of few: they are found by these, and
-- taken from what the index by our instant counts. The expressions are those of store/standard/received.py and date_settled.
create index concurrently transfer_redated on transfer ((holder_id - 0), network_settled_at, id)
    where direction = 'IN' and settled_at is not null
        and (settled_at - network_settled_at >= interval '1 minute' or settled_at - network_settled_at <= interval '-1 minute');
create index concurrently transfer_redated_by_ours on transfer ((holder_id - 0), settled_at)
    where direction = 'IN' and settled_at is not null
        and (settled_at - network_settled_at >= interval '1 minute' or settled_at - network_settled_at <= interval '-1 minute');
