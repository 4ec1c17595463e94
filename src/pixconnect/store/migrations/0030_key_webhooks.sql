-- Webhooks of Pix keys, as the central bank's Pix API has them: a key's owner is told of each Pix that is paid to it.
--
-- Each is an endpoint as others are, with its deliveries, attempts, backoff and health. It is found by its key here, and left out
-- wherever endpoints of the other kind are listed or counted.

alter table webhook_endpoint add column pix_key text; -- null for the endpoints that callers name by id

create table key_webhook (
    pix_key text primary key references pix_key (key) on delete cascade, -- of one holder, so one webhook
    holder_id bigint not null references holder,
    endpoint_id bigint not null unique references webhook_endpoint on delete cascade,
    created_at timestamptz not null -- when it was last set
);
create index key_webhook_list on key_webhook (holder_id, created_at, pix_key);
grant select, insert on key_webhook to pixconnect_service;
grant update (created_at) on key_webhook to pixconnect_service;

-- Several deliveries of one such endpoint that are due together have one body. It is kept in the first of them before it is sent,
-- with the ids of the others; the others point back to it, and have its status, due date and counts.
alter table delivery add column notice text, add column covers bigint[], add column covered_by bigint;
grant update (notice, covers, covered_by) on delivery to pixconnect_service;

-- As before, and whether the holder has a webhook of a key: what concerns no such holder pays nothing for them.
drop function read_held(bigint[]);
create function read_held(wanted bigint[])
returns table (
    holder_id bigint, available_cents bigint, reserved_cents bigint, last_number bigint, last_entry_at timestamptz,
    modified_at timestamptz, may_deposit boolean, may_withdraw boolean, may_lend boolean, transfer_limit_cents bigint,
    day_limit_cents bigint, night_limit_cents bigint, has_key_webhooks boolean, offset_us bigint, revision bigint
)
language plpgsql volatile set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
    return query
        select balance.holder_id, balance.available_cents, balance.reserved_cents, balance.last_number, balance.last_entry_at,
            balance.modified_at, holder.may_deposit, holder.may_withdraw, holder.may_lend, holder.transfer_limit_cents,
            holder.day_limit_cents, holder.night_limit_cents,
            exists (select from key_webhook where key_webhook.holder_id = held.id), clock.offset_us, clock.revision
        from unnest(wanted) as held (id)
        join balance on balance.holder_id = held.id
        join holder on holder.id = held.id
        cross join clock;
end $$;
grant execute on function read_held(bigint[]) to pixconnect_service;
