-- Lots of charges with a due date.

create function check_new_lot() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if not exists (select from lot_item where holder_id = new.holder_id and lot_number = new.number) then
        raise exception 'lot % of holder % has no items', new.number, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_lot_has_its_items';
    end if;
    return null;
end $function$;

create table charge_lot (
    holder_id bigint not null,
    number bigint not null,
    slot smallint not null,
    description text not null,
    item_count integer not null,
    asked_count integer not null,
    created_at timestamp with time zone not null,
    constraint charge_lot_pkey primary key (holder_id, number),
    constraint charge_lot_asked_count_check check (asked_count >= 1),
    constraint charge_lot_check check (slot = (number % 256::bigint)),
    constraint charge_lot_created_at_check check (isfinite(created_at)),
    constraint charge_lot_description_check check (length(description) >= 1 and length(description) <= 255),
    constraint charge_lot_item_count_check check (item_count >= 1 and item_count <= 1000),
    constraint charge_lot_number_check check (number >= 1 and number <= 999999999999999999),
    constraint charge_lot_holder_id_fkey foreign key (holder_id) references holder(id)
);
comment on table charge_lot is 'Lots of charges with a due date; the list of its charges never changes.';
comment on column charge_lot.holder_id is 'The holder of its charges.';
comment on column charge_lot.number is 'The id that its holder chose.';
comment on column charge_lot.slot is 'The slot of work it belongs to, 0 to 255.';
comment on column charge_lot.description is 'Its holder''s name for it.';
comment on column charge_lot.item_count is 'How many charges it has.';
comment on column charge_lot.asked_count is
    'How many requests have made or changed it: a reader detects another change in between.';
comment on column charge_lot.created_at is 'When it was first requested, in service time.';
create index charge_lot_list on charge_lot (holder_id, created_at, number);
create trigger check_new after insert on charge_lot for each row execute function check_new_lot();
grant insert, select, update (description, asked_count) on table charge_lot to pixconnect_service;

create function check_lot_requests() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
declare
    wrong record;
begin
    select lot_item.holder_id, lot_item.lot_number, lot_item.place into wrong
    from changed join lot_item on lot_item.holder_id = changed.holder_id and lot_item.lot_number = changed.lot_number
        and lot_item.place = changed.place
    where (lot_item.status = 'PROCESSING') <> exists (
        select from lot_request
        where lot_request.holder_id = lot_item.holder_id and lot_request.lot_number = lot_item.lot_number
            and lot_request.place = lot_item.place
    ) limit 1;
    if wrong is not null then
        raise exception 'item % of lot % of holder % and what is asked of it do not agree',
            wrong.place, wrong.lot_number, wrong.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'an_item_under_way_is_asked_for';
    end if;
    return null;
end $function$;

create function check_lot_charge() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if old.charge_id is not null or not exists (
        select from charge
        where id = new.charge_id and holder_id = new.holder_id and txid = new.txid and due_on is not null
    ) then
        raise exception 'charge % is not that of item % of lot % of holder %',
            new.charge_id, new.place, new.lot_number, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'an_item_keeps_its_charge';
    end if;
    return null;
end $function$;

create function check_lot() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    wrong record;
begin
    select changed.holder_id, changed.lot_number into wrong from (select distinct holder_id, lot_number from changed) as changed
    join charge_lot on charge_lot.holder_id = changed.holder_id and charge_lot.number = changed.lot_number
    where item_count <> (
        select count(*) from lot_item
        where lot_item.holder_id = changed.holder_id and lot_item.lot_number = changed.lot_number and place < item_count
    ) or item_count <> (
        select count(*) from lot_item where lot_item.holder_id = changed.holder_id and lot_item.lot_number = changed.lot_number
    ) limit 1;
    if wrong is not null then
        raise exception 'lot % of holder % gains or lacks items', wrong.lot_number, wrong.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_lot_has_its_items';
    end if;
    return null;
end $function$;

