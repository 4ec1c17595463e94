-- Movements: what the institution has moved on a holder's account, and no transfer, refund or deposit says: its fees, wires, what a
-- person does in its app. A movement is a cause of entries, as those are. And the network's own instant of a transfer or refund.

create table movement (
    holder_id bigint not null references balance,
    item_id text collate "C" not null check (length(item_id) between 1 and 64),
    kind text not null
        check (kind in ('opening_balance', 'fee', 'wire', 'boleto', 'by_hand', 'reversal', 'judicial', 'other')),
    direction text not null check (direction in ('IN', 'OUT')),
    amount_cents bigint not null check (amount_cents between 1 and 999999999999),
    status text not null check (status in ('POSTED', 'ERROR')),
    outcome_code text,
    entry_id bigint,
    end_to_end_id text check (length(end_to_end_id) between 1 and 64),
    description text check (length(description) between 1 and 140),
    network_settled_at timestamptz not null check (isfinite(network_settled_at)),
    created_at timestamptz not null check (isfinite(created_at)),
    primary key (holder_id, item_id),
    constraint movement_has_its_own_entry unique (entry_id, holder_id),
    constraint posted_with_an_entry check (
        (status = 'POSTED') = (entry_id is not null) and (status = 'ERROR') = (outcome_code is not null)
    )
);
grant select, insert on movement to pixconnect_service;

create trigger movement_is_append_only before delete or update or truncate on movement
    for each statement execute function refuse_change();

insert into allowed_posting (kind, direction, is_book, status, debit_account, credit_account) values
    ('movement', 'IN', false, 'POSTED', 'settlement', 'available'),
    ('movement', 'OUT', false, 'POSTED', 'available', 'settlement');
insert into allowed_transition (kind, direction, is_book, before, after) values
    ('movement', 'IN', false, 'NEW', 'POSTED'),
    ('movement', 'IN', false, 'NEW', 'ERROR'),
    ('movement', 'OUT', false, 'NEW', 'POSTED'),
    ('movement', 'OUT', false, 'NEW', 'ERROR');

-- An item that has a name of a transfer or refund is that, and no movement.
create function check_movements() returns trigger
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
        where entry.id = moved.entry_id and entry.holder_id = moved.holder_id and entry.amount_cents = moved.amount_cents
            and entry.transfer_id is null and entry.refund_id is null
            and allowed.kind = 'movement' and allowed.direction = moved.direction and not allowed.is_book
            and allowed.status = moved.status
    ) <> (
        select count(*) from allowed_posting as allowed
        where allowed.kind = 'movement' and allowed.direction = moved.direction and not allowed.is_book
            and allowed.status = moved.status
    ) or exists (select from transfer where transfer.end_to_end_id = moved.item_id)
        or exists (select from transfer where transfer.network_id = moved.item_id)
        or exists (select from refund where refund.return_id = moved.item_id)
        or exists (select from refund where refund.network_id = moved.item_id)
    limit 1;
    if found then
        raise exception 'movement % of holder % cannot be % with the entry and name that it has',
            misfit.item_id, misfit.holder_id, misfit.status
            using errcode = 'integrity_constraint_violation', constraint = 'a_movement_has_what_belongs_to_it';
    end if;
    return null;
end $$;
create trigger check_new after insert on movement referencing new table as new_row
    for each statement execute function check_movements();

-- As before, and a movement is the cause of the entry that it names.
create or replace function post_ledger_entries() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    holders_count bigint;
    numbered_count bigint;
    others_count bigint; -- of refunds, deposits and movements
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
        settlement_cents = balance.settlement_cents + posting.settlement_cents,
        funding_cents = balance.funding_cents + posting.funding_cents,
        last_number = balance.last_number + posting.numbered_count,
        last_entry_at = coalesce(posting.last_entry_at, balance.last_entry_at),
        modified_at = greatest(balance.modified_at, posting.modified_at)
    from (
        select holder_id,
            sum(amount_cents * ((credit_account = 'available')::int - (debit_account = 'available')::int)) as available_cents,
            sum(amount_cents * ((credit_account = 'reserved')::int - (debit_account = 'reserved')::int)) as reserved_cents,
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
                    when deposit.id is not null then 'deposit' when movement.entry_id is not null then 'movement' end as kind,
                coalesce(refund.flow, transfer.direction, movement.direction, 'IN') as direction,
                coalesce(refund.is_book, transfer.is_book, false) as is_book,
                coalesce(refund.status, transfer.status, movement.status, 'MADE') as status,
                bool_and(entry.amount_cents is not distinct from coalesce(
                    refund.amount_cents, transfer.amount_cents, deposit.amount_cents, movement.amount_cents
                )) as has_amount
            from new_entry as entry
            left join refund on refund.id = entry.refund_id and refund.holder_id = entry.holder_id
                and refund.transfer_id = entry.transfer_id
            left join transfer on transfer.id = case when entry.refund_id is null then entry.transfer_id end
                and transfer.holder_id = entry.holder_id
            left join deposit on deposit.id = case when entry.refund_id is null and entry.transfer_id is null then entry.id end
                and deposit.holder_id = entry.holder_id
            left join movement on movement.entry_id = case
                    when entry.refund_id is null and entry.transfer_id is null then entry.id end
                and movement.holder_id = entry.holder_id
            group by 3, 4, 5, 6, 7, 8
        ) as moved
        where not moved.has_amount or not exists (
            select from allowed_posting as allowed
            where allowed.kind = moved.kind and allowed.direction = moved.direction and allowed.is_book = moved.is_book
                and allowed.status = moved.status and allowed.debit_account = moved.debit_account
                and allowed.credit_account = moved.credit_account
        )
        limit 1;
    end if;
    if found then
        raise exception 'ledger entry % of holder % has no cause', misfit.id, misfit.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'every_entry_has_a_cause';
    end if;
    return null;
