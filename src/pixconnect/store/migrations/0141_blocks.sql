-- Money that an institution has blocked: a part of what the holder has and may not spend. Each block is a row, and each cent that
-- goes into it or out of it is an entry and a step of that block.

alter table balance add column blocked_cents bigint not null default 0;
alter table balance add column blocks_count integer not null default 0;
alter table balance drop constraint accounts_are_balanced;
alter table balance add constraint accounts_are_balanced check (
    available_cents + reserved_cents + blocked_cents + settlement_cents + funding_cents + difference_cents - deficit_cents = 0
) not valid;
alter table balance add constraint blocked_is_not_negative check (blocked_cents >= 0 and blocks_count >= 0) not valid;
drop trigger balance_follows_entries on balance;
create trigger balance_follows_entries before update of available_cents, reserved_cents, blocked_cents, deficit_cents,
    settlement_cents, funding_cents, difference_cents, last_number, last_entry_at, blocks_count on balance
    for each row execute function refuse_balance_without_entry();

alter table ledger_entry drop constraint numbered_if_funds_change;
alter table ledger_entry add constraint numbered_if_funds_change check (
    (number is not null)
        = ((debit_account in ('available', 'reserved', 'blocked')) <> (credit_account in ('available', 'reserved', 'blocked')))
    and (number is not null) = (running_balance_cents is not null)
) not valid;

alter table kept_report drop constraint kept_report_kind_check;
alter table kept_report add constraint kept_report_kind_check check (
    kind in (
        'credit', 'credit_accepted', 'credit_held', 'credit_cancelled', 'return', 'settled', 'rejected', 'never_taken', 'taken',
        'movement', 'institution_return', 'block', 'infraction', 'unreadable'
    )
) not valid;

create table block (
    id bigint not null check (id between 1 and 9007199254740991),
    holder_id bigint not null references balance,
    institution_id smallint references institution_account,
    kind text collate "C" not null check (kind in ('med', 'precautionary', 'judicial', 'administrative', 'security')),
    reference text collate "C" not null check (length(reference) between 1 and 64),
    transfer_id bigint,
    wanted_cents bigint not null,
    held_cents bigint not null,
    covered_cents bigint not null,
    respond_by timestamptz check (isfinite(respond_by)),
    until timestamptz check (isfinite(until)),
    source text not null check (length(source) between 1 and 255),
    state text collate "C" not null check (state in ('open', 'ended')),
    told_at timestamptz not null check (isfinite(told_at)),
    created_at timestamptz not null check (isfinite(created_at)),
    modified_at timestamptz not null check (isfinite(modified_at)),
    primary key (id, holder_id),
    foreign key (transfer_id, holder_id) references transfer (id, holder_id),
    constraint covered_within_held check (
        0 <= covered_cents and covered_cents <= held_cents and held_cents <= wanted_cents and wanted_cents <= 999999999999
    ),
    constraint what_ended_holds_nothing check (state = 'open' or wanted_cents = 0)
);
create unique index block_reference on block (reference, coalesce(institution_id, 0));
create index block_open on block (holder_id, created_at, id) where state = 'open';
grant select, insert on block to pixconnect_service;
grant update (transfer_id, wanted_cents, held_cents, covered_cents, respond_by, until, source, state, told_at, modified_at)
    on block to pixconnect_service;

create table block_step (
    id bigint not null check (id between 1 and 9007199254740991),
    holder_id bigint not null,
    block_id bigint not null,
    kind text collate "C" not null check (kind in ('covered', 'released', 'held', 'let_go', 'taken')),
    amount_cents bigint not null check (amount_cents between 1 and 999999999999),
    created_at timestamptz not null check (isfinite(created_at)),
    primary key (id, holder_id),
    foreign key (block_id, holder_id) references block (id, holder_id)
);
create index block_step_of_block on block_step (block_id, holder_id);
grant select, insert on block_step to pixconnect_service;
create trigger block_step_is_append_only before delete or update or truncate on block_step
    for each statement execute function refuse_change();
