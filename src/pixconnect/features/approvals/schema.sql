-- Operators' approval of outgoing transfers.

create function check_pending_approval() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if not exists (
        select from open_order
        where name = new.order_name and resource_id = new.transfer_id and holder_id = new.holder_id and approval = 'awaited'
    ) then
        raise exception 'the order % does not wait for an approval', new.order_name
            using errcode = 'integrity_constraint_violation', constraint = 'only_an_order_that_waits_is_approved';
    end if;
    return null;
end $function$;

create table pending_approval (
    order_name text collate "C" not null,
    transfer_id bigint not null,
    holder_id bigint not null,
    is_above boolean not null,
    is_new_payee boolean not null,
    since timestamp with time zone not null,
    constraint pending_approval_pkey primary key (order_name),
    constraint pending_approval_transfer_id_holder_id_key unique (transfer_id, holder_id),
    constraint an_approval_has_its_reason check (is_above or is_new_payee),
    constraint pending_approval_order_name_check check (length(order_name) = 32),
    constraint pending_approval_since_check check (isfinite(since))
);
comment on table pending_approval is
    'Outgoing transfers that needed an operator''s approval, and why; rows are never changed or deleted.';
comment on column pending_approval.order_name is 'The transfer''s end_to_end_id.';
comment on column pending_approval.transfer_id is 'The transfer.';
comment on column pending_approval.holder_id is 'The holder that sends it.';
comment on column pending_approval.is_above is 'Whether its amount exceeded the limit without approval.';
comment on column pending_approval.is_new_payee is 'Whether nothing of this holder''s had settled to its payee before.';
comment on column pending_approval.since is 'When it was accepted, in service time.';
create trigger check_new after insert on pending_approval for each row execute function check_pending_approval();
create trigger pending_approval_is_append_only before delete or update or truncate on pending_approval for each statement
    execute function refuse_change();
grant insert, select on table pending_approval to pixconnect_service;

create function check_approval_answer() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if not exists (select from open_order where name = new.order_name and approval = 'awaited' for update) then
        raise exception 'the order % does not wait for an approval any more', new.order_name
            using errcode = 'integrity_constraint_violation', constraint = 'only_an_order_that_waits_is_approved';
    end if;
    if new.is_approved and exists (
        select from open_order join holder on holder.id = open_order.holder_id
        where open_order.name = new.order_name and (not may_withdraw or disabled_at is not null)
    ) then
        raise exception 'the order % is of a holder that may not withdraw now', new.order_name
            using errcode = 'integrity_constraint_violation', constraint = 'only_what_may_leave_is_approved';
    end if;
    return new;
end $function$;

create table approval_answer (
    order_name text collate "C" not null,
    is_approved boolean not null,
    decided_by text not null,
    decided_at timestamp with time zone not null,
    constraint approval_answer_pkey primary key (order_name),
    constraint approval_answer_decided_at_check check (isfinite(decided_at)),
    constraint approval_answer_decided_by_check check (decided_by <> ''),
    constraint approval_answer_order_name_fkey foreign key (order_name) references pending_approval(order_name)
);
comment on table approval_answer is
    'Operators'' decisions on waiting transfers, one each; rows are never changed or deleted.';
comment on column approval_answer.order_name is 'The transfer''s end_to_end_id.';
comment on column approval_answer.is_approved is 'Whether it may leave; otherwise its money is given back.';
comment on column approval_answer.decided_by is 'The operator, as the audit names them.';
comment on column approval_answer.decided_at is 'When it was decided, in service time.';
create trigger approval_answer_is_append_only before delete or update or truncate on approval_answer for each statement execute
    function refuse_change();
create trigger check_new before insert on approval_answer for each row execute function check_approval_answer();
grant insert on table approval_answer to pixconnect_console;
grant select on table approval_answer to pixconnect_service;

create function check_order_approval() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if tg_op = 'INSERT' then
        if new.approval <> 'awaited' or not exists (select from pending_approval where order_name = new.name) then
            raise exception 'the order % waits for an approval that nobody is asked for', new.name
                using errcode = 'integrity_constraint_violation', constraint = 'an_approval_is_awaited_first';
        end if;
    -- Any refusal is accepted; only an operator can approve.
    elsif old.approval is distinct from 'awaited' or not (
        new.approval is not distinct from 'refused'
        or new.approval is not distinct from 'given'
            and exists (select from approval_answer where order_name = new.name and is_approved)
    ) then
        raise exception 'no operator has approved the order %', new.name
            using errcode = 'integrity_constraint_violation', constraint = 'an_operator_approves';
    end if;
    return null;
end $function$;

create trigger check_approval after update of approval on open_order for each row when (old.approval is distinct from
    new.approval) execute function check_order_approval();
create trigger check_awaited after insert on open_order for each row when (new.approval is not null) execute function
    check_order_approval();
