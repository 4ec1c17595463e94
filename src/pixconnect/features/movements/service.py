"""The institution's own movements on holders' accounts, by no Pix of this service, each item once, and its blocks.

A report may come twice, and late. The first answer stands: refusals are recorded too, under the balance's lock.

A report contains the whole state of each block at an instant, so the latest state counts, in any order of reports. Each is
applied under the balance's lock. An incredible report is kept for an operator, and changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final

from msgspec import Struct, structs

from pixconnect.doors.console.wanted import LISTED, Browsed, Wanted, check_names, check_span
from pixconnect.features.institutions.rules import unmatched
from pixconnect.features.institutions.rules.joining import DAYS_APART_MAX, LineKey, make_movement_id
from pixconnect.features.institutions.rules.special_line import name_kept
from pixconnect.features.institutions.rules.unmatched import ReversedMovement
from pixconnect.features.institutions.tables import books as books_store
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables import returns as return_store
from pixconnect.features.institutions.tables import statement_file as line_store
from pixconnect.features.movements import blocks as block_rules
from pixconnect.features.movements import rules as movement_rules
from pixconnect.features.movements import tables as movement_store
from pixconnect.features.movements.held_blocks import HeldBlocks, reserve_released
from pixconnect.features.movements.rules import Movement, announce_movement
from pixconnect.features.movements.tables import MOVEMENTS
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows.context import Context, Core, Writer
from pixconnect.kernel.flows.credit import find_source
from pixconnect.kernel.flows.report import Refusable, ReportTaker
from pixconnect.kernel.rules import reject_code
from pixconnect.kernel.rules.block_report import BLOCK_KINDS, BlockReport, BlockTerms
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.kept_report import Misfit, find_change, is_text
from pixconnect.kernel.rules.ledger import Cause
from pixconnect.kernel.rules.listing import Cursor, write_cursor
from pixconnect.kernel.rules.rail import Acknowledgement, MovementReport
from pixconnect.kernel.tables import kept_report as kept_store
from pixconnect.kernel.writing.batch import Batch, WriteOperation
from pixconnect.kernel.writing.unit_of_work import UnitOfWork, begin_money_work
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection

_NOBODYS = Misfit(reason="cannot_be_recorded", explanation="it is on an account that no holder here has")
_UNDECIDED: Final = Misfit(reason="contradiction", explanation="it ends the block of a contest that nothing is decided of")
_AN_ORDER = Misfit(reason="contradiction", explanation="a transfer or refund here has this name: it is no movement")


_PAGE_SIZE: Final = 50
_EARLIEST: Final = datetime(1, 1, 2, tzinfo=UTC)


class ReportedMovement(Struct, frozen=True, kw_only=True):
    holder_id: int
    report: MovementReport
    is_refusable: bool

    @property
    def name(self) -> tuple[int, str]:
        return self.holder_id, self.report.item_id


class MovementAnswer(Struct, frozen=True, kw_only=True):
    refusal_code: str | None = None
    misfit: Misfit | None = None


class StruckItem(Struct, frozen=True, kw_only=True):
    """An item that two operators have taken out, and its movement here."""

    holder_id: int
    item_id: str
    reason: str


class OrderItem(Struct, frozen=True, kw_only=True):
    """An item whose movement stands beside the settled transfer or refund that it is, or beside its block."""

    mistaken: ReversedMovement
    key: LineKey
    name: str  # of the transfer or refund on the network

    @property
    def holder_id(self) -> int:
        return self.mistaken.holder_id


class ReportedBlocks(Struct, frozen=True, kw_only=True):
    """One report's blocks on one holder's account."""

    holder_id: int
    institution_id: int | None
    report: BlockReport


async def find_holder(context: Writer, party: Party) -> int | None:
    account = await context.directory.find_account(party.branch, party.account_number)
    return account and account.holder_id


async def receive_movement(context: Writer, report: MovementReport) -> Acknowledgement:
    """Post an item, or refuse it; the same answer however often it is reported."""
    holder_id = await find_holder(context, report.party)
    is_refusable = context.policy.abilities.refuses_credits
    if holder_id is None:
        answered = MovementAnswer(refusal_code=reject_code.ACCOUNT_UNKNOWN, misfit=_NOBODYS)
    else:
        reported = ReportedMovement(holder_id=holder_id, report=report, is_refusable=is_refusable)
        answered = await context.writes.submit(RECEIVE_MOVEMENTS, reported)
    code = answered.refusal_code if is_refusable else None
    if answered.misfit is not None:
        await kept_usecases.keep(context.pool, report, answered.misfit, code)
    return Acknowledgement(report_id=report.report_id, refusal_code=code)


async def post_statement_item(context: Writer, holder_id: int, report: MovementReport) -> bool:
    """Post a line of an institution's own statement, which is a fact; return whether its movement exists."""
    reported = ReportedMovement(holder_id=holder_id, report=report, is_refusable=False)
    answered = await context.writes.submit(RECEIVE_MOVEMENTS, reported)
    if answered.misfit is not None:
        await kept_usecases.keep(context.pool, report, answered.misfit, None)
    return answered.misfit is None and answered.refusal_code is None


