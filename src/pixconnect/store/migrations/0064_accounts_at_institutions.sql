-- Accounts at institutions: live mode moves real money over them. Each is fixed into what happens on it; null is the rail of
-- the whole installation (the sandbox's), whose rows are as they were and cost what they did.

create table institution_account (
    id smallint primary key check (id >= 1),
    name text collate "C" not null unique check (name ~ '^[a-z][a-z0-9-]{0,39}$'),
    kind text not null check (kind in ('efi', 'inter', 'woovi', 'sicoob', 'standard')),
    profile text not null check (length(profile) between 1 and 40),
    environment text not null check (environment in ('production', 'homologation', 'counterpart')),
    state text not null check (state in ('active', 'paused', 'closed')),
    tax_id text not null check (length(tax_id) in (11, 14)),
    base_url text not null check (length(base_url) between 1 and 255),
    token_url text not null check (length(token_url) <= 255),
    authorities text not null check (length(authorities) <= 65536),
    account text not null check (length(account) <= 40),
    keys text[] not null check (cardinality(keys) <= 100),
    poll_s integer not null check (poll_s between 1 and 3600),
    options jsonb not null,
    house_id bigint not null,
    receiving_sealed bytea not null,
    sending_sealed bytea,
    opened_at timestamptz not null check (isfinite(opened_at)),
    opening_cents bigint not null check (opening_cents between 0 and 999999999999),
    revision bigint not null default 1,
    created_at timestamptz not null check (isfinite(created_at))
);
grant select on institution_account to pixconnect_service;
grant insert, delete, update (
    state, base_url, token_url, authorities, keys, poll_s, options, receiving_sealed, sending_sealed, revision
) on institution_account to pixconnect_operator;

-- The environment of an installation is that of its first account, and stays.
alter table installation add column environment text check (environment in ('production', 'homologation', 'counterpart'));
grant update (environment) on installation to pixconnect_operator;
create trigger environment_is_kept before update of environment on installation
    for each row when (old.environment is not null and old.environment is distinct from new.environment)
    execute function refuse_other_mode();

create function check_institution_account() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if not exists (
        select from installation where mode = 'live' and environment = new.environment
    ) then
        raise exception 'account % is of the environment %, and this installation is not', new.name, new.environment
            using errcode = 'integrity_constraint_violation', constraint = 'an_installation_is_of_one_environment';
    end if;
    -- No holder is ever deleted; a reference would make a circle of the two tables.
    if not exists (select from holder where id = new.house_id) then
        raise exception 'account % has the house %, and there is no such holder', new.name, new.house_id
            using errcode = 'integrity_constraint_violation', constraint = 'the_house_is_a_holder';
    end if;
    return new;
end $$;
create trigger check_new before insert on institution_account for each row execute function check_institution_account();

-- Which account a holder's money lies on. What is made from then on is of it, and the row says so for ever.
alter table holder add column institution_id smallint;
alter table holder add constraint holder_lies_on_an_account
    foreign key (institution_id) references institution_account not valid;
grant update (institution_id) on holder to pixconnect_operator;
alter table charge add column institution_id smallint;
alter table charge add column asked_cents bigint;
grant update (asked_cents) on charge to pixconnect_service;
alter table transfer add column institution_id smallint;

-- The holder's row is locked, so that it changes its account before or after this, and not meanwhile.
create function check_institution_of_row() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    perform from holder where id = new.holder_id and institution_id = new.institution_id for key share;
    if not found then
        raise exception '% % of holder % is of the account %, on which the holder is not',
            tg_table_name, new.id, new.holder_id, new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'what_happens_on_an_account_is_of_its_holders';
    end if;
    return null;
end $$;
create trigger check_institution after insert on charge for each row
    when (new.institution_id is not null) execute function check_institution_of_row();
create trigger check_institution after insert on transfer for each row
    when (new.institution_id is not null) execute function check_institution_of_row();

-- At an institution a payment under a charge's txid pays it, whenever it came and whatever its amount.
insert into allowed_transition (kind, direction, is_book, before, after) values
    ('charge_there', 'IN', false, 'PENDING', 'APPROVED'),
    ('charge_there', 'IN', false, 'PENDING', 'EXPIRED'),
    ('charge_there', 'IN', false, 'APPROVED', 'RETURNED'),
    ('charge_there', 'IN', false, 'EXPIRED', 'PENDING'),
    ('charge_there', 'IN', false, 'PENDING', 'REMOVED_BY_RECEIVER'),
    ('charge_there', 'IN', false, 'EXPIRED', 'REMOVED_BY_RECEIVER'),
    ('charge_there', 'IN', false, 'PENDING', 'REMOVED_BY_PSP'),
    ('charge_there', 'IN', false, 'EXPIRED', 'REMOVED_BY_PSP'),
    ('charge_there', 'IN', false, 'EXPIRED', 'APPROVED'),
    ('charge_there', 'IN', false, 'REMOVED_BY_RECEIVER', 'APPROVED'),
    ('charge_there', 'IN', false, 'REMOVED_BY_PSP', 'APPROVED');

create or replace function check_charges() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    misfit record;
begin
    if tg_op = 'INSERT' then
        select way.* into misfit from (
            select max(id) as id, max(holder_id) as holder_id, 'NEW' as before, status as after from new_row group by status
        ) as way
        where not exists (
            select from allowed_transition as allowed
            where allowed.kind = 'charge' and allowed.direction = 'IN' and not allowed.is_book
                and allowed.before = 'NEW' and allowed.after = way.after
        )
        limit 1;
    else
        select moved.* into misfit from (
            select id, holder_id, max(before) as before, max(after) as after, max(amount_cents) as amount_cents,
                max(kind) as kind
            from (
                select id, holder_id, status as before, null as after, null::bigint as amount_cents, null as kind from old_row
                union all
                select id, holder_id, null, status, amount_cents,
                    case when institution_id is null then 'charge' else 'charge_there' end
                from new_row
            ) as side
            group by id, holder_id having max(before) is distinct from max(after)
        ) as moved
        where not exists (
            select from allowed_transition as allowed
            where allowed.kind = moved.kind and allowed.direction = 'IN' and not allowed.is_book
                and allowed.before = moved.before and allowed.after = moved.after
        ) or moved.after in ('APPROVED', 'RETURNED') and not exists (
            select from transfer where transfer.charge_id = moved.id and transfer.holder_id = moved.holder_id
                and transfer.settled_at is not null and transfer.amount_cents = moved.amount_cents
                and (transfer.status = 'RETURNED') = (moved.after = 'RETURNED')
        )
        limit 1;
    end if;
    if found then
        raise exception 'charge % of holder % cannot go from % to %', misfit.id, misfit.holder_id, misfit.before, misfit.after
            using errcode = 'integrity_constraint_violation', constraint = 'a_charge_has_its_payment';
    end if;
    return null;
end $$;

create or replace function check_charge_amount() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if old.status not in ('PENDING', 'EXPIRED')
            and (old.institution_id is null or new.status <> 'APPROVED' or old.status = 'APPROVED')
        or old.held_by is not null and new.status <> 'APPROVED'
    then
        raise exception 'charge % of holder % is % and keeps its amount', new.id, new.holder_id, old.status
            using errcode = 'integrity_constraint_violation', constraint = 'a_paid_charge_keeps_its_amount';
    end if;
    return null;
end $$;

-- A charge that is being opened at an institution: durable before it is asked for, and nobody's to see before it has its code.
create table charge_opening (
    charge_id bigint not null,
    holder_id bigint not null references holder,
    institution_id smallint not null references institution_account,
    external_id text collate "C" not null check (length(external_id) between 1 and 255),
    txid text collate "C" not null check (length(txid) between 26 and 35),
    state text not null check (state in ('opening', 'opened', 'refused', 'given_up')),
    wanted text not null check (length(wanted) <= 65536),
    fingerprint bytea not null,
    refusal_code text,
    refusal_reason text check (length(refusal_reason) <= 1000),
    calls_count integer not null default 0,
    due_at timestamptz not null check (isfinite(due_at)),
    created_at timestamptz not null check (isfinite(created_at)),
    primary key (charge_id, holder_id),
    constraint refused_with_a_code check ((state = 'refused') = (refusal_code is not null))
);
-- One name, one charge: over all holders of an account, since the institution knows only the account.
create unique index charge_opening_txid on charge_opening (institution_id, txid) where state in ('opening', 'opened');
create unique index charge_opening_name on charge_opening (external_id, holder_id) where state in ('opening', 'opened');
create index charge_opening_due on charge_opening (due_at) where state = 'opening';
grant select, insert, update (state, refusal_code, refusal_reason, calls_count, due_at) on charge_opening to pixconnect_service;

create function keep_opening_ended() returns trigger language plpgsql as $$
begin
    raise exception 'the opening of charge % is % and stays so', old.txid, old.state
        using errcode = 'integrity_constraint_violation', constraint = 'an_opening_that_ended_stays_ended';
end $$;
create trigger keep_opening_ended before update on charge_opening
    for each row when (old.state <> 'opening') execute function keep_opening_ended();

-- How far the lists of an account were read, by each of the three paces.
create table institution_sweep (
    institution_id smallint not null references institution_account on delete cascade,
    pace text not null check (pace in ('near', 'wide', 'deep', 'statement')),
    read_until timestamptz not null check (isfinite(read_until)),
    began_at timestamptz not null check (isfinite(began_at)),
    ended_at timestamptz not null check (isfinite(ended_at)),
    items_count bigint not null,
    failed_at timestamptz check (isfinite(failed_at)),
    failure text check (length(failure) <= 300),
    primary key (institution_id, pace)
);
grant select, insert, update on institution_sweep to pixconnect_service;


comment on table institution_account is 'Accounts at institutions, over which live mode moves money.';
comment on column institution_account.id is 'Fixed into all that happens on it.';
comment on column institution_account.name is 'The operator''s name for it.';
comment on column institution_account.kind is 'Which program speaks to it.';
comment on column institution_account.profile is 'The institution''s traits, by name.';
comment on column institution_account.environment is 'The institutions'' own, that of their tests, or any other counterpart.';
comment on column institution_account.state is 'Active; paused: nothing is asked there; closed for good.';
comment on column institution_account.tax_id is 'The CPF or CNPJ of its owner.';
comment on column institution_account.base_url is 'Where its API is: scheme, host and port.';
comment on column institution_account.token_url is 'Where its tokens are issued; empty is the profile''s path below base_url.';
comment on column institution_account.authorities is 'PEM of who signs its certificate; empty trusts the system''s.';
comment on column institution_account.account is 'Its number there, where requests must say it.';
comment on column institution_account.keys is 'Its Pix keys, as the operator has named them.';
comment on column institution_account.poll_s is 'How often its newest payments are read, in seconds.';
comment on column institution_account.options is 'What else the operator has set for its kind.';
comment on column institution_account.house_id is 'The holder to whom belongs what belongs to nobody else there.';
comment on column institution_account.receiving_sealed is 'The credential that reads and receives, sealed.';
comment on column institution_account.sending_sealed is
    'The credential that sends, sealed under a key that only workers have; null is none.';
comment on column institution_account.opened_at is 'Where its books begin: nothing that happened before is read.';
comment on column institution_account.opening_cents is 'What was on it at that instant, in cents.';
comment on column institution_account.revision is 'Counts its changes: processes that know an older one read it again.';
comment on column institution_account.created_at is 'When it was added, in real time.';
comment on column installation.environment is 'That of all its accounts at institutions; null before the first one.';
comment on column holder.institution_id is
    'The account at an institution that its money lies on; null is the installation''s own rail.';
comment on column charge.institution_id is 'The account at which it was opened; null is the installation''s own rail.';
comment on column charge.asked_cents is 'What it asked for, where another amount has paid it.';
comment on column transfer.institution_id is
    'The account on which it happened; null is the installation''s own rail, or by book.';
comment on table charge_opening is
    'Charges that are being opened, or were, at institutions; nobody sees one before it has its code.';
comment on column charge_opening.charge_id is 'The charge''s id, once it is open.';
comment on column charge_opening.holder_id is 'The holder who wants to be paid.';
comment on column charge_opening.institution_id is 'The account at which it is opened.';
comment on column charge_opening.external_id is 'The client''s own name for it.';
comment on column charge_opening.txid is 'Ours, under which it is opened.';
comment on column charge_opening.state is
    'Opening until the institution''s answer is known; then opened, refused, or given up.';
comment on column charge_opening.wanted is 'What is to be opened, as JSON.';
comment on column charge_opening.fingerprint is 'A hash of the request, which tells a replay from a conflict.';
comment on column charge_opening.refusal_code is 'Of the institution, where it was certainly refused.';
comment on column charge_opening.refusal_reason is 'In the institution''s words.';
comment on column charge_opening.calls_count is 'How often the institution was asked to open it.';
comment on column charge_opening.due_at is 'When a worker asks next, in real time.';
comment on column charge_opening.created_at is 'When it was asked for, in real time.';
comment on table institution_sweep is 'How far the lists of an account were read, by each pace.';
comment on column institution_sweep.institution_id is 'The account.';
comment on column institution_sweep.pace is
    'Near: since a moment ago; wide: three days; deep: a hundred days, for returns; statement: its own.';
comment on column institution_sweep.read_until is
    'All that happened there before this instant is recorded, but for the institution''s lag.';
comment on column institution_sweep.began_at is 'When the last whole sweep began, in real time.';
comment on column institution_sweep.ended_at is 'When it ended, all its items recorded or kept.';
comment on column institution_sweep.items_count is 'How many it found.';
comment on column institution_sweep.failed_at is 'When a sweep failed last, in real time; null once one has succeeded since.';
comment on column institution_sweep.failure is 'Why.';
comment on column allowed_transition.kind is
    'What changes: charge (charge_there, if it was opened at an institution), transfer, refund or movement.';
