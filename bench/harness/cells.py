"""A service in several cells to measure: PostgreSQL servers of their own for them on this machine, and a holder in each."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlsplit

import asyncpg
import msgspec
from msgspec import Struct

from bench.harness.installation import DEPOSIT_CENTS, Account, Installation, installed
from bench.harness.processes import CpuMeter, descendants
from pixconnect.local.embedded_postgres import EmbeddedPostgres
from pixconnect.local.home import write_private
from pixconnect.local.postgres_placement import PLACEMENT_FILE, Placement
from support.logical_postgres import LogicalPostgres

Answer = TypeVar("Answer")

HOME = "home"
QUIET = {"PIXCONNECT_LOG_LEVEL": "error"}
"""Settings where cells are away: that is logged again and again."""
_CONNECTIONS_MAX = 300
_DEPOSITS = 10
_TRIES_MAX = 60
_serial = count(1)


class InCell(Installation):
    """A service as it is for those who are in one cell of it: its holder there, and its database.

    Attributes:
        name: The cell's.
    """

    def __init__(self, service: Installation, name: str, owner_url: str) -> None:
        super().__init__(service.home, service.process, service.ready_s)
        self.name = name
        self._account: Account | None = None
        self.running["owner_database_url"] = owner_url
        holder_id = self.verb("holder", "create", *_a_holder(), "--no-limits", "--cell", name)["holder_id"]
        key = f"holder-{holder_id}@bench.example"
        self.verb("key", "add", "--holder-id", str(holder_id), "--key-type", "EMAIL", "--key", key)
        client = self.verb("client", "create", "--holder-id", str(holder_id))
        self.sandbox |= {"holder_id": holder_id, "pix_keys": [key]}
        self.sandbox |= {word: client[word] for word in ("client_id", "client_secret")}

    def verb(self, *words: str) -> dict[str, Any]:
        """What an operator's verb answers."""
        done = run_verb(self.home, *words, "--json")
        if done.returncode:
            raise SystemExit(f"pixconnect {' '.join(words)}: {done.stderr}")
        return json.loads(done.stdout)

    def demonstration(self) -> Account:
        """Its holder; logged in once, since a cell that is away lets nobody in."""
        if self._account is None:
            self._account = _insist(super().demonstration)
        return self._account

    def post(self, path: str, body: object, token: str) -> dict[str, Any]:
        """As of any service, and again where it is too busy to know who asks."""
        return _insist(lambda: super(InCell, self).post(path, body, token))

    def fund(self) -> Account:
        """Its holder, with money."""
        account = self.demonstration()
        for _ in range(_DEPOSITS):
            self.post("/sandbox/v1/deposits", {"amount": DEPOSIT_CENTS}, account.token)
        return account


class CellServer:
    """A PostgreSQL server for cells, with the logins of the home cell's."""

    def __init__(self, folder: Path, placement: Placement, *, logs_rows: bool) -> None:
        folder.mkdir(mode=0o711)
        write_private(folder / PLACEMENT_FILE, msgspec.json.encode(placement))
        kind = LogicalPostgres if logs_rows else EmbeddedPostgres
        self._postgres = kind(folder, connections_max=_CONNECTIONS_MAX)
        # The server ends with the thread that has started it, so this one is there as long as the server.
        self._thread = ThreadPoolExecutor(1)

    def await_death(self) -> None:
        """Until its first process is gone, which was killed."""
        assert self._postgres.process is not None
        self._postgres.process.wait()

    @property
    def pid(self) -> int:
        """Of its first process."""
        assert self._postgres.process is not None
        return self._postgres.process.pid

    def start(self) -> None:
        """Start it, again if it was killed."""
        self._thread.submit(lambda: asyncio.run(self._postgres.start())).result()

    def stop(self) -> None:
        self._thread.submit(lambda: asyncio.run(self._postgres.stop())).result()
        self._thread.shutdown()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes."""
        for pid in [self.pid, *descendants(self.pid)]:
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(pid, number)

    def url_of(self, database: str) -> str:
        """A database's address as its owner."""
        return urlsplit(self._postgres.owner_url)._replace(path=f"/{database}").geturl()

    def address_of(self, database: str) -> str:
        """The same without the login."""
        return f"postgresql:///{database}?{urlsplit(self._postgres.owner_url).query}"

    def make_database(self) -> str:
        """An empty one; its name."""
        name = f"cell_{next(_serial)}"
        self._execute(f"create database {name} template template0")
        return name

    def drop_others(self, name: str) -> None:
        """Drop all databases of cells but this one."""
        for other in self._fetch("select datname from pg_database where datname ~ '^(cell|pixconnect_moved)_'"):
            if other != name:
                self._execute(f"drop database {other} with (force)")

    def _execute(self, statement: str) -> None:
        asyncio.run(_execute(self.url_of("postgres"), statement))

    def _fetch(self, query: str) -> Sequence[str]:
        return asyncio.run(_fetch(self.url_of("postgres"), query))


