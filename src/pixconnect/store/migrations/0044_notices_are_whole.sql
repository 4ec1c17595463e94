-- in batches
--
-- What one body tells has whatever becomes of the delivery that holds the body. Deliveries that were sent again without that one
-- waited for ever, and everything later of the same resource behind them: they follow it again.
with looked_at as materialized (
    select id, status, covered_by from delivery where id > $1 order by id fetch first 5000 rows with ties
),
stranded as materialized (
    select looked_at.id, first.id as first_id from looked_at join delivery as first on first.id = looked_at.covered_by
    where looked_at.status = 'pending' and first.status <> 'pending'
),
held as materialized (
    select id, status, due_at, attempts_count, failures_count, modified_at, covered_by from delivery
    where id = any(array(select id from stranded union select first_id from stranded))
    order by id for no key update
),
moved as (
    update delivery set status = first.status, due_at = first.due_at, attempts_count = first.attempts_count,
        failures_count = first.failures_count, modified_at = first.modified_at
    from held as own join held as first on first.id = own.covered_by
    where delivery.id = own.id and own.status = 'pending' and first.status <> 'pending'
)
select max(id) from looked_at;
