"""The rules of what is counted as it is written, and must be what a count says."""

from __future__ import annotations

from typing import Final

from pixconnect.domain.proof.rule import Rule

_RECOUNT: Final = "no money is wrong; lists say another number than they show, and limits count it: tell the developers"

# Totals are written by triggers and summed up later: notes that wait are counted with what they will be added to.
TOTALS: Final = (
    Rule(
        name="totals_are_true",
        says="totals of charges, transfers, refunds, locations and money spent are what a count says",
        broken="""
            select holder_id, array[kind, status, hour::text] as ids, sum(counted)::bigint::text as expected,
                sum(noted)::bigint::text as found, hour as since
            from (
                select holder_id, 'charge' as kind, status, date_trunc('hour', created_at, 'UTC') as hour, 1 as counted,
                    0 as noted
                from charge where holder_id between $1 and $2
                union all
                select holder_id, 'charge_due', status, date_trunc('hour', created_at, 'UTC'), 1, 0 from charge
                where holder_id between $1 and $2 and due_on is not null
                union all
                select holder_id, 'transfer', status, date_trunc('hour', created_at, 'UTC'), 1, 0 from transfer
                where holder_id between $1 and $2
                union all
                select holder_id, 'refund', status, date_trunc('hour', created_at, 'UTC'), 1, 0 from refund
                where holder_id between $1 and $2
                union all
                select holder_id, 'location', status, date_trunc('hour', created_at, 'UTC'), 1, 0 from location
                where holder_id between $1 and $2
                union all
                select holder_id, 'spent', 'OUT', date_trunc('hour', created_at, 'UTC'), amount_cents, 0 from transfer
                where holder_id between $1 and $2 and direction = 'OUT' and status in ('PROCESSING', 'CONFIRMED', 'RETURNED')
                union all
                select holder_id, kind, status, hour, 0, count from tally where holder_id between $1 and $2
                union all
                select holder_id, kind, status, hour, 0, change from tally_change where holder_id between $1 and $2
            ) as counted
            group by holder_id, kind, status, hour
            having sum(counted) <> sum(noted)
        """,
        is_of_whole_runs=True,
        meaning="a row was lost or invented and its total was not, or the total was written by hand",
        todo=_RECOUNT,
    ),
    Rule(
        name="hours_of_received_are_true",
        says="the number of Pix received in an hour is what a count says",
        broken="""
            select holder_id, array[hour::text] as ids, coalesce(counted, 0)::text as expected,
                coalesce(noted, 0)::text as found, hour as since
            from (
                select holder_id, hour, count as noted from received_hour where holder_id between $1 and $2
            ) as noted
            -- An hour before what is known that is not there had none.
            full join (
                select transfer.holder_id, date_trunc('hour', settled_at, 'UTC') as hour, count(*) as counted
                from transfer join received_known using (holder_id)
                where holder_id between $1 and $2 and direction = 'IN' and settled_at < until
                group by 1, 2
            ) as counted using (holder_id, hour)
            where coalesce(counted, 0) <> coalesce(noted, 0)
        """,
        is_of_whole_runs=True,
        meaning="a payment was lost, invented or dated anew, or the hour was written by hand",
        todo=_RECOUNT,
    ),
    Rule(
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
        todo=_RECOUNT,
    ),
)
