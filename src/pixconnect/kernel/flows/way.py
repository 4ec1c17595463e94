"""Chooses how a transfer leaves: over the rail, over an account at an institution, or by book."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.directory import OwnAccount
from pixconnect.kernel.flows.rail_source import OWN_RAIL
from pixconnect.kernel.flows.source import Source, Way, find_accounts, is_key_alone
from pixconnect.kernel.rules.transfer import NewTransfer, Payee, SendingTerms, TransferRequest
from pixconnect.kernel.writing.unit_of_work import UnitOfWork
from pixconnect.platform.base import errors


class AccountChanged(errors.ServiceUnavailable):
    """Payer or payee was moved to an account at an institution after this process had read where it is."""

    def __init__(self, holder_ids: Sequence[int]) -> None:
        super().__init__("payer or payee was put on another account meanwhile; nothing was done")
        self.holder_ids = holder_ids


class Placed(Protocol):
    """A holder's account, or a transfer or order of it."""

    @property
    def institution_id(self) -> int | None: ...


def source_of(placed: Placed | None) -> Source:
    """Return the source of a holder's account, transfer or order; of an unknown one our own rail."""
    if placed is None or placed.institution_id is None:
        return OWN_RAIL
    return find_accounts().find_source(placed.institution_id)


async def choose_way(
    context: Context, payer: OwnAccount, request: TransferRequest, payee: Payee, terms: SendingTerms
) -> Way:
    """Choose how a transfer leaves, or that it goes by book; as ``Source.choose_way``."""
    await find_accounts().admit_renamed(context, payer, request)
    if payee.holder_id is None:
        return await source_of(payer).choose_way(context, payer, request, payee, terms)
    # A sandbox has no account at an institution.
    if not context.policy.is_sandbox:
        await check_same_place(context, payer, payee.holder_id)
    return Way(payer=payer.party, payee=payee, terms=terms)


def check_way(work: UnitOfWork, new: NewTransfer) -> None:
    """Compare the chosen way with the location of the money, while its balances are locked."""
    lies_on = work.balances[new.holder_id].institution_id
    payee_id = new.payee.holder_id
    chosen = new.account_id if payee_id is None else work.balances[payee_id].institution_id
    if chosen != lies_on:
        raise AccountChanged((new.holder_id,) if payee_id is None else (new.holder_id, payee_id))


def is_another(payee: Payee, terms: SendingTerms) -> bool:
    """Whether the payee is known to differ from the owner named by the caller."""
    return terms.payee_tax_id not in (None, payee.party.tax_id) and not is_key_alone(payee)


_BETWEEN: Final = "nothing is sent between two accounts at institutions of this service yet; nothing was done"


async def check_same_place(context: Context, payer: OwnAccount, payee_id: int) -> None:
    """Refuse a book transfer between holders on two accounts at institutions: that would be a real Pix."""
    payee = await context.directory.read_account(payee_id)
    if payer.institution_id != payee.institution_id:
        # One of them may have been put on its account since this process read it.
        payer = await context.directory.read_account_anew(payer.holder_id)
        payee = await context.directory.read_account_anew(payee_id)
    if payer.institution_id != payee.institution_id:
        raise errors.ServiceUnavailable(_BETWEEN)


async def admit_forgotten(context: Context, payer: OwnAccount, request: TransferRequest) -> None:
    """Raise for requests that may have been paid: called before a refusal claims that nothing was done.

    If the institution keeps none of our names, it is also called before anything is accepted.

    After a restore, a payment of the lost span becomes a movement once its line is read, and takes the money of the very
    request that had ordered it. Only the institution knows which request that was; accepted ones are queried there.

    Raises:
        OutcomeUnknown: A line of the same amount has no order; or not all lines of that time were read yet.
    """
    # A request without a name cannot be repeated; and a sandbox has no account at an institution.
    if request.external_id is None or context.policy.is_sandbox:
        return
    await source_of(payer).admit_forgotten(context, request)
    await find_accounts().admit_renamed(context, payer, request)
