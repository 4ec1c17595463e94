"""One case for each account and day: all differences of the day between the institution's statement and the books.

Its amount is what can be adjusted once each line is answered: the difference of the day's balances, waiting lines that count,
and book lines that the statement lacks. Lines that are set aside are only in its text, as they may be no money.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from datetime import date, datetime, time
from typing import Final

from msgspec import Struct

from pixconnect.features.cases.rules import TEXT_LENGTH_MAX, Case, Difference
from pixconnect.features.cases.service.answer import LINES_MAX, OURS_APART_MAX, SUM, find_lacking
from pixconnect.features.institutions.rules import joining
from pixconnect.features.institutions.rules.account import UNNAMED_ISPB, InstitutionAccount
from pixconnect.features.institutions.rules.joining import BookLine, ItemJoin, RecordedItem, find_parts
from pixconnect.features.institutions.rules.sum_line import is_sum
from pixconnect.features.institutions.rules.unmatched import OUTCOMES, Answer, count_as_movement
from pixconnect.features.institutions.service.day import DayLines, UnmatchedSpan, list_waiting
from pixconnect.features.institutions.service.proposing import confirming, lock_case, record_confirmed
from pixconnect.features.institutions.service.statement import settle_items
from pixconnect.features.institutions.service.statement_posting import find_holders
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables import line as line_store
from pixconnect.features.institutions.tables import statement_file as reserved_store
from pixconnect.features.movements import tables as movement_store
from pixconnect.kernel.flows.context import Operator, Writer
from pixconnect.kernel.flows.incoming import RECEIVE_RETURNS, GivenBack
from pixconnect.kernel.rules import kept_report
from pixconnect.kernel.rules.identifiers import is_return_id
from pixconnect.kernel.rules.money import AMOUNT_MAX_CENTS, show_reais
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.kernel.rules.rail import MovementKind, ReturnReport
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.identifiers import IdBlocks
from pixconnect.kernel.writing.batch import Batch
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import SAO_PAULO
from pixconnect.platform.pool import Connection

_MORE_LENGTH: Final = 100
"""Length of the note on omitted lines."""


def list_differences(account: InstitutionAccount, span: UnmatchedSpan) -> list[Difference]:
    """Return the case of each day of a span, by day."""
    apart = {judged.day: (judged.difference_cents or 0, judged.cases.disagreements_count) for judged in span.days}
    items, lines = defaultdict[date, list[RecordedItem]](list), defaultdict[date, list[BookLine]](list)
    for item in span.items:
        items[item.day].append(item)
    for line in span.lines:
        lines[line.day].append(line)
    return [
        _of_day(account, day, apart.get(day, (0, 0)), items[day], lines[day])
        for day in sorted({*apart, *items, *lines})
    ]


def _of_day(
    account: InstitutionAccount,
    day: date,
    apart: tuple[int, int],
    items: Sequence[RecordedItem],
    lines: Sequence[BookLine],
) -> Difference:
    apart_cents, disagreements_count = apart
    # If all of it is one holder's, it is that holder's case; without a name it is the house's.
    owners = {line.holder_id for line in lines} if not (items or apart_cents) else set[int]()
    unrecorded_cents = sum(item.signed_cents for item in items if _counts_alone(item))
    booked_cents = sum(line.amount_cents if line.direction == "IN" else -line.amount_cents for line in lines)
    said = (
        [f"the balance at its end is {_format_cents(apart_cents)} beside its begin and its lines"]
        if apart_cents
        else []
    )
    if disagreements_count:
        said.append(f"a second form of its statement contradicts {disagreements_count} of its lines and balances")
    said += [_describe_item(item, len(find_parts(item, lines))) for item in items]
    said += [_describe_line(line) for line in lines]
    return Difference(
        kind="day",
        institution_id=account.id,
        holder_id=owners.pop() if len(owners) == 1 else account.house_id,
        name=day.isoformat(),
        # Booked amounts that the institution lacks count negative.
        amount_cents=within_bounds(apart_cents + unrecorded_cents - booked_cents),
        said=_cut_list(said),
        since=datetime.combine(day, time(0), SAO_PAULO),
    )


def _counts_alone(item: RecordedItem) -> bool:
    """Whether it is in the sums of its day, and matches none of our records."""
    return item.joined_kind is None and (item.waits is None or OUTCOMES[item.waits].counts)


def _describe_item(item: RecordedItem, parts_count: int) -> str:
    waits: str = item.waits or "not posted"
    if parts_count and waits != "separated":
        waits = f"it may be the sum of {parts_count} transfers of the day, and `case answer --ours` confirms that"
    elif item.waits == "not_yet_read" and item.direction == "IN":
        waits = "not_yet_read (no reading reports it; if it gives a transfer back, `case adjust` records that)"
    named = "".join(f" {name}" for name in item.names)
    return (
        f"line {item.item_id} of {_format_cents(item.signed_cents)}, {item.kind}, {waits}, read on"
        f" {item.recorded_at.astimezone(SAO_PAULO):%Y-%m-%d} from {item.source}: {item.text}{named}"
    )


def _describe_line(line: BookLine) -> str:
    cents = line.amount_cents if line.direction == "IN" else -line.amount_cents
    return f"{line.key[0]} {line.key[1]} of {_format_cents(cents)} is not in the statement: {', '.join(line.names)}"


def _format_cents(cents: int) -> str:
    return ("" if cents < 0 else "+") + show_reais(cents)


def _cut_list(said: Sequence[str]) -> str:
    """Cut a list to its room, and return how many more there are."""
    kept, length = list[str](), 0
    for text in said:
        length += len(text) + 2
        if kept and length > TEXT_LENGTH_MAX - _MORE_LENGTH:
            kept.append(f"and {len(said) - len(kept)} more, as `institution days --lines` prints them")
            break
        kept.append(text)
    return kept_report.storable("; ".join(kept), TEXT_LENGTH_MAX)


def within_bounds(cents: int) -> int | None:
    # Two permitted amounts may differ by more than one: the case of any report is opened.
    return max(-AMOUNT_MAX_CENTS, min(cents, AMOUNT_MAX_CENTS)) or None


# The effect of each answer about a waiting line, and the day's balance around it, for the operator's decision.

OWN_MAX: Final = 5
"""Maximum of transfers and refunds shown for one line."""
_AROUND: Final = 3


class PossibleAnswer(Struct, frozen=True, kw_only=True):
    item_id: str
    answer: Answer
    own: str | None = None
    """For ``ours``, the line's record in the form of ``case answer``."""
    posts_cents: int = 0
    """The posting if the line matches no record; negative for outgoing money."""
    kind: MovementKind | None = None
    holder_id: int | None = None
    """The holder of the account it is posted to."""
    lacking_cents: int = 0
    """That holder's missing money, which would be owed."""


