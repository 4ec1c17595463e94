-- How accounts at institutions are paused by a loss, closed by two operators, and removed.

alter table institution_account add column paused_because text check (length(paused_because) between 1 and 1000);
alter table institution_account add column removed_at timestamptz check (isfinite(removed_at));
alter table institution_account add constraint only_what_is_paused_says_why check (paused_because is null or state = 'paused');
-- What rows name stays for them; its name is free again.
alter table institution_account drop constraint institution_account_name_key;
create unique index institution_account_name on institution_account (name) where removed_at is null;
grant update (paused_because, removed_at) on institution_account to pixconnect_operator;
comment on column institution_account.paused_because is
    'What the database has forgotten, where that has paused it; null where an operator did, and of one that is not paused.';
comment on column institution_account.removed_at is
    'When an operator has removed it, in real time; the row stays, without credentials, for what names it.';

-- A loss that is seen pauses every account in the transaction that notes it, whichever program notes it: the books may lack
-- what has happened there since, and another server may be working on the same accounts.
alter table database_loss add column accounts_count bigint not null default 0;
comment on column database_loss.accounts_count is 'Accounts at institutions that were paused by it.';

create function pause_accounts() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    with paused as (
        update institution_account set state = 'paused', revision = revision + 1, paused_because = left(new.reason, 1000)
        where state <> 'closed' and removed_at is null returning id
    )
    select count(*) into new.accounts_count from paused;
    return new;
end $$;
create trigger pause_accounts before insert on database_loss for each row execute function pause_accounts();

-- A closed account is closed for good, and empty.
create function check_closed_account() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if old.state = 'closed' then
        raise exception 'account % is closed for good', old.name
            using errcode = 'integrity_constraint_violation', constraint = 'what_is_closed_stays_closed';
    end if;
    if exists (
        select from holder join balance on balance.holder_id = holder.id
        where holder.institution_id = new.id
            and (available_cents <> 0 or reserved_cents <> 0 or deficit_cents <> 0 or settlement_cents <> 0)
    ) or exists (select from charge_opening where institution_id = new.id and state = 'opening') then
        raise exception 'account % has money, or charges that are being opened', new.name
            using errcode = 'integrity_constraint_violation', constraint = 'a_closed_account_is_empty';
    end if;
    return new;
end $$;
create trigger check_closed before update of state on institution_account
    for each row when (old.state <> new.state and 'closed' in (old.state, new.state)) execute function check_closed_account();

create table institution_proposal (
    id bigint generated always as identity primary key,
    institution_id smallint not null references institution_account,
    act text collate "C" not null check (length(act) between 1 and 40),
    proposal jsonb not null,
    proposed_by text not null check (length(proposed_by) between 1 and 255),
    proposed_at timestamptz not null check (isfinite(proposed_at)),
    confirmable_at timestamptz not null check (isfinite(confirmable_at)),
    confirmed_by text check (length(confirmed_by) between 1 and 255),
    confirmed_at timestamptz check (isfinite(confirmed_at)),
    constraint confirmed_by_somebody check ((confirmed_by is null) = (confirmed_at is null)),
    constraint confirmed_by_another check (confirmed_by <> proposed_by),
    constraint confirmed_in_time check (confirmed_at >= confirmable_at)
);
create unique index institution_proposal_waits on institution_proposal (institution_id, act) where confirmed_at is null;
grant select on institution_proposal to pixconnect_service;
grant insert, delete, update (confirmed_by, confirmed_at) on institution_proposal to pixconnect_operator;
comment on table institution_proposal is 'What one operator wants done with an account, and another must confirm.';
comment on column institution_proposal.id is 'Counts up.';
comment on column institution_proposal.institution_id is 'The account.';
comment on column institution_proposal.act is 'What is to be done; of each kind at most one waits on an account.';
comment on column institution_proposal.proposal is 'What belongs to it, as JSON.';
comment on column institution_proposal.proposed_by is 'The operator who wants it.';
comment on column institution_proposal.proposed_at is 'When, in real time.';
comment on column institution_proposal.confirmable_at is 'From when on it may be confirmed, in real time.';
comment on column institution_proposal.confirmed_by is 'The other operator; null while it waits.';
comment on column institution_proposal.confirmed_at is 'When it was confirmed, in real time; null while it waits.';
