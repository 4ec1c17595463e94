-- Webhook endpoints, deliveries and their attempts.

create function keep_removed_endpoint() returns trigger language plpgsql
as $function$
begin
    insert into removed_endpoint (id, holder_id) values (old.id, old.holder_id);
    delete from removed_endpoint where id in (
        select id from removed_endpoint where holder_id = old.holder_id order by removed_at desc, id desc offset 20
    );
    return null;
end $function$;

create table webhook_endpoint (
    id bigint not null,
    holder_id bigint not null,
    url text not null,
    event_types text[] not null,
    status text not null,
    status_reason text,
    secret bytea not null,
    previous_secret bytea,
    previous_secret_until timestamp with time zone,
    first_failure_at timestamp with time zone,
    resumed_at timestamp with time zone,
    created_at timestamp with time zone not null,
    modified_at timestamp with time zone not null,
    pix_key text,
    profile text,
    only_with_txid boolean default false not null,
    name text,
    authorization_sealed bytea,
    constraint webhook_endpoint_pkey primary key (id),
    constraint event_types_are_bounded check (cardinality(event_types) >= 1 and cardinality(event_types) <= 100),
    constraint webhook_endpoint_check check ((previous_secret is null) = (previous_secret_until is null)),
    constraint webhook_endpoint_check1 check ((status = 'disabled') = (status_reason is not null)),
    constraint webhook_endpoint_id_check check (id >= 1 and id <= 9007199254740991),
    constraint webhook_endpoint_status_check check (status in ('active', 'inactive', 'disabled')),
    constraint webhook_endpoint_url_check check (length(url) >= 1 and length(url) <= 2048),
    constraint webhook_endpoint_holder_id_fkey foreign key (holder_id) references holder(id)
) with (fillfactor=80);
comment on table webhook_endpoint is 'The addresses that receive events, webhooks of Pix keys included.';
comment on column webhook_endpoint.id is 'Counts up.';
comment on column webhook_endpoint.holder_id is 'The holder whose events the endpoint receives.';
comment on column webhook_endpoint.url is 'The address.';
comment on column webhook_endpoint.event_types is 'The names of the events that the endpoint receives.';
comment on column webhook_endpoint.status is
    'Whether deliveries are made (active), paused (inactive) or given up (disabled).';
comment on column webhook_endpoint.status_reason is 'Why it was disabled; null otherwise.';
comment on column webhook_endpoint.secret is 'The secret of its signatures, encrypted with the secret key.';
comment on column webhook_endpoint.previous_secret is
    'The secret before, encrypted with the secret key; it signs too for a time.';
comment on column webhook_endpoint.previous_secret_until is 'Until when it does, in service time.';
comment on column webhook_endpoint.first_failure_at is
    'When the first attempt failed since the last success, in service time; null if none did.';
comment on column webhook_endpoint.resumed_at is 'Since when its pending deliveries are being rescheduled; null when all are.';
comment on column webhook_endpoint.created_at is 'When it was made, in service time.';
comment on column webhook_endpoint.modified_at is 'When it last changed, in service time.';
comment on column webhook_endpoint.pix_key is
    'The Pix key whose payments it receives; null for an endpoint that callers address by id.';
comment on column webhook_endpoint.profile is
    'Its format, by an institution''s name or a feature''s word; null is ours, and for a key''s webhook the central bank''s.';
comment on column webhook_endpoint.only_with_txid is 'Whether the webhook of a key omits Pix without a txid.';
comment on column webhook_endpoint.name is 'Its owner''s name for it, at faces of institutions where webhooks have one.';
comment on column webhook_endpoint.authorization_sealed is
    'The Authorization header sent to it, sealed; null if its owner has set none.';
create index webhook_endpoint_failing on webhook_endpoint (first_failure_at) where status = 'active' and first_failure_at is
    not null;
create index webhook_endpoint_list on webhook_endpoint (holder_id, created_at, id);
create index webhook_endpoint_of_key_by_host on webhook_endpoint (rtrim(lower("substring"(url,
    '^[^:]+://(\[[^]]*\]|[^/?#:]*)')), '.')) where pix_key is not null;
create index webhook_endpoint_resumed on webhook_endpoint (id) where resumed_at is not null;
create trigger keep_removed_endpoint after delete on webhook_endpoint for each row execute function keep_removed_endpoint();
grant delete, insert, select, update on table webhook_endpoint to pixconnect_service;

create table removed_endpoint (
    id bigint not null,
    holder_id bigint not null,
    removed_at timestamp with time zone default clock_timestamp() not null,
    constraint removed_endpoint_pkey primary key (id)
);
comment on table removed_endpoint is
    'The newest twenty endpoints that each holder removed, so that their deliveries can still be found.';
comment on column removed_endpoint.id is 'The id that the endpoint had.';
comment on column removed_endpoint.holder_id is 'The holder that had it.';
comment on column removed_endpoint.removed_at is 'When it was removed, in real time.';
create index removed_endpoint_list on removed_endpoint (holder_id, removed_at);
grant delete, insert, select on table removed_endpoint to pixconnect_service;

