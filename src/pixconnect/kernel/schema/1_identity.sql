-- Accounts at institutions, holders with their keys and clients, the audit and proposals.

grant usage on schema pixconnect to pixconnect_funding;
grant usage on schema pixconnect to pixconnect_service;

create type ledger_account as enum ('available', 'reserved', 'settlement', 'funding', 'deficit', 'difference', 'blocked');
-- The ledger's own causes and states, then those of each feature that moves money: PostgreSQL 16 uses no value in the
-- transaction that adds it, so the baseline cannot add them beside their tables.
create type entry_cause as enum ('deposit', 'transfer', 'refund', 'movement', 'repayment', 'adjustment', 'block_step');
create type cause_state as enum (
    'MADE', 'PROCESSING', 'CONFIRMED', 'RETURNED', 'ERROR', 'CANCELLED',
    'POSTED', 'available', 'settlement', 'covered', 'released', 'held', 'hold_ended', 'taken'
);

create table schema_version (
    version integer not null,
    name text not null,
    checksum text not null,
    applied_at timestamp with time zone default clock_timestamp() not null,
    constraint schema_version_pkey primary key (version)
);
comment on table schema_version is 'The baseline that made these tables, and the migrations that they have had since.';
comment on column schema_version.version is 'The number of the step: a baseline has that of the last migration in it.';
comment on column schema_version.name is 'Its name.';
comment on column schema_version.checksum is
    'The SHA-256 of its text, in hex: a program with another text refuses these tables.';
comment on column schema_version.applied_at is 'When it was applied, in real time.';
grant select on table schema_version to pixconnect_service;

create function add_allowance() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    insert into institution_allowance (institution_id) values (new.id) on conflict do nothing;
    return null;
end $function$;

create function check_closed_account() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if old.state = 'closed' then
        raise exception 'account % is closed for good', old.name
            using errcode = 'integrity_constraint_violation', constraint = 'what_is_closed_stays_closed';
    end if;
    if exists (
        select from holder join whole_balance as balance on balance.holder_id = holder.id
        where holder.institution_id = new.id
            and (available_cents <> 0 or reserved_cents <> 0 or deficit_cents <> 0 or settlement_cents <> 0)
    ) or exists (select from charge_opening where institution_id = new.id and state = 'opening')
        or exists (select from charge where institution_id = new.id and status = 'PENDING') then
        raise exception 'account % has money, or charges that are open or being opened', new.name
            using errcode = 'integrity_constraint_violation', constraint = 'a_closed_account_is_empty';
    end if;
    if not is_agreed('close', new.id, null, null) then
        raise exception 'account % is not closed by one operator', new.name
            using errcode = 'integrity_constraint_violation', constraint = 'an_account_is_closed_by_two_operators';
    end if;
    return new;
end $function$;

create function check_institution_account() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
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
end $function$;

create function check_addresses() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if not is_agreed('rotate', new.id, null, jsonb_build_object(
        'base_url', new.base_url, 'token_url', new.token_url, 'authorities', new.authorities
    )) then
        raise exception 'account % gets other addresses or authorities by two operators only', new.name
            using errcode = 'integrity_constraint_violation', constraint = 'addresses_are_confirmed_by_another';
    end if;
    return new;
end $function$;

create table institution_account (
    id smallint not null,
    name text collate "C" not null,
    kind text not null,
    profile text not null,
    environment text not null,
    state text not null,
    tax_id text not null,
    base_url text not null,
    token_url text not null,
    authorities text not null,
    account text not null,
    keys text[] not null,
    poll_s integer not null,
    options jsonb not null,
    house_id bigint not null,
    receiving_sealed bytea not null,
    sending_sealed bytea,
    opened_at timestamp with time zone not null,
    opening_cents bigint not null,
    revision bigint default 1 not null,
    created_at timestamp with time zone not null,
    paused_because text,
    removed_at timestamp with time zone,
    lost_at timestamp with time zone,
    constraint institution_account_pkey primary key (id),
    constraint institution_account_account_check check (length(account) <= 40),
    constraint institution_account_authorities_check check (length(authorities) <= 65536),
    constraint institution_account_base_url_check check (length(base_url) >= 1 and length(base_url) <= 255),
    constraint institution_account_created_at_check check (isfinite(created_at)),
    constraint institution_account_environment_check check (environment in ('production', 'homologation', 'counterpart')),
    constraint institution_account_id_check check (id >= 1),
    constraint institution_account_keys_check check (cardinality(keys) <= 100),
    constraint institution_account_kind_check check (kind in ('efi', 'inter', 'woovi', 'sicoob', 'standard')),
    constraint institution_account_lost_at_check check (isfinite(lost_at)),
    constraint institution_account_name_check check (name ~ '^[a-z][a-z0-9-]{0,39}$'),
    constraint institution_account_opened_at_check check (isfinite(opened_at)),
    constraint institution_account_opening_cents_check check (opening_cents >= 0 and opening_cents <= 999999999999),
    constraint institution_account_paused_because_check check (length(paused_because) >= 1 and length(paused_because) <= 1000),
    constraint institution_account_poll_s_check check (poll_s >= 1 and poll_s <= 3600),
    constraint institution_account_profile_check check (length(profile) >= 1 and length(profile) <= 40),
    constraint institution_account_removed_at_check check (isfinite(removed_at)),
    constraint institution_account_state_check check (state in ('active', 'paused', 'closed')),
    constraint institution_account_tax_id_check check (length(tax_id) in (11, 14)),
    constraint institution_account_token_url_check check (length(token_url) <= 255),
    constraint nothing_is_active_after_a_loss check (lost_at is null or state = 'paused'),
    constraint only_what_is_paused_says_why check (paused_because is null or state = 'paused')
);
comment on table institution_account is 'Accounts at institutions, over which live mode moves money.';
comment on column institution_account.id is 'Fixed into all that happens on it.';
comment on column institution_account.name is 'The operator''s name for it.';
comment on column institution_account.kind is 'Which program speaks to it.';
comment on column institution_account.profile is 'The institution''s traits, by name.';
comment on column institution_account.environment is 'The institutions'' own, that of their tests, or any other counterpart.';
comment on column institution_account.state is 'Active; paused, which stops requests to the institution; or closed for good.';
comment on column institution_account.tax_id is 'The CPF or CNPJ of its owner.';
comment on column institution_account.base_url is 'Where its API is: scheme, host and port.';
comment on column institution_account.token_url is 'Where its tokens are issued; empty is the profile''s path below base_url.';
comment on column institution_account.authorities is 'PEM of who signs its certificate; empty trusts the system''s.';
comment on column institution_account.account is 'The institution''s number for the account, where requests need it.';
comment on column institution_account.keys is 'Its Pix keys, as the operator has named them.';
comment on column institution_account.poll_s is 'How often its newest payments are read, in seconds.';
comment on column institution_account.options is 'The operator''s other settings for its kind.';
comment on column institution_account.house_id is 'The holder that owns money on the account which no other holder owns.';
comment on column institution_account.receiving_sealed is 'The credential that reads and receives, sealed.';
comment on column institution_account.sending_sealed is
    'The credential that sends, sealed under a key that only workers have; null is none.';
