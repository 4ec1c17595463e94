"""Whose a Pix is that came in: over the installation's own rail, or on an account at an institution."""

from __future__ import annotations

from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.domain.money.charge import Charge
from pixconnect.domain.money.charge_payment import TXID_LENGTH_MIN
from pixconnect.domain.money.holder import find_holder_at
from pixconnect.domain.money.kept_report import Misfit
from pixconnect.domain.money.rail import CreditReport
from pixconnect.foundation.pool import Pool
from pixconnect.store.institutions import charge_opening as opening_store
from pixconnect.store.money import charge as charge_store
from pixconnect.store.money import holder as holder_store
from pixconnect.usecases.frame.context import Context


async def find_credited_holder(context: Context, report: CreditReport) -> tuple[int | None, bool]:
    """The holder whose balance it would move, and whether it is refused because the key was removed."""
    party = report.credit_party
    if party.key is None:
        account = await context.directory.find_account(party.branch, party.account_number)
        return account and account.holder_id, False
    owner = await context.directory.find_owner(party.key)
    if owner is not None:
        is_meant = await _is_for_owner(context, report, owner)
        # What comes over the installation's own rail lies on no account at an institution.
        if (await context.directory.read_account(owner)).institution_id is not None:
            owner = await holder_store.find_member_on(context.pool, owner, None) or owner
        return owner, not is_meant
    # Refused under the lock of the holder that it would have reached: a process that does not know of the removal yet
    # may be recording it, and the second one repeats the first answer.
    former = await holder_store.find_former_owner(context.pool, party.key)
    return former, former is not None


async def _is_for_owner(context: Context, report: CreditReport, owner: int) -> bool:
    """Whether a payment to this holder's key was meant for that account: a payer of ours was shown whose it was."""
    # Of payers outside only their institution knows what they were shown.
    if report.debit_party.ispb != context.policy.ispb:
        return True
    account, named = (await context.directory.read_account(owner)).party, report.credit_party
    return (account.branch, account.account_number) == (named.branch, named.account_number)


async def find_credited_there(
    context: Context, account: InstitutionAccount, report: CreditReport
) -> tuple[int, str | None, Misfit | None]:
    """Whose it is, the txid of the charge that it names, and why an operator has to look at it.

    It is the holder's whose charge it names; otherwise that one's who had its key when it settled; otherwise the account's
    house. What came in on an account is on this account, so only holders count that lie on it: of those that succeeded each
    other, the one on it.
    """
    if report.txid is not None:
        charge = await find_named_charge(context.pool, account.id, None, report.txid)
        if charge is not None:
            return charge.holder_id, charge.txid, None
    key = report.credit_party.key
    # A text that the database cannot hold is nobody's key.
    if key is None or not key.isprintable():
        return account.house_id, None, None
    # Not as this process remembers it: a list tells of what settled long ago.
    holdings = await holder_store.list_key_holdings(context.pool, key, account.id)
    settled_at = report.settled_at or report.reported_at
    member, is_doubtful = find_holder_at(holdings, settled_at)
    misfit = None
    if is_doubtful:
        names = sorted({f"holder {held.member_id}" for held in holdings if held.member_id is not None})
        misfit = Misfit(
            reason="two_holders",
            explanation=f"it settled at {settled_at.isoformat()}, when its key led to none of {', '.join(names)}; the house "
            f"of {account.name} has it",
        )
    return (account.house_id if member is None else member), None, misfit


async def find_named_charge(pool: Pool, account_id: int | None, owner: int | None, name: str) -> Charge | None:
    """The charge that a payment names by what it carries, whether it comes over a rail or is made by book.

    At an institution that is the charge of the account with this txid or reference, if its holder lies on the account. On the
    installation's own rail it is the charge of the key's owner.

    Args:
        pool: The database.
        account_id: The account on which the money is; ``None`` is the installation's own rail.
        owner: The holder of the paid key.
        name: What the payment carries as its txid.
    """
    if account_id is None:
        # A shorter name is the reference of a static code, and no charge here has one.
        if owner is None or len(name) < TXID_LENGTH_MIN:
            return None
        charge = await charge_store.find_by_txid(pool, owner, name)
        # One of a holder that succeeded the owner's, or that it has succeeded, is paid on that one's account.
        return charge if charge is not None and charge.holder_id == owner else None
    charge = await opening_store.find_charge(pool, account_id, name)
    return charge if charge is not None and await _lies_on(pool, charge.holder_id, account_id) else None


async def _lies_on(pool: Pool, holder_id: int, account_id: int) -> bool:
    holder = await holder_store.find(pool, holder_id)
    return holder is not None and holder.institution_id == account_id
