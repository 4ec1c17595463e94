-- Charges with a due date are made and changed in lots too (lotecobv): what is asked for is kept, and a worker does it one by one.

create table charge_lot (
    holder_id bigint not null references holder,
    number bigint not null check (number between 1 and 999999999999999999),
    slot smallint not null check (slot = number % 256),
    description text not null check (length(description) between 1 and 255),
    item_count integer not null check (item_count between 1 and 1000),
    asked_count integer not null check (asked_count >= 1),
    created_at timestamptz not null check (isfinite(created_at)),
    primary key (holder_id, number)
);
create index charge_lot_list on charge_lot (holder_id, created_at, number);
grant select, insert on charge_lot to pixconnect_service;
grant update (description, asked_count) on charge_lot to pixconnect_service;

create table lot_item (
    holder_id bigint not null,
    lot_number bigint not null,
    place smallint not null check (place between 0 and 999),
    txid text not null check (txid ~ '^[a-zA-Z0-9]{26,35}$'),
    status text not null check (status in ('PROCESSING', 'CREATED', 'REFUSED')),
    charge_id bigint,
    wanted text,
    refusal text,
    primary key (holder_id, lot_number, place),
    constraint a_txid_is_in_one_lot unique (holder_id, txid),
    foreign key (holder_id, lot_number) references charge_lot,
    foreign key (charge_id, holder_id) references charge (id, holder_id),
    constraint what_is_refused_says_why check ((status = 'REFUSED') = (refusal is not null)),
    constraint what_is_created_has_its_charge check (status <> 'CREATED' or charge_id is not null),
    constraint what_is_not_made_is_wanted check ((charge_id is null) = (wanted is not null))
) with (fillfactor = 70);
create index lot_item_charge on lot_item (charge_id, holder_id) where charge_id is not null;
grant select, insert on lot_item to pixconnect_service;
grant update (status, charge_id, wanted, refusal) on lot_item to pixconnect_service;

create table lot_request (
    holder_id bigint not null,
    lot_number bigint not null,
    place smallint not null,
    number integer not null check (number >= 1),
    slot smallint not null check (slot = lot_number % 256),
    asked text not null,
    asked_by text not null,
    primary key (holder_id, lot_number, place, number),
    foreign key (holder_id, lot_number, place) references lot_item
);
create index lot_request_due on lot_request (slot, place);
grant select, insert, delete on lot_request to pixconnect_service;

create function check_lot() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
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
end $$;
create trigger check_items after insert on lot_item
    referencing new table as changed for each statement execute function check_lot();

create function check_new_lot() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if not exists (select from lot_item where holder_id = new.holder_id and lot_number = new.number) then
        raise exception 'lot % of holder % has no items', new.number, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_lot_has_its_items';
    end if;
    return null;
end $$;
create trigger check_new after insert on charge_lot for each row execute function check_new_lot();

create function check_lot_requests() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
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
end $$;
create trigger check_asked after insert on lot_item
    referencing new table as changed for each statement execute function check_lot_requests();
create trigger check_status after update on lot_item
    referencing new table as changed for each statement execute function check_lot_requests();
create trigger check_new after insert on lot_request
    referencing new table as changed for each statement execute function check_lot_requests();
create trigger check_done after delete on lot_request
    referencing old table as changed for each statement execute function check_lot_requests();

create function check_lot_charge() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
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
end $$;
create trigger check_charge after update of charge_id on lot_item
    for each row when (old.charge_id is distinct from new.charge_id) execute function check_lot_charge();

comment on table charge_lot is 'Lots of charges with a due date: which charges they are is said once, and never changes.';
comment on column charge_lot.holder_id is 'Whose they are.';
comment on column charge_lot.number is 'The id that its holder chose.';
comment on column charge_lot.slot is 'The slot of work it belongs to, 0 to 255.';
comment on column charge_lot.description is 'What its holder calls it.';
comment on column charge_lot.item_count is 'How many charges it has.';
comment on column charge_lot.asked_count is 'How many requests have made or changed it: who has read it sees whether another came between.';
comment on column charge_lot.created_at is 'When it was first asked for, in service time.';
comment on table lot_item is 'The charges of lots, each whether it was made and what became of the last request.';
comment on column lot_item.holder_id is 'Whose lot it is.';
comment on column lot_item.lot_number is 'The lot.';
comment on column lot_item.place is 'Its place in the lot, from 0.';
comment on column lot_item.txid is 'The txid that the charge has or is to have.';
comment on column lot_item.status is 'PROCESSING while a worker has something to do, then what became of the last request.';
comment on column lot_item.charge_id is 'The charge, once it was made; it stays when a change of it is refused.';
comment on column lot_item.wanted is 'What was sent of a charge that is not made yet, as JSON: later requests change it.';
comment on column lot_item.refusal is 'Why the last request was refused: rules and places, as JSON.';
comment on table lot_request is 'What workers have to do for lots: rows are removed with what becomes of them.';
comment on column lot_request.holder_id is 'Whose lot it is.';
comment on column lot_request.lot_number is 'The lot.';
comment on column lot_request.place is 'The place of the charge in the lot.';
comment on column lot_request.number is 'The number of the request of this lot: those of one charge are done in order.';
comment on column lot_request.slot is 'The slot of work it belongs to, 0 to 255: its lot''s.';
comment on column lot_request.asked is 'What is asked for, as it was read, as JSON.';
comment on column lot_request.asked_by is 'Who asked, as JSON.';
