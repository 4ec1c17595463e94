"""Returns of received Pix without a request here, made by a person at the institution, or by the institution itself.

::

    listed as returned ──► of a Pix that is recorded ──► refund OUT, RETURNED at once, and its charge returned
             │                        ├── more than is left of it, or called as another return ──► kept for an operator
             │                        └── one of ours is under way, and both are more than that ──► looked at again
             ├── under our name ──► the report of our refund
             └── of a Pix that was here before the books ──► movement

A pending return there is recorded once it has settled, and a refused one moves nothing. If the statement had it first, and it
was posted as a movement, that movement is reversed in the transaction that records the refund.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.institution import ListedRefund, ReceivedPix
from pixconnect.features.institutions.rules.joining import make_movement_id
from pixconnect.features.institutions.rules.rail_memory import name_at_institution
from pixconnect.features.institutions.rules.unmatched import ReversedMovement
from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables import rail_step as step_store
from pixconnect.features.institutions.tables import returns as return_store
from pixconnect.features.movements import tables as movement_store
from pixconnect.features.movements.held_blocks import HeldBlocks
from pixconnect.features.movements.service import post_statement_item, take_back
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.refund import settle_at_once
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules import identifiers
from pixconnect.kernel.rules import refund as refund_rules
from pixconnect.kernel.rules.kept_report import Misfit, find_change
from pixconnect.kernel.rules.rail import InstitutionReturn, MovementReport, SettledReport
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.writing.batch import Batch, WriteOperation
from pixconnect.kernel.writing.unit_of_work import UnitOfWork, begin_money_work
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day


class ListedReturn(Struct, frozen=True, kw_only=True):
    """A return that the institution lists; all ids are generated before the first try."""

    holder_id: int
    original: Transfer
    report: InstitutionReturn
    refund_id: int
    return_id: str
    mistaken: ReversedMovement | None  # its line was read before, and posted as a movement


RecordedReturn = bool | Misfit
"""Whether a listed return is recorded now (it may have been before), or why it is kept for an operator."""


async def record_returns(context: Context, account: InstitutionAccount, listed: Sequence[ReceivedPix]) -> bool:
    """Record the new returns of some payments, as the institution lists them now; return whether all are recorded or kept."""
    ended = {pix.end_to_end_id: pix for pix in listed if any(refund.status != "under_way" for refund in pix.refunds)}
    if not ended:
        return True
    originals = await transfer_store.find_named(context.pool, list(ended), "IN")
    recorded = await refund_store.find_of_transfers(
        context.pool, [(original.id, original.holder_id) for original in originals.values()]
    )
    ours = await _end_ours(context, account, listed, recorded)
    made = await return_store.find_of_transfers(context.pool, list(recorded))
    unknown: list[tuple[Transfer | None, InstitutionReturn]] = []
    for name, pix in ended.items():
        reports = [_as_report(pix, refund) for refund in pix.refunds if refund.status == "returned" and refund.id not in ours]
        reports = [one for one in reports if not await kept_usecases.keep_if_dated_ahead(context, one, one.settled_at)]
        original = originals.get(name)
        if original is None:
            unknown += [(None, report) for report in reports]
        elif original.institution_id == account.id and original.settled_at is not None:
            for report in reports:
                known = made.get((report.asked_as, original.id, original.holder_id))
                if known is None:
                    unknown.append((original, report))
                else:
                    await _compare(context, report, known)
    touched = await _record_unknown(context, account, unknown) if unknown else []
    if touched:
        # A day that had closed without it is judged again.
        await day_usecases.judge(context, account, to_day(min(touched)))
    return touched is not None


async def _record_unknown(
    context: Context, account: InstitutionAccount, unknown: Sequence[tuple[Transfer | None, InstitutionReturn]]
) -> list[datetime] | None:
    """Record new returns and return when they had settled; ``None`` while a line of the account may become a movement."""
    async with context.pool.keep() as locking, day_store.working_on(locking, account.id) as is_alone:
        if not is_alone:
            # A line of one of them may be becoming a movement right now: they are read again.
            return None
        await _record_without_original(context, account, [report for original, report in unknown if original is None])
        new = [await _prepare(context, account, original, report) for original, report in unknown if original is not None]
        return await _submit(context, new)


async def _end_ours(
    context: Context,
    account: InstitutionAccount,
    listed: Sequence[ReceivedPix],
    recorded: Mapping[tuple[int, int], Sequence[Refund]],
) -> Collection[str]:
    """End our refunds that are listed as ended, by their names there.

    Refunds pending here end by that. Refunds that ended otherwise here, or were requested otherwise, are kept for an operator.
    """
    over = [(pix, refund) for pix in listed for refund in pix.refunds if refund.status != "under_way"]
    steps = await step_store.find_named(context.pool, account.id, [refund.id for _, refund in over])
    states = {refund.return_id: refund.status for of in recorded.values() for refund in of}
    endings: list[SettledReport] = []
    for pix, refund in over:
        step = steps.get(refund.id)
        if step is None:
            continue
        asked = dict(
            original=(step.original_end_to_end_id, pix.end_to_end_id), amount_cents=(step.amount_cents, refund.amount_cents)
        )
        misfit = find_change(asked)
        status = states.get(step.order_name)
        if misfit is None and status == "RETURNED" and refund.status != "returned":
            misfit = Misfit(reason="contradiction", explanation="it was returned, and is listed as refused")
        if misfit is not None:
            await kept_usecases.keep(context.pool, _as_report(pix, refund), misfit, is_listed=True)
        elif refund.status == "returned" and status != "RETURNED":
            settled_at = refund.settled_at or context.clock.now()
            endings.append(
                SettledReport(report_id=refund.id, id=step.order_name, settled_at=settled_at, network_id=refund.return_id)
            )
    # A refund that we recorded as failed contradicts our records, and is kept as that.
    if endings:
        await take_reports(context, endings)
    return steps.keys()


async def _submit(context: Context, new: Sequence[ListedReturn]) -> list[datetime]:
    """Record new returns, each alone if necessary; return when the recorded ones had settled."""
    settled: list[datetime] = []
    outcomes = await context.writes.submit_all(RECORD_RETURNS, new)
    for returned, outcome in zip(new, outcomes, strict=True):
        if isinstance(outcome, errors.InternalError):
            # A row that the database rejects must not block the others.
            misfit = Misfit(reason="cannot_be_recorded", explanation="recording it failed: the log has the reason")
            await kept_usecases.keep(context.pool, returned.report, misfit, is_listed=True)
        elif isinstance(outcome, errors.PixConnectError):
            raise outcome
        elif isinstance(outcome, Misfit):
            await kept_usecases.keep(context.pool, returned.report, outcome, is_listed=True)
        elif outcome:
            settled.append(returned.report.settled_at or context.clock.now())
    return settled


async def _compare(context: Context, report: InstitutionReturn, known: Refund) -> None:
    """Compare a repetition with the recorded one; its network name may be reported later."""
    compared: dict[str, tuple[object, object]] = dict(amount_cents=(known.amount_cents, report.amount_cents))
    misfit = find_change(compared)
    if misfit is not None:
        await kept_usecases.keep(context.pool, report, misfit, is_listed=True)
    elif report.return_id is not None and report.return_id != known.shown_id and known.network_id is None:
        named = await refund_store.find_named(context.pool, [report.return_id], "OUT")
        misfit = _find_namesake(report, named)
        if misfit is None:
            await refund_store.record_network_name(context.pool, known.id, known.holder_id, report.return_id)
        else:
            await kept_usecases.keep(context.pool, report, misfit, is_listed=True)


def _find_namesake(report: InstitutionReturn, named: Mapping[str, Refund]) -> Misfit | None:
    """Find whether another return already has the reported name, for one that is new or had no network name."""
    other = None if report.return_id is None else named.get(report.return_id)
    if other is None:
        return None
    explanation = f"the refund {other.id}, of {other.original_end_to_end_id}, is called {report.return_id} too"
    return Misfit(reason="contradiction", explanation=explanation)


def _as_report(pix: ReceivedPix, refund: ListedRefund) -> InstitutionReturn:
    return InstitutionReturn(
        report_id=refund.return_id or refund.id,
        return_id=refund.return_id,
        asked_as=refund.id,
        original_end_to_end_id=pix.end_to_end_id,
        amount_cents=refund.amount_cents,
        settled_at=refund.settled_at,
    )


async def _prepare(
    context: Context, account: InstitutionAccount, original: Transfer, report: InstitutionReturn
) -> ListedReturn:
    return ListedReturn(
        holder_id=original.holder_id,
        original=original,
        report=report,
        refund_id=await context.ids.refund_id(),
        return_id=identifiers.make_return_id(context.policy.ispb, context.clock.now(), context.entropy),
        mistaken=await _find_mistaken(context, account, report),
    )


async def _find_mistaken(context: Context, account: InstitutionAccount, report: InstitutionReturn) -> ReversedMovement | None:
    names = [] if report.return_id is None else [report.return_id]
    day = to_day(report.settled_at or context.clock.now())
    of = [report.original_end_to_end_id]
    found = await return_store.find_mistaken(context.pool, account.id, report.amount_cents, names, of, day)
    return found[0] if len(found) == 1 else None


async def _record_without_original(context: Context, account: InstitutionAccount, reports: Sequence[InstitutionReturn]) -> None:
    """Record a return of a payment from before the books: only later returns count here."""
    for report in reports:
        # One without an instant may be older, as its payment is.
        if report.settled_at is None or report.settled_at < account.opened_at:
            continue
        name = report.return_id or make_movement_id(refund_rules.name_institution_return(report))
        known = await movement_store.find_items(context.pool, [(account.house_id, name)])
        if known or await _find_mistaken(context, account, report) is not None:
            continue
        moved = MovementReport(
            report_id=report.report_id,
            item_id=name,
            party=(await context.directory.read_account(account.house_id)).party,
            kind="reversal",
            direction="OUT",
            amount_cents=report.amount_cents,
            end_to_end_id=report.original_end_to_end_id,
            settled_at=report.settled_at,
        )
        await post_statement_item(context, account.house_id, moved)


def _holders_of(returned: ListedReturn) -> tuple[int, ...]:
    return (returned.holder_id,) if returned.mistaken is None else (returned.holder_id, returned.mistaken.holder_id)


async def _record_returns(batch: Batch[ListedReturn]) -> list[RecordedReturn]:
    work = await begin_money_work(batch, _holders_of)
    await work.claim(HeldBlocks).read()
    names = [returned.report.original_end_to_end_id for returned in batch]
    await work.lock_charges_of(names)
    wanted = sorted({(returned.original.id, returned.holder_id) for returned in batch})
    await work.lock_transfers(wanted)
    refunds = await refund_store.find_of_transfers(work.connection, wanted)
    moved = await movement_store.find_standing(work.connection, [one.mistaken.key for one in batch if one.mistaken])
    account_ids = {original.institution_id for original in work.transfers.values() if original.institution_id is not None}
    naming_keys = await return_store.read_keys(work.connection, sorted(account_ids))
    first_ids = await holder_store.find_first(work.connection, {returned.holder_id for returned in batch})
    made = await return_store.find_of_transfers(work.connection, wanted)
    return_ids = [returned.report.return_id for returned in batch if returned.report.return_id is not None]
    named = await refund_store.find_named(work.connection, return_ids, "OUT")
    outcomes: list[RecordedReturn] = []
    recorded: list[tuple[Refund, str]] = []
    proved: list[tuple[ReversedMovement, Refund]] = []
    for returned in batch:
        key = (returned.original.id, returned.holder_id)
        before = made.get((returned.report.asked_as, *key))
        if before is not None:
            # The same one, if it is a try whose commit was lost.
            outcome = before.id == returned.refund_id
        elif _is_ours(returned, work.transfers[key], refunds.get(key, []), naming_keys, first_ids):
            outcome = False  # our refund was accepted meanwhile: it ends by the listing
        else:
            outcome = _judge(returned.report, work.transfers[key], named)
        outcomes.append(outcome)
        if before is not None or outcome is not True:
            continue
        mistaken = returned.mistaken
        if mistaken is not None:
            # A second return that looks the same is not this line: it is reversed once.
            movement = moved.pop(mistaken.key, None)
            mistaken = None if movement is None else mistaken
            if movement is not None:
                take_back(work, movement, returned.report.return_id or returned.report.original_end_to_end_id)
        refund = _record(work, returned, work.transfers[key])
        made[returned.report.asked_as, *key] = named[refund.return_id] = refund
        recorded.append((refund, returned.report.asked_as))
        if mistaken is not None:
            proved.append((mistaken, refund))
    await work.write()
    for refund, asked_as in recorded:
        await return_store.insert(work.connection, refund, asked_as)
    for mistaken, refund in proved:
        await item_store.rejoin(work.connection, mistaken, ("refund", refund.id))
    return outcomes


RECORD_RETURNS: Final = WriteOperation("record_returns", _record_returns)


def _is_ours(
    returned: ListedReturn,
    original: Transfer,
    refunds: Sequence[Refund],
    naming_keys: Mapping[int, bytes],
    first_ids: Mapping[int, int],
) -> bool:
    """Whether it was requested here, though its call may not be recorded yet."""
    account_id = errors.require(original.institution_id, "it lies on an account")
    key = naming_keys[account_id]
    return returned.report.asked_as in {
        name_at_institution(key, account_id, "refund", first_ids[refund.holder_id], refund.external_id or refund.return_id)
        for refund in refunds
        if refund.made_by == "service" and refund.flow == "OUT"
    }


def _judge(report: InstitutionReturn, original: Transfer, named: Mapping[str, Refund]) -> RecordedReturn:
    """Whether to record it now: it is new and plausible."""
    if (namesake := _find_namesake(report, named)) is not None:
        return namesake
    left_cents = original.amount_cents - original.returned_cents
    if report.amount_cents > left_cents:
        explanation = f"it returns {report.amount_cents} cents, and {left_cents} are left of the received amount"
        return Misfit(reason="contradiction", explanation=explanation)
    # If it leaves no room for our pending refund, our refund's end is awaited first.
    return report.amount_cents <= left_cents - original.returning_cents


def _record(work: UnitOfWork, returned: ListedReturn, original: Transfer) -> Refund:
    report = returned.report
    opened = refund_rules.open_institution_return(
        report, original, refund_id=returned.refund_id, return_id=returned.return_id, now=work.now
    )
    work.announce_refund(opened)
    return settle_at_once(work, opened, original, report.settled_at, work.claim(HeldBlocks).take_returned)