async def _receive_movements(batch: Batch[ReportedMovement]) -> list[MovementAnswer]:
    work = await begin_money_work(batch)
    await work.claim(HeldBlocks).read()
    item_ids = [reported.report.item_id for reported in batch]
    known = await movement_store.find_items(batch.connection, [reported.name for reported in batch])
    ordered = await movement_store.find_names(batch.connection, item_ids)
    refused = await kept_store.find_refused(batch.connection, item_ids)
    outcomes: list[MovementAnswer] = []
    for reported in batch:
        report, movement = reported.report, known.get(reported.name)
        if movement is not None:
            # An item that comes again must be the same.
            same = ("kind", "direction", "amount_cents", "end_to_end_id")
            misfit = find_change({name: (getattr(movement, name), getattr(report, name)) for name in same})
            outcomes.append(MovementAnswer(refusal_code=movement.outcome_code, misfit=misfit))
        # Refused before, when no holder had the account: the rail has that answer, which stays, even if a
        # holder has the account by now.
        elif report.item_id in refused:
            outcomes.append(MovementAnswer(refusal_code=refused[report.item_id]))
        elif report.item_id in ordered:
            outcomes.append(MovementAnswer(refusal_code=reject_code.RECEIVER_FAILED, misfit=_AN_ORDER))
        else:
            movement = known[reported.name] = _receive(work, reported)
            outcomes.append(MovementAnswer(refusal_code=movement.outcome_code))
    await work.write()
    return outcomes


RECEIVE_MOVEMENTS: Final = WriteOperation("receive_movements", _receive_movements)


def _receive(work: UnitOfWork, reported: ReportedMovement) -> Movement:
    """Post or refuse a new item. One that cannot be refused is a fact."""
    report, holder_id = reported.report, reported.holder_id
    if not reported.is_refusable:
        # The amount reserved for the waiting item goes with its movement.
        blocks = work.claim(HeldBlocks)
        for block in blocks.open.list_of(holder_id):
            names = () if block.line_id is None else (make_movement_id(block.line_id), name_kept(block.line_id))
            if block.state == "open" and report.item_id in names:
                blocks.end_line(block, goes_on=True)
                break
    balance = work.balances[holder_id]
    code = movement_rules.find_movement_refusal(report, balance) if reported.is_refusable else None
    movement = movement_rules.open_movement(report, balance, code, work.now)
    if code is None:
        movement = _post(work, movement)
    work.put(MOVEMENTS, movement)
    return movement


def _post(work: UnitOfWork, movement: Movement) -> Movement:
    # First the available money: the rest is owed only when nothing is left.
    if movement.covered_cents:
        cause = Cause("movement", movement.status)
        entry = work.post(movement.holder_id, *movement.accounts, movement.covered_cents, cause)
        movement = structs.replace(movement, entry_id=entry.id)
    if movement.deficit_cents:
        cause = Cause("movement", movement.status, movement.entry_id)
        entry = work.post(movement.holder_id, "deficit", "settlement", movement.deficit_cents, cause)
        movement = structs.replace(movement, deficit_entry_id=entry.id)
    # An opening balance of nothing has moved nothing.
    if movement.amount_cents:
        work.announce(announce_movement, movement)
    return movement


def take_back(work: UnitOfWork, movement: Movement, proved: str) -> None:
    """Post the opposite of a movement whose item has proved to be a transfer or refund, by the name that it has."""
    available_cents = work.balances[movement.holder_id].available_cents if movement.direction == "IN" else 0
    description = f"The movement {movement.item_id} is {proved}"
    opposite = movement_rules.open_opposite(movement, description, available_cents, work.now)
    work.put(MOVEMENTS, _post(work, structs.replace(opposite, end_to_end_id=proved)))


