"""Reads the history of one charge, transfer or refund, as far as the visitor may see it.

The number of queries of the rail is kept with the order, and deleted with it. Events and deliveries are shown as long as they
are kept; for a holder's deleted endpoints, the last twenty are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct, json, structs

from pixconnect.features.due_charges.rules.day_amount import PaidAmount
from pixconnect.features.due_charges.service import find_paid_amounts
from pixconnect.features.finding import rules as timeline
from pixconnect.features.finding.rules import Facts, Timeline, Waiting
from pixconnect.features.finding.tables import timeline as timeline_store
from pixconnect.features.finding.tables.search import Found, find_charges
from pixconnect.features.identity.service.keyring import SIGNER
from pixconnect.features.movements import tables as movement_store
from pixconnect.features.webhooks.rules import endpoint as webhook_signature
from pixconnect.features.webhooks.rules.delivery import Delivery
from pixconnect.features.webhooks.rules.endpoint import ENDPOINTS_MAX, Endpoint
from pixconnect.features.webhooks.service.delivery import open_secrets
from pixconnect.features.webhooks.tables import endpoint as endpoint_store
from pixconnect.kernel.flows.context import Context, Core
from pixconnect.kernel.flows.payee import with_payee
from pixconnect.kernel.rules.access import READ_SCOPES, Viewer
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.event import Event, Resource
from pixconnect.kernel.rules.order import name_of
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import audit as audit_store
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.kernel.tables import origin as origin_store
from pixconnect.kernel.tables.audit import AuditEntry
from pixconnect.kernel.tables.clock import service_now
from pixconnect.kernel.tables.origin import AskedFact, Origin
from pixconnect.platform.base import errors
from pixconnect.platform.base.entropy import SealBroken
from pixconnect.platform.pool import Connection, Pool

_READS: Final = tuple(dict.fromkeys(READ_SCOPES.values()))


class DeliveryView(Struct, frozen=True, kw_only=True):
    delivery: Delivery
    event: Event | None  # ``None`` if it is no longer kept
    endpoint: Endpoint | None  # in its present state; ``None`` if it was deleted
    # The headers of an attempt made now; empty if there can be none, or if the visitor may not send webhooks.
    headers: tuple[tuple[str, str], ...]
    waiting: Waiting | None


async def read_timeline(context: Context, viewer: Viewer, kind: Resource, resource_id: int) -> Timeline:
    """Read the history of a charge, transfer or refund and of its related records.

    Raises:
        Forbidden: The viewer may not see this kind.
        NotFound: It does not exist, or is another holder's.
    """
    viewer.require_sight(kind)
    # One snapshot: a refund that settles between two reads would contradict the sums of its payment.
    async with context.pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        holder_id, facts = await _find(connection, viewer, kind, resource_id)
        if viewer.may_see("refund"):
            transfer_ids = [transfer.id for transfer in facts.transfers]
            facts = structs.replace(facts, refunds=await timeline_store.find_refunds(connection, holder_id, transfer_ids))
    if facts.charge is None:
        facts = structs.replace(facts, transfers=[await with_payee(context.pool, each) for each in facts.transfers])
    hidden = tuple(scope for scope in _READS if not viewer.may(scope))
    facts = structs.replace(facts, paid=await _find_paid(context.pool, facts))
    facts = await _add_what_follows(context.pool, viewer, holder_id, facts)
    now = await service_now(context.clock, context.pool)
    return Timeline(
        kind=kind,
        holder_id=holder_id,
        facts=facts,
        steps=timeline.lay_out(facts, now),
        waiting=timeline.explain(facts, now),
        now=now,
        hidden=hidden,
    )


async def _find(pool: Connection, viewer: Viewer, kind: Resource, resource_id: int) -> tuple[int, Facts]:
    """Find the charge and the transfers of a resource, and its holder."""
    whose, transfer_id, charge_id = viewer.holder_id, resource_id, resource_id
    if kind == "refund":
        refund = errors.found(await timeline_store.find_refund(pool, resource_id, whose), "id: there is no such refund")
        if not viewer.may_see("transfer"):
            return refund.holder_id, Facts(refunds=[refund])
        transfer_id, whose = refund.transfer_id, refund.holder_id
    if kind != "charge":
        transfer = errors.found(await timeline_store.find_transfer(pool, transfer_id, whose), "id: there is no such transfer")
        if transfer.charge_id is None or not viewer.may_see("charge"):
            return transfer.holder_id, Facts(transfers=[transfer])
        charge_id, whose = transfer.charge_id, transfer.holder_id
    charge = errors.found(await timeline_store.find_charge(pool, charge_id, whose), "id: there is no such charge")
    if not viewer.may_see("transfer"):
        return charge.holder_id, Facts(charge=charge)
    return charge.holder_id, Facts(charge=charge, transfers=await timeline_store.find_transfers_to(pool, charge))


async def find_refused(pool: Pool, viewer: Viewer, charges: Sequence[tuple[int, int]]) -> dict[str, Transfer]:
    """Find the newest refused payment of each of these charges, by the charge's id; of the first ten charges."""
    tried = await find_tried(pool, charges[:10]) if viewer.may_see("transfer") else []
    return {str(each.charge_id): each for each in tried if each.status == "ERROR"}


