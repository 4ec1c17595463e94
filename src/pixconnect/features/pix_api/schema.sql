-- Rows that the central bank's API has beside charges.

create table charge_revision (
    charge_id bigint not null,
    holder_id bigint not null,
    revision integer not null,
    contents text not null,
    next_digest bytea not null,
    constraint charge_revision_pkey primary key (charge_id, holder_id, revision),
    constraint charge_revision_revision_check check (revision >= 0)
);
comment on table charge_revision is 'The contents of a charge before each change of them.';
comment on column charge_revision.charge_id is 'The charge.';
comment on column charge_revision.holder_id is 'The holder of the charge.';
comment on column charge_revision.revision is 'Which revision the contents were, from 0.';
comment on column charge_revision.contents is 'The contents, as JSON.';
comment on column charge_revision.next_digest is 'SHA-256 of the contents that took their place.';
create trigger check_new after insert on charge_revision for each row execute function check_revisions();
grant insert, select on table charge_revision to pixconnect_service;

create sequence location_id increment 512 maxvalue 35184372088831;
grant usage on sequence location_id to pixconnect_service;

create table location (
    id bigint not null,
    holder_id bigint not null,
    token text collate "C" not null,
    status text not null,
    charge_id bigint,
    created_at timestamp with time zone not null,
    constraint location_pkey primary key (id),
    constraint location_of_charge unique (charge_id, holder_id) deferrable,
    constraint location_token_is_used_once unique (token),
    constraint location_id_check check (id >= 1 and id <= 9007199254740991),
    constraint location_is_bound_to_a_charge check ((charge_id is not null) = (status in ('COB_BOUND', 'COBV_BOUND'))),
    constraint location_status_check check (status in ('COB_FREE', 'COB_BOUND', 'COBV_FREE', 'COBV_BOUND')),
    constraint location_token_check check (token ~ '^[a-zA-Z0-9]{22,35}$')
);
comment on table location is 'The addresses that dynamic QR codes lead to.';
comment on column location.id is 'Counts up, in blocks.';
comment on column location.holder_id is 'The holder that may bind it.';
comment on column location.token is 'The last part of its address.';
comment on column location.status is 'The kind of charge that it is for, and whether it has one.';
comment on column location.charge_id is 'The charge that it leads to; null while it is free.';
comment on column location.created_at is 'When it was made, in service time.';
create index location_list on location ((holder_id + 0), status, created_at, id);
grant insert, select, update (status, charge_id) on table location to pixconnect_service;

create table received_hour (
    holder_id bigint not null,
    hour timestamp with time zone not null,
    count bigint not null,
    constraint received_hour_pkey primary key (holder_id, hour),
    constraint received_hour_holder_id_fkey foreign key (holder_id) references holder(id)
);
comment on table received_hour is
    'How many Pix a holder received in a past hour, counted once when a list first needs it.';
comment on column received_hour.holder_id is 'The holder that received them.';
comment on column received_hour.hour is 'The hour in which they settled, in service time.';
comment on column received_hour.count is 'How many.';
grant delete, insert, select on table received_hour to pixconnect_service;

create table received_known (
    holder_id bigint not null,
    until timestamp with time zone not null,
    constraint received_known_pkey primary key (holder_id),
    constraint received_known_holder_id_fkey foreign key (holder_id) references holder(id)
);
comment on table received_known is 'Up to which hour received_hour is complete; a missing hour before it had none.';
comment on column received_known.holder_id is 'The holder.';
comment on column received_known.until is 'The hours before this instant are counted, in service time.';
grant delete, insert, select, update (until) on table received_known to pixconnect_service;
