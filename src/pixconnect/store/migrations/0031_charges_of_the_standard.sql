-- Charges as the standard's door makes and changes them. They are the same charges: what the contract's door makes leaves all of
-- this null, and costs nothing more.

alter table charge add column contents text;
comment on column charge.contents is 'JSON, the latest contents; null for a charge of the contract that the standard never changed';
alter table charge add column revision integer;
alter table charge add column is_unbound boolean;
alter table charge add constraint revision_has_contents check (revision is null or contents is not null and revision > 0)
    not valid;
alter table charge drop constraint charge_amount_cents_check;
-- Zero is an amount that the payer chooses; once it is paid the amount is what was paid.
alter table charge add constraint charge_amount_cents_check check (
    amount_cents between 0 and 999999999999 and (amount_cents > 0 or contents is not null and status not in ('APPROVED', 'RETURNED'))
) not valid;
alter table charge drop constraint charge_status_check;
alter table charge add constraint charge_status_check check (
    status in ('PENDING', 'APPROVED', 'EXPIRED', 'RETURNED', 'REMOVED_BY_RECEIVER', 'REMOVED_BY_PSP')
) not valid;
grant update (contents, revision, is_unbound, amount_cents, key, payer_name, payer_tax_id, br_code)
    on charge to pixconnect_service;

insert into allowed_transition (kind, direction, is_book, before, after) values
    ('charge', 'IN', false, 'EXPIRED', 'PENDING'), -- its expiry was revised
    ('charge', 'IN', false, 'PENDING', 'REMOVED_BY_RECEIVER'),
    ('charge', 'IN', false, 'EXPIRED', 'REMOVED_BY_RECEIVER'),
    ('charge', 'IN', false, 'PENDING', 'REMOVED_BY_PSP'),
    ('charge', 'IN', false, 'EXPIRED', 'REMOVED_BY_PSP');

-- The contents of a revision, put here when the next one replaces them.
create table charge_revision (
    charge_id bigint not null,
    holder_id bigint not null,
    revision integer not null check (revision >= 0),
    contents text not null,
    primary key (charge_id, holder_id, revision)
);
grant select, insert on charge_revision to pixconnect_service;

-- What a dynamic code leads to. It stays when its charge is taken away, and may be given another; it is changed under the lock of
-- the charge that it has or gets. A charge of the contract's door gets its row when the other door first shows it; until then it
-- is served by its txid, which becomes the token.
create sequence location_id increment 512;
create table location (
    id bigint primary key check (id between 1 and 9007199254740991),
    holder_id bigint not null,
    token text collate "C" not null check (token ~ '^[a-zA-Z0-9]{22,35}$'),
    status text not null check (status in ('COB_FREE', 'COB_BOUND', 'COBV_FREE', 'COBV_BOUND')),
    charge_id bigint,
    created_at timestamptz not null,
    constraint location_token_is_used_once unique (token),
    -- Judged when a statement is over: a charge may go from one location to another in one.
    constraint location_of_charge unique (charge_id, holder_id) deferrable initially immediate,
    constraint location_is_bound_to_a_charge check ((charge_id is not null) = (status in ('COB_BOUND', 'COBV_BOUND')))
);
create index location_list on location ((holder_id + 0), status, created_at, id);
grant select, insert, update (status, charge_id) on location to pixconnect_service;
grant usage on sequence location_id to pixconnect_service;

alter table tally drop constraint tally_kind_check;
alter table tally add constraint tally_kind_check check (kind in ('charge', 'transfer', 'refund', 'spent', 'location')) not valid;

-- As before, but that whoever pays a free amount holds the charge with another than it asks for.
create or replace function check_held_charge() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if tg_op = 'UPDATE' and exists (
        select from transfer where id = old.held_by and holder_id = old.holder_id and status = 'PROCESSING'
    ) or new.held_by is not null and not exists (
        select from transfer where id = new.held_by and holder_id = new.holder_id and charge_id = new.id
            and direction = 'IN' and status = 'PROCESSING'
            and (amount_cents = new.amount_cents or new.contents::jsonb ->> 'may_change_amount' = 'true')
    ) then
        raise exception 'charge % of holder % cannot be held by % after %', new.id, new.holder_id, new.held_by, old.held_by
            using errcode = 'integrity_constraint_violation', constraint = 'a_charge_is_held_by_its_payment';
    end if;
    return null;
end $$;

-- As before, but that the amount that counts is the one that a charge has now: a free one becomes what was paid.
create or replace function check_charges() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
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
            select id, holder_id, max(before) as before, max(after) as after, max(amount_cents) as amount_cents from (
                select id, holder_id, status as before, null as after, null::bigint as amount_cents from old_row
                union all
                select id, holder_id, null, status, amount_cents from new_row
            ) as side
            group by id, holder_id having max(before) is distinct from max(after)
        ) as moved
        where not exists (
            select from allowed_transition as allowed
            where allowed.kind = 'charge' and allowed.direction = 'IN' and not allowed.is_book
                and allowed.before = moved.before and allowed.after = moved.after
        ) or moved.after = 'APPROVED' and not exists (
            select from transfer where transfer.charge_id = moved.id and transfer.holder_id = moved.holder_id
                and transfer.settled_at is not null and transfer.amount_cents = moved.amount_cents
        )
        limit 1;
    end if;
    if found then
        raise exception 'charge % of holder % cannot go from % to %', misfit.id, misfit.holder_id, misfit.before, misfit.after
            using errcode = 'integrity_constraint_violation', constraint = 'a_charge_has_its_payment';
    end if;
    return null;
end $$;

-- What was paid for is not changed any more, nor what a payment was accepted for.
create function check_charge_amount() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if old.status not in ('PENDING', 'EXPIRED') or old.held_by is not null and new.status <> 'APPROVED' then
        raise exception 'charge % of holder % is % and keeps its amount', new.id, new.holder_id, old.status
            using errcode = 'integrity_constraint_violation', constraint = 'a_paid_charge_keeps_its_amount';
    end if;
    return null;
end $$;
create trigger check_amount after update of amount_cents on charge
    for each row when (old.amount_cents <> new.amount_cents) execute function check_charge_amount();
