-- What happened, whom to tell, and who is telling.

-- Events and deliveries are partitioned by id range: look-ups touch one partition, and what is old is dropped, not deleted.
-- Housekeeping makes partitions ahead and drops old ones. There is no default partition: with one, neither could be done without
-- keeping everybody else waiting.
create table event (
    id bigint not null check (id between 1 and 9007199254740991),
    holder_id bigint not null,
    name text not null,
    resource text not null check (resource in ('charge', 'transfer', 'refund')),
    resource_id bigint not null,
    slot smallint not null check (slot between 0 and 255),
    body text not null, -- the very bytes that are sent, on every attempt
    created_at timestamptz not null,
    primary key (id, holder_id)
) partition by range (id);
create index event_list on event (holder_id, created_at, id);
grant select, insert on event to pixconnect_service;

-- Events take their ids from their write group's block, after it has locked what it changes: those of one resource rise.
create sequence delivery_id;
grant usage on sequence delivery_id to pixconnect_service;

create table webhook_endpoint (
    id bigint primary key check (id between 1 and 9007199254740991),
    holder_id bigint not null references holder,
    url text not null check (length(url) between 1 and 2048),
    event_types text[] not null check (cardinality(event_types) between 1 and 15),
    status text not null check (status in ('active', 'inactive', 'disabled')),
    status_reason text,
    secret bytea not null, -- sealed
    previous_secret bytea, -- sealed
    previous_secret_until timestamptz,
    first_failure_at timestamptz, -- of those since the last success
    resumed_at timestamptz, -- since when what waited for it is being dated anew; null when all of it is
    created_at timestamptz not null,
    modified_at timestamptz not null,
    check ((previous_secret is null) = (previous_secret_until is null)),
    check ((status = 'disabled') = (status_reason is not null))
) with (fillfactor = 80);
create sequence webhook_endpoint_id;
create index webhook_endpoint_list on webhook_endpoint (holder_id, created_at, id);
create index webhook_endpoint_resumed on webhook_endpoint (id) where resumed_at is not null;
grant select, insert, update, delete on webhook_endpoint to pixconnect_service;
grant usage on sequence webhook_endpoint_id to pixconnect_service;

-- One endpoint to be told of one event. Written with the event, for the endpoints that are active then and want it.
create table delivery (
    id bigint not null check (id between 1 and 9007199254740991),
    holder_id bigint not null,
    endpoint_id bigint not null,
    event_id bigint not null,
    resource text not null,
    resource_id bigint not null,
    slot smallint not null check (slot between 0 and 255),
    status text not null check (status in ('pending', 'delivered', 'failed')),
    due_at timestamptz, -- null once delivered or given up
    attempts_count integer not null default 0,
    failures_count smallint not null default 0, -- of this schedule; a redelivery starts a new one
    created_at timestamptz not null,
    modified_at timestamptz not null,
    primary key (id, holder_id),
    check ((due_at is not null) = (status = 'pending'))
) partition by range (id);
-- By instant first: one look finds what is new in all slots. The slot is judged inside the index, so that other workers' rows cost
-- next to nothing.
create index delivery_due on delivery (due_at, id, slot) where status = 'pending';
-- Whether an earlier event of the same resource still waits for the same endpoint.
create index delivery_order on delivery (endpoint_id, resource_id, event_id, id) where status = 'pending';
create index delivery_list on delivery (endpoint_id, created_at, id);
create index delivery_failed on delivery (endpoint_id, created_at, id) where status = 'failed';
grant select, insert on delivery to pixconnect_service;
grant update (status, due_at, attempts_count, failures_count, modified_at) on delivery to pixconnect_service;

create table delivery_attempt (
    delivery_id bigint not null,
    number integer not null check (number >= 1),
    started_at timestamptz not null,
    status_code smallint,
    duration_us bigint not null check (duration_us >= 0),
    response text not null,
    error text,
    primary key (delivery_id, number)
) partition by range (delivery_id);
grant select, insert on delivery_attempt to pixconnect_service;

