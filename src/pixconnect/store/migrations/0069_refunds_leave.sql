-- Refunds leave over accounts at institutions: each account moves its own orders, what is asked there is remembered before it
-- is asked, and what may leave in a day is held here.

-- Null is the installation's own rail, whose orders are as they were.
alter table open_order add column institution_id smallint;

-- One row for each account, as long as there is one.
create table institution_allowance (
    institution_id smallint primary key references institution_account on delete cascade,
    naming_key bytea not null default sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())),
    refunds_day_cents bigint not null default 0 check (refunds_day_cents between 0 and 999999999999),
    allowed_by text check (length(allowed_by) between 1 and 255)
);
grant select on institution_allowance to pixconnect_service;
grant update (refunds_day_cents, allowed_by) on institution_allowance to pixconnect_operator;

create function add_allowance() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    insert into institution_allowance (institution_id) values (new.id) on conflict do nothing;
    return null;
end $$;
create trigger add_allowance after insert on institution_account for each row execute function add_allowance();

-- A raise was proposed by one person an hour ago, and another confirms it in the transaction that writes it; among counterparts
-- nothing can be lost.
create function check_allowance() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if not exists (
            select from institution_account where id = new.institution_id and environment = 'counterpart'
        ) and not exists (
            select from institution_proposal as confirmed
            where confirmed.institution_id = new.institution_id and act = 'allow' and confirmed_by = new.allowed_by
                and confirmed.xmin = pg_current_xact_id()::xid and confirmable_at >= proposed_at + interval '1 hour'
                and (proposal ->> 'refunds_day_cents')::bigint >= new.refunds_day_cents
        )
    then
        raise exception 'what may leave over account % is not raised by one person, nor at once', new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_raise_is_confirmed_by_another';
    end if;
    return new;
end $$;
create trigger check_allowance before update of refunds_day_cents on institution_allowance for each row
    when (new.refunds_day_cents > old.refunds_day_cents) execute function check_allowance();

-- What was accepted counts, whatever becomes of it.
create table refund_day (
    institution_id smallint not null references institution_account on delete cascade,
    day date not null,
    cents bigint not null check (cents >= 0),
    primary key (institution_id, day)
);
grant select on refund_day to pixconnect_service;

-- What may still be accepted there on a day, held until the transaction ends.
create function hold_refund_days(account_ids smallint[], on_day date)
returns table (institution_id smallint, left_cents bigint)
language plpgsql security definer set search_path = {schema}, pg_temp as $$
#variable_conflict use_column
begin
    insert into refund_day (institution_id, day, cents)
        select account_id, on_day, 0 from unnest(account_ids) as account_id order by account_id
        on conflict do nothing;
    return query
        select counted.institution_id, greatest(refunds_day_cents - counted.cents, 0)
        from refund_day as counted join institution_allowance using (institution_id)
        where counted.institution_id = any(account_ids) and counted.day = on_day
        order by counted.institution_id for update of counted;
end $$;
grant execute on function hold_refund_days(smallint[], date) to pixconnect_service;

create function count_refund() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    refunded_cents bigint;
    counted_cents bigint;
begin
    select refund.amount_cents into refunded_cents
    from refund join transfer on transfer.id = refund.transfer_id and transfer.holder_id = refund.holder_id
    where refund.id = new.resource_id and refund.holder_id = new.holder_id and refund.return_id = new.name
        and transfer.institution_id = new.institution_id;
    if not found then
        raise exception 'the order % is of the account %, and no refund of a Pix there is', new.name, new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'only_refunds_leave';
    end if;
    insert into refund_day as counted (institution_id, day, cents)
        values (new.institution_id, (new.ordered_at at time zone 'America/Sao_Paulo')::date, refunded_cents)
        on conflict (institution_id, day) do update set cents = counted.cents + excluded.cents
        returning counted.cents into counted_cents;
    if counted_cents > (
        select refunds_day_cents from institution_allowance where institution_id = new.institution_id
    ) then
        raise exception 'refunds over account % are above what is allowed for a day', new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'refunds_stay_within_their_day';
    end if;
    return null;
end $$;
create trigger count_refund after insert on open_order for each row
    when (new.institution_id is not null) execute function count_refund();

