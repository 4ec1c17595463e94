"""Payers' contests, as institutions report them: each step once, in any order of reports.

::

    report ──► known? the Pix? ──► block held or released ──► takings: refunds ──► new state, and its event

A report contains the whole state of a contest. So a late one advances the state as far as it can and undoes nothing; an
implausible one is kept for an operator, and changes nothing. A return recorded earlier, from the institution's list, is the
same one. A report that overtakes its Pix, or the end of a suspect one, comes again until that is here.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct, structs

from pixconnect.features.contests import tables as infraction_store
from pixconnect.features.contests.rules import infraction as infraction_rules
from pixconnect.features.contests.rules.infraction import Infraction, InfractionReturn, announce_infraction
from pixconnect.features.contests.tables import INFRACTION_RETURNS, INFRACTIONS
from pixconnect.features.institutions.tables import returns as return_store
from pixconnect.features.movements import blocks as block_rules
from pixconnect.features.movements import tables as movement_store
from pixconnect.features.movements.blocks import Block
from pixconnect.features.movements.held_blocks import HeldBlocks, reserve_released
from pixconnect.features.movements.service import find_holder
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows.before_order import NewOrder, OrderRule, payers_of
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.credit import find_source
from pixconnect.kernel.flows.refund import settle_at_once
from pixconnect.kernel.flows.report import ReportTaker
from pixconnect.kernel.rules import refund as refund_rules
from pixconnect.kernel.rules.block_report import InfractionReport, TakenPart
from pixconnect.kernel.rules.event import EventName
from pixconnect.kernel.rules.kept_report import Misfit
from pixconnect.kernel.rules.order import WaitingOrder
from pixconnect.kernel.rules.rail import Acknowledgement, InstitutionReturn
from pixconnect.kernel.rules.refund import NewRefund, Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.table import split_pairs
from pixconnect.kernel.writing.batch import Batch, WriteOperation
from pixconnect.kernel.writing.unit_of_work import UnitOfWork, begin_money_work
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection, Pool

_ANOTHER_HOLDERS: Final = Misfit(reason="contradiction", explanation="the Pix that it contests is of another account")
_NOT_YET: Final = Misfit(reason="unknown_order", explanation="the Pix that it contests is not known, or not yet how it ends")


class ReportedInfraction(Struct, frozen=True, kw_only=True):
    """A report of a received Pix; all ids are generated before the first try."""

    transfer: Transfer
    report: InfractionReport
    refund_ids: tuple[int, ...]
    """One for each of its returns."""

    @property
    def holder_id(self) -> int:
        return self.transfer.holder_id

    @property
    def name(self) -> tuple[int | None, str]:
        return self.transfer.institution_id, self.report.name


async def receive_infraction(context: Context, report: InfractionReport) -> Acknowledgement | None:
    """Apply a report.

    Returns:
        ``None`` if the Pix, or its end, may still be reported: the rail must report it again.

    Raises:
        ServiceUnavailable: Its return leaves no room for our pending refund: it is reported again.
    """
    misfit = await _receive(context, report)
    if misfit is _NOT_YET:
        return None
    if misfit is not None:
        await kept_usecases.keep_reported(context, report, misfit)
    return Acknowledgement(report_id=report.report_id)


async def _receive(context: Context, report: InfractionReport) -> Misfit | None:
    found = await transfer_store.find_named(context.pool, [report.end_to_end_id], "IN")
    transfer = found.get(report.end_to_end_id)
    if transfer is None and not context.failed_reports.is_about_nothing(report.name, context.clock.monotonic_s()):
        return _NOT_YET
    # Accepted, or held as suspect: there is nothing to block before its release, and nothing after its return.
    if transfer is not None and transfer.status == "PROCESSING":
        return _NOT_YET
    misfit = infraction_rules.find_infraction_misfit(report, None, transfer)
    if misfit is not None or transfer is None:
        return misfit
    source = find_source(context)
    if transfer.institution_id != source.account_id:
        return _ANOTHER_HOLDERS
    # A contest at an institution names no holder.
    if source.house_id is None and await find_holder(context, report.party) != transfer.holder_id:
        return _ANOTHER_HOLDERS
    refund_ids = tuple([await context.ids.refund_id() for _ in report.taken])
    reported = ReportedInfraction(transfer=transfer, report=report, refund_ids=refund_ids)
    return await context.writes.submit(RECEIVE_INFRACTIONS, reported)


class _LockedRows(Struct, kw_only=True):
    """The locked rows that a batch of reports may change, by their names in reports or by id and holder."""

    infractions: dict[tuple[int | None, str], Infraction]
    blocks: dict[tuple[int | None, str], Block]
    refunds: dict[str, Refund]
    linked: set[tuple[int, int]]
    taken_of: dict[tuple[int, int], int] = {}
    """The blocks that paid for returns recorded before a contest named them."""
    undecided: set[tuple[int | None, str]] = set()
    """Other contests of their Pix."""
    made: list[Refund] = []

    def is_undecided(self, block: Block) -> bool:
        known = self.infractions.get((block.institution_id, block.reference))
        # Including the batch's own changes.
        return (block.institution_id, block.reference) in self.undecided if known is None else known.is_open


async def _lock_rows(work: UnitOfWork, batch: Sequence[ReportedInfraction]) -> _LockedRows:
    connection = work.connection
    await work.lock_charges_of([reported.transfer.end_to_end_id for reported in batch])
    await work.lock_transfers({(reported.transfer.id, reported.holder_id) for reported in batch})
    infractions: dict[tuple[int | None, str], Infraction] = {}
    blocks: dict[tuple[int | None, str], Block] = {}
    for account_id in {reported.transfer.institution_id for reported in batch}:
        references = [reported.report.name for reported in batch if reported.transfer.institution_id == account_id]
        named = await infraction_store.lock_named(connection, references, account_id)
        infractions |= {(account_id, infraction.name): infraction for infraction in named}
        found = await movement_store.find_blocks(connection, references, account_id)
        blocks |= {(account_id, reference): block for reference, block in found.items()}
    return_ids = [part.return_id for reported in batch for part in reported.report.taken]
    refunds = await refund_store.find_named(connection, return_ids, "OUT") if return_ids else {}
    made = [(refund.id, refund.holder_id) for refund in refunds.values()]
    linked = await refund_store.find_links(connection, made)
    locked = _LockedRows(infractions=infractions, blocks=blocks, refunds=refunds, linked=set(linked))
    joined = sorted(made) if set(made) - set(linked) else []
    others = [block.reference for _, holder_id in joined for block in work.claim(HeldBlocks).open.list_of(holder_id)]
    if others:
        taken = await movement_store.find_taken_of(connection, *split_pairs(joined))
        locked.taken_of = {(refund_id, holder_id): block_id for refund_id, holder_id, block_id in taken}
        locked.undecided = await movement_store.find_open_names(connection, others)
    return locked


async def _receive_infractions(batch: Batch[ReportedInfraction]) -> list[Misfit | errors.PixConnectError | None]:
    work = await begin_money_work(batch)
    await work.claim(HeldBlocks).read()
    locked = await _lock_rows(work, batch)
    outcomes: list[Misfit | errors.PixConnectError | None] = []
    for reported in batch:
        transfer = work.transfers[reported.transfer.id, reported.holder_id]
        known = locked.infractions.get(reported.name)
        misfit = infraction_rules.find_infraction_misfit(reported.report, known, transfer)
        block = locked.blocks.get(reported.name)
        # Its own block is made with it: another one of the name belongs to something else.
        if misfit is None and block is not None and reported.name not in locked.infractions:
            explanation = f"the block {block.reference} is {block.kind}, and of no contest"
            misfit = Misfit(reason="contradiction", explanation=explanation)
        misfit = misfit or _find_wrong_part(reported, transfer, locked.refunds)
        if misfit is not None:
            outcomes.append(misfit)
        elif _new_cents(reported, locked.refunds) > transfer.amount_cents - transfer.returned_cents - transfer.returning_cents:
            outcomes.append(errors.ServiceUnavailable("a refund of the same Pix is under way"))
        else:
            _follow(work, reported, known, locked)
            outcomes.append(None)
    await work.write()
    for refund in locked.made:
        await return_store.insert(work.connection, refund, refund.return_id)
    await reserve_released(batch, [(reported.transfer.institution_id, reported.holder_id) for reported in batch])
    return outcomes


RECEIVE_INFRACTIONS: Final = WriteOperation("receive_infractions", _receive_infractions)


def announce(work: UnitOfWork, infraction: Infraction, name: EventName | None = None) -> None:
    """Emit the state that an infraction has reached, with its blocked amount; or a reminder."""
    block = work.claim(HeldBlocks).open.find(infraction.holder_id, infraction.name)
    work.announce(announce_infraction, infraction, 0 if block is None else block.covered_cents, name)


def _new_cents(reported: ReportedInfraction, known: Mapping[str, Refund]) -> int:
    return sum(part.amount_cents for part in reported.report.taken if part.return_id not in known)


def _find_wrong_part(reported: ReportedInfraction, transfer: Transfer, known: Mapping[str, Refund]) -> Misfit | None:
    """Find why a return is implausible: it is something else here already, or exceeds the rest of the Pix."""
    for part in reported.report.taken:
        refund = known.get(part.return_id)
        known_as = refund and (refund.transfer_id, refund.amount_cents, refund.made_by)
        if refund is not None and known_as != (transfer.id, part.amount_cents, "institution"):
            explanation = f"{part.return_id} is the refund {refund.id} here, of {refund.amount_cents} cents"
            return Misfit(reason="contradiction", explanation=explanation)
    left_cents = transfer.amount_cents - transfer.returned_cents
    if _new_cents(reported, known) > left_cents:
        explanation = f"it takes {_new_cents(reported, known)} cents, and {left_cents} are left of the Pix"
        return Misfit(reason="contradiction", explanation=explanation)
    return None


def _follow(work: UnitOfWork, reported: ReportedInfraction, known: Infraction | None, locked: _LockedRows) -> None:
    report = reported.report
    infraction = known or _open(work, reported, locked)
    is_new = known is None
    taken_cents = _take_all(work, reported, infraction, locked)
    followed = infraction_rules.follow(infraction, report, taken_cents, work.now)
    if not is_new:
        _report_block(work, reported, followed, locked)
    work.move(INFRACTIONS, infraction, followed)
    locked.infractions[reported.name] = followed
    if followed.state != infraction.state or (taken_cents and followed.state == "taken"):
        announce(work, followed)


def _open(work: UnitOfWork, reported: ReportedInfraction, locked: _LockedRows) -> Infraction:
    transfer, report = reported.transfer, reported.report
    charge = None if transfer.charge_id is None else work.charges.get((transfer.charge_id, transfer.holder_id))
    external_id = charge and charge.external_id
    infraction = infraction_rules.begin_infraction(report, transfer, work.take_id(), external_id, work.now)
    terms, of = infraction_rules.block_of(report), (reported.holder_id, transfer.institution_id)
    block = block_rules.open_block(terms, work.take_id(), *of, report.report_id, report.reported_at, work.now)
    locked.blocks[reported.name] = work.claim(HeldBlocks).hold(None, structs.replace(block, transfer_id=transfer.id))
    work.put(INFRACTIONS, infraction)
    announce(work, infraction)
    return infraction


def _report_block(work: UnitOfWork, reported: ReportedInfraction, followed: Infraction, locked: _LockedRows) -> None:
    """Change the block as reported, unless a later report exists."""
    report = reported.report
    block = work.claim(HeldBlocks).open.find(reported.holder_id, report.name) or locked.blocks[reported.name]
    ends = followed.state == "released" and block.state == "open"
    if (not ends and report.reported_at <= block.reported_at) or block.state == "ended":
        return
    terms = infraction_rules.block_of(report)
    changed = block_rules.change_block(block, terms, report.report_id, max(report.reported_at, block.reported_at), work.now)
    locked.blocks[reported.name] = work.claim(HeldBlocks).hold(block, changed)


def _take_all(work: UnitOfWork, reported: ReportedInfraction, infraction: Infraction, locked: _LockedRows) -> int:
    """Record the institution's new returns; return how much of them is new to the infraction."""
    taken_cents = 0
    for part, refund_id in zip(reported.report.taken, reported.refund_ids, strict=True):
        refund = locked.refunds.get(part.return_id)
        if refund is None:
            refund = locked.refunds[part.return_id] = _take(work, reported, part, refund_id, locked)
        elif (refund.id, refund.holder_id) in locked.linked:
            continue
        else:
            _hold_again(work, reported, refund, locked)
        locked.linked.add((refund.id, refund.holder_id))
        work.put(
            INFRACTION_RETURNS, InfractionReturn(refund_id=refund.id, holder_id=refund.holder_id, infraction_id=infraction.id)
        )
        taken_cents += part.amount_cents
    return taken_cents


