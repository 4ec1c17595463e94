"""What a charge needs of its institution: written before the first call, and open until the outcome is known.

What is unknown is asked about, never guessed. The txid is ours and what is asked for again is the same, so asking twice does no
harm.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from pixconnect.domain.identity.access import Caller

CALL_TIMEOUT_S: Final = 3.0
"""So long a caller waits for the institution; then a worker goes on."""
WORKER_AFTER: Final = timedelta(seconds=5)
"""From the beginning: no worker asks while the caller's process may still."""
TAKEN_FOR: Final = timedelta(seconds=10)
"""For so long a row that a worker asks about is put off for all others; a worker that is killed at it leaves it so.

The lease of its slot keeps a second worker away from an account. This is for what a dead one has sent: it arrives before the
next question, as after a caller whose time is over. A call that took longer is made twice, which does no harm.
"""
ABSENT_FOR: Final = timedelta(minutes=10)
"""So long after its beginning an opening may still arrive; what is absent then was never opened."""
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
