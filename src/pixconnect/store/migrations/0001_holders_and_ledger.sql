-- Holders, their keys, their money.
--
-- The service's role owns nothing. It may add ledger entries and nothing else that concerns money: balances move only by the
-- trigger on entries, which runs as the owner. Whatever the program does, PostgreSQL itself refuses a balance without its entry,
-- an entry from an account to itself, and an available or reserved balance below zero.

do $$
begin
    if not exists (select from pg_roles where rolname = 'pixconnect_service') then
        create role pixconnect_service nologin;
    end if;
end $$;
grant usage on schema pixconnect to pixconnect_service;
grant select on schema_version to pixconnect_service;

-- How far the sandbox has moved the service's time. One row; always zero in live mode.
create table clock (
    is_only_row boolean primary key default true check (is_only_row),
    offset_us bigint not null default 0
);
insert into clock default values;
grant select, update on clock to pixconnect_service;

create table holder (
    id bigint primary key check (id between 1 and 9007199254740991),
    name text not null check (length(name) between 1 and 255),
    tax_id text not null check (length(tax_id) in (11, 14)),
    city text not null check (length(city) between 1 and 255),
    branch text not null check (branch ~ '^[0-9]{1,4}$'),
    account_number text not null unique check (account_number ~ '^[0-9A-Z]{1,20}$'),
    account_type text not null check (account_type in ('CHECKING', 'SAVINGS', 'SALARY', 'TRANSACTIONAL')),
    may_deposit boolean not null default true,
    may_withdraw boolean not null default true,
    may_lend boolean not null default false,
    transfer_limit_cents bigint check (transfer_limit_cents >= 0),
    day_limit_cents bigint check (day_limit_cents >= 0),
    night_limit_cents bigint check (night_limit_cents >= 0),
    disabled_at timestamptz,
    created_at timestamptz not null
);
create sequence holder_id;
grant select, insert on holder to pixconnect_service;
grant update (may_deposit, may_withdraw, may_lend, transfer_limit_cents, day_limit_cents, night_limit_cents, disabled_at)
    on holder to pixconnect_service;
grant usage on sequence holder_id to pixconnect_service;

-- The directory of our own keys: finds the holder of a key.
create table pix_key (
    key text collate "C" primary key check (length(key) between 1 and 77),
    key_type text not null check (key_type in ('CPF', 'CNPJ', 'PHONE', 'EMAIL', 'EVP')),
    holder_id bigint not null references holder,
    created_at timestamptz not null
);
create index pix_key_of_holder on pix_key (holder_id, created_at, key);
grant select, insert on pix_key to pixconnect_service;

-- Four accounts a holder. Money that came over the rail stands in settlement (negative), deposits in funding (negative).
create table balance (
    holder_id bigint primary key references holder,
    available_cents bigint not null default 0 constraint available_is_not_negative check (available_cents >= 0),
    reserved_cents bigint not null default 0 constraint reserved_is_not_negative check (reserved_cents >= 0),
    settlement_cents bigint not null default 0,
    funding_cents bigint not null default 0,
    last_number bigint not null default 0,
    last_entry_at timestamptz not null default '1970-01-01T00:00:00Z',
    modified_at timestamptz not null,
    constraint accounts_are_balanced check (available_cents + reserved_cents + settlement_cents + funding_cents = 0)
) with (fillfactor = 50);
grant select on balance to pixconnect_service;
grant insert (holder_id, modified_at) on balance to pixconnect_service;
grant update (modified_at) on balance to pixconnect_service; -- what FOR UPDATE asks for; the money's columns stay out of reach

create type ledger_account as enum ('available', 'reserved', 'settlement', 'funding');

-- One amount from one account (debit) to another (credit) of one holder. An entry that changes current funds (available +
-- reserved) carries the holder's next number and the current funds after it, and is dated after the one before.
create table ledger_entry (
    id bigint not null check (id between 1 and 9007199254740991),
    holder_id bigint not null, -- has a balance: post_ledger_entries sees to it
    debit_account ledger_account not null,
    credit_account ledger_account not null,
    amount_cents bigint not null constraint amount_is_positive check (amount_cents > 0),
    number bigint,
    running_balance_cents bigint,
    transfer_id bigint,
    refund_id bigint,
    created_at timestamptz not null,
    primary key (id, holder_id),
    constraint accounts_differ check (debit_account <> credit_account),
    constraint numbered_if_funds_change check (
        (number is not null) = ((debit_account in ('available', 'reserved')) <> (credit_account in ('available', 'reserved')))
        and (number is not null) = (running_balance_cents is not null)
    )
);
create unique index ledger_entry_number on ledger_entry (holder_id, number) where number is not null;
create unique index ledger_entry_created_at on ledger_entry (holder_id, created_at) where number is not null;
grant select, insert on ledger_entry to pixconnect_service;

-- Applies what one statement added, holder by holder, and refuses it whole where a number, an instant or a running balance does
-- not follow from what was there.
create function post_ledger_entries() returns trigger
language plpgsql security definer set search_path = pixconnect, pg_temp as $$
declare
    holders_count bigint;
    misfit record;
begin
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
    get diagnostics holders_count = row_count;
    if holders_count <> (select count(distinct holder_id) from new_entry) then
        raise exception 'a ledger entry has no balance to follow, or is dated before the one that it follows'
            using errcode = 'integrity_constraint_violation', constraint = 'entries_follow_each_other';
    end if;

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
    join balance on balance.holder_id = entry.holder_id
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
    return null;
end $$;
create trigger post_entries after insert on ledger_entry
    referencing new table as new_entry for each statement execute function post_ledger_entries();

-- What happened has happened, for the owner too.
create function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception 'rows of % are never changed or deleted', tg_table_name
        using errcode = 'integrity_constraint_violation', constraint = tg_table_name || '_is_append_only';
end $$;
create trigger ledger_entry_is_append_only before update or delete or truncate on ledger_entry
    for each statement execute function refuse_change();

create function refuse_balance_without_entry() returns trigger language plpgsql as $$
begin
    if pg_trigger_depth() < 2 then
        raise exception 'a balance changes by ledger entries only'
            using errcode = 'integrity_constraint_violation', constraint = 'balance_follows_entries';
    end if;
    return new;
end $$;
create trigger balance_follows_entries before update of available_cents, reserved_cents, settlement_cents, funding_cents,
    last_number, last_entry_at on balance for each row execute function refuse_balance_without_entry();

-- Ids are handed out in blocks: a process takes a block and needs no further round trip for its ids.
create sequence charge_id increment 512;
create sequence transfer_id increment 512;
create sequence refund_id increment 512;
-- Each write group takes one block for its events and its entries, after it has locked what it changes: so the events of one
-- resource have rising ids, whichever process wrote them.
create sequence write_group_id increment 2048;
grant usage on sequence charge_id, transfer_id, refund_id, write_group_id to pixconnect_service;
