"""The holder's money: balance, transactions, deposits."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from pixconnect.domain import errors, money
from pixconnect.domain.access import Caller
from pixconnect.domain.ledger import Balance, Transaction
from pixconnect.domain.listing import Page, Span
from pixconnect.store import ledger as ledger_store
from pixconnect.usecases.write_group import open_write_group

if TYPE_CHECKING:
    from pixconnect.foundation.pool import Connection
    from pixconnect.usecases.context import Context


async def read_balance(context: "Context", caller: Caller) -> Balance:
    """The holder's balance as it is now."""
    balance = await ledger_store.find_balance(context.pool, caller.holder_id)
    if balance is None:
        raise errors.NotFound("there is no such holder")
    return balance


async def list_transactions(context: "Context", caller: Caller, span: Span) -> Page[Transaction]:
    """One page of what changed the holder's current funds, newest first."""
    return await ledger_store.read_page(context.pool, caller.holder_id, span)


class NewDeposit(Struct, frozen=True, kw_only=True):
    """Money put into an account from outside the scheme.

    Attributes:
        holder_id: Whose account.
        amount_cents: Judged.
        external_id: None: a deposit has no name, and one whose outcome is unknown is not repeated.
    """

    holder_id: int
    amount_cents: int
    external_id: str | None = None


class Deposit(Struct, frozen=True, kw_only=True):
    """A deposit that was made.

    Attributes:
        id: Of its ledger entry.
        amount_cents: Cents.
        created_at: Service time.
    """

    id: int
    amount_cents: int
    created_at: datetime


async def deposit(context: "Context", holder_id: int, amount_cents: int) -> Deposit:
    """Put money into a holder's account. Only the sandbox and the first start do: in live mode money comes over the rail.

    Raises:
        AmountOutOfRange: The amount.
        ServiceUnavailable: Nothing was done.
    """
    money.check_amount(amount_cents)
    new = NewDeposit(holder_id=holder_id, amount_cents=amount_cents)
    return await context.groups.submit(deposit_all, context, new)


async def deposit_all(context: "Context", connection: "Connection", group: Sequence[NewDeposit]) -> list[Deposit]:
    """Write a group of deposits."""
    writing = await open_write_group(context, connection, (new.holder_id for new in group))
    entries = [writing.post(new.holder_id, "funding", "available", new.amount_cents) for new in group]
    await writing.write()
    return [Deposit(id=entry.id, amount_cents=entry.amount_cents, created_at=entry.created_at) for entry in entries]
