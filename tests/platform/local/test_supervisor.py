import asyncio
from collections.abc import Callable

import pytest

from pixconnect.platform.local import supervisor as supervisor_module
from pixconnect.platform.local.supervisor import RESTARTS_MAX, PartKeepsFailingError, Supervisor


class FakePart:
    """Runs until ``die`` is called; ``broken`` starts fail."""

    def __init__(self, name: str = "part", broken: int = 0) -> None:
        self.name = name
        self.starts_count = 0
        self.lacked_database = False
        self._broken = broken
        self._gone = asyncio.Event()

    def die(self) -> None:
        self._gone.set()

    async def start(self) -> None:
        self.starts_count += 1
        if self.starts_count <= self._broken:
            raise RuntimeError("no luck")
        self._gone.clear()

    async def wait_for_end(self) -> str:
        await self._gone.wait()
        return "exit status 1"

    async def stop(self, timeout_s: float) -> None:
        self.die()


def stop_once(words: str, heard: list[str], stop: asyncio.Event) -> Callable[[str], None]:
    """Receives messages, and asks for the stop a moment after these: time for a start too many."""

    def hear(line: str) -> None:
        heard.append(line)
        if line == words:
            asyncio.get_running_loop().call_later(0.1, stop.set)

    return hear


async def run_until(supervisor: Supervisor, condition: asyncio.Event) -> None:
    async with asyncio.timeout(60):
        await supervisor.run_until(condition)


async def test_a_part_that_ends_is_started_again_and_that_is_told() -> None:
    heard: list[str] = []
    part, stop = FakePart(), asyncio.Event()
    supervisor = Supervisor(stop_once("part is back", heard, stop))
    supervisor.watch(part)
    asyncio.get_running_loop().call_later(0.05, part.die)
    await run_until(supervisor, stop)
    assert part.starts_count == 1
    assert heard == ["part ended (exit status 1): starting it again", "part is back"]


async def test_a_part_that_keeps_failing_ends_everything_within_a_bound() -> None:
    supervisor, part = Supervisor(lambda _: None, pauses_s=[0.01]), FakePart(broken=1000)
    supervisor.watch(part)
    part.die()
    with pytest.raises(PartKeepsFailingError, match="part keeps failing: no luck"):
        await run_until(supervisor, asyncio.Event())
    assert part.starts_count == RESTARTS_MAX


async def test_a_part_waits_for_the_one_it_depends_on_and_is_not_blamed() -> None:
    stop = asyncio.Event()
    supervisor = Supervisor(stop_once("upper is back", [], stop), pauses_s=[0.01])
    base, upper = FakePart("base"), FakePart("upper", broken=RESTARTS_MAX)
    base_may_start = asyncio.Event()

    async def start_base() -> None:
        await base_may_start.wait()
        await FakePart.start(base)

    base.start = start_base
    supervisor.watch(base)
    supervisor.watch(upper, depends_on=[base])
    base.die()
    await asyncio.sleep(0)
    upper.die()
    asyncio.get_running_loop().call_later(0.1, base_may_start.set)
    await run_until(supervisor, stop)
    assert upper.starts_count == RESTARTS_MAX + 1


async def test_nothing_is_started_after_the_word_to_stop() -> None:
    supervisor, part, stop = Supervisor(lambda _: None, pauses_s=[0.05]), FakePart(), asyncio.Event()
    supervisor.watch(part)
    part.die()
    stop.set()
    await run_until(supervisor, stop)
    await asyncio.sleep(0.1)
    assert part.starts_count == 0


async def test_a_database_that_does_not_answer_is_nobodys_failure_for_as_long_as_it_may_take() -> None:
    heard: list[str] = []
    stop = asyncio.Event()
    part = FakePart(broken=3 * RESTARTS_MAX)
    part.lacked_database = True
    supervisor = Supervisor(stop_once("part is back", heard, stop), pauses_s=[0.001])
    supervisor.watch(part)
    part.die()
    await run_until(supervisor, stop)
    assert part.starts_count == 3 * RESTARTS_MAX + 1
    assert heard == ["part waits for the database (exit status 1)", "part is back"]


async def test_however_often_the_database_goes_away_and_comes_back_nobody_is_blamed() -> None:
    stop, part = asyncio.Event(), FakePart()
    part.lacked_database = True

    def hear(line: str) -> None:
        if part.starts_count > 3 * RESTARTS_MAX:
            stop.set()
        elif line == "part is back":
            part.die()

    supervisor = Supervisor(hear, pauses_s=[0.001])
    supervisor.watch(part)
    part.die()
    await run_until(supervisor, stop)


async def test_a_database_that_stays_away_ends_everything_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "DATABASE_TIMEOUT_S", 0.1)
    supervisor, part = Supervisor(lambda _: None, pauses_s=[0.01]), FakePart(broken=1000)
    part.lacked_database = True
    supervisor.watch(part)
    part.die()
    with pytest.raises(PartKeepsFailingError, match="part keeps failing: no luck"):
        await run_until(supervisor, asyncio.Event())
    assert part.starts_count > RESTARTS_MAX
