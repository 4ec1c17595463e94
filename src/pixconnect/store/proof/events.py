"""The rules of events, of the feed and of deliveries, as far back as they are kept."""

from __future__ import annotations

from typing import Final, LiteralString

from pixconnect.domain.proof.rule import Rule

_RESEND: Final = (
    "no money is wrong; who is told by events has to be told otherwise: `pixconnect operator endpoint replay`"
)

# No index leads from a transfer to its events. Looked for one by one, each would read all that its holder was told since then:
# a day's work would grow with its square. So a slice's events are read once, and gathered with what they are asked for.
_TOLD: Final[LiteralString] = """(
                select holder_id, id, array_agg(name order by event_id) filter (where name is not null) as names
                from (
                    select holder_id, id, null as name, null::bigint as event_id, true as is_asked from {rows} as changed
                    where created_at >= {kept_since}
                    union all
                    select holder_id, resource_id, name, id, null from event
                    where holder_id between $1 and $2 and resource = '{resource}' {names}
                ) as listed
                group by holder_id, id having count(is_asked) > 0
            )"""
_STATES_OF_TRANSFERS: Final[LiteralString] = """and name in (
                        'transfer.in.processing', 'transfer.in.confirmed', 'transfer.in.error',
                        'transfer.out.processing', 'transfer.out.confirmed', 'transfer.out.error'
                    )"""
