"""The end of orders, and the hooks of features in the transaction that writes it.

An item of an institution's statement may have been posted as a movement before it was known to be an order: the statement that
settles the order then posts that movement's opposite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from pixconnect.features.institutions.rules.joining import LineKey, ReversedMovement
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables import mistaken_item as mistaken_store
from pixconnect.features.institutions.tables.rail_step import ENDED_STEPS
from pixconnect.features.movements import tables as movement_store
from pixconnect.features.movements.rules import Movement
from pixconnect.features.movements.service import take_back
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.payee import note_payee
from pixconnect.kernel.rules.order import Ending, OpenOrder, name_of
from pixconnect.kernel.rules.rail import Settled
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.writing.unit_of_work import UnitOfWork
from pixconnect.platform.base.clock import to_day
from pixconnect.platform.pool import Connection, Pool


class EndedOrder(Struct, frozen=True, kw_only=True):
    ordered: Transfer | Refund
    """The accepted transfer or refund; it does not change while its order is open."""
    ending: Ending
    has_rail: bool
    """Without a rail no order was ever sent, so each can be given up."""
    mistaken: ReversedMovement | None = None
    """The movement as which its item was posted before."""

    @property
    def holder_id(self) -> int:
        return self.ordered.holder_id


async def prepare_end(context: Context, ordered: Transfer | Refund, ending: Ending) -> EndedOrder:
    """Read, before any lock, what the end of an order needs."""
    account = context.policy.account
    # The installation's own rail reports no line twice.
    mistaken = None if account is None else await find_mistaken(context.pool, account.id, ordered, ending)
    return EndedOrder(ordered=ordered, ending=ending, has_rail=context.policy.has_rail, mistaken=mistaken)


async def find_mistaken(
    connection: Connection | Pool, account_id: int, ordered: Transfer | Refund, ending: Ending
) -> ReversedMovement | None:
    """Find the movement as which an order's item was posted."""
    if not isinstance(ending, Settled):
        return None
    names = [name for name in (name_of(ordered), ordered.network_id, ending.network_id) if name is not None]
    of = [ordered.original_end_to_end_id] if isinstance(ordered, Refund) else []
    day = to_day(ending.settled_at)
    return await mistaken_store.find_mistaken(connection, account_id, ordered.amount_cents, names, of, day)


def statements_of(ended: EndedOrder) -> tuple[int, ...]:
    """Find the holders whose statements its end may move."""
    return (ended.holder_id,) if ended.mistaken is None else (ended.holder_id, ended.mistaken.holder_id)


def holders_of(ended: EndedOrder) -> tuple[int, ...]:
    """Find the holders whose balances its end may move: reserved money that settles blocks no transfer in acceptance."""
    is_settled_alone = isinstance(ended.ending, Settled) and ended.mistaken is None
    return () if is_settled_alone else statements_of(ended)


class EndRule:
    """A feature's hooks for a batch of ends; it defines the methods that it needs. One instance per batch."""

    def __init__(self, work: UnitOfWork) -> None:
        self.work = work

    async def begin(self, batch: Sequence[EndedOrder]) -> None:
        """Read what the rule changes, under the batch's locks."""

    def end(self, ended: EndedOrder, order: OpenOrder) -> None:
        """Change what belongs to an order that ends, before its own money moves."""

    async def finish(self) -> None:
        """Write what needs the rows of the batch."""


class Steps(EndRule):
    def end(self, ended: EndedOrder, order: OpenOrder) -> None:
        if order.institution_id is not None:
            self.work.put(ENDED_STEPS, order)


class MistakenItems(EndRule):
    def __init__(self, work: UnitOfWork) -> None:
        super().__init__(work)
        self._moved: dict[tuple[int, str], Movement] = {}
        """By holder and item."""
        self._proved: list[tuple[ReversedMovement, LineKey]] = []

    async def begin(self, batch: Sequence[EndedOrder]) -> None:
        mistaken = [ended.mistaken.key for ended in batch if ended.mistaken is not None]
        if mistaken:
            self._moved = await movement_store.find_standing(self.work.connection, mistaken)

    def end(self, ended: EndedOrder, order: OpenOrder) -> None:
        movement = None if ended.mistaken is None else self._moved.pop(ended.mistaken.key, None)
        if ended.mistaken is not None and movement is not None:
            # First the item's money: it may be owed.
            take_back(self.work, movement, order.network_id or order.name)
            self._proved.append((ended.mistaken, ("transfer" if order.is_transfer else "refund", order.resource_id)))

    async def finish(self) -> None:
        for mistaken, key in self._proved:
            await item_store.rejoin(self.work.connection, mistaken, key)


class ToldPayees(EndRule):
    def __init__(self, work: UnitOfWork) -> None:
        super().__init__(work)
        self._told: list[tuple[Transfer, Ending]] = []

    def end(self, ended: EndedOrder, order: OpenOrder) -> None:
        if isinstance(ended.ordered, Transfer):
            self._told.append((ended.ordered, ended.ending))

    async def finish(self) -> None:
        for sent, ending in self._told:
            await note_payee(self.work.connection, sent, ending, self.work.now)


END_RULES: Final[tuple[type[EndRule], ...]] = (Steps, MistakenItems, ToldPayees)
