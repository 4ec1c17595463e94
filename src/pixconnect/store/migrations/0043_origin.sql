-- Who asked for what: the client, its token, the address and the request of each charge, transfer, refund and change of an endpoint.
-- A batch writes one row for all that one client asked for by one token from one address, because a row for each charge would cost
-- more than two in a hundred of all that a charge costs. The view below it has a row for each fact.

create table origin_batch (
    id bigint generated always as identity primary key,
    kind text collate "C" not null, -- charge, charge_change, transfer, refund, endpoint
    holder_id bigint not null,
    client_id text collate "C", -- null where an operator acted
    jti text, -- of the access token; null in the console
    peer text,
    operator text, -- as the audit names them; null where a client acted
    at timestamptz not null, -- the instant that the facts themselves have, by which they are found
    written_at timestamptz not null default clock_timestamp(), -- real time, which retention goes by
    ids bigint[] not null,
    request_ids text[] not null -- one for each of the ids
);
-- Ids of requests are chance: looking for what can be compressed would cost more than it saves.
alter table origin_batch alter column ids set storage external, alter column request_ids set storage external;
create index origin_batch_of_fact on origin_batch (holder_id, kind, at);
grant select, insert (kind, holder_id, client_id, jti, peer, operator, at, ids, request_ids) on origin_batch to pixconnect_service;

create view origin as
    select kind, fact.id, holder_id, client_id, jti, peer, fact.request_id, operator, at, written_at
    from origin_batch cross join lateral unnest(ids, request_ids) as fact (id, request_id);
grant select on origin to pixconnect_service;

-- Forgets what was written more than 400 days ago, the oldest first and a bounded number of rows at a time; answers how many went.
-- By this server's clock, which the service cannot move; for an hour after that clock has jumped nothing goes.
create function forget_origins(count_max integer) returns bigint
language sql security definer set search_path = {schema}, pg_temp as $$
    with old as (
        select id from (select id, written_at from origin_batch order by id limit count_max) as oldest
        where written_at < clock_timestamp() - interval '400 days'
            and (select coalesce(jumped_at < clock_timestamp() - interval '1 hour', true) from partition_pass)
    ),
    gone as (delete from origin_batch where id in (select id from old) returning 1)
    select count(*) from gone
$$;
grant execute on function forget_origins(integer) to pixconnect_service;

-- Changes of endpoints that clients make are audited too. The service cannot write the audit itself, only this in a client's name.
create function audit_client_act(
    client_id text, request_id text, verb text, subject text, before jsonb, after jsonb
) returns void
language sql security definer set search_path = {schema}, pg_temp as $$
    insert into audit (operator, verb, subject, before, after, request_id)
    values ('client ' || client_id, verb, subject, before, after, request_id)
$$;
grant execute on function audit_client_act(text, text, text, text, jsonb, jsonb) to pixconnect_service;
