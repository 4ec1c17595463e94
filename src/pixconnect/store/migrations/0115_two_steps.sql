-- Some institutions send in two steps: the first names the Pix and tells whose the key is, and moves nothing; the second pays. What
-- the first told is remembered before the second is called.

alter table rail_step add column owner_tax_id text, add column owner_name text;
alter table rail_step add constraint an_owner_has_its_form check (length(owner_tax_id) between 1 and 40 and length(owner_name) <= 200)
    not valid;
grant update (owner_tax_id, owner_name) on rail_step to pixconnect_service;

-- As before; and what is named by its first step has its code before any call that moves money. What was not named at a loss counts
-- as called, as what was.
create or replace function check_rail_step() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if tg_op = 'INSERT' then
        if new.may_be_done or new.code_there is not null or new.owner_tax_id is not null or not exists (
            select from open_order
            where name = new.order_name and holder_id = new.holder_id and institution_id = new.institution_id
                and (left(name, 1) = 'E') = (new.kind = 'order')
                and new.only_asked = exists (
                    select from database_loss
                    where case new.kind when 'order' then last_transfer_id else last_refund_id end >= resource_id
                )
        ) or new.only_asked and new.state <> 'calling'
            or not new.only_asked and (new.state not in ('new', 'minted') or new.called_at is not null)
        then
            raise exception 'the step of % begins before any call, with its order open at the account', new.order_name
                using errcode = 'integrity_constraint_violation', constraint = 'a_step_begins_with_its_order';
        end if;
        return new;
    end if;
    if (old.state, new.state) not in (
            ('new', 'minted'), ('new', 'closed'), ('minted', 'calling'), ('minted', 'closed'), ('calling', 'asked'),
            ('calling', 'closed'), ('asked', 'calling'), ('asked', 'closed')
        ) and ((old.state, new.state) <> ('calling', 'minted') or old.may_be_done)
            and (old.state <> new.state or old.only_asked or not new.only_asked)
            and ((old.state, new.state) <> ('new', 'calling') or old.only_asked or not new.only_asked)
            and ((old.state, new.state) <> ('asked', 'asked') or old.code_there is not null or new.code_there is null)
        or old.only_asked and (not new.only_asked or new.state not in ('asked', 'closed'))
        or old.may_be_done and not new.may_be_done
        or old.name_there is distinct from new.name_there and old.name_there is not null
        or old.code_there is distinct from new.code_there
            and (old.code_there is not null or not new.may_be_done and (old.state, new.state) <> ('new', 'minted'))
        or (old.owner_tax_id, old.owner_name) is distinct from (new.owner_tax_id, new.owner_name)
            and (old.state, new.state) <> ('new', 'minted')
        or old.called_at is distinct from new.called_at and old.called_at is not null and new.state <> 'minted'
        or new.outcome = 'never' and old.state not in ('new', 'minted')
    then
        raise exception 'the step of % cannot go from % to %', new.order_name, old.state, new.state
            using errcode = 'integrity_constraint_violation', constraint = 'a_step_forgets_no_call';
    end if;
    return new;
end $$;

create or replace function count_steps_as_calling() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    update rail_step set state = case when state in ('new', 'minted') then 'calling' else state end,
        called_at = coalesce(called_at, clock_timestamp()), only_asked = true
    where state <> 'closed' and not only_asked
        and order_name in (select name from open_order where institution_id is not null);
    select coalesce(max(resource_id) filter (where left(name, 1) = 'D'), 0),
        coalesce(max(resource_id) filter (where left(name, 1) = 'E'), 0)
        into new.last_refund_id, new.last_transfer_id
    from open_order where institution_id is not null;
    return new;
end $$;

comment on column rail_step.state is
    'New: its first step has not named it; minted: named, and not asked for; calling: a call is under way or was cut off; asked: '
    'it may be done, and is asked about; closed: no call is made any more.';
comment on column rail_step.code_there is
    'The institution''s own code of it, where it is asked by that; null before it is told, as by a first step that moves nothing. '
    'It never changes.';
comment on column rail_step.owner_tax_id is
    'Whose the key is, as the first step told it: compared with the owner that the caller named before money moves; else null.';
comment on column rail_step.owner_name is 'The name that was told with it.';
