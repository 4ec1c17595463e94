"""A holder's limits on outgoing transfers, and their use."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pixconnect.kernel.flows.order_rule import NewOrder, OrderRule
from pixconnect.kernel.rules.leaving import WaitingOrder
from pixconnect.kernel.rules.ledger import Balance
from pixconnect.kernel.rules.limit import NO_LIMITS, Interval, Spending, Spent
from pixconnect.kernel.rules.transfer import NewTransfer, Transfer
from pixconnect.kernel.tables import tally as tally_store
from pixconnect.kernel.writing.unit_of_work import UnitOfWork
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection, Pool


class HolderLimits(OrderRule):
    rank = 20

    def __init__(self, work: UnitOfWork) -> None:
        super().__init__(work)
        self._spending = Spending(work.now)

    async def begin(self, batch: Sequence[NewOrder]) -> bool:
        balances = self.work.balances
        payers = {new.holder_id for new in batch if isinstance(new, NewTransfer)}
        for holder_id in sorted(each for each in payers if balances[each].limits.are_of_sums):
            await _add_spent(self.work.connection, self._spending, balances[holder_id])
        return any(balances[each].limits != NO_LIMITS for each in payers)

    def check(self, new: NewOrder) -> None:
        self._spending.check(new.holder_id, self.work.balances[new.holder_id].limits, new.request.amount_cents)

    def count(self, new: NewOrder) -> None:
        self._spending.count(new.holder_id, new.request.amount_cents)

    @staticmethod
    async def check_payer(pool: Pool, now: datetime, balance: Balance, amount_cents: int) -> None:
        spending = Spending(now)
        if balance.limits.are_of_sums:
            await _add_spent(pool, spending, balance)
        spending.check(balance.holder_id, balance.limits, amount_cents)

    @staticmethod
    async def find_holds(connection: Connection | Pool, waiting: Sequence[WaitingOrder]) -> dict[str, str]:
        holds: dict[str, str] = {}
        # Thousands of one holder may wait, and most of them count on one day.
        sums: dict[tuple[int, Interval, Interval | None], Spent] = {}
        for each in waiting:
            transfer, limits = each.ordered, each.balance.limits
            if not isinstance(transfer, Transfer):
                continue
            # It counts on the day on which it was accepted.
            spending = Spending(transfer.created_at)
            if limits.are_of_sums:
                wanted = transfer.holder_id, spending.day, spending.find_night(limits)
                if wanted not in sums:
                    sums[wanted] = await tally_store.read_spent(connection, *wanted)
                spent, own_cents = sums[wanted], transfer.amount_cents
                others = Spent(day_cents=spent.day_cents - own_cents, night_cents=spent.night_cents - own_cents)
                spending.start(transfer.holder_id, others)
            try:
                spending.check(transfer.holder_id, limits, transfer.amount_cents)
            except errors.LimitExceeded as exceeded:
                holds[each.name] = str(exceeded)
        return holds


async def _add_spent(connection: Connection | Pool, spending: Spending, balance: Balance) -> None:
    """Start from the present sums of a holder with limits."""
    spans = spending.day, spending.find_night(balance.limits)
    spending.start(balance.holder_id, await tally_store.read_spent(connection, balance.holder_id, *spans))
