"""How outgoing transfers and refunds end: by the rail's word alone, or by never having left.

::

    accepted ──mark──► handed ──submit──► Taken, or silence ──report or query──► settled or rejected
        │                 ▲                     │
        │                 └──── NotTaken: the mark is taken back, if nothing was ever sent
        └── 60 s without a mark ──► given up, money back

The mark is durable before the rail hears anything. Whoever finds it after a crash asks, and sends again under the same id only
if the rail has never seen it. A rejection is final only of the original order: a duplicate or late re-send is a reason to ask.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec
import structlog
from msgspec import Struct

from pixconnect.domain import charge as charge_rules
from pixconnect.domain import errors
from pixconnect.domain import refund as refund_rules
from pixconnect.domain import transfer as transfer_rules
from pixconnect.domain.rail import Rejected, Settled
from pixconnect.store import charge as charge_store
from pixconnect.store import order as order_store
from pixconnect.store import refund as refund_store
from pixconnect.store import transfer as transfer_store
from pixconnect.usecases.group_commit import Group
from pixconnect.usecases.write_group import WriteGroup, lock_write_group

if TYPE_CHECKING:
    from pixconnect.domain.charge import Charge
    from pixconnect.domain.order import OpenOrder
    from pixconnect.domain.refund import Refund
    from pixconnect.domain.transfer import Transfer
    from pixconnect.foundation.pool import Connection
    from pixconnect.usecases.context import Context

_log = structlog.get_logger(__name__)


class GivenUp(Struct, frozen=True):
    """The order was never handed to the rail in the time it had."""


Ending = Settled | Rejected | GivenUp

_GIVEN_UP_REASON = "It could not be handed to the rail in time."


class Ended(Struct, frozen=True, kw_only=True):
    """What became of one order.

    Attributes:
        holder_id: Whose order it is.
        kind: A transfer or a refund.
        id: The ``end_to_end_id`` or ``return_id``.
        original_end_to_end_id: Of a refund.
        ending: What became of it.
        external_id: None: it is not a client that waits.
    """

    holder_id: int
    kind: Literal["transfer", "refund"]
    id: str
    original_end_to_end_id: str | None = None
    ending: Ending
    external_id: str | None = None


class Fence(Protocol):
    """Holds a transaction to the slots that its worker still leases."""

    async def __call__(self, connection: "Connection", slots: Sequence[int]) -> None:
        """Refuse to go on if one of the slots belongs to another worker by now."""
        ...


async def end_orders(context: "Context", endings: Sequence[tuple[str, Ending]]) -> "dict[str, errors.PixConnectError]":
    """Record what the rail has said of orders of ours. Saying it twice changes nothing; ids that are not ours are passed over.

    Args:
        context: Of this process.
        endings: By ``end_to_end_id`` or ``return_id``.

    Returns:
        Why some could not be recorded; one that cannot be never keeps the others from it.
    """
    transfers = [name for name, _ in endings if name.startswith("E")]
    refunds = [name for name, _ in endings if name.startswith("D")]
    senders = await _find_senders(context, transfers) if transfers else {}
    returners = await refund_store.find_holders(context.pool, refunds, "OUT") if refunds else {}
    ended: list[Ended] = []
    for name, ending in endings:
        if name in senders:
            ended.append(Ended(holder_id=senders[name], kind="transfer", id=name, ending=ending))
        elif name in returners:
            holder_id, original = returners[name]
            ended.append(
                Ended(holder_id=holder_id, kind="refund", id=name, original_end_to_end_id=original, ending=ending)
            )
    outcomes = await context.groups.submit_all(write_endings, context, ended)
    return {
        order.id: outcome
        for order, outcome in zip(ended, outcomes, strict=True)
        if isinstance(outcome, errors.PixConnectError)
    }


async def _find_senders(context: "Context", names: Sequence[str]) -> dict[str, int]:
    """Whose transfers these are; what is no longer open is looked for among all that ever went out."""
    senders = await order_store.find_holders(context.pool, names)
    others = [name for name in names if name not in senders]
    return {**senders, **await transfer_store.find_holders(context.pool, others, "OUT")} if others else senders


async def write_endings(context: "Context", connection: "Connection", group: Group[Ended]) -> list[None]:
    """Write a group of endings."""
    writing = await lock_write_group(context, connection, group)
    books = await _open_books(connection, group)
    for ended in group:
        if ended.kind == "transfer":
            _end_transfer(writing, books, ended)
        else:
            _end_refund(writing, books, ended)
    await writing.write()
    return [None] * len(group)


class _Books:
    """Everything that a group of endings may change, locked, by its name on the network."""

    def __init__(
        self,
        orders: "dict[str, OpenOrder]",
        sent: "dict[str, Transfer]",
        received: "dict[str, Transfer]",
        refunds: "dict[str, Refund]",
        charges: "dict[int, Charge]",
    ) -> None:
        self.orders = orders
        self.sent = sent
        self.received = received
        self.refunds = refunds
        self.charges = charges


async def _open_books(connection: "Connection", group: Sequence[Ended]) -> _Books:
    originals = [ended.original_end_to_end_id for ended in group if ended.original_end_to_end_id is not None]
    # Charges before transfers, as whoever receives a payment takes them.
    charge_ids = await transfer_store.find_charge_ids(connection, originals) if originals else []
    charges = await charge_store.lock(connection, charge_ids)
    transfers = [ended.id for ended in group if ended.kind == "transfer"]
    refunds = [ended.id for ended in group if ended.kind == "refund"]
    return _Books(
        orders=await order_store.lock(connection, [ended.id for ended in group]),
        sent=await transfer_store.lock(connection, transfers, "OUT") if transfers else {},
        received=await transfer_store.lock(connection, originals, "IN") if originals else {},
        refunds=await refund_store.lock(connection, refunds, "OUT") if refunds else {},
        charges=charges,
    )


def _take_order(writing: WriteGroup, books: _Books, ended: Ended, status: str) -> "OpenOrder | None":
    """The order that ends; ``None`` where there is nothing to record: it has ended before, or it was handed over after all."""
    order = books.orders.get(ended.id)
    if order is None:
        _compare(ended, status)
        return None
    if isinstance(ended.ending, GivenUp) and order.handed_at is not None:
        return None
    del books.orders[ended.id]
    writing.changes.end_order(order)
    return order


def _compare(ended: Ended, status: str) -> None:
    """What is said again must be what was said before. It is never mended by guessing: an operator has to see it."""
    said = type(ended.ending).__name__
    if said != "GivenUp" and (said == "Settled") != (status in {"CONFIRMED", "RETURNED"}):
        _log.critical("the rail contradicts itself", order=ended.id, recorded=status, said=said)


def _end_transfer(writing: WriteGroup, books: _Books, ended: Ended) -> None:
    before = books.sent[ended.id]
    order = _take_order(writing, books, ended, before.status)
    if order is None:
        return
    before = msgspec.structs.replace(before, handed_at=order.handed_at)
    match ended.ending:
        case Settled():
            writing.post(before.holder_id, "reserved", "settlement", before.amount_cents, transfer_id=before.id)
            after = transfer_rules.settle_transfer(before, writing.now)
        case Rejected(code=code, reason=reason):
            writing.post(before.holder_id, "reserved", "available", before.amount_cents, transfer_id=before.id)
            after = transfer_rules.fail_transfer(before, code, reason, writing.now)
        case GivenUp():
            writing.post(before.holder_id, "reserved", "available", before.amount_cents, transfer_id=before.id)
            after = transfer_rules.cancel_transfer(before, _GIVEN_UP_REASON, writing.now)
    books.sent[ended.id] = after
    writing.changes.move_transfer(before, after)
    writing.announce_transfer(after)


def _end_refund(writing: WriteGroup, books: _Books, ended: Ended) -> None:
    before = books.refunds[ended.id]
    order = _take_order(writing, books, ended, before.status)
    if order is None:
        return
    before = msgspec.structs.replace(before, handed_at=order.handed_at)
    original = books.received[before.original_end_to_end_id]
    money = {"transfer_id": original.id, "refund_id": before.id}
    match ended.ending:
        case Settled():
            writing.post(before.holder_id, "reserved", "settlement", before.amount_cents, **money)
            after = refund_rules.settle_refund(before, writing.now)
            returned = transfer_rules.return_part(
                original, before.amount_cents, writing.now, returning_cents=before.amount_cents
            )
        case Rejected(code=code, reason=reason):
            writing.post(before.holder_id, "reserved", "available", before.amount_cents, **money)
            after = refund_rules.fail_refund(before, code, reason, writing.now)
            returned = transfer_rules.keep_part(original, before.amount_cents)
        case GivenUp():
            writing.post(before.holder_id, "reserved", "available", before.amount_cents, **money)
            after = refund_rules.fail_refund(before, "NOT_HANDED_OVER", _GIVEN_UP_REASON, writing.now)
            returned = transfer_rules.keep_part(original, before.amount_cents)
    books.refunds[ended.id] = after
    books.received[original.end_to_end_id] = returned
    writing.changes.move_refund(before, after)
    writing.changes.move_transfer(original, returned)
    writing.announce_refund(after)
    if returned.status == "RETURNED" and returned.charge_id is not None:
        return_paid_charge(writing, books.charges, returned.charge_id)


def return_paid_charge(writing: WriteGroup, charges: "dict[int, Charge]", charge_id: int) -> None:
    """The whole amount of a charge has gone back."""
    before = charges[charge_id]
    after = charges[charge_id] = charge_rules.return_charge(before, writing.now)
    writing.changes.move_charge(before, after)


ASK_AFTER = timedelta(seconds=2)
"""How long an order that was handed over may be silent before the rail is asked about it."""
ASK_AFTER_MAX = timedelta(minutes=5)


def ask_again_after(asked_count: int) -> timedelta:
    """How long to wait until the rail is asked again: twice as long each time, and never given up."""
    return min(ASK_AFTER * 2 ** min(asked_count, 16), ASK_AFTER_MAX)
