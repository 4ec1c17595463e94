"""Rules that check transfers and refunds before they become orders, and again before delayed orders leave.

Each is an ``OrderRule``: the holder's limits, flags and funds here, others in features.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache
from typing import Final

from pixconnect.kernel.feature import Ranked, gather_classes
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.ledger import Balance, check_funds, check_may_withdraw
from pixconnect.kernel.rules.limit import NO_LIMITS, Interval, Spending, Spent
from pixconnect.kernel.rules.order import OpenOrder, OrderWait, WaitingOrder, find_debt_hold, find_flag_hold
from pixconnect.kernel.rules.refund import NewRefund, Refund, check_original
from pixconnect.kernel.rules.transfer import NewTransfer, Transfer
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.tables import order as order_store
from pixconnect.kernel.tables import tally as tally_store
from pixconnect.kernel.writing.unit_of_work import UnitOfWork
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection, Pool

NewOrder = NewTransfer | NewRefund


def payers_of(batch: Sequence[NewOrder]) -> set[int]:
    return {new.holder_id for new in batch}


class OrderRule(Ranked):
    """Each batch of new transfers or refunds has one of each kind that concerns it. A rule defines the methods it needs.

    Ranks give the documented order of refusals; features have ranks between and around those of the kernel.
    """

    def __init__(self, work: UnitOfWork) -> None:
        self.work = work

    @staticmethod
    def concerns(work: UnitOfWork, batch: Sequence[NewOrder]) -> bool:
        """Return whether the rule may concern any of a batch, judged by the locked rows."""
        return True

    async def begin(self, batch: Sequence[NewOrder]) -> None:
        """Read what the rule compares, under the batch's locks."""

    def check(self, new: NewOrder) -> None:
        """Refuse a transfer or refund."""

    def count(self, new: NewOrder) -> None:
        """Count an accepted one against the next ones of the batch."""

    def delay(self, new: NewOrder, transfer: Transfer, order: OpenOrder) -> OpenOrder:
        """Return the order of an accepted transfer, delayed if this rule requires it."""
        return order

    @staticmethod
    async def check_payer(pool: Pool, now: datetime, balance: Balance, amount_cents: int) -> None:
        """Refuse a transfer of this amount to any payee, outside of a batch."""

    @staticmethod
    async def find_wait(pool: Pool, order_name: str) -> OrderWait | None:
        """Find this rule's reason why an order waits."""

    @staticmethod
    async def find_holds(connection: Connection | Pool, waiting: Sequence[WaitingOrder]) -> dict[str, str]:
        """Find the reasons why some of these orders may not leave now, by name."""
        return {}


class HolderLimits(OrderRule):
    rank = 20

    def __init__(self, work: UnitOfWork) -> None:
        super().__init__(work)
        self._spending = Spending(work.now)

    @staticmethod
    def concerns(work: UnitOfWork, batch: Sequence[NewOrder]) -> bool:
        # A refund counts against no limit, and no batch has both.
        return isinstance(batch[0], NewTransfer) and any(work.balances[each].limits != NO_LIMITS for each in payers_of(batch))

    async def begin(self, batch: Sequence[NewOrder]) -> None:
        balances = self.work.balances
        for holder_id in sorted(each for each in payers_of(batch) if balances[each].limits.are_of_sums):
            await _add_spent(self.work.connection, self._spending, balances[holder_id])

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


class Flags(OrderRule):
    """The holder may withdraw."""

    rank = 30

    @staticmethod
    def concerns(work: UnitOfWork, batch: Sequence[NewOrder]) -> bool:
        return not all(work.balances[each].may_withdraw for each in payers_of(batch))

    def check(self, new: NewOrder) -> None:
        check_may_withdraw(self.work.balances[new.holder_id])

    @staticmethod
    async def check_payer(pool: Pool, now: datetime, balance: Balance, amount_cents: int) -> None:
        check_may_withdraw(balance)

    @staticmethod
    async def find_holds(connection: Connection | Pool, waiting: Sequence[WaitingOrder]) -> dict[str, str]:
        return {each.name: hold for each in waiting if (hold := find_flag_hold(each)) is not None}


