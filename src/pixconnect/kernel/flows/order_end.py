"""Orders that end, and what features do in the transaction that writes an end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final, Protocol

from msgspec import Struct

from pixconnect.kernel.feature import Ranked, gather_classes
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.payee import note_payee
from pixconnect.kernel.rules.order import Ending, OpenOrder
from pixconnect.kernel.rules.rail import Settled
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.writing.unit_of_work import UnitOfWork


class Beside(Protocol):
    """Money that the end of an order moves beside the order's own; each rule has its own kind."""

    @property
    def holder_id(self) -> int: ...


class EndedOrder(Struct, frozen=True, kw_only=True):
    ordered: Transfer | Refund
    """The accepted transfer or refund; it does not change while its order is open."""
    ending: Ending
    has_rail: bool
    """Without a rail we never sent an order, so that we may give up each."""
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
        del context, ordered, ending

    async def begin(self, batch: Sequence[EndedOrder]) -> None:
        """Read what the rule changes, under the batch's locks."""

    def end(self, ended: EndedOrder, order: OpenOrder) -> None:
        """Change what belongs to an order that ends, before its own money moves."""

    async def finish(self) -> None:
        """Write what needs the rows of the batch."""


class ToldPayees(EndRule):
    rank = 30

    def __init__(self, work: UnitOfWork) -> None:
        super().__init__(work)
        self._told: list[tuple[Transfer, Ending]] = []

    def end(self, ended: EndedOrder, order: OpenOrder) -> None:
        if isinstance(ended.ordered, Transfer):
            self._told.append((ended.ordered, ended.ending))

    async def finish(self) -> None:
        for sent, ending in self._told:
            await note_payee(self.work.connection, sent, ending, self.work.now)


END_RULES: Final[tuple[type[EndRule], ...]] = (ToldPayees,)
"""The kernel's own."""


@cache
def list_rules() -> tuple[type[EndRule], ...]:
    """The kernel's rules and those of features, in the order in which they change things."""
    return gather_classes("end_rules", EndRule, END_RULES)
