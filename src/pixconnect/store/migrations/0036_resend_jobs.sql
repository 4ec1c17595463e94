-- Sending many deliveries of a holder again, as a job: it goes on after whoever worked on it was killed, from where it was.

create table resend_job (
    id bigint generated always as identity primary key,
    holder_id bigint not null references holder,
    asked_by text not null check (length(asked_by) between 1 and 255),
    -- What is sent again: nothing of another holder, and nothing that was made after the job.
    endpoint_id bigint,
    statuses text[] not null check (cardinality(statuses) > 0 and statuses <@ array['pending', 'delivered', 'failed']),
    event_types text[] not null, -- none is all
    initial_at timestamptz not null,
    final_at timestamptz not null,
    status text not null check (status in ('running', 'done', 'cancelled')),
    expected_count bigint not null check (expected_count >= 0),
    looked_at_count bigint not null default 0,
    resent_count bigint not null default 0,
    -- Everything up to here was looked at: endpoint by endpoint, each from its oldest delivery on.
    at_endpoint_id bigint not null default 0,
    at_instant timestamptz,
    at_id bigint not null default 0,
    created_at timestamptz not null,
    ended_at timestamptz,
    check ((status = 'running') = (ended_at is null))
) with (fillfactor = 70);
create unique index resend_job_is_one_at_a_time on resend_job (holder_id) where status = 'running';
create index resend_job_of_holder on resend_job (holder_id, id);
grant select, insert on resend_job to pixconnect_service;
grant update (status, looked_at_count, resent_count, at_endpoint_id, at_instant, at_id, ended_at) on resend_job
    to pixconnect_service;
