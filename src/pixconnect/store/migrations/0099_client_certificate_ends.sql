-- When the certificate of a client ends: nobody comes in by it then, and the handshake tells only its own program why.
alter table client add column certificate_expires_at timestamptz,
    add constraint only_a_certificate_ends check (certificate_expires_at is null or certificate is not null);
grant update (certificate_expires_at) on client to pixconnect_operator;
comment on column client.certificate_expires_at is
    'When that certificate ends, in real time; null where it needs none, or was bound to it by an older version.';
