"""The source of an incoming Pix, and what depends on it: our own rail, or an account at an institution."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from pixconnect.features.due_charges.rules.day_amount import DayAmount
from pixconnect.features.institutions.rules import returned_line as give_back
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.returned_line import GiveBack
from pixconnect.features.institutions.source import InstitutionSource
from pixconnect.features.institutions.tables import give_back as give_back_store
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules import identifiers
from pixconnect.kernel.rules.charge import Charge, compose_amount
from pixconnect.kernel.rules.holder import find_holder_at
from pixconnect.kernel.rules.kept_report import Misfit
from pixconnect.kernel.rules.rail import CreditReport
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.kernel.writing.unit_of_work import UnitOfWork


class Credited(Struct, frozen=True, kw_only=True):
    """The holder that a payment is credited to."""

    holder_id: int | None
    charge_txid: str | None
    """The charge that it names: by its own txid, or by the reference of a charge's static code."""
    key_was_removed: bool = False
    """The key was removed: the payment is refused, unless it was recorded before."""
    misfit: Misfit | None = None
    """Why an operator has to look at it."""


class AutomaticRefund(Struct, frozen=True, kw_only=True):
    """The ids of a refund that may be needed, generated before the first try."""

    refund_id: int
    return_id: str


class CreditSource(Protocol):
    @property
    def account_id(self) -> int | None:
        """The account; ``None`` of the installation's own rail."""
        ...

    @property
    def is_final(self) -> bool:
        """Whether payments have settled before we read them: they are listed, and credited for any purpose."""
        ...

    @property
    def house_id(self) -> int | None:
        """The holder credited with payments that cannot be recorded for their own, and with facts of the whole account."""
        ...

    @property
    def gives_back(self) -> bool:
        """Whether the account automatically returns payments that pay no charge."""
        ...

    async def find_credited(self, context: Context, report: CreditReport) -> Credited: ...

    async def plan_refund(self, context: Context) -> AutomaticRefund | None:
        """Generate the ids of a payment's refund; ``None`` if the rail permits refusals, or accepts every payment."""
        ...

    def find_instant(self, report: CreditReport) -> datetime:
        """Find the instant that decides whether a charge is paid in time."""
        ...

    def find_parts(self, report: CreditReport, charge: Charge) -> DayAmount | None:
        """Find the parts of a payment for a charge with a due date."""
        ...


class OwnRail:
    account_id = None
    is_final = False
    house_id = None
    gives_back = False

    async def find_credited(self, context: Context, report: CreditReport) -> Credited:
        party = report.credit_party
        if party.key is None:
            account = await context.directory.find_account(party.branch, party.account_number)
            return Credited(holder_id=account and account.holder_id, charge_txid=report.txid)
        owner = await context.directory.find_owner(party.key)
        if owner is not None:
            is_meant = await _is_for_owner(context, report, owner)
            # Money over the installation's own rail is on no account at an institution.
            if (await context.directory.read_account(owner)).institution_id is not None:
                owner = await holder_store.find_member_on(context.pool, owner, None) or owner
            return Credited(holder_id=owner, charge_txid=report.txid, key_was_removed=not is_meant)
        # Refused under the lock of the holder that it would have reached: a process that has not seen the removal may be
        # recording it, and the second one repeats the first answer.
        former = await holder_store.find_former_owner(context.pool, party.key)
        return Credited(holder_id=former, charge_txid=report.txid, key_was_removed=former is not None)

    async def plan_refund(self, context: Context) -> AutomaticRefund | None:
        if context.policy.abilities.refuses_credits:
            return None
        return AutomaticRefund(
            refund_id=await context.ids.refund_id(),
            return_id=identifiers.make_return_id(context.policy.ispb, context.clock.now(), context.entropy),
        )

    def find_instant(self, report: CreditReport) -> datetime:
        return report.reported_at

    def find_parts(self, report: CreditReport, charge: Charge) -> DayAmount | None:
        return compose_amount(charge, report.reported_at)


async def _is_for_owner(context: Context, report: CreditReport, owner: int) -> bool:
    """Whether a payment to this holder's key was meant for that account: one of our payers saw its owner."""
    # For outside payers, only their institution knows which owner they saw.
    if report.debit_party.ispb != context.policy.ispb:
        return True
    account, named = (await context.directory.read_account(owner)).party, report.credit_party
    return (account.branch, account.account_number) == (named.branch, named.account_number)


class AccountSource(Struct, frozen=True):
    account: InstitutionAccount
    is_final = True

    @property
    def account_id(self) -> int:
        return self.account.id

    @property
    def house_id(self) -> int:
        return self.account.house_id

    @property
    def gives_back(self) -> bool:
        return give_back.gives_back(self.account)

    async def find_credited(self, context: Context, report: CreditReport) -> Credited:
        """Find the holder on this account that a payment belongs to.

        The holder whose charge it names; else the holder that had its key when it settled; else the account's house.
        """
        account, key = self.account, report.credit_party.key
        if report.txid is not None:
            charge = await InstitutionSource(account.id).find_named_charge(context.pool, None, report.txid)
            if charge is not None:
                return Credited(holder_id=charge.holder_id, charge_txid=charge.txid)
        # No holder's key contains text that PostgreSQL cannot store.
        if key is None or not key.isprintable():
            return Credited(holder_id=account.house_id, charge_txid=None)
        # Not from this process's cache: a list may contain long-settled payments.
        holdings = await holder_store.list_key_holdings(context.pool, key, account.id)
        settled_at = self.find_instant(report)
        member, is_doubtful = find_holder_at(holdings, settled_at)
        misfit = None
        if is_doubtful:
            names = sorted({f"holder {held.member_id}" for held in holdings if held.member_id is not None})
            misfit = Misfit(
                reason="two_holders",
                explanation=f"it settled at {settled_at.isoformat()}, when its key led to none of {', '.join(names)}; the "
                f"house of {account.name} has it",
            )
        return Credited(holder_id=account.house_id if member is None else member, charge_txid=None, misfit=misfit)

    async def plan_refund(self, context: Context) -> None:
        return None

    def find_instant(self, report: CreditReport) -> datetime:
        return report.settled_at or report.reported_at

    def find_parts(self, report: CreditReport, charge: Charge) -> DayAmount | None:
        return report.parts


def find_source(context: Context) -> CreditSource:
    return OwnRail() if context.policy.account is None else AccountSource(context.policy.account)


async def note_giving_back(work: UnitOfWork, names: Collection[str], new: Mapping[str, Transfer]) -> None:
    """With automatic returns, record a payment without a charge together with the credit.

    It is returned once a reading has shown that it was not returned yet (``features/institutions/service/rail_memory.py``).
    """
    for received in (new[name] for name in names if name in new):
        if received.institution_id is not None and received.charge_id is None and received.settled_at is not None:
            noted = GiveBack(
                transfer_id=received.id,
                holder_id=received.holder_id,
                institution_id=received.institution_id,
                state="waiting",
                due_at=work.now,
                created_at=work.now,
            )
            await give_back_store.GIVE_BACK.insert(work.connection, noted)
