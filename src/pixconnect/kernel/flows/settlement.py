"""The end of outgoing transfers and refunds: by the rail's answer alone, or because they were never handed over.

::

    accepted ──mark──► handed ──submit──► Taken, or silence ──report or query──► settled or rejected
        │                 ▲                     │
        │                 ├──── NotTaken: the mark is removed, if nothing was ever sent
        │                 └──── NeverTaken, long after: the rail has never seen it and no longer takes it, money back
        └── 60 s without a mark ──► given up, money back, if it was accepted after the database's last start

The mark is durable before the rail gets anything. A worker that finds it after a crash queries, and resends under the same id
only if the rail has never seen it. A rejection is final only for the original order: one of a re-send is a reason to query.

Features have rules that act in the transaction which writes an end (``EndRule``).
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from pixconnect.kernel.feature import Ranked, gather_classes
from pixconnect.kernel.flows.charge import count_returned
from pixconnect.kernel.flows.context import Context, read_ordered
from pixconnect.kernel.flows.network_id import NamedOrder, name_orders
from pixconnect.kernel.flows.payee import note_payee
from pixconnect.kernel.rules import identifiers
from pixconnect.kernel.rules import transfer as transfer_rules
from pixconnect.kernel.rules.kept_report import Misfit
from pixconnect.kernel.rules.ledger import Account
from pixconnect.kernel.rules.order import (
    Ending,
    FirstIds,
    GivenUp,
    OpenOrder,
    complete_ending,
    end_refund,
    end_transfer,
    may_give_up,
    name_of,
)
from pixconnect.kernel.rules.rail import Rejected, Settled
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import installation as installation_store
from pixconnect.kernel.tables import order as order_store
from pixconnect.kernel.tables.order import ORDERS
from pixconnect.kernel.tables.refund import REFUNDS
from pixconnect.kernel.tables.transfer import TRANSFERS
from pixconnect.kernel.writing.batch import Batch, WriteOperation
from pixconnect.kernel.writing.unit_of_work import UnitOfWork, begin_money_work
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection


class Beside(Protocol):
    """Money that the end of an order moves beside the order's own; each rule has its own kind."""

    @property
    def holder_id(self) -> int: ...


class EndedOrder(Struct, frozen=True, kw_only=True):
    ordered: Transfer | Refund  # the accepted transfer or refund; it does not change while its order is open
    ending: Ending
    has_rail: bool  # without a rail we never sent an order, so that we may give up each
    beside: Sequence[Beside] = ()

    @property
    def holder_id(self) -> int:
        return self.ordered.holder_id


async def prepare_end(context: Context, ordered: Transfer | Refund, ending: Ending) -> EndedOrder:
    """Read what the end of an order needs, before any lock."""
    found = [await rule.prepare(context, ordered, ending) for rule in list_rules()]
    beside = tuple(each for each in found if each is not None)
    return EndedOrder(ordered=ordered, ending=ending, has_rail=context.policy.has_rail, beside=beside)


def statements_of(ended: EndedOrder) -> tuple[int, ...]:
    """Whose statements its end may move."""
    return (ended.holder_id, *(each.holder_id for each in ended.beside))


def holders_of(ended: EndedOrder) -> tuple[int, ...]:
    """Whose balances its end may move: what settles was reserved, and waits for no transfer that is being accepted."""
    is_settled_alone = isinstance(ended.ending, Settled) and not ended.beside
    return () if is_settled_alone else statements_of(ended)


class EndRule(Ranked):
    """Each batch of ends has one of each kind. A rule defines the methods that it needs."""

    def __init__(self, work: UnitOfWork) -> None:
        self.work = work

    @staticmethod
    async def prepare(context: Context, ordered: Transfer | Refund, ending: Ending) -> Beside | None:
        """Find what else the end of an order moves, before any lock."""

    async def begin(self, batch: Sequence[EndedOrder]) -> None:
        """Read what the rule changes, under the batch's locks."""

    def end(self, ended: EndedOrder, order: OpenOrder) -> None:
        """Change what belongs to an order that ends, before its own money moves."""

    async def finish(self) -> None:
        """Write what needs the rows of the batch."""