create trigger block_is_never_deleted before delete or truncate on block
    for each statement execute function refuse_change();

-- What is covered of what the holder has; a suspect credit, which was never available; and what the institution took.
insert into allowed_posting (kind, direction, is_book, status, debit_account, credit_account) values
    ('block', 'IN', false, 'covered', 'available', 'blocked'),
    ('block', 'OUT', false, 'released', 'blocked', 'available'),
    ('block', 'IN', false, 'held', 'settlement', 'blocked'),
    ('block', 'OUT', false, 'let_go', 'blocked', 'settlement');
insert into allowed_posting (kind, direction, is_book, status, debit_account, credit_account, made_by) values
    ('refund', 'OUT', false, 'RETURNED', 'blocked', 'settlement', 'institution');

-- Steps and what they come to are written together, and each step is an entry of its kind; of what was taken the refund's.
create function check_block_steps() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    misfit record;
begin
    select made.id, made.holder_id into misfit from new_row as made
    join block on block.id = made.block_id and block.holder_id = made.holder_id
    where not exists (
        select from ledger_entry as entry
        where entry.id = made.id and entry.holder_id = made.holder_id and entry.amount_cents = made.amount_cents
            and 'blocked' in (entry.debit_account, entry.credit_account)
            and case made.kind
                when 'taken' then entry.refund_id is not null and entry.credit_account = 'settlement'
                    and block.transfer_id = entry.transfer_id
                else entry.transfer_id is null and entry.refund_id is null
            end
    ) or block.covered_cents <> (
        select sum(case when step.kind in ('covered', 'held') then step.amount_cents else -step.amount_cents end)
        from block_step as step where step.block_id = block.id and step.holder_id = block.holder_id
    ) or (block.kind = 'precautionary') <> (made.kind in ('held', 'let_go'))
        or made.kind = 'held' and not exists (
            select from transfer
            where transfer.id = block.transfer_id and transfer.holder_id = block.holder_id and transfer.direction = 'IN'
                and not transfer.is_book and transfer.amount_cents = made.amount_cents
        )
    limit 1;
    if found then
        raise exception 'step % of a block of holder % has not the entry that it is, or the block says otherwise',
            misfit.id, misfit.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_step_is_an_entry_of_its_block';
    end if;
    return null;
end $$;
create trigger check_new after insert on block_step referencing new table as new_row
    for each statement execute function check_block_steps();

create function check_blocks() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    misfit record;
begin
    select made.id, made.holder_id into misfit from new_row as made
    where made.covered_cents <> (
        select coalesce(sum(case when step.kind in ('covered', 'held') then step.amount_cents else -step.amount_cents end), 0)
        from block_step as step where step.block_id = made.id and step.holder_id = made.holder_id
    ) limit 1;
    if found then
        raise exception 'block % of holder % covers what it has no steps of', misfit.id, misfit.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_block_is_its_steps';
    end if;
    -- Read with the balance, so that nobody looks for blocks of who has none.
    update balance set blocks_count = counted.blocks_count
    from (
        select holder_id, (
            select count(*) from block where block.holder_id = made.holder_id and block.state = 'open'
        ) as blocks_count
        from (select distinct holder_id from new_row) as made
    ) as counted
    where balance.holder_id = counted.holder_id and balance.blocks_count <> counted.blocks_count;
    return null;
end $$;
create trigger check_new after insert on block referencing new table as new_row
    for each statement execute function check_blocks();
create trigger check_moved after update on block referencing new table as new_row
    for each statement execute function check_blocks();

create function keep_block() returns trigger language plpgsql as $$
begin
    raise exception 'block % of holder % has ended, or is of another Pix', new.id, new.holder_id
        using errcode = 'integrity_constraint_violation', constraint = 'a_block_ends_once';
end $$;
create trigger keep_block before update on block for each row
    when (old.state = 'ended' or old.transfer_id is distinct from new.transfer_id and old.transfer_id is not null)
    execute function keep_block();

