"""The PostgreSQL servers that chaos breaks: the home's, which its supervisor starts, and a cell's, which is started here."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import parse_qs, urlsplit

import asyncpg
import msgspec

from pixconnect.local import embedded_postgres, postgres_placement
from pixconnect.local.postgres_placement import Placement
from pixconnect.local.postgres_programs import PostgresUnavailableError
from support import postgres
from support.chaos.wires import Cable
from support.cut_connections import Wire
from support.installation import Installation, command_line, descendants
from support.logical_postgres import LogicalPostgres
from support.loop_thread import LoopThread

DATABASE: Final = "cell"
"""A cell's. The server makes one of its own name again wherever that is missing, and a cell that moves leaves its name free."""
AWAY: Final = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, TimeoutError)
_CONNECTIONS_MAX: Final = 200
_REVIVED_AFTER_S: Final = 0.2
_SOCKET_NAME: Final = ".s.PGSQL.5432"
_BACKENDS: Final = ("postgres: pixconnect_login", "walwriter", "checkpointer", "autovacuum")
_WRITERS: Final = ("walwriter", "checkpointer", "background writer")


class Server(ABC):
    """One server, and the wire by which it is reached.

    Args:
        cable: By which the service's processes reach it.
        disk: Where its files are a small file system that can be filled.
    """

    def __init__(self, cable: Cable, disk: Path | None) -> None:
        self.cable, self._disk = cable, disk

    @property
    @abstractmethod
    def pid(self) -> int: ...

    @property
    @abstractmethod
    def owner_url(self) -> str: ...

    def choose_backend(self, chance: Random) -> int:
        return chance.choice(self._list_processes(_BACKENDS))

    def list_writers(self) -> list[int]:
        """Those who write in the background."""
        return self._list_processes(_WRITERS)

    def _list_processes(self, words: Sequence[str]) -> list[int]:
        return [pid for pid in descendants(self.pid) if any(word in command_line(pid) for word in words)]

    def execute(self, *statements: str) -> None:
        for statement in statements:
            postgres.execute(self.owner_url, statement)

    def insist(self, *statements: str) -> None:
        for _ in range(600):
            with suppress(*AWAY):
                self.execute(*statements)
                return
            time.sleep(0.5)
        raise AssertionError("the database does not come back")

    def keep_little(self) -> None:
        """Otherwise what is written for a crash would fill its disk, and nothing else would have to."""
        if self._disk is not None:
            self.execute("alter system set max_wal_size = '192MB'", "select pg_reload_conf()")

    def fill(self, *, is_full: bool) -> None:
        """Fill its disk, or make room there.

        Raises:
            LookupError: It has no disk of its own.
        """
        if self._disk is None:
            if is_full:
                raise LookupError("its home is no file system of its own")
            return
        file = self._disk / "ballast"
        if not is_full:
            file.unlink(missing_ok=True)
            return
        with suppress(OSError), file.open("wb", buffering=0) as ballast:  # until nothing is left
            while True:
                ballast.write(bytes(65536))


class HomeServer(Server):
    def __init__(self, installation: Installation, cable: Cable, disk: Path | None) -> None:
        super().__init__(cable, disk)
        self._installation = installation

    @property
    def pid(self) -> int:
        return self._installation.database_pid

    @property
    def owner_url(self) -> str:
        return json.loads((self._installation.home / "running.json").read_text())["owner_database_url"]


