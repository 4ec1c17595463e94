"""What a life costs where holders are spread over cells, beside one cell: process CPU, never the clock on the wall.

Two services in turn: one with one cell, and one with four cells on three servers. Lives of transfers (``cells_transfer_life``)
and of charges (``cells_charge_paid``) are those of ``transfer_life`` and ``charge_paid``, for one holder in each cell that is
asked: the only one (``one``), the home cell of four (``one_of_four``), two on two servers (``two``), or all (``four``), with
``--in-flight`` lives at once in each; ``two_thin`` and ``four_thin``: with as many in all of them together. ``one_half``,
``one_quarter`` and ``one_eighth`` are one cell with fewer lives at once.

Thinner batches cost more with one cell too, and how large they are nobody chooses. So what one cell costs is fitted as a part
for each life and a part for each batch (``fit``), to all rounds of these and of ``one``, and ``same_batch_ratio`` is by what
one cell costs with batches of that size: only ``one_eighth`` has some as small as those of four cells.

``cells_rest`` is the CPU of both while nobody asks for anything, in percent of a core, and ``each_percent``: what a cell beside
the home cell adds, and its server.

``cpu_us_each`` of a life by kind of process, ``ours_us`` (API, worker, sandbox) and ``postgres_us`` (all servers together);
``batch``: requests that one write of one process accepted; ``commits`` of a life, in all databases. ``ratio``, ``ours_ratio``
and ``postgres_ratio`` are by ``one`` of the same round; all are medians over rounds. Both services are there from beginning to
end; what the one uses while the other is asked is not counted. ``refused``: answers 503, after which the life began again.
``load`` is the machine's load average, at the beginning and at the end.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import uvloop
from msgspec import Struct

from bench.figures import Row
from bench.harness.cells import InCell, Spread, spread
from bench.load.http_client import Refused
from bench.measures.end_to_end import (
    CHARGE_TOLD_TWICE,
    TRANSFER_TOLD,
    Run,
    Story,
    pay_charge_told_twice,
    repeat_story,
    settle_transfer,
)

CELLS: Final = 4
FITTED: Final = ("one", "one_half", "one_quarter", "one_eighth")
_RATIOS: Final = {"ratio": "cpu_us_each_in_all", "ours_ratio": "ours_us", "postgres_ratio": "postgres_us"}
SERVERS: Final = 3
STORIES: Final[Mapping[str, tuple[Story, Sequence[str], str]]] = {
    "transfer_life": (settle_transfer, TRANSFER_TOLD, "transfer"),
    "charge_paid": (pay_charge_told_twice, CHARGE_TOLD_TWICE, "charge"),
}
_WARM_SECONDS: Final = 3.0
_SETTLED_S: Final = 5.0
_REST_SECONDS: Final = 10.0
_AGAIN_AFTER_S: Final = 0.1
_BATCHES: Final = """
    select (select count(*) from origin_batch where kind = $1)::int as batches,
        (select coalesce(sum(cardinality(ids)), 0) from origin_batch where kind = $1)::int as requests,
        (select xact_commit from pg_stat_database where datname = current_database())::int as commits
