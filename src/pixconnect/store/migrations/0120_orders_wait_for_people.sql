-- An order that was taken by an institution may wait there for a person: it is told once, and dated.

create table waiting_order (
    order_name text collate "C" primary key check (length(order_name) = 32),
    transfer_id bigint not null,
    holder_id bigint not null,
    institution_id smallint not null references institution_account,
    waits_for text collate "C" not null check (waits_for in ('approval', 'funds')),
    since timestamptz not null check (isfinite(since)),
    unique (transfer_id, holder_id)
);
grant select, insert on waiting_order to pixconnect_service;
create trigger waiting_order_is_append_only before update or delete or truncate on waiting_order
    for each statement execute function refuse_change();

-- Only what is open at the account waits there.
create function check_waiting_order() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
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
end $$;
create trigger check_new before insert on waiting_order for each row execute function check_waiting_order();

comment on table waiting_order is 'Transfers that began to wait for a person at an institution; rows are never changed or deleted.';
comment on column waiting_order.order_name is 'The transfer''s end_to_end_id.';
comment on column waiting_order.transfer_id is 'The transfer.';
comment on column waiting_order.holder_id is 'From whom it goes.';
comment on column waiting_order.institution_id is 'The account over which it goes.';
comment on column waiting_order.waits_for is 'Somebody has to approve it there; or the account there has too little.';
comment on column waiting_order.since is 'When it was first seen to wait, in service time.';