class CellServer(Server):
    """One that has the logins of an installation, with an empty database for a cell; whenever it ends it is started again.

    Args:
        home: A folder for its files, which does not exist yet.
        like: The home of the installation.
        disk: As for any.
    """

    def __init__(self, home: Path, like: Path, disk: Path | None) -> None:
        home.mkdir()
        home.chmod(0o711)
        self.home = home
        record = msgspec.json.decode((like / postgres_placement.PLACEMENT_FILE).read_bytes(), type=Placement)
        own = msgspec.structs.replace(record, folder="postgres")
        (home / postgres_placement.PLACEMENT_FILE).write_bytes(msgspec.json.encode(own))
        self._postgres = LogicalPostgres(home, connections_max=_CONNECTIONS_MAX)
        socket_folder = parse_qs(urlsplit(self._postgres.owner_url).query)["host"][0]
        self._near = Path(tempfile.mkdtemp(prefix="wire-"))
        self._near.chmod(0o711)  # another cell server, which runs as another user, follows this one by the same wire
        self._thread = LoopThread("cell server")
        super().__init__(Cable(Wire(f"{socket_folder}/{_SOCKET_NAME}"), self._thread), disk)
        self._listener = self._thread.ask(self._listen())
        self._keeping = asyncio.run_coroutine_threadsafe(self._keep(), self._thread.loop)
        self.insist("select 1")
        self.make_empty()
        self.keep_little()

    @property
    def pid(self) -> int:
        process = self._postgres.process
        if process is None or process.poll() is not None:
            raise LookupError("the server of the cell is not there")
        return process.pid

    @property
    def owner_url(self) -> str:
        """Of its own database; by no wire."""
        return self._postgres.owner_url

    @property
    def cell_url(self) -> str:
        """Of the cell's database, as its owner; by no wire."""
        return self.owner_url.replace(f"@/{embedded_postgres.DATABASE}?", f"@/{DATABASE}?")

    @property
    def address(self) -> str:
        """As ``pixconnect cell`` wants it: without a login, and by the wire."""
        return f"postgresql:///{DATABASE}?host={self._near}"

    def make_empty(self) -> None:
        """Make the empty database of a cell that is to come here, and forget what is left of one that has gone."""
        for name in asyncio.run(_list_databases(self.owner_url)):
            asyncio.run(_unsubscribe(self.owner_url.replace(f"@/{embedded_postgres.DATABASE}?", f"@/{name}?")))
            self.execute(f"drop database {name} with (force)")
        self.execute(f"create database {DATABASE} template template0")

    def end(self) -> None:
        self._keeping.cancel()
        self._thread.ask(self._close())
        self._thread.end()
        shutil.rmtree(self._near, ignore_errors=True)

    async def _listen(self) -> asyncio.Server:
        listener = await asyncio.start_unix_server(self.cable.wire.accept, self._near / _SOCKET_NAME)
        (self._near / _SOCKET_NAME).chmod(0o777)
        return listener

    async def _keep(self) -> None:
        while True:
            with suppress(PostgresUnavailableError, *AWAY):
                await self._postgres.start()
                await self._postgres.wait_for_end()
            await asyncio.sleep(_REVIVED_AFTER_S)

    async def _close(self) -> None:
        self._listener.close()
        self.cable.wire.is_away = True
        await self.cable.wire.end()
        await self._postgres.stop(timeout_s=2)


class CellPlaces:
    """The servers between which a cell moves, and where it is.

    Attributes:
        is_moving: A move was begun: the cell may be at either.
    """

    def __init__(self, first: CellServer, second: CellServer) -> None:
        self.all = first, second
        self._place = 0
        self.is_moving = False

    @property
    def current(self) -> CellServer:
        return self.all[self._place]

    @property
    def other(self) -> CellServer:
        return self.all[1 - self._place]

    def choose(self, chance: Random) -> CellServer:
        """The one to be broken: of a move both."""
        return chance.choice(self.all) if self.is_moving else self.current

    def turn(self) -> None:
        self._place = 1 - self._place


async def _list_databases(url: str) -> list[str]:
    """All that the server has not made for itself."""
    connection = await asyncpg.connect(url, timeout=30)
    try:
        query = "select datname from pg_database where not datistemplate and datname <> all($1)"
        return [row[0] for row in await connection.fetch(query, ["postgres", embedded_postgres.DATABASE])]
    finally:
        await connection.close()


async def _unsubscribe(url: str) -> None:
    """End what a database follows: otherwise it cannot be dropped."""
    connection = await asyncpg.connect(url, timeout=30)
    try:
        own = "subdbid = (select oid from pg_database where datname = current_database())"
        for row in await connection.fetch(f"select subname from pg_subscription where {own}"):
            for change in ("alter subscription {} disable", "alter subscription {} set (slot_name = none)"):
                await connection.execute(change.format(row[0]))
            await connection.execute(f"drop subscription {row[0]}")
    finally:
        await connection.close()
