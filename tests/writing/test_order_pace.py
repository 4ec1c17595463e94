"""How much a process that refuses accepts while what it accepted before is not settled; nothing waits for real time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from pixconnect.flow.admission import UNDER_WAY_MAX, UNDER_WAY_MIN, Admission
from pixconnect.writing.order_pace import BATCH_MAX, LOOK_EVERY_S, STUCK_LOOKS_MAX, OrderPace
from support.service import Service, open_holder
from support.words import Word, open_words, outcomes_of


class Refusing(OrderPace):
    """Of a process that refuses all the time."""

    def note(self, count: int, *, is_busy: bool) -> None:
        pass


_START = datetime(2026, 3, 2, 12, tzinfo=UTC)


class Overload:
    """A service that makes as many orders as it may, settles so many a second, and is looked at twice a second."""

    def __init__(self, *, accepts_per_second: float, settles_per_second: float) -> None:
        self.admission = Admission()
        self.now_s = 0.0
        clock: Any = SimpleNamespace(now=lambda: _START + timedelta(seconds=self.now_s), monotonic_s=lambda: self.now_s)
        self.pace = OrderPace(self.admission, SimpleNamespace(), clock)  # pyright: ignore[reportArgumentType]  never asked
        self._accepts_per_second = accepts_per_second
        self._settles_per_second = settles_per_second
        # When each open order was made, the oldest first.
        self.open_s: list[float] = []

    def run(self, seconds: float) -> float:
        """Let time pass; how many were made a second at the last look."""
        per_second = 0.0
        for _ in range(round(seconds / LOOK_EVERY_S)):
            per_second = min(self._accepts_per_second, self.pace.per_second or self._accepts_per_second)
            count = round(per_second * LOOK_EVERY_S)
            self.open_s += [self.now_s + number * LOOK_EVERY_S / count for number in range(count)]
            self.pace.note(count, is_busy=False)
            del self.open_s[: round(self._settles_per_second * LOOK_EVERY_S)]
            self.now_s += LOOK_EVERY_S
            oldest_at = _START + timedelta(seconds=self.open_s[0]) if self.open_s else None
            self.pace.learn(oldest_at, LOOK_EVERY_S)
        return per_second


def test_what_is_accepted_comes_to_what_is_settled() -> None:
    overload = Overload(accepts_per_second=1500, settles_per_second=900)
    overload.run(20)
    assert 700 < sum(overload.run(LOOK_EVERY_S) for _ in range(40)) / 40 < 1050
    assert overload.now_s - overload.open_s[0] < 4, "what was accepted does not grow old"


def test_a_service_that_settles_what_it_accepts_has_no_pace() -> None:
    overload = Overload(accepts_per_second=1000, settles_per_second=1000)
    assert overload.run(10) == 1000
    assert overload.pace.per_second is None


def test_where_nothing_is_settled_nothing_is_slowed_down() -> None:
    overload = Overload(accepts_per_second=1000, settles_per_second=0)
    assert overload.run((STUCK_LOOKS_MAX + 2) * LOOK_EVERY_S) == 1000
    assert overload.pace.per_second is None


async def test_a_batch_waits_until_its_time_however_long_that_is(monkeypatch: pytest.MonkeyPatch) -> None:
    overload = Overload(accepts_per_second=60, settles_per_second=60)
    overload.pace.per_second = 60.0
    overload.pace.note(BATCH_MAX, is_busy=False)

    async def sleep(seconds: float) -> None:
        overload.now_s += seconds

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await overload.pace.wait(is_busy=True)
    assert overload.now_s == 0, "others wait for their own batches only"
    await overload.pace.wait(is_busy=False)
    assert overload.now_s == pytest.approx(BATCH_MAX / 60)


def test_as_many_are_let_in_as_are_answered_in_a_quarter_of_a_second() -> None:
    admission = Admission()
    for per_second, expected in (
        (1000.0, 250),
        (1.0, UNDER_WAY_MIN),
        (100_000.0, UNDER_WAY_MAX),
        (None, UNDER_WAY_MAX),
    ):
        admission.expect(per_second)
        for _ in range(expected):
            admission.enter("holder")
        assert admission.is_full
        assert admission.refuses("holder")
        for _ in range(expected):
            admission.leave("holder")


async def test_orders_are_written_in_small_batches_while_the_process_refuses(service: Service) -> None:
    await open_holder(service)
    admission = Admission(0)
    pace = Refusing(admission, service.context.pool, service.clock)
    async with open_words(service, pace=pace) as (words, queue):
        await outcomes_of(queue, [Word(text="good")] * (BATCH_MAX + 1))
        assert admission.refuses("holder")
        await outcomes_of(queue, [Word(text="good")] * (2 * BATCH_MAX))
        assert [len(batch) for batch in words.batches] == [BATCH_MAX + 1, BATCH_MAX, BATCH_MAX]


async def test_who_comes_while_a_batch_waits_goes_with_it_as_far_as_small_batches_go(service: Service) -> None:
    await open_holder(service)
    admission = Admission(0)
    async with open_words(service, pace=Refusing(admission, service.context.pool, service.clock)) as (words, queue):
        words.admits = True
        words.may_go_on.clear()
        first = asyncio.create_task(outcomes_of(queue, [Word(text="first")] * (BATCH_MAX + 1)))
        await words.first_batch()
        assert admission.refuses("holder")
        later = asyncio.create_task(outcomes_of(queue, [Word(text="late")]))
        await asyncio.sleep(0)
        words.may_go_on.set()
        assert await later == ["late"]
        await first
        assert [len(batch) for batch in words.batches] == [BATCH_MAX + 1, 1]
