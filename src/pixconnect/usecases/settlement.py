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
from typing import TYPE_CHECKING, Protocol

import msgspec
import structlog
from msgspec import Struct

from pixconnect.domain import charge as charge_rules
from pixconnect.domain import errors
from pixconnect.domain import refund as refund_rules
from pixconnect.domain import transfer as transfer_rules
from pixconnect.domain.order import name_of
from pixconnect.domain.rail import Rejected, Settled
from pixconnect.domain.refund import Refund
from pixconnect.domain.transfer import Transfer
from pixconnect.store import charge as charge_store
from pixconnect.store import order as order_store
from pixconnect.store import transfer as transfer_store
from pixconnect.usecases.group_commit import Group
from pixconnect.usecases.under_way import read_ordered
from pixconnect.usecases.write_group import WriteGroup, lock_write_group

if TYPE_CHECKING:
    from pixconnect.domain.charge import Charge
    from pixconnect.domain.order import OpenOrder
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
        ordered: The transfer or refund as it was accepted: while its order is open it does not change.
        ending: What became of it.
        external_id: None: it is not a client that waits.
    """

    ordered: Transfer | Refund
    ending: Ending
    external_id: str | None = None

    @property
    def holder_id(self) -> int:
        """Whose order it is."""
        return self.ordered.holder_id


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
    # Read before the balances are locked: whoever waits for them need not wait for this.
    names = [name for name, _ in endings]
    ordered = context.under_way.recall(names)
    ordered |= await read_ordered(context.pool, [name for name in names if name not in ordered])
    ended = [Ended(ordered=ordered[name], ending=ending) for name, ending in endings if name in ordered]
    under_way = [each for each in ended if each.ordered.status == "PROCESSING"]
    outcomes = await context.groups.submit_all(write_endings, context, under_way)
    for each in under_way:
        context.under_way.forget(name_of(each.ordered))
    said_again = [each for each in ended if each.ordered.status != "PROCESSING"]
    said_again += [each for each, was_open in zip(under_way, outcomes, strict=True) if was_open is False]
    if said_again:
        await _compare(context, said_again)
    return {
        name_of(each.ordered): outcome
        for each, outcome in zip(under_way, outcomes, strict=True)
        if isinstance(outcome, errors.PixConnectError)
    }


async def _compare(context: "Context", said_again: Sequence[Ended]) -> None:
    """What is said again must be what was said before. It is never mended by guessing: an operator has to see it."""
    recorded = await read_ordered(context.pool, [name_of(each.ordered) for each in said_again])
    for each in said_again:
        status = recorded[name_of(each.ordered)].status
        said = type(each.ending).__name__
        if said != "GivenUp" and (said == "Settled") != (status in {"CONFIRMED", "RETURNED"}):
            _log.critical("the rail contradicts itself", order=name_of(each.ordered), recorded=status, said=said)


async def write_endings(context: "Context", connection: "Connection", group: Group[Ended]) -> list[bool]:
    """Write a group of endings; answers of each whether it was still open."""
    writing = await lock_write_group(context, connection, group)
    books = await _open_books(connection, group)
    outcomes: list[bool] = []
    for ended in group:
        order = books.orders.get(name_of(ended.ordered))
        outcomes.append(order is not None)
        if order is None or (isinstance(ended.ending, GivenUp) and order.handed_at is not None):
            continue  # it has ended before, or it was handed over after all
        del books.orders[order.name]
        writing.changes.end_order(order)
        before = msgspec.structs.replace(ended.ordered, handed_at=order.handed_at)
        if isinstance(before, Transfer):
            _end_transfer(writing, before, ended.ending)
        else:
            _end_refund(writing, books, before, ended.ending)
    await writing.write()
    return outcomes


class _Books:
    """What a group of endings may change, locked, by its name on the network."""

    def __init__(
        self, orders: "dict[str, OpenOrder]", received: dict[str, Transfer], charges: "dict[int, Charge]"
    ) -> None:
        self.orders = orders
        self.received = received
        self.charges = charges


async def _open_books(connection: "Connection", group: Sequence[Ended]) -> _Books:
    refunds = [ended.ordered for ended in group if isinstance(ended.ordered, Refund)]
    originals = [refund.original_end_to_end_id for refund in refunds]
    # Charges before transfers, as whoever receives a payment takes them.
    charge_ids = await transfer_store.find_charge_ids(connection, originals) if originals else []
    charges = await charge_store.lock(connection, charge_ids)
    return _Books(
        orders=await order_store.lock(connection, [name_of(ended.ordered) for ended in group]),
        received=await transfer_store.lock(connection, originals, "IN") if originals else {},
        charges=charges,
    )


def _end_transfer(writing: WriteGroup, before: Transfer, ending: Ending) -> None:
    match ending:
        case Settled():
            writing.post(before.holder_id, "reserved", "settlement", before.amount_cents, transfer_id=before.id)
            after = transfer_rules.settle_transfer(before, writing.now)
        case Rejected(code=code, reason=reason):
            writing.post(before.holder_id, "reserved", "available", before.amount_cents, transfer_id=before.id)
            after = transfer_rules.fail_transfer(before, code, reason, writing.now)
        case GivenUp():
            writing.post(before.holder_id, "reserved", "available", before.amount_cents, transfer_id=before.id)
            after = transfer_rules.cancel_transfer(before, _GIVEN_UP_REASON, writing.now)
    writing.changes.move_transfer(before, after)
    writing.announce_transfer(after)


def _end_refund(writing: WriteGroup, books: _Books, before: Refund, ending: Ending) -> None:
    original = books.received[before.original_end_to_end_id]
    money = {"transfer_id": original.id, "refund_id": before.id}
    match ending:
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
