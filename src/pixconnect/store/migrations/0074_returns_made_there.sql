-- What a person gives back in the institution's app, or the institution by itself, is a refund that nobody here asked for: it is
-- recorded as it is told, when it is over. A movement that proves to be such a refund, or an order, is taken back by its opposite.

alter table refund add column made_by text not null default 'service';
alter table refund add constraint made_there_is_told_at_its_end check (
    made_by = 'service' or made_by = 'institution' and flow = 'OUT' and not is_book and status = 'RETURNED' and handed_at is null
        and external_id like 'theirs:%'
) not valid;
alter table allowed_posting add column made_by text not null default 'service';
alter table allowed_transition add column made_by text not null default 'service';
insert into allowed_posting (kind, direction, is_book, status, debit_account, credit_account, made_by) values
    ('refund', 'OUT', false, 'RETURNED', 'available', 'settlement', 'institution'),
    ('refund', 'OUT', false, 'RETURNED', 'deficit', 'settlement', 'institution');
insert into allowed_transition (kind, direction, is_book, before, after, made_by) values
    ('refund', 'OUT', false, 'NEW', 'RETURNED', 'institution');

-- As before, and by who made it.
create or replace function check_refunds() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    ids bigint[];
    holder_ids bigint[];
    befores text[];
    misfit record;
begin
    if tg_op = 'INSERT' then
        select array_agg(id), array_agg(holder_id), array_agg('NEW'::text) into ids, holder_ids, befores from new_row;
    else
        select array_agg(id), array_agg(holder_id), array_agg(before) into ids, holder_ids, befores from (
            select id, holder_id, max(before) as before from (
                select id, holder_id, status as before, null as after from old_row
                union all
                select id, holder_id, null, status from new_row
            ) as side
            group by id, holder_id having max(before) is distinct from max(after)
        ) as moved;
    end if;
    if ids is null then
        return null;
    end if;

    select refund.id, refund.holder_id, refund.status, before into misfit
    from unnest(ids, holder_ids, befores) as moved (id, holder_id, before)
    left join refund on refund.id = moved.id and refund.holder_id = moved.holder_id
    left join transfer as original on original.id = refund.transfer_id and original.holder_id = refund.holder_id
    where not exists (
        select from allowed_transition as allowed
        where allowed.kind = 'refund' and allowed.direction = refund.flow and allowed.is_book = refund.is_book
            and allowed.before = moved.before and allowed.after = refund.status and allowed.made_by = refund.made_by
    ) or case refund.made_by when 'institution' then (
        -- Taken of what was there, in as many entries as that needs: each is judged by post_ledger_entries, and all make its amount.
        select coalesce(sum(entry.amount_cents), 0) from ledger_entry as entry
        where entry.transfer_id = refund.transfer_id and entry.holder_id = moved.holder_id and entry.refund_id = moved.id
    ) <> refund.amount_cents or original.institution_id is null or exists (
        -- One name is one fact: what is a movement already is taken back with this refund, or is none.
        select from institution_account as account
        join movement on movement.holder_id in (account.house_id, refund.holder_id)
        where account.id = original.institution_id and movement.item_id = refund.return_id and not exists (
            select from movement as opposite
            where opposite.holder_id = movement.holder_id and opposite.opposite_of = movement.item_id
        )
    ) else (
        select count(*) from ledger_entry as entry
        where entry.transfer_id = refund.transfer_id and entry.holder_id = moved.holder_id and entry.refund_id = moved.id
    ) <> (
        select count(*) from allowed_posting as allowed
        where allowed.kind = 'refund' and allowed.direction = refund.flow and allowed.is_book = refund.is_book
            and allowed.status = refund.status and allowed.made_by = refund.made_by
    ) end or refund.status <> 'ERROR' and (
        original.settled_at is null or original.direction = refund.flow or original.is_book <> refund.is_book
        or coalesce(original.network_id, original.end_to_end_id) <> refund.original_end_to_end_id
        or original.amount_cents < refund.amount_cents
    ) or refund.is_book and not (
        select count(*) = 2 and bool_or(leg.flow = 'IN') and bool_or(leg.flow = 'OUT')
            and bool_and(leg.is_book and leg.amount_cents = refund.amount_cents and leg.status = refund.status)
        from refund as leg where leg.return_id = refund.return_id
    ) or (
        refund.flow = 'OUT' and not refund.is_book and case refund.status
            when 'PROCESSING' then (
                select ordered.resource_id = refund.id and ordered.holder_id = refund.holder_id and ordered.slot = refund.slot
                    and ordered.network_id is not distinct from refund.network_id
                from open_order as ordered where ordered.name = refund.return_id
            ) is not true
            else moved.before = 'PROCESSING'
                and (select count(*) from open_order as ordered where ordered.name = refund.return_id) > 0
        end
        -- One that was refused at once was never counted.
        or (refund.status <> 'ERROR' or moved.before <> 'NEW') and (
            select coalesce(sum(given.amount_cents) filter (where given.status = 'RETURNED'), 0) <> original.returned_cents
                or coalesce(sum(given.amount_cents) filter (where given.status = 'PROCESSING' and given.flow = 'OUT'), 0)
                    <> original.returning_cents
            from refund as given where given.transfer_id = refund.transfer_id and given.holder_id = refund.holder_id
        )
        or moved.before = 'NEW' and (
            refund.namesake <> 0
            or not refund.is_book and (
                select count(*) from refund as other
                where other.return_id = refund.return_id and other.amount_cents <> refund.amount_cents
            ) + (
                select count(*) from refund as other
                where other.network_id = refund.return_id
                    and (refund.flow = 'OUT' or other.amount_cents <> refund.amount_cents)
            ) > 0
        )
    ) and (
        select count(*) from offending_row as listed
        where listed.holder_id = refund.holder_id and (
            listed.table_name = 'refund' and listed.id = refund.id
            or listed.table_name = 'transfer' and listed.id = refund.transfer_id
        )
    ) = 0
    limit 1;
    if found then
        raise exception 'refund % of holder % cannot go from % to % with the entries, original and order that it has',
            misfit.id, misfit.holder_id, misfit.before, misfit.status
            using errcode = 'integrity_constraint_violation', constraint = 'a_refund_has_what_belongs_to_it';
    end if;
    return null;
