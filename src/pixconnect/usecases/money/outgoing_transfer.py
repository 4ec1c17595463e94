"""What holds of a transfer over an account at an institution beyond what holds of each, before any of its money is reserved.

Whose a key is, the institution finds out when it pays. Up to then the payee is the key alone, with its owner where the caller
named one: the institution compares it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct, structs

from pixconnect.domain.frame import errors
from pixconnect.domain.institutions.institution import OpenAccount
from pixconnect.domain.institutions.sweep import REPEATED_FOR
from pixconnect.domain.money.holder import UNKNOWN_PARTY, Party
from pixconnect.domain.money.transfer import Payee, SendingTerms, TransferRequest
from pixconnect.store.institutions import day as day_store
from pixconnect.store.institutions import mistaken_item as mistaken_store
from pixconnect.store.money import holder as holder_store
from pixconnect.store.money import order as order_store
from pixconnect.usecases.frame.context import Context, explain_pause, is_lost
from pixconnect.usecases.frame.directory import OwnAccount

_UNSENT_S: Final = 5
"""When to come back while others wait to be sent."""
_SHARE_OF_HANDOVER: Final = 0.5
"""Of the time in which an order must leave; orders accepted beyond that may be given up."""
_LATER: Final = "funds and limits allow it"
_FOUND_OUT: Final = "an operator has found out at the institution that it is not"


class Way(Struct, frozen=True, kw_only=True):
    """How a transfer leaves."""

    payer: Party
    payee: Payee
    terms: SendingTerms
    account_id: int | None = None
    """The account over which it does; ``None`` is the installation's own rail, and what goes by book."""


async def choose_way(
    context: Context, payer: OwnAccount, request: TransferRequest, payee: Payee, terms: SendingTerms
) -> Way:
    """Find the account over which a transfer leaves, the key that pays there, and the required owner of the payee's key.

    Raises:
        RuleBroken: The payee is the payer, or cannot be compared with the owner that the caller names.
        ServiceUnavailable: Nothing can be sent over the account now; nothing was done.
        OutcomeUnknown: The database was restored, and it may have been paid before over another account.
    """
    await _admit_renamed(context, payer, request)
    opened = None if context.policy.is_sandbox else await _find_account(context, payer, payee, request)
    if opened is None:
        return Way(payer=payer.party, payee=payee, terms=terms)
    named = _name_owner(opened, payee, terms)
    if opened.institution.traits.names_first and request.external_id is not None:
        # It has none of our names there, so no later query can show whether it was paid before.
        await _admit_forgotten_there(context, opened.account.id, request, _FOUND_OUT)
    await _check_flow(context, opened)
    payer_key = terms.payer_key or await _choose_key(context, opened, payer)
    chosen = structs.replace(terms, payer_key=payer_key)
    return Way(payer=payer.party, payee=named, terms=chosen, account_id=opened.account.id)


async def _find_account(
    context: Context, payer: OwnAccount, payee: Payee, request: TransferRequest
) -> OpenAccount | None:
    if payee.holder_id is not None:
        there = (await context.directory.read_account(payee.holder_id)).institution_id
        if payer.institution_id != there:
            # One of them may have been put on its account since this process read it.
            payer = await context.directory.read_account_anew(payer.holder_id)
            there = (await context.directory.read_account_anew(payee.holder_id)).institution_id
        if payer.institution_id != there:
            # By book goes only what stays on one account; between two of them it would be a real Pix.
            raise errors.ServiceUnavailable(
                "nothing is sent between two accounts at institutions of this service yet; nothing was done"
            )
        return None
    if payer.institution_id is None:
        return None
    opened = await context.institutions.find(payer.institution_id)
    if opened is None:
        raise await explain_pause(context.institutions, payer.institution_id)
    if request.initiation_type == "MANUAL" and opened.institution.traits.names_first:
        raise errors.InvalidAccount(
            "credit_party: at the payer's institution a transfer to an account has no name before it is paid, so "
            "its outcome could not be queried: name a key"
        )
    if request.initiation_type not in opened.institution.traits.sends:
        raise errors.ServiceUnavailable(
            f"no {request.operation} is sent over accounts at this institution yet; nothing was done"
        )
    if payee.leaves_amount_open and not opened.institution.traits.states_amount_of_code:
        raise errors.InvalidQrCode(
            "emv: fixes no amount, and the payer's institution pays codes as they stand: send to the key instead"
        )
    # By the key alone: the owner of any other is unknown here before payment.
    if payee.party.key in opened.account.keys:
        raise errors.SameAccount("payer and payee are the same account")
    return opened