create table lot_item (
    holder_id bigint not null,
    lot_number bigint not null,
    place smallint not null,
    txid text not null,
    status text not null,
    charge_id bigint,
    wanted text,
    refusal text,
    constraint lot_item_pkey primary key (holder_id, lot_number, place),
    constraint a_txid_is_in_one_lot unique (holder_id, txid),
    constraint lot_item_place_check check (place >= 0 and place <= 999),
    constraint lot_item_status_check check (status in ('PROCESSING', 'CREATED', 'REFUSED')),
    constraint lot_item_txid_check check (txid ~ '^[a-zA-Z0-9]{26,35}$'),
    constraint what_is_created_has_its_charge check (status <> 'CREATED' or charge_id is not null),
    constraint what_is_not_made_is_wanted check ((charge_id is null) = (wanted is not null)),
    constraint what_is_refused_says_why check ((status = 'REFUSED') = (refusal is not null)),
    constraint lot_item_charge_id_holder_id_fkey foreign key (charge_id, holder_id) references charge(id, holder_id),
    constraint lot_item_holder_id_lot_number_fkey foreign key (holder_id, lot_number) references charge_lot(holder_id, number)
) with (fillfactor=70);
comment on table lot_item is 'The charges of lots: whether each was made, and the result of the last request.';
comment on column lot_item.holder_id is 'The lot''s holder.';
comment on column lot_item.lot_number is 'The lot.';
comment on column lot_item.place is 'Its place in the lot, from 0.';
comment on column lot_item.txid is 'The txid that the charge has or is to have.';
comment on column lot_item.status is 'PROCESSING while a request is pending, then the result of the last request.';
comment on column lot_item.charge_id is 'The charge, once it was made; it stays when a change of it is refused.';
comment on column lot_item.wanted is
    'The contents sent for a charge that does not exist yet, as JSON; later requests change them.';
comment on column lot_item.refusal is 'Why the last request was refused: rules and places, as JSON.';
create index lot_item_charge on lot_item (charge_id, holder_id) where charge_id is not null;
create trigger check_asked after insert on lot_item referencing new table as changed for each statement execute function
    check_lot_requests();
create trigger check_charge after update of charge_id on lot_item for each row when (old.charge_id is distinct from
    new.charge_id) execute function check_lot_charge();
create trigger check_items after insert on lot_item referencing new table as changed for each statement execute function
    check_lot();
create trigger check_status after update on lot_item referencing new table as changed for each statement execute function
    check_lot_requests();
grant insert, select, update (status, charge_id, wanted, refusal) on table lot_item to pixconnect_service;

create table lot_request (
    holder_id bigint not null,
    lot_number bigint not null,
    place smallint not null,
    number integer not null,
    slot smallint not null,
    asked text not null,
    asked_by text not null,
    constraint lot_request_pkey primary key (holder_id, lot_number, place, number),
    constraint lot_request_check check (slot = (lot_number % 256::bigint)),
    constraint lot_request_number_check check (number >= 1),
    constraint lot_request_holder_id_lot_number_place_fkey foreign key (holder_id, lot_number, place) references
        lot_item(holder_id, lot_number, place)
);
comment on table lot_request is 'Pending work on lots: a row is removed with its result.';
comment on column lot_request.holder_id is 'The lot''s holder.';
comment on column lot_request.lot_number is 'The lot.';
comment on column lot_request.place is 'The place of the charge in the lot.';
comment on column lot_request.number is 'The number of the request of this lot: those of one charge are done in order.';
comment on column lot_request.slot is 'The slot of work it belongs to, 0 to 255: its lot''s.';
comment on column lot_request.asked is 'The parsed request, as JSON.';
comment on column lot_request.asked_by is 'The origin of the request, as JSON.';
create index lot_request_due on lot_request (slot, place);
create trigger check_done after delete on lot_request referencing old table as changed for each statement execute function
    check_lot_requests();
create trigger check_new after insert on lot_request referencing new table as changed for each statement execute function
    check_lot_requests();
grant delete, insert, select on table lot_request to pixconnect_service;
