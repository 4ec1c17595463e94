-- Charges, transfers, refunds, and how many there are.
--
-- Keys lead with what selects, and the indexes of lists, which begin with the holder, are on "holder_id + 0": only a list says
-- that. So no plan, whatever it believes about the tables, can mistake a holder's whole history for a way to find one row.
-- Invariants of the domain stand here once more.

create table charge (
    id bigint not null check (id between 1 and 9007199254740991),
    holder_id bigint not null,
    external_id text collate "C" not null check (length(external_id) between 1 and 255),
    fingerprint bytea not null,
    txid text collate "C" not null check (length(txid) between 26 and 35),
    amount_cents bigint not null check (amount_cents between 1 and 999999999999),
    key text not null check (length(key) between 1 and 77),
    payer_name text,
    payer_tax_id text,
    br_code text not null check (length(br_code) <= 512),
    status text not null check (status in ('PENDING', 'APPROVED', 'EXPIRED', 'RETURNED')),
    slot smallint not null check (slot between 0 and 255),
    created_at timestamptz not null,
    modified_at timestamptz not null,
    expires_at timestamptz not null,
    primary key (id, holder_id),
    constraint charge_external_id_is_used_once unique (external_id, holder_id),
    constraint charge_txid_is_used_once unique (txid, holder_id),
    check ((payer_name is null) = (payer_tax_id is null))
);
create index charge_list on charge ((holder_id + 0), status, created_at, id);
create index charge_due on charge (expires_at, slot) where status = 'PENDING';
grant select, insert on charge to pixconnect_service;
grant update (status, modified_at, expires_at) on charge to pixconnect_service;

create table transfer (
    id bigint not null check (id between 1 and 9007199254740991),
    holder_id bigint not null,
    direction text not null check (direction in ('IN', 'OUT')),
    initiation_type text not null check (initiation_type in ('KEY', 'MANUAL', 'QRCODE')),
    is_book boolean not null default false,
    external_id text collate "C" check (length(external_id) between 1 and 255),
    fingerprint bytea,
    end_to_end_id text collate "C" not null check (length(end_to_end_id) = 32 and end_to_end_id like 'E%'),
    correlation_id uuid not null,
    txid text check (length(txid) between 1 and 35),
    charge_id bigint,
    amount_cents bigint not null check (amount_cents between 1 and 999999999999),
    status text not null check (status in ('PROCESSING', 'CONFIRMED', 'ERROR', 'CANCELLED', 'RETURNED')),
    own_key text,
    counterparty jsonb not null,
    outcome_code text,
    outcome_reason text,
    returned_cents bigint not null default 0,
    returning_cents bigint not null default 0,
    slot smallint not null check (slot between 0 and 255),
    handed_at timestamptz,
    settled_at timestamptz,
    created_at timestamptz not null,
    modified_at timestamptz not null,
    primary key (id, holder_id),
    constraint transfer_external_id_is_used_once unique (external_id, holder_id),
    constraint transfer_end_to_end_id_is_used_once unique (end_to_end_id, holder_id, direction),
    check ((direction = 'OUT') = (external_id is not null) and (external_id is null) = (fingerprint is null)),
    check (charge_id is null or direction = 'IN'),
    check ((settled_at is not null) = (status in ('CONFIRMED', 'RETURNED'))),
    check (handed_at is null or direction = 'OUT'),
    constraint handed_transfer_is_never_cancelled check (status <> 'CANCELLED' or handed_at is null),
    constraint returns_stay_within_transfer check (
        returned_cents >= 0 and returning_cents >= 0 and returned_cents + returning_cents <= amount_cents
        and (returned_cents + returning_cents = 0 or settled_at is not null)
        and (status = 'RETURNED') = (returned_cents = amount_cents)
    )
);
-- A charge is paid at most once.
create unique index charge_is_paid_once on transfer (charge_id, holder_id) where charge_id is not null and settled_at is not null;
create index transfer_list on transfer ((holder_id + 0), status, created_at, id);
grant select, insert on transfer to pixconnect_service;
grant update (status, outcome_code, outcome_reason, returned_cents, returning_cents, handed_at, settled_at, modified_at)
    on transfer to pixconnect_service;

