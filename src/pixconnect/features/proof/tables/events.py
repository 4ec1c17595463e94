"""Rules of events and the feed, as far back as they are kept.

Events are dropped by whole partitions: the rules ignore those older than the oldest kept partition.
"""

from functools import partial
from typing import Final

from pixconnect.kernel.rules.proof import Rule

_rule: Final = partial(
    Rule, todo="no money is wrong; inform the receivers of events by other means: `pixconnect operator endpoint replay`"
)

EVENTS: Final = (
    _rule(
        name="states_have_their_events",
        says="every state of a transfer, refund or charge has exactly one event, in order, and an end has its event's instant",
        # No index leads from a transfer to its events. Separate look-ups would each read all of the holder's later events, so
        # that a day's work would be quadratic. So a slice's events are read once and grouped by resource.
        broken=r"""
            with changed as (
                select 'transfer' as resource, id, holder_id, created_at, modified_at, settled_at,
                    format('transfer.%1$s.processing', lower(direction)) || case when status <> 'PROCESSING' then
                        format(' transfer.%s.%s', lower(direction), case when settled_at is null then 'error' else 'confirmed'
                        end) else '' end as wanted
                from {transfers} as transfer
                union all
                select 'refund', id, holder_id, created_at, modified_at, settled_at,
                    format('refund.%1$s.processing', lower(flow)) || case when status <> 'PROCESSING' then
                        format(' refund.%s.%s', lower(flow), case status when 'RETURNED' then 'returned' else 'error' end)
                    else '' end
                from {refunds} as refund
                union all
                -- One that had expired is pending again when the standard's door gives it more time.
                select 'charge', id, holder_id, created_at, modified_at, null, '(qrcode.pending qrcode.expired )*' || case
                    when status = 'PENDING' then 'qrcode.pending'
                    -- At an institution it may be paid after it has expired here.
                    when status in ('APPROVED', 'RETURNED') and institution_id is not null
                        then 'qrcode.pending (qrcode.expired )?qrcode.approved'
                    when status in ('APPROVED', 'RETURNED') then 'qrcode.pending qrcode.approved'
                    else 'qrcode.pending qrcode.expired'
                end
                from {charges} as charge
            )
            select holder_id, array[resource || ' ' || id] as ids, concat_ws(' at ', wanted, settled_at) as expected,
                concat_ws(' at ', names, announced_at) as found, modified_at as since
            from (
                select resource, holder_id, id, min(wanted) as wanted, min(created_at) as created_at,
                    min(modified_at) as modified_at, min(settled_at) as settled_at, min(announced_at) as announced_at,
                    string_agg(name, ' ' order by event_id) as names
                from (
                    select *, null as name, null::bigint as event_id, null::timestamptz as announced_at from changed
                    union all
                    select resource, resource_id, holder_id, null, null, null, null, name, id,
                        case when name ~ '\.(confirmed|returned)$' then created_at end
                    from event
                    where holder_id between $1 and $2
                        and name ~ ('^(qrcode\.(pending|approved|expired)|transfer\.(in|out)\.(processing|confirmed|error)'
                            || '|refund\.(in|out)\.(processing|returned|error))$')
                ) as listed
                group by resource, holder_id, id
            ) as told
            where created_at >= {kept_since} and coalesce(names, '') !~ ('^' || replace(wanted, '.', '\.') || '$')
                or settled_at <> announced_at or settled_at < created_at and {runs_on}
        """,
        meaning="an event was lost, invented or redated, or a state was: receivers of events have another state",
    ),
    _rule(
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
    ),
    _rule(
        name="notices_have_their_cause",
        says="a transfer that began to wait has one event of that; a diverged payment, movement and adjustment one at most",
        broken="""
            select holder_id, array[resource || ' ' || resource_id, name] as ids, coalesce(waits.times, 1)::text as expected,
                coalesce(told.times, 0)::text as found, coalesce(created_at, since) as since
            from (
                select holder_id, resource, resource_id, name, count(*) as times, min(created_at) as created_at from event
                where holder_id between $1 and $2
                    and (resource in ('movement', 'adjustment') or name in ('charge.diverged', 'transfer.out.waiting'))
                group by holder_id, resource, resource_id, name
            ) as told
            full join (
                select holder_id, 'transfer' as resource, transfer_id as resource_id, 'transfer.out.waiting' as name,
                    count(*) as times, min(since) as since
                from (
                    select holder_id, transfer_id, since from waiting_order {parts}
                ) as each
                where holder_id between $1 and $2 group by holder_id, transfer_id
            ) as waits using (holder_id, resource, resource_id, name)
            where not case name
                when 'transfer.out.waiting'
                    then coalesce(told.times, 0) = coalesce(waits.times, 0) or coalesce(since < {kept_since}, false)
                when 'charge.diverged' then told.times = 1 and exists (
                    select from transfer where id = resource_id and transfer.holder_id = told.holder_id
                        and direction = 'IN' and (institution_id is not null or is_book)
                )
                when 'movement.posted' then told.times = 1 and exists (
                    select from movement where coalesce(entry_id, deficit_entry_id) = resource_id
                        and movement.holder_id = told.holder_id and status = 'POSTED' and amount_cents > 0
                )
                when 'adjustment.posted' then told.times = 1 and exists (
                    select from adjustment
                    where id = resource_id and adjustment.holder_id = told.holder_id and account = 'available'
                )
                -- Movements and adjustments have no other events.
                else false
            end
        """,
        meaning="the event was invented or lost, or its contents were written by hand",
    ),
    _rule(
        name="event_agrees_with_its_fact",
        says="an event is of something of its holder, and says its own name and instant, and the id, names and amount of that",
        broken="""
            select event.holder_id, array['event ' || event.id, resource || ' ' || resource_id] as ids,
                format('%s %s', event.name, coalesce(transfer.amount_cents, refund.amount_cents)) as expected,
                format('%s %s %s', body ->> 'name', payload ->> 'id', payload ->> 'amount') as found, event.created_at as since
            from (
                select id, holder_id, event.name, resource, resource_id, created_at, told.body,
                    told.body -> 'payload' as payload
                -- Read once, however often it is looked into.
                from event cross join lateral (select event.body::jsonb as body offset 0) as told
                where holder_id between $1 and $2
            ) as event
            left join transfer on resource = 'transfer' and transfer.id = resource_id and transfer.holder_id = event.holder_id
            left join refund on resource = 'refund' and refund.id = resource_id and refund.holder_id = event.holder_id
            left join charge on resource = 'charge' and charge.id = resource_id and charge.holder_id = event.holder_id
            where (body ->> 'id')::bigint <> event.id or body ->> 'name' <> event.name
                or (body ->> 'create_timestamp')::timestamptz <> event.created_at or (payload ->> 'id')::bigint <> resource_id
                or (payload ->> 'amount')::bigint <> coalesce(transfer.amount_cents, refund.amount_cents)
                or payload ->> 'end_to_end_id' not in (transfer.end_to_end_id, transfer.network_id)
                or payload ->> 'return_identification' not in (refund.return_id, refund.network_id)
                or event.name like 'qrcode.%' and payload ->> 'transaction_identification' <> charge.txid
                or coalesce(transfer.id, refund.id, charge.id) is null and not exists (
                    select from (
                        select null::text as resource, null::bigint as id, null::bigint as holder_id where false {parts}
                    ) as fact
                    where fact.resource = event.resource and fact.id = resource_id and fact.holder_id = event.holder_id
                )
        """,
        is_of_whole_runs=True,
        meaning="the event was invented or moved, or its fact was lost: it announced another payment than the real one",
    ),
    _rule(
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
    ),
    _rule(
        name="feed_keeps_order",
        says="the events of one resource stand in the feed in the order in which they happened",
        broken="""
            select holder_id, array['event ' || event_id, resource || ' ' || resource_id] as ids,
                'before event ' || event_before_id as expected, 'behind it' as found, created_at as since
            from (
                select event.holder_id, event.id as event_id, resource, resource_id, created_at, max(event.id) over (
                    partition by event.holder_id, resource, resource_id order by position, place
                    rows between unbounded preceding and 1 preceding
                ) as event_before_id
                from event_feed cross join unnest(event_ids) with ordinality as listed (event_id, place)
                join event on event.id = event_id and event.holder_id = event_feed.holder_id
                where event_feed.holder_id between $1 and $2
            ) as fed
            where event_id < event_before_id
        """,
        is_of_whole_runs=True,
        meaning="the feed was written by hand: a reader takes an earlier state for the present one",
    ),
)
