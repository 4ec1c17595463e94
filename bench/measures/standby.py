"""The price of losing nothing with the machine: the hot rows once more, with a synchronous standby that commits wait for.

``standby_charge``, ``standby_transfer_64``, ``standby_transfer_life``: as ``create_charge``, ``transfer_64`` and
``transfer_life``, first without the standby and then with it, in the same service: ``without`` has the same fields. The standby
writes and replays on the same cores and the same disk; its CPU stands beside the service's (``standby_cpu_us_each``).
"""

from __future__ import annotations

from collections.abc import Iterator

import uvloop

from bench.figures import Row
from bench.harness.installation import Installation, installed
from bench.harness.processes import CpuMeter
from bench.harness.standby import standby
from bench.load.generators import wrk
from bench.measures.accepting import CHARGE, TRANSFER, TRANSFER_BODY
from bench.measures.end_to_end import TRANSFER_TOLD, repeat_story, settle_transfer

CONNECTIONS = 64


def measure_standby(seconds: float, in_flight: int) -> Iterator[Row]:
    """Without it, and with it."""
    with installed() as service:
        without = _measure_all(service, seconds, in_flight, service.process.pid)
        with standby(service) as standby_pid:
            beside = _measure_all(service, seconds, in_flight, standby_pid)
    for name, row in beside.items():
        row["price"] = row["cpu_us_each_in_all"] / without[name]["cpu_us_each_in_all"]
        row["rate_kept"] = row["per_second"] / without[name]["per_second"]
        del without[name]["standby_cpu_us_each"]
        yield {"name": f"standby_{name}", **row, "without": without[name]}


def _measure_all(service: Installation, seconds: float, in_flight: int, standby_pid: int) -> dict[str, Row]:
    charge = {"amount": 1234, "key": service.sandbox["pix_keys"][0]}
    rows: dict[str, Row] = {}
    for name, path, body in (("charge", CHARGE, charge), ("transfer_64", TRANSFER, TRANSFER_BODY)):
        meters = _Meters(service, standby_pid)
        tokens = [service.demonstration().token]
        load = wrk(service.base_url, path, body, tokens, connections=CONNECTIONS, seconds=seconds)
        rows[name] = {
            "seconds": seconds,
            "connections": CONNECTIONS,
            "per_second": load.per_second,
            "p50_ms": load.p50_ms,
            "p99_ms": load.p99_ms,
            "errors": load.errors_count,
            **meters.cost(max(1, round(load.per_second * seconds))),
        }
        service.wait_until_quiet()
    meters = _Meters(service, standby_pid)
    life = uvloop.run(repeat_story(service, settle_transfer, TRANSFER_TOLD, seconds, in_flight))
    rows["transfer_life"] = {
        "seconds": seconds,
        "in_flight": in_flight,
        **{name: life[name] for name in ("per_second", "p50_ms", "p99_ms")},
        **meters.cost(max(1, life["lives"])),
    }
    return rows


class _Meters:
    """Of the service, and of all that the standby consists of."""

    def __init__(self, service: Installation, standby_pid: int) -> None:
        self._service = CpuMeter(service.process.pid)
        self._standby = CpuMeter(standby_pid)

    def cost(self, count: int) -> Row:
        standby = self._standby.cost(count)["cpu_us_each_in_all"]
        return {**self._service.cost(count), "standby_cpu_us_each": standby}
