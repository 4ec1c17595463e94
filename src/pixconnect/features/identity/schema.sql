-- Who calls and who operates: token failures, our authority, signing keys, operators of the console and their sessions.

create table token_failure (
    id bigint generated always as identity not null,
    subject bytea not null,
    failed_at timestamp with time zone default clock_timestamp() not null,
    constraint token_failure_pkey primary key (id),
    constraint token_failure_subject_check check (octet_length(subject) = 16)
);
comment on table token_failure is 'Token requests that failed in the last minute, by which logins are slowed down.';
comment on column token_failure.id is 'Counts up.';
comment on column token_failure.subject is 'A hash of the client_id or of the address for which the failure counts, 16 octets.';
comment on column token_failure.failed_at is 'When it failed, in real time.';
create index token_failure_by_age on token_failure (failed_at);
create index token_failure_of_subject on token_failure (subject, failed_at);
grant delete, insert, select, update (id) on table token_failure to pixconnect_service;

create table certificate_authority (
    id bigint generated always as identity not null,
    private_sealed bytea not null,
    certificate bytea not null,
    expires_at timestamp with time zone not null,
    created_at timestamp with time zone not null,
    constraint certificate_authority_pkey primary key (id)
);
comment on table certificate_authority is
    'The authorities that sign the certificates of our signing keys; the newest signs new ones.';
comment on column certificate_authority.id is 'Counts up.';
comment on column certificate_authority.private_sealed is 'Its private key, encrypted with the secret key.';
comment on column certificate_authority.certificate is 'Its own certificate, in DER.';
comment on column certificate_authority.expires_at is 'When the certificate ends, in real time.';
comment on column certificate_authority.created_at is 'When it was made, in real time.';
grant update (private_sealed) on table certificate_authority to pixconnect_operator;
grant insert, select on table certificate_authority to pixconnect_service;

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
comment on table signing_key is 'The keys, current and former, that sign payloads of codes and webhooks.';
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
create trigger keys_stay_revoked before update of revoked_at on signing_key for each row when (old.revoked_at is not null and
    new.revoked_at is distinct from old.revoked_at) execute function refuse_row('keys_stay_revoked',
    'a revoked key stays revoked');
create trigger signing_key_comes_to_every_process after insert on signing_key for each row execute function
    move_access_revision();
create trigger signing_key_goes_from_every_process after update of revoked_at on signing_key for each row when (old.revoked_at
    is distinct from new.revoked_at) execute function move_access_revision();
grant update (revoked_at) on table signing_key to pixconnect_operator;
grant delete, insert, select, update (private_sealed) on table signing_key to pixconnect_service;

create function note_giver() returns trigger language plpgsql
as $function$
begin
    new.given_login := session_user;
    return new;
end $function$;

create table console_operator (
    name text collate "C" not null,
    role text not null,
    password_hash text not null,
    totp_sealed bytea not null,
    totp_step bigint default 0 not null,
    recovery_hashes bytea[] not null,
    wrong_codes_at timestamp with time zone[] default '{}'::timestamp with time zone[] not null,
    created_at timestamp with time zone not null,
    reset_at timestamp with time zone,
    given_login text default session_user not null,
    constraint console_operator_pkey primary key (name),
    constraint console_operator_name_check check (name ~ '^[a-z0-9][a-z0-9._@-]{0,62}$'),
    constraint console_operator_password_hash_check check (length(password_hash) >= 1 and length(password_hash) <= 255),
    constraint console_operator_role_check check (role in ('reader', 'operator')),
    constraint console_operator_wrong_codes_at_check check (cardinality(wrong_codes_at) <= 10)
);
comment on table console_operator is 'The people who may sign in to the console.';
comment on column console_operator.name is 'The name by which they sign in.';
comment on column console_operator.role is 'Read only (reader), or with changes (operator).';
comment on column console_operator.password_hash is 'The hash of the password by argon2id, with its parameters and salt.';
comment on column console_operator.totp_sealed is 'The secret of the second factor, encrypted with the secret key.';
comment on column console_operator.totp_step is 'The last step of 30 s whose code was used: each code is valid once.';
comment on column console_operator.recovery_hashes is 'The hashes of the recovery codes that are left.';
comment on column console_operator.wrong_codes_at is
    'When codes were wrong that came with the right password, within a day; ten lock the account until it is unlocked.';
