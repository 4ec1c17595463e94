-- Transfers may leave over accounts at institutions as far as two operators allow it: how much at once, in a day, and to whom.
-- What may leave in a day is held here, as of refunds.

alter table institution_allowance
    add column transfer_cents bigint not null default 0,
    add column transfers_day_cents bigint not null default 0,
    add column payees text not null default 'own',
    add constraint institution_allowance_transfer_cents_check
        check (transfer_cents between 0 and 999999999999) not valid,
    add constraint institution_allowance_transfers_day_cents_check
        check (transfers_day_cents between 0 and 999999999999) not valid,
    add constraint institution_allowance_payees_check check (payees in ('own', 'known', 'all')) not valid;
grant update (transfer_cents, transfers_day_cents, payees) on institution_allowance to pixconnect_operator;

-- As before, of each member that is raised.
create or replace function check_allowance() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    wider constant text[] := array['own', 'known', 'all'];
begin
    if not exists (
            select from institution_account where id = new.institution_id and environment = 'counterpart'
        ) and not exists (
            select from institution_proposal as confirmed
            where confirmed.institution_id = new.institution_id and act = 'allow' and confirmed_by = new.allowed_by
                and confirmed.xmin = pg_current_xact_id()::xid and confirmable_at >= proposed_at + interval '1 hour'
                and (new.refunds_day_cents <= old.refunds_day_cents
                    or (proposal ->> 'refunds_day_cents')::bigint >= new.refunds_day_cents)
                and (new.transfer_cents <= old.transfer_cents
                    or (proposal ->> 'transfer_cents')::bigint >= new.transfer_cents)
                and (new.transfers_day_cents <= old.transfers_day_cents
                    or (proposal ->> 'transfers_day_cents')::bigint >= new.transfers_day_cents)
                and (array_position(wider, new.payees) <= array_position(wider, old.payees)
                    or array_position(wider, proposal ->> 'payees') >= array_position(wider, new.payees))
        )
    then
        raise exception 'what may leave over account % is not raised by one person, nor at once', new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_raise_is_confirmed_by_another';
    end if;
    return new;
end $$;
drop trigger check_allowance on institution_allowance;
create trigger check_allowance
    before update of refunds_day_cents, transfer_cents, transfers_day_cents, payees on institution_allowance for each row
    when (
        new.refunds_day_cents > old.refunds_day_cents or new.transfer_cents > old.transfer_cents
        or new.transfers_day_cents > old.transfers_day_cents
        or array_position(array['own', 'known', 'all'], new.payees) > array_position(array['own', 'known', 'all'], old.payees)
    ) execute function check_allowance();

-- What was accepted counts, whatever becomes of it.
create table transfer_day (
    institution_id smallint not null references institution_account on delete cascade,
    day date not null,
    cents bigint not null check (cents >= 0),
    primary key (institution_id, day)
);
grant select on transfer_day to pixconnect_service;

-- What may still be accepted there on a day, held until the transaction ends.
create function hold_transfer_days(account_ids smallint[], on_day date)
returns table (institution_id smallint, transfer_cents bigint, left_cents bigint, payees text, tax_id text)
language plpgsql security definer set search_path = {schema}, pg_temp as $$
#variable_conflict use_column
begin
    insert into transfer_day (institution_id, day, cents)
        select account_id, on_day, 0 from unnest(account_ids) as account_id order by account_id
        on conflict do nothing;
    return query
        select counted.institution_id, allowed.transfer_cents, greatest(transfers_day_cents - counted.cents, 0), allowed.payees,
            account.tax_id
        from transfer_day as counted join institution_allowance as allowed using (institution_id)
        join institution_account as account on account.id = counted.institution_id
        where counted.institution_id = any(account_ids) and counted.day = on_day
        order by counted.institution_id for update of counted;
end $$;
grant execute on function hold_transfer_days(smallint[], date) to pixconnect_service;

create function count_transfer() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    sent transfer;
    allowed institution_allowance;
    owner_tax_id text;
    payee_tax_id text;
    counted_cents bigint;
begin
    -- Whoever moves a holder to another account finds its balance at 0, and this order has a part of it: so neither is missed.
    select * into sent from transfer
    where id = new.resource_id and holder_id = new.holder_id and end_to_end_id = new.name
        and institution_id = new.institution_id and direction = 'OUT' and not is_book
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
    -- The owner, by the CPF or by the root of the CNPJ; or whoever a transfer over the account has reached.
    if allowed.payees = 'all' or payee_tax_id = owner_tax_id
        or length(owner_tax_id) = 14 and length(payee_tax_id) = 14 and left(payee_tax_id, 8) = left(owner_tax_id, 8)
        or allowed.payees = 'known' and exists (
            select from transfer as before
            where before.institution_id = new.institution_id and before.direction = 'OUT' and before.settled_at is not null
                and case before.initiation_type when 'KEY' then before.counterparty ->> 'key' else
                    (before.counterparty ->> 'ispb') || '/' || (before.counterparty ->> 'branch') || '/'
                    || (before.counterparty ->> 'account_number')
                end = case sent.initiation_type when 'KEY' then sent.counterparty ->> 'key' else
                    (sent.counterparty ->> 'ispb') || '/' || (sent.counterparty ->> 'branch') || '/'
                    || (sent.counterparty ->> 'account_number')
                end
        )
    then
        return null;
    end if;
    raise exception 'a transfer over account % goes to somebody to whom none is allowed', new.institution_id
        using errcode = 'integrity_constraint_violation', constraint = 'transfers_go_to_those_allowed';
end $$;

comment on column institution_allowance.transfer_cents is 'What one transfer may be, in cents; 0 is nothing.';
comment on column institution_allowance.transfers_day_cents is
    'What may be sent in a day of Sao Paulo, in cents; 0 is nothing.';
comment on column institution_allowance.payees is
    'To whom: own is the account''s owner, known whoever was paid over it before too, all anybody.';
comment on table transfer_day is 'What was accepted to be sent over each account in a day of Sao Paulo.';
comment on column transfer_day.institution_id is 'The account.';
comment on column transfer_day.day is 'The day, in service time.';
comment on column transfer_day.cents is 'The sum, in cents, whatever became of it.';