def _hold_again(work: UnitOfWork, reported: ReportedInfraction, refund: Refund, locked: _LockedRows) -> None:
    """Make another contest of the Pix hold the money of a return that was this one's."""
    block_id = locked.taken_of.get((refund.id, refund.holder_id))
    # If nothing was covered, the oldest uncovered one was lowered.
    lowered = (
        block
        for block in work.claim(HeldBlocks).open.list_of(refund.holder_id)
        if block.transfer_id == refund.transfer_id
        and block_id in (None, block.id)
        and block.held_cents < block.wanted_cents
        and locked.is_undecided(block)
    )
    block = next(lowered, None)
    if block is not None and block.reference != reported.report.name:
        held_cents = min(block.wanted_cents, block.held_cents + refund.amount_cents)
        # Covered again by money that the contest's own block releases, by its report.
        work.claim(HeldBlocks).hold(block, structs.replace(block, held_cents=held_cents, modified_at=work.now))


def _take(work: UnitOfWork, reported: ReportedInfraction, part: TakenPart, refund_id: int, locked: _LockedRows) -> Refund:
    key = reported.transfer.id, reported.holder_id
    original = work.transfers[key]
    returned = InstitutionReturn(
        report_id=reported.report.report_id,
        return_id=part.return_id,
        asked_as=part.return_id,
        original_end_to_end_id=original.end_to_end_id,
        amount_cents=part.amount_cents,
        settled_at=part.settled_at,
    )
    opened = refund_rules.open_institution_return(
        returned, original, refund_id=refund_id, return_id=part.return_id, now=work.now
    )
    opened = structs.replace(opened, reason=refund_rules.REFUND_REASONS[reported.report.reason])
    work.announce_refund(opened)
    post = partial(work.claim(HeldBlocks).take_returned, contest_name=reported.report.name)
    refund = settle_at_once(work, opened, original, part.settled_at, post)
    locked.made.append(refund)
    return refund


