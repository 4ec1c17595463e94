"""The rules that judge transfers before they become orders, and again before orders that waited leave."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from pixconnect.domain.money.leaving import WaitingOrder, find_funds_hold
from pixconnect.domain.money.ledger import check_funds
from pixconnect.domain.money.order import OpenOrder
from pixconnect.domain.money.refund import Refund
from pixconnect.domain.money.transfer import NewTransfer, Transfer
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.money import ledger as ledger_store
from pixconnect.usecases.money.approval_rule import Approvals
from pixconnect.usecases.money.held_blocks import Contests
from pixconnect.usecases.money.order_rule import OrderRule
from pixconnect.usecases.money.outgoing_transfer import Allowances
from pixconnect.usecases.money.spending import HolderLimits
from pixconnect.writing.unit_of_work import UnitOfWork


class Funds(OrderRule):
    """The holder may withdraw, owes nothing and has the money."""

    def check(self, new: NewTransfer) -> None:
        check_funds(self.work.balances[new.holder_id], new.request.amount_cents)

    @staticmethod
    async def find_holds(connection: Connection | Pool, waiting: Sequence[WaitingOrder]) -> dict[str, str]:
        del connection
        return {each.name: hold for each in waiting if (hold := find_funds_hold(each)) is not None}


# In the documented order of refusals.
ORDER_RULES: Final[tuple[type[OrderRule], ...]] = (Contests, Allowances, HolderLimits, Funds, Approvals)


class OrderRules:
    """All rules, for the transfers of one batch."""

    def __init__(self, work: UnitOfWork) -> None:
        self._rules = [rule(work) for rule in ORDER_RULES]

    async def begin(self, batch: Sequence[NewTransfer]) -> None:
        for rule in self._rules:
            await rule.begin(batch)

    def check(self, new: NewTransfer) -> None:
        for rule in self._rules:
            rule.check(new)

    def count(self, new: NewTransfer) -> None:
        for rule in self._rules:
            rule.count(new)

    def delay(self, new: NewTransfer, transfer: Transfer, order: OpenOrder) -> OpenOrder:
        for rule in self._rules:
            order = rule.delay(new, transfer, order)
        return order


async def find_holds(connection: Connection | Pool, under_way: Collection[Transfer | Refund]) -> dict[str, str]:
    """The reasons why some accepted transfers and refunds may not leave now, by the names of their orders.

    After an order was accepted, its holder may be blocked, disabled or limited, and the Pix that it returns may be contested.
    """
    standings = await ledger_store.read_standings(connection, {ordered.holder_id for ordered in under_way})
    waiting = [
        WaitingOrder(ordered=ordered, balance=balance, is_disabled=is_disabled)
        for ordered in under_way
        for balance, is_disabled in [standings[ordered.holder_id]]
    ]
    holds: dict[str, str] = {}
    for rule in ORDER_RULES:
        # The reason of the first rule counts.
        holds = await rule.find_holds(connection, waiting) | holds
    return holds
