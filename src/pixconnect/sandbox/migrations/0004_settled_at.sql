-- When a payment or return from outside settled: at the service's acknowledgement, so that a statement can be in that order.
-- Rows from before have none, and count as settled when they were reported.

alter table arrival add column settled_at timestamptz;
