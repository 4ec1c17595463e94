-- A suspect credit: as long as the institution holds it, its transfer is under way and its block has all of it; once the transfer has
-- ended the block has ended too, and is empty.

create function check_suspect_credit() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if tg_table_name = 'transfer' and exists (
        -- Few of a holder are open, and an index has these.
        select from block
        where block.holder_id = new.holder_id and block.state = 'open' and block.transfer_id = new.id
            and block.kind = 'precautionary'
    ) or tg_table_name = 'block' and exists (
        select from block
        left join transfer on transfer.id = block.transfer_id and transfer.holder_id = block.holder_id
        where block.id = new.id and block.holder_id = new.holder_id and (
            transfer.id is null or (block.state = 'open') <> (transfer.status = 'PROCESSING')
            or block.state = 'open' and block.covered_cents <> transfer.amount_cents
            or block.covered_cents <> block.held_cents or block.held_cents <> block.wanted_cents
        )
    ) then
        raise exception 'a suspect credit of holder % is not held as its transfer says', new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_suspect_credit_is_held_whole';
    end if;
    return null;
end $$;
-- Judged when all of a transaction is written: block and transfer are written in any order.
create constraint trigger check_suspect_credit after insert or update on block deferrable initially deferred
    for each row when (new.kind = 'precautionary') execute function check_suspect_credit();
create constraint trigger check_suspect_credit after update on transfer deferrable initially deferred
    for each row when (old.direction = 'IN' and old.status = 'PROCESSING' and new.status <> 'PROCESSING')
    execute function check_suspect_credit();
