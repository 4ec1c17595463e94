"""The price of losing nothing with the machine: the hot rows once more, with a synchronous standby that commits wait for.

``standby_charge``, ``standby_transfer_64``, ``standby_transfer_life``: as ``create_charge``, ``transfer_64`` and
``transfer_life``, in turn with and without the standby (``without`` has the same fields), on the same service, so that both
meet tables of the same size; every other round begins with the other.

Medians of all rounds; ``rate_kept`` is the rate with by without, and ``price`` the service's CPU each, in pairs. Without means
that no commit waits, and that the standby's processes stand still; before they are waited for again they have caught up. The
standby writes and replays on the same cores and the same disk; its CPU stands beside the service's (``standby_cpu_us_each``).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial

import uvloop

from bench.figures import Row
from bench.harness.installation import Installation, installed
from bench.harness.processes import CpuMeter
from bench.harness.standby import Standby, standby
from bench.load.generators import wrk
from bench.measures.accepting import CHARGE, TRANSFER, TRANSFER_BODY
from bench.measures.end_to_end import TRANSFER_TOLD, repeat_story, settle_transfer

CONNECTIONS = 64
_WARM_S = 2.0

Slice = Callable[[float], Row]
"""Loads the service for so many seconds; how many there were (``count``), and how fast they were."""


def measure_standby(seconds: float, rounds: int, in_flight: int) -> Iterator[Row]:
    """Each kind of load in turn with the standby and without it."""
    with installed() as service, standby(service) as beside:
        charge = {"amount": 1234, "key": service.sandbox["pix_keys"][0]}
        slices: Mapping[str, tuple[Row, Slice]] = {
            "charge": ({"connections": CONNECTIONS}, partial(_ask, service, CHARGE, charge)),
            "transfer_64": ({"connections": CONNECTIONS}, partial(_ask, service, TRANSFER, TRANSFER_BODY)),
            "transfer_life": ({"in_flight": in_flight}, partial(_live, service, in_flight)),
        }
        for name, (options, load) in slices.items():
            load(_WARM_S)
            service.wait_until_quiet()
            found = _alternate(service, beside, load, seconds, rounds)
            yield {
                "name": f"standby_{name}",
                "seconds": seconds,
                "rounds": rounds,
                **options,
                **_median(found["with"]),
                "rate_kept": _ratio(found, "per_second"),
                "price": _ratio(found, "cpu_us_each_in_all"),
                "without": _median(found["without"]),
            }


def _alternate(
    service: Installation, beside: Standby, load: Slice, seconds: float, rounds: int
) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {"without": [], "with": []}
    for number in range(rounds):
        # Tables grow meanwhile: neither is always the later one.
        for name in list(found)[:: 1 if number % 2 == 0 else -1]:
            with beside.standing_still() if name == "without" else nullcontext():
                meter, standby_meter = CpuMeter(service.process.pid), CpuMeter(beside.pid)
                row = load(seconds)
                count = max(1, round(row.pop("count")))
                standby_us = standby_meter.cost(count)["cpu_us_each_in_all"]
                found[name].append(row | meter.cost(count) | {"standby_cpu_us_each": standby_us})
                service.wait_until_quiet()
    return found


def _ask(service: Installation, path: str, body: object, seconds: float) -> Row:
    tokens = [service.demonstration().token]
    load = wrk(service.base_url, path, body, tokens, connections=CONNECTIONS, seconds=seconds)
    return {
        "count": load.per_second * seconds,
        "per_second": load.per_second,
        "p50_ms": load.p50_ms,
        "p99_ms": load.p99_ms,
        "errors": load.errors_count,
    }


def _live(service: Installation, in_flight: int, seconds: float) -> Row:
    life = uvloop.run(repeat_story(service, settle_transfer, TRANSFER_TOLD, seconds, in_flight))
    return {"count": life["lives"], **{name: life[name] for name in ("per_second", "p50_ms", "p99_ms")}}


def _median(rows: Sequence[Row]) -> Row:
    """Of each field; of errors the sum."""
    kinds = rows[0]["cpu_us_each"]
    by_process = {kind: statistics.median(row["cpu_us_each"].get(kind, 0.0) for row in rows) for kind in kinds}
    found = {name: statistics.median(row[name] for row in rows) for name in rows[0] if name != "cpu_us_each"}
    if "errors" in found:
        found["errors"] = sum(row["errors"] for row in rows)
    return {**found, "cpu_us_each": by_process}


def _ratio(found: Mapping[str, Sequence[Row]], name: str) -> float:
    return statistics.median(
        row[name] / without[name] for row, without in zip(found["with"], found["without"], strict=True)
    )
