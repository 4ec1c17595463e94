-- What is said of people ends: their texts are emptied once no rule keeps them, and what is chained of them stays provable.

create table erased_text (
    kind text collate "C" not null check (kind in ('transfer', 'refund')),
    id bigint not null,
    holder_id bigint not null,
    part text not null check (part in ('message', 'all')),
    salt bytea,
    person_digest bytea,
    erased_at timestamptz not null default clock_timestamp(),
    primary key (holder_id, kind, id),
    check ((salt is null) = (person_digest is null) and octet_length(salt) = 16 and octet_length(person_digest) = 32)
);
grant select on erased_text to pixconnect_service;

create table text_sweep (
    kind text collate "C" primary key check (kind in ('transfer', 'refund', 'charge')),
    last_id bigint not null default 0,
    ended_at timestamptz
);
insert into text_sweep (kind) values ('transfer'), ('refund'), ('charge');
grant select on text_sweep to pixconnect_service;

-- Who a party was, where nobody may know it any more: as contracts' shapes show one of whom nothing was told.
create function erased_party() returns jsonb language sql immutable parallel safe as $$
    select '{"account_number": "0", "account_type": "TRANSACTIONAL", "branch": "0", "ispb": "99999999", "name": "-", "tax_id": "00000000000"}'::jsonb
$$;
grant execute on function erased_party() to pixconnect_service;

-- The contents of a charge without what was said to its payer, and without who that is.
create function empty_contents(contents text, with_payer boolean) returns text language sql immutable as $$
    select (
        contents::jsonb - '{address,question,lines}'::text[]
        || case when with_payer and contents::jsonb ? 'payer'
            then '{"payer": {"name": "-", "tax_id": "00000000000"}}'::jsonb else '{}'::jsonb end
    )::text
$$;

create or replace function check_payer() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if new.counterparty = erased_party() and exists (
        select from erased_text
        where kind = 'transfer' and erased_text.id = new.id and erased_text.holder_id = new.holder_id and part = 'all'
    ) then
        return null;
    end if;
    if new.direction <> 'IN' or new.institution_id is null or not exists (
        select from payer_completion as completion
        where completion.transfer_id = new.id and completion.holder_id = new.holder_id and completion.before = old.counterparty
    ) or exists (
        select from jsonb_each_text(old.counterparty) as told (member, content)
        where new.counterparty ->> member is distinct from content
            and content not in ('0', '-', '99999999', '00000000000') and content not like '%*%'
    ) then
        raise exception 'transfer % of holder % keeps what is known of its payer', new.id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_payer_becomes_known_once';
    end if;
    return null;
end $$;

-- Rows that never change but for the texts of a party who was erased.
create function keep_unless_erased() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if to_jsonb(new) - tg_argv[0] <> to_jsonb(old) - tg_argv[0] or to_jsonb(new) -> tg_argv[0] <> erased_party()
        or not exists (
            select from erased_text
            where kind = 'transfer' and id = new.transfer_id and holder_id = new.holder_id and part = 'all'
        )
    then
        raise exception 'rows of % are never changed or deleted', tg_table_name
            using errcode = 'integrity_constraint_violation', constraint = tg_table_name || '_is_append_only';
    end if;
    return new;
end $$;
drop trigger payer_completion_is_append_only on payer_completion;
create trigger payer_completion_is_append_only before delete or truncate on payer_completion
    for each statement execute function refuse_change();
create trigger keep_unless_erased before update on payer_completion
    for each row execute function keep_unless_erased('before');
drop trigger settled_payee_is_append_only on settled_payee;
create trigger settled_payee_is_append_only before delete or truncate on settled_payee
    for each statement execute function refuse_change();
create trigger keep_unless_erased before update on settled_payee
    for each row execute function keep_unless_erased('payee');

-- A salt may only be lost. One that was lost without its text is found by `verify`.
create function keep_salts() returns trigger
language plpgsql as $$
begin
    if (new.holder_id, new.position, cardinality(new.salts)) <> (old.holder_id, old.position, cardinality(old.salts)) or exists (
        select from unnest(new.salts, old.salts) as salt (now, before) where now <> before or now is not null and before is null
    ) then
        raise exception 'rows of % are never changed or deleted', tg_table_name
            using errcode = 'integrity_constraint_violation', constraint = 'person_salt_is_append_only';
    end if;
    return new;
