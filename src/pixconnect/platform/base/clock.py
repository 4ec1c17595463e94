"""The clock as an argument.

The database's clock, plus the offset by which the sandbox has moved it, dates everything that is written: each batch
reads both under its locks. We only compare a process's own clock with it; see ``Reading``. Dates and deadlines follow
``now``; leases, timeouts, tokens, signing keys, certificates, login limits and logs follow ``real_now`` or
``monotonic_s``.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol

import msgspec
from msgspec import Struct

SKEW_MAX = timedelta(seconds=2)
"""A process whose clock differs from the database's by more than this writes nothing."""

_encode = msgspec.json.Encoder().encode


class Reading(Struct, frozen=True, kw_only=True):
    """The database's clock, as a process read it."""

    database_now: datetime
    """Real time, at some moment between ``asked_at`` and ``answered_at``."""
    asked_at: datetime
    answered_at: datetime
    """Like ``asked_at`` by the process's own clock."""
    offset: timedelta
    """How far the sandbox had moved the service's time."""
    revision: int

    @property
    def skew(self) -> timedelta:
        """How far the process is ahead of the database, at least; below zero it is behind."""
        # The database answered at some moment in between, so a slow answer alone is no skew.
        if self.database_now < self.asked_at:
            return self.asked_at - self.database_now
        return min(self.answered_at - self.database_now, timedelta(0))


class Clock(Protocol):
    @property
    def offset(self) -> timedelta:
        """How far the sandbox has moved the service's time, and ``revision`` how often; zero in live mode."""
        ...

    @property
    def revision(self) -> int: ...

    @property
    def skew(self) -> timedelta: ...

    def set_offset(self, offset: timedelta, revision: int = 0) -> None:
        """Adopt the offset that the database holds, unless a later one is known."""
        ...

    def take(self, reading: Reading) -> datetime:
        """Adopt a reading of the database's clock; returns the service's time at that moment."""
        ...

    def now(self) -> datetime:
        """The service's time by the machine's clock, for anything that is not written. Aware, UTC, whole microseconds."""
        ...

    def real_now(self) -> datetime:
        """The machine's time: aware, UTC, whole microseconds."""
        ...

    def monotonic_s(self) -> float: ...


# A batch has one instant, which its events and answers show.
@lru_cache(maxsize=256)
def format_instant(instant: datetime) -> str:
    """RFC 3339 in UTC with microseconds, such as ``2026-01-02T03:04:05.000006Z``."""
    # Ten times faster than strftime, and every answer has several instants.
    encoded = _encode(instant.astimezone(UTC))
    return f"{encoded[1:20].decode()}.{instant.microsecond:06d}Z"


def format_milliseconds(instant: datetime) -> str:
    """The same cut to milliseconds, as the central bank's API shows instants: ``2026-01-02T03:04:05.000Z``."""
    return f"{format_instant(instant)[:23]}Z"
