"""The sandbox for tests, in this process over HTTP or as a process that can be killed, and orders for it."""

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count as counter
from pathlib import Path
from typing import Any, Self

from msgspec import Struct, structs

from pixconnect.features.sandbox.network import registry
from pixconnect.features.sandbox.network.application import SandboxApplication
from pixconnect.features.sandbox.network.server import SandboxSettings, open_application
from pixconnect.features.sandbox.rail import HttpSandboxControl, SandboxConnection, SandboxRail
from pixconnect.features.sandbox.rules import OutsideTransfer
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.rail import Acknowledgement, Order, RefundOrder, Report
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.http import listening
from pixconnect.platform.http.server import Server

SECRET = "the-secret-of-the-sandbox"
OUR_ISPB = "99999003"
OUR_KEY = "loja@pix.example"

_number = counter(1)


class StoppedClock(SystemClock):
    monotonic = 0.0

    def monotonic_s(self) -> float:
        return self.monotonic


class Sandbox(Struct, frozen=True, kw_only=True):
    url: str
    rail: SandboxRail
    control: HttpSandboxControl
    application: SandboxApplication | None = None


async def position(sandbox: Sandbox) -> int:
    return (await sandbox.rail.position()).amount_cents


@asynccontextmanager
async def running(
    database_url: str, *, seed: int = 1, latency_ms: int = 20, two_steps_ms: int = 0, clock: Clock | None = None
) -> AsyncIterator[Sandbox]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        settings = SandboxSettings(
            database_url=database_url, secrets=[SECRET], seed=seed, latency_ms=latency_ms, two_steps_ms=two_steps_ms
        )
        async with open_application(settings, clock or SystemClock(), address) as application:
            server = Server(application, grace_s=1)
            serving = asyncio.create_task(server.serve([listener]))
            try:
                async with connected(f"http://{address}") as (rail, control):
                    yield Sandbox(url=f"http://{address}", rail=rail, control=control, application=application)
            finally:
                server.stop()
                await serving


@asynccontextmanager
async def connected(url: str, secret: str = SECRET, **bounds: float) -> AsyncIterator[tuple[SandboxRail, HttpSandboxControl]]:
    connection = SandboxConnection(url, secret, **bounds)
    try:
        yield SandboxRail(connection), HttpSandboxControl(connection)
    finally:
        await connection.close()


class SandboxProcess:
    """The sandbox as a separate process, on a port that stays reserved between its lives."""

    def __init__(self, database_url: str, *, latency_ms: int = 20, errors: int | None = None) -> None:
        self._reservation = listening.reserve_port("127.0.0.1", 0, port_setting="")
        self.port: int = self._reservation.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._arguments = [database_url, str(self.port), str(latency_ms)]
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = errors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.kill()
        self._reservation.close()

    async def start(self) -> None:
        process = self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), *self._arguments], stdout=subprocess.PIPE, stderr=self._errors
        )
        assert process.stdout is not None
        line = await asyncio.to_thread(process.stdout.readline)
        assert line.strip() == str(self.port).encode(), line

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self.wait()

    def stop(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return self.wait()

    def wait(self) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        code = self._process.wait(60)
        self._process.stdout.close()
        return code


def our_party(key: str | None = OUR_KEY) -> Party:
    return Party(
        account_number="10001",
        account_type="CHECKING",
        branch="0001",
        ispb=OUR_ISPB,
        key=key,
        key_type=None if key is None else "EMAIL",
        name="Loja de Teste",
        tax_id="12345678000195",
    )


def network_id(letter: str = "E", instant: datetime | None = None) -> str:
    return f"{letter}{OUR_ISPB}{instant or datetime.now(UTC):%Y%m%d%H%M}{next(_number):011d}"


def order(word: str = "settle", **changes: Any) -> Order:
    """An order to an existing directory entry, with an id from the time at which it was made."""
    key = f"{word}@{registry.DOMAIN}"
    plain = Order(
        end_to_end_id=network_id(instant=changes.get("ordered_at")),
        amount_cents=100,
        debit_party=our_party(None),
        credit_party=registry.FIXED_ENTRIES[key].party,
        initiation_type="KEY",
        txid=None,
        ordered_at=datetime.now(UTC),
    )
    return structs.replace(plain, **changes)


def refund_order(original: str, **changes: Any) -> RefundOrder:
    plain = RefundOrder(
        return_id=network_id("D", changes.get("ordered_at")),
        original_end_to_end_id=original,
        amount_cents=100,
        reason="MD06",
        description=None,
        ordered_at=datetime.now(UTC),
    )
    return structs.replace(plain, **changes)


def outside_transfer(**changes: Any) -> OutsideTransfer:
    return structs.replace(OutsideTransfer(credit_party=our_party(), amount_cents=100), **changes)


async def next_reports(rail: SandboxRail, wait_s: float = 20.0) -> list[Report]:
    reports = await rail.reports(wait_s)
    await rail.acknowledge([Acknowledgement(report_id=report.report_id) for report in reports])
    return reports


async def reports_of(rail: SandboxRail, count_min: int) -> list[Report]:
    seen: list[Report] = []
    async with asyncio.timeout(60):
        while len(seen) < count_min:
            seen += await next_reports(rail)
    return seen


async def _main(database_url: str, port: str, latency_ms: str) -> None:
    from pixconnect.features.sandbox.network import server  # noqa: PLC0415  only the child needs it

    settings = SandboxSettings(database_url=database_url, secrets=[SECRET], seed=1, latency_ms=int(latency_ms))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", int(port)))
        await server.serve(settings, listener, SystemClock(), stop, lambda: print(port, flush=True))  # noqa: T201


if __name__ == "__main__":
    import uvloop

    uvloop.run(_main(*sys.argv[1:]))
