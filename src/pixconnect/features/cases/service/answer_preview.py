"""What each answer about a waiting line would do, and the day's balance around the line: what a person decides by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from pixconnect.features.cases.service.answer import LINES_MAX, OURS_APART_MAX, SUM, find_lacking
from pixconnect.features.institutions.rules import joining
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.joining import BookLine, RecordedItem
from pixconnect.features.institutions.rules.outcome import OUTCOMES, Answer
from pixconnect.features.institutions.rules.sum_line import is_sum
from pixconnect.features.institutions.rules.unmatched import count_as_movement
from pixconnect.features.institutions.service.day import DayLines
from pixconnect.features.institutions.service.statement_posting import find_holders
from pixconnect.features.institutions.tables import line as line_store
from pixconnect.features.institutions.tables import reserved_line as reserved_store
from pixconnect.features.movements import tables as movement_store
from pixconnect.kernel.rules.rail import MovementKind
from pixconnect.platform.pool import Connection

OWN_MAX: Final = 5
"""Transfers and refunds that are shown for one line."""
_AROUND: Final = 3


class PossibleAnswer(Struct, frozen=True, kw_only=True):
    item_id: str
    answer: Answer
    own: str | None = None
    """For ``ours``, the line's record in the form of ``case answer``."""
    posts_cents: int = 0
    """The posting if the line has no record of ours; negative for outgoing money."""
    kind: MovementKind | None = None
    holder_id: int | None = None
    """Whose account it is posted to."""
    lacking_cents: int = 0
    """What that holder has not got, and would owe."""


class BalancePoint(Struct, frozen=True, kw_only=True):
    item: RecordedItem
    balance_cents: int | None
    """After the line; ``None`` where no balance before the day is known."""


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
    """Our possible records of a line, the nearest days first."""
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
    """The lines about each waiting one with the balance after each; what does not count leaves it as it is."""
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