end $$;

-- A report of an item can be kept for a person too.
alter table kept_report drop constraint kept_report_kind_check;
alter table kept_report add constraint kept_report_kind_check check (
    kind in ('credit', 'credit_accepted', 'credit_cancelled', 'return', 'settled', 'rejected', 'never_taken', 'taken', 'movement')
) not valid;

-- The network's own instant of what settled over it. It is written with the end, and as seldom changed.
alter table transfer add column network_settled_at timestamptz;
grant update (network_settled_at) on transfer to pixconnect_service;
alter table refund add column network_settled_at timestamptz;
grant update (network_settled_at) on refund to pixconnect_service;
drop trigger keep_end on transfer;
create trigger keep_end after update of handed_at, settled_at, network_settled_at, outcome_code, outcome_reason on transfer
    for each row when ((old.status <> 'PROCESSING' or new.status = 'PROCESSING') and (
        old.handed_at is distinct from new.handed_at or old.settled_at is distinct from new.settled_at
        or old.network_settled_at is distinct from new.network_settled_at
        or old.outcome_code is distinct from new.outcome_code or old.outcome_reason is distinct from new.outcome_reason
    )) execute function refuse_other_end();
drop trigger keep_end on refund;
create trigger keep_end after update of handed_at, settled_at, network_settled_at, outcome_code, outcome_reason on refund
    for each row when ((old.status <> 'PROCESSING' or new.status = 'PROCESSING') and (
        old.handed_at is distinct from new.handed_at or old.settled_at is distinct from new.settled_at
        or old.network_settled_at is distinct from new.network_settled_at
        or old.outcome_code is distinct from new.outcome_code or old.outcome_reason is distinct from new.outcome_reason
    )) execute function refuse_other_end();

comment on table movement is
    'Items of the institution''s account that no transfer, refund or deposit here explains; rows are never changed or deleted.';
comment on column movement.holder_id is 'The holder whose account it is on.';
comment on column movement.item_id is 'The institution''s name of the item; unique on the account.';
comment on column movement.kind is 'What it is: a fee, a wire, what a person did in the institution''s app, and so on.';
comment on column movement.direction is 'Whether money came in (IN) or went out (OUT).';
comment on column movement.amount_cents is 'How much, in cents.';
comment on column movement.status is 'POSTED with its entry; ERROR where the rail let us refuse it, and no money moved.';
comment on column movement.outcome_code is 'Why it was refused.';
comment on column movement.entry_id is 'Its ledger entry; null where it was refused.';
comment on column movement.end_to_end_id is 'The Pix that it is about, as the network calls it: that which a fee is taken of.';
comment on column movement.description is 'The institution''s text.';
comment on column movement.network_settled_at is 'When it happened at the institution, by its clock.';
comment on column movement.created_at is 'When it was written, in service time.';
comment on column transfer.network_settled_at is
    'When it settled by the network''s clock; null where it has not, is by book, or is older than this column.';
comment on column refund.network_settled_at is
    'When it settled by the network''s clock; null where it has not, is by book, or is older than this column.';
comment on column ledger_entry.refund_id is
    'The refund that is its cause; without either the cause is the deposit of the same id, or the movement that names the entry.';
comment on table allowed_posting is
    'The entries that a deposit, transfer, refund or movement in a status has: these, once each, and no others.';
comment on column allowed_posting.kind is 'What has them: deposit, transfer, refund or movement.';
comment on column allowed_transition.kind is 'What changes: charge, transfer, refund or movement.';