end $$;
drop trigger person_salt_is_append_only on person_salt;
create trigger person_salt_is_append_only before delete or truncate on person_salt
    for each statement execute function refuse_change();
create trigger keep_salts before update on person_salt for each row execute function keep_salts();

create or replace function keep_opening_ended() returns trigger
language plpgsql as $$
begin
    -- The service may not write what was wanted: that is emptied with the charge's texts. It may not call what empties them either,
    -- so that is asked only where nothing else changes.
    if to_jsonb(new) - 'wanted' = to_jsonb(old) - 'wanted' then
        if new.wanted = empty_contents(old.wanted, true) then
            return new;
        end if;
    end if;
    raise exception 'the opening of charge % is % and stays so', old.txid, old.state
        using errcode = 'integrity_constraint_violation', constraint = 'an_opening_that_ended_stays_ended';
end $$;
create or replace function keep_change_ended() returns trigger
language plpgsql as $$
begin
    if to_jsonb(new) - 'contents' = to_jsonb(old) - 'contents' then
        if new.contents = empty_contents(old.contents, true) then
            return new;
        end if;
    end if;
    raise exception 'the change % of charge % is % and stays so', old.id, old.txid, old.state
        using errcode = 'integrity_constraint_violation', constraint = 'a_change_that_ended_stays_ended';
end $$;

-- A step that is over says whom it was for until that is erased with its transfer.
create function keep_closed_step() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if to_jsonb(new) - '{payee,owner_tax_id,owner_name}'::text[] <> to_jsonb(old) - '{payee,owner_tax_id,owner_name}'::text[]
        or not exists (
            select from transfer
            join erased_text as erased on erased.kind = 'transfer' and erased.id = transfer.id
                and erased.holder_id = transfer.holder_id and part = 'all'
            where end_to_end_id = new.order_name and direction = 'OUT'
        )
    then
        raise exception 'the step of % cannot go from % to %', new.order_name, old.state, new.state
            using errcode = 'integrity_constraint_violation', constraint = 'a_step_forgets_no_call';
    end if;
    return new;
end $$;
drop trigger check_step on rail_step;
create trigger check_new_step before insert on rail_step for each row execute function check_rail_step();
create trigger check_step before update on rail_step for each row when (old.state <> 'closed' or new.state <> 'closed')
    execute function check_rail_step();
create trigger keep_closed_step before update on rail_step for each row when (old.state = 'closed' and new.state = 'closed')
    execute function keep_closed_step();

-- The link of a holder's chain in which an entry is: links have their entries in the order of ids.
create function find_link(wanted_holder_id bigint, entry_id bigint) returns bigint
language plpgsql stable set search_path = {schema}, pg_temp as $$
declare
    low bigint := 1;
    high bigint := (select max(position) from entry_chain where holder_id = wanted_holder_id);
    middle bigint;
begin
    while low < high loop
        middle := (low + high + 1) / 2;
        if (select entry_ids[1] <= entry_id from entry_chain where holder_id = wanted_holder_id and position = middle) then
            low := middle;
        else
            high := middle - 1;
        end if;
    end loop;
    return low;
end $$;

-- What is left of the texts of these rows gets a digest and a salt of its own, and the salts of before are lost.
create function lose_salts(wanted text, wanted_ids bigint[], wanted_holders bigint[], of_transfers bigint[]) returns void
language plpgsql set search_path = {schema}, pg_temp as $$
#variable_conflict use_column
declare
    secret bytea := uuid_send(gen_random_uuid());