_TOLD_OF: Final = {
    resource: _TOLD.replace("{rows}", rows).replace("{resource}", resource).replace("{names}", names)
    for resource, rows, names in (
        ("transfer", "{transfers}", _STATES_OF_TRANSFERS),
        ("refund", "{refunds}", ""),
        ("charge", "{charges}", ""),
    )
}
# Events are dropped by whole partitions: what is older than the edge is not judged, and not missed either.
EVENTS: Final = (
    Rule(
        name="transfer_has_its_events",
        says="every state of a transfer has exactly one event, in order",
        broken="""
            select transfer.holder_id, array['transfer ' || transfer.id] as ids, array_to_string(wanted.names, ' ') as expected,
                array_to_string(told.names, ' ') as found, transfer.modified_at as since
            from {told} as told
            join transfer on transfer.id = told.id and transfer.holder_id = told.holder_id
            cross join lateral (
                select case when status = 'PROCESSING' then array['transfer.' || lower(direction) || '.processing']
                    else array[
                        'transfer.' || lower(direction) || '.processing',
                        'transfer.' || lower(direction) || case when settled_at is null then '.error' else '.confirmed' end
                    ] end as names
            ) as wanted
            where told.names is distinct from wanted.names
        """.replace("{told}", _TOLD_OF["transfer"]),
        meaning="an event was lost or invented: who is told by events knows another state",
        todo=_RESEND,
    ),
    Rule(
        name="payer_known_later_has_its_event",
        says="a payment has an event of its payer if that became known later, and once",
        broken="""
            select transfer.holder_id, array['transfer ' || transfer.id] as ids,
                (completion.transfer_id is not null)::int::text as expected, told.times::text as found,
                transfer.modified_at as since
            from {transfers} as transfer
            left join payer_completion as completion on completion.transfer_id = transfer.id
                and completion.holder_id = transfer.holder_id
            cross join lateral (
                select count(*) as times from event
                where event.resource = 'transfer' and resource_id = transfer.id and event.holder_id = transfer.holder_id
                    and name = 'transfer.in.completed'
            ) as told
            where transfer.direction = 'IN' and transfer.institution_id is not null
                and transfer.created_at >= {kept_since} and (
                    (completion.transfer_id is not null)::int <> told.times or completion.before = transfer.counterparty
                )
        """,
        meaning="the payer was written by hand, or an event was lost or invented",
        todo=_RESEND,
    ),
    Rule(
        name="waiting_transfer_is_told_once",
        says="a transfer that began to wait for an operator, or for a person at its institution, has one event of each",
        broken="""
            select told.holder_id, array['transfer ' || told.id] as ids, sum(told.waits)::text as expected,
                sum(told.times)::text as found, min(told.since) as since
            from (
                select holder_id, resource_id as id, count(*) as times, 0 as waits, min(created_at) as since from event
                where holder_id between $1 and $2 and name = 'transfer.out.waiting' group by holder_id, resource_id
                union all
                select holder_id, transfer_id, 0, 1, since from waiting_order
                where holder_id between $1 and $2 and since >= {kept_since}
                union all
                select holder_id, transfer_id, 0, 1, since from pending_approval
                where holder_id between $1 and $2 and since >= {kept_since}
            ) as told
            group by told.holder_id, told.id having sum(told.waits) <> sum(told.times)
        """,
        meaning="the event, or what it tells, was written by hand or lost",
        todo=_RESEND,
    ),
    Rule(
        name="diverged_payment_is_told_once",
        says="a payment has one event at most of how it differs from its charge, and only at an institution",
        broken="""
            select told.holder_id, array['event ' || told.id] as ids, '1' as expected, told.times::text as found,
                told.created_at as since
            from (
                select holder_id, resource_id, min(id) as id, min(created_at) as created_at, count(*) as times
                from event where holder_id between $1 and $2 and name = 'charge.diverged' group by holder_id, resource_id
            ) as told
            left join transfer on transfer.id = told.resource_id and transfer.holder_id = told.holder_id
                and transfer.direction = 'IN' and (transfer.institution_id is not null or transfer.is_book)
            where told.times <> 1 or transfer.id is null
        """,
        meaning="an event was invented, or its payment was lost",
        todo=_RESEND,
    ),
    Rule(
        name="refund_has_its_events",
        says="every state of a refund has exactly one event, in order",
        broken="""
            select refund.holder_id, array['refund ' || refund.id] as ids, array_to_string(wanted.names, ' ') as expected,
                array_to_string(told.names, ' ') as found, refund.modified_at as since
            from {told} as told
            join refund on refund.id = told.id and refund.holder_id = told.holder_id
            cross join lateral (
                select case when status = 'PROCESSING' then array['refund.' || lower(flow) || '.processing']
                    else array[
                        'refund.' || lower(flow) || '.processing',
                        'refund.' || lower(flow) || case status when 'RETURNED' then '.returned' else '.error' end
                    ] end as names
            ) as wanted
            where told.names is distinct from wanted.names
        """.replace("{told}", _TOLD_OF["refund"]),
        meaning="an event was lost or invented: who is told by events knows another state",
        todo=_RESEND,
    ),
    Rule(
        name="charge_has_its_events",
        says="every state of a charge has exactly one event, in order",
        broken=r"""
            select charge.holder_id, array['charge ' || charge.id] as ids, charge.status as expected, told.names as found,
                charge.modified_at as since
            from (select holder_id, id, array_to_string(names, ' ') as names from {told} as told) as told
            join charge on charge.id = told.id and charge.holder_id = told.holder_id
            -- One that had expired is pending again when the standard's door gives it more time.
            where told.names is null or told.names !~ ('^(qrcode.pending qrcode.expired )*' || case
                when status = 'PENDING' then 'qrcode.pending$'
                -- At an institution it may be paid after it has expired here.
                when status in ('APPROVED', 'RETURNED') and institution_id is not null
                    then 'qrcode.pending (qrcode.expired )?qrcode.approved$'
                when status in ('APPROVED', 'RETURNED') then 'qrcode.pending qrcode.approved$'
                else 'qrcode.pending qrcode.expired$'
            end)
        """.replace("{told}", _TOLD_OF["charge"]),
        meaning="an event was lost or invented: who is told by events knows another state",
        todo=_RESEND,
    ),
    Rule(
        name="event_has_its_fact",
        says="each event is of a charge, transfer, refund, movement, adjustment or infraction of its holder",
        broken="""
            select event.holder_id, array['event ' || event.id] as ids, event.resource || ' ' || resource_id as expected,
                null as found, event.created_at as since
            from (select * from event where holder_id between $1 and $2) as event
            where not case resource
                when 'charge' then exists (
                    select from charge where charge.id = resource_id and charge.holder_id = event.holder_id
                )
                when 'transfer' then exists (
                    select from transfer where transfer.id = resource_id and transfer.holder_id = event.holder_id
                )
                when 'refund' then exists (
                    select from refund where refund.id = resource_id and refund.holder_id = event.holder_id
                )
                when 'adjustment' then exists (
                    select from adjustment where adjustment.id = resource_id and adjustment.holder_id = event.holder_id
                )
                when 'infraction' then exists (
                    select from infraction where infraction.id = resource_id and infraction.holder_id = event.holder_id
                )
                else exists (
                    select from movement
                    where resource_id in (entry_id, deficit_entry_id) and movement.holder_id = event.holder_id
                )
            end
        """,
        is_of_whole_runs=True,
        meaning="the event was invented or moved to another holder, or what it is of was lost",
        todo=_RESEND,
    ),
    Rule(
        name="feed_has_each_event_once",
        says="each event stands once in the feed of its holder",
        broken="""
            with fed as (
                select event_feed.holder_id, event_id from event_feed cross join unnest(event_ids) as event_id
                where event_feed.holder_id between $1 and $2
            )
            select coalesce(fed.holder_id, event.holder_id) as holder_id,
                array['event ' || coalesce(fed.event_id, event.id)] as ids, '1' as expected, count(fed.event_id)::text as found,
                min(event.created_at) as since
            from fed
            full join (
                select id, holder_id, created_at from event
                where holder_id between $1 and $2 and id <= (select settled_id from event_feed_state)
                    and id >= {feed_from}
            ) as event on event.id = fed.event_id and event.holder_id = fed.holder_id
            where fed.event_id is null or event.id is not null
                or fed.event_id between {feed_from} and (select settled_id from event_feed_state)
            group by 1, coalesce(fed.event_id, event.id)
            having count(fed.event_id) <> 1 or count(event.id) = 0
        """,
        is_of_whole_runs=True,
        meaning="who reads the feed misses an event, or reads one twice, or another holder's",
        todo=_RESEND,
    ),
    Rule(
        name="delivery_agrees_with_event",
        says="a delivery tells of an event of its endpoint's holder",
        broken="""
            select delivery.holder_id, array['delivery ' || delivery.id] as ids,
                format('%s %s %s', event.holder_id, event.resource, event.resource_id) as expected,
                format('%s %s %s', delivery.holder_id, delivery.resource, delivery.resource_id) as found,
                delivery.created_at as since
            from (select * from delivery where holder_id between $1 and $2) as delivery
            left join event on event.id = delivery.event_id and event.holder_id = delivery.holder_id
            where delivery.created_at >= {kept_since} and (
                event.id is null
                -- What a key's webhook is told goes by its endpoint and its payment.
                or delivery.resource <> 'pix' and (delivery.slot, delivery.resource, delivery.resource_id)
                    <> (event.slot, event.resource, event.resource_id)
                or exists (
                    select from webhook_endpoint
                    where webhook_endpoint.id = endpoint_id and webhook_endpoint.holder_id <> coalesce(
                        (select successor_id from holder where holder.id = delivery.holder_id), delivery.holder_id
                    )
                )
            )
        """,
        is_of_whole_runs=True,
        meaning="one holder may be told of what is another's",
        todo="set the endpoint inactive, and look at whom it belongs to: `pixconnect endpoint show ID`",
    ),
    Rule(
        name="delivery_counts_its_attempts",
        says="a delivery has the attempts that it counts",
        broken="""
            select delivery.holder_id, array['delivery ' || delivery.id] as ids, attempts_count::text as expected,
                attempted::text as found, delivery.modified_at as since
            from (select * from delivery where holder_id between $1 and $2) as delivery
            cross join lateral (
                select count(*) as attempted from delivery_attempt where delivery_id = delivery.id
            ) as made
            where attempts_count <> attempted and covered_by is null
                or status = 'delivered' and attempts_count = 0 and covered_by is null
        """,
        is_of_whole_runs=True,
        meaning="an attempt was lost or invented, or the delivery was written by hand",
        todo=_RESEND,
    ),
    Rule(
        name="covered_delivery_follows_its_first",
        says="no delivery waits for a body that will not be sent",
        broken="""
            select delivery.holder_id, array['delivery ' || delivery.id, 'delivery ' || delivery.covered_by] as ids,
                first.status as expected, delivery.status as found, delivery.created_at as since
            from (select * from delivery where holder_id between $1 and $2 and covered_by is not null) as delivery
            left join delivery as first on first.id = delivery.covered_by
            where first.id is null or delivery.status = 'pending' and first.status <> 'pending'
                or delivery.id = any (first.covers) is not true
        """,
        meaning="a webhook of a key was not told of a Pix",
        todo=_RESEND,
    ),
    Rule(
        name="movement_has_its_event",
        says="a movement that moved money has one event at most, and nothing else has such",
        broken="""
            select told.holder_id, array['event ' || told.id] as ids, 'movement.posted' as expected,
                array_to_string(names, ' ') as found, told.created_at as since
            from (
                select array_agg(name) as names, min(id) as id, min(created_at) as created_at, resource_id, holder_id
                from event where holder_id between $1 and $2 and resource = 'movement' group by resource_id, holder_id
            ) as told
            left join movement on movement.holder_id = told.holder_id and status = 'POSTED' and amount_cents > 0
                and coalesce(entry_id, deficit_entry_id) = resource_id
            where movement.item_id is null or names <> array['movement.posted']
        """,
        meaning="an event was invented, or its movement was lost",
        todo=_RESEND,
    ),
    Rule(
        name="adjustment_has_its_event",
        says="an adjustment of what a holder has has one event at most, and nothing else has such",
        broken="""
            select told.holder_id, array['event ' || told.id] as ids, 'adjustment.posted' as expected,
                array_to_string(names, ' ') as found, told.created_at as since
            from (
                select array_agg(name) as names, min(id) as id, min(created_at) as created_at, resource_id, holder_id
                from event where holder_id between $1 and $2 and resource = 'adjustment' group by resource_id, holder_id
            ) as told
            left join adjustment on adjustment.holder_id = told.holder_id and adjustment.id = resource_id
                and account = 'available'
            where adjustment.id is null or names <> array['adjustment.posted']
        """,
        meaning="an event was invented, or its adjustment was lost",
        todo=_RESEND,
    ),
)