comment on column institution_account.opened_at is 'Where its books begin: nothing that happened before is read.';
comment on column institution_account.opening_cents is 'The balance at that instant, in cents.';
comment on column institution_account.revision is 'Counts its changes: processes that know an older one read it again.';
comment on column institution_account.created_at is 'When it was added, in real time.';
comment on column institution_account.paused_because is
    'The database''s loss that paused it; null if an operator did, and if it is not paused.';
comment on column institution_account.removed_at is
    'When an operator removed the account, in real time. The row stays, without credentials, for rows that reference it.';
comment on column institution_account.lost_at is
    'When a loss of the database was detected, in real time, until an operator has confirmed its recovery: the account is read, and nothing leaves it.';
create unique index institution_account_is_added_once on institution_account (profile, base_url, tax_id, account) where account
    <> '' and removed_at is null and state <> 'closed';
create unique index institution_account_name on institution_account (name) where removed_at is null;
create trigger add_allowance after insert on institution_account for each row execute function add_allowance();
create trigger check_closed before update of state on institution_account for each row when (old.state <> new.state and
    ('closed' = old.state or 'closed' = new.state)) execute function check_closed_account();
create trigger check_addresses before update of base_url, token_url, authorities on institution_account for each row when
    (new.environment <> 'counterpart' and (old.base_url, old.token_url, old.authorities) is distinct from
    (new.base_url, new.token_url, new.authorities)) execute function check_addresses();
create trigger check_new before insert on institution_account for each row execute function check_institution_account();
grant delete, insert, update (state, base_url, token_url, authorities, keys, poll_s, options, receiving_sealed, sending_sealed,
    revision, paused_because, removed_at, lost_at) on table institution_account to pixconnect_operator;
grant select on table institution_account to pixconnect_service;

create function hold_account(account text) returns void language sql
as $function$
    select pg_advisory_xact_lock_shared(hashtextextended(account, 7811886))
$function$;
grant execute on function hold_account(account text) to pixconnect_service;

create sequence holder_id maxvalue 35184372088831;
grant usage on sequence holder_id to pixconnect_operator;

create function await_refusals() returns trigger language plpgsql
as $function$
begin
    perform pg_advisory_xact_lock(hashtextextended(
        case tg_table_name when 'pix_key' then to_jsonb(new) ->> 'key'
            else (to_jsonb(new) ->> 'branch') || ' ' || (to_jsonb(new) ->> 'account_number') end,
        7811886
    ));
    return new;
end $function$;

create function refuse_change() returns trigger language plpgsql
as $function$
begin
    raise exception 'rows of % are never changed or deleted', tg_table_name
        using errcode = 'integrity_constraint_violation', constraint = tg_table_name || '_is_append_only';
end $function$;

create function read_quarantine(wanted text, for_holder bigint) returns table(former_id bigint, removed_at timestamp with time
    zone, left_s double precision, has_open boolean, unread text[]) language plpgsql stable
as $function$
#variable_conflict use_column
begin
    return query
        select former.holder_id, former.removed_at,
            extract(epoch from former.removed_at + interval '1 minute' - clock_timestamp())::double precision,
            exists (
                select from transfer where direction = 'IN' and status = 'PROCESSING' and own_key = wanted
                    and transfer.holder_id + 0 = former.holder_id
            ),
            array(
                select distinct account.name from holder as had
                join holder as member on member.id = had.id or member.family_id = had.family_id
                join institution_account as account on account.id = member.institution_id
                -- Nothing of the last 90 days names an account that was removed.
                where had.id = former.holder_id and account.removed_at is null and 2 > (
                    select count(*) from institution_sweep as sweep
                    where sweep.institution_id = account.id and pace in ('near', 'wide')
                        and began_at >= former.removed_at + interval '72 hours'
                ) and not exists (
                    select from proposal as released
                    where released.institution_id = account.id and act = 'release' and done_at is not null
                        and released.contents ->> 'key' = wanted and proposed_at >= former.removed_at
                )
            )
        from (
            select * from removed_pix_key as removed where key = wanted order by removed.removed_at desc limit 1
        ) as former
        where former.holder_id is distinct from for_holder;
end $function$;
grant execute on function read_quarantine(wanted text, for_holder bigint) to pixconnect_operator;

create function check_quarantine() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if exists (
        select from read_quarantine(new.key, new.holder_id) where left_s > 0 or has_open or cardinality(unread) > 0
    ) then
        raise exception 'a payment to the former holder of the key may still come in'
            using errcode = 'integrity_constraint_violation', constraint = 'a_removed_key_is_in_quarantine';
    end if;
    return new;
end $function$;

create function move_access_revision() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    update access_revision set revision = revision + 1;
    return null;
end $function$;

create function refuse_row() returns trigger language plpgsql
as $function$
declare
    facts jsonb := to_jsonb(coalesce(old, new));
begin
    -- Its arguments: the constraint, a sentence, and the columns that the sentence names.
    raise exception '%', format(tg_argv[1], variadic array(
        select facts ->> name from unnest(tg_argv[2:]) with ordinality as named (name, place) order by place
    )) using errcode = 'integrity_constraint_violation', constraint = tg_argv[0];
end $function$;

create function keep_account() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    past text;
begin
    -- Entries are posted under the balance's lock; rows without entries are written under the lock on the holder's row.
    perform from balance where holder_id = old.id for update;
    perform from holder where id = old.id for update;
    past := find_past_of_holder(old.id);
    if past is not null then
        raise exception 'holder % stays on its account: %', old.id, past
            using errcode = 'integrity_constraint_violation', constraint = 'a_holder_stays_on_its_account';
    end if;
    return new;
end $function$;

