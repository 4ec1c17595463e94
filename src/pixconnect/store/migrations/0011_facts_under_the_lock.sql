-- What a write group judges by is read when it holds its locks, and dated by this server's clock.

-- Counts moves of the sandbox clock: who has heard of one takes over no offset that was read before it.
alter table clock add column revision bigint not null default 0;

-- What a group is judged by beside the balance. In a volatile function a query has a snapshot of its own: called for a balance
-- that is locked, it reads what holds after the wait, and not what held when the statement began. One holder a call, because
-- the plan for one value is kept, and one for many would be made anew each time.
create function read_facts(
    wanted bigint, out may_deposit boolean, out may_withdraw boolean, out may_lend boolean, out transfer_limit_cents bigint,
    out day_limit_cents bigint, out night_limit_cents bigint, out offset_us bigint, out revision bigint
)
language plpgsql volatile as $$
#variable_conflict use_column
begin
    select holder.may_deposit, holder.may_withdraw, holder.may_lend, holder.transfer_limit_cents, holder.day_limit_cents,
        holder.night_limit_cents, clock.offset_us, clock.revision
    into may_deposit, may_withdraw, may_lend, transfer_limit_cents, day_limit_cents, night_limit_cents, offset_us, revision
    from holder, clock where holder.id = wanted;
end $$;
grant execute on function read_facts(bigint) to pixconnect_service;