class NotedPayees(EndRule):
    rank = 30

    def __init__(self, work: UnitOfWork) -> None:
        super().__init__(work)
        self._ended: list[tuple[Transfer, Ending]] = []

    def end(self, ended: EndedOrder, order: OpenOrder) -> None:
        if isinstance(ended.ordered, Transfer):
            self._ended.append((ended.ordered, ended.ending))

    async def finish(self) -> None:
        for sent, ending in self._ended:
            await note_payee(self.work.connection, sent, ending, self.work.now)


END_RULES: Final[tuple[type[EndRule], ...]] = (NotedPayees,)


@cache
def list_rules() -> tuple[type[EndRule], ...]:
    """The kernel's rules and those of features, in the order in which they change things."""
    return gather_classes("end_rules", EndRule, END_RULES)


UNKNOWN_ORDER: Final = Misfit(reason="unknown_order", explanation="an order of ours by its id, which is unknown here")


class Fence(Protocol):
    """Checks, in the transaction that writes, that the worker still leases its slots."""

    def epochs_of(self, slots: Sequence[int]) -> Mapping[int, int]:
        """Return the slots' epochs, for a statement that checks them itself; raises if one is not held by now."""
        ...

    async def fence(self, connection: Connection, slots: Sequence[int]) -> None:
        """Raise if another worker has taken over one of the slots."""


Unrecorded = errors.PixConnectError | Misfit  # why an ending was not recorded: a temporary failure, or a contradiction


async def end_orders(context: Context, endings: Sequence[tuple[str, Ending]]) -> list[Unrecorded | None]:
    """Record how orders ended. A repeated ending changes nothing, and ids of other participants are skipped.

    Args:
        endings: By our ``end_to_end_id`` or ``return_id``, or by the network's id if the rail reported it.

    Returns:
        For each, in order, why it was not recorded, or its additional fault; the others are recorded all the same.
    """
    # Read before the balances are locked, so that no other transaction waits for this.
    names = [name for name, _ in endings]
    ordered = {name: context.under_way[name] for name in names if name in context.under_way}
    ordered |= await read_ordered(context.pool, [name for name in names if name not in ordered])
    outcomes = await _note_names(context, endings, ordered)
    under_way: list[int] = []
    repeated_ids: list[int] = []
    for index, (name, _) in enumerate(endings):
        if isinstance(outcomes[index], errors.PixConnectError):
            continue
        if name in ordered:
            (under_way if ordered[name].status == "PROCESSING" else repeated_ids).append(index)
        elif not is_surely_not_ours(context, name):
            outcomes[index] = UNKNOWN_ORDER
    ended = [await prepare_end(context, ordered[name], ending) for name, ending in (endings[index] for index in under_way)]
    written = await context.writes.submit_all(WRITE_ENDINGS, ended)
    for index, was_open in zip(under_way, written, strict=True):
        context.under_way.pop(name_of(ordered[endings[index][0]]), None)
        if isinstance(was_open, errors.PixConnectError):
            outcomes[index] = was_open
        # Another report has ended it meanwhile, so this one is a repetition and must agree with the recorded one.
        elif not was_open:
            repeated_ids.append(index)
    if repeated_ids:
        compared = await _compare(context, [endings[index] for index in repeated_ids])
        for index, misfit in zip(repeated_ids, compared, strict=True):
            outcomes[index] = misfit or outcomes[index]
    return outcomes


async def _note_names(
    context: Context, endings: Sequence[tuple[str, Ending]], ordered: Mapping[str, Transfer | Refund]
) -> list[Unrecorded | None]:
    """Record the network's names of the orders that end; for each ending, why that failed."""
    outcomes: list[Unrecorded | None] = [None] * len(endings)
    named = {
        index: NamedOrder(ordered=ordered[name], network_id=ending.network_id)
        for index, (name, ending) in enumerate(endings)
        if isinstance(ending, Settled | Rejected) and ending.network_id is not None and name in ordered
    }
    if named:
        for index, outcome in zip(named, await name_orders(context, list(named.values())), strict=True):
            outcomes[index] = outcome
    return outcomes


def is_surely_not_ours(context: Context, name: str) -> bool:
    """Whether an unknown order is certainly not ours."""
    # A rail with its own names of orders may put any participant's number into them.
    return context.policy.abilities.keeps_our_id and identifiers.is_of_another(name, context.policy.ispb)


