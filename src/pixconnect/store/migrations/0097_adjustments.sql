-- Adjusting entries: what a case says and nothing records, as two operators want it. They move money between what is available and the
-- holder's account difference, so that settlement stays minus what the institution has told.

alter table balance add column difference_cents bigint not null default 0;
alter table balance drop constraint accounts_are_balanced;
alter table balance add constraint accounts_are_balanced check (
    available_cents + reserved_cents + settlement_cents + funding_cents + difference_cents - deficit_cents = 0
) not valid;
drop trigger balance_follows_entries on balance;
create trigger balance_follows_entries before update of available_cents, reserved_cents, deficit_cents, settlement_cents,
    funding_cents, difference_cents, last_number, last_entry_at on balance
    for each row execute function refuse_balance_without_entry();

create table adjustment (
    id bigint not null check (id between 1 and 9007199254740991),
    holder_id bigint not null references balance,
    case_id bigint not null references kept_case,
    kind text collate "C" not null check (kind in ('bank_error', 'our_error', 'found', 'written_off')),
    direction text not null check (direction in ('IN', 'OUT')),
    account text collate "C" not null check (account in ('available', 'settlement')),
    amount_cents bigint not null check (amount_cents between 1 and 999999999999),
    deficit_cents bigint not null default 0,
    entry_id bigint,
    deficit_entry_id bigint,
    opposite_of bigint,
    proposed_by text not null check (length(proposed_by) between 1 and 255),
    confirmed_by text not null check (length(confirmed_by) between 1 and 255),
    created_at timestamptz not null check (isfinite(created_at)),
    primary key (id, holder_id),
    constraint adjusted_by_two check (confirmed_by <> proposed_by),
    constraint adjusted_with_its_entries check (
        (entry_id is not null) = (amount_cents > deficit_cents) and (deficit_entry_id is not null) = (deficit_cents > 0)
        and deficit_cents between 0 and amount_cents and id = coalesce(entry_id, deficit_entry_id)
        and (deficit_cents = 0 or direction = 'OUT' and account = 'available')
    ),
    constraint only_a_loss_is_taken_over check (account = 'available' or kind = 'written_off' and opposite_of is null),
    constraint adjustment_is_undone_once unique (opposite_of, holder_id),
    constraint an_opposite_is_of_an_adjustment foreign key (opposite_of, holder_id) references adjustment (id, holder_id)
);
create unique index adjustment_by_entry on adjustment (entry_id, holder_id);
create unique index adjustment_by_deficit_entry on adjustment (deficit_entry_id, holder_id);
create index adjustment_by_case on adjustment (case_id);
grant select on adjustment to pixconnect_service;
grant insert on adjustment to pixconnect_operator;
create trigger adjustment_is_append_only before delete or update or truncate on adjustment
    for each statement execute function refuse_change();

-- As a status stands which of the two the difference is settled with: what is available, or at the end what is settled.
insert into allowed_posting (kind, direction, is_book, status, debit_account, credit_account) values
    ('adjustment', 'IN', false, 'available', 'difference', 'available'),
    ('adjustment', 'OUT', false, 'available', 'available', 'difference'),
    ('adjustment', 'OUT', false, 'available', 'deficit', 'difference'),
    ('adjustment', 'IN', false, 'settlement', 'settlement', 'difference'),
    ('adjustment', 'OUT', false, 'settlement', 'difference', 'settlement');

-- It stays within its case, which is one of what has no id of its own; who lies on another account is not touched by it.
create function check_adjustments() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    misfit record;
begin
    select made.id, made.holder_id into misfit from new_row as made
    join kept_case as ours on ours.id = made.case_id
    join holder on holder.id = made.holder_id
    left join adjustment as undone on undone.id = made.opposite_of and undone.holder_id = made.holder_id
    where ours.kind not in ('day', 'line_here') or ours.amount_cents is null
        or holder.institution_id is distinct from ours.institution_id
        or ours.ended_at is not null and made.opposite_of is null and made.kind <> 'written_off'
        or made.opposite_of is not null and (
            undone.opposite_of is not null or undone.account <> 'available' or undone.case_id <> made.case_id
            or undone.amount_cents <> made.amount_cents or undone.direction = made.direction
        )
        or (
            select sum(case each.direction when 'IN' then each.amount_cents else -each.amount_cents end)
            from adjustment as each where each.case_id = made.case_id and each.account = 'available'
        ) not between least(ours.amount_cents, 0) and greatest(ours.amount_cents, 0)
        or (
            select sum(case each.direction when 'IN' then each.amount_cents else -each.amount_cents end)
                    filter (where each.account = 'settlement') not between least(sum(available), 0) and greatest(sum(available), 0)
            from adjustment as each
            cross join lateral (
                select case each.account when 'available' then 1 else 0 end
                    * case each.direction when 'IN' then each.amount_cents else -each.amount_cents end as available
            ) as signed
            where each.case_id = made.case_id and each.holder_id = made.holder_id
        )
        or (
            select count(*) from ledger_entry as entry
            join allowed_posting as allowed using (debit_account, credit_account)
            where entry.holder_id = made.holder_id and entry.id in (made.entry_id, made.deficit_entry_id)
                and entry.transfer_id is null and entry.refund_id is null
                and allowed.kind = 'adjustment' and allowed.direction = made.direction and allowed.status = made.account
                and entry.amount_cents = case entry.debit_account
                    when 'deficit' then made.deficit_cents else made.amount_cents - made.deficit_cents
                end
        ) <> (made.entry_id is not null)::int + (made.deficit_entry_id is not null)::int
    limit 1;
    if found then
        raise exception 'adjustment % of holder % is not within its case, or has not the entries that belong to it',
            misfit.id, misfit.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'an_adjustment_is_within_its_case';
    end if;
    return null;
