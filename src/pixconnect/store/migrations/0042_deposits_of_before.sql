-- in batches
--
-- Entries of deposits of before 0010 get their cause: the deposit that each was. Nothing tells them from what somebody might have
-- planted then, because nothing kept causes yet.
with looked_at as materialized (
    select * from ledger_entry where id > $1 order by id fetch first 5000 rows with ties
),
caused as (
    insert into deposit (id, holder_id, amount_cents, created_at)
    select id, holder_id, amount_cents, created_at from looked_at
    where debit_account = 'funding' and credit_account = 'available' and transfer_id is null and refund_id is null
    on conflict do nothing
)
select max(id) from looked_at;
