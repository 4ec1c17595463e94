"""Sweeps: how an account's lists are read again and again, at three paces, so that nothing stays unread.

::

    near   since the last one, less ten minutes     every ``poll_s``
    wide   the last 72 hours                        every hour
    deep   100 days, of which something returned    every day

A list may lag, shift while it is paged, and list facts older than those listed before. Each payment is recorded once, however
often it is read.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

Pace = Literal["near", "wide", "deep", "statement", "contests", "sent"]

OVERLAP: Final = timedelta(minutes=10)
CONTESTS_SPAN: Final = timedelta(days=190)
"""80 days after its Pix a contest is opened, 11 it is blocked, 90 its rest is followed: for any date that a list uses."""
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
    """When one failed since."""
    failure: str | None = None


def begin_sweep(pace: Pace, last: Sweep | None, opened_at: datetime, now: datetime) -> datetime:
    """From which instant a sweep reads: nothing before the account's books begin."""
    span = _SPANS.get(pace)
    # One that began in the future was written by hand or by another clock: it has read nothing of that.
    since = now - span if span is not None else opened_at if last is None else min(last.began_at, now) - OVERLAP
    return max(since, opened_at)


def is_due(pace: Pace, last: Sweep | None, poll: timedelta, now: datetime, lost_at: datetime | None = None) -> bool:
    """Whether a pace is to be read again; ``lost_at`` is when a loss of the database was detected."""
    if last is None or last.began_at > now:
        return True
    return not is_read_since(last, lost_at) or now - last.began_at >= _EVERY.get(pace, poll)


def is_read_since(last: Sweep, lost_at: datetime | None) -> bool:
    return lost_at is None or last.began_at >= lost_at
