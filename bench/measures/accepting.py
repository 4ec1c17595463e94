"""Accepted requests a second, compared with ``pgbench -N`` on the service's PostgreSQL in the same minutes.

- ``create_charge``: charges on one account, 64 connections; ``create_charge_alone``: one caller, one connection;
- ``put_cob``: the same charges by the central bank's API, each with a txid of the caller;
- ``put_cobv``: charges with a due date, a debtor, fine and interest, right after those; ``cpu_of_cob`` is their cost
  relative to ``put_cob``;
- ``transfer_16``, ``transfer_64``, ``transfer_256``: transfers from one hot account, by connections, while the worker
  hands them over and settles them on the same cores and balance; ``transfer_64_accepted_alone``: with a suspended
  worker;
- ``transfer_key_64``: the same to a key, which is looked up on the network first;
- ``transfer_spread``: transfers of many holders, each with a client of its own, 256 connections.

``ratio`` is requests by transactions of ``pgbench -N -M prepared -c 16``, in each round and their median. If the
generator uses more than 80 % of a core, the CPU of a request is more reliable than the ratio. ``finished_after_s`` is
the time after a round to settle and deliver everything; the next round begins after it.
"""

import statistics
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import Any

from bench.figures import Row
from bench.harness.installation import Account, Installation, installed
from bench.harness.processes import CpuMeter, stopped_processes
from bench.load.generators import Load, Pgbench, wrk
from pixconnect.platform.base.clock import SAO_PAULO

CHARGE = "/v1/connect/charge"
PUT_COB = "/pix/v2/cob/{txid}"
PUT_COBV = "/pix/v2/cobv/{txid}"
TRANSFER = "/v1/connect/transfer/manual"
TRANSFER_BY_KEY = "/v1/connect/transfer/key"
KEY_BODY = {"amount": 1, "key": "settle@sandbox.pix.example", "key_type": "EMAIL"}
TRANSFER_BODY = {
    "amount": 1,
    "credit_party": {
        "account_number": "1001", "account_type": "CHECKING", "branch": "0001", "ispb": "99999004",
        "name": "Maria Silva", "tax_id": "52998224725",
    },
}  # fmt: skip


class Rounds:
    """Run ``pgbench`` and the service in turn, because the speed of shared machines varies from minute to minute."""

    def __init__(self, service: Installation, seconds: float, count: int) -> None:
        self._service = service
        self._pgbench = Pgbench(service.running["owner_database_url"])
        self._seconds = seconds
        self._count = count

    def measure(
        self,
        name: str,
        path: str,
        body: object,
        accounts: Sequence[Account],
        connections: int,
        *,
        method: str = "POST",
        is_accepting_alone: bool = False,
    ) -> Row:
        """Medians of all rounds."""
        baselines: list[float] = []
        loads: list[Load] = []
        costs: list[Row] = []
        finished_after_s: list[float] = []
        for _ in range(self._count):
            baselines.append(self._pgbench.measure(self._seconds))
            tokens = [account.token for account in accounts]
            meter = CpuMeter(self._service.process.pid)
            with stopped_processes(self._service.process.pid, "worker") if is_accepting_alone else nullcontext():
                load = wrk(
                    *(self._service.base_url, path, body, tokens), connections=connections, seconds=self._seconds, method=method
                )
            costs.append(meter.cost(max(1, round(load.per_second * self._seconds))))
            loads.append(load)
            finished_after_s.append(self._service.wait_until_quiet())
        ratios = [load.per_second / baseline for load, baseline in zip(loads, baselines, strict=True)]
        return {
            "name": name,
            "seconds": self._seconds,
            "rounds": self._count,
            "connections": connections,
            "holders": len(accounts),
            "per_second": statistics.median(load.per_second for load in loads),
            "p50_ms": statistics.median(load.p50_ms for load in loads),
            "p99_ms": statistics.median(load.p99_ms for load in loads),
            "errors": sum(load.errors_count for load in loads),
            "pgbench_per_second": statistics.median(baselines),
            "ratio": statistics.median(ratios),
            "ratios": ratios,
            "cpu_us_each": {
                kind: statistics.median(cost["cpu_us_each"].get(kind, 0.0) for cost in costs)
                for kind in costs[0]["cpu_us_each"]
            },
            "cpu_us_each_in_all": statistics.median(cost["cpu_us_each_in_all"] for cost in costs),
            "generator_cpu_of_a_core": statistics.median(load.cpu_part for load in loads),
            "finished_after_s": statistics.median(finished_after_s),
        }


def measure_charges(seconds: float, rounds: int) -> Iterator[Row]:
    """Charges, among many and alone."""
    with installed() as service:
        account, body = service.demonstration(), charge_body(service)
        alternating = Rounds(service, seconds, rounds)
        yield alternating.measure("create_charge", CHARGE, body, [account], 64)
        cob = alternating.measure("put_cob", PUT_COB, cob_body(service), [account], 64, method="PUT")
        yield cob
        due = alternating.measure("put_cobv", PUT_COBV, due_body(service), [account], 64, method="PUT")
        yield due | {"cpu_of_cob": due["cpu_us_each_in_all"] / cob["cpu_us_each_in_all"]}
        load = wrk(service.base_url, CHARGE, body, [account.token], connections=1, seconds=seconds)
        yield {
            "name": "create_charge_alone", "seconds": seconds, "per_second": load.per_second, "p50_ms": load.p50_ms,
            "p99_ms": load.p99_ms,
        }  # fmt: skip


def measure_hot_transfers(seconds: float, rounds: int, connections: Sequence[int]) -> Iterator[Row]:
    with installed() as service:
        account, alternating = service.demonstration(), Rounds(service, seconds, rounds)
        for count in connections:
            yield alternating.measure(f"transfer_{count}", TRANSFER, TRANSFER_BODY, [account], count)
        yield alternating.measure("transfer_64_accepted_alone", TRANSFER, TRANSFER_BODY, [account], 64, is_accepting_alone=True)


def measure_key_transfers(seconds: float, rounds: int) -> Iterator[Row]:
    with installed() as service:
        yield Rounds(service, seconds, rounds).measure(
            "transfer_key_64", TRANSFER_BY_KEY, KEY_BODY, [service.demonstration()], 64
        )


def measure_spread_transfers(seconds: float, rounds: int, holders: int) -> Iterator[Row]:
    with installed() as service:
        accounts = service.onboard(holders)
        yield Rounds(service, seconds, rounds).measure("transfer_spread", TRANSFER, TRANSFER_BODY, accounts, 256)


def cob_body(service: Installation) -> dict[str, Any]:
    return {
        "calendario": {"expiracao": 86_400},
        "valor": {"original": "12.34"},
        "chave": service.sandbox["pix_keys"][0],
    }


def due_body(service: Installation) -> dict[str, Any]:
    return {
        "calendario": {"dataDeVencimento": f"{datetime.now(SAO_PAULO).date() + timedelta(days=10)}"},
        "devedor": {"cpf": "12345678909", "nome": "Francisco da Silva"},
        "valor": {
            "original": "12.34",
            "multa": {"modalidade": 2, "valorPerc": "2.00"},
            "juros": {"modalidade": 3, "valorPerc": "1.00"},
        },
        "chave": service.sandbox["pix_keys"][0],
    }


def charge_body(service: Installation) -> dict[str, Any]:
    return {"amount": 1234, "key": service.sandbox["pix_keys"][0]}