-- Judged when all of a transaction is written: entries and blocks of one statement come in any order.
create function check_uncovered() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if exists (
        select from balance join block on block.holder_id = balance.holder_id
        where balance.holder_id = new.holder_id and balance.available_cents > 0
            and block.state = 'open' and block.covered_cents < block.held_cents
    ) then
        raise exception 'holder % has money available, and a block of it is not covered', new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'blocks_are_covered_first';
    end if;
    return null;
end $$;
create constraint trigger blocks_are_covered_first after update on balance deferrable initially deferred
    for each row when (new.blocks_count > 0 and new.available_cents > 0) execute function check_uncovered();
create constraint trigger blocks_are_covered_first after insert or update on block deferrable initially deferred
    for each row when (new.covered_cents < new.held_cents) execute function check_uncovered();

-- As before, and a step of a block is the cause of the entry of its id.
create or replace function post_ledger_entries() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    holders_count bigint;
    numbered_count bigint;
    others_count bigint; -- of refunds, deposits, movements, repayments, adjustments and steps of blocks
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
        blocked_cents = balance.blocked_cents + posting.blocked_cents,
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
            sum(amount_cents * ((credit_account = 'blocked')::int - (debit_account = 'blocked')::int)) as blocked_cents,
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

    -- Money that is reserved or blocked stays within current funds, so a batch that only accepts orders has no numbers.
    if numbered_count > 0 then
        select entry.holder_id, entry.number into misfit from (
            select numbered.*,
                lag(number, 1, number - 1) over following as number_before,
                lag(running_balance_cents) over following as balance_before,
                lag(created_at) over following as created_before,
                lead(number) over following is null as is_last
            from (
                select holder_id, number, running_balance_cents, created_at,
                    case when credit_account in ('available', 'reserved', 'blocked') then amount_cents else -amount_cents end
                        as change_cents
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
                or entry.running_balance_cents <> balance.available_cents + balance.reserved_cents + balance.blocked_cents
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
                    when adjustment.id is not null then 'adjustment' when block_step.id is not null then 'block' end as kind,
                coalesce(refund.flow, transfer.direction, movement.direction, lacking.direction, adjustment.direction,
                    case when repayment.id is null and debit_account <> 'blocked' then 'IN' else 'OUT' end) as direction,
                coalesce(refund.is_book, transfer.is_book, false) as is_book,
                coalesce(refund.status, transfer.status, movement.status, lacking.status, adjustment.account,
                    block_step.kind, 'MADE') as status,
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
                    end, block_step.amount_cents
                ) end
                -- Whatever moves blocked money is a step of one block, the institution's return too.
                and ('blocked' not in (debit_account, credit_account) or block_step.amount_cents is not distinct from
                    entry.amount_cents)) as has_amount
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
            left join block_step on block_step.id = case when 'blocked' in (debit_account, credit_account) then entry.id end
                and block_step.holder_id = entry.holder_id
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

-- As before, with what is blocked, and how many blocks there are.
drop function read_held(bigint[]);
create function read_held(wanted bigint[]) returns table (
    holder_id bigint, available_cents bigint, reserved_cents bigint, blocked_cents bigint, deficit_cents bigint,
    last_number bigint, last_entry_at timestamptz, modified_at timestamptz, may_deposit boolean, may_withdraw boolean,
    may_lend boolean, transfer_limit_cents bigint, day_limit_cents bigint, night_limit_cents bigint, has_key_webhooks boolean,
    offset_us bigint, revision bigint, approve_above_cents bigint, approve_new_payees boolean, night_begins_late boolean,
    blocks_count integer
) language plpgsql set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
    return query
        select balance.holder_id, balance.available_cents, balance.reserved_cents, balance.blocked_cents,
            balance.deficit_cents, balance.last_number, balance.last_entry_at, balance.modified_at, holder.may_deposit,
            holder.may_withdraw, holder.may_lend, holder.transfer_limit_cents, holder.day_limit_cents,
            holder.night_limit_cents, exists (select from key_webhook where key_webhook.holder_id = held.id),
            clock.offset_us, clock.revision, holder.approve_above_cents, holder.approve_new_payees,
            holder.night_begins_late, balance.blocks_count
        from unnest(wanted) as held (id)
        join balance on balance.holder_id = held.id
        join holder on holder.id = held.id
        cross join clock;
