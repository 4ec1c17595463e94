-- What is chained stays as it is; chaining an entry takes two thirds of what it took. Its salt was drawn from the system's
-- chance one by one, its texts were kept twice on the way, and an adjustment was looked for where there is none.
create or replace function chain_entries(count_max integer, rest interval) returns bigint
language plpgsql security definer set search_path = {schema}, pg_temp
set plan_cache_mode = force_custom_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    state entry_chain_state;
    -- Of it and of an entry's id its salt is made; nobody knows it once this has ended.
    secret bytea := uuid_send(gen_random_uuid());
    settled bigint;
    last_id bigint;
    chained_count bigint;
begin
    select * into state from entry_chain_state for update skip locked;
    if not found then
        return 0; -- somebody else chains them
    end if;
    if state.chained_id = state.bound_id then
        select settled_id into settled from event_feed_state;
        -- Where nothing happens, nothing is written.
        if settled > state.bound_id then
            update entry_chain_state set bound_id = settled, bound_at = clock_timestamp();
        end if;
        return 0;
    end if;
    -- A server's clock that was put back does not stop it.
    if clock_timestamp() - state.bound_at >= interval '0' and clock_timestamp() - state.bound_at < rest then
        return 0;
    end if;

    with digested as materialized (
        -- Each step computes its digest once, and hands its texts on to the next without keeping them.
        select id, holder_id, salt, person_digest,
            sha256(convert_to(facts, 'UTF8') || coalesce(person_digest, '')) as digest
        from (
            select id, holder_id, facts, salt, sha256(salt || convert_to(person, 'UTF8')) as person_digest
            from (
                select id, holder_id, facts, person,
                    case when person is not null then substr(sha256(secret || int8send(id)), 1, 16) end as salt
                from entry_facts where id > state.chained_id and id <= state.bound_id
                order by id fetch first (count_max) rows with ties
            ) as found
            offset 0
        ) as salted
        offset 0
    ),
    gathered as (
        select holder_id, array_agg(id order by id) as entry_ids, array_agg(digest order by id) as digests,
            array_agg(person_digest order by id) as person_digests, array_agg(salt order by id) as salts,
            string_agg(digest, '' order by id) as added
        from digested group by holder_id
    ),
    following as materialized (
        select gathered.*, coalesce(last.position, 0) + 1 as position,
            coalesce(last.head, sha256(convert_to('holder ' || gathered.holder_id, 'UTF8'))) as head_before
        from gathered
        left join lateral (
            select position, head from entry_chain where entry_chain.holder_id = gathered.holder_id
            order by position desc limit 1
        ) as last on true
    ),
    linked as (
        insert into entry_chain (holder_id, position, entry_ids, digests, person_digests, head, chained_at)
        select holder_id, position, entry_ids, digests, person_digests, sha256(head_before || added),
            clock_timestamp() + make_interval(secs => offset_us / 1e6)
        from following cross join clock
    ),
    kept as (
        insert into person_salt (holder_id, position, salts) select holder_id, position, salts from following
    )
    select count(*), max(id) into chained_count, last_id from digested;
    update entry_chain_state
    set chained_id = case when chained_count >= count_max then least(last_id, state.bound_id) else state.bound_id end;
    return chained_count;
end $$;

create or replace view entry_facts as
    select entry.id, entry.holder_id, json_build_array(
            'entry', entry.id, entry.holder_id, entry.debit_account, entry.credit_account, entry.amount_cents, entry.number,
            entry.running_balance_cents, entry.created_at at time zone 'UTC',
            case
                when refund.id is not null then json_build_array(
                    'refund', refund.id, refund.return_id, refund.flow, refund.amount_cents, refund.original_end_to_end_id,
                    refund.external_id, refund.reason
                )
                when transfer.id is not null then json_build_array(
                    'transfer', transfer.id, transfer.end_to_end_id, transfer.direction, transfer.amount_cents, transfer.txid,
                    transfer.external_id
                )
                when movement.item_id is not null then json_build_array(
                    'movement', movement.item_id, movement.kind, movement.direction, movement.amount_cents,
                    movement.deficit_cents, movement.end_to_end_id
                )
                when lacking.item_id is not null then json_build_array(
                    'movement', lacking.item_id, lacking.kind, lacking.direction, lacking.amount_cents, lacking.deficit_cents,
                    lacking.end_to_end_id
                )
                when repayment.id is not null
                    then json_build_array('repayment', repayment.source_entry_id, repayment.amount_cents)
                when deposit.id is not null then json_build_array('deposit', deposit.amount_cents)
                when adjustment.id is not null then json_build_array(
                    'adjustment', adjustment.id, adjustment.case_id, adjustment.kind, adjustment.direction, adjustment.account,
                    adjustment.amount_cents, adjustment.deficit_cents, adjustment.opposite_of
                )
            end
        )::text as facts,
        case
            when refund.id is not null then json_build_array(refund.description)
            when transfer.id is not null then json_build_array(
                transfer.own_key, coalesce(payer_completion.before, transfer.counterparty), transfer.payer_message
            )
            when movement.item_id is not null then json_build_array(movement.description)
            when lacking.item_id is not null then json_build_array(lacking.description)
        end::text as person
    from ledger_entry as entry
    left join refund on refund.id = entry.refund_id and refund.holder_id = entry.holder_id
    -- A key that is null is not looked for: an entry costs a look-up of its cause, and none of the causes that it has not.
    left join transfer on transfer.id = case when entry.refund_id is null then entry.transfer_id end
        and transfer.holder_id = entry.holder_id
    left join payer_completion on payer_completion.transfer_id = case when transfer.direction = 'IN' then transfer.id end
        and payer_completion.holder_id = entry.holder_id
    left join movement on movement.entry_id = case when entry.transfer_id is null then entry.id end
        and movement.holder_id = entry.holder_id
    left join movement as lacking on lacking.deficit_entry_id = case when entry.debit_account = 'deficit' then entry.id end
        and lacking.holder_id = entry.holder_id
    left join repayment on repayment.id = case when entry.credit_account = 'deficit' then entry.id end
        and repayment.holder_id = entry.holder_id
    left join deposit on deposit.id = case when entry.debit_account = 'funding' then entry.id end
        and deposit.holder_id = entry.holder_id
    left join adjustment
        on adjustment.holder_id
            = case when 'difference' in (entry.debit_account, entry.credit_account) then entry.holder_id end
        and entry.id = case entry.debit_account when 'deficit' then adjustment.deficit_entry_id else adjustment.entry_id end;