create function count_key_webhook() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if tg_op <> 'INSERT' then
        update holder set key_webhooks_count = key_webhooks_count - 1 where id = old.holder_id;
    end if;
    if tg_op <> 'DELETE' then
        update holder set key_webhooks_count = key_webhooks_count + 1 where id = new.holder_id;
    end if;
    return null;
end $function$;

create table key_webhook (
    pix_key text not null,
    holder_id bigint not null,
    endpoint_id bigint not null,
    created_at timestamp with time zone not null,
    constraint key_webhook_pkey primary key (pix_key),
    constraint key_webhook_endpoint_id_key unique (endpoint_id),
    constraint key_webhook_endpoint_id_fkey foreign key (endpoint_id) references webhook_endpoint(id) on delete cascade,
    constraint key_webhook_holder_id_fkey foreign key (holder_id) references holder(id),
    constraint key_webhook_pix_key_fkey foreign key (pix_key) references pix_key(key) on delete cascade
);
comment on table key_webhook is 'The webhook of each Pix key, as the central bank''s Pix API has them.';
comment on column key_webhook.pix_key is 'The key; it has one webhook at most.';
comment on column key_webhook.holder_id is 'The holder of the key.';
comment on column key_webhook.endpoint_id is 'The endpoint that is notified.';
comment on column key_webhook.created_at is 'When it was last set, in service time.';
create index key_webhook_list on key_webhook (holder_id, created_at, pix_key);
create trigger key_webhook_is_counted after delete or insert or update of holder_id on key_webhook for each row execute function
    count_key_webhook();
grant insert, select, update (created_at) on table key_webhook to pixconnect_service;

create function tally_changed_deliveries() returns trigger language plpgsql
as $function$
begin
    insert into webhook_tally_change (kind, owner_id, status, hour, change)
    select 'delivery', endpoint_id, status, hour, sum(change) from (
        select endpoint_id, status, date_trunc('hour', created_at, 'UTC') as hour, 1 as change from new_row
        where status <> 'pending'
        union all
        select endpoint_id, status, date_trunc('hour', created_at, 'UTC'), -1 from old_row where status <> 'pending'
    ) as moved
    group by endpoint_id, status, hour having sum(change) <> 0;
    return null;
end $function$;

create function tally_new_deliveries() returns trigger language plpgsql
as $function$
begin
    if not exists (select from new_row) then -- no endpoint matches: by far the most frequent case of some installations
        return null;
    end if;
    insert into webhook_tally_change (kind, owner_id, status, hour, change)
    select 'delivery', endpoint_id, 'made', date_trunc('hour', created_at, 'UTC'), count(*) from new_row group by endpoint_id, 4
    union all
    select 'delivery', endpoint_id, status, date_trunc('hour', created_at, 'UTC'), count(*) from new_row
    where status <> 'pending' group by endpoint_id, status, 4;
    return null;
end $function$;

create table delivery (
    id bigint not null,
    holder_id bigint not null,
    endpoint_id bigint not null,
    event_id bigint not null,
    resource text not null,
    resource_id bigint not null,
    slot smallint not null,
    status text not null,
    due_at timestamp with time zone,
    attempts_count integer default 0 not null,
    failures_count smallint default 0 not null,
    created_at timestamp with time zone not null,
    modified_at timestamp with time zone not null,
    notice text,
    covers bigint[],
    covered_by bigint,
    constraint delivery_pkey primary key (id, holder_id),
    constraint delivered_by_an_attempt check (status <> 'delivered' or attempts_count > 0 or covered_by is not null),
    constraint delivery_check check ((due_at is not null) = (status = 'pending')),
    constraint delivery_id_check check (id >= 1 and id <= 9007199254740991),
    constraint delivery_slot_check check (slot >= 0 and slot <= 255),
    constraint delivery_status_check check (status in ('pending', 'delivered', 'failed'))
) partition by range (id);
comment on table delivery is 'One event for one endpoint, written with the event; partitioned by id.';
comment on column delivery.id is 'Counts up.';
comment on column delivery.holder_id is 'The holder of the endpoint.';
comment on column delivery.endpoint_id is 'The endpoint to notify; it may have been removed since.';
comment on column delivery.event_id is 'The delivered event.';
comment on column delivery.resource is 'The event''s resource; pix for the webhook of a key.';
comment on column delivery.resource_id is 'The id of that: events of one resource go to an endpoint in their order.';
comment on column delivery.slot is 'The slot of work it belongs to, 0 to 255.';
comment on column delivery.status is 'Whether it is still to be made, was made, or was given up.';
comment on column delivery.due_at is 'When the next attempt is made, in service time; null once it is delivered or failed.';
comment on column delivery.attempts_count is 'How many attempts were made.';
comment on column delivery.failures_count is 'How many of them failed in this schedule; sending it again begins a new one.';
comment on column delivery.created_at is 'When the event happened, in service time.';
comment on column delivery.modified_at is 'When it last changed, in service time.';
comment on column delivery.notice is
    'The one body for several deliveries of a key''s webhook, kept in the first of them before it is sent.';
