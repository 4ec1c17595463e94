"""A service without requests: the time to start, and its resources at rest.

- ``start_cold``, ``start_warm``: seconds from the command until ``sandbox.json`` exists, on a fresh home and on a used
  one;
- ``rest``: memory and CPU at rest, by process.
"""

import time
from collections.abc import Iterator

from bench.figures import Row
from bench.harness.installation import STOP_TIMEOUT_S, installed
from bench.harness.processes import CpuMeter, resident_mib


def measure_start() -> Iterator[Row]:
    """On a fresh home, and on one that exists."""
    with installed() as service:
        yield {"name": "start_cold", "seconds": service.ready_s}
        service.process.terminate()
        service.process.wait(STOP_TIMEOUT_S)
        with installed(home=service.home) as again:
            yield {"name": "start_warm", "seconds": again.ready_s}


def measure_rest(seconds: float) -> Iterator[Row]:
    with installed() as service:
        time.sleep(3)
        meter = CpuMeter(service.process.pid)
        time.sleep(seconds)
        used_s = meter.used_s()
        memory = resident_mib(service.process.pid)
        yield {
            "name": "rest",
            "cpu_percent": {kind: 100 * value / seconds for kind, value in used_s.items()},
            "cpu_percent_in_all": 100 * sum(used_s.values()) / seconds,
            "resident_mib": memory,
            "resident_mib_in_all": sum(memory.values()),
        }
