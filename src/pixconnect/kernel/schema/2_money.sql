-- Balances and the ledger; charges, transfers and refunds; limits, cases, blocks and contests; the chains.

create function refuse_balance_without_entry() returns trigger language plpgsql
as $function$
begin
    if pg_trigger_depth() < 2 then
        raise exception 'a balance changes by ledger entries only'
            using errcode = 'integrity_constraint_violation', constraint = 'balance_follows_entries';
    end if;
    return new;
end $function$;

create function check_uncovered() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
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
end $function$;

create table balance (
    holder_id bigint not null,
    available_cents bigint default 0 not null,
    reserved_cents bigint default 0 not null,
    settlement_cents bigint default 0 not null,
    funding_cents bigint default 0 not null,
    modified_at timestamp with time zone not null,
    deficit_cents bigint default 0 not null,
    difference_cents bigint default 0 not null,
    blocked_cents bigint default 0 not null,
    blocks_count integer default 0 not null,
    constraint balance_pkey primary key (holder_id),
    constraint accounts_are_balanced check ((available_cents + reserved_cents + blocked_cents + settlement_cents + funding_cents
        + difference_cents - deficit_cents) = 0),
    constraint available_is_not_negative check (available_cents >= 0),
    constraint blocked_is_not_negative check (blocked_cents >= 0 and blocks_count >= 0),
    constraint deficit_is_not_negative check (deficit_cents >= 0),
    constraint deficit_is_repaid_first check (deficit_cents = 0 or available_cents = 0),
    constraint reserved_is_not_negative check (reserved_cents >= 0),
    constraint balance_holder_id_fkey foreign key (holder_id) references holder(id)
) with (fillfactor=50);
comment on table balance is
    'Each holder''s money and debt, in seven accounts that sum to zero; only entries change it. Settled sums are in statement_head.';
comment on column balance.holder_id is 'The holder whose money it is.';
comment on column balance.available_cents is 'What may be spent, in cents; never negative.';
comment on column balance.reserved_cents is
    'The total reserved for transfers and refunds and not released, in cents; statement_head.settled_cents of it has settled.';
comment on column balance.settlement_cents is
    'Money received over the rail, as a negative number, and money sent from the available balance, in cents.';
comment on column balance.funding_cents is 'Play money deposited, as a negative number, in cents.';
comment on column balance.modified_at is 'When an entry last moved it, in service time.';
comment on column balance.deficit_cents is
    'What the institution took and the holder lacked, in cents; never negative, and nothing is available while there is any.';
comment on column balance.difference_cents is
    'Adjustments of the available balance, in cents: positive if the holder lost by them.';
comment on column balance.blocked_cents is 'The holder''s money that the institution has blocked, in cents; never negative.';
comment on column balance.blocks_count is 'Number of open blocks; while it is 0, no statement reads the blocks.';
create trigger balance_follows_entries before update of available_cents, reserved_cents, blocked_cents, deficit_cents,
    settlement_cents, funding_cents, difference_cents, blocks_count on balance for each row execute function
    refuse_balance_without_entry();
create constraint trigger blocks_are_covered_first after update on balance deferrable initially deferred for each row when
    (new.blocks_count > 0 and new.available_cents > 0) execute function check_uncovered();
grant insert (holder_id, modified_at) on table balance to pixconnect_operator;
grant select, update (modified_at) on table balance to pixconnect_service;

create table statement_head (
    holder_id bigint not null,
    last_number bigint default 0 not null,
    last_entry_at timestamp with time zone default '1970-01-01 00:00:00+00'::timestamp with time zone not null,
    funds_cents bigint default 0 not null,
    settled_cents bigint default 0 not null,
    constraint statement_head_pkey primary key (holder_id),
    constraint funds_are_not_negative check (funds_cents >= 0),
    constraint settled_is_not_negative check (settled_cents >= 0),
    constraint statement_head_holder_id_fkey foreign key (holder_id) references balance(holder_id)
) with (fillfactor=50);
comment on table statement_head is
    'Where each holder''s statement ends. Beside balance, so that a transfer settles while another one is accepted.';
comment on column statement_head.holder_id is 'The holder whose statement it is.';
comment on column statement_head.last_number is 'The number of the last entry that changed available + reserved + blocked.';
comment on column statement_head.last_entry_at is 'The instant of that entry, in service time: the next one is dated later.';
comment on column statement_head.funds_cents is 'Available + reserved + blocked after that entry, in cents.';
comment on column statement_head.settled_cents is
    'Reserved money that has settled, in cents: it is still part of balance.reserved_cents.';
create trigger balance_follows_entries before update on statement_head for each row execute function
    refuse_balance_without_entry();
grant insert (holder_id) on table statement_head to pixconnect_operator;
grant select, update (settled_cents) on table statement_head to pixconnect_service;

create view whole_balance as
    select balance.holder_id as holder_id, available_cents as available_cents,
        (reserved_cents - settled_cents) as reserved_cents, (settlement_cents + settled_cents) as settlement_cents,
        funding_cents as funding_cents, last_number as last_number, last_entry_at as last_entry_at,
        greatest(modified_at, last_entry_at) as modified_at, deficit_cents as deficit_cents,
        difference_cents as difference_cents, blocked_cents as blocked_cents, blocks_count as blocks_count,
        funds_cents as funds_cents
    from balance join statement_head on (statement_head.holder_id = balance.holder_id);
comment on view whole_balance is 'Each holder''s money and debt, with settled sums and the end of the statement.';
comment on column whole_balance.holder_id is 'The holder whose money it is.';
comment on column whole_balance.available_cents is 'What may be spent, in cents; never negative.';
comment on column whole_balance.reserved_cents is 'Money reserved for pending transfers and refunds, in cents; never negative.';
comment on column whole_balance.settlement_cents is 'What came over the rail, as a negative number, and what went out over it, in cents.';
comment on column whole_balance.funding_cents is 'Play money deposited, as a negative number, in cents.';
comment on column whole_balance.last_number is 'The number of the last entry that changed available + reserved + blocked.';
comment on column whole_balance.last_entry_at is 'The instant of that entry, in service time.';
comment on column whole_balance.modified_at is 'When an entry last moved it, in service time.';
comment on column whole_balance.deficit_cents is 'What the institution took and the holder lacked, in cents; never negative.';
comment on column whole_balance.difference_cents is 'Adjustments of the available balance, in cents.';
comment on column whole_balance.blocked_cents is
    'The holder''s money that the institution has blocked, in cents; never negative.';
comment on column whole_balance.blocks_count is 'How many of its blocks are open.';
comment on column whole_balance.funds_cents is 'Available + reserved + blocked, in cents.';
grant select on table whole_balance to pixconnect_service;

create function find_past_of_holder(of_holder bigint) returns text language sql stable security definer set search_path to
    'pixconnect', 'pg_temp'
as $function$
    select case
        when last_number > 0 or blocks_count > 0 or available_cents <> 0 or reserved_cents <> 0 or blocked_cents <> 0
            or deficit_cents <> 0 or settlement_cents <> 0 or funding_cents <> 0 or difference_cents <> 0
            or exists (select from movement where movement.holder_id = balance.holder_id)
        then 'it has had money there'
        when exists (select from transfer where transfer.holder_id + 0 = balance.holder_id)
        then 'payments of it are recorded there'
        when exists (select from charge where charge.holder_id + 0 = balance.holder_id)
        then 'it has made charges there, whose codes can be paid for as long as somebody has them'
        when exists (
            select from charge_opening where charge_opening.holder_id = balance.holder_id and state = 'opening'
        ) then 'it has charges that are being opened'
        when exists (
            select from kept_case where kept_case.holder_id = balance.holder_id and ended_at is null
        ) then 'it has open cases'
        when exists (
            select from holder join institution_account as account on account.id = holder.institution_id
            where holder.id = balance.holder_id and account.house_id = holder.id and account.state in ('active', 'paused')
        ) then 'it is the house of its account, to which belongs what belongs to nobody else there'
    end
    from whole_balance as balance where holder_id = of_holder
$function$;
grant execute on function find_past_of_holder(of_holder bigint) to pixconnect_operator;

create table deposit (
    id bigint not null,
    holder_id bigint not null,
    amount_cents bigint not null,
    created_at timestamp with time zone not null,
    constraint deposit_pkey primary key (id, holder_id),
    constraint deposit_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint deposit_id_check check (id >= 1 and id <= 9007199254740991),
    constraint deposit_holder_id_fkey foreign key (holder_id) references balance(holder_id)
);
comment on table deposit is 'Play money that was put into accounts of a sandbox; rows are never changed or deleted.';
comment on column deposit.id is 'The id of its ledger entry too.';
comment on column deposit.holder_id is 'The holder who got it.';
comment on column deposit.amount_cents is 'How much, in cents.';
comment on column deposit.created_at is 'When it was made, in service time.';
create trigger deposit_is_append_only before delete or update or truncate on deposit for each statement execute function
    refuse_change();
grant select on table deposit to pixconnect_service;

create function check_account_is_open() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
declare
    account record;
begin
    select institution_account.name, institution_account.state into account
    from holder join institution_account on institution_account.id = holder.institution_id
    where holder.id = new.holder_id for share of institution_account;
    if account.state = 'closed' then
        raise exception 'holder % is on the account %, which is closed', new.holder_id, account.name
            using errcode = 'integrity_constraint_violation', constraint = 'nothing_moves_on_a_closed_account';
    end if;
    return null;
end $function$;

create sequence charge_id increment 512 maxvalue 35184372088831;
grant usage on sequence charge_id to pixconnect_service;

create function check_charge_amount() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if old.status not in ('PENDING', 'EXPIRED')
            and (old.institution_id is null or new.status <> 'APPROVED' or old.status = 'APPROVED')
        or old.held_by is not null and new.status <> 'APPROVED'
    then
        raise exception 'charge % of holder % is % and keeps its amount', new.id, new.holder_id, old.status
            using errcode = 'integrity_constraint_violation', constraint = 'a_paid_charge_keeps_its_amount';
    end if;
    return null;
end $function$;

create function check_family() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    misfit record;
begin
    -- Most installations have no family: that costs one look at an empty index.
    if not exists (select from holder where family_id is not null) or not exists (
        select from new_row where external_id is not null and (
            select family_id from holder where holder.id = new_row.holder_id
        ) is not null
    ) then
        return null;
    end if;
    -- Two requests for one family run at once in separate transactions: the second sees the first one's rows.
    perform pg_advisory_xact_lock(hashtextextended(name, 7811888)) from (
        select distinct family_id || ' ' || external_id as name from new_row join holder on holder.id = new_row.holder_id
        where family_id is not null and external_id is not null order by 1
    ) as named;
    if tg_table_name = 'charge' then
        select new_row.id, new_row.holder_id, own.successor_id into misfit
        from new_row join holder as own on own.id = new_row.holder_id and own.family_id is not null
        where own.successor_id is not null or exists (
            select from charge as other join holder as member on member.id = other.holder_id
            where other.external_id = new_row.external_id and other.holder_id <> new_row.holder_id
                and member.family_id = own.family_id
        ) limit 1;
    elsif tg_table_name = 'transfer' then
        select new_row.id, new_row.holder_id, own.successor_id into misfit
        from new_row join holder as own on own.id = new_row.holder_id and own.family_id is not null
        where new_row.direction = 'OUT' and (own.successor_id is not null or exists (
            select from transfer as other join holder as member on member.id = other.holder_id
            where other.external_id = new_row.external_id and other.holder_id <> new_row.holder_id
                and member.family_id = own.family_id
        )) limit 1;
    else
        select new_row.id, new_row.holder_id, null::bigint as successor_id into misfit
        from new_row join holder as own on own.id = new_row.holder_id and own.family_id is not null
        where exists (
            select from refund as other join holder as member on member.id = other.holder_id
            where other.external_id = new_row.external_id and other.holder_id <> new_row.holder_id
                and member.family_id = own.family_id
        ) limit 1;
    end if;
    if found and misfit.successor_id is not null then
        raise exception 'holder % was succeeded by %, and starts no %', misfit.holder_id, misfit.successor_id, tg_table_name
            using errcode = 'integrity_constraint_violation', constraint = 'who_was_succeeded_starts_nothing';
    elsif found then
        raise exception '% % of holder % has a name that another of its family has used', tg_table_name, misfit.id, misfit.holder_id
            using errcode = 'unique_violation', constraint = 'a_family_uses_a_name_once';
    end if;
    return null;
end $function$;

create function check_held_charge() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if tg_op = 'UPDATE' and exists (
        select from transfer where id = old.held_by and holder_id = old.holder_id and status = 'PROCESSING'
    ) or new.held_by is not null and not exists (
        select from transfer where id = new.held_by and holder_id = new.holder_id and charge_id = new.id
            and direction = 'IN' and status = 'PROCESSING'
            and (
                amount_cents = new.amount_cents or new.contents::jsonb ->> 'may_change_amount' = 'true'
                or new.due_on is not null and exists (
                    select from paid_amount
                    where transfer_id = new.held_by and holder_id = new.holder_id and charge_id = new.id
                )
            )
    ) then
        raise exception 'charge % of holder % cannot be held by % after %', new.id, new.holder_id, new.held_by, old.held_by
            using errcode = 'integrity_constraint_violation', constraint = 'a_charge_is_held_by_its_payment';
    end if;
    return null;
end $function$;

create function check_institution_of_row() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    perform from holder where id = new.holder_id and institution_id = new.institution_id for key share;
    if not found then
        raise exception '% % of holder % is of the account %, on which the holder is not',
            tg_table_name, new.id, new.holder_id, new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'what_happens_on_an_account_is_of_its_holders';
    end if;
    return null;
end $function$;

create function check_charges() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    misfit record;
begin
    if tg_op = 'INSERT' then
        select way.* into misfit from (
            select max(id) as id, max(holder_id) as holder_id, 'NEW' as before, status as after from new_row group by status
        ) as way
        where not exists (
            select from allowed_transition as allowed
            where allowed.kind = 'charge' and allowed.direction = 'IN' and not allowed.is_book
                and allowed.before = 'NEW' and allowed.after = way.after
        )
        limit 1;
    else
        select moved.* into misfit from (
            select id, holder_id, max(before) as before, max(after) as after, max(amount_cents) as amount_cents,
                max(kind) as kind
            from (
                select id, holder_id, status as before, null as after, null::bigint as amount_cents, null as kind from old_row
                union all
                select id, holder_id, null, status, amount_cents,
                    case when institution_id is null then 'charge' else 'charge_there' end
                from new_row
            ) as side
            group by id, holder_id having max(before) is distinct from max(after)
        ) as moved
        where not exists (
            select from allowed_transition as allowed
            where allowed.kind = moved.kind and allowed.direction = 'IN' and not allowed.is_book
                and allowed.before = moved.before and allowed.after = moved.after
        ) or moved.after in ('APPROVED', 'RETURNED') and not exists (
            select from transfer where transfer.charge_id = moved.id and transfer.holder_id = moved.holder_id
                and transfer.settled_at is not null and transfer.amount_cents = moved.amount_cents
                and (transfer.status = 'RETURNED') = (moved.after = 'RETURNED')
        )
        limit 1;
    end if;
    if found then
        raise exception 'charge % of holder % cannot go from % to %', misfit.id, misfit.holder_id, misfit.before, misfit.after
            using errcode = 'integrity_constraint_violation', constraint = 'a_charge_has_its_payment';
    end if;
    return null;
end $function$;

create function check_removed_there() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if not exists (
        select from charge_change
        where charge_id = new.id and holder_id = new.holder_id and kind = 'remove' and state = 'done'
    ) then
        raise exception 'charge % of holder % looks removed and can still be paid at its institution', new.id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_charge_is_removed_there_first';
    end if;
    return null;
end $function$;

create function check_revisions() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if tg_table_name = 'charge_revision' then
        if new.revision < (select revision from charge where id = new.charge_id and holder_id = new.holder_id) is true then
            return null;
        end if;
    elsif new.revision > coalesce(old.revision, 0) and new.revision = (
        select count(*) from charge_revision as kept
        where kept.charge_id = new.id and kept.holder_id = new.holder_id and kept.revision < new.revision
    ) and coalesce(old.contents = (
        select kept.contents from charge_revision as kept
        where kept.charge_id = new.id and kept.holder_id = new.holder_id and kept.revision = coalesce(old.revision, 0)
    ), true) then
        return null;
    end if;
    raise exception 'the revision % is not the next one of its charge', new.revision
        using errcode = 'integrity_constraint_violation', constraint = 'revisions_follow_each_other';
end $function$;

create table charge (
    id bigint not null,
    holder_id bigint not null,
    external_id text collate "C" not null,
    fingerprint bytea not null,
    txid text collate "C" not null,
    amount_cents bigint not null,
    key text not null,
    payer_name text,
    payer_tax_id text,
    br_code text not null,
    status text not null,
    slot smallint not null,
    created_at timestamp with time zone not null,
    modified_at timestamp with time zone not null,
    expires_at timestamp with time zone not null,
    held_by bigint,
    contents text,
    revision integer,
    is_unbound boolean,
    institution_id smallint,
    asked_cents bigint,
    due_on date,
    constraint charge_pkey primary key (id, holder_id),
    constraint charge_external_id_is_used_once unique (external_id, holder_id),
    constraint charge_txid_is_used_once unique (txid, holder_id),
    constraint a_due_charge_says_so check (due_on is null or isfinite(due_on) and contents is not null and amount_cents > 0),
    constraint charge_amount_cents_check check (amount_cents >= 0 and amount_cents <= 999999999999 and (amount_cents > 0 or
        contents is not null and (status <> all (array['APPROVED', 'RETURNED'])))),
    constraint charge_br_code_check check (length(br_code) <= 512),
    constraint charge_check check ((payer_name is null) = (payer_tax_id is null)),
    constraint charge_external_id_check check (length(external_id) >= 1 and length(external_id) <= 255),
    constraint charge_id_check check (id >= 1 and id <= 9007199254740991),
    constraint charge_key_check check (length(key) >= 1 and length(key) <= 77),
    constraint charge_slot_check check (slot >= 0 and slot <= 255),
    constraint charge_status_check check (status in ('PENDING', 'APPROVED', 'EXPIRED', 'RETURNED', 'REMOVED_BY_RECEIVER',
        'REMOVED_BY_PSP')),
    constraint charge_txid_check check (length(txid) >= 26 and length(txid) <= 35),
    constraint code_names_its_charge check (contents is not null or institution_id is not null or strpos(br_code, txid) > 0),
    constraint only_pending_charge_is_held check (held_by is null or status = 'PENDING'),
    constraint revision_has_contents check (revision is null or contents is not null and revision > 0)
);
comment on table charge is
    'Requests to be paid, each with a QR code; the contract''s charges and the standard''s are the same.';
comment on column charge.id is 'Counts up, in blocks.';
comment on column charge.holder_id is 'The holder who wants to be paid.';
comment on column charge.external_id is 'The client''s own name for it, unique for the holder: the idempotency key.';
comment on column charge.fingerprint is
    'A hash of the request that created the charge, to distinguish a replay from a conflict; in the standard API, of its first contents.';
comment on column charge.txid is 'Its name on the network, 26 to 35 letters and digits.';
comment on column charge.amount_cents is 'How much, in cents; 0 where the payer chooses, until it is paid.';
comment on column charge.key is 'The Pix key that is paid.';
comment on column charge.payer_name is 'The debtor''s name; null if the charge names none. Any payer may pay.';
comment on column charge.payer_tax_id is 'The CPF or CNPJ of that debtor.';
comment on column charge.br_code is 'The QR code as text.';
comment on column charge.status is 'How far it is.';
comment on column charge.slot is 'The slot of work it belongs to, 0 to 255: one worker at a time looks after it.';
comment on column charge.created_at is 'When it was made, in service time.';
comment on column charge.modified_at is 'When it last changed, in service time.';
comment on column charge.expires_at is 'From when it cannot be paid, in service time.';
comment on column charge.held_by is
    'The pending transfer that pays it; until that ends, no other can pay the charge, and it does not expire.';
comment on column charge.contents is
    'The standard''s latest contents, as JSON; null for a charge of the contract that the standard never changed.';
comment on column charge.revision is 'How often its contents were changed; null is never.';
comment on column charge.is_unbound is 'Whether its location was taken away, so that no code leads to it; null is no.';
comment on column charge.institution_id is 'The account at which it was opened; null is the installation''s own rail.';
comment on column charge.asked_cents is 'What it asked for, where another amount has paid it.';
comment on column charge.due_on is 'The due date that it says; null for a charge that is to be paid at once.';
create index charge_due on charge (expires_at, slot) where status = 'PENDING';
create index charge_due_list on charge ((holder_id + 0), status, created_at, id) where due_on is not null;
create index charge_due_there on charge (institution_id, expires_at) where status = 'PENDING' and institution_id is not null;
create index charge_list on charge ((holder_id + 0), status, created_at, id);
create index charge_of_debtor on charge ((holder_id + 0), payer_tax_id, created_at, id) where payer_tax_id is not null;
create index charge_unbound on charge ((holder_id + 0), created_at, id) where is_unbound;
create trigger check_amount after update of amount_cents on charge for each row when (old.amount_cents <> new.amount_cents)
    execute function check_charge_amount();
