-- Token requests that wait at the same time are judged by one look, in one round trip. It counts nothing, so looks do not wait for
-- each other; but it finds nobody while a request of one of the addresses is judged alone, whose failure may be about to be
-- counted. Whoever is not found is judged alone, and so counted.

create function find_clients_logging_in(
    lock_class integer, lock_keys integer[], addresses bytea[], window_length interval, failures_max integer, ids text[]
)
returns setof client
language plpgsql volatile set plan_cache_mode = force_generic_plan as $$
begin
    if exists (
        select from unnest(lock_keys) as key where not pg_try_advisory_xact_lock_shared(lock_class, key)
    ) then
        return;
    end if;
    -- Statements of their own, which see what was counted before we had the locks.
    if exists (
        select from unnest(addresses) as address
        where exists (
            select from token_failure
            where subject = address and failed_at > clock_timestamp() - window_length
            order by failed_at desc offset failures_max - 1
        )
    ) then
        return;
    end if;
    return query
        select client.* from client
        where client_id = any (ids) and disabled_at is null and not exists (
            select from holder where holder.id = client.holder_id and holder.disabled_at is not null
        );
end $$;
grant execute on function find_clients_logging_in(integer, integer[], bytea[], interval, integer, text[]) to pixconnect_service;