class Contests(OrderRule):
    """Refuses and delays refunds while their Pix is contested."""

    rank = 50

    def __init__(self, work: UnitOfWork) -> None:
        super().__init__(work)
        self._contested: set[tuple[int, int]] = set()

    @staticmethod
    def concerns(work: UnitOfWork, batch: Sequence[NewOrder]) -> bool:
        # An undecided contest, and a claimed rest, have a block, so holders without blocks are skipped.
        return isinstance(batch[0], NewRefund) and any(work.balances[each].blocks_count for each in payers_of(batch))

    async def begin(self, batch: Sequence[NewOrder]) -> None:
        suspected = {
            (new.original_id, new.holder_id)
            for new in batch
            if isinstance(new, NewRefund) and self.work.balances[new.holder_id].blocks_count
        }
        if suspected:
            found = await infraction_store.find_contested(self.work.connection, *split_pairs(sorted(suspected)))
            self._contested = set(found)

    def check(self, new: NewOrder) -> None:
        if isinstance(new, NewRefund) and (new.original_id, new.holder_id) in self._contested:
            raise errors.RefundInfractionOpen(
                "end_to_end_id: the payer contests this Pix; until the institution has decided, and while it claims a rest, "
                "only the institution can return it"
            )

    @staticmethod
    async def find_holds(connection: Connection | Pool, waiting: Sequence[WaitingOrder]) -> dict[str, str]:
        # An undecided contest has a block.
        blocked = {each.name: each.ordered for each in waiting if each.balance.blocks_count}
        refunds = {name: (one.transfer_id, one.holder_id) for name, one in blocked.items() if isinstance(one, Refund)}
        pairs = split_pairs(sorted({*refunds.values()}))
        contested = await infraction_store.find_contested(connection, *pairs) if refunds else ()
        reason = "the payer contests the returned Pix, and its institution has not decided or claims a rest"
        return {name: reason for name, pair in refunds.items() if pair in contested}


ORDER_RULES: Final = (Contests,)
REPORT_TAKERS: Final = (ReportTaker(kind=InfractionReport, take=receive_infraction),)
