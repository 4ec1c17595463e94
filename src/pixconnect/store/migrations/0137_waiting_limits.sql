-- A raise of a holder's limits waits, and the night of a holder may begin at the later hour.

alter table holder add column night_begins_late boolean not null default false;
grant update (night_begins_late) on holder to pixconnect_operator;

create table waiting_limits (
    holder_id bigint primary key references holder,
    transfer_limit_cents bigint check (transfer_limit_cents >= 0),
    day_limit_cents bigint check (day_limit_cents >= 0),
    night_limit_cents bigint check (night_limit_cents >= 0),
    night_begins_late boolean not null,
    wanted_by text not null check (length(wanted_by) between 1 and 255),
    wanted_at timestamptz not null check (isfinite(wanted_at)),
    acts_at timestamptz not null check (isfinite(acts_at)),
    constraint higher_limits_wait check (acts_at > wanted_at)
);
grant select on waiting_limits to pixconnect_service;
grant insert, delete on waiting_limits to pixconnect_operator;
create trigger waiting_limits_are_replaced_whole before update on waiting_limits for each statement execute function refuse_change();

-- The service may change no limit, except to what an operator has wanted for long enough: here, with a row of the audit.
create function act_on_waiting_limits() returns integer
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    due waiting_limits;
    was holder;
    is_now holder;
    acted_count integer := 0;
begin
    for due in select * from waiting_limits where acts_at <= clock_timestamp() order by holder_id limit 100 loop
        -- First the holder, as an operator does: what waited may be gone once it is locked.
        select * into was from holder where id = due.holder_id for no key update;
        delete from waiting_limits where holder_id = due.holder_id and acts_at <= clock_timestamp() returning * into due;
        continue when not found;
        update holder set transfer_limit_cents = due.transfer_limit_cents, day_limit_cents = due.day_limit_cents,
            night_limit_cents = due.night_limit_cents, night_begins_late = due.night_begins_late
            where id = due.holder_id returning * into is_now;
        insert into audit (operator, verb, subject, before, after)
            values (due.wanted_by, 'holder set', 'holder ' || due.holder_id, to_jsonb(was), to_jsonb(is_now));
        acted_count := acted_count + 1;
    end loop;
    return acted_count;
end $$;
revoke execute on function act_on_waiting_limits() from public;
grant execute on function act_on_waiting_limits() to pixconnect_service;

drop function read_held(bigint[]);
create function read_held(wanted bigint[])
returns table (
    holder_id bigint, available_cents bigint, reserved_cents bigint, deficit_cents bigint, last_number bigint,
    last_entry_at timestamptz, modified_at timestamptz, may_deposit boolean, may_withdraw boolean, may_lend boolean, transfer_limit_cents bigint,
    day_limit_cents bigint, night_limit_cents bigint, has_key_webhooks boolean, offset_us bigint, revision bigint,
    approve_above_cents bigint, approve_new_payees boolean, night_begins_late boolean
)
language plpgsql volatile set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
    return query
        select balance.holder_id, balance.available_cents, balance.reserved_cents, balance.deficit_cents, balance.last_number,
            balance.last_entry_at, balance.modified_at, holder.may_deposit, holder.may_withdraw, holder.may_lend, holder.transfer_limit_cents,
            holder.day_limit_cents, holder.night_limit_cents,
            exists (select from key_webhook where key_webhook.holder_id = held.id), clock.offset_us, clock.revision,
            holder.approve_above_cents, holder.approve_new_payees, holder.night_begins_late
        from unnest(wanted) as held (id)
        join balance on balance.holder_id = held.id
        join holder on holder.id = held.id
        cross join clock;
end $$;
revoke execute on function read_held(bigint[]) from public;
grant execute on function read_held(bigint[]) to pixconnect_service;

comment on column holder.night_begins_late is 'Whether its night, of which the night limit speaks, begins at the later of the two hours that a holder may choose.';
comment on table waiting_limits is
    'Higher limits that operators want for holders: each acts once it has waited, or once a second operator confirms it, and is gone then.';
comment on column waiting_limits.holder_id is 'Whose limits.';
comment on column waiting_limits.transfer_limit_cents is 'What one outgoing transfer may then be at most; null is no limit.';
comment on column waiting_limits.day_limit_cents is 'The sum of a day then; null is no limit.';
comment on column waiting_limits.night_limit_cents is 'The sum of a night then; null is no limit.';
comment on column waiting_limits.night_begins_late is 'Whether its night then begins at the later hour.';
comment on column waiting_limits.wanted_by is 'The operator, as the audit names them.';
comment on column waiting_limits.wanted_at is 'When they wanted it, in real time.';
comment on column waiting_limits.acts_at is 'From when on it acts without a second operator.';
