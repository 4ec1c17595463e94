"""Which recorded lines a later file shows to be gone: it covers their day, and its balances agree without them.

Nothing is taken out by that. The line becomes ``perhaps_struck``, and two operators answer
(``features/cases/service/answer.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import date, timedelta
from typing import Final

from pixconnect.features.institutions.rules.balance_proof import Balances, Doubt, chains, choose
from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.joining import RecordedItem
from pixconnect.features.institutions.statement_files.statement_file import StatedBalance

_LISTED: Final = frozenset(("new", "known", "perhaps_known", "contradicts", "changed"))
"""Outcomes of lines that are money if the file is right."""
_OTHERWISE: Final = frozenset(("perhaps_known", "same_line", "changed"))
_PERHAPS: Final = frozenset(("perhaps_balance", "balance_line"))
_NONE: Final = ((), frozenset[int]())


def list_moved(judged: Sequence[tuple[InstitutionItem, str]], missing: Sequence[RecordedItem]) -> set[int]:
    """The places of lines that may be missing ones of another day.

    Balances do not distinguish a redated line from a new one beside a removed one.
    """
    sums, on = {item.signed_cents for item in missing}, {(item.day, item.signed_cents) for item in missing}
    return {
        number
        for number, (item, one) in enumerate(judged)
        if one == "perhaps_known" and item.signed_cents in sums and (item.day, item.signed_cents) not in on
    }


def find_struck(
    lines: Sequence[InstitutionItem], outcomes: Sequence[str], missing: Sequence[RecordedItem], balances: Balances
) -> tuple[Sequence[RecordedItem], Collection[int]]:
    """The missing lines that the bank removed, if the file proves it; and the places of lines that are then money.

    Args:
        lines: The file's.
        outcomes: Those of the lines.
        missing: Recorded lines that count, are of days that the file covers, and are not listed in it.
        balances: Those of the file and of the recorded days.
    """
    closing, before, opening = balances.closing, balances.first_on - timedelta(days=1), find_opening(balances)
    if not missing or closing is None or opening is None or not balances.first_on <= closing.on <= balances.last_on:
        return _NONE
    struck, listed_cents = _compare(lines, outcomes, missing, closing.on)
    may_be = _may_be_struck(struck, balances, closing) and chains(balances, {before: opening}, closing)
    beyond_cents = closing.cents - opening - listed_cents
    if not may_be or not beyond_cents:
        return (struck if may_be else (), frozenset())
    doubts = [
        (number, Doubt(day=line.day, signed_cents=line.signed_cents, alike=number))
        for number, (line, outcome) in enumerate(zip(lines, outcomes, strict=True))
        if line.day <= closing.on and outcome in _PERHAPS
    ]
    chosen = frozenset(number for number, counts in choose(doubts, beyond_cents).items() if counts)
    return (struck if chosen else (), chosen)


def find_opening(balances: Balances) -> int | None:
    """The balance before the file's days, by the file or by an uncontradicted day."""
    before = balances.first_on - timedelta(days=1)
    if balances.opening_cents is None and before in balances.closed | balances.agreed:
        return balances.ends.get(before)
    return balances.opening_cents


def _compare(
    lines: Sequence[InstitutionItem], outcomes: Sequence[str], missing: Sequence[RecordedItem], until: date
) -> tuple[Sequence[RecordedItem], int]:
    """The missing lines without an equivalent under another text of their day, and the sum of the listed lines."""
    left, listed_cents = Counter((item.day, item.signed_cents) for item in missing), 0
    for line, outcome in zip(lines, outcomes, strict=True):
        is_there = outcome in _OTHERWISE and left[line.day, line.signed_cents] > 0
        if is_there:
            left[line.day, line.signed_cents] -= 1
        if line.day <= until and (is_there or outcome in _LISTED):
            listed_cents += line.signed_cents
    struck: list[RecordedItem] = []
    for item in missing:
        left[item.day, item.signed_cents] -= 1
        if left[item.day, item.signed_cents] >= 0:
            struck.append(item)
    return struck, listed_cents


def _may_be_struck(struck: Sequence[RecordedItem], balances: Balances, closing: StatedBalance) -> bool:
    # A line joined to a Pix of this service has happened, even if a file lacks it.
    if not struck or not all(item.joined_kind in (None, "movement") and item.day <= closing.on for item in struck):
        return False
    # A line reported by a later file is shown to be wrong only if that file has the same balance.
    is_told_later = any(item.day in balances.newer for item in struck)
    is_same = balances.ends.get(closing.on) == closing.cents and sum(item.signed_cents for item in struck) != 0
    return is_same or not is_told_later
