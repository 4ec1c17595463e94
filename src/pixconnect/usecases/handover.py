"""Handing orders to the rail, and asking about those of which nothing was heard.

Called by a worker for the slots that it leases. No transaction is ever open while the rail is spoken to.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import structlog
from msgspec import Struct

from pixconnect.domain.rail import (
    NotTaken,
    Order,
    QueryAnswer,
    Rail,
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
from pixconnect.store import refund as refund_store
from pixconnect.store import transfer as transfer_store
from pixconnect.usecases.settlement import ASK_AFTER, Ending, Fence, GivenUp, ask_again_after, end_orders

if TYPE_CHECKING:
    from pixconnect.foundation.pool import Pool
    from pixconnect.store.order import OrderTable
    from pixconnect.usecases.context import Context

_log = structlog.get_logger(__name__)

RETRY_AFTER: Final = timedelta(seconds=1)
"""How long an order that never left waits for the next try."""

OrderT = TypeVar("OrderT", Transfer, Refund)


class Kind(Struct, Generic[OrderT], frozen=True, kw_only=True):
    """What differs between transfers and refunds on their way to the rail.

    Attributes:
        table: Where they are.
        name: On the network.
        find_due: Those to look at.
        submit: Sends them.
    """

    table: "OrderTable"
    name: Callable[[OrderT], str]
    find_due: "Callable[[Pool, Sequence[int], datetime, datetime, int], Awaitable[list[OrderT]]]"
    submit: "Callable[[Context, Rail, Sequence[OrderT]], Awaitable[list[SubmitAnswer]]]"


async def _submit_transfers(context: "Context", rail: Rail, transfers: Sequence[Transfer]) -> list[SubmitAnswer]:
    return await rail.submit(
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


async def _submit_refunds(_context: "Context", rail: Rail, refunds: Sequence[Refund]) -> list[SubmitAnswer]:
    return await rail.submit_refunds(
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


TRANSFERS: Final = Kind[Transfer](
    table="transfer",
    name=lambda transfer: transfer.end_to_end_id,
    find_due=transfer_store.find_due,
    submit=_submit_transfers,
)
REFUNDS: Final = Kind[Refund](
    table="refund",
    name=lambda refund: refund.return_id,
    find_due=refund_store.find_due,
    submit=_submit_refunds,
)


async def move_due(
    context: "Context",
    kind: Kind[OrderT],
    fence: Fence,
    slots: Sequence[int],
    since: datetime,
    until: datetime,
    count_max: int,
) -> list[datetime]:
    """Do the next step of every order that is due.

    Args:
        context: Of this process.
        kind: ``TRANSFERS`` or ``REFUNDS``.
        fence: Of the worker's leases.
        slots: Those that it leases.
        since: Orders that were due before it are left for a look that goes further back.
        until: Service time.
        count_max: Orders at once.

    Returns:
        When each was due, in order: ``count_max`` of them say that there may be more.
    """
    due = await kind.find_due(context.pool, slots, since, until, count_max)
    unmarked = [order for order in due if order.handed_at is None]
    too_late = [order for order in unmarked if _is_too_late(order, until)]
    waiting = [order for order in unmarked if not _is_too_late(order, until)]
    silent = [order for order in due if order.handed_at is not None]
    if too_late:
        await _end(context, [(kind.name(order), GivenUp()) for order in too_late])
    if waiting:
        await _hand_over(context, kind, fence, waiting, until)
    if silent:
        await _ask(context, kind, fence, silent, until)
    return [order.due_at or until for order in due]


async def _hand_over(
    context: "Context", kind: Kind[OrderT], fence: Fence, orders: Sequence[OrderT], now: datetime
) -> None:
    """Mark, send, and record what was answered at once."""
    async with context.pool.acquire() as connection, connection.transaction():
        await fence(connection, _slots(orders))
        marked = await order_store.mark_handed(
            connection, kind.table, [order.id for order in orders], now, now + ASK_AFTER
        )
    handed = [order for order in orders if order.id in marked]
    if handed:
        answers = await kind.submit(context, context.rail, handed)
        await _record(context, kind, handed, answers, now, may_unmark=True)


async def _ask(context: "Context", kind: Kind[OrderT], fence: Fence, orders: Sequence[OrderT], now: datetime) -> None:
    """Ask what became of orders; what the rail has never seen is sent again under the same id."""
    async with context.pool.acquire() as connection, connection.transaction():
        await fence(connection, _slots(orders))
        # Counted before anything is sent: from now on nothing but the rail's word can end these.
        again_at = [now + ask_again_after(order.asked_count) for order in orders]
        open_ids = await order_store.postpone(connection, kind.table, [order.id for order in orders], again_at)
    orders = [order for order in orders if order.id in open_ids]
    if not orders:
        return
    try:
        answers = await context.rail.query([kind.name(order) for order in orders])
    except RailUnavailable:
        return
    known = list(zip(orders, answers, strict=True))
    unseen = [order for order, answer in known if isinstance(answer, Unknown)]
    await _record(context, kind, [order for order, _ in known], [answer for _, answer in known], now, may_unmark=False)
    if unseen:
        resent = await kind.submit(context, context.rail, unseen)
        await _record(context, kind, unseen, resent, now, may_unmark=False)


async def _record(
    context: "Context",
    kind: Kind[OrderT],
    orders: Sequence[OrderT],
    answers: Sequence[SubmitAnswer | QueryAnswer],
    now: datetime,
    *,
    may_unmark: bool,
) -> None:
    """Record the answers that are final; the others are asked about later."""
    endings: list[tuple[str, Ending]] = []
    never_left: list[int] = []
    for order, answer in zip(orders, answers, strict=True):
        match answer:
            case Settled() | Rejected():
                endings.append((kind.name(order), answer))
            case NotTaken() if may_unmark:
                never_left.append(order.id)
            case _:
                pass
    if endings:
        await _end(context, endings)
    if never_left:
        async with context.pool.acquire() as connection, connection.transaction():
            await order_store.unmark(connection, kind.table, never_left, now, now + RETRY_AFTER)


async def _end(context: "Context", endings: Sequence[tuple[str, Ending]]) -> None:
    """Record endings; those that cannot be recorded are still due, and keep nothing else waiting."""
    failed = await end_orders(context, endings)
    if failed:
        _log.warning("endings wait", orders_count=len(failed), reasons=sorted({why.code for why in failed.values()}))


def _is_too_late(order: Transfer | Refund, now: datetime) -> bool:
    return order.give_up_at is not None and order.give_up_at <= now


def _slots(orders: Sequence[Transfer | Refund]) -> list[int]:
    return sorted({order.slot for order in orders})
