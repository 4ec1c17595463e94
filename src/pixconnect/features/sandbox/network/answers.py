"""The network's answers to orders, and its reports of them; merchants' codes, and fees.

An order is decided as it comes in, and its outcome is written together with it. A fee of a payment waits for the payment,
because the service may refuse that. A fee of a transfer is due with it, since its end is decided when it is accepted.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

import asyncpg
import msgspec
from msgspec import Struct, structs

from pixconnect.features.sandbox.network import registry, tables
from pixconnect.features.sandbox.network.behaviour import Behaviour, Faults, Message
from pixconnect.features.sandbox.network.outbox import NetworkPart, Pending, list_parts
from pixconnect.features.sandbox.network.tables import (
    Acknowledged,
    DueOrder,
    KnownOrder,
    MerchantClaim,
    NewArrival,
    NewOrder,
    Original,
)
from pixconnect.kernel.rules import rail, reject_code
from pixconnect.kernel.rules.holder import Party

FEE_TEXT: Final = "Tarifa Pix"
_DYNAMIC_TXID_MIN: Final = 26

OrderAnswer = rail.Taken | rail.Rejected | rail.NotTaken | None  # ``None`` is an answer lost on its way

_decode_report = msgspec.json.Decoder(rail.ArrivalReport).decode
_TAKEN: Final = rail.Taken()
_NOT_TAKEN: Final = rail.NotTaken()


Fee = tuple[Party, int]  # a fee of a Pix, by a rule: whom it is taken from, and the cents


class OrderGroup(Struct, frozen=True, kw_only=True):
    """Orders that came together, unwritten, and the rows written with them, by their ids."""

    orders: list[NewOrder]
    behaviours: list[Behaviour]  # the behaviour of each: by the fault rules, or else the network's usual one
    claims: dict[str, str] = {}
    fees: dict[str, Fee] = {}


def fee_id(name: str) -> str:
    """Return the item of a Pix's fee: it has one at most."""
    return f"M{name[1:]}"


def make_fee(fee: Fee, name: str, number: int, at: datetime, *, waits: bool) -> tuple[NewArrival, Pending]:
    party, cents = fee
    report = rail.MovementReport(
        report_id=fee_id(name),
        item_id=fee_id(name),
        party=party,
        kind="fee",
        direction="OUT",
        amount_cents=cents,
        end_to_end_id=name,
        description=FEE_TEXT,
        settled_at=at,
    )
    return make_arrival(report, number, at, waits_for=name if waits else None), Pending(report)


def make_arrival(report: rail.MovementReport, number: int, at: datetime, waits_for: str | None = None) -> NewArrival:
    return NewArrival(
        number=number,
        id=report.item_id,
        kind="movement_in" if report.direction == "IN" else "movement_out",
        amount_cents=report.amount_cents,
        report=msgspec.json.encode(report).decode(),
        taken_at=at,
        due_at=at,
        waits_for=waits_for,
    )


def read_orders(faults: Faults, orders: Sequence[rail.Order], latency_ms: int) -> OrderGroup:
    """Build the rows of orders; those that follow a rule count ``faults`` down, and an ordinary one takes the latency."""
    behaviours = [_treat_order(faults, order) for order in orders]
    new = [
        _make_order(order.end_to_end_id, None, order.amount_cents, order.credit_party.key, how, latency_ms)
        for order, how in zip(orders, behaviours, strict=True)
    ]
    # A code that is paid once is a dynamic one, and only those have a txid of this length. Merchants are outside.
    claims = {
        order.end_to_end_id: order.txid for order in orders if order.txid is not None and len(order.txid) >= _DYNAMIC_TXID_MIN
    }
    fees = {
        order.end_to_end_id: (order.debit_party, how.fee_cents)
        for order, how in zip(orders, behaviours, strict=True)
        if how.fee_cents is not None
    }
    return OrderGroup(orders=new, behaviours=behaviours, claims=claims, fees=fees)


def read_refunds(
    faults: Faults, orders: Sequence[rail.RefundOrder], originals: Mapping[str, Original], latency_ms: int
) -> OrderGroup:
    """As ``read_orders``; ``originals`` are the returned payments, by id."""
    behaviours = _treat_refunds(faults, orders, originals)
    new = [
        _make_order(order.return_id, order.original_end_to_end_id, order.amount_cents, None, how, latency_ms)
        for order, how in zip(orders, behaviours, strict=True)
    ]
    return OrderGroup(orders=new, behaviours=behaviours)


