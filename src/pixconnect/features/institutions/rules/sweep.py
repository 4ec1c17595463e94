"""Sweeps: an account's lists are read repeatedly, at three paces, so that nothing stays unread; also its own investments.

::

    near   since the last one, less ten minutes     every ``poll_s``
    wide   the last 72 hours                        every hour
    deep   100 days, of which something returned    every day

A list may lag, shift while it is paged, and list facts older than those listed before. Each payment is recorded once, however
often it is read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import Final, Literal

from msgspec import Struct

from pixconnect.features.institutions.rules.institution import InstitutionItem

Pace = Literal["near", "wide", "deep", "statement", "contests", "sent"]

OVERLAP: Final = timedelta(minutes=10)
CONTESTS_SPAN: Final = timedelta(days=190)
"""80 days for opening a contest after its Pix, 11 in a block, 90 for following the rest: any date that a list uses."""
REPEATED_FOR: Final = timedelta(days=35)
"""After a loss of the database callers may still repeat requests made before it."""
_SPANS: Final = dict(wide=timedelta(hours=72), deep=timedelta(days=100))
_EVERY: Final = dict(wide=timedelta(hours=1), deep=timedelta(days=1))


class Sweep(Struct, frozen=True, kw_only=True):
    """The last whole sweep of an account at one pace."""

    institution_id: int
    pace: Pace
    began_at: datetime
    """Earlier facts are recorded too, within the institution's lag."""
    ended_at: datetime
    items_count: int
    failed_at: datetime | None = None
    """The last failure since."""
    failure: str | None = None


def begin_sweep(pace: Pace, last: Sweep | None, opened_at: datetime, now: datetime) -> datetime:
    """Return the instant from which a sweep reads: nothing before the account's books begin."""
    span = _SPANS.get(pace)
    # A beginning in the future was written by hand or by another clock: the sweep has read nothing of that.
    since = now - span if span is not None else opened_at if last is None else min(last.began_at, now) - OVERLAP
    return max(since, opened_at)


def is_due(pace: Pace, last: Sweep | None, poll: timedelta, now: datetime, lost_at: datetime | None = None) -> bool:
    """Whether a pace is due; ``lost_at`` is when a loss of the database was detected."""
    if last is None or last.began_at > now:
        return True
    return not is_read_since(last, lost_at) or now - last.began_at >= _EVERY.get(pace, poll)


def is_read_since(last: Sweep, lost_at: datetime | None) -> bool:
    return lost_at is None or last.began_at >= lost_at


# Lines between an account and its own investment, as of overnight sweeps. The money stays its holders', so they have no entry,
# but change the account's position, which the institution's balance lacks. A redemption beyond it is yield, posted to the
# house.

_WORDS: Final = re.compile(
    r"\W*((D[EÉ]B|CR[EÉ]D)\w*\W+)?(APL\b|APLIC(?!ATIV)\w*|RESG\b|RESGATE|RES\W+APL|(BB\W+)?RENDE\W+F[AÁ]CIL)",
    re.IGNORECASE,
)
_YIELD_MAX: Final = 4
"""A redemption of up to a quarter more than the position belongs to it, even if lines are missing."""
YIELD_PREFIX: Final = "yield:"
_DIGEST_LENGTH: Final = 48


def is_own_investment(item: InstitutionItem) -> bool:
    """Whether a line's own words call it an application or a redemption, and it names no other party."""
    is_nameless = not item.names and item.tax_id is None and item.counterparty in (None, item.text)
    return is_nameless and item.kind == "other" and _WORDS.match(item.text) is not None


def plan_investments(
    items: Collection[InstitutionItem],
    position_cents: int,
    is_told: Callable[[date], bool],
    yielded: Mapping[str, int] = {},
) -> dict[str, int | None]:
    """Return how much each line moves the position, by its id; ``None`` if the line waits.

    Args:
        items: Unmatched applications and redemptions.
        position_cents: Before them.
        is_told: Whether all lines of a day's previous day are known. Then a redemption beyond the position is yield, or money
            that was invested before the books began; otherwise its application may be missing.
        yielded: Yields of some lines that were already posted: a run that died afterwards has not matched them.
    """
    posted = {one.item_id: one.amount_cents - yielded[one.item_id] for one in items if one.item_id in yielded}
    planned: dict[str, int | None] = {**posted}
    position_cents -= sum(posted.values())
    for day, group in groupby(sorted(items, key=lambda one: (one.day, one.item_id)), lambda one: one.day):
        of_day = list(group)
        redeemed = [one for one in of_day if one.direction == "IN"]
        # Money invested on the day before returns in the morning; money invested in the evening may return too.
        for one in (*redeemed, *(one for one in of_day if one.direction == "OUT"), *redeemed):
            if one.item_id in planned:
                continue
            if one.direction == "OUT":
                planned[one.item_id] = one.amount_cents
                position_cents += one.amount_cents
            elif one.amount_cents <= position_cents + position_cents // _YIELD_MAX:
                principal_cents = planned[one.item_id] = min(one.amount_cents, position_cents)
                position_cents -= principal_cents
        for one in redeemed:
            if one.item_id not in planned:
                planned[one.item_id] = max(position_cents, 0) if is_told(day) else None
                position_cents = min(position_cents, 0) if is_told(day) else position_cents
    return planned


def name_yield(item_id: str) -> str:
    """Name the movement of a redemption's surplus over the position."""
    return YIELD_PREFIX + hashlib.sha256(item_id.encode()).hexdigest()[:_DIGEST_LENGTH]