create table holder (
    id bigint not null,
    name text not null,
    tax_id text not null,
    city text not null,
    branch text not null,
    account_number text not null,
    account_type text not null,
    may_deposit boolean default true not null,
    may_withdraw boolean default true not null,
    may_lend boolean default false not null,
    transfer_limit_cents bigint,
    day_limit_cents bigint,
    night_limit_cents bigint,
    disabled_at timestamp with time zone,
    created_at timestamp with time zone not null,
    institution_id smallint,
    approve_above_cents bigint,
    approve_new_payees boolean default false not null,
    street text,
    state text,
    postal_code text,
    night_begins_late boolean default false not null,
    family_id bigint,
    successor_id bigint,
    key_webhooks_count integer default 0 not null,
    constraint holder_pkey primary key (id),
    constraint holder_account_number_key unique (account_number),
    constraint a_successor_is_of_the_family check (successor_id is null or family_id is not null and successor_id <> id),
    constraint an_address_is_whole check (num_nulls(street, state, postal_code) in (0, 3)),
    constraint holder_account_number_check check (account_number ~ '^[0-9A-Z]{1,20}$'),
    constraint holder_account_type_check check (account_type in ('CHECKING', 'SAVINGS', 'SALARY', 'TRANSACTIONAL')),
    constraint holder_approve_above_cents_check check (approve_above_cents >= 0),
    constraint holder_branch_check check (branch ~ '^[0-9]{1,4}$'),
    constraint holder_city_check check (length(city) >= 1 and length(city) <= 255),
    constraint holder_day_limit_cents_check check (day_limit_cents >= 0),
    constraint holder_id_check check (id >= 1 and id <= 9007199254740991),
    constraint holder_key_webhooks_count_check check (key_webhooks_count >= 0),
    constraint holder_name_check check (length(name) >= 1 and length(name) <= 255),
    constraint holder_night_limit_cents_check check (night_limit_cents >= 0),
    constraint holder_postal_code_check check (postal_code ~ '^[0-9]{8}$'),
    constraint holder_state_check check (state ~ '^[A-Z]{2}$'),
    constraint holder_street_check check (length(street) >= 1 and length(street) <= 200),
    constraint holder_tax_id_check check (length(tax_id) in (11, 14)),
    constraint holder_transfer_limit_cents_check check (transfer_limit_cents >= 0),
    constraint a_family_is_of_holders foreign key (family_id) references holder(id),
    constraint a_successor_is_a_holder foreign key (successor_id) references holder(id),
    constraint holder_lies_on_an_account foreign key (institution_id) references institution_account(id)
);
comment on table holder is 'A person or company with an account here.';
comment on column holder.id is 'Counts up from 1; everything else of a holder names it by this.';
comment on column holder.name is 'The name, as it is in accounts and QR codes.';
comment on column holder.tax_id is 'The CPF (11 characters) or CNPJ (14 characters).';
comment on column holder.city is 'The city, which each QR code names.';
comment on column holder.branch is 'The branch of the account, 1 to 4 digits.';
comment on column holder.account_number is 'The number of the account; no other holder has the same.';
comment on column holder.account_type is 'The account type reported to the rail.';
comment on column holder.may_deposit is 'Whether money may come in.';
comment on column holder.may_withdraw is 'Whether money may go out, by transfers or refunds.';
comment on column holder.may_lend is 'Whether the account may lend; only shown, nothing is decided by it.';
comment on column holder.transfer_limit_cents is 'The most that one transfer may be of, in cents; null is no limit.';
comment on column holder.day_limit_cents is 'The most that may be sent in one day of Sao Paulo, in cents; null is no limit.';
comment on column holder.night_limit_cents is
    'The most that may be sent in one night (20:00 to 06:00 in Sao Paulo), in cents; null is no limit.';
comment on column holder.disabled_at is
    'When an operator disabled the holder and its clients, in real time; null while enabled.';
comment on column holder.created_at is 'When it was opened, in service time.';
comment on column holder.institution_id is
    'The account at an institution that has its money; null is the installation''s own rail.';
comment on column holder.approve_above_cents is
    'Outgoing transfers above this many cents wait for an operator''s approval; null is none.';
comment on column holder.approve_new_payees is
    'Whether the first transfer to each new payee waits for an operator''s approval.';
comment on column holder.street is
    'The street and number; null where no address is known, and then no charge with a due date can be made.';
comment on column holder.state is 'The state, by its two letters.';
comment on column holder.postal_code is 'The CEP, 8 digits.';
comment on column holder.night_begins_late is
    'Whether the night limit starts at the later of the two hours that a holder may choose.';
comment on column holder.family_id is
    'The first of the holders that succeeded each other, which share their names of requests; null where none did.';
comment on column holder.successor_id is
    'The newest of them, which has the clients, keys and webhooks; null for that one, and where none did.';
comment on column holder.key_webhooks_count is 'How many of its keys have a webhook; only triggers count it.';
create index holder_of_family on holder (family_id) where family_id is not null;
create index holder_of_tax_id on holder (tax_id);
create trigger await_refusals before insert on holder for each row execute function await_refusals();
create trigger holder_address_moves_access_revision after update of street, city, state, postal_code on holder for each row when
    (old.street is distinct from new.street or old.city is distinct from new.city or old.state is distinct from new.state or
    old.postal_code is distinct from new.postal_code) execute function move_access_revision();
create trigger holder_moves_access_revision after update of disabled_at, institution_id on holder for each row when
    (old.disabled_at is distinct from new.disabled_at or old.institution_id is distinct from new.institution_id) execute
    function move_access_revision();
create trigger keep_account before update of institution_id on holder for each row when (old.institution_id is distinct from
    new.institution_id) execute function keep_account();
create trigger keep_family before update of family_id, successor_id on holder for each row when (old.family_id is not null and
    new.family_id is distinct from old.family_id or old.successor_id is not null and new.successor_id is null) execute function
    refuse_row('a_family_stays', 'holder %s came to its family by succeeding, and stays in it', 'id');
create trigger open_without_family before insert on holder for each row when (new.family_id is not null or new.successor_id is
    not null) execute function refuse_row('a_family_stays', 'holder %s came to its family by succeeding, and stays in it',
    'id');
grant insert, update (city, may_deposit, may_withdraw, may_lend, transfer_limit_cents, day_limit_cents, night_limit_cents,
    disabled_at, institution_id, approve_above_cents, approve_new_payees, street, state, postal_code, night_begins_late) on
    table holder to pixconnect_operator;
grant select on table holder to pixconnect_service;

create view holder_family as select id as holder_id, coalesce(family_id, id) as first_id from holder;
comment on view holder_family is 'The first of each holder''s family; the holder itself where none was succeeded.';
comment on column holder_family.holder_id is 'The holder.';
comment on column holder_family.first_id is
    'The first of the holders that succeeded each other with it, whose name is used at institutions.';
grant select on table holder_family to pixconnect_service;

create function is_same_owner(one_tax_id text, other_tax_id text) returns boolean language sql immutable parallel safe
as $function$
    -- Of two CNPJ the first eight characters are the owner.
    select one_tax_id = other_tax_id
        or length(one_tax_id) = 14 and length(other_tax_id) = 14 and left(one_tax_id, 8) = left(other_tax_id, 8)
$function$;
grant execute on function is_same_owner(one_tax_id text, other_tax_id text) to pixconnect_service;

create function move_to_successor(former_id bigint, heir_id bigint, tokens_from timestamp with time zone, moved_at timestamp
    with time zone) returns void language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    first_id bigint;