create table refund (
    id bigint not null check (id between 1 and 9007199254740991),
    holder_id bigint not null,
    transfer_id bigint not null,
    flow text not null check (flow in ('IN', 'OUT')),
    is_book boolean not null default false,
    external_id text collate "C" check (length(external_id) between 1 and 255),
    fingerprint bytea,
    return_id text collate "C" not null check (length(return_id) = 32 and return_id like 'D%'),
    original_end_to_end_id text not null,
    correlation_id uuid not null,
    amount_cents bigint not null check (amount_cents between 1 and 999999999999),
    status text not null check (status in ('PROCESSING', 'RETURNED', 'ERROR')),
    reason text not null check (reason in ('MD06', 'BE08', 'FR01', 'SL02')),
    description text check (length(description) <= 140),
    outcome_code text,
    outcome_reason text,
    slot smallint not null check (slot between 0 and 255),
    handed_at timestamptz,
    settled_at timestamptz,
    created_at timestamptz not null,
    modified_at timestamptz not null,
    primary key (id, holder_id),
    constraint refund_external_id_is_used_once unique (external_id, holder_id),
    constraint refund_return_id_is_used_once unique (return_id, holder_id, flow),
    foreign key (transfer_id, holder_id) references transfer (id, holder_id),
    check ((flow = 'OUT') = (external_id is not null) and (external_id is null) = (fingerprint is null)),
    check ((settled_at is not null) = (status = 'RETURNED')),
    check (handed_at is null or flow = 'OUT')
);
create index refund_of_transfer on refund (transfer_id, holder_id);
create index refund_list on refund ((holder_id + 0), created_at, id);
create index refund_list_by_status on refund ((holder_id + 0), status, created_at, id);
grant select, insert on refund to pixconnect_service;
grant update (status, outcome_code, outcome_reason, handed_at, settled_at, modified_at) on refund to pixconnect_service;

-- Outgoing transfers and refunds that the rail has not ended yet: whether they were handed over, and when to look again. A row is
-- added with its transfer or refund and removed with its end; what changes in between is written here, where a row is short, and
-- not there, where each change would go into every index.
create table open_order (
    name text collate "C" primary key check (length(name) = 32 and left(name, 1) in ('E', 'D')),
    holder_id bigint not null,
    resource_id bigint not null,
    slot smallint not null check (slot between 0 and 255),
    ordered_at timestamptz not null,
    due_at timestamptz not null,
    give_up_at timestamptz not null,
    handed_at timestamptz,
    asked_count integer not null default 0,
    constraint only_handed_order_is_asked_about check (asked_count = 0 or handed_at is not null)
) with (fillfactor = 70);
create index open_order_due on open_order (due_at, slot);
grant select, insert, delete on open_order to pixconnect_service;
-- An order ends with its transfer or refund, and what was handed over is never cancelled.
create function check_ended_orders() returns trigger language plpgsql as $$
declare
    misfit text;
begin
    select ended_order.name into misfit from ended_order
    left join pixconnect.transfer on left(name, 1) = 'E' and transfer.id = resource_id
        and transfer.holder_id = ended_order.holder_id
    left join pixconnect.refund on left(name, 1) = 'D' and refund.id = resource_id and refund.holder_id = ended_order.holder_id
    where coalesce(transfer.status, refund.status, 'PROCESSING') = 'PROCESSING'
        or coalesce(transfer.handed_at, refund.handed_at) is distinct from ended_order.handed_at
    limit 1;
    if found then
        raise exception 'the order % ends otherwise than what was ordered', misfit
            using errcode = 'integrity_constraint_violation', constraint = 'order_ends_with_what_was_ordered';
    end if;
    return null;
end $$;
create trigger check_ended after delete on open_order
    referencing old table as ended_order for each statement execute function check_ended_orders();
grant update (due_at, give_up_at, handed_at, asked_count) on open_order to pixconnect_service;

-- How many charges, transfers and refunds of a status a holder has, by the hour in which they were created. Write groups only
-- add rows to tally_change, so that two of them never wait for each other; housekeeping folds these into tally. A list's total
-- is the sum of whole hours from both, and a count of the two hours at its edges. What a holder has sent ("spent") is summed in
-- the same way, in cents.
create table tally (
    holder_id bigint not null references holder,
    kind text not null check (kind in ('charge', 'transfer', 'refund', 'spent')),
    status text not null,
    hour timestamptz not null,
    count bigint not null,
    primary key (holder_id, kind, status, hour)
) with (fillfactor = 70);
create table tally_change (
    holder_id bigint not null,
    kind text not null,
    status text not null,
    hour timestamptz not null,
    change bigint not null
);
create index tally_change_list on tally_change (holder_id, kind, status, hour) include (change);
grant select, insert, update on tally to pixconnect_service;
grant select, insert, delete on tally_change to pixconnect_service;
