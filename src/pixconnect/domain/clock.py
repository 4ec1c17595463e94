"""Time as an argument.

The sandbox can move the service's time. What is dated and what has a deadline follows ``now``; leases, timeouts, tokens,
signing keys, certificates, login limits and logs keep ``real_now`` or ``monotonic_s``.
"""

from datetime import UTC, datetime, timedelta
from typing import Protocol

import msgspec

_encode = msgspec.json.Encoder().encode


class Clock(Protocol):
    """Where the time comes from."""

    @property
    def offset(self) -> timedelta:
        """How far the sandbox moved the service's time; zero in live mode."""
        ...

    def set_offset(self, offset: timedelta) -> None:
        """Take over the offset that the database holds; called by whatever has just read it there."""
        ...

    def now(self) -> datetime:
        """The service's time: aware, UTC, whole microseconds."""
        ...

    def real_now(self) -> datetime:
        """The machine's time: aware, UTC, whole microseconds."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that never go back, from an arbitrary origin."""
        ...


def format_instant(instant: datetime) -> str:
    """Write an instant as the interface does.

    Args:
        instant: Aware.

    Returns:
        RFC 3339 in UTC with microseconds.

    Example:
        >>> format_instant(datetime(2026, 1, 2, 3, 4, 5, 6, UTC))
        '2026-01-02T03:04:05.000006Z'
    """
    encoded = _encode(instant.astimezone(UTC))  # ten times faster than strftime, and every answer has one
    return f"{encoded[1:20].decode()}.{instant.microsecond:06d}Z"
