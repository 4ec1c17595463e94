"""Incoming money: checks the rail's reports and records them in batches.

A report may come twice, and late. We record it once, and repeat the first answer; a repetition with other contents is also kept
for an operator. We answer the rail only after everything is durable.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, Protocol

from msgspec import Struct

from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.credit import NOT_GIVEN_BACK, Credit, Credited, find_source, find_suspect_credits, go_on, receive
from pixconnect.kernel.flows.network_id import may_be_named_later
from pixconnect.kernel.flows.refund import fail_at_once, settle_at_once
from pixconnect.kernel.flows.settlement import is_surely_not_ours
from pixconnect.kernel.rules import identifiers, kept_report, reject_code
from pixconnect.kernel.rules import refund as refund_rules
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.kept_report import Misfit, find_change, find_other_account
from pixconnect.kernel.rules.rail import Acknowledgement, CreditCancelled, CreditReport, Report, ReturnReport
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.kernel.tables import kept_report as kept_store
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.transfer import TRANSFERS, RefusedCredit
from pixconnect.kernel.writing.batch import Batch, WriteOperation
from pixconnect.kernel.writing.unit_of_work import UnitOfWork, begin_money_work
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection, Pool

_UNKNOWN_ORIGINAL = Misfit(reason="unknown_order", explanation="returns an order of ours by its id, which is unknown here")


class ReportOutcome(Struct, frozen=True, kw_only=True):
    """The answer to a report, and what an operator has to see."""

    acknowledgement: Acknowledgement | None  # ``None`` if we cannot answer yet: the rail will report again
    misfit: Misfit | None = None  # why the report is kept for an operator too


async def find_recorded(connection: Connection | Pool, report: CreditReport | ReturnReport) -> Transfer | Refund | None:
    """Return the record of this name's first report, for any holder."""
    if isinstance(report, CreditReport):
        return (await transfer_store.find_named(connection, [report.end_to_end_id], "IN")).get(report.end_to_end_id)
    return (await refund_store.find_named(connection, [report.return_id], "IN")).get(report.return_id)


async def receive_credit(context: Context, report: CreditReport, house_id: int | None = None) -> Acknowledgement:
    """Credit a payment, or refuse it; every repetition gets the same answer.

    Args:
        context: Of the account that received it, or of the installation's own rail.
        house_id: The account's house, if it cannot be recorded for the holder that it names.
    """
    source, answered = find_source(context), None
    while answered is None:
        if house_id is None:
            credited = await source.find_credited(context, report)
        else:
            credited = Credited(holder_id=house_id, charge_txid=None)
        if credited.misfit is not None:
            # Before the credit, since afterwards the list has nothing new.
            await kept_usecases.keep_reported(context, report, credited.misfit)
        if credited.holder_id is None:
            can_refuse = context.policy.abilities.refuses_credits
            # ``None`` if the account has got a holder meanwhile.
            answered = await context.writes.submit(REFUSE_CREDITS, UnclaimedCredit(report=report, can_refuse=can_refuse))
            continue
        credit = Credit(
            holder_id=credited.holder_id,
            report=report,
            transfer_id=await context.ids.transfer_id(),
            correlation_id=context.entropy.uuid4(),
            refund=await source.plan_refund(context),
            key_was_removed=credited.key_was_removed,
            source=source,
            charge_txid=credited.charge_txid,
        )
        answered = await context.writes.submit(RECEIVE_CREDITS, credit)
    if answered.misfit not in (None, NOT_GIVEN_BACK):
        await kept_usecases.keep_reported(context, report, answered.misfit)
    if answered.acknowledgement is None:
        raise errors.InternalError("a payment has no answer")
    return answered.acknowledgement


