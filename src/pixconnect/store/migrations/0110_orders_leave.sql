-- What is asked of institutions under orders to send is remembered as of refunds, with whom they go to.

alter table rail_step add column payee text;
alter table rail_step add constraint an_order_has_its_payee check ((kind = 'order') = (payee is not null)) not valid;
alter table database_loss add column last_transfer_id bigint not null default 0;

-- As before; transfers and refunds count their ids apart.
create or replace function check_rail_step() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if tg_op = 'INSERT' then
        if new.may_be_done or not exists (
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

create or replace function count_steps_as_calling() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    update rail_step set state = case state when 'minted' then 'calling' else state end,
        called_at = coalesce(called_at, clock_timestamp()), only_asked = true
    where state <> 'closed' and not only_asked
        and order_name in (select name from open_order where institution_id is not null);
    select coalesce(max(resource_id) filter (where left(name, 1) = 'D'), 0),
        coalesce(max(resource_id) filter (where left(name, 1) = 'E'), 0)
        into new.last_refund_id, new.last_transfer_id
    from open_order where institution_id is not null;
    return new;
end $$;

comment on column rail_step.payee is 'Whom an order to send goes to: the key, or the account with its bank; null of a refund.';
comment on column database_loss.last_transfer_id is
    'The last of the transfers that were open over accounts at institutions; of those up to it steps may be forgotten.';
