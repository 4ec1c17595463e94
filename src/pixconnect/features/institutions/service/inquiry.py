"""Operators' checks at an institution: a query for one Pix or charge, and a transfer of R$ 0,01 to a key that they name.

A query records new facts as a sweep would; it is for payers' support.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from pixconnect.features.institutions.accounts import INSTITUTIONS
from pixconnect.features.institutions.rail import RecordingRail
from pixconnect.features.institutions.rules import institution as port
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.rail_memory import SentPix
from pixconnect.features.institutions.service.account import find_account, name_account
from pixconnect.features.institutions.service.open_accounts import at_account, explain_to_operator
from pixconnect.features.institutions.service.returns import record_sent_returns
from pixconnect.features.institutions.service.sweep import record_page
from pixconnect.features.institutions.tables import books as books_store
from pixconnect.features.institutions.tables import rail_step as step_store
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Context, Operator, write_alone
from pixconnect.kernel.flows.transfer import start_transfer
from pixconnect.kernel.rules.access import ALL_SCOPES, Caller
from pixconnect.kernel.rules.holder import KeyType
from pixconnect.kernel.rules.identifiers import is_end_to_end_id, is_txid
from pixconnect.kernel.rules.listing import Span
from pixconnect.kernel.rules.transfer import KeyTransferRequest, Transfer
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_local


class InquiryAnswer(Struct, frozen=True, kw_only=True):
    account: InstitutionAccount
    charge: port.OpenedCharge | None  # if a txid was requested
    received: Sequence[port.ReceivedPix]
    before: Mapping[str, Transfer]  # its recorded facts before the query, by end-to-end id
    now: Mapping[str, Transfer]
    order: Transfer | None = None  # if a transfer over the account was requested: its present record
    sent: SentPix | None = None  # the institution's record of that transfer
    lists_returns: bool = False  # whether the institution lists payees' returns

    @property
    def is_unknown(self) -> bool:
        """Whether the institution does not know that name."""
        return self.charge is None and not self.received and self.sent is None

    def find_when_recorded(self, end_to_end_id: str) -> Literal["before", "now", "no"]:
        return "before" if end_to_end_id in self.before else "now" if end_to_end_id in self.now else "no"

    def explain_missing(self, pix: port.ReceivedPix) -> str | None:
        """Explain to an operator why a Pix is not recorded."""
        if pix.end_to_end_id in self.now:
            return None
        if pix.settled_at < self.account.opened_at:
            return f"the opening balance includes it: the books of the account began at {format_local(self.account.opened_at)}"
        return "`pixconnect report list` has the reason"


PENNY_CENTS: Final = 1
_LISTED_MAX: Final = 100


class PennySent(Struct, frozen=True, kw_only=True):
    transfer: Transfer
    came_back: Sequence[Transfer] = ()
    """Pix of the same amount that came in for the house since, newest first: customers pay more."""

    @property
    def is_back(self) -> bool:
        return bool(self.came_back) or self.transfer.returned_cents > 0


async def ask_named(context: Context, operator: Operator, name: str, asked: str) -> InquiryAnswer:
    """As ``ask``, at the account of this name."""
    # As the service: the console's own login may not read accounts.
    account = await find_account(context.pool, name)
    opened = await context.port(INSTITUTIONS).find_read(account.id)
    if opened is None:
        raise errors.BadRequest(f"name: the account {name} is not open")
    return await ask(operator, at_account(context, account, RecordingRail()), opened, asked)


async def ask(operator: Operator, at: Context, opened: port.OpenAccount, asked: str) -> InquiryAnswer:
    """Read a Pix, or a charge with its payment, and record our new facts; ``at`` is the account's context.

    Raises:
        BadRequest: It is neither.
        ServiceUnavailable: The institution gave no answer.
    """
    if not is_end_to_end_id(asked) and not is_txid(asked):
        raise errors.BadRequest("asked: must be an end-to-end id (E and 31 characters) or a txid (26 to 35 letters and digits)")
    async with write_alone(operator.pool) as connection:
        subject = name_account(opened.account.name)
        await audit.record(operator, connection, "institution ask", subject, after=dict(asked=asked))
    try:
        charge, received = await _read(opened.institution, asked)
        order, sent = (None, None) if charge or received else await _read_sent(at, opened, asked)
    except port.InstitutionUnavailable as error:
        raise explain_to_operator(error) from error
    if order is not None and sent is not None:
        await record_sent_returns(at, opened.account, sent.returns)
        order = (await transfer_store.find_named(at.pool, [asked], "OUT"))[asked]
    names = [pix.end_to_end_id for pix in received]
    before = await transfer_store.find_named(at.pool, names, "IN")
    await record_page(at, received)
    now = await transfer_store.find_named(at.pool, names, "IN")
    return InquiryAnswer(
        account=opened.account,
        charge=charge,
        received=received,
        before=before,
        now=now,
        order=order,
        sent=sent,
        lists_returns=opened.sender.sent_returns is not None,
    )


async def _read_sent(at: Context, opened: port.OpenAccount, asked: str) -> tuple[Transfer | None, SentPix | None]:
    """Read a transfer over the account, and the institution's record of it by its name there."""
    order = (await transfer_store.find_named(at.pool, [asked], "OUT")).get(asked)
    if order is None or order.institution_id != opened.account.id:
        return None, None
    step = (await step_store.find(at.pool, opened.account.id, [order.end_to_end_id])).get(order.end_to_end_id)
    if step is None or step.name_there is None:
        return order, None
    return order, await opened.sender.read_sent(step.name_there, step.code_there, step.called_at)


async def _read(institution: port.Institution, asked: str) -> tuple[port.OpenedCharge | None, Sequence[port.ReceivedPix]]:
    # An end-to-end id has the form of a txid, but none of our charges has one with this beginning.
    if is_end_to_end_id(asked):
        pix = await institution.read_received(asked)
        return None, [] if pix is None else [pix]
    charge = await institution.read_charge(asked)
    if charge is None and institution.traits.opens_due:
        charge = await institution.read_charge(asked, has_due_date=True)
    if charge is None:
        return None, []
    found = [await institution.read_received(name) for name in charge.paid_by]
    return charge, [pix for pix in found if pix is not None]


async def read_penny_terms(context: Context, name: str) -> tuple[InstitutionAccount, int | None]:
    """Read the account to send from, and the last known fee for a transfer from it, in cents.

    Raises:
        NotFound: The account does not exist.
        BadRequest: It is not active.
    """
    async with context.pool.acquire() as connection:
        account = await find_account(connection, name)
        fee_cents = await books_store.find_last_fee(connection, account.id)
    if account.state != "active":
        raise errors.BadRequest(f"name: the account {name} is {account.state}: nothing is sent over it")
    return account, fee_cents


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
    house = Caller(client_id=operator.operator, holder_id=account.house_id, scopes=ALL_SCOPES, operator=operator.operator)
    return (await start_transfer(context, house, request)).transfer


async def follow_penny(context: Context, sent: Transfer) -> PennySent:
    """Return its state, and the house's incoming Pix meanwhile."""
    now = await transfer_store.find_by_id(context.pool, sent.holder_id, sent.id)
    span = Span(page_size=_LISTED_MAX, initial_at=sent.created_at)
    page = await transfer_store.read_page(context.pool, sent.holder_id, "CONFIRMED", span)
    back = [one for one in page.items if one.direction == "IN" and one.amount_cents == PENNY_CENTS]
    return PennySent(transfer=now or sent, came_back=back)
