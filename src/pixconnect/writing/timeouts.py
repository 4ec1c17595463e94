"""How long a batch goes on trying while the database is away: until those who wait for its answers have to hear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from pixconnect.foundation import pool
from pixconnect.writing.pending_request import PendingRequest

UNKNOWN_OUTCOME_TIMEOUT_S: Final = 4.0
"""For how long after a COMMIT was sent that was lost its batch is tried again to learn what it did; then callers hear."""
UNREACHABLE_TIMEOUT_S: Final = 3.0
"""How long a batch waits for a database that is away."""
SILENT_TIMEOUT_S: Final = 4.5
"""How long a batch waits for the answer to a statement before its COMMIT: nothing else notices soon that a connection has gone
without a word, and all that is asked for waits behind it. Longer than one wait for a lock, which the server ends."""
LOCKED_TIMEOUT_S: Final = 4.5
"""For how long after it was asked for a request waits for a row that another transaction has locked, in all its tries."""
LAST_LOCK_S: Final = 0.5
"""How long its last try may wait for the lock: longer than the batches of others that write the same row take."""
LAST_TRY_S: Final = 0.25
"""How long its last try may take to reach it: enough where it is back."""

_Waiters: TypeAlias = Sequence[PendingRequest[Any, Any]]


def may_find_out(waiters: _Waiters, now_s: float) -> bool:
    """Whether a COMMIT with these was lost recently enough to go on trying."""
    lost_at_s = _find_loss(waiters)
    return lost_at_s is not None and now_s - lost_at_s <= UNKNOWN_OUTCOME_TIMEOUT_S


def has_ended(waiters: _Waiters, now_s: float, away_for_s: float) -> bool:
    """Whether these have waited long enough for a database that is away for so long."""
    return _measure_wait(waiters, now_s, away_for_s) > UNREACHABLE_TIMEOUT_S and not may_find_out(waiters, now_s)


def reach_timeout_s(waiters: _Waiters, now_s: float, away_for_s: float, *, is_first: bool) -> float:
    """How long the next try may take to get a connection."""
    # Who has waited in a queue that is merely long does not wait less for that.
    if is_first and not away_for_s:
        return UNREACHABLE_TIMEOUT_S
    lost_at_s = _find_loss(waiters)
    if lost_at_s is not None:
        left_s = UNKNOWN_OUTCOME_TIMEOUT_S - (now_s - lost_at_s)
    else:
        left_s = UNREACHABLE_TIMEOUT_S - _measure_wait(waiters, now_s, away_for_s)
    return max(left_s, LAST_TRY_S)


def lock_timeout_ms(waiters: _Waiters, now_s: float) -> int | None:
    """How long the next try may wait for a lock; ``None`` for as long as any statement may."""
    left_s = max(LOCKED_TIMEOUT_S - _measure_wait(waiters, now_s, 0), LAST_LOCK_S)
    return int(left_s * 1000) if left_s * 1000 < pool.LOCK_TIMEOUT_MS else None


def _measure_wait(waiters: _Waiters, now_s: float, away_for_s: float) -> float:
    # From when they were asked: a statement to a server that stands still, or a batch before this one, has taken of it too.
    return max(now_s - min(waiter.asked_at_s for waiter in waiters), away_for_s)


def _find_loss(waiters: _Waiters) -> float | None:
    return min((waiter.lost_at_s for waiter in waiters if waiter.lost_at_s is not None), default=None)
