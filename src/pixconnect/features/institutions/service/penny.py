"""Sends R$ 0,01 from an account's house to a key that an operator names, and finds what is returned by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.service.account import find_account, name_account
from pixconnect.features.institutions.tables import books as books_store
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Context, Operator, write_alone
from pixconnect.kernel.flows.transfer import start_transfer
from pixconnect.kernel.rules.access import ALL_SCOPES, Caller
from pixconnect.kernel.rules.holder import KeyType
from pixconnect.kernel.rules.listing import Span
from pixconnect.kernel.rules.transfer import KeyTransferRequest, Transfer
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.platform.base import errors

PENNY_CENTS: Final = 1
_LISTED_MAX: Final = 100


class PennyTerms(Struct, frozen=True, kw_only=True):
    """The planned actions."""

    account: InstitutionAccount
    fee_cents: int | None
    """The last known fee for a transfer from the account; ``None`` if none was read."""


class PennySent(Struct, frozen=True, kw_only=True):
    """The progress of the test."""

    transfer: Transfer
    came_back: Sequence[Transfer] = ()
    """Pix of the same amount that came in for the house since, newest first: customers pay more."""

    @property
    def is_back(self) -> bool:
        return bool(self.came_back) or self.transfer.returned_cents > 0


async def read_penny_terms(context: Context, name: str) -> PennyTerms:
    """Read the terms of sending: its source and its price.

    Raises:
        NotFound: The account does not exist.
        BadRequest: It is not active.
    """
    async with context.pool.acquire() as connection:
        account = await find_account(connection, name)
        fee_cents = await books_store.find_last_fee(connection, account.id)
    if account.state != "active":
        raise errors.BadRequest(f"name: the account {name} is {account.state}: nothing is sent over it")
    return PennyTerms(account=account, fee_cents=fee_cents)


async def send_penny(
    context: Context, operator: Operator, account: InstitutionAccount, key: str, key_type: KeyType
) -> Transfer:
    """Send the cent as any transfer of the house: within the allowance, by the worker, once.

    Raises:
        RuleBroken: As of every transfer.
        ServiceUnavailable: Nothing can be sent over the account now; nothing was done.
        OutcomeUnknown: It may have been accepted; check the house's transfers.
    """
    request = KeyTransferRequest(amount_cents=PENNY_CENTS, key=key, key_type=key_type)
    async with write_alone(operator.pool) as connection:
        # Before sending: the audit has the attempt even if its outcome is lost.
        await audit.record(operator, connection, "institution check", name_account(account.name), after=request)
    return (await start_transfer(context, _act_for(account, operator), request)).transfer


async def follow_penny(context: Context, sent: Transfer) -> PennySent:
    """Return its state, and the house's incoming Pix meanwhile."""
    now = await transfer_store.find_by_id(context.pool, sent.holder_id, sent.id)
    span = Span(page_size=_LISTED_MAX, initial_at=sent.created_at)
    page = await transfer_store.read_page(context.pool, sent.holder_id, "CONFIRMED", span)
    back = [one for one in page.items if one.direction == "IN" and one.amount_cents == PENNY_CENTS]
    return PennySent(transfer=now or sent, came_back=back)


def _act_for(account: InstitutionAccount, operator: Operator) -> Caller:
    return Caller(
        client_id=operator.operator, holder_id=account.house_id, scopes=ALL_SCOPES, operator=operator.operator
    )