async def take_back_struck(batch: Batch[StruckItem]) -> None:
    """Take back the movements of items in the caller's transaction; what does not stand any more raises ``BadRequest``."""
    work = await begin_money_work(batch)
    standing = await movement_store.find_standing(batch.connection, [(one.holder_id, one.item_id) for one in batch])
    for one in batch:
        movement = standing.get((one.holder_id, one.item_id))
        if movement is None:
            raise errors.BadRequest(f"out: the movement {one.item_id} was taken back already")
        available_cents = work.balances[one.holder_id].available_cents
        opposite = movement_rules.open_opposite(movement, one.reason, available_cents, work.now)
        work.put(MOVEMENTS, _post(work, structs.replace(opposite, network_settled_at=work.now)))
    await work.write()


async def take_back_proved(context: Writer, institution_id: int, days: tuple[date, date]) -> None:
    """Take back movements of items that became one while the transfer or refund that they are was settled beside.

    Who settles it looks for such a movement before it writes, and who posts an item judges it before: at once, neither sees
    what the other does. A received Pix, or a block, may be listed after its line. Call it where no item of the account becomes
    a movement meanwhile.
    ``days`` are the first and the last of the transfers and refunds, in Sao Paulo.
    """
    proved: list[OrderItem] = []
    async with context.pool.acquire() as connection:
        apart = timedelta(days=DAYS_APART_MAX)
        amounts = await return_store.list_moved_amounts(connection, institution_id, (days[0] - apart, days[1] + apart))
        credited = await return_store.list_credited(connection, institution_id, (days[0], days[1] + apart))
        amounts = sorted({*amounts, *(item.amount_cents for item in credited)})
        alone = await line_store.list_unmatched(connection, institution_id, days, amounts=amounts) if amounts else []
        alone = [line for line in alone if line.state == "settled" and line.key[0] != "movement"]
        orders = [line for line in alone if line.is_order]
        alike, taken = Counter((line.amount_cents, line.day) for line in orders), set[tuple[int, str]]()
        for line in orders:
            found = await return_store.find_mistaken(
                connection, institution_id, line.amount_cents, line.names, line.original, line.day, line.made_at
            )
            # Of no more movements than orders of a day, each is one of these: which one changes no sum.
            free = [one for one in found if one.key not in taken]
            if free and len(found) <= alike[line.amount_cents, line.day]:
                taken.add(free[0].key)
                proved.append(OrderItem(mistaken=free[0], key=line.key, name=line.names[-1]))
        if credited and (lines := [line for line in alone if line.direction == "IN"]):
            whole = {day.day for day in await day_store.list_days(connection, institution_id, *days) if day.was_read_whole}
            proved += [
                OrderItem(mistaken=item, key=line.key, name=line.names[-1])
                for line, item in unmatched.find_credited(lines, credited, whole)
            ]
        for mistaken, block_id, reference in await books_store.list_early(connection, institution_id):
            proved.append(OrderItem(mistaken=mistaken, key=("block", block_id), name=reference))
    # The others are done all the same, and a retry finds only the rest.
    for outcome in await context.writes.submit_all(TAKE_BACK, proved):
        if isinstance(outcome, errors.PixConnectError):
            raise outcome


async def _take_back_proved(batch: Batch[OrderItem]) -> list[None]:
    work = await begin_money_work(batch)
    standing = await movement_store.find_standing(batch.connection, [one.mistaken.key for one in batch])
    taken: list[OrderItem] = []
    for one in batch:
        # Of two that look alike the first takes it, and the other one's item is still to come.
        if (movement := standing.pop(one.mistaken.key, None)) is not None:
            take_back(work, movement, one.name)
            taken.append(one)
    await work.write()
    for one in taken:
        await item_store.rejoin(batch.connection, one.mistaken, one.key)
    return [None] * len(batch)


TAKE_BACK: Final = WriteOperation("take_back_movements", _take_back_proved)