begin
    select holder_family.first_id into first_id from holder as former join holder_family on holder_id = former.id
    join holder as heir on heir.id = heir_id
    where former.id = former_id and former.successor_id is null and heir.family_id is null
        and heir.tax_id = former.tax_id and heir.institution_id is not null
        and heir.institution_id is distinct from former.institution_id
        and find_past_of_holder(heir.id) is null;
    if not found then
        raise exception 'holder % cannot succeed holder %', heir_id, former_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_successor_begins_with_nothing';
    end if;
    update holder set family_id = first_id, successor_id = case when id <> heir_id then heir_id end
    where id in (former_id, heir_id) or family_id = first_id;
    update pix_key set holder_id = heir_id where holder_id = former_id;
    update key_webhook set holder_id = heir_id where holder_id = former_id;
    update webhook_endpoint set holder_id = heir_id, modified_at = greatest(modified_at, moved_at) where holder_id = former_id;
    -- A token says its holder.
    update client set holder_id = heir_id, tokens_from = greatest(client.tokens_from, move_to_successor.tokens_from)
    where holder_id = former_id;
    update access_revision set revision = revision + 1;
end $function$;
grant execute on function move_to_successor(former_id bigint, heir_id bigint, tokens_from timestamp with time zone, moved_at
    timestamp with time zone) to pixconnect_operator;

create function open_sandbox_holder(holder_name text, holder_tax_id text, holder_key text, opened_at timestamp with time zone,
    client_name text, client_scopes text[], own_client_id text, own_secret_hash bytea, own_secret_key_id bytea, client_made_at
    timestamp with time zone, asked_by text, holders_max bigint) returns bigint language plpgsql security definer set
    search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    own_id bigint;
begin
    if not exists (select from installation where mode = 'sandbox') then
        raise exception 'holders are made by callers in a sandbox alone' using errcode = 'insufficient_privilege';
    end if;
    -- By the largest id, not by counting: there may be very many, and some may be gone again without harm.
    if coalesce((select max(id) from holder), 0) >= holders_max then
        return null;
    end if;
    own_id := nextval('holder_id');
    insert into holder (
        id, name, tax_id, street, city, state, postal_code, branch, account_number, account_type, created_at
    ) values (
        own_id, holder_name, holder_tax_id, 'Avenida Paulista, 1000', 'Sao Paulo', 'SP', '01310100', '0001',
        'T' || lpad(own_id::text, 11, '0'), 'TRANSACTIONAL', opened_at
    );
    insert into balance (holder_id, modified_at) values (own_id, opened_at);
    insert into statement_head (holder_id) values (own_id);
    insert into pix_key (key, key_type, holder_id, created_at) values (holder_key, 'EVP', own_id, opened_at);
    insert into client (client_id, holder_id, name, scopes, secret_hash, secret_key_id, created_at) values
        (own_client_id, own_id, client_name, client_scopes, own_secret_hash, own_secret_key_id, client_made_at);
    -- By the verbs of operators, which say who may have made what.
    insert into audit (operator, verb, subject, after)
    select asked_by, 'holder create', 'holder ' || own_id, to_jsonb(holder) from holder where id = own_id
    union all
    select asked_by, 'key add', 'holder ' || own_id, to_jsonb(pix_key) from pix_key where key = holder_key
    union all
    select asked_by, 'client create', 'client ' || own_client_id, to_jsonb(client) - '{secret_hash,secret_key_id}'::text[]
    from client where client_id = own_client_id;
    return own_id;
end $function$;

create function read_held(wanted bigint[]) returns table(holder_id bigint, available_cents bigint, reserved_cents bigint,
    blocked_cents bigint, deficit_cents bigint, last_number bigint, last_entry_at timestamp with time zone, modified_at
    timestamp with time zone, may_deposit boolean, may_withdraw boolean, may_lend boolean, transfer_limit_cents bigint,
    day_limit_cents bigint, night_limit_cents bigint, has_key_webhooks boolean, offset_us bigint, revision bigint,
    approve_above_cents bigint, approve_new_payees boolean, night_begins_late boolean, blocks_count integer, institution_id
    smallint) language plpgsql set plan_cache_mode to 'force_generic_plan'
as $function$
#variable_conflict use_column
begin
    return query
        select balance.holder_id, balance.available_cents, balance.reserved_cents, balance.blocked_cents,
            balance.deficit_cents, balance.last_number, balance.last_entry_at, balance.modified_at, holder.may_deposit,
            holder.may_withdraw, holder.may_lend, holder.transfer_limit_cents, holder.day_limit_cents,
            holder.night_limit_cents,
            0 < case when holder.successor_id is null then holder.key_webhooks_count else (
                select heir.key_webhooks_count from holder as heir where heir.id = holder.successor_id
            ) end,
            clock.offset_us, clock.revision, holder.approve_above_cents, holder.approve_new_payees,
            holder.night_begins_late, balance.blocks_count, holder.institution_id
        from unnest(wanted) as held (id)
        join whole_balance as balance on balance.holder_id = held.id
        join holder on holder.id = held.id
        cross join clock;
end $function$;
grant execute on function read_held(wanted bigint[]) to pixconnect_service;

create table pix_key (
    key text collate "C" not null,
    key_type text not null,
    holder_id bigint not null,
    created_at timestamp with time zone not null,
    constraint pix_key_pkey primary key (key),
    constraint pix_key_key_check check (length(key) >= 1 and length(key) <= 77),
    constraint pix_key_key_type_check check (key_type in ('CPF', 'CNPJ', 'PHONE', 'EMAIL', 'EVP')),
    constraint pix_key_holder_id_fkey foreign key (holder_id) references holder(id)
);
comment on table pix_key is 'The Pix keys of our holders: the directory of our own.';
comment on column pix_key.key is 'The key as the network writes it.';
comment on column pix_key.key_type is 'The key''s type.';
comment on column pix_key.holder_id is 'The holder that it pays.';
comment on column pix_key.created_at is 'When it was given to the holder, in service time.';
create index pix_key_of_holder on pix_key (holder_id, created_at, key);
create trigger await_refusals before insert on pix_key for each row execute function await_refusals();
create trigger check_quarantine before insert on pix_key for each row execute function check_quarantine();
create trigger key_removal_moves_access_revision after delete on pix_key for each row execute function move_access_revision();
grant delete, insert on table pix_key to pixconnect_operator;
grant select on table pix_key to pixconnect_service;

create table removed_pix_key (
    key text collate "C" not null,
    holder_id bigint not null,
    given_at timestamp with time zone not null,
    removed_at timestamp with time zone default clock_timestamp() not null,
    constraint removed_pix_key_pkey primary key (key, removed_at),
    constraint removed_pix_key_given_at_check check (isfinite(given_at)),
    constraint removed_pix_key_key_check check (length(key) >= 1 and length(key) <= 77),
    constraint removed_pix_key_holder_id_fkey foreign key (holder_id) references holder(id)
);
comment on table removed_pix_key is
    'The former holder of each Pix key that an operator removed, so that a pending payment finds the right account; rows are never changed or deleted.';