async def _receive_credits(batch: Batch[Credit]) -> list[ReportOutcome]:
    work = await begin_money_work(batch)
    known, refused = await transfer_store.find_received(batch.connection, [credit.report.end_to_end_id for credit in batch])
    await find_suspect_credits().read(work, [credit.report for credit in batch], known)
    await _lock_charges(work, batch)
    new: dict[str, Transfer] = {}
    listed: list[CreditReport] = []
    answers: list[ReportOutcome] = []
    for credit in batch:
        report, name = credit.report, credit.report.end_to_end_id
        transfer = known.get(name)
        # A payment refused without a transfer stays refused: the payer has the money back.
        if transfer is None and name in refused:
            answers.append(_refuse_again(report, refused[name], can_refuse=credit.refund is None))
            continue
        misfit = None if transfer is None else _compare_credit(credit, transfer)
        if transfer is None:
            transfer, misfit = receive(work, credit)
            new[name] = transfer
        # A report with other contents is not trusted: the transfer waits for one that agrees.
        elif misfit is None:
            before = transfer
            transfer, misfit = go_on(work, credit, before)
            if name in new:
                new[name] = transfer  # both steps are in this batch
            elif transfer is not before:
                work.move(TRANSFERS, before, transfer)
        known[name] = transfer
        if misfit is NOT_GIVEN_BACK:
            listed.append(report)
        answers.append(ReportOutcome(acknowledgement=first_answer(report, transfer), misfit=misfit))
    for transfer in new.values():
        work.put(TRANSFERS, transfer)
    await work.write()
    # Together with the credit: a repeated report emits nothing more.
    for report in listed:
        await kept_usecases.keep(batch.connection, report, NOT_GIVEN_BACK)
    await _note_received(work, batch, new)
    return answers


async def _note_received(work: UnitOfWork, batch: Sequence[Credit], new: Mapping[str, Transfer]) -> None:
    for credit in batch:
        received = new.get(credit.report.end_to_end_id)
        if received is not None and received.institution_id == credit.source.account_id:
            await credit.source.note_received(work, received)


class UnclaimedCredit(Struct, frozen=True, kw_only=True):
    """A reported payment to an account without a holder here."""

    report: CreditReport
    can_refuse: bool  # else it is kept for an operator when it settles, with our earlier answer
    holder_id: int = 0  # none: in a queue, all unclaimed credits together have the share of one holder

    @property
    def account(self) -> str:
        party = self.report.credit_party
        return f"{party.branch} {party.account_number}" if party.key is None else party.key


async def _refuse_credits(batch: Batch[UnclaimedCredit]) -> list[ReportOutcome | errors.PixConnectError | None]:
    """Refuse payments and store the refusals; ``None`` for those whose account has a holder by now."""
    owned = await transfer_store.hold_accounts(batch.connection, {credit.account for credit in batch})
    known, refused = await transfer_store.find_received(batch.connection, [credit.report.end_to_end_id for credit in batch])
    new: dict[str, RefusedCredit] = {}
    answers: list[ReportOutcome | errors.PixConnectError | None] = []
    for credit in batch:
        report, name = credit.report, credit.report.end_to_end_id
        if credit.account in owned:
            answers.append(None)
        # The account may have been ours at an earlier report: then the first answer stands.
        elif name in known:
            misfit = Misfit(reason="changed_repeat", explanation="it was for a holder, and now is for none here")
            answers.append(ReportOutcome(acknowledgement=first_answer(report, known[name]), misfit=misfit))
        elif name in refused:
            answers.append(_refuse_again(report, refused[name], can_refuse=credit.can_refuse))
        else:
            code = reject_code.ACCOUNT_UNKNOWN
            refused[name] = new[name] = RefusedCredit(name=name, kind=kept_report.kind_of(report), refusal_code=code)
            answers.append(ReportOutcome(acknowledgement=_acknowledge(report, code)))
    if new:
        await transfer_store.insert_refused(batch.connection, list(new.values()))
    return answers


REFUSE_CREDITS: Final = WriteOperation("refuse_credits", _refuse_credits)


