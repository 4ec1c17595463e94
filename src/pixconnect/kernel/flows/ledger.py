"""The holder's money: balance, transactions, deposits."""

from datetime import datetime
from typing import Final

from msgspec import Struct

from pixconnect.kernel.flows.context import Context, of_caller
from pixconnect.kernel.rules import money
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.ledger import Balance, Cause, LedgerEntry
from pixconnect.kernel.tables import clock as identifier_store
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.writing.batch import Batch, WriteOperation
from pixconnect.kernel.writing.unit_of_work import begin_money_work
from pixconnect.platform.base import errors


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
    work = await begin_money_work(batch)
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
