"""Batches that move money, and the claims on money that becomes available."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Final

from pixconnect.kernel.feature import gather_classes
from pixconnect.kernel.rules.ledger import Cause, LedgerEntry, Repayment
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.writing.batch import Batch, Request
from pixconnect.kernel.writing.unit_of_work import Claim, UnitOfWork, begin_money_work, own_holder


class Deficit(Claim):
    """Repays a holder's debt first: nothing is available while anything is owed."""

    rank = 10

    def take(self, source: LedgerEntry) -> None:
        amount_cents = self.work.balances[source.holder_id].repayable_cents
        if not amount_cents:
            return
        entry = self.work.post(source.holder_id, "available", "deficit", amount_cents, Cause("repayment", "MADE"))
        repayment = Repayment(
            id=entry.id,
            holder_id=entry.holder_id,
            source_entry_id=source.id,
            amount_cents=entry.amount_cents,
            created_at=entry.created_at,
        )
        self.work.put(ledger_store.REPAYMENTS, repayment)


CLAIMS: Final[tuple[type[Claim], ...]] = (Deficit,)
"""The kernel's own."""


@cache
def list_claims() -> tuple[type[Claim], ...]:
    """The kernel's claims and those of features, in their order."""
    return gather_classes("claims", Claim, CLAIMS)


async def lock_balances(
    batch: Batch[Request],
    holders_of: Callable[[Request], Iterable[int]] = own_holder,
    statements_of: Callable[[Request], Iterable[int]] | None = None,
) -> UnitOfWork:
    """Begin a batch that moves money; as ``begin_money_work``."""
    return await begin_money_work(batch, list_claims(), holders_of, statements_of)
