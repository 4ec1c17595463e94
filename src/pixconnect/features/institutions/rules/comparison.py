"""Compares an account's balance at its institution with the books while money moves on both sides.

Some money may be in one of the two and not yet in the other. Each such amount widens the range of the difference; a range that
excludes zero proves a difference. The amounts:

::

    in the books, perhaps not in the balance    entries written since shortly before the balance was read
    in the balance, perhaps not in the books    orders that were called and have not ended, statement lines that wait,
                                                fees that a later file tells

A difference is reported once two comparisons have found it. If either comparison can explain an amount, it is not reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from pixconnect.features.institutions.profiles.account_traits import BalanceMeaning

CLOCKS_APART: Final = timedelta(minutes=1)  # maximum distance between the institution's balance and our entries


class BalanceReading(Struct, frozen=True, kw_only=True):
    """The institution's balance, read twice, and the orders under way before it."""

    before_cents: int
    after_cents: int
    began_at: datetime
    ended_at: datetime
    called: Mapping[str, int]  # cents by name of the orders that were called and had not ended


class Books(Struct, frozen=True, kw_only=True):
    """An account's books at one instant after the balance was read."""

    here_cents: int
    booked_in_cents: int  # entries since ``CLOCKS_APART`` before the reading began, and ``booked_out_cents`` likewise
    booked_out_cents: int
    called: Mapping[str, int]
    waiting_in_cents: int
    """Lines of the institution's statement that are not in the books, and ``waiting_out_cents`` likewise."""
    waiting_out_cents: int
    held_cents: int  # blocked money
    invested_cents: int
    """In the account's own investments: included in its holders' funds, but not in the institution's balance."""
    fees_cents: int  # the maximum of fees not yet on a statement


class DifferenceRange(Struct, frozen=True, kw_only=True):
    """The institution's excess over the books: least and most."""

    low_cents: int | None  # ``None`` is unbounded
    high_cents: int

    def has(self, cents: int) -> bool:
        return (self.low_cents is None or self.low_cents <= cents) and cents <= self.high_cents

    @property
    def certain_cents(self) -> int:
        """The bound nearest to zero; 0 if nothing is proved."""
        return max(self.low_cents or 0, 0) or min(self.high_cents, 0)

    def meet(self, other: DifferenceRange) -> DifferenceRange | None:
        """Return the intersection of both ranges; ``None`` if they are apart."""
        lows = [low for low in (self.low_cents, other.low_cents) if low is not None]
        met = DifferenceRange(low_cents=max(lows, default=None), high_cents=min(self.high_cents, other.high_cents))
        return met if met.low_cents is None or met.low_cents <= met.high_cents else None


def find_difference(reading: BalanceReading, books: Books, meaning: BalanceMeaning) -> DifferenceRange:
    called_cents = sum({**reading.called, **books.called}.values())
    more_cents = books.booked_out_cents + books.waiting_in_cents
    less_cents = books.booked_in_cents + called_cents + books.waiting_out_cents + books.fees_cents
    if meaning == "available":
        more_cents -= books.held_cents
    if meaning in ("available", "unclear"):
        less_cents += books.held_cents
    there = reading.before_cents, reading.after_cents
    here_cents = books.here_cents - (0 if meaning == "with_investments" else books.invested_cents)
    has_more = meaning in ("with_limit", "with_investments")
    return DifferenceRange(
        low_cents=None if has_more else min(there) - here_cents - more_cents, high_cents=max(there) - here_cents + less_cents
    )


class Verdict(Struct, frozen=True, kw_only=True):
    act: Literal["report", "end", "nothing"]
    seen: DifferenceRange | None = None
    """A difference found by one comparison; two comparisons have confirmed ``report``."""


def judge(found: DifferenceRange, seen: DifferenceRange | None, reported_cents: int | None) -> Verdict:
    """Decide the effect of a comparison after the ones before it.

    Args:
        seen: By the one before, which was not reported.
        reported_cents: The last reported difference, unless it has ended by itself.
    """
    if reported_cents is not None and found.has(reported_cents):
        return Verdict(act="nothing")
    if found.has(0):
        # A wide range neither confirms the earlier finding nor refutes it.
        if seen is not None and found.meet(seen) is not None:
            return Verdict(act="nothing", seen=seen)
        return Verdict(act="end")
    both = None if seen is None else found.meet(seen)
    return Verdict(act="nothing", seen=found) if both is None else Verdict(act="report", seen=both)
