"""Reports are handed out oldest first, and again until they are acknowledged. Of a lock, many pass at once, or one alone."""

import asyncio
from datetime import UTC, datetime

import pytest

from pixconnect.features.sandbox.network.outbox import BATCH_MAX, Outbox, Pending, SharedLock
from pixconnect.kernel.rules.rail import SettledReport
from pixconnect.platform.adapters.system import SystemClock
from support.sandbox import StoppedClock

AT = datetime(2026, 1, 1, tzinfo=UTC)


def pending(name: str, count: int = 1) -> Pending:
    return Pending(SettledReport(report_id=name, id=name, settled_at=AT), count)


async def taken(outbox: Outbox) -> list[str]:
    return [report.report_id for report in await outbox.take(0)]


async def test_what_was_handed_out_comes_again_first_after_five_seconds() -> None:
    clock = StoppedClock()
    outbox = Outbox(clock)
    outbox.put([pending("a"), pending("b")])
    assert await taken(outbox) == ["a", "b"]
    clock.monotonic = 4.9
    outbox.put([pending("c")])
    assert await taken(outbox) == ["c"]
    clock.monotonic = 5.1
    outbox.put([pending("d")])
    outbox.close(["b"])
    assert await taken(outbox) == ["a", "d"]
    assert len(outbox) == 3


async def test_a_batch_has_a_limit() -> None:
    outbox = Outbox(SystemClock())
    outbox.put(pending(f"{number:03d}") for number in range(BATCH_MAX + 1))
    assert len(await taken(outbox)) == BATCH_MAX
    assert await taken(outbox) == [f"{BATCH_MAX:03d}"]


async def test_closing_twice_changes_nothing_and_a_repeated_report_is_told_again() -> None:
    outbox = Outbox(SystemClock())
    outbox.put([pending("a", count=2)])
    await taken(outbox)
    outbox.close(["a", "nothing"])
    assert await taken(outbox) == ["a"]
    outbox.close(["a"])
    outbox.close(["a"])
    assert (await taken(outbox), len(outbox)) == ([], 0)


async def test_several_wait_and_one_gets_it() -> None:
    outbox = Outbox(SystemClock())
    waiting = [asyncio.create_task(outbox.take(0.2)) for _ in range(3)]
    await asyncio.sleep(0)
    outbox.put([pending("a")])
    assert sorted(map(len, await asyncio.gather(*waiting))) == [0, 0, 1]


async def test_a_waiter_wakes_for_what_is_due_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pixconnect.features.sandbox.network.outbox.REDELIVERED_AFTER_S", 0.05)
    outbox = Outbox(SystemClock())
    outbox.put([pending("a")])
    await outbox.take(0)
    assert len(await outbox.take(1)) == 1


async def test_whoever_goes_alone_waits_for_those_inside_and_stops_those_who_come() -> None:
    lock, seen = SharedLock(), []

    async def shared(name: str) -> None:
        async with lock.shared():
            await asyncio.sleep(0.02)
            seen.append(name)

    async def exclusive() -> None:
        async with lock.exclusive():
            seen.append("alone")
            await asyncio.sleep(0.02)
            seen.append("gone")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(shared("a"))
        tasks.create_task(shared("b"))
        await asyncio.sleep(0.01)
        tasks.create_task(exclusive())
        await asyncio.sleep(0)
        tasks.create_task(shared("c"))
    assert seen == ["a", "b", "alone", "gone", "c"]
