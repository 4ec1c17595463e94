-- Operators have a role of their own, and what they change is kept.
--
-- The operators' role may do what the service's may, and besides what only people do: open holders, limit and block them, give
-- them keys and clients. The service's role loses that. Whoever makes a verb grants what it needs to pixconnect_operator.

do $$
begin
    if not exists (select from pg_roles where rolname = 'pixconnect_operator') then
        create role pixconnect_operator nologin;
    end if;
    if not pg_has_role('pixconnect_operator', 'pixconnect_service', 'member') then
        grant pixconnect_service to pixconnect_operator;
    end if;
end $$;

grant insert on holder, pix_key, client to pixconnect_operator;
grant update (may_deposit, may_withdraw, may_lend, transfer_limit_cents, day_limit_cents, night_limit_cents, disabled_at)
    on holder to pixconnect_operator;
grant update (secret_hash, secret_key_id, rotated_at, disabled_at, tokens_from) on client to pixconnect_operator;
grant update (revoked_at) on signing_key to pixconnect_operator;
grant update (private_sealed) on certificate_authority to pixconnect_operator;
grant update (closed_at, closed_by, close_reason) on kept_report to pixconnect_operator;
grant insert (holder_id, modified_at) on balance to pixconnect_operator;
grant usage on sequence holder_id to pixconnect_operator;

revoke insert on holder, pix_key, client from pixconnect_service;
revoke update (may_deposit, may_withdraw, may_lend, transfer_limit_cents, day_limit_cents, night_limit_cents, disabled_at)
    on holder from pixconnect_service;
-- A client that logs in has its secret hashed again where that was done under an older secret key: the service keeps that.
revoke update (rotated_at, disabled_at, tokens_from) on client from pixconnect_service;
revoke update (revoked_at) on signing_key from pixconnect_service;
revoke update (private_sealed) on certificate_authority from pixconnect_service;
revoke update (closed_at, closed_by, close_reason) on kept_report from pixconnect_service;
revoke insert (holder_id, modified_at) on balance from pixconnect_service;
revoke usage on sequence holder_id from pixconnect_service;

-- What operators did, each with the change itself and in its transaction. There is no other table of this kind.
create table audit (
    id bigint generated always as identity primary key,
    at timestamptz not null default clock_timestamp(),
    operator text not null check (length(operator) between 1 and 255),
    verb text collate "C" not null check (length(verb) between 1 and 100), -- as on the command line, `holder set`
    subject text not null check (length(subject) between 1 and 255), -- what kind of thing and which, `holder 2`
    before jsonb,
    after jsonb,
    request_id text check (length(request_id) between 1 and 255)
);
grant select, insert (operator, verb, subject, before, after, request_id) on audit to pixconnect_operator;
create trigger audit_is_append_only before update or delete or truncate on audit
    for each statement execute function refuse_change();
