-- The console has a role of its own: it may do what the service may, and besides sign people in, end sessions and write the audit.
-- It opens no holders, gives no keys and clients, and makes no operators nor changes their passwords and roles.

do $$
begin
    if not exists (select from pg_roles where rolname = 'pixconnect_console') then
        create role pixconnect_console nologin;
    end if;
    if not pg_has_role('pixconnect_console', 'pixconnect_service', 'member') then
        grant pixconnect_service to pixconnect_console;
    end if;
    -- Where the console has no login of its own it uses the operators', which may take this role by theirs.
    if not pg_has_role('pixconnect_operator', 'pixconnect_console', 'member') then
        grant pixconnect_console to pixconnect_operator;
    end if;
end $$;

grant select, update (totp_step, recovery_hashes) on console_operator to pixconnect_console;
grant select, insert, delete, update (seen_at, expires_at) on console_session to pixconnect_console;
grant select, delete, update (used_at) on console_link to pixconnect_console;
grant select, insert (operator, verb, subject, before, after, request_id) on audit to pixconnect_console;
