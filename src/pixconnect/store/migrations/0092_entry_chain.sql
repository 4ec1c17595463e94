-- Each holder's entries are chained by hash, so that whoever rewrites history has to rewrite all that came after it, and then
-- differs from any head of the chain that somebody had written down where they cannot reach.
--
-- Whoever writes an entry knows nothing of it: afterwards a worker calls `chain_entries`, which nobody else may do otherwise than
-- that function does. A link is what one call found of one holder, in the order of the entries' ids.

-- What of an entry is chained, in the one form in which it is hashed, and what of it is about a person. Only what never changes
-- stands here: of a payer who became known later what was known before. A later form needs a view of its own, and a column of the
-- chain that says which: what was chained stays as it is.
create view entry_facts as
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
        and deposit.holder_id = entry.holder_id;
grant select on entry_facts to pixconnect_service;

create table entry_chain (
    holder_id bigint not null,
    position bigint not null check (position >= 1),
    entry_ids bigint[] not null,
    digests bytea[] not null,
    person_digests bytea[] not null,
    head bytea not null check (octet_length(head) = 32),
    chained_at timestamptz not null,
    primary key (holder_id, position),
    constraint each_entry_has_its_digests check (
        cardinality(entry_ids) >= 1 and cardinality(digests) = cardinality(entry_ids)
        and cardinality(person_digests) = cardinality(entry_ids)
    )
);
-- Digests are chance: looking for what can be compressed would cost more than it saves.
alter table entry_chain alter column digests set storage external, alter column person_digests set storage external;
create index entry_chain_chained_at on entry_chain using brin (chained_at);
create trigger entry_chain_is_append_only before delete or update or truncate on entry_chain
    for each statement execute function refuse_change();
grant select on entry_chain to pixconnect_service;

-- Kept apart from the chain: a salt can be emptied together with the texts about a person, and every head stays as it is.
create table person_salt (
    holder_id bigint not null,
    position bigint not null,
    salts bytea[] not null,
    primary key (holder_id, position)
);
alter table person_salt alter column salts set storage external;
create trigger person_salt_is_append_only before delete or update or truncate on person_salt
    for each statement execute function refuse_change();
grant select on person_salt to pixconnect_service;

create table entry_chain_state (
    is_only_row boolean primary key default true check (is_only_row),
    chained_id bigint not null default 0,
    bound_id bigint not null default 0 check (bound_id >= chained_id),
    bound_at timestamptz not null default clock_timestamp()
) with (fillfactor = 20);
insert into entry_chain_state default values;
grant select on entry_chain_state to pixconnect_service;

-- Chains entries that will have no other before them any more; at most so many, the oldest first. Answers how many.
--
-- Entries have ids of the blocks that events have, so what the feed has settled is visible for good. Only play money takes its id
-- before its batch: what was settled is chained after a rest that is longer than any batch waits.
-- Each entry is read by its id and each cause by its own, however many there are and whatever the planner knows of them.
create function chain_entries(count_max integer, rest interval) returns bigint
language plpgsql security definer set search_path = {schema}, pg_temp
set plan_cache_mode = force_custom_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    state entry_chain_state;
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

    with found as materialized (
        select id, holder_id, facts, person, case when person is not null then uuid_send(gen_random_uuid()) end as salt
        from entry_facts where id > state.chained_id and id <= state.bound_id
        order by id fetch first (count_max) rows with ties
    ),
    salted as materialized (
        select id, holder_id, facts, salt, sha256(salt || convert_to(person, 'UTF8')) as person_digest from found
    ),
    digested as materialized (
        select id, holder_id, salt, person_digest,
            sha256(convert_to(facts, 'UTF8') || coalesce(person_digest, '')) as digest
        from salted
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
grant execute on function chain_entries(integer, interval) to pixconnect_service;

comment on view entry_facts is 'What of each entry is chained by hash, as the text that is hashed.';
comment on column entry_facts.id is 'The entry.';
comment on column entry_facts.holder_id is 'Its holder.';
comment on column entry_facts.facts is 'What it is and what caused it, as a JSON array.';
comment on column entry_facts.person is 'What of its cause is about a person, as a JSON array; null where nothing is.';
comment on table entry_chain is 'Each holder''s entries, chained by hash; rows are never changed or deleted.';
comment on column entry_chain.holder_id is 'Whose entries they are.';
comment on column entry_chain.position is 'Counts the links of a holder up from 1.';
comment on column entry_chain.entry_ids is 'The entries of this link, in their order.';
comment on column entry_chain.digests is 'The SHA-256 of each: of its facts, and behind them of what is about a person.';
comment on column entry_chain.person_digests is 'The SHA-256 of the salt and of what is about a person; null where nothing is.';
comment on column entry_chain.head is 'The SHA-256 of the head before it and of all digests of this link.';
comment on column entry_chain.chained_at is 'When they were chained, in service time.';
comment on table person_salt is 'What was hashed with each text about a person; rows are never changed or deleted.';
comment on column person_salt.holder_id is 'The holder of the link.';
comment on column person_salt.position is 'The link.';
comment on column person_salt.salts is 'Sixteen octets of chance for each of its entries; null where nothing is about a person.';
comment on table entry_chain_state is 'How far entries are chained, of all holders.';
comment on column entry_chain_state.is_only_row is 'True: there is one row.';
comment on column entry_chain_state.chained_id is 'Each entry up to this id is chained.';
comment on column entry_chain_state.bound_id is 'Up to this id each entry that there will be is there.';
comment on column entry_chain_state.bound_at is 'When that was so, in real time.';
