-- An institution pays a code as it reads it, so the order keeps the code until it has ended; the transfer keeps what it led to.

alter table open_order add column br_code text;
alter table open_order add constraint a_code_is_of_a_transfer_there
    check (
        br_code is null
        or octet_length(br_code) between 1 and 512 and institution_id is not null and left(name, 1) = 'E'
    ) not valid;

-- As before; a transfer by code has its code, and no other has one. Its payee is the key that the code led to.
create or replace function count_transfer() returns trigger
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
    -- The owner, by the CPF or by the root of the CNPJ; or whoever a transfer over the account has reached.
    if allowed.payees = 'all' or payee_tax_id = owner_tax_id
        or length(owner_tax_id) = 14 and length(payee_tax_id) = 14 and left(payee_tax_id, 8) = left(owner_tax_id, 8)
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
end $$;

comment on column open_order.br_code is 'The code that a transfer over an account at an institution pays; null of all others.';
