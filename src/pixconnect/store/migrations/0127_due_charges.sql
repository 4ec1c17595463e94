-- Charges with a due date are charges. They ask for another amount on each day: of what parts a payment of one consists is kept.

alter table charge add column due_on date;
grant update (due_on) on charge to pixconnect_service;
alter table charge add constraint a_due_charge_says_so check (
    due_on is null or isfinite(due_on) and contents is not null and amount_cents > 0
) not valid;

create function refuse_other_kind() returns trigger
language plpgsql as $$
begin
    raise exception 'charge % of holder % cannot gain or lose its due date', new.id, new.holder_id
        using errcode = 'integrity_constraint_violation', constraint = 'a_charge_keeps_its_kind';
end $$;
create trigger keep_kind after update of due_on on charge
    for each row when ((old.due_on is null) <> (new.due_on is null)) execute function refuse_other_kind();

create table paid_amount (
    transfer_id bigint not null,
    holder_id bigint not null,
    charge_id bigint not null,
    amount_cents bigint not null check (amount_cents between 1 and 999999999999),
    original_cents bigint not null check (original_cents between 1 and 999999999999),
    fine_cents bigint not null check (fine_cents >= 0),
    interest_cents bigint not null check (interest_cents >= 0),
    rebate_cents bigint not null check (rebate_cents >= 0),
    discount_cents bigint not null check (discount_cents >= 0),
    primary key (transfer_id, holder_id),
    foreign key (transfer_id, holder_id) references transfer (id, holder_id),
    constraint an_amount_is_the_sum_of_its_parts check (
        amount_cents = original_cents + fine_cents + interest_cents - rebate_cents - discount_cents
    )
);
create index paid_amount_of_charge on paid_amount (charge_id, holder_id);
grant select, insert on paid_amount to pixconnect_service;
create trigger paid_amount_is_append_only before update or delete or truncate on paid_amount
    for each statement execute function refuse_change();

create function check_paid_amount() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
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
end $$;
create trigger check_new after insert on paid_amount for each row execute function check_paid_amount();

-- Over our own rail we have refused every other amount than that of the day; what an institution lets be paid is recorded whole.
create function check_due_payment() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
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
end $$;
create trigger check_due_payment after update of status on charge
    for each row when (
        new.due_on is not null and new.institution_id is null and old.status <> new.status and new.status = 'APPROVED'
    )
    execute function check_due_payment();

-- As before; and the amount of the day of a charge with a due date.
create or replace function check_held_charge() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
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
end $$;

-- Those with a due date are counted a second time, by themselves.
alter table tally drop constraint tally_kind_check;
alter table tally add constraint tally_kind_check
    check (kind in ('charge', 'charge_due', 'transfer', 'refund', 'spent', 'location')) not valid;

comment on column charge.due_on is 'The due date that it says; null for a charge that is to be paid at once.';
comment on table paid_amount is
    'Of what parts a payment of a charge with a due date consists, by the day of its report; rows are never changed or deleted.';
comment on column paid_amount.transfer_id is 'The payment.';
comment on column paid_amount.holder_id is 'The holder who is paid.';
comment on column paid_amount.charge_id is 'The charge.';
comment on column paid_amount.amount_cents is 'What was paid: the sum of its parts.';
comment on column paid_amount.original_cents is 'What the charge says.';
comment on column paid_amount.fine_cents is 'The fine for being late.';
comment on column paid_amount.interest_cents is 'The interest for being late.';
comment on column paid_amount.rebate_cents is 'What is taken off on every day.';
comment on column paid_amount.discount_cents is 'What is taken off for being early.';
