"""The cost of single requests, which share no wake-up and no commit with others.

- ``lone_transfer_1``, ``_20``, ``_100``: transfers a second at a fixed pace, each until both events are delivered:
  milliseconds from the time at which it was due to the response (``accepted``) and to the webhook
  ``transfer.out.confirmed``. They include the simulated network's ``sandbox_latency_ms``;
- ``lone_event_1``, ``_20``, ``_100``: events a second, written without charges, from the commit to the arrival of each.

``cpu_us_each`` is the service's CPU minus its CPU at rest, which is measured before (``rest_cpu_percent``) and is most
of its CPU at one request a second.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import count
from typing import TypeVar

import uvloop

from bench.figures import Row, spread_ms
from bench.harness.installation import Installation, installed
from bench.harness.processes import CpuMeter
from bench.load.events import Writer, writing
from bench.load.receivers import Receivers, receiving
from bench.measures.accepting import TRANSFER, TRANSFER_BODY
from bench.measures.end_to_end import TRANSFER_TOLD, running
from pixconnect.platform.config import Settings

Told = TypeVar("Told")

WARM_COUNT = 20
SETTLED_S = 3.0  # wait until a service that has just started or worked is at rest


def measure_lone_transfers(seconds: float, rates: Sequence[int]) -> Iterator[Row]:
    with installed() as service:
        for row in uvloop.run(_transfers(service, seconds, rates)):
            yield {**row, "sandbox_latency_ms": Settings().sandbox_latency_ms}


async def _transfers(service: Installation, seconds: float, rates: Sequence[int]) -> list[Row]:
    rows: list[Row] = []
    async with running(service, TRANSFER_TOLD) as run:

        async def settle(wanted_s: float) -> tuple[float, float]:
            transfer = await run.client.post(TRANSFER, TRANSFER_BODY)
            answered_s = time.monotonic()
            await run.told("transfer.out.confirmed", transfer["id"])
            return answered_s - wanted_s, time.monotonic() - wanted_s

        for _ in range(WARM_COUNT):
            await settle(0)
        rest = await _measure_rest(service, seconds)
        for rate in rates:
            cost, took_s = await _steadily(service, settle, rate, seconds, rest)
            accepted = spread_ms([accepted_s for accepted_s, _ in took_s])
            rows.append(
                {
                    "name": f"lone_transfer_{rate}",
                    **cost,
                    **spread_ms([confirmed_s for _, confirmed_s in took_s]),
                    **{f"accepted_{name}": value for name, value in accepted.items()},
                }
            )
    return rows


def measure_lone_events(seconds: float, rates: Sequence[int]) -> Iterator[Row]:
    with receiving() as receivers, installed(is_proved=False) as service:
        yield from asyncio.run(_events(service, receivers, seconds, rates))


async def _events(service: Installation, receivers: Receivers, seconds: float, rates: Sequence[int]) -> list[Row]:
    account, rows = service.demonstration(), list[Row]()
    service.add_endpoint(account, f"{receivers.urls[0]}/count")
    numbers = count(1)
    async with writing(service) as writer:

        async def write(_: float) -> None:
            await writer.write(account.holder_id, [next(numbers)])

        for _ in range(WARM_COUNT):
            await write(0)
        rest = await _measure_rest(service, seconds)
        for rate in rates:
            receivers.arrivals()
            cost, _ = await _steadily(service, write, rate, seconds, rest)
            rows.append({"name": f"lone_event_{rate}", **cost, **spread_ms(_lags_since_commit_s(writer, receivers))})
    return rows


async def _measure_rest(service: Installation, seconds: float) -> dict[str, float]:
    """CPU at rest as a part of one core, by process."""
    await service.until_quiet()
    await asyncio.sleep(SETTLED_S)
    meter, started_s = CpuMeter(service.process.pid), time.monotonic()
    await asyncio.sleep(seconds)
    return {kind: used_s / (time.monotonic() - started_s) for kind, used_s in meter.used_s().items()}


async def _steadily(
    service: Installation, do_one: Callable[[float], Awaitable[Told]], rate: int, seconds: float, rest: dict[str, float]
) -> tuple[Row, list[Told]]:
    """Run so many a second, each when it is due, and subtract the CPU at rest from their CPU."""
    meter = CpuMeter(service.process.pid, generator=os.getpid())
    started_s, times = time.monotonic(), max(1, round(rate * seconds))

    async def do_when_due(number: int) -> Told:
        wanted_s = started_s + number / rate
        await asyncio.sleep(wanted_s - time.monotonic())
        return await do_one(wanted_s)

    told = await asyncio.gather(*(do_when_due(number) for number in range(times)))
    # The last webhook is recorded after its arrival.
    await asyncio.sleep(max(0.5, started_s + seconds - time.monotonic()))
    lasted_s, used_s, cost = time.monotonic() - started_s, meter.used_s(), meter.cost(times)
    each = {kind: 1e6 * (value - rest.get(kind, 0.0) * lasted_s) / times for kind, value in used_s.items()}
    await service.until_quiet()
    row = {
        "seconds": seconds,
        "per_second": rate,
        "count": times,
        **cost,
        "cpu_us_each": each,
        "cpu_us_each_in_all": sum(each.values()),
        "rest_cpu_percent": 100 * sum(rest.values()),
    }
    return row, told


def _lags_since_commit_s(writer: Writer, receivers: Receivers) -> list[float]:
    """Times from each event's commit to its delivery, in the order of arrival."""
    arrivals = receivers.arrivals()
    return [
        at_s - writer.committed_at_s[event_id]
        for event_id, at_s in zip(arrivals.event_ids, arrivals.at_s, strict=True)
        if event_id in writer.committed_at_s
    ]