comment on column console_operator.created_at is 'When the operator was made, in real time.';
comment on column console_operator.reset_at is 'When password and second factor were last reset, in real time.';
comment on column console_operator.given_login is
    'The login of the database that last gave the account its password or recovery codes.';
-- Not for another sealing of the second factor alone: that gives no password, and `secrets reseal` gives nothing.
create trigger note_giver before update on console_operator for each row when (old.password_hash <> new.password_hash or
    not new.recovery_hashes <@ old.recovery_hashes) execute function note_giver();
grant select, update (totp_step, recovery_hashes, wrong_codes_at) on table console_operator to pixconnect_console;
grant delete, insert (name, role, password_hash, totp_sealed, totp_step, recovery_hashes, wrong_codes_at, created_at, reset_at),
    select, update (password_hash, totp_sealed, totp_step, recovery_hashes, wrong_codes_at, reset_at) on table console_operator
    to pixconnect_operator;

create function refuse_in_live() returns trigger language plpgsql
as $function$
begin
    if not exists (select from installation where mode = 'sandbox') then
        raise exception 'nobody signs in by a link but to a sandbox'
            using errcode = 'integrity_constraint_violation', constraint = 'links_are_of_sandboxes';
    end if;
    return new;
end $function$;

create table console_session (
    id bigint generated always as identity not null,
    token_hash bytea not null,
    kind text not null,
    operator_name text collate "C",
    client_id text,
    created_at timestamp with time zone not null,
    seen_at timestamp with time zone not null,
    expires_at timestamp with time zone not null,
    login text default session_user not null,
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
comment on table console_session is 'The sessions of people at the console.';
comment on column console_session.id is 'Counts up.';
comment on column console_session.token_hash is 'The hash of the session''s token, 32 octets; the token itself is nowhere.';
comment on column console_session.kind is 'The kind of session: an operator''s, one by a link of a sandbox, or a holder''s.';
comment on column console_session.operator_name is 'The operator who signed in, in sessions of that kind only.';
comment on column console_session.client_id is 'The client by which a holder signed in, in sessions of that kind only.';
comment on column console_session.created_at is 'When it began, in real time.';
comment on column console_session.seen_at is 'When it was last used, in real time.';
comment on column console_session.expires_at is 'When it ends unless it is used before, in real time.';
comment on column console_session.login is
    'The login of the database that began it; the console accepts only sessions that its own login began.';
create index console_session_by_end on console_session (expires_at);
create index console_session_of_operator on console_session (operator_name);
create trigger links_are_of_sandboxes before insert on console_session for each row when (new.kind = 'sandbox') execute function
    refuse_in_live();
grant delete, insert (token_hash, kind, operator_name, client_id, created_at, seen_at, expires_at), select, update (seen_at,
    expires_at) on table console_session to pixconnect_console;
grant delete, insert (token_hash, kind, operator_name, client_id, created_at, seen_at, expires_at), select, update (seen_at,
    expires_at) on table console_session to pixconnect_operator;

create table console_link (
    token_hash bytea not null,
    expires_at timestamp with time zone not null,
    used_at timestamp with time zone,
    constraint console_link_pkey primary key (token_hash),
    constraint console_link_token_hash_check check (octet_length(token_hash) = 32)
);
comment on table console_link is 'Links that sign in to the console of a sandbox once, without a password.';
comment on column console_link.token_hash is 'The hash of the token in the link, 32 octets.';
comment on column console_link.expires_at is 'Until when it may be used, in real time.';
comment on column console_link.used_at is 'When it was used, in real time.';
create trigger links_are_of_sandboxes before insert on console_link for each row execute function refuse_in_live();
grant delete, select, update (used_at) on table console_link to pixconnect_console;
grant delete, insert, select, update (used_at) on table console_link to pixconnect_operator;
