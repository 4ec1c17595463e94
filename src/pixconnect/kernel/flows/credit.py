"""An incoming Pix: its source, which is our own rail or an account at an institution, and the effect of its reports in a batch.

::

    accepted ──► PROCESSING, holds its charge ──► settled ──► CONFIRMED, charge paid
        │                                    └──► cancelled ──► ERROR, charge free again
        └── refused by us ──► ERROR

Most rails report a payment once, as settled, and its transfer is CONFIRMED or in ERROR at once. Reports of one payment may
arrive in any order. A report that contradicts a recorded end is kept for an operator: a cancellation never takes money back.

A payment that is held as suspect is one that was accepted, with its money set aside (``SuspectCredits``): it settles when it is
released and fails when it is returned.

If the rail does not permit refusals, we credit a payment that we cannot accept and refund it; its charge stays as it was. If
the credit repaid a debt of the holder, the rest is not refunded in part: an operator handles it.

An automatic refund arrives and is reserved in one transaction, so that its money cannot be spent, and then proceeds as any
other. It has no requester, so the rules for requesters (a holder that may not withdraw) do not apply.

``kernel.rules.charge_payment`` decides which charge a payment pays, for payments by book too.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

from pixconnect.kernel.feature import gather_one
from pixconnect.kernel.flows.charge import finish_payment, keep_parts
from pixconnect.kernel.flows.context import Context, Port
from pixconnect.kernel.flows.refund import hold_refund
from pixconnect.kernel.rules import charge as charge_rules
from pixconnect.kernel.rules import identifiers, reject_code
from pixconnect.kernel.rules import refund as refund_rules
from pixconnect.kernel.rules import transfer as transfer_rules
from pixconnect.kernel.rules.charge import Charge, compose_amount
from pixconnect.kernel.rules.charge_contents import DayAmount
from pixconnect.kernel.rules.charge_payment import ChargeDecision, ChargePayment, decide_charge
from pixconnect.kernel.rules.kept_report import Misfit
from pixconnect.kernel.rules.order import OrderWait
from pixconnect.kernel.rules.rail import CreditAccepted, CreditCancelled, CreditHeld, CreditReport
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.kernel.tables.charge import CHARGES
from pixconnect.kernel.writing.unit_of_work import UnitOfWork
from pixconnect.platform.pool import Pool

NOT_GIVEN_BACK: Final = Misfit(
    reason="cannot_be_returned",
    explanation="it cannot be accepted and would be given back, and what the holder owed was repaid with it",
)


class Credited(Struct, frozen=True, kw_only=True):
    holder_id: int | None
    # The charge that it names: by its own txid, or by the reference of a charge's static code.
    charge_txid: str | None
    key_was_removed: bool = False  # the key was removed: the payment is refused, unless it was recorded before
    misfit: Misfit | None = None  # why an operator has to look at it


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

    async def note_received(self, work: UnitOfWork, received: Transfer) -> None:
        """Record what an account does later with a new payment, such as its automatic return."""

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


class Credit(Struct, frozen=True, kw_only=True):
    """A reported payment to one of our holders; all ids are generated before the first try."""

    holder_id: int
    report: CreditReport
    transfer_id: int
    correlation_id: UUID
    refund: AutomaticRefund | None  # the refund if we cannot accept it; ``None`` if the rail permits refusing it
    source: CreditSource
    key_was_removed: bool  # as in ``Credited``
    charge_txid: str | None

    @property
    def code(self) -> tuple[str, int]:
        """The identity of its charge; no charge has an empty txid."""
        return self.charge_txid or "", self.holder_id


class SuspectCredits:
    """Money that an institution holds as suspect. The kernel alone waits for the end, as of a payment that was accepted."""

    async def read(self, work: UnitOfWork, reports: Sequence[CreditReport], known: Mapping[str, Transfer]) -> None:
        """Read what these reports may change, behind the batch's locks."""

    def is_held(self, work: UnitOfWork, transfer: Transfer) -> bool:
        return False

    def hold(self, work: UnitOfWork, transfer: Transfer, report: CreditHeld, charge: Charge | None) -> None:
        """Set the received money aside, so that it exists and cannot be spent."""

    def release(self, work: UnitOfWork, transfer: Transfer, report: CreditReport) -> bool:
        """End that; answers whether the money was set aside."""
        return False

    async def find_hold(self, pool: Pool, transfer: Transfer) -> OrderWait | None:
        """Find since when a received payment under way is held."""
        return None

    def fail(self, transfer: Transfer, code: str, now: datetime) -> Transfer:
        """End a payment that was held and returned."""
        return transfer_rules.cancel_incoming(transfer, code, now)


