-- A company that changes its bank goes on as another holder, on the new account. The former one stays where it is, for what still
-- comes to it; its clients, keys and webhooks go over, and both have their names together.

alter table holder add column family_id bigint;
alter table holder add column successor_id bigint;
alter table holder add constraint a_family_is_of_holders foreign key (family_id) references holder not valid;
alter table holder add constraint a_successor_is_a_holder foreign key (successor_id) references holder not valid;
alter table holder add constraint a_successor_is_of_the_family check (
    successor_id is null or family_id is not null and successor_id <> id
) not valid;

comment on column holder.family_id is
    'The first of the holders that succeeded each other, which share their names of requests; null where none did.';
comment on column holder.successor_id is
    'The newest of them, which has the clients, keys and webhooks; null for that one, and where none did.';

create function keep_family() returns trigger language plpgsql as $$
begin
    raise exception 'holder % came to its family by succeeding, and stays in it', new.id
        using errcode = 'integrity_constraint_violation', constraint = 'a_family_stays';
end $$;
create trigger keep_family before update of family_id, successor_id on holder for each row
    when (old.family_id is not null and new.family_id is distinct from old.family_id
        or old.successor_id is not null and new.successor_id is null)
    execute function keep_family();
create trigger open_without_family before insert on holder for each row
    when (new.family_id is not null or new.successor_id is not null) execute function keep_family();

create function move_to_successor(former_id bigint, heir_id bigint, tokens_from timestamptz, moved_at timestamptz) returns void
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    first_id bigint;
begin
    select coalesce(former.family_id, former.id) into first_id from holder as former join holder as heir on heir.id = heir_id
    where former.id = former_id and former.successor_id is null and heir.family_id is null
        and heir.tax_id = former.tax_id and heir.institution_id is not null
        and heir.institution_id is distinct from former.institution_id
        and find_past_of_holder(heir.id) is null;
    if not found then
        raise exception 'holder % cannot succeed holder %', heir_id, former_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_successor_begins_with_nothing';
    end if;
    update holder set family_id = first_id, successor_id = case when id <> heir_id then heir_id end
    where id in (former_id, heir_id) or family_id = first_id;
    update pix_key set holder_id = heir_id where holder_id = former_id;
    update key_webhook set holder_id = heir_id where holder_id = former_id;
    update webhook_endpoint set holder_id = heir_id, modified_at = greatest(modified_at, moved_at) where holder_id = former_id;
    -- A token says its holder.
    update client set holder_id = heir_id, tokens_from = greatest(client.tokens_from, move_to_successor.tokens_from)
    where holder_id = former_id;
    update access_revision set revision = revision + 1;
end $$;
grant execute on function move_to_successor(bigint, bigint, timestamptz, timestamptz) to pixconnect_operator;

-- What one of a family has asked for under a name no other may ask for again; and a former one starts nothing.
create function check_family() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
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
    -- Two of a family ask at once, each in a transaction of its own: the second one sees what the first has written.
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
end $$;
create trigger check_family after insert on charge referencing new table as new_row for each statement
    execute function check_family();
create trigger check_family after insert on transfer referencing new table as new_row for each statement
    execute function check_family();
create trigger check_family after insert on refund referencing new table as new_row for each statement
    execute function check_family();

-- Openings begin on the account of a holder that nobody has succeeded.
create function check_opening_is_of_heir() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    perform from holder where id = new.holder_id and successor_id is null for share;
    if not found then
        raise exception 'holder % was succeeded, and opens no charge', new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'who_was_succeeded_starts_nothing';
    end if;
    return null;
end $$;
create trigger check_heir after insert on charge_opening for each row execute function check_opening_is_of_heir();

-- The webhooks of keys of a former holder are its successor's.
create or replace function read_held(wanted bigint[])
returns table (
    holder_id bigint, available_cents bigint, reserved_cents bigint, blocked_cents bigint, deficit_cents bigint,
    last_number bigint, last_entry_at timestamptz, modified_at timestamptz, may_deposit boolean, may_withdraw boolean,
    may_lend boolean, transfer_limit_cents bigint, day_limit_cents bigint, night_limit_cents bigint, has_key_webhooks boolean,
    offset_us bigint, revision bigint, approve_above_cents bigint, approve_new_payees boolean, night_begins_late boolean,
    blocks_count integer, institution_id smallint
)
language plpgsql set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
    return query
        select balance.holder_id, balance.available_cents, balance.reserved_cents, balance.blocked_cents,
            balance.deficit_cents, balance.last_number, balance.last_entry_at, balance.modified_at, holder.may_deposit,
            holder.may_withdraw, holder.may_lend, holder.transfer_limit_cents, holder.day_limit_cents,
            holder.night_limit_cents,
            exists (select from key_webhook where key_webhook.holder_id = coalesce(holder.successor_id, held.id)),
            clock.offset_us, clock.revision, holder.approve_above_cents, holder.approve_new_payees,
            holder.night_begins_late, balance.blocks_count, holder.institution_id
        from unnest(wanted) as held (id)
        join balance on balance.holder_id = held.id
        join holder on holder.id = held.id
        cross join clock;
end $$;
