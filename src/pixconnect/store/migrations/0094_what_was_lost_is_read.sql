-- After a loss of the database an account is read, and nothing leaves it, until an operator says that what was forgotten is in the
-- books again. One that an operator had paused is read too, and stays paused then.

alter table institution_account add column lost_at timestamptz check (isfinite(lost_at));
alter table database_loss add column known_until timestamptz check (isfinite(known_until));
grant update (lost_at) on institution_account to pixconnect_operator;

update institution_account set lost_at = clock_timestamp(), revision = revision + 1
where paused_because is not null and removed_at is null;
alter table institution_account add constraint nothing_is_active_after_a_loss check (lost_at is null or state = 'paused');

create or replace function pause_accounts() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    -- Ids were noted by the minute while a worker ran, so that everything of before the last note is there.
    select max(noted_at) into new.known_until from id_high_water;
    with paused as (
        update institution_account set state = 'paused', revision = revision + 1, lost_at = clock_timestamp(),
            paused_because = case when state = 'active' or paused_because is not null then left(new.reason, 1000) end
        where state <> 'closed' and removed_at is null returning id
    )
    select count(*) into new.accounts_count from paused;
    return new;
end $$;

-- Whoever has opened the account before the loss calls nobody: who did not change the row does not call.
create function hold_after_a_loss() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if exists (select from institution_account where id = new.institution_id and lost_at is not null) then
        return null;
    end if;
    return new;
end $$;
create trigger hold_after_a_loss before update of state on rail_step
    for each row when (new.state = 'calling' and old.state <> 'calling' and not new.only_asked) execute function hold_after_a_loss();

comment on column institution_account.lost_at is
    'When the database was seen to have forgotten something, in real time, until an operator has said that it is in the books again: the account is read, and nothing leaves it.';
comment on column database_loss.known_until is
    'The last instant at which ids were noted before it: what happened later may be forgotten.';
