"""The source of an incoming Pix, and what depends on it: our own rail, or an account at an institution."""

from datetime import datetime
from typing import Final

from msgspec import Struct

from pixconnect.kernel.flows.context import Context, Port
from pixconnect.kernel.rules import identifiers
from pixconnect.kernel.rules.charge import Charge, compose_amount
from pixconnect.kernel.rules.charge_contents import DayAmount
from pixconnect.kernel.rules.kept_report import Misfit
from pixconnect.kernel.rules.rail import CreditReport
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.kernel.writing.unit_of_work import UnitOfWork


class Credited(Struct, frozen=True, kw_only=True):
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


class CreditSource(Struct, frozen=True, kw_only=True):
    """The installation's own rail. An account at an institution has its own method in place of each."""

    account_id: int | None = None
    """The account; ``None`` of the installation's own rail."""
    house_id: int | None = None
    """The holder credited with payments that cannot be recorded for their own, and with facts of the whole account."""
    is_final: bool = False
    """Whether payments have settled before we read them: they are listed, and credited for any purpose."""
    gives_back: bool = False
    """Whether the account automatically returns payments that pay no charge."""

    async def give_back(self, work: UnitOfWork, received: Transfer) -> None:
        """Record that a credited payment is to be given back, where ``gives_back``."""

    async def find_credited(self, context: Context, report: CreditReport) -> Credited:
        party = report.credit_party
        if party.key is None:
            account = await context.directory.find_account(party.branch, party.account_number)
            return Credited(holder_id=account and account.holder_id, charge_txid=report.txid)
        if (owner := await context.directory.find_owner(party.key)) is not None:
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
        """Generate the ids of a payment's refund; ``None`` if the rail permits refusals, or accepts every payment."""
        if context.policy.abilities.refuses_credits:
            return None
        return AutomaticRefund(
            refund_id=await context.ids.refund_id(),
            return_id=identifiers.make_return_id(context.policy.ispb, context.clock.now(), context.entropy),
        )

    def find_instant(self, report: CreditReport) -> datetime:
        """Find the instant that decides whether a charge is paid in time."""
        return report.reported_at

    def find_parts(self, report: CreditReport, charge: Charge) -> DayAmount | None:
        """Find the parts of a payment for a charge with a due date."""
        return compose_amount(charge, report.reported_at)


async def _is_for_owner(context: Context, report: CreditReport, owner: int) -> bool:
    """Whether a payment to this holder's key was meant for that account: one of our payers saw its owner."""
    # For outside payers, only their institution knows which owner they saw.
    if report.debit_party.ispb != context.policy.ispb:
        return True
    account, named = (await context.directory.read_account(owner)).party, report.credit_party
    return (account.branch, account.account_number) == (named.branch, named.account_number)


CREDIT_SOURCE: Final = Port[CreditSource]("source of credits", CreditSource())


def find_source(context: Context) -> CreditSource:
    return context.port(CREDIT_SOURCE)
