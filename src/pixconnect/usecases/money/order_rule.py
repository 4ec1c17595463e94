"""A rule of one feature about transfers before they become orders, and about orders that wait before they leave."""

from __future__ import annotations

from collections.abc import Sequence

from pixconnect.domain.money.leaving import WaitingOrder
from pixconnect.domain.money.order import OpenOrder
from pixconnect.domain.money.transfer import NewTransfer, Transfer
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.writing.unit_of_work import UnitOfWork


class OrderRule:
    """Each batch of new transfers has one of each kind. A rule defines the methods that it needs."""

    def __init__(self, work: UnitOfWork) -> None:
        self.work = work

    async def begin(self, batch: Sequence[NewTransfer]) -> None:
        """Read what the rule compares, behind the locks of balances; without a query where it concerns none of the batch."""

    def check(self, new: NewTransfer) -> None:
        """Refuse a transfer."""

    def count(self, new: NewTransfer) -> None:
        """Count an accepted transfer against the next ones of the batch."""

    def delay(self, new: NewTransfer, transfer: Transfer, order: OpenOrder) -> OpenOrder:
        """The order of an accepted transfer as it waits by this rule."""
        del new, transfer
        return order

    @staticmethod
    async def find_holds(connection: Connection | Pool, waiting: Sequence[WaitingOrder]) -> dict[str, str]:
        """The reasons why some of these orders may not leave now, by their names."""
        del connection, waiting
        return {}