@cache
def find_suspect_credits() -> SuspectCredits:
    return gather_one("suspect_credits", SuspectCredits)


def receive(work: UnitOfWork, credit: Credit) -> tuple[Transfer, Misfit | None]:
    """Record and check the first report of a payment; the caller writes the transfer.

    Later items of the batch see its effect on charges.
    """
    report, decision = credit.report, _decide(work, credit)
    code = _find_reject_code(work, credit, decision)
    # A payment that will be refunded pays no charge.
    charge = decision.charge if code is None or credit.refund is None else None
    transfer = transfer_rules.open_incoming_transfer(
        report,
        charge,
        transfer_id=credit.transfer_id,
        holder_id=credit.holder_id,
        correlation_id=credit.correlation_id,
        account_id=credit.source.account_id,
        now=work.now,
    )
    work.announce_transfer(transfer)
    if isinstance(report, CreditCancelled):
        return _announced(work, transfer_rules.cancel_incoming(transfer, report.code, work.now)), None
    is_settled = not isinstance(report, CreditAccepted | CreditHeld)
    if code is not None and credit.refund is None:
        failed = transfer_rules.fail_transfer(transfer, code, reject_code.explain(code), work.now)
        if not is_settled:
            failed = msgspec.structs.replace(failed, acceptance_refused=True)
        return _announced(work, failed), None
    if charge is not None:
        keep_parts(work, transfer, charge, credit.source.find_parts(report, charge))
    if not is_settled:
        _await_end(work, credit, transfer, charge)
        return transfer, None
    return _settle(work, credit, transfer, code, decision)


def go_on(work: UnitOfWork, credit: Credit, transfer: Transfer) -> tuple[Transfer, Misfit | None]:
    """Apply a further report of a payment. A repetition, or a contradiction of its end, changes nothing."""
    is_open, suspects = transfer.status == "PROCESSING", find_suspect_credits()
    match credit.report:
        case CreditAccepted():
            return transfer, None
        case CreditHeld() as report:
            # A repetition, or after its end: an ended one was released, or never held here.
            if is_open and not suspects.is_held(work, transfer):
                suspects.hold(work, transfer, report, work.charges.get(credit.code))
            return transfer, None
        case CreditCancelled(code=code) if is_open:
            if transfer.charge_id is not None:
                held = work.charges[credit.code]
                freed = work.charges[credit.code] = charge_rules.free_charge(held)
                work.move(CHARGES, held, freed)
            was_held = suspects.release(work, transfer, credit.report)
            fail = suspects.fail if was_held else transfer_rules.cancel_incoming
            return _announced(work, fail(transfer, code, work.now)), None
        case CreditCancelled():
            return transfer, None if transfer.status == "ERROR" else _contradiction("cancelled", transfer)
        case _ if is_open:
            suspects.release(work, transfer, credit.report)
            # What it held is its own; what it holds none of, another one may have paid.
            decision = ChargeDecision() if transfer.charge_id is not None else _decide(work, credit)
            return _settle(work, credit, transfer, _judge_again(work, credit, transfer, decision), decision)
        case _:
            # A payment refused at settlement never settled: the answer to that report was the refusal.
            is_over = transfer.outcome_code == reject_code.CREDIT_CANCELLED or transfer.acceptance_refused
            return transfer, _contradiction("settled", transfer) if is_over else None


