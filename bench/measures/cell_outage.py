"""Whether holders of one cell notice that another cell's server is gone.

Two cells on two servers, with transfers at an even pace that nothing slows down, ``--rates`` a second in each cell. The server
of the second cell is killed (``cell_killed``: ``kill -9`` of all its processes) or stands still (``cell_hanging``: SIGSTOP, so
that nobody is refused and nobody answered) for ``--seconds``, and is there again for as long afterwards; before it was there
for as long too. Of holders of the home cell, from the instant at which a transfer was to be posted to the answer (``accepted``)
and to the webhook that says ``transfer.out.confirmed``: p50, p99 and the longest, of all rounds together, ``before``,
``during`` and ``after``. ``p99_ratios`` is the p99 during by that before, of each round.

``other_accepted``, ``other_refused``: what holders of the second cell were answered meanwhile; ``unanswered``: requests of
either that got no answer; ``back_after_s``: after its server was there again, until the first of them was accepted.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Final

import uvloop
from msgspec import Struct, field

from bench.figures import Row, percentile, spread_ms
from bench.harness.cells import QUIET, CellServer, InCell, Spread, spread
from bench.load.http_client import Refused
from bench.measures.accepting import TRANSFER, TRANSFER_BODY
from bench.measures.end_to_end import TRANSFER_TOLD, Run, running

PHASES: Final = ("before", "during", "after")
_NOTED: Final = ("", *PHASES)
OUTAGES: Final = ("killed", "hanging")
_WARM_S: Final = 3.0


class _Told(Struct):
    """What one cell's holders saw, by phase."""

    accepted_s: dict[str, list[float]] = field(default_factory=lambda: {phase: [] for phase in _NOTED})
    confirmed_s: dict[str, list[float]] = field(default_factory=lambda: {phase: [] for phase in _NOTED})
    refused: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_NOTED, 0))
    unanswered_count: int = 0
    accepted_at_s: list[float] = field(default_factory=list)

    def add(self, other: _Told) -> None:
        for phase in PHASES:
            self.accepted_s[phase] += other.accepted_s[phase]
            self.confirmed_s[phase] += other.confirmed_s[phase]
            self.refused[phase] += other.refused[phase]
        self.unanswered_count += other.unanswered_count


def measure_outage(seconds: float, rounds: int, rates: Sequence[int], kinds: Sequence[str]) -> Iterator[Row]:
    """Of each kind, at each of these rates."""
    with spread(2, 2, settings=QUIET) as two:
        for rate in rates:
            for kind in kinds or OUTAGES:
                yield {"name": f"cell_{kind}_{rate}", **_measure(two, kind, seconds, rounds, rate)}


def _measure(two: Spread, kind: str, seconds: float, rounds: int, rate: int) -> Row:
    load_before = os.getloadavg()[0]
    home, other = _Told(), _Told()
    ratios: dict[str, list[float]] = {"accepted": [], "confirmed": []}
    back_s: list[float] = []
    for _ in range(rounds):
        told_home, told_other, back_after_s = uvloop.run(_lose(two, kind, seconds, rate))
        home.add(told_home)
        other.add(told_other)
        back_s.append(back_after_s)
        for name, found in (("accepted", told_home.accepted_s), ("confirmed", told_home.confirmed_s)):
            ratios[name].append(percentile(found["during"], 0.99) / percentile(found["before"], 0.99))
    return {
        "seconds": seconds,
        "rounds": rounds,
        "per_second": rate,
        "accepted": {phase: spread_ms(home.accepted_s[phase]) for phase in PHASES},
        "confirmed": {phase: spread_ms(home.confirmed_s[phase]) for phase in PHASES},
        "p99_ratios": ratios,
        "p99_ratio": {name: statistics.median(values) for name, values in ratios.items()},
        "refused": sum(home.refused.values()),
        "other_accepted": {phase: len(other.accepted_s[phase]) for phase in PHASES},
        "other_refused": {phase: other.refused[phase] for phase in PHASES},
        "unanswered": home.unanswered_count + other.unanswered_count,
        "back_after_s": max(back_s),
        "load": [load_before, os.getloadavg()[0]],
    }


class _Course(Struct):
    """How far an outage has come."""

    phase: str = ""
    """Nothing is noted before the first."""
    is_over: bool = False


async def _lose(two: Spread, kind: str, seconds: float, rate: int) -> tuple[_Told, _Told, float]:
    """One outage; and how long it took until holders of the second cell were served again."""
    [server], (home_cell, other_cell) = two.servers, two.cells
    home, other, course = _Told(), _Told(), _Course()
    loads = [
        asyncio.create_task(_load(cell, told, course, rate)) for cell, told in ((home_cell, home), (other_cell, other))
    ]
    await asyncio.sleep(_WARM_S)
    course.phase = "before"
    await asyncio.sleep(seconds)
    course.phase = "during"
    await asyncio.to_thread(_take_away, server, kind)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(_bring_back, server, kind)
    course.phase, back_at_s = "after", time.monotonic()
    await asyncio.sleep(seconds)
    course.is_over = True
    await asyncio.gather(*loads)
    served_at_s = min((at_s for at_s in other.accepted_at_s if at_s >= back_at_s), default=float("inf"))
    await asyncio.gather(*(cell.until_quiet() for cell in two.cells))
    return home, other, served_at_s - back_at_s


def _take_away(server: CellServer, kind: str) -> None:
    server.signal(signal.SIGKILL if kind == "killed" else signal.SIGSTOP)
    if kind == "killed":
        server.await_death()


def _bring_back(server: CellServer, kind: str) -> None:
    if kind == "killed":
        server.start()
    else:
        server.signal(signal.SIGCONT)


async def _load(cell: InCell, told: _Told, course: _Course, rate: int) -> None:
    """So many transfers a second, until it is over."""
    async with running(cell, TRANSFER_TOLD) as run, asyncio.TaskGroup() as lives:
        wanted_s = time.monotonic()
        while not course.is_over:
            if (left_s := wanted_s - time.monotonic()) > 0:
                await asyncio.sleep(left_s)
            lives.create_task(_note_life(run, told, course.phase, wanted_s))
            wanted_s += 1 / rate


async def _note_life(run: Run, told: _Told, phase: str, wanted_s: float) -> None:
    try:
        transfer = await run.client.post(TRANSFER, TRANSFER_BODY)
    except Refused:
        told.refused[phase] += 1
        return
    except OSError:
        told.unanswered_count += 1
        return
    told.accepted_at_s.append(time.monotonic())
    told.accepted_s[phase].append(time.monotonic() - wanted_s)
    await run.told("transfer.out.confirmed", transfer["id"])
    told.confirmed_s[phase].append(time.monotonic() - wanted_s)