end $$;

-- As before, and of what the institution gave back each part is an entry.
create or replace function post_ledger_entries() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    holders_count bigint;
    numbered_count bigint;
    others_count bigint; -- of refunds, deposits, movements and repayments
    moved_count bigint; -- holders whose balance has moved
    misfit record;
begin
    if tg_table_name <> 'ledger_entry' or tg_table_schema <> current_schema() or tg_level <> 'STATEMENT' then
        raise exception 'entries are posted for the ledger alone' using errcode = 'insufficient_privilege';
    end if;

    select count(distinct holder_id), count(number), count(*) filter (where refund_id is not null or transfer_id is null)
    into holders_count, numbered_count, others_count from new_entry;

    update balance set
        available_cents = balance.available_cents + posting.available_cents,
        reserved_cents = balance.reserved_cents + posting.reserved_cents,
        deficit_cents = balance.deficit_cents + posting.deficit_cents,
        settlement_cents = balance.settlement_cents + posting.settlement_cents,
        funding_cents = balance.funding_cents + posting.funding_cents,
        last_number = balance.last_number + posting.numbered_count,
        last_entry_at = coalesce(posting.last_entry_at, balance.last_entry_at),
        modified_at = greatest(balance.modified_at, posting.modified_at)
    from (
        select holder_id,
            sum(amount_cents * ((credit_account = 'available')::int - (debit_account = 'available')::int)) as available_cents,
            sum(amount_cents * ((credit_account = 'reserved')::int - (debit_account = 'reserved')::int)) as reserved_cents,
            sum(amount_cents * ((debit_account = 'deficit')::int - (credit_account = 'deficit')::int)) as deficit_cents, -- owed
            sum(amount_cents * ((credit_account = 'settlement')::int - (debit_account = 'settlement')::int)) as settlement_cents,
            sum(amount_cents * ((credit_account = 'funding')::int - (debit_account = 'funding')::int)) as funding_cents,
            count(number) as numbered_count,
            min(created_at) filter (where number is not null) as first_entry_at,
            max(created_at) filter (where number is not null) as last_entry_at,
            max(created_at) as modified_at
        from new_entry group by holder_id
    ) as posting
    where balance.holder_id = posting.holder_id
        and (posting.first_entry_at is null or posting.first_entry_at > balance.last_entry_at);
    get diagnostics moved_count = row_count;
    if moved_count <> holders_count then
        raise exception 'a ledger entry has no balance to follow, or is dated before the one that it follows'
            using errcode = 'integrity_constraint_violation', constraint = 'entries_follow_each_other';
    end if;

    -- Money that is reserved stays within current funds, so a batch that only accepts orders has no numbers.
    if numbered_count > 0 then
        select entry.holder_id, entry.number into misfit from (
            select numbered.*,
                lag(number, 1, number - 1) over following as number_before,
                lag(running_balance_cents) over following as balance_before,
                lag(created_at) over following as created_before,
                lead(number) over following is null as is_last
            from (
                select holder_id, number, running_balance_cents, created_at,
                    case when credit_account in ('available', 'reserved') then amount_cents else -amount_cents end as change_cents
                from new_entry where number is not null
            ) as numbered
            window following as (partition by holder_id order by number)
        ) as entry
        left join balance on balance.holder_id = case when entry.is_last then entry.holder_id end
        where entry.number <> entry.number_before + 1
            or entry.running_balance_cents <> entry.balance_before + entry.change_cents
            or entry.created_at <= entry.created_before
            or entry.is_last and (
                entry.number <> balance.last_number
                or entry.running_balance_cents <> balance.available_cents + balance.reserved_cents
            )
        limit 1;
        if found then
            raise exception 'ledger entry % of holder % does not follow from the one before', misfit.number, misfit.holder_id
                using errcode = 'integrity_constraint_violation', constraint = 'entries_follow_each_other';
        end if;
    end if;

    -- What is allowed is looked up once for each way of moving money in this statement, not for each entry.
    if others_count = 0 then
        select moved.id, moved.holder_id into misfit from (
            select max(entry.id) as id, max(entry.holder_id) as holder_id, debit_account, credit_account, direction, is_book, status,
                bool_and(entry.amount_cents = transfer.amount_cents) as has_amount
            from new_entry as entry
            left join transfer on transfer.id = entry.transfer_id and transfer.holder_id = entry.holder_id
            group by 3, 4, 5, 6, 7
        ) as moved
        where has_amount is not true or not exists (
            select from allowed_posting as allowed
            where allowed.kind = 'transfer' and allowed.direction = moved.direction and allowed.is_book = moved.is_book
                and allowed.status = moved.status and allowed.debit_account = moved.debit_account
                and allowed.credit_account = moved.credit_account
        )
        limit 1;
    else -- What a null is compared with is not looked for: an entry has one cause, and costs one look.
        select moved.id, moved.holder_id into misfit from (
            select max(entry.id) as id, max(entry.holder_id) as holder_id, debit_account, credit_account,
                case when refund.id is not null then 'refund' when transfer.id is not null then 'transfer'
                    when deposit.id is not null then 'deposit' when repayment.id is not null then 'repayment'
                    when coalesce(movement.entry_id, lacking.deficit_entry_id) is not null then 'movement' end as kind,
                coalesce(refund.flow, transfer.direction, movement.direction, lacking.direction,
                    case when repayment.id is null then 'IN' else 'OUT' end) as direction,
                coalesce(refund.is_book, transfer.is_book, false) as is_book,
                coalesce(refund.status, transfer.status, movement.status, lacking.status, 'MADE') as status,
                coalesce(refund.made_by, 'service') as made_by,
                -- What the institution gave back is taken of what was there, in parts: all parts make its amount.
                bool_and(case refund.made_by when 'institution' then refund.amount_cents = (
                    select sum(part.amount_cents) from ledger_entry as part
                    where part.transfer_id = entry.transfer_id and part.holder_id = entry.holder_id
                        and part.refund_id = entry.refund_id
                ) else entry.amount_cents is not distinct from coalesce(
                    refund.amount_cents, transfer.amount_cents, deposit.amount_cents, repayment.amount_cents,
                    movement.amount_cents - movement.deficit_cents, lacking.deficit_cents
                ) end) as has_amount
            from (
                select *, case when refund_id is null and transfer_id is null then id end as lone_id from new_entry
            ) as entry
            left join refund on refund.id = entry.refund_id and refund.holder_id = entry.holder_id
                and refund.transfer_id = entry.transfer_id
            left join transfer on transfer.id = case when entry.refund_id is null then entry.transfer_id end
                and transfer.holder_id = entry.holder_id
            left join deposit on deposit.id = entry.lone_id and deposit.holder_id = entry.holder_id
            left join repayment on repayment.id = case when credit_account = 'deficit' then entry.lone_id end
                and repayment.holder_id = entry.holder_id
            left join movement on movement.entry_id = case
                    when 'deficit' not in (debit_account, credit_account) then entry.lone_id end
                and movement.holder_id = entry.holder_id
            left join movement as lacking on lacking.deficit_entry_id = case
                    when debit_account = 'deficit' then entry.lone_id end
                and lacking.holder_id = entry.holder_id
            group by 3, 4, 5, 6, 7, 8, 9
        ) as moved
        where not moved.has_amount or not exists (
            select from allowed_posting as allowed
            where allowed.kind = moved.kind and allowed.direction = moved.direction and allowed.is_book = moved.is_book
                and allowed.status = moved.status and allowed.debit_account = moved.debit_account
                and allowed.credit_account = moved.credit_account and allowed.made_by = moved.made_by
        )
        limit 1;
    end if;
    if found then
        raise exception 'ledger entry % of holder % has no cause', misfit.id, misfit.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'every_entry_has_a_cause';
    end if;
    return null;
