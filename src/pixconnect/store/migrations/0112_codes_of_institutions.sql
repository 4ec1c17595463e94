-- Some institutions take a name of ours with an order and answer a code of their own, and are asked by that code alone. It is
-- remembered once it is told, and no other takes its place: another code would be another Pix.

alter table rail_step add column code_there text collate "C";
alter table rail_step add constraint a_code_has_its_form check (code_there ~ '^[a-zA-Z0-9-]{1,100}$') not valid;
grant update (code_there) on rail_step to pixconnect_service;

-- As before; and what is asked about may learn its code without going anywhere.
create or replace function check_rail_step() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if tg_op = 'INSERT' then
        if new.may_be_done or new.code_there is not null or not exists (
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
            and ((old.state, new.state) <> ('asked', 'asked') or old.code_there is not null or new.code_there is null)
        or old.only_asked and (not new.only_asked or new.state not in ('asked', 'closed'))
        or old.may_be_done and not new.may_be_done
        or old.name_there is distinct from new.name_there and old.name_there is not null
        or old.code_there is distinct from new.code_there and (old.code_there is not null or not new.may_be_done)
        or old.called_at is distinct from new.called_at and old.called_at is not null and new.state <> 'minted'
        or new.outcome = 'never' and old.state not in ('new', 'minted')
    then
        raise exception 'the step of % cannot go from % to %', new.order_name, old.state, new.state
            using errcode = 'integrity_constraint_violation', constraint = 'a_step_forgets_no_call';
    end if;
    return new;
end $$;

comment on column rail_step.code_there is
    'The institution''s own code of it, where it is asked by that; null before it is told. It never changes.';
