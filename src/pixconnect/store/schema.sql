-- The schema pixconnect as the migrations beside this file leave it; `make docs` writes it from a database that they have made.
-- It is for reading, and nothing runs it: `pixconnect migrate` runs the migrations, and a test holds that a database made from
-- this file is the same. A function that several migrations define stands here as the last of them left it, under their
-- numbers. Definitions are PostgreSQL's own, not the words of the migrations. Rows that migrations insert are left out.
-- `pixconnect migrate --roles-only` makes the roles; what only one mode grants is granted at each start
-- (src/pixconnect/foundation/privileges.py). A function that triggers call stands before the first table with such a trigger;
-- all others stand at the end.

create schema pixconnect;
set search_path = pixconnect;
set check_function_bodies = off;

grant usage on schema pixconnect to pixconnect_funding;

grant usage on schema pixconnect to pixconnect_service;

create type ledger_account as enum ('available', 'reserved', 'settlement', 'funding', 'deficit', 'difference', 'blocked');

create sequence charge_id increment 512 maxvalue 35184372088831;
grant usage on sequence charge_id to pixconnect_service;

create sequence delivery_id;
grant select, usage on sequence delivery_id to pixconnect_service;

create sequence event_feed_position;
grant select, usage on sequence event_feed_position to pixconnect_service;

create sequence holder_id maxvalue 35184372088831;
grant usage on sequence holder_id to pixconnect_operator;

create sequence location_id increment 512 maxvalue 35184372088831;
grant usage on sequence location_id to pixconnect_service;

create sequence refund_id increment 512 maxvalue 35184372088831;
grant usage on sequence refund_id to pixconnect_service;

create sequence transfer_id increment 512 maxvalue 35184372088831;
grant usage on sequence transfer_id to pixconnect_service;

create sequence webhook_endpoint_id;
grant usage on sequence webhook_endpoint_id to pixconnect_service;

create sequence worker_id as integer cycle;
grant usage on sequence worker_id to pixconnect_service;

create sequence write_group_id increment 2048;
grant select, usage on sequence write_group_id to pixconnect_service;

-- access_revision: The number that moves whenever somebody is shut out or let in again: a process that knows the latest need
-- not look again.
create table access_revision (
    is_only_row boolean default true not null,
    revision bigint default 1 not null,
    constraint access_revision_pkey primary key (is_only_row),
    constraint access_revision_is_only_row_check check (is_only_row)
) with (fillfactor=50);
grant select on table access_revision to pixconnect_service;
comment on table access_revision is
    'The number that moves whenever somebody is shut out or let in again: a process that knows the latest need not look again.';
comment on column access_revision.is_only_row is 'True: there is one row.';
comment on column access_revision.revision is 'Counts up; only triggers move it.';

-- token_failure: Token requests that failed in the last minute, by which logins are slowed down.
create table token_failure (
    id bigint generated always as identity not null,
    subject bytea not null,
    failed_at timestamp with time zone default clock_timestamp() not null,
    constraint token_failure_pkey primary key (id),
    constraint token_failure_subject_check check (octet_length(subject) = 16)
);
create index token_failure_by_age on token_failure (failed_at);
create index token_failure_of_subject on token_failure (subject, failed_at);
grant delete, insert, select, update (id) on table token_failure to pixconnect_service;
comment on table token_failure is 'Token requests that failed in the last minute, by which logins are slowed down.';
comment on column token_failure.id is 'Counts up.';
comment on column token_failure.subject is 'A hash of the client_id or of the address for which the failure counts, 16 octets.';
comment on column token_failure.failed_at is 'When it failed, in real time.';

-- certificate_authority: The authorities that sign the certificates of our signing keys; the newest signs new ones.
create table certificate_authority (
    id bigint generated always as identity not null,
    private_sealed bytea not null,
    certificate bytea not null,
    expires_at timestamp with time zone not null,
    created_at timestamp with time zone not null,
    constraint certificate_authority_pkey primary key (id)
);
grant update (private_sealed) on table certificate_authority to pixconnect_operator;
grant insert, select on table certificate_authority to pixconnect_service;
comment on table certificate_authority is
    'The authorities that sign the certificates of our signing keys; the newest signs new ones.';
comment on column certificate_authority.id is 'Counts up.';
comment on column certificate_authority.private_sealed is 'Its private key, encrypted with the secret key.';
comment on column certificate_authority.certificate is 'Its own certificate, in DER.';
comment on column certificate_authority.expires_at is 'When the certificate ends, in real time.';
comment on column certificate_authority.created_at is 'When it was made, in real time.';

-- keep_key_revoked: migration 0006
create function keep_key_revoked() returns trigger language plpgsql
as $function$
begin
    raise exception 'a revoked key stays revoked' using errcode = 'check_violation', constraint = 'keys_stay_revoked';
end $function$;
revoke execute on function keep_key_revoked() from public;

-- move_access_revision: migration 0004
create function move_access_revision() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    update access_revision set revision = revision + 1;
    return null;
end $function$;
revoke execute on function move_access_revision() from public;

-- signing_key: The keys that sign codes' payloads and webhooks, of now and of before.
create table signing_key (
    kid text not null,
    public_jwk bytea not null,
    private_sealed bytea,
    certificates bytea[] not null,
    host text not null,
    expires_at timestamp with time zone not null,
    created_at timestamp with time zone not null,
    signs_from timestamp with time zone not null,
    revoked_at timestamp with time zone,
    constraint signing_key_pkey primary key (kid),
    constraint revoked_key_has_no_private_part check (revoked_at is null or private_sealed is null),
    constraint signing_key_certificates_check check (cardinality(certificates) >= 1),
    constraint signing_key_check check (signs_from >= created_at),
    constraint signing_key_kid_check check (kid ~ '^[a-zA-Z0-9_-]{43}$')
);
create trigger keys_stay_revoked before update of revoked_at on signing_key for each row when (old.revoked_at is not null and
    new.revoked_at is distinct from old.revoked_at) execute function keep_key_revoked();
create trigger signing_key_comes_to_every_process after insert on signing_key for each row execute function
    move_access_revision();
create trigger signing_key_goes_from_every_process after update of revoked_at on signing_key for each row when (old.revoked_at
    is distinct from new.revoked_at) execute function move_access_revision();
grant update (revoked_at) on table signing_key to pixconnect_operator;
grant delete, insert, select, update (private_sealed) on table signing_key to pixconnect_service;
comment on table signing_key is 'The keys that sign codes'' payloads and webhooks, of now and of before.';
comment on column signing_key.kid is 'The name of the key, which is the thumbprint of its public part.';
comment on column signing_key.public_jwk is 'The public part, as a JWK.';
comment on column signing_key.private_sealed is
    'The private part, encrypted with the secret key; null once the key signs no more.';
comment on column signing_key.certificates is 'Its chain of certificates, in DER, its own first.';
comment on column signing_key.host is 'The host that its certificate is for.';
comment on column signing_key.expires_at is 'When its certificate ends, in real time.';
comment on column signing_key.created_at is 'When it was made, in real time.';
comment on column signing_key.signs_from is 'From when it signs, in real time; it is published before.';
comment on column signing_key.revoked_at is 'When an operator revoked it, in real time: from then on it verifies nothing.';

-- refuse_change: migration 0001
create function refuse_change() returns trigger language plpgsql
as $function$
begin
    raise exception 'rows of % are never changed or deleted', tg_table_name
        using errcode = 'integrity_constraint_violation', constraint = tg_table_name || '_is_append_only';
end $function$;
revoke execute on function refuse_change() from public;

-- audit: What operators did, and what clients changed of their endpoints; rows are never changed or deleted.
create table audit (
    id bigint generated always as identity not null,
    at timestamp with time zone default clock_timestamp() not null,
    operator text not null,
    verb text collate "C" not null,
    subject text not null,
    before jsonb,
    after jsonb,
    request_id text,
    constraint audit_pkey primary key (id),
    constraint audit_operator_check check (length(operator) >= 1 and length(operator) <= 255),
    constraint audit_request_id_check check (length(request_id) >= 1 and length(request_id) <= 255),
    constraint audit_subject_check check (length(subject) >= 1 and length(subject) <= 255),
    constraint audit_verb_check check (length(verb) >= 1 and length(verb) <= 100)
);
create trigger audit_is_append_only before delete or update or truncate on audit for each statement execute function
    refuse_change();
grant insert (operator, verb, subject, before, after, request_id), select on table audit to pixconnect_console;
grant insert (operator, verb, subject, before, after, request_id), select on table audit to pixconnect_operator;
comment on table audit is 'What operators did, and what clients changed of their endpoints; rows are never changed or deleted.';
comment on column audit.id is 'Counts up.';
comment on column audit.at is 'When it was done, in real time.';
comment on column audit.operator is 'The person, or the client, who did it.';
comment on column audit.verb is 'What was done, as on the command line: holder set.';
comment on column audit.subject is 'What it was done to: holder 2.';
comment on column audit.before is 'What was there before, as JSON; null where there was nothing.';
comment on column audit.after is 'What was there afterwards, as JSON; null where it was removed.';
comment on column audit.request_id is 'The HTTP request that asked for it; null for the command line.';

-- console_operator: The people who may sign in to the console.
create table console_operator (
    name text collate "C" not null,
    role text not null,
    password_hash text not null,
    totp_sealed bytea not null,
    totp_step bigint default 0 not null,
    recovery_hashes bytea[] not null,
    created_at timestamp with time zone not null,
    reset_at timestamp with time zone,
    constraint console_operator_pkey primary key (name),
    constraint console_operator_name_check check (name ~ '^[a-z0-9][a-z0-9._@-]{0,62}$'),
    constraint console_operator_password_hash_check check (length(password_hash) >= 1 and length(password_hash) <= 255),
    constraint console_operator_role_check check (role in ('reader', 'operator'))
);
grant select, update (totp_step, recovery_hashes) on table console_operator to pixconnect_console;
grant delete, insert, select, update (password_hash, totp_sealed, totp_step, recovery_hashes, reset_at) on table
    console_operator to pixconnect_operator;
comment on table console_operator is 'The people who may sign in to the console.';
comment on column console_operator.name is 'The name by which they sign in.';
comment on column console_operator.role is 'Whether they may only look (reader) or also act (operator).';
comment on column console_operator.password_hash is 'The hash of the password by argon2id, with its parameters and salt.';
comment on column console_operator.totp_sealed is 'The secret of the second factor, encrypted with the secret key.';
comment on column console_operator.totp_step is 'The last step of 30 s whose code was used: each code is good once.';
comment on column console_operator.recovery_hashes is 'The hashes of the recovery codes that are left.';
comment on column console_operator.created_at is 'When the operator was made, in real time.';
comment on column console_operator.reset_at is 'When password and second factor were last given anew, in real time.';

-- refuse_in_live: migration 0029
create function refuse_in_live() returns trigger language plpgsql
as $function$
begin
    if not exists (select from installation where mode = 'sandbox') then
        raise exception 'nobody signs in by a link but to a sandbox'
            using errcode = 'integrity_constraint_violation', constraint = 'links_are_of_sandboxes';
    end if;
    return new;
end $function$;
revoke execute on function refuse_in_live() from public;

-- console_session: The sessions of people at the console.
create table console_session (
    id bigint generated always as identity not null,
    token_hash bytea not null,
    kind text not null,
    operator_name text collate "C",
    client_id text,
    created_at timestamp with time zone not null,
    seen_at timestamp with time zone not null,
    expires_at timestamp with time zone not null,
    constraint console_session_pkey primary key (id),
    constraint console_session_token_hash_key unique (token_hash),
    constraint console_session_check check (expires_at > created_at),
    constraint console_session_kind_check check (kind in ('operator', 'sandbox', 'holder')),
    constraint console_session_token_hash_check check (octet_length(token_hash) = 32),
    constraint session_is_of_somebody check ((kind = 'operator') = (operator_name is not null) and (kind = 'holder') =
        (client_id is not null)),
    constraint console_session_operator_name_fkey foreign key (operator_name) references console_operator(name) on delete
        cascade
);
create index console_session_by_end on console_session (expires_at);
create index console_session_of_operator on console_session (operator_name);
create trigger links_are_of_sandboxes before insert on console_session for each row when (new.kind = 'sandbox') execute function
    refuse_in_live();
grant delete, insert, select, update (seen_at, expires_at) on table console_session to pixconnect_console;
grant delete, insert, select, update (seen_at, expires_at) on table console_session to pixconnect_operator;
comment on table console_session is 'The sessions of people at the console.';
comment on column console_session.id is 'Counts up.';
comment on column console_session.token_hash is 'The hash of the session''s token, 32 octets; the token itself is nowhere.';
comment on column console_session.kind is 'Whose session it is: an operator''s, one by a link of a sandbox, or a holder''s.';
comment on column console_session.operator_name is 'The operator who signed in, in sessions of that kind only.';
comment on column console_session.client_id is 'The client by which a holder signed in, in sessions of that kind only.';
comment on column console_session.created_at is 'When it began, in real time.';
comment on column console_session.seen_at is 'When it was last used, in real time.';
comment on column console_session.expires_at is 'When it ends unless it is used before, in real time.';

-- console_link: Links that sign in to the console of a sandbox once, without a password.
create table console_link (
    token_hash bytea not null,
    expires_at timestamp with time zone not null,
    used_at timestamp with time zone,
    constraint console_link_pkey primary key (token_hash),
    constraint console_link_token_hash_check check (octet_length(token_hash) = 32)
);
create trigger links_are_of_sandboxes before insert on console_link for each row execute function refuse_in_live();
grant delete, select, update (used_at) on table console_link to pixconnect_console;
grant delete, insert, select, update (used_at) on table console_link to pixconnect_operator;
comment on table console_link is 'Links that sign in to the console of a sandbox once, without a password.';
comment on column console_link.token_hash is 'The hash of the token in the link, 32 octets.';
comment on column console_link.expires_at is 'Until when it may be used, in real time.';
comment on column console_link.used_at is 'When it was used, in real time.';

-- origin_batch: Who asked for what: a row for what one client asked for by one token from one address in one batch; kept for
-- 400 days.
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
create index origin_batch_of_fact on origin_batch (holder_id, kind, at);
grant insert (kind, holder_id, client_id, jti, peer, operator, at, ids, request_ids, traceparents), select on table origin_batch
    to pixconnect_service;
comment on table origin_batch is
    'Who asked for what: a row for what one client asked for by one token from one address in one batch; kept for 400 days.';
comment on column origin_batch.id is 'Counts up.';
comment on column origin_batch.kind is 'What the facts are: charge, charge_change, transfer, refund or endpoint.';
comment on column origin_batch.holder_id is 'The holder whose facts they are.';
comment on column origin_batch.client_id is 'The client that asked; null where an operator did.';
comment on column origin_batch.jti is 'The id of the access token; null for the console.';
comment on column origin_batch.peer is 'The address from which it was asked.';
comment on column origin_batch.operator is 'The operator who asked, as the audit names them; null where a client did.';
comment on column origin_batch.at is 'The instant that the facts themselves have, by which they are found.';
comment on column origin_batch.written_at is 'When the row was written, in real time; what is old is deleted by this.';
comment on column origin_batch.ids is 'The ids of the facts.';
comment on column origin_batch.request_ids is 'The HTTP request that asked for each of them, in the same order.';
comment on column origin_batch.traceparents is
    'The traceparent (W3C Trace Context) of each of them, in the same order; null where no traces are sent.';

-- origin: Who asked for each charge, transfer, refund and change of an endpoint: a row of origin_batch for each fact.
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
grant select on table origin to pixconnect_service;
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

-- check_charge_amount: migrations 0031, 0064
create function check_charge_amount() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if old.status not in ('PENDING', 'EXPIRED')
            and (old.institution_id is null or new.status <> 'APPROVED' or old.status = 'APPROVED')
        or old.held_by is not null and new.status <> 'APPROVED'
    then
        raise exception 'charge % of holder % is % and keeps its amount', new.id, new.holder_id, old.status
            using errcode = 'integrity_constraint_violation', constraint = 'a_paid_charge_keeps_its_amount';
    end if;
    return null;
end $function$;
revoke execute on function check_charge_amount() from public;

-- check_due_payment: migration 0127
create function check_due_payment() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if not exists (
        select from paid_amount join transfer on transfer.id = transfer_id and transfer.holder_id = paid_amount.holder_id
        where paid_amount.charge_id = new.id and paid_amount.holder_id = new.holder_id and transfer.settled_at is not null
            and paid_amount.amount_cents = new.amount_cents
            and paid_amount.original_cents = coalesce(new.asked_cents, new.amount_cents)
    ) then
        raise exception 'charge % of holder % has a due date, and nobody knows of what parts its payment consists',
            new.id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_due_charge_is_paid_in_parts';
    end if;
    return null;
end $function$;
revoke execute on function check_due_payment() from public;

-- check_family: migration 0164
create function check_family() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    misfit record;
begin
    -- Most installations have no family: that costs one look at an empty index.
    if not exists (select from holder where family_id is not null) or not exists (
        select from new_row where external_id is not null and (
            select family_id from holder where holder.id = new_row.holder_id
        ) is not null
    ) then
        return null;
    end if;
    -- Two of a family ask at once, each in a transaction of its own: the second one sees what the first has written.
    perform pg_advisory_xact_lock(hashtextextended(name, 7811888)) from (
        select distinct family_id || ' ' || external_id as name from new_row join holder on holder.id = new_row.holder_id
        where family_id is not null and external_id is not null order by 1
    ) as named;
    if tg_table_name = 'charge' then
        select new_row.id, new_row.holder_id, own.successor_id into misfit
        from new_row join holder as own on own.id = new_row.holder_id and own.family_id is not null
        where own.successor_id is not null or exists (
            select from charge as other join holder as member on member.id = other.holder_id
            where other.external_id = new_row.external_id and other.holder_id <> new_row.holder_id
                and member.family_id = own.family_id
        ) limit 1;
    elsif tg_table_name = 'transfer' then
        select new_row.id, new_row.holder_id, own.successor_id into misfit
        from new_row join holder as own on own.id = new_row.holder_id and own.family_id is not null
        where new_row.direction = 'OUT' and (own.successor_id is not null or exists (
            select from transfer as other join holder as member on member.id = other.holder_id
            where other.external_id = new_row.external_id and other.holder_id <> new_row.holder_id
                and member.family_id = own.family_id
        )) limit 1;
    else
        select new_row.id, new_row.holder_id, null::bigint as successor_id into misfit
        from new_row join holder as own on own.id = new_row.holder_id and own.family_id is not null
        where exists (
            select from refund as other join holder as member on member.id = other.holder_id
            where other.external_id = new_row.external_id and other.holder_id <> new_row.holder_id
                and member.family_id = own.family_id
        ) limit 1;
    end if;
    if found and misfit.successor_id is not null then
        raise exception 'holder % was succeeded by %, and starts no %', misfit.holder_id, misfit.successor_id, tg_table_name
            using errcode = 'integrity_constraint_violation', constraint = 'who_was_succeeded_starts_nothing';
    elsif found then
        raise exception '% % of holder % has a name that another of its family has used', tg_table_name, misfit.id, misfit.holder_id
            using errcode = 'unique_violation', constraint = 'a_family_uses_a_name_once';
    end if;
    return null;
end $function$;
revoke execute on function check_family() from public;

-- check_held_charge: migrations 0016, 0031, 0127
create function check_held_charge() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if tg_op = 'UPDATE' and exists (
        select from transfer where id = old.held_by and holder_id = old.holder_id and status = 'PROCESSING'
    ) or new.held_by is not null and not exists (
        select from transfer where id = new.held_by and holder_id = new.holder_id and charge_id = new.id
            and direction = 'IN' and status = 'PROCESSING'
            and (
                amount_cents = new.amount_cents or new.contents::jsonb ->> 'may_change_amount' = 'true'
                or new.due_on is not null and exists (
                    select from paid_amount
                    where transfer_id = new.held_by and holder_id = new.holder_id and charge_id = new.id
                )
            )
    ) then
        raise exception 'charge % of holder % cannot be held by % after %', new.id, new.holder_id, new.held_by, old.held_by
            using errcode = 'integrity_constraint_violation', constraint = 'a_charge_is_held_by_its_payment';
    end if;
    return null;
end $function$;
revoke execute on function check_held_charge() from public;

-- check_institution_of_row: migration 0064
create function check_institution_of_row() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    perform from holder where id = new.holder_id and institution_id = new.institution_id for key share;
    if not found then
        raise exception '% % of holder % is of the account %, on which the holder is not',
            tg_table_name, new.id, new.holder_id, new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'what_happens_on_an_account_is_of_its_holders';
    end if;
    return null;
end $function$;
revoke execute on function check_institution_of_row() from public;

-- check_charges: migrations 0010, 0015, 0031, 0050, 0064
create function check_charges() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
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
end $function$;
revoke execute on function check_charges() from public;

-- check_removed_there: migration 0078
create function check_removed_there() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if not exists (
        select from charge_change
        where charge_id = new.id and holder_id = new.holder_id and kind = 'remove' and state = 'done'
    ) then
        raise exception 'charge % of holder % looks removed and can still be paid at its institution', new.id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_charge_is_removed_there_first';
    end if;
    return null;
end $function$;
revoke execute on function check_removed_there() from public;

-- check_revisions: migrations 0050, 0055
create function check_revisions() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
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
end $function$;
revoke execute on function check_revisions() from public;

-- refuse_endless_instant: migration 0055
create function refuse_endless_instant() returns trigger language plpgsql
as $function$
begin
    raise exception 'a row of % is dated to an instant that never comes', tg_table_name
        using errcode = 'integrity_constraint_violation', constraint = 'instants_are_finite';
end $function$;
revoke execute on function refuse_endless_instant() from public;

-- refuse_change_under_payment: migration 0055
create function refuse_change_under_payment() returns trigger language plpgsql
as $function$
begin
    raise exception 'charge % of holder % is held by % and stays as it was accepted', old.id, old.holder_id, old.held_by
        using errcode = 'integrity_constraint_violation', constraint = 'a_held_charge_stays_as_it_is';
end $function$;
revoke execute on function refuse_change_under_payment() from public;

-- refuse_other_kind: migration 0127
create function refuse_other_kind() returns trigger language plpgsql
as $function$
begin
    raise exception 'charge % of holder % cannot gain or lose its due date', new.id, new.holder_id
        using errcode = 'integrity_constraint_violation', constraint = 'a_charge_keeps_its_kind';
end $function$;
revoke execute on function refuse_other_kind() from public;

-- charge: Requests to be paid, each with a QR code; the contract's charges and the standard's are the same.
create table charge (
    id bigint not null,
    holder_id bigint not null,
    external_id text collate "C" not null,
    fingerprint bytea not null,
    txid text collate "C" not null,
    amount_cents bigint not null,
    key text not null,
    payer_name text,
    payer_tax_id text,
    br_code text not null,
    status text not null,
    slot smallint not null,
    created_at timestamp with time zone not null,
    modified_at timestamp with time zone not null,
    expires_at timestamp with time zone not null,
    held_by bigint,
    contents text,
    revision integer,
    is_unbound boolean,
    institution_id smallint,
    asked_cents bigint,
    due_on date,
    constraint charge_pkey primary key (id, holder_id),
    constraint charge_external_id_is_used_once unique (external_id, holder_id),
    constraint charge_txid_is_used_once unique (txid, holder_id),
    constraint a_due_charge_says_so check (due_on is null or isfinite(due_on) and contents is not null and amount_cents > 0),
    constraint charge_amount_cents_check check (amount_cents >= 0 and amount_cents <= 999999999999 and (amount_cents > 0 or
        contents is not null and (status <> all (array['APPROVED', 'RETURNED'])))),
    constraint charge_br_code_check check (length(br_code) <= 512),
    constraint charge_check check ((payer_name is null) = (payer_tax_id is null)),
    constraint charge_external_id_check check (length(external_id) >= 1 and length(external_id) <= 255),
    constraint charge_id_check check (id >= 1 and id <= 9007199254740991),
    constraint charge_key_check check (length(key) >= 1 and length(key) <= 77),
    constraint charge_slot_check check (slot >= 0 and slot <= 255),
    constraint charge_status_check check (status in ('PENDING', 'APPROVED', 'EXPIRED', 'RETURNED', 'REMOVED_BY_RECEIVER',
        'REMOVED_BY_PSP')),
    constraint charge_txid_check check (length(txid) >= 26 and length(txid) <= 35),
    constraint only_pending_charge_is_held check (held_by is null or status = 'PENDING'),
    constraint revision_has_contents check (revision is null or contents is not null and revision > 0)
);
create index charge_due on charge (expires_at, slot) where status = 'PENDING';
create index charge_due_list on charge ((holder_id + 0), status, created_at, id) where due_on is not null;
create index charge_due_there on charge (institution_id, expires_at) where status = 'PENDING' and institution_id is not null;
create index charge_list on charge ((holder_id + 0), status, created_at, id);
create index charge_of_debtor on charge ((holder_id + 0), payer_tax_id, created_at, id) where payer_tax_id is not null;
create index charge_unbound on charge ((holder_id + 0), created_at, id) where is_unbound;
create trigger check_amount after update of amount_cents on charge for each row when (old.amount_cents <> new.amount_cents)
    execute function check_charge_amount();
create trigger check_due_payment after update of status on charge for each row when (new.due_on is not null and
    new.institution_id is null and old.status <> new.status and new.status = 'APPROVED') execute function check_due_payment();
create trigger check_family after insert on charge referencing new table as new_row for each statement execute function
    check_family();
create trigger check_held after update of held_by on charge for each row when (old.held_by is distinct from new.held_by) execute
    function check_held_charge();
create trigger check_institution after insert on charge for each row when (new.institution_id is not null) execute function
    check_institution_of_row();
create trigger check_moved after update on charge referencing old table as old_row new table as new_row for each statement
    execute function check_charges();
create trigger check_new after insert on charge referencing new table as new_row for each statement execute function
    check_charges();
create trigger check_new_held after insert on charge for each row when (new.held_by is not null) execute function
    check_held_charge();
create trigger check_removed_there after update on charge for each row when (new.institution_id is not null and old.status <>
    new.status and (new.status in ('REMOVED_BY_RECEIVER', 'REMOVED_BY_PSP'))) execute function check_removed_there();
create trigger check_revision after update of revision on charge for each row when (old.revision is distinct from new.revision)
    execute function check_revisions();
create trigger instants_are_finite after insert or update of expires_at on charge for each row when (not
    isfinite(new.expires_at)) execute function refuse_endless_instant();
create trigger keep_held after update of contents, key, expires_at on charge for each row when (old.held_by is not null and
    (old.contents is distinct from new.contents or old.key <> new.key or old.expires_at < new.expires_at)) execute function
    refuse_change_under_payment();
create trigger keep_kind after update of due_on on charge for each row when ((old.due_on is null) <> (new.due_on is null))
    execute function refuse_other_kind();
grant insert, select, update (amount_cents, key, payer_name, payer_tax_id, br_code, status, modified_at, expires_at, held_by,
    contents, revision, is_unbound, asked_cents, due_on) on table charge to pixconnect_service;
comment on table charge is
    'Requests to be paid, each with a QR code; the contract''s charges and the standard''s are the same.';
comment on column charge.id is 'Counts up, in blocks.';
comment on column charge.holder_id is 'The holder who wants to be paid.';
comment on column charge.external_id is 'The client''s own name for it, unique for the holder: the idempotency key.';
comment on column charge.fingerprint is 'A hash of the request that made it, which tells a replay from a conflict.';
comment on column charge.txid is 'Its name on the network, 26 to 35 letters and digits.';
comment on column charge.amount_cents is 'How much, in cents; 0 where the payer chooses, until it is paid.';
comment on column charge.key is 'The Pix key that is paid.';
comment on column charge.payer_name is
    'The name of the debtor whom the charge names; null where it names none. Anybody may pay.';
comment on column charge.payer_tax_id is 'The CPF or CNPJ of that debtor.';
comment on column charge.br_code is 'The QR code as text.';
comment on column charge.status is 'How far it is.';
comment on column charge.slot is 'The slot of work it belongs to, 0 to 255: one worker at a time looks after it.';
comment on column charge.created_at is 'When it was made, in service time.';
comment on column charge.modified_at is 'When it last changed, in service time.';
comment on column charge.expires_at is 'From when it cannot be paid, in service time.';
comment on column charge.held_by is
    'The transfer that was accepted for it and has not ended: nobody else can pay it, and it does not expire.';
comment on column charge.contents is
    'The standard''s latest contents, as JSON; null for a charge of the contract that the standard never changed.';
comment on column charge.revision is 'How often its contents were changed; null is never.';
comment on column charge.is_unbound is 'Whether its location was taken away, so that no code leads to it; null is no.';
comment on column charge.institution_id is 'The account at which it was opened; null is the installation''s own rail.';
comment on column charge.asked_cents is 'What it asked for, where another amount has paid it.';
comment on column charge.due_on is 'The due date that it says; null for a charge that is to be paid at once.';

-- await_names: migration 0055
create function await_names() returns trigger language plpgsql
as $function$
begin
    if tg_op = 'INSERT' then
        perform pg_advisory_xact_lock_shared(7811887);
    else
        perform pg_advisory_xact_lock(7811887);
    end if;
    return null;
end $function$;
revoke execute on function await_names() from public;

-- check_holding_transfer: migration 0016
create function check_holding_transfer() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if (new.status = 'PROCESSING') <> exists (
        select from charge where id = new.charge_id and holder_id = new.holder_id and held_by = new.id
    ) then
        raise exception 'transfer % of holder % is % and does not agree with its charge', new.id, new.holder_id, new.status
            using errcode = 'integrity_constraint_violation', constraint = 'an_accepted_payment_holds_its_charge';
    end if;
    return null;
end $function$;
revoke execute on function check_holding_transfer() from public;

-- check_legs: migration 0161
create function check_legs() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if tg_table_name = 'transfer' then
        perform from transfer as leg join holder as payer on payer.id = leg.holder_id join holder as payee on payee.id = new.holder_id
        where leg.end_to_end_id = new.end_to_end_id and leg.direction = 'OUT'
            and payer.institution_id is distinct from payee.institution_id;
    else
        perform from refund as leg join holder as payer on payer.id = leg.holder_id join holder as payee on payee.id = new.holder_id
        where leg.return_id = new.return_id and leg.flow = 'OUT' and payer.institution_id is distinct from payee.institution_id;
    end if;
    if found then
        raise exception '% % of holder % goes by book between two accounts', tg_table_name, new.id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'both_legs_lie_on_one_account';
    end if;
    return null;
end $function$;
revoke execute on function check_legs() from public;

-- check_transfers: migrations 0010, 0015, 0050
create function check_transfers() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    misfit record;
begin
    if tg_op = 'INSERT' then
        select way.* into misfit from (
            select max(id) as id, max(holder_id) as holder_id, direction, is_book, 'NEW'::text as before, status as after,
                entries_count, bool_and(has_legs and agrees) as agrees
            from (
                select id, holder_id, direction, is_book, status,
                    (
                        select count(*) from ledger_entry as entry
                        where entry.transfer_id = new_row.id and entry.holder_id = new_row.holder_id and entry.refund_id is null
                    ) as entries_count,
                    not is_book or coalesce((
                        select count(*) = 2 and bool_or(leg.direction = 'IN') and bool_or(leg.direction = 'OUT')
                            and bool_and(leg.is_book and leg.amount_cents = new_row.amount_cents and leg.status = new_row.status)
                        from transfer as leg where leg.end_to_end_id = new_row.end_to_end_id
                    ), false) as has_legs,
                    coalesce(case
                        when direction = 'OUT' and status = 'PROCESSING' and not is_book then (
                            select ordered.resource_id = new_row.id and ordered.holder_id = new_row.holder_id
                                and ordered.slot = new_row.slot and ordered.network_id is not distinct from new_row.network_id
                            from open_order as ordered where ordered.name = new_row.end_to_end_id
                        )
                        when charge_id is not null and settled_at is not null then (
                            select charge.amount_cents = new_row.amount_cents
                                and charge.status = case new_row.status when 'RETURNED' then 'RETURNED' else 'APPROVED' end
                            from charge where charge.id = new_row.charge_id and charge.holder_id = new_row.holder_id
                        )
                        else true
                    end, false)
                    and (returned_cents + returning_cents = 0 or (
                        select coalesce(sum(given.amount_cents) filter (where given.status = 'RETURNED'), 0) = returned_cents
                            and coalesce(sum(given.amount_cents)
                                filter (where given.status = 'PROCESSING' and given.flow = 'OUT'), 0) = returning_cents
                        from refund as given where given.transfer_id = new_row.id and given.holder_id = new_row.holder_id
                    ))
                    -- A name that goes out and comes in is one payment between two of ours, and of one amount.
                    and namesake = 0 and (is_book or (
                        select count(*) from transfer as other
                        where other.end_to_end_id = new_row.end_to_end_id and other.amount_cents <> new_row.amount_cents
                    ) + (
                        select count(*) from transfer as other
                        where other.network_id = new_row.end_to_end_id
                            and (new_row.direction = 'OUT' or other.amount_cents <> new_row.amount_cents)
                    ) = 0) as agrees
                from new_row
            ) as each
            group by direction, is_book, status, entries_count
        ) as way
        where way.agrees is not true
            or not exists (
                select from allowed_transition as allowed
                where allowed.kind = 'transfer' and allowed.direction = way.direction and allowed.is_book = way.is_book
                    and allowed.before = way.before and allowed.after = way.after
            )
            or way.entries_count <> (
                select count(*) from allowed_posting as allowed
                where allowed.kind = 'transfer' and allowed.direction = way.direction and allowed.is_book = way.is_book
                    and allowed.status = way.after
            )
        limit 1;
    else
        select way.* into misfit from (
            select max(id) as id, max(holder_id) as holder_id, direction, is_book, before, after, entries_count,
                bool_and(has_legs and agrees) as agrees
            from (
                select id, holder_id, direction, is_book, before, after,
                    case when before <> after then (
                        select count(*) from ledger_entry as entry
                        where entry.transfer_id = moved.id and entry.holder_id = moved.holder_id and entry.refund_id is null
                    ) end as entries_count,
                    before = after or is_book is false or coalesce((
                        select count(*) = 2 and bool_or(leg.direction = 'IN') and bool_or(leg.direction = 'OUT')
                            and bool_and(leg.is_book and leg.amount_cents = moved.amount_cents and leg.status = moved.after)
                        from transfer as leg where leg.end_to_end_id = moved.end_to_end_id
                    ), false) as has_legs,
                    coalesce(case
                        when before = after then true
                        when before = 'PROCESSING' and direction = 'OUT' then (
                            select count(*) from open_order as ordered where ordered.name = moved.end_to_end_id
                        ) = 0
                        when charge_id is not null and after in ('CONFIRMED', 'RETURNED') then (
                            select charge.amount_cents = moved.amount_cents
                                and charge.status = case moved.after when 'RETURNED' then 'RETURNED' else 'APPROVED' end
                            from charge where charge.id = moved.charge_id and charge.holder_id = moved.holder_id
                        )
                        else true
                    end, false)
                    and (returned_cents = returned_before and returning_cents = returning_before or (
                        select coalesce(sum(given.amount_cents) filter (where given.status = 'RETURNED'), 0) = returned_cents
                            and coalesce(sum(given.amount_cents)
                                filter (where given.status = 'PROCESSING' and given.flow = 'OUT'), 0) = returning_cents
                        from refund as given where given.transfer_id = moved.id and given.holder_id = moved.holder_id
                    ))
                    or (
                        select count(*) from offending_row as listed
                        where listed.table_name = 'transfer' and listed.id = moved.id and listed.holder_id = moved.holder_id
                    ) > 0 as agrees
                from ( -- grouped, not joined: a plan that was made for one row must serve a whole group
                    select id, holder_id, max(before) as before, max(after) as after, max(direction) as direction,
                        bool_or(is_book) as is_book, max(amount_cents) as amount_cents, max(end_to_end_id) as end_to_end_id,
                        max(charge_id) as charge_id, max(returned_before) as returned_before,
                        max(returning_before) as returning_before, max(returned_cents) as returned_cents,
                        max(returning_cents) as returning_cents
                    from (
                        select id, holder_id, status as before, null as after, null as direction, null::boolean as is_book,
                            null::bigint as amount_cents, null as end_to_end_id, null::bigint as charge_id,
                            returned_cents as returned_before, returning_cents as returning_before,
                            null::bigint as returned_cents, null::bigint as returning_cents
                        from old_row
                        union all
                        select id, holder_id, null, status, direction, is_book, amount_cents, end_to_end_id, charge_id,
                            null, null, returned_cents, returning_cents
                        from new_row
                    ) as side
                    group by id, holder_id
                    having max(before) is distinct from max(after) or max(returned_before) <> max(returned_cents)
                        or max(returning_before) <> max(returning_cents)
                ) as moved
            ) as each
            group by direction, is_book, before, after, entries_count
        ) as way
        where way.agrees is not true
            or way.before is distinct from way.after and (
                not exists (
                    select from allowed_transition as allowed
                    where allowed.kind = 'transfer' and allowed.direction = way.direction and allowed.is_book = way.is_book
                        and allowed.before = way.before and allowed.after = way.after
                )
                or way.entries_count <> (
                    select count(*) from allowed_posting as allowed
                    where allowed.kind = 'transfer' and allowed.direction = way.direction and allowed.is_book = way.is_book
                        and allowed.status = way.after
                )
            )
        limit 1;
    end if;
    if found then
        raise exception 'transfer % of holder % cannot go from % to % with the entries, refunds, order and charge that it has',
            misfit.id, misfit.holder_id, misfit.before, misfit.after
            using errcode = 'integrity_constraint_violation', constraint = 'a_transfer_has_what_belongs_to_it';
    end if;
    return null;
end $function$;
revoke execute on function check_transfers() from public;

-- check_account_is_open: migration 0082
create function check_account_is_open() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
declare
    account record;
begin
    select institution_account.name, institution_account.state into account
    from holder join institution_account on institution_account.id = holder.institution_id
    where holder.id = new.holder_id for share of institution_account;
    if account.state = 'closed' then
        raise exception 'holder % is on the account %, which is closed', new.holder_id, account.name
            using errcode = 'integrity_constraint_violation', constraint = 'nothing_moves_on_a_closed_account';
    end if;
    return null;
end $function$;
revoke execute on function check_account_is_open() from public;

-- check_payer: migrations 0074, 0139
create function check_payer() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if new.counterparty = erased_party() and exists (
        select from erased_text
        where kind = 'transfer' and erased_text.id = new.id and erased_text.holder_id = new.holder_id and part = 'all'
    ) then
        return null;
    end if;
    if new.direction <> 'IN' or new.institution_id is null or not exists (
        select from payer_completion as completion
        where completion.transfer_id = new.id and completion.holder_id = new.holder_id and completion.before = old.counterparty
    ) or exists (
        select from jsonb_each_text(old.counterparty) as told (member, content)
        where new.counterparty ->> member is distinct from content
            and content not in ('0', '-', '99999999', '00000000000') and content not like '%*%'
    ) then
        raise exception 'transfer % of holder % keeps what is known of its payer', new.id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_payer_becomes_known_once';
    end if;
    return null;
end $function$;
revoke execute on function check_payer() from public;

-- check_suspect_credit: migration 0149
create function check_suspect_credit() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if tg_table_name = 'transfer' and exists (
        -- Few of a holder are open, and an index has these.
        select from block
        where block.holder_id = new.holder_id and block.state = 'open' and block.transfer_id = new.id
            and block.kind = 'precautionary'
    ) or tg_table_name = 'block' and exists (
        select from block
        left join transfer on transfer.id = block.transfer_id and transfer.holder_id = block.holder_id
        where block.id = new.id and block.holder_id = new.holder_id and (
            transfer.id is null or (block.state = 'open') <> (transfer.status = 'PROCESSING')
            or block.state = 'open' and block.covered_cents <> transfer.amount_cents
            or block.covered_cents <> block.held_cents or block.held_cents <> block.wanted_cents
        )
    ) then
        raise exception 'a suspect credit of holder % is not held as its transfer says', new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_suspect_credit_is_held_whole';
    end if;
    return null;
end $function$;
revoke execute on function check_suspect_credit() from public;

-- refuse_other_end: migration 0050
create function refuse_other_end() returns trigger language plpgsql
as $function$
begin
    raise exception '% % of holder % is % and keeps when and how it ended', tg_table_name, old.id, old.holder_id, old.status
        using errcode = 'integrity_constraint_violation', constraint = 'an_end_is_written_once';
end $function$;
revoke execute on function refuse_other_end() from public;

-- take_network_id: migrations 0018, 0050
create function take_network_id() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    own_name text;
begin
    if old.network_id is not null
        or exists (
            select from transfer where end_to_end_id = new.network_id
                and (direction = 'OUT' or amount_cents <> new.amount_cents)
        )
        or exists (
            select from refund where return_id = new.network_id and (flow = 'OUT' or amount_cents <> new.amount_cents)
        )
    then
        raise exception '% cannot be called % on the network', new.id, new.network_id
            using errcode = 'integrity_constraint_violation', constraint = 'network_id_is_told_once';
    end if;
    if tg_table_name = 'transfer' then
        own_name := new.end_to_end_id;
        update refund set original_end_to_end_id = new.network_id
        where refund.transfer_id = new.id and refund.holder_id = new.holder_id;
    else
        own_name := new.return_id;
    end if;
    if (select count(*) from open_order where name = own_name and network_id is distinct from new.network_id) > 0 then
        raise exception 'the order % is not called % on the network', own_name, new.network_id
            using errcode = 'integrity_constraint_violation', constraint = 'an_order_is_called_as_what_was_ordered';
    end if;
    return null;
end $function$;
revoke execute on function take_network_id() from public;

-- transfer: Money moved over the rail, or by book between two holders of ours, which makes a row for each.
create table transfer (
    id bigint not null,
    holder_id bigint not null,
    direction text not null,
    initiation_type text not null,
    is_book boolean default false not null,
    external_id text collate "C",
    fingerprint bytea,
    end_to_end_id text collate "C" not null,
    correlation_id uuid not null,
    txid text,
    charge_id bigint,
    amount_cents bigint not null,
    status text not null,
    own_key text,
    counterparty jsonb not null,
    outcome_code text,
    outcome_reason text,
    returned_cents bigint default 0 not null,
    returning_cents bigint default 0 not null,
    slot smallint not null,
    handed_at timestamp with time zone,
    settled_at timestamp with time zone,
    created_at timestamp with time zone not null,
    modified_at timestamp with time zone not null,
    network_id text collate "C",
    payer_message text,
    namesake smallint default 0 not null,
    acceptance_refused boolean,
    network_settled_at timestamp with time zone,
    institution_id smallint,
    constraint transfer_pkey primary key (id, holder_id),
    constraint transfer_external_id_is_used_once unique (external_id, holder_id),
    constraint handed_transfer_is_never_cancelled check (status <> 'CANCELLED' or handed_at is null),
    constraint network_id_is_of_an_order check (network_id is null or length(network_id) = 32 and network_id ~~ 'E%' and
        network_id <> end_to_end_id and direction = 'OUT' and not is_book),
    constraint returns_stay_within_transfer check (returned_cents >= 0 and returning_cents >= 0 and (returned_cents +
        returning_cents) <= amount_cents and ((returned_cents + returning_cents) = 0 or settled_at is not null) and (status =
        'RETURNED') = (returned_cents = amount_cents)),
    constraint transfer_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint transfer_check check ((direction = 'OUT') = (external_id is not null) and (external_id is null) = (fingerprint is
        null)),
    constraint transfer_check1 check (charge_id is null or direction = 'IN'),
    constraint transfer_check2 check ((settled_at is not null) = (status in ('CONFIRMED', 'RETURNED'))),
    constraint transfer_check3 check (handed_at is null or direction = 'OUT'),
    constraint transfer_direction_check check (direction in ('IN', 'OUT')),
    constraint transfer_end_to_end_id_check check (length(end_to_end_id) = 32 and end_to_end_id ~~ 'E%'),
    constraint transfer_external_id_check check (length(external_id) >= 1 and length(external_id) <= 255),
    constraint transfer_id_check check (id >= 1 and id <= 9007199254740991),
    constraint transfer_initiation_type_check check (initiation_type in ('KEY', 'MANUAL', 'QRCODE')),
    constraint transfer_slot_check check (slot >= 0 and slot <= 255),
    constraint transfer_status_check check (status in ('PROCESSING', 'CONFIRMED', 'ERROR', 'CANCELLED', 'RETURNED')),
    constraint transfer_txid_check check (length(txid) >= 1 and length(txid) <= 35)
);
create unique index charge_is_paid_once on transfer (charge_id, holder_id) where charge_id is not null and settled_at is not
    null;
create index transfer_accepted on transfer (created_at) where direction = 'IN' and status = 'PROCESSING';
create index transfer_list on transfer ((holder_id + 0), status, created_at, id);
create unique index transfer_name_is_used_once on transfer (end_to_end_id, direction, namesake);
create unique index transfer_network_id_is_used_once on transfer (network_id) where network_id is not null;
create index transfer_of_institution on transfer (institution_id, network_settled_at) where institution_id is not null;
create index transfer_paid_there on transfer (institution_id, ( case initiation_type when 'MANUAL' then ((((counterparty ->>
    'ispb') || '/') || (counterparty ->> 'branch')) || '/') || (counterparty ->> 'account_number') else counterparty ->> 'key'
    end)) where institution_id is not null and direction = 'OUT' and settled_at is not null;
create index transfer_payee on transfer (holder_id, ( case initiation_type when 'MANUAL' then ((((counterparty ->> 'ispb') ||
    '/') || (counterparty ->> 'branch')) || '/') || (counterparty ->> 'account_number') else coalesce(counterparty ->> 'key',
    ((((counterparty ->> 'ispb') || '/') || (counterparty ->> 'branch')) || '/') || (counterparty ->> 'account_number')) end),
    (counterparty ->> 'tax_id')) where direction = 'OUT' and settled_at is not null and not is_book;
create index transfer_received on transfer ((holder_id + 0), settled_at, id) where direction = 'IN' and settled_at is not null;
create index transfer_received_by_txid on transfer ((holder_id + 0), txid) where direction = 'IN' and settled_at is not null and
    charge_id is null and txid is not null;
create index transfer_redated on transfer ((holder_id - 0), network_settled_at, id) where direction = 'IN' and settled_at is not
    null and ((settled_at - network_settled_at) >= '00:01:00'::interval or (settled_at - network_settled_at) <=
    '-00:01:00'::interval);
create index transfer_redated_by_ours on transfer ((holder_id - 0), settled_at) where direction = 'IN' and settled_at is not
    null and ((settled_at - network_settled_at) >= '00:01:00'::interval or (settled_at - network_settled_at) <=
    '-00:01:00'::interval);
create trigger await_names after insert on transfer for each statement execute function await_names();
create trigger await_naming after update of network_id on transfer for each row when (new.network_id is distinct from
    old.network_id) execute function await_names();
create trigger check_family after insert on transfer referencing new table as new_row for each statement execute function
    check_family();
create trigger check_holding after update of status on transfer for each row when (old.direction = 'IN' and old.status =
    'PROCESSING' and old.charge_id is not null) execute function check_holding_transfer();
create trigger check_institution after insert on transfer for each row when (new.institution_id is not null) execute function
    check_institution_of_row();
create trigger check_legs after insert on transfer for each row when (new.is_book and new.direction = 'IN') execute function
    check_legs();
create trigger check_moved after update on transfer referencing old table as old_row new table as new_row for each statement
    execute function check_transfers();
create trigger check_new after insert on transfer referencing new table as new_row for each statement execute function
    check_transfers();
create trigger check_new_holding after insert on transfer for each row when (new.direction = 'IN' and new.status = 'PROCESSING'
    and new.charge_id is not null) execute function check_holding_transfer();
create trigger check_open after insert on transfer for each row when (new.institution_id is not null) execute function
    check_account_is_open();
create trigger check_payer after update of counterparty on transfer for each row when (old.counterparty is distinct from
    new.counterparty) execute function check_payer();
create constraint trigger check_suspect_credit after update on transfer deferrable initially deferred for each row when
    (old.direction = 'IN' and old.status = 'PROCESSING' and new.status <> 'PROCESSING') execute function check_suspect_credit();
create trigger keep_end after update of handed_at, settled_at, network_settled_at, outcome_code, outcome_reason on transfer for
    each row when ((old.status <> 'PROCESSING' or new.status = 'PROCESSING') and (old.handed_at is distinct from new.handed_at
    or old.settled_at is distinct from new.settled_at or old.network_settled_at is distinct from new.network_settled_at or
    old.outcome_code is distinct from new.outcome_code or old.outcome_reason is distinct from new.outcome_reason)) execute
    function refuse_other_end();
create trigger take_network_id after update of network_id on transfer for each row when (new.network_id is distinct from
    old.network_id) execute function take_network_id();
grant insert, select, update (status, counterparty, outcome_code, outcome_reason, returned_cents, returning_cents, handed_at,
    settled_at, modified_at, network_id, network_settled_at) on table transfer to pixconnect_service;
comment on table transfer is 'Money moved over the rail, or by book between two holders of ours, which makes a row for each.';
comment on column transfer.id is 'Counts up, in blocks; unique together with the holder.';
comment on column transfer.holder_id is 'The holder from or to whom it goes.';
comment on column transfer.direction is 'Whether it came in (IN) or went out (OUT).';
comment on column transfer.initiation_type is 'How the payer named the payee: by key, by account (MANUAL) or by QR code.';
comment on column transfer.is_book is 'Whether it is between two holders of ours, without the rail.';
comment on column transfer.external_id is
    'The client''s own name for an outgoing one, unique for the holder: the idempotency key.';
comment on column transfer.fingerprint is
    'A hash of the request that made an outgoing one, which tells a replay from a conflict.';
comment on column transfer.end_to_end_id is
    'Its name on the network; of an outgoing one ours, which the rail is asked by and which never changes.';
comment on column transfer.correlation_id is 'The id that everything of one payment shares, refunds included.';
comment on column transfer.txid is 'The txid of the QR code that it pays; null without one.';
comment on column transfer.charge_id is 'The charge that an incoming one pays, or was refused for.';
comment on column transfer.amount_cents is 'How much, in cents.';
comment on column transfer.status is 'How far it is.';
comment on column transfer.own_key is
    'The holder''s Pix key: by which the payer of an incoming one found it, or by which it sent one at an institution''s face.';
comment on column transfer.counterparty is 'Who is on the other side, as JSON: name, tax id, institution, account.';
comment on column transfer.outcome_code is 'Why it failed, as a code of the network or of ours; null otherwise.';
comment on column transfer.outcome_reason is 'Why it failed, in words.';
comment on column transfer.returned_cents is 'How much of it has been given back by refunds that settled, in cents.';
comment on column transfer.returning_cents is 'How much of it is in refunds under way, in cents.';
comment on column transfer.slot is 'The slot of work it belongs to, 0 to 255: its charge''s and its refunds'' too.';
comment on column transfer.handed_at is
    'When an outgoing one was handed to the rail, in service time; while it is under way only open_order says it.';
comment on column transfer.settled_at is 'When it settled, in service time; null where it has not.';
comment on column transfer.created_at is 'When it was written, in service time.';
comment on column transfer.modified_at is 'When it last changed, in service time.';
comment on column transfer.network_id is
    'What the network calls an outgoing one where that is not end_to_end_id; written once.';
comment on column transfer.payer_message is 'What the payer wrote.';
comment on column transfer.namesake is
    'Tells rows of one name apart that were there before a name was one fact; 0 for all others.';
comment on column transfer.acceptance_refused is
    'Whether we refused an incoming one before it settled: if it settles all the same, a person has to see it.';
comment on column transfer.network_settled_at is
    'When it settled by the network''s clock; null where it has not, is by book, or is older than this column.';
comment on column transfer.institution_id is
    'The account on which it happened; null is the installation''s own rail, or by book.';

-- keep_unless_erased: migration 0139
create function keep_unless_erased() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if to_jsonb(new) - tg_argv[0] <> to_jsonb(old) - tg_argv[0] or to_jsonb(new) -> tg_argv[0] <> erased_party()
        or not exists (
            select from erased_text
            where kind = 'transfer' and id = new.transfer_id and holder_id = new.holder_id and part = 'all'
        )
    then
        raise exception 'rows of % are never changed or deleted', tg_table_name
            using errcode = 'integrity_constraint_violation', constraint = tg_table_name || '_is_append_only';
    end if;
    return new;
end $function$;
revoke execute on function keep_unless_erased() from public;

-- payer_completion: Payments whose payer an institution told only later; rows are never changed or deleted.
create table payer_completion (
    transfer_id bigint not null,
    holder_id bigint not null,
    before jsonb not null,
    completed_at timestamp with time zone not null,
    constraint payer_completion_pkey primary key (transfer_id, holder_id),
    constraint payer_completion_completed_at_check check (isfinite(completed_at)),
    constraint payer_completion_transfer_id_holder_id_fkey foreign key (transfer_id, holder_id) references transfer(id,
        holder_id)
);
create trigger keep_unless_erased before update on payer_completion for each row execute function keep_unless_erased('before');
create trigger payer_completion_is_append_only before delete or truncate on payer_completion for each statement execute function
    refuse_change();
grant insert, select on table payer_completion to pixconnect_service;
comment on table payer_completion is 'Payments whose payer an institution told only later; rows are never changed or deleted.';
comment on column payer_completion.transfer_id is 'The payment.';
comment on column payer_completion.holder_id is 'Its holder.';
comment on column payer_completion.before is 'What was known of the payer before, as JSON.';
comment on column payer_completion.completed_at is 'When the rest became known, in service time.';

-- check_paid_amount: migration 0127
create function check_paid_amount() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if not exists (
        select from transfer join charge on charge.id = transfer.charge_id and charge.holder_id = transfer.holder_id
        where transfer.id = new.transfer_id and transfer.holder_id = new.holder_id and transfer.charge_id = new.charge_id
            and transfer.direction = 'IN' and transfer.amount_cents = new.amount_cents
            and charge.due_on is not null and coalesce(charge.asked_cents, charge.amount_cents) = new.original_cents
    ) then
        raise exception 'transfer % of holder % is no payment of the charge % with these parts',
            new.transfer_id, new.holder_id, new.charge_id
            using errcode = 'integrity_constraint_violation', constraint = 'parts_are_of_a_payment';
    end if;
    return null;
end $function$;
revoke execute on function check_paid_amount() from public;

-- paid_amount: Of what parts a payment of a charge with a due date consists, by the day of its report; rows are never changed
-- or deleted.
create table paid_amount (
    transfer_id bigint not null,
    holder_id bigint not null,
    charge_id bigint not null,
    amount_cents bigint not null,
    original_cents bigint not null,
    fine_cents bigint not null,
    interest_cents bigint not null,
    rebate_cents bigint not null,
    discount_cents bigint not null,
    constraint paid_amount_pkey primary key (transfer_id, holder_id),
    constraint an_amount_is_the_sum_of_its_parts check (amount_cents = (original_cents + fine_cents + interest_cents -
        rebate_cents - discount_cents)),
    constraint paid_amount_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint paid_amount_discount_cents_check check (discount_cents >= 0),
    constraint paid_amount_fine_cents_check check (fine_cents >= 0),
    constraint paid_amount_interest_cents_check check (interest_cents >= 0),
    constraint paid_amount_original_cents_check check (original_cents >= 1 and original_cents <= 999999999999),
    constraint paid_amount_rebate_cents_check check (rebate_cents >= 0),
    constraint paid_amount_transfer_id_holder_id_fkey foreign key (transfer_id, holder_id) references transfer(id, holder_id)
);
create index paid_amount_of_charge on paid_amount (charge_id, holder_id);
create trigger check_new after insert on paid_amount for each row execute function check_paid_amount();
create trigger paid_amount_is_append_only before delete or update or truncate on paid_amount for each statement execute function
    refuse_change();
grant insert, select on table paid_amount to pixconnect_service;
comment on table paid_amount is
    'Of what parts a payment of a charge with a due date consists, by the day of its report; rows are never changed or deleted.';
comment on column paid_amount.transfer_id is 'The payment.';
comment on column paid_amount.holder_id is 'The holder who is paid.';
comment on column paid_amount.charge_id is 'The charge.';
comment on column paid_amount.amount_cents is 'What was paid: the sum of its parts.';
comment on column paid_amount.original_cents is 'What the charge says.';
comment on column paid_amount.fine_cents is 'The fine for being late.';
comment on column paid_amount.interest_cents is 'The interest for being late.';
comment on column paid_amount.rebate_cents is 'What is taken off on every day.';
comment on column paid_amount.discount_cents is 'What is taken off for being early.';

-- check_settled_payee: migration 0132
create function check_settled_payee() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if not exists (
        select from transfer
        where id = new.transfer_id and holder_id = new.holder_id and direction = 'OUT' and settled_at is not null
            and institution_id is not null
    ) then
        raise exception 'transfer % of holder % has reached nobody over an account', new.transfer_id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'only_a_settled_transfer_has_reached_somebody';
    end if;
    return new;
end $function$;
revoke execute on function check_settled_payee() from public;

-- settled_payee: Whom transfers over accounts at institutions have reached, as it was told with their end; rows are never
-- changed or deleted.
create table settled_payee (
    transfer_id bigint not null,
    holder_id bigint not null,
    payee jsonb not null,
    told_at timestamp with time zone not null,
    constraint settled_payee_pkey primary key (transfer_id, holder_id),
    constraint settled_payee_told_at_check check (isfinite(told_at)),
    constraint settled_payee_transfer_id_holder_id_fkey foreign key (transfer_id, holder_id) references transfer(id, holder_id)
);
create trigger check_settled_payee before insert on settled_payee for each row execute function check_settled_payee();
create trigger keep_unless_erased before update on settled_payee for each row execute function keep_unless_erased('payee');
create trigger settled_payee_is_append_only before delete or truncate on settled_payee for each statement execute function
    refuse_change();
grant insert, select on table settled_payee to pixconnect_service;
comment on table settled_payee is
    'Whom transfers over accounts at institutions have reached, as it was told with their end; rows are never changed or deleted.';
comment on column settled_payee.transfer_id is 'The transfer.';
comment on column settled_payee.holder_id is 'Its holder.';
comment on column settled_payee.payee is 'What was known of the payee then, as JSON: of what is masked with its stars.';
comment on column settled_payee.told_at is 'When it was told, in service time.';

-- check_pending_approval: migration 0125
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
revoke execute on function check_pending_approval() from public;

-- pending_approval: Outgoing transfers that had to wait for an operator's yes, and why; rows are never changed or deleted.
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
create trigger check_new after insert on pending_approval for each row execute function check_pending_approval();
create trigger pending_approval_is_append_only before delete or update or truncate on pending_approval for each statement
    execute function refuse_change();
grant insert, select on table pending_approval to pixconnect_service;
comment on table pending_approval is
    'Outgoing transfers that had to wait for an operator''s yes, and why; rows are never changed or deleted.';
comment on column pending_approval.order_name is 'The transfer''s end_to_end_id.';
comment on column pending_approval.transfer_id is 'The transfer.';
comment on column pending_approval.holder_id is 'From whom it goes.';
comment on column pending_approval.is_above is 'Whether its amount was above what may leave without a yes.';
comment on column pending_approval.is_new_payee is 'Whether nothing of this holder''s had settled to its payee before.';
comment on column pending_approval.since is 'When it was accepted, in service time.';

-- check_approval_answer: migration 0125
create function check_approval_answer() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if not exists (select from open_order where name = new.order_name and approval = 'awaited' for update) then
        raise exception 'the order % does not wait for an approval any more', new.order_name
            using errcode = 'integrity_constraint_violation', constraint = 'only_an_order_that_waits_is_approved';
    end if;
    return new;
end $function$;
revoke execute on function check_approval_answer() from public;

-- approval_answer: What operators have said of transfers that waited for them, once each; rows are never changed or deleted.
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
create trigger approval_answer_is_append_only before delete or update or truncate on approval_answer for each statement execute
    function refuse_change();
create trigger check_new before insert on approval_answer for each row execute function check_approval_answer();
grant insert on table approval_answer to pixconnect_console;
grant select on table approval_answer to pixconnect_service;
comment on table approval_answer is
    'What operators have said of transfers that waited for them, once each; rows are never changed or deleted.';
comment on column approval_answer.order_name is 'The transfer''s end_to_end_id.';
comment on column approval_answer.is_approved is 'Whether it may leave; otherwise its money is given back.';
comment on column approval_answer.decided_by is 'The operator, as the audit names them.';
comment on column approval_answer.decided_at is 'When they said so, in service time.';

-- check_account_of_refund: migration 0161
create function check_account_of_refund() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    perform from transfer join holder on holder.id = transfer.holder_id
    where transfer.id = new.transfer_id and transfer.holder_id = new.holder_id
        and transfer.institution_id is distinct from holder.institution_id;
    if found then
        raise exception 'refund % of holder % is of a transfer on another account', new.id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'what_happens_on_an_account_is_of_its_holders';
    end if;
    return null;
end $function$;
revoke execute on function check_account_of_refund() from public;

-- check_refunds: migrations 0010, 0018, 0050, 0074, 0146
create function check_refunds() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    ids bigint[];
    holder_ids bigint[];
    befores text[];
    misfit record;
begin
    if tg_op = 'INSERT' then
        select array_agg(id), array_agg(holder_id), array_agg('NEW'::text) into ids, holder_ids, befores from new_row;
    else
        select array_agg(id), array_agg(holder_id), array_agg(before) into ids, holder_ids, befores from (
            select id, holder_id, max(before) as before from (
                select id, holder_id, status as before, null as after from old_row
                union all
                select id, holder_id, null, status from new_row
            ) as side
            group by id, holder_id having max(before) is distinct from max(after)
        ) as moved;
    end if;
    if ids is null then
        return null;
    end if;

    select refund.id, refund.holder_id, refund.status, before into misfit
    from unnest(ids, holder_ids, befores) as moved (id, holder_id, before)
    left join refund on refund.id = moved.id and refund.holder_id = moved.holder_id
    left join transfer as original on original.id = refund.transfer_id and original.holder_id = refund.holder_id
    where not exists (
        select from allowed_transition as allowed
        where allowed.kind = 'refund' and allowed.direction = refund.flow and allowed.is_book = refund.is_book
            and allowed.before = moved.before and allowed.after = refund.status and allowed.made_by = refund.made_by
    ) or case refund.made_by when 'institution' then (
        -- Taken of what was there, in as many entries as that needs: each is judged by post_ledger_entries, and all make its amount.
        select coalesce(sum(entry.amount_cents), 0) from ledger_entry as entry
        where entry.transfer_id = refund.transfer_id and entry.holder_id = moved.holder_id and entry.refund_id = moved.id
    ) <> refund.amount_cents or original.institution_id is null and not exists (
        -- Over the installation's own rail nobody gives back by himself but for a contest.
        select from infraction_return as given where given.refund_id = refund.id and given.holder_id = refund.holder_id
    ) or exists (
        -- One name is one fact: what is a movement already is taken back with this refund, or is none.
        select from institution_account as account
        join movement on movement.holder_id in (account.house_id, refund.holder_id)
        where account.id = original.institution_id and movement.item_id = refund.return_id and not exists (
            select from movement as opposite
            where opposite.holder_id = movement.holder_id and opposite.opposite_of = movement.item_id
        )
    ) else (
        select count(*) from ledger_entry as entry
        where entry.transfer_id = refund.transfer_id and entry.holder_id = moved.holder_id and entry.refund_id = moved.id
    ) <> (
        select count(*) from allowed_posting as allowed
        where allowed.kind = 'refund' and allowed.direction = refund.flow and allowed.is_book = refund.is_book
            and allowed.status = refund.status and allowed.made_by = refund.made_by
    ) end or refund.status <> 'ERROR' and (
        original.settled_at is null or original.direction = refund.flow or original.is_book <> refund.is_book
        or coalesce(original.network_id, original.end_to_end_id) <> refund.original_end_to_end_id
        or original.amount_cents < refund.amount_cents
    ) or refund.is_book and not (
        select count(*) = 2 and bool_or(leg.flow = 'IN') and bool_or(leg.flow = 'OUT')
            and bool_and(leg.is_book and leg.amount_cents = refund.amount_cents and leg.status = refund.status)
        from refund as leg where leg.return_id = refund.return_id
    ) or (
        refund.flow = 'OUT' and not refund.is_book and case refund.status
            when 'PROCESSING' then (
                select ordered.resource_id = refund.id and ordered.holder_id = refund.holder_id and ordered.slot = refund.slot
                    and ordered.network_id is not distinct from refund.network_id
                from open_order as ordered where ordered.name = refund.return_id
            ) is not true
            else moved.before = 'PROCESSING'
                and (select count(*) from open_order as ordered where ordered.name = refund.return_id) > 0
        end
        -- One that was refused at once was never counted.
        or (refund.status <> 'ERROR' or moved.before <> 'NEW') and (
            select coalesce(sum(given.amount_cents) filter (where given.status = 'RETURNED'), 0) <> original.returned_cents
                or coalesce(sum(given.amount_cents) filter (where given.status = 'PROCESSING' and given.flow = 'OUT'), 0)
                    <> original.returning_cents
            from refund as given where given.transfer_id = refund.transfer_id and given.holder_id = refund.holder_id
        )
        or moved.before = 'NEW' and (
            refund.namesake <> 0
            or not refund.is_book and (
                select count(*) from refund as other
                where other.return_id = refund.return_id and other.amount_cents <> refund.amount_cents
            ) + (
                select count(*) from refund as other
                where other.network_id = refund.return_id
                    and (refund.flow = 'OUT' or other.amount_cents <> refund.amount_cents)
            ) > 0
        )
    ) and (
        select count(*) from offending_row as listed
        where listed.holder_id = refund.holder_id and (
            listed.table_name = 'refund' and listed.id = refund.id
            or listed.table_name = 'transfer' and listed.id = refund.transfer_id
        )
    ) = 0
    limit 1;
    if found then
        raise exception 'refund % of holder % cannot go from % to % with the entries, original and order that it has',
            misfit.id, misfit.holder_id, misfit.before, misfit.status
            using errcode = 'integrity_constraint_violation', constraint = 'a_refund_has_what_belongs_to_it';
    end if;
    return null;
end $function$;
revoke execute on function check_refunds() from public;

-- refund: Transfers given back, wholly or in part, over the rail or by book.
create table refund (
    id bigint not null,
    holder_id bigint not null,
    transfer_id bigint not null,
    flow text not null,
    is_book boolean default false not null,
    external_id text collate "C",
    fingerprint bytea,
    return_id text collate "C" not null,
    original_end_to_end_id text not null,
    correlation_id uuid not null,
    amount_cents bigint not null,
    status text not null,
    reason text not null,
    description text,
    outcome_code text,
    outcome_reason text,
    slot smallint not null,
    handed_at timestamp with time zone,
    settled_at timestamp with time zone,
    created_at timestamp with time zone not null,
    modified_at timestamp with time zone not null,
    network_id text collate "C",
    namesake smallint default 0 not null,
    network_settled_at timestamp with time zone,
    made_by text default 'service' not null,
    constraint refund_pkey primary key (id, holder_id),
    constraint refund_external_id_is_used_once unique (external_id, holder_id),
    constraint made_there_is_told_at_its_end check (made_by = 'service' or made_by = 'institution' and flow = 'OUT' and not
        is_book and status = 'RETURNED' and handed_at is null and external_id ~~ 'theirs:%'),
    constraint network_id_is_of_an_order check (network_id is null or length(network_id) = 32 and network_id ~~ 'D%' and
        network_id <> return_id and flow = 'OUT' and not is_book),
    constraint refund_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint refund_check check ((flow = 'OUT') = (external_id is not null) and (external_id is null) = (fingerprint is null)),
    constraint refund_check1 check ((settled_at is not null) = (status = 'RETURNED')),
    constraint refund_check2 check (handed_at is null or flow = 'OUT'),
    constraint refund_description_check check (length(description) <= 140),
    constraint refund_external_id_check check (length(external_id) >= 1 and length(external_id) <= 255),
    constraint refund_flow_check check (flow in ('IN', 'OUT')),
    constraint refund_id_check check (id >= 1 and id <= 9007199254740991),
    constraint refund_reason_check check (reason in ('MD06', 'BE08', 'FR01', 'SL02')),
    constraint refund_return_id_check check (length(return_id) = 32 and return_id ~~ 'D%'),
    constraint refund_slot_check check (slot >= 0 and slot <= 255),
    constraint refund_status_check check (status in ('PROCESSING', 'RETURNED', 'ERROR')),
    constraint refund_transfer_id_holder_id_fkey foreign key (transfer_id, holder_id) references transfer(id, holder_id)
);
create index refund_left on refund (settled_at) where flow = 'OUT' and not is_book and settled_at is not null;
create index refund_list on refund ((holder_id + 0), created_at, id);
create index refund_list_by_status on refund ((holder_id + 0), status, created_at, id);
create unique index refund_name_is_used_once on refund (return_id, flow, namesake);
create unique index refund_network_id_is_used_once on refund (network_id) where network_id is not null;
create index refund_of_transfer on refund (transfer_id, holder_id);
create trigger await_names after insert on refund for each statement execute function await_names();
create trigger await_naming after update of network_id on refund for each row when (new.network_id is distinct from
    old.network_id) execute function await_names();
create trigger check_family after insert on refund referencing new table as new_row for each statement execute function
    check_family();
create trigger check_institution after insert on refund for each row when (not new.is_book) execute function
    check_account_of_refund();
create trigger check_legs after insert on refund for each row when (new.is_book and new.flow = 'IN') execute function
    check_legs();
create trigger check_moved after update on refund referencing old table as old_row new table as new_row for each statement
    execute function check_refunds();
create trigger check_new after insert on refund referencing new table as new_row for each statement execute function
    check_refunds();
create trigger check_open after insert on refund for each row when (new.made_by = 'institution') execute function
    check_account_is_open();
create trigger keep_end after update of handed_at, settled_at, network_settled_at, outcome_code, outcome_reason on refund for
    each row when ((old.status <> 'PROCESSING' or new.status = 'PROCESSING') and (old.handed_at is distinct from new.handed_at
    or old.settled_at is distinct from new.settled_at or old.network_settled_at is distinct from new.network_settled_at or
    old.outcome_code is distinct from new.outcome_code or old.outcome_reason is distinct from new.outcome_reason)) execute
    function refuse_other_end();
create trigger take_network_id after update of network_id on refund for each row when (new.network_id is distinct from
    old.network_id) execute function take_network_id();
grant insert, select, update (status, outcome_code, outcome_reason, handed_at, settled_at, modified_at, network_id,
    network_settled_at) on table refund to pixconnect_service;
comment on table refund is 'Transfers given back, wholly or in part, over the rail or by book.';
comment on column refund.id is 'Counts up, in blocks; unique together with the holder.';
comment on column refund.holder_id is 'The holder who gives back or gets back.';
comment on column refund.transfer_id is 'The transfer that is given back.';
comment on column refund.flow is 'Whether money comes back to the holder (IN) or goes back from the holder (OUT).';
comment on column refund.is_book is 'Whether it is between two holders of ours, without the rail.';
comment on column refund.external_id is
    'The client''s own name for an outgoing one, unique for the holder: the idempotency key.';
comment on column refund.fingerprint is
    'A hash of the request that made an outgoing one, which tells a replay from a conflict.';
comment on column refund.return_id is
    'Its name on the network; of an outgoing one ours, which the rail is asked by and which never changes.';
comment on column refund.original_end_to_end_id is
    'The name of its transfer as callers see it: it follows when the network''s own is told.';
comment on column refund.correlation_id is 'The id that everything of one payment shares.';
comment on column refund.amount_cents is 'How much, in cents.';
comment on column refund.status is 'How far it is.';
comment on column refund.reason is 'Why it is given back, as the network''s code.';
comment on column refund.description is 'Why it is given back, in words, up to 140 characters.';
comment on column refund.outcome_code is 'Why it failed, as a code of the network or of ours; null otherwise.';
comment on column refund.outcome_reason is 'Why it failed, in words.';
comment on column refund.slot is 'The slot of work it belongs to, 0 to 255: its transfer''s.';
comment on column refund.handed_at is
    'When an outgoing one was handed to the rail, in service time; while it is under way only open_order says it.';
comment on column refund.settled_at is 'When it settled, in service time; null where it has not.';
comment on column refund.created_at is 'When it was written, in service time.';
comment on column refund.modified_at is 'When it last changed, in service time.';
comment on column refund.network_id is 'What the network calls an outgoing one where that is not return_id; written once.';
comment on column refund.namesake is
    'Tells rows of one name apart that were there before a name was one fact; 0 for all others.';
comment on column refund.network_settled_at is
    'When it settled by the network''s clock; null where it has not, is by book, or is older than this column.';
comment on column refund.made_by is
    'Who made it: this service, also where it records what others sent; or the institution, or a person there.';

-- post_ledger_entries: migrations 0001, 0010, 0015, 0025, 0059, 0062, 0074, 0097, 0141
create function post_ledger_entries() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
declare
    holders_count bigint;
    numbered_count bigint;
    others_count bigint; -- of refunds, deposits, movements, repayments, adjustments and steps of blocks
    moved_count bigint; -- holders whose balance has moved
    misfit record;
begin
    if tg_table_name <> 'ledger_entry' or tg_table_schema <> current_schema() or tg_level <> 'STATEMENT' then
        raise exception 'entries are posted for the ledger alone' using errcode = 'insufficient_privilege';
    end if;

    select count(distinct holder_id), count(number), count(*) filter (where refund_id is not null or transfer_id is null)
    into holders_count, numbered_count, others_count from new_entry;

    update balance set
        available_cents = balance.available_cents + posting.available_cents,
        reserved_cents = balance.reserved_cents + posting.reserved_cents,
        blocked_cents = balance.blocked_cents + posting.blocked_cents,
        deficit_cents = balance.deficit_cents + posting.deficit_cents,
        settlement_cents = balance.settlement_cents + posting.settlement_cents,
        funding_cents = balance.funding_cents + posting.funding_cents,
        difference_cents = balance.difference_cents + posting.difference_cents,
        last_number = balance.last_number + posting.numbered_count,
        last_entry_at = coalesce(posting.last_entry_at, balance.last_entry_at),
        modified_at = greatest(balance.modified_at, posting.modified_at)
    from (
        select holder_id,
            sum(amount_cents * ((credit_account = 'available')::int - (debit_account = 'available')::int)) as available_cents,
            sum(amount_cents * ((credit_account = 'reserved')::int - (debit_account = 'reserved')::int)) as reserved_cents,
            sum(amount_cents * ((credit_account = 'blocked')::int - (debit_account = 'blocked')::int)) as blocked_cents,
            sum(amount_cents * ((debit_account = 'deficit')::int - (credit_account = 'deficit')::int)) as deficit_cents, -- owed
            sum(amount_cents * ((credit_account = 'settlement')::int - (debit_account = 'settlement')::int)) as settlement_cents,
            sum(amount_cents * ((credit_account = 'funding')::int - (debit_account = 'funding')::int)) as funding_cents,
            sum(amount_cents * ((credit_account = 'difference')::int - (debit_account = 'difference')::int)) as difference_cents,
            count(number) as numbered_count,
            min(created_at) filter (where number is not null) as first_entry_at,
            max(created_at) filter (where number is not null) as last_entry_at,
            max(created_at) as modified_at
        from new_entry group by holder_id
    ) as posting
    where balance.holder_id = posting.holder_id
        and (posting.first_entry_at is null or posting.first_entry_at > balance.last_entry_at);
    get diagnostics moved_count = row_count;
    if moved_count <> holders_count then
        raise exception 'a ledger entry has no balance to follow, or is dated before the one that it follows'
            using errcode = 'integrity_constraint_violation', constraint = 'entries_follow_each_other';
    end if;

    -- Money that is reserved or blocked stays within current funds, so a batch that only accepts orders has no numbers.
    if numbered_count > 0 then
        select entry.holder_id, entry.number into misfit from (
            select numbered.*,
                lag(number, 1, number - 1) over following as number_before,
                lag(running_balance_cents) over following as balance_before,
                lag(created_at) over following as created_before,
                lead(number) over following is null as is_last
            from (
                select holder_id, number, running_balance_cents, created_at,
                    case when credit_account in ('available', 'reserved', 'blocked') then amount_cents else -amount_cents end
                        as change_cents
                from new_entry where number is not null
            ) as numbered
            window following as (partition by holder_id order by number)
        ) as entry
        left join balance on balance.holder_id = case when entry.is_last then entry.holder_id end
        where entry.number <> entry.number_before + 1
            or entry.running_balance_cents <> entry.balance_before + entry.change_cents
            or entry.created_at <= entry.created_before
            or entry.is_last and (
                entry.number <> balance.last_number
                or entry.running_balance_cents <> balance.available_cents + balance.reserved_cents + balance.blocked_cents
            )
        limit 1;
        if found then
            raise exception 'ledger entry % of holder % does not follow from the one before', misfit.number, misfit.holder_id
                using errcode = 'integrity_constraint_violation', constraint = 'entries_follow_each_other';
        end if;
    end if;

    -- What is allowed is looked up once for each way of moving money in this statement, not for each entry.
    if others_count = 0 then
        select moved.id, moved.holder_id into misfit from (
            select max(entry.id) as id, max(entry.holder_id) as holder_id, debit_account, credit_account, direction, is_book, status,
                bool_and(entry.amount_cents = transfer.amount_cents) as has_amount
            from new_entry as entry
            left join transfer on transfer.id = entry.transfer_id and transfer.holder_id = entry.holder_id
            group by 3, 4, 5, 6, 7
        ) as moved
        where has_amount is not true or not exists (
            select from allowed_posting as allowed
            where allowed.kind = 'transfer' and allowed.direction = moved.direction and allowed.is_book = moved.is_book
                and allowed.status = moved.status and allowed.debit_account = moved.debit_account
                and allowed.credit_account = moved.credit_account
        )
        limit 1;
    else -- What a null is compared with is not looked for: an entry has one cause, and costs one look.
        select moved.id, moved.holder_id into misfit from (
            select max(entry.id) as id, max(entry.holder_id) as holder_id, debit_account, credit_account,
                case when refund.id is not null then 'refund' when transfer.id is not null then 'transfer'
                    when deposit.id is not null then 'deposit' when repayment.id is not null then 'repayment'
                    when coalesce(movement.entry_id, lacking.deficit_entry_id) is not null then 'movement'
                    when adjustment.id is not null then 'adjustment' when block_step.id is not null then 'block' end as kind,
                coalesce(refund.flow, transfer.direction, movement.direction, lacking.direction, adjustment.direction,
                    case when repayment.id is null and debit_account <> 'blocked' then 'IN' else 'OUT' end) as direction,
                coalesce(refund.is_book, transfer.is_book, false) as is_book,
                coalesce(refund.status, transfer.status, movement.status, lacking.status, adjustment.account,
                    block_step.kind, 'MADE') as status,
                coalesce(refund.made_by, 'service') as made_by,
                -- What the institution gave back is taken of what was there, in parts: all parts make its amount.
                bool_and(case refund.made_by when 'institution' then refund.amount_cents = (
                    select sum(part.amount_cents) from ledger_entry as part
                    where part.transfer_id = entry.transfer_id and part.holder_id = entry.holder_id
                        and part.refund_id = entry.refund_id
                ) else entry.amount_cents is not distinct from coalesce(
                    refund.amount_cents, transfer.amount_cents, deposit.amount_cents, repayment.amount_cents,
                    movement.amount_cents - movement.deficit_cents, lacking.deficit_cents,
                    case debit_account
                        when 'deficit' then adjustment.deficit_cents
                        else adjustment.amount_cents - adjustment.deficit_cents
                    end, block_step.amount_cents
                ) end
                -- Whatever moves blocked money is a step of one block, the institution's return too.
                and ('blocked' not in (debit_account, credit_account) or block_step.amount_cents is not distinct from
                    entry.amount_cents)) as has_amount
            from (
                select *, case when refund_id is null and transfer_id is null then id end as lone_id from new_entry
            ) as entry
            left join refund on refund.id = entry.refund_id and refund.holder_id = entry.holder_id
                and refund.transfer_id = entry.transfer_id
            left join transfer on transfer.id = case when entry.refund_id is null then entry.transfer_id end
                and transfer.holder_id = entry.holder_id
            left join deposit on deposit.id = entry.lone_id and deposit.holder_id = entry.holder_id
            left join repayment on repayment.id = case when credit_account = 'deficit' then entry.lone_id end
                and repayment.holder_id = entry.holder_id
            left join movement on movement.entry_id = case
                    when debit_account not in ('deficit', 'difference') and credit_account not in ('deficit', 'difference')
                    then entry.lone_id end
                and movement.holder_id = entry.holder_id
            left join movement as lacking on lacking.deficit_entry_id = case
                    when debit_account = 'deficit' and credit_account <> 'difference' then entry.lone_id end
                and lacking.holder_id = entry.holder_id
            left join adjustment on adjustment.holder_id = entry.holder_id
                and case when 'difference' in (debit_account, credit_account) then entry.lone_id end
                    = case debit_account when 'deficit' then adjustment.deficit_entry_id else adjustment.entry_id end
            left join block_step on block_step.id = case when 'blocked' in (debit_account, credit_account) then entry.id end
                and block_step.holder_id = entry.holder_id
            group by 3, 4, 5, 6, 7, 8, 9
        ) as moved
        where not moved.has_amount or not exists (
            select from allowed_posting as allowed
            where allowed.kind = moved.kind and allowed.direction = moved.direction and allowed.is_book = moved.is_book
                and allowed.status = moved.status and allowed.debit_account = moved.debit_account
                and allowed.credit_account = moved.credit_account and allowed.made_by = moved.made_by
        )
        limit 1;
    end if;
    if found then
        raise exception 'ledger entry % of holder % has no cause', misfit.id, misfit.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'every_entry_has_a_cause';
    end if;
    return null;
end $function$;
revoke execute on function post_ledger_entries() from public;

-- ledger_entry: Amounts, each moved from one account of a holder to another of the same holder; rows are never changed or
-- deleted.
create table ledger_entry (
    id bigint not null,
    holder_id bigint not null,
    debit_account ledger_account not null,
    credit_account ledger_account not null,
    amount_cents bigint not null,
    number bigint,
    running_balance_cents bigint,
    transfer_id bigint,
    refund_id bigint,
    created_at timestamp with time zone not null,
    constraint ledger_entry_pkey primary key (id, holder_id),
    constraint accounts_differ check (debit_account <> credit_account),
    constraint amount_is_positive check (amount_cents > 0),
    constraint ledger_entry_id_check check (id >= 1 and id <= 9007199254740991),
    constraint numbered_if_funds_change check ((number is not null) = ((debit_account in ('available'::ledger_account,
        'reserved'::ledger_account, 'blocked'::ledger_account)) <> (credit_account in ('available'::ledger_account,
        'reserved'::ledger_account, 'blocked'::ledger_account))) and (number is not null) = (running_balance_cents is not null))
);
create unique index ledger_entry_created_at on ledger_entry (holder_id, created_at) where number is not null;
create unique index ledger_entry_number on ledger_entry (holder_id, number) where number is not null;
create unique index ledger_entry_once on ledger_entry (transfer_id, holder_id, refund_id, debit_account, credit_account) nulls
    not distinct where transfer_id is not null;
create trigger instants_are_finite after insert on ledger_entry for each row when (not isfinite(new.created_at)) execute
    function refuse_endless_instant();
create trigger ledger_entry_is_append_only before delete or update or truncate on ledger_entry for each statement execute
    function refuse_change();
create trigger post_entries after insert on ledger_entry referencing new table as new_entry for each statement execute function
    post_ledger_entries();
grant insert, select on table ledger_entry to pixconnect_service;
comment on table ledger_entry is
    'Amounts, each moved from one account of a holder to another of the same holder; rows are never changed or deleted.';
comment on column ledger_entry.id is 'Counts up; unique together with the holder.';
comment on column ledger_entry.holder_id is 'The holder whose accounts they are.';
comment on column ledger_entry.debit_account is 'The account that the amount leaves.';
comment on column ledger_entry.credit_account is 'The account that the amount enters.';
comment on column ledger_entry.amount_cents is 'How much, in cents; always positive.';
comment on column ledger_entry.number is
    'The place in the statement, counted from 1 without gaps; null where available + reserved + blocked stays the same.';
comment on column ledger_entry.running_balance_cents is
    'Available + reserved + blocked after this entry, in cents; null where it has no number.';
comment on column ledger_entry.transfer_id is 'The transfer that is its cause.';
comment on column ledger_entry.refund_id is
    'The refund that is its cause; without either it is the deposit, repayment or step of a block of the same id, or the movement or adjustment that names it.';
comment on column ledger_entry.created_at is 'When it was written, in service time.';

-- check_order_approval: migration 0125
create function check_order_approval() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if tg_op = 'INSERT' then
        if new.approval <> 'awaited' or not exists (select from pending_approval where order_name = new.name) then
            raise exception 'the order % waits for an approval that nobody is asked for', new.name
                using errcode = 'integrity_constraint_violation', constraint = 'an_approval_is_awaited_first';
        end if;
    -- Whoever is in doubt may refuse; a yes is an operator's alone.
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
revoke execute on function check_order_approval() from public;

-- check_ended_orders: migrations 0002, 0005, 0050, 0055
create function check_ended_orders() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
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
end $function$;
revoke execute on function check_ended_orders() from public;

-- check_order_name: migration 0050
create function check_order_name() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if new.network_id is distinct from (
        case left(new.name, 1)
            when 'E' then (select network_id from transfer where id = new.resource_id and holder_id = new.holder_id)
            else (select network_id from refund where id = new.resource_id and holder_id = new.holder_id)
        end
    ) then
        raise exception 'the order % cannot be called % on the network', new.name, new.network_id
            using errcode = 'integrity_constraint_violation', constraint = 'an_order_is_called_as_what_was_ordered';
    end if;
    return null;
end $function$;
revoke execute on function check_order_name() from public;

-- check_new_orders: migration 0050
create function check_new_orders() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    misfit text;
begin
    select ordered.name into misfit from new_row as ordered
    left join transfer on transfer.id = case when left(ordered.name, 1) = 'E' then ordered.resource_id end
        and transfer.holder_id = ordered.holder_id
    left join refund on refund.id = case when left(ordered.name, 1) = 'D' then ordered.resource_id end
        and refund.holder_id = ordered.holder_id
    where coalesce(transfer.status, refund.status) is distinct from 'PROCESSING'
        or coalesce(transfer.direction, refund.flow) <> 'OUT' or coalesce(transfer.is_book, refund.is_book)
        or coalesce(transfer.end_to_end_id, refund.return_id) <> ordered.name
        or coalesce(transfer.slot, refund.slot) <> ordered.slot
        or coalesce(transfer.network_id, refund.network_id) is distinct from ordered.network_id
    limit 1;
    if found then
        raise exception 'the order % is of nothing that is under way', misfit
            using errcode = 'integrity_constraint_violation', constraint = 'an_order_is_of_what_is_under_way';
    end if;
    return null;
end $function$;
revoke execute on function check_new_orders() from public;

-- count_refund: migration 0069
create function count_refund() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
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
end $function$;
revoke execute on function count_refund() from public;

-- count_transfer: migrations 0107, 0123
create function count_transfer() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    sent transfer;
    allowed institution_allowance;
    owner_tax_id text;
    payee_tax_id text;
    counted_cents bigint;
begin
    -- Whoever moves a holder to another account finds its balance at 0, and this order has a part of it: so neither is missed.
    select * into sent from transfer
    where id = new.resource_id and holder_id = new.holder_id and end_to_end_id = new.name
        and institution_id = new.institution_id and direction = 'OUT' and not is_book
        and (initiation_type = 'QRCODE') = (new.br_code is not null)
        and exists (select from holder where id = new.holder_id and institution_id = new.institution_id);
    if not found then
        raise exception 'the order % is of the account %, and no transfer over it', new.name, new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'only_transfers_over_it_leave';
    end if;
    insert into transfer_day as counted (institution_id, day, cents)
        values (new.institution_id, (new.ordered_at at time zone 'America/Sao_Paulo')::date, sent.amount_cents)
        on conflict (institution_id, day) do update set cents = counted.cents + excluded.cents
        returning counted.cents into counted_cents;
    select * into allowed from institution_allowance where institution_id = new.institution_id;
    if sent.amount_cents > allowed.transfer_cents or counted_cents > allowed.transfers_day_cents then
        raise exception 'transfers over account % are above what is allowed at once or for a day', new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'transfers_stay_within_their_day';
    end if;
    select tax_id into owner_tax_id from institution_account where id = new.institution_id;
    payee_tax_id := sent.counterparty ->> 'tax_id';
    -- The owner, by the CPF or by the root of the CNPJ; or whoever a transfer over the account has reached.
    if allowed.payees = 'all' or payee_tax_id = owner_tax_id
        or length(owner_tax_id) = 14 and length(payee_tax_id) = 14 and left(payee_tax_id, 8) = left(owner_tax_id, 8)
        or allowed.payees = 'known' and exists (
            select from transfer as before
            where before.institution_id = new.institution_id and before.direction = 'OUT' and before.settled_at is not null
                and case before.initiation_type when 'MANUAL' then
                    (before.counterparty ->> 'ispb') || '/' || (before.counterparty ->> 'branch') || '/'
                    || (before.counterparty ->> 'account_number')
                else before.counterparty ->> 'key' end = case sent.initiation_type when 'MANUAL' then
                    (sent.counterparty ->> 'ispb') || '/' || (sent.counterparty ->> 'branch') || '/'
                    || (sent.counterparty ->> 'account_number')
                else sent.counterparty ->> 'key' end
        )
    then
        return null;
    end if;
    raise exception 'a transfer over account % goes to somebody to whom none is allowed', new.institution_id
        using errcode = 'integrity_constraint_violation', constraint = 'transfers_go_to_those_allowed';
end $function$;
revoke execute on function count_transfer() from public;

-- refuse_to_forget: migration 0050
create function refuse_to_forget() returns trigger language plpgsql
as $function$
begin
    raise exception 'the order % was handed over at %, and the rail was asked % times', old.name, old.handed_at, old.asked_count
        using errcode = 'integrity_constraint_violation', constraint = 'what_was_asked_about_stays_handed_over';
end $function$;
revoke execute on function refuse_to_forget() from public;

-- open_order: Outgoing transfers and refunds that the rail has not ended: a row is added with each and removed with its end.
create table open_order (
    name text collate "C" not null,
    holder_id bigint not null,
    resource_id bigint not null,
    slot smallint not null,
    ordered_at timestamp with time zone not null,
    due_at timestamp with time zone not null,
    give_up_at timestamp with time zone not null,
    handed_at timestamp with time zone,
    asked_count integer default 0 not null,
    network_id text collate "C",
    institution_id smallint,
    br_code text,
    approval text collate "C",
    constraint open_order_pkey primary key (name),
    constraint a_code_is_of_a_transfer_there check (br_code is null or octet_length(br_code) >= 1 and octet_length(br_code) <=
        512 and institution_id is not null and "left"(name, 1) = 'E'),
    constraint only_handed_order_is_asked_about check (asked_count = 0 or handed_at is not null),
    constraint open_order_approval_check check (approval is null or (approval in ('awaited', 'given', 'refused')) and
        "left"(name, 1) = 'E'),
    constraint open_order_name_check check (length(name) = 32 and ("left"(name, 1) in ('E', 'D'))),
    constraint open_order_slot_check check (slot >= 0 and slot <= 255),
    constraint what_waits_for_an_approval_is_not_marked check (approval is distinct from 'awaited' or handed_at is null)
) with (fillfactor=70);
create index open_order_awaiting on open_order (give_up_at) where approval = 'awaited';
create index open_order_due on open_order (due_at, slot);
create index open_order_due_there on open_order (institution_id, due_at) where institution_id is not null;
create trigger check_approval after update of approval on open_order for each row when (old.approval is distinct from
    new.approval) execute function check_order_approval();
create trigger check_awaited after insert on open_order for each row when (new.approval is not null) execute function
    check_order_approval();
create trigger check_ended after delete on open_order referencing old table as ended_order for each statement execute function
    check_ended_orders();
create trigger check_name after update of network_id on open_order for each row when (old.network_id is distinct from
    new.network_id) execute function check_order_name();
create trigger check_new after insert on open_order referencing new table as new_row for each statement execute function
    check_new_orders();
create trigger count_refund after insert on open_order for each row when (new.institution_id is not null and "left"(new.name, 1)
    = 'D') execute function count_refund();
create trigger count_transfer after insert on open_order for each row when (new.institution_id is not null and "left"(new.name,
    1) = 'E') execute function count_transfer();
create trigger instants_are_finite after insert or update of due_at, give_up_at on open_order for each row when (not
    isfinite(new.due_at) or not isfinite(new.give_up_at)) execute function refuse_endless_instant();
create trigger keep_handed after update of handed_at, asked_count on open_order for each row when (old.asked_count >
    new.asked_count or old.handed_at <> new.handed_at or old.handed_at is not null and new.handed_at is null and new.due_at >=
    old.due_at) execute function refuse_to_forget();
grant delete, insert, select, update (due_at, give_up_at, handed_at, asked_count, network_id, approval) on table open_order to
    pixconnect_service;
comment on table open_order is
    'Outgoing transfers and refunds that the rail has not ended: a row is added with each and removed with its end.';
comment on column open_order.name is 'Its end_to_end_id (begins with E) or return_id (begins with D).';
comment on column open_order.holder_id is 'The holder from whom the money goes.';
comment on column open_order.resource_id is 'The id of the transfer or refund.';
comment on column open_order.slot is 'The slot of work it belongs to, 0 to 255.';
comment on column open_order.ordered_at is 'When it was accepted, in service time.';
comment on column open_order.due_at is 'When a worker looks at it next, in service time.';
comment on column open_order.give_up_at is 'When it is cancelled if it was not handed over until then, in service time.';
comment on column open_order.handed_at is
    'When it was marked to be handed to the rail, in service time: from then on only the rail can end it.';
comment on column open_order.asked_count is 'How often the rail was asked what became of it.';
comment on column open_order.network_id is
    'What the network calls it where that is not its name; as in its transfer or refund.';
comment on column open_order.institution_id is
    'The account at an institution over which it goes; null is the installation''s own rail.';
comment on column open_order.br_code is 'The code that a transfer over an account at an institution pays; null of all others.';
comment on column open_order.approval is
    'Of one that had to wait for an operator''s yes: awaited, given, or refused by an operator, by time or by a loss; null for all others.';

-- allowed_posting: The entries that a deposit, transfer, refund, movement, repayment, adjustment or block in a status may have,
-- each once; no others.
create table allowed_posting (
    kind text not null,
    direction text not null,
    is_book boolean not null,
    status text not null,
    debit_account ledger_account not null,
    credit_account ledger_account not null,
    made_by text default 'service' not null,
    constraint allowed_posting_pkey primary key (kind, direction, is_book, status, debit_account, credit_account)
);
grant select on table allowed_posting to pixconnect_service;
comment on table allowed_posting is
    'The entries that a deposit, transfer, refund, movement, repayment, adjustment or block in a status may have, each once; no others.';
comment on column allowed_posting.kind is 'What has them: deposit, transfer, refund, movement, repayment, adjustment or block.';
comment on column allowed_posting.direction is 'Whether money comes in (IN) or goes out (OUT).';
comment on column allowed_posting.is_book is 'Whether it is between two holders of ours.';
comment on column allowed_posting.status is 'The status that has the entry.';
comment on column allowed_posting.debit_account is 'The account that the amount leaves.';
comment on column allowed_posting.credit_account is 'The account that the amount enters.';
comment on column allowed_posting.made_by is 'Of refunds, who made them: the service or the institution.';

-- allowed_transition: The changes of status that are possible; what is not here is refused.
create table allowed_transition (
    kind text not null,
    direction text not null,
    is_book boolean not null,
    before text not null,
    after text not null,
    made_by text default 'service' not null,
    constraint allowed_transition_pkey primary key (kind, direction, is_book, before, after)
);
grant select on table allowed_transition to pixconnect_service;
comment on table allowed_transition is 'The changes of status that are possible; what is not here is refused.';
comment on column allowed_transition.kind is
    'What changes: charge (charge_there, if it was opened at an institution), transfer, refund or movement.';
comment on column allowed_transition.direction is 'Whether money comes in (IN) or goes out (OUT).';
comment on column allowed_transition.is_book is 'Whether it is between two holders of ours.';
comment on column allowed_transition.before is 'The status before; NEW for what is made.';
comment on column allowed_transition.after is 'The status afterwards.';
comment on column allowed_transition.made_by is 'Of refunds, who made them: the service or the institution.';

-- keep_closing: migration 0007
create function keep_closing() returns trigger language plpgsql
as $function$
begin
    raise exception 'the report % is closed', old.id
        using errcode = 'integrity_constraint_violation', constraint = 'closed_report_stays_closed';
end $function$;
revoke execute on function keep_closing() from public;

-- kept_report: Reports of the rail that can neither be recorded nor passed over: each waits for a person.
create table kept_report (
    id bigint generated always as identity not null,
    kind text not null,
    reason text not null,
    explanation text not null,
    name text collate "C" not null,
    report_id text not null,
    report text not null,
    fingerprint bytea not null,
    refusal_code text,
    seen_count bigint default 1 not null,
    first_seen_at timestamp with time zone default clock_timestamp() not null,
    last_seen_at timestamp with time zone default clock_timestamp() not null,
    closed_at timestamp with time zone,
    closed_by text,
    close_reason text,
    constraint kept_report_pkey primary key (id),
    constraint report_is_kept_once unique (fingerprint),
    constraint closing_says_who_and_why check ((closed_at is null) = (closed_by is null) and (closed_at is null) = (close_reason
        is null)),
    constraint kept_report_close_reason_check check (length(close_reason) >= 1 and length(close_reason) <= 1000),
    constraint kept_report_closed_by_check check (length(closed_by) >= 1 and length(closed_by) <= 255),
    constraint kept_report_kind_check check (kind in ('credit', 'credit_accepted', 'credit_held', 'credit_cancelled', 'return',
        'settled', 'rejected', 'never_taken', 'taken', 'movement', 'institution_return', 'block', 'infraction', 'unreadable')),
    constraint kept_report_reason_check check (reason in ('unknown_order', 'contradiction', 'changed_repeat',
        'cannot_be_recorded', 'cannot_be_refused', 'cannot_be_returned', 'another_account')),
    constraint kept_report_seen_count_check check (seen_count > 0)
);
create index kept_report_open on kept_report (id) where closed_at is null;
create index kept_report_refused on kept_report (name) where refusal_code is not null;
create trigger closed_report_stays_closed before update on kept_report for each row when (old.closed_at is not null and
    (new.closed_at is distinct from old.closed_at or new.closed_by is distinct from old.closed_by or new.close_reason is
    distinct from old.close_reason)) execute function keep_closing();
grant update (closed_at, closed_by, close_reason) on table kept_report to pixconnect_console;
grant update (closed_at, closed_by, close_reason) on table kept_report to pixconnect_operator;
grant insert (kind, reason, explanation, name, report_id, report, fingerprint, refusal_code), select, update (seen_count,
    last_seen_at) on table kept_report to pixconnect_service;
comment on table kept_report is 'Reports of the rail that can neither be recorded nor passed over: each waits for a person.';
comment on column kept_report.id is 'Counts up.';
comment on column kept_report.kind is 'What the rail reported.';
comment on column kept_report.reason is 'Why it could not be recorded.';
comment on column kept_report.explanation is 'The same in words, for the person who looks at it.';
comment on column kept_report.name is 'The name on the network of the transfer, refund or return that it is about.';
comment on column kept_report.report_id is 'The id by which it was acknowledged to the rail.';
comment on column kept_report.report is 'What the rail said, as JSON, whatever texts it has.';
comment on column kept_report.fingerprint is 'A hash of the report: the same one is kept once, however often it comes.';
comment on column kept_report.refusal_code is
    'The code by which a payment or return was refused; it is refused so whenever it comes again.';
comment on column kept_report.seen_count is 'How often it came.';
comment on column kept_report.first_seen_at is 'When it came first, in real time.';
comment on column kept_report.last_seen_at is 'When it came last, in real time.';
comment on column kept_report.closed_at is 'When an operator closed it, in real time; null while it waits.';
comment on column kept_report.closed_by is 'The operator who closed it.';
comment on column kept_report.close_reason is 'Why, in the operator''s words.';

-- keep_refusal: migration 0055
create function keep_refusal() returns trigger language plpgsql
as $function$
begin
    raise exception 'the payment % was refused at % and stays refused', old.name, old.refused_at
        using errcode = 'integrity_constraint_violation', constraint = 'a_refusal_stays_for_its_time';
end $function$;
revoke execute on function keep_refusal() from public;

-- refused_credit: Payments that were refused because nobody here had the account; each stays refused for 30 days.
create table refused_credit (
    name text collate "C" not null,
    kind text not null,
    refusal_code text not null,
    refused_at timestamp with time zone default clock_timestamp() not null,
    constraint refused_credit_pkey primary key (name),
    constraint refused_credit_kind_check check (kind in ('credit', 'credit_accepted', 'credit_cancelled')),
    constraint refused_credit_name_check check (length(name) = 32 and name ~~ 'E%')
);
create index refused_credit_by_age on refused_credit (refused_at);
create trigger keep_refusal before delete on refused_credit for each row when (old.refused_at > (clock_timestamp() -
    '30 days'::interval)) execute function keep_refusal();
grant delete, insert (name, kind, refusal_code), select on table refused_credit to pixconnect_service;
comment on table refused_credit is
    'Payments that were refused because nobody here had the account; each stays refused for 30 days.';
comment on column refused_credit.name is 'The end_to_end_id of the payment.';
comment on column refused_credit.kind is 'What the rail reported of it.';
comment on column refused_credit.refusal_code is 'The code by which it was refused.';
comment on column refused_credit.refused_at is 'When it was refused, in real time; what is old is deleted by this.';

-- tally_change: What must still be added to tally: batches only add rows here, and housekeeping sums them up.
create table tally_change (
    holder_id bigint not null,
    kind text not null,
    status text not null,
    hour timestamp with time zone not null,
    change bigint not null
);
create index tally_change_list on tally_change (holder_id, kind, status, hour) include (change);
grant delete, insert, select on table tally_change to pixconnect_service;
comment on table tally_change is
    'What must still be added to tally: batches only add rows here, and housekeeping sums them up.';
comment on column tally_change.holder_id is 'The holder whose they are.';
comment on column tally_change.kind is 'What is counted; of spent the cents are summed.';
comment on column tally_change.status is 'The status whose count changes.';
comment on column tally_change.hour is 'The hour in which they were made, in service time.';
comment on column tally_change.change is 'How many more, or fewer where it is negative.';

-- entry_chain: Each holder's entries, chained by hash; rows are never changed or deleted.
create table entry_chain (
    holder_id bigint not null,
    position bigint not null,
    entry_ids bigint[] not null,
    digests bytea[] storage external not null,
    person_digests bytea[] storage external not null,
    head bytea not null,
    chained_at timestamp with time zone not null,
    constraint entry_chain_pkey primary key (holder_id, "position"),
    constraint each_entry_has_its_digests check (cardinality(entry_ids) >= 1 and cardinality(digests) = cardinality(entry_ids)
        and cardinality(person_digests) = cardinality(entry_ids)),
    constraint entry_chain_head_check check (octet_length(head) = 32),
    constraint entry_chain_position_check check ("position" >= 1)
);
create index entry_chain_chained_at on entry_chain using brin (chained_at);
create trigger entry_chain_is_append_only before delete or update or truncate on entry_chain for each statement execute function
    refuse_change();
grant select on table entry_chain to pixconnect_service;
comment on table entry_chain is 'Each holder''s entries, chained by hash; rows are never changed or deleted.';
comment on column entry_chain.holder_id is 'Whose entries they are.';
comment on column entry_chain.position is 'Counts the links of a holder up from 1.';
comment on column entry_chain.entry_ids is 'The entries of this link, in their order.';
comment on column entry_chain.digests is 'The SHA-256 of each: of its facts, and behind them of what is about a person.';
comment on column entry_chain.person_digests is 'The SHA-256 of the salt and of what is about a person; null where nothing is.';
comment on column entry_chain.head is 'The SHA-256 of the head before it and of all digests of this link.';
comment on column entry_chain.chained_at is 'When they were chained, in service time.';

-- entry_chain_state: How far entries are chained, of all holders.
create table entry_chain_state (
    is_only_row boolean default true not null,
    chained_id bigint default 0 not null,
    bound_id bigint default 0 not null,
    bound_at timestamp with time zone default clock_timestamp() not null,
    constraint entry_chain_state_pkey primary key (is_only_row),
    constraint entry_chain_state_check check (bound_id >= chained_id),
    constraint entry_chain_state_is_only_row_check check (is_only_row)
) with (fillfactor=20);
grant select on table entry_chain_state to pixconnect_service;
comment on table entry_chain_state is 'How far entries are chained, of all holders.';
comment on column entry_chain_state.is_only_row is 'True: there is one row.';
comment on column entry_chain_state.chained_id is 'Each entry up to this id is chained.';
comment on column entry_chain_state.bound_id is 'Up to this id each entry that there will be is there.';
comment on column entry_chain_state.bound_at is 'When that was so, in real time.';

-- keep_salts: migration 0139
create function keep_salts() returns trigger language plpgsql
as $function$
begin
    if (new.holder_id, new.position, cardinality(new.salts)) <> (old.holder_id, old.position, cardinality(old.salts)) or exists (
        select from unnest(new.salts, old.salts) as salt (now, before) where now <> before or now is not null and before is null
    ) then
        raise exception 'rows of % are never changed or deleted', tg_table_name
            using errcode = 'integrity_constraint_violation', constraint = 'person_salt_is_append_only';
    end if;
    return new;
end $function$;
revoke execute on function keep_salts() from public;

-- person_salt: What was hashed with each text about a person; rows are never changed or deleted.
create table person_salt (
    holder_id bigint not null,
    position bigint not null,
    salts bytea[] storage external not null,
    constraint person_salt_pkey primary key (holder_id, "position")
);
create trigger keep_salts before update on person_salt for each row execute function keep_salts();
create trigger person_salt_is_append_only before delete or truncate on person_salt for each statement execute function
    refuse_change();
grant select on table person_salt to pixconnect_service;
comment on table person_salt is 'What was hashed with each text about a person; rows are never changed or deleted.';
comment on column person_salt.holder_id is 'The holder of the link.';
comment on column person_salt.position is 'The link.';
comment on column person_salt.salts is
    'Sixteen octets of chance for each of its entries; null where nothing is about a person.';

-- erased_text: Transfers and refunds whose texts about people were emptied; only functions of the owner write it. Of charges
-- none is noted.
create table erased_text (
    kind text collate "C" not null,
    id bigint not null,
    holder_id bigint not null,
    part text not null,
    salt bytea,
    person_digest bytea,
    erased_at timestamp with time zone default clock_timestamp() not null,
    constraint erased_text_pkey primary key (holder_id, kind, id),
    constraint erased_text_check check ((salt is null) = (person_digest is null) and octet_length(salt) = 16 and
        octet_length(person_digest) = 32),
    constraint erased_text_kind_check check (kind in ('transfer', 'refund')),
    constraint erased_text_part_check check (part in ('message', 'all'))
);
grant select on table erased_text to pixconnect_service;
comment on table erased_text is
    'Transfers and refunds whose texts about people were emptied; only functions of the owner write it. Of charges none is noted.';
comment on column erased_text.kind is 'Transfer or refund.';
comment on column erased_text.id is 'Its id.';
comment on column erased_text.holder_id is 'Its holder.';
comment on column erased_text.part is 'Message: what was written with it; all: also who was on the other side.';
comment on column erased_text.salt is 'What is hashed with what is left of the texts; null where no entry has them.';
comment on column erased_text.person_digest is
    'The SHA-256 of that salt and of what is left, which counts in place of the one that is chained.';
comment on column erased_text.erased_at is 'When something was emptied last, in real time.';

-- text_sweep: How far the walk is that empties what no rule keeps any more.
create table text_sweep (
    kind text collate "C" not null,
    last_id bigint default 0 not null,
    ended_at timestamp with time zone,
    constraint text_sweep_pkey primary key (kind),
    constraint text_sweep_kind_check check (kind in ('transfer', 'refund', 'charge', 'infraction'))
);
grant select on table text_sweep to pixconnect_service;
comment on table text_sweep is 'How far the walk is that empties what no rule keeps any more.';
comment on column text_sweep.kind is 'Of transfers, refunds, charges or infractions.';
comment on column text_sweep.last_id is 'Rows up to this id were looked at in this walk.';
comment on column text_sweep.ended_at is 'When the last walk came to its end, in real time; null while one is under way.';

-- record_facts: What of the audit and of kept reports is chained by hash, as the text that is hashed.
create view record_facts as
 SELECT 'audit'::text AS kind,
    audit.id,
    json_build_array('audit', audit.id, (audit.at AT TIME ZONE 'UTC'::text), audit.verb, audit.request_id)::text AS facts,
    json_build_array(audit.operator, audit.subject, audit.before, audit.after)::text AS person
   FROM audit
UNION ALL
 SELECT 'report'::text AS kind,
    kept_report.id,
    json_build_array('report', kept_report.id, kept_report.kind, kept_report.reason, kept_report.name, kept_report.report_id, kept_report.refusal_code, (kept_report.first_seen_at AT TIME ZONE 'UTC'::text))::text AS facts,
    json_build_array(kept_report.explanation, kept_report.report)::text AS person
   FROM kept_report;
comment on view record_facts is 'What of the audit and of kept reports is chained by hash, as the text that is hashed.';
comment on column record_facts.kind is 'Which of the two it is: audit, or report.';
comment on column record_facts.id is 'Its id there.';
comment on column record_facts.facts is 'What it is, as a JSON array of what never changes.';
comment on column record_facts.person is 'What of it may be about a person, as a JSON array.';

-- record_chain: The audit and the kept reports, each chained by hash; rows are never changed or deleted.
create table record_chain (
    kind text collate "C" not null,
    position bigint not null,
    record_id bigint not null,
    digest bytea not null,
    person_digest bytea not null,
    head bytea not null,
    chained_at timestamp with time zone not null,
    constraint record_chain_pkey primary key (kind, "position"),
    constraint each_record_is_chained_once unique (kind, record_id),
    constraint record_chain_digest_check check (octet_length(digest) = 32),
    constraint record_chain_head_check check (octet_length(head) = 32),
    constraint record_chain_kind_check check (kind in ('audit', 'report')),
    constraint record_chain_person_digest_check check (octet_length(person_digest) = 32),
    constraint record_chain_position_check check ("position" >= 1)
);
create trigger record_chain_is_append_only before delete or update or truncate on record_chain for each statement execute
    function refuse_change();
grant select on table record_chain to pixconnect_service;
comment on table record_chain is 'The audit and the kept reports, each chained by hash; rows are never changed or deleted.';
comment on column record_chain.kind is 'Which chain it is of: audit, or report.';
comment on column record_chain.position is 'Counts the links of a chain up from 1.';
comment on column record_chain.record_id is 'The row of the audit, or the kept report.';
comment on column record_chain.digest is 'The SHA-256 of its facts, and behind them of the person_digest.';
comment on column record_chain.person_digest is 'The SHA-256 of the salt and of what may be about a person.';
comment on column record_chain.head is 'The SHA-256 of the head before it and of this digest.';
comment on column record_chain.chained_at is 'When it was chained, in real time.';

-- record_chain_state: How far the audit and the kept reports are chained.
create table record_chain_state (
    kind text collate "C" not null,
    chained_id bigint default 0 not null,
    bound_id bigint default 0 not null,
    bound_writers text[] not null,
    constraint record_chain_state_pkey primary key (kind),
    constraint record_chain_state_check check (bound_id >= chained_id),
    constraint record_chain_state_kind_check check (kind in ('audit', 'report'))
) with (fillfactor=50);
grant select on table record_chain_state to pixconnect_service;
comment on table record_chain_state is 'How far the audit and the kept reports are chained.';
comment on column record_chain_state.kind is 'Which chain it is of: audit, or report.';
comment on column record_chain_state.chained_id is 'Each row up to this id is chained.';
comment on column record_chain_state.bound_id is 'Up to this id rows are chained next.';
comment on column record_chain_state.bound_writers is
    'Transactions that wrote when the bound was noted, and end before it is chained.';

-- record_salt: What was hashed with each text that may be about a person; rows are never changed or deleted.
create table record_salt (
    kind text collate "C" not null,
    position bigint not null,
    salt bytea not null,
    constraint record_salt_pkey primary key (kind, "position"),
    constraint record_salt_kind_check check (kind in ('audit', 'report')),
    constraint record_salt_position_check check ("position" >= 1),
    constraint record_salt_salt_check check (octet_length(salt) = 16)
);
create trigger record_salt_is_append_only before delete or update or truncate on record_salt for each statement execute function
    refuse_change();
grant select on table record_salt to pixconnect_service;
comment on table record_salt is 'What was hashed with each text that may be about a person; rows are never changed or deleted.';
comment on column record_salt.kind is 'Which chain the link is of.';
comment on column record_salt.position is 'The link.';
comment on column record_salt.salt is 'Sixteen octets of chance.';

-- add_allowance: migration 0069
create function add_allowance() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    insert into institution_allowance (institution_id) values (new.id) on conflict do nothing;
    return null;
end $function$;
revoke execute on function add_allowance() from public;

-- check_closed_account: migrations 0068, 0105
create function check_closed_account() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if old.state = 'closed' then
        raise exception 'account % is closed for good', old.name
            using errcode = 'integrity_constraint_violation', constraint = 'what_is_closed_stays_closed';
    end if;
    if exists (
        select from holder join balance on balance.holder_id = holder.id
        where holder.institution_id = new.id
            and (available_cents <> 0 or reserved_cents <> 0 or deficit_cents <> 0 or settlement_cents <> 0)
    ) or exists (select from charge_opening where institution_id = new.id and state = 'opening')
        or exists (select from charge where institution_id = new.id and status = 'PENDING') then
        raise exception 'account % has money, or charges that are open or being opened', new.name
            using errcode = 'integrity_constraint_violation', constraint = 'a_closed_account_is_empty';
    end if;
    return new;
end $function$;
revoke execute on function check_closed_account() from public;

-- check_institution_account: migration 0064
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
revoke execute on function check_institution_account() from public;

-- institution_account: Accounts at institutions, over which live mode moves money.
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
create unique index institution_account_is_added_once on institution_account (profile, base_url, tax_id, account) where account
    <> '' and removed_at is null and state <> 'closed';
create unique index institution_account_name on institution_account (name) where removed_at is null;
create trigger add_allowance after insert on institution_account for each row execute function add_allowance();
create trigger check_closed before update of state on institution_account for each row when (old.state <> new.state and
    ('closed' = old.state or 'closed' = new.state)) execute function check_closed_account();
create trigger check_new before insert on institution_account for each row execute function check_institution_account();
grant delete, insert, update (state, base_url, token_url, authorities, keys, poll_s, options, receiving_sealed, sending_sealed,
    revision, paused_because, removed_at, lost_at) on table institution_account to pixconnect_operator;
grant select on table institution_account to pixconnect_service;
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
comment on column institution_account.paused_because is
    'What the database has forgotten, where that has paused it; null where an operator did, and of one that is not paused.';
comment on column institution_account.removed_at is
    'When an operator has removed it, in real time; the row stays, without credentials, for what names it.';
comment on column institution_account.lost_at is
    'When the database was seen to have forgotten something, in real time, until an operator has said that it is in the books again: the account is read, and nothing leaves it.';

-- await_refusals: migration 0051
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
revoke execute on function await_refusals() from public;

-- keep_account: migration 0161
create function keep_account() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    past text;
begin
    -- Entries are posted under the balance's lock, and what has no entries is made while it holds the holder's row.
    perform from balance where holder_id = old.id for update;
    perform from holder where id = old.id for update;
    past := find_past_of_holder(old.id);
    if past is not null then
        raise exception 'holder % stays on its account: %', old.id, past
            using errcode = 'integrity_constraint_violation', constraint = 'a_holder_stays_on_its_account';
    end if;
    return new;
end $function$;
revoke execute on function keep_account() from public;

-- keep_family: migration 0164
create function keep_family() returns trigger language plpgsql
as $function$
begin
    raise exception 'holder % came to its family by succeeding, and stays in it', new.id
        using errcode = 'integrity_constraint_violation', constraint = 'a_family_stays';
end $function$;
revoke execute on function keep_family() from public;

-- holder: A person or company with an account here.
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
    keep_family();
create trigger open_without_family before insert on holder for each row when (new.family_id is not null or new.successor_id is
    not null) execute function keep_family();
grant insert, update (city, may_deposit, may_withdraw, may_lend, transfer_limit_cents, day_limit_cents, night_limit_cents,
    disabled_at, institution_id, approve_above_cents, approve_new_payees, street, state, postal_code, night_begins_late) on
    table holder to pixconnect_operator;
grant select on table holder to pixconnect_service;
comment on table holder is 'A person or company with an account here.';
comment on column holder.id is 'Counts up from 1; everything else of a holder names it by this.';
comment on column holder.name is 'The name, as it is in accounts and QR codes.';
comment on column holder.tax_id is 'The CPF (11 characters) or CNPJ (14 characters).';
comment on column holder.city is 'The city, which each QR code names.';
comment on column holder.branch is 'The branch of the account, 1 to 4 digits.';
comment on column holder.account_number is 'The number of the account; no other holder has the same.';
comment on column holder.account_type is 'What kind of account the rail is told that it is.';
comment on column holder.may_deposit is 'Whether money may come in.';
comment on column holder.may_withdraw is 'Whether money may go out, by transfers or refunds.';
comment on column holder.may_lend is 'Whether the account may lend; only shown, nothing is decided by it.';
comment on column holder.transfer_limit_cents is 'The most that one transfer may be of, in cents; null is no limit.';
comment on column holder.day_limit_cents is 'The most that may be sent in one day of Sao Paulo, in cents; null is no limit.';
comment on column holder.night_limit_cents is
    'The most that may be sent in one night (20:00 to 06:00 in Sao Paulo), in cents; null is no limit.';
comment on column holder.disabled_at is
    'When an operator blocked all clients of the holder, in real time; null while they are let in.';
comment on column holder.created_at is 'When it was opened, in service time.';
comment on column holder.institution_id is
    'The account at an institution that its money lies on; null is the installation''s own rail.';
comment on column holder.approve_above_cents is
    'Outgoing transfers above this many cents wait for an operator''s yes; null is none.';
comment on column holder.approve_new_payees is
    'Whether outgoing transfers to a payee to whom none of this holder''s has settled wait for an operator''s yes.';
comment on column holder.street is
    'The street and number; null where no address is known, and then no charge with a due date can be made.';
comment on column holder.state is 'The state, by its two letters.';
comment on column holder.postal_code is 'The CEP, 8 digits.';
comment on column holder.night_begins_late is
    'Whether its night, of which the night limit speaks, begins at the later of the two hours that a holder may choose.';
comment on column holder.family_id is
    'The first of the holders that succeeded each other, which share their names of requests; null where none did.';
comment on column holder.successor_id is
    'The newest of them, which has the clients, keys and webhooks; null for that one, and where none did.';

-- pix_key: The Pix keys of our holders: the directory of our own.
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
create index pix_key_of_holder on pix_key (holder_id, created_at, key);
create trigger await_refusals before insert on pix_key for each row execute function await_refusals();
create trigger key_removal_moves_access_revision after delete on pix_key for each row execute function move_access_revision();
grant delete, insert on table pix_key to pixconnect_operator;
grant select on table pix_key to pixconnect_service;
comment on table pix_key is 'The Pix keys of our holders: the directory of our own.';
comment on column pix_key.key is 'The key as the network writes it.';
comment on column pix_key.key_type is 'What kind of key it is.';
comment on column pix_key.holder_id is 'The holder who is paid by it.';
comment on column pix_key.created_at is 'When it was given to the holder, in service time.';

-- removed_pix_key: The last holder of each Pix key that an operator removed, so that a payment on its way is refused on the
-- right account.
create table removed_pix_key (
    key text collate "C" not null,
    holder_id bigint not null,
    removed_at timestamp with time zone default clock_timestamp() not null,
    constraint removed_pix_key_pkey primary key (key),
    constraint removed_pix_key_key_check check (length(key) >= 1 and length(key) <= 77),
    constraint removed_pix_key_holder_id_fkey foreign key (holder_id) references holder(id)
);
grant delete, insert (key, holder_id), update (holder_id, removed_at) on table removed_pix_key to pixconnect_operator;
grant select on table removed_pix_key to pixconnect_service;
comment on table removed_pix_key is
    'The last holder of each Pix key that an operator removed, so that a payment on its way is refused on the right account.';
comment on column removed_pix_key.key is 'The key that was removed.';
comment on column removed_pix_key.holder_id is 'The holder who had it.';
comment on column removed_pix_key.removed_at is
    'When it was removed, in real time; another holder gets it a minute later at the earliest.';

-- keep_tokens_ended: migration 0006
create function keep_tokens_ended() returns trigger language plpgsql
as $function$
begin
    raise exception 'tokens that were ended stay ended' using errcode = 'check_violation', constraint = 'tokens_stay_ended';
end $function$;
revoke execute on function keep_tokens_ended() from public;

-- client: The OAuth clients by which programs of holders ask.
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
    constraint scopes_exist check (cardinality(scopes) >= 1 and cardinality(scopes) <= 21 and scopes <@ array['charge.read',
        'charge.write', 'transfer.read', 'transfer.write', 'refund.read', 'refund.write', 'ledger.read', 'webhook.read',
        'webhook.write', 'infraction.read', 'infraction.write', 'cob.read', 'cob.write', 'cobv.read', 'cobv.write',
        'lotecobv.read', 'lotecobv.write', 'pix.read', 'pix.write', 'payloadlocation.read', 'payloadlocation.write']),
    constraint secret_key_id_has_its_length check (octet_length(secret_key_id) = 8),
    constraint client_holder_id_fkey foreign key (holder_id) references holder(id)
);
create index client_of_holder on client (holder_id, created_at, client_id);
create trigger client_moves_access_revision after update of disabled_at, tokens_from on client for each row when
    (old.disabled_at is distinct from new.disabled_at or old.tokens_from is distinct from new.tokens_from) execute function
    move_access_revision();
create trigger client_removal_moves_access_revision after delete on client for each row execute function move_access_revision();
create trigger tokens_stay_ended before update of tokens_from on client for each row when (old.tokens_from >
    coalesce(new.tokens_from, '-infinity'::timestamp with time zone)) execute function keep_tokens_ended();
grant delete, insert, update (scopes, secret_hash, rotated_at, disabled_at, tokens_from, secret_key_id, certificate,
    certificate_expires_at) on table client to pixconnect_operator;
grant select, update (secret_hash, secret_key_id) on table client to pixconnect_service;
comment on table client is 'The OAuth clients by which programs of holders ask.';
comment on column client.client_id is 'The name by which the client asks for tokens.';
comment on column client.holder_id is 'The holder for whom it acts.';
comment on column client.name is 'What the operator calls it.';
comment on column client.scopes is 'What its tokens may be used for.';
comment on column client.secret_hash is 'The keyed hash of its secret, 32 octets; the secret itself is nowhere.';
comment on column client.created_at is 'When it was made, in real time.';
comment on column client.rotated_at is 'When its secret was last replaced, in real time.';
comment on column client.disabled_at is 'When an operator shut it out, in real time; null while it is let in.';
comment on column client.tokens_from is
    'Tokens that were issued before this instant, in real time, are refused; it never goes back.';
comment on column client.secret_key_id is
    'Which secret key the hash was made with, 8 octets; null is a row that is older than this column.';
comment on column client.certificate is
    'The thumbprint (SHA-256) of the certificate that it must show; null where it needs none.';
comment on column client.certificate_expires_at is
    'When that certificate ends, in real time; null where it needs none, or was bound to it by an older version.';

-- refuse_balance_without_entry: migration 0001
create function refuse_balance_without_entry() returns trigger language plpgsql
as $function$
begin
    if pg_trigger_depth() < 2 then
        raise exception 'a balance changes by ledger entries only'
            using errcode = 'integrity_constraint_violation', constraint = 'balance_follows_entries';
    end if;
    return new;
end $function$;
revoke execute on function refuse_balance_without_entry() from public;

-- check_uncovered: migration 0141
create function check_uncovered() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if exists (
        select from balance join block on block.holder_id = balance.holder_id
        where balance.holder_id = new.holder_id and balance.available_cents > 0
            and block.state = 'open' and block.covered_cents < block.held_cents
    ) then
        raise exception 'holder % has money available, and a block of it is not covered', new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'blocks_are_covered_first';
    end if;
    return null;
end $function$;
revoke execute on function check_uncovered() from public;

-- balance: What each holder has and owes, in seven accounts that cancel out; only ledger entries move it.
create table balance (
    holder_id bigint not null,
    available_cents bigint default 0 not null,
    reserved_cents bigint default 0 not null,
    settlement_cents bigint default 0 not null,
    funding_cents bigint default 0 not null,
    last_number bigint default 0 not null,
    last_entry_at timestamp with time zone default '1970-01-01 00:00:00+00'::timestamp with time zone not null,
    modified_at timestamp with time zone not null,
    deficit_cents bigint default 0 not null,
    difference_cents bigint default 0 not null,
    blocked_cents bigint default 0 not null,
    blocks_count integer default 0 not null,
    constraint balance_pkey primary key (holder_id),
    constraint accounts_are_balanced check ((available_cents + reserved_cents + blocked_cents + settlement_cents + funding_cents
        + difference_cents - deficit_cents) = 0),
    constraint available_is_not_negative check (available_cents >= 0),
    constraint blocked_is_not_negative check (blocked_cents >= 0 and blocks_count >= 0),
    constraint deficit_is_not_negative check (deficit_cents >= 0),
    constraint deficit_is_repaid_first check (deficit_cents = 0 or available_cents = 0),
    constraint reserved_is_not_negative check (reserved_cents >= 0),
    constraint balance_holder_id_fkey foreign key (holder_id) references holder(id)
) with (fillfactor=50);
create trigger balance_follows_entries before update of available_cents, reserved_cents, blocked_cents, deficit_cents,
    settlement_cents, funding_cents, difference_cents, last_number, last_entry_at, blocks_count on balance for each row execute
    function refuse_balance_without_entry();
create constraint trigger blocks_are_covered_first after update on balance deferrable initially deferred for each row when
    (new.blocks_count > 0 and new.available_cents > 0) execute function check_uncovered();
grant insert (holder_id, modified_at) on table balance to pixconnect_operator;
grant select, update (modified_at) on table balance to pixconnect_service;
comment on table balance is 'What each holder has and owes, in seven accounts that cancel out; only ledger entries move it.';
comment on column balance.holder_id is 'The holder whose money it is.';
comment on column balance.available_cents is 'What may be spent, in cents; never negative.';
comment on column balance.reserved_cents is 'What is held for transfers and refunds under way, in cents; never negative.';
comment on column balance.settlement_cents is
    'What came over the rail, as a negative number, and what went out over it, in cents.';
comment on column balance.funding_cents is 'What was deposited as play money, as a negative number, in cents.';
comment on column balance.last_number is 'The number of the last entry that changed available + reserved + blocked.';
comment on column balance.last_entry_at is 'The instant of that entry, in service time: the next one is dated later.';
comment on column balance.modified_at is 'When an entry last moved it, in service time.';
comment on column balance.deficit_cents is
    'What the institution took and the holder lacked, in cents; never negative, and nothing is available while there is any.';
comment on column balance.difference_cents is
    'What was adjusted of what is available, in cents: positive, where the holder has less by it; nobody has it.';
comment on column balance.blocked_cents is 'What the institution has blocked of what the holder has, in cents; never negative.';
comment on column balance.blocks_count is 'How many of its blocks are open: as long as it is 0, nobody looks for them.';

-- deposit: Play money that was put into accounts of a sandbox; rows are never changed or deleted.
create table deposit (
    id bigint not null,
    holder_id bigint not null,
    amount_cents bigint not null,
    created_at timestamp with time zone not null,
    constraint deposit_pkey primary key (id, holder_id),
    constraint deposit_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint deposit_id_check check (id >= 1 and id <= 9007199254740991),
    constraint deposit_holder_id_fkey foreign key (holder_id) references balance(holder_id)
);
create trigger deposit_is_append_only before delete or update or truncate on deposit for each statement execute function
    refuse_change();
grant select on table deposit to pixconnect_service;
comment on table deposit is 'Play money that was put into accounts of a sandbox; rows are never changed or deleted.';
comment on column deposit.id is 'The id of its ledger entry too.';
comment on column deposit.holder_id is 'The holder who got it.';
comment on column deposit.amount_cents is 'How much, in cents.';
comment on column deposit.created_at is 'When it was made, in service time.';

-- check_movements: migrations 0059, 0062, 0074, 0083
create function check_movements() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    misfit record;
begin
    select moved.item_id, moved.holder_id, moved.status into misfit from new_row as moved
    where not exists (
        select from allowed_transition as allowed
        where allowed.kind = 'movement' and allowed.direction = moved.direction and not allowed.is_book
            and allowed.before = 'NEW' and allowed.after = moved.status
    ) or (
        select count(*) from ledger_entry as entry
        join allowed_posting as allowed using (debit_account, credit_account)
        where entry.holder_id = moved.holder_id and entry.transfer_id is null and entry.refund_id is null
            and case entry.debit_account
                when 'deficit' then entry.id = moved.deficit_entry_id and entry.amount_cents = moved.deficit_cents
                else entry.id = moved.entry_id and entry.amount_cents = moved.amount_cents - moved.deficit_cents
            end
            and entry.id in (moved.entry_id, moved.deficit_entry_id)
            and allowed.kind = 'movement' and allowed.direction = moved.direction and not allowed.is_book
            and allowed.status = moved.status
    ) <> (moved.entry_id is not null)::int + (moved.deficit_entry_id is not null)::int
        or moved.opposite_of is not null and not exists (
            select from movement as undone
            where undone.holder_id = moved.holder_id and undone.item_id = moved.opposite_of and undone.opposite_of is null
                and undone.kind <> 'opening_balance' and undone.status = 'POSTED' and undone.direction <> moved.direction
                and undone.amount_cents = moved.amount_cents
        )
        or exists (
            select from movement as other
            where other.institution_id = moved.institution_id and other.item_id = moved.item_id
                and other.holder_id <> moved.holder_id
        )
        or exists (select from transfer where transfer.end_to_end_id = moved.item_id)
        or exists (select from transfer where transfer.network_id = moved.item_id)
        or exists (select from refund where refund.return_id = moved.item_id)
        or exists (select from refund where refund.network_id = moved.item_id)
    limit 1;
    if found then
        raise exception 'movement % of holder % cannot be % with the entries and name that it has',
            misfit.item_id, misfit.holder_id, misfit.status
            using errcode = 'integrity_constraint_violation', constraint = 'a_movement_has_what_belongs_to_it';
    end if;
    return null;
end $function$;
revoke execute on function check_movements() from public;

-- name_account: migration 0083
create function name_account() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if new.opposite_of is null then
        select institution_id into new.institution_id from holder where id = new.holder_id;
    else
        select institution_id into new.institution_id from movement where holder_id = new.holder_id and item_id = new.opposite_of;
    end if;
    return new;
end $function$;
revoke execute on function name_account() from public;

-- movement: Items of the institution's account that no transfer, refund or deposit here explains; rows are never changed or
-- deleted.
create table movement (
    holder_id bigint not null,
    item_id text collate "C" not null,
    kind text not null,
    direction text not null,
    amount_cents bigint not null,
    status text not null,
    outcome_code text,
    entry_id bigint,
    end_to_end_id text,
    description text,
    network_settled_at timestamp with time zone not null,
    created_at timestamp with time zone not null,
    deficit_cents bigint default 0 not null,
    deficit_entry_id bigint,
    opposite_of text collate "C",
    institution_id smallint,
    constraint movement_pkey primary key (holder_id, item_id),
    constraint movement_has_its_own_entry unique (entry_id, holder_id),
    constraint an_opposite_is_of_another check (opposite_of <> item_id),
    constraint movement_amount_cents_check check (amount_cents >= 0 and amount_cents <= 999999999999 and (amount_cents > 0 or
        kind = 'opening_balance')),
    constraint movement_created_at_check check (isfinite(created_at)),
    constraint movement_description_check check (length(description) >= 1 and length(description) <= 140),
    constraint movement_direction_check check (direction in ('IN', 'OUT')),
    constraint movement_end_to_end_id_check check (length(end_to_end_id) >= 1 and length(end_to_end_id) <= 64),
    constraint movement_item_id_check check (length(item_id) >= 1 and length(item_id) <= 64),
    constraint movement_kind_check check (kind in ('opening_balance', 'fee', 'wire', 'boleto', 'by_hand', 'reversal',
        'judicial', 'other')),
    constraint movement_network_settled_at_check check (isfinite(network_settled_at)),
    constraint movement_status_check check (status in ('POSTED', 'ERROR')),
    constraint posted_with_its_entries check ((status = 'ERROR') = (outcome_code is not null) and (entry_id is not null) =
        (status = 'POSTED' and amount_cents > deficit_cents) and (deficit_entry_id is not null) = (deficit_cents > 0) and
        deficit_cents >= 0 and deficit_cents <= amount_cents and (deficit_cents = 0 or direction = 'OUT' and status = 'POSTED')),
    constraint movement_holder_id_fkey foreign key (holder_id) references balance(holder_id)
);
create index movement_by_account on movement (institution_id, item_id) where institution_id is not null;
create unique index movement_has_its_own_deficit_entry on movement (deficit_entry_id, holder_id) where deficit_entry_id is not
    null;
create unique index movement_is_taken_back_once on movement (holder_id, opposite_of) where opposite_of is not null;
create index movement_made on movement (institution_id, created_at) where institution_id is not null;
create trigger check_new after insert on movement referencing new table as new_row for each statement execute function
    check_movements();
create trigger check_open after insert on movement for each row execute function check_account_is_open();
create trigger movement_is_append_only before delete or update or truncate on movement for each statement execute function
    refuse_change();
create trigger name_account before insert on movement for each row execute function name_account();
grant insert, select on table movement to pixconnect_service;
comment on table movement is
    'Items of the institution''s account that no transfer, refund or deposit here explains; rows are never changed or deleted.';
comment on column movement.holder_id is 'The holder whose account it is on.';
comment on column movement.item_id is 'The institution''s name of the item; unique on the account.';
comment on column movement.kind is 'What it is: a fee, a wire, what a person did in the institution''s app, and so on.';
comment on column movement.direction is 'Whether money came in (IN) or went out (OUT).';
comment on column movement.amount_cents is 'How much, in cents; only an opening balance may be 0.';
comment on column movement.status is 'POSTED with its entries; ERROR where the rail let us refuse it, and no money moved.';
comment on column movement.outcome_code is 'Why it was refused.';
comment on column movement.entry_id is
    'The ledger entry of what was available or came in; null where that is nothing, or it was refused.';
comment on column movement.end_to_end_id is 'The Pix that it is about, as the network calls it: that which a fee is taken of.';
comment on column movement.description is 'The institution''s text.';
comment on column movement.network_settled_at is 'When it happened at the institution, by its clock.';
comment on column movement.created_at is 'When it was written, in service time.';
comment on column movement.deficit_cents is 'The part of it that was not available, in cents: the holder owes it.';
comment on column movement.deficit_entry_id is 'The ledger entry of what was lacking; null where nothing was.';
comment on column movement.opposite_of is
    'The item whose movement it takes back, because that has proved to be a transfer or refund; null otherwise.';
comment on column movement.institution_id is
    'The account at an institution that it is of, for ever; null is the installation''s own rail.';

-- check_repayments: migration 0062
create function check_repayments() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    misfit record;
begin
    select made.id, made.holder_id into misfit from new_row as made
    where not exists (
        select from ledger_entry as entry
        where entry.id = made.id and entry.holder_id = made.holder_id and entry.amount_cents = made.amount_cents
            and entry.debit_account = 'available' and entry.credit_account = 'deficit'
            and entry.transfer_id is null and entry.refund_id is null
    ) or not exists (
        select from ledger_entry as source
        where source.id = made.source_entry_id and source.holder_id = made.holder_id
            and source.credit_account = 'available' and source.amount_cents >= made.amount_cents
    )
    limit 1;
    if found then
        raise exception 'repayment % of holder % has not the entry that it is, or is of nothing that came',
            misfit.id, misfit.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_repayment_is_of_what_came';
    end if;
    return null;
end $function$;
revoke execute on function check_repayments() from public;

-- repayment: What was repaid of deficits, each in the statement that raised what is available; rows are never changed or
-- deleted.
create table repayment (
    id bigint not null,
    holder_id bigint not null,
    source_entry_id bigint not null,
    amount_cents bigint not null,
    created_at timestamp with time zone not null,
    constraint repayment_pkey primary key (id, holder_id),
    constraint repaid_once_of_what_came unique (source_entry_id, holder_id),
    constraint repayment_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint repayment_created_at_check check (isfinite(created_at)),
    constraint repayment_id_check check (id >= 1 and id <= 9007199254740991),
    constraint repayment_holder_id_fkey foreign key (holder_id) references balance(holder_id)
);
create trigger check_new after insert on repayment referencing new table as new_row for each statement execute function
    check_repayments();
create trigger repayment_is_append_only before delete or update or truncate on repayment for each statement execute function
    refuse_change();
grant insert, select on table repayment to pixconnect_service;
comment on table repayment is
    'What was repaid of deficits, each in the statement that raised what is available; rows are never changed or deleted.';
comment on column repayment.id is 'The id of its ledger entry too.';
comment on column repayment.holder_id is 'The holder who owed it.';
comment on column repayment.source_entry_id is 'The ledger entry that raised what is available: this was taken of it.';
comment on column repayment.amount_cents is 'How much, in cents.';
comment on column repayment.created_at is 'When it was made, in service time.';

-- lookup_budget: What holders have left of their look-ups of keys and accounts: a row for each that has spent one; no money
-- hangs on it.
create table lookup_budget (
    holder_id bigint not null,
    tokens double precision not null,
    read_at timestamp with time zone not null,
    settled_until timestamp with time zone not null,
    constraint lookup_budget_pkey primary key (holder_id),
    constraint lookup_budget_read_at_check check (isfinite(read_at)),
    constraint lookup_budget_settled_until_check check (isfinite(settled_until)),
    constraint lookup_budget_tokens_check check (tokens >= '-1000000000'::numeric::double precision and tokens <=
        '1000000000'::numeric::double precision),
    constraint lookup_budget_holder_id_fkey foreign key (holder_id) references holder(id)
) with (fillfactor=50);
grant insert, select, update on table lookup_budget to pixconnect_service;
comment on table lookup_budget is
    'What holders have left of their look-ups of keys and accounts: a row for each that has spent one; no money hangs on it.';
comment on column lookup_budget.holder_id is 'Who looks up.';
comment on column lookup_budget.tokens is 'What was left at read_at; below zero where more was spent than there was.';
comment on column lookup_budget.read_at is 'Real time, from which tokens come back again.';
comment on column lookup_budget.settled_until is
    'Service time: payments that were made until then and have settled are among the tokens already.';

-- check_waiting_order: migration 0120
create function check_waiting_order() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if not exists (
        select from open_order
        where name = new.order_name and resource_id = new.transfer_id and holder_id = new.holder_id
            and institution_id = new.institution_id and handed_at is not null and left(name, 1) = 'E'
    ) then
        raise exception 'the order % is not open at the account %, so that it waits for nobody there',
            new.order_name, new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'only_an_open_order_waits';
    end if;
    return new;
end $function$;
revoke execute on function check_waiting_order() from public;

-- waiting_order: Transfers that began to wait for a person at an institution; rows are never changed or deleted.
create table waiting_order (
    order_name text collate "C" not null,
    transfer_id bigint not null,
    holder_id bigint not null,
    institution_id smallint not null,
    waits_for text collate "C" not null,
    since timestamp with time zone not null,
    constraint waiting_order_pkey primary key (order_name),
    constraint waiting_order_transfer_id_holder_id_key unique (transfer_id, holder_id),
    constraint waiting_order_order_name_check check (length(order_name) = 32),
    constraint waiting_order_since_check check (isfinite(since)),
    constraint waiting_order_waits_for_check check (waits_for in ('approval', 'funds')),
    constraint waiting_order_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
create trigger check_new before insert on waiting_order for each row execute function check_waiting_order();
create trigger waiting_order_is_append_only before delete or update or truncate on waiting_order for each statement execute
    function refuse_change();
grant insert, select on table waiting_order to pixconnect_service;
comment on table waiting_order is
    'Transfers that began to wait for a person at an institution; rows are never changed or deleted.';
comment on column waiting_order.order_name is 'The transfer''s end_to_end_id.';
comment on column waiting_order.transfer_id is 'The transfer.';
comment on column waiting_order.holder_id is 'From whom it goes.';
comment on column waiting_order.institution_id is 'The account over which it goes.';
comment on column waiting_order.waits_for is 'Somebody has to approve it there; or the account there has too little.';
comment on column waiting_order.since is 'When it was first seen to wait, in service time.';

-- waiting_limits: Higher limits that operators want for holders: each acts once it has waited, or once a second operator
-- confirms it, and is gone then.
create table waiting_limits (
    holder_id bigint not null,
    transfer_limit_cents bigint,
    day_limit_cents bigint,
    night_limit_cents bigint,
    night_begins_late boolean not null,
    wanted_by text not null,
    wanted_at timestamp with time zone not null,
    acts_at timestamp with time zone not null,
    constraint waiting_limits_pkey primary key (holder_id),
    constraint higher_limits_wait check (acts_at > wanted_at),
    constraint waiting_limits_acts_at_check check (isfinite(acts_at)),
    constraint waiting_limits_day_limit_cents_check check (day_limit_cents >= 0),
    constraint waiting_limits_night_limit_cents_check check (night_limit_cents >= 0),
    constraint waiting_limits_transfer_limit_cents_check check (transfer_limit_cents >= 0),
    constraint waiting_limits_wanted_at_check check (isfinite(wanted_at)),
    constraint waiting_limits_wanted_by_check check (length(wanted_by) >= 1 and length(wanted_by) <= 255),
    constraint waiting_limits_holder_id_fkey foreign key (holder_id) references holder(id)
);
create trigger waiting_limits_are_replaced_whole before update on waiting_limits for each statement execute function
    refuse_change();
grant delete, insert on table waiting_limits to pixconnect_operator;
grant select on table waiting_limits to pixconnect_service;
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

-- initiated_transfer: Names of transfers that holders were told at the faces of institutions that send in two steps; no money
-- moves by it.
create table initiated_transfer (
    end_to_end_id text collate "C" not null,
    holder_id bigint not null,
    key text not null,
    key_type text not null,
    counterparty jsonb not null,
    created_at timestamp with time zone not null,
    constraint initiated_transfer_pkey primary key (end_to_end_id),
    constraint initiated_transfer_created_at_check check (isfinite(created_at)),
    constraint initiated_transfer_end_to_end_id_check check (length(end_to_end_id) = 32 and end_to_end_id ~~ 'E%'),
    constraint initiated_transfer_holder_id_fkey foreign key (holder_id) references holder(id)
);
grant insert, select on table initiated_transfer to pixconnect_service;
comment on table initiated_transfer is
    'Names of transfers that holders were told at the faces of institutions that send in two steps; no money moves by it.';
comment on column initiated_transfer.end_to_end_id is 'The name, which the transfer has too once it is confirmed.';
comment on column initiated_transfer.holder_id is 'Who was told it, and alone can confirm it.';
comment on column initiated_transfer.key is 'The Pix key that is paid.';
comment on column initiated_transfer.key_type is 'What kind of key that is.';
comment on column initiated_transfer.counterparty is
    'Whose the key was then: when another has it at the second step, nothing is sent.';
comment on column initiated_transfer.created_at is 'When it was told, service time.';

-- prepared_transfer: What holders have asked to send at the faces of institutions where somebody approves it afterwards; no
-- money moves by it.
create table prepared_transfer (
    holder_id bigint not null,
    external_id text collate "C" not null,
    initiation_type text not null,
    amount_cents bigint not null,
    key text,
    key_type text,
    br_code text,
    counterparty jsonb,
    payer_message text,
    rejected_as text,
    created_at timestamp with time zone not null,
    constraint prepared_transfer_pkey primary key (external_id, holder_id),
    constraint it_names_whom_to_pay check ((initiation_type = 'MANUAL') = (counterparty is not null) and (initiation_type =
        'QRCODE') = (br_code is not null) and (initiation_type <> 'KEY' or key is not null) and (initiation_type <> 'QRCODE' or
        key is null) and (key is null) = (key_type is null)),
    constraint prepared_transfer_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint prepared_transfer_created_at_check check (isfinite(created_at)),
    constraint prepared_transfer_external_id_check check (length(external_id) >= 1 and length(external_id) <= 255),
    constraint prepared_transfer_initiation_type_check check (initiation_type in ('KEY', 'MANUAL', 'QRCODE')),
    constraint prepared_transfer_payer_message_check check (length(payer_message) <= 140),
    constraint prepared_transfer_holder_id_fkey foreign key (holder_id) references holder(id)
);
create index prepared_transfer_list on prepared_transfer (holder_id, created_at, external_id);
grant insert, select on table prepared_transfer to pixconnect_service;
comment on table prepared_transfer is
    'What holders have asked to send at the faces of institutions where somebody approves it afterwards; no money moves by it.';
comment on column prepared_transfer.holder_id is 'Who sends.';
comment on column prepared_transfer.external_id is 'The holder''s name for it, which the transfer has too once it is approved.';
comment on column prepared_transfer.initiation_type is 'How the payee is named: by key, by account, or by QR code.';
comment on column prepared_transfer.amount_cents is 'Cents.';
comment on column prepared_transfer.key is
    'The Pix key that is paid; beside an account, the one that a test environment pays in its place.';
comment on column prepared_transfer.key_type is 'What kind of key that is.';
comment on column prepared_transfer.br_code is 'The QR code that is paid.';
comment on column prepared_transfer.counterparty is 'The account that is paid, and whose it is.';
comment on column prepared_transfer.payer_message is 'What the payee is told.';
comment on column prepared_transfer.rejected_as is
    'Why a test environment says that it was rejected; null is what the network says.';
comment on column prepared_transfer.created_at is 'When it was asked for, service time.';

-- tally: How many charges, transfers, refunds and locations of a status a holder has, by hour; and what was sent, in cents.
create table tally (
    holder_id bigint not null,
    kind text not null,
    status text not null,
    hour timestamp with time zone not null,
    count bigint not null,
    constraint tally_pkey primary key (holder_id, kind, status, hour),
    constraint tally_kind_check check (kind in ('charge', 'charge_due', 'transfer', 'refund', 'spent', 'location')),
    constraint tally_holder_id_fkey foreign key (holder_id) references holder(id)
) with (fillfactor=70);
grant insert, select, update on table tally to pixconnect_service;
comment on table tally is
    'How many charges, transfers, refunds and locations of a status a holder has, by hour; and what was sent, in cents.';
comment on column tally.holder_id is 'The holder whose they are.';
comment on column tally.kind is 'What is counted; of spent the cents are summed.';
comment on column tally.status is 'The status they have now; of spent OUT.';
comment on column tally.hour is 'The hour in which they were made, in service time.';
comment on column tally.count is 'How many, or how many cents.';

-- keep_case: migration 0095
create function keep_case() returns trigger language plpgsql
as $function$
begin
    raise exception 'the case % is of one difference, and its end stays', old.id
        using errcode = 'integrity_constraint_violation', constraint = 'an_end_of_a_case_stays';
end $function$;
revoke execute on function keep_case() from public;

-- kept_case: What an institution or the rail says and we do not know, or the other way round, until it ended.
create table kept_case (
    id bigint generated always as identity not null,
    kind text collate "C" not null,
    institution_id smallint,
    holder_id bigint,
    name text collate "C" not null,
    amount_cents bigint,
    said text not null,
    since timestamp with time zone not null,
    opened_at timestamp with time zone default clock_timestamp() not null,
    opened_count integer default 1 not null,
    ended_at timestamp with time zone,
    ended_as text collate "C",
    ended_by text,
    end_reason text,
    constraint kept_case_pkey primary key (id),
    constraint a_difference_is_one_case unique nulls not distinct (kind, institution_id, name),
    constraint an_end_says_how check ((ended_at is null) = (ended_as is null)),
    constraint closing_a_case_says_who_and_why check ((ended_by is null) = (end_reason is null) and (ended_by is not null) =
        (ended_as in ('adjusted', 'closed', 'decided'))),
    constraint kept_case_amount_cents_check check (amount_cents <> 0 and amount_cents >= '-999999999999'::bigint and
        amount_cents <= 999999999999),
    constraint kept_case_end_reason_check check (length(end_reason) >= 1 and length(end_reason) <= 1000),
    constraint kept_case_ended_as_check check (ended_as in ('recorded', 'adjusted', 'closed', 'decided')),
    constraint kept_case_ended_by_check check (length(ended_by) >= 1 and length(ended_by) <= 255),
    constraint kept_case_kind_check check (kind in ('report', 'day', 'line_there', 'line_here', 'rail', 'order')),
    constraint kept_case_name_check check (length(name) >= 1 and length(name) <= 255),
    constraint kept_case_opened_count_check check (opened_count > 0),
    constraint kept_case_said_check check (length(said) >= 1 and length(said) <= 1000),
    constraint kept_case_since_check check (isfinite(since)),
    constraint only_days_and_lines_lie_at_an_account check ((institution_id is not null) = (kind in ('day', 'line_there',
        'line_here', 'order'))),
    constraint kept_case_holder_id_fkey foreign key (holder_id) references holder(id),
    constraint kept_case_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
create index kept_case_open on kept_case (kind, since) where ended_at is null;
create trigger an_end_of_a_case_stays before update on kept_case for each row when (new.id is distinct from old.id or new.kind
    is distinct from old.kind or new.institution_id is distinct from old.institution_id or new.name is distinct from old.name or
    new.since is distinct from old.since or new.opened_at is distinct from old.opened_at or new.opened_count <>
    (old.opened_count + (old.ended_at is not null)::integer)) execute function keep_case();
grant insert (kind, institution_id, holder_id, name, amount_cents, said, since), select, update (holder_id, amount_cents, said,
    opened_count, ended_at, ended_as, ended_by, end_reason) on table kept_case to pixconnect_service;
comment on table kept_case is
    'What an institution or the rail says and we do not know, or the other way round, until it ended.';
comment on column kept_case.id is 'Counts up.';
comment on column kept_case.kind is
    'A kept report; a day whose balances and lines disagree; a line there or here that the other has not; what verify found; or an order of which nobody can say how it ended.';
comment on column kept_case.institution_id is 'The account at an institution; null where it is none''s.';
comment on column kept_case.holder_id is 'Whose it is, where that is known.';
comment on column kept_case.name is
    'What is different: the report''s id, the day, the line''s id, what verify names, or the order''s name.';
comment on column kept_case.amount_cents is
    'By how much the institution says more than we do, in cents; negative where it says less, null where it is no sum.';
comment on column kept_case.said is 'What is known, in words.';
comment on column kept_case.since is
    'Of when it is: of a day its begin, in service time; of a report when it came, in real time.';
comment on column kept_case.opened_at is 'When it was found first, in real time.';
comment on column kept_case.opened_count is 'How often it was opened: a difference that comes back opens its case again.';
comment on column kept_case.ended_at is 'When it ended, in real time; null while it is open.';
comment on column kept_case.ended_as is
    'Recorded: the missing fact came, and it ended by itself; adjusted: entries stand in for it; closed: by an operator''s word; decided: two operators said, by evidence, how its order ended.';
comment on column kept_case.ended_by is 'The operator who ended it; null where it ended by itself.';
comment on column kept_case.end_reason is 'What was found, and done about it.';

-- case_note: Who looked at a case and what they found; rows are never changed or deleted.
create table case_note (
    id bigint generated always as identity not null,
    case_id bigint not null,
    operator text not null,
    noted_at timestamp with time zone default clock_timestamp() not null,
    note text not null,
    constraint case_note_pkey primary key (id),
    constraint case_note_note_check check (length(note) >= 1 and length(note) <= 1000),
    constraint case_note_operator_check check (length(operator) >= 1 and length(operator) <= 255),
    constraint case_note_case_id_fkey foreign key (case_id) references kept_case(id)
);
create index case_note_by_case on case_note (case_id, id);
create trigger case_note_is_append_only before delete or update or truncate on case_note for each statement execute function
    refuse_change();
grant insert (case_id, operator, note) on table case_note to pixconnect_console;
grant insert (case_id, operator, note) on table case_note to pixconnect_operator;
grant select on table case_note to pixconnect_service;
comment on table case_note is 'Who looked at a case and what they found; rows are never changed or deleted.';
comment on column case_note.id is 'Counts up.';
comment on column case_note.case_id is 'The case.';
comment on column case_note.operator is 'Who looked.';
comment on column case_note.noted_at is 'When, in real time.';
comment on column case_note.note is 'What they found.';

-- check_adjustments: migrations 0097, 0100
create function check_adjustments() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    misfit record;
begin
    select made.id, made.holder_id into misfit from new_row as made
    join kept_case as ours on ours.id = made.case_id
    join holder on holder.id = made.holder_id
    left join adjustment as undone on undone.id = made.opposite_of and undone.holder_id = made.holder_id
    where ours.kind not in ('day', 'line_here') or ours.amount_cents is null
        or holder.institution_id is distinct from ours.institution_id
        or ours.ended_at is not null and made.opposite_of is null and made.kind <> 'written_off'
        or made.opposite_of is not null and (
            undone.opposite_of is not null or undone.account <> 'available' or undone.case_id <> made.case_id
            or undone.amount_cents <> made.amount_cents or undone.direction = made.direction
        )
        or (
            -- Twice the distance from the middle of what is allowed, which an opposite makes less.
            select sum(each.cents) not between least(ours.amount_cents, 0) and greatest(ours.amount_cents, 0) and (
                made.opposite_of is null or abs(2 * sum(each.cents) - ours.amount_cents)
                    >= abs(2 * sum(each.cents) filter (where each.id <> made.id) - ours.amount_cents)
            )
            from (
                select id, case direction when 'IN' then amount_cents else -amount_cents end as cents
                from adjustment where adjustment.case_id = made.case_id and account = 'available'
            ) as each
        )
        or (
            select sum(case each.direction when 'IN' then each.amount_cents else -each.amount_cents end)
                    filter (where each.account = 'settlement') not between least(sum(available), 0) and greatest(sum(available), 0)
            from adjustment as each
            cross join lateral (
                select case each.account when 'available' then 1 else 0 end
                    * case each.direction when 'IN' then each.amount_cents else -each.amount_cents end as available
            ) as signed
            where each.case_id = made.case_id and each.holder_id = made.holder_id
        )
        or (
            select count(*) from ledger_entry as entry
            join allowed_posting as allowed using (debit_account, credit_account)
            where entry.holder_id = made.holder_id and entry.id in (made.entry_id, made.deficit_entry_id)
                and entry.transfer_id is null and entry.refund_id is null
                and allowed.kind = 'adjustment' and allowed.direction = made.direction and allowed.status = made.account
                and entry.amount_cents = case entry.debit_account
                    when 'deficit' then made.deficit_cents else made.amount_cents - made.deficit_cents
                end
        ) <> (made.entry_id is not null)::int + (made.deficit_entry_id is not null)::int
    limit 1;
    if found then
        raise exception 'adjustment % of holder % is not within its case, or has not the entries that belong to it',
            misfit.id, misfit.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'an_adjustment_is_within_its_case';
    end if;
    return null;
end $function$;
revoke execute on function check_adjustments() from public;

-- adjustment: Adjusting entries that two operators wanted for a case; rows are never changed or deleted.
create table adjustment (
    id bigint not null,
    holder_id bigint not null,
    case_id bigint not null,
    kind text collate "C" not null,
    direction text not null,
    account text collate "C" not null,
    amount_cents bigint not null,
    deficit_cents bigint default 0 not null,
    entry_id bigint,
    deficit_entry_id bigint,
    opposite_of bigint,
    proposed_by text not null,
    confirmed_by text not null,
    created_at timestamp with time zone not null,
    constraint adjustment_pkey primary key (id, holder_id),
    constraint adjustment_is_undone_once unique (opposite_of, holder_id),
    constraint adjusted_by_two check (regexp_replace(confirmed_by, '^console ', '') <> regexp_replace(proposed_by, '^console ',
        '')),
    constraint adjusted_with_its_entries check ((entry_id is not null) = (amount_cents > deficit_cents) and (deficit_entry_id is
        not null) = (deficit_cents > 0) and deficit_cents >= 0 and deficit_cents <= amount_cents and id = coalesce(entry_id,
        deficit_entry_id) and (deficit_cents = 0 or direction = 'OUT' and account = 'available')),
    constraint adjustment_account_check check (account in ('available', 'settlement')),
    constraint adjustment_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint adjustment_confirmed_by_check check (length(confirmed_by) >= 1 and length(confirmed_by) <= 255),
    constraint adjustment_created_at_check check (isfinite(created_at)),
    constraint adjustment_direction_check check (direction in ('IN', 'OUT')),
    constraint adjustment_id_check check (id >= 1 and id <= 9007199254740991),
    constraint adjustment_kind_check check (kind in ('bank_error', 'our_error', 'found', 'written_off')),
    constraint adjustment_proposed_by_check check (length(proposed_by) >= 1 and length(proposed_by) <= 255),
    constraint only_a_loss_is_taken_over check (account = 'available' or kind = 'written_off' and opposite_of is null),
    constraint adjustment_case_id_fkey foreign key (case_id) references kept_case(id),
    constraint adjustment_holder_id_fkey foreign key (holder_id) references balance(holder_id),
    constraint an_opposite_is_of_an_adjustment foreign key (opposite_of, holder_id) references adjustment(id, holder_id)
);
create index adjustment_by_case on adjustment (case_id);
create unique index adjustment_by_deficit_entry on adjustment (deficit_entry_id, holder_id);
create unique index adjustment_by_entry on adjustment (entry_id, holder_id);
create trigger adjustment_is_append_only before delete or update or truncate on adjustment for each statement execute function
    refuse_change();
create trigger check_new after insert on adjustment referencing new table as new_row for each statement execute function
    check_adjustments();
create trigger check_open after insert on adjustment for each row execute function check_account_is_open();
grant insert on table adjustment to pixconnect_operator;
grant select on table adjustment to pixconnect_service;
comment on table adjustment is 'Adjusting entries that two operators wanted for a case; rows are never changed or deleted.';
comment on column adjustment.id is 'That of its first ledger entry.';
comment on column adjustment.holder_id is 'Whose money it moves.';
comment on column adjustment.case_id is 'The case that it is within.';
comment on column adjustment.kind is 'Whose error it is, that something was found, or that it is written off.';
comment on column adjustment.direction is 'IN raises what the holder or, at the end, settlement has; OUT lowers it.';
comment on column adjustment.account is
    'Available, which it moves against the difference; or settlement, by which the house takes over what is written off.';
comment on column adjustment.amount_cents is 'How much, in cents.';
comment on column adjustment.deficit_cents is 'The part of it that was not available, in cents: the holder owes it.';
comment on column adjustment.entry_id is 'The ledger entry of what was available; null where nothing was.';
comment on column adjustment.deficit_entry_id is 'The ledger entry of what was lacking; null where nothing was.';
comment on column adjustment.opposite_of is 'The adjustment of the same holder that it undoes; null where it undoes none.';
comment on column adjustment.proposed_by is 'The operator who wanted it.';
comment on column adjustment.confirmed_by is 'The other operator.';
comment on column adjustment.created_at is 'When it was made, in service time.';

-- check_case_ending: migration 0117
create function check_case_ending() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
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
end $function$;
revoke execute on function check_case_ending() from public;

-- case_ending: How orders at institutions ended of which nobody there could say it: by evidence, as two operators have said.
create table case_ending (
    order_name text collate "C" not null,
    kind text not null,
    institution_id smallint not null,
    holder_id bigint not null,
    resource_id bigint not null,
    amount_cents bigint not null,
    called_at timestamp with time zone not null,
    case_id bigint not null,
    said text not null,
    evidence_name text not null,
    evidence_size integer not null,
    evidence_digest text collate "C" not null,
    proposed_by text not null,
    confirmed_by text not null,
    ended_at timestamp with time zone not null,
    contrary_item_id text collate "C",
    constraint case_ending_pkey primary key (order_name),
    constraint a_case_ends_one_order unique (case_id),
    constraint a_line_is_contrary_to_one_ending unique (institution_id, contrary_item_id),
    constraint case_ending_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint case_ending_called_at_check check (isfinite(called_at)),
    constraint case_ending_confirmed_by_check check (length(confirmed_by) >= 1 and length(confirmed_by) <= 255),
    constraint case_ending_contrary_item_id_check check (length(contrary_item_id) >= 1 and length(contrary_item_id) <= 255),
    constraint case_ending_ended_at_check check (isfinite(ended_at)),
    constraint case_ending_evidence_digest_check check (evidence_digest ~ '^[0-9a-f]{64}$'),
    constraint case_ending_evidence_name_check check (length(evidence_name) >= 1 and length(evidence_name) <= 255),
    constraint case_ending_evidence_size_check check (evidence_size >= 1 and evidence_size <= 1048576),
    constraint case_ending_kind_check check (kind in ('refund', 'order')),
    constraint case_ending_order_name_check check (length(order_name) = 32),
    constraint case_ending_proposed_by_check check (length(proposed_by) >= 1 and length(proposed_by) <= 255),
    constraint case_ending_said_check check (said in ('settled', 'never')),
    constraint ended_by_two check (regexp_replace(confirmed_by, '^console ', '') <> regexp_replace(proposed_by, '^console ',
        '')),
    constraint no_order_ends_while_it_may_be_called check (ended_at >= (called_at + '12:00:00'::interval)),
    constraint only_what_never_left_has_a_contrary_line check (contrary_item_id is null or said = 'never'),
    constraint case_ending_case_id_fkey foreign key (case_id) references kept_case(id),
    constraint case_ending_holder_id_fkey foreign key (holder_id) references holder(id),
    constraint case_ending_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
create index case_ending_never on case_ending (institution_id, amount_cents) where said = 'never';
create trigger case_ending_is_append_only before delete or truncate on case_ending for each statement execute function
    refuse_change();
create trigger check_new before insert or update on case_ending for each row execute function check_case_ending();
grant insert on table case_ending to pixconnect_operator;
grant select, update (contrary_item_id) on table case_ending to pixconnect_service;
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

-- check_blocks: migration 0141
create function check_blocks() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    misfit record;
begin
    select made.id, made.holder_id into misfit from new_row as made
    where made.covered_cents <> (
        select coalesce(sum(case when step.kind in ('covered', 'held') then step.amount_cents else -step.amount_cents end), 0)
        from block_step as step where step.block_id = made.id and step.holder_id = made.holder_id
    ) limit 1;
    if found then
        raise exception 'block % of holder % covers what it has no steps of', misfit.id, misfit.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_block_is_its_steps';
    end if;
    -- Read with the balance, so that nobody looks for blocks of who has none.
    update balance set blocks_count = counted.blocks_count
    from (
        select holder_id, (
            select count(*) from block where block.holder_id = made.holder_id and block.state = 'open'
        ) as blocks_count
        from (select distinct holder_id from new_row) as made
    ) as counted
    where balance.holder_id = counted.holder_id and balance.blocks_count <> counted.blocks_count;
    return null;
end $function$;
revoke execute on function check_blocks() from public;

-- keep_block: migration 0141
create function keep_block() returns trigger language plpgsql
as $function$
begin
    raise exception 'block % of holder % has ended, or is of another Pix', new.id, new.holder_id
        using errcode = 'integrity_constraint_violation', constraint = 'a_block_ends_once';
end $function$;
revoke execute on function keep_block() from public;

-- block: Money of holders that an institution has blocked, as it tells it; only what it tells makes or ends one.
create table block (
    id bigint not null,
    holder_id bigint not null,
    institution_id smallint,
    kind text collate "C" not null,
    reference text collate "C" not null,
    transfer_id bigint,
    wanted_cents bigint not null,
    held_cents bigint not null,
    covered_cents bigint not null,
    respond_by timestamp with time zone,
    until timestamp with time zone,
    source text not null,
    state text collate "C" not null,
    told_at timestamp with time zone not null,
    created_at timestamp with time zone not null,
    modified_at timestamp with time zone not null,
    constraint block_pkey primary key (id, holder_id),
    constraint block_created_at_check check (isfinite(created_at)),
    constraint block_id_check check (id >= 1 and id <= 9007199254740991),
    constraint block_kind_check check (kind in ('med', 'precautionary', 'judicial', 'administrative', 'security')),
    constraint block_modified_at_check check (isfinite(modified_at)),
    constraint block_reference_check check (length(reference) >= 1 and length(reference) <= 64),
    constraint block_respond_by_check check (isfinite(respond_by)),
    constraint block_source_check check (length(source) >= 1 and length(source) <= 255),
    constraint block_state_check check (state in ('open', 'ended')),
    constraint block_told_at_check check (isfinite(told_at)),
    constraint block_until_check check (isfinite(until)),
    constraint covered_within_held check (0 <= covered_cents and covered_cents <= held_cents and held_cents <= wanted_cents and
        wanted_cents <= 999999999999),
    constraint what_ended_holds_nothing check (state = 'open' or wanted_cents = 0),
    constraint block_holder_id_fkey foreign key (holder_id) references balance(holder_id),
    constraint block_institution_id_fkey foreign key (institution_id) references institution_account(id),
    constraint block_transfer_id_holder_id_fkey foreign key (transfer_id, holder_id) references transfer(id, holder_id)
);
create index block_open on block (holder_id, created_at, id) where state = 'open';
create unique index block_reference on block (reference, coalesce(institution_id::integer, 0));
create index block_uncovered on block (holder_id, created_at, id) where state = 'open' and covered_cents < held_cents;
create trigger block_is_never_deleted before delete or truncate on block for each statement execute function refuse_change();
create constraint trigger blocks_are_covered_first after insert or update on block deferrable initially deferred for each row
    when (new.covered_cents < new.held_cents) execute function check_uncovered();
create trigger check_institution after insert on block for each row when (new.institution_id is not null) execute function
    check_institution_of_row();
create trigger check_moved after update on block referencing new table as new_row for each statement execute function
    check_blocks();
create trigger check_new after insert on block referencing new table as new_row for each statement execute function
    check_blocks();
create constraint trigger check_suspect_credit after insert or update on block deferrable initially deferred for each row when
    (new.kind = 'precautionary') execute function check_suspect_credit();
create trigger keep_block before update on block for each row when (old.state = 'ended' or old.transfer_id is distinct from
    new.transfer_id and old.transfer_id is not null) execute function keep_block();
grant insert, select, update (transfer_id, wanted_cents, held_cents, covered_cents, respond_by, until, source, state, told_at,
    modified_at) on table block to pixconnect_service;
comment on table block is
    'Money of holders that an institution has blocked, as it tells it; only what it tells makes or ends one.';
comment on column block.id is 'Counts up; unique together with the holder.';
comment on column block.holder_id is 'The holder whose money it is; of a sum on a whole account the account''s house.';
comment on column block.institution_id is 'The account at an institution; null is the installation''s own rail.';
comment on column block.kind is
    'Why: a contest of a Pix (med), a suspect credit (precautionary), a court (judicial), an authority (administrative), or the institution''s own reasons (security).';
comment on column block.reference is
    'The institution''s name of it, unique on its account: of a contest the contest''s, of a suspect credit the Pix''s.';
comment on column block.transfer_id is 'The Pix that it is about; null where it is about none, or none that is known.';
comment on column block.wanted_cents is 'How much the institution wants to block, in cents; 0 once it has ended.';
comment on column block.held_cents is 'How much of that it has blocked there, in cents.';
comment on column block.covered_cents is
    'How much of that stands in the holder''s account blocked, in cents: the sum of its steps.';
comment on column block.respond_by is
    'Until when the holder can answer, by the institution''s clock; null where nothing is asked.';
comment on column block.until is 'When it ends by itself, as the institution says; null where nothing is said.';
comment on column block.source is 'The report that told its present state.';
comment on column block.state is 'Whether it is open, or ended.';
comment on column block.told_at is 'When the institution said what it says here: an older report changes nothing.';
comment on column block.created_at is 'When it was written, in service time.';
comment on column block.modified_at is 'When it last changed, in service time.';

-- check_block_steps: migration 0141
create function check_block_steps() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    misfit record;
begin
    select made.id, made.holder_id into misfit from new_row as made
    join block on block.id = made.block_id and block.holder_id = made.holder_id
    where not exists (
        select from ledger_entry as entry
        where entry.id = made.id and entry.holder_id = made.holder_id and entry.amount_cents = made.amount_cents
            and 'blocked' in (entry.debit_account, entry.credit_account)
            and case made.kind
                when 'taken' then entry.refund_id is not null and entry.credit_account = 'settlement'
                    and block.transfer_id = entry.transfer_id
                else entry.transfer_id is null and entry.refund_id is null
            end
    ) or block.covered_cents <> (
        select sum(case when step.kind in ('covered', 'held') then step.amount_cents else -step.amount_cents end)
        from block_step as step where step.block_id = block.id and step.holder_id = block.holder_id
    ) or (block.kind = 'precautionary') <> (made.kind in ('held', 'let_go'))
        or made.kind = 'held' and not exists (
            select from transfer
            where transfer.id = block.transfer_id and transfer.holder_id = block.holder_id and transfer.direction = 'IN'
                and not transfer.is_book and transfer.amount_cents = made.amount_cents
        )
    limit 1;
    if found then
        raise exception 'step % of a block of holder % has not the entry that it is, or the block says otherwise',
            misfit.id, misfit.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_step_is_an_entry_of_its_block';
    end if;
    return null;
end $function$;
revoke execute on function check_block_steps() from public;

-- block_step: What has gone into blocks and out of them, each the ledger entry of the same id; rows are never changed or
-- deleted.
create table block_step (
    id bigint not null,
    holder_id bigint not null,
    block_id bigint not null,
    kind text collate "C" not null,
    amount_cents bigint not null,
    created_at timestamp with time zone not null,
    constraint block_step_pkey primary key (id, holder_id),
    constraint block_step_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint block_step_created_at_check check (isfinite(created_at)),
    constraint block_step_id_check check (id >= 1 and id <= 9007199254740991),
    constraint block_step_kind_check check (kind in ('covered', 'released', 'held', 'let_go', 'taken')),
    constraint block_step_block_id_holder_id_fkey foreign key (block_id, holder_id) references block(id, holder_id)
);
create index block_step_of_block on block_step (block_id, holder_id);
create trigger block_step_is_append_only before delete or update or truncate on block_step for each statement execute function
    refuse_change();
create trigger check_new after insert on block_step referencing new table as new_row for each statement execute function
    check_block_steps();
grant insert, select on table block_step to pixconnect_service;
comment on table block_step is
    'What has gone into blocks and out of them, each the ledger entry of the same id; rows are never changed or deleted.';
comment on column block_step.id is 'The id of its ledger entry too.';
comment on column block_step.holder_id is 'The holder whose money it is.';
comment on column block_step.block_id is 'The block.';
comment on column block_step.kind is
    'Covered of what was available, or released to it; a suspect credit that is held, or let go; or taken by the institution, with its refund.';
comment on column block_step.amount_cents is 'How much, in cents.';
comment on column block_step.created_at is 'When it was made, in service time.';

-- entry_facts: What of each entry is chained by hash, as the text that is hashed.
create view entry_facts as
 SELECT entry.id,
    entry.holder_id,
    json_build_array('entry', entry.id, entry.holder_id, entry.debit_account, entry.credit_account, entry.amount_cents, entry.number, entry.running_balance_cents, (entry.created_at AT TIME ZONE 'UTC'::text),
        CASE
            WHEN refund.id IS NOT NULL THEN json_build_array('refund', refund.id, refund.return_id, refund.flow, refund.amount_cents, refund.original_end_to_end_id, refund.external_id, refund.reason)
            WHEN transfer.id IS NOT NULL THEN json_build_array('transfer', transfer.id, transfer.end_to_end_id, transfer.direction, transfer.amount_cents, transfer.txid, transfer.external_id)
            WHEN movement.item_id IS NOT NULL THEN json_build_array('movement', movement.item_id, movement.kind, movement.direction, movement.amount_cents, movement.deficit_cents, movement.end_to_end_id)
            WHEN lacking.item_id IS NOT NULL THEN json_build_array('movement', lacking.item_id, lacking.kind, lacking.direction, lacking.amount_cents, lacking.deficit_cents, lacking.end_to_end_id)
            WHEN repayment.id IS NOT NULL THEN json_build_array('repayment', repayment.source_entry_id, repayment.amount_cents)
            WHEN deposit.id IS NOT NULL THEN json_build_array('deposit', deposit.amount_cents)
            WHEN adjustment.id IS NOT NULL THEN json_build_array('adjustment', adjustment.id, adjustment.case_id, adjustment.kind, adjustment.direction, adjustment.account, adjustment.amount_cents, adjustment.deficit_cents, adjustment.opposite_of)
            WHEN block_step.id IS NOT NULL THEN json_build_array('block', block_step.block_id, block.kind, block.reference, block_step.kind, block_step.amount_cents)
            ELSE NULL::json
        END)::text AS facts,
        CASE
            WHEN refund.id IS NOT NULL THEN json_build_array(refund.description)
            WHEN transfer.id IS NOT NULL THEN json_build_array(transfer.own_key, COALESCE(payer_completion.before, transfer.counterparty), transfer.payer_message)
            WHEN movement.item_id IS NOT NULL THEN json_build_array(movement.description)
            WHEN lacking.item_id IS NOT NULL THEN json_build_array(lacking.description)
            ELSE NULL::json
        END::text AS person
   FROM ledger_entry entry
     LEFT JOIN refund ON refund.id = entry.refund_id AND refund.holder_id = entry.holder_id
     LEFT JOIN transfer ON transfer.id =
        CASE
            WHEN entry.refund_id IS NULL THEN entry.transfer_id
            ELSE NULL::bigint
        END AND transfer.holder_id = entry.holder_id
     LEFT JOIN payer_completion ON payer_completion.transfer_id =
        CASE
            WHEN transfer.direction = 'IN'::text THEN transfer.id
            ELSE NULL::bigint
        END AND payer_completion.holder_id = entry.holder_id
     LEFT JOIN movement ON movement.entry_id =
        CASE
            WHEN entry.transfer_id IS NULL THEN entry.id
            ELSE NULL::bigint
        END AND movement.holder_id = entry.holder_id
     LEFT JOIN movement lacking ON lacking.deficit_entry_id =
        CASE
            WHEN entry.debit_account = 'deficit'::ledger_account THEN entry.id
            ELSE NULL::bigint
        END AND lacking.holder_id = entry.holder_id
     LEFT JOIN repayment ON repayment.id =
        CASE
            WHEN entry.credit_account = 'deficit'::ledger_account THEN entry.id
            ELSE NULL::bigint
        END AND repayment.holder_id = entry.holder_id
     LEFT JOIN deposit ON deposit.id =
        CASE
            WHEN entry.debit_account = 'funding'::ledger_account THEN entry.id
            ELSE NULL::bigint
        END AND deposit.holder_id = entry.holder_id
     LEFT JOIN adjustment ON adjustment.holder_id =
        CASE
            WHEN 'difference'::ledger_account = entry.debit_account OR 'difference'::ledger_account = entry.credit_account THEN entry.holder_id
            ELSE NULL::bigint
        END AND entry.id =
        CASE entry.debit_account
            WHEN 'deficit'::ledger_account THEN adjustment.deficit_entry_id
            ELSE adjustment.entry_id
        END
     LEFT JOIN block_step ON block_step.id =
        CASE
            WHEN entry.transfer_id IS NULL AND ('blocked'::ledger_account = entry.debit_account OR 'blocked'::ledger_account = entry.credit_account) THEN entry.id
            ELSE NULL::bigint
        END AND block_step.holder_id = entry.holder_id
     LEFT JOIN block ON block.id = block_step.block_id AND block.holder_id = block_step.holder_id;
grant select on table entry_facts to pixconnect_service;
comment on view entry_facts is 'What of each entry is chained by hash, as the text that is hashed.';
comment on column entry_facts.id is 'The entry.';
comment on column entry_facts.holder_id is 'Its holder.';
comment on column entry_facts.facts is 'What it is and what caused it, as a JSON array.';
comment on column entry_facts.person is 'What of its cause is about a person, as a JSON array; null where nothing is.';

-- refuse_console: migrations 0101, 0117
create function refuse_console() returns trigger language plpgsql
as $function$
begin
    raise exception 'the console proposes adjustments and how orders ended, and nothing else of an account'
        using errcode = 'insufficient_privilege';
end $function$;
revoke execute on function refuse_console() from public;

-- institution_proposal: What one operator wants done with an account, and another must confirm.
create table institution_proposal (
    id bigint generated always as identity not null,
    institution_id smallint not null,
    act text collate "C" not null,
    proposal jsonb not null,
    proposed_by text not null,
    proposed_at timestamp with time zone not null,
    confirmable_at timestamp with time zone not null,
    confirmed_by text,
    confirmed_at timestamp with time zone,
    constraint institution_proposal_pkey primary key (id),
    constraint confirmed_by_another check (regexp_replace(confirmed_by, '^console ', '') <> regexp_replace(proposed_by,
        '^console ', '')),
    constraint confirmed_by_somebody check ((confirmed_by is null) = (confirmed_at is null)),
    constraint confirmed_in_time check (confirmed_at >= confirmable_at),
    constraint institution_proposal_act_check check (length(act) >= 1 and length(act) <= 40),
    constraint institution_proposal_confirmable_at_check check (isfinite(confirmable_at)),
    constraint institution_proposal_confirmed_at_check check (isfinite(confirmed_at)),
    constraint institution_proposal_confirmed_by_check check (length(confirmed_by) >= 1 and length(confirmed_by) <= 255),
    constraint institution_proposal_proposed_at_check check (isfinite(proposed_at)),
    constraint institution_proposal_proposed_by_check check (length(proposed_by) >= 1 and length(proposed_by) <= 255),
    constraint institution_proposal_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
create unique index institution_proposal_waits on institution_proposal (institution_id, act) where confirmed_at is null;
create trigger console_forgets_only_adjustments before delete on institution_proposal for each row when (CURRENT_USER =
    'pixconnect_console'::name and ((old.act <> all (array['adjust', 'decide'])) or old.confirmed_at is not null)) execute
    function refuse_console();
create trigger console_only_adjusts before insert on institution_proposal for each row when (CURRENT_USER =
    'pixconnect_console'::name and ((new.act <> all (array['adjust', 'decide'])) or new.confirmed_at is not null)) execute
    function refuse_console();
grant delete, insert on table institution_proposal to pixconnect_console;
grant delete, insert, update (confirmed_by, confirmed_at) on table institution_proposal to pixconnect_operator;
grant select on table institution_proposal to pixconnect_service;
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

-- institution_certificate: When the certificates of accounts at institutions end.
create table institution_certificate (
    institution_id smallint not null,
    part text collate "C" not null,
    ends_at timestamp with time zone not null,
    constraint institution_certificate_pkey primary key (institution_id, part),
    constraint institution_certificate_ends_at_check check (isfinite(ends_at)),
    constraint institution_certificate_part_check check (part in ('receiving', 'sending', 'authority')),
    constraint institution_certificate_institution_id_fkey foreign key (institution_id) references institution_account(id) on
        delete cascade
);
grant delete, insert, select, update on table institution_certificate to pixconnect_service;
comment on table institution_certificate is 'When the certificates of accounts at institutions end.';
comment on column institution_certificate.institution_id is 'The account.';
comment on column institution_certificate.part is
    'The client certificate of the receiving credential or of the sending one, or who signs the institution''s own.';
comment on column institution_certificate.ends_at is
    'From when on it is not valid; of several in one file the first that ends.';

-- check_opening_is_of_heir: migration 0164
create function check_opening_is_of_heir() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    perform from holder where id = new.holder_id and successor_id is null for share;
    if not found then
        raise exception 'holder % was succeeded, and opens no charge', new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'who_was_succeeded_starts_nothing';
    end if;
    return null;
end $function$;
revoke execute on function check_opening_is_of_heir() from public;

-- check_opening: migration 0105
create function check_opening() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    perform from holder join institution_account as account on account.id = holder.institution_id
    where holder.id = new.holder_id and account.id = new.institution_id and account.state <> 'closed'
        and account.removed_at is null
    for share;
    if not found then
        raise exception 'charge % cannot open on the account %, which is closed, removed, or not that of its holder',
            new.txid, new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_charge_opens_on_its_holders_account';
    end if;
    return null;
end $function$;
revoke execute on function check_opening() from public;

-- keep_opening_ended: migrations 0064, 0139
create function keep_opening_ended() returns trigger language plpgsql
as $function$
begin
    -- The service may not write what was wanted: that is emptied with the charge's texts. It may not call what empties them either,
    -- so that is asked only where nothing else changes.
    if to_jsonb(new) - 'wanted' = to_jsonb(old) - 'wanted' then
        if new.wanted = empty_contents(old.wanted, true) then
            return new;
        end if;
    end if;
    raise exception 'the opening of charge % is % and stays so', old.txid, old.state
        using errcode = 'integrity_constraint_violation', constraint = 'an_opening_that_ended_stays_ended';
end $function$;
revoke execute on function keep_opening_ended() from public;

-- charge_opening: Charges that are being opened, or were, at institutions; nobody sees one before it has its code.
create table charge_opening (
    charge_id bigint not null,
    holder_id bigint not null,
    institution_id smallint not null,
    external_id text collate "C" not null,
    txid text collate "C" not null,
    state text not null,
    wanted text not null,
    fingerprint bytea not null,
    refusal_code text,
    refusal_reason text,
    calls_count integer default 0 not null,
    due_at timestamp with time zone not null,
    created_at timestamp with time zone not null,
    reference text collate "C",
    network_txid text collate "C",
    constraint charge_opening_pkey primary key (charge_id, holder_id),
    constraint a_reference_fits_a_static_code check (reference is null or reference ~ '^[a-zA-Z0-9]{1,25}$' and state =
        'opened'),
    constraint a_txid_made_there_is_of_an_open_charge check (network_txid is null or network_txid ~ '^[a-zA-Z0-9]{1,35}$' and
        state = 'opened'),
    constraint charge_opening_created_at_check check (isfinite(created_at)),
    constraint charge_opening_due_at_check check (isfinite(due_at)),
    constraint charge_opening_external_id_check check (length(external_id) >= 1 and length(external_id) <= 255),
    constraint charge_opening_refusal_reason_check check (length(refusal_reason) <= 1000),
    constraint charge_opening_state_check check (state in ('opening', 'opened', 'refused', 'given_up')),
    constraint charge_opening_txid_check check (length(txid) >= 26 and length(txid) <= 35),
    constraint charge_opening_wanted_check check (length(wanted) <= 65536),
    constraint refused_with_a_code check ((state = 'refused') = (refusal_code is not null)),
    constraint charge_opening_holder_id_fkey foreign key (holder_id) references holder(id),
    constraint charge_opening_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
create index charge_opening_due on charge_opening (due_at) where state = 'opening';
create unique index charge_opening_name on charge_opening (external_id, holder_id) where state in ('opening', 'opened');
create index charge_opening_network_txid on charge_opening (network_txid) where network_txid is not null;
create unique index charge_opening_reference on charge_opening (institution_id, reference) where reference is not null;
create unique index charge_opening_txid on charge_opening (institution_id, txid) where state in ('opening', 'opened');
create trigger check_heir after insert on charge_opening for each row execute function check_opening_is_of_heir();
create trigger check_opening after insert on charge_opening for each row execute function check_opening();
create trigger keep_opening_ended before update on charge_opening for each row when (old.state <> 'opening') execute function
    keep_opening_ended();
grant insert, select, update (state, refusal_code, refusal_reason, calls_count, due_at, reference, network_txid) on table
    charge_opening to pixconnect_service;
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
comment on column charge_opening.refusal_reason is 'In the institution''s words, why it was refused, or what it said last.';
comment on column charge_opening.calls_count is 'How often the institution was asked to open it.';
comment on column charge_opening.due_at is 'When a worker asks next, in real time.';
comment on column charge_opening.created_at is 'When it was asked for, in real time.';
comment on column charge_opening.reference is
    'The reference in the static code that the charge was answered with, by which payments name it; null without one.';
comment on column charge_opening.network_txid is 'The institution''s own, where it takes none of ours; null otherwise.';

-- keep_change_ended: migrations 0078, 0139
create function keep_change_ended() returns trigger language plpgsql
as $function$
begin
    if to_jsonb(new) - 'contents' = to_jsonb(old) - 'contents' then
        if new.contents = empty_contents(old.contents, true) then
            return new;
        end if;
    end if;
    raise exception 'the change % of charge % is % and stays so', old.id, old.txid, old.state
        using errcode = 'integrity_constraint_violation', constraint = 'a_change_that_ended_stays_ended';
end $function$;
revoke execute on function keep_change_ended() from public;

-- charge_change: What was wanted of charges at institutions after they were opened, and what became of it.
create table charge_change (
    id bigint generated always as identity not null,
    charge_id bigint not null,
    holder_id bigint not null,
    institution_id smallint not null,
    txid text collate "C" not null,
    kind text not null,
    contents text,
    removal text,
    state text not null,
    reason text,
    revision_there integer,
    asked_by text,
    calls_count integer not null,
    due_at timestamp with time zone not null,
    created_at timestamp with time zone not null,
    constraint charge_change_pkey primary key (id),
    constraint a_removal_says_whose_it_is check ((kind = 'remove') = (removal is not null)),
    constraint a_revision_says_something check ((kind = 'revise') = (contents is not null)),
    constraint charge_change_asked_by_check check (length(asked_by) <= 4096),
    constraint charge_change_calls_count_check check (calls_count >= 0),
    constraint charge_change_contents_check check (length(contents) <= 65536),
    constraint charge_change_created_at_check check (isfinite(created_at)),
    constraint charge_change_due_at_check check (isfinite(due_at)),
    constraint charge_change_kind_check check (kind in ('revise', 'remove', 'withdraw')),
    constraint charge_change_reason_check check (length(reason) <= 1000),
    constraint charge_change_removal_check check (removal in ('REMOVED_BY_RECEIVER', 'REMOVED_BY_PSP')),
    constraint charge_change_revision_there_check check (revision_there >= 0),
    constraint charge_change_state_check check (state in ('asked', 'done', 'refused', 'given_up', 'overtaken')),
    constraint charge_change_txid_check check (length(txid) >= 26 and length(txid) <= 35),
    constraint change_is_of_a_charge foreign key (charge_id, holder_id) references charge(id, holder_id),
    constraint charge_change_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
create unique index charge_change_asked on charge_change (charge_id, holder_id) where state = 'asked';
create index charge_change_due on charge_change (institution_id, due_at) where state = 'asked';
create index charge_change_of_charge on charge_change (charge_id, holder_id, id);
create trigger keep_change_ended before update on charge_change for each row when (old.state <> 'asked') execute function
    keep_change_ended();
grant insert, select, update (state, reason) on table charge_change to pixconnect_operator;
grant insert, select, update (state, reason, revision_there, calls_count, due_at) on table charge_change to pixconnect_service;
comment on table charge_change is 'What was wanted of charges at institutions after they were opened, and what became of it.';
comment on column charge_change.id is 'Our own name for it.';
comment on column charge_change.charge_id is 'The charge.';
comment on column charge_change.holder_id is 'The holder of the charge.';
comment on column charge_change.institution_id is 'The account at which the charge was opened.';
comment on column charge_change.txid is 'The charge''s.';
comment on column charge_change.kind is
    'Revise; remove; withdraw: remove what may have been opened there of a charge that has a static code.';
comment on column charge_change.contents is 'What a revised charge is to say, as JSON.';
comment on column charge_change.removal is 'What a removed charge becomes: its receiver''s act, or an operator''s.';
comment on column charge_change.state is
    'Asked until the institution''s answer is known; then done, refused, given up (nothing was sent), or overtaken by a payment.';
comment on column charge_change.reason is 'In the institution''s words, why it was refused, or what it said last.';
comment on column charge_change.revision_there is
    'The institution''s revision of the charge before it was asked; null until then.';
comment on column charge_change.asked_by is 'The caller, as JSON; null if an operator asked.';
comment on column charge_change.calls_count is 'How often somebody has begun to ask the institution.';
comment on column charge_change.due_at is 'When a worker asks next, in real time.';
comment on column charge_change.created_at is 'When it was asked for, in real time.';

-- check_allowance: migrations 0069, 0107
create function check_allowance() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    wider constant text[] := array['own', 'known', 'all'];
begin
    if not exists (
            select from institution_account where id = new.institution_id and environment = 'counterpart'
        ) and not exists (
            select from institution_proposal as confirmed
            where confirmed.institution_id = new.institution_id and act = 'allow' and confirmed_by = new.allowed_by
                and confirmed.xmin = pg_current_xact_id()::xid and confirmable_at >= proposed_at + interval '1 hour'
                and (new.refunds_day_cents <= old.refunds_day_cents
                    or (proposal ->> 'refunds_day_cents')::bigint >= new.refunds_day_cents)
                and (new.transfer_cents <= old.transfer_cents
                    or (proposal ->> 'transfer_cents')::bigint >= new.transfer_cents)
                and (new.transfers_day_cents <= old.transfers_day_cents
                    or (proposal ->> 'transfers_day_cents')::bigint >= new.transfers_day_cents)
                and (array_position(wider, new.payees) <= array_position(wider, old.payees)
                    or array_position(wider, proposal ->> 'payees') >= array_position(wider, new.payees))
        )
    then
        raise exception 'what may leave over account % is not raised by one person, nor at once', new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_raise_is_confirmed_by_another';
    end if;
    return new;
end $function$;
revoke execute on function check_allowance() from public;

-- institution_allowance: What may leave over each account at an institution, and by which key it is named there.
create table institution_allowance (
    institution_id smallint not null,
    naming_key bytea default sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) not null,
    refunds_day_cents bigint default 0 not null,
    allowed_by text,
    transfer_cents bigint default 0 not null,
    transfers_day_cents bigint default 0 not null,
    payees text default 'own' not null,
    constraint institution_allowance_pkey primary key (institution_id),
    constraint institution_allowance_allowed_by_check check (length(allowed_by) >= 1 and length(allowed_by) <= 255),
    constraint institution_allowance_payees_check check (payees in ('own', 'known', 'all')),
    constraint institution_allowance_refunds_day_cents_check check (refunds_day_cents >= 0 and refunds_day_cents <=
        999999999999),
    constraint institution_allowance_transfer_cents_check check (transfer_cents >= 0 and transfer_cents <= 999999999999),
    constraint institution_allowance_transfers_day_cents_check check (transfers_day_cents >= 0 and transfers_day_cents <=
        999999999999),
    constraint institution_allowance_institution_id_fkey foreign key (institution_id) references institution_account(id) on
        delete cascade
);
create trigger check_allowance before update of refunds_day_cents, transfer_cents, transfers_day_cents, payees on
    institution_allowance for each row when (new.refunds_day_cents > old.refunds_day_cents or new.transfer_cents >
    old.transfer_cents or new.transfers_day_cents > old.transfers_day_cents or array_position(array['own', 'known', 'all'],
    new.payees) > array_position(array['own', 'known', 'all'], old.payees)) execute function check_allowance();
grant update (refunds_day_cents, allowed_by, transfer_cents, transfers_day_cents, payees) on table institution_allowance to
    pixconnect_operator;
grant select on table institution_allowance to pixconnect_service;
comment on table institution_allowance is
    'What may leave over each account at an institution, and by which key it is named there.';
comment on column institution_allowance.institution_id is 'The account.';
comment on column institution_allowance.naming_key is
    'By which names of ours there are made: a restored database makes the same ones.';
comment on column institution_allowance.refunds_day_cents is
    'What may be returned in a day of Sao Paulo, in cents; 0 is nothing.';
comment on column institution_allowance.allowed_by is 'The operator who set it last.';
comment on column institution_allowance.transfer_cents is 'What one transfer may be, in cents; 0 is nothing.';
comment on column institution_allowance.transfers_day_cents is
    'What may be sent in a day of Sao Paulo, in cents; 0 is nothing.';
comment on column institution_allowance.payees is
    'To whom: own is the account''s owner, known whoever was paid over it before too, all anybody.';

-- refund_day: What was accepted to be returned over each account in a day of Sao Paulo.
create table refund_day (
    institution_id smallint not null,
    day date not null,
    cents bigint not null,
    constraint refund_day_pkey primary key (institution_id, day),
    constraint refund_day_cents_check check (cents >= 0),
    constraint refund_day_institution_id_fkey foreign key (institution_id) references institution_account(id) on delete cascade
);
grant select on table refund_day to pixconnect_service;
comment on table refund_day is 'What was accepted to be returned over each account in a day of Sao Paulo.';
comment on column refund_day.institution_id is 'The account.';
comment on column refund_day.day is 'The day, in service time.';
comment on column refund_day.cents is 'The sum, in cents, whatever became of it.';

-- transfer_day: What was accepted to be sent over each account in a day of Sao Paulo.
create table transfer_day (
    institution_id smallint not null,
    day date not null,
    cents bigint not null,
    constraint transfer_day_pkey primary key (institution_id, day),
    constraint transfer_day_cents_check check (cents >= 0),
    constraint transfer_day_institution_id_fkey foreign key (institution_id) references institution_account(id) on delete
        cascade
);
grant select on table transfer_day to pixconnect_service;
comment on table transfer_day is 'What was accepted to be sent over each account in a day of Sao Paulo.';
comment on column transfer_day.institution_id is 'The account.';
comment on column transfer_day.day is 'The day, in service time.';
comment on column transfer_day.cents is 'The sum, in cents, whatever became of it.';

-- account_alarm: When an account at an institution was paused since what left it looked like theft; rows stay.
create table account_alarm (
    id bigint generated always as identity not null,
    institution_id smallint not null,
    kind text collate "C" not null,
    said text not null,
    noticed_at timestamp with time zone not null,
    ended_at timestamp with time zone,
    ended_by text,
    constraint account_alarm_pkey primary key (id),
    constraint account_alarm_ended_at_check check (isfinite(ended_at)),
    constraint account_alarm_ended_by_check check (length(ended_by) >= 1 and length(ended_by) <= 255),
    constraint account_alarm_kind_check check (kind in ('strays', 'drain')),
    constraint account_alarm_noticed_at_check check (isfinite(noticed_at)),
    constraint account_alarm_said_check check (length(said) >= 1 and length(said) <= 1000),
    constraint an_alarm_is_ended_by_somebody check ((ended_at is null) = (ended_by is null)),
    constraint account_alarm_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
create index account_alarm_last on account_alarm (institution_id, noticed_at);
create unique index account_alarm_stands on account_alarm (institution_id) where ended_at is null;
create trigger account_alarm_is_append_only before delete or truncate on account_alarm for each statement execute function
    refuse_change();
grant update (ended_at, ended_by) on table account_alarm to pixconnect_operator;
grant select on table account_alarm to pixconnect_service;
comment on table account_alarm is
    'When an account at an institution was paused since what left it looked like theft; rows stay.';
comment on column account_alarm.id is 'Counts up.';
comment on column account_alarm.institution_id is 'The account.';
comment on column account_alarm.kind is
    'Strays: sends that nobody here ordered; drain: a large part of what was there left within an hour.';
comment on column account_alarm.said is 'What was seen, in words.';
comment on column account_alarm.noticed_at is 'When, in service time; what was before it raises no alarm again.';
comment on column account_alarm.ended_at is
    'When an operator resumed the account, in real time; null while it is paused by it.';
comment on column account_alarm.ended_by is 'That operator.';

-- return_name: What returns that nobody here is known to have asked for were asked under there: each once of a payment.
create table return_name (
    asked_as text collate "C" not null,
    transfer_id bigint not null,
    holder_id bigint not null,
    refund_id bigint not null,
    constraint return_name_pkey primary key (asked_as, transfer_id, holder_id),
    constraint return_has_one_name unique (refund_id, holder_id),
    constraint return_name_asked_as_check check (length(asked_as) >= 1 and length(asked_as) <= 100),
    constraint return_name_refund_id_holder_id_fkey foreign key (refund_id, holder_id) references refund(id, holder_id)
);
grant insert, select on table return_name to pixconnect_service;
comment on table return_name is
    'What returns that nobody here is known to have asked for were asked under there: each once of a payment.';
comment on column return_name.asked_as is 'The id that whoever asked for it gave it at the institution.';
comment on column return_name.transfer_id is 'The payment that it returns.';
comment on column return_name.holder_id is 'The holder who had received it.';
comment on column return_name.refund_id is 'The refund that was recorded of it.';

-- check_decided_step: migration 0117
create function check_decided_step() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if not exists (select from case_ending where case_ending.order_name = new.order_name) then
        raise exception 'the step of % is closed by a case, and nobody has said how it ended', new.order_name
            using errcode = 'integrity_constraint_violation', constraint = 'a_decided_step_has_its_case';
    end if;
    return new;
end $function$;
revoke execute on function check_decided_step() from public;

-- check_rail_step: migrations 0069, 0081, 0110, 0112, 0115
create function check_rail_step() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if tg_op = 'INSERT' then
        if new.may_be_done or new.code_there is not null or new.owner_tax_id is not null or not exists (
            select from open_order
            where name = new.order_name and holder_id = new.holder_id and institution_id = new.institution_id
                and (left(name, 1) = 'E') = (new.kind = 'order')
                and new.only_asked = exists (
                    select from database_loss
                    where case new.kind when 'order' then last_transfer_id else last_refund_id end >= resource_id
                )
        ) or new.only_asked and new.state <> 'calling'
            or not new.only_asked and (new.state not in ('new', 'minted') or new.called_at is not null)
        then
            raise exception 'the step of % begins before any call, with its order open at the account', new.order_name
                using errcode = 'integrity_constraint_violation', constraint = 'a_step_begins_with_its_order';
        end if;
        return new;
    end if;
    if (old.state, new.state) not in (
            ('new', 'minted'), ('new', 'closed'), ('minted', 'calling'), ('minted', 'closed'), ('calling', 'asked'),
            ('calling', 'closed'), ('asked', 'calling'), ('asked', 'closed')
        ) and ((old.state, new.state) <> ('calling', 'minted') or old.may_be_done)
            and (old.state <> new.state or old.only_asked or not new.only_asked)
            and ((old.state, new.state) <> ('new', 'calling') or old.only_asked or not new.only_asked)
            and ((old.state, new.state) <> ('asked', 'asked') or old.code_there is not null or new.code_there is null)
        or old.only_asked and (not new.only_asked or new.state not in ('asked', 'closed'))
        or old.may_be_done and not new.may_be_done
        or old.name_there is distinct from new.name_there and old.name_there is not null
        or old.code_there is distinct from new.code_there
            and (old.code_there is not null or not new.may_be_done and (old.state, new.state) <> ('new', 'minted'))
        or (old.owner_tax_id, old.owner_name) is distinct from (new.owner_tax_id, new.owner_name)
            and (old.state, new.state) <> ('new', 'minted')
        or old.called_at is distinct from new.called_at and old.called_at is not null and new.state <> 'minted'
        or new.outcome = 'never' and old.state not in ('new', 'minted')
    then
        raise exception 'the step of % cannot go from % to %', new.order_name, old.state, new.state
            using errcode = 'integrity_constraint_violation', constraint = 'a_step_forgets_no_call';
    end if;
    return new;
end $function$;
revoke execute on function check_rail_step() from public;

-- hold_after_a_loss: migration 0094
create function hold_after_a_loss() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if exists (select from institution_account where id = new.institution_id and lost_at is not null) then
        return null;
    end if;
    return new;
end $function$;
revoke execute on function hold_after_a_loss() from public;

-- keep_closed_step: migration 0139
create function keep_closed_step() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if to_jsonb(new) - '{payee,owner_tax_id,owner_name}'::text[] <> to_jsonb(old) - '{payee,owner_tax_id,owner_name}'::text[]
        or not exists (
            select from transfer
            join erased_text as erased on erased.kind = 'transfer' and erased.id = transfer.id
                and erased.holder_id = transfer.holder_id and part = 'all'
            where end_to_end_id = new.order_name and direction = 'OUT'
        )
    then
        raise exception 'the step of % cannot go from % to %', new.order_name, old.state, new.state
            using errcode = 'integrity_constraint_violation', constraint = 'a_step_forgets_no_call';
    end if;
    return new;
end $function$;
revoke execute on function keep_closed_step() from public;

-- rail_step: What is asked of institutions under orders of ours: a row each, written before each call.
create table rail_step (
    order_name text collate "C" not null,
    institution_id smallint not null,
    kind text not null,
    holder_id bigint not null,
    original_end_to_end_id text collate "C",
    amount_cents bigint not null,
    name_there text collate "C",
    state text not null,
    may_be_done boolean default false not null,
    called_at timestamp with time zone,
    outcome text,
    refusal_code text,
    refusal_reason text,
    created_at timestamp with time zone not null,
    only_asked boolean default false not null,
    payee text,
    code_there text collate "C",
    owner_tax_id text,
    owner_name text,
    constraint rail_step_pkey primary key (order_name),
    constraint a_code_has_its_form check (code_there ~ '^[a-zA-Z0-9-]{1,100}$'),
    constraint a_refund_has_its_original check ((kind = 'refund') = (original_end_to_end_id is not null)),
    constraint a_refusal_has_a_code check ((not outcome is distinct from 'refused') = (refusal_code is not null)),
    constraint an_order_has_its_payee check ((kind = 'order') = (payee is not null)),
    constraint an_owner_has_its_form check (length(owner_tax_id) >= 1 and length(owner_tax_id) <= 40 and length(owner_name) <=
        200),
    constraint it_is_called_by_its_name check (name_there is not null or (state in ('new', 'closed'))),
    constraint its_first_call_is_dated check ((state <> all (array['calling', 'asked'])) or called_at is not null),
    constraint rail_step_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint rail_step_called_at_check check (isfinite(called_at)),
    constraint rail_step_created_at_check check (isfinite(created_at)),
    constraint rail_step_kind_check check (kind in ('refund', 'order')),
    constraint rail_step_name_there_check check (name_there ~ '^[a-zA-Z0-9]{1,35}$'),
    constraint rail_step_order_name_check check (length(order_name) = 32),
    constraint rail_step_original_end_to_end_id_check check (length(original_end_to_end_id) = 32),
    constraint rail_step_outcome_check check (outcome in ('answered', 'refused', 'never', 'decided')),
    constraint rail_step_refusal_code_check check (length(refusal_code) >= 1 and length(refusal_code) <= 35),
    constraint rail_step_refusal_reason_check check (length(refusal_reason) <= 1000),
    constraint rail_step_state_check check (state in ('new', 'minted', 'calling', 'asked', 'closed')),
    constraint what_is_asked_may_be_done check (state <> 'asked' or may_be_done),
    constraint what_is_closed_has_an_outcome check ((state = 'closed') = (outcome is not null)),
    constraint what_may_be_done_was_taken check (outcome <> 'never' or not may_be_done),
    constraint rail_step_holder_id_fkey foreign key (holder_id) references holder(id),
    constraint rail_step_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
create index rail_step_in_flight on rail_step (institution_id, called_at) where kind = 'order' and (state in ('calling',
    'asked'));
create unique index rail_step_name_there on rail_step (institution_id, name_there, kind);
create trigger check_decided before insert or update on rail_step for each row when (new.outcome = 'decided') execute function
    check_decided_step();
create trigger check_new_step before insert on rail_step for each row execute function check_rail_step();
create trigger check_step before update on rail_step for each row when (old.state <> 'closed' or new.state <> 'closed') execute
    function check_rail_step();
create trigger hold_after_a_loss before update of state on rail_step for each row when (new.state = 'calling' and old.state <>
    'calling' and not new.only_asked) execute function hold_after_a_loss();
create trigger keep_closed_step before update on rail_step for each row when (old.state = 'closed' and new.state = 'closed')
    execute function keep_closed_step();
grant insert, select, update (name_there, state, may_be_done, called_at, outcome, refusal_code, refusal_reason, code_there,
    owner_tax_id, owner_name) on table rail_step to pixconnect_service;
comment on table rail_step is 'What is asked of institutions under orders of ours: a row each, written before each call.';
comment on column rail_step.order_name is 'The order''s return_id or end_to_end_id.';
comment on column rail_step.institution_id is 'The account at which it is asked for.';
comment on column rail_step.kind is 'A refund of a received Pix, or an order to send one.';
comment on column rail_step.holder_id is 'The holder from whom the money goes.';
comment on column rail_step.original_end_to_end_id is 'The received Pix, of a refund.';
comment on column rail_step.amount_cents is 'What is asked for, in cents.';
comment on column rail_step.name_there is 'What the institution knows it by; null before that is known.';
comment on column rail_step.state is
    'New: its first step has not named it; minted: named, and not asked for; calling: a call is under way or was cut off; asked: it may be done, and is asked about; closed: no call is made any more.';
comment on column rail_step.may_be_done is 'Whether a call of it may have taken effect.';
comment on column rail_step.called_at is 'When it was first called, in real time.';
comment on column rail_step.outcome is
    'Answered: the institution has it; refused for certain; never: no call was made, and none will be; decided: two operators said how it ended.';
comment on column rail_step.refusal_code is 'Of a certain refusal, as callers see it.';
comment on column rail_step.refusal_reason is 'In the institution''s words.';
comment on column rail_step.created_at is 'In real time.';
comment on column rail_step.only_asked is
    'Whether its order was open at a loss of the database: a call of it may be forgotten, so that it is asked about and never called.';
comment on column rail_step.payee is 'Whom an order to send goes to: the key, or the account with its bank; null of a refund.';
comment on column rail_step.code_there is
    'The institution''s own code of it, where it is asked by that; null before it is told, as by a first step that moves nothing. It never changes.';
comment on column rail_step.owner_tax_id is
    'Whose the key is, as the first step told it: compared with the owner that the caller named before money moves; else null.';
comment on column rail_step.owner_name is 'The name that was told with it.';

-- check_give_back: migration 0076
create function check_give_back() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if old.state <> 'waiting' or new.state = 'made' and not exists (
        select from refund
        where refund.transfer_id = new.transfer_id and refund.holder_id = new.holder_id and flow = 'OUT'
            and left(external_id, 5) = 'auto:'
    ) then
        raise exception 'giving back % of holder % is % and cannot be %', new.transfer_id, new.holder_id, old.state, new.state
            using errcode = 'integrity_constraint_violation', constraint = 'what_is_given_back_is_a_refund';
    end if;
    return new;
end $function$;
revoke execute on function check_give_back() from public;

-- give_back: Received Pix that pay no charge, of accounts that give such back by themselves.
create table give_back (
    transfer_id bigint not null,
    holder_id bigint not null,
    institution_id smallint not null,
    state text not null,
    reason text,
    due_at timestamp with time zone not null,
    created_at timestamp with time zone not null,
    constraint give_back_pkey primary key (transfer_id, holder_id),
    constraint give_back_created_at_check check (isfinite(created_at)),
    constraint give_back_due_at_check check (isfinite(due_at)),
    constraint give_back_reason_check check (length(reason) >= 1 and length(reason) <= 1000),
    constraint give_back_state_check check (state in ('waiting', 'made', 'not_made')),
    constraint what_was_not_made_says_why check ((state = 'not_made') = (reason is not null)),
    constraint give_back_holder_id_fkey foreign key (holder_id) references holder(id),
    constraint give_back_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
create index give_back_due on give_back (institution_id, due_at) where state = 'waiting';
create trigger check_give_back before update on give_back for each row execute function check_give_back();
grant insert, select, update (state, reason, due_at) on table give_back to pixconnect_service;
comment on table give_back is 'Received Pix that pay no charge, of accounts that give such back by themselves.';
comment on column give_back.transfer_id is 'The received Pix.';
comment on column give_back.holder_id is 'The holder who has it.';
comment on column give_back.institution_id is 'The account on which it came.';
comment on column give_back.state is 'Waiting for a reading of it; made: a refund is accepted; not made: it stays credited.';
comment on column give_back.reason is 'Why it was not made.';
comment on column give_back.due_at is 'When a worker looks at it next, in real time.';
comment on column give_back.created_at is 'When it came in, in real time.';

-- institution_sweep: How far the lists of an account were read, by each pace.
create table institution_sweep (
    institution_id smallint not null,
    pace text not null,
    read_until timestamp with time zone not null,
    began_at timestamp with time zone not null,
    ended_at timestamp with time zone not null,
    items_count bigint not null,
    failed_at timestamp with time zone,
    failure text,
    constraint institution_sweep_pkey primary key (institution_id, pace),
    constraint institution_sweep_began_at_check check (isfinite(began_at)),
    constraint institution_sweep_ended_at_check check (isfinite(ended_at)),
    constraint institution_sweep_failed_at_check check (isfinite(failed_at)),
    constraint institution_sweep_failure_check check (length(failure) <= 300),
    constraint institution_sweep_pace_check check (pace in ('near', 'wide', 'deep', 'statement', 'contests')),
    constraint institution_sweep_read_until_check check (isfinite(read_until)),
    constraint institution_sweep_institution_id_fkey foreign key (institution_id) references institution_account(id) on delete
        cascade
);
grant insert, select, update on table institution_sweep to pixconnect_service;
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

-- institution_file: Statement files of institutions that were read.
create table institution_file (
    institution_id smallint not null,
    digest bytea not null,
    format text not null,
    bank text not null,
    branch text not null,
    number text not null,
    first_on date not null,
    last_on date not null,
    items_count integer not null,
    recorded_at timestamp with time zone not null,
    constraint institution_file_pkey primary key (institution_id, digest),
    constraint institution_file_bank_check check (length(bank) <= 255),
    constraint institution_file_branch_check check (length(branch) <= 255),
    constraint institution_file_check check (isfinite(last_on) and last_on >= first_on),
    constraint institution_file_digest_check check (length(digest) = 32),
    constraint institution_file_first_on_check check (isfinite(first_on)),
    constraint institution_file_format_check check (format in ('ofx', 'camt.053', 'efi')),
    constraint institution_file_items_count_check check (items_count >= 0),
    constraint institution_file_number_check check (length(number) >= 1 and length(number) <= 255),
    constraint institution_file_recorded_at_check check (isfinite(recorded_at)),
    constraint institution_file_institution_id_fkey foreign key (institution_id) references institution_account(id) on delete
        cascade
);
grant insert, select on table institution_file to pixconnect_service;
comment on table institution_file is 'Statement files of institutions that were read.';
comment on column institution_file.institution_id is 'The account.';
comment on column institution_file.digest is 'SHA-256 of the file: the same one again is nothing new.';
comment on column institution_file.format is 'Which reader read it.';
comment on column institution_file.bank is 'The bank, as the file names it; empty if it does not.';
comment on column institution_file.branch is 'The branch, as the file names it; empty if it does not.';
comment on column institution_file.number is 'The account, as the file names it: the next file must be of the same.';
comment on column institution_file.first_on is 'The first day that it speaks of, in Sao Paulo.';
comment on column institution_file.last_on is 'The last day that it speaks of.';
comment on column institution_file.items_count is 'How many lines of money it has.';
comment on column institution_file.recorded_at is 'When it was read, in service time.';

-- keep_joined: migrations 0066, 0074, 0083
create function keep_joined() returns trigger language plpgsql
as $function$
begin
    if old.joined_kind = 'movement' and new.joined_kind in ('transfer', 'refund') and not new.is_reversal and exists (
        select from movement as opposite
        where opposite.institution_id = old.institution_id and opposite.opposite_of = old.joined_id
    ) then
        return new;
    end if;
    raise exception 'item % is joined to % %, and stays so', old.item_id, old.joined_kind, old.joined_id
        using errcode = 'integrity_constraint_violation', constraint = 'an_item_stays_joined';
end $function$;
revoke execute on function keep_joined() from public;

-- institution_item: Lines of institutions' own statements, each once; what each says never changes.
create table institution_item (
    institution_id smallint not null,
    item_id text collate "C" not null,
    day date not null,
    settled_at timestamp with time zone,
    direction text not null,
    amount_cents bigint not null,
    kind text not null,
    end_to_end_id text collate "C",
    return_id text collate "C",
    txid text,
    tax_id text,
    counterparty text,
    text text not null,
    source text not null,
    recorded_at timestamp with time zone not null,
    joined_kind text,
    joined_id text collate "C",
    joined_by text,
    is_reversal boolean default false not null,
    fee_of_kind text,
    fee_of_id text collate "C",
    waits text,
    others jsonb default '[]'::jsonb not null,
    constraint institution_item_pkey primary key (institution_id, item_id),
    constraint institution_item_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint institution_item_counterparty_check check (length(counterparty) <= 255),
    constraint institution_item_day_check check (isfinite(day)),
    constraint institution_item_direction_check check (direction in ('IN', 'OUT')),
    constraint institution_item_end_to_end_id_check check (length(end_to_end_id) >= 1 and length(end_to_end_id) <= 64),
    constraint institution_item_fee_of_kind_check check (fee_of_kind in ('transfer', 'refund')),
    constraint institution_item_item_id_check check (length(item_id) >= 1 and length(item_id) <= 255),
    constraint institution_item_joined_by_check check (joined_by in ('name', 'instant', 'tax_id', 'counterparty', 'amount',
        'alike', 'near')),
    constraint institution_item_joined_kind_check check (joined_kind in ('transfer', 'refund', 'movement')),
    constraint institution_item_kind_check check (kind in ('pix', 'refund', 'opening_balance', 'fee', 'wire', 'boleto',
        'by_hand', 'reversal', 'judicial', 'other')),
    constraint institution_item_recorded_at_check check (isfinite(recorded_at)),
    constraint institution_item_return_id_check check (length(return_id) >= 1 and length(return_id) <= 64),
    constraint institution_item_settled_at_check check (isfinite(settled_at)),
    constraint institution_item_source_check check (source in ('ofx', 'camt.053', 'efi', 'api')),
    constraint institution_item_tax_id_check check (length(tax_id) <= 255),
    constraint institution_item_text_check check (length(text) <= 255),
    constraint institution_item_txid_check check (length(txid) <= 255),
    constraint institution_item_waits_check check (waits in ('order_unknown', 'could_be_ours', 'not_yet_read', 'day_not_over',
        'opening_day', 'before_opening')),
    constraint joined_by_something check ((joined_kind is null) = (joined_id is null) and (joined_kind is null) = (joined_by is
        null)),
    constraint what_is_joined_waits_for_nothing check (joined_kind is null or waits is null),
    constraint institution_item_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
create index institution_item_alone on institution_item (institution_id, day) where joined_kind is null;
create index institution_item_day on institution_item (institution_id, day);
create index institution_item_moved_out on institution_item (institution_id, amount_cents, day) where joined_kind = 'movement'
    and direction = 'OUT';
create unique index institution_item_of on institution_item (joined_kind, joined_id, institution_id, is_reversal);
create trigger institution_item_is_never_deleted before delete or truncate on institution_item for each statement execute
    function refuse_change();
create trigger keep_joined before update on institution_item for each row when (old.joined_kind is not null and (old.joined_kind
    is distinct from new.joined_kind or old.joined_id is distinct from new.joined_id or old.is_reversal is distinct from
    new.is_reversal)) execute function keep_joined();
grant insert, select, update (joined_kind, joined_id, joined_by, is_reversal, fee_of_kind, fee_of_id, waits, others) on table
    institution_item to pixconnect_service;
comment on table institution_item is 'Lines of institutions'' own statements, each once; what each says never changes.';
comment on column institution_item.institution_id is 'The account.';
comment on column institution_item.item_id is 'The institution''s name of the line, unique on the account.';
comment on column institution_item.day is 'Its day in Sao Paulo.';
comment on column institution_item.settled_at is 'Its instant by the institution''s clock, where it tells one.';
comment on column institution_item.direction is 'Whether money came in (IN) or went out (OUT).';
comment on column institution_item.amount_cents is 'How much, in cents.';
comment on column institution_item.kind is 'What the institution calls it.';
comment on column institution_item.end_to_end_id is 'The Pix that it is or is about, as the network calls it.';
comment on column institution_item.return_id is 'The return that it is, as the network calls it.';
comment on column institution_item.txid is 'The txid that the institution tells with it.';
comment on column institution_item.tax_id is 'The other side''s CPF or CNPJ, as far as it is told.';
comment on column institution_item.counterparty is 'The other side''s name, where it is told.';
comment on column institution_item.text is 'The institution''s text.';
comment on column institution_item.source is 'Where it was read: a file''s form, or the institution''s API.';
comment on column institution_item.recorded_at is 'When it was first read, in service time.';
comment on column institution_item.joined_kind is
    'What of ours it is: a transfer, a refund, a movement; null while it is alone.';
comment on column institution_item.joined_id is 'The id of that; of a movement, its item id.';
comment on column institution_item.joined_by is 'What shows that the two are one.';
comment on column institution_item.is_reversal is 'It gives back what was debited for an order that failed.';
comment on column institution_item.fee_of_kind is 'What a fee was taken for: a transfer or a refund.';
comment on column institution_item.fee_of_id is 'The id of that.';
comment on column institution_item.waits is 'Why it is neither joined nor a movement.';
comment on column institution_item.others is 'Other contents that were told under the same id, for a person.';

-- institution_day: Days of accounts at institutions: their balances as told, and whether they are closed.
create table institution_day (
    institution_id smallint not null,
    day date not null,
    opening_cents bigint,
    closing_cents bigint,
    read_at timestamp with time zone,
    source text not null,
    state text default 'open' not null,
    closed_at timestamp with time zone,
    reopened_at timestamp with time zone,
    constraint institution_day_pkey primary key (institution_id, day),
    constraint institution_day_closed_at_check check (isfinite(closed_at)),
    constraint institution_day_day_check check (isfinite(day)),
    constraint institution_day_read_at_check check (isfinite(read_at)),
    constraint institution_day_reopened_at_check check (isfinite(reopened_at)),
    constraint institution_day_source_check check (source in ('ofx', 'camt.053', 'efi', 'api')),
    constraint institution_day_state_check check (state in ('open', 'provisional', 'closed', 'closed_with_cases')),
    constraint institution_day_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
grant insert, select, update (opening_cents, closing_cents, read_at, state, closed_at, reopened_at) on table institution_day to
    pixconnect_service;
comment on table institution_day is 'Days of accounts at institutions: their balances as told, and whether they are closed.';
comment on column institution_day.institution_id is 'The account.';
comment on column institution_day.day is 'The day in Sao Paulo.';
comment on column institution_day.opening_cents is 'What was on the account before it, as a statement told; null if none did.';
comment on column institution_day.closing_cents is 'What was on the account at its end, as a statement told; null if none did.';
comment on column institution_day.read_at is 'When a statement of all of it was last read, in service time.';
comment on column institution_day.source is 'Where its items come from: two sources give one line two names, so a day has one.';
comment on column institution_day.state is 'Open, provisional, closed, or closed with cases, as last judged.';
comment on column institution_day.closed_at is 'When it was last closed, in service time.';
comment on column institution_day.reopened_at is 'When it was last opened again, in service time.';

-- institution_callback: The secret in the address by which an institution tells us that something came in on an account.
create table institution_callback (
    institution_id smallint not null,
    digest bytea not null,
    secret_sealed bytea not null,
    made_at timestamp with time zone not null,
    constraint institution_callback_pkey primary key (institution_id),
    constraint institution_callback_digest_check check (length(digest) = 32),
    constraint institution_callback_made_at_check check (isfinite(made_at)),
    constraint institution_callback_institution_id_fkey foreign key (institution_id) references institution_account(id) on
        delete cascade
);
grant delete, insert, update on table institution_callback to pixconnect_operator;
grant select on table institution_callback to pixconnect_service;
comment on table institution_callback is
    'The secret in the address by which an institution tells us that something came in on an account.';
comment on column institution_callback.institution_id is 'The account.';
comment on column institution_callback.digest is 'SHA-256 of the secret, with which that of each call is compared.';
comment on column institution_callback.secret_sealed is
    'The secret itself, sealed, so that the address can be registered again.';
comment on column institution_callback.made_at is 'When the secret was made; real time.';

-- institution_webhook_before: What was registered at an institution for a key before our address took its place.
create table institution_webhook_before (
    institution_id smallint not null,
    key text not null,
    url text not null,
    kept_at timestamp with time zone not null,
    constraint institution_webhook_before_pkey primary key (institution_id, key),
    constraint institution_webhook_before_kept_at_check check (isfinite(kept_at)),
    constraint institution_webhook_before_key_check check (length(key) >= 1 and length(key) <= 77),
    constraint institution_webhook_before_url_check check (length(url) >= 1 and length(url) <= 2048),
    constraint institution_webhook_before_institution_id_fkey foreign key (institution_id) references institution_account(id) on
        delete cascade
);
grant delete, insert, update on table institution_webhook_before to pixconnect_operator;
grant select on table institution_webhook_before to pixconnect_service;
comment on table institution_webhook_before is
    'What was registered at an institution for a key before our address took its place.';
comment on column institution_webhook_before.institution_id is 'The account.';
comment on column institution_webhook_before.key is 'The Pix key.';
comment on column institution_webhook_before.url is 'The address that was there.';
comment on column institution_webhook_before.kept_at is 'When ours took its place; real time.';

-- institution_day_file: Files of days that an institution was asked to write.
create table institution_day_file (
    institution_id smallint not null,
    day date not null,
    name text not null,
    asked_at timestamp with time zone not null,
    ended_at timestamp with time zone,
    failure text,
    constraint institution_day_file_pkey primary key (institution_id, day),
    constraint institution_day_file_asked_at_check check (isfinite(asked_at)),
    constraint institution_day_file_day_check check (isfinite(day)),
    constraint institution_day_file_ended_at_check check (isfinite(ended_at)),
    constraint institution_day_file_failure_check check (length(failure) >= 1 and length(failure) <= 300),
    constraint institution_day_file_name_check check (length(name) >= 1 and length(name) <= 100),
    constraint what_failed_has_ended check (failure is null or ended_at is not null),
    constraint institution_day_file_institution_id_fkey foreign key (institution_id) references institution_account(id) on
        delete cascade
);
grant insert, select, update (name, asked_at, ended_at, failure) on table institution_day_file to pixconnect_service;
comment on table institution_day_file is 'Files of days that an institution was asked to write.';
comment on column institution_day_file.institution_id is 'The account.';
comment on column institution_day_file.day is 'The day in Sao Paulo that the file is of.';
comment on column institution_day_file.name is 'What the file that was asked for last is fetched by.';
comment on column institution_day_file.asked_at is 'When it was asked for, in real time.';
comment on column institution_day_file.ended_at is 'When it was read or refused, in real time; null while it is awaited.';
comment on column institution_day_file.failure is 'Why it was refused; null where it was read.';

-- charge_revision: The contents of a charge before each change of them.
create table charge_revision (
    charge_id bigint not null,
    holder_id bigint not null,
    revision integer not null,
    contents text not null,
    constraint charge_revision_pkey primary key (charge_id, holder_id, revision),
    constraint charge_revision_revision_check check (revision >= 0)
);
create trigger check_new after insert on charge_revision for each row execute function check_revisions();
grant insert, select on table charge_revision to pixconnect_service;
comment on table charge_revision is 'The contents of a charge before each change of them.';
comment on column charge_revision.charge_id is 'The charge.';
comment on column charge_revision.holder_id is 'The holder of the charge.';
comment on column charge_revision.revision is 'Which revision the contents were, from 0.';
comment on column charge_revision.contents is 'The contents, as JSON.';

-- check_new_lot: migration 0136
create function check_new_lot() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if not exists (select from lot_item where holder_id = new.holder_id and lot_number = new.number) then
        raise exception 'lot % of holder % has no items', new.number, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_lot_has_its_items';
    end if;
    return null;
end $function$;
revoke execute on function check_new_lot() from public;

-- charge_lot: Lots of charges with a due date: which charges they are is said once, and never changes.
create table charge_lot (
    holder_id bigint not null,
    number bigint not null,
    slot smallint not null,
    description text not null,
    item_count integer not null,
    asked_count integer not null,
    created_at timestamp with time zone not null,
    constraint charge_lot_pkey primary key (holder_id, number),
    constraint charge_lot_asked_count_check check (asked_count >= 1),
    constraint charge_lot_check check (slot = (number % 256::bigint)),
    constraint charge_lot_created_at_check check (isfinite(created_at)),
    constraint charge_lot_description_check check (length(description) >= 1 and length(description) <= 255),
    constraint charge_lot_item_count_check check (item_count >= 1 and item_count <= 1000),
    constraint charge_lot_number_check check (number >= 1 and number <= 999999999999999999),
    constraint charge_lot_holder_id_fkey foreign key (holder_id) references holder(id)
);
create index charge_lot_list on charge_lot (holder_id, created_at, number);
create trigger check_new after insert on charge_lot for each row execute function check_new_lot();
grant insert, select, update (description, asked_count) on table charge_lot to pixconnect_service;
comment on table charge_lot is 'Lots of charges with a due date: which charges they are is said once, and never changes.';
comment on column charge_lot.holder_id is 'Whose they are.';
comment on column charge_lot.number is 'The id that its holder chose.';
comment on column charge_lot.slot is 'The slot of work it belongs to, 0 to 255.';
comment on column charge_lot.description is 'What its holder calls it.';
comment on column charge_lot.item_count is 'How many charges it has.';
comment on column charge_lot.asked_count is
    'How many requests have made or changed it: who has read it sees whether another came between.';
comment on column charge_lot.created_at is 'When it was first asked for, in service time.';

-- check_lot_requests: migration 0136
create function check_lot_requests() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
declare
    wrong record;
begin
    select lot_item.holder_id, lot_item.lot_number, lot_item.place into wrong
    from changed join lot_item on lot_item.holder_id = changed.holder_id and lot_item.lot_number = changed.lot_number
        and lot_item.place = changed.place
    where (lot_item.status = 'PROCESSING') <> exists (
        select from lot_request
        where lot_request.holder_id = lot_item.holder_id and lot_request.lot_number = lot_item.lot_number
            and lot_request.place = lot_item.place
    ) limit 1;
    if wrong is not null then
        raise exception 'item % of lot % of holder % and what is asked of it do not agree',
            wrong.place, wrong.lot_number, wrong.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'an_item_under_way_is_asked_for';
    end if;
    return null;
end $function$;
revoke execute on function check_lot_requests() from public;

-- check_lot_charge: migration 0136
create function check_lot_charge() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if old.charge_id is not null or not exists (
        select from charge
        where id = new.charge_id and holder_id = new.holder_id and txid = new.txid and due_on is not null
    ) then
        raise exception 'charge % is not that of item % of lot % of holder %',
            new.charge_id, new.place, new.lot_number, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'an_item_keeps_its_charge';
    end if;
    return null;
end $function$;
revoke execute on function check_lot_charge() from public;

-- check_lot: migration 0136
create function check_lot() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    wrong record;
begin
    select changed.holder_id, changed.lot_number into wrong from (select distinct holder_id, lot_number from changed) as changed
    join charge_lot on charge_lot.holder_id = changed.holder_id and charge_lot.number = changed.lot_number
    where item_count <> (
        select count(*) from lot_item
        where lot_item.holder_id = changed.holder_id and lot_item.lot_number = changed.lot_number and place < item_count
    ) or item_count <> (
        select count(*) from lot_item where lot_item.holder_id = changed.holder_id and lot_item.lot_number = changed.lot_number
    ) limit 1;
    if wrong is not null then
        raise exception 'lot % of holder % gains or lacks items', wrong.lot_number, wrong.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_lot_has_its_items';
    end if;
    return null;
end $function$;
revoke execute on function check_lot() from public;

-- lot_item: The charges of lots, each whether it was made and what became of the last request.
create table lot_item (
    holder_id bigint not null,
    lot_number bigint not null,
    place smallint not null,
    txid text not null,
    status text not null,
    charge_id bigint,
    wanted text,
    refusal text,
    constraint lot_item_pkey primary key (holder_id, lot_number, place),
    constraint a_txid_is_in_one_lot unique (holder_id, txid),
    constraint lot_item_place_check check (place >= 0 and place <= 999),
    constraint lot_item_status_check check (status in ('PROCESSING', 'CREATED', 'REFUSED')),
    constraint lot_item_txid_check check (txid ~ '^[a-zA-Z0-9]{26,35}$'),
    constraint what_is_created_has_its_charge check (status <> 'CREATED' or charge_id is not null),
    constraint what_is_not_made_is_wanted check ((charge_id is null) = (wanted is not null)),
    constraint what_is_refused_says_why check ((status = 'REFUSED') = (refusal is not null)),
    constraint lot_item_charge_id_holder_id_fkey foreign key (charge_id, holder_id) references charge(id, holder_id),
    constraint lot_item_holder_id_lot_number_fkey foreign key (holder_id, lot_number) references charge_lot(holder_id, number)
) with (fillfactor=70);
create index lot_item_charge on lot_item (charge_id, holder_id) where charge_id is not null;
create trigger check_asked after insert on lot_item referencing new table as changed for each statement execute function
    check_lot_requests();
create trigger check_charge after update of charge_id on lot_item for each row when (old.charge_id is distinct from
    new.charge_id) execute function check_lot_charge();
create trigger check_items after insert on lot_item referencing new table as changed for each statement execute function
    check_lot();
create trigger check_status after update on lot_item referencing new table as changed for each statement execute function
    check_lot_requests();
grant insert, select, update (status, charge_id, wanted, refusal) on table lot_item to pixconnect_service;
comment on table lot_item is 'The charges of lots, each whether it was made and what became of the last request.';
comment on column lot_item.holder_id is 'Whose lot it is.';
comment on column lot_item.lot_number is 'The lot.';
comment on column lot_item.place is 'Its place in the lot, from 0.';
comment on column lot_item.txid is 'The txid that the charge has or is to have.';
comment on column lot_item.status is 'PROCESSING while a worker has something to do, then what became of the last request.';
comment on column lot_item.charge_id is 'The charge, once it was made; it stays when a change of it is refused.';
comment on column lot_item.wanted is 'What was sent of a charge that is not made yet, as JSON: later requests change it.';
comment on column lot_item.refusal is 'Why the last request was refused: rules and places, as JSON.';

-- lot_request: What workers have to do for lots: rows are removed with what becomes of them.
create table lot_request (
    holder_id bigint not null,
    lot_number bigint not null,
    place smallint not null,
    number integer not null,
    slot smallint not null,
    asked text not null,
    asked_by text not null,
    constraint lot_request_pkey primary key (holder_id, lot_number, place, number),
    constraint lot_request_check check (slot = (lot_number % 256::bigint)),
    constraint lot_request_number_check check (number >= 1),
    constraint lot_request_holder_id_lot_number_place_fkey foreign key (holder_id, lot_number, place) references
        lot_item(holder_id, lot_number, place)
);
create index lot_request_due on lot_request (slot, place);
create trigger check_done after delete on lot_request referencing old table as changed for each statement execute function
    check_lot_requests();
create trigger check_new after insert on lot_request referencing new table as changed for each statement execute function
    check_lot_requests();
grant delete, insert, select on table lot_request to pixconnect_service;
comment on table lot_request is 'What workers have to do for lots: rows are removed with what becomes of them.';
comment on column lot_request.holder_id is 'Whose lot it is.';
comment on column lot_request.lot_number is 'The lot.';
comment on column lot_request.place is 'The place of the charge in the lot.';
comment on column lot_request.number is 'The number of the request of this lot: those of one charge are done in order.';
comment on column lot_request.slot is 'The slot of work it belongs to, 0 to 255: its lot''s.';
comment on column lot_request.asked is 'What is asked for, as it was read, as JSON.';
comment on column lot_request.asked_by is 'Who asked, as JSON.';

-- location: The addresses that dynamic QR codes lead to.
create table location (
    id bigint not null,
    holder_id bigint not null,
    token text collate "C" not null,
    status text not null,
    charge_id bigint,
    created_at timestamp with time zone not null,
    constraint location_pkey primary key (id),
    constraint location_of_charge unique (charge_id, holder_id) deferrable,
    constraint location_token_is_used_once unique (token),
    constraint location_id_check check (id >= 1 and id <= 9007199254740991),
    constraint location_is_bound_to_a_charge check ((charge_id is not null) = (status in ('COB_BOUND', 'COBV_BOUND'))),
    constraint location_status_check check (status in ('COB_FREE', 'COB_BOUND', 'COBV_FREE', 'COBV_BOUND')),
    constraint location_token_check check (token ~ '^[a-zA-Z0-9]{22,35}$')
);
create index location_list on location ((holder_id + 0), status, created_at, id);
grant insert, select, update (status, charge_id) on table location to pixconnect_service;
comment on table location is 'The addresses that dynamic QR codes lead to.';
comment on column location.id is 'Counts up, in blocks.';
comment on column location.holder_id is 'The holder who may bind it.';
comment on column location.token is 'The last part of its address.';
comment on column location.status is 'What kind of charge it is for, and whether it has one.';
comment on column location.charge_id is 'The charge that it leads to; null while it is free.';
comment on column location.created_at is 'When it was made, in service time.';

-- received_hour: How many Pix a holder received in an hour that is over, counted once when a list first asks for it.
create table received_hour (
    holder_id bigint not null,
    hour timestamp with time zone not null,
    count bigint not null,
    constraint received_hour_pkey primary key (holder_id, hour),
    constraint received_hour_holder_id_fkey foreign key (holder_id) references holder(id)
);
grant delete, insert, select on table received_hour to pixconnect_service;
comment on table received_hour is
    'How many Pix a holder received in an hour that is over, counted once when a list first asks for it.';
comment on column received_hour.holder_id is 'The holder who received them.';
comment on column received_hour.hour is 'The hour in which they settled, in service time.';
comment on column received_hour.count is 'How many.';

-- received_known: Up to which hour received_hour is complete; an hour before it that is not there had none.
create table received_known (
    holder_id bigint not null,
    until timestamp with time zone not null,
    constraint received_known_pkey primary key (holder_id),
    constraint received_known_holder_id_fkey foreign key (holder_id) references holder(id)
);
grant delete, insert, select, update (until) on table received_known to pixconnect_service;
comment on table received_known is 'Up to which hour received_hour is complete; an hour before it that is not there had none.';
comment on column received_known.holder_id is 'The holder.';
comment on column received_known.until is 'The hours before this instant are counted, in service time.';

-- tally_events: migrations 0003, 0005
create function tally_events() returns trigger language plpgsql
as $function$
begin
    insert into webhook_tally_change (kind, owner_id, status, hour, change)
    select 'event', holder_id, 'made', date_trunc('hour', created_at, 'UTC') as hour, count(*) from new_row group by holder_id, 4;
    return null;
end $function$;
revoke execute on function tally_events() from public;

-- event: What happened to charges, transfers, refunds and movements; written with the fact, partitioned by id.
create table event (
    id bigint not null,
    holder_id bigint not null,
    name text not null,
    resource text not null,
    resource_id bigint not null,
    slot smallint not null,
    body text not null,
    created_at timestamp with time zone not null,
    constraint event_pkey primary key (id, holder_id),
    constraint event_id_check check (id >= 1 and id <= 9007199254740991),
    constraint event_resource_check check (resource in ('charge', 'transfer', 'refund', 'movement', 'adjustment', 'infraction')),
    constraint event_slot_check check (slot >= 0 and slot <= 255)
) partition by range (id);
create table event_1 partition of event for values from ('1') to ('17179869184');
create index event_list on event (holder_id, created_at, id);
create trigger tally_events after insert on event referencing new table as new_row for each statement execute function
    tally_events();
grant insert, select on table event to pixconnect_service;
comment on table event is
    'What happened to charges, transfers, refunds and movements; written with the fact, partitioned by id.';
comment on column event.id is 'Rises with the events of one resource, in the order in which they happened.';
comment on column event.holder_id is 'The holder whose fact it is.';
comment on column event.name is 'What happened: transfer.out.confirmed.';
comment on column event.resource is 'What it happened to: charge, transfer, refund or movement.';
comment on column event.resource_id is 'The id of that.';
comment on column event.slot is 'The slot of work it belongs to, 0 to 255.';
comment on column event.body is 'The very text that is sent, on each attempt.';
comment on column event.created_at is 'When it happened, in service time.';

-- event_feed: The order in which events are read by cursor, given after the commit; partitioned by position.
create table event_feed (
    position bigint not null,
    holder_id bigint not null,
    event_ids bigint[] not null,
    constraint event_feed_pkey primary key (holder_id, "position"),
    constraint event_feed_event_ids_check check (cardinality(event_ids) >= 1 and cardinality(event_ids) <= 200),
    constraint event_feed_position_check check ("position" >= 1 and "position" <= 9007199254740991)
) partition by range ("position");
create table event_feed_1 partition of event_feed for values from ('1') to ('1073741824');
create index event_feed_order on event_feed ("position");
grant select on table event_feed to pixconnect_service;
comment on table event_feed is 'The order in which events are read by cursor, given after the commit; partitioned by position.';
comment on column event_feed.position is 'The place in the feed, which never changes.';
comment on column event_feed.holder_id is 'The holder who reads them.';
comment on column event_feed.event_ids is 'The events at this place, 1 to 200, in the order of their ids.';

-- event_feed_state: How far positions have been given; whoever gives some holds a lock on the one row.
create table event_feed_state (
    is_only_row boolean default true not null,
    last_position bigint default 0 not null,
    given_at timestamp with time zone default clock_timestamp() not null,
    settled_id bigint default 0 not null,
    settled_position bigint default 0 not null,
    asked_id bigint,
    asked_position bigint,
    asked_of text[],
    swept_id bigint default 0 not null,
    swept_position bigint default 0 not null,
    next_id bigint default 0 not null,
    next_position bigint default 0 not null,
    constraint event_feed_state_pkey primary key (is_only_row),
    constraint event_feed_state_is_only_row_check check (is_only_row)
) with (fillfactor=20);
grant select on table event_feed_state to pixconnect_service;
comment on table event_feed_state is 'How far positions have been given; whoever gives some holds a lock on the one row.';
comment on column event_feed_state.is_only_row is 'True: there is one row.';
comment on column event_feed_state.last_position is 'The last position that was given.';
comment on column event_feed_state.given_at is 'When that was, in real time.';
comment on column event_feed_state.settled_id is 'Each event up to this id that will ever be there has its position.';
comment on column event_feed_state.settled_position is 'The events beyond settled_id stand behind this position.';
comment on column event_feed_state.asked_id is 'What settled_id becomes when the transactions in asked_of have ended.';
comment on column event_feed_state.asked_position is 'What settled_position becomes then.';
comment on column event_feed_state.asked_of is 'The transactions that may still write an event up to asked_id.';
comment on column event_feed_state.swept_id is 'Each event up to this id was looked for a second time.';
comment on column event_feed_state.swept_position is 'The events beyond swept_id stand behind this position.';
comment on column event_feed_state.next_id is 'Up to which id the next sweep goes.';
comment on column event_feed_state.next_position is 'What swept_position becomes then.';

-- keep_removed_endpoint: migration 0039
create function keep_removed_endpoint() returns trigger language plpgsql
as $function$
begin
    insert into removed_endpoint (id, holder_id) values (old.id, old.holder_id);
    delete from removed_endpoint where id in (
        select id from removed_endpoint where holder_id = old.holder_id order by removed_at desc, id desc offset 20
    );
    return null;
end $function$;
revoke execute on function keep_removed_endpoint() from public;

-- webhook_endpoint: The addresses that are told of events; those of a Pix key are here too.
create table webhook_endpoint (
    id bigint not null,
    holder_id bigint not null,
    url text not null,
    event_types text[] not null,
    status text not null,
    status_reason text,
    secret bytea not null,
    previous_secret bytea,
    previous_secret_until timestamp with time zone,
    first_failure_at timestamp with time zone,
    resumed_at timestamp with time zone,
    created_at timestamp with time zone not null,
    modified_at timestamp with time zone not null,
    pix_key text,
    profile text,
    only_with_txid boolean default false not null,
    name text,
    authorization_sealed bytea,
    constraint webhook_endpoint_pkey primary key (id),
    constraint event_types_are_bounded check (cardinality(event_types) >= 1 and cardinality(event_types) <= 100),
    constraint webhook_endpoint_check check ((previous_secret is null) = (previous_secret_until is null)),
    constraint webhook_endpoint_check1 check ((status = 'disabled') = (status_reason is not null)),
    constraint webhook_endpoint_id_check check (id >= 1 and id <= 9007199254740991),
    constraint webhook_endpoint_status_check check (status in ('active', 'inactive', 'disabled')),
    constraint webhook_endpoint_url_check check (length(url) >= 1 and length(url) <= 2048),
    constraint webhook_endpoint_holder_id_fkey foreign key (holder_id) references holder(id)
) with (fillfactor=80);
create index webhook_endpoint_list on webhook_endpoint (holder_id, created_at, id);
create index webhook_endpoint_of_key_by_host on webhook_endpoint (rtrim(lower("substring"(url,
    '^[^:]+://(\[[^]]*\]|[^/?#:]*)')), '.')) where pix_key is not null;
create index webhook_endpoint_resumed on webhook_endpoint (id) where resumed_at is not null;
create trigger keep_removed_endpoint after delete on webhook_endpoint for each row execute function keep_removed_endpoint();
grant delete, insert, select, update on table webhook_endpoint to pixconnect_service;
comment on table webhook_endpoint is 'The addresses that are told of events; those of a Pix key are here too.';
comment on column webhook_endpoint.id is 'Counts up.';
comment on column webhook_endpoint.holder_id is 'The holder whose events are sent there.';
comment on column webhook_endpoint.url is 'The address.';
comment on column webhook_endpoint.event_types is 'The names of the events that are sent there.';
comment on column webhook_endpoint.status is
    'Whether deliveries are made (active), not wanted (inactive) or given up (disabled).';
comment on column webhook_endpoint.status_reason is 'Why it was disabled; null otherwise.';
comment on column webhook_endpoint.secret is 'The secret of its signatures, encrypted with the secret key.';
comment on column webhook_endpoint.previous_secret is
    'The secret before, encrypted with the secret key; it signs too for a time.';
comment on column webhook_endpoint.previous_secret_until is 'Until when it does, in service time.';
comment on column webhook_endpoint.first_failure_at is
    'When the first attempt failed since the last success, in service time; null if none did.';
comment on column webhook_endpoint.resumed_at is 'Since when what waited for it is dated anew; null when all of it is.';
comment on column webhook_endpoint.created_at is 'When it was made, in service time.';
comment on column webhook_endpoint.modified_at is 'When it last changed, in service time.';
comment on column webhook_endpoint.pix_key is
    'The Pix key whose payments it is told of; null for an endpoint that callers name by its id.';
comment on column webhook_endpoint.profile is
    'The institution as which the webhook of a key is told; null is as the central bank''s Pix API has it.';
comment on column webhook_endpoint.only_with_txid is 'Whether the webhook of a key is not told of a Pix without a txid.';
comment on column webhook_endpoint.name is 'Its owner''s name for it, at faces of institutions where webhooks have one.';
comment on column webhook_endpoint.authorization_sealed is
    'What it is sent as Authorization, sealed; null where its owner has said nothing.';

-- removed_endpoint: The newest twenty endpoints that each holder removed, so that what was sent to them can still be found.
create table removed_endpoint (
    id bigint not null,
    holder_id bigint not null,
    removed_at timestamp with time zone default clock_timestamp() not null,
    constraint removed_endpoint_pkey primary key (id)
);
create index removed_endpoint_list on removed_endpoint (holder_id, removed_at);
grant delete, insert, select on table removed_endpoint to pixconnect_service;
comment on table removed_endpoint is
    'The newest twenty endpoints that each holder removed, so that what was sent to them can still be found.';
comment on column removed_endpoint.id is 'The id that the endpoint had.';
comment on column removed_endpoint.holder_id is 'The holder who had it.';
comment on column removed_endpoint.removed_at is 'When it was removed, in real time.';

-- key_webhook: The webhook of each Pix key, as the central bank's Pix API has them.
create table key_webhook (
    pix_key text not null,
    holder_id bigint not null,
    endpoint_id bigint not null,
    created_at timestamp with time zone not null,
    constraint key_webhook_pkey primary key (pix_key),
    constraint key_webhook_endpoint_id_key unique (endpoint_id),
    constraint key_webhook_endpoint_id_fkey foreign key (endpoint_id) references webhook_endpoint(id) on delete cascade,
    constraint key_webhook_holder_id_fkey foreign key (holder_id) references holder(id),
    constraint key_webhook_pix_key_fkey foreign key (pix_key) references pix_key(key) on delete cascade
);
create index key_webhook_list on key_webhook (holder_id, created_at, pix_key);
grant insert, select, update (created_at) on table key_webhook to pixconnect_service;
comment on table key_webhook is 'The webhook of each Pix key, as the central bank''s Pix API has them.';
comment on column key_webhook.pix_key is 'The key; it has one webhook at most.';
comment on column key_webhook.holder_id is 'The holder of the key.';
comment on column key_webhook.endpoint_id is 'The endpoint that is told.';
comment on column key_webhook.created_at is 'When it was last set, in service time.';

-- tally_changed_deliveries: migrations 0003, 0005
create function tally_changed_deliveries() returns trigger language plpgsql
as $function$
begin
    insert into webhook_tally_change (kind, owner_id, status, hour, change)
    select 'delivery', endpoint_id, status, hour, sum(change) from (
        select endpoint_id, status, date_trunc('hour', created_at, 'UTC') as hour, 1 as change from new_row
        where status <> 'pending'
        union all
        select endpoint_id, status, date_trunc('hour', created_at, 'UTC'), -1 from old_row where status <> 'pending'
    ) as moved
    group by endpoint_id, status, hour having sum(change) <> 0;
    return null;
end $function$;
revoke execute on function tally_changed_deliveries() from public;

-- tally_new_deliveries: migrations 0003, 0005
create function tally_new_deliveries() returns trigger language plpgsql
as $function$
begin
    if not exists (select from new_row) then -- nobody wants to be told: much the most frequent case of some installations
        return null;
    end if;
    insert into webhook_tally_change (kind, owner_id, status, hour, change)
    select 'delivery', endpoint_id, 'made', date_trunc('hour', created_at, 'UTC'), count(*) from new_row group by endpoint_id, 4
    union all
    select 'delivery', endpoint_id, status, date_trunc('hour', created_at, 'UTC'), count(*) from new_row
    where status <> 'pending' group by endpoint_id, status, 4;
    return null;
end $function$;
revoke execute on function tally_new_deliveries() from public;

-- delivery: One event for one endpoint, written with the event; partitioned by id.
create table delivery (
    id bigint not null,
    holder_id bigint not null,
    endpoint_id bigint not null,
    event_id bigint not null,
    resource text not null,
    resource_id bigint not null,
    slot smallint not null,
    status text not null,
    due_at timestamp with time zone,
    attempts_count integer default 0 not null,
    failures_count smallint default 0 not null,
    created_at timestamp with time zone not null,
    modified_at timestamp with time zone not null,
    notice text,
    covers bigint[],
    covered_by bigint,
    constraint delivery_pkey primary key (id, holder_id),
    constraint delivery_check check ((due_at is not null) = (status = 'pending')),
    constraint delivery_id_check check (id >= 1 and id <= 9007199254740991),
    constraint delivery_slot_check check (slot >= 0 and slot <= 255),
    constraint delivery_status_check check (status in ('pending', 'delivered', 'failed'))
) partition by range (id);
create table delivery_1 partition of delivery for values from ('1') to ('16777216');
create index delivery_due on delivery (due_at, id, slot) where status = 'pending';
create index delivery_failed on delivery (endpoint_id, created_at, id) where status = 'failed';
create index delivery_list on delivery (endpoint_id, created_at, id);
create index delivery_order on delivery (endpoint_id, resource_id, event_id, id) where status = 'pending';
create trigger tally_changed_deliveries after update on delivery referencing old table as old_row new table as new_row for each
    statement execute function tally_changed_deliveries();
create trigger tally_new_deliveries after insert on delivery referencing new table as new_row for each statement execute
    function tally_new_deliveries();
grant insert, select, update (status, due_at, attempts_count, failures_count, modified_at, notice, covers, covered_by) on table
    delivery to pixconnect_service;
comment on table delivery is 'One event for one endpoint, written with the event; partitioned by id.';
comment on column delivery.id is 'Counts up.';
comment on column delivery.holder_id is 'The holder of the endpoint.';
comment on column delivery.endpoint_id is 'The endpoint to be told; it may have been removed since.';
comment on column delivery.event_id is 'The event that it is told of.';
comment on column delivery.resource is 'What the event happened to; pix for the webhook of a key.';
comment on column delivery.resource_id is 'The id of that: events of one resource go to an endpoint in their order.';
comment on column delivery.slot is 'The slot of work it belongs to, 0 to 255.';
comment on column delivery.status is 'Whether it is still to be made, was made, or was given up.';
comment on column delivery.due_at is 'When the next attempt is made, in service time; null once it is delivered or failed.';
comment on column delivery.attempts_count is 'How many attempts were made.';
comment on column delivery.failures_count is 'How many of them failed in this schedule; sending it again begins a new one.';
comment on column delivery.created_at is 'When the event happened, in service time.';
comment on column delivery.modified_at is 'When it last changed, in service time.';
comment on column delivery.notice is
    'The one body for several deliveries of a key''s webhook, kept in the first of them before it is sent.';
comment on column delivery.covers is 'The other deliveries that this body tells of.';
comment on column delivery.covered_by is 'The delivery that holds the body which tells of this one.';

-- delivery_attempt: Each POST of a delivery and its answer; partitioned as deliveries are.
create table delivery_attempt (
    delivery_id bigint not null,
    number integer not null,
    started_at timestamp with time zone not null,
    status_code smallint,
    duration_us bigint not null,
    response text not null,
    error text,
    constraint delivery_attempt_pkey primary key (delivery_id, number),
    constraint delivery_attempt_duration_us_check check (duration_us >= 0),
    constraint delivery_attempt_number_check check (number >= 1)
) partition by range (delivery_id);
create table delivery_attempt_1 partition of delivery_attempt for values from ('1') to ('16777216');
grant insert, select on table delivery_attempt to pixconnect_service;
comment on table delivery_attempt is 'Each POST of a delivery and its answer; partitioned as deliveries are.';
comment on column delivery_attempt.delivery_id is 'The delivery.';
comment on column delivery_attempt.number is 'Which attempt of it, from 1.';
comment on column delivery_attempt.started_at is 'When it began, in service time.';
comment on column delivery_attempt.status_code is 'The HTTP status that was answered; null without an answer.';
comment on column delivery_attempt.duration_us is 'How long it took, in microseconds.';
comment on column delivery_attempt.response is 'The beginning of what was answered.';
comment on column delivery_attempt.error is 'What went wrong without an answer; null otherwise.';

-- webhook_tally: How many events a holder and how many deliveries an endpoint has, by hour.
create table webhook_tally (
    kind text not null,
    owner_id bigint not null,
    status text not null,
    hour timestamp with time zone not null,
    count bigint not null,
    constraint webhook_tally_pkey primary key (kind, owner_id, status, hour),
    constraint webhook_tally_kind_check check (kind in ('event', 'delivery')),
    constraint webhook_tally_status_check check (status in ('made', 'delivered', 'failed'))
) with (fillfactor=70);
grant insert, select, update on table webhook_tally to pixconnect_service;
comment on table webhook_tally is 'How many events a holder and how many deliveries an endpoint has, by hour.';
comment on column webhook_tally.kind is 'What is counted: event or delivery.';
comment on column webhook_tally.owner_id is 'The holder of events, the endpoint of deliveries.';
comment on column webhook_tally.status is 'All that were made, or what they became.';
comment on column webhook_tally.hour is 'The hour in which they were made, in service time.';
comment on column webhook_tally.count is 'How many.';

-- webhook_tally_change: What must still be added to webhook_tally: triggers only add rows here, and housekeeping sums them up.
create table webhook_tally_change (
    kind text not null,
    owner_id bigint not null,
    status text not null,
    hour timestamp with time zone not null,
    change bigint not null
);
create index webhook_tally_change_list on webhook_tally_change (kind, owner_id, status, hour) include (change);
grant delete, insert, select on table webhook_tally_change to pixconnect_service;
comment on table webhook_tally_change is
    'What must still be added to webhook_tally: triggers only add rows here, and housekeeping sums them up.';
comment on column webhook_tally_change.kind is 'What is counted: event or delivery.';
comment on column webhook_tally_change.owner_id is 'The holder of events, the endpoint of deliveries.';
comment on column webhook_tally_change.status is 'All that were made, or what they became.';
comment on column webhook_tally_change.hour is 'The hour in which they were made, in service time.';
comment on column webhook_tally_change.change is 'How many more, or fewer where it is negative.';

-- allowed_webhook_host: The hosts that may be told of the Pix keys of several holders in live mode, because an operator said
-- so.
create table allowed_webhook_host (
    host text not null,
    allowed_at timestamp with time zone default clock_timestamp() not null,
    constraint allowed_webhook_host_pkey primary key (host)
);
grant insert on table allowed_webhook_host to pixconnect_operator;
grant select on table allowed_webhook_host to pixconnect_service;
comment on table allowed_webhook_host is
    'The hosts that may be told of the Pix keys of several holders in live mode, because an operator said so.';
comment on column allowed_webhook_host.host is 'The host in ASCII and lower case, without a dot at its end.';
comment on column allowed_webhook_host.allowed_at is 'When an operator allowed it, in real time.';

-- callback_key: The keys that sign callbacks as institutions sign them that publish theirs; where the newest cannot be opened,
-- another is made.
create table callback_key (
    key_identifier text not null,
    profile text not null,
    public_pem text not null,
    private_sealed bytea not null,
    created_at timestamp with time zone not null,
    constraint callback_key_pkey primary key (key_identifier),
    constraint callback_key_created_at_check check (isfinite(created_at)),
    constraint callback_key_key_identifier_check check (key_identifier ~ '^[0-9a-f]{64}$')
);
grant insert, select on table callback_key to pixconnect_service;
comment on table callback_key is
    'The keys that sign callbacks as institutions sign them that publish theirs; where the newest cannot be opened, another is made.';
comment on column callback_key.key_identifier is 'The SHA-256 of the public key in DER, in hexadecimal digits.';
comment on column callback_key.profile is 'The institution as which it signs.';
comment on column callback_key.public_pem is 'The public key, as it is published.';
comment on column callback_key.private_sealed is 'The private key, sealed.';
comment on column callback_key.created_at is 'Real time.';

-- schema_version: The migrations that made these tables.
create table schema_version (
    version integer not null,
    name text not null,
    checksum text not null,
    applied_at timestamp with time zone default clock_timestamp() not null,
    constraint schema_version_pkey primary key (version)
);
grant select on table schema_version to pixconnect_service;
comment on table schema_version is 'The migrations that made these tables.';
comment on column schema_version.version is 'The number of the migration.';
comment on column schema_version.name is 'Its name.';
comment on column schema_version.checksum is
    'The SHA-256 of its text, in hex: a program with another text refuses these tables.';
comment on column schema_version.applied_at is 'When it was applied, in real time.';

-- refuse_other_mode: migration 0012
create function refuse_other_mode() returns trigger language plpgsql
as $function$
begin
    raise exception 'the mode of an installation never changes'
        using errcode = 'integrity_constraint_violation', constraint = 'mode_is_kept';
end $function$;
revoke execute on function refuse_other_mode() from public;

-- installation: What these tables are for, and the server on which they were last seen.
create table installation (
    is_only_row boolean default true not null,
    mode text not null,
    made_at timestamp with time zone default clock_timestamp() not null,
    system_identifier bigint,
    timeline bigint,
    seen_at timestamp with time zone,
    database_oid bigint,
    started_at timestamp with time zone,
    first_transfer_id bigint default 0 not null,
    first_refund_id bigint default 0 not null,
    tables_oid bigint,
    notes_count bigint default 0 not null,
    environment text,
    waiting_cluster text,
    beat_at timestamp with time zone,
    constraint installation_pkey primary key (is_only_row),
    constraint installation_environment_check check (environment in ('production', 'homologation', 'counterpart')),
    constraint installation_is_only_row_check check (is_only_row),
    constraint installation_mode_check check (mode in ('sandbox', 'live')),
    constraint installation_waiting_cluster_check check (length(waiting_cluster) >= 1 and length(waiting_cluster) <= 64)
);
create trigger environment_is_kept before update of environment on installation for each row when (old.environment is not null
    and old.environment is distinct from new.environment) execute function refuse_other_mode();
create trigger installation_is_kept before delete or truncate on installation for each statement execute function
    refuse_other_mode();
create trigger mode_is_kept before update of mode on installation for each row when (old.mode is distinct from new.mode) execute
    function refuse_other_mode();
grant update (environment) on table installation to pixconnect_operator;
grant insert (mode), select, update (system_identifier, timeline, seen_at, database_oid, started_at, tables_oid,
    waiting_cluster, beat_at) on table installation to pixconnect_service;
comment on table installation is 'What these tables are for, and the server on which they were last seen.';
comment on column installation.is_only_row is 'True: there is one row.';
comment on column installation.mode is 'Whether it is a sandbox or live; it never changes.';
comment on column installation.made_at is 'When the mode was set, in real time.';
comment on column installation.system_identifier is
    'The identifier of the server''s data folder: a restore by pg_dump has another.';
comment on column installation.timeline is
    'The server''s timeline: another after a restore to a point in time, and after a standby took over.';
comment on column installation.seen_at is
    'Since when they are on that server, in real time: when they came there, or when it was seen that they had been elsewhere meanwhile.';
comment on column installation.database_oid is
    'The database''s number on the server: another where a dump was restored beside its original.';
comment on column installation.started_at is
    'When the server was started that was seen last, in real time: another start may be that of a copy.';
comment on column installation.first_transfer_id is
    'The first transfer id after the server''s last start: transfers with lower ids were open before it, or about to be.';
comment on column installation.first_refund_id is 'The same for refunds.';
comment on column installation.tables_oid is
    'The number of this table in the database: another where a dump was restored in its place.';
comment on column installation.notes_count is
    'How often it was noted how far ids are; in data that was put back it is less than what processes know.';
comment on column installation.environment is 'That of all its accounts at institutions; null before the first one.';
comment on column installation.waiting_cluster is
    'The name of the cluster whose commits wait for a standby, as last seen; null where they wait for none.';
comment on column installation.beat_at is
    'When the primary was last told to note its own clock, in real time: a standby that has this instant is no older. Only where one is read from.';

-- refuse_moved_clock: migration 0012
create function refuse_moved_clock() returns trigger language plpgsql
as $function$
begin
    if new.offset_us <> 0 and exists (select from installation where mode = 'live') then
        raise exception 'the clock of a live installation is not moved'
            using errcode = 'integrity_constraint_violation', constraint = 'live_time_is_real';
    end if;
    return new;
end $function$;
revoke execute on function refuse_moved_clock() from public;

-- clock: How far the sandbox has moved service time from real time; in live mode always zero.
create table clock (
    is_only_row boolean default true not null,
    offset_us bigint default 0 not null,
    revision bigint default 0 not null,
    constraint clock_pkey primary key (is_only_row),
    constraint clock_is_only_row_check check (is_only_row)
);
create trigger live_time_is_real before update of offset_us on clock for each row execute function refuse_moved_clock();
grant select, update on table clock to pixconnect_service;
comment on table clock is 'How far the sandbox has moved service time from real time; in live mode always zero.';
comment on column clock.is_only_row is 'True: there is one row.';
comment on column clock.offset_us is 'How far, in microseconds.';
comment on column clock.revision is 'Counts up each time it is moved.';

-- worker: The workers that are there: each renews its row by the server's clock.
create table worker (
    id integer not null,
    expires_at timestamp with time zone not null,
    oldest_due_at timestamp with time zone,
    constraint worker_pkey primary key (id)
) with (fillfactor=25);
grant delete, insert, select, update on table worker to pixconnect_service;
comment on table worker is 'The workers that are there: each renews its row by the server''s clock.';
comment on column worker.id is 'Counts up, and begins again at its largest value.';
comment on column worker.expires_at is 'When it counts as gone unless it renews its row, in real time.';
comment on column worker.oldest_due_at is
    'Since when the oldest delivery is due that it could make and has not made, in real time.';

-- slot_lease: The 256 slots of work, and the worker that has each.
create table slot_lease (
    slot smallint not null,
    epoch bigint default 0 not null,
    worker_id integer,
    constraint slot_lease_pkey primary key (slot),
    constraint slot_lease_epoch unique (slot, epoch),
    constraint slot_lease_slot_check check (slot >= 0 and slot <= 255),
    constraint slot_lease_worker_id_fkey foreign key (worker_id) references worker(id) on delete set null
) with (fillfactor=50);
grant select, update on table slot_lease to pixconnect_service;
comment on table slot_lease is 'The 256 slots of work, and the worker that has each.';
comment on column slot_lease.slot is 'The slot, 0 to 255.';
comment on column slot_lease.epoch is
    'Counts up each time another worker takes the slot: what the former one writes is refused by it.';
comment on column slot_lease.worker_id is 'The worker that has it; null while nobody has.';

-- event_partition: The partitions of events, deliveries and the feed; attempts go with their deliveries.
create table event_partition (
    name text not null,
    parent text not null,
    first_id bigint not null,
    end_id bigint not null,
    begun_at timestamp with time zone,
    closed_at timestamp with time zone,
    detached_at timestamp with time zone,
    constraint event_partition_pkey primary key (name),
    constraint event_partition_parent_first_id_key unique (parent, first_id),
    constraint event_partition_check check (closed_at is null or begun_at is not null),
    constraint event_partition_parent_check check (parent in ('event', 'delivery', 'event_feed'))
);
grant select on table event_partition to pixconnect_service;
comment on table event_partition is 'The partitions of events, deliveries and the feed; attempts go with their deliveries.';
comment on column event_partition.name is 'The partition''s own table.';
comment on column event_partition.parent is 'The table that it is a part of.';
comment on column event_partition.first_id is 'The first id, or position, that it may hold.';
comment on column event_partition.end_id is 'The first that it may not hold.';
comment on column event_partition.begun_at is 'When its first id was given out, in real time; null before.';
comment on column event_partition.closed_at is 'When its last id was given out, in real time; null before.';
comment on column event_partition.detached_at is 'When it was taken off its parent, in real time: it is dropped next.';

-- partition_pass: When partitions were last looked after, and for how long they are kept.
create table partition_pass (
    is_only_row boolean default true not null,
    passed_at timestamp with time zone default clock_timestamp() not null,
    jumped_at timestamp with time zone,
    retention interval default '90 days'::interval not null,
    constraint partition_pass_pkey primary key (is_only_row),
    constraint partition_pass_is_only_row_check check (is_only_row)
);
grant select on table partition_pass to pixconnect_service;
comment on table partition_pass is 'When partitions were last looked after, and for how long they are kept.';
comment on column partition_pass.is_only_row is 'True: there is one row.';
comment on column partition_pass.passed_at is 'When they were last looked after, in real time.';
comment on column partition_pass.jumped_at is
    'When two passes were last too far apart to tell how much time had really passed.';
comment on column partition_pass.retention is 'How long they are kept at least after they were closed, as the owner set it.';

-- id_high_water: How far each sequence was at an instant: after a restore it is moved beyond what can have been given out
-- since.
create table id_high_water (
    sequence text not null,
    ids_per_s_max bigint not null,
    last_id bigint not null,
    noted_at timestamp with time zone default clock_timestamp() not null,
    constraint id_high_water_pkey primary key (sequence),
    constraint id_high_water_ids_per_s_max_check check (ids_per_s_max > 0)
);
grant select on table id_high_water to pixconnect_service;
comment on table id_high_water is
    'How far each sequence was at an instant: after a restore it is moved beyond what can have been given out since.';
comment on column id_high_water.sequence is 'The sequence.';
comment on column id_high_water.ids_per_s_max is 'The most ids a second that it may give out.';
comment on column id_high_water.last_id is 'The last id that had been given out.';
comment on column id_high_water.noted_at is 'When that was noted, in real time.';

-- count_steps_as_calling: migrations 0081, 0110, 0115
create function count_steps_as_calling() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    update rail_step set state = case when state in ('new', 'minted') then 'calling' else state end,
        called_at = coalesce(called_at, clock_timestamp()), only_asked = true
    where state <> 'closed' and not only_asked
        and order_name in (select name from open_order where institution_id is not null);
    select coalesce(max(resource_id) filter (where left(name, 1) = 'D'), 0),
        coalesce(max(resource_id) filter (where left(name, 1) = 'E'), 0)
        into new.last_refund_id, new.last_transfer_id
    from open_order where institution_id is not null;
    return new;
end $function$;
revoke execute on function count_steps_as_calling() from public;

-- pause_accounts: migrations 0068, 0094
create function pause_accounts() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
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
end $function$;
revoke execute on function pause_accounts() from public;

-- database_loss: Each time that the database was seen to have forgotten something; an operator has to read of it.
create table database_loss (
    id bigint generated always as identity not null,
    noticed_at timestamp with time zone default clock_timestamp() not null,
    reason text not null,
    system_identifier bigint not null,
    timeline_before bigint,
    position_before bigint,
    orders_count bigint not null,
    recovered_at timestamp with time zone,
    recovered_by text,
    started_at timestamp with time zone,
    accounts_count bigint default 0 not null,
    last_refund_id bigint default 0 not null,
    known_until timestamp with time zone,
    last_transfer_id bigint default 0 not null,
    constraint database_loss_pkey primary key (id),
    constraint database_loss_check check ((recovered_at is null) = (recovered_by is null)),
    constraint database_loss_known_until_check check (isfinite(known_until)),
    constraint database_loss_reason_check check (length(reason) >= 1 and length(reason) <= 1000),
    constraint database_loss_recovered_by_check check (length(recovered_by) >= 1 and length(recovered_by) <= 255)
);
create trigger count_steps_as_calling before insert on database_loss for each row execute function count_steps_as_calling();
create trigger pause_accounts before insert on database_loss for each row execute function pause_accounts();
grant update (recovered_at, recovered_by) on table database_loss to pixconnect_operator;
grant insert (reason, system_identifier, timeline_before, position_before, orders_count, started_at), select on table
    database_loss to pixconnect_service;
comment on table database_loss is
    'Each time that the database was seen to have forgotten something; an operator has to read of it.';
comment on column database_loss.id is 'Counts up.';
comment on column database_loss.noticed_at is 'When it was noticed, in real time.';
comment on column database_loss.reason is 'What was seen.';
comment on column database_loss.system_identifier is 'The identifier of the server that had forgotten it.';
comment on column database_loss.timeline_before is 'The timeline that was known before; null where the server was another.';
comment on column database_loss.position_before is
    'How far its write-ahead log was known to be, in octets; null where the server was another.';
comment on column database_loss.orders_count is
    'How many orders were open then; all of them have counted as handed over since.';
comment on column database_loss.recovered_at is 'When an operator had read of it, in real time; null until then.';
comment on column database_loss.recovered_by is 'That operator.';
comment on column database_loss.started_at is 'When the server was started that had forgotten something, in real time.';
comment on column database_loss.accounts_count is 'Accounts at institutions that were paused by it.';
comment on column database_loss.last_refund_id is
    'The last of the refunds that were open over accounts at institutions; of those up to it steps may be forgotten.';
comment on column database_loss.known_until is
    'The last instant at which ids were noted before it: what happened later may be forgotten.';
comment on column database_loss.last_transfer_id is
    'The last of the transfers that were open over accounts at institutions; of those up to it steps may be forgotten.';

-- offending_row: Rows of before a rule that break it, and that an operator let stay: the rule passes them over.
create table offending_row (
    table_name text not null,
    id bigint not null,
    holder_id bigint not null,
    rule text not null,
    found_at timestamp with time zone default clock_timestamp() not null,
    constraint offending_row_pkey primary key (table_name, id, holder_id, rule)
);
grant select on table offending_row to pixconnect_service;
comment on table offending_row is
    'Rows of before a rule that break it, and that an operator let stay: the rule passes them over.';
comment on column offending_row.table_name is 'The table of the row.';
comment on column offending_row.id is 'The id of the row.';
comment on column offending_row.holder_id is 'The holder of the row.';
comment on column offending_row.rule is 'The rule that it breaks, in words.';
comment on column offending_row.found_at is 'When it was listed, in real time.';

-- check_infractions: migration 0146
create function check_infractions() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    misfit record;
begin
    select told.id, told.holder_id, told.state into misfit from new_row as told
    left join transfer as paid on paid.id = told.transfer_id and paid.holder_id = told.holder_id
    left join block on block.reference = told.name and block.holder_id = told.holder_id
        and block.institution_id is not distinct from told.institution_id
    where paid.direction <> 'IN' or paid.is_book or paid.settled_at is null or paid.amount_cents < told.amount_cents
        or paid.institution_id is distinct from told.institution_id or paid.end_to_end_id <> told.end_to_end_id
        or paid.charge_id is distinct from told.charge_id
        or block.id is null or block.kind <> 'med' or block.transfer_id is distinct from told.transfer_id
        or told.state in ('open', 'answered') and block.state <> 'open' or told.state = 'released' and block.state <> 'ended'
        or told.taken_cents <> (
            select coalesce(sum(refund.amount_cents), 0) from infraction_return as given
            join refund on refund.id = given.refund_id and refund.holder_id = given.holder_id
            where given.infraction_id = told.id and given.holder_id = told.holder_id
                and refund.transfer_id = told.transfer_id and refund.made_by = 'institution'
        )
    limit 1;
    if found then
        raise exception 'infraction % of holder % cannot be % with the Pix, block and returns that it has',
            misfit.id, misfit.holder_id, misfit.state
            using errcode = 'integrity_constraint_violation', constraint = 'an_infraction_has_what_belongs_to_it';
    end if;
    return null;
end $function$;
revoke execute on function check_infractions() from public;

-- keep_infraction: migration 0146
create function keep_infraction() returns trigger language plpgsql
as $function$
begin
    raise exception 'infraction % of holder % goes back from % to %, or its answer is changed', new.id, new.holder_id,
        old.state, new.state
        using errcode = 'integrity_constraint_violation', constraint = 'an_infraction_goes_on';
end $function$;
revoke execute on function keep_infraction() from public;

-- infraction: Pix that holders received and somebody contests, as the institution tells it.
create table infraction (
    id bigint not null,
    holder_id bigint not null,
    institution_id smallint,
    name text collate "C" not null,
    transfer_id bigint not null,
    end_to_end_id text collate "C" not null,
    charge_id bigint,
    txid text,
    charge_external_id text,
    amount_cents bigint not null,
    taken_cents bigint not null,
    reason text collate "C" not null,
    situation text collate "C" not null,
    words text,
    state text collate "C" not null,
    opened_at timestamp with time zone not null,
    respond_by timestamp with time zone not null,
    told_at timestamp with time zone not null,
    defence text,
    defended_at timestamp with time zone,
    defence_state text collate "C",
    defence_refusal text,
    send_at timestamp with time zone,
    remind_at timestamp with time zone,
    slot smallint not null,
    created_at timestamp with time zone not null,
    modified_at timestamp with time zone not null,
    constraint infraction_pkey primary key (id, holder_id),
    constraint answered_with_words check ((defence is null) = (defended_at is null) and (defence is null) = (defence_state is
        null) and (defence_refusal is not null) = (not defence_state is distinct from 'refused')),
    constraint infraction_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint infraction_created_at_check check (isfinite(created_at)),
    constraint infraction_defence_check check (length(defence) >= 1 and length(defence) <= 10000),
    constraint infraction_defence_refusal_check check (length(defence_refusal) >= 1 and length(defence_refusal) <= 1000),
    constraint infraction_defence_state_check check (defence_state in ('sending', 'sent', 'refused')),
    constraint infraction_defended_at_check check (isfinite(defended_at)),
    constraint infraction_id_check check (id >= 1 and id <= 9007199254740991),
    constraint infraction_modified_at_check check (isfinite(modified_at)),
    constraint infraction_name_check check (length(name) >= 1 and length(name) <= 64),
    constraint infraction_opened_at_check check (isfinite(opened_at)),
    constraint infraction_reason_check check (reason in ('fraud', 'operational_flaw')),
    constraint infraction_remind_at_check check (isfinite(remind_at)),
    constraint infraction_respond_by_check check (isfinite(respond_by)),
    constraint infraction_send_at_check check (isfinite(send_at)),
    constraint infraction_situation_check check (situation in ('scam', 'account_takeover', 'coercion', 'fraudulent_access',
        'other')),
    constraint infraction_slot_check check (slot >= 0 and slot <= 255),
    constraint infraction_state_check check (state in ('open', 'answered', 'taken', 'released')),
    constraint infraction_taken_cents_check check (taken_cents >= 0 and taken_cents <= 999999999999),
    constraint infraction_told_at_check check (isfinite(told_at)),
    constraint infraction_words_check check (length(words) >= 1 and length(words) <= 2000),
    constraint reminded_while_it_is_open check (remind_at is null or state = 'open'),
    constraint sent_while_it_is_open check (send_at is null or state = 'open' and defence_state = 'sending'),
    constraint infraction_holder_id_fkey foreign key (holder_id) references balance(holder_id),
    constraint infraction_institution_id_fkey foreign key (institution_id) references institution_account(id),
    constraint infraction_transfer_id_holder_id_fkey foreign key (transfer_id, holder_id) references transfer(id, holder_id)
);
create index infraction_due on infraction (least(send_at, remind_at), slot) where least(send_at, remind_at) is not null;
create index infraction_list on infraction ((holder_id + 0), created_at, id);
create index infraction_list_by_status on infraction ((holder_id + 0), state, created_at, id);
create unique index infraction_name on infraction (name, coalesce(institution_id::integer, 0));
create index infraction_of_transfer on infraction (transfer_id, holder_id);
create trigger check_institution after insert on infraction for each row when (new.institution_id is not null) execute function
    check_institution_of_row();
create trigger check_moved after update on infraction referencing new table as new_row for each statement execute function
    check_infractions();
create trigger check_new after insert on infraction referencing new table as new_row for each statement execute function
    check_infractions();
create trigger infraction_is_never_deleted before delete or truncate on infraction for each statement execute function
    refuse_change();
create trigger keep_infraction before update on infraction for each row when ((old.state in ('taken', 'released')) and new.state
    <> old.state or old.state = 'answered' and new.state = 'open' or new.taken_cents < old.taken_cents or (old.defence_state in
    ('sending', 'sent')) and new.defence is distinct from old.defence and (new.defence <> '-' or (old.state in ('open',
    'answered')) or old.modified_at > (clock_timestamp() - '1826 days'::interval)) is not false or old.defence_state = 'sent'
    and new.defence_state <> 'sent') execute function keep_infraction();
grant insert, select, update (taken_cents, state, respond_by, told_at, defence, defended_at, defence_state, defence_refusal,
    send_at, remind_at, modified_at) on table infraction to pixconnect_service;
comment on table infraction is 'Pix that holders received and somebody contests, as the institution tells it.';
comment on column infraction.id is 'Counts up; unique together with the holder.';
comment on column infraction.holder_id is 'Who received the Pix.';
comment on column infraction.institution_id is 'The account at an institution; null is the installation''s own rail.';
comment on column infraction.name is 'The institution''s name of it, unique on its account; its block has it as its reference.';
comment on column infraction.transfer_id is 'The Pix.';
comment on column infraction.end_to_end_id is 'The Pix, by its name on the network.';
comment on column infraction.charge_id is 'The charge that the Pix has paid; null where it paid none.';
comment on column infraction.txid is 'The txid that the Pix names; null where it names none.';
comment on column infraction.charge_external_id is 'The holder''s own name of that charge.';
comment on column infraction.amount_cents is 'How much of the Pix is contested, in cents.';
comment on column infraction.taken_cents is 'How much the institution has given back because of it, in cents.';
comment on column infraction.reason is
    'What the payer''s institution says: that the payer was deceived, or that the Pix went wrong.';
comment on column infraction.situation is 'What has happened, by the words of the directory of keys.';
comment on column infraction.words is 'What the payer says; null where the institution does not tell it.';
comment on column infraction.state is 'How far it is; released and taken are its ends.';
comment on column infraction.opened_at is 'When it was opened, by the institution''s clock.';
comment on column infraction.respond_by is 'Until when the holder can answer, by the institution''s clock.';
comment on column infraction.told_at is
    'When the institution said what it says here: an older report changes no more than that.';
comment on column infraction.defence is 'What the holder answers; null while nothing is answered.';
comment on column infraction.defended_at is 'When the holder answered, in service time.';
comment on column infraction.defence_state is 'Whether the answer is on its way, the institution has it, or has refused it.';
comment on column infraction.defence_refusal is 'Why the institution refused the answer; null otherwise.';
comment on column infraction.send_at is 'When the answer is sent next, in service time; null while nothing is to be sent.';
comment on column infraction.remind_at is
    'When the holder is reminded next, in service time; null where nothing is to be said.';
comment on column infraction.slot is 'The slot of work it belongs to, 0 to 255: its transfer''s.';
comment on column infraction.created_at is 'When it was written, in service time.';
comment on column infraction.modified_at is 'When it last changed, in service time.';

-- infraction_return: Refunds that the institution made because of an infraction; rows are never changed or deleted.
create table infraction_return (
    refund_id bigint not null,
    holder_id bigint not null,
    infraction_id bigint not null,
    constraint infraction_return_pkey primary key (refund_id, holder_id),
    constraint infraction_return_infraction_id_holder_id_fkey foreign key (infraction_id, holder_id) references infraction(id,
        holder_id),
    constraint infraction_return_refund_id_holder_id_fkey foreign key (refund_id, holder_id) references refund(id, holder_id)
);
create index infraction_return_of on infraction_return (infraction_id, holder_id);
create trigger infraction_return_is_append_only before delete or update or truncate on infraction_return for each statement
    execute function refuse_change();
grant insert, select on table infraction_return to pixconnect_service;
comment on table infraction_return is
    'Refunds that the institution made because of an infraction; rows are never changed or deleted.';
comment on column infraction_return.refund_id is 'The refund.';
comment on column infraction_return.holder_id is 'Whose both are.';
comment on column infraction_return.infraction_id is 'The infraction.';

-- act_on_waiting_limits: migration 0137
create function act_on_waiting_limits() returns integer language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
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
end $function$;
revoke execute on function act_on_waiting_limits() from public;
grant execute on function act_on_waiting_limits() to pixconnect_service;

-- add_partition: migration 0040
create function add_partition(parent text, first_id bigint, end_id bigint) returns void language plpgsql
as $function$
declare
    child text := parent || '_' || first_id;
begin
    if exists (
        select from pg_inherits where inhparent = to_regclass(parent) and inhrelid = to_regclass(format('%I', child))
    ) then
        return;
    end if;
    execute format('create table %I (like %I including defaults including constraints)', child, parent);
    execute format('alter table %I attach partition %I for values from (%s) to (%s)', parent, child, first_id, end_id);
end $function$;
revoke execute on function add_partition(parent text, first_id bigint, end_id bigint) from public;

-- adopt_partitions: migration 0040
create function adopt_partitions(wanted text) returns void language plpgsql
as $function$
declare
    adopted event_partition;
begin
    delete from event_partition as known where parent = wanted and case when detached_at is null
        then not exists (
            select from pg_inherits where inhparent = to_regclass(wanted) and inhrelid = to_regclass(format('%I', known.name))
                and not inhdetachpending
        )
        else to_regclass(format('%I', known.name)) is null
    end;
    for adopted in
        insert into event_partition (name, parent, first_id, end_id)
        select relname, wanted,
            (regexp_match(pg_get_expr(relpartbound, pg_class.oid), 'FROM \(''?(\d+)''?\)'))[1]::bigint,
            (regexp_match(pg_get_expr(relpartbound, pg_class.oid), 'TO \(''?(\d+)''?\)'))[1]::bigint
        from pg_inherits join pg_class on pg_class.oid = inhrelid
        where inhparent = to_regclass(wanted) and not inhdetachpending
        on conflict do nothing
        returning *
    loop
        -- Whoever made it may have been killed before it made that of the attempts.
        if wanted = 'delivery' then
            perform add_partition('delivery_attempt', adopted.first_id, adopted.end_id);
        end if;
    end loop;
end $function$;
revoke execute on function adopt_partitions(wanted text) from public;

-- audit_client_act: migration 0043
create function audit_client_act(client_id text, request_id text, verb text, subject text, before jsonb, after jsonb) returns
    void language sql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
    insert into audit (operator, verb, subject, before, after, request_id)
    values ('client ' || client_id, verb, subject, before, after, request_id)
$function$;
revoke execute on function audit_client_act(client_id text, request_id text, verb text, subject text, before jsonb, after jsonb)
    from public;
grant execute on function audit_client_act(client_id text, request_id text, verb text, subject text, before jsonb, after jsonb)
    to pixconnect_service;

-- catch_up_sequence: migration 0052
create function catch_up_sequence(wanted text) returns void language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
declare
    largest bigint;
begin
    -- One at a time: nobody may set it back to where it was when he looked.
    perform from id_high_water where sequence = wanted for update;
    largest := case wanted
        when 'charge_id' then (select max(id) from charge)
        when 'transfer_id' then (select max(id) from transfer)
        when 'refund_id' then (select max(id) from refund)
        when 'location_id' then (select max(id) from location)
        when 'write_group_id' then greatest((select max(id) from ledger_entry), (select max(id) from event))
        when 'delivery_id' then (select max(id) from delivery)
        when 'webhook_endpoint_id' then (select max(id) from webhook_endpoint)
        when 'event_feed_position' then (select max(position) from event_feed)
    end;
    -- Whoever asks the sequence meanwhile gets less than 64 blocks.
    execute format(
        'select setval(%L, greatest(last_value + 64 * seqincrement, $1)) from %I, pg_sequence where seqrelid = $2', wanted, wanted
    ) using coalesce(largest, 0), to_regclass(wanted);
end $function$;
revoke execute on function catch_up_sequence(wanted text) from public;
grant execute on function catch_up_sequence(wanted text) to pixconnect_service;

-- chain_entries: migrations 0092, 0114
create function chain_entries(count_max integer, rest interval) returns bigint language plpgsql security definer set search_path
    to 'pixconnect', 'pg_temp' set plan_cache_mode to 'force_custom_plan' set enable_seqscan to 'off' set enable_hashjoin to
    'off' set enable_mergejoin to 'off'
as $function$
declare
    state entry_chain_state;
    -- Of it and of an entry's id its salt is made; nobody knows it once this has ended.
    secret bytea := uuid_send(gen_random_uuid());
    settled bigint;
    last_id bigint;
    chained_count bigint;
begin
    select * into state from entry_chain_state for update skip locked;
    if not found then
        return 0; -- somebody else chains them
    end if;
    if state.chained_id = state.bound_id then
        select settled_id into settled from event_feed_state;
        -- Where nothing happens, nothing is written.
        if settled > state.bound_id then
            update entry_chain_state set bound_id = settled, bound_at = clock_timestamp();
        end if;
        return 0;
    end if;
    -- A server's clock that was put back does not stop it.
    if clock_timestamp() - state.bound_at >= interval '0' and clock_timestamp() - state.bound_at < rest then
        return 0;
    end if;

    with digested as materialized (
        -- Each step computes its digest once, and hands its texts on to the next without keeping them.
        select id, holder_id, salt, person_digest,
            sha256(convert_to(facts, 'UTF8') || coalesce(person_digest, '')) as digest
        from (
            select id, holder_id, facts, salt, sha256(salt || convert_to(person, 'UTF8')) as person_digest
            from (
                select id, holder_id, facts, person,
                    case when person is not null then substr(sha256(secret || int8send(id)), 1, 16) end as salt
                from entry_facts where id > state.chained_id and id <= state.bound_id
                order by id fetch first (count_max) rows with ties
            ) as found
            offset 0
        ) as salted
        offset 0
    ),
    gathered as (
        select holder_id, array_agg(id order by id) as entry_ids, array_agg(digest order by id) as digests,
            array_agg(person_digest order by id) as person_digests, array_agg(salt order by id) as salts,
            string_agg(digest, '' order by id) as added
        from digested group by holder_id
    ),
    following as materialized (
        select gathered.*, coalesce(last.position, 0) + 1 as position,
            coalesce(last.head, sha256(convert_to('holder ' || gathered.holder_id, 'UTF8'))) as head_before
        from gathered
        left join lateral (
            select position, head from entry_chain where entry_chain.holder_id = gathered.holder_id
            order by position desc limit 1
        ) as last on true
    ),
    linked as (
        insert into entry_chain (holder_id, position, entry_ids, digests, person_digests, head, chained_at)
        select holder_id, position, entry_ids, digests, person_digests, sha256(head_before || added),
            clock_timestamp() + make_interval(secs => offset_us / 1e6)
        from following cross join clock
    ),
    kept as (
        insert into person_salt (holder_id, position, salts) select holder_id, position, salts from following
    )
    select count(*), max(id) into chained_count, last_id from digested;
    update entry_chain_state
    set chained_id = case when chained_count >= count_max then least(last_id, state.bound_id) else state.bound_id end;
    return chained_count;
end $function$;
revoke execute on function chain_entries(count_max integer, rest interval) from public;
grant execute on function chain_entries(count_max integer, rest interval) to pixconnect_service;

-- chain_records: migration 0106
create function chain_records(count_max integer) returns bigint language plpgsql security definer set search_path to
    'pixconnect', 'pg_temp' set plan_cache_mode to 'force_custom_plan'
as $function$
declare
    state record_chain_state;
    newest bigint;
    writers text[];
    each record;
    link record_chain;
    of_kind_count bigint;
    chained_count bigint := 0;
begin
    -- What is skipped somebody else chains.
    for state in select * from record_chain_state order by kind for update skip locked loop
        newest := null;
        if state.chained_id = state.bound_id then
            newest := case state.kind when 'audit' then (select max(id) from audit) else (select max(id) from kept_report) end;
            -- Where nothing happens, nothing is written.
            continue when newest is null or newest <= state.bound_id;
        end if;
        -- After the newest row was read, and not before.
        writers := array(
            select virtualtransaction from pg_locks
            where relation = to_regclass(case state.kind when 'audit' then 'audit' else 'kept_report' end)
                and database = (select oid from pg_database where datname = current_database())
                and mode = 'RowExclusiveLock' and granted
        );
        if newest is not null then
            state.bound_id := newest;
            state.bound_writers := writers;
            update record_chain_state set bound_id = newest, bound_writers = writers where kind = state.kind;
        end if;
        continue when state.bound_writers && writers;

        select * into link from record_chain where kind = state.kind order by position desc limit 1;
        if not found then
            link.position := 0;
            link.head := sha256(convert_to(state.kind, 'UTF8'));
        end if;
        of_kind_count := 0;
        for each in
            select id, facts, person, uuid_send(gen_random_uuid()) as salt from record_facts
            where kind = state.kind and id > state.chained_id and id <= state.bound_id
            order by id limit count_max
        loop
            link.position := link.position + 1;
            link.record_id := each.id;
            link.person_digest := sha256(each.salt || convert_to(each.person, 'UTF8'));
            link.digest := sha256(convert_to(each.facts, 'UTF8') || link.person_digest);
            link.head := sha256(link.head || link.digest);
            insert into record_chain (kind, position, record_id, digest, person_digest, head, chained_at)
            values (
                state.kind, link.position, link.record_id, link.digest, link.person_digest, link.head, clock_timestamp()
            );
            insert into record_salt (kind, position, salt) values (state.kind, link.position, each.salt);
            of_kind_count := of_kind_count + 1;
        end loop;
        -- Behind the last row ids up to the bound are of rows that were taken back.
        update record_chain_state set chained_id = case when of_kind_count < count_max then bound_id else link.record_id end
        where kind = state.kind;
        chained_count := chained_count + of_kind_count;
    end loop;
    return chained_count;
end $function$;
revoke execute on function chain_records(count_max integer) from public;
grant execute on function chain_records(count_max integer) to pixconnect_service;

-- close_partitions: migrations 0013, 0026, 0040
create function close_partitions(asked_retention interval) returns setof text language plpgsql security definer set search_path
    to 'pixconnect', 'pg_temp' set lock_timeout to '100ms'
as $function$
declare
    present event_partition;
    kept interval;
begin
    select greatest(retention, asked_retention) into kept from partition_pass for update;
    for present in
        select * from event_partition
        where begun_at < clock_timestamp() - kept / 10 and closed_at is null order by parent, first_id
    loop
        -- Held until the end: nobody takes an id between the look at the last one and the next one's being set.
        execute format('alter sequence %I no cycle', case present.parent
            when 'event' then 'write_group_id' when 'delivery' then 'delivery_id' else 'event_feed_position' end);
        case present.parent
            when 'event' then
                perform setval('write_group_id', greatest(last_value, present.end_id), is_called and last_value >= present.end_id)
                from write_group_id;
            when 'delivery' then
                perform setval('delivery_id', greatest(last_value, present.end_id), is_called and last_value >= present.end_id)
                from delivery_id;
            when 'event_feed' then
                perform setval('event_feed_position', greatest(last_value, present.end_id),
                    is_called and last_value >= present.end_id)
                from event_feed_position;
        end case;
        update event_partition set closed_at = clock_timestamp() where name = present.name;
        return next present.name;
    end loop;
end $function$;
revoke execute on function close_partitions(asked_retention interval) from public;
grant execute on function close_partitions(asked_retention interval) to pixconnect_service;

-- close_partitions: migrations 0013, 0026, 0040
create function close_partitions(wanted text, asked_retention interval) returns setof text language plpgsql security definer set
    search_path to 'pixconnect', 'pg_temp' set lock_timeout to '100ms'
as $function$
declare
    present event_partition;
    kept interval;
    ids text := case wanted when 'event' then 'write_group_id' when 'delivery' then 'delivery_id'
        when 'event_feed' then 'event_feed_position' end;
begin
    select greatest(retention, asked_retention) into kept from partition_pass for update;
    for present in
        select * from event_partition
        where parent = wanted and begun_at < clock_timestamp() - kept / 10 and closed_at is null order by first_id
    loop
        -- Held until the end: nobody takes an id between the look at the last one and the next one's being set.
        execute format('alter sequence %I no cycle', ids);
        execute format('select setval(%L, greatest(last_value, $1), is_called and last_value >= $1) from %I', ids, ids)
        using present.end_id;
        update event_partition set closed_at = clock_timestamp() where name = present.name;
        return next present.name;
    end loop;
end $function$;
revoke execute on function close_partitions(wanted text, asked_retention interval) from public;
grant execute on function close_partitions(wanted text, asked_retention interval) to pixconnect_service;

-- detach_old_partition: migrations 0013, 0040
create function detach_old_partition(asked_retention interval) returns text language plpgsql security definer set search_path to
    'pixconnect', 'pg_temp' set lock_timeout to '100ms'
as $function$
declare
    old event_partition;
    kept interval;
    is_steady boolean;
begin
    select greatest(retention, asked_retention), coalesce(jumped_at < clock_timestamp() - interval '1 hour', true)
    into kept, is_steady from partition_pass for update;
    if not is_steady then
        return null;
    end if;
    select * into old from event_partition
    where closed_at < clock_timestamp() - kept and detached_at is null and not is_partition_needed(parent, first_id, end_id)
    order by closed_at limit 1;
    if not found then
        return null;
    end if;
    execute format('lock table %I in access exclusive mode', old.parent);
    if is_partition_needed(old.parent, old.first_id, old.end_id) then
        return null;
    end if;
    execute format('alter table %I detach partition %I', old.parent, old.name);
    if old.parent = 'delivery' then
        execute format('alter table delivery_attempt detach partition %I', 'delivery_attempt_' || old.first_id);
    end if;
    update event_partition set detached_at = clock_timestamp() where name = old.name;
    return old.name;
end $function$;
revoke execute on function detach_old_partition(asked_retention interval) from public;
grant execute on function detach_old_partition(asked_retention interval) to pixconnect_service;

-- detach_old_partition: migrations 0013, 0040
create function detach_old_partition(wanted text, asked_retention interval) returns text language plpgsql security definer set
    search_path to 'pixconnect', 'pg_temp' set lock_timeout to '100ms'
as $function$
declare
    old event_partition;
    kept interval;
    is_steady boolean;
begin
    select greatest(retention, asked_retention), coalesce(jumped_at < clock_timestamp() - interval '1 hour', true)
    into kept, is_steady from partition_pass for update;
    if not is_steady then
        return null;
    end if;
    select * into old from event_partition
    where parent = wanted and closed_at < clock_timestamp() - kept and detached_at is null
        and not is_partition_needed(parent, first_id, end_id)
    order by closed_at limit 1;
    if not found then
        return null;
    end if;
    execute format('lock table %I in access exclusive mode', wanted);
    if is_partition_needed(wanted, old.first_id, old.end_id) then
        return null;
    end if;
    execute format('alter table %I detach partition %I', wanted, old.name);
    if wanted = 'delivery' then
        execute format('alter table delivery_attempt detach partition %I', 'delivery_attempt_' || old.first_id);
    end if;
    update event_partition set detached_at = clock_timestamp() where name = old.name;
    return old.name;
end $function$;
revoke execute on function detach_old_partition(wanted text, asked_retention interval) from public;
grant execute on function detach_old_partition(wanted text, asked_retention interval) to pixconnect_service;

-- drop_detached_partition: migrations 0013, 0026
create function drop_detached_partition() returns text language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
declare
    old event_partition;
begin
    select * into old from event_partition where detached_at is not null order by name limit 1 for update skip locked;
    if not found then
        return null;
    end if;
    case old.parent
        when 'event' then
            execute format('insert into webhook_tally_change (kind, owner_id, status, hour, change)
                select ''event'', holder_id, ''made'', date_trunc(''hour'', created_at, ''UTC''), -count(*) from %I
                group by holder_id, 4', old.name);
        when 'delivery' then
            execute format('insert into webhook_tally_change (kind, owner_id, status, hour, change)
                select ''delivery'', endpoint_id, word, hour, -sum(count) from (
                    select endpoint_id, status, date_trunc(''hour'', created_at, ''UTC'') as hour, count(*) as count from %I
                    group by 1, 2, 3
                ) as dropped
                cross join lateral (values (''made''), (nullif(status, ''pending''))) as counted (word)
                where word is not null group by 1, 2, 3, 4', old.name);
            execute format('drop table %I', 'delivery_attempt_' || old.first_id);
        when 'event_feed' then
            null; -- nothing counts what is in it
    end case;
    execute format('drop table %I', old.name);
    delete from webhook_tally where count = 0;
    delete from event_partition where name = old.name;
    return old.name;
end $function$;
revoke execute on function drop_detached_partition() from public;
grant execute on function drop_detached_partition() to pixconnect_service;

-- empty_contents: migration 0139
create function empty_contents(contents text, with_payer boolean) returns text language sql immutable
as $function$
    select (
        contents::jsonb - '{address,question,lines}'::text[]
        || case when with_payer and contents::jsonb ? 'payer'
            then '{"payer": {"name": "-", "tax_id": "00000000000"}}'::jsonb else '{}'::jsonb end
    )::text
$function$;
revoke execute on function empty_contents(contents text, with_payer boolean) from public;

-- erase_charges: migrations 0139, 0148
create function erase_charges(wanted_ids bigint[], wanted_holders bigint[], unpaid_age interval, message_age interval, party_age
    interval) returns table(id bigint, holder_id bigint, part text) language plpgsql security definer set search_path to
    'pixconnect', 'pg_temp'
as $function$
#variable_conflict use_column
declare
    now_at timestamptz := clock_timestamp();
    gone_ids bigint[];
    gone_holders bigint[];
    gone_parts text[];
begin
    select array_agg(due.id), array_agg(due.holder_id), array_agg(due.part) into gone_ids, gone_holders, gone_parts from (
        select charge.id, charge.holder_id, case
                when payer_name <> '-' and modified_at < now_at - case
                    when status in ('APPROVED', 'RETURNED') then greatest(party_age, interval '1826 days') else unpaid_age
                end then 'all'
                when contents::jsonb ?| '{address,question,lines}' then 'message'
            end as part
        from unnest(wanted_ids, wanted_holders) as asked (id, holder_id)
        join charge on charge.id = asked.id and charge.holder_id = asked.holder_id
        where status <> 'PENDING' and modified_at < now_at - case
            when status in ('APPROVED', 'RETURNED') then greatest(message_age, interval '90 days') else unpaid_age
        end and not exists (
            select from block join transfer on transfer.id = block.transfer_id and transfer.holder_id = block.holder_id
            where block.state = 'open' and block.holder_id = charge.holder_id and transfer.charge_id = charge.id
        )
        order by charge.id, charge.holder_id
        for no key update of charge
    ) as due
    where due.part is not null;
    if gone_ids is null then
        return;
    end if;

    update charge set payer_name = case gone.part when 'all' then '-' else payer_name end,
            payer_tax_id = case gone.part when 'all' then '00000000000' else payer_tax_id end,
            contents = empty_contents(contents, gone.part = 'all')
        from unnest(gone_ids, gone_holders, gone_parts) as gone (id, holder_id, part)
        where charge.id = gone.id and charge.holder_id = gone.holder_id;
    update charge_revision set contents = empty_contents(contents, gone.part = 'all')
        from unnest(gone_ids, gone_holders, gone_parts) as gone (id, holder_id, part)
        where charge_id = gone.id and charge_revision.holder_id = gone.holder_id;
    -- What was asked of an institution is over once the charge has ended, and is not kept for its payment.
    update charge_opening set wanted = empty_contents(wanted, true)
        from unnest(gone_ids, gone_holders) as gone (id, holder_id)
        where charge_id = gone.id and charge_opening.holder_id = gone.holder_id and state <> 'opening';
    update charge_change set contents = empty_contents(contents, true)
        from unnest(gone_ids, gone_holders) as gone (id, holder_id)
        where charge_id = gone.id and charge_change.holder_id = gone.holder_id and contents is not null
            and state <> 'asked';
    return query select * from unnest(gone_ids, gone_holders, gone_parts);
end $function$;
revoke execute on function erase_charges(wanted_ids bigint[], wanted_holders bigint[], unpaid_age interval, message_age
    interval, party_age interval) from public;
grant execute on function erase_charges(wanted_ids bigint[], wanted_holders bigint[], unpaid_age interval, message_age interval,
    party_age interval) to pixconnect_operator;

-- erase_infractions: migration 0148
create function erase_infractions(wanted_ids bigint[], wanted_holders bigint[], party_age interval) returns table(id bigint,
    holder_id bigint, part text) language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
#variable_conflict use_column
begin
    return query with due as (
        select infraction.id, infraction.holder_id
        from unnest(wanted_ids, wanted_holders) as asked (id, holder_id)
        join infraction on infraction.id = asked.id and infraction.holder_id = asked.holder_id
        where state in ('taken', 'released')
            and modified_at < clock_timestamp() - greatest(party_age, interval '1826 days')
            and (words is not null or defence <> '-' or defence_refusal <> '-')
            and not is_blocked(infraction.transfer_id, infraction.holder_id)
        order by infraction.id, infraction.holder_id
        for no key update of infraction
    )
    update infraction set words = null, defence = case when defence is not null then '-' end,
            defence_refusal = case when defence_refusal is not null then '-' end
        from due where infraction.id = due.id and infraction.holder_id = due.holder_id
        returning infraction.id, infraction.holder_id, 'all'::text;
end $function$;
revoke execute on function erase_infractions(wanted_ids bigint[], wanted_holders bigint[], party_age interval) from public;
grant execute on function erase_infractions(wanted_ids bigint[], wanted_holders bigint[], party_age interval) to
    pixconnect_operator;

-- erase_refunds: migrations 0139, 0148
create function erase_refunds(wanted_ids bigint[], wanted_holders bigint[], message_age interval) returns table(id bigint,
    holder_id bigint, part text) language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
#variable_conflict use_column
declare
    messages_until timestamptz := clock_timestamp() - greatest(message_age, interval '90 days');
    gone_ids bigint[];
    gone_holders bigint[];
    gone_transfers bigint[];
begin
    perform from entry_chain_state for update;
    select array_agg(due.id), array_agg(due.holder_id), array_agg(due.transfer_id)
        into gone_ids, gone_holders, gone_transfers
    from (
        select refund.id, refund.holder_id, refund.transfer_id from unnest(wanted_ids, wanted_holders) as asked (id, holder_id)
        join refund on refund.id = asked.id and refund.holder_id = asked.holder_id
        where description is not null and status <> 'PROCESSING' and coalesce(settled_at, created_at) < messages_until
            and not exists (
                select from kept_case
                where ended_at is null and kept_case.name in (return_id, network_id, original_end_to_end_id)
            )
            and not is_blocked(refund.transfer_id, refund.holder_id)
        order by refund.id, refund.holder_id
        for no key update of refund
    ) as due;
    if gone_ids is null then
        return;
    end if;

    insert into erased_text (kind, id, holder_id, part)
        select 'refund', each.id, each.holder_id, 'message' from unnest(gone_ids, gone_holders) as each (id, holder_id);
    update refund set description = null from unnest(gone_ids, gone_holders) as gone (id, holder_id)
        where refund.id = gone.id and refund.holder_id = gone.holder_id;
    perform lose_salts('refund', gone_ids, gone_holders, gone_transfers);
    return query select each.id, each.holder_id, 'message' from unnest(gone_ids, gone_holders) as each (id, holder_id);
end $function$;
revoke execute on function erase_refunds(wanted_ids bigint[], wanted_holders bigint[], message_age interval) from public;
grant execute on function erase_refunds(wanted_ids bigint[], wanted_holders bigint[], message_age interval) to
    pixconnect_operator;

-- erase_transfers: migrations 0139, 0148
create function erase_transfers(wanted_ids bigint[], wanted_holders bigint[], message_age interval, party_age interval) returns
    table(id bigint, holder_id bigint, part text) language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
#variable_conflict use_column
declare
    messages_until timestamptz := clock_timestamp() - greatest(message_age, interval '90 days');
    parties_until timestamptz := clock_timestamp() - greatest(party_age, interval '1826 days');
    gone_ids bigint[];
    gone_holders bigint[];
    gone_parts text[];
begin
    -- Entries are chained before or after, and never while their texts change.
    perform from entry_chain_state for update;
    select array_agg(due.id), array_agg(due.holder_id), array_agg(due.part) into gone_ids, gone_holders, gone_parts from (
        select transfer.id, transfer.holder_id, case
                when counterparty <> erased_party() and coalesce(settled_at, created_at) < parties_until and not exists (
                    select from refund where refund.transfer_id = transfer.id and refund.holder_id = transfer.holder_id
                        and refund.created_at >= parties_until
                ) then 'all'
                when payer_message is not null then 'message'
            end as part
        from unnest(wanted_ids, wanted_holders) as asked (id, holder_id)
        join transfer on transfer.id = asked.id and transfer.holder_id = asked.holder_id
        where status <> 'PROCESSING' and returning_cents = 0 and coalesce(settled_at, created_at) < messages_until
            and not exists (
                select from kept_case where ended_at is null and kept_case.name in (end_to_end_id, network_id)
            )
            and not is_blocked(transfer.id, transfer.holder_id)
        order by transfer.id, transfer.holder_id
        for no key update of transfer
    ) as due
    where due.part is not null;
    if gone_ids is null then
        return;
    end if;

    insert into erased_text (kind, id, holder_id, part)
        select 'transfer', each.id, each.holder_id, each.part
        from unnest(gone_ids, gone_holders, gone_parts) as each (id, holder_id, part)
        on conflict on constraint erased_text_pkey do update
        set part = case when erased_text.part = 'all' then 'all' else excluded.part end, erased_at = clock_timestamp();
    update transfer set payer_message = null, counterparty = case gone.part when 'all' then erased_party() else counterparty end
        from unnest(gone_ids, gone_holders, gone_parts) as gone (id, holder_id, part)
        where transfer.id = gone.id and transfer.holder_id = gone.holder_id;
    update payer_completion set before = erased_party()
        from unnest(gone_ids, gone_holders, gone_parts) as gone (id, holder_id, part)
        where transfer_id = gone.id and payer_completion.holder_id = gone.holder_id and gone.part = 'all';
    update settled_payee set payee = erased_party()
        from unnest(gone_ids, gone_holders, gone_parts) as gone (id, holder_id, part)
        where transfer_id = gone.id and settled_payee.holder_id = gone.holder_id and gone.part = 'all';
    update rail_step set owner_tax_id = null, owner_name = null,
            payee = case initiation_type when 'MANUAL' then '99999999/0/0' else '' end
        from unnest(gone_ids, gone_holders, gone_parts) as gone (id, holder_id, part)
        join transfer on transfer.id = gone.id and transfer.holder_id = gone.holder_id
        where order_name = transfer.end_to_end_id and direction = 'OUT' and kind = 'order' and state = 'closed'
            and gone.part = 'all';
    perform lose_salts('transfer', gone_ids, gone_holders, gone_ids);
    return query select * from unnest(gone_ids, gone_holders, gone_parts);
end $function$;
revoke execute on function erase_transfers(wanted_ids bigint[], wanted_holders bigint[], message_age interval, party_age
    interval) from public;
grant execute on function erase_transfers(wanted_ids bigint[], wanted_holders bigint[], message_age interval, party_age
    interval) to pixconnect_operator;

-- erased_party: migration 0139
create function erased_party() returns jsonb language sql immutable parallel safe
as $function$
    select '{"account_number": "0", "account_type": "TRANSACTIONAL", "branch": "0", "ispb": "99999999", "name": "-", "tax_id": "00000000000"}'::jsonb
$function$;
revoke execute on function erased_party() from public;
grant execute on function erased_party() to pixconnect_service;

-- find_clients_logging_in: migration 0038
create function find_clients_logging_in(lock_class integer, lock_keys integer[], addresses bytea[], window_length interval,
    failures_max integer, ids text[]) returns setof client language plpgsql set plan_cache_mode to 'force_generic_plan'
as $function$
begin
    if exists (
        select from unnest(lock_keys) as key where not pg_try_advisory_xact_lock_shared(lock_class, key)
    ) then
        return;
    end if;
    -- Statements of their own, which see what was counted before we had the locks.
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
revoke execute on function find_clients_logging_in(lock_class integer, lock_keys integer[], addresses bytea[], window_length
    interval, failures_max integer, ids text[]) from public;
grant execute on function find_clients_logging_in(lock_class integer, lock_keys integer[], addresses bytea[], window_length
    interval, failures_max integer, ids text[]) to pixconnect_service;

-- find_link: migration 0139
create function find_link(wanted_holder_id bigint, entry_id bigint) returns bigint language plpgsql stable set search_path to
    'pixconnect', 'pg_temp'
as $function$
declare
    low bigint := 1;
    high bigint := (select max(position) from entry_chain where holder_id = wanted_holder_id);
    middle bigint;
begin
    while low < high loop
        middle := (low + high + 1) / 2;
        if (select entry_ids[1] <= entry_id from entry_chain where holder_id = wanted_holder_id and position = middle) then
            low := middle;
        else
            high := middle - 1;
        end if;
    end loop;
    return low;
end $function$;
revoke execute on function find_link(wanted_holder_id bigint, entry_id bigint) from public;

-- find_past_of_holder: migration 0161
create function find_past_of_holder(of_holder bigint) returns text language sql stable security definer set search_path to
    'pixconnect', 'pg_temp'
as $function$
    select case
        when last_number > 0 or blocks_count > 0 or available_cents <> 0 or reserved_cents <> 0 or blocked_cents <> 0
            or deficit_cents <> 0 or settlement_cents <> 0 or funding_cents <> 0 or difference_cents <> 0
            or exists (select from movement where movement.holder_id = balance.holder_id)
        then 'it has had money there'
        when exists (select from transfer where transfer.holder_id + 0 = balance.holder_id)
        then 'payments of it are recorded there'
        when exists (select from charge where charge.holder_id + 0 = balance.holder_id)
        then 'it has made charges there, whose codes can be paid for as long as somebody has them'
        when exists (
            select from charge_opening where charge_opening.holder_id = balance.holder_id and state = 'opening'
        ) then 'it has charges that are being opened'
        when exists (
            select from kept_case where kept_case.holder_id = balance.holder_id and ended_at is null
        ) then 'it has open cases'
        when exists (
            select from holder join institution_account as account on account.id = holder.institution_id
            where holder.id = balance.holder_id and account.house_id = holder.id and account.state in ('active', 'paused')
        ) then 'it is the house of its account, to which belongs what belongs to nobody else there'
    end
    from balance where holder_id = of_holder
$function$;
revoke execute on function find_past_of_holder(of_holder bigint) from public;
grant execute on function find_past_of_holder(of_holder bigint) to pixconnect_operator;

-- forget_origins: migration 0043
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
revoke execute on function forget_origins(count_max integer) from public;
grant execute on function forget_origins(count_max integer) to pixconnect_service;

-- give_event_positions: migration 0026
create function give_event_positions(count_max integer, out holder_ids bigint[], out events_count bigint, out has_more boolean)
    returns record language plpgsql security definer set search_path to 'pixconnect', 'pg_temp' set enable_hashjoin to 'on'
as $function$
declare
    state event_feed_state;
    given_id bigint;
    writers text[];
    seen_id bigint;
    bound_id bigint;
    given_position bigint;
begin
    events_count := 0;
    has_more := false;
    -- Nothing was given out since all was settled: the usual answer while nothing happens, which locks and writes nothing.
    if (select settled_id from event_feed_state) >= last_event_id_given() then
        return;
    end if;
    select * into state from event_feed_state for update;
    given_id := last_event_id_given();
    select coalesce(array_agg(distinct virtualtransaction), '{}') into writers from pg_locks
    where locktype = 'relation' and relation = to_regclass('write_group_id') and mode = 'RowExclusiveLock' and granted
        and database = (select oid from pg_database where datname = current_database());

    with placed as materialized (
        select id from event_feed cross join unnest(event_ids) as id
        where position > state.settled_position and id > state.settled_id
    ),
    seen as materialized (
        select id, holder_id from event where id > state.settled_id
        order by id limit count_max + (select count(*) from placed)
    ),
    numbered as (
        select id, holder_id, (row_number() over (partition by holder_id order by id) - 1) / 200 as part
        from seen where not exists (select from placed where placed.id = seen.id)
    ),
    gathered as (
        select holder_id, array_agg(id order by id) as event_ids from numbered group by holder_id, part order by min(id)
    ),
    given as (
        insert into event_feed (position, holder_id, event_ids)
        select nextval('event_feed_position'), gathered.* from gathered
        returning *
    )
    select array_agg(distinct given.holder_id), coalesce(sum(cardinality(event_ids)), 0),
        (select count(*) >= count_max + (select count(*) from placed) from seen),
        (select max(id) from seen), greatest(max(position), state.last_position)
    into holder_ids, events_count, has_more, seen_id, given_position from given;

    if state.asked_id is not null and not state.asked_of && writers and (not has_more or seen_id >= state.asked_id) then
        state.settled_id := state.asked_id;
        state.settled_position := state.asked_position;
        state.asked_id := null;
    end if;
    if state.asked_id is null then
        bound_id := case when has_more then least(given_id, seen_id) else given_id end;
        state.asked_id := bound_id;
        state.asked_of := writers;
        -- What is beyond the bound may have been given its position in earlier looks already.
        select coalesce(min(position) - 1, state.last_position) into state.asked_position from event_feed
        where position > state.settled_position and position <= state.last_position
            and exists (select from unnest(event_ids) as id where id > bound_id);
        if writers = '{}' then
            state.settled_id := state.asked_id;
            state.settled_position := state.asked_position;
            state.asked_id := null;
        end if;
    end if;
    update event_feed_state set last_position = given_position,
        given_at = case when events_count > 0 then clock_timestamp() else given_at end,
        settled_id = state.settled_id, settled_position = state.settled_position,
        asked_id = state.asked_id, asked_position = state.asked_position, asked_of = state.asked_of;
end $function$;
revoke execute on function give_event_positions(count_max integer, OUT holder_ids bigint[], OUT events_count bigint, OUT
    has_more boolean) from public;
grant execute on function give_event_positions(count_max integer, OUT holder_ids bigint[], OUT events_count bigint, OUT has_more
    boolean) to pixconnect_service;

-- hold_account: migration 0051
create function hold_account(account text) returns void language sql
as $function$
    select pg_advisory_xact_lock_shared(hashtextextended(account, 7811886))
$function$;
revoke execute on function hold_account(account text) from public;
grant execute on function hold_account(account text) to pixconnect_service;

-- hold_refund_days: migration 0069
create function hold_refund_days(account_ids smallint[], on_day date) returns table(institution_id smallint, left_cents bigint)
    language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
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
end $function$;
revoke execute on function hold_refund_days(account_ids smallint[], on_day date) from public;
grant execute on function hold_refund_days(account_ids smallint[], on_day date) to pixconnect_service;

-- hold_transfer_days: migration 0107
create function hold_transfer_days(account_ids smallint[], on_day date) returns table(institution_id smallint, transfer_cents
    bigint, left_cents bigint, payees text, tax_id text) language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
#variable_conflict use_column
begin
    insert into transfer_day (institution_id, day, cents)
        select account_id, on_day, 0 from unnest(account_ids) as account_id order by account_id
        on conflict do nothing;
    return query
        select counted.institution_id, allowed.transfer_cents, greatest(transfers_day_cents - counted.cents, 0), allowed.payees,
            account.tax_id
        from transfer_day as counted join institution_allowance as allowed using (institution_id)
        join institution_account as account on account.id = counted.institution_id
        where counted.institution_id = any(account_ids) and counted.day = on_day
        order by counted.institution_id for update of counted;
end $function$;
revoke execute on function hold_transfer_days(account_ids smallint[], on_day date) from public;
grant execute on function hold_transfer_days(account_ids smallint[], on_day date) to pixconnect_service;

-- is_blocked: migration 0148
create function is_blocked(paid_id bigint, paid_holder_id bigint) returns boolean language sql stable set search_path to
    'pixconnect', 'pg_temp'
as $function$
    select exists (
        select from block where block.holder_id = paid_holder_id and block.state = 'open' and block.transfer_id = paid_id
    )
$function$;
revoke execute on function is_blocked(paid_id bigint, paid_holder_id bigint) from public;
grant execute on function is_blocked(paid_id bigint, paid_holder_id bigint) to pixconnect_service;

-- is_partition_needed: migrations 0013, 0026
create function is_partition_needed(parent text, first_id bigint, end_id bigint) returns boolean language plpgsql
as $function$
begin
    case parent
        when 'event' then
            return exists (
                select from delivery where status = 'pending' and event_id >= is_partition_needed.first_id
                    and event_id < is_partition_needed.end_id
            );
        when 'delivery' then
            return exists (
                select from delivery where status = 'pending' and id >= is_partition_needed.first_id
                    and id < is_partition_needed.end_id
            );
        when 'event_feed' then
            return false;
    end case;
end $function$;
revoke execute on function is_partition_needed(parent text, first_id bigint, end_id bigint) from public;

-- last_event_id_given: migration 0026
create function last_event_id_given() returns bigint language sql
as $function$
    select case when is_called then last_value + seqincrement - 1 else last_value - 1 end
    from write_group_id, pg_sequence where seqrelid = to_regclass('write_group_id')
$function$;
revoke execute on function last_event_id_given() from public;

-- last_id_given: migrations 0013, 0026
create function last_id_given(parent text) returns bigint language plpgsql
as $function$
begin
    case parent
        when 'event' then
            return (select case when is_called then last_value else last_value - 1 end from write_group_id);
        when 'delivery' then
            return (select case when is_called then last_value else last_value - 1 end from delivery_id);
        when 'event_feed' then
            return (select case when is_called then last_value else last_value - 1 end from event_feed_position);
    end case;
end $function$;
revoke execute on function last_id_given(parent text) from public;
grant execute on function last_id_given(parent text) to pixconnect_service;

-- lose_salts: migration 0139
create function lose_salts(wanted text, wanted_ids bigint[], wanted_holders bigint[], of_transfers bigint[]) returns void
    language plpgsql set search_path to 'pixconnect', 'pg_temp'
as $function$
#variable_conflict use_column
declare
    secret bytea := uuid_send(gen_random_uuid());
begin
    update erased_text set salt = remains.salt, person_digest = sha256(remains.salt || convert_to(remains.person, 'UTF8'))
    from (
        select distinct on (asked.id, asked.holder_id) asked.id, asked.holder_id, facts.person,
            substr(sha256(secret || int8send(asked.id) || int8send(asked.holder_id)), 1, 16) as salt
        from unnest(wanted_ids, wanted_holders, of_transfers) as asked (id, holder_id, transfer_id)
        join ledger_entry as entry on entry.transfer_id = asked.transfer_id and entry.holder_id = asked.holder_id
            and entry.refund_id is not distinct from case wanted when 'refund' then asked.id end
        join entry_facts as facts on facts.id = entry.id and facts.holder_id = entry.holder_id
        order by asked.id, asked.holder_id
    ) as remains
    where erased_text.kind = wanted and erased_text.id = remains.id and erased_text.holder_id = remains.holder_id;

    -- Each link once, however many of its entries they are.
    update person_salt set salts = (
        select array_agg(case when place = any(gone.places) then null else salt end order by place)
        from unnest(person_salt.salts) with ordinality as listed (salt, place)
    )
    from (
        select link.holder_id, link.position, array_agg(array_position(link.entry_ids, entry.id)::bigint) as places
        from unnest(wanted_ids, wanted_holders, of_transfers) as asked (id, holder_id, transfer_id)
        join ledger_entry as entry on entry.transfer_id = asked.transfer_id and entry.holder_id = asked.holder_id
            and entry.refund_id is not distinct from case wanted when 'refund' then asked.id end
        join entry_chain as link on link.holder_id = entry.holder_id and link.position = find_link(entry.holder_id, entry.id)
        where entry.id = any(link.entry_ids)
        group by link.holder_id, link.position
    ) as gone
    where person_salt.holder_id = gone.holder_id and person_salt.position = gone.position;
end $function$;
revoke execute on function lose_salts(wanted text, wanted_ids bigint[], wanted_holders bigint[], of_transfers bigint[]) from
    public;

-- make_partitions: migrations 0013, 0026, 0040
create function make_partitions() returns setof text language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp' set lock_timeout to '100ms'
as $function$
declare
    wanted text;
begin
    foreach wanted in array array['event', 'delivery', 'event_feed'] loop
        begin
            return query select make_partitions(wanted);
        exception when others then
            raise warning 'partitions of % are not made: %', wanted, sqlerrm;
        end;
    end loop;
end $function$;
revoke execute on function make_partitions() from public;
grant execute on function make_partitions() to pixconnect_service;

-- make_partitions: migrations 0013, 0026, 0040
create function make_partitions(wanted text) returns setof text language plpgsql security definer set search_path to
    'pixconnect', 'pg_temp' set lock_timeout to '100ms'
as $function$
declare
    start_id bigint;
    span bigint := case wanted when 'event' then 17179869184 when 'delivery' then 16777216 when 'event_feed' then 1073741824 end;
begin
    perform from partition_pass for update;
    perform adopt_partitions(wanted);
    while (select count(*) from event_partition where parent = wanted and first_id > last_id_given(wanted)) < 2 loop
        select max(end_id) into start_id from event_partition where parent = wanted;
        start_id := greatest(start_id, last_id_given(wanted) / span * span, 1);
        perform add_partition(wanted, start_id, start_id + span);
        if wanted = 'delivery' then
            perform add_partition('delivery_attempt', start_id, start_id + span);
        end if;
        insert into event_partition (name, parent, first_id, end_id)
        values (wanted || '_' || start_id, wanted, start_id, start_id + span);
        return next wanted || '_' || start_id;
    end loop;
end $function$;
revoke execute on function make_partitions(wanted text) from public;
grant execute on function make_partitions(wanted text) to pixconnect_service;

-- move_ids_ahead: migrations 0045, 0052
create function move_ids_ahead() returns void language plpgsql security definer set search_path to 'pixconnect', 'pg_temp' set
    lock_timeout to '1s'
as $function$
declare
    noted id_high_water;
    passed_s double precision;
    unused event_partition;
    child text;
    is_empty boolean;
begin
    for noted in select * from id_high_water order by sequence for update loop
        passed_s := least(greatest(extract(epoch from clock_timestamp() - noted.noted_at), 0), 31536000);
        -- Whoever asks the sequence meanwhile gets less than 64 blocks: it never goes back.
        execute format(
            'select setval(%L, greatest(last_value + 64 * seqincrement, $1)) from %I, pg_sequence where seqrelid = $2',
            noted.sequence, noted.sequence
        ) using noted.last_id + ceil(passed_s * noted.ids_per_s_max)::bigint, to_regclass(noted.sequence);
    end loop;
    perform note_high_water();
    update installation set
        first_transfer_id = (select last_value + seqincrement from transfer_id, pg_sequence where seqrelid = to_regclass('transfer_id')),
        first_refund_id = (select last_value + seqincrement from refund_id, pg_sequence where seqrelid = to_regclass('refund_id'));
    -- Partitions that were made ahead and are passed over would be kept, empty, for as long as events are.
    begin
        for unused in
            select * from event_partition where begun_at is null and end_id <= last_id_given(parent) order by name
        loop
            execute format('lock table %I in access exclusive mode', unused.name);
            execute format('select not exists (select from %I)', unused.name) into is_empty;
            continue when not is_empty;
            foreach child in array case unused.parent when 'delivery'
                then array['delivery_attempt_' || unused.first_id, unused.name] else array[unused.name] end
            loop
                execute format('drop table if exists %I', child);
            end loop;
            delete from event_partition where name = unused.name;
        end loop;
    exception when lock_not_available then
        null;
    end;
    -- One by one, so that a failure is heard of: without them nothing could be written.
    perform make_partitions('event');
    perform make_partitions('delivery');
    perform make_partitions('event_feed');
end $function$;
revoke execute on function move_ids_ahead() from public;
grant execute on function move_ids_ahead() to pixconnect_service;

-- move_to_successor: migration 0164
create function move_to_successor(former_id bigint, heir_id bigint, tokens_from timestamp with time zone, moved_at timestamp
    with time zone) returns void language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    first_id bigint;
begin
    select coalesce(former.family_id, former.id) into first_id from holder as former join holder as heir on heir.id = heir_id
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
revoke execute on function move_to_successor(former_id bigint, heir_id bigint, tokens_from timestamp with time zone, moved_at
    timestamp with time zone) from public;
grant execute on function move_to_successor(former_id bigint, heir_id bigint, tokens_from timestamp with time zone, moved_at
    timestamp with time zone) to pixconnect_operator;

-- note_high_water: migrations 0045, 0054
create function note_high_water() returns void language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    update id_high_water
    set last_id = coalesce(pg_sequence_last_value(to_regclass(sequence)), 0), noted_at = clock_timestamp();
    update installation set notes_count = notes_count + 1;
end $function$;
revoke execute on function note_high_water() from public;
grant execute on function note_high_water() to pixconnect_service;

-- note_partitions: migration 0013
create function note_partitions() returns interval language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
    set lock_timeout to '100ms'
as $function$
declare
    now_at timestamptz;
    apart interval;
begin
    select clock_timestamp() - passed_at into apart from partition_pass for update;
    now_at := clock_timestamp();
    update partition_pass set passed_at = now_at,
        jumped_at = case when apart not between interval '0' and interval '10 minutes' then now_at else jumped_at end;
    update event_partition set begun_at = now_at where begun_at is null and first_id <= last_id_given(parent);
    update event_partition set closed_at = now_at
    where closed_at is null and begun_at is not null and end_id <= last_id_given(parent);
    return case when apart not between interval '0' and interval '10 minutes' then apart end;
end $function$;
revoke execute on function note_partitions() from public;
grant execute on function note_partitions() to pixconnect_service;

-- open_sandbox_holder: migrations 0023, 0131
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
    insert into pix_key (key, key_type, holder_id, created_at) values (holder_key, 'EVP', own_id, opened_at);
    insert into client (client_id, holder_id, name, scopes, secret_hash, secret_key_id, created_at) values
        (own_client_id, own_id, client_name, client_scopes, own_secret_hash, own_secret_key_id, client_made_at);
    insert into audit (operator, verb, subject, after)
    select asked_by, 'sandbox holder', 'holder ' || own_id, to_jsonb(holder) || jsonb_build_object(
        'client_id', own_client_id, 'scopes', client_scopes, 'key', holder_key
    ) from holder where id = own_id;
    return own_id;
end $function$;
revoke execute on function open_sandbox_holder(holder_name text, holder_tax_id text, holder_key text, opened_at timestamp with
    time zone, client_name text, client_scopes text[], own_client_id text, own_secret_hash bytea, own_secret_key_id bytea,
    client_made_at timestamp with time zone, asked_by text, holders_max bigint) from public;

-- raise_alarm: migration 0119
create function raise_alarm(account_id smallint, what text, words text, at timestamp with time zone) returns boolean language
    plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    update institution_account set state = 'paused', revision = revision + 1
        where id = account_id and state = 'active' and removed_at is null;
    if not found then
        return false;
    end if;
    insert into account_alarm (institution_id, kind, said, noticed_at) values (account_id, what, words, at)
        on conflict do nothing;
    return true;
end $function$;
revoke execute on function raise_alarm(account_id smallint, what text, words text, at timestamp with time zone) from public;
grant execute on function raise_alarm(account_id smallint, what text, words text, at timestamp with time zone) to
    pixconnect_service;

-- read_held: migrations 0015, 0030, 0062, 0125, 0137, 0141, 0161, 0164
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
            exists (select from key_webhook where key_webhook.holder_id = coalesce(holder.successor_id, held.id)),
            clock.offset_us, clock.revision, holder.approve_above_cents, holder.approve_new_payees,
            holder.night_begins_late, balance.blocks_count, holder.institution_id
        from unnest(wanted) as held (id)
        join balance on balance.holder_id = held.id
        join holder on holder.id = held.id
        cross join clock;
end $function$;
revoke execute on function read_held(wanted bigint[]) from public;
grant execute on function read_held(wanted bigint[]) to pixconnect_service;

-- refuse_old_session: migration 0054
create function refuse_old_session() returns boolean language plpgsql stable
as $function$
begin
    if nullif(current_setting('session.tables_oid', true), '')::bigint <> to_regclass('installation')::bigint then
        raise exception 'the tables were put back after this session had looked at them'
            using errcode = 'read_only_sql_transaction';
    end if;
    return true;
end $function$;
revoke execute on function refuse_old_session() from public;
grant execute on function refuse_old_session() to pixconnect_service;

-- sweep_event_positions: migrations 0026, 0027
create function sweep_event_positions(count_max integer) returns bigint[] language plpgsql security definer set search_path to
    'pixconnect', 'pg_temp' set enable_hashjoin to 'on'
as $function$
declare
    state event_feed_state;
    late bigint[];
    late_holder_ids bigint[];
begin
    select * into state from event_feed_state;
    -- Where nothing happens, nothing is written.
    if state.swept_id = state.next_id and state.next_id >= last_event_id_given() then
        return null;
    end if;
    if state.swept_id < least(state.next_id, state.settled_id) and (
        select coalesce(sum(cardinality(event_ids)), 0) from event_feed where position > state.swept_position
    ) <= 10 * count_max then
        with seen as materialized (
            -- The newest, if there are more than can be looked at: what is late has been written lately.
            select id from event where id > state.swept_id and id <= least(state.next_id, state.settled_id)
            order by id desc limit count_max
        )
        select array_agg(id) into late from seen where not exists (
            select from event_feed cross join unnest(event_ids) as placed (id)
            where position > state.swept_position and placed.id = seen.id
        );
    end if;
    select * into state from event_feed_state for update;
    if late is not null then
        with given as (
            insert into event_feed (position, holder_id, event_ids)
            select nextval('event_feed_position'), holder_id, array[id] from (
                select id, holder_id from event where id = any(late) and not exists (
                    select from event_feed cross join unnest(event_ids) as placed (id)
                    where position > state.swept_position and placed.id = event.id
                ) order by id
            ) as missed
            returning *
        )
        select array_agg(holder_id), greatest(max(position), state.last_position)
        into late_holder_ids, state.last_position from given;
    end if;
    -- Who holds the lock is the only one to give positions: what is given out from here on gets a later one.
    update event_feed_state set last_position = state.last_position, swept_id = next_id, swept_position = next_position,
        next_id = last_event_id_given(), next_position = state.last_position;
    return late_holder_ids;
end $function$;
revoke execute on function sweep_event_positions(count_max integer) from public;
grant execute on function sweep_event_positions(count_max integer) to pixconnect_service;

-- sweep_texts: migrations 0139, 0148
create function sweep_texts(wanted text, count_max integer, unpaid_age interval, message_age interval, party_age interval)
    returns table(looked_count bigint, erased_count bigint) language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
#variable_conflict use_column
declare
    walk text_sweep;
    young_at timestamptz := clock_timestamp() - least(unpaid_age, message_age);
    ids bigint[];
    holders bigint[];
    next_id bigint;
    erased bigint := 0;
begin
    select * into walk from text_sweep where kind = wanted for update skip locked;
    if not found or walk.ended_at > clock_timestamp() - interval '1 day' then
        return query select 0::bigint, 0::bigint;
        return;
    end if;
    execute format($sql$
        with seen as materialized (
            select id, holder_id, created_at, %s as is_due from %I where id > $1 order by id fetch first $2 rows with ties
        )
        select count(*), max(id) filter (where created_at < $3), array_agg(id) filter (where is_due),
            array_agg(holder_id) filter (where is_due)
        from seen
    $sql$, case wanted
        when 'transfer' then 'status <> ''PROCESSING'' and (payer_message is not null or created_at < $4)'
        when 'refund' then 'description is not null'
        when 'infraction' then 'state in (''taken'', ''released'') and created_at < $4 and (words is not null or defence <> ''-'')'
        else 'status <> ''PENDING'' and (payer_name <> ''-'' or contents is not null)'
    end, wanted) into looked_count, next_id, ids, holders
        using walk.last_id, count_max, young_at, clock_timestamp() - party_age;
    if ids is not null then
        erased := case wanted
            when 'transfer' then (select count(*) from erase_transfers(ids, holders, message_age, party_age))
            when 'refund' then (select count(*) from erase_refunds(ids, holders, message_age))
            when 'infraction' then (select count(*) from erase_infractions(ids, holders, party_age))
            else (select count(*) from erase_charges(ids, holders, unpaid_age, message_age, party_age))
        end;
    end if;
    -- Ids rise with time: behind the first that is too young there is nothing to find.
    if looked_count < count_max or next_id is null then
        update text_sweep set last_id = 0, ended_at = clock_timestamp() where kind = wanted;
        looked_count := 0;
    else
        update text_sweep set last_id = next_id, ended_at = null where kind = wanted;
    end if;
    return query select looked_count, erased;
end $function$;
revoke execute on function sweep_texts(wanted text, count_max integer, unpaid_age interval, message_age interval, party_age
    interval) from public;
grant execute on function sweep_texts(wanted text, count_max integer, unpaid_age interval, message_age interval, party_age
    interval) to pixconnect_service;
