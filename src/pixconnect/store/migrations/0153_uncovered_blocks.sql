-- outside a transaction
-- Whoever moves money of a holder with blocks looks for those that more can be blocked for; nearly all of them are covered.
create index concurrently block_uncovered on block (holder_id, created_at, id) where state = 'open' and covered_cents < held_cents;
