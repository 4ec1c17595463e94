-- A client may have a certificate, by its thumbprint (RFC 8705): nobody gets or uses a token of it without. Whoever sets or removes it
-- ends the client's tokens in the same statement, which moves access_revision.
alter table client add column certificate text constraint certificate_is_a_thumbprint check (certificate ~ '^[a-zA-Z0-9_-]{43}$');
grant update (certificate) on client to pixconnect_operator;