end $$;

alter table movement add column opposite_of text collate "C";
alter table movement add constraint an_opposite_is_of_another check (opposite_of <> item_id) not valid;

-- As before, and what takes a movement back is its opposite.
create or replace function check_movements() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    misfit record;
begin
    select moved.item_id, moved.holder_id, moved.status into misfit from new_row as moved
    where not exists (
        select from allowed_transition as allowed
        where allowed.kind = 'movement' and allowed.direction = moved.direction and not allowed.is_book
            and allowed.before = 'NEW' and allowed.after = moved.status
    ) or (
        select count(*) from ledger_entry as entry
        join allowed_posting as allowed using (debit_account, credit_account)
        where entry.holder_id = moved.holder_id and entry.transfer_id is null and entry.refund_id is null
            and case entry.debit_account
                when 'deficit' then entry.id = moved.deficit_entry_id and entry.amount_cents = moved.deficit_cents
                else entry.id = moved.entry_id and entry.amount_cents = moved.amount_cents - moved.deficit_cents
            end
            and entry.id in (moved.entry_id, moved.deficit_entry_id)
            and allowed.kind = 'movement' and allowed.direction = moved.direction and not allowed.is_book
            and allowed.status = moved.status
    ) <> (moved.entry_id is not null)::int + (moved.deficit_entry_id is not null)::int
        or moved.opposite_of is not null and not exists (
            select from movement as undone
            where undone.holder_id = moved.holder_id and undone.item_id = moved.opposite_of and undone.opposite_of is null
                and undone.kind <> 'opening_balance' and undone.status = 'POSTED' and undone.direction <> moved.direction
                and undone.amount_cents = moved.amount_cents
        )
        or exists (select from transfer where transfer.end_to_end_id = moved.item_id)
        or exists (select from transfer where transfer.network_id = moved.item_id)
        or exists (select from refund where refund.return_id = moved.item_id)
        or exists (select from refund where refund.network_id = moved.item_id)
    limit 1;
    if found then
        raise exception 'movement % of holder % cannot be % with the entries and name that it has',
            misfit.item_id, misfit.holder_id, misfit.status
            using errcode = 'integrity_constraint_violation', constraint = 'a_movement_has_what_belongs_to_it';
    end if;
    return null;