end $$;
grant execute on function read_held(bigint[]) to pixconnect_service;

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
                when block_step.id is not null then json_build_array(
                    'block', block_step.block_id, block.kind, block.reference, block_step.kind, block_step.amount_cents
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
        and entry.id = case entry.debit_account when 'deficit' then adjustment.deficit_entry_id else adjustment.entry_id end
    left join block_step on block_step.id
            = case when entry.transfer_id is null and 'blocked' in (entry.debit_account, entry.credit_account) then entry.id end
        and block_step.holder_id = entry.holder_id
    left join block on block.id = block_step.block_id and block.holder_id = block_step.holder_id;

comment on table balance is 'What each holder has and owes, in seven accounts that cancel out; only ledger entries move it.';
comment on column balance.blocked_cents is 'What the institution has blocked of what the holder has, in cents; never negative.';
comment on column balance.blocks_count is 'How many of its blocks are open: as long as it is 0, nobody looks for them.';
comment on column balance.last_number is 'The number of the last entry that changed available + reserved + blocked.';
comment on column ledger_entry.number is
    'The place in the statement, counted from 1 without gaps; null where available + reserved + blocked stays the same.';
comment on column ledger_entry.running_balance_cents is
    'Available + reserved + blocked after this entry, in cents; null where it has no number.';
comment on column ledger_entry.refund_id is
    'The refund that is its cause; without either it is the deposit, repayment or step of a block of the same id, or the movement or adjustment that names it.';
comment on table allowed_posting is
    'The entries that a deposit, transfer, refund, movement, repayment, adjustment or block in a status may have, each once; no others.';
comment on column allowed_posting.kind is 'What has them: deposit, transfer, refund, movement, repayment, adjustment or block.';
comment on table block is 'Money of holders that an institution has blocked, as it tells it; only what it tells makes or ends one.';
comment on column block.id is 'Counts up; unique together with the holder.';
comment on column block.holder_id is 'The holder whose money it is; of a sum on a whole account the account''s house.';
comment on column block.institution_id is 'The account at an institution; null is the installation''s own rail.';
comment on column block.kind is
    'Why: a contest of a Pix (med), a suspect credit (precautionary), a court (judicial), an authority (administrative), or the institution''s own reasons (security).';
comment on column block.reference is 'The institution''s name of it, unique on its account: of a contest the contest''s, of a suspect credit the Pix''s.';
comment on column block.transfer_id is 'The Pix that it is about; null where it is about none, or none that is known.';
comment on column block.wanted_cents is 'How much the institution wants to block, in cents; 0 once it has ended.';
comment on column block.held_cents is 'How much of that it has blocked there, in cents.';
comment on column block.covered_cents is 'How much of that stands in the holder''s account blocked, in cents: the sum of its steps.';
comment on column block.respond_by is 'Until when the holder can answer, by the institution''s clock; null where nothing is asked.';
comment on column block.until is 'When it ends by itself, as the institution says; null where nothing is said.';
comment on column block.source is 'The report that told its present state.';
comment on column block.state is 'Whether it is open, or ended.';
comment on column block.told_at is 'When the institution said what it says here: an older report changes nothing.';
comment on column block.created_at is 'When it was written, in service time.';
comment on column block.modified_at is 'When it last changed, in service time.';
comment on table block_step is 'What has gone into blocks and out of them, each the ledger entry of the same id; rows are never changed or deleted.';
comment on column block_step.id is 'The id of its ledger entry too.';
comment on column block_step.holder_id is 'The holder whose money it is.';
comment on column block_step.block_id is 'The block.';
comment on column block_step.kind is
    'Covered of what was available, or released to it; a suspect credit that is held, or let go; or taken by the institution, with its refund.';
comment on column block_step.amount_cents is 'How much, in cents.';
comment on column block_step.created_at is 'When it was made, in service time.';
