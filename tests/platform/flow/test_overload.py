"""A full process refuses those who filled it, and accepts no more orders than are settled; in virtual time."""

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.base import errors
from pixconnect.platform.flow import overload


def test_one_party_has_all_of_it_and_room_again_when_one_has_ended() -> None:
    admission = overload.Admission(3)
    for _ in range(3):
        admission.enter("greedy")
    with pytest.raises(errors.ServiceUnavailable, match="nothing was done"):
        admission.enter("greedy")
    admission.leave("greedy")
    admission.enter("greedy")


def test_who_has_less_than_its_share_is_let_in_however_full_it_is() -> None:
    admission = overload.Admission(4)
    for _ in range(4):
        admission.enter("greedy")
    for party in ("first", "second", "third"):
        admission.enter(party)
        with pytest.raises(errors.ServiceUnavailable):
            admission.enter("greedy")
    # Four parties with a share of one each.
    with pytest.raises(errors.ServiceUnavailable):
        admission.enter("first")


def test_a_party_without_anything_under_way_is_forgotten() -> None:
    admission = overload.Admission(2)
    for _ in range(2):
        admission.enter("greedy")
    admission.enter("calm")
    admission.leave("calm")
    # Its share is not kept for it: the greedy one would have been refused at two of three.
    admission.leave("greedy")
    admission.enter("greedy")


_START = datetime(2026, 3, 2, 12, tzinfo=UTC)


async def never_asked() -> datetime | None:
    raise AssertionError("nothing was refused")


class Overloaded:
    """A service that makes as many orders as permitted, settles so many a second, and is observed twice a second."""

    def __init__(self, *, accepts_per_second: float, settles_per_second: float) -> None:
        self.now_s = 0.0
        clock: Any = SimpleNamespace(now=lambda: _START + timedelta(seconds=self.now_s), monotonic_s=lambda: self.now_s)
        self.pace = overload.Overload(clock, never_asked)
        self._accepts_per_second = accepts_per_second
        self._settles_per_second = settles_per_second
        # When each open order was made, the oldest first.
        self.open_s: list[float] = []

    def run(self, seconds: float) -> float:
        """Let time pass; returns how many were made a second at the last observation."""
        per_second = 0.0
        for _ in range(round(seconds / overload.LOOK_EVERY_S)):
            per_second = min(self._accepts_per_second, self.pace.per_second or self._accepts_per_second)
            count = round(per_second * overload.LOOK_EVERY_S)
            self.open_s += [self.now_s + number * overload.LOOK_EVERY_S / count for number in range(count)]
            self.pace.note(count, is_busy=False)
            del self.open_s[: round(self._settles_per_second * overload.LOOK_EVERY_S)]
            self.now_s += overload.LOOK_EVERY_S
            oldest_at = _START + timedelta(seconds=self.open_s[0]) if self.open_s else None
            self.pace.learn(oldest_at, overload.LOOK_EVERY_S)
        return per_second


def test_what_is_accepted_comes_to_what_is_settled() -> None:
    process = Overloaded(accepts_per_second=1500, settles_per_second=900)
    process.run(20)
    assert 700 < sum(process.run(overload.LOOK_EVERY_S) for _ in range(40)) / 40 < 1050
    assert process.now_s - process.open_s[0] < 4, "what was accepted does not grow old"


def test_a_service_that_settles_what_it_accepts_has_no_pace() -> None:
    process = Overloaded(accepts_per_second=1000, settles_per_second=1000)
    assert process.run(10) == 1000
    assert process.pace.per_second is None


def test_where_nothing_is_settled_nothing_is_slowed_down() -> None:
    process = Overloaded(accepts_per_second=1000, settles_per_second=0)
    assert process.run((overload.STUCK_LOOKS_MAX + 2) * overload.LOOK_EVERY_S) == 1000
    assert process.pace.per_second is None


async def test_a_batch_waits_until_its_time_however_long_that_is(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Overloaded(accepts_per_second=60, settles_per_second=60)
    process.pace.per_second = 60.0
    process.pace.note(overload.BATCH_MAX, is_busy=False)

    async def sleep(seconds: float) -> None:
        process.now_s += seconds

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await process.pace.wait(is_busy=True)
    assert process.now_s == 0, "others wait for their own batches only"
    await process.pace.wait(is_busy=False)
    assert process.now_s == pytest.approx(overload.BATCH_MAX / 60)


def test_as_many_are_let_in_as_are_answered_in_a_quarter_of_a_second() -> None:
    admission = overload.Overload(SystemClock(), never_asked)
    least, most = overload.UNDER_WAY_MIN, overload.UNDER_WAY_MAX
    for per_second, expected in ((1000.0, 250), (1.0, least), (100_000.0, most), (None, most)):
        admission._expect(per_second)
        for _ in range(expected):
            admission.enter("holder")
        assert admission.is_full
        assert admission.refuses("holder")
        for _ in range(expected):
            admission.leave("holder")