async def find_tried(pool: Pool, charges: Sequence[tuple[int, int]]) -> list[Transfer]:
    """Find the payments of these charges, and those that were held or refused for them, by the charges' ids and holders."""
    found = await find_charges(pool, charges)
    return [each for charge in found.values() for each in await timeline_store.find_transfers_to(pool, charge)]


async def _find_paid(pool: Pool, facts: Facts) -> PaidAmount | None:
    if facts.charge is None or facts.charge.due_on is None:
        return None
    # An accepted and cancelled payment has its row too, and has paid nothing.
    settled = [(transfer.id, transfer.holder_id) for transfer in facts.transfers if transfer.settled_at is not None]
    paid = await find_paid_amounts(pool, settled) if settled else {}
    return next(iter(paid.values()), None)


async def _add_what_follows(pool: Pool, viewer: Viewer, holder_id: int, facts: Facts) -> Facts:
    for each in (each for each in facts.transfers if each.status == "PROCESSING" and each.direction == "IN"):
        hold = await movement_store.find_hold(pool, each)
        facts = structs.replace(facts, holds=[*facts.holds, *([] if hold is None else [hold])])
    if names := [name_of(each) for each in (*facts.transfers, *facts.refunds) if each.status == "PROCESSING"]:
        facts = structs.replace(facts, orders=await timeline_store.find_open_orders(pool, names))
    if viewer.may_see("ledger entry"):
        entries = await timeline_store.find_ledger_entries(pool, holder_id, facts.transfers, facts.refunds)
        facts = structs.replace(facts, entries=entries)
    if not viewer.may_see("event"):
        return facts
    of: list[tuple[Resource, int]] = [
        *([] if facts.charge is None else [("charge", facts.charge.id)]),
        *(("transfer", transfer.id) for transfer in facts.transfers),
        *(("refund", refund.id) for refund in facts.refunds),
    ]
    events = await timeline_store.find_events(pool, holder_id, timeline.instants_of_events(facts), *zip(*of, strict=True))
    # Its endpoints may have moved to the holder's successor.
    endpoints, endpoint_ids = list[Endpoint](), list[int]()
    for member_id in await holder_store.list_family(pool, holder_id):
        endpoints += await endpoint_store.list_all(pool, member_id, None, ENDPOINTS_MAX)
        endpoint_ids += await endpoint_store.list_removed(pool, member_id)
    endpoint_ids += [endpoint.id for endpoint in endpoints]
    deliveries = await timeline_store.find_deliveries(pool, endpoint_ids, events)
    return structs.replace(facts, events=events, endpoints=endpoints, deliveries=deliveries)


async def read_delivery_view(context: Context, viewer: Viewer, delivery_id: int) -> DeliveryView:
    """Return a delivery with its attempts, and the headers of another attempt now."""
    viewer.require_sight("delivery")
    pool = context.pool
    delivery = errors.found(
        await timeline_store.find_delivery(pool, delivery_id, viewer.holder_id), "id: there is no such delivery"
    )
    event = await timeline_store.find_event(pool, delivery.event_id, delivery.holder_id)
    endpoint = (await endpoint_store.find_many(pool, [delivery.endpoint_id])).get(delivery.endpoint_id)
    now, waiting = await service_now(context.clock, pool), None
    if delivery.status == "pending" and event is not None:
        behind_id = (await timeline_store.find_held_back(pool, [delivery.id])).get(delivery.id)
        waiting = timeline.explain_delivery(delivery, event, endpoint, now, behind_id)
    may_send = event is not None and endpoint is not None and viewer.may("webhook.write")
    # The body for a key's webhook differs from the event's.
    is_event_sent = endpoint is not None and endpoint.pix_key is None
    is_shown = may_send and is_event_sent
    headers = await _make_headers(context, delivery, event, endpoint) if is_shown and event and endpoint else ()
    return DeliveryView(delivery=delivery, event=event, endpoint=endpoint, headers=headers, waiting=waiting)


