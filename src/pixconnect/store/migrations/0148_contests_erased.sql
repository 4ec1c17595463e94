-- What is said of a Pix that is contested ends as the other side of it does, and nothing of a Pix is emptied while money of it is
-- blocked: whoever has to answer needs it.

alter table text_sweep drop constraint text_sweep_kind_check;
alter table text_sweep add constraint text_sweep_kind_check check (kind in ('transfer', 'refund', 'charge', 'infraction'));
insert into text_sweep (kind) values ('infraction');
comment on column text_sweep.kind is 'Of transfers, refunds, charges or infractions.';

-- Whether an institution blocks money because of this Pix: an infraction has an open block as long as nothing is decided of it.
create function is_blocked(paid_id bigint, paid_holder_id bigint) returns boolean
language sql stable set search_path = {schema}, pg_temp as $$
    select exists (
        select from block where block.holder_id = paid_holder_id and block.state = 'open' and block.transfer_id = paid_id
    )
$$;

grant execute on function is_blocked(bigint, bigint) to pixconnect_service;

-- A refusal of the institution may repeat the answer, so it goes with it. An answer that was given stays an answer.
create function erase_infractions(wanted_ids bigint[], wanted_holders bigint[], party_age interval)
    returns table (id bigint, holder_id bigint, part text)
language plpgsql security definer set search_path = {schema}, pg_temp as $$
#variable_conflict use_column
begin
    return query with due as (
        select infraction.id, infraction.holder_id
        from unnest(wanted_ids, wanted_holders) as asked (id, holder_id)
        join infraction on infraction.id = asked.id and infraction.holder_id = asked.holder_id
        where state in ('taken', 'released')
            and modified_at < clock_timestamp() - greatest(party_age, interval '1826 days')
            and (words is not null or defence <> '-' or defence_refusal <> '-')
            and not is_blocked(infraction.transfer_id, infraction.holder_id)
        order by infraction.id, infraction.holder_id
        for no key update of infraction
    )
    update infraction set words = null, defence = case when defence is not null then '-' end,
            defence_refusal = case when defence_refusal is not null then '-' end
        from due where infraction.id = due.id and infraction.holder_id = due.holder_id
        returning infraction.id, infraction.holder_id, 'all'::text;
end $$;
grant execute on function erase_infractions(bigint[], bigint[], interval) to pixconnect_operator;

-- The words of an answer change by being emptied alone, and no earlier than that may be done.
drop trigger keep_infraction on infraction;
create trigger keep_infraction before update on infraction for each row
    when (
        old.state in ('taken', 'released') and new.state <> old.state or old.state = 'answered' and new.state = 'open'
        or new.taken_cents < old.taken_cents
        or old.defence_state in ('sending', 'sent') and new.defence is distinct from old.defence
            and (new.defence <> '-' or old.state in ('open', 'answered')
                or old.modified_at > clock_timestamp() - interval '1826 days') is not false
        or old.defence_state = 'sent' and new.defence_state <> 'sent'
    )
    execute function keep_infraction();

-- As before, and not while money of the Pix is blocked.
create or replace function erase_transfers(wanted_ids bigint[], wanted_holders bigint[], message_age interval, party_age interval)
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
            and not is_blocked(transfer.id, transfer.holder_id)
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

create or replace function erase_refunds(wanted_ids bigint[], wanted_holders bigint[], message_age interval)
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
            and not is_blocked(refund.transfer_id, refund.holder_id)
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

create or replace function erase_charges(
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
        end and not exists (
            select from block join transfer on transfer.id = block.transfer_id and transfer.holder_id = block.holder_id
            where block.state = 'open' and block.holder_id = charge.holder_id and transfer.charge_id = charge.id
        )
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

-- As before, and infractions are walked over too.
create or replace function sweep_texts(wanted text, count_max integer, unpaid_age interval, message_age interval, party_age interval)
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
        when 'infraction' then 'state in (''taken'', ''released'') and created_at < $4 and (words is not null or defence <> ''-'')'
        else 'status <> ''PENDING'' and (payer_name <> ''-'' or contents is not null)'
    end, wanted) into looked_count, next_id, ids, holders
        using walk.last_id, count_max, young_at, clock_timestamp() - party_age;
    if ids is not null then
        erased := case wanted
            when 'transfer' then (select count(*) from erase_transfers(ids, holders, message_age, party_age))
            when 'refund' then (select count(*) from erase_refunds(ids, holders, message_age))
            when 'infraction' then (select count(*) from erase_infractions(ids, holders, party_age))
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