-- What we ask of an institution under an order of ours: written before each call, so that none is made twice unknowingly.
create table rail_step (
    order_name text collate "C" primary key check (length(order_name) = 32),
    institution_id smallint not null references institution_account,
    kind text not null check (kind in ('refund', 'order')),
    holder_id bigint not null references holder,
    original_end_to_end_id text collate "C" check (length(original_end_to_end_id) = 32),
    amount_cents bigint not null check (amount_cents between 1 and 999999999999),
    name_there text collate "C" check (name_there ~ '^[a-zA-Z0-9]{1,35}$'),
    state text not null check (state in ('new', 'minted', 'calling', 'asked', 'closed')),
    may_be_done boolean not null default false,
    called_at timestamptz check (isfinite(called_at)),
    outcome text check (outcome in ('answered', 'refused', 'never')),
    refusal_code text check (length(refusal_code) between 1 and 35),
    refusal_reason text check (length(refusal_reason) <= 1000),
    created_at timestamptz not null check (isfinite(created_at)),
    constraint a_refund_has_its_original check ((kind = 'refund') = (original_end_to_end_id is not null)),
    constraint it_is_called_by_its_name check (name_there is not null or state in ('new', 'closed')),
    constraint its_first_call_is_dated check (state not in ('calling', 'asked') or called_at is not null),
    constraint what_is_asked_may_be_done check (state <> 'asked' or may_be_done),
    constraint what_is_closed_has_an_outcome check ((state = 'closed') = (outcome is not null)),
    constraint what_may_be_done_was_taken check (outcome <> 'never' or not may_be_done),
    constraint a_refusal_has_a_code check ((outcome is not distinct from 'refused') = (refusal_code is not null))
);
create unique index rail_step_name_there on rail_step (institution_id, name_there, kind);
grant select, insert, update (
    name_there, state, may_be_done, called_at, outcome, refusal_code, refusal_reason
) on rail_step to pixconnect_service;

create function check_rail_step() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if tg_op = 'INSERT' then
        if new.state not in ('new', 'minted') or new.may_be_done or new.called_at is not null or not exists (
            select from open_order
            where name = new.order_name and holder_id = new.holder_id and institution_id = new.institution_id
        ) then
            raise exception 'the step of % begins before any call, with its order open at the account', new.order_name
                using errcode = 'integrity_constraint_violation', constraint = 'a_step_begins_with_its_order';
        end if;
        return new;
    end if;
    if (old.state, new.state) not in (
            ('new', 'minted'), ('new', 'closed'), ('minted', 'calling'), ('minted', 'closed'), ('calling', 'asked'),
            ('calling', 'closed'), ('asked', 'calling'), ('asked', 'closed')
        ) and ((old.state, new.state) <> ('calling', 'minted') or old.may_be_done)
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
create trigger check_step before insert or update on rail_step for each row execute function check_rail_step();

comment on column open_order.institution_id is
    'The account at an institution over which it goes; null is the installation''s own rail.';
comment on table institution_allowance is 'What may leave over each account at an institution, and by which key it is named there.';
comment on column institution_allowance.institution_id is 'The account.';
comment on column institution_allowance.naming_key is
    'By which names of ours there are made: a restored database makes the same ones.';
comment on column institution_allowance.refunds_day_cents is
    'What may be returned in a day of Sao Paulo, in cents; 0 is nothing.';
comment on column institution_allowance.allowed_by is 'The operator who set it last.';
comment on table refund_day is 'What was accepted to be returned over each account in a day of Sao Paulo.';
comment on column refund_day.institution_id is 'The account.';
comment on column refund_day.day is 'The day, in service time.';
comment on column refund_day.cents is 'The sum, in cents, whatever became of it.';
comment on table rail_step is 'What is asked of institutions under orders of ours: a row each, written before each call.';
comment on column rail_step.order_name is 'The order''s return_id or end_to_end_id.';
comment on column rail_step.institution_id is 'The account at which it is asked for.';
comment on column rail_step.kind is 'A refund of a received Pix, or an order to send one.';
comment on column rail_step.holder_id is 'The holder from whom the money goes.';
comment on column rail_step.original_end_to_end_id is 'The received Pix, of a refund.';
comment on column rail_step.amount_cents is 'What is asked for, in cents.';
comment on column rail_step.name_there is 'What the institution knows it by; null before that is known.';
comment on column rail_step.state is
    'New: without a name there; minted: named, and not asked for; calling: a call is under way or was cut off; asked: it may '
    'be done, and is asked about; closed: no call is made any more.';
comment on column rail_step.may_be_done is 'Whether a call of it may have taken effect.';
comment on column rail_step.called_at is 'When it was first called, in real time.';
comment on column rail_step.outcome is
    'Answered: the institution has it; refused for certain; never: no call was made, and none will be.';
comment on column rail_step.refusal_code is 'Of a certain refusal, as callers see it.';
comment on column rail_step.refusal_reason is 'In the institution''s words.';
comment on column rail_step.created_at is 'In real time.';