comment on column removed_pix_key.key is 'The key that was removed.';
comment on column removed_pix_key.holder_id is 'The former holder.';
comment on column removed_pix_key.given_at is 'When the holder had got it, in service time.';
comment on column removed_pix_key.removed_at is
    'When it was removed, in real time; another holder gets it once nothing can come in for this one any more.';
create trigger removed_pix_key_is_append_only before delete or update or truncate on removed_pix_key for each statement execute
    function refuse_change();
grant insert (key, holder_id, given_at) on table removed_pix_key to pixconnect_operator;
grant select on table removed_pix_key to pixconnect_service;

create table client (
    client_id text not null,
    holder_id bigint not null,
    name text not null,
    scopes text[] not null,
    secret_hash bytea not null,
    created_at timestamp with time zone not null,
    rotated_at timestamp with time zone,
    disabled_at timestamp with time zone,
    tokens_from timestamp with time zone,
    secret_key_id bytea,
    certificate text,
    certificate_expires_at timestamp with time zone,
    constraint client_pkey primary key (client_id),
    constraint certificate_is_a_thumbprint check (certificate ~ '^[a-zA-Z0-9_-]{43}$'),
    constraint client_client_id_check check (client_id ~ '^[a-zA-Z0-9_-]{1,64}$'),
    constraint client_name_check check (length(name) >= 1 and length(name) <= 255),
    constraint client_secret_hash_check check (octet_length(secret_hash) = 32),
    constraint only_a_certificate_ends check (certificate_expires_at is null or certificate is not null),
    constraint scopes_are_names check (cardinality(scopes) <= 100 and scopes::text ~
        '^\{[a-z]+\.(read|write)(,[a-z]+\.(read|write))*\}$'),
    constraint secret_key_id_has_its_length check (octet_length(secret_key_id) = 8),
    constraint client_holder_id_fkey foreign key (holder_id) references holder(id)
);
comment on table client is 'The OAuth clients by which programs of holders ask.';
comment on column client.client_id is 'The client''s name in token requests.';
comment on column client.holder_id is 'The holder that the client acts for.';
comment on column client.name is 'The operator''s name for it.';
comment on column client.scopes is 'The permissions of its tokens.';
comment on column client.secret_hash is 'The keyed hash of its secret, 32 octets; the secret itself is nowhere.';
comment on column client.created_at is 'When it was made, in real time.';
comment on column client.rotated_at is 'When its secret was last replaced, in real time.';
comment on column client.disabled_at is 'When an operator disabled it, in real time; null while enabled.';
comment on column client.tokens_from is
    'Tokens that were issued before this instant, in real time, are refused; it never goes back.';
comment on column client.secret_key_id is
    'Which secret key the hash was made with, 8 octets; null is a row that is older than this column.';
comment on column client.certificate is
    'The thumbprint (SHA-256) of the certificate that it must show; null where it needs none.';
comment on column client.certificate_expires_at is
    'When that certificate ends, in real time; null where it needs none, or was bound to it by an older version.';
create index client_of_holder on client (holder_id, created_at, client_id);
create trigger client_moves_access_revision after update of disabled_at, tokens_from on client for each row when
    (old.disabled_at is distinct from new.disabled_at or old.tokens_from is distinct from new.tokens_from) execute function
    move_access_revision();
create trigger client_removal_moves_access_revision after delete on client for each row execute function move_access_revision();
create trigger tokens_stay_ended before update of tokens_from on client for each row when (old.tokens_from >
    coalesce(new.tokens_from, '-infinity'::timestamp with time zone)) execute function refuse_row('tokens_stay_ended',
    'tokens that were ended stay ended');
grant delete, insert, update (scopes, secret_hash, rotated_at, disabled_at, tokens_from, secret_key_id, certificate,
    certificate_expires_at) on table client to pixconnect_operator;
grant select, update (secret_hash, secret_key_id) on table client to pixconnect_service;

create function audit_client_act(client_id text, request_id text, verb text, subject text, before jsonb, after jsonb) returns
    void language sql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
    insert into audit (operator, verb, subject, before, after, request_id)
    values ('client ' || client_id, verb, subject, before, after, request_id)
$function$;
grant execute on function audit_client_act(client_id text, request_id text, verb text, subject text, before jsonb, after jsonb)
    to pixconnect_service;

create function find_clients_logging_in(lock_class integer, lock_keys integer[], addresses bytea[], window_length interval,
    failures_max integer, ids text[]) returns setof client language plpgsql set plan_cache_mode to 'force_generic_plan'
as $function$
begin
    if exists (
        select from unnest(lock_keys) as key where not pg_try_advisory_xact_lock_shared(lock_class, key)
    ) then
        return;
    end if;
    -- Separate statements, so that they see rows counted before this transaction took the locks.
    if exists (
        select from unnest(addresses) as address
        where exists (
            select from token_failure
            where subject = address and failed_at > clock_timestamp() - window_length
            order by failed_at desc offset failures_max - 1
        )
    ) then
        return;
    end if;
    return query
        select client.* from client
        where client_id = any (ids) and disabled_at is null and not exists (
            select from holder where holder.id = client.holder_id and holder.disabled_at is not null
        );
end $function$;
grant execute on function find_clients_logging_in(lock_class integer, lock_keys integer[], addresses bytea[], window_length
    interval, failures_max integer, ids text[]) to pixconnect_service;

create table access_revision (
    is_only_row boolean default true not null,
    revision bigint default 1 not null,
    constraint access_revision_pkey primary key (is_only_row),
    constraint access_revision_is_only_row_check check (is_only_row)
) with (fillfactor=50);
comment on table access_revision is
    'A number that rises with each change of access: a process that has the latest need not read again.';
comment on column access_revision.is_only_row is 'True: there is one row.';
comment on column access_revision.revision is 'Counts up; only triggers move it.';
grant select on table access_revision to pixconnect_service;
insert into access_revision default values;

create table audit (
    id bigint generated always as identity not null,
    at timestamp with time zone default clock_timestamp() not null,
    operator text not null,
    verb text collate "C" not null,
    subject text not null,
    before jsonb,
    after jsonb,
    request_id text,
    login text default session_user not null,
    door text default current_setting('role') not null,
    constraint audit_pkey primary key (id),
    constraint audit_operator_check check (length(operator) >= 1 and length(operator) <= 255),
    constraint audit_request_id_check check (length(request_id) >= 1 and length(request_id) <= 255),
    constraint audit_subject_check check (length(subject) >= 1 and length(subject) <= 255),
    constraint audit_verb_check check (length(verb) >= 1 and length(verb) <= 100)
);
comment on table audit is 'What operators did, and what clients changed of their endpoints; rows are never changed or deleted.';
comment on column audit.id is 'Counts up.';
comment on column audit.at is 'When it was done, in real time.';
comment on column audit.operator is 'The person, or the client, who did it.';
comment on column audit.verb is 'The action, as on the command line: holder set.';
comment on column audit.subject is 'What it was done to: holder 2.';
comment on column audit.before is 'The earlier value, as JSON; null if it did not exist.';
comment on column audit.after is 'The new value, as JSON; null if it was removed.';
comment on column audit.request_id is 'The HTTP request that asked for it; null for the command line.';
comment on column audit.login is 'The login of the database by which it was written.';
comment on column audit.door is
    'The role that this login had taken: pixconnect_operator for the command line, pixconnect_console, pixconnect_service.';