end $$;
create trigger check_new after insert on adjustment referencing new table as new_row
    for each statement execute function check_adjustments();

-- As before, and an adjustment is the cause of the entries that it names.
create or replace function post_ledger_entries() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    holders_count bigint;
    numbered_count bigint;
    others_count bigint; -- of refunds, deposits, movements, repayments and adjustments
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
        difference_cents = balance.difference_cents + posting.difference_cents,
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
            sum(amount_cents * ((credit_account = 'difference')::int - (debit_account = 'difference')::int)) as difference_cents,
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
                    when coalesce(movement.entry_id, lacking.deficit_entry_id) is not null then 'movement'
                    when adjustment.id is not null then 'adjustment' end as kind,
                coalesce(refund.flow, transfer.direction, movement.direction, lacking.direction, adjustment.direction,
                    case when repayment.id is null then 'IN' else 'OUT' end) as direction,
                coalesce(refund.is_book, transfer.is_book, false) as is_book,
                coalesce(refund.status, transfer.status, movement.status, lacking.status, adjustment.account, 'MADE') as status,
                coalesce(refund.made_by, 'service') as made_by,
                -- What the institution gave back is taken of what was there, in parts: all parts make its amount.
                bool_and(case refund.made_by when 'institution' then refund.amount_cents = (
                    select sum(part.amount_cents) from ledger_entry as part
                    where part.transfer_id = entry.transfer_id and part.holder_id = entry.holder_id
                        and part.refund_id = entry.refund_id
                ) else entry.amount_cents is not distinct from coalesce(
                    refund.amount_cents, transfer.amount_cents, deposit.amount_cents, repayment.amount_cents,
                    movement.amount_cents - movement.deficit_cents, lacking.deficit_cents,
                    case debit_account
                        when 'deficit' then adjustment.deficit_cents
                        else adjustment.amount_cents - adjustment.deficit_cents
                    end
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
                    when debit_account not in ('deficit', 'difference') and credit_account not in ('deficit', 'difference')
                    then entry.lone_id end
                and movement.holder_id = entry.holder_id
            left join movement as lacking on lacking.deficit_entry_id = case
                    when debit_account = 'deficit' and credit_account <> 'difference' then entry.lone_id end
                and lacking.holder_id = entry.holder_id
            left join adjustment on adjustment.holder_id = entry.holder_id
                and case when 'difference' in (debit_account, credit_account) then entry.lone_id end
                    = case debit_account when 'deficit' then adjustment.deficit_entry_id else adjustment.entry_id end
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

-- What is chained of other causes stays as it is.
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
    left join adjustment on adjustment.holder_id = entry.holder_id
        and case when 'difference' in (entry.debit_account, entry.credit_account) then entry.id end
            = case entry.debit_account when 'deficit' then adjustment.deficit_entry_id else adjustment.entry_id end;

comment on table balance is 'What each holder has and owes, in six accounts that cancel out; only ledger entries move it.';
comment on column balance.difference_cents is
    'What was adjusted of what is available, in cents: positive, where the holder has less by it; nobody has it.';
comment on column ledger_entry.refund_id is
    'The refund that is its cause; without either it is the deposit or repayment of the same id, or the movement or adjustment that names it.';
comment on table allowed_posting is
    'The entries that a deposit, transfer, refund, movement, repayment or adjustment in a status may have, each once; no others.';
comment on column allowed_posting.kind is 'What has them: deposit, transfer, refund, movement, repayment or adjustment.';
comment on table adjustment is 'Adjusting entries that two operators wanted for a case; rows are never changed or deleted.';
comment on column adjustment.id is 'That of its first ledger entry.';
comment on column adjustment.holder_id is 'Whose money it moves.';
comment on column adjustment.case_id is 'The case that it is within.';
comment on column adjustment.kind is 'Whose error it is, that something was found, or that it is written off.';
comment on column adjustment.direction is 'IN raises what the holder or, at the end, settlement has; OUT lowers it.';
comment on column adjustment.account is
    'Available, which it moves against the difference; or settlement, by which the house takes over what is written off.';
comment on column adjustment.amount_cents is 'How much, in cents.';
comment on column adjustment.deficit_cents is 'The part of it that was not available, in cents: the holder owes it.';
comment on column adjustment.entry_id is 'The ledger entry of what was available; null where nothing was.';
comment on column adjustment.deficit_entry_id is 'The ledger entry of what was lacking; null where nothing was.';
comment on column adjustment.opposite_of is 'The adjustment of the same holder that it undoes; null where it undoes none.';
comment on column adjustment.proposed_by is 'The operator who wanted it.';
comment on column adjustment.confirmed_by is 'The other operator.';
comment on column adjustment.created_at is 'When it was made, in service time.';
