"""The history of one charge, transfer or refund and of its related records, in one timeline.

It includes planned steps: when a charge expires, when the rail is queried again, when a webhook is sent again. A pending step
has the reason for waiting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, get_args

from msgspec import Struct, structs

from pixconnect.features.due_charges.rules.day_amount import PaidAmount
from pixconnect.features.movements.blocks import Block
from pixconnect.features.webhooks.rules.delivery import Attempt, Delivery
from pixconnect.features.webhooks.rules.endpoint import Endpoint
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.event import Event, Resource
from pixconnect.kernel.rules.ledger import LedgerEntry
from pixconnect.kernel.rules.order import OpenOrder, name_of
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer

StepKind = Literal[
    "state",  # it was made, or reached a status
    "handed",  # to the rail
    "entry",
    "event",
    "delivery",  # made when its event was sent again
    "attempt",
    "expiry",
    "give_up",
    "next_look",  # the rail is asked again
    "next_attempt",
]
"""The order of steps at the same instant."""
_RANKS: Final = {kind: rank for rank, kind in enumerate(get_args(StepKind))}

WaitingFor = Literal[
    "payment",
    "approval",
    "handover",
    "rail_answer",
    "rail_settlement",
    "institution",  # it holds a payment as suspect
    "retry",
    "given_up",  # after the last attempt: somebody must act
    "earlier_event",
    "endpoint_inactive",
    "endpoint_disabled",
    "endpoint_deleted",
    "worker",  # it is due
]


class Step(Struct, frozen=True, kw_only=True):
    at: datetime
    kind: StepKind
    subject: Resource
    subject_id: int
    is_planned: bool = False
    status: str | None = None
    code: str | None = None
    reason: str | None = None
    count: int | None = None  # number of queries of the rail; of an event, of its deliveries, if there is an endpoint
    entry: LedgerEntry | None = None
    event: Event | None = None
    delivery: Delivery | None = None
    endpoint: Endpoint | None = None  # in its present state; ``None`` if it was deleted
    attempt: Attempt | None = None


class Waiting(Struct, frozen=True, kw_only=True):
    what: WaitingFor
    subject: Resource
    subject_id: int
    since: datetime
    next_at: datetime | None = None  # when that ends at the latest, or is retried; ``None`` if nothing is planned
    count: int | None = None  # number of queries of the rail, or of sending attempts
    endpoint_id: int | None = None
    delivery_id: int | None = None
    behind_id: int | None = None  # the delivery of an earlier event, which is sent first


class Facts(Struct, frozen=True, kw_only=True):
    """The history that this visitor may see."""

    charge: Charge | None = None
    transfers: Sequence[Transfer] = ()
    refunds: Sequence[Refund] = ()
    orders: Sequence[OpenOrder] = ()
    holds: Sequence[Block] = ()  # of payments that the institution holds as suspect
    entries: Sequence[LedgerEntry] = ()
    events: Sequence[Event] = ()
    deliveries: Sequence[Delivery] = ()
    endpoints: Sequence[Endpoint] = ()
    paid: PaidAmount | None = None  # the parts of the payment of a charge with a due date, once it has settled


class Timeline(Struct, frozen=True, kw_only=True):
    kind: Resource  # the kind of the requested resource
    holder_id: int
    facts: Facts
    steps: tuple[Step, ...]  # the oldest first
    waiting: tuple[Waiting, ...]
    now: datetime
    hidden: tuple[str, ...]  # scopes that would show more


def instants_of_events(facts: Facts) -> list[datetime]:
    """Return when charge, transfers and refunds reached the announced states."""
    moved: list[Charge | Transfer | Refund] = [*facts.transfers, *facts.refunds]
    if facts.charge is not None:
        moved.append(facts.charge)
    found = {instant for each in moved for instant in (each.created_at, each.modified_at)}
    return sorted(found | {each.settled_at for each in (*facts.transfers, *facts.refunds) if each.settled_at})


def lay_out(facts: Facts, now: datetime) -> tuple[Step, ...]:
    """Sort everything by time."""
    steps = [
        *_steps_of_charge(facts, now),
        *(step for ordered in (*facts.transfers, *facts.refunds) for step in _steps_of_order(ordered, facts)),
        *(_step_of_entry(entry) for entry in facts.entries),
        *_steps_of_events(facts),
    ]
    return tuple(sorted(steps, key=lambda step: (step.is_planned, step.at, _RANKS[step.kind])))


def _steps_of_charge(facts: Facts, now: datetime) -> Iterator[Step]:
    charge = facts.charge
    if charge is None:
        return
    first = Step(at=charge.created_at, kind="state", subject="charge", subject_id=charge.id, status="PENDING")
    yield first
    # It was paid when the transfer settled: later changes moved its own instant.
    paid_at = next((each.settled_at for each in facts.transfers if each.charge_id == charge.id and each.settled_at), None)
    if charge.status in {"APPROVED", "RETURNED"}:
        at = paid_at or charge.modified_at
        yield structs.replace(first, at=at, status="APPROVED")
    if charge.status not in {"PENDING", "APPROVED"}:
        yield structs.replace(first, at=charge.modified_at, status=charge.status)
    if charge.status == "PENDING" and charge.held_by is None and charge.expires_at > now:
        yield structs.replace(first, at=charge.expires_at, kind="expiry", status="EXPIRED", is_planned=True)


def _steps_of_order(ordered: Transfer | Refund, facts: Facts) -> Iterator[Step]:
    subject: Resource = "transfer" if isinstance(ordered, Transfer) else "refund"
    first = Step(at=ordered.created_at, kind="state", subject=subject, subject_id=ordered.id, status="PROCESSING")
    yield first
    order = find_order(ordered, facts.orders)
    handed_at = ordered.handed_at or (order and order.handed_at)
    if handed_at is not None:
        # The count is deleted with the order.
        asked_count = None if order is None else order.asked_count
        yield structs.replace(first, at=handed_at, kind="handed", status=None, count=asked_count)
    if ordered.settled_at is not None:
        settled = "CONFIRMED" if subject == "transfer" else "RETURNED"
        yield structs.replace(first, at=ordered.settled_at, status=settled)
    is_given_back = subject == "transfer" and ordered.status == "RETURNED"
    if is_given_back or ordered.status in {"ERROR", "CANCELLED"}:
        ended = structs.replace(first, at=ordered.modified_at, status=ordered.status)
        yield structs.replace(ended, code=ordered.outcome_code, reason=ordered.outcome_reason)
    if order is not None:
        # An order that was handed over is never given up; others are still being tried.
        at, kind = (order.give_up_at, "give_up") if handed_at is None else (order.due_at, "next_look")
        yield structs.replace(first, at=at, kind=kind, status=None, count=order.asked_count, is_planned=True)


def _step_of_entry(entry: LedgerEntry) -> Step:
    subject: Resource = "refund" if entry.cause_kind == "refund" else "transfer"
    return Step(at=entry.created_at, kind="entry", subject=subject, subject_id=entry.cause_id, entry=entry)


def _steps_of_events(facts: Facts) -> Iterator[Step]:
    endpoints = {endpoint.id: endpoint for endpoint in facts.endpoints}
    # A delivery is sent after those of its resource's earlier events.
    planned: dict[tuple[int, Resource, int], datetime] = {}
    for event in sorted(facts.events, key=lambda each: each.id):
        announced = Step(at=event.created_at, kind="event", subject=event.resource, subject_id=event.resource_id, event=event)
        deliveries = [each for each in facts.deliveries if each.event_id == event.id]
        yield structs.replace(announced, count=len(deliveries)) if facts.endpoints else announced
        for delivery in deliveries:
            step = structs.replace(announced, delivery=delivery, endpoint=endpoints.get(delivery.endpoint_id))
            if delivery.created_at != event.created_at:
                yield structs.replace(step, at=delivery.created_at, kind="delivery")
            for attempt in delivery.attempts:
                yield structs.replace(step, at=attempt.started_at, kind="attempt", attempt=attempt)
            is_sent = step.endpoint is not None and step.endpoint.status == "active"
            if delivery.due_at is not None and is_sent:
                of = (delivery.endpoint_id, event.resource, event.resource_id)
                planned[of] = max(delivery.due_at, planned.get(of, delivery.due_at))
                yield structs.replace(step, at=planned[of], kind="next_attempt", is_planned=True)


def find_order(ordered: Transfer | Refund, orders: Sequence[OpenOrder]) -> OpenOrder | None:
    is_out = (ordered.direction if isinstance(ordered, Transfer) else ordered.flow) == "OUT"
    return next((order for order in orders if order.name == name_of(ordered)), None) if is_out else None


def explain(facts: Facts, now: datetime) -> tuple[Waiting, ...]:
    return (
        *_explain_charge(facts, now),
        *(_explain_order(each, facts) for each in (*facts.transfers, *facts.refunds) if each.status == "PROCESSING"),
        *_explain_deliveries(facts, now),
    )


def _explain_charge(facts: Facts, now: datetime) -> Iterator[Waiting]:
    charge = facts.charge
    # A charge held by a payment waits with that payment.
    if charge is None or charge.status != "PENDING" or charge.held_by is not None:
        return
    waits = Waiting(what="payment", subject="charge", subject_id=charge.id, since=charge.created_at, next_at=charge.expires_at)
    is_over = charge.expires_at <= now
    yield structs.replace(waits, what="worker", since=charge.expires_at, next_at=None) if is_over else waits


def _explain_order(ordered: Transfer | Refund, facts: Facts) -> Waiting:
    subject: Resource = "transfer" if isinstance(ordered, Transfer) else "refund"
    waits = Waiting(what="rail_settlement", subject=subject, subject_id=ordered.id, since=ordered.created_at)
    hold = next((one for one in facts.holds if subject == "transfer" and one.transfer_id == ordered.id), None)
    if hold is not None:
        return structs.replace(waits, what="institution", since=hold.created_at, next_at=hold.until)
    order = find_order(ordered, facts.orders)
    if order is None:
        return waits
    if order.handed_at is None:
        what = "approval" if order.approval == "awaited" else "handover"
        return structs.replace(waits, what=what, next_at=order.give_up_at)
    return structs.replace(waits, what="rail_answer", since=order.handed_at, next_at=order.due_at, count=order.asked_count)


def _explain_deliveries(facts: Facts, now: datetime) -> Iterator[Waiting]:
    events, endpoints = {event.id: event for event in facts.events}, {each.id: each for each in facts.endpoints}
    pending = [each for each in facts.deliveries if each.due_at is not None and each.event_id in events]
    # A repeated event may have a second delivery, so the delivery's own id counts too.
    pending.sort(key=lambda each: (each.event_id, each.id))
    first_ids: dict[tuple[int, Resource, int], int] = {}
    for delivery in pending:
        event = events[delivery.event_id]
        of = (delivery.endpoint_id, event.resource, event.resource_id)
        yield explain_delivery(delivery, event, endpoints.get(delivery.endpoint_id), now, first_ids.get(of))
        first_ids.setdefault(of, delivery.id)
    newest = {(each.endpoint_id, each.event_id): each for each in sorted(facts.deliveries, key=lambda each: each.id)}
    for delivery in newest.values():
        # One that was sent again by a later delivery, or whose endpoint is gone, needs nobody.
        if delivery.status == "failed" and delivery.event_id in events and delivery.endpoint_id in endpoints:
            endpoint = endpoints[delivery.endpoint_id]
            yield explain_delivery(delivery, events[delivery.event_id], endpoint, now, None)


def explain_delivery(
    delivery: Delivery, event: Event, endpoint: Endpoint | None, now: datetime, behind_id: int | None
) -> Waiting:
    """Explain why a delivery waits, perhaps for an earlier event of its resource, or that it was given up."""
    due_at = delivery.due_at or now
    last = delivery.attempts[-1] if delivery.attempts else None
    since = delivery.created_at if last is None else last.started_at + timedelta(microseconds=last.duration_us)
    waits = Waiting(
        what="worker",
        subject=event.resource,
        subject_id=event.resource_id,
        since=max(due_at, delivery.created_at),
        count=len(delivery.attempts),
        endpoint_id=delivery.endpoint_id,
        delivery_id=delivery.id,
    )
    if endpoint is None:
        return structs.replace(waits, what="endpoint_deleted", since=since)
    if delivery.status == "failed":
        return structs.replace(waits, what="given_up", since=since)
    if endpoint.status != "active":
        what: WaitingFor = "endpoint_inactive" if endpoint.status == "inactive" else "endpoint_disabled"
        return structs.replace(waits, what=what, since=max(since, endpoint.modified_at))
    if behind_id is not None:
        return structs.replace(waits, what="earlier_event", since=since, behind_id=behind_id)
    if due_at > now:
        return structs.replace(waits, what="retry", since=delivery.created_at, next_at=due_at)
    return waits