end $$;

-- A line of the institution's that was a movement becomes what it has proved to be, once that movement is taken back.
create or replace function keep_joined() returns trigger language plpgsql as $$
begin
    if old.joined_kind = 'movement' and new.joined_kind in ('transfer', 'refund') and not new.is_reversal and exists (
        select from movement as opposite
        join holder on holder.id = opposite.holder_id and holder.institution_id = old.institution_id
        where opposite.opposite_of = old.joined_id
    ) then
        return new;
    end if;
    raise exception 'item % is joined to % %, and stays so', old.item_id, old.joined_kind, old.joined_id
        using errcode = 'integrity_constraint_violation', constraint = 'an_item_stays_joined';
end $$;

-- An institution may tell only later who paid: what was not known before becomes known, once.
create table payer_completion (
    transfer_id bigint not null,
    holder_id bigint not null,
    before jsonb not null,
    completed_at timestamptz not null check (isfinite(completed_at)),
    primary key (transfer_id, holder_id),
    foreign key (transfer_id, holder_id) references transfer (id, holder_id)
);
grant select, insert on payer_completion to pixconnect_service;
grant update (counterparty) on transfer to pixconnect_service;
create trigger payer_completion_is_append_only before delete or update or truncate on payer_completion
    for each statement execute function refuse_change();

create function check_payer() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
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
create trigger check_payer after update of counterparty on transfer
    for each row when (old.counterparty is distinct from new.counterparty) execute function check_payer();

alter table kept_report drop constraint kept_report_kind_check;
alter table kept_report add constraint kept_report_kind_check check (kind in (
    'credit', 'credit_accepted', 'credit_cancelled', 'return', 'settled', 'rejected', 'never_taken', 'taken', 'movement',
    'institution_return', 'unreadable'
)) not valid;

comment on column refund.made_by is
    'Who made it: this service, also where it records what others sent; or the institution, or a person there.';
comment on column allowed_posting.made_by is 'Of refunds, who made them: the service or the institution.';
comment on column allowed_transition.made_by is 'Of refunds, who made them: the service or the institution.';
comment on column movement.opposite_of is
    'The item whose movement it takes back, because that has proved to be a transfer or refund; null otherwise.';
comment on table payer_completion is
    'Payments whose payer an institution told only later; rows are never changed or deleted.';
comment on column payer_completion.transfer_id is 'The payment.';
comment on column payer_completion.holder_id is 'Its holder.';
comment on column payer_completion.before is 'What was known of the payer before, as JSON.';
comment on column payer_completion.completed_at is 'When the rest became known, in service time.';