create trigger check_family after insert on charge referencing new table as new_row for each statement execute function
    check_family();
create trigger check_held after update of held_by on charge for each row when (old.held_by is distinct from new.held_by) execute
    function check_held_charge();
create trigger check_institution after insert on charge for each row when (new.institution_id is not null) execute function
    check_institution_of_row();
create trigger check_moved after update on charge referencing old table as old_row new table as new_row for each statement
    execute function check_charges();
create trigger check_new after insert on charge referencing new table as new_row for each statement execute function
    check_charges();
create trigger check_new_held after insert on charge for each row when (new.held_by is not null) execute function
    check_held_charge();
create trigger check_removed_there after update on charge for each row when (new.institution_id is not null and old.status <>
    new.status and (new.status in ('REMOVED_BY_RECEIVER', 'REMOVED_BY_PSP'))) execute function check_removed_there();
create trigger check_revision after update of revision on charge for each row when (old.revision is distinct from new.revision)
    execute function check_revisions();
create trigger instants_are_finite after insert or update of expires_at on charge for each row when (not
    isfinite(new.expires_at)) execute function refuse_row('instants_are_finite',
    'a row of charge is dated to an instant that never comes');
create trigger keep_code_there after update of br_code on charge for each row when (old.institution_id is not null and
    old.br_code <> new.br_code) execute function refuse_row('a_charge_keeps_its_code_there',
    'charge %s of holder %s is paid at the account %s by the code that it has', 'id', 'holder_id', 'institution_id');
create trigger keep_held after update of contents, key, expires_at on charge for each row when (old.held_by is not null and
    (old.contents is distinct from new.contents or old.key <> new.key or old.expires_at < new.expires_at)) execute function
    refuse_row('a_held_charge_stays_as_it_is', 'charge %s of holder %s is held by %s and stays as it was accepted', 'id',
    'holder_id', 'held_by');
create trigger keep_kind after update of due_on on charge for each row when ((old.due_on is null) <> (new.due_on is null))
    execute function refuse_row('a_charge_keeps_its_kind', 'charge %s of holder %s cannot gain or lose its due date', 'id',
    'holder_id');
