"""``make bench``: what the service does on this machine, beside what its PostgreSQL does alone in the same minutes.

Durable settings. Load comes from native generators whose own CPU is reported; where one takes more than 80 % of a core, judge
by the CPU a request costs and not by the ratio. Rounds alternate between ``pgbench`` and the service, and medians are taken,
because shared machines change their speed from minute to minute.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lives
from installation import Installation, cpu_seconds, difference, installed, resident_mib
from load import Load, Pgbench, wrk

RESULTS = Path(__file__).parent / "results.json"

Row = dict[str, Any]


def main() -> None:
    """Measure everything, print a table, write ``bench/results.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="pgbench and the service in turn")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    options = parser.parse_args()
    rows: list[Row] = []

    def add(row: Row) -> None:
        rows.append(row)
        print("  ".join(f"{name}={_show(value)}" for name, value in row.items()), flush=True)

    if _wants(options, "start"):
        measure_start(add)
    with installed() as service:
        measure_service(service, options, add)
    if _wants(options, "create_charge_one_a_group"):
        with installed(PIXCONNECT_GROUP_SIZE_MAX="1") as service:
            drive = _driver(service, Pgbench(service.running["owner_database_url"]), options.seconds, options.rounds)
            add(drive("create_charge_one_a_group", "charges.lua", 64))
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "machine": platform.machine()}
    RESULTS.write_text(json.dumps({"machine": machine, "options": vars(options), "rows": rows}, indent=1) + "\n")
    print(f"written to {RESULTS}")


def measure_service(service: Installation, options: argparse.Namespace, add: Callable[[Row], None]) -> None:
    """Everything that is measured on one service."""
    if _wants(options, "rest"):
        add(measure_rest(service, options.seconds))
    drive = _driver(service, Pgbench(service.running["owner_database_url"]), options.seconds, options.rounds)
    if _wants(options, "create_charge"):
        add(drive("create_charge", "charges.lua", 64))
        add(alone(service, options.seconds))
    for connections in (16, 64, 256):
        if _wants(options, f"transfer_{connections}"):
            add(drive(f"transfer_{connections}", "transfers.lua", connections))
    if _wants(options, "charge_life"):
        add(measure_lives(service, "charge_life", lives.charge_life, options.seconds, workers_count=16))
    if _wants(options, "transfer_life"):
        add(measure_lives(service, "transfer_life", lives.transfer_life, options.seconds, workers_count=64))


def _wants(options: argparse.Namespace, name: str) -> bool:
    return options.only in name


def measure_start(add: Callable[[Row], None]) -> None:
    """Seconds from the command to the first line of ``sandbox.json``: on a fresh home, and on one that exists."""
    with installed() as service:
        add({"name": "start_cold", "seconds": service.ready_s})
        home = service.home.rename(service.home.with_name("kept"))
        home.rename(service.home)
        _stop(service)
        with installed(home=service.home) as again:
            add({"name": "start_warm", "seconds": again.ready_s})


def measure_rest(service: Installation, seconds: float) -> Row:
    """Memory and CPU when nobody asks for anything."""
    time.sleep(3)
    before = cpu_seconds(service.process.pid)
    time.sleep(seconds)
    used = difference(before, cpu_seconds(service.process.pid))
    memory = resident_mib(service.process.pid)
    return {
        "name": "rest",
        "cpu_percent": {kind: 100 * value / seconds for kind, value in used.items()},
        "cpu_percent_in_all": 100 * sum(used.values()) / seconds,
        "resident_mib": memory,
        "resident_mib_in_all": sum(memory.values()),
    }


def _driver(service: Installation, pgbench: Pgbench, seconds: float, rounds: int) -> Callable[[str, str, int], Row]:
    def drive(name: str, script: str, connections: int) -> Row:
        baselines: list[float] = []
        loads: list[Load] = []
        cpu: dict[str, list[float]] = {}
        for _ in range(rounds):
            baselines.append(pgbench.measure(seconds))
            token = service.log_in()
            before = cpu_seconds(service.process.pid)
            load = wrk(
                service.base_url,
                script,
                connections=connections,
                seconds=seconds,
                TOKEN=token,
                PIX_KEY=service.sandbox["pix_keys"][0],
            )
            used = difference(before, cpu_seconds(service.process.pid))
            loads.append(load)
            for kind, value in used.items():
                cpu.setdefault(kind, []).append(1e6 * value / (load.per_second * seconds))
        ratios = [load.per_second / baseline for load, baseline in zip(loads, baselines, strict=True)]
        cost = {kind: statistics.median(values) for kind, values in cpu.items()}
        return {
            "name": name,
            "connections": connections,
            "per_second": statistics.median(load.per_second for load in loads),
            "p50_ms": statistics.median(load.p50_ms for load in loads),
            "p99_ms": statistics.median(load.p99_ms for load in loads),
            "errors": sum(load.errors_count for load in loads),
            "pgbench_per_second": statistics.median(baselines),
            "ratio": statistics.median(ratios),
            "ratios": ratios,
            "cpu_us_each": cost,
            "cpu_us_each_in_all": sum(cost.values()),
            "generator_cpu_of_a_core": statistics.median(load.cpu_part for load in loads),
        }

    return drive


def alone(service: Installation, seconds: float) -> Row:
    """One caller, one connection: what a charge takes when nobody else waits."""
    load = wrk(
        service.base_url,
        "charges.lua",
        connections=1,
        seconds=seconds,
        TOKEN=service.log_in(),
        PIX_KEY=service.sandbox["pix_keys"][0],
    )
    return {"name": "create_charge_alone", "p50_ms": load.p50_ms, "p99_ms": load.p99_ms, "per_second": load.per_second}


def measure_lives(service: Installation, name: str, life: "lives.Life", seconds: float, *, workers_count: int) -> Row:
    """Whole lives a second, the last webhook confirmed; the Python generator shares the cores, so see its CPU."""
    before = cpu_seconds(service.process.pid)
    started_s = time.process_time()
    seen = asyncio.run(lives.drive(service, life, seconds, workers_count))
    generator_s = time.process_time() - started_s
    used = difference(before, cpu_seconds(service.process.pid))
    return {
        "name": name,
        "per_second": seen.count / seen.seconds,
        "p50_ms": seen.p50_ms,
        "p99_ms": seen.p99_ms,
        "webhooks": seen.webhooks_count,
        "cpu_us_each": {kind: 1e6 * value / seen.count for kind, value in used.items()},
        "cpu_us_each_in_all": 1e6 * sum(used.values()) / seen.count,
        "generator_cpu_of_a_core": generator_s / seen.seconds,
    }


def _stop(service: Installation) -> None:
    service.process.terminate()
    service.process.wait(10)


def _show(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if value < 100 else f"{value:.0f}"
    if isinstance(value, dict):
        return "{" + " ".join(f"{name}:{_show(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + " ".join(map(_show, value)) + "]"
    return str(value)


if __name__ == "__main__":
    sys.exit(main())
