"""The holder's money: balance, transactions, deposits; batches that move it, and the claims on money that becomes available."""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cache
from typing import Final

from msgspec import Struct

from pixconnect.kernel.feature import gather_classes
from pixconnect.kernel.flows.context import Context, of_caller
from pixconnect.kernel.rules import money
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.ledger import Balance, Cause, LedgerEntry, Repayment
from pixconnect.kernel.tables import clock as identifier_store
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.writing.batch import Batch, Request, WriteOperation
from pixconnect.kernel.writing.unit_of_work import Claim, UnitOfWork, begin_money_work, own_holder
from pixconnect.platform.base import errors


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


async def read_balance(context: Context, caller: Caller) -> Balance:
    balance = await ledger_store.find_balance(context.pool, caller.holder_id)
    return errors.found(balance, "there is no such holder")


list_transactions: Final = of_caller(ledger_store.read_page)
"""One page of the entries that changed the holder's current funds, newest first."""


_DEPOSIT: Final = Cause("deposit", "MADE")


class NewDeposit(Struct, frozen=True, kw_only=True):
    holder_id: int
    amount_cents: int
    entry_id: int
    """The ledger entry's id, generated before the first try: a deposit has no other name by which we could find it."""


class Deposit(Struct, frozen=True, kw_only=True):
    id: int
    amount_cents: int
    created_at: datetime


async def deposit(context: Context, holder_id: int, amount_cents: int) -> Deposit:
    """Deposit money into a holder's account, in the sandbox and at the first start; in live mode money comes over the rail.

    Raises:
        HolderBlocked: The holder may not deposit.
    """
    money.check_amount(amount_cents)
    entry_id = await identifier_store.take_block(context.pool)
    new = NewDeposit(holder_id=holder_id, amount_cents=amount_cents, entry_id=entry_id)
    return await context.writes.submit(DEPOSIT_ALL, new)


async def _deposit_all(batch: Batch[NewDeposit]) -> list[Deposit | errors.PixConnectError]:
    work = await lock_balances(batch)
    known = await ledger_store.find_entry_times(batch.connection, [(new.entry_id, new.holder_id) for new in batch])
    outcomes: list[Deposit | errors.PixConnectError] = []
    made: list[LedgerEntry] = []
    for new in batch:
        name = new.entry_id, new.holder_id
        # An earlier try of this batch was committed after all.
        if name in known:
            created_at = known[name]
        elif work.balances[new.holder_id].may_deposit:
            entry = work.post(new.holder_id, "funding", "available", new.amount_cents, _DEPOSIT, entry_id=new.entry_id)
            made.append(entry)
            created_at = entry.created_at
        else:
            outcomes.append(errors.HolderBlocked("the holder may not deposit"))
            continue
        outcomes.append(Deposit(id=new.entry_id, amount_cents=new.amount_cents, created_at=created_at))
    # The causes first: the schema rejects an entry from funding without a deposit.
    await ledger_store.add_deposits(batch.connection, made, work.now)
    await work.write()
    return outcomes


DEPOSIT_ALL: Final = WriteOperation("deposit_all", _deposit_all)
