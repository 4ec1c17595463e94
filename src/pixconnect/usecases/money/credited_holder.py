"""Whose a Pix is that came in: over the installation's own rail, or on an account at an institution."""

from __future__ import annotations

from typing import Protocol

from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.domain.money.rail import CreditReport
from pixconnect.store.institutions import charge_opening as opening_store
from pixconnect.store.money import charge as charge_store
from pixconnect.store.money import holder as holder_store
from pixconnect.usecases.frame.context import HasDirectory, HasPolicy, HasPool


class CreditedContext(HasPool, HasDirectory, HasPolicy, Protocol): ...


async def find_credited_holder(context: CreditedContext, report: CreditReport) -> tuple[int | None, bool]:
    """The holder whose balance it would move, and whether it is refused because the key was removed."""
    party = report.credit_party
    if party.key is None:
        account = await context.directory.find_account(party.branch, party.account_number)
        return account and account.holder_id, False
    owner = await context.directory.find_owner(party.key)
    if owner is not None:
        return owner, not await _is_for_owner(context, report, owner)
    # Refused under the lock of the holder that it would have reached: a process that does not know of the removal yet
    # may be recording it, and the second one repeats the first answer.
    former = await holder_store.find_former_owner(context.pool, party.key)
    return former, former is not None


async def _is_for_owner(context: CreditedContext, report: CreditReport, owner: int) -> bool:
    """Whether a payment to this holder's key was meant for that account: a payer of ours was shown whose it was."""
    # Of payers outside only their institution knows what they were shown.
    if report.debit_party.ispb != context.policy.ispb:
        return True
    account, named = (await context.directory.read_account(owner)).party, report.credit_party
    return (account.branch, account.account_number) == (named.branch, named.account_number)


async def find_credited_there(
    context: CreditedContext, account: InstitutionAccount, report: CreditReport
) -> tuple[int, str | None]:
    """Whose it is, and the txid of the charge that it names.

    It is the holder's whose charge it names, also by the reference of a static code; otherwise that of its key; otherwise the
    account's house. What came in on an account is on this account, so only holders count that lie on it.
    """
    charged = None if report.txid is None else await _find_charged(context, account, report.txid)
    if charged is not None and await _lies_on(context, charged[0], account):
        return charged
    key = report.credit_party.key
    owner = None if key is None else await context.directory.find_owner(key)
    if owner is not None and await _lies_on(context, owner, account):
        return owner, None
    return account.house_id, None


async def _find_charged(context: CreditedContext, account: InstitutionAccount, txid: str) -> tuple[int, str] | None:
    charged = await charge_store.find_holder_there(context.pool, account.id, txid)
    if charged is not None:
        return charged, txid
    opening = await opening_store.find_reference(context.pool, account.id, txid)
    return None if opening is None else (opening.holder_id, opening.txid)


async def _lies_on(context: CreditedContext, holder_id: int, account: InstitutionAccount) -> bool:
    holder = await holder_store.find(context.pool, holder_id)
    return holder is not None and holder.institution_id == account.id
