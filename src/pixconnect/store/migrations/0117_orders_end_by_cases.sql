-- An order over an account at an institution of which nobody there can say how it ended becomes a case, and ends by what two
-- operators say by evidence: at institutions alone, once no call of it can be made or take effect.

alter table kept_case drop constraint kept_case_kind_check;
alter table kept_case add constraint kept_case_kind_check
    check (kind in ('report', 'day', 'line_there', 'line_here', 'rail', 'order')) not valid;
alter table kept_case drop constraint kept_case_ended_as_check;
alter table kept_case add constraint kept_case_ended_as_check
    check (ended_as in ('recorded', 'adjusted', 'closed', 'decided')) not valid;
alter table kept_case drop constraint closing_a_case_says_who_and_why;
alter table kept_case add constraint closing_a_case_says_who_and_why check (
    (ended_by is null) = (end_reason is null) and (ended_by is not null) = (ended_as in ('adjusted', 'closed', 'decided'))
) not valid;
alter table kept_case drop constraint only_days_and_lines_lie_at_an_account;
alter table kept_case add constraint only_days_and_lines_lie_at_an_account check (
    (institution_id is not null) = (kind in ('day', 'line_there', 'line_here', 'order'))
) not valid;
alter table rail_step drop constraint rail_step_outcome_check;
alter table rail_step add constraint rail_step_outcome_check
    check (outcome in ('answered', 'refused', 'never', 'decided')) not valid;

create table case_ending (
    order_name text collate "C" primary key check (length(order_name) = 32),
    kind text not null check (kind in ('refund', 'order')),
    institution_id smallint not null references institution_account,
    holder_id bigint not null references holder,
    resource_id bigint not null,
    amount_cents bigint not null check (amount_cents between 1 and 999999999999),
    called_at timestamptz not null check (isfinite(called_at)),
    case_id bigint not null references kept_case,
    said text not null check (said in ('settled', 'never')),
    evidence_name text not null check (length(evidence_name) between 1 and 255),
    evidence_size integer not null check (evidence_size between 1 and 1048576),
    evidence_digest text collate "C" not null check (evidence_digest ~ '^[0-9a-f]{64}$'),
    proposed_by text not null check (length(proposed_by) between 1 and 255),
    confirmed_by text not null check (length(confirmed_by) between 1 and 255),
    ended_at timestamptz not null check (isfinite(ended_at)),
    contrary_item_id text collate "C" check (length(contrary_item_id) between 1 and 255),
    constraint a_case_ends_one_order unique (case_id),
    constraint a_line_is_contrary_to_one_ending unique (institution_id, contrary_item_id),
    constraint only_what_never_left_has_a_contrary_line check (contrary_item_id is null or said = 'never'),
    constraint no_order_ends_while_it_may_be_called check (ended_at >= called_at + interval '12 hours'),
    constraint ended_by_two check (
        regexp_replace(confirmed_by, '^console ', '') <> regexp_replace(proposed_by, '^console ', '')
    )
);
create index case_ending_never on case_ending (institution_id, amount_cents) where said = 'never';
grant select, update (contrary_item_id) on case_ending to pixconnect_service;
grant insert on case_ending to pixconnect_operator;

-- In the transaction in which another operator confirms the very same.
create function check_case_ending() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if tg_op = 'UPDATE' then
        if old.contrary_item_id is not null or (to_jsonb(new) - 'contrary_item_id') <> (to_jsonb(old) - 'contrary_item_id') then
            raise exception 'what two operators have said of % stays', old.order_name
                using errcode = 'integrity_constraint_violation', constraint = 'a_case_ending_stays';
        end if;
        return new;
    end if;
    if not exists (
        select from institution_proposal as confirmed
        where confirmed.institution_id = new.institution_id and act = 'decide' and confirmed_by = new.confirmed_by
            and proposed_by = new.proposed_by and confirmed.xmin = pg_current_xact_id()::xid
            and proposal ->> 'order' = new.order_name and (proposal ->> 'case_id')::bigint = new.case_id
            and proposal ->> 'said' = new.said and proposal ->> 'evidence_sha256' = new.evidence_digest
    ) or not exists (
        select from kept_case
        where id = new.case_id and kept_case.kind = 'order' and name = new.order_name and ended_at is null
            and institution_id = new.institution_id
    ) or not exists (
        select from open_order join rail_step as step on step.order_name = open_order.name
        where name = new.order_name and open_order.institution_id = new.institution_id and step.state <> 'closed'
            and (step.kind, step.holder_id, step.amount_cents, step.called_at)
                = (new.kind, new.holder_id, new.amount_cents, new.called_at)
            and open_order.resource_id = new.resource_id and open_order.holder_id = new.holder_id
    )
    then
        raise exception 'the order % does not end by one person, nor while it may be called', new.order_name
            using errcode = 'integrity_constraint_violation', constraint = 'an_order_ends_by_two_operators';
    end if;
    return new;