begin
    update erased_text set salt = remains.salt, person_digest = sha256(remains.salt || convert_to(remains.person, 'UTF8'))
    from (
        select distinct on (asked.id, asked.holder_id) asked.id, asked.holder_id, facts.person,
            substr(sha256(secret || int8send(asked.id) || int8send(asked.holder_id)), 1, 16) as salt
        from unnest(wanted_ids, wanted_holders, of_transfers) as asked (id, holder_id, transfer_id)
        join ledger_entry as entry on entry.transfer_id = asked.transfer_id and entry.holder_id = asked.holder_id
            and entry.refund_id is not distinct from case wanted when 'refund' then asked.id end
        join entry_facts as facts on facts.id = entry.id and facts.holder_id = entry.holder_id
        order by asked.id, asked.holder_id
    ) as remains
    where erased_text.kind = wanted and erased_text.id = remains.id and erased_text.holder_id = remains.holder_id;

    -- Each link once, however many of its entries they are.
    update person_salt set salts = (
        select array_agg(case when place = any(gone.places) then null else salt end order by place)
        from unnest(person_salt.salts) with ordinality as listed (salt, place)
    )
    from (
        select link.holder_id, link.position, array_agg(array_position(link.entry_ids, entry.id)::bigint) as places
        from unnest(wanted_ids, wanted_holders, of_transfers) as asked (id, holder_id, transfer_id)
        join ledger_entry as entry on entry.transfer_id = asked.transfer_id and entry.holder_id = asked.holder_id
            and entry.refund_id is not distinct from case wanted when 'refund' then asked.id end
        join entry_chain as link on link.holder_id = entry.holder_id and link.position = find_link(entry.holder_id, entry.id)
        where entry.id = any(link.entry_ids)
        group by link.holder_id, link.position
    ) as gone
    where person_salt.holder_id = gone.holder_id and person_salt.position = gone.position;
end $$;

-- Empties what no rule keeps any more of these transfers; answers of which, and what. The ages are at least those of the register
-- of people's data (domain/rules/retention.csv), whatever is asked for.
create function erase_transfers(wanted_ids bigint[], wanted_holders bigint[], message_age interval, party_age interval)
    returns table (id bigint, holder_id bigint, part text)
language plpgsql security definer set search_path = {schema}, pg_temp as $$
#variable_conflict use_column
declare
    messages_until timestamptz := clock_timestamp() - greatest(message_age, interval '90 days');
    parties_until timestamptz := clock_timestamp() - greatest(party_age, interval '1826 days');
    gone_ids bigint[];
    gone_holders bigint[];
    gone_parts text[];
begin
    -- Entries are chained before or after, and never while their texts change.
    perform from entry_chain_state for update;
    select array_agg(due.id), array_agg(due.holder_id), array_agg(due.part) into gone_ids, gone_holders, gone_parts from (
        select transfer.id, transfer.holder_id, case
                when counterparty <> erased_party() and coalesce(settled_at, created_at) < parties_until and not exists (
                    select from refund where refund.transfer_id = transfer.id and refund.holder_id = transfer.holder_id
                        and refund.created_at >= parties_until
                ) then 'all'
                when payer_message is not null then 'message'
            end as part
        from unnest(wanted_ids, wanted_holders) as asked (id, holder_id)
        join transfer on transfer.id = asked.id and transfer.holder_id = asked.holder_id
        where status <> 'PROCESSING' and returning_cents = 0 and coalesce(settled_at, created_at) < messages_until
            and not exists (
                select from kept_case where ended_at is null and kept_case.name in (end_to_end_id, network_id)
            )
        order by transfer.id, transfer.holder_id
        for no key update of transfer
    ) as due
    where due.part is not null;
    if gone_ids is null then
        return;
    end if;

    insert into erased_text (kind, id, holder_id, part)
        select 'transfer', each.id, each.holder_id, each.part
        from unnest(gone_ids, gone_holders, gone_parts) as each (id, holder_id, part)
        on conflict on constraint erased_text_pkey do update
        set part = case when erased_text.part = 'all' then 'all' else excluded.part end, erased_at = clock_timestamp();
    update transfer set payer_message = null, counterparty = case gone.part when 'all' then erased_party() else counterparty end
        from unnest(gone_ids, gone_holders, gone_parts) as gone (id, holder_id, part)
        where transfer.id = gone.id and transfer.holder_id = gone.holder_id;
    update payer_completion set before = erased_party()
        from unnest(gone_ids, gone_holders, gone_parts) as gone (id, holder_id, part)
        where transfer_id = gone.id and payer_completion.holder_id = gone.holder_id and gone.part = 'all';
    update settled_payee set payee = erased_party()
        from unnest(gone_ids, gone_holders, gone_parts) as gone (id, holder_id, part)
        where transfer_id = gone.id and settled_payee.holder_id = gone.holder_id and gone.part = 'all';
    update rail_step set owner_tax_id = null, owner_name = null,
            payee = case initiation_type when 'MANUAL' then '99999999/0/0' else '' end
        from unnest(gone_ids, gone_holders, gone_parts) as gone (id, holder_id, part)
        join transfer on transfer.id = gone.id and transfer.holder_id = gone.holder_id
        where order_name = transfer.end_to_end_id and direction = 'OUT' and kind = 'order' and state = 'closed'
            and gone.part = 'all';
    perform lose_salts('transfer', gone_ids, gone_holders, gone_ids);
    return query select * from unnest(gone_ids, gone_holders, gone_parts);