async def _check_flow(context: Context, opened: OpenAccount) -> None:
    """Refuse what the account cannot pass in time; judged without a lock, since nothing but time is lost by one too many."""
    passed_count = opened.institution.traits.sends_per_s * context.policy.handover_timeout_s * _SHARE_OF_HANDOVER
    unsent_max = max(1, int(passed_count))
    if await order_store.count_unsent_there(context.pool, opened.account.id, unsent_max) >= unsent_max:
        raise errors.ServiceUnavailable(
            "more transfers wait at the holder's institution than can be sent in time; nothing was done",
            retry_after_s=_UNSENT_S,
        )


async def admit_forgotten(context: Context, payer: OwnAccount, request: TransferRequest, until: str = _LATER) -> None:
    """Raise for requests that may have been paid: called before a refusal claims that nothing was done.

    If the institution has no names of ours, also before anything is accepted.

    A payment of the lost span is a movement once its line is read, and takes the money of the very request that had ordered it.
    Only the institution knows which request that was; accepted ones are queried there.

    Raises:
        OutcomeUnknown: Such a line of the same amount has no order; or not all lines of that time were read yet.
    """
    # A request without a name cannot be repeated; and a sandbox has no account at an institution.
    if request.external_id is None or context.policy.is_sandbox:
        return
    if payer.institution_id is not None:
        await _admit_forgotten_there(context, payer.institution_id, request, until)
    await _admit_renamed(context, payer, request)


async def _admit_renamed(context: Context, payer: OwnAccount, request: TransferRequest) -> None:
    """The same of accounts that may have paid the request under a name by which the payer's institution does not know it.

    These are other accounts of the payer's owner, and the payer's own if it was added after the loss. Called before anything is
    accepted.
    """
    if request.external_id is None or context.policy.is_sandbox:
        return
    lost_since = context.clock.now() - REPEATED_FOR
    for account_id in await holder_store.list_doubtful_accounts(context.pool, payer.holder_id, lost_since):
        await _check_read(context, account_id, request, lost_since)
        await _admit_forgotten_there(context, account_id, request, _FOUND_OUT)


async def _check_read(context: Context, account_id: int, request: TransferRequest, lost_since: datetime) -> None:
    """Refuse as unknown while a worker has not read the forgotten days of an account that was added after the loss."""
    if not await day_store.list_unread_of_loss(context.pool, account_id, lost_since):
        return
    opened = await context.institutions.find_read(account_id)
    # Without a statement by API, only an operator can record it.
    if opened is not None and opened.institution.traits.has_statement:
        raise _explain_unread(request)


def _explain_unread(request: TransferRequest) -> errors.OutcomeUnknown:
    return errors.OutcomeUnknown(
        "the database was restored, and what it has forgotten of the holder's account was not read yet: this request may "
        f"have been done. Repeat it with external_id {request.external_id!r} later, and under no other id"
    )


async def _admit_forgotten_there(context: Context, account_id: int, request: TransferRequest, until: str) -> None:
    if await is_lost(context.institutions, account_id):
        raise _explain_unread(request)
    if await mistaken_store.may_be_forgotten(
        context.pool, account_id, request.amount_cents, context.clock.now(), REPEATED_FOR
    ):
        raise errors.OutcomeUnknown(
            "the database was restored, and a Pix of this amount left the account in the time that is forgotten: it may be "
            f"this one. Repeat the request with external_id {request.external_id!r} once {until}, and under no other id"
        )


def _name_owner(opened: OpenAccount, payee: Payee, terms: SendingTerms) -> Payee:
    """The payee with the owner that the caller named beside a key: the institution is made to compare it."""
    if terms.payee_tax_id is None or not _is_key_alone(payee):
        return payee
    if not opened.institution.traits.compares_owner:
        raise errors.PixKeyNotFound(
            "key: this institution compares no owner with a key, so its owner is unknown before payment"
        )
    return structs.replace(payee, party=structs.replace(payee.party, tax_id=terms.payee_tax_id))


def is_another(payee: Payee, terms: SendingTerms) -> bool:
    """Whether the payee is known to differ from the owner named by the caller."""
    return terms.payee_tax_id not in (None, payee.party.tax_id) and not _is_key_alone(payee)


def _is_key_alone(payee: Payee) -> bool:
    return payee.holder_id is None and payee.party.tax_id == UNKNOWN_PARTY.tax_id


async def _choose_key(context: Context, opened: OpenAccount, payer: OwnAccount) -> str | None:
    """The key that pays: the holder's oldest on the account, else the house's, else any that is the account's."""
    async with context.pool.acquire() as connection:
        for holder_id in (payer.holder_id, opened.account.house_id):
            for key in await holder_store.list_pix_keys(connection, holder_id):
                if key.key in opened.account.keys:
                    return key.key
    return next(iter(opened.account.keys), None)
