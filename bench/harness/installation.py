"""A durable service to measure, in a home of its own, which is stopped at the end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
from msgspec import Struct

from pixconnect.doors.cli import operating
from pixconnect.features.identity.service import access as access_usecases
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows.context import Operator
from pixconnect.kernel.rules.access import SCOPES, IssuedClient
from support.records import a_new_holder

STARTUP_TIMEOUT_S = 60
STOP_TIMEOUT_S = 10
QUIET_TIMEOUT_S = 600
DEPOSIT_CENTS = 1_000_000_00
_ONBOARDED_AT_ONCE = 8
_TOKEN_KEPT_S = 120


class Account:
    """A holder's client; ``log_in`` returns an access token with all scopes."""

    def __init__(self, holder_id: int, log_in: Callable[[], str]) -> None:
        self.holder_id = holder_id
        self._log_in = log_in
        self._token = ""
        self._logged_in_s = float("-inf")

    @property
    def token(self) -> str:
        """An access token that is valid for at least three more minutes."""
        if time.monotonic() - self._logged_in_s > _TOKEN_KEPT_S:
            self._token, self._logged_in_s = self._log_in(), time.monotonic()
        return self._token


class Backlog(Struct, frozen=True, kw_only=True):
    """Accepted work: transfers that the rail has not settled, and webhooks that are not confirmed."""

    orders_count: int
    deliveries_count: int


NOTHING_LEFT = Backlog(orders_count=0, deliveries_count=0)


class Installation:
    """A running ``pixconnect run``."""

    def __init__(self, home: Path, process: subprocess.Popen[bytes], ready_s: float) -> None:
        self.home = home
        self.process = process
        self.ready_s = ready_s
        self.sandbox: dict[str, Any] = json.loads((home / "sandbox.json").read_text())
        self.running: dict[str, Any] = json.loads((home / "running.json").read_text())

    @property
    def base_url(self) -> str:
        return self.sandbox["base_url"]

    def demonstration(self) -> Account:
        log_in = partial(self._log_in, self.sandbox["client_id"], self.sandbox["client_secret"])
        return Account(int(self.sandbox["holder_id"]), log_in)

    def onboard(self, count: int, **changes: str) -> list[Account]:
        """New holders with funds and a client each; ``changes`` override the defaults."""
        os.environ["PIXCONNECT_HOME"] = str(self.home)  # as in the operator's verbs, with the same use cases
        clients = operating.run(lambda context: _make_clients(context, count, changes))

        def open_account(issued: IssuedClient) -> Account:
            log_in = partial(self._log_in, issued.client.client_id, issued.client_secret)
            account = Account(issued.client.holder_id, log_in)
            self.post("/sandbox/v1/deposits", {"amount": DEPOSIT_CENTS}, account.token)
            return account

        with ThreadPoolExecutor(_ONBOARDED_AT_ONCE) as threads:
            return list(threads.map(open_account, clients))

    def open_charge(self, account: Account) -> dict[str, Any]:
        """A charge of a cent with a key that is made once for each holder."""
        os.environ["PIXCONNECT_HOME"] = str(self.home)
        key = f"holder-{account.holder_id}@bench.example"
        operating.run(lambda context: holder_usecases.add_pix_key(context, account.holder_id, "EMAIL", key))
        return self.post("/v1/connect/charge", {"amount": 1, "key": key}, account.token)

    def add_endpoint(self, account: Account, url: str, *event_types: str) -> int:
        """Create a webhook endpoint of a holder, and return its id."""
        body = {"url": url, "secret": "a secret of the benchmark", "event_types": event_types or ["qrcode.pending"]}
        return int(self.post("/v1/webhook/endpoints", body, account.token)["id"])

    def post(self, path: str, body: object, token: str) -> dict[str, Any]:
        """``data`` of a successful response."""
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        return _open(urllib.request.Request(self.base_url + path, json.dumps(body).encode(), headers))  # noqa: S310

    async def connect(self) -> asyncpg.Connection[asyncpg.Record]:
        """A connection as the tables' owner, without the service's timeouts."""
        return await asyncpg.connect(
            self.running["owner_database_url"], server_settings={"search_path": "pixconnect", "enable_seqscan": "off"}
        )

    def wait_until_quiet(self) -> float:
        """Wait until everything accepted is finished; returns the seconds."""
        return asyncio.run(self.until_quiet())

    async def until_quiet(self) -> float:
        """The same for a coroutine."""
        started_s = time.monotonic()
        connection = await self.connect()
        try:
            async with asyncio.timeout(QUIET_TIMEOUT_S):
                while await read_backlog(connection) != NOTHING_LEFT:  # noqa: ASYNC110  it is in the database
                    await asyncio.sleep(0.2)
        finally:
            await connection.close()
        return time.monotonic() - started_s

    def _log_in(self, client_id: str, client_secret: str) -> str:
        form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": client_secret}
        url = self.sandbox["auth_url"] + "/v1/iam/users/login"
        return _open(urllib.request.Request(url, urllib.parse.urlencode(form).encode()))["access_token"]  # noqa: S310