end $$;

create function erase_refunds(wanted_ids bigint[], wanted_holders bigint[], message_age interval)
    returns table (id bigint, holder_id bigint, part text)
language plpgsql security definer set search_path = {schema}, pg_temp as $$
#variable_conflict use_column
declare
    messages_until timestamptz := clock_timestamp() - greatest(message_age, interval '90 days');
    gone_ids bigint[];
    gone_holders bigint[];
    gone_transfers bigint[];
begin
    perform from entry_chain_state for update;
    select array_agg(due.id), array_agg(due.holder_id), array_agg(due.transfer_id)
        into gone_ids, gone_holders, gone_transfers
    from (
        select refund.id, refund.holder_id, refund.transfer_id from unnest(wanted_ids, wanted_holders) as asked (id, holder_id)
        join refund on refund.id = asked.id and refund.holder_id = asked.holder_id
        where description is not null and status <> 'PROCESSING' and coalesce(settled_at, created_at) < messages_until
            and not exists (
                select from kept_case
                where ended_at is null and kept_case.name in (return_id, network_id, original_end_to_end_id)
            )
        order by refund.id, refund.holder_id
        for no key update of refund
    ) as due;
    if gone_ids is null then
        return;
    end if;

    insert into erased_text (kind, id, holder_id, part)
        select 'refund', each.id, each.holder_id, 'message' from unnest(gone_ids, gone_holders) as each (id, holder_id);
    update refund set description = null from unnest(gone_ids, gone_holders) as gone (id, holder_id)
        where refund.id = gone.id and refund.holder_id = gone.holder_id;
    perform lose_salts('refund', gone_ids, gone_holders, gone_transfers);
    return query select each.id, each.holder_id, 'message' from unnest(gone_ids, gone_holders) as each (id, holder_id);
end $$;

-- Of a charge that nobody paid nothing is kept once it has ended; of a paid one what the rules of its payment keep. Charges are
-- in no chain.
create function erase_charges(
    wanted_ids bigint[], wanted_holders bigint[], unpaid_age interval, message_age interval, party_age interval
) returns table (id bigint, holder_id bigint, part text)
language plpgsql security definer set search_path = {schema}, pg_temp as $$
#variable_conflict use_column
declare
    now_at timestamptz := clock_timestamp();
    gone_ids bigint[];
    gone_holders bigint[];
    gone_parts text[];
begin
    select array_agg(due.id), array_agg(due.holder_id), array_agg(due.part) into gone_ids, gone_holders, gone_parts from (
        select charge.id, charge.holder_id, case
                when payer_name <> '-' and modified_at < now_at - case
                    when status in ('APPROVED', 'RETURNED') then greatest(party_age, interval '1826 days') else unpaid_age
                end then 'all'
                when contents::jsonb ?| '{address,question,lines}' then 'message'
            end as part
        from unnest(wanted_ids, wanted_holders) as asked (id, holder_id)
        join charge on charge.id = asked.id and charge.holder_id = asked.holder_id
        where status <> 'PENDING' and modified_at < now_at - case
            when status in ('APPROVED', 'RETURNED') then greatest(message_age, interval '90 days') else unpaid_age
        end
        order by charge.id, charge.holder_id
        for no key update of charge
    ) as due
    where due.part is not null;
    if gone_ids is null then
        return;
    end if;

    update charge set payer_name = case gone.part when 'all' then '-' else payer_name end,
            payer_tax_id = case gone.part when 'all' then '00000000000' else payer_tax_id end,
            contents = empty_contents(contents, gone.part = 'all')
        from unnest(gone_ids, gone_holders, gone_parts) as gone (id, holder_id, part)
        where charge.id = gone.id and charge.holder_id = gone.holder_id;
    update charge_revision set contents = empty_contents(contents, gone.part = 'all')
        from unnest(gone_ids, gone_holders, gone_parts) as gone (id, holder_id, part)
        where charge_id = gone.id and charge_revision.holder_id = gone.holder_id;
    -- What was asked of an institution is over once the charge has ended, and is not kept for its payment.
    update charge_opening set wanted = empty_contents(wanted, true)
        from unnest(gone_ids, gone_holders) as gone (id, holder_id)
        where charge_id = gone.id and charge_opening.holder_id = gone.holder_id and state <> 'opening';
    update charge_change set contents = empty_contents(contents, true)
        from unnest(gone_ids, gone_holders) as gone (id, holder_id)
        where charge_id = gone.id and charge_change.holder_id = gone.holder_id and contents is not null
            and state <> 'asked';
    return query select * from unnest(gone_ids, gone_holders, gone_parts);
