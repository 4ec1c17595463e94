-- What the institution has taken and the holder lacks is a part of its own, owed to the institution: deficit. Nothing is available
-- while there is any, because whatever raises available repays it in the same statement.

alter table balance add column deficit_cents bigint not null default 0;
alter table balance drop constraint accounts_are_balanced;
alter table balance add constraint accounts_are_balanced check (
    available_cents + reserved_cents + settlement_cents + funding_cents - deficit_cents = 0
) not valid;
alter table balance add constraint deficit_is_not_negative check (deficit_cents >= 0) not valid;
alter table balance add constraint deficit_is_repaid_first check (deficit_cents = 0 or available_cents = 0) not valid;
drop trigger balance_follows_entries on balance;
create trigger balance_follows_entries before update of available_cents, reserved_cents, deficit_cents, settlement_cents,
    funding_cents, last_number, last_entry_at on balance for each row execute function refuse_balance_without_entry();

-- A movement takes what is available, and lacks the rest: an entry for each. An opening balance may be nothing, and has none then.
alter table movement add column deficit_cents bigint not null default 0;
alter table movement add column deficit_entry_id bigint;
alter table movement drop constraint movement_amount_cents_check;
alter table movement add constraint movement_amount_cents_check check (
    amount_cents between 0 and 999999999999 and (amount_cents > 0 or kind = 'opening_balance')
) not valid;
alter table movement drop constraint posted_with_an_entry;
alter table movement add constraint posted_with_its_entries check (
    (status = 'ERROR') = (outcome_code is not null)
    and (entry_id is not null) = (status = 'POSTED' and amount_cents > deficit_cents)
    and (deficit_entry_id is not null) = (deficit_cents > 0)
    and deficit_cents between 0 and amount_cents
    and (deficit_cents = 0 or direction = 'OUT' and status = 'POSTED')
) not valid;

create table repayment (
    id bigint not null check (id between 1 and 9007199254740991),
    holder_id bigint not null references balance,
    source_entry_id bigint not null,
    amount_cents bigint not null check (amount_cents between 1 and 999999999999),
    created_at timestamptz not null check (isfinite(created_at)),
    primary key (id, holder_id),
    constraint repaid_once_of_what_came unique (source_entry_id, holder_id)
);
grant select, insert on repayment to pixconnect_service;
create trigger repayment_is_append_only before delete or update or truncate on repayment
    for each statement execute function refuse_change();

insert into allowed_posting (kind, direction, is_book, status, debit_account, credit_account) values
    ('movement', 'OUT', false, 'POSTED', 'deficit', 'settlement'),
    ('repayment', 'OUT', false, 'MADE', 'available', 'deficit');

create function check_repayments() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    misfit record;
begin
    select made.id, made.holder_id into misfit from new_row as made
    where not exists (
        select from ledger_entry as entry
        where entry.id = made.id and entry.holder_id = made.holder_id and entry.amount_cents = made.amount_cents
            and entry.debit_account = 'available' and entry.credit_account = 'deficit'
            and entry.transfer_id is null and entry.refund_id is null
    ) or not exists (
        select from ledger_entry as source
        where source.id = made.source_entry_id and source.holder_id = made.holder_id
            and source.credit_account = 'available' and source.amount_cents >= made.amount_cents
    )
    limit 1;
    if found then
        raise exception 'repayment % of holder % has not the entry that it is, or is of nothing that came',
            misfit.id, misfit.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_repayment_is_of_what_came';
    end if;
    return null;
end $$;
create trigger check_new after insert on repayment referencing new table as new_row
    for each statement execute function check_repayments();

-- As before, and what was lacking has an entry of its own.
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

-- As before, and a repayment is the cause of the entry of its id, a movement of the entry of what was lacking.
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
                bool_and(entry.amount_cents is not distinct from coalesce(
                    refund.amount_cents, transfer.amount_cents, deposit.amount_cents, repayment.amount_cents,
                    movement.amount_cents - movement.deficit_cents, lacking.deficit_cents
                )) as has_amount
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

-- As before, and what the holder owes.
drop function read_held(bigint[]);
create function read_held(wanted bigint[])
returns table (
    holder_id bigint, available_cents bigint, reserved_cents bigint, deficit_cents bigint, last_number bigint,
    last_entry_at timestamptz, modified_at timestamptz, may_deposit boolean, may_withdraw boolean, may_lend boolean, transfer_limit_cents bigint,
    day_limit_cents bigint, night_limit_cents bigint, has_key_webhooks boolean, offset_us bigint, revision bigint
)
language plpgsql volatile set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
    return query
        select balance.holder_id, balance.available_cents, balance.reserved_cents, balance.deficit_cents, balance.last_number,
            balance.last_entry_at, balance.modified_at, holder.may_deposit, holder.may_withdraw, holder.may_lend, holder.transfer_limit_cents,
            holder.day_limit_cents, holder.night_limit_cents,
            exists (select from key_webhook where key_webhook.holder_id = held.id), clock.offset_us, clock.revision
        from unnest(wanted) as held (id)
        join balance on balance.holder_id = held.id
        join holder on holder.id = held.id
        cross join clock;
end $$;
grant execute on function read_held(bigint[]) to pixconnect_service;

-- A payment that we cannot accept is not given back where what the holder owed has taken it: a person sees to it.
alter table kept_report drop constraint kept_report_reason_check;
alter table kept_report add constraint kept_report_reason_check check (
    reason in (
        'unknown_order', 'contradiction', 'changed_repeat', 'cannot_be_recorded', 'cannot_be_refused', 'cannot_be_returned'
    )
) not valid;

alter table event drop constraint event_resource_check;
alter table event add constraint event_resource_check check (resource in ('charge', 'transfer', 'refund', 'movement')) not valid;

comment on table balance is 'What each holder has and owes, in five accounts that cancel out; only ledger entries move it.';
comment on column balance.deficit_cents is
    'What the institution took and the holder lacked, in cents; never negative, and nothing is available while there is any.';
comment on column movement.amount_cents is 'How much, in cents; only an opening balance may be 0.';
comment on column movement.deficit_cents is 'The part of it that was not available, in cents: the holder owes it.';
comment on column movement.status is 'POSTED with its entries; ERROR where the rail let us refuse it, and no money moved.';
comment on column movement.entry_id is
    'The ledger entry of what was available or came in; null where that is nothing, or it was refused.';
comment on column movement.deficit_entry_id is 'The ledger entry of what was lacking; null where nothing was.';
comment on table repayment is
    'What was repaid of deficits, each in the statement that raised what is available; rows are never changed or deleted.';
comment on column repayment.id is 'The id of its ledger entry too.';
comment on column repayment.holder_id is 'The holder who owed it.';
comment on column repayment.source_entry_id is 'The ledger entry that raised what is available: this was taken of it.';
comment on column repayment.amount_cents is 'How much, in cents.';
comment on column repayment.created_at is 'When it was made, in service time.';
comment on column ledger_entry.refund_id is
    'The refund that is its cause; without either it is the deposit or repayment of the same id, or the movement that names it.';
comment on table allowed_posting is
    'The entries that a deposit, transfer, refund, movement or repayment in a status may have, each once; there are no others.';
comment on column allowed_posting.kind is 'What has them: deposit, transfer, refund, movement or repayment.';
comment on table event is 'What happened to charges, transfers, refunds and movements; written with the fact, partitioned by id.';
comment on column event.resource is 'What it happened to: charge, transfer, refund or movement.';