async def _make_headers(context: Context, delivery: Delivery, event: Event, endpoint: Endpoint) -> tuple[tuple[str, str], ...]:
    await context.port(SIGNER).look_after_rest()
    real_now, body, message = context.clock.real_now(), event.body.encode(), webhook_signature.message_id(event.id)
    try:
        secrets = open_secrets(context.secret_box, endpoint, context.clock.now())
        signed = webhook_signature.jws_header(delivery.holder_id, message, int(real_now.timestamp()))
        jws = context.port(SIGNER).sign_detached(body, signed)
    # Without its secret, or without a key to sign with, an attempt would fail before it is sent.
    except (SealBroken, errors.ServiceUnavailable):
        return ()
    number = (delivery.attempts[-1].number if delivery.attempts else 0) + 1
    return tuple(webhook_signature.request_headers(secrets, message, body, jws=jws, attempt_number=number, real_now=real_now))


# The origins of resources: the requests that made them.

_FOUND_ONCE: Final = frozenset({"charge", "transfer", "refund"})
_CHANGES_MAX: Final = 20
_AN_OPERATOR: Final = "an operator"


async def find_origins(pool: Pool, found: Sequence[Found]) -> dict[tuple[str, int, int], Origin]:
    """Find the origin of each of these, by kind, id and holder; for an endpoint, that of its last change."""
    facts: list[AskedFact] = []
    origins: dict[tuple[str, int, int], Origin] = {}
    for one in found:
        if one.holder_id is None:
            continue
        if one.kind in _FOUND_ONCE:
            facts.append(AskedFact(kind=one.kind, id=int(one.id), holder_id=one.holder_id, at=one.created_at))
        elif one.kind == "endpoint":
            for newest in await list_changes(pool, int(one.id), one.holder_id, count_max=1):
                origins[one.kind, newest.id, newest.holder_id] = newest
    return origins | (await origin_store.find(pool, facts) if facts else {})


async def list_changes(pool: Pool, endpoint_id: int, holder_id: int, count_max: int = _CHANGES_MAX) -> list[Origin]:
    """List the origins of an endpoint's changes, newest first."""
    return await origin_store.list_of(pool, "endpoint", endpoint_id, holder_id, count_max)


async def find_shown(context: Context, kind: str, subject: Charge | Transfer | Refund, *, is_operator: bool) -> Origin | None:
    """Find the origin of a resource, as far as the visitor may see it."""
    fact = AskedFact(kind=kind, id=subject.id, holder_id=subject.holder_id, at=subject.created_at)
    found = (await origin_store.find(context.pool, [fact])).get((kind, subject.id, subject.holder_id))
    return None if found is None else found if is_operator else _mask(found)


class EndpointAct(Struct, frozen=True, kw_only=True):
    entry: AuditEntry
    origin: Origin | None  # of a client's request
    changed: dict[str, tuple[object, object]]  # by field, the earlier value, if it was recorded, and the new one


async def list_acts(context: Core, endpoint: Endpoint, *, is_operator: bool) -> list[EndpointAct]:
    """List what was done to an endpoint, newest first, as far as the visitor may see it; the pool may read the audit."""
    origins = {each.request_id: each for each in await list_changes(context.pool, endpoint.id, endpoint.holder_id)}
    entries = await audit_store.list_before(context.pool, None, [f"endpoint {endpoint.id}"], _CHANGES_MAX)
    acts = [
        EndpointAct(entry=each, origin=origins.get(each.request_id) if each.request_id else None, changed=_find_changed(each))
        for each in entries
    ]
    return acts if is_operator else [_mask_act(each) for each in acts]


def _find_changed(entry: AuditEntry) -> dict[str, tuple[object, object]]:
    before, after = (json.decode(each, type=dict[str, Any]) if each else {} for each in (entry.before, entry.after))
    pairs = {name: (before.get(name), value) for name, value in after.items() if name != "holder_id"}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1] and entry.verb != "endpoint add"}


def _mask_act(act: EndpointAct) -> EndpointAct:
    entry = act.entry if act.entry.request_id else structs.replace(act.entry, operator=_AN_OPERATOR)
    return structs.replace(act, entry=entry, origin=act.origin and _mask(act.origin))


def _mask(origin: Origin) -> Origin:
    # A holder sees which of its clients it was; a client does not see another's address and tokens.
    operator = None if origin.operator is None else _AN_OPERATOR
    return structs.replace(origin, jti=None, peer=None, request_id=None, operator=operator)
