"""Orders as they come in: what is decided of each, and what is written together with it.

Merchants' codes are paid, and fees are taken.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal

import asyncpg
from msgspec import Struct

from pixconnect.domain.money.rail import Order, RefundOrder
from pixconnect.sandbox import answers, behaviour, directory, movement, tables
from pixconnect.sandbox.behaviour import Behaviour
from pixconnect.sandbox.fault import Faults, Message
from pixconnect.sandbox.movement import NewFee
from pixconnect.sandbox.outbox import Pending
from pixconnect.sandbox.tables import NewArrival, NewOrder, Original

_DYNAMIC_TXID_MIN: Final = 26


class OrderGroup(Struct, frozen=True, kw_only=True):
    """Orders that came together, none of which is written yet, and what is written with them, by their ids."""

    orders: list[NewOrder]
    behaviours: list[Behaviour]
    """How each is treated: by the fault rules, or else as the network usually does."""
    claims: dict[str, str] = {}
    """The merchants' codes that they pay."""
    fees: dict[str, NewFee] = {}


def read_orders(faults: Faults, orders: Sequence[Order], latency_ms: int) -> OrderGroup:
    """Orders as they would be written.

    Args:
        faults: Counted down by those that follow a rule.
        orders: As they came.
        latency_ms: How long an ordinary one takes to settle.
    """
    behaviours = [_treat_order(faults, order) for order in orders]
    new = [
        _make_order(order.end_to_end_id, None, order.amount_cents, order.credit_party.key, how, latency_ms)
        for order, how in zip(orders, behaviours, strict=True)
    ]
    # A code that is paid once is a dynamic one, and only those have a txid of this length. Merchants are outside.
    claims = {
        order.end_to_end_id: order.txid
        for order in orders
        if order.txid is not None and len(order.txid) >= _DYNAMIC_TXID_MIN
    }
    fees = movement.find_fees(orders, behaviours)
    return OrderGroup(orders=new, behaviours=behaviours, claims=claims, fees=fees)


def read_refunds(
    faults: Faults, orders: Sequence[RefundOrder], originals: Mapping[str, Original], latency_ms: int
) -> OrderGroup:
    """As ``read_orders``; ``originals`` are the payments that are given back, by their ids."""
    behaviours = _treat_refunds(faults, orders, originals)
    new = [
        _make_order(order.return_id, order.original_end_to_end_id, order.amount_cents, None, how, latency_ms)
        for order, how in zip(orders, behaviours, strict=True)
    ]
    return OrderGroup(orders=new, behaviours=behaviours)


def _treat_order(faults: Faults, order: Order) -> Behaviour:
    # Before all rules: the network rejects this itself.
    if order.amount_cents < 1:
        return behaviour.reject(behaviour.USUAL, "AM01")
    if faults.rules:
        key, amount_cents = order.credit_party.key, order.amount_cents
        how = faults.behaviour_of(
            Message(operation="submit", id=order.end_to_end_id, key=key, amount_cents=amount_cents)
        )
        if how is not None:
            return how
    return directory.behaviour_to(order.credit_party)


def _treat_refunds(faults: Faults, orders: Sequence[RefundOrder], originals: Mapping[str, Original]) -> list[Behaviour]:
    left = {original.id: original.amount_cents - original.refunded_cents for original in originals.values()}
    behaviours: list[Behaviour] = []
    for order in orders:
        original = originals.get(order.original_end_to_end_id)
        key = None if original is None else original.key
        message = Message(operation="refund", id=order.return_id, key=key, amount_cents=order.amount_cents)
        how = faults.behaviour_of(message) or directory.behaviour_of_refund(order.description)
        if original is not None and how.code is None:
            if left[original.id] < order.amount_cents:
                how = behaviour.reject(how, "AM09")
            elif how.arrives and not how.is_refused:
                # Orders of the same group share what is left.
                left[original.id] -= order.amount_cents
        behaviours.append(how)
    return behaviours


def _make_order(
    order_id: str,
    original_id: str | None,
    amount_cents: int,
    key: str | None,
    how: Behaviour,
    latency_ms: int,
) -> NewOrder:
    delay_ms = latency_ms if how.delay_ms is None else how.delay_ms
    # The network's own rejection waits for nobody, and an early outcome must overtake its answer.
    if how.is_early or how.is_rejected_at_once:
        delay_ms = 0
    is_told = how.reports_count > 0
    return NewOrder(order_id, original_id, amount_cents, key, delay_ms, how.code, is_told)


async def write(
    pool: asyncpg.Pool,
    kind: Literal["order", "refund"],
    now: datetime,
    arriving: dict[str, NewOrder],
    group: OrderGroup,
    numbers: Iterator[int],
) -> tuple[set[str], dict[str, NewOrder], list[tuple[NewArrival, Pending]]]:
    """Write orders, payers of merchants' codes, and fees.

    Returns:
        The new ids, the orders as written, and the fees.
    """
    if not arriving:
        return set(), arriving, []
    # Without all that one statement is enough, and no transaction.
    if not group.claims and not group.fees:
        return await tables.insert_orders(pool, kind, now, list(arriving.values())), arriving, []
    async with pool.acquire() as connection, connection.transaction():
        codes = await tables.find_codes(connection, list(group.claims.values()))
        arriving, paid = answers.judge_claims(arriving, group.claims, codes)
        taken = await tables.insert_orders(connection, kind, now, list(arriving.values()))
        # An order that was known already does not pay again.
        paid = {txid: order_id for txid, order_id in paid.items() if order_id in taken}
        if paid:
            await tables.claim_codes(connection, list(paid), list(paid.values()))
        settling = {order_id: arriving[order_id] for order_id in taken}
        made = movement.make_fees_of_orders(group.fees, settling, now, numbers)
        if made:
            await tables.insert_arrivals(connection, [arrival for arrival, _ in made])
    return taken, arriving, made
