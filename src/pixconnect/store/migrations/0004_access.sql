-- Who may ask, and what we sign with. All instants here are real time, whatever the sandbox clock says.

-- One row that moves whenever somebody is shut out or let in again: a process that has seen its latest revision need not ask
-- about each client. Nobody but the triggers below can move it.
create table access_revision (
    is_only_row boolean primary key default true check (is_only_row),
    revision bigint not null default 1
) with (fillfactor = 50);
insert into access_revision default values;
grant select on access_revision to pixconnect_service;

create table client (
    client_id text primary key check (client_id ~ '^[a-zA-Z0-9_-]{1,64}$'),
    holder_id bigint not null references holder,
    name text not null check (length(name) between 1 and 255),
    scopes text[] not null constraint scopes_exist check (
        cardinality(scopes) between 1 and 9
        and scopes <@ array[
            'charge.read', 'charge.write', 'transfer.read', 'transfer.write', 'refund.read', 'refund.write',
            'ledger.read', 'webhook.read', 'webhook.write'
        ]
    ),
    secret_hash bytea not null check (octet_length(secret_hash) = 32), -- keyed; the secret itself is nowhere
    created_at timestamptz not null,
    rotated_at timestamptz,
    disabled_at timestamptz
);
create index client_of_holder on client (holder_id, created_at, client_id);
grant select, insert on client to pixconnect_service;
grant update (secret_hash, rotated_at, disabled_at) on client to pixconnect_service;

create function move_access_revision() returns trigger
language plpgsql security definer set search_path = pixconnect, pg_temp as $$
begin
    update access_revision set revision = revision + 1;
    return null;
end $$;
create trigger client_moves_access_revision after update of disabled_at on client
    for each row when (old.disabled_at is distinct from new.disabled_at) execute function move_access_revision();
create trigger holder_moves_access_revision after update of disabled_at on holder
    for each row when (old.disabled_at is distinct from new.disabled_at) execute function move_access_revision();

-- Failed token requests of the last minute, under a hash of the client_id or address that they count for.
create table token_failure (
    id bigint generated always as identity primary key,
    subject bytea not null check (octet_length(subject) = 16),
    failed_at timestamptz not null default clock_timestamp()
);
create index token_failure_of_subject on token_failure (subject, failed_at);
create index token_failure_by_age on token_failure (failed_at);
grant select, insert, delete on token_failure to pixconnect_service;
grant update (id) on token_failure to pixconnect_service; -- what FOR UPDATE asks for

-- Who signs the certificates of our signing keys; the newest signs new ones.
create table certificate_authority (
    id bigint generated always as identity primary key,
    private_sealed bytea not null,
    certificate bytea not null, -- DER
    expires_at timestamptz not null,
    created_at timestamptz not null
);
grant select, insert on certificate_authority to pixconnect_service;

create table signing_key (
    kid text primary key check (kid ~ '^[a-zA-Z0-9_-]{43}$'),
    public_jwk bytea not null,
    private_sealed bytea, -- forgotten once it signs no more
    certificates bytea[] not null check (cardinality(certificates) >= 1), -- DER, the leaf first
    host text not null,
    expires_at timestamptz not null,
    created_at timestamptz not null,
    signs_from timestamptz not null check (signs_from >= created_at)
);
grant select, insert, delete on signing_key to pixconnect_service;
grant update (private_sealed) on signing_key to pixconnect_service;
