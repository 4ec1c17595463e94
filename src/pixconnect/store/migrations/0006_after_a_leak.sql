-- What ends at once when something has leaked: a client's tokens, a signing key; and which secret key a hash was made with.

-- Tokens issued before this instant are refused, whoever holds them. It never goes back.
alter table client add column tokens_from timestamptz;
-- Which key `secret_hash` was made with; null is unknown: the row is older than this column.
alter table client add column secret_key_id bytea
    constraint secret_key_id_has_its_length check (octet_length(secret_key_id) = 8);
grant update (tokens_from, secret_key_id) on client to pixconnect_service;

drop trigger client_moves_access_revision on client;
create trigger client_moves_access_revision after update of disabled_at, tokens_from on client
    for each row
    when (old.disabled_at is distinct from new.disabled_at or old.tokens_from is distinct from new.tokens_from)
    execute function move_access_revision();

create function keep_tokens_ended() returns trigger
language plpgsql as $$
begin
    raise exception 'tokens that were ended stay ended' using errcode = 'check_violation', constraint = 'tokens_stay_ended';
end $$;
create trigger tokens_stay_ended before update of tokens_from on client
    for each row when (old.tokens_from > coalesce(new.tokens_from, '-infinity'))
    execute function keep_tokens_ended();

-- A revoked key signs and verifies nothing any more. Its row stays: keys that it followed must not come back to life.
alter table signing_key add column revoked_at timestamptz;
alter table signing_key add constraint revoked_key_has_no_private_part check (revoked_at is null or private_sealed is null);
grant update (revoked_at) on signing_key to pixconnect_service;

create function keep_key_revoked() returns trigger
language plpgsql as $$
begin
    raise exception 'a revoked key stays revoked' using errcode = 'check_violation', constraint = 'keys_stay_revoked';
end $$;
create trigger keys_stay_revoked before update of revoked_at on signing_key
    for each row when (old.revoked_at is not null and new.revoked_at is distinct from old.revoked_at)
    execute function keep_key_revoked();

-- Every process reads the keys again when one comes or is revoked.
create trigger signing_key_comes_to_every_process after insert on signing_key
    for each row execute function move_access_revision();
create trigger signing_key_goes_from_every_process after update of revoked_at on signing_key
    for each row when (old.revoked_at is distinct from new.revoked_at) execute function move_access_revision();

-- Sealed again under a new secret key.
grant update (private_sealed) on certificate_authority to pixconnect_service;