async def _compare(context: Context, repeated_ids: Sequence[tuple[str, Ending]]) -> list[Misfit | None]:
    """Compare repeated endings with the recorded ones; an operator has to see differences."""
    recorded = await read_ordered(context.pool, [name for name, _ in repeated_ids])
    misfits: list[Misfit | None] = []
    for name, ending in repeated_ids:
        if name not in recorded:
            misfits.append(UNKNOWN_ORDER)
            continue
        status = recorded[name].status
        agrees = isinstance(ending, GivenUp) or isinstance(ending, Settled) == (status in {"CONFIRMED", "RETURNED"})
        explanation = f"the rail says {type(ending).__name__}, and {status} is recorded here"
        misfits.append(None if agrees else Misfit(reason="contradiction", explanation=explanation))
    return misfits


async def _write_endings(batch: Batch[EndedOrder]) -> list[bool]:
    work = await begin_money_work(batch, holders_of, statements_of)
    # Charges before transfers, in the order in which incoming payments lock them too.
    refunds = [ended.ordered for ended in batch if isinstance(ended.ordered, Refund)]
    await work.lock_charges_of([refund.original_end_to_end_id for refund in refunds])
    orders = await order_store.lock(work.connection, [name_of(ended.ordered) for ended in batch])
    await work.lock_transfers({(refund.transfer_id, refund.holder_id) for refund in refunds})
    rules = [rule(work) for rule in list_rules()]
    for rule in rules:
        await rule.begin(batch)
    outcomes: list[bool] = []
    first_ids = FirstIds()
    # Read here, where orders cannot be marked: the server may have restarted since they were found to be too late.
    if any(isinstance(ended.ending, GivenUp) and ended.has_rail for ended in batch):
        first_ids = await installation_store.read_first_ids(batch.connection)
    for ended in batch:
        order = orders.get(name_of(ended.ordered))
        # The order of another holder, whose balance is not locked here.
        if order is not None and order.holder_id != ended.holder_id:
            order = None
        outcomes.append(order is not None)
        if order is None or (isinstance(ended.ending, GivenUp) and not may_give_up(order, work.now, first_ids)):
            continue  # it had ended already, or was handed over after all
        del orders[order.name]  # a second ending of it in this batch finds it closed
        work.delete(ORDERS, order)
        for rule in rules:
            rule.end(ended, order)
        # While it is under way, only its order has the handover time and the network's name.
        before = msgspec.structs.replace(ended.ordered, handed_at=order.handed_at, network_id=order.network_id)
        ending = complete_ending(ended.ending, order)
        if isinstance(before, Transfer):
            _end_transfer(work, before, ending)
        else:
            _end_refund(work, before, ending)
    await work.write()
    for rule in rules:
        await rule.finish()
    return outcomes


WRITE_ENDINGS: Final = WriteOperation("write_endings", _write_endings)


def _end_transfer(work: UnitOfWork, before: Transfer, ending: Ending) -> None:
    into = _freed_into(ending)
    after = end_transfer(before, ending, work.now)
    work.post(after.holder_id, "reserved", into, after.amount_cents, after.cause)
    work.move(TRANSFERS, before, after)
    work.announce_transfer(after)


def _end_refund(work: UnitOfWork, before: Refund, ending: Ending) -> None:
    original, amount_cents = work.transfers[before.transfer_id, before.holder_id], before.amount_cents
    into = _freed_into(ending)
    after = end_refund(before, ending, work.now)
    work.post(after.holder_id, "reserved", into, amount_cents, after.cause)
    work.move(REFUNDS, before, after)
    if isinstance(ending, Settled):
        count_returned(work, original, amount_cents, returning_cents=amount_cents)
    else:
        kept = work.transfers[original.id, original.holder_id] = transfer_rules.release_part(original, amount_cents)
        work.move(TRANSFERS, original, kept)
    work.announce_refund(after)


def _freed_into(ending: Ending) -> Account:
    # Reserved money leaves only once the rail has reported the settlement.
    return "settlement" if isinstance(ending, Settled) else "available"


ASK_AFTER = timedelta(seconds=2)  # the rail is queried about an order that got no answer for this long
ASK_AFTER_MAX = timedelta(minutes=5)


def ask_again_after(asked_count: int) -> timedelta:
    """Backoff of queries about an order, without end."""
    # The exponent has a bound because the count has none.
    return min(ASK_AFTER * 2 ** min(asked_count, 16), ASK_AFTER_MAX)