def _refuse_again(report: CreditReport, refused: RefusedCredit, *, can_refuse: bool) -> ReportOutcome:
    misfit = None
    # We refused it at its acceptance, or the rail cancelled it. It settled all the same, and can no longer be refused.
    if can_refuse and kept_report.kind_of(report) == "credit" != refused.kind:
        explanation = f"the rail reports it as settled, and it was refused here with {refused.refusal_code} before that"
        misfit = Misfit(reason="contradiction", explanation=explanation)
    return ReportOutcome(acknowledgement=_acknowledge(report, refused.refusal_code), misfit=misfit)


REFUSALS_KEPT_FOR: Final = timedelta(days=30)  # how long a rail may repeat its report of a payment refused without a transfer
REFUSALS_FORGOTTEN_MAX: Final = 10_000


async def forget_refusals(context: Context) -> None:
    while (
        await transfer_store.forget_refused(context.pool, REFUSALS_KEPT_FOR, REFUSALS_FORGOTTEN_MAX) == REFUSALS_FORGOTTEN_MAX
    ):
        pass


async def _lock_charges(work: UnitOfWork, batch: Sequence[Credit]) -> None:
    """Lock charges by txid and credited holder; another holder's charge only if its code was scanned."""
    wanted = {credit.code for credit in batch if credit.charge_txid is not None}
    charges = await work.lock_charges_by_txid(sorted(wanted))
    # A code of another holder whose money goes to this one is refused. Only names that we generated identify their holder.
    here = {credit.code for credit in batch if not credit.source.is_final}
    unknown = [(txid, holder_id) for txid, holder_id in here & wanted - charges.keys() if identifiers.is_txid(txid)]
    if unknown:
        others = await charge_store.find_of_contract(work.connection, sorted({txid for txid, _ in unknown}))
        work.charges |= {(txid, holder_id): others[txid] for txid, holder_id in unknown if txid in others}


RECEIVE_CREDITS: Final = WriteOperation("receive_credits", _receive_credits)


class Recorded(Protocol):
    @property
    def status(self) -> str: ...

    @property
    def outcome_code(self) -> str | None: ...


def first_answer(report: Report, recorded: Recorded) -> Acknowledgement:
    code = recorded.outcome_code if recorded.status == "ERROR" else None
    return _acknowledge(report, reject_code.NOT_SETTLED if code == reject_code.CREDIT_CANCELLED else code)


def _acknowledge(report: Report, refusal_code: str | None) -> Acknowledgement:
    # A payment that the rail has cancelled cannot be refused.
    is_over = isinstance(report, CreditCancelled)
    return Acknowledgement(report_id=report.report_id, refusal_code=None if is_over else refusal_code)


def _compare_credit(credit: Credit, transfer: Transfer) -> Misfit | None:
    """Check that a repeated payment is the same: amount, account, charge and payer."""
    report, payer = credit.report, transfer.counterparty
    compared: dict[str, tuple[object, object]] = {
        "amount_cents": (transfer.amount_cents, report.amount_cents),
        "holder_id": (transfer.holder_id, credit.holder_id),
        "key": (transfer.own_key, report.credit_party.key),
        "txid": (transfer.txid, report.txid),
    }
    # An institution may report the payer later.
    if not credit.source.is_final:
        compared["payer's account"] = (_account_of(payer), _account_of(report.debit_party))
    return find_other_account(transfer.institution_id, credit.source.account_id) or find_change(compared)


def _account_of(party: Party) -> str:
    return f"{party.ispb} {party.account_number}"


class GivenBack(Struct, frozen=True, kw_only=True):
    """A reported return of one of our transfers, with every id made before the first try."""

    holder_id: int
    original_id: int
    report: ReturnReport
    refund_id: int
    is_refusable: bool