create trigger keep_rule after update of contents on charge for each row when (old.due_on is not null and
    (old.contents::jsonb #> '{due,discounts_roll}') is distinct from (new.contents::jsonb #> '{due,discounts_roll}'))
    execute function refuse_row('a_charge_keeps_its_rule', 'charge %s of holder %s cannot change the rule of its discounts',
    'id', 'holder_id');
grant insert, select, update (amount_cents, key, payer_name, payer_tax_id, br_code, status, modified_at, expires_at, held_by,
    contents, revision, is_unbound, asked_cents, due_on) on table charge to pixconnect_service;

create function erase_charges(wanted_ids bigint[], wanted_holders bigint[], unpaid_age interval, message_age interval, party_age
    interval) returns table(id bigint, holder_id bigint, part text) language plpgsql security definer set search_path to
    'pixconnect', 'pg_temp'
as $function$
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
    -- A request to an institution is void once the charge has ended; a payment does not keep it.
    update charge_opening set wanted = empty_contents(wanted, true)
        from unnest(gone_ids, gone_holders) as gone (id, holder_id)
        where charge_id = gone.id and charge_opening.holder_id = gone.holder_id and state <> 'opening';
    update charge_change set contents = empty_contents(contents, true)
        from unnest(gone_ids, gone_holders) as gone (id, holder_id)
        where charge_id = gone.id and charge_change.holder_id = gone.holder_id and contents is not null
            and state <> 'asked';
    return query select * from unnest(gone_ids, gone_holders, gone_parts);
end $function$;
grant execute on function erase_charges(wanted_ids bigint[], wanted_holders bigint[], unpaid_age interval, message_age interval,
    party_age interval) to pixconnect_operator;

create sequence transfer_id increment 512 maxvalue 35184372088831;
grant usage on sequence transfer_id to pixconnect_service;

create function await_names() returns trigger language plpgsql
as $function$
begin
    if tg_op = 'INSERT' then
        perform pg_advisory_xact_lock_shared(7811887);
    else
        perform pg_advisory_xact_lock(7811887);
    end if;
    return null;
end $function$;

create function check_holding_transfer() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if (new.status = 'PROCESSING') <> exists (
        select from charge where id = new.charge_id and holder_id = new.holder_id and held_by = new.id
    ) then
        raise exception 'transfer % of holder % is % and does not agree with its charge', new.id, new.holder_id, new.status
            using errcode = 'integrity_constraint_violation', constraint = 'an_accepted_payment_holds_its_charge';
    end if;
    return null;
end $function$;

create function check_legs() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if tg_table_name = 'transfer' then
        perform from transfer as leg join holder as payer on payer.id = leg.holder_id join holder as payee on payee.id = new.holder_id
        where leg.end_to_end_id = new.end_to_end_id and leg.direction = 'OUT'
            and payer.institution_id is distinct from payee.institution_id;
    else
        perform from refund as leg join holder as payer on payer.id = leg.holder_id join holder as payee on payee.id = new.holder_id
        where leg.return_id = new.return_id and leg.flow = 'OUT' and payer.institution_id is distinct from payee.institution_id;
    end if;
    if found then
        raise exception '% % of holder % goes by book between two accounts', tg_table_name, new.id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'both_legs_lie_on_one_account';
    end if;
    return null;
end $function$;

create function check_transfers() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    misfit record;
begin
    if tg_op = 'INSERT' then
        select way.* into misfit from (
            select max(id) as id, max(holder_id) as holder_id, direction, is_book, 'NEW'::text as before, status as after,
                entries_count, bool_and(has_legs and agrees) as agrees
            from (
                select id, holder_id, direction, is_book, status,
                    (
                        select count(*) from ledger_entry as entry
                        where entry.cause_kind = 'transfer' and entry.cause_id = new_row.id and entry.holder_id = new_row.holder_id
                    ) as entries_count,
                    not is_book or coalesce((
                        select count(*) = 2 and bool_or(leg.direction = 'IN') and bool_or(leg.direction = 'OUT')
                            and bool_and(leg.is_book and leg.amount_cents = new_row.amount_cents and leg.status = new_row.status)
                        from transfer as leg where leg.end_to_end_id = new_row.end_to_end_id
                    ), false) as has_legs,
                    coalesce(case
                        when direction = 'OUT' and status = 'PROCESSING' and not is_book then (
                            select ordered.resource_id = new_row.id and ordered.holder_id = new_row.holder_id
                                and ordered.slot = new_row.slot and ordered.network_id is not distinct from new_row.network_id
                            from open_order as ordered where ordered.name = new_row.end_to_end_id
                        )
                        when charge_id is not null and settled_at is not null then (
                            select charge.amount_cents = new_row.amount_cents
                                and charge.status = case new_row.status when 'RETURNED' then 'RETURNED' else 'APPROVED' end
                            from charge where charge.id = new_row.charge_id and charge.holder_id = new_row.holder_id
                        )
                        else true
                    end, false)
                    and (returned_cents + returning_cents = 0 or (
                        select coalesce(sum(given.amount_cents) filter (where given.status = 'RETURNED'), 0) = returned_cents
                            and coalesce(sum(given.amount_cents)
                                filter (where given.status = 'PROCESSING' and given.flow = 'OUT'), 0) = returning_cents
                        from refund as given where given.transfer_id = new_row.id and given.holder_id = new_row.holder_id
                    ))
                    -- A name that goes out and comes in is one payment between two of our holders, with one amount.
                    and (is_book or coalesce((
                        select other.amount_cents from transfer as other where other.end_to_end_id = new_row.end_to_end_id
                            and other.direction = case new_row.direction when 'IN' then 'OUT' else 'IN' end
                    ), amount_cents) = amount_cents and (
                        select true from transfer as other
                        where other.network_id = new_row.end_to_end_id
                            and (new_row.direction = 'OUT' or other.amount_cents <> new_row.amount_cents)
                    ) is null) as agrees
                from new_row
            ) as each
            group by direction, is_book, status, entries_count
        ) as way
        where way.agrees is not true
            or not exists (
                select from allowed_transition as allowed
                where allowed.kind = 'transfer' and allowed.direction = way.direction and allowed.is_book = way.is_book
                    and allowed.before = way.before and allowed.after = way.after
            )
            or way.entries_count <> (
                select count(*) from allowed_posting as allowed
                where allowed.kind = 'transfer' and allowed.direction = way.direction and allowed.is_book = way.is_book
                    and allowed.status = way.after
            )
        limit 1;
    else
        select way.* into misfit from (
            select max(id) as id, max(holder_id) as holder_id, direction, is_book, before, after, entries_count,
                bool_and(has_legs and agrees) as agrees
            from (
                select id, holder_id, direction, is_book, before, after,
                    case when before <> after then (
                        select count(*) from ledger_entry as entry
                        where entry.cause_kind = 'transfer' and entry.cause_id = moved.id and entry.holder_id = moved.holder_id
                    ) end as entries_count,
                    before = after or is_book is false or coalesce((
                        select count(*) = 2 and bool_or(leg.direction = 'IN') and bool_or(leg.direction = 'OUT')
                            and bool_and(leg.is_book and leg.amount_cents = moved.amount_cents and leg.status = moved.after)
                        from transfer as leg where leg.end_to_end_id = moved.end_to_end_id
                    ), false) as has_legs,
                    coalesce(case
                        when before = after then true
                        when before = 'PROCESSING' and direction = 'OUT' then (
                            select count(*) from open_order as ordered where ordered.name = moved.end_to_end_id
                        ) = 0
                        when charge_id is not null and after in ('CONFIRMED', 'RETURNED') then (
                            select charge.amount_cents = moved.amount_cents
                                and charge.status = case moved.after when 'RETURNED' then 'RETURNED' else 'APPROVED' end
                            from charge where charge.id = moved.charge_id and charge.holder_id = moved.holder_id
                        )
                        else true
                    end, false)
                    and (returned_cents = returned_before and returning_cents = returning_before or (
                        select coalesce(sum(given.amount_cents) filter (where given.status = 'RETURNED'), 0) = returned_cents
                            and coalesce(sum(given.amount_cents)
                                filter (where given.status = 'PROCESSING' and given.flow = 'OUT'), 0) = returning_cents
                        from refund as given where given.transfer_id = moved.id and given.holder_id = moved.holder_id
                    )) as agrees
                from ( -- grouped, not joined: a plan that was made for one row must serve a whole group
                    select id, holder_id, max(before) as before, max(after) as after, max(direction) as direction,
                        bool_or(is_book) as is_book, max(amount_cents) as amount_cents, max(end_to_end_id) as end_to_end_id,
                        max(charge_id) as charge_id, max(returned_before) as returned_before,
                        max(returning_before) as returning_before, max(returned_cents) as returned_cents,
                        max(returning_cents) as returning_cents
                    from (
                        select id, holder_id, status as before, null as after, null as direction, null::boolean as is_book,
                            null::bigint as amount_cents, null as end_to_end_id, null::bigint as charge_id,
                            returned_cents as returned_before, returning_cents as returning_before,
                            null::bigint as returned_cents, null::bigint as returning_cents
                        from old_row
                        union all
                        select id, holder_id, null, status, direction, is_book, amount_cents, end_to_end_id, charge_id,
                            null, null, returned_cents, returning_cents
                        from new_row
                    ) as side
                    group by id, holder_id
                    having max(before) is distinct from max(after) or max(returned_before) <> max(returned_cents)
                        or max(returning_before) <> max(returning_cents)
                ) as moved
            ) as each
            group by direction, is_book, before, after, entries_count
        ) as way
        where way.agrees is not true
            or way.before is distinct from way.after and (
                not exists (
                    select from allowed_transition as allowed
                    where allowed.kind = 'transfer' and allowed.direction = way.direction and allowed.is_book = way.is_book
                        and allowed.before = way.before and allowed.after = way.after
                )
                or way.entries_count <> (
                    select count(*) from allowed_posting as allowed
                    where allowed.kind = 'transfer' and allowed.direction = way.direction and allowed.is_book = way.is_book
                        and allowed.status = way.after
                )
            )
        limit 1;
    end if;
    if found then
        raise exception 'transfer % of holder % cannot go from % to % with the entries, refunds, order and charge that it has',
            misfit.id, misfit.holder_id, misfit.before, misfit.after
            using errcode = 'integrity_constraint_violation', constraint = 'a_transfer_has_what_belongs_to_it';
    end if;
    return null;
end $function$;

create function check_payer() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
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
end $function$;

create function take_network_id() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    own_name text;
begin
    if old.network_id is not null
        or exists (
            select from transfer where end_to_end_id = new.network_id
                and (direction = 'OUT' or amount_cents <> new.amount_cents)
        )
        or exists (
            select from refund where return_id = new.network_id and (flow = 'OUT' or amount_cents <> new.amount_cents)
        )
    then
        raise exception '% cannot be called % on the network', new.id, new.network_id
            using errcode = 'integrity_constraint_violation', constraint = 'network_id_is_reported_once';
    end if;
    if tg_table_name = 'transfer' then
        own_name := new.end_to_end_id;
        update refund set original_end_to_end_id = new.network_id
        where refund.transfer_id = new.id and refund.holder_id = new.holder_id;
    else
        own_name := new.return_id;
    end if;
    if (select count(*) from open_order where name = own_name and network_id is distinct from new.network_id) > 0 then
        raise exception 'the order % is not called % on the network', own_name, new.network_id
            using errcode = 'integrity_constraint_violation', constraint = 'an_order_is_called_as_what_was_ordered';
    end if;
    return null;
end $function$;

create table transfer (
    id bigint not null,
    holder_id bigint not null,
    direction text not null,
    initiation_type text not null,
    is_book boolean default false not null,
    external_id text collate "C",
    fingerprint bytea,
    end_to_end_id text collate "C" not null,
    correlation_id uuid not null,
    txid text,
    charge_id bigint,
    amount_cents bigint not null,
    status text not null,
    own_key text,
    counterparty jsonb not null,
    outcome_code text,
    outcome_reason text,
    returned_cents bigint default 0 not null,
    returning_cents bigint default 0 not null,
    slot smallint not null,
    handed_at timestamp with time zone,
    settled_at timestamp with time zone,
    created_at timestamp with time zone not null,
    modified_at timestamp with time zone not null,
    network_id text collate "C",
    payer_message text,
    acceptance_refused boolean,
    network_settled_at timestamp with time zone,
    institution_id smallint,
    constraint transfer_pkey primary key (id, holder_id),
    constraint transfer_external_id_is_used_once unique (external_id, holder_id),
    constraint failed_transfer_has_its_outcome check ((outcome_code is not null) = (status in ('ERROR', 'CANCELLED'))),
    constraint handed_transfer_is_never_cancelled check (status <> 'CANCELLED' or handed_at is null),
    constraint network_id_is_of_an_order check (network_id is null or length(network_id) = 32 and network_id ~~ 'E%' and
        network_id <> end_to_end_id and direction = 'OUT' and not is_book),
    constraint returns_stay_within_transfer check (returned_cents >= 0 and returning_cents >= 0 and (returned_cents +
        returning_cents) <= amount_cents and ((returned_cents + returning_cents) = 0 or settled_at is not null) and (status =
        'RETURNED') = (returned_cents = amount_cents)),
    constraint network_has_settled_what_settled check (network_settled_at is null or settled_at is not null and not is_book),
    constraint transfer_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint transfer_check check ((direction = 'OUT') = (external_id is not null) and (external_id is null) = (fingerprint is
        null)),
    constraint transfer_check1 check (charge_id is null or direction = 'IN'),
    constraint transfer_check2 check ((settled_at is not null) = (status in ('CONFIRMED', 'RETURNED'))),
    constraint transfer_check3 check (handed_at is null or direction = 'OUT' and not is_book),
    constraint transfer_direction_check check (direction in ('IN', 'OUT')),
    constraint transfer_end_to_end_id_check check (length(end_to_end_id) = 32 and end_to_end_id ~~ 'E%'),
    constraint transfer_external_id_check check (length(external_id) >= 1 and length(external_id) <= 255),
    constraint transfer_id_check check (id >= 1 and id <= 9007199254740991),
    constraint transfer_initiation_type_check check (initiation_type in ('KEY', 'MANUAL', 'QRCODE')),
    constraint transfer_slot_check check (slot >= 0 and slot <= 255),
    constraint transfer_status_check check (status in ('PROCESSING', 'CONFIRMED', 'ERROR', 'CANCELLED', 'RETURNED')),
    constraint transfer_txid_check check (length(txid) >= 1 and length(txid) <= 35)
);
comment on table transfer is
    'Money moved over the rail, or by book between two holders of this service, which makes a row for each.';
comment on column transfer.id is 'Counts up, in blocks; unique together with the holder.';
comment on column transfer.holder_id is 'The holder that sends or receives it.';
comment on column transfer.direction is 'Whether it came in (IN) or went out (OUT).';
comment on column transfer.initiation_type is 'How the payer named the payee: by key, by account (MANUAL) or by QR code.';
comment on column transfer.is_book is 'Whether it moves by book between two holders of this service, without the rail.';
comment on column transfer.external_id is
    'The client''s own name for an outgoing one, unique for the holder: the idempotency key.';
comment on column transfer.fingerprint is
    'A hash of the request that created an outgoing one, to distinguish a replay from a conflict.';
comment on column transfer.end_to_end_id is
    'Its name on the network. An outgoing one''s is made here, identifies it to the rail and never changes.';
comment on column transfer.correlation_id is 'The id that everything of one payment shares, refunds included.';
comment on column transfer.txid is 'The txid of the QR code that it pays; null without one.';
comment on column transfer.charge_id is 'The charge that an incoming one pays, or was refused for.';
comment on column transfer.amount_cents is 'How much, in cents.';
comment on column transfer.status is 'How far it is.';
comment on column transfer.own_key is
    'The holder''s Pix key: by which the payer of an incoming one found it, or by which it sent one at an institution''s face.';
comment on column transfer.counterparty is 'The other side, as JSON: name, tax id, institution, account.';
comment on column transfer.outcome_code is 'Why it failed, as a code of the network or of this service; null otherwise.';
comment on column transfer.outcome_reason is 'Why it failed, in words.';
comment on column transfer.returned_cents is 'How much of it has been given back by refunds that settled, in cents.';
comment on column transfer.returning_cents is 'How much of it is in refunds under way, in cents.';
comment on column transfer.slot is 'The slot of work it belongs to, 0 to 255: its charge''s and its refunds'' too.';
comment on column transfer.handed_at is
    'When an outgoing one was handed to the rail, in service time; while it is under way only open_order has it.';
comment on column transfer.settled_at is 'When it settled, in service time; null if not settled.';
comment on column transfer.created_at is 'When it was written, in service time.';
comment on column transfer.modified_at is 'When it last changed, in service time.';
comment on column transfer.network_id is
    'The network''s name of an outgoing one if that is not end_to_end_id; written once.';
comment on column transfer.payer_message is 'The payer''s message.';
comment on column transfer.acceptance_refused is
    'Whether we refused an incoming one before it settled: if it settles all the same, an operator must check it.';
comment on column transfer.network_settled_at is
    'When it settled by the network''s clock; null where it has not, is by book, or is older than this column.';
comment on column transfer.institution_id is
    'The account on which it happened; null is the installation''s own rail, or by book.';
create unique index charge_is_paid_once on transfer (charge_id, holder_id) where charge_id is not null and settled_at is not
    null;
create index transfer_accepted on transfer (created_at) where direction = 'IN' and status = 'PROCESSING';
create index transfer_list on transfer ((holder_id + 0), status, created_at, id);
create unique index transfer_name_is_used_once on transfer (end_to_end_id, direction);
create unique index transfer_network_id_is_used_once on transfer (network_id) where network_id is not null;
create index transfer_of_institution on transfer (institution_id, network_settled_at) where institution_id is not null;
create index transfer_paid_there on transfer (institution_id, ( case initiation_type when 'MANUAL' then ((((counterparty ->>
    'ispb') || '/') || (counterparty ->> 'branch')) || '/') || (counterparty ->> 'account_number') else counterparty ->> 'key'
    end)) where institution_id is not null and direction = 'OUT' and settled_at is not null;
create index transfer_payee on transfer (holder_id, ( case initiation_type when 'MANUAL' then ((((counterparty ->> 'ispb') ||
    '/') || (counterparty ->> 'branch')) || '/') || (counterparty ->> 'account_number') else coalesce(counterparty ->> 'key',
    ((((counterparty ->> 'ispb') || '/') || (counterparty ->> 'branch')) || '/') || (counterparty ->> 'account_number')) end),
    (counterparty ->> 'tax_id')) where direction = 'OUT' and settled_at is not null and not is_book;
create index transfer_received on transfer ((holder_id + 0), settled_at, id) where direction = 'IN' and settled_at is not null;
create index transfer_received_by_txid on transfer ((holder_id + 0), txid) where direction = 'IN' and settled_at is not null and
    charge_id is null and txid is not null;
create index transfer_redated on transfer ((holder_id - 0), network_settled_at, id) where direction = 'IN' and settled_at is not
    null and ((settled_at - network_settled_at) >= '00:01:00'::interval or (settled_at - network_settled_at) <=
    '-00:01:00'::interval);
create index transfer_redated_by_ours on transfer ((holder_id - 0), settled_at) where direction = 'IN' and settled_at is not
    null and ((settled_at - network_settled_at) >= '00:01:00'::interval or (settled_at - network_settled_at) <=
    '-00:01:00'::interval);
create trigger await_names after insert on transfer for each statement execute function await_names();
create trigger await_naming after update of network_id on transfer for each row when (new.network_id is distinct from
    old.network_id) execute function await_names();
create trigger check_family after insert on transfer referencing new table as new_row for each statement execute function
    check_family();
create trigger check_holding after update of status on transfer for each row when (old.direction = 'IN' and old.status =
    'PROCESSING' and old.charge_id is not null) execute function check_holding_transfer();
create trigger check_institution after insert on transfer for each row when (new.institution_id is not null) execute function
    check_institution_of_row();
create trigger check_legs after insert on transfer for each row when (new.is_book and new.direction = 'IN') execute function
    check_legs();
create trigger check_moved after update on transfer referencing old table as old_row new table as new_row for each statement
    execute function check_transfers();
create trigger check_new after insert on transfer referencing new table as new_row for each statement execute function
    check_transfers();
create trigger check_new_holding after insert on transfer for each row when (new.direction = 'IN' and new.status = 'PROCESSING'
    and new.charge_id is not null) execute function check_holding_transfer();
create trigger check_open after insert on transfer for each row when (new.institution_id is not null) execute function
    check_account_is_open();
create trigger check_payer after update of counterparty on transfer for each row when (old.counterparty is distinct from
    new.counterparty) execute function check_payer();
create trigger keep_end after update of handed_at, settled_at, network_settled_at, outcome_code, outcome_reason on transfer for
    each row when ((old.status <> 'PROCESSING' or new.status = 'PROCESSING') and (old.handed_at is distinct from new.handed_at
    or old.settled_at is distinct from new.settled_at or old.network_settled_at is distinct from new.network_settled_at or
    old.outcome_code is distinct from new.outcome_code or old.outcome_reason is distinct from new.outcome_reason)) execute
    function refuse_row('an_end_is_written_once', 'transfer %s of holder %s is %s and keeps when and how it ended', 'id',
    'holder_id', 'status');
create trigger take_network_id after update of network_id on transfer for each row when (new.network_id is distinct from
    old.network_id) execute function take_network_id();
grant insert, select, update (status, counterparty, outcome_code, outcome_reason, returned_cents, returning_cents, handed_at,
    settled_at, modified_at, network_id, network_settled_at) on table transfer to pixconnect_service;

create function erase_transfers(wanted_ids bigint[], wanted_holders bigint[], unpaid_age interval, message_age interval,
    party_age interval) returns table(id bigint, holder_id bigint, part text) language plpgsql security definer set search_path
    to 'pixconnect', 'pg_temp'
as $function$
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
    perform lose_salts('transfer', gone_ids, gone_holders);
    return query select * from unnest(gone_ids, gone_holders, gone_parts);
end $function$;
grant execute on function erase_transfers to pixconnect_operator;

create function keep_unless_erased() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
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
end $function$;

create table payer_completion (
    transfer_id bigint not null,
    holder_id bigint not null,
    before jsonb not null,
    completed_at timestamp with time zone not null,
    constraint payer_completion_pkey primary key (transfer_id, holder_id),
    constraint payer_completion_completed_at_check check (isfinite(completed_at)),
    constraint payer_completion_transfer_id_holder_id_fkey foreign key (transfer_id, holder_id) references transfer(id,
        holder_id)
);
comment on table payer_completion is 'Payments whose payer the institution reported later; rows are never changed or deleted.';
comment on column payer_completion.transfer_id is 'The payment.';
comment on column payer_completion.holder_id is 'Its holder.';
comment on column payer_completion.before is 'The payer as recorded before, as JSON.';
comment on column payer_completion.completed_at is 'When the rest became known, in service time.';
create trigger keep_unless_erased before update on payer_completion for each row execute function keep_unless_erased('before');
create trigger payer_completion_is_append_only before delete or truncate on payer_completion for each statement execute function
    refuse_change();
grant insert, select on table payer_completion to pixconnect_service;

create function check_due_payment() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if not exists (
        select from paid_amount join transfer on transfer.id = transfer_id and transfer.holder_id = paid_amount.holder_id
        where paid_amount.charge_id = new.id and paid_amount.holder_id = new.holder_id and transfer.settled_at is not null
            and paid_amount.amount_cents = new.amount_cents
            and paid_amount.original_cents = coalesce(new.asked_cents, new.amount_cents)
    ) then
        raise exception 'charge % of holder % has a due date, and nobody knows of what parts its payment consists',
            new.id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_due_charge_is_paid_in_parts';
    end if;
    return null;
end $function$;

create function check_paid_amount() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if not exists (
        select from transfer join charge on charge.id = transfer.charge_id and charge.holder_id = transfer.holder_id
        where transfer.id = new.transfer_id and transfer.holder_id = new.holder_id and transfer.charge_id = new.charge_id
            and transfer.direction = 'IN' and transfer.amount_cents = new.amount_cents
            and charge.due_on is not null and coalesce(charge.asked_cents, charge.amount_cents) = new.original_cents
    ) then
        raise exception 'transfer % of holder % is no payment of the charge % with these parts',
            new.transfer_id, new.holder_id, new.charge_id
            using errcode = 'integrity_constraint_violation', constraint = 'parts_are_of_a_payment';
    end if;
    return null;
end $function$;

create table paid_amount (
    transfer_id bigint not null,
    holder_id bigint not null,
    charge_id bigint not null,
    amount_cents bigint not null,
    original_cents bigint not null,
    fine_cents bigint not null,
    interest_cents bigint not null,
    rebate_cents bigint not null,
    discount_cents bigint not null,
    constraint paid_amount_pkey primary key (transfer_id, holder_id),
    constraint an_amount_is_the_sum_of_its_parts check (amount_cents = (original_cents + fine_cents + interest_cents -
        rebate_cents - discount_cents)),
    constraint paid_amount_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint paid_amount_discount_cents_check check (discount_cents >= 0),
    constraint paid_amount_fine_cents_check check (fine_cents >= 0),
    constraint paid_amount_interest_cents_check check (interest_cents >= 0),
    constraint paid_amount_original_cents_check check (original_cents >= 1 and original_cents <= 999999999999),
    constraint paid_amount_rebate_cents_check check (rebate_cents >= 0),
    constraint paid_amount_transfer_id_holder_id_fkey foreign key (transfer_id, holder_id) references transfer(id, holder_id)
);
comment on table paid_amount is
    'The parts of each payment of a charge with a due date, on its day of report; rows are never changed or deleted.';
comment on column paid_amount.transfer_id is 'The payment.';
comment on column paid_amount.holder_id is 'The payee.';
comment on column paid_amount.charge_id is 'The charge.';
comment on column paid_amount.amount_cents is 'The sum paid: the total of its parts.';
comment on column paid_amount.original_cents is 'The charge''s amount.';
comment on column paid_amount.fine_cents is 'The fine for being late.';
comment on column paid_amount.interest_cents is 'The interest for being late.';
comment on column paid_amount.rebate_cents is 'The rebate, which does not depend on the day.';
comment on column paid_amount.discount_cents is 'The discount for early payment.';
create index paid_amount_of_charge on paid_amount (charge_id, holder_id);
create trigger check_due_payment after update of status on charge for each row when (new.due_on is not null and
    new.institution_id is null and old.status <> new.status and new.status = 'APPROVED') execute function check_due_payment();
create trigger check_new after insert on paid_amount for each row execute function check_paid_amount();
create trigger paid_amount_is_append_only before delete or update or truncate on paid_amount for each statement execute function
    refuse_change();
grant insert, select on table paid_amount to pixconnect_service;

create function check_settled_payee() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if not exists (
        select from transfer
        where id = new.transfer_id and holder_id = new.holder_id and direction = 'OUT' and settled_at is not null
            and institution_id is not null
    ) then
        raise exception 'transfer % of holder % has reached nobody over an account', new.transfer_id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'only_a_settled_transfer_has_reached_somebody';
    end if;
    return new;
end $function$;

create table settled_payee (
    transfer_id bigint not null,
    holder_id bigint not null,
    payee jsonb not null,
    reported_at timestamp with time zone not null,
    constraint settled_payee_pkey primary key (transfer_id, holder_id),
    constraint settled_payee_reported_at_check check (isfinite(reported_at)),
    constraint settled_payee_transfer_id_holder_id_fkey foreign key (transfer_id, holder_id) references transfer(id, holder_id)
);
comment on table settled_payee is
    'Payees that transfers over accounts at institutions reached, as reported with the end; rows are never changed or deleted.';
comment on column settled_payee.transfer_id is 'The transfer.';
comment on column settled_payee.holder_id is 'Its holder.';
comment on column settled_payee.payee is 'The payee as reported then, as JSON; masked values keep their asterisks.';
comment on column settled_payee.reported_at is 'When it was reported, in service time.';
create trigger check_settled_payee before insert on settled_payee for each row execute function check_settled_payee();
create trigger keep_unless_erased before update on settled_payee for each row execute function keep_unless_erased('payee');
create trigger settled_payee_is_append_only before delete or truncate on settled_payee for each statement execute function
    refuse_change();
grant insert, select on table settled_payee to pixconnect_service;

create table lookup_budget (
    holder_id bigint not null,
    tokens double precision not null,
    read_at timestamp with time zone not null,
    settled_until timestamp with time zone not null,
    constraint lookup_budget_pkey primary key (holder_id),
    constraint lookup_budget_read_at_check check (isfinite(read_at)),
    constraint lookup_budget_settled_until_check check (isfinite(settled_until)),
    constraint lookup_budget_tokens_check check (tokens >= '-1000000000'::numeric::double precision and tokens <=
        '1000000000'::numeric::double precision),
    constraint lookup_budget_holder_id_fkey foreign key (holder_id) references holder(id)
) with (fillfactor=50);
comment on table lookup_budget is
    'Remaining look-ups of keys and accounts: a row for each holder that has spent one; no money depends on it.';
comment on column lookup_budget.holder_id is 'The holder that looks up.';
comment on column lookup_budget.tokens is 'The tokens left at read_at; negative if more were spent than existed.';
comment on column lookup_budget.read_at is 'Real time, from which tokens come back again.';
comment on column lookup_budget.settled_until is
    'Service time: payments that were made until then and have settled are among the tokens already.';
grant insert, select, update on table lookup_budget to pixconnect_service;

create function check_waiting_order() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if not exists (
        select from open_order
        where name = new.order_name and resource_id = new.transfer_id and holder_id = new.holder_id
            and institution_id = new.institution_id and handed_at is not null and left(name, 1) = 'E'
    ) then
        raise exception 'the order % is not open at the account %, so that it waits for nobody there',
            new.order_name, new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'only_an_open_order_waits';
    end if;
    return new;
end $function$;

create table waiting_order (
    order_name text collate "C" not null,
    transfer_id bigint not null,
    holder_id bigint not null,
    institution_id smallint not null,
    waits_for text collate "C" not null,
    since timestamp with time zone not null,
    constraint waiting_order_pkey primary key (order_name),
    constraint waiting_order_transfer_id_holder_id_key unique (transfer_id, holder_id),
    constraint waiting_order_order_name_check check (length(order_name) = 32),
    constraint waiting_order_since_check check (isfinite(since)),
    constraint waiting_order_waits_for_check check (waits_for in ('approval', 'funds')),
    constraint waiting_order_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
comment on table waiting_order is
    'Transfers that began to wait for a person at an institution; rows are never changed or deleted.';
comment on column waiting_order.order_name is 'The transfer''s end_to_end_id.';
comment on column waiting_order.transfer_id is 'The transfer.';
comment on column waiting_order.holder_id is 'The holder that sends it.';
comment on column waiting_order.institution_id is 'The account that it leaves over.';
comment on column waiting_order.waits_for is
    'A person must approve it at the institution, or the account at the institution lacks money.';
comment on column waiting_order.since is 'When it was first seen to wait, in service time.';
create trigger check_new before insert on waiting_order for each row execute function check_waiting_order();
create trigger waiting_order_is_append_only before delete or update or truncate on waiting_order for each statement execute
    function refuse_change();
grant insert, select on table waiting_order to pixconnect_service;

create sequence refund_id increment 512 maxvalue 35184372088831;
grant usage on sequence refund_id to pixconnect_service;

create function check_account_of_refund() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    perform from transfer join holder on holder.id = transfer.holder_id
    where transfer.id = new.transfer_id and transfer.holder_id = new.holder_id
        and transfer.institution_id is distinct from holder.institution_id;
    if found then
        raise exception 'refund % of holder % is of a transfer on another account', new.id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'what_happens_on_an_account_is_of_its_holders';
    end if;
    return null;
end $function$;

create function check_refunds() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
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
        -- Taken from the available balance in as many entries as needed: post_ledger_entries checks each; together they make
        -- the amount.
        select coalesce(sum(entry.amount_cents), 0) from ledger_entry as entry
        where entry.cause_kind = 'refund' and entry.cause_id = moved.id and entry.holder_id = moved.holder_id
    ) <> refund.amount_cents else (
        select count(*) from ledger_entry as entry
        where entry.cause_kind = 'refund' and entry.cause_id = moved.id and entry.holder_id = moved.holder_id
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
        or moved.before = 'NEW' and not refund.is_book and (
            select count(*) from refund as other
            where other.return_id = refund.return_id and other.amount_cents <> refund.amount_cents
        ) + (
            select count(*) from refund as other
            where other.network_id = refund.return_id
                and (refund.flow = 'OUT' or other.amount_cents <> refund.amount_cents)
        ) > 0
    )
    limit 1;
    if found then
        raise exception 'refund % of holder % cannot go from % to % with the entries, original and order that it has',
            misfit.id, misfit.holder_id, misfit.before, misfit.status
            using errcode = 'integrity_constraint_violation', constraint = 'a_refund_has_what_belongs_to_it';
    end if;
    return null;
end $function$;

create table refund (
    id bigint not null,
    holder_id bigint not null,
    transfer_id bigint not null,
    flow text not null,
    is_book boolean default false not null,
    external_id text collate "C",
    fingerprint bytea,
    return_id text collate "C" not null,
    original_end_to_end_id text not null,
    correlation_id uuid not null,
    amount_cents bigint not null,
    status text not null,
    reason text not null,
    description text,
    outcome_code text,
    outcome_reason text,
    slot smallint not null,
    handed_at timestamp with time zone,
    settled_at timestamp with time zone,
    created_at timestamp with time zone not null,
    modified_at timestamp with time zone not null,
    network_id text collate "C",
    network_settled_at timestamp with time zone,
    made_by text default 'service' not null,
    constraint refund_pkey primary key (id, holder_id),
    constraint refund_external_id_is_used_once unique (external_id, holder_id),
    constraint failed_refund_has_its_outcome check ((outcome_code is not null) = (status = 'ERROR')),
    constraint made_there_is_reported_at_its_end check (made_by = 'service' or made_by = 'institution' and flow = 'OUT' and not
        is_book and status = 'RETURNED' and handed_at is null and external_id ~~ 'theirs:%'),
    constraint network_id_is_of_an_order check (network_id is null or length(network_id) = 32 and network_id ~~ 'D%' and
        network_id <> return_id and flow = 'OUT' and not is_book),
    constraint network_has_settled_what_settled check (network_settled_at is null or settled_at is not null and not is_book),
    constraint refund_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint refund_check check ((flow = 'OUT') = (external_id is not null) and (external_id is null) = (fingerprint is null)),
    constraint refund_check1 check ((settled_at is not null) = (status = 'RETURNED')),
    constraint refund_check2 check (handed_at is null or flow = 'OUT' and not is_book),
    constraint refund_description_check check (length(description) <= 140),
    constraint refund_external_id_check check (length(external_id) >= 1 and length(external_id) <= 255),
    constraint refund_flow_check check (flow in ('IN', 'OUT')),
    constraint refund_id_check check (id >= 1 and id <= 9007199254740991),
    constraint refund_reason_check check (reason in ('MD06', 'BE08', 'FR01', 'SL02')),
    constraint refund_return_id_check check (length(return_id) = 32 and return_id ~~ 'D%'),
    constraint refund_slot_check check (slot >= 0 and slot <= 255),
    constraint refund_status_check check (status in ('PROCESSING', 'RETURNED', 'ERROR')),
    constraint refund_transfer_id_holder_id_fkey foreign key (transfer_id, holder_id) references transfer(id, holder_id)
);
comment on table refund is 'Transfers given back, wholly or in part, over the rail or by book.';
comment on column refund.id is 'Counts up, in blocks; unique together with the holder.';
comment on column refund.holder_id is 'The holder that returns or gets the money.';
comment on column refund.transfer_id is 'The transfer that is given back.';
comment on column refund.flow is 'Whether money comes back to the holder (IN) or leaves it (OUT).';
comment on column refund.is_book is 'Whether it moves by book between two holders of this service, without the rail.';
comment on column refund.external_id is
    'The client''s own name for an outgoing one, unique for the holder: the idempotency key.';
comment on column refund.fingerprint is
    'A hash of the request that created an outgoing one, to distinguish a replay from a conflict.';
comment on column refund.return_id is
    'Its name on the network. An outgoing one''s is made here, identifies it to the rail and never changes.';
comment on column refund.original_end_to_end_id is
    'The name of its transfer as callers see it; it changes if the network reports its own name.';
comment on column refund.correlation_id is 'The id that everything of one payment shares.';
comment on column refund.amount_cents is 'How much, in cents.';
comment on column refund.status is 'How far it is.';
comment on column refund.reason is 'Why it is given back, as the network''s code.';
comment on column refund.description is 'Why it is given back, in words, up to 140 characters.';
comment on column refund.outcome_code is 'Why it failed, as a code of the network or of this service; null otherwise.';
comment on column refund.outcome_reason is 'Why it failed, in words.';
comment on column refund.slot is 'The slot of work it belongs to, 0 to 255: its transfer''s.';
comment on column refund.handed_at is
    'When an outgoing one was handed to the rail, in service time; while it is under way only open_order has it.';
comment on column refund.settled_at is 'When it settled, in service time; null if not settled.';
comment on column refund.created_at is 'When it was written, in service time.';
comment on column refund.modified_at is 'When it last changed, in service time.';
comment on column refund.network_id is 'The network''s name of an outgoing one if that is not return_id; written once.';
comment on column refund.network_settled_at is
    'When it settled by the network''s clock; null where it has not, is by book, or is older than this column.';
comment on column refund.made_by is
    'Its maker: this service, which also records refunds sent by others; the institution; or a person there.';
create index refund_left on refund (settled_at) where flow = 'OUT' and not is_book and settled_at is not null;
create index refund_list on refund ((holder_id + 0), created_at, id);
create index refund_list_by_status on refund ((holder_id + 0), status, created_at, id);
create unique index refund_name_is_used_once on refund (return_id, flow);
create unique index refund_network_id_is_used_once on refund (network_id) where network_id is not null;
create index refund_of_transfer on refund (transfer_id, holder_id);
create trigger await_names after insert on refund for each statement execute function await_names();
create trigger await_naming after update of network_id on refund for each row when (new.network_id is distinct from
    old.network_id) execute function await_names();
create trigger check_family after insert on refund referencing new table as new_row for each statement execute function
    check_family();
create trigger check_institution after insert on refund for each row when (not new.is_book) execute function
    check_account_of_refund();
create trigger check_legs after insert on refund for each row when (new.is_book and new.flow = 'IN') execute function
    check_legs();
create trigger check_moved after update on refund referencing old table as old_row new table as new_row for each statement
    execute function check_refunds();
create trigger check_new after insert on refund referencing new table as new_row for each statement execute function
    check_refunds();
create trigger check_open after insert on refund for each row when (new.made_by = 'institution') execute function
    check_account_is_open();
create trigger keep_end after update of handed_at, settled_at, network_settled_at, outcome_code, outcome_reason on refund for
    each row when ((old.status <> 'PROCESSING' or new.status = 'PROCESSING') and (old.handed_at is distinct from new.handed_at
    or old.settled_at is distinct from new.settled_at or old.network_settled_at is distinct from new.network_settled_at or
    old.outcome_code is distinct from new.outcome_code or old.outcome_reason is distinct from new.outcome_reason)) execute
    function refuse_row('an_end_is_written_once', 'refund %s of holder %s is %s and keeps when and how it ended', 'id',
    'holder_id', 'status');
create trigger take_network_id after update of network_id on refund for each row when (new.network_id is distinct from
    old.network_id) execute function take_network_id();
grant insert, select, update (status, outcome_code, outcome_reason, handed_at, settled_at, modified_at, network_id,
    network_settled_at) on table refund to pixconnect_service;

create function erase_refunds(wanted_ids bigint[], wanted_holders bigint[], unpaid_age interval, message_age interval, party_age
    interval) returns table(id bigint, holder_id bigint, part text) language plpgsql security definer set search_path to
    'pixconnect', 'pg_temp'
as $function$
#variable_conflict use_column
declare
    messages_until timestamptz := clock_timestamp() - greatest(message_age, interval '90 days');
    gone_ids bigint[];
    gone_holders bigint[];
begin
    perform from entry_chain_state for update;
    select array_agg(due.id), array_agg(due.holder_id) into gone_ids, gone_holders from (
        select refund.id, refund.holder_id from unnest(wanted_ids, wanted_holders) as asked (id, holder_id)
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
    perform lose_salts('refund', gone_ids, gone_holders);
    return query select each.id, each.holder_id, 'message' from unnest(gone_ids, gone_holders) as each (id, holder_id);
end $function$;
grant execute on function erase_refunds to pixconnect_operator;

create function post_ledger_entries() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
declare
    balances_count bigint; -- holders whose balance has to move
    statements_count bigint; -- holders whose statement has to move
    compared_count bigint; -- holders whose balance and statement have to agree
    others_count bigint; -- entries that no transfer has caused
    moved_count bigint;
    misfit record;
begin
    if tg_table_name <> 'ledger_entry' or tg_table_schema <> current_schema() or tg_level <> 'STATEMENT' then
        raise exception 'entries are posted for the ledger alone' using errcode = 'insufficient_privilege';
    end if;

    select count(distinct holder_id) filter (where (debit_account, credit_account) <> ('reserved', 'settlement')),
        count(distinct holder_id) filter (where number is not null),
        count(distinct holder_id) filter (where number is not null or debit_account = 'reserved'),
        count(*) filter (where cause_kind <> 'transfer')
    into balances_count, statements_count, compared_count, others_count from new_entry;

    -- Reserved money settles without a lock on the balance, so that other transfers are accepted meanwhile.
    if balances_count > 0 then
        update balance set
            available_cents = balance.available_cents + posting.available_cents,
            reserved_cents = balance.reserved_cents + posting.reserved_cents,
            blocked_cents = balance.blocked_cents + posting.blocked_cents,
            deficit_cents = balance.deficit_cents + posting.deficit_cents,
            settlement_cents = balance.settlement_cents + posting.settlement_cents,
            funding_cents = balance.funding_cents + posting.funding_cents,
            difference_cents = balance.difference_cents + posting.difference_cents,
            modified_at = greatest(balance.modified_at, posting.modified_at)
        from (
            select holder_id,
                sum(amount_cents * ((credit_account = 'available')::int - (debit_account = 'available')::int)) as available_cents,
                sum(amount_cents * ((credit_account = 'reserved')::int - (debit_account = 'reserved')::int)) as reserved_cents,
                sum(amount_cents * ((credit_account = 'blocked')::int - (debit_account = 'blocked')::int)) as blocked_cents,
                sum(amount_cents * ((debit_account = 'deficit')::int - (credit_account = 'deficit')::int)) as deficit_cents, -- owed
                sum(amount_cents * ((credit_account = 'settlement')::int - (debit_account = 'settlement')::int))
                    as settlement_cents,
                sum(amount_cents * ((credit_account = 'funding')::int - (debit_account = 'funding')::int)) as funding_cents,
                sum(amount_cents * ((credit_account = 'difference')::int - (debit_account = 'difference')::int))
                    as difference_cents,
                max(created_at) as modified_at
            from new_entry where (debit_account, credit_account) <> ('reserved', 'settlement') group by holder_id
        ) as posting
        where balance.holder_id = posting.holder_id;
        get diagnostics moved_count = row_count;
        if moved_count <> balances_count then
            raise exception 'a ledger entry has no balance to follow'
                using errcode = 'integrity_constraint_violation', constraint = 'entries_follow_each_other';
        end if;
    end if;

    -- Money that is reserved or blocked stays within current funds, so a batch that only accepts orders has no numbers.
    if statements_count > 0 then
        update statement_head as head set
            last_number = head.last_number + line.numbered_count,
            last_entry_at = line.last_entry_at,
            funds_cents = head.funds_cents + line.change_cents,
            settled_cents = head.settled_cents + line.settled_cents
        from (
            select holder_id, count(*) as numbered_count, min(number) as first_number, sum(change_cents) as change_cents,
                min(running_balance_cents - change_cents) filter (where number_before is null) as before_cents,
                coalesce(sum(amount_cents) filter (where debit_account = 'reserved' and credit_account = 'settlement'), 0)
                    as settled_cents,
                min(created_at) as first_entry_at, max(created_at) as last_entry_at,
                bool_and(number_before is null or number = number_before + 1
                    and running_balance_cents = balance_before + change_cents and created_at > created_before) as follows
            from (
                select *, lag(number) over following as number_before, lag(created_at) over following as created_before,
                    lag(running_balance_cents) over following as balance_before
                from (
                    select *, case when credit_account in ('available', 'reserved', 'blocked') then amount_cents
                        else -amount_cents end as change_cents
                    from new_entry where number is not null
                ) as numbered
                window following as (partition by holder_id order by number)
            ) as each
            group by holder_id
        ) as line
        where head.holder_id = line.holder_id and follows and line.first_number = head.last_number + 1
            and line.first_entry_at > head.last_entry_at and line.before_cents = head.funds_cents;
        get diagnostics moved_count = row_count;
        if moved_count <> statements_count then
            raise exception 'a ledger entry does not follow the one before it: its number, its instant or its running balance'
                using errcode = 'integrity_constraint_violation', constraint = 'entries_follow_each_other';
        end if;
    end if;

    if compared_count > 0 then
        -- Each transaction that spends reserved money locks the head, so that two cannot spend the same money.
        if compared_count > statements_count then
            perform from statement_head where holder_id in (select holder_id from new_entry) order by holder_id for no key update;
        end if;
        select entry.holder_id into misfit from (
            select distinct holder_id from new_entry where number is not null or debit_account = 'reserved'
        ) as entry
        left join whole_balance as balance on balance.holder_id = entry.holder_id
        where (reserved_cents >= 0 and funds_cents = available_cents + reserved_cents + blocked_cents) is not true
        limit 1;
        if found then
            raise exception 'holder % has less reserved than leaves, or other funds than its statement', misfit.holder_id
                using errcode = 'integrity_constraint_violation', constraint = 'statement_ends_with_the_balance';
        end if;
    end if;

    -- Permission is looked up once per way of moving money in this statement, not once per entry.
    if others_count = 0 then
        select moved.id, moved.holder_id into misfit from (
            select max(entry.id) as id, max(entry.holder_id) as holder_id, debit_account, credit_account, direction, is_book, status,
                bool_and(entry.amount_cents = transfer.amount_cents and entry.cause_state::text = transfer.status) as agrees
            from new_entry as entry
            left join transfer on transfer.id = entry.cause_id and transfer.holder_id = entry.holder_id
            group by 3, 4, 5, 6, 7
        ) as moved
        where agrees is not true or not exists (
            select from allowed_posting as allowed
            where allowed.kind = 'transfer' and allowed.direction = moved.direction and allowed.is_book = moved.is_book
                and allowed.status = moved.status and allowed.debit_account = moved.debit_account
                and allowed.credit_account = moved.credit_account
        )
        limit 1;
    else -- A null is not looked for: an entry has one cause, and costs one look.
        select moved.id, moved.holder_id into misfit from (
            select max(entry.id) as id, max(entry.holder_id) as holder_id, debit_account, credit_account, cause_kind, cause_state,
                coalesce(transfer.direction, refund.flow) as direction, coalesce(transfer.is_book, refund.is_book) as is_book,
                coalesce(refund.made_by, 'service') as made_by,
                bool_and(case cause_kind
                    when 'transfer' then (transfer.status, transfer.amount_cents)
                        is not distinct from (entry.cause_state::text, entry.amount_cents)
                    when 'refund' then refund.status is not distinct from entry.cause_state::text and refund.amount_cents = case made_by
                        -- A refund by the institution takes the available balance in parts, which together make its amount.
                        when 'institution' then (
                            select sum(part.amount_cents) from ledger_entry as part
                            where part.cause_kind = 'refund' and part.cause_id = entry.cause_id and part.holder_id = entry.holder_id
                        )
                        else entry.amount_cents
                    end
                    when 'deposit' then (deposit.id, deposit.amount_cents) is not distinct from (entry.id, entry.amount_cents)
                    else true -- A trigger of the table that is its cause compares it.
                end) as agrees
            from new_entry as entry
            left join transfer on transfer.id = case cause_kind when 'transfer' then cause_id end
                and transfer.holder_id = entry.holder_id
            left join refund on refund.id = case cause_kind when 'refund' then cause_id end and refund.holder_id = entry.holder_id
            left join deposit on deposit.id = case cause_kind when 'deposit' then cause_id end
                and deposit.holder_id = entry.holder_id
            group by 3, 4, 5, 6, 7, 8, 9
        ) as moved
        where agrees is not true or not exists (
            select from allowed_posting as allowed
            where allowed.kind = moved.cause_kind::text and allowed.status = moved.cause_state::text
                and allowed.debit_account = moved.debit_account and allowed.credit_account = moved.credit_account
                and allowed.direction = coalesce(moved.direction, allowed.direction)
                and allowed.is_book = coalesce(moved.is_book, allowed.is_book) and allowed.made_by = moved.made_by
        )
        limit 1;
    end if;
    if found then
        raise exception 'ledger entry % of holder % has no cause', misfit.id, misfit.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'every_entry_has_a_cause';
    end if;
    return null;
end $function$;

create table ledger_entry (
    id bigint not null,
    holder_id bigint not null,
    debit_account ledger_account not null,
    credit_account ledger_account not null,
    amount_cents bigint not null,
    number bigint,
    running_balance_cents bigint,
    cause_kind entry_cause not null,
    cause_id bigint not null,
    cause_state cause_state not null,
    created_at timestamp with time zone not null,
    constraint ledger_entry_pkey primary key (id, holder_id),
    constraint accounts_differ check (debit_account <> credit_account),
    constraint amount_is_positive check (amount_cents > 0),
    constraint ledger_entry_id_check check (id >= 1 and id <= 9007199254740991),
    constraint numbered_if_funds_change check ((number is not null) = ((debit_account in ('available'::ledger_account,
        'reserved'::ledger_account, 'blocked'::ledger_account)) <> (credit_account in ('available'::ledger_account,
        'reserved'::ledger_account, 'blocked'::ledger_account))) and (number is not null) = (running_balance_cents is not null))
);
comment on table ledger_entry is
    'Amounts, each moved from one account of a holder to another of the same holder; rows are never changed or deleted.';
comment on column ledger_entry.id is 'Counts up; unique together with the holder.';
comment on column ledger_entry.holder_id is 'The holder whose accounts they are.';
comment on column ledger_entry.debit_account is 'The account that the amount leaves.';
comment on column ledger_entry.credit_account is 'The account that the amount enters.';
comment on column ledger_entry.amount_cents is 'How much, in cents; always positive.';
comment on column ledger_entry.number is
    'The place in the statement, counted from 1 without gaps; null where available + reserved + blocked stays the same.';
comment on column ledger_entry.running_balance_cents is
    'Available + reserved + blocked after this entry, in cents; null where it has no number.';
comment on column ledger_entry.cause_kind is 'The table that has its cause.';
comment on column ledger_entry.cause_id is
    'The id of its cause; a deposit, repayment or step of a block has the id of its entry, a movement or adjustment that of its first.';
comment on column ledger_entry.cause_state is 'The state of its cause that this entry belongs to.';
comment on column ledger_entry.created_at is 'When it was written, in service time.';
create unique index ledger_entry_created_at on ledger_entry (holder_id, created_at) where number is not null;
create unique index ledger_entry_number on ledger_entry (holder_id, number) where number is not null;
create unique index ledger_entry_once on ledger_entry (cause_id, holder_id, cause_kind, debit_account, credit_account);
create trigger instants_are_finite after insert on ledger_entry for each row when (not isfinite(new.created_at)) execute
    function refuse_row('instants_are_finite', 'a row of ledger_entry is dated to an instant that never comes');
create trigger ledger_entry_is_append_only before delete or update or truncate on ledger_entry for each statement execute
    function refuse_change();
create trigger post_entries after insert on ledger_entry referencing new table as new_entry for each statement execute function
    post_ledger_entries();
grant insert, select on table ledger_entry to pixconnect_service;

create function check_ended_orders() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
declare
    misfit text;
begin
    select ended_order.name into misfit from ended_order
    left join transfer on transfer.id = case when left(name, 1) = 'E' then resource_id end
        and transfer.holder_id = ended_order.holder_id
    left join refund on refund.id = case when left(name, 1) = 'D' then resource_id end
        and refund.holder_id = ended_order.holder_id
    where (
        coalesce(transfer.status, refund.status, 'PROCESSING') = 'PROCESSING'
        or coalesce(transfer.handed_at, refund.handed_at) is distinct from ended_order.handed_at
        or coalesce(transfer.status, refund.status) = 'CANCELLED'
            and coalesce(transfer.modified_at, refund.modified_at) < ended_order.give_up_at
    )
    limit 1;
    if found then
        raise exception 'the order % ends otherwise than what was ordered', misfit
            using errcode = 'integrity_constraint_violation', constraint = 'order_ends_with_what_was_ordered';
    end if;
    return null;
end $function$;

create function check_order_name() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if new.network_id is distinct from (
        case left(new.name, 1)
            when 'E' then (select network_id from transfer where id = new.resource_id and holder_id = new.holder_id)
            else (select network_id from refund where id = new.resource_id and holder_id = new.holder_id)
        end
    ) then
        raise exception 'the order % cannot be called % on the network', new.name, new.network_id
            using errcode = 'integrity_constraint_violation', constraint = 'an_order_is_called_as_what_was_ordered';
    end if;
    return null;
end $function$;

create function check_new_orders() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    misfit text;
begin
    select ordered.name into misfit from new_row as ordered
    left join transfer on transfer.id = case when left(ordered.name, 1) = 'E' then ordered.resource_id end
        and transfer.holder_id = ordered.holder_id
    left join refund on refund.id = case when left(ordered.name, 1) = 'D' then ordered.resource_id end
        and refund.holder_id = ordered.holder_id
    where coalesce(transfer.status, refund.status) is distinct from 'PROCESSING'
        or coalesce(transfer.direction, refund.flow) <> 'OUT' or coalesce(transfer.is_book, refund.is_book)
        or coalesce(transfer.end_to_end_id, refund.return_id) <> ordered.name
        or coalesce(transfer.slot, refund.slot) <> ordered.slot
        or coalesce(transfer.network_id, refund.network_id) is distinct from ordered.network_id
    limit 1;
    if found then
        raise exception 'the order % is of nothing that is under way', misfit
            using errcode = 'integrity_constraint_violation', constraint = 'an_order_is_of_what_is_under_way';
    end if;
    return null;
end $function$;

create function count_refund() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    refunded_cents bigint;
    counted_cents bigint;
begin
    select refund.amount_cents into refunded_cents
    from refund join transfer on transfer.id = refund.transfer_id and transfer.holder_id = refund.holder_id
    where refund.id = new.resource_id and refund.holder_id = new.holder_id and refund.return_id = new.name
        and transfer.institution_id = new.institution_id;
    if not found then
        raise exception 'the order % is of the account %, and no refund of a Pix there is', new.name, new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'only_refunds_leave';
    end if;
    insert into refund_day as counted (institution_id, day, cents)
        values (new.institution_id, (new.ordered_at at time zone 'America/Sao_Paulo')::date, refunded_cents)
        on conflict (institution_id, day) do update set cents = counted.cents + excluded.cents
        returning counted.cents into counted_cents;
    if counted_cents > (
        select refunds_day_cents from institution_allowance where institution_id = new.institution_id
    ) then
        raise exception 'refunds over account % are above what is allowed for a day', new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'refunds_stay_within_their_day';
    end if;
    return null;
end $function$;

create function count_transfer() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    sent transfer;
    allowed institution_allowance;
    owner_tax_id text;
    payee_tax_id text;
    counted_cents bigint;
begin
    -- Moving a holder to another account requires a balance of 0, and this order holds part of the balance: neither can miss
    -- the other.
    select * into sent from transfer
    where id = new.resource_id and holder_id = new.holder_id and end_to_end_id = new.name
        and institution_id = new.institution_id and direction = 'OUT' and not is_book
        and (initiation_type = 'QRCODE') = (new.br_code is not null)
        and exists (select from holder where id = new.holder_id and institution_id = new.institution_id);
    if not found then
        raise exception 'the order % is of the account %, and no transfer over it', new.name, new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'only_transfers_over_it_leave';
    end if;
    insert into transfer_day as counted (institution_id, day, cents)
        values (new.institution_id, (new.ordered_at at time zone 'America/Sao_Paulo')::date, sent.amount_cents)
        on conflict (institution_id, day) do update set cents = counted.cents + excluded.cents
        returning counted.cents into counted_cents;
    select * into allowed from institution_allowance where institution_id = new.institution_id;
    if sent.amount_cents > allowed.transfer_cents or counted_cents > allowed.transfers_day_cents then
        raise exception 'transfers over account % are above what is allowed at once or for a day', new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'transfers_stay_within_their_day';
    end if;
    select tax_id into owner_tax_id from institution_account where id = new.institution_id;
    payee_tax_id := sent.counterparty ->> 'tax_id';
    -- The owner, or a payee that a transfer over the account has reached.
    if allowed.payees = 'all' or is_same_owner(payee_tax_id, owner_tax_id)
        or allowed.payees = 'known' and exists (
            select from transfer as before
            where before.institution_id = new.institution_id and before.direction = 'OUT' and before.settled_at is not null
                and case before.initiation_type when 'MANUAL' then
                    (before.counterparty ->> 'ispb') || '/' || (before.counterparty ->> 'branch') || '/'
                    || (before.counterparty ->> 'account_number')
                else before.counterparty ->> 'key' end = case sent.initiation_type when 'MANUAL' then
                    (sent.counterparty ->> 'ispb') || '/' || (sent.counterparty ->> 'branch') || '/'
                    || (sent.counterparty ->> 'account_number')
                else sent.counterparty ->> 'key' end
        )
    then
        return null;
    end if;
    raise exception 'a transfer over account % goes to somebody to whom none is allowed', new.institution_id
        using errcode = 'integrity_constraint_violation', constraint = 'transfers_go_to_those_allowed';
end $function$;

create table open_order (
    name text collate "C" not null,
    holder_id bigint not null,
    resource_id bigint not null,
    slot smallint not null,
    ordered_at timestamp with time zone not null,
    due_at timestamp with time zone not null,
    give_up_at timestamp with time zone not null,
    handed_at timestamp with time zone,
    asked_count integer default 0 not null,
    network_id text collate "C",
    institution_id smallint,
    br_code text,
    approval text collate "C",
    constraint open_order_pkey primary key (name),
    constraint a_code_is_of_a_transfer_there check (br_code is null or octet_length(br_code) >= 1 and octet_length(br_code) <=
        512 and institution_id is not null and "left"(name, 1) = 'E'),
    constraint only_handed_order_is_asked_about check (asked_count = 0 or handed_at is not null),
    constraint open_order_approval_check check (approval is null or (approval in ('awaited', 'given', 'refused')) and
        "left"(name, 1) = 'E'),
    constraint open_order_name_check check (length(name) = 32 and ("left"(name, 1) in ('E', 'D'))),
    constraint open_order_slot_check check (slot >= 0 and slot <= 255),
    constraint what_waits_for_an_approval_is_not_marked check (approval is distinct from 'awaited' or handed_at is null)
) with (fillfactor=70);
comment on table open_order is
    'Outgoing transfers and refunds that the rail has not ended: a row is added with each and removed with its end.';
comment on column open_order.name is 'Its end_to_end_id (begins with E) or return_id (begins with D).';
comment on column open_order.holder_id is 'The holder that sends the money.';
comment on column open_order.resource_id is 'The id of the transfer or refund.';
comment on column open_order.slot is 'The slot of work it belongs to, 0 to 255.';
comment on column open_order.ordered_at is 'When it was accepted, in service time.';
comment on column open_order.due_at is 'When a worker processes it next, in service time.';
comment on column open_order.give_up_at is 'When it is cancelled if it was not handed over until then, in service time.';
comment on column open_order.handed_at is
    'When it was marked to be handed to the rail, in service time: from then on only the rail can end it.';
comment on column open_order.asked_count is 'Number of queries about it.';
comment on column open_order.network_id is
    'The network''s name if that is not its name; as in its transfer or refund.';
comment on column open_order.institution_id is
    'The account at an institution that it leaves over; null is the installation''s own rail.';
comment on column open_order.br_code is 'The code that a transfer over an account at an institution pays; null of all others.';
comment on column open_order.approval is
    'If it needed an operator''s approval: awaited, given, or refused by an operator, by time or by a loss; null for all others.';
create index open_order_awaiting on open_order (give_up_at) where approval = 'awaited';
create index open_order_due on open_order (due_at, slot);
create index open_order_due_there on open_order (institution_id, due_at) where institution_id is not null;
create trigger check_ended after delete on open_order referencing old table as ended_order for each statement execute function
    check_ended_orders();
create trigger check_name after update of network_id on open_order for each row when (old.network_id is distinct from
    new.network_id) execute function check_order_name();
create trigger check_new after insert on open_order referencing new table as new_row for each statement execute function
    check_new_orders();
create trigger count_refund after insert on open_order for each row when (new.institution_id is not null and "left"(new.name, 1)
    = 'D') execute function count_refund();
create trigger count_transfer after insert on open_order for each row when (new.institution_id is not null and "left"(new.name,
    1) = 'E') execute function count_transfer();
create trigger instants_are_finite after insert or update of due_at, give_up_at on open_order for each row when (not
    isfinite(new.due_at) or not isfinite(new.give_up_at)) execute function refuse_row('instants_are_finite',
    'a row of open_order is dated to an instant that never comes');
create trigger keep_handed after update of handed_at, asked_count on open_order for each row when (old.asked_count >
    new.asked_count or old.handed_at <> new.handed_at or old.handed_at is not null and new.handed_at is null and new.due_at >=
    old.due_at) execute function refuse_row('what_was_asked_about_stays_handed_over',
    'the order %s was handed over at %s, and the rail was asked %s times', 'name', 'handed_at', 'asked_count');
grant delete, insert, select, update (due_at, give_up_at, handed_at, asked_count, network_id, approval) on table open_order to
    pixconnect_service;

create table allowed_posting (
    kind text not null,
    direction text not null,
    is_book boolean not null,
    status text not null,
    debit_account ledger_account not null,
    credit_account ledger_account not null,
    made_by text default 'service' not null,
    constraint allowed_posting_pkey primary key (kind, direction, is_book, status, debit_account, credit_account)
);
comment on table allowed_posting is 'The entries that a cause in a state may have, each once; no others.';
comment on column allowed_posting.kind is 'The table that has the cause.';
comment on column allowed_posting.direction is 'Whether money comes in (IN) or goes out (OUT).';
comment on column allowed_posting.is_book is 'Whether it moves between two holders of this service.';
comment on column allowed_posting.status is 'The state of the cause.';
comment on column allowed_posting.debit_account is 'The account that the amount leaves.';
comment on column allowed_posting.credit_account is 'The account that the amount enters.';
comment on column allowed_posting.made_by is 'For refunds, their maker: the service or the institution.';
grant select on table allowed_posting to pixconnect_service;
insert into allowed_posting (kind, direction, is_book, status, debit_account, credit_account, made_by) values
    ('deposit', 'IN', false, 'MADE', 'funding', 'available', 'service'),
    ('transfer', 'OUT', false, 'PROCESSING', 'available', 'reserved', 'service'),
    ('transfer', 'OUT', false, 'CONFIRMED', 'available', 'reserved', 'service'),
    ('transfer', 'OUT', false, 'CONFIRMED', 'reserved', 'settlement', 'service'),
    ('transfer', 'OUT', false, 'RETURNED', 'available', 'reserved', 'service'),
    ('transfer', 'OUT', false, 'RETURNED', 'reserved', 'settlement', 'service'),
    ('transfer', 'OUT', false, 'ERROR', 'available', 'reserved', 'service'),
    ('transfer', 'OUT', false, 'ERROR', 'reserved', 'available', 'service'),
    ('transfer', 'OUT', false, 'CANCELLED', 'available', 'reserved', 'service'),
    ('transfer', 'OUT', false, 'CANCELLED', 'reserved', 'available', 'service'),
    ('transfer', 'OUT', true, 'CONFIRMED', 'available', 'settlement', 'service'),
    ('transfer', 'OUT', true, 'RETURNED', 'available', 'settlement', 'service'),
    ('transfer', 'IN', false, 'CONFIRMED', 'settlement', 'available', 'service'),
    ('transfer', 'IN', false, 'RETURNED', 'settlement', 'available', 'service'),
    ('transfer', 'IN', true, 'CONFIRMED', 'settlement', 'available', 'service'),
    ('transfer', 'IN', true, 'RETURNED', 'settlement', 'available', 'service'),
    ('refund', 'OUT', false, 'PROCESSING', 'available', 'reserved', 'service'),
    ('refund', 'OUT', false, 'RETURNED', 'available', 'reserved', 'service'),
    ('refund', 'OUT', false, 'RETURNED', 'reserved', 'settlement', 'service'),
    ('refund', 'OUT', false, 'ERROR', 'available', 'reserved', 'service'),
    ('refund', 'OUT', false, 'ERROR', 'reserved', 'available', 'service'),
    ('refund', 'OUT', true, 'RETURNED', 'available', 'settlement', 'service'),
    ('refund', 'IN', false, 'RETURNED', 'settlement', 'available', 'service'),
    ('refund', 'IN', true, 'RETURNED', 'settlement', 'available', 'service'),
    ('refund', 'OUT', false, 'RETURNED', 'available', 'settlement', 'institution'),
    ('refund', 'OUT', false, 'RETURNED', 'deficit', 'settlement', 'institution');

create table allowed_transition (
    kind text not null,
    direction text not null,
    is_book boolean not null,
    before text not null,
    after text not null,
    made_by text default 'service' not null,
    constraint allowed_transition_pkey primary key (kind, direction, is_book, before, after)
);
comment on table allowed_transition is 'The permitted changes of status; all others are rejected.';
comment on column allowed_transition.kind is
    'The kind that changes: charge (charge_there, if it was opened at an institution), transfer, refund or movement.';
comment on column allowed_transition.direction is 'Whether money comes in (IN) or goes out (OUT).';
comment on column allowed_transition.is_book is 'Whether it moves between two holders of this service.';
comment on column allowed_transition.before is 'The status before; NEW for a new row.';
comment on column allowed_transition.after is 'The status afterwards.';
comment on column allowed_transition.made_by is 'For refunds, their maker: the service or the institution.';
grant select on table allowed_transition to pixconnect_service;
insert into allowed_transition (kind, direction, is_book, before, after, made_by) values
    ('charge', 'IN', false, 'NEW', 'PENDING', 'service'),
    ('charge', 'IN', false, 'PENDING', 'APPROVED', 'service'),
    ('charge', 'IN', false, 'PENDING', 'EXPIRED', 'service'),
    ('charge', 'IN', false, 'APPROVED', 'RETURNED', 'service'),
    ('transfer', 'OUT', false, 'NEW', 'PROCESSING', 'service'),
    ('transfer', 'OUT', false, 'PROCESSING', 'CONFIRMED', 'service'),
    ('transfer', 'OUT', false, 'PROCESSING', 'ERROR', 'service'),
    ('transfer', 'OUT', false, 'PROCESSING', 'CANCELLED', 'service'),
    ('transfer', 'OUT', false, 'CONFIRMED', 'RETURNED', 'service'),
    ('transfer', 'OUT', true, 'NEW', 'CONFIRMED', 'service'),
    ('transfer', 'OUT', true, 'NEW', 'ERROR', 'service'),
    ('transfer', 'OUT', true, 'CONFIRMED', 'RETURNED', 'service'),
    ('transfer', 'IN', false, 'NEW', 'CONFIRMED', 'service'),
    ('transfer', 'IN', false, 'NEW', 'ERROR', 'service'),
    ('transfer', 'IN', false, 'CONFIRMED', 'RETURNED', 'service'),
    ('transfer', 'IN', true, 'NEW', 'CONFIRMED', 'service'),
    ('transfer', 'IN', true, 'NEW', 'ERROR', 'service'),
    ('transfer', 'IN', true, 'CONFIRMED', 'RETURNED', 'service'),
    ('refund', 'OUT', false, 'NEW', 'PROCESSING', 'service'),
    ('refund', 'OUT', false, 'PROCESSING', 'RETURNED', 'service'),
    ('refund', 'OUT', false, 'PROCESSING', 'ERROR', 'service'),
    ('refund', 'OUT', true, 'NEW', 'RETURNED', 'service'),
    ('refund', 'OUT', true, 'NEW', 'ERROR', 'service'),
    ('refund', 'IN', false, 'NEW', 'RETURNED', 'service'),
    ('refund', 'IN', false, 'NEW', 'ERROR', 'service'),
    ('refund', 'IN', true, 'NEW', 'RETURNED', 'service'),
    ('refund', 'IN', true, 'NEW', 'ERROR', 'service'),
    ('transfer', 'IN', false, 'NEW', 'PROCESSING', 'service'),
    ('transfer', 'IN', false, 'PROCESSING', 'CONFIRMED', 'service'),
    ('transfer', 'IN', false, 'PROCESSING', 'ERROR', 'service'),
    ('charge', 'IN', false, 'EXPIRED', 'PENDING', 'service'),
    ('charge', 'IN', false, 'PENDING', 'REMOVED_BY_RECEIVER', 'service'),
    ('charge', 'IN', false, 'EXPIRED', 'REMOVED_BY_RECEIVER', 'service'),
    ('charge', 'IN', false, 'PENDING', 'REMOVED_BY_PSP', 'service'),
    ('charge', 'IN', false, 'EXPIRED', 'REMOVED_BY_PSP', 'service'),
    ('charge_there', 'IN', false, 'PENDING', 'APPROVED', 'service'),
    ('charge_there', 'IN', false, 'PENDING', 'EXPIRED', 'service'),
    ('charge_there', 'IN', false, 'APPROVED', 'RETURNED', 'service'),
    ('charge_there', 'IN', false, 'EXPIRED', 'PENDING', 'service'),
    ('charge_there', 'IN', false, 'PENDING', 'REMOVED_BY_RECEIVER', 'service'),
    ('charge_there', 'IN', false, 'EXPIRED', 'REMOVED_BY_RECEIVER', 'service'),
    ('charge_there', 'IN', false, 'PENDING', 'REMOVED_BY_PSP', 'service'),
    ('charge_there', 'IN', false, 'EXPIRED', 'REMOVED_BY_PSP', 'service'),
    ('charge_there', 'IN', false, 'EXPIRED', 'APPROVED', 'service'),
    ('charge_there', 'IN', false, 'REMOVED_BY_RECEIVER', 'APPROVED', 'service'),
    ('charge_there', 'IN', false, 'REMOVED_BY_PSP', 'APPROVED', 'service'),
    ('refund', 'OUT', false, 'NEW', 'RETURNED', 'institution');

create function check_movements() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
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
        where entry.holder_id = moved.holder_id and entry.cause_kind = 'movement' and entry.cause_id = moved.id
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
        or exists (
            select from movement as other
            where other.institution_id = moved.institution_id and other.item_id = moved.item_id
                and other.holder_id <> moved.holder_id
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
end $function$;

create function check_entry_of_movement() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if not exists (
        select from movement
        where id = new.cause_id and holder_id = new.holder_id and status = new.cause_state::text
            and new.id in (entry_id, deficit_entry_id)
    ) then
        raise exception 'ledger entry % of holder % has no movement', new.id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'every_entry_has_a_cause';
    end if;
    return null;
end $function$;

create function check_name_of_return() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    -- One name is one fact: an existing movement is reversed together with this refund, or is none.
    perform from transfer
    join institution_account as account on account.id = transfer.institution_id
    join movement on movement.holder_id in (account.house_id, new.holder_id) and movement.item_id = new.return_id
    where transfer.id = new.transfer_id and transfer.holder_id = new.holder_id and not exists (
        select from movement as opposite
        where opposite.holder_id = movement.holder_id and opposite.opposite_of = movement.item_id
    );
    if found then
        raise exception 'refund % of holder % is a movement already', new.id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_refund_has_what_belongs_to_it';
    end if;
    return null;
end $function$;

create function name_account() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if new.opposite_of is null then
        select institution_id into new.institution_id from holder where id = new.holder_id;
    else
        select institution_id into new.institution_id from movement where holder_id = new.holder_id and item_id = new.opposite_of;
    end if;
    return new;
end $function$;

create table movement (
    holder_id bigint not null,
    item_id text collate "C" not null,
    kind text not null,
    direction text not null,
    amount_cents bigint not null,
    status text not null,
    outcome_code text,
    entry_id bigint,
    end_to_end_id text,
    description text,
    network_settled_at timestamp with time zone not null,
    created_at timestamp with time zone not null,
    deficit_cents bigint default 0 not null,
    deficit_entry_id bigint,
    opposite_of text collate "C",
    institution_id smallint,
    id bigint generated always as (coalesce(entry_id, deficit_entry_id)) stored,
    constraint movement_pkey primary key (holder_id, item_id),
    constraint movement_has_its_own_entry unique (id, holder_id),
    constraint an_opposite_is_of_another check (opposite_of <> item_id),
    constraint movement_amount_cents_check check (amount_cents >= 0 and amount_cents <= 999999999999 and (amount_cents > 0 or
        kind = 'opening_balance')),
    constraint movement_created_at_check check (isfinite(created_at)),
    constraint movement_description_check check (length(description) >= 1 and length(description) <= 140),
    constraint movement_direction_check check (direction in ('IN', 'OUT')),
    constraint movement_end_to_end_id_check check (length(end_to_end_id) >= 1 and length(end_to_end_id) <= 64),
    constraint movement_item_id_check check (length(item_id) >= 1 and length(item_id) <= 64),
    constraint movement_kind_check check (kind in ('opening_balance', 'fee', 'wire', 'boleto', 'by_hand', 'reversal',
        'judicial', 'other')),
    constraint movement_network_settled_at_check check (isfinite(network_settled_at)),
    constraint movement_status_check check (status in ('POSTED', 'ERROR')),
    constraint posted_with_its_entries check ((status = 'ERROR') = (outcome_code is not null) and (entry_id is not null) =
        (status = 'POSTED' and amount_cents > deficit_cents) and (deficit_entry_id is not null) = (deficit_cents > 0) and
        deficit_cents >= 0 and deficit_cents <= amount_cents and (deficit_cents = 0 or direction = 'OUT' and status = 'POSTED')),
    constraint movement_holder_id_fkey foreign key (holder_id) references balance(holder_id)
);
comment on table movement is
    'Items of the institution''s account that no transfer, refund or deposit here explains; rows are never changed or deleted.';
comment on column movement.holder_id is 'The holder whose account it is on.';
comment on column movement.item_id is 'The institution''s name of the item; unique on the account.';
comment on column movement.kind is 'Its kind: a fee, a wire, a transaction in the institution''s app, and so on.';
comment on column movement.direction is 'Whether money came in (IN) or went out (OUT).';
comment on column movement.amount_cents is 'How much, in cents; only an opening balance may be 0.';
comment on column movement.status is 'POSTED with its entries; ERROR if the rail permitted refusing it, and no money moved.';
comment on column movement.outcome_code is 'Why it was refused.';
comment on column movement.entry_id is
    'The ledger entry for the money that was available or came in; null if there was none, or the movement was refused.';
comment on column movement.end_to_end_id is 'The Pix that it is about, as the network calls it: that which a fee is taken of.';
comment on column movement.description is 'The institution''s text.';
comment on column movement.network_settled_at is 'When it happened at the institution, by its clock.';
comment on column movement.created_at is 'When it was written, in service time.';
comment on column movement.deficit_cents is 'The part of it that was not available, in cents: the holder owes it.';
comment on column movement.deficit_entry_id is 'The ledger entry for the missing money; null if none was missing.';
comment on column movement.id is 'The id of its first entry; null if it was refused, or is of 0 cents.';
comment on column movement.opposite_of is
    'The item whose movement it reverses, because that is a transfer or refund, or the institution has removed it; null otherwise.';
comment on column movement.institution_id is
    'The account at an institution that it is of, for ever; null is the installation''s own rail.';
create index movement_by_account on movement (institution_id, item_id) where institution_id is not null;
create unique index movement_has_its_own_deficit_entry on movement (deficit_entry_id, holder_id) where deficit_entry_id is not
    null;
create unique index movement_is_taken_back_once on movement (holder_id, opposite_of) where opposite_of is not null;
create index movement_made on movement (institution_id, created_at) where institution_id is not null;
create trigger check_new after insert on movement referencing new table as new_row for each statement execute function
    check_movements();
create trigger check_open after insert on movement for each row execute function check_account_is_open();
create trigger movement_is_append_only before delete or update or truncate on movement for each statement execute function
    refuse_change();
create trigger name_account before insert on movement for each row execute function name_account();
grant insert, select on table movement to pixconnect_service;
create trigger check_name after insert on refund for each row when (new.made_by = 'institution') execute function
    check_name_of_return();
create trigger check_movement after insert on ledger_entry for each row when (new.cause_kind = 'movement') execute function
    check_entry_of_movement();
insert into allowed_posting (kind, direction, is_book, status, debit_account, credit_account) values
    ('movement', 'IN', false, 'POSTED', 'settlement', 'available'),
    ('movement', 'OUT', false, 'POSTED', 'available', 'settlement'),
    ('movement', 'OUT', false, 'POSTED', 'deficit', 'settlement');
insert into allowed_transition (kind, direction, is_book, before, after) values
    ('movement', 'IN', false, 'NEW', 'POSTED'),
    ('movement', 'IN', false, 'NEW', 'ERROR'),
    ('movement', 'OUT', false, 'NEW', 'POSTED'),
    ('movement', 'OUT', false, 'NEW', 'ERROR');

create view movement_facts as
    select id, holder_id, json_build_array(item_id, kind, direction, amount_cents, deficit_cents, end_to_end_id) as facts,
        json_build_array(description) as person
    from movement;
comment on view movement_facts is 'The chained contents of each movement.';
comment on column movement_facts.id is 'Its id, which its entries name.';
comment on column movement_facts.holder_id is 'Its holder.';
comment on column movement_facts.facts is 'Its unchanging contents, as a JSON array.';
comment on column movement_facts.person is 'Its personal data, as a JSON array.';

create function check_repayments() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    misfit record;
begin
    select made.id, made.holder_id into misfit from new_row as made
    where not exists (
        select from ledger_entry as entry
        where entry.id = made.id and entry.holder_id = made.holder_id and entry.amount_cents = made.amount_cents
            and entry.cause_kind = 'repayment'
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
end $function$;

create function check_entry_of_repayment() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if not exists (
        select from repayment where id = new.id and id = new.cause_id and holder_id = new.holder_id
    ) then
        raise exception 'ledger entry % of holder % has no repayment', new.id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'every_entry_has_a_cause';
    end if;
    return null;
end $function$;

create table repayment (
    id bigint not null,
    holder_id bigint not null,
    source_entry_id bigint not null,
    amount_cents bigint not null,
    created_at timestamp with time zone not null,
    constraint repayment_pkey primary key (id, holder_id),
    constraint repaid_once_of_what_came unique (source_entry_id, holder_id),
    constraint repayment_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint repayment_created_at_check check (isfinite(created_at)),
    constraint repayment_id_check check (id >= 1 and id <= 9007199254740991),
    constraint repayment_holder_id_fkey foreign key (holder_id) references balance(holder_id)
);
comment on table repayment is
    'Repayments of deficits, each in the statement that raised the available balance; rows are never changed or deleted.';
comment on column repayment.id is 'The id of its ledger entry too.';
comment on column repayment.holder_id is 'The holder who owed it.';
comment on column repayment.source_entry_id is 'The ledger entry that raised the available balance and paid for this.';
comment on column repayment.amount_cents is 'How much, in cents.';
comment on column repayment.created_at is 'When it was made, in service time.';
create trigger check_new after insert on repayment referencing new table as new_row for each statement execute function
    check_repayments();
create trigger repayment_is_append_only before delete or update or truncate on repayment for each statement execute function
    refuse_change();
grant insert, select on table repayment to pixconnect_service;
create trigger check_repayment after insert on ledger_entry for each row when (new.cause_kind = 'repayment') execute function
    check_entry_of_repayment();
insert into allowed_posting (kind, direction, is_book, status, debit_account, credit_account) values
    ('repayment', 'OUT', false, 'MADE', 'available', 'deficit');

create view repayment_facts as
    select id, holder_id, json_build_array(source_entry_id, amount_cents) as facts from repayment;
comment on view repayment_facts is 'The chained contents of each repayment.';
comment on column repayment_facts.id is 'Its id, which its entries name.';
comment on column repayment_facts.holder_id is 'Its holder.';
comment on column repayment_facts.facts is 'Its unchanging contents, as a JSON array.';

create table kept_report (
    id bigint generated always as identity not null,
    kind text not null,
    reason text not null,
    explanation text not null,
    name text collate "C" not null,
    report_id text not null,
    report text not null,
    fingerprint bytea not null,
    refusal_code text,
    seen_count bigint default 1 not null,
    first_seen_at timestamp with time zone default clock_timestamp() not null,
    last_seen_at timestamp with time zone default clock_timestamp() not null,
    closed_at timestamp with time zone,
    closed_by text,
    close_reason text,
    constraint kept_report_pkey primary key (id),
    constraint report_is_kept_once unique (fingerprint),
    constraint closing_says_who_and_why check ((closed_at is null) = (closed_by is null) and (closed_at is null) = (close_reason
        is null)),
    constraint kept_report_close_reason_check check (length(close_reason) >= 1 and length(close_reason) <= 1000),
    constraint kept_report_closed_by_check check (length(closed_by) >= 1 and length(closed_by) <= 255),
    constraint kept_report_kind_check check (kind ~ '^[a-z_]{1,40}$'),
    constraint kept_report_reason_check check (reason in ('unknown_order', 'contradiction', 'changed_repeat',
        'cannot_be_recorded', 'cannot_be_refused', 'cannot_be_returned', 'another_account', 'two_holders')),
    constraint kept_report_seen_count_check check (seen_count > 0)
);
comment on table kept_report is 'Reports of the rail that can neither be recorded nor ignored: each waits for an operator.';
comment on column kept_report.id is 'Counts up.';
comment on column kept_report.kind is 'The kind of report.';
comment on column kept_report.reason is 'Why it could not be recorded.';
comment on column kept_report.explanation is 'The reason in words, for the operator.';
comment on column kept_report.name is 'The name on the network of the transfer, refund or return that it is about.';
comment on column kept_report.report_id is 'The id by which it was acknowledged to the rail.';
comment on column kept_report.report is 'The rail''s report, as JSON, unabridged.';
comment on column kept_report.fingerprint is 'A hash of the report, so that repetitions are kept once.';
comment on column kept_report.refusal_code is
    'The code by which a payment or return was refused; it is refused so whenever it comes again.';
comment on column kept_report.seen_count is 'How often it came.';
comment on column kept_report.first_seen_at is 'When it came first, in real time.';
comment on column kept_report.last_seen_at is 'When it came last, in real time.';
comment on column kept_report.closed_at is 'When an operator closed it, in real time; null while it waits.';
comment on column kept_report.closed_by is 'The operator who closed it.';
comment on column kept_report.close_reason is 'Why, in the operator''s words.';
create index kept_report_open on kept_report (id) where closed_at is null;
create index kept_report_open_name on kept_report (name) where closed_at is null;
create index kept_report_refused on kept_report (name) where refusal_code is not null;
create trigger closed_report_stays_closed before update on kept_report for each row when (old.closed_at is not null and
    (new.closed_at is distinct from old.closed_at or new.closed_by is distinct from old.closed_by or new.close_reason is
    distinct from old.close_reason)) execute function refuse_row('closed_report_stays_closed', 'the report %s is closed', 'id');
grant update (closed_at, closed_by, close_reason) on table kept_report to pixconnect_console;
grant update (closed_at, closed_by, close_reason) on table kept_report to pixconnect_operator;
grant insert (kind, reason, explanation, name, report_id, report, fingerprint, refusal_code), select, update (seen_count,
    last_seen_at) on table kept_report to pixconnect_service;

create table refused_credit (
    name text collate "C" not null,
    kind text not null,
    refusal_code text not null,
    refused_at timestamp with time zone default clock_timestamp() not null,
    constraint refused_credit_pkey primary key (name),
    constraint refused_credit_kind_check check (kind in ('credit', 'credit_accepted', 'credit_held', 'credit_cancelled')),
    constraint refused_credit_name_check check (length(name) = 32 and name ~~ 'E%')
);
comment on table refused_credit is 'Payments refused because no holder here had the account; each stays refused for 30 days.';
comment on column refused_credit.name is 'The end_to_end_id of the payment.';
comment on column refused_credit.kind is 'The kind of report.';
comment on column refused_credit.refusal_code is 'The code by which it was refused.';
comment on column refused_credit.refused_at is 'When it was refused, in real time; old rows are deleted by this.';
create index refused_credit_by_age on refused_credit (refused_at);
create trigger keep_refusal before delete on refused_credit for each row when (old.refused_at > (clock_timestamp() -
    '30 days'::interval)) execute function refuse_row('a_refusal_stays_for_its_time',
    'the payment %s was refused at %s and stays refused', 'name', 'refused_at');
grant delete, insert (name, kind, refusal_code), select on table refused_credit to pixconnect_service;

create table tally (
    holder_id bigint not null,
    kind text not null,
    status text not null,
    hour timestamp with time zone not null,
    count bigint not null,
    constraint tally_pkey primary key (holder_id, kind, status, hour),
    constraint tally_kind_check check (kind in ('charge', 'charge_due', 'transfer', 'refund', 'spent', 'location')),
    constraint tally_holder_id_fkey foreign key (holder_id) references holder(id)
) with (fillfactor=70);
comment on table tally is
    'Each holder''s number of charges, transfers, refunds and locations by status and hour, and the sums sent in cents.';
comment on column tally.holder_id is 'The holder whose they are.';
comment on column tally.kind is 'The counted kind; for spent, the sum in cents.';
comment on column tally.status is 'The status they have now; of spent OUT.';
comment on column tally.hour is 'The hour in which they were made, in service time.';
comment on column tally.count is 'How many, or how many cents.';
grant insert, select, update on table tally to pixconnect_service;

create table tally_change (
    holder_id bigint not null,
    kind text not null,
    status text not null,
    hour timestamp with time zone not null,
    change bigint not null
);
comment on table tally_change is
    'Changes not yet added to tally: batches only add rows here, and housekeeping sums them up.';
comment on column tally_change.holder_id is 'The holder whose they are.';
comment on column tally_change.kind is 'The counted kind; for spent, the sum in cents.';
comment on column tally_change.status is 'The status whose count changes.';
comment on column tally_change.hour is 'The hour in which they were made, in service time.';
comment on column tally_change.change is 'The increase, or the decrease if negative.';
create index tally_change_list on tally_change (holder_id, kind, status, hour) include (change);
grant delete, insert, select on table tally_change to pixconnect_service;

create table entry_chain (
    holder_id bigint not null,
    position bigint not null,
    entry_ids bigint[] not null,
    digests bytea[] storage external not null,
    person_digests bytea[] storage external not null,
    head bytea not null,
    chained_at timestamp with time zone not null,
    constraint entry_chain_pkey primary key (holder_id, "position"),
    constraint each_entry_has_its_digests check (cardinality(entry_ids) >= 1 and cardinality(digests) = cardinality(entry_ids)
        and cardinality(person_digests) = cardinality(entry_ids)),
    constraint entry_chain_head_check check (octet_length(head) = 32),
    constraint entry_chain_position_check check ("position" >= 1)
);
comment on table entry_chain is 'Each holder''s entries, chained by hash; rows are never changed or deleted.';
comment on column entry_chain.holder_id is 'Whose entries they are.';
comment on column entry_chain.position is 'Counts the links of a holder up from 1.';
comment on column entry_chain.entry_ids is 'The entries of this link, in their order.';
comment on column entry_chain.digests is
    'The SHA-256 of each entry: of its facts, followed by the digest of its personal data.';
comment on column entry_chain.person_digests is 'The SHA-256 of the salt and of the personal data; null if there are none.';
comment on column entry_chain.head is 'The SHA-256 of the head before it and of all digests of this link.';
comment on column entry_chain.chained_at is 'When they were chained, in service time.';
create index entry_chain_chained_at on entry_chain using brin (chained_at);
create trigger entry_chain_is_append_only before delete or update or truncate on entry_chain for each statement execute function
    refuse_change();
grant select on table entry_chain to pixconnect_service;

create function find_link(wanted_holder_id bigint, entry_id bigint) returns bigint language plpgsql stable set search_path to
    'pixconnect', 'pg_temp'
as $function$
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
end $function$;

create table entry_chain_state (
    is_only_row boolean default true not null,
    chained_id bigint default 0 not null,
    bound_id bigint default 0 not null,
    bound_at timestamp with time zone default clock_timestamp() not null,
    constraint entry_chain_state_pkey primary key (is_only_row),
    constraint entry_chain_state_check check (bound_id >= chained_id),
    constraint entry_chain_state_is_only_row_check check (is_only_row)
) with (fillfactor=20);
comment on table entry_chain_state is 'How far entries are chained, of all holders.';
comment on column entry_chain_state.is_only_row is 'True: there is one row.';
comment on column entry_chain_state.chained_id is 'Each entry up to this id is chained.';
comment on column entry_chain_state.bound_id is 'Every entry up to this id has been written.';
comment on column entry_chain_state.bound_at is 'When that was so, in real time.';
grant select on table entry_chain_state to pixconnect_service;
insert into entry_chain_state default values;

create function chain_entries(count_max integer, rest interval) returns bigint language plpgsql security definer set search_path
    to 'pixconnect', 'pg_temp' set plan_cache_mode to 'force_custom_plan' set enable_seqscan to 'off' set enable_hashjoin to
    'off' set enable_mergejoin to 'off'
as $function$
declare
    state entry_chain_state;
    -- An entry's salt is made of it and of the entry's id; it exists only during this call.
    secret bytea := uuid_send(gen_random_uuid());
    settled bigint;
    last_id bigint;
    chained_count bigint;
begin
    select * into state from entry_chain_state for update skip locked;
    if not found then
        return 0; -- another transaction chains them
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
end $function$;
grant execute on function chain_entries(count_max integer, rest interval) to pixconnect_service;

create function keep_salts() returns trigger language plpgsql
as $function$
begin
    if (new.holder_id, new.position, cardinality(new.salts)) <> (old.holder_id, old.position, cardinality(old.salts)) or exists (
        select from unnest(new.salts, old.salts) as salt (now, before) where now <> before or now is not null and before is null
    ) then
        raise exception 'rows of % are never changed or deleted', tg_table_name
            using errcode = 'integrity_constraint_violation', constraint = 'person_salt_is_append_only';
    end if;
    return new;
end $function$;

create table person_salt (
    holder_id bigint not null,
    position bigint not null,
    salts bytea[] storage external not null,
    constraint person_salt_pkey primary key (holder_id, "position")
);
comment on table person_salt is 'The salt hashed with each text of personal data; rows are never changed or deleted.';
comment on column person_salt.holder_id is 'The holder of the link.';
comment on column person_salt.position is 'The link.';
comment on column person_salt.salts is
    'Sixteen random octets for each of its entries; null if it has no personal data.';
create trigger keep_salts before update on person_salt for each row execute function keep_salts();
create trigger person_salt_is_append_only before delete or truncate on person_salt for each statement execute function
    refuse_change();
grant select on table person_salt to pixconnect_service;

create function lose_salts(wanted text, wanted_ids bigint[], wanted_holders bigint[]) returns void language plpgsql set
    search_path to 'pixconnect', 'pg_temp'
as $function$
#variable_conflict use_column
declare
    secret bytea := uuid_send(gen_random_uuid());
begin
    update erased_text set salt = remains.salt, person_digest = sha256(remains.salt || convert_to(remains.person, 'UTF8'))
    from (
        select distinct on (asked.id, asked.holder_id) asked.id, asked.holder_id, facts.person,
            substr(sha256(secret || int8send(asked.id) || int8send(asked.holder_id)), 1, 16) as salt
        from unnest(wanted_ids, wanted_holders) as asked (id, holder_id)
        join ledger_entry as entry on entry.cause_kind = wanted::entry_cause and entry.cause_id = asked.id
            and entry.holder_id = asked.holder_id
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
        from unnest(wanted_ids, wanted_holders) as asked (id, holder_id)
        join ledger_entry as entry on entry.cause_kind = wanted::entry_cause and entry.cause_id = asked.id
            and entry.holder_id = asked.holder_id
        join entry_chain as link on link.holder_id = entry.holder_id and link.position = find_link(entry.holder_id, entry.id)
        where entry.id = any(link.entry_ids)
        group by link.holder_id, link.position
    ) as gone
    where person_salt.holder_id = gone.holder_id and person_salt.position = gone.position;
end $function$;

create table erased_text (
    kind text collate "C" not null,
    id bigint not null,
    holder_id bigint not null,
    part text not null,
    salt bytea,
    person_digest bytea,
    erased_at timestamp with time zone default clock_timestamp() not null,
    constraint erased_text_pkey primary key (holder_id, kind, id),
    constraint erased_text_check check ((salt is null) = (person_digest is null) and octet_length(salt) = 16 and
        octet_length(person_digest) = 32),
    constraint erased_text_kind_check check (kind in ('transfer', 'refund')),
    constraint erased_text_part_check check (part in ('message', 'all'))
);
comment on table erased_text is
    'Transfers and refunds whose personal texts were erased; only functions of the owner write it. Charges are not recorded.';
comment on column erased_text.kind is 'Transfer or refund.';
comment on column erased_text.id is 'Its id.';
comment on column erased_text.holder_id is 'Its holder.';
comment on column erased_text.part is 'Message: the message sent with it; all: the counterparty too.';
comment on column erased_text.salt is 'The salt hashed with the rest of the texts; null if no entry has them.';
comment on column erased_text.person_digest is 'The SHA-256 of that salt and the remaining texts; it replaces the chained one.';
comment on column erased_text.erased_at is 'When something was emptied last, in real time.';
grant select on table erased_text to pixconnect_service;

create function empty_contents(contents text, with_payer boolean) returns text language sql immutable
as $function$
    select (
        contents::jsonb - '{address,question,lines}'::text[]
        || case when with_payer and contents::jsonb ? 'payer'
            then '{"payer": {"name": "-", "tax_id": "00000000000"}}'::jsonb else '{}'::jsonb end
    )::text
$function$;

create function erased_party() returns jsonb language sql immutable parallel safe
as $function$
    select '{"account_number": "0", "account_type": "TRANSACTIONAL", "branch": "0", "ispb": "99999999", "name": "-", "tax_id": "00000000000"}'::jsonb
$function$;
grant execute on function erased_party() to pixconnect_service;

create table text_sweep (
    kind text collate "C" not null,
    last_id bigint default 0 not null,
    ended_at timestamp with time zone,
    due text not null,
    constraint text_sweep_pkey primary key (kind)
);
comment on table text_sweep is 'Progress of the pass that erases texts which no rule keeps any more.';
comment on column text_sweep.kind is 'The table; a function erases its texts.';
comment on column text_sweep.last_id is 'The last id checked in this pass.';
comment on column text_sweep.ended_at is 'When the last walk came to its end, in real time; null while one is under way.';
comment on column text_sweep.due is 'The condition for rows whose texts may be due, with the end of a party''s time as $4.';
grant select on table text_sweep to pixconnect_service;
insert into text_sweep (kind, due) values
    ('transfer', 'status <> ''PROCESSING'' and (payer_message is not null or created_at < $4)'),
    ('refund', 'description is not null'),
    ('charge', 'status <> ''PENDING'' and (payer_name <> ''-'' or contents is not null)');

create function sweep_texts(wanted text, count_max integer, unpaid_age interval, message_age interval, party_age interval)
    returns table(looked_count bigint, erased_count bigint) language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
#variable_conflict use_column
declare
    walk text_sweep;
    -- Only a person erases an unpaid charge's texts earlier, on request.
    unpaid_least interval := greatest(unpaid_age, interval '90 days');
    young_at timestamptz := clock_timestamp() - least(unpaid_least, message_age);
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
    $sql$, walk.due, wanted) into looked_count, next_id, ids, holders
        using walk.last_id, count_max, young_at, clock_timestamp() - party_age;
    if ids is not null then
        execute format('select count(*) from %I($1, $2, $3, $4, $5)', 'erase_' || wanted || 's') into erased
            using ids, holders, unpaid_least, message_age, party_age;
    end if;
    -- Ids rise with time: behind the first that is too young there is nothing to find.
    if looked_count < count_max or next_id is null then
        update text_sweep set last_id = 0, ended_at = clock_timestamp() where kind = wanted;
        looked_count := 0;
    else
        update text_sweep set last_id = next_id, ended_at = null where kind = wanted;
    end if;
    return query select looked_count, erased;
end $function$;
grant execute on function sweep_texts(wanted text, count_max integer, unpaid_age interval, message_age interval, party_age
    interval) to pixconnect_service;

create table kept_case (
    id bigint generated always as identity not null,
    kind text collate "C" not null,
    institution_id smallint,
    holder_id bigint,
    name text collate "C" not null,
    amount_cents bigint,
    facts text not null,
    since timestamp with time zone not null,
    opened_at timestamp with time zone default clock_timestamp() not null,
    opened_count integer default 1 not null,
    ended_at timestamp with time zone,
    ended_as text collate "C",
    ended_by text,
    end_reason text,
    constraint kept_case_pkey primary key (id),
    constraint a_difference_is_one_case unique nulls not distinct (name, kind, institution_id),
    constraint an_end_says_how check ((ended_at is null) = (ended_as is null)),
    constraint closing_a_case_says_who_and_why check ((ended_by is null) = (end_reason is null) and (ended_by is not null) =
        (ended_as in ('adjusted', 'closed', 'decided'))),
    constraint kept_case_amount_cents_check check (amount_cents <> 0 and amount_cents >= '-999999999999'::bigint and
        amount_cents <= 999999999999),
    constraint kept_case_end_reason_check check (length(end_reason) >= 1 and length(end_reason) <= 1000),
    constraint kept_case_ended_as_check check (ended_as in ('recorded', 'adjusted', 'closed', 'decided')),
    constraint kept_case_ended_by_check check (length(ended_by) >= 1 and length(ended_by) <= 255),
    constraint kept_case_kind_check check (kind in ('report', 'day', 'rail', 'order', 'account', 'waits', 'file')),
    constraint kept_case_name_check check (length(name) >= 1 and length(name) <= 255),
    constraint kept_case_opened_count_check check (opened_count > 0),
    constraint kept_case_facts_check check (length(facts) >= 1 and length(facts) <= 1000),
    constraint kept_case_since_check check (isfinite(since)),
    constraint only_what_is_at_an_account_names_it check ((institution_id is not null) = (kind in ('day', 'order', 'account',
        'waits', 'file'))),
    constraint kept_case_holder_id_fkey foreign key (holder_id) references holder(id),
    constraint kept_case_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
comment on table kept_case is
    'Differences between an institution or the rail and our facts, until they ended.';
comment on column kept_case.id is 'Counts up.';
comment on column kept_case.kind is
    'A kept report; a day on which a statement and the books disagree; a finding of verify; an order with an unknown end; an account with a different balance; a pending refund that may not be sent; or a file that an operator has to read.';
comment on column kept_case.institution_id is 'The account at an institution; null if none.';
comment on column kept_case.holder_id is 'The holder, if known.';
comment on column kept_case.name is
    'The subject: the report''s id, the day, the finding, the order''s name, the word balance, the refund, the word files, or the first day without a file.';
comment on column kept_case.amount_cents is
    'The institution''s amount less ours, in cents; null if it is no sum.';
comment on column kept_case.facts is 'The known facts, in words.';
comment on column kept_case.since is
    'Of when it is: of a day its begin, in service time; of a report when it came, in real time.';
comment on column kept_case.opened_at is 'When it was found first, in real time.';
comment on column kept_case.opened_count is 'How often it was opened: a difference that comes back opens its case again.';
comment on column kept_case.ended_at is 'When it ended, in real time; null while it is open.';
comment on column kept_case.ended_as is
    'Recorded: the missing fact came, and it ended by itself; adjusted: entries replace it; closed: by an operator; decided: two operators decided, by evidence, how its order ended.';
comment on column kept_case.ended_by is 'The operator that ended it; null if it ended by itself.';
comment on column kept_case.end_reason is 'The finding, and the action taken.';
create index kept_case_open on kept_case (kind, since) where ended_at is null or ended_as = 'adjusted';
create trigger an_end_of_a_case_stays before update on kept_case for each row when (new.id is distinct from old.id or new.kind
    is distinct from old.kind or new.institution_id is distinct from old.institution_id or new.name is distinct from old.name or
    new.since is distinct from old.since or new.opened_at is distinct from old.opened_at or new.opened_count <>
    (old.opened_count + (old.ended_at is not null)::integer)) execute function refuse_row('an_end_of_a_case_stays',
    'the case %s is of one difference, and its end stays', 'id');
grant insert (kind, institution_id, holder_id, name, amount_cents, facts, since), select, update (holder_id, amount_cents, facts,
    opened_count, ended_at, ended_as, ended_by, end_reason) on table kept_case to pixconnect_service;

create table case_note (
    id bigint generated always as identity not null,
    case_id bigint not null,
    operator text not null,
    noted_at timestamp with time zone default clock_timestamp() not null,
    note text not null,
    constraint case_note_pkey primary key (id),
    constraint case_note_note_check check (length(note) >= 1 and length(note) <= 1000),
    constraint case_note_operator_check check (length(operator) >= 1 and length(operator) <= 255),
    constraint case_note_case_id_fkey foreign key (case_id) references kept_case(id)
);
comment on table case_note is 'Operators'' notes on a case; rows are never changed or deleted.';
comment on column case_note.id is 'Counts up.';
comment on column case_note.case_id is 'The case.';
comment on column case_note.operator is 'The operator.';
comment on column case_note.noted_at is 'When, in real time.';
comment on column case_note.note is 'The note.';
create index case_note_by_case on case_note (case_id, id);
create trigger case_note_is_append_only before delete or update or truncate on case_note for each statement execute function
    refuse_change();
grant insert (case_id, operator, note) on table case_note to pixconnect_console;
grant insert (case_id, operator, note) on table case_note to pixconnect_operator;
grant select on table case_note to pixconnect_service;

create function check_adjustments() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    misfit record;
begin
    select made.id, made.holder_id into misfit from new_row as made
    join kept_case as ours on ours.id = made.case_id
    join holder on holder.id = made.holder_id
    left join adjustment as undone on undone.id = made.opposite_of and undone.holder_id = made.holder_id
    where ours.kind <> 'day' or ours.amount_cents is null
        or holder.institution_id is distinct from ours.institution_id
        or not exists (
            select from proposal as confirmed
            where confirmed.institution_id = ours.institution_id and act = 'adjust' and confirmed_by = made.confirmed_by
                and proposed_by = made.proposed_by and confirmed.xmin = pg_current_xact_id()::xid
                and (contents ->> 'case_id')::bigint = made.case_id and contents ->> 'kind' = made.kind
                -- A write-off is of all that is adjusted: the case bounds its entries.
                and (made.kind = 'written_off' or (contents ->> 'amount_cents')::bigint = made.amount_cents
                    and contents ->> 'direction' = made.direction
                    and (contents ->> 'undone_id')::bigint is not distinct from made.opposite_of
                    and (made.opposite_of is not null or (contents ->> 'holder_id')::bigint = made.holder_id))
        )
        or ours.ended_at is not null and made.opposite_of is null and made.kind <> 'written_off'
        or made.opposite_of is not null and (
            undone.opposite_of is not null or undone.account <> 'available' or undone.case_id <> made.case_id
            or undone.amount_cents <> made.amount_cents or undone.direction = made.direction
        )
        or (
            -- Twice the distance from the middle of the permitted range; an opposite amount reduces it.
            select sum(each.cents) not between least(ours.amount_cents, 0) and greatest(ours.amount_cents, 0) and (
                made.opposite_of is null or abs(2 * sum(each.cents) - ours.amount_cents)
                    >= abs(2 * sum(each.cents) filter (where each.id <> made.id) - ours.amount_cents)
            )
            from (
                select id, case direction when 'IN' then amount_cents else -amount_cents end as cents
                from adjustment where adjustment.case_id = made.case_id and account = 'available'
            ) as each
        )
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
            where entry.holder_id = made.holder_id
                and entry.id = case entry.debit_account when 'deficit' then made.deficit_entry_id else made.entry_id end
                and entry.cause_kind = 'adjustment' and entry.cause_id = made.id
                and allowed.kind = 'adjustment' and allowed.direction = made.direction and allowed.status = made.account
                and entry.amount_cents = case entry.debit_account
                    when 'deficit' then made.deficit_cents else made.amount_cents - made.deficit_cents
                end
        ) <> (made.entry_id is not null)::int + (made.deficit_entry_id is not null)::int
    limit 1;
    if found then
        raise exception 'adjustment % of holder % is not within its case, not confirmed, or has not the entries that belong to it',
            misfit.id, misfit.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'an_adjustment_is_within_its_case';
    end if;
    return null;
end $function$;

create function check_entry_of_adjustment() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if not exists (
        select from adjustment
        where id = new.cause_id and holder_id = new.holder_id and account = new.cause_state::text
            and new.id in (entry_id, deficit_entry_id)
    ) then
        raise exception 'ledger entry % of holder % has no adjustment', new.id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'every_entry_has_a_cause';
    end if;
    return null;
end $function$;

create table adjustment (
    id bigint not null,
    holder_id bigint not null,
    case_id bigint not null,
    kind text collate "C" not null,
    direction text not null,
    account text collate "C" not null,
    amount_cents bigint not null,
    deficit_cents bigint default 0 not null,
    entry_id bigint,
    deficit_entry_id bigint,
    opposite_of bigint,
    proposed_by text not null,
    confirmed_by text not null,
    created_at timestamp with time zone not null,
    constraint adjustment_pkey primary key (id, holder_id),
    constraint adjustment_is_undone_once unique (opposite_of, holder_id),
    constraint adjusted_by_two check (regexp_replace(confirmed_by, '^console ', '') <> regexp_replace(proposed_by, '^console ',
        '')),
    constraint adjusted_with_its_entries check ((entry_id is not null) = (amount_cents > deficit_cents) and (deficit_entry_id is
        not null) = (deficit_cents > 0) and deficit_cents >= 0 and deficit_cents <= amount_cents and id = coalesce(entry_id,
        deficit_entry_id) and (deficit_cents = 0 or direction = 'OUT' and account = 'available')),
    constraint adjustment_account_check check (account in ('available', 'settlement')),
    constraint adjustment_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint adjustment_confirmed_by_check check (length(confirmed_by) >= 1 and length(confirmed_by) <= 255),
    constraint adjustment_created_at_check check (isfinite(created_at)),
    constraint adjustment_direction_check check (direction in ('IN', 'OUT')),
    constraint adjustment_id_check check (id >= 1 and id <= 9007199254740991),
    constraint adjustment_kind_check check (kind in ('bank_error', 'our_error', 'found', 'written_off')),
    constraint adjustment_proposed_by_check check (length(proposed_by) >= 1 and length(proposed_by) <= 255),
    constraint only_a_loss_is_taken_over check (account = 'available' or kind = 'written_off' and opposite_of is null),
    constraint adjustment_case_id_fkey foreign key (case_id) references kept_case(id),
    constraint adjustment_holder_id_fkey foreign key (holder_id) references balance(holder_id),
    constraint an_opposite_is_of_an_adjustment foreign key (opposite_of, holder_id) references adjustment(id, holder_id)
);
comment on table adjustment is 'Adjusting entries of a case, agreed by two operators; rows are never changed or deleted.';
comment on column adjustment.id is 'That of its first ledger entry.';
comment on column adjustment.holder_id is 'The holder whose money it moves.';
comment on column adjustment.case_id is 'The case that it is within.';
comment on column adjustment.kind is 'The source of the error, that something was found, or that it is written off.';
comment on column adjustment.direction is 'IN raises the money of the holder or, at the end, of settlement; OUT lowers it.';
comment on column adjustment.account is
    'Available, which it moves against the difference; or settlement, by which the house takes over a written-off sum.';
comment on column adjustment.amount_cents is 'How much, in cents.';
comment on column adjustment.deficit_cents is 'The part of it that was not available, in cents: the holder owes it.';
comment on column adjustment.entry_id is 'The ledger entry for the available part; null if there was none.';
comment on column adjustment.deficit_entry_id is 'The ledger entry for the missing part; null if there was none.';
comment on column adjustment.opposite_of is 'The adjustment of the same holder that it undoes; null if none.';
comment on column adjustment.proposed_by is 'The operator that proposed it.';
comment on column adjustment.confirmed_by is 'The other operator.';
comment on column adjustment.created_at is 'When it was made, in service time.';
create index adjustment_by_case on adjustment (case_id);
create unique index adjustment_by_deficit_entry on adjustment (deficit_entry_id, holder_id);
create unique index adjustment_by_entry on adjustment (entry_id, holder_id);
create trigger adjustment_is_append_only before delete or update or truncate on adjustment for each statement execute function
    refuse_change();
create trigger check_new after insert on adjustment referencing new table as new_row for each statement execute function
    check_adjustments();
create trigger check_open after insert on adjustment for each row execute function check_account_is_open();
grant insert on table adjustment to pixconnect_operator;
grant select on table adjustment to pixconnect_service;
create trigger check_adjustment after insert on ledger_entry for each row when (new.cause_kind = 'adjustment') execute function
    check_entry_of_adjustment();
insert into allowed_posting (kind, direction, is_book, status, debit_account, credit_account) values
    ('adjustment', 'IN', false, 'available', 'difference', 'available'),
    ('adjustment', 'OUT', false, 'available', 'available', 'difference'),
    ('adjustment', 'OUT', false, 'available', 'deficit', 'difference'),
    ('adjustment', 'IN', false, 'settlement', 'settlement', 'difference'),
    ('adjustment', 'OUT', false, 'settlement', 'difference', 'settlement');

create view adjustment_facts as
    select id, holder_id, json_build_array(case_id, kind, direction, account, amount_cents, deficit_cents, opposite_of) as facts
    from adjustment;
comment on view adjustment_facts is 'The chained contents of each adjustment.';
comment on column adjustment_facts.id is 'Its id, which its entries name.';
comment on column adjustment_facts.holder_id is 'Its holder.';
comment on column adjustment_facts.facts is 'Its unchanging contents, as a JSON array.';

create function check_case_ending() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if tg_op = 'UPDATE' then
        if old.contrary_item_id is not null or (to_jsonb(new) - 'contrary_item_id') <> (to_jsonb(old) - 'contrary_item_id') then
            raise exception 'the claim of two operators about % stays', old.order_name
                using errcode = 'integrity_constraint_violation', constraint = 'a_case_ending_stays';
        end if;
        return new;
    end if;
    if not exists (
        select from proposal as confirmed
        where confirmed.institution_id = new.institution_id and act = 'decide' and confirmed_by = new.confirmed_by
            and proposed_by = new.proposed_by and confirmed.xmin = pg_current_xact_id()::xid
            and contents ->> 'order' = new.order_name and (contents ->> 'case_id')::bigint = new.case_id
            and contents ->> 'claim' = new.claim and contents ->> 'evidence_sha256' = new.evidence_digest
    ) or not exists (
        select from kept_case
        where id = new.case_id and kept_case.kind = 'order' and name = new.order_name and ended_at is null
            and institution_id = new.institution_id
    ) or not exists (
        select from open_order join rail_step as step on step.order_name = open_order.name
        where name = new.order_name and open_order.institution_id = new.institution_id and step.state <> 'closed'
            and (step.kind, step.holder_id, step.amount_cents, step.called_at)
                = (new.kind, new.holder_id, new.amount_cents, new.called_at)
            and open_order.resource_id = new.resource_id and open_order.holder_id = new.holder_id
    )
    then
        raise exception 'the order % does not end by one person, nor while it may be called', new.order_name
            using errcode = 'integrity_constraint_violation', constraint = 'an_order_ends_by_two_operators';
    end if;
    return new;
end $function$;

create table case_ending (
    order_name text collate "C" not null,
    kind text not null,
    institution_id smallint not null,
    holder_id bigint not null,
    resource_id bigint not null,
    amount_cents bigint not null,
    called_at timestamp with time zone not null,
    case_id bigint not null,
    claim text not null,
    evidence_name text not null,
    evidence_size integer not null,
    evidence_digest text collate "C" not null,
    proposed_by text not null,
    confirmed_by text not null,
    ended_at timestamp with time zone not null,
    contrary_item_id text collate "C",
    constraint case_ending_pkey primary key (order_name),
    constraint a_case_ends_one_order unique (case_id),
    constraint a_line_is_contrary_to_one_ending unique (institution_id, contrary_item_id),
    constraint case_ending_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint case_ending_called_at_check check (isfinite(called_at)),
    constraint case_ending_confirmed_by_check check (length(confirmed_by) >= 1 and length(confirmed_by) <= 255),
    constraint case_ending_contrary_item_id_check check (length(contrary_item_id) >= 1 and length(contrary_item_id) <= 255),
    constraint case_ending_ended_at_check check (isfinite(ended_at)),
    constraint case_ending_evidence_digest_check check (evidence_digest ~ '^[0-9a-f]{64}$'),
    constraint case_ending_evidence_name_check check (length(evidence_name) >= 1 and length(evidence_name) <= 255),
    constraint case_ending_evidence_size_check check (evidence_size >= 1 and evidence_size <= 1048576),
    constraint case_ending_kind_check check (kind in ('refund', 'order')),
    constraint case_ending_order_name_check check (length(order_name) = 32),
    constraint case_ending_proposed_by_check check (length(proposed_by) >= 1 and length(proposed_by) <= 255),
    constraint case_ending_claim_check check (claim in ('settled', 'never')),
    constraint ended_by_two check (regexp_replace(confirmed_by, '^console ', '') <> regexp_replace(proposed_by, '^console ',
        '')),
    constraint no_order_ends_while_it_may_be_called check (ended_at >= (called_at + '12:00:00'::interval)),
    constraint only_what_never_left_has_a_contrary_line check (contrary_item_id is null or claim = 'never'),
    constraint case_ending_case_id_fkey foreign key (case_id) references kept_case(id),
    constraint case_ending_holder_id_fkey foreign key (holder_id) references holder(id),
    constraint case_ending_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
comment on table case_ending is
    'Ends of orders that their institution could not report: two operators recorded them by evidence.';
comment on column case_ending.order_name is 'The order''s end_to_end_id or return_id.';
comment on column case_ending.kind is 'A refund of a received Pix, or an order to send one.';
comment on column case_ending.institution_id is 'The account over which it went.';
comment on column case_ending.holder_id is 'The holder that sent the money, or did not.';
comment on column case_ending.resource_id is 'The transfer or refund.';
comment on column case_ending.amount_cents is 'How much it is, in cents.';
comment on column case_ending.called_at is 'When it was first called, in real time.';
comment on column case_ending.case_id is 'The case that ended by it.';
comment on column case_ending.claim is 'Settled: it reached its payee; never: it never left, and never will.';
comment on column case_ending.evidence_name is 'The name of the file on which both relied; the file stays with them.';
comment on column case_ending.evidence_size is 'Its size, in octets.';
comment on column case_ending.evidence_digest is 'Its SHA-256, in hexadecimal digits.';
comment on column case_ending.proposed_by is 'The operator that proposed it.';
comment on column case_ending.confirmed_by is 'The other operator.';
comment on column case_ending.ended_at is 'When that was, in real time.';
comment on column case_ending.contrary_item_id is
    'The later statement line that shows that it left, posted as a movement of the holder; null if there is none.';
create index case_ending_never on case_ending (institution_id, amount_cents) where claim = 'never';
create trigger case_ending_is_append_only before delete or truncate on case_ending for each statement execute function
    refuse_change();
create trigger check_new before insert or update on case_ending for each row execute function check_case_ending();
grant insert on table case_ending to pixconnect_operator;
grant select, update (contrary_item_id) on table case_ending to pixconnect_service;

create function check_blocks() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
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
    -- Read with the balance, so that blocks are read only for holders that have some.
    update balance set blocks_count = counted.blocks_count
    from (
        select holder_id, (
            select count(*) from block where block.holder_id = made.holder_id and block.state = 'open'
        ) as blocks_count
        from (select distinct holder_id from new_row) as made
    ) as counted
    where balance.holder_id = counted.holder_id and balance.blocks_count <> counted.blocks_count;
    return null;
end $function$;

create function check_suspect_credit() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if tg_table_name = 'transfer' and exists (
        -- Few of a holder are open, and an index has these.
        select from block
        where block.holder_id = new.holder_id and block.state = 'open' and block.transfer_id = new.id
            and block.kind = 'precautionary'
    ) or tg_table_name = 'block' and exists (
        select from block
        left join transfer on transfer.id = block.transfer_id and transfer.holder_id = block.holder_id
        where block.id = new.id and block.holder_id = new.holder_id and (
            transfer.id is null or (block.state = 'open') <> (transfer.status = 'PROCESSING')
            or block.state = 'open' and block.covered_cents <> transfer.amount_cents
            or block.covered_cents <> block.held_cents or block.held_cents <> block.wanted_cents
        )
    ) then
        raise exception 'a suspect credit of holder % is not held as its transfer says', new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_suspect_credit_is_held_whole';
    end if;
    return null;
end $function$;

create table block (
    id bigint not null,
    holder_id bigint not null,
    institution_id smallint,
    kind text collate "C" not null,
    reference text collate "C" not null,
    transfer_id bigint,
    line_id text collate "C",
    wanted_cents bigint not null,
    held_cents bigint not null,
    covered_cents bigint not null,
    respond_by timestamp with time zone,
    until timestamp with time zone,
    source text not null,
    state text collate "C" not null,
    reported_at timestamp with time zone not null,
    created_at timestamp with time zone not null,
    modified_at timestamp with time zone not null,
    constraint block_pkey primary key (id, holder_id),
    constraint block_created_at_check check (isfinite(created_at)),
    constraint block_id_check check (id >= 1 and id <= 9007199254740991),
    constraint block_kind_check check (kind in ('med', 'precautionary', 'judicial', 'administrative', 'security',
        'statement_line')),
    constraint block_modified_at_check check (isfinite(modified_at)),
    constraint block_reference_check check (length(reference) >= 1 and length(reference) <= 64),
    constraint block_respond_by_check check (isfinite(respond_by)),
    constraint block_source_check check (length(source) >= 1 and length(source) <= 255),
    constraint block_state_check check (state in ('open', 'ended')),
    constraint block_reported_at_check check (isfinite(reported_at)),
    constraint block_until_check check (isfinite(until)),
    constraint covered_within_held check (0 <= covered_cents and covered_cents <= held_cents and held_cents <= wanted_cents and
        wanted_cents <= 999999999999),
    constraint only_a_line_is_reserved_for check ((kind = 'statement_line') = (line_id is not null) and (line_id is null or
        institution_id is not null and transfer_id is null and respond_by is null and until is null and held_cents =
        wanted_cents)),
    constraint what_ended_holds_nothing check (state = 'open' or wanted_cents = 0),
    constraint block_holder_id_fkey foreign key (holder_id) references balance(holder_id),
    constraint block_institution_id_fkey foreign key (institution_id) references institution_account(id),
    constraint block_transfer_id_holder_id_fkey foreign key (transfer_id, holder_id) references transfer(id, holder_id)
);
comment on table block is 'Holders'' money that an institution blocked, as reported, or that a statement line may have taken.';
comment on column block.id is 'Counts up; unique together with the holder.';
comment on column block.holder_id is 'The holder whose money it is; of a sum on a whole account the account''s house.';
comment on column block.institution_id is 'The account at an institution; null is the installation''s own rail.';
comment on column block.kind is
    'Why: a contest of a Pix (med), a suspect credit (precautionary), a court (judicial), an authority (administrative), the institution''s own reasons (security), or a line of its statement that waits (statement_line).';
comment on column block.reference is
    'Its name on the institution''s account: of a contest, the contest''s; of a suspect credit, the Pix''s; of a statement line, ours.';
comment on column block.transfer_id is 'The Pix that it concerns; null if none, or if it is unknown.';
comment on column block.line_id is
    'The line of the statement for which it is reserved, until the line is explained or answered; null otherwise.';
comment on column block.wanted_cents is 'How much the institution wants to block, in cents; 0 once it has ended.';
comment on column block.held_cents is 'The amount that the institution has blocked, in cents.';
comment on column block.covered_cents is
    'The part of that in the holder''s account blocked, in cents: the sum of its steps.';
comment on column block.respond_by is
    'The holder''s deadline for an answer, by the institution''s clock; null if none.';
comment on column block.until is 'When the block ends by itself, as reported; null if not reported.';
comment on column block.source is 'The report with its present state.';
comment on column block.state is 'Whether it is open, or ended.';
comment on column block.reported_at is 'The date of the institution''s report: an older report changes nothing.';
comment on column block.created_at is 'When it was written, in service time.';
comment on column block.modified_at is 'When it last changed, in service time.';
create index block_of_transfer on block (transfer_id, holder_id) where state = 'open' and transfer_id is not null;
create index block_open on block (holder_id, created_at, id) where state = 'open';
create unique index block_of_line on block (institution_id, line_id) where state = 'open' and line_id is not null;
create unique index block_reference on block (reference, coalesce(institution_id::integer, 0));
create index block_uncovered on block (holder_id, created_at, id) where state = 'open' and covered_cents < held_cents;
create trigger block_is_never_deleted before delete or truncate on block for each statement execute function refuse_change();
create constraint trigger blocks_are_covered_first after insert or update on block deferrable initially deferred for each row
    when (new.covered_cents < new.held_cents) execute function check_uncovered();
create trigger check_institution after insert on block for each row when (new.institution_id is not null) execute function
    check_institution_of_row();
create trigger check_moved after update on block referencing new table as new_row for each statement execute function
    check_blocks();
create trigger check_new after insert on block referencing new table as new_row for each statement execute function
    check_blocks();
create constraint trigger check_suspect_credit after insert or update on block deferrable initially deferred for each row when
    (new.kind = 'precautionary') execute function check_suspect_credit();
create constraint trigger check_suspect_credit after update on transfer deferrable initially deferred for each row when
    (old.direction = 'IN' and old.status = 'PROCESSING' and new.status <> 'PROCESSING') execute function check_suspect_credit();
create trigger keep_block before update on block for each row when (old.state = 'ended' or old.transfer_id is distinct from
    new.transfer_id and old.transfer_id is not null) execute function refuse_row('a_block_ends_once',
    'block %s of holder %s has ended, or is of another Pix', 'id', 'holder_id');
grant insert, select, update (transfer_id, wanted_cents, held_cents, covered_cents, respond_by, until, source, state, reported_at,
    modified_at) on table block to pixconnect_service;

create function is_blocked(paid_id bigint, paid_holder_id bigint) returns boolean language sql stable set search_path to
    'pixconnect', 'pg_temp'
as $function$
    select exists (
        select from block where block.holder_id = paid_holder_id and block.state = 'open' and block.transfer_id = paid_id
    )
$function$;
grant execute on function is_blocked(paid_id bigint, paid_holder_id bigint) to pixconnect_service;

create function check_block_steps() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    misfit record;
begin
    select made.id, made.holder_id into misfit from new_row as made
    join block on block.id = made.block_id and block.holder_id = made.holder_id
    where not exists (
        select from ledger_entry as entry
        where entry.id = made.id and entry.holder_id = made.holder_id and entry.amount_cents = made.amount_cents
            and entry.cause_kind = 'block_step' and entry.cause_state::text = made.kind
    ) or made.kind = 'taken' and not exists (
        -- It becomes available, and goes with the refund that the institution made: both entries are of one statement.
        select from refund join ledger_entry as entry on entry.cause_id = refund.id and entry.holder_id = refund.holder_id
        join ledger_entry as own on own.id = made.id and own.holder_id = made.holder_id
        where refund.id = made.refund_id and refund.holder_id = made.holder_id and refund.transfer_id = block.transfer_id
            and made_by = 'institution' and entry.cause_kind = 'refund' and entry.debit_account = 'available'
            and entry.amount_cents >= made.amount_cents and entry.id > made.id
            and entry.xmin = own.xmin and entry.cmin = own.cmin
    ) or block.covered_cents <> (
        select sum(case when step.kind in ('covered', 'held') then step.amount_cents else -step.amount_cents end)
        from block_step as step where step.block_id = block.id and step.holder_id = block.holder_id
    ) or (block.kind = 'precautionary') <> (made.kind in ('held', 'hold_ended'))
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
end $function$;

create function check_entry_of_step() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if not exists (
        select from block_step where id = new.id and id = new.cause_id and holder_id = new.holder_id and kind = new.cause_state::text
    ) then
        raise exception 'ledger entry % of holder % has no step of a block', new.id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'every_entry_has_a_cause';
    end if;
    return null;
end $function$;

create table block_step (
    id bigint not null,
    holder_id bigint not null,
    block_id bigint not null,
    kind text collate "C" not null,
    amount_cents bigint not null,
    refund_id bigint,
    reported_at timestamp with time zone,
    created_at timestamp with time zone not null,
    constraint block_step_pkey primary key (id, holder_id),
    constraint a_refund_takes_of_one_block unique (refund_id, holder_id),
    constraint block_step_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint block_step_created_at_check check (isfinite(created_at)),
    constraint block_step_reported_at_check check (reported_at <= created_at and isfinite(reported_at)),
    constraint block_step_id_check check (id >= 1 and id <= 9007199254740991),
    constraint block_step_kind_check check (kind in ('covered', 'released', 'held', 'hold_ended', 'taken')),
    constraint only_a_refund_takes check ((kind = 'taken') = (refund_id is not null)),
    constraint block_step_block_id_holder_id_fkey foreign key (block_id, holder_id) references block(id, holder_id),
    constraint block_step_refund_id_holder_id_fkey foreign key (refund_id, holder_id) references refund(id, holder_id)
);
comment on table block_step is
    'Money moved into and out of blocks, each the ledger entry of the same id; rows are never changed or deleted.';
comment on column block_step.id is 'The id of its ledger entry too.';
comment on column block_step.holder_id is 'The holder whose money it is.';
comment on column block_step.block_id is 'The block.';
comment on column block_step.kind is
    'Covered from the available balance, or returned to it; a suspect credit held or released; or taken by the institution, with its refund.';
comment on column block_step.amount_cents is 'How much, in cents.';
comment on column block_step.refund_id is 'The refund with which the institution took it; null otherwise.';
comment on column block_step.reported_at is
    'When the institution made the change that it follows, at the latest when it was made; null if it follows none.';
comment on column block_step.created_at is 'When it was made, in service time.';
create index block_step_of_block on block_step (block_id, holder_id);
create trigger block_step_is_append_only before delete or update or truncate on block_step for each statement execute function
    refuse_change();
create trigger check_new after insert on block_step referencing new table as new_row for each statement execute function
    check_block_steps();
grant insert, select on table block_step to pixconnect_service;
create trigger check_block_step after insert on ledger_entry for each row when (new.cause_kind = 'block_step') execute function
    check_entry_of_step();
insert into allowed_posting (kind, direction, is_book, status, debit_account, credit_account) values
    ('block_step', 'IN', false, 'covered', 'available', 'blocked'),
    ('block_step', 'OUT', false, 'released', 'blocked', 'available'),
    ('block_step', 'IN', false, 'held', 'settlement', 'blocked'),
    ('block_step', 'OUT', false, 'hold_ended', 'blocked', 'settlement'),
    ('block_step', 'OUT', false, 'taken', 'blocked', 'available');

create view block_step_facts as
    select step.id, step.holder_id, json_build_array(block.id, block.kind, reference, amount_cents, refund_id) as facts
    from block_step as step join block on block.id = step.block_id and block.holder_id = step.holder_id;
comment on view block_step_facts is 'The chained contents of each step of a block.';
comment on column block_step_facts.id is 'Its id, which its entries name.';
comment on column block_step_facts.holder_id is 'Its holder.';
comment on column block_step_facts.facts is 'Its unchanging contents, as a JSON array.';

create view entry_facts as
    select entry.id, entry.holder_id,
        json_build_array('entry', entry.id, entry.holder_id, entry.debit_account, entry.credit_account, entry.amount_cents,
            entry.number, entry.running_balance_cents, entry.created_at at time zone 'UTC', cause_kind, cause_id, cause_state,
            case cause_kind
                when 'transfer' then json_build_array(transfer.end_to_end_id, transfer.direction, transfer.amount_cents,
                    transfer.txid, transfer.external_id)
                when 'refund' then json_build_array(refund.return_id, refund.flow, refund.amount_cents,
                    refund.original_end_to_end_id, refund.external_id, refund.reason)
                when 'deposit' then json_build_array(deposit.amount_cents)
                else other.facts
            end)::text as facts,
        case cause_kind
            when 'transfer' then json_build_array(transfer.own_key, coalesce(payer_completion.before, transfer.counterparty),
                transfer.payer_message)
            when 'refund' then json_build_array(refund.description)
            else other.person
        end::text as person
    from ledger_entry as entry
    left join transfer on transfer.id = case cause_kind when 'transfer' then cause_id end
        and transfer.holder_id = entry.holder_id
    left join payer_completion on payer_completion.transfer_id = case transfer.direction when 'IN' then transfer.id end
        and payer_completion.holder_id = entry.holder_id
    left join refund on refund.id = case cause_kind when 'refund' then cause_id end and refund.holder_id = entry.holder_id
    left join deposit on deposit.id = case cause_kind when 'deposit' then cause_id end and deposit.holder_id = entry.holder_id
    -- Each feature that moves money has one line here, which only its own entries look for.
    left join lateral (
        select facts, person from movement_facts as of
            where cause_kind = 'movement' and of.id = cause_id and of.holder_id = entry.holder_id
        union all
        select facts, null::json as person from repayment_facts as of
            where cause_kind = 'repayment' and of.id = cause_id and of.holder_id = entry.holder_id
        union all
        select facts, null::json as person from adjustment_facts as of
            where cause_kind = 'adjustment' and of.id = cause_id and of.holder_id = entry.holder_id
        union all
        select facts, null::json as person from block_step_facts as of
            where cause_kind = 'block_step' and of.id = cause_id and of.holder_id = entry.holder_id
    ) as other on true;
comment on view entry_facts is 'The chained contents of each entry, as the hashed text.';
comment on column entry_facts.id is 'The entry.';
comment on column entry_facts.holder_id is 'Its holder.';
comment on column entry_facts.facts is 'Its contents and its cause, as a JSON array.';
comment on column entry_facts.person is 'The personal data of its cause, as a JSON array; null if none.';
grant select on table entry_facts to pixconnect_service;

create function check_infractions() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    misfit record;
begin
    select told.id, told.holder_id, told.state into misfit from new_row as told
    left join transfer as paid on paid.id = told.transfer_id and paid.holder_id = told.holder_id
    left join block on block.reference = told.name and block.holder_id = told.holder_id
        and block.institution_id is not distinct from told.institution_id
    where paid.direction <> 'IN' or paid.is_book or paid.settled_at is null or paid.amount_cents < told.amount_cents
        or paid.institution_id is distinct from told.institution_id or paid.end_to_end_id <> told.end_to_end_id
        or paid.charge_id is distinct from told.charge_id
        or block.id is null or block.kind <> 'med' or block.transfer_id is distinct from told.transfer_id
        or told.state in ('open', 'answered') and block.state <> 'open' or told.state = 'released' and block.state <> 'ended'
        or told.taken_cents <> (
            select coalesce(sum(refund.amount_cents), 0) from infraction_return as given
            join refund on refund.id = given.refund_id and refund.holder_id = given.holder_id
            where given.infraction_id = told.id and given.holder_id = told.holder_id
                and refund.transfer_id = told.transfer_id and refund.made_by = 'institution'
        )
    limit 1;
    if found then
        raise exception 'infraction % of holder % cannot be % with the Pix, block and returns that it has',
            misfit.id, misfit.holder_id, misfit.state
            using errcode = 'integrity_constraint_violation', constraint = 'an_infraction_has_what_belongs_to_it';
    end if;
    return null;
end $function$;

create table infraction (
    id bigint not null,
    holder_id bigint not null,
    institution_id smallint,
    name text collate "C" not null,
    transfer_id bigint not null,
    end_to_end_id text collate "C" not null,
    charge_id bigint,
    txid text,
    charge_external_id text,
    amount_cents bigint not null,
    taken_cents bigint not null,
    reason text collate "C" not null,
    situation text collate "C" not null,
    words text,
    state text collate "C" not null,
    opened_at timestamp with time zone not null,
    respond_by timestamp with time zone not null,
    reported_at timestamp with time zone not null,
    defence text,
    defended_at timestamp with time zone,
    defence_state text collate "C",
    defence_refusal text,
    send_at timestamp with time zone,
    remind_at timestamp with time zone,
    slot smallint not null,
    created_at timestamp with time zone not null,
    modified_at timestamp with time zone not null,
    constraint infraction_pkey primary key (id, holder_id),
    constraint answered_with_words check ((defence is null) = (defended_at is null) and (defence is null) = (defence_state is
        null) and (defence_refusal is not null) = (not defence_state is distinct from 'refused')),
    constraint infraction_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint infraction_created_at_check check (isfinite(created_at)),
    constraint infraction_defence_check check (length(defence) >= 1 and length(defence) <= 10000),
    constraint infraction_defence_refusal_check check (length(defence_refusal) >= 1 and length(defence_refusal) <= 1000),
    constraint infraction_defence_state_check check (defence_state in ('sending', 'sent', 'refused')),
    constraint infraction_defended_at_check check (isfinite(defended_at)),
    constraint infraction_id_check check (id >= 1 and id <= 9007199254740991),
    constraint infraction_modified_at_check check (isfinite(modified_at)),
    constraint infraction_name_check check (length(name) >= 1 and length(name) <= 64),
    constraint infraction_opened_at_check check (isfinite(opened_at)),
    constraint infraction_reason_check check (reason in ('fraud', 'operational_flaw')),
    constraint infraction_remind_at_check check (isfinite(remind_at)),
    constraint infraction_respond_by_check check (isfinite(respond_by)),
    constraint infraction_send_at_check check (isfinite(send_at)),
    constraint infraction_situation_check check (situation in ('scam', 'account_takeover', 'coercion', 'fraudulent_access',
        'other')),
    constraint infraction_slot_check check (slot >= 0 and slot <= 255),
    constraint infraction_state_check check (state in ('open', 'answered', 'taken', 'released')),
    constraint infraction_taken_cents_check check (taken_cents >= 0 and taken_cents <= 999999999999),
    constraint infraction_reported_at_check check (isfinite(reported_at)),
    constraint infraction_words_check check (length(words) >= 1 and length(words) <= 2000),
    constraint reminded_before_it_is_over check (respond_by - remind_at = any (array[interval '48 hours', interval '24 hours',
        interval '6 hours'])),
    constraint reminded_while_it_is_open check (remind_at is null or state = 'open'),
    constraint sent_while_it_is_open check (send_at is null or state = 'open' and defence_state = 'sending'),
    constraint infraction_holder_id_fkey foreign key (holder_id) references balance(holder_id),
    constraint infraction_institution_id_fkey foreign key (institution_id) references institution_account(id),
    constraint infraction_transfer_id_holder_id_fkey foreign key (transfer_id, holder_id) references transfer(id, holder_id)
);
comment on table infraction is 'Received Pix that their payers contest, as the institution reports them.';
comment on column infraction.id is 'Counts up; unique together with the holder.';
comment on column infraction.holder_id is 'The holder that received the Pix.';
comment on column infraction.institution_id is 'The account at an institution; null is the installation''s own rail.';
comment on column infraction.name is 'The institution''s name of it, unique on its account; its block has it as its reference.';
comment on column infraction.transfer_id is 'The Pix.';
comment on column infraction.end_to_end_id is 'The Pix, by its name on the network.';
comment on column infraction.charge_id is 'The charge that the Pix has paid; null if none.';
comment on column infraction.txid is 'The txid that the Pix names; null if none.';
comment on column infraction.charge_external_id is 'The holder''s own name of that charge.';
comment on column infraction.amount_cents is 'How much of the Pix is contested, in cents.';
comment on column infraction.taken_cents is 'How much the institution has given back because of it, in cents.';
comment on column infraction.reason is
    'The reason of the payer''s institution: the payer was deceived, or the Pix went wrong.';
comment on column infraction.situation is 'The situation, in the words of the key directory.';
comment on column infraction.words is 'The payer''s words; null if the institution does not report them.';
comment on column infraction.state is 'How far it is; released and taken are its ends.';
comment on column infraction.opened_at is 'When it was opened, by the institution''s clock.';
comment on column infraction.respond_by is 'Until when the holder can answer, by the institution''s clock.';
comment on column infraction.reported_at is
    'The date of the institution''s report: an older report changes nothing.';
comment on column infraction.defence is 'The holder''s answer; null without one.';
comment on column infraction.defended_at is 'When the holder answered, in service time.';
comment on column infraction.defence_state is 'Whether the answer is on its way, the institution has it, or has refused it.';
comment on column infraction.defence_refusal is 'Why the institution refused the answer; null otherwise.';
comment on column infraction.send_at is 'When the answer is sent next, in service time; null while nothing is to be sent.';
comment on column infraction.remind_at is 'When the holder''s next reminder is due, in service time; null if none is.';
comment on column infraction.slot is 'The slot of work it belongs to, 0 to 255: its transfer''s.';
comment on column infraction.created_at is 'When it was written, in service time.';
comment on column infraction.modified_at is 'When it last changed, in service time.';
create index infraction_due on infraction (least(send_at, remind_at), slot) where least(send_at, remind_at) is not null;
create index infraction_list on infraction ((holder_id + 0), created_at, id);
create index infraction_list_by_status on infraction ((holder_id + 0), state, created_at, id);
create unique index infraction_name on infraction (name, coalesce(institution_id::integer, 0));
create index infraction_of_transfer on infraction (transfer_id, holder_id);
create trigger check_institution after insert on infraction for each row when (new.institution_id is not null) execute function
    check_institution_of_row();
create trigger check_moved after update on infraction referencing new table as new_row for each statement execute function
    check_infractions();
create trigger check_new after insert on infraction referencing new table as new_row for each statement execute function
    check_infractions();
create trigger infraction_is_never_deleted before delete or truncate on infraction for each statement execute function
    refuse_change();
create trigger keep_infraction before update on infraction for each row when ((old.state in ('taken', 'released')) and new.state
    <> old.state or old.state = 'answered' and new.state = 'open' or new.taken_cents < old.taken_cents or (old.defence_state in
    ('sending', 'sent')) and new.defence is distinct from old.defence and (new.defence <> '-' or (old.state in ('open',
    'answered')) or old.modified_at > (clock_timestamp() - '1826 days'::interval)) is not false or old.defence_state = 'sent'
    and new.defence_state <> 'sent') execute function refuse_row('an_infraction_goes_on',
    'infraction %s of holder %s does not go back from %s, and its answer is not changed', 'id', 'holder_id', 'state');
grant insert, select, update (taken_cents, state, respond_by, reported_at, defence, defended_at, defence_state, defence_refusal,
    send_at, remind_at, modified_at) on table infraction to pixconnect_service;

-- A contest's texts go when the counterparty of its Pix may: neither means anything without the other.
create function erase_infractions(wanted_ids bigint[], wanted_holders bigint[], unpaid_age interval, message_age interval,
    party_age interval) returns table(id bigint, holder_id bigint, part text) language plpgsql security definer set search_path
    to 'pixconnect', 'pg_temp'
as $function$
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
end $function$;
grant execute on function erase_infractions to pixconnect_operator;
insert into text_sweep (kind, due) values
    ('infraction', 'state in (''taken'', ''released'') and created_at < $4 and (words is not null or defence <> ''-'')');

create table infraction_return (
    refund_id bigint not null,
    holder_id bigint not null,
    infraction_id bigint not null,
    constraint infraction_return_pkey primary key (refund_id, holder_id),
    constraint infraction_return_infraction_id_holder_id_fkey foreign key (infraction_id, holder_id) references infraction(id,
        holder_id),
    constraint infraction_return_refund_id_holder_id_fkey foreign key (refund_id, holder_id) references refund(id, holder_id)
);
comment on table infraction_return is
    'Refunds that the institution made because of an infraction; rows are never changed or deleted.';
comment on column infraction_return.refund_id is 'The refund.';
comment on column infraction_return.holder_id is 'The holder of both.';
comment on column infraction_return.infraction_id is 'The infraction.';
create index infraction_return_of on infraction_return (infraction_id, holder_id);
create trigger infraction_return_is_append_only before delete or update or truncate on infraction_return for each statement
    execute function refuse_change();
grant insert, select on table infraction_return to pixconnect_service;

create function check_contested() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    -- On the installation's own rail, only contests make the institution return money.
    perform from transfer
    where transfer.id = new.transfer_id and transfer.holder_id = new.holder_id and institution_id is null and not exists (
        select from infraction_return as given where given.refund_id = new.id and given.holder_id = new.holder_id
    );
    if found then
        raise exception 'refund % of holder % is of no contest', new.id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_refund_has_what_belongs_to_it';
    end if;
    return null;
end $function$;

create trigger check_contested after insert on refund for each row when (new.made_by = 'institution') execute function
    check_contested();
