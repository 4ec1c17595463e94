-- Who sends traces keeps beside each fact in which of them it was asked for, so that what happens to it later belongs there too,
-- whichever worker does it and however often it is killed. Nobody else has any.
alter table origin_batch add column traceparents text[];
alter table origin_batch alter column traceparents set storage external;
comment on column origin_batch.traceparents is
    'The traceparent (W3C Trace Context) of each of them, in the same order; null where no traces are sent.';
grant insert (traceparents) on origin_batch to pixconnect_service;

create or replace view origin as
    select kind, fact.id, holder_id, client_id, jti, peer, fact.request_id, operator, at, written_at, fact.traceparent
    from origin_batch cross join lateral unnest(ids, request_ids, traceparents) as fact (id, request_id, traceparent);
comment on column origin.traceparent is
    'The traceparent (W3C Trace Context) under which it was asked for; null where no traces are sent.';
