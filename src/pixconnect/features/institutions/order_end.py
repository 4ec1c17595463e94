"""What an account at an institution adds to the end of an order.

An item of the statement may have been read before the order was known to be it, and posted as a movement: the statement that
settles the order posts that movement's opposite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pixconnect.features.institutions.accounts import ACCOUNT
from pixconnect.features.institutions.rules.joining import LineKey, ReversedMovement
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables import returns as return_store
from pixconnect.features.institutions.tables.rail_step import ENDED_STEPS
from pixconnect.features.movements import tables as movement_store
from pixconnect.features.movements.rules import Movement
from pixconnect.features.movements.service import take_back
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.settlement import EndedOrder, EndRule
from pixconnect.kernel.rules.order import Ending, OpenOrder, name_of
from pixconnect.kernel.rules.rail import Settled
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.writing.unit_of_work import UnitOfWork
from pixconnect.platform.base.clock import to_day
from pixconnect.platform.pool import Connection, Pool


async def find_mistaken(
    connection: Connection | Pool, account_id: int, ordered: Transfer | Refund, ending: Ending
) -> ReversedMovement | None:
    """The movement that an item became which this order has proved to be."""
    if not isinstance(ending, Settled):
        return None
    names = [name for name in (name_of(ordered), ordered.network_id, ending.network_id) if name is not None]
    of = [ordered.original_end_to_end_id] if isinstance(ordered, Refund) else []
    day = to_day(ending.settled_at)
    return await return_store.find_mistaken(connection, account_id, ordered.amount_cents, names, of, day)


class Steps(EndRule):
    rank = 10

    def end(self, ended: EndedOrder, order: OpenOrder) -> None:
        if order.institution_id is not None:
            self.work.put(ENDED_STEPS, order)


class MistakenItems(EndRule):
    rank = 20

    def __init__(self, work: UnitOfWork) -> None:
        super().__init__(work)
        self._moved: dict[tuple[int, str], Movement] = {}
        """By holder and item."""
        self._proved: list[tuple[ReversedMovement, LineKey]] = []

    @staticmethod
    async def prepare(context: Context, ordered: Transfer | Refund, ending: Ending) -> ReversedMovement | None:
        account = context.port(ACCOUNT)
        # The installation's own rail tells no line twice.
        return None if account is None else await find_mistaken(context.pool, account.id, ordered, ending)

    async def begin(self, batch: Sequence[EndedOrder]) -> None:
        mistaken = [found.key for ended in batch if (found := _mistaken_of(ended)) is not None]
        if mistaken:
            self._moved = await movement_store.find_standing(self.work.connection, mistaken)

    def end(self, ended: EndedOrder, order: OpenOrder) -> None:
        mistaken = _mistaken_of(ended)
        movement = None if mistaken is None else self._moved.pop(mistaken.key, None)
        if mistaken is not None and movement is not None:
            # First what it took: it may be owed.
            take_back(self.work, movement, order.network_id or order.name)
            self._proved.append((mistaken, ("transfer" if order.is_transfer else "refund", order.resource_id)))

    async def finish(self) -> None:
        for mistaken, key in self._proved:
            await item_store.rejoin(self.work.connection, mistaken, key)


def _mistaken_of(ended: EndedOrder) -> ReversedMovement | None:
    return next((each for each in ended.beside if isinstance(each, ReversedMovement)), None)


END_RULES: Final = (Steps, MistakenItems)
