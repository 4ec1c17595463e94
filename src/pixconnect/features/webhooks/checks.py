"""Proof of deliveries and of the webhooks of keys, as far back as events are kept."""

from functools import partial
from typing import Final

from pixconnect.kernel.rules.proof import Rule

_rule: Final = partial(
    Rule, todo="no money is wrong; inform the receivers of events by other means: `pixconnect operator endpoint replay`"
)

DELIVERIES: Final = (
    _rule(
        name="event_has_its_deliveries",
        says="each event has a delivery for each endpoint that wanted it, or each Pix to its key, and has not changed since",
        # Endpoints change while events are being written; if instants do not rise, the order is unknown.
        broken="""
            select event.holder_id, array['event ' || event.id, 'endpoint ' || endpoint.id] as ids, 'a delivery' as expected,
                null as found, event.created_at as since
            from (
                select id, holder_id, pix_key, event_types, only_with_txid, greatest(modified_at, (
                    select created_at from key_webhook where endpoint_id = webhook_endpoint.id
                )) as wanted_since
                from webhook_endpoint where holder_id between $1 and $2 and status = 'active' and {runs_on}
            ) as endpoint
            join event on event.holder_id = endpoint.holder_id and event.created_at > wanted_since + interval '1 minute'
                and event.created_at >= {delivered_since} and case
                    when pix_key is null then event.name = any (event_types)
                    else event.name = 'transfer.in.confirmed' and exists (
                        select from transfer where transfer.id = resource_id and transfer.holder_id = event.holder_id
                            and own_key = pix_key and (txid is not null or not only_with_txid)
                    )
                end
            where not exists (
                select from delivery where delivery.endpoint_id = endpoint.id and delivery.event_id = event.id
                    and (pix_key is not null or delivery.created_at = event.created_at)
            )
        """,
        is_of_whole_runs=True,
        meaning="a delivery was lost: its receiver was not notified, or a program still waits for a payment that has come",
    ),
    _rule(
        name="delivery_agrees_with_event",
        says="a delivery is of an event, or of a Pix to the key, of its endpoint's holder, and has the attempts that it counts",
        broken="""
            select delivery.holder_id, array['delivery ' || delivery.id] as ids,
                format('%s %s %s, %s attempts', event.holder_id, event.resource, event.resource_id, attempted) as expected,
                format('%s %s %s, %s attempts', delivery.holder_id, delivery.resource, delivery.resource_id, attempts_count)
                    as found,
                delivery.created_at as since
            from (select * from delivery where holder_id between $1 and $2) as delivery
            left join event on event.id = delivery.event_id and event.holder_id = delivery.holder_id
            left join webhook_endpoint as endpoint on endpoint.id = endpoint_id
            left join transfer on delivery.resource = 'pix' and transfer.id = delivery.resource_id
                and transfer.holder_id = delivery.holder_id
            cross join lateral (
                select count(*) as attempted from delivery_attempt where delivery_id = delivery.id
            ) as made
            where attempts_count <> attempted and covered_by is null
                or delivery.resource = 'pix' and transfer.own_key is distinct from endpoint.pix_key
                or delivery.created_at >= {kept_since} and (
                    event.id is null
                    -- A key's webhook is scheduled by its endpoint and its payment.
                    or delivery.resource <> 'pix' and (delivery.slot, delivery.resource, delivery.resource_id)
                        <> (event.slot, event.resource, event.resource_id)
                    or endpoint.holder_id <> coalesce(
                        (select successor_id from holder where holder.id = delivery.holder_id), delivery.holder_id
                    )
                )
        """,
        is_of_whole_runs=True,
        meaning="one holder may receive another's events, or an attempt was lost or invented",
        todo="deactivate the endpoint, and find its owner: `pixconnect endpoint show ID`",
    ),
    _rule(
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
        meaning="a webhook of a key missed a Pix",
    ),
    _rule(
        name="key_webhook_is_of_its_holder",
        says="the webhook of a key is of the key's holder, which counts it, and has its endpoint",
        broken="""
            select coalesce(watched.holder_id, endpoint.holder_id) as holder_id,
                array['key ' || watched.pix_key, 'endpoint ' || coalesce(endpoint_id, endpoint.id)] as ids,
                format('%s %s', watched.holder_id, watched.pix_key) as expected,
                format('%s %s %s', owned.holder_id, endpoint.holder_id, endpoint.pix_key) as found,
                coalesce(watched.created_at, endpoint.created_at) as since
            from (select * from key_webhook where holder_id between $1 and $2) as watched
            full join (
                select id, holder_id, pix_key, created_at from webhook_endpoint
                where holder_id between $1 and $2 and pix_key is not null
            ) as endpoint on endpoint.id = endpoint_id
            left join pix_key as owned on owned.key = watched.pix_key
            where (owned.holder_id, endpoint.holder_id, endpoint.pix_key)
                is distinct from (watched.holder_id, watched.holder_id, watched.pix_key)
            union all
            -- At 0 no batch looks for them, and above what there is each batch does.
            select id, array['holder ' || id], watched_count::text, key_webhooks_count::text, created_at
            from holder
            cross join lateral (select count(*) as watched_count from key_webhook where holder_id = holder.id) as watched
            where id between $1 and $2 and watched_count <> key_webhooks_count
        """,
        meaning="payments to the key are announced to another holder, or to none",
        todo="remove the webhook of the key, and have its holder set it again; the trigger `key_webhook_is_counted` counts it",
    ),
)
