"""The service at four times the rate that it can serve.

``overload``: whole lives of transfers of 200 holders, until both webhooks are received; so many holders that none of
them is slowed down for its refusals. The service has all cores but one, which the callers and receivers share. In
order:

1. ``calm_before``: 50 requests a second;
2. ``capacity_per_second``: lives, 256 at once, each followed by the next;
3. four times as many requests a second at a fixed pace: ``accepted_`` and ``refused_`` have the milliseconds from the
time at which a request was due to its response; ``failed`` had another response, none, or no connection;
``served_per_second`` are the lives that ended meanwhile, ``served_part`` of the capacity;
4. ten seconds later: ``left``, unfinished orders and webhooks, and ``calm_after``, as before.
"""

import asyncio
import os
import time
from collections.abc import Iterator

import uvloop

from bench.figures import Row
from bench.harness.installation import Installation, installed, read_backlog
from bench.harness.processes import CpuMeter, on_cores
from bench.load.open_loop import Answers, OpenLoop
from bench.measures.accepting import TRANSFER, TRANSFER_BODY
from bench.measures.end_to_end import TRANSFER_TOLD, Run, running, settle_transfer

TIMES = 4
HOLDERS = 200
AT_ONCE = 256
CALM_PER_SECOND = 50
CALM_S = 4.0
RECOVERY_S = 10.0


def measure_overload(seconds: float) -> Iterator[Row]:
    """Send four times as many requests as it can serve."""
    *cores, last = sorted(os.sched_getaffinity(0))
    # On a single core they share it.
    with on_cores(cores or [last]), installed() as service, on_cores([last]):
        yield {"name": "overload", "seconds": seconds, "times": TIMES, **uvloop.run(_overload(service, seconds))}


async def _overload(service: Installation, seconds: float) -> Row:
    accounts = await asyncio.to_thread(service.onboard, HOLDERS)
    load = OpenLoop(service.base_url, TRANSFER, TRANSFER_BODY, accounts)
    async with running(service, TRANSFER_TOLD, accounts) as run:
        await load.flood(CALM_PER_SECOND, 1)
        before = await load.flood(CALM_PER_SECOND, CALM_S)
        capacity = await _measure_capacity(run, seconds)
        await service.until_quiet()
        await asyncio.to_thread(load.renew)
        meter, heard_count = CpuMeter(service.process.pid, generator=os.getpid()), run.heard_count
        flood = asyncio.create_task(load.flood(TIMES * capacity, seconds))
        await asyncio.sleep(seconds)
        served = (run.heard_count - heard_count) / len(TRANSFER_TOLD) / seconds
        used_s, others = meter.used_s(), meter.cost(1)["others_cpu_us_each"]
        await asyncio.sleep(RECOVERY_S)
        connection = await service.connect()
        left = await read_backlog(connection)
        await connection.close()
        answers = await flood
        after = await load.flood(CALM_PER_SECOND, CALM_S)
        drained_s = await service.until_quiet()
        load.close()
    return {
        "capacity_per_second": capacity,
        "offered_per_second": TIMES * capacity,
        "served_per_second": served,
        "served_part": served / capacity,
        **answers.said(),
        **_calm("before", before),
        **_calm("after", after),
        "left": {"orders": left.orders_count, "deliveries": left.deliveries_count},
        "drained_after_s": drained_s,
        "cores_used": {kind: value / seconds for kind, value in used_s.items()},
        "generator_cpu_of_a_core": others["generator"] / 1e6 / seconds,
    }


async def _measure_capacity(run: Run, seconds: float) -> float:
    lives_count, started_s = 0, time.monotonic()

    async def keep_going() -> None:
        nonlocal lives_count
        while time.monotonic() - started_s < seconds:
            await settle_transfer(run)
            lives_count += 1

    await asyncio.gather(*(keep_going() for _ in range(AT_ONCE)))
    return lives_count / (time.monotonic() - started_s)


def _calm(when: str, answers: Answers) -> Row:
    said = answers.said()
    return {f"calm_{when}_{part}_ms": said[f"accepted_{part}_ms"] for part in ("p50", "p99")}