class Originals(OrderRule):
    """A refund is in time, and does not exceed what other refunds left of its Pix."""

    rank = 40

    @staticmethod
    def concerns(work: UnitOfWork, batch: Sequence[NewOrder]) -> bool:
        return isinstance(batch[0], NewRefund)

    def check(self, new: NewOrder) -> None:
        if isinstance(new, NewRefund):
            original = self.work.transfers[new.original_id, new.holder_id]
            check_original(new.request.amount_cents, original, self.work.now)


class Funds(OrderRule):
    """The holder owes nothing and has the money."""

    rank = 60

    def check(self, new: NewOrder) -> None:
        check_funds(self.work.balances[new.holder_id], new.request.amount_cents)

    @staticmethod
    async def check_payer(pool: Pool, now: datetime, balance: Balance, amount_cents: int) -> None:
        check_funds(balance, amount_cents)

    @staticmethod
    async def find_holds(connection: Connection | Pool, waiting: Sequence[WaitingOrder]) -> dict[str, str]:
        return {each.name: hold for each in waiting if (hold := find_debt_hold(each)) is not None}


ORDER_RULES: Final[tuple[type[OrderRule], ...]] = (HolderLimits, Flags, Originals, Funds)
BEFORE_PAYEE: Final[tuple[type[OrderRule], ...]] = (HolderLimits,)  # rules whose refusals precede those that concern the payee


@cache
def list_rules() -> tuple[type[OrderRule], ...]:
    """The kernel's rules and those of features, in the documented order of refusals."""
    return gather_classes("order_rules", OrderRule, ORDER_RULES)


async def begin_rules(work: UnitOfWork, batch: Sequence[NewOrder]) -> list[OrderRule]:
    """The rules that may concern a batch, in order, ready to judge it. Call it once everything is locked."""
    rules = [kind(work) for kind in list_rules() if kind.concerns(work, batch)]
    for rule in rules:
        await rule.begin(batch)
    return rules


async def check_payer(
    context: Context, holder_id: int, amount_cents: int, rules: Sequence[type[OrderRule]] | None = None
) -> None:
    """Refuse, outside of a batch, an amount that a holder may not send to any payee; by default by all rules."""
    if (balance := await ledger_store.find_balance(context.pool, holder_id)) is not None:
        for rule in rules or list_rules():
            await rule.check_payer(context.pool, context.clock.now(), balance, amount_cents)


async def find_wait(pool: Pool, order_name: str) -> OrderWait | None:
    """What a person has to do before an order goes on: by a rule, or at its institution."""
    for rule in list_rules():
        if wait := await rule.find_wait(pool, order_name):
            return wait
    waiting = (await order_store.find_waiting(pool, [order_name])).get(order_name)
    return None if waiting is None else OrderWait(waits_for=waiting.waits_for, since=waiting.since)


async def find_holds(connection: Connection | Pool, under_way: Collection[Transfer | Refund]) -> dict[str, str]:
    """Find why some accepted transfers and refunds may not leave now, by order name.

    After an order was accepted, its holder may be blocked, disabled or limited, and the Pix that it returns may be contested.
    """
    standings = await ledger_store.read_standings(connection, {ordered.holder_id for ordered in under_way})
    waiting = [
        WaitingOrder(ordered=ordered, balance=balance, is_disabled=is_disabled, is_heir_blocked=is_heir_blocked)
        for ordered in under_way
        for balance, is_disabled, is_heir_blocked in [standings[ordered.holder_id]]
    ]
    holds: dict[str, str] = {}
    for rule in list_rules():
        # The reason of the first rule counts.
        holds = await rule.find_holds(connection, waiting) | holds
    return holds
