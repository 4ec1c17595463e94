-- After a loss of the database nobody here knows which calls were made under an order that was open: its step counts as calling. It
-- is asked about under the name that it has there, which is the same again, and never called.

alter table rail_step add column only_asked boolean not null default false;
alter table database_loss add column last_refund_id bigint not null default 0;

-- As before, and what is only asked about is not called.
create or replace function check_rail_step() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if tg_op = 'INSERT' then
        if new.may_be_done or not exists (
            select from open_order
            where name = new.order_name and holder_id = new.holder_id and institution_id = new.institution_id
                and new.only_asked = exists (select from database_loss where last_refund_id >= resource_id)
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
        or old.only_asked and (not new.only_asked or new.state not in ('asked', 'closed'))
        or old.may_be_done and not new.may_be_done
        or old.name_there is distinct from new.name_there and old.name_there is not null
        or old.called_at is distinct from new.called_at and old.called_at is not null and new.state <> 'minted'
        or new.outcome = 'never' and old.state not in ('new', 'minted')
    then
        raise exception 'the step of % cannot go from % to %', new.order_name, old.state, new.state
            using errcode = 'integrity_constraint_violation', constraint = 'a_step_forgets_no_call';
    end if;
    return new;
end $$;

-- In the transaction that notes the loss: before anybody can move an order. Of an order whose step is forgotten too, its id tells.
create function count_steps_as_calling() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    update rail_step set state = case state when 'minted' then 'calling' else state end,
        called_at = coalesce(called_at, clock_timestamp()), only_asked = true
    where state <> 'closed' and not only_asked
        and order_name in (select name from open_order where institution_id is not null);
    select coalesce(max(resource_id), 0) into new.last_refund_id from open_order where institution_id is not null;
    return new;
end $$;
create trigger count_steps_as_calling before insert on database_loss for each row execute function count_steps_as_calling();

comment on column rail_step.only_asked is
    'Whether its order was open at a loss of the database: a call of it may be forgotten, so that it is asked about and never called.';
comment on column database_loss.last_refund_id is
    'The last of the refunds that were open over accounts at institutions; of those up to it steps may be forgotten.';
