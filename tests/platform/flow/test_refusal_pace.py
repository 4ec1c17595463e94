"""The refusals of a flood are answered slowly; others are not."""

import pytest

from pixconnect.platform.base import errors
from pixconnect.platform.flow.overload import AT_ONCE_COUNT, EACH_S, LATER_MAX_S, RefusalPace


def test_the_first_ones_are_told_at_once_and_then_each_after_the_one_before() -> None:
    pace = RefusalPace()
    delays_s = [pace.delay_s("a", 100.0) for _ in range(AT_ONCE_COUNT + 3)]
    assert delays_s[:AT_ONCE_COUNT] == [0.0] * AT_ONCE_COUNT
    assert [round(delay_s, 6) for delay_s in delays_s[AT_ONCE_COUNT:]] == [EACH_S, 2 * EACH_S, 3 * EACH_S]


def test_none_is_told_later_than_the_longest_wait_and_that_is_soon_over() -> None:
    pace = RefusalPace()
    delays_s = [pace.delay_s("a", 100.0) for _ in range(10_000)]
    assert max(delays_s) == LATER_MAX_S
    assert min(delays_s[1_000:]) >= LATER_MAX_S / 2
    assert len(set(delays_s[-100:])) == 100
    later_s = 100.0 + LATER_MAX_S + AT_ONCE_COUNT * EACH_S
    assert pace.delay_s("a", later_s) == 0.0


def test_who_is_refused_now_and_then_never_waits() -> None:
    pace = RefusalPace()
    assert not any(pace.delay_s("a", number * EACH_S) for number in range(1_000))


def test_each_party_has_a_pace_of_its_own() -> None:
    pace = RefusalPace()
    for _ in range(1_000):
        pace.delay_s("a", 100.0)
    assert pace.delay_s("b", 100.0) == 0.0


def test_who_does_not_wait_for_costly_refusals_is_refused_before_the_work_until_the_wait_is_over() -> None:
    pace = RefusalPace()
    for _ in range(1_000):
        pace.delay_s("in a crowd", 100.0)
        pace.delay_s("hangs up", 100.0, 2.0, is_costly=True)
    pace.refuse_owing("in a crowd", 100.0)
    pace.refuse_owing("another", 100.0)
    with pytest.raises(errors.RateLimited, match="too many malformed requests"):
        pace.refuse_owing("hangs up", 101.9)
    pace.refuse_owing("another", 102.0)
    assert not pace.owing_until_s


def test_who_waits_for_each_answer_never_owes_however_long_its_requests_took() -> None:
    pace, now_s = RefusalPace(), 100.0
    for _ in range(1_000):
        pace.refuse_owing("waits", now_s)
        now_s += 0.001 + pace.delay_s("waits", now_s, pace.interval_s(413, 60.0, is_known=True), is_costly=True)
    assert not pace.owing_until_s
