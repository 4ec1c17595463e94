"""A charge's pending call to its institution: written before the first call, and open until the outcome is known.

An unknown outcome is queried, never guessed. The txid is ours and the repeated request is the same, so calling twice does no
harm.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from pixconnect.kernel.rules.access import Caller

CALL_TIMEOUT_S: Final = 3.0
"""So long a caller waits for the institution; then a worker goes on."""
WORKER_AFTER: Final = timedelta(seconds=5)
"""From the beginning: no worker asks while the caller's process may still."""
TAKEN_FOR: Final = timedelta(seconds=10)
"""A row that a worker queries is hidden from all others for this long; a killed worker leaves it so.

The lease of its slot keeps a second worker away from an account. This covers the last call of a dead worker: it arrives before
the next query, as after a caller's timeout. A call that took longer is made twice, which does no harm.
"""
ABSENT_FOR: Final = timedelta(minutes=10)
"""For this long after its beginning an opening may still arrive; if absent afterwards, it was never opened."""
_WAITS: Final = (timedelta(seconds=2), timedelta(seconds=5), timedelta(seconds=15), timedelta(minutes=1))


class PendingCall(Struct, frozen=True, kw_only=True):
    charge_id: int
    holder_id: int
    institution_id: int
    txid: str
    state: str
    asked_by: Caller | None = None
    """``None`` if an operator asked."""
    calls_count: int
    """How often a process has begun to ask the institution: one that began earlier ends nothing any more."""
    due_at: datetime
    """When a worker asks next, in real time."""
    created_at: datetime


def find_wait(calls_count: int) -> timedelta:
    """How long a worker waits before it asks again."""
    return _WAITS[min(calls_count, len(_WAITS)) - 1] if calls_count else _WAITS[0]
