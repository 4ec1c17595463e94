-- A holder's transfers may have to wait for an operator's yes before they leave: above an amount, or to a payee not paid before.

alter table holder add column approve_above_cents bigint, add column approve_new_payees boolean not null default false;
alter table holder add constraint holder_approve_above_cents_check check (approve_above_cents >= 0) not valid;
grant update (approve_above_cents, approve_new_payees) on holder to pixconnect_operator;

alter table open_order add column approval text collate "C";
alter table open_order add constraint open_order_approval_check check (
    approval is null or approval in ('awaited', 'given', 'refused') and left(name, 1) = 'E'
) not valid;
-- What is marked may have been sent.
alter table open_order add constraint what_waits_for_an_approval_is_not_marked check (
    approval is distinct from 'awaited' or handed_at is null
) not valid;
grant update (approval) on open_order to pixconnect_service;

create table pending_approval (
    order_name text collate "C" primary key check (length(order_name) = 32),
    transfer_id bigint not null,
    holder_id bigint not null,
    is_above boolean not null,
    is_new_payee boolean not null,
    since timestamptz not null check (isfinite(since)),
    unique (transfer_id, holder_id),
    constraint an_approval_has_its_reason check (is_above or is_new_payee)
);
grant select, insert on pending_approval to pixconnect_service;
create trigger pending_approval_is_append_only before update or delete or truncate on pending_approval
    for each statement execute function refuse_change();

create table approval_answer (
    order_name text collate "C" primary key references pending_approval,
    is_approved boolean not null,
    decided_by text not null check (decided_by <> ''),
    decided_at timestamptz not null check (isfinite(decided_at))
);
grant select on approval_answer to pixconnect_service;
grant insert on approval_answer to pixconnect_console;
create trigger approval_answer_is_append_only before update or delete or truncate on approval_answer
    for each statement execute function refuse_change();

-- A row here and the order that waits are made by one statement.
create function check_pending_approval() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if not exists (
        select from open_order
        where name = new.order_name and resource_id = new.transfer_id and holder_id = new.holder_id and approval = 'awaited'
    ) then
        raise exception 'the order % does not wait for an approval', new.order_name
            using errcode = 'integrity_constraint_violation', constraint = 'only_an_order_that_waits_is_approved';
    end if;
    return null;
end $$;
create trigger check_new after insert on pending_approval for each row execute function check_pending_approval();

-- Only what still waits is decided: after its end, or a loss of the database, it is too late.
create function check_approval_answer() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if not exists (select from open_order where name = new.order_name and approval = 'awaited' for update) then
        raise exception 'the order % does not wait for an approval any more', new.order_name
            using errcode = 'integrity_constraint_violation', constraint = 'only_an_order_that_waits_is_approved';
    end if;
    return new;
end $$;
create trigger check_new before insert on approval_answer for each row execute function check_approval_answer();

create function check_order_approval() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if tg_op = 'INSERT' then
        if new.approval <> 'awaited' or not exists (select from pending_approval where order_name = new.name) then
            raise exception 'the order % waits for an approval that nobody is asked for', new.name
                using errcode = 'integrity_constraint_violation', constraint = 'an_approval_is_awaited_first';
        end if;
    -- Whoever is in doubt may refuse; a yes is an operator's alone.
    elsif old.approval is distinct from 'awaited' or not (
        new.approval is not distinct from 'refused'
        or new.approval is not distinct from 'given'
            and exists (select from approval_answer where order_name = new.name and is_approved)
    ) then
        raise exception 'no operator has approved the order %', new.name
            using errcode = 'integrity_constraint_violation', constraint = 'an_operator_approves';
    end if;
    return null;
end $$;
create trigger check_awaited after insert on open_order for each row when (new.approval is not null)
    execute function check_order_approval();
create trigger check_approval after update of approval on open_order for each row
    when (old.approval is distinct from new.approval) execute function check_order_approval();

-- As before, and what an operator wants to approve.
drop function read_held(bigint[]);
create function read_held(wanted bigint[])
returns table (
    holder_id bigint, available_cents bigint, reserved_cents bigint, deficit_cents bigint, last_number bigint,
    last_entry_at timestamptz, modified_at timestamptz, may_deposit boolean, may_withdraw boolean, may_lend boolean, transfer_limit_cents bigint,
    day_limit_cents bigint, night_limit_cents bigint, has_key_webhooks boolean, offset_us bigint, revision bigint,
    approve_above_cents bigint, approve_new_payees boolean
)
language plpgsql volatile set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
    return query
        select balance.holder_id, balance.available_cents, balance.reserved_cents, balance.deficit_cents, balance.last_number,
            balance.last_entry_at, balance.modified_at, holder.may_deposit, holder.may_withdraw, holder.may_lend, holder.transfer_limit_cents,
            holder.day_limit_cents, holder.night_limit_cents,
            exists (select from key_webhook where key_webhook.holder_id = held.id), clock.offset_us, clock.revision,
            holder.approve_above_cents, holder.approve_new_payees
        from unnest(wanted) as held (id)
        join balance on balance.holder_id = held.id
        join holder on holder.id = held.id
        cross join clock;
end $$;
grant execute on function read_held(bigint[]) to pixconnect_service;

comment on column holder.approve_above_cents is
    'Outgoing transfers above this many cents wait for an operator''s yes; null is none.';
comment on column holder.approve_new_payees is
    'Whether outgoing transfers to a payee to whom none of this holder''s has settled wait for an operator''s yes.';
comment on column open_order.approval is
    'Of one that had to wait for an operator''s yes: awaited, given, or refused by an operator, by time or by a loss; null for all others.';
comment on table pending_approval is
    'Outgoing transfers that had to wait for an operator''s yes, and why; rows are never changed or deleted.';
comment on column pending_approval.order_name is 'The transfer''s end_to_end_id.';
comment on column pending_approval.transfer_id is 'The transfer.';
comment on column pending_approval.holder_id is 'From whom it goes.';
comment on column pending_approval.is_above is 'Whether its amount was above what may leave without a yes.';
comment on column pending_approval.is_new_payee is 'Whether nothing of this holder''s had settled to its payee before.';
comment on column pending_approval.since is 'When it was accepted, in service time.';
comment on table approval_answer is
    'What operators have said of transfers that waited for them, once each; rows are never changed or deleted.';
comment on column approval_answer.order_name is 'The transfer''s end_to_end_id.';
comment on column approval_answer.is_approved is 'Whether it may leave; otherwise its money is given back.';
comment on column approval_answer.decided_by is 'The operator, as the audit names them.';
comment on column approval_answer.decided_at is 'When they said so, in service time.';
