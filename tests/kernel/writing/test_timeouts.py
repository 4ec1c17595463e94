"""The waiting time of callers while a database is away, by instants, without a database."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pixconnect.kernel.writing import batch as timeouts
from pixconnect.kernel.writing.batch import PendingRequest
from pixconnect.platform.pool import LOCK_TIMEOUT_MS

SECONDS = st.floats(0, 20)


def a_waiter(asked_at_s: float, lost_at_s: float | None = None) -> PendingRequest[Any, Any]:
    answer = asyncio.Future[Any](loop=asyncio.new_event_loop())
    answer.get_loop().close()
    waiter = PendingRequest[Any, Any](None, None, answer, asked_at_s)  # type: ignore[arg-type]  nothing is written
    waiter.lost_at_s = lost_at_s
    return waiter


@given(waited_s=st.lists(SECONDS, min_size=1, max_size=3), away_for_s=SECONDS)
def test_no_try_takes_longer_than_the_longest_wait_left(waited_s: list[float], away_for_s: float) -> None:
    now_s = 100.0
    waiters = [a_waiter(now_s - each_s) for each_s in waited_s]
    timeout_s = timeouts.find_reach_timeout_s(waiters, now_s, away_for_s, is_first=False)
    longest_s = max(*waited_s, away_for_s)
    assert timeouts.LAST_TRY_S <= timeout_s <= timeouts.UNREACHABLE_TIMEOUT_S
    assert timeout_s <= max(timeouts.UNREACHABLE_TIMEOUT_S - longest_s + 1e-6, timeouts.LAST_TRY_S)
    assert timeouts.has_ended(waiters, now_s, away_for_s) is (
        max(now_s - waiter.asked_at_s for waiter in waiters) > timeouts.UNREACHABLE_TIMEOUT_S
        or away_for_s > timeouts.UNREACHABLE_TIMEOUT_S
    )


@given(waited_s=SECONDS, since_s=SECONDS)
def test_what_may_be_written_waits_until_the_time_to_find_out_ends(waited_s: float, since_s: float) -> None:
    now_s = 100.0
    waiters = [a_waiter(now_s - waited_s), a_waiter(now_s - waited_s, lost_at_s=now_s - since_s)]
    is_in_time = timeouts.may_find_out(waiters, now_s)
    assert is_in_time is (now_s - (now_s - since_s) <= timeouts.UNKNOWN_OUTCOME_TIMEOUT_S)
    timeout_s = timeouts.find_reach_timeout_s(waiters, now_s, 0, is_first=False)
    if is_in_time:
        assert not timeouts.has_ended(waiters, now_s, away_for_s=20)
        assert timeout_s <= max(timeouts.UNKNOWN_OUTCOME_TIMEOUT_S - since_s + 1e-6, timeouts.LAST_TRY_S)
    else:
        assert timeout_s == timeouts.LAST_TRY_S


def test_a_queue_that_is_merely_long_makes_no_try_shorter() -> None:
    assert timeouts.find_reach_timeout_s([a_waiter(0)], 100, 0, is_first=True) == timeouts.UNREACHABLE_TIMEOUT_S
    assert timeouts.find_reach_timeout_s([a_waiter(0)], 100, 0.1, is_first=True) == timeouts.LAST_TRY_S


@given(waited_s=st.lists(SECONDS, min_size=1, max_size=3))
def test_whoever_has_waited_for_locks_waits_for_no_more_than_what_is_left(waited_s: list[float]) -> None:
    now_s = 100.0
    timeout_ms = timeouts.find_lock_timeout_ms([a_waiter(now_s - each_s) for each_s in waited_s], now_s)
    left_s = timeouts.LOCKED_TIMEOUT_S - max(waited_s)
    if timeout_ms is None:
        assert left_s * 1000 >= LOCK_TIMEOUT_MS
    else:
        assert timeouts.LAST_LOCK_S * 1000 <= timeout_ms < LOCK_TIMEOUT_MS
        assert timeout_ms <= max(left_s + 1e-6, timeouts.LAST_LOCK_S) * 1000
