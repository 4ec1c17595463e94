"""The balance and the transactions on the wire."""

from typing import Literal

from msgspec import Struct

from pixconnect.doors.api import paging
from pixconnect.doors.api.envelope import Amount, Cents, Id, Instant, Listing, ListQuery
from pixconnect.doors.api.operation import Nothing, Request, Services
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.platform.base.clock import format_instant


class HolderBalance(Struct, frozen=True, kw_only=True):
    """The account's balance."""

    available_funds: Cents
    """Money that can be spent."""
    current_funds: Cents
    """Money in the account, reserved and blocked money included."""
    able_to_deposit: bool
    """Whether money may come in."""
    able_to_lend: bool
    """Whether the account may lend."""
    able_to_withdraw: bool
    """Whether money may go out."""
    last_modified: Instant
    """When it last changed, reservations included."""


class Transaction(Struct, frozen=True, kw_only=True):
    """A change of the account's current funds."""

    id: Id
    """The service's own name for it."""
    amount: Amount
    """How much the funds changed."""
    impact_type: Literal["IN", "OUT"]
    """IN raised them, OUT lowered them."""
    create_timestamp: Instant
    """When it settled."""
    last_modified: Instant
    """The same: a transaction never changes."""


async def retrieve_balance(services: Services, request: Request[None, Nothing, Nothing]) -> HolderBalance:
    """Read your balance."""
    balance = await ledger_usecases.read_balance(services.context, request.caller)
    return HolderBalance(
        available_funds=balance.available_cents,
        current_funds=balance.current_cents,
        able_to_deposit=balance.may_deposit,
        able_to_lend=balance.may_lend,
        able_to_withdraw=balance.may_withdraw,
        last_modified=format_instant(balance.modified_at),
    )


async def list_transactions(services: Services, request: Request[None, ListQuery, Nothing]) -> Listing[Transaction]:
    """List your transactions.

    The changes of your current funds: settled transfers and refunds, deposits, your institution's own movements and repayments
    of your deficit. Newest first. Reserving is not a transaction.
    """
    asked = paging.read_asked("transactions", request)
    page = await ledger_usecases.list_transactions(services.context, request.caller, asked.span)
    items = [
        Transaction(
            id=transaction.id,
            amount=transaction.amount_cents,
            impact_type=transaction.direction,
            create_timestamp=format_instant(transaction.created_at),
            # The ledger is append-only.
            last_modified=format_instant(transaction.created_at),
        )
        for transaction in page.items
    ]
    return asked.show(page, items)
