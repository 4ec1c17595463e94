"""The rules of what is counted as it is written, and must be what a count says."""

from __future__ import annotations

from functools import partial
from typing import Final

from pixconnect.domain.proof.rule import Rule

_rule: Final = partial(
    Rule, todo="no money is wrong; lists say another number than they show, and limits count it: tell the developers"
)

# Totals are written by triggers and summed up later: notes that wait are counted with what they will be added to.
TOTALS: Final = (
    _rule(
        name="totals_are_true",
        says="totals of charges, transfers, refunds, locations, money spent and Pix received are what a count says",
        broken="""
            select holder_id, array[kind, status, hour::text] as ids, sum(counted)::bigint::text as expected,
                sum(noted)::bigint::text as found, hour as since
            from (
                select holder_id, kind, status, date_trunc('hour', at, 'UTC') as hour, counted, 0 as noted
                from (
                    select holder_id, 'charge' as kind, status, created_at as at, 1 as counted from charge
                    union all select holder_id, 'charge_due', status, created_at, 1 from charge where due_on is not null
                    union all select holder_id, 'transfer', status, created_at, 1 from transfer
                    union all select holder_id, 'refund', status, created_at, 1 from refund
                    union all select holder_id, 'location', status, created_at, 1 from location
                    union all select holder_id, 'spent', 'OUT', created_at, amount_cents from transfer
                    where direction = 'OUT' and status in ('PROCESSING', 'CONFIRMED', 'RETURNED')
                    -- An hour before what is known that is not there had none.
                    union all select holder_id, 'received', 'IN', settled_at, 1
                    from transfer join received_known using (holder_id) where direction = 'IN' and settled_at < until
                ) as made
                union all select holder_id, kind, status, hour, 0, count from tally
                union all select holder_id, kind, status, hour, 0, change from tally_change
                union all select holder_id, 'received', 'IN', hour, 0, count from received_hour
            ) as listed
            where holder_id between $1 and $2
            group by holder_id, kind, status, hour
            having sum(counted) <> sum(noted)
        """,
        is_of_whole_runs=True,
        meaning="a row was lost, invented or dated anew and its total was not, or the total was written by hand",
    ),
    _rule(
        name="totals_of_events_are_true",
        says="totals of events and deliveries are what a count says, as far back as events are kept",
        broken="""
            with edge as (
                select coalesce(max(end_id), 0) as first_id, parent from event_partition
                where detached_at is not null group by parent
            ),
            counted as (
                select 'event' as kind, holder_id as owner_id, 'made' as status,
                    date_trunc('hour', created_at, 'UTC') as hour, 1 as counted, 0 as noted
                from event
                union all
                select 'delivery', endpoint_id, 'made', date_trunc('hour', created_at, 'UTC'), 1, 0 from delivery
                union all
                select 'delivery', endpoint_id, status, date_trunc('hour', created_at, 'UTC'), 1, 0 from delivery
                where status <> 'pending'
                union all select kind, owner_id, status, hour, 0, count from webhook_tally
                union all select kind, owner_id, status, hour, 0, change from webhook_tally_change
            )
            select case kind when 'event' then owner_id
                    else (select holder_id from webhook_endpoint where id = owner_id) end as holder_id,
                array[kind, owner_id::text, status, hour::text] as ids,
                sum(counted)::bigint::text as expected, sum(noted)::bigint::text as found, hour as since
            from counted
            where not exists (select from edge)
            group by kind, owner_id, status, hour
            having sum(counted) <> sum(noted)
        """,
        of="installation",
        is_of_whole_runs=True,
        meaning="an event or a delivery was lost or invented, or the total was written by hand",
    ),
)