-- How many events a holder and how many deliveries an endpoint has, by the hour in which they were created, as tally has it for
-- charges. A delivery counts as made and, once it is no longer pending, as what it became: to be delivered at once, as most are,
-- costs one change and not three. Whoever writes cannot forget it: triggers note it, once a statement.
create table webhook_tally (
    kind text not null check (kind in ('event', 'delivery')),
    owner_id bigint not null, -- of events a holder, of deliveries an endpoint
    status text not null check (status in ('made', 'delivered', 'failed')),
    hour timestamptz not null,
    count bigint not null,
    primary key (kind, owner_id, status, hour)
) with (fillfactor = 70);
create table webhook_tally_change (
    kind text not null,
    owner_id bigint not null,
    status text not null,
    hour timestamptz not null,
    change bigint not null
);
create index webhook_tally_change_list on webhook_tally_change (kind, owner_id, status, hour) include (change);
grant select, insert, update on webhook_tally to pixconnect_service;
grant select, insert, delete on webhook_tally_change to pixconnect_service;

create function tally_events() returns trigger language plpgsql as $$
begin
    insert into pixconnect.webhook_tally_change (kind, owner_id, status, hour, change)
    select 'event', holder_id, 'made', date_trunc('hour', created_at, 'UTC') as hour, count(*) from new_row group by holder_id, 4;
    return null;
end $$;
create trigger tally_events after insert on event
    referencing new table as new_row for each statement execute function tally_events();

create function tally_new_deliveries() returns trigger language plpgsql as $$
begin
    if not exists (select from new_row) then -- nobody wants to be told: much the most frequent case of some installations
        return null;
    end if;
    insert into pixconnect.webhook_tally_change (kind, owner_id, status, hour, change)
    select 'delivery', endpoint_id, 'made', date_trunc('hour', created_at, 'UTC'), count(*) from new_row group by endpoint_id, 4
    union all
    select 'delivery', endpoint_id, status, date_trunc('hour', created_at, 'UTC'), count(*) from new_row
    where status <> 'pending' group by endpoint_id, status, 4;
    return null;
end $$;
create trigger tally_new_deliveries after insert on delivery
    referencing new table as new_row for each statement execute function tally_new_deliveries();

create function tally_changed_deliveries() returns trigger language plpgsql as $$
begin
    insert into pixconnect.webhook_tally_change (kind, owner_id, status, hour, change)
    select 'delivery', endpoint_id, status, hour, sum(change) from (
        select endpoint_id, status, date_trunc('hour', created_at, 'UTC') as hour, 1 as change from new_row
        where status <> 'pending'
        union all
        select endpoint_id, status, date_trunc('hour', created_at, 'UTC'), -1 from old_row where status <> 'pending'
    ) as moved
    group by endpoint_id, status, hour having sum(change) <> 0;
    return null;
end $$;
create trigger tally_changed_deliveries after update on delivery
    referencing old table as old_row new table as new_row for each statement execute function tally_changed_deliveries();

-- Partitions are named after the first id that they may hold.
create table event_1 partition of event for values from (1) to (17179869184);
create table delivery_1 partition of delivery for values from (1) to (16777216);
create table delivery_attempt_1 partition of delivery_attempt for values from (1) to (16777216);

-- Work is leased by slot, not claimed by row. A worker is here for as long as it renews itself, by this server's clock, and holds
-- its advisory lock; whoever finds it gone removes it, and its slots are free at once. Every record that a worker writes is fenced:
-- it locks (slot, epoch) FOR KEY SHARE. Taking a slot over changes the epoch, which stands in a unique key, and so conflicts
-- with records under way; renewing does not.
create table worker (
    id integer primary key,
    expires_at timestamptz not null,
    oldest_due_at timestamptz -- of what it could send now and has not; real time
) with (fillfactor = 25);
create sequence worker_id as integer cycle;
create table slot_lease (
    slot smallint primary key check (slot between 0 and 255),
    epoch bigint not null default 0,
    worker_id integer references worker on delete set null,
    constraint slot_lease_epoch unique (slot, epoch)
) with (fillfactor = 50);
insert into slot_lease (slot) select generate_series(0, 255);
grant select, insert, update, delete on worker to pixconnect_service;
grant select, update on slot_lease to pixconnect_service;
grant usage on sequence worker_id to pixconnect_service;