class BalancePoint(Struct, frozen=True, kw_only=True):
    item: RecordedItem
    balance_cents: int | None
    """After the line; ``None`` if no balance before the day is known."""


async def list_answers(
    connection: Connection, account: InstitutionAccount, items: Sequence[RecordedItem]
) -> list[PossibleAnswer]:
    items = [item for item in items if OUTCOMES[item.waits or "new"].answers][:LINES_MAX]
    holders = await find_holders(connection, account, items)
    reserved = await reserved_store.list_reserved(connection, account.id, [item.item_id for item in items])
    moved = await movement_store.find_holders(connection, account.id, [one.joined_id for one in items if one.joined_id])
    found = list[PossibleAnswer]()
    for item in items:
        for answer in OUTCOMES[item.waits or "new"].answers:
            if answer == "ours":
                found += [
                    PossibleAnswer(item_id=item.item_id, answer=answer, own=own)
                    for own in await _list_own(connection, account, item)
                ]
                continue
            holder_id = moved.get(item.joined_id or "") if answer == "out" else holders[item.item_id]
            if answer == "aside" or holder_id is None:
                found.append(PossibleAnswer(item_id=item.item_id, answer=answer))
                continue
            cents = -item.signed_cents if answer == "out" else item.signed_cents
            own_cents = 0 if answer == "out" else reserved.get(item.item_id, 0)
            lacking = await find_lacking(connection, {holder_id: cents}, {account.house_id: own_cents})
            found.append(
                PossibleAnswer(
                    item_id=item.item_id,
                    answer=answer,
                    posts_cents=cents,
                    kind="reversal" if answer == "out" else count_as_movement(item).kind,
                    holder_id=holder_id,
                    lacking_cents=lacking.get(holder_id, 0),
                )
            )
    return found


async def _list_own(connection: Connection, account: InstitutionAccount, item: RecordedItem) -> list[str]:
    """List our possible records of a line, nearest days first."""
    lines = await line_store.list_unmatched(connection, account.id, (item.day, item.day))
    sums = [SUM] if joining.find_parts(item, lines) else []
    if is_sum(item):
        return sums
    days = item.day - OURS_APART_MAX, item.day + OURS_APART_MAX
    lines = await line_store.list_unmatched(connection, account.id, days, [item.amount_cents])

    def measure(line: BookLine) -> int:
        return abs((line.day - item.day).days)

    fitting = [line for line in lines if line.key[0] != "movement" and joining.fits(item, line)]
    return [*sums, *(f"{line.key[0]}:{line.key[1]}" for line in sorted(fitting, key=measure)[:OWN_MAX])]


