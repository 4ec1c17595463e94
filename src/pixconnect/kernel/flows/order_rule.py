"""A feature's hooks for transfers and refunds before they become orders, and for delayed orders before they leave."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pixconnect.kernel.feature import Ranked
from pixconnect.kernel.rules.leaving import WaitingOrder
from pixconnect.kernel.rules.ledger import Balance
from pixconnect.kernel.rules.order import OpenOrder, OrderWait
from pixconnect.kernel.rules.refund import NewRefund
from pixconnect.kernel.rules.transfer import NewTransfer, Transfer
from pixconnect.kernel.writing.unit_of_work import UnitOfWork
from pixconnect.platform.pool import Connection, Pool

NewOrder = NewTransfer | NewRefund


class OrderRule(Ranked):
    """Each batch of new transfers or refunds has one of each kind. A rule defines the methods that it needs.

    Ranks give the documented order of refusals: 10 allowances of the account, 20 limits of the holder, 30 flags, 40 a refund's
    original, 50 contests, 60 funds, 70 approvals.
    """

    def __init__(self, work: UnitOfWork) -> None:
        self.work = work

    async def begin(self, batch: Sequence[NewOrder]) -> bool:
        """Read what the rule compares, under the batch's locks; return whether the rule may concern any of the batch.

        A rule that concerns none runs no query.
        """
        del batch
        return True

    def check(self, new: NewOrder) -> None:
        """Refuse a transfer or refund."""

    def count(self, new: NewOrder) -> None:
        """Count an accepted one against the next ones of the batch."""

    def delay(self, new: NewOrder, transfer: Transfer, order: OpenOrder) -> OpenOrder:
        """Return the order of an accepted transfer, delayed if this rule requires it."""
        del new, transfer
        return order

    @staticmethod
    async def check_payer(pool: Pool, now: datetime, balance: Balance, amount_cents: int) -> None:
        """Refuse a transfer of this amount to any payee, outside of a batch."""

    @staticmethod
    async def find_wait(pool: Pool, order_name: str) -> OrderWait | None:
        """Find this rule's reason why an order waits."""
        del pool, order_name

    @staticmethod
    async def find_holds(connection: Connection | Pool, waiting: Sequence[WaitingOrder]) -> dict[str, str]:
        """Find the reasons why some of these orders may not leave now, by name."""
        del connection, waiting
        return {}