def _treat_order(faults: Faults, order: rail.Order) -> Behaviour:
    # Before all rules: the network rejects this itself.
    if order.amount_cents < 1:
        return Behaviour(code="AM01")
    if faults.rules:
        key, amount_cents = order.credit_party.key, order.amount_cents
        how = faults.behaviour_of(Message(operation="submit", id=order.end_to_end_id, key=key, amount_cents=amount_cents))
        if how is not None:
            return how
    return registry.behaviour_to(order.credit_party)


def _treat_refunds(faults: Faults, orders: Sequence[rail.RefundOrder], originals: Mapping[str, Original]) -> list[Behaviour]:
    left = {original.id: original.amount_cents - original.refunded_cents for original in originals.values()}
    behaviours: list[Behaviour] = []
    for order in orders:
        original = originals.get(order.original_end_to_end_id)
        key = None if original is None else original.key
        message = Message(operation="refund", id=order.return_id, key=key, amount_cents=order.amount_cents)
        how = faults.behaviour_of(message) or registry.behaviour_of_refund(order.description)
        if original is not None and how.code is None:
            if left[original.id] < order.amount_cents:
                how = structs.replace(how, code="AM09")
            elif how.arrives and not how.is_refused:
                # Orders of the same group share the remaining sum.
                left[original.id] -= order.amount_cents
        behaviours.append(how)
    return behaviours


def _make_order(
    order_id: str, original_id: str | None, amount_cents: int, key: str | None, how: Behaviour, latency_ms: int
) -> NewOrder:
    delay_ms = latency_ms if how.delay_ms is None else how.delay_ms
    # The network's own rejection does not wait, and an early outcome must overtake its answer.
    if how.is_early or how.is_rejected_at_once:
        delay_ms = 0
    is_reported = how.reports_count > 0
    return NewOrder(order_id, original_id, amount_cents, key, delay_ms, how.code, is_reported)


async def write(
    pool: asyncpg.Pool,
    kind: Literal["order", "refund"],
    now: datetime,
    arriving: dict[str, NewOrder],
    group: OrderGroup,
    numbers: Iterator[int],
) -> tuple[set[str], dict[str, NewOrder], list[tuple[NewArrival, Pending]]]:
    """Write orders, payers of merchants' codes, and fees; return the new ids, the orders as written, and the fees."""
    if not arriving:
        return set(), arriving, []
    # Without these one statement is enough, and no transaction.
    if not group.claims and not group.fees:
        return await tables.insert_orders(pool, kind, now, list(arriving.values())), arriving, []
    async with pool.acquire() as connection, connection.transaction():
        codes = await tables.find_codes(connection, list(group.claims.values()))
        arriving, paid = judge_claims(arriving, group.claims, codes)
        taken = await tables.insert_orders(connection, kind, now, list(arriving.values()))
        # An order that was known already does not pay again.
        paid = {txid: order_id for txid, order_id in paid.items() if order_id in taken}
        if paid:
            await connection.execute(tables.CLAIM_CODES, list(paid), list(paid.values()))
        settling = {order_id: arriving[order_id] for order_id in taken}
        # Of the orders that will settle, and due as they are.
        made = [
            make_fee(fee, name, next(numbers), now + timedelta(milliseconds=settling[name].delay_ms), waits=False)
            for name, fee in group.fees.items()
            if name in settling and settling[name].code is None
        ]
        if made:
            await tables.insert_arrivals(connection, [arrival for arrival, _ in made])
    return taken, arriving, made


def answer_order(
    order_id: str, how: Behaviour, arriving: dict[str, NewOrder], taken: set[str], *, is_late: bool
) -> OrderAnswer:
    if how.is_refused:
        return _NOT_TAKEN
    # Lost on its way in: the network has nothing to answer.
    if not how.arrives:
        return None
    if order_id in taken:
        # Removed, so that a second order with this id in the same group is answered as a duplicate.
        taken.remove(order_id)
        if not how.is_answered:
            return None
        code = arriving[order_id].code
        if how.is_rejected_at_once and code is not None:
            return rail.Rejected(code=code, reason=reject_code.explain(code))
        return _TAKEN
    # Not accepted now, although it arrived: it is too old, or known already.
    code = "FF08" if is_late else "ED05"
    return rail.Rejected(code=code, reason=reject_code.explain(code))


