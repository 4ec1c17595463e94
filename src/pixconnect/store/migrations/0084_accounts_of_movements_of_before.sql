-- in batches
--
-- Movements of before get the account whose statement has their item. What no statement has is of the account on which the holder lies.
with looked_at as materialized (
    select id, holder_id, item_id, line_id from (
        select entry_id as id, holder_id, item_id, coalesce(opposite_of, item_id) as line_id from movement
    ) as moved
    where id > $1 order by id fetch first 5000 rows with ties
),
found as (
    select looked_at.holder_id, looked_at.item_id, coalesce((
        select item.institution_id from institution_account as account
        join institution_item as item on item.institution_id = account.id and item.item_id = line_id
        order by account.id = holder.institution_id desc, account.id limit 1
    ), case
        when line_id ~ '^(opening|closing)-balance:[0-9]{1,4}' then split_part(line_id, ':', 2)::smallint else holder.institution_id
    end) as institution_id
    from looked_at join holder on holder.id = looked_at.holder_id
),
filled as (
    update movement set institution_id = found.institution_id from found
    where movement.holder_id = found.holder_id and movement.item_id = found.item_id and movement.institution_id is null
        and found.institution_id is not null
)
select max(id) from looked_at;
