"""The cost of access tokens, which move no money.

``token``: access tokens by client credentials, 16 connections; medians of all rounds. CPU is the service's; the
generator's is shown beside it.
"""

import statistics
from collections.abc import Iterator, Sequence
from urllib.parse import urlencode

from bench.figures import Row
from bench.harness.installation import installed
from bench.harness.processes import CpuMeter
from bench.load.generators import wrk

CONNECTIONS = 16
LOGIN = "/v1/iam/users/login"
FORM = "application/x-www-form-urlencoded"


def measure_tokens(seconds: float, rounds: int) -> Iterator[Row]:
    with installed(PIXCONNECT_TRUSTED_PROXIES="127.0.0.1/32") as service:
        credentials = {name: service.sandbox[name] for name in ("client_id", "client_secret")}
        form = urlencode({"grant_type": "client_credentials", **credentials})
        rows: list[Row] = []
        for _ in range(rounds):
            meter = CpuMeter(service.process.pid)
            load = wrk(
                service.sandbox["auth_url"],
                LOGIN,
                form,
                [],
                connections=CONNECTIONS,
                seconds=seconds,
                content_type=FORM,
            )
            rows.append(
                {
                    "per_second": load.per_second,
                    "p50_ms": load.p50_ms,
                    "p99_ms": load.p99_ms,
                    "errors": load.errors_count,
                    **meter.cost(max(1, round(load.per_second * seconds))),
                    "generator_cpu_of_a_core": load.cpu_part,
                }
            )
        yield {"name": "token", "seconds": seconds, "rounds": rounds, "connections": CONNECTIONS, **_medians(rows)}


def _medians(rows: Sequence[Row]) -> Row:
    return {
        name: _medians([row[name] for row in rows])
        if isinstance(value, dict)
        else statistics.median(row.get(name, 0.0) for row in rows)
        for name, value in rows[0].items()
    }