create index audit_of_subject on audit (subject, id);
create trigger audit_is_append_only before delete or update or truncate on audit for each statement execute function
    refuse_change();
grant insert (operator, verb, subject, before, after, request_id), select on table audit to pixconnect_console;
grant insert (operator, verb, subject, before, after, request_id), select on table audit to pixconnect_operator;

create view audit_facts as
 SELECT id,
    json_build_array('audit', id, (at AT TIME ZONE 'UTC'::text), verb, request_id, login, door)::text AS facts,
    json_build_array(operator, subject, before, after)::text AS person
   FROM audit;
comment on view audit_facts is 'What of the audit is chained by hash, as the texts that are hashed.';
comment on column audit_facts.id is 'The row of the audit.';
comment on column audit_facts.facts is 'The immutable facts of the entry, as a JSON array.';
comment on column audit_facts.person is 'What of it may be about a person, as a JSON array.';

create table audit_chain (
    position bigint not null,
    audit_id bigint not null,
    digest bytea not null,
    salt bytea not null,
    person_digest bytea not null,
    head bytea not null,
    chained_at timestamp with time zone not null,
    constraint audit_chain_pkey primary key ("position"),
    constraint audit_is_chained_once unique (audit_id),
    constraint audit_chain_digest_check check (octet_length(digest) = 32),
    constraint audit_chain_head_check check (octet_length(head) = 32),
    constraint audit_chain_person_digest_check check (octet_length(person_digest) = 32),
    constraint audit_chain_position_check check ("position" >= 1),
    constraint audit_chain_salt_check check (octet_length(salt) = 16)
);
comment on table audit_chain is 'The audit, chained by hash; rows are never changed or deleted.';
comment on column audit_chain.position is 'Counts the links up from 1.';
comment on column audit_chain.audit_id is 'The row of the audit.';
comment on column audit_chain.digest is 'The SHA-256 of its facts, and behind them of the person_digest.';
comment on column audit_chain.salt is 'Sixteen random octets, hashed with the text that may be about a person.';
comment on column audit_chain.person_digest is 'The SHA-256 of the salt and of the fields that may contain personal data.';
comment on column audit_chain.head is 'The SHA-256 of the head before it and of this digest.';
comment on column audit_chain.chained_at is 'When it was chained, in real time.';
create trigger audit_chain_is_append_only before delete or update or truncate on audit_chain for each statement execute function
    refuse_change();
grant select on table audit_chain to pixconnect_service;

create table audit_chain_state (
    is_only_row boolean default true not null,
    chained_id bigint default 0 not null,
    bound_id bigint default 0 not null,
    bound_writers text[] default '{}'::text[] not null,
    constraint audit_chain_state_pkey primary key (is_only_row),
    constraint audit_chain_state_check check (bound_id >= chained_id),
    constraint audit_chain_state_is_only_row_check check (is_only_row)
) with (fillfactor=50);
comment on table audit_chain_state is 'How far the audit is chained.';
comment on column audit_chain_state.is_only_row is 'True: there is one row.';
comment on column audit_chain_state.chained_id is 'Each row up to this id is chained.';
comment on column audit_chain_state.bound_id is 'Up to this id rows are chained next.';
comment on column audit_chain_state.bound_writers is
    'Transactions that wrote when the bound was noted, and end before it is chained.';
grant select on table audit_chain_state to pixconnect_service;
insert into audit_chain_state default values;

create function chain_audit(count_max integer) returns bigint language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp' set plan_cache_mode to 'force_custom_plan'
as $function$
declare
    state audit_chain_state;
    newest bigint;
    writers text[];
    each record;
    link audit_chain;
    chained_count bigint := 0;
begin
    select * into state from audit_chain_state for update skip locked;
    if not found then
        return 0; -- another session is chaining
    end if;
    if state.chained_id = state.bound_id then
        newest := (select max(id) from audit);
        -- Where nothing happens, nothing is written.
        if newest is null or newest <= state.bound_id then
            return 0;
        end if;
    end if;
    -- After the newest row was read, and not before.
    writers := array(
        select virtualtransaction from pg_locks
        where relation = 'audit'::regclass and database = (select oid from pg_database where datname = current_database())
            and mode = 'RowExclusiveLock' and granted
    );
    if newest is not null then
        state.bound_id := newest;
        state.bound_writers := writers;
        update audit_chain_state set bound_id = newest, bound_writers = writers;
    end if;
    if state.bound_writers && writers then
        return 0;
    end if;

    select * into link from audit_chain order by position desc limit 1;
    if not found then
        link.position := 0;
        link.head := sha256('audit');
    end if;
    for each in
        select id, facts, person from audit_facts where id > state.chained_id and id <= state.bound_id
        order by id limit count_max
    loop
        link.position := link.position + 1;
        link.audit_id := each.id;
        link.salt := uuid_send(gen_random_uuid());
        link.person_digest := sha256(link.salt || convert_to(each.person, 'UTF8'));
        link.digest := sha256(convert_to(each.facts, 'UTF8') || link.person_digest);
        link.head := sha256(link.head || link.digest);
        link.chained_at := clock_timestamp();
        insert into audit_chain values (link.*);
        chained_count := chained_count + 1;
    end loop;
    -- Behind the last row ids up to the bound are of rows that were taken back.
    update audit_chain_state set chained_id = case when chained_count < count_max then bound_id else link.audit_id end;
    return chained_count;
end $function$;
grant execute on function chain_audit(count_max integer) to pixconnect_service;

