"""The rules of what is told: what events say, who was to be told of them, and the webhooks of keys."""

from __future__ import annotations

from typing import Final, LiteralString

from pixconnect.domain.proof.rule import Rule

_RESEND: Final = (
    "no money is wrong; who is told by events has to be told otherwise: `pixconnect operator endpoint replay`"
)

# Deliveries are dropped by whole partitions of their own.
_DELIVERED_SINCE: Final[LiteralString] = """(
    select case
        when (select min(first_id) from event_partition where parent = 'delivery' and detached_at is null) > 1 then (
            select min(created_at) + interval '1 day'
            from (select created_at from delivery order by id limit 1000) as oldest
        )
        else '-infinity'::timestamptz
    end
)"""

NOTICES: Final = (
    Rule(
        name="event_says_what_it_is_of",
        says="an event says its own name and instant, and the id, names and amount of what it is of",
        broken="""
            select event.holder_id, array['event ' || event.id] as ids,
                format('%s %s %s', event.name, coalesce(transfer.id, refund.id, event.resource_id),
                    coalesce(transfer.amount_cents, refund.amount_cents)) as expected,
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
        """,
        is_of_whole_runs=True,
        meaning="somebody was, or would be, told another amount or of another payment than there was",
        todo=_RESEND,
    ),
    Rule(
        name="end_is_told_when_it_was",
        says="the event of an end has its instant",
        broken="""
            select holder_id, array['event ' || id] as ids, settled_at::text as expected, created_at::text as found,
                created_at as since
            from (
                select event.id, event.holder_id, event.created_at, transfer.settled_at
                from {transfers} as transfer
                join event on event.resource = 'transfer' and resource_id = transfer.id
                    and event.holder_id = transfer.holder_id
                    and event.name in ('transfer.in.confirmed', 'transfer.out.confirmed')
                union all
                select event.id, event.holder_id, event.created_at, refund.settled_at
                from {refunds} as refund
                join event on event.resource = 'refund' and resource_id = refund.id and event.holder_id = refund.holder_id
                    and event.name in ('refund.in.returned', 'refund.out.returned')
            ) as ended
            where settled_at <> created_at
        """,
        meaning="the event, or what it is of, was dated anew",
        todo=_RESEND,
    ),
    Rule(
        name="event_has_its_deliveries",
        says="each event has a delivery for each endpoint that wanted it and has not changed since",
        # Endpoints change while events are being written; where instants do not rise nobody can tell which came first.
        broken=f"""
            select event.holder_id, array['event ' || event.id, 'endpoint ' || endpoint.id] as ids, '1' as expected,
                '0' as found, event.created_at as since
            from (
                select id, holder_id, event_types, modified_at from webhook_endpoint
                where holder_id between $1 and $2 and status = 'active' and pix_key is null and {{runs_on}}
            ) as endpoint
            join event on event.holder_id = endpoint.holder_id and event.name = any (event_types)
                and event.created_at > endpoint.modified_at + interval '1 minute' and event.created_at >= {_DELIVERED_SINCE}
            left join delivery on delivery.endpoint_id = endpoint.id and delivery.event_id = event.id
                and delivery.created_at = event.created_at
            where delivery.id is null
        """,
        is_of_whole_runs=True,
        meaning="a delivery was lost: nobody was told",
        todo=_RESEND,
    ),
    Rule(
        name="key_webhook_is_of_its_holder",
        says="the webhook of a key is of the key's holder, and has its endpoint",
        broken="""
            select key_webhook.holder_id, array['key ' || pix_key, 'endpoint ' || endpoint_id] as ids,
                key_webhook.holder_id::text as expected,
                format('%s %s %s', owned.holder_id, endpoint.holder_id, endpoint.pix_key) as found,
                key_webhook.created_at as since
            from (select * from key_webhook where holder_id between $1 and $2) as key_webhook
            left join pix_key as owned on owned.key = pix_key
            left join (select id, holder_id, pix_key from webhook_endpoint) as endpoint using (pix_key)
            where (owned.holder_id, endpoint.holder_id, endpoint.id)
                is distinct from (key_webhook.holder_id, key_webhook.holder_id, endpoint_id)
            union all
            select holder_id, array['endpoint ' || id], pix_key, null, created_at
            from webhook_endpoint
            where holder_id between $1 and $2 and pix_key is not null
                and not exists (select from key_webhook where endpoint_id = webhook_endpoint.id)
        """,
        meaning="another holder is told of payments to the key, or nobody is",
        todo="remove the webhook of the key, and let its holder set it anew",
    ),
    Rule(
        name="key_webhooks_are_counted",
        says="a holder's count of webhooks of its keys is how many there are",
        broken="""
            select holder.id as holder_id, array['holder ' || holder.id] as ids, count(pix_key)::text as expected,
                key_webhooks_count::text as found, holder.created_at as since
            from (select * from holder where id between $1 and $2) as holder
            left join key_webhook on key_webhook.holder_id = holder.id
            group by holder.id, key_webhooks_count, holder.created_at having count(pix_key) <> key_webhooks_count
        """,
        meaning="at 0 the webhooks of its keys get nothing, and above what there is each batch looks for them",
        todo="count them anew as the owner, with the trigger `key_webhook_is_counted` in place",
    ),
    Rule(
        name="key_webhook_is_told",
        says="the webhook of a key is told of each Pix to the key, and of nothing else",
        broken=f"""
            select watched.holder_id, array['transfer ' || transfer.id, 'endpoint ' || endpoint.id] as ids, '1' as expected,
                '0' as found, transfer.settled_at as since
            from (select * from key_webhook where holder_id between $1 and $2 and {{runs_on}}) as watched
            join webhook_endpoint as endpoint on endpoint.id = endpoint_id and endpoint.status = 'active'
            join transfer on transfer.holder_id = watched.holder_id and direction = 'IN' and own_key = watched.pix_key
                and settled_at > greatest(endpoint.modified_at, watched.created_at) + interval '1 minute'
                and settled_at >= {_DELIVERED_SINCE} and (transfer.txid is not null or not only_with_txid)
            join event on event.holder_id = transfer.holder_id and event.resource = 'transfer'
                and event.resource_id = transfer.id and event.name = 'transfer.in.confirmed'
            left join delivery on delivery.endpoint_id = endpoint.id and delivery.event_id = event.id
            where delivery.id is null
            union all
            select delivery.holder_id, array['delivery ' || delivery.id], endpoint.pix_key, transfer.own_key,
                delivery.created_at
            from (select * from delivery where holder_id between $1 and $2 and resource = 'pix') as delivery
            join webhook_endpoint as endpoint on endpoint.id = endpoint_id
            left join transfer on transfer.id = delivery.resource_id and transfer.holder_id = delivery.holder_id
            where transfer.own_key is distinct from endpoint.pix_key
        """,
        is_of_whole_runs=True,
        meaning="a program waits for a payment that has come, or was told of one to another key",
        todo="let its owner ask for the received Pix of that time: `GET /pix`",
    ),
)