def run_balance(day: DayLines, waiting: Sequence[RecordedItem]) -> list[BalancePoint]:
    """Return the lines around each waiting one with the balance after each; a line that does not count leaves it unchanged."""
    balance_cents = day.shown.judged.opening_cents
    points = list[BalancePoint]()
    for item in sorted(day.items, key=lambda one: (one.settled_at is None, one.settled_at, one.item_id)):
        if balance_cents is not None and (item.waits is None or OUTCOMES[item.waits].counts):
            balance_cents += item.signed_cents
        points.append(BalancePoint(item=item, balance_cents=balance_cents))
    names = {item.item_id for item in waiting}
    near = {
        place
        for number, point in enumerate(points)
        if point.item.item_id in names
        for place in range(number - _AROUND, number + _AROUND + 1)
    }
    return [point for number, point in enumerate(points) if number in near]


# Records a payee's return of a transfer that only a statement line shows, after two operators' decision: as a refund IN, and no
# adjustment. Its line is matched, and the case ends by itself. Its name is the network's, or derived from the line.

RETURNS: Final = "returns"
"""The member of a proposal that names the transfer."""
_DIGEST_LENGTH: Final = 11


async def plan_return(
    connection: Connection, account: InstitutionAccount, case: Case, returns: str | None, line: str | None
) -> dict[str, str | int]:
    """Make the proposal for a line that returns a transfer.

    Args:
        connection: Where the case is locked.
        account: The case's.
        case: Of the line's day.
        returns: The end-to-end id of the transfer, if the line does not name it.
        line: The line's id, if several incoming lines of the day wait.

    Raises:
        BadRequest: The case or its line is of another kind, or this line cannot return the transfer.
    """
    item, original = await _find(connection, account, case, returns, line)
    return dict(
        amount_cents=item.amount_cents,
        holder_id=original.holder_id,
        direction="IN",
        line=item.item_id,
        **{RETURNS: original.end_to_end_id},
    )


async def record_return(context: Operator, writes: Writer, proposal: Proposal) -> None:
    """Record the proposed return, and match its line."""
    async with confirming(context, proposal) as (connection, account):
        case = await lock_case(connection, int(proposal.contents["case_id"]))
        # Checked once more: since the proposal a reading may have recorded it.
        said = proposal.contents
        item, original = await _find(connection, account, case, str(said[RETURNS]), str(said["line"]))
        report = _as_report(item, original, context)
        given_back = GivenBack(
            holder_id=original.holder_id,
            original_id=original.id,
            report=report,
            refund_id=await IdBlocks(writes.pool).refund_id(),
            is_refusable=False,
        )
        (outcome,) = await RECEIVE_RETURNS.write(Batch([given_back], connection, context.clock))
        if isinstance(outcome, Exception) or outcome.misfit or outcome.acknowledgement is None:
            raise errors.BadRequest("confirm: a return of this name is recorded with other contents")
        recorded = (await refund_store.find_named(connection, [report.return_id], "IN"))[report.return_id]
        join = ItemJoin(item_id=item.item_id, key=("refund", recorded.id), by="name")
        await item_store.join(connection, account.id, [join])
        await record_confirmed(context, connection, account, proposal, report)
    await settle_items(writes, account, item.day)


async def _find(
    connection: Connection, account: InstitutionAccount, case: Case, returns: str | None, line: str | None
) -> tuple[RecordedItem, Transfer]:
    if case.kind != "day" or case.ended_at is not None:
        raise errors.BadRequest("case: only a line of a day whose case is open gives a transfer back")
    waiting = await list_waiting(connection, account.id, date.fromisoformat(case.name))
    items = [item for item in waiting if item.direction == "IN" and line in (None, item.item_id)]
    if len(items) != 1:
        raise errors.BadRequest(f"line: {len(items)} lines of {case.name} came in and wait: name one of them")
    (item,) = items
    name = returns or item.end_to_end_id
    if name is None:
        raise errors.BadRequest("returns: the line names no Pix; name the returned transfer by its end-to-end id")
    original = (await transfer_store.find_named(connection, [name], "OUT")).get(name)
    if original is None or original.institution_id != account.id or original.settled_at is None:
        raise errors.BadRequest(f"returns: no transfer {name} has left over {account.name}")
    left_cents = original.amount_cents - original.returned_cents
    if item.amount_cents > left_cents:
        raise errors.BadRequest(
            f"returns: {left_cents} cents of the transfer were not given back, and the line has more"
        )
    return item, original


def _as_report(item: RecordedItem, original: Transfer, context: Operator) -> ReturnReport:
    # A line with only a day has no instant: the return is dated when it is recorded.
    at = item.settled_at or context.clock.now()
    return ReturnReport(
        report_id=item.item_id,
        return_id=_name(item),
        original_end_to_end_id=original.end_to_end_id,
        amount_cents=item.amount_cents,
        reason="MD06",
        description=None,
        reported_at=at,
        settled_at=at,
    )


def _name(item: RecordedItem) -> str:
    """Return the network's name, or one that this line alone has."""
    for name in (item.return_id, item.end_to_end_id):
        if name is not None and is_return_id(name):
            return name
    digest = hashlib.sha256(f"{item.institution_id}|{item.item_id}".encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"D{UNNAMED_ISPB}{item.day:%Y%m%d}0000{digest}"
