-- Statements that the tables let pass, and which no use case makes: instants that never come, a mark that is taken back like that,
-- an order that is cancelled before its time, a charge changed under the payment that holds it, what was never said kept as its
-- earlier contents, a refusal forgotten while it counts, one name of the network given in two sessions at once.
-- No row of before breaks any of these: each looks at a change and not at what is there.

create function refuse_endless_instant() returns trigger language plpgsql as $$
begin
    raise exception 'a row of % is dated to an instant that never comes', tg_table_name
        using errcode = 'integrity_constraint_violation', constraint = 'instants_are_finite';
end $$;
create trigger instants_are_finite after insert or update of due_at, give_up_at on open_order
    for each row when (not isfinite(new.due_at) or not isfinite(new.give_up_at)) execute function refuse_endless_instant();
create trigger instants_are_finite after insert or update of expires_at on charge
    for each row when (not isfinite(new.expires_at)) execute function refuse_endless_instant();
create trigger instants_are_finite after insert on ledger_entry
    for each row when (not isfinite(new.created_at)) execute function refuse_endless_instant();

-- Whoever takes a mark back says when to try again, and that is before the rail would have been asked.
drop trigger keep_handed on open_order;
create trigger keep_handed after update of handed_at, asked_count on open_order for each row when (
    old.asked_count > new.asked_count or old.handed_at <> new.handed_at
    or old.handed_at is not null and new.handed_at is null and new.due_at >= old.due_at
) execute function refuse_to_forget();

-- As before, and nothing is cancelled before its time.
create or replace function check_ended_orders() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    misfit text;
begin
    select ended_order.name into misfit from ended_order
    left join transfer on transfer.id = case when left(name, 1) = 'E' then resource_id end
        and transfer.holder_id = ended_order.holder_id
    left join refund on refund.id = case when left(name, 1) = 'D' then resource_id end
        and refund.holder_id = ended_order.holder_id
    where (
        coalesce(transfer.status, refund.status, 'PROCESSING') = 'PROCESSING'
        or coalesce(transfer.handed_at, refund.handed_at) is distinct from ended_order.handed_at
        or coalesce(transfer.status, refund.status) = 'CANCELLED'
            and coalesce(transfer.modified_at, refund.modified_at) < ended_order.give_up_at
    ) and (
        select count(*) from offending_row as listed
        where listed.table_name = 'open_order' and listed.id = resource_id and listed.holder_id = ended_order.holder_id
    ) = 0
    limit 1;
    if found then
        raise exception 'the order % ends otherwise than what was ordered', misfit
            using errcode = 'integrity_constraint_violation', constraint = 'order_ends_with_what_was_ordered';
    end if;
    return null;
end $$;

create function refuse_change_under_payment() returns trigger language plpgsql as $$
begin
    raise exception 'charge % of holder % is held by % and stays as it was accepted', old.id, old.holder_id, old.held_by
        using errcode = 'integrity_constraint_violation', constraint = 'a_held_charge_stays_as_it_is';
end $$;
-- The clock of a sandbox that is moved back brings deadlines nearer.
create trigger keep_held after update of contents, key, expires_at on charge for each row when (
    old.held_by is not null
    and (old.contents is distinct from new.contents or old.key <> new.key or old.expires_at < new.expires_at)
) execute function refuse_change_under_payment();

-- As before, and what is kept is what the charge said; one of the contract's that was never changed says it in its columns.
create or replace function check_revisions() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if tg_table_name = 'charge_revision' then
        if new.revision < (select revision from charge where id = new.charge_id and holder_id = new.holder_id) is true then
            return null;
        end if;
    elsif new.revision > coalesce(old.revision, 0) and new.revision = (
        select count(*) from charge_revision as kept
        where kept.charge_id = new.id and kept.holder_id = new.holder_id and kept.revision < new.revision
    ) and coalesce(old.contents = (
        select kept.contents from charge_revision as kept
        where kept.charge_id = new.id and kept.holder_id = new.holder_id and kept.revision = coalesce(old.revision, 0)
    ), true) then
        return null;
    end if;
    raise exception 'the revision % is not the next one of its charge', new.revision
        using errcode = 'integrity_constraint_violation', constraint = 'revisions_follow_each_other';
end $$;

-- A report is kept open, and a refusal is dated by the server and stays for its time.
revoke insert on kept_report from pixconnect_service;
grant insert (kind, reason, explanation, name, report_id, report, fingerprint, refusal_code) on kept_report to pixconnect_service;
revoke insert on refused_credit from pixconnect_service;
grant insert (name, kind, refusal_code) on refused_credit to pixconnect_service;
create function keep_refusal() returns trigger language plpgsql as $$
begin
    raise exception 'the payment % was refused at % and stays refused', old.name, old.refused_at
        using errcode = 'integrity_constraint_violation', constraint = 'a_refusal_stays_for_its_time';
end $$;
create trigger keep_refusal before delete on refused_credit for each row
    when (old.refused_at > clock_timestamp() - interval '30 days') execute function keep_refusal();

-- A name that the network gives is looked for among names that exist, and a new row among those that were given. Sessions that do
-- one and the other would not see each other: so rows are added by many at once, and a name is given while nobody adds any.
-- Both wait at the end of their statements, when they wait for nothing else.
create function await_names() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        perform pg_advisory_xact_lock_shared(7811887);
    else
        perform pg_advisory_xact_lock(7811887);
    end if;
    return null;
end $$;
create trigger await_names after insert on transfer for each statement execute function await_names();
create trigger await_names after insert on refund for each statement execute function await_names();
create trigger await_naming after update of network_id on transfer
    for each row when (new.network_id is distinct from old.network_id) execute function await_names();
create trigger await_naming after update of network_id on refund
    for each row when (new.network_id is distinct from old.network_id) execute function await_names();

comment on column charge.payer_name is 'The name of the debtor whom the charge names; null where it names none. Anybody may pay.';
comment on column charge.payer_tax_id is 'The CPF or CNPJ of that debtor.';
comment on column holder.may_withdraw is 'Whether money may go out, by transfers or refunds.';
