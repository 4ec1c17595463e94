-- A payment that the rail accepts first and settles or cancels later. In between its transfer is PROCESSING, has no entries, and
-- holds the charge that it will pay.

insert into allowed_transition (kind, direction, is_book, before, after) values
    ('transfer', 'IN', false, 'NEW', 'PROCESSING'),
    ('transfer', 'IN', false, 'PROCESSING', 'CONFIRMED'),
    ('transfer', 'IN', false, 'PROCESSING', 'ERROR');

alter table charge add column held_by bigint;
comment on column charge.held_by is 'the transfer that was accepted for it and has not ended: nobody else pays it, it does not expire';
alter table charge add constraint only_pending_charge_is_held check (held_by is null or status = 'PENDING') not valid;
grant update (held_by) on charge to pixconnect_service;

-- Both sides of a hold agree when a statement is over, in whatever order it wrote them. Rows that neither hold nor are held are
-- never looked at: the triggers' conditions pass them by.
create function check_held_charge() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if tg_op = 'UPDATE' and exists (
        select from transfer where id = old.held_by and holder_id = old.holder_id and status = 'PROCESSING'
    ) or new.held_by is not null and not exists (
        select from transfer where id = new.held_by and holder_id = new.holder_id and charge_id = new.id
            and direction = 'IN' and status = 'PROCESSING' and amount_cents = new.amount_cents
    ) then
        raise exception 'charge % of holder % cannot be held by % after %', new.id, new.holder_id, new.held_by, old.held_by
            using errcode = 'integrity_constraint_violation', constraint = 'a_charge_is_held_by_its_payment';
    end if;
    return null;
end $$;
create trigger check_new_held after insert on charge
    for each row when (new.held_by is not null) execute function check_held_charge();
create trigger check_held after update of held_by on charge
    for each row when (old.held_by is distinct from new.held_by) execute function check_held_charge();

create function check_holding_transfer() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if (new.status = 'PROCESSING') <> exists (
        select from charge where id = new.charge_id and holder_id = new.holder_id and held_by = new.id
    ) then
        raise exception 'transfer % of holder % is % and does not agree with its charge', new.id, new.holder_id, new.status
            using errcode = 'integrity_constraint_violation', constraint = 'an_accepted_payment_holds_its_charge';
    end if;
    return null;
end $$;
create trigger check_new_holding after insert on transfer
    for each row when (new.direction = 'IN' and new.status = 'PROCESSING' and new.charge_id is not null)
    execute function check_holding_transfer();
create trigger check_holding after update of status on transfer
    for each row when (old.direction = 'IN' and old.status = 'PROCESSING' and old.charge_id is not null)
    execute function check_holding_transfer();

alter table kept_report drop constraint kept_report_kind_check;
alter table kept_report add constraint kept_report_kind_check check (
    kind in ('credit', 'credit_accepted', 'credit_cancelled', 'return', 'settled', 'rejected', 'never_taken')
) not valid;
