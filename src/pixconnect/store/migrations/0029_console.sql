-- Who may look at the console, and who does. The service itself has no business here: only pixconnect_operator may read or write.

create table console_operator (
    name text collate "C" primary key check (name ~ '^[a-z0-9][a-z0-9._@-]{0,62}$'),
    role text not null check (role in ('reader', 'operator')),
    password_hash text not null check (length(password_hash) between 1 and 255), -- argon2id, with its parameters and salt
    totp_sealed bytea not null,
    totp_step bigint not null default 0, -- the last step of 30 s whose code was used: each is good once
    recovery_hashes bytea[] not null, -- of those that are left
    created_at timestamptz not null,
    reset_at timestamptz
);
grant select, insert, delete on console_operator to pixconnect_operator;
grant update (password_hash, totp_sealed, totp_step, recovery_hashes, reset_at) on console_operator to pixconnect_operator;

create table console_session (
    id bigint generated always as identity primary key,
    token_hash bytea not null unique check (octet_length(token_hash) = 32), -- the token itself is nowhere
    kind text not null check (kind in ('operator', 'sandbox', 'holder')),
    operator_name text collate "C" references console_operator on delete cascade,
    client_id text, -- one that is deleted, disabled or has a new secret is found out at the next request
    created_at timestamptz not null,
    seen_at timestamptz not null,
    expires_at timestamptz not null check (expires_at > created_at),
    constraint session_is_of_somebody check (
        (kind = 'operator') = (operator_name is not null) and (kind = 'holder') = (client_id is not null)
    )
);
create index console_session_by_end on console_session (expires_at);
create index console_session_of_operator on console_session (operator_name);
grant select, insert, delete on console_session to pixconnect_operator;
grant update (seen_at, expires_at) on console_session to pixconnect_operator;

-- A link signs in once, without a password: in a sandbox alone.
create table console_link (
    token_hash bytea primary key check (octet_length(token_hash) = 32),
    expires_at timestamptz not null,
    used_at timestamptz
);
grant select, insert, delete on console_link to pixconnect_operator;
grant update (used_at) on console_link to pixconnect_operator;

create function refuse_in_live() returns trigger language plpgsql as $$
begin
    if not exists (select from installation where mode = 'sandbox') then
        raise exception 'nobody signs in by a link but to a sandbox'
            using errcode = 'integrity_constraint_violation', constraint = 'links_are_of_sandboxes';
    end if;
    return new;
end $$;
create trigger links_are_of_sandboxes before insert on console_link for each row execute function refuse_in_live();
create trigger links_are_of_sandboxes before insert on console_session for each row
    when (new.kind = 'sandbox') execute function refuse_in_live();