async def receive_return(context: Context, report: ReturnReport) -> Acknowledgement | None:
    """Book money that a payee returns, or refuse it.

    Returns:
        ``None`` if the transfer has not settled here yet, or its name may still be reported: the rail must report it again.
    """
    name = report.original_end_to_end_id
    original = (await transfer_store.find_named(context.pool, [name], "OUT")).get(name)
    if original is None:
        if (recorded := await find_recorded(context.pool, report)) is not None:
            misfit = Misfit(reason="changed_repeat", explanation="it was of another transfer")
            await kept_usecases.keep(context.pool, report, misfit)
            return first_answer(report, recorded)
        if may_be_named_later(context, report):
            return None
        # The id does not exclude that the transfer was ours, and we do not know it: an operator has to look.
        if not is_surely_not_ours(context, name):
            await kept_usecases.keep(context.pool, report, _UNKNOWN_ORIGINAL, reject_code.ABOVE_ORIGINAL)
        return Acknowledgement(report_id=report.report_id, refusal_code=reject_code.ABOVE_ORIGINAL)
    given_back = GivenBack(
        holder_id=original.holder_id,
        original_id=original.id,
        report=report,
        refund_id=await context.ids.refund_id(),
        is_refusable=context.policy.abilities.refuses_credits,
    )
    answered = await context.writes.submit(RECEIVE_RETURNS, given_back)
    if answered.misfit is not None:
        await kept_usecases.keep(context.pool, report, answered.misfit)
    return answered.acknowledgement


async def _receive_returns(batch: Batch[GivenBack]) -> list[ReportOutcome]:
    work = await begin_money_work(batch)
    await work.lock_transfers({(item.original_id, item.holder_id) for item in batch})
    known = await refund_store.lock(batch.connection, [(item.report.return_id, item.holder_id) for item in batch], "IN")
    named = await refund_store.find_named(batch.connection, [item.report.return_id for item in batch], "IN")
    refused = await kept_store.find_refused(batch.connection, [item.report.return_id for item in batch])
    answers: list[ReportOutcome] = []
    for given_back in batch:
        report = given_back.report
        original = work.transfers[given_back.original_id, given_back.holder_id]
        # The holder's own first; a return that was recorded for another holder is a changed repetition.
        refund = known.get((report.return_id, given_back.holder_id))
        refund = refund or named.get(report.return_id)
        if refund is None and report.return_id in refused:
            code = refused[report.return_id]
            answers.append(ReportOutcome(acknowledgement=_acknowledge(report, code)))
            continue
        # The report of its settlement is still to come, and must precede a return.
        if refund is None and original.status == "PROCESSING":
            answers.append(ReportOutcome(acknowledgement=None))
            continue
        misfit = None if refund is None else _compare_return(given_back, refund)
        if refund is None:
            refund = _take_back(work, given_back, original)
            known[report.return_id, refund.holder_id] = named[report.return_id] = refund
        answers.append(ReportOutcome(acknowledgement=first_answer(report, refund), misfit=misfit))
    await work.write()
    return answers


RECEIVE_RETURNS: Final = WriteOperation("receive_returns", _receive_returns)


def _compare_return(given_back: GivenBack, refund: Refund) -> Misfit | None:
    report = given_back.report
    # Reports may name the same original by our id and by the network's.
    is_of_the_same = (refund.transfer_id, refund.holder_id) == (given_back.original_id, given_back.holder_id)
    named = refund.original_end_to_end_id if is_of_the_same else report.original_end_to_end_id
    return find_change(
        {
            "amount_cents": (refund.amount_cents, report.amount_cents),
            "original_end_to_end_id": (refund.original_end_to_end_id, named),
        }
    )


def _take_back(work: UnitOfWork, given_back: GivenBack, original: Transfer) -> Refund:
    refund = refund_rules.open_incoming_refund(given_back.report, original, given_back.refund_id, work.now)
    work.announce_refund(refund)
    # A refused payment is recorded too, in ERROR, so that a repetition gets the same answer.
    code = refund_rules.find_reject_code(given_back.report, original, work.balances[original.holder_id])
    # A settled payment that cannot be refused belongs to the holder, up to the amount that was sent.
    if code is not None and (given_back.is_refusable or code == reject_code.ABOVE_ORIGINAL):
        return fail_at_once(work, refund, code)
    return settle_at_once(work, refund, original, given_back.report.settled_at or given_back.report.reported_at)