async def receive_blocks(context: Context, report: BlockReport) -> Acknowledgement:
    """Take over what a report says; nothing that the institution blocks can be refused."""
    source = find_source(context)
    # What an institution blocks of a whole account is the house's.
    holder_id = source.house_id or await find_holder(context, report.party)
    misfits = [_NOBODYS]
    if holder_id is not None:
        reported = ReportedBlocks(holder_id=holder_id, institution_id=source.account_id, report=report)
        misfits = await context.writes.submit(RECEIVE_BLOCKS, reported)
    for misfit in misfits:
        await kept_usecases.keep(context.pool, report, misfit)
    return Acknowledgement(report_id=report.report_id)


async def _receive_blocks(batch: Batch[ReportedBlocks]) -> list[list[Misfit]]:
    work = await begin_money_work(batch)
    await work.claim(HeldBlocks).read()
    # Existing ones that are reported again; open ones are locked with their balances.
    known: dict[tuple[int | None, str], block_rules.Block] = {}
    for account_id in {reported.institution_id for reported in batch}:
        names = [
            terms.reference for reported in batch if reported.institution_id == account_id for terms in reported.report.blocks
        ]
        found = await movement_store.find_blocks(work.connection, names, account_id)
        known.update(((account_id, reference), block) for reference, block in found.items())
    contested = await movement_store.find_open_names(work.connection, [name for _, name in known])
    outcomes: list[list[Misfit]] = []
    for reported in batch:
        misfits: list[Misfit] = []
        for terms in reported.report.blocks:
            name = (reported.institution_id, terms.reference)
            block = work.claim(HeldBlocks).open.find(reported.holder_id, terms.reference) or known.get(name)
            misfit = block_rules.find_block_misfit(block, terms, reported.holder_id, reported.report.reported_at)
            if misfit is None and terms.wanted_cents == 0 and name in contested:
                misfit = _UNDECIDED
            if misfit is not None:
                misfits.append(misfit)
            elif block is None or (reported.report.reported_at > block.reported_at and block.state == "open"):
                known[name] = _report_block(work, reported, block, terms)
        outcomes.append(misfits)
    await work.write()
    await reserve_released(batch, [(reported.institution_id, reported.holder_id) for reported in batch])
    return outcomes


RECEIVE_BLOCKS: Final = WriteOperation("receive_blocks", _receive_blocks)


def _report_block(
    work: UnitOfWork, reported: ReportedBlocks, block: block_rules.Block | None, terms: BlockTerms
) -> block_rules.Block:
    """Open or change a block as reported, and cover or release the difference."""
    blocks, as_reported = work.claim(HeldBlocks), (reported.report.report_id, reported.report.reported_at, work.now)
    if block is not None:
        return blocks.hold(block, block_rules.change_block(block, terms, *as_reported))
    opened = block_rules.open_block(terms, work.take_id(), reported.holder_id, reported.institution_id, *as_reported)
    return blocks.hold(None, opened)


async def browse_blocks(
    context: Core, holder_id: int | None, kinds: Sequence[str], after: str | None = None
) -> Browsed[block_rules.Block]:
    """List open blocks, holder by holder, oldest first: for operators only."""
    names = check_names("kind", kinds, tuple(BLOCK_KINDS))
    span = check_span(Wanted(), after, _PAGE_SIZE)
    place = (0, _EARLIEST, 0)
    if span.after is not None:
        # The holder takes the place of other lists' count of earlier rows.
        place = (span.after.position, span.after.created_at, span.after.id)
    wished = [kind for kind in BLOCK_KINDS if kind in names]
    found = await movement_store.page_blocks(context.pool, holder_id, wished, *place, _PAGE_SIZE + 1)
    shown, next_after = found[:_PAGE_SIZE], None
    if len(found) > _PAGE_SIZE:
        last = shown[-1]
        cursor = Cursor(created_at=last.created_at, id=last.id, position=last.holder_id, total_count=0)
        next_after = write_cursor(cursor, LISTED)
    return Browsed(items=shown, next=next_after)


async def _find_recorded(connection: Connection, report: MovementReport, holder_id: int | None) -> Movement | None:
    is_named = holder_id is not None and is_text(report.item_id)
    return await movement_store.find_by_item_id(connection, holder_id or 0, report.item_id) if is_named else None


REPORT_TAKERS: Final = (
    ReportTaker(
        kind=MovementReport,
        take=receive_movement,
        refusable=Refusable(find_recorded=_find_recorded, find_holder=lambda context, moved: find_holder(context, moved.party)),
    ),
    ReportTaker(kind=BlockReport, take=receive_blocks),
)
