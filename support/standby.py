"""A standby of an embedded server, copied from it: the primary's commits wait for it, and it can take over."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import msgspec

from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres
from pixconnect.platform.local.postgres_placement import find_unprivileged_user
from support.home import new_home
from support.postgres import Addresses, make_copy, make_template

_START_TIMEOUT_S = 60
CLUSTER = "pair"
_SETTINGS = dict(
    shared_buffers="32MB",
    max_connections="100",
    listen_addresses="",
    wal_receiver_status_interval="1s",
    cluster_name=CLUSTER,
    max_standby_streaming_delay="0",  # replaying a lock cancels queries at once
    hot_standby_feedback="on",  # and no clean-up of the primary's cancels one
)


class Standby:
    """A server that follows another until it is promoted; its addresses have the primary's logins."""

    def __init__(self, primary: EmbeddedPostgres, addresses: Addresses, folder: Path) -> None:
        self._primary = primary
        self._folder = folder
        self._data = folder / "data"
        self._user = find_unprivileged_user() if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        socket_folder = parse_qs(urlsplit(addresses.owner_url).query)["host"][0]
        self.addresses = msgspec.structs.replace(
            addresses,
            owner_url=addresses.owner_url.replace(socket_folder, str(folder)),
            service_url=addresses.service_url.replace(socket_folder, str(folder)),
        )

    def copy(self) -> None:
        query = parse_qs(urlsplit(self._primary.owner_url).query)
        where = urlsplit(self._primary.owner_url)
        words = f"host={query['host'][0]} user={where.username} password={where.password} application_name=standby"
        programs = self._primary.programs / "bin"
        command = [programs / "pg_basebackup", "-D", self._data, "-d", words, "-R", "-c", "fast", "--no-sync"]
        subprocess.run(command, check=True, capture_output=True)
        if self._user is not None:
            for found in (self._folder, self._data, *self._data.rglob("*")):
                os.chown(found, self._user.uid, self._user.gid)

    def start(self) -> None:
        settings = _SETTINGS | {"unix_socket_directories": str(self._folder)}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        found = sorted(self._primary.data_folder.parent.glob("programs-*/*/*/bin")) or [self._primary.programs / "bin"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [found[0] / "postgres", "-D", self._data, *words],
                user=None if self._user is None else self._user.uid,
                group=None if self._user is None else self._user.gid,
                stdout=log,
                stderr=log,
                cwd="/",
                env=dict(LC_ALL="C", PATH="/usr/bin:/bin"),
                start_new_session=True,
            )

    async def ask(self, statement: str) -> object:
        connection = await asyncpg.connect(self.addresses.owner_url)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    async def wait_until_there(self) -> None:
        async with asyncio.timeout(_START_TIMEOUT_S):
            while True:
                try:
                    await self.ask("select 1")
                except (OSError, asyncpg.PostgresError):
                    await asyncio.sleep(0.1)
                else:
                    return

    async def promote(self) -> None:
        assert await self.ask("select pg_promote()")

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        self._send(signal.SIGSTOP)
        try:
            yield
        finally:
            self._send(signal.SIGCONT)

    def end(self) -> None:
        if self._process is None:
            return
        self._send(signal.SIGKILL)
        self._process.wait()
        self._process = None

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None
        leader = str(self._process.pid)
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if leader in {words[1], process.name}:
                os.kill(int(process.name), number)


@asynccontextmanager
async def open_pair(*, waits: bool = True) -> AsyncIterator[tuple[EmbeddedPostgres, Addresses, Standby]]:
    """A migrated primary and a standby, for which each commit waits unless ``waits`` says otherwise."""
    with new_home() as home, new_home() as folder:
        primary = EmbeddedPostgres(home, connections_max=100)
        try:
            await primary.start()
            addresses = Addresses(owner_url=primary.owner_url, service_url=primary.login_url)
            await make_template(addresses.owner_url)
            addresses = await make_copy(addresses, "together")
            connection = await asyncpg.connect(primary.owner_url)
            await connection.execute(f"alter system set cluster_name = '{CLUSTER}'")
            await connection.close()
            await primary.stop(timeout_s=5)
            await primary.start()
            standby = Standby(primary, addresses, folder)
            await asyncio.to_thread(standby.copy)
            standby.start()
            try:
                await standby.wait_until_there()
                if waits:
                    await _demand(primary)
                yield primary, addresses, standby
            finally:
                standby.end()
        finally:
            await primary.stop(timeout_s=1)
            shutil.rmtree(folder / "data", ignore_errors=True)


async def _demand(primary: EmbeddedPostgres) -> None:
    connection = await asyncpg.connect(primary.owner_url)
    try:
        await connection.execute("alter system set synchronous_standby_names = 'standby'")
        await connection.execute("select pg_reload_conf()")
        async with asyncio.timeout(_START_TIMEOUT_S):
            while await connection.fetchval("select count(*) from pg_stat_replication where sync_state = 'sync'") != 1:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        await connection.close()