async def read_backlog(connection: asyncpg.Connection[asyncpg.Record]) -> Backlog:
    """The unfinished work at this moment."""
    row = await connection.fetchrow(
        """select (select count(*) from open_order) as orders_count,
                  (select count(*) from delivery where status = 'pending') as deliveries_count"""
    )
    assert row is not None
    return Backlog(orders_count=row["orders_count"], deliveries_count=row["deliveries_count"])


async def _make_clients(context: Operator, count: int, changes: Mapping[str, str]) -> list[IssuedClient]:
    issued: list[IssuedClient] = []
    for number in range(count):
        holder = await holder_usecases.create_holder(context, a_new_holder(account_number=f"7{number:06}", **changes))
        issued.append(await access_usecases.create_client(context, holder.id, "bench", SCOPES))
    return issued


def _open(request: urllib.request.Request) -> dict[str, Any]:
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return json.load(answer)["data"]


@contextmanager
def installed(
    home: Path | None = None, *, python: str = sys.executable, is_proved: bool = True, **settings: str
) -> Iterator[Installation]:
    """Start a service on a home (by default a new one), check its books with ``verify`` at the end, and stop it.

    ``is_proved`` is false if a measure writes rows without use cases, because such books are not right.
    """
    with tempfile.TemporaryDirectory(prefix="pixconnect-bench-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o711)
        where = home or Path(folder) / "home"
        environment = {
            **os.environ, "PIXCONNECT_HOME": str(where), "PORT": "0", "PIXCONNECT_LOG_LEVEL": "warning", **settings,
        }  # fmt: skip
        started_s = time.monotonic()
        (where / "sandbox.json").unlink(missing_ok=True)
        process = subprocess.Popen([python, "-m", "pixconnect", "run"], env=environment, stdout=subprocess.DEVNULL)
        try:
            while not (where / "sandbox.json").exists():
                if process.poll() is not None or time.monotonic() - started_s > STARTUP_TIMEOUT_S:
                    raise SystemExit("the service did not start")
                time.sleep(0.01)
            service = Installation(where, process, time.monotonic() - started_s)
            yield service
            # A measure may have stopped it already.
            if is_proved and process.poll() is None:
                _prove(service)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_TIMEOUT_S)


def _prove(service: Installation) -> None:
    """Check the books, since a figure is worthless if the service loses a cent on the way."""
    ran = subprocess.run(
        [sys.executable, "-m", "pixconnect", "verify", "--whole", "--again-after-s", "5", "--json"],
        env={**os.environ, "PIXCONNECT_HOME": str(service.home)},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise SystemExit(f"verify has ended with {ran.returncode}: {ran.stdout[-2000:]}{ran.stderr[-2000:]}")
