"""The cost of requests that move no money: tokens, and charges with a picture of their QR code.

- ``token``: access tokens by client credentials, 16 connections;
- ``picture``: charges with and without ``base64=true`` in turn, 16 connections. ``picture_cpu_us_each`` is the
  difference in CPU of the API's processes for one charge.

Medians of all rounds. CPU is the service's; the generator's is shown beside it.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlencode

from bench.figures import Row
from bench.harness.installation import Installation, installed
from bench.harness.processes import CpuMeter
from bench.load.generators import Load, wrk
from bench.measures.accepting import CHARGE

CONNECTIONS = 16
LOGIN = "/v1/iam/users/login"


FORM = "application/x-www-form-urlencoded"


def measure_tokens(seconds: float, rounds: int) -> Iterator[Row]:
    """Log in repeatedly."""
    with installed(PIXCONNECT_TRUSTED_PROXIES="127.0.0.1/32") as service:
        credentials = {name: service.sandbox[name] for name in ("client_id", "client_secret")}
        form = urlencode({"grant_type": "client_credentials", **credentials})

        def log_in() -> Load:
            return wrk(
                service.sandbox["auth_url"], LOGIN, form, [], connections=CONNECTIONS, seconds=seconds,
                content_type=FORM,
            )  # fmt: skip

        rows = [_measured(service, log_in, seconds) for _ in range(rounds)]
        yield {"name": "token", "seconds": seconds, "rounds": rounds, "connections": CONNECTIONS, **_medians(rows)}


def measure_pictures(seconds: float, rounds: int) -> Iterator[Row]:
    """With pictures and without."""
    with installed() as service:
        account, body = service.demonstration(), {"amount": 1234, "key": service.sandbox["pix_keys"][0]}

        def charge(path: str) -> Callable[[], Load]:
            return lambda: wrk(service.base_url, path, body, [account.token], connections=CONNECTIONS, seconds=seconds)

        drawn: list[Row] = []
        plain: list[Row] = []
        for _ in range(rounds):
            drawn.append(_measured(service, charge(f"{CHARGE}?base64=true"), seconds))
            plain.append(_measured(service, charge(CHARGE), seconds))
        added = [
            with_it["cpu_us_each"]["api"] - row["cpu_us_each"]["api"] for with_it, row in zip(drawn, plain, strict=True)
        ]
        yield {
            "name": "picture",
            "seconds": seconds,
            "rounds": rounds,
            "connections": CONNECTIONS,
            **_medians(drawn),
            "picture_cpu_us_each": statistics.median(added),
            "p99_ms_without": _medians(plain)["p99_ms"],
        }


def _measured(service: Installation, ask: Callable[[], Load], seconds: float) -> Row:
    meter = CpuMeter(service.process.pid)
    load = ask()
    return {
        "per_second": load.per_second,
        "p50_ms": load.p50_ms,
        "p99_ms": load.p99_ms,
        "errors": load.errors_count,
        **meter.cost(max(1, round(load.per_second * seconds))),
        "generator_cpu_of_a_core": load.cpu_part,
    }


def _medians(rows: Sequence[Row]) -> Row:
    """The median of each figure, also by process."""
    return {
        name: _medians([row[name] for row in rows])
        if isinstance(value, dict)
        else statistics.median(row.get(name, 0.0) for row in rows)
        for name, value in rows[0].items()
    }