class Spread(Struct, frozen=True, kw_only=True):
    """A service in several cells."""

    service: Installation
    servers: Sequence[CellServer]
    """Beside the home cell's."""
    cells: Sequence[InCell]
    """The home cell first."""

    def meter(self, **others: int) -> CpuMeter:
        """Of all its processes, and of all its servers."""
        return CpuMeter(self.service.process.pid, beside=[each.pid for each in self.servers], **others)


@contextmanager
def spread(
    cells_count: int,
    servers_count: int,
    *,
    logs_rows: bool = False,
    is_proved: bool = True,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Spread]:
    """A service in so many cells on so many servers; proved and stopped at the end.

    Args:
        cells_count: With the home cell.
        servers_count: With the home cell's; the others have the other cells in turn.
        logs_rows: Whether the others' log is one that logical replication can read, so that cells can be moved.
        is_proved: As of ``installed``.
        settings: As in the environment.
    """
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="pixconnect-", ignore_cleanup_errors=True))
        )
        folder.chmod(0o711)
        # All servers must know the same passwords, which the service would draw itself on a home without this file.
        passwords = [secrets.token_urlsafe(24) for _ in range(2)]
        placement = Placement(folder="postgres", owner_password=passwords[0], login_password=passwords[1])
        home = folder / HOME
        home.mkdir(mode=0o711)
        write_private(home / PLACEMENT_FILE, msgspec.json.encode(placement))
        servers = [
            CellServer(folder / f"server-{number}", placement, logs_rows=logs_rows)
            for number in range(1, servers_count)
        ]
        for each in servers:
            each.start()
            stack.callback(each.stop)
        service = stack.enter_context(installed(home, is_proved=is_proved, **(settings or {})))
        cells = [InCell(service, HOME, service.running["owner_database_url"])]
        for number in range(1, cells_count):
            name, server = f"cell-{number}", servers[(number - 1) % len(servers)]
            database = server.make_database()
            cells[0].verb("cell", "add", name, "--database-url", server.address_of(database))
            cells.append(InCell(service, name, server.url_of(database)))
        for cell in cells:
            cell.fund()
        yield Spread(service=service, servers=servers, cells=cells)


def run_verb(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run one verb to its end."""
    environment = {**os.environ, "PIXCONNECT_HOME": str(home)}
    command = [sys.executable, "-m", "pixconnect", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def _insist(ask: Callable[[], Answer]) -> Answer:
    tries = count(1)
    while True:
        try:
            return ask()
        except HTTPError as error:
            if error.code != HTTPStatus.SERVICE_UNAVAILABLE or next(tries) == _TRIES_MAX:
                raise
            time.sleep(0.5)


def _a_holder() -> Sequence[str]:
    return ("--name", "Maria Silva", "--tax-id", "52998224725", "--account-number", f"6{next(_serial):06}")


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def _fetch(url: str, query: str) -> Sequence[str]:
    connection = await asyncpg.connect(url)
    try:
        return [row[0] for row in await connection.fetch(query)]
    finally:
        await connection.close()