"""


class _Asked(Struct, frozen=True, kw_only=True):
    """Which cells of a service are asked."""

    service: Spread
    cells: Sequence[InCell]
    in_flight: int
    """Lives at once in each of them."""


def measure_cells(seconds: float, rounds: int, in_flight: int, kinds: Sequence[str]) -> Iterator[Row]:
    """Of these stories, and what rest costs."""
    with _both(in_flight) as asked:
        yield {"name": "cells_rest", **_measure_rest(asked["one"].service, asked["four"].service, rounds)}
        for name in kinds or STORIES:
            yield {"name": f"cells_{name}", "in_flight": in_flight, **_in_turn(asked, name, seconds, rounds)}


@contextmanager
def _both(in_flight: int) -> Iterator[Mapping[str, _Asked]]:
    with spread(1, 1) as one, spread(CELLS, SERVERS) as four:

        def ask(service: Spread, cells_count: int, part: int) -> _Asked:
            return _Asked(service=service, cells=service.cells[:cells_count], in_flight=max(1, in_flight // part))

        yield {
            "one": ask(one, 1, 1),
            "one_half": ask(one, 1, 2),
            "one_quarter": ask(one, 1, 4),
            "one_eighth": ask(one, 1, 8),
            "one_of_four": ask(four, 1, 1),
            "two": ask(four, 2, 1),
            "four": ask(four, 4, 1),
            "two_thin": ask(four, 2, 2),
            "four_thin": ask(four, 4, 4),
        }


def _in_turn(asked: Mapping[str, _Asked], name: str, seconds: float, rounds: int) -> Row:
    """Each round all of them, each time another one first."""
    for which in ("one", "four"):
        uvloop.run(_live(asked[which], name, _WARM_SECONDS))
    found: dict[str, list[Row]] = {which: [] for which in asked}
    load_before = os.getloadavg()[0]
    order = list(asked)
    for _ in range(rounds):
        for which in order:
            found[which].append(uvloop.run(_live(asked[which], name, seconds)))
        order = [*order[3:], *order[:3]]
    return {
        "seconds": seconds,
        "rounds": rounds,
        **_compare(found),
        "load": [load_before, os.getloadavg()[0]],
    }


async def _live(asked: _Asked, name: str, seconds: float) -> Row:
    story, told, kind = STORIES[name]
    refused_count = 0

    async def insist(run: Run) -> None:
        nonlocal refused_count
        while True:
            try:
                return await story(run)
            except Refused:
                refused_count += 1
                await asyncio.sleep(_AGAIN_AFTER_S)

    before = [await _count(cell, kind) for cell in asked.cells]
    meter = asked.service.meter(generator=os.getpid())
    lived = await asyncio.gather(*(repeat_story(cell, insist, told, seconds, asked.in_flight) for cell in asked.cells))
    lives_count = sum(row["lives"] for row in lived)
    cost = meter.cost(lives_count)
    grown = [
        {field: count - before_[field] for field, count in (await _count(cell, kind)).items()}
        for cell, before_ in zip(asked.cells, before, strict=True)
    ]
    postgres_us = cost["cpu_us_each"]["postgres"]
    return {
        "cpu_us_each": cost["cpu_us_each"],
        "cpu_us_each_in_all": cost["cpu_us_each_in_all"],
        "ours_us": cost["cpu_us_each_in_all"] - postgres_us,
        "postgres_us": postgres_us,
        "per_second": sum(row["per_second"] for row in lived),
        "batch": sum(row["requests"] for row in grown) / sum(row["batches"] for row in grown),
        "commits": sum(row["commits"] for row in grown) / lives_count,
        "refused": refused_count,
    }


async def _count(cell: InCell, kind: str) -> Row:
    connection = await cell.connect()
    try:
        row = await connection.fetchrow(_BATCHES, kind)
        assert row is not None
        return dict(row)
    finally:
        await connection.close()


def _compare(found: Mapping[str, Sequence[Row]]) -> Row:
    """Medians, ratios to one cell within each round, and to one cell with batches of the same size."""
    fit = fit_costs([row for which in FITTED for row in found[which]])
    said: Row = {"fit": dict(zip(("life_us", "batch_us"), fit, strict=True))}
    for which, rows in found.items():
        ratios = {
            ratio: [row[field] / one[field] for row, one in zip(rows, found["one"], strict=True)]
            for ratio, field in _RATIOS.items()
        }
        same = [row["cpu_us_each_in_all"] / (fit[0] + fit[1] / row["batch"]) for row in rows]
        said[which] = (
            {name: _median([row[name] for row in rows]) for name in rows[0]}
            | {ratio: statistics.median(values) for ratio, values in ratios.items()}
            | {"same_batch_ratio": statistics.median(same), "same_batch_ratios": same}
        )
    return said


def fit_costs(rows: Sequence[Row]) -> tuple[float, float]:
    """What a life costs, and a batch, of rows whose batches are of different sizes."""
    fitted = statistics.linear_regression(
        [1 / row["batch"] for row in rows], [row["cpu_us_each_in_all"] for row in rows]
    )
    return fitted.intercept, fitted.slope


def _median(values: Sequence[Any]) -> float | Row:
    if isinstance(values[0], dict):
        return {name: statistics.median(value.get(name, 0.0) for value in values) for name in values[0]}
    return statistics.median(values)


def _measure_rest(one: Spread, four: Spread, rounds: int) -> Row:
    """Both at the same time, since nobody asks for anything."""
    time.sleep(_SETTLED_S)
    meters = {"one": one.meter(), "four": four.meter()}
    began_s = time.monotonic()
    time.sleep(_REST_SECONDS * rounds)
    lasted_s = time.monotonic() - began_s
    used = {
        which: {kind: 100 * used_s / lasted_s for kind, used_s in meter.used_s().items()}
        for which, meter in meters.items()
    }
    in_all = {which: sum(by_kind.values()) for which, by_kind in used.items()}
    return {
        "seconds": lasted_s,
        "cpu_percent": used,
        "cpu_percent_in_all": in_all,
        "each_percent": (in_all["four"] - in_all["one"]) / (CELLS - 1),
        "load": os.getloadavg()[0],
    }