def judge_claims(
    arriving: dict[str, NewOrder], claims: dict[str, str], codes: dict[str, MerchantClaim]
) -> tuple[dict[str, NewOrder], dict[str, str]]:
    """Reject orders for codes that are paid (BE17) or ask for another amount (AM09); return the orders and payers."""
    judged: dict[str, NewOrder] = {}
    paid: dict[str, str] = {}
    for order_id, order in arriving.items():
        claim = codes.get(claims.get(order_id, ""))
        # An order that is rejected anyway leaves the code to others.
        if claim is None or order.code is not None:
            judged[order_id] = order
        elif claim.txid in paid or claim.paid_by not in (None, order_id):
            judged[order_id] = order._replace(code="BE17")
        elif claim.amount_cents != order.amount_cents:
            judged[order_id] = order._replace(code="AM09")
        else:
            judged[order_id] = order
            paid[claim.txid] = order_id
    return judged, paid


def final_answer(order: KnownOrder) -> rail.QueryAnswer:
    if order.code is None:
        return rail.Settled(settled_at=order.due_at)
    return rail.Rejected(code=order.code, reason=reject_code.explain(order.code))


def outcome_report(order: KnownOrder | DueOrder) -> rail.SettledReport | rail.RejectedReport:
    if order.code is None:
        return rail.SettledReport(report_id=order.id, id=order.id, settled_at=order.due_at)
    return rail.RejectedReport(report_id=order.id, id=order.id, code=order.code, reason=reject_code.explain(order.code))


def split_credit(credit: rail.CreditReport, how: Behaviour) -> list[rail.CreditReport]:
    """Make the two reports of a payment that the network accepts or holds first and settles later, in this order."""
    fields = structs.asdict(credit)
    held_for = timedelta(milliseconds=how.ends_after_ms or 0)
    accepted = (
        rail.CreditHeld(**fields, until=credit.reported_at + held_for) if how.is_suspect else rail.CreditAccepted(**fields)
    )
    end = credit if how.cancel_code is None else rail.CreditCancelled(**fields, code=how.cancel_code)
    first, last = (end, accepted) if how.is_early else (accepted, end)
    return [structs.replace(first, report_id=f"{credit.end_to_end_id}/1"), last]


def arrival_id_of(report: rail.ArrivalReport) -> str:
    match report:
        case rail.CreditReport():
            return report.end_to_end_id
        case rail.ReturnReport():
            return report.return_id
        case rail.MovementReport():
            return report.item_id


def read_acknowledgement(report: rail.ArrivalReport, refusal_code: str | None) -> Acknowledged:
    arrival_id = arrival_id_of(report)
    is_first = report.report_id != arrival_id
    # A cancelled payment has failed, even if the service accepts it.
    code = report.code if isinstance(report, rail.CreditCancelled) else refusal_code
    goes_on = is_first and refusal_code is None
    # If reported after its end, it was credited or refused at once, and never held.
    is_held = goes_on and isinstance(report, rail.CreditHeld)
    return Acknowledged(arrival_id, code, is_first=is_first, goes_on=goes_on, is_held=is_held)


def sort_acknowledged(
    acknowledgements: Sequence[rail.Acknowledgement], find: Callable[[str], rail.Report | None]
) -> tuple[dict[str, str], dict[str, Acknowledged], dict[NetworkPart, list[str]]]:
    """Sort the first acknowledgements into those of orders and of arrivals, by report, and features' reports, by feature."""
    orders: dict[str, str] = {}
    arrivals: dict[str, Acknowledged] = {}
    others = defaultdict[NetworkPart, list[str]](list)
    for acknowledgement in acknowledgements:
        report_id = acknowledgement.report_id
        report = find(report_id)
        if isinstance(report, rail.SettledReport | rail.RejectedReport):
            orders[report_id] = report.id
        elif isinstance(report, rail.ArrivalReport):
            arrivals.setdefault(report_id, read_acknowledgement(report, acknowledgement.refusal_code))
        else:
            for part in (part for part in list_parts() if isinstance(report, part.kind)):
                others[part].append(report_id)
    return orders, arrivals, others


def make_pending(report: str, due_at: datetime) -> Pending:
    """Date an arrival's report, which is JSON, by its deadline: that may have moved nearer when the clock was moved back."""
    planned = _decode_report(report)
    if isinstance(planned, rail.MovementReport):
        return Pending(structs.replace(planned, settled_at=due_at))
    if isinstance(planned, rail.CreditHeld):
        planned = structs.replace(planned, until=planned.until + (due_at - planned.reported_at))
    return Pending(structs.replace(planned, reported_at=due_at))