create table proposal (
    id bigint generated always as identity not null,
    act text collate "C" not null,
    institution_id smallint,
    holder_id bigint,
    contents jsonb not null,
    proposed_by text not null,
    proposed_at timestamp with time zone not null,
    confirmable_at timestamp with time zone not null,
    acts_at timestamp with time zone,
    confirmed_by text,
    done_at timestamp with time zone,
    proposed_login text default session_user not null,
    proposed_door text default current_setting('role') not null,
    account_login text,
    constraint proposal_pkey primary key (id),
    constraint confirmed_by_another check (regexp_replace(confirmed_by, '^console ', '') <> regexp_replace(proposed_by,
        '^console ', '')),
    constraint done_by_somebody_or_by_itself check (case when done_at is null then confirmed_by is null
        else confirmed_by is not null or coalesce(done_at >= acts_at, false) end),
    constraint done_in_time check (done_at >= confirmable_at and done_at < proposed_at + interval '30 days'),
    constraint only_limits_act_by_themselves check ((acts_at is not null) = (act = 'limits') and acts_at > proposed_at),
    constraint proposal_act_check check (length(act) >= 1 and length(act) <= 40),
    constraint proposal_confirmable_at_check check (isfinite(confirmable_at)),
    constraint proposal_confirmed_by_check check (length(confirmed_by) >= 1 and length(confirmed_by) <= 255),
    constraint proposal_done_at_check check (isfinite(done_at)),
    constraint proposal_is_of_an_account_or_a_holder check (num_nonnulls(institution_id, holder_id) = 1),
    constraint proposal_proposed_at_check check (isfinite(proposed_at)),
    constraint proposal_proposed_by_check check (length(proposed_by) >= 1 and length(proposed_by) <= 255),
    constraint proposal_holder_id_fkey foreign key (holder_id) references holder(id),
    constraint proposal_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
comment on table proposal is 'What one operator wants done with an account or a holder, and another must confirm.';
comment on column proposal.id is 'Counts up.';
comment on column proposal.act is 'What is to be done; of each kind at most one waits on an account or a holder.';
comment on column proposal.institution_id is 'The account at an institution; null where it is about a holder.';
comment on column proposal.holder_id is 'The holder; null where it is about an account.';
comment on column proposal.contents is 'What belongs to it, as JSON.';
comment on column proposal.proposed_by is 'The operator who wants it.';
comment on column proposal.proposed_at is 'When, in real time; it lapses 30 days later.';
comment on column proposal.confirmable_at is 'From when on it may be confirmed, in real time.';
comment on column proposal.acts_at is 'From when on it is done without a second operator, in real time; null is never.';
comment on column proposal.confirmed_by is 'The other operator; null while it waits, and where it was done by itself.';
comment on column proposal.done_at is 'When it was done, in real time; null while it waits, and once it has lapsed.';
comment on column proposal.proposed_login is 'The login of the database by which it was written.';
comment on column proposal.proposed_door is
    'The role that this login had taken: pixconnect_operator for the command line, pixconnect_console.';
comment on column proposal.account_login is
    'The login that had last given the proposing account of the console its password or recovery codes; null is none.';
create unique index proposal_waits on proposal (institution_id, holder_id, act) nulls not distinct where done_at is null;
create trigger keep_done before delete on proposal for each row when (old.done_at is not null) execute function
    refuse_row('a_proposal_is_done_once', 'proposal %s was done, and stays so', 'id');
grant delete, insert (act, institution_id, holder_id, contents, proposed_by, proposed_at, confirmable_at, acts_at) on table
    proposal to pixconnect_console;
grant delete, insert (act, institution_id, holder_id, contents, proposed_by, proposed_at, confirmable_at, acts_at),
    update (confirmed_by, done_at) on table proposal to pixconnect_operator;
grant select on table proposal to pixconnect_service;

create function refuse_console() returns trigger language plpgsql
as $function$
begin
    raise exception 'the console proposes adjustments, answers about lines, to take one back and how orders ended, and nothing else'
        using errcode = 'insufficient_privilege';
end $function$;
create trigger console_forgets_only_of_cases before delete on proposal for each row when (CURRENT_USER <>
    'pixconnect_operator'::name and (old.act <> all (array['adjust', 'answer', 'decide', 'separate']))) execute function
    refuse_console();
create trigger console_proposes_only_for_cases before insert on proposal for each row when (CURRENT_USER <>
    'pixconnect_operator'::name and (new.act <> all (array['adjust', 'answer', 'decide', 'separate']))) execute function
    refuse_console();

create function note_account_login() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    new.account_login := (select given_login from console_operator where 'console ' || name = new.proposed_by);
    return new;
end $function$;
create trigger note_account_login before insert on proposal for each row when (CURRENT_USER <> 'pixconnect_operator'::name)
    execute function note_account_login();

-- In live mode two logins of the database agree. An account of the console speaks for the login that gave it its secrets:
-- otherwise one login could make an account in a colleague's name, propose there and confirm here.
create function find_login_conflict(proposal_id bigint) returns text language sql stable security definer set search_path to
    'pixconnect', 'pg_temp'
as $function$
    select case
        when proposed_login = session_user then format('it was proposed by the database login %s, which confirms', session_user)
        when account_login = session_user then format(
            'the account of %s has its password or recovery codes from the database login %s, which confirms', proposed_by,
            session_user
        )
        -- A login that inherits its role may take none: only the operators' role is not the console's.
        when proposed_door <> 'pixconnect_operator' and account_login is null then
            format('%s had no account of the console when it was proposed', proposed_by)
    end
    from proposal
    where id = proposal_id and exists (select from installation where mode = 'live')
$function$;
grant execute on function find_login_conflict(proposal_id bigint) to pixconnect_operator;

create function check_done_proposal() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    conflict constant text := find_login_conflict(new.id);
begin
    if old.done_at is not null then
        raise exception 'proposal % was done, and stays so', new.id
            using errcode = 'integrity_constraint_violation', constraint = 'a_proposal_is_done_once';
    end if;
    if new.confirmed_by is not null and conflict is not null then
        raise exception '%', conflict
            using errcode = 'integrity_constraint_violation', constraint = 'another_login_confirms';
    end if;
    if new.confirmed_by is null and new.done_at > clock_timestamp() then
        raise exception 'proposal % acts by itself from % on', new.id, new.acts_at
            using errcode = 'integrity_constraint_violation', constraint = 'a_proposal_waits';
    end if;
    return new;
end $function$;
create trigger check_done before update on proposal for each row execute function check_done_proposal();

-- Whether this transaction has done a proposal, of just these contents unless they are null. Of an act that waits for another
-- operator, that is a confirmation.
create function is_agreed(wanted_act text, account_id smallint, wanted_holder_id bigint, wanted jsonb) returns boolean
    language sql stable set search_path to 'pixconnect', 'pg_temp'
as $function$
    select exists (
        select from proposal as agreed
        where act = wanted_act and institution_id is not distinct from account_id
            and holder_id is not distinct from wanted_holder_id and done_at is not null and contents = coalesce(wanted, contents)
            and agreed.xmin = pg_current_xact_id()::xid
    )
$function$;

create function check_new_limits() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    -- An hour less than the rule: the operator's clock may differ a little from ours.
    if new.acts_at < clock_timestamp() + interval '23 hours' and exists (select from installation where mode = 'live') then
        raise exception 'higher limits of holder % wait for 24 hours', new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'higher_limits_wait';
    end if;
    return new;
end $function$;
create trigger check_new_limits before insert on proposal for each row when (new.act = 'limits') execute function
    check_new_limits();

create function act_on_due_limits() returns integer language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    due proposal;
    was holder;
    is_now holder;
    acted_count integer := 0;
begin
    for due in
        select * from proposal
        where act = 'limits' and done_at is null and acts_at <= clock_timestamp()
            and proposed_at > clock_timestamp() - interval '30 days'
        order by holder_id limit 100
    loop
        -- First the holder, as an operator does: what waited may be gone once it is locked.
        select * into was from holder where id = due.holder_id for no key update;
        update proposal set done_at = clock_timestamp() where id = due.id and done_at is null;
        continue when not found;
        update holder set transfer_limit_cents = (due.contents ->> 'transfer_cents')::bigint,
            day_limit_cents = (due.contents ->> 'day_cents')::bigint,
            night_limit_cents = (due.contents ->> 'night_cents')::bigint,
            night_begins_late = (due.contents ->> 'night_begins_late')::integer = 1
            where id = due.holder_id returning * into is_now;
        insert into audit (operator, verb, subject, before, after)
            values (due.proposed_by, 'holder set', 'holder ' || due.holder_id, to_jsonb(was), to_jsonb(is_now));
        acted_count := acted_count + 1;
    end loop;
    return acted_count;
end $function$;
grant execute on function act_on_due_limits() to pixconnect_service;

-- As the contents of a proposal: a limit is higher if its number is, or if it is missing.
create function limits_of(of_holder holder) returns jsonb language sql immutable set search_path to 'pixconnect', 'pg_temp'
as $function$
    select jsonb_strip_nulls(jsonb_build_object(
        'transfer_cents', of_holder.transfer_limit_cents, 'day_cents', of_holder.day_limit_cents,
        'night_cents', of_holder.night_limit_cents, 'night_begins_late', of_holder.night_begins_late::integer
    ))
$function$;

create function check_higher_limits() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if exists (
        select from jsonb_each_text(limits_of(old)) as was
        where coalesce((limits_of(new) ->> was.key)::bigint > was.value::bigint, true)
    ) and exists (select from installation where mode = 'live') and not is_agreed('limits', null, new.id, limits_of(new)) then
        raise exception 'higher limits of holder % wait, or another operator confirms them', new.id
            using errcode = 'integrity_constraint_violation', constraint = 'higher_limits_wait';
    end if;
    if (
        coalesce(new.approve_above_cents > old.approve_above_cents, old.approve_above_cents is not null
            and new.approve_above_cents is null)
        or old.approve_new_payees and not new.approve_new_payees
    ) and exists (select from installation where mode = 'live') and not is_agreed('approvals', null, new.id, jsonb_strip_nulls(
        jsonb_build_object(
            'approve_above_cents', new.approve_above_cents, 'approve_new_payees', new.approve_new_payees::integer
        )
    )) then
        raise exception 'fewer approvals for holder % need another operator', new.id
            using errcode = 'integrity_constraint_violation', constraint = 'higher_limits_wait';
    end if;
    return new;
end $function$;
create trigger higher_limits_wait before update on holder for each row execute function check_higher_limits();

create sequence write_group_id increment 2048;
grant select, usage on sequence write_group_id to pixconnect_service;

create table origin_batch (
    id bigint generated always as identity not null,
    kind text collate "C" not null,
    holder_id bigint not null,
    client_id text collate "C",
    jti text,
    peer text,
    operator text,
    at timestamp with time zone not null,
    written_at timestamp with time zone default clock_timestamp() not null,
    ids bigint[] storage external not null,
    request_ids text[] storage external not null,
    traceparents text[] storage external,
    constraint origin_batch_pkey primary key (id)
);
comment on table origin_batch is
    'The origin of requests: a row for all requests of one client, token and address in one batch; kept for 400 days.';
comment on column origin_batch.id is 'Counts up.';
comment on column origin_batch.kind is 'What the facts are: charge, charge_change, transfer, refund, or a kind of a feature.';
comment on column origin_batch.holder_id is 'The holder whose facts they are.';
comment on column origin_batch.client_id is 'The client that asked; null where an operator did.';
comment on column origin_batch.jti is 'The id of the access token; null for the console.';
comment on column origin_batch.peer is 'The address from which it was asked.';
comment on column origin_batch.operator is 'The operator who asked, as the audit names them; null where a client did.';
comment on column origin_batch.at is 'The instant that the facts themselves have, by which they are found.';
comment on column origin_batch.written_at is 'When the row was written, in real time; old rows are deleted by this.';
comment on column origin_batch.ids is 'The ids of the facts.';
comment on column origin_batch.request_ids is 'The HTTP request that asked for each of them, in the same order.';
comment on column origin_batch.traceparents is
    'The traceparent (W3C Trace Context) of each of them, in the same order; null where no traces are sent.';
create index origin_batch_of_fact on origin_batch (holder_id, kind, at);
grant insert (kind, holder_id, client_id, jti, peer, operator, at, ids, request_ids, traceparents), select on table origin_batch
    to pixconnect_service;

create function forget_origins(count_max integer) returns bigint language sql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
    with old as (
        select id from (select id, written_at from origin_batch order by id limit count_max) as oldest
        where written_at < clock_timestamp() - interval '400 days'
            and (select coalesce(jumped_at < clock_timestamp() - interval '1 hour', true) from partition_pass)
    ),
    gone as (delete from origin_batch where id in (select id from old) returning 1)
    select count(*) from gone
$function$;
grant execute on function forget_origins(count_max integer) to pixconnect_service;

create view origin as
 SELECT origin_batch.kind,
    fact.id,
    origin_batch.holder_id,
    origin_batch.client_id,
    origin_batch.jti,
    origin_batch.peer,
    fact.request_id,
    origin_batch.operator,
    origin_batch.at,
    origin_batch.written_at,
    fact.traceparent
   FROM origin_batch
     CROSS JOIN LATERAL UNNEST(origin_batch.ids, origin_batch.request_ids, origin_batch.traceparents) fact(id, request_id, traceparent);
comment on view origin is
    'Who asked for each charge, transfer, refund and change of an endpoint: a row of origin_batch for each fact.';
comment on column origin.kind is 'What the fact is: charge, charge_change, transfer, refund or endpoint.';
comment on column origin.id is 'The id of the fact.';
comment on column origin.holder_id is 'The holder whose fact it is.';
comment on column origin.client_id is 'The client that asked; null where an operator did.';
comment on column origin.jti is 'The id of the access token; null for the console.';
comment on column origin.peer is 'The address from which it was asked.';
comment on column origin.request_id is 'The HTTP request that asked for it.';
comment on column origin.operator is 'The operator who asked; null where a client did.';
comment on column origin.at is 'The instant that the fact itself has.';
comment on column origin.written_at is 'When it was written, in real time.';
comment on column origin.traceparent is
    'The traceparent (W3C Trace Context) under which it was asked for; null where no traces are sent.';
grant select on table origin to pixconnect_service;