def _await_end(work: UnitOfWork, credit: Credit, transfer: Transfer, charge: Charge | None) -> None:
    """Hold a charge for a payment that has not ended, and its money if that has arrived."""
    if charge is not None:
        held = work.charges[credit.code] = charge_rules.hold_charge(charge, transfer.id)
        work.move(CHARGES, charge, held)
    if isinstance(credit.report, CreditHeld):
        find_suspect_credits().hold(work, transfer, credit.report, charge)


def _decide(work: UnitOfWork, credit: Credit) -> ChargeDecision:
    report, source = credit.report, credit.source
    return decide_charge(
        work.charges.get(credit.code),
        ChargePayment(
            holder_id=credit.holder_id,
            account_id=source.account_id,
            txid=report.txid,
            amount_cents=report.amount_cents,
            at=source.find_instant(report),
            is_refusable=not source.is_final,
            is_held=isinstance(report, CreditHeld),
        ),
    )


def _find_reject_code(work: UnitOfWork, credit: Credit, decision: ChargeDecision) -> str | None:
    if credit.source.is_final:
        return None
    if credit.key_was_removed:
        return reject_code.ACCOUNT_UNKNOWN
    if not work.balances[credit.holder_id].may_deposit:
        return reject_code.ACCOUNT_BLOCKED
    return decision.reject_code


def _judge_again(work: UnitOfWork, credit: Credit, transfer: Transfer, decision: ChargeDecision) -> str | None:
    """Decide whether an accepted payment is refunded when it settles."""
    # If we could have refused it, our acceptance binds us; so does a charge that it holds.
    if credit.refund is None or transfer.charge_id is not None:
        return None
    code = _find_reject_code(work, credit, decision)
    # It could not be accepted for this charge then, so it does not pay it now, even if the charge is free again.
    return reject_code.QR_CODE_REFUSED if code is None and decision.charge is not None else code


def _settle(
    work: UnitOfWork, credit: Credit, transfer: Transfer, code: str | None, decision: ChargeDecision
) -> tuple[Transfer, Misfit | None]:
    """Credit the money and pay the charge; or return the money, if there is a refusal code."""
    network_at = credit.report.settled_at or credit.report.reported_at
    transfer = _announced(work, transfer_rules.settle_transfer(transfer, work.now, network_at))
    work.post(transfer.holder_id, "settlement", "available", transfer.amount_cents, transfer.cause)
    if code is not None and credit.refund is not None:
        if work.balances[transfer.holder_id].available_cents < transfer.amount_cents:
            return transfer, NOT_GIVEN_BACK
        return _hold_automatic_refund(work, transfer, credit.refund, code), None
    finish_payment(work, transfer, credit.code, decision.divergences)
    return transfer, None


def _hold_automatic_refund(work: UnitOfWork, received: Transfer, planned: AutomaticRefund, code: str) -> Transfer:
    """Return all of a payment just credited, with its refusal code; the caller writes the transfer."""
    request = RefundRequest(
        end_to_end_id=received.end_to_end_id,
        amount_cents=received.amount_cents,
        reason="BE08",
        description=reject_code.explain(code)[: refund_rules.DESCRIPTION_LENGTH_MAX],
    )
    new = refund_rules.plan_automatic_refund(received, request, planned.refund_id, planned.return_id)
    refund = refund_rules.open_refund(new, received, work.now)
    work.announce_refund(refund)
    return hold_refund(work, refund, received, new.handover_timeout)


def _announced(work: UnitOfWork, transfer: Transfer) -> Transfer:
    work.announce_transfer(transfer)
    return transfer


def _contradiction(reported: str, transfer: Transfer) -> Misfit:
    explanation = f"the rail reports it as {reported}, and {transfer.status} is recorded here"
    return Misfit(reason="contradiction", explanation=explanation)