end $$;

-- One step of a walk over all rows of a kind, which begins anew each day: what became due meanwhile is found by the next one,
-- and after a restore the same goes again. Answers how many rows it looked at, 0 at the end.
create function sweep_texts(wanted text, count_max integer, unpaid_age interval, message_age interval, party_age interval)
    returns table (looked_count bigint, erased_count bigint)
language plpgsql security definer set search_path = {schema}, pg_temp as $$
#variable_conflict use_column
declare
    walk text_sweep;
    young_at timestamptz := clock_timestamp() - least(unpaid_age, message_age);
    ids bigint[];
    holders bigint[];
    next_id bigint;
    erased bigint := 0;
begin
    select * into walk from text_sweep where kind = wanted for update skip locked;
    if not found or walk.ended_at > clock_timestamp() - interval '1 day' then
        return query select 0::bigint, 0::bigint;
        return;
    end if;
    execute format($sql$
        with seen as materialized (
            select id, holder_id, created_at, %s as is_due from %I where id > $1 order by id fetch first $2 rows with ties
        )
        select count(*), max(id) filter (where created_at < $3), array_agg(id) filter (where is_due),
            array_agg(holder_id) filter (where is_due)
        from seen
    $sql$, case wanted
        when 'transfer' then 'status <> ''PROCESSING'' and (payer_message is not null or created_at < $4)'
        when 'refund' then 'description is not null'
        else 'status <> ''PENDING'' and (payer_name <> ''-'' or contents is not null)'
    end, wanted) into looked_count, next_id, ids, holders
        using walk.last_id, count_max, young_at, clock_timestamp() - party_age;
    if ids is not null then
        erased := case wanted
            when 'transfer' then (select count(*) from erase_transfers(ids, holders, message_age, party_age))
            when 'refund' then (select count(*) from erase_refunds(ids, holders, message_age))
            else (select count(*) from erase_charges(ids, holders, unpaid_age, message_age, party_age))
        end;
    end if;
    -- Ids rise with time: behind the first that is too young there is nothing to find.
    if looked_count < count_max or next_id is null then
        update text_sweep set last_id = 0, ended_at = clock_timestamp() where kind = wanted;
        looked_count := 0;
    else
        update text_sweep set last_id = next_id, ended_at = null where kind = wanted;
    end if;
    return query select looked_count, erased;
end $$;
grant execute on function sweep_texts(text, integer, interval, interval, interval) to pixconnect_service;
grant execute on function erase_transfers(bigint[], bigint[], interval, interval) to pixconnect_operator;
grant execute on function erase_refunds(bigint[], bigint[], interval) to pixconnect_operator;
grant execute on function erase_charges(bigint[], bigint[], interval, interval, interval) to pixconnect_operator;

comment on table erased_text is
    'Transfers and refunds whose texts about people were emptied; only functions of the owner write it. Of charges none is noted.';
comment on column erased_text.kind is 'Transfer or refund.';
comment on column erased_text.id is 'Its id.';
comment on column erased_text.holder_id is 'Its holder.';
comment on column erased_text.part is 'Message: what was written with it; all: also who was on the other side.';
comment on column erased_text.salt is 'What is hashed with what is left of the texts; null where no entry has them.';
comment on column erased_text.person_digest is 'The SHA-256 of that salt and of what is left, which counts in place of the one that is chained.';
comment on column erased_text.erased_at is 'When something was emptied last, in real time.';
comment on table text_sweep is 'How far the walk is that empties what no rule keeps any more.';
comment on column text_sweep.kind is 'Of transfers, refunds or charges.';
comment on column text_sweep.last_id is 'Rows up to this id were looked at in this walk.';
comment on column text_sweep.ended_at is 'When the last walk came to its end, in real time; null while one is under way.';
