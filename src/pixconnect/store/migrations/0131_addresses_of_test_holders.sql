-- A holder that a caller of a sandbox makes for its tests has an address, as the demonstration has: without one it could make no charge
-- with a due date. The function is as migration 0023 made it, but for that.

create or replace function open_sandbox_holder(
    holder_name text, holder_tax_id text, holder_key text, opened_at timestamptz, client_name text, client_scopes text[],
    own_client_id text, own_secret_hash bytea, own_secret_key_id bytea, client_made_at timestamptz, asked_by text, holders_max bigint
) returns bigint
language plpgsql security definer set search_path = {schema}, pg_temp as $$
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
end $$;
