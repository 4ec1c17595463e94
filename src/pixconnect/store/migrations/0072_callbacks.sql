-- Institutions ring: each account has an address of ours with a secret in it, that its webhooks there name.

create table institution_callback (
    institution_id smallint primary key references institution_account on delete cascade,
    digest bytea not null check (length(digest) = 32),
    secret_sealed bytea not null,
    made_at timestamptz not null check (isfinite(made_at))
);
grant select on institution_callback to pixconnect_service;
grant insert, update, delete on institution_callback to pixconnect_operator;

create table institution_webhook_before (
    institution_id smallint not null references institution_account on delete cascade,
    key text not null check (length(key) between 1 and 77),
    url text not null check (length(url) between 1 and 2048),
    kept_at timestamptz not null check (isfinite(kept_at)),
    primary key (institution_id, key)
);
grant select on institution_webhook_before to pixconnect_service;
grant insert, update, delete on institution_webhook_before to pixconnect_operator;

comment on table institution_callback is
    'The secret in the address by which an institution tells us that something came in on an account.';
comment on column institution_callback.institution_id is 'The account.';
comment on column institution_callback.digest is 'SHA-256 of the secret, with which that of each call is compared.';
comment on column institution_callback.secret_sealed is 'The secret itself, sealed, so that the address can be registered again.';
comment on column institution_callback.made_at is 'When the secret was made; real time.';
comment on table institution_webhook_before is
    'What was registered at an institution for a key before our address took its place.';
comment on column institution_webhook_before.institution_id is 'The account.';
comment on column institution_webhook_before.key is 'The Pix key.';
comment on column institution_webhook_before.url is 'The address that was there.';
comment on column institution_webhook_before.kept_at is 'When ours took its place; real time.';