end $$;
create trigger check_new before insert or update on case_ending for each row execute function check_case_ending();
create trigger case_ending_is_append_only before delete or truncate on case_ending
    for each statement execute function refuse_change();

create function check_decided_step() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if not exists (select from case_ending where case_ending.order_name = new.order_name) then
        raise exception 'the step of % is closed by a case, and nobody has said how it ended', new.order_name
            using errcode = 'integrity_constraint_violation', constraint = 'a_decided_step_has_its_case';
    end if;
    return new;
end $$;
create trigger check_decided before insert or update on rail_step
    for each row when (new.outcome = 'decided') execute function check_decided_step();

-- In the console operators say how an order ended too; another one confirms it on the command line, as before.
drop trigger console_only_adjusts on institution_proposal;
create trigger console_only_adjusts before insert on institution_proposal for each row
    when (current_user = 'pixconnect_console' and (new.act not in ('adjust', 'decide') or new.confirmed_at is not null))
    execute function refuse_console();
drop trigger console_forgets_only_adjustments on institution_proposal;
create trigger console_forgets_only_adjustments before delete on institution_proposal for each row
    when (current_user = 'pixconnect_console' and (old.act not in ('adjust', 'decide') or old.confirmed_at is not null))
    execute function refuse_console();
create or replace function refuse_console() returns trigger language plpgsql as $$
begin
    raise exception 'the console proposes adjustments and how orders ended, and nothing else of an account'
        using errcode = 'insufficient_privilege';
end $$;

comment on column kept_case.kind is
    'A kept report; a day whose balances and lines disagree; a line there or here that the other has not; what verify found; or an '
    'order of which nobody can say how it ended.';
comment on column kept_case.name is
    'What is different: the report''s id, the day, the line''s id, what verify names, or the order''s name.';
comment on column kept_case.ended_as is
    'Recorded: the missing fact came, and it ended by itself; adjusted: entries stand in for it; closed: by an operator''s word; '
    'decided: two operators said, by evidence, how its order ended.';
comment on column rail_step.outcome is
    'Answered: the institution has it; refused for certain; never: no call was made, and none will be; decided: two operators '
    'said how it ended.';
comment on table case_ending is
    'How orders at institutions ended of which nobody there could say it: by evidence, as two operators have said.';
comment on column case_ending.order_name is 'The order''s end_to_end_id or return_id.';
comment on column case_ending.kind is 'A refund of a received Pix, or an order to send one.';
comment on column case_ending.institution_id is 'The account over which it went.';
comment on column case_ending.holder_id is 'From whom the money went, or did not.';
comment on column case_ending.resource_id is 'The transfer or refund.';
comment on column case_ending.amount_cents is 'How much it is, in cents.';
comment on column case_ending.called_at is 'When it was first called, in real time.';
comment on column case_ending.case_id is 'The case that ended by it.';
comment on column case_ending.said is 'Settled: it reached its payee; never: it never left, and never will.';
comment on column case_ending.evidence_name is 'The name of the file on which both relied; the file stays with them.';
comment on column case_ending.evidence_size is 'Its size, in octets.';
comment on column case_ending.evidence_digest is 'Its SHA-256, in hexadecimal digits.';
comment on column case_ending.proposed_by is 'The operator who wanted it.';
comment on column case_ending.confirmed_by is 'The other operator.';
comment on column case_ending.ended_at is 'When that was, in real time.';
comment on column case_ending.contrary_item_id is
    'The line of the statement that came afterwards and says that it left: posted as a movement of the holder; null where none did.';