comment on column delivery.covers is 'The other deliveries that this body includes.';
comment on column delivery.covered_by is 'The delivery whose body includes this one.';
create table delivery_1 partition of delivery for values from ('1') to ('16777216');
create index delivery_due on delivery (due_at, id, slot) where status = 'pending';
create index delivery_failed on delivery (endpoint_id, created_at, id) where status = 'failed';
create index delivery_list on delivery (endpoint_id, created_at, id);
create index delivery_order on delivery (endpoint_id, resource_id, event_id, id) where status = 'pending';
create trigger tally_changed_deliveries after update on delivery referencing old table as old_row new table as new_row for each
    statement execute function tally_changed_deliveries();
create trigger tally_new_deliveries after insert on delivery referencing new table as new_row for each statement execute
    function tally_new_deliveries();
grant insert, select, update (status, due_at, attempts_count, failures_count, modified_at, notice, covers, covered_by) on table
    delivery to pixconnect_service;

create table delivery_attempt (
    delivery_id bigint not null,
    number integer not null,
    started_at timestamp with time zone not null,
    status_code smallint,
    duration_us bigint not null,
    response text not null,
    error text,
    constraint delivery_attempt_pkey primary key (delivery_id, number),
    constraint delivery_attempt_duration_us_check check (duration_us >= 0),
    constraint delivery_attempt_number_check check (number >= 1)
) partition by range (delivery_id);
comment on table delivery_attempt is 'Each POST of a delivery and its answer; partitioned as deliveries are.';
comment on column delivery_attempt.delivery_id is 'The delivery.';
comment on column delivery_attempt.number is 'Which attempt of it, from 1.';
comment on column delivery_attempt.started_at is 'When it began, in service time.';
comment on column delivery_attempt.status_code is 'The HTTP status that was answered; null without an answer.';
comment on column delivery_attempt.duration_us is 'How long it took, in microseconds.';
comment on column delivery_attempt.response is 'The beginning of the response.';
comment on column delivery_attempt.error is 'The error, if there was no answer; null otherwise.';
create table delivery_attempt_1 partition of delivery_attempt for values from ('1') to ('16777216');
grant insert, select on table delivery_attempt to pixconnect_service;

create table webhook_tally (
    kind text not null,
    owner_id bigint not null,
    status text not null,
    hour timestamp with time zone not null,
    count bigint not null,
    constraint webhook_tally_pkey primary key (kind, owner_id, status, hour),
    constraint webhook_tally_kind_check check (kind in ('event', 'delivery')),
    constraint webhook_tally_status_check check (status in ('made', 'delivered', 'failed'))
) with (fillfactor=70);
comment on table webhook_tally is 'How many events a holder and how many deliveries an endpoint has, by hour.';
comment on column webhook_tally.kind is 'The counted kind: event or delivery.';
comment on column webhook_tally.owner_id is 'The holder of events, the endpoint of deliveries.';
comment on column webhook_tally.status is 'All that were made, or their result.';
comment on column webhook_tally.hour is 'The hour in which they were made, in service time.';
comment on column webhook_tally.count is 'How many.';
grant insert, select, update on table webhook_tally to pixconnect_service;

create table webhook_tally_change (
    kind text not null,
    owner_id bigint not null,
    status text not null,
    hour timestamp with time zone not null,
    change bigint not null
);
comment on table webhook_tally_change is
    'Changes still to be added to webhook_tally: triggers only add rows here, and housekeeping sums them up.';
comment on column webhook_tally_change.kind is 'The counted kind: event or delivery.';
comment on column webhook_tally_change.owner_id is 'The holder of events, the endpoint of deliveries.';
comment on column webhook_tally_change.status is 'All that were made, or their result.';
comment on column webhook_tally_change.hour is 'The hour in which they were made, in service time.';
comment on column webhook_tally_change.change is 'The increase, or the decrease if negative.';
create index webhook_tally_change_list on webhook_tally_change (kind, owner_id, status, hour) include (change);
grant delete, insert, select on table webhook_tally_change to pixconnect_service;

create table allowed_webhook_host (
    host text not null,
    allowed_at timestamp with time zone default clock_timestamp() not null,
    constraint allowed_webhook_host_pkey primary key (host)
);
comment on table allowed_webhook_host is
    'The hosts that may receive the Pix keys of several holders in live mode, by an operator''s decision.';
comment on column allowed_webhook_host.host is 'The host in ASCII and lower case, without a dot at its end.';
comment on column allowed_webhook_host.allowed_at is 'When an operator allowed it, in real time.';
grant insert on table allowed_webhook_host to pixconnect_operator;
grant select on table allowed_webhook_host to pixconnect_service;
