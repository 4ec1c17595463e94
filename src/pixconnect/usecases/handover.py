"""Handing orders to the rail, and asking about those of which nothing was heard.

Called by a worker for the slots that it leases. No transaction is ever open while the rail is spoken to.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import structlog

from pixconnect.domain.order import OpenOrder
from pixconnect.domain.rail import (
    NotTaken,
    Order,
    QueryAnswer,
    RailUnavailable,
    RefundOrder,
    Rejected,
    Settled,
    SubmitAnswer,
    Unknown,
)
from pixconnect.domain.refund import Refund
from pixconnect.domain.transfer import Transfer
from pixconnect.store import order as order_store
from pixconnect.usecases.settlement import ASK_AFTER, Ending, Fence, GivenUp, ask_again_after, end_orders
from pixconnect.usecases.under_way import read_ordered

if TYPE_CHECKING:
    from pixconnect.usecases.context import Context

_log = structlog.get_logger(__name__)

RETRY_AFTER: Final = timedelta(seconds=1)
"""How long an order that never left waits for the next try."""


async def _submit_transfers(context: "Context", transfers: Sequence[Transfer]) -> list[SubmitAnswer]:
    return await context.rail.submit(
        [
            Order(
                end_to_end_id=transfer.end_to_end_id,
                amount_cents=transfer.amount_cents,
                debit_party=(await context.directory.read_account(transfer.holder_id)).party,
                credit_party=transfer.counterparty,
                initiation_type=transfer.initiation_type,
                txid=transfer.txid,
                ordered_at=transfer.created_at,
            )
            for transfer in transfers
        ]
    )


async def _submit_refunds(context: "Context", refunds: Sequence[Refund]) -> list[SubmitAnswer]:
    return await context.rail.submit_refunds(
        [
            RefundOrder(
                return_id=refund.return_id,
                original_end_to_end_id=refund.original_end_to_end_id,
                amount_cents=refund.amount_cents,
                reason=refund.reason,
                description=refund.description,
                ordered_at=refund.created_at,
            )
            for refund in refunds
        ]
    )


async def move_due(
    context: "Context", fence: Fence, slots: Sequence[int], since: datetime, until: datetime, count_max: int
) -> list[datetime]:
    """Do the next step of every order that is due.

    Args:
        context: Of this process.
        fence: Of the worker's leases.
        slots: Those that it leases.
        since: Orders that were due before it are left for a look that goes further back.
        until: Service time.
        count_max: Orders at once.

    Returns:
        When each was due, in order: ``count_max`` of them say that there may be more.
    """
    due = await order_store.find_due(context.pool, slots, since, until, count_max)
    too_late = [order for order in due if order.handed_at is None and order.give_up_at <= until]
    waiting = [order for order in due if order.handed_at is None and order.give_up_at > until]
    silent = [order for order in due if order.handed_at is not None]
    if too_late:
        await _end(context, [(order.name, GivenUp()) for order in too_late])
    if waiting:
        await _hand_over(context, fence, waiting, until)
    if silent:
        await _ask(context, fence, silent, until)
    return [order.due_at for order in due]


async def _hand_over(context: "Context", fence: Fence, orders: Sequence[OpenOrder], now: datetime) -> None:
    """Mark, send, and record what was answered at once."""
    async with context.pool.acquire() as connection, connection.transaction():
        await fence(connection, _slots(orders))
        marked = await order_store.mark_handed(connection, [order.name for order in orders], now, now + ASK_AFTER)
    handed = [order for order in orders if order.name in marked]
    await _record(context, await _submit(context, handed), now, may_unmark=True)


async def _ask(context: "Context", fence: Fence, orders: Sequence[OpenOrder], now: datetime) -> None:
    """Ask what became of orders; what the rail has never seen is sent again under the same id."""
    async with context.pool.acquire() as connection, connection.transaction():
        await fence(connection, _slots(orders))
        # Counted before anything is sent: from now on nothing but the rail's word can end these.
        again_at = {order.name: now + ask_again_after(order.asked_count) for order in orders}
        open_names = await order_store.postpone(connection, again_at)
    orders = [order for order in orders if order.name in open_names]
    if not orders:
        return
    try:
        answers = await context.rail.query([order.name for order in orders])
    except RailUnavailable:
        return
    known = list(zip(orders, answers, strict=True))
    await _record(context, known, now, may_unmark=False)
    unseen = [order for order, answer in known if isinstance(answer, Unknown)]
    await _record(context, await _submit(context, unseen), now, may_unmark=False)


async def _submit(context: "Context", orders: Sequence[OpenOrder]) -> "list[tuple[OpenOrder, SubmitAnswer]]":
    """Hand orders to the rail; answers each with what was said at once."""
    ordered = await read_ordered(context.pool, [order.name for order in orders])
    context.under_way.remember(ordered.values())
    in_turn = sorted(orders, key=lambda order: order.name.startswith("D"))  # as they were due; refunds after transfers
    transfers = [each for order in in_turn if isinstance(each := ordered[order.name], Transfer)]
    refunds = [each for order in in_turn if isinstance(each := ordered[order.name], Refund)]
    answers: list[SubmitAnswer] = []
    if transfers:
        answers += await _submit_transfers(context, transfers)
    if refunds:
        answers += await _submit_refunds(context, refunds)
    return list(zip(in_turn, answers, strict=True))


async def _record(
    context: "Context",
    answered: "Sequence[tuple[OpenOrder, SubmitAnswer | QueryAnswer]]",
    now: datetime,
    *,
    may_unmark: bool,
) -> None:
    """Record the answers that are final; the others are asked about later."""
    endings: list[tuple[str, Ending]] = []
    never_left: list[str] = []
    for order, answer in answered:
        match answer:
            case Settled() | Rejected():
                endings.append((order.name, answer))
            case NotTaken() if may_unmark:
                never_left.append(order.name)
            case _:
                pass
    if endings:
        await _end(context, endings)
    if never_left:
        async with context.pool.acquire() as connection, connection.transaction():
            await order_store.unmark(connection, never_left, now, now + RETRY_AFTER)


async def _end(context: "Context", endings: Sequence[tuple[str, Ending]]) -> None:
    """Record endings; those that cannot be recorded are still due, and keep nothing else waiting."""
    failed = await end_orders(context, endings)
    if failed:
        _log.warning("endings wait", orders_count=len(failed), reasons=sorted({why.code for why in failed.values()}))


def _slots(orders: Sequence[OpenOrder]) -> list[int]:
    return sorted({order.slot for order in orders})
