-- A movement is of the account on which its item was, whatever account its holder lies on later; who writes one does not choose it.

alter table movement add column institution_id smallint;
comment on column movement.institution_id is
    'The account at an institution that it is of, for ever; null is the installation''s own rail.';

create function name_account() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if new.opposite_of is null then
        select institution_id into new.institution_id from holder where id = new.holder_id;
    else
        select institution_id into new.institution_id from movement where holder_id = new.holder_id and item_id = new.opposite_of;
    end if;
    return new;
end $$;
create trigger name_account before insert on movement for each row execute function name_account();

-- Until those of before have theirs, in the next steps, that alone may change.
drop trigger movement_is_append_only on movement;
create trigger movement_is_append_only before delete or truncate on movement for each statement execute function refuse_change();
create function keep_all_but_account() returns trigger language plpgsql as $$
begin
    if old.institution_id is null then
        old.institution_id := new.institution_id;
    end if;
    if old is distinct from new then
        raise exception 'movement % of holder % stays as it is', new.item_id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'movement_is_append_only';
    end if;
    return new;
end $$;
create trigger keep_all_but_account before update on movement for each row execute function keep_all_but_account();

-- As before, and by the movement's own account.
create or replace function keep_joined() returns trigger language plpgsql as $$
begin
    if old.joined_kind = 'movement' and new.joined_kind in ('transfer', 'refund') and not new.is_reversal and exists (
        select from movement as opposite
        where opposite.institution_id = old.institution_id and opposite.opposite_of = old.joined_id
    ) then
        return new;
    end if;
    raise exception 'item % is joined to % %, and stays so', old.item_id, old.joined_kind, old.joined_id
        using errcode = 'integrity_constraint_violation', constraint = 'an_item_stays_joined';
end $$;

-- As before, and an item of an account is one movement, whoever of its holders has it.
create or replace function check_movements() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
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
        where entry.holder_id = moved.holder_id and entry.transfer_id is null and entry.refund_id is null
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
end $$;
