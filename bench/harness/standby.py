"""A second PostgreSQL beside a service's own, from the same wheel, that every commit waits for: a synchronous standby.

It is on the same machine, cores and disk, so what it takes is no smaller than elsewhere; only the network is missing.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from bench.harness.installation import Installation
from bench.harness.processes import stopped_processes
from pixconnect.config import POSTGRES_NEWEST
from pixconnect.local import postgres_programs, postgres_tuning, process_death
from pixconnect.local.process_death import SystemUser

_NAME = "bench_standby"
_READY_TIMEOUT_S = 60
# It may stand still for long without being given up, and what it has not read meanwhile must not be removed.
_PATIENT = ("wal_sender_timeout = 0", "wal_keep_size = '4GB'")
_WRITTEN = "select pg_current_wal_flush_lsn()::text"
_SYNC = "select sync_state = 'sync' from pg_stat_replication where application_name = $1"
_CAUGHT_UP = "select replay_lsn >= $2::text::pg_lsn from pg_stat_replication where application_name = $1"


class Standby:
    """A standby that commits wait for.

    Attributes:
        pid: Of its first process.
    """

    def __init__(self, service: Installation, pid: int) -> None:
        self.pid = pid
        self._service = service

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """As if it were not there: no commit waits for it, and it takes nothing of the machine."""
        self.let_commits_wait(is_waited_for=False)
        with stopped_processes(self.pid, "postgres"):
            yield
        self.let_commits_wait(is_waited_for=True)

    def let_commits_wait(self, *, is_waited_for: bool) -> None:
        """Let commits wait for it, once it has all that was written before, or for nobody."""
        asyncio.run(self._let_commits_wait(is_waited_for=is_waited_for))

    async def _let_commits_wait(self, *, is_waited_for: bool) -> None:
        connection = await self._service.connect()
        try:
            async with asyncio.timeout(_READY_TIMEOUT_S):
                if is_waited_for:
                    await _until(connection, _CAUGHT_UP, _NAME, await connection.fetchval(_WRITTEN))
                await connection.execute(f"alter system set synchronous_standby_names = '{_NAME * is_waited_for}'")
                await connection.execute("select pg_reload_conf()")
                if is_waited_for:
                    await _until(connection, _SYNC, _NAME)
        finally:
            await connection.close()


@contextmanager
def standby(service: Installation) -> Iterator[Standby]:
    """Copy the service's database and let its commits wait for the copy, until the end."""
    user = postgres_programs.find_unprivileged_user() if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="pixconnect-standby-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        programs = postgres_programs.find_programs(POSTGRES_NEWEST)
        if user is not None:
            shutil.chown(folder, user.name)
            programs = postgres_programs.make_runnable(programs, user, service.home / "postgres")
        asyncio.run(_be_patient(service))
        _copy(service, folder / "data", user)
        process = _start(programs / "bin" / "postgres", folder, user)
        beside = Standby(service, process.pid)
        try:
            beside.let_commits_wait(is_waited_for=True)
            yield beside
        finally:
            beside.let_commits_wait(is_waited_for=False)  # otherwise every commit would wait for ever
            process.send_signal(signal.SIGINT)
            process.wait(_READY_TIMEOUT_S)


def _copy(service: Installation, data: Path, user: SystemUser | None) -> None:
    url = urlsplit(service.running["owner_database_url"])
    # The copy runs as the server's user, who may not read the wheel: so it is made as us and given away.
    program = postgres_programs.find_programs(POSTGRES_NEWEST) / "bin" / "pg_basebackup"
    place = f"host={parse_qs(url.query)['host'][0]} user={url.username} application_name={_NAME}"
    command = [program, "-D", data, "-X", "stream", "-c", "fast", "-R", "-d", place]
    subprocess.run(command, env={**os.environ, "PGPASSWORD": unquote(url.password or "")}, check=True)
    if user is not None:
        for path in [data, *data.rglob("*")]:
            os.chown(path, user.uid, user.gid)


def _start(program: Path, folder: Path, user: SystemUser | None) -> subprocess.Popen[bytes]:
    machine = postgres_tuning.look_at_machine(folder)
    settings = postgres_tuning.server_settings(machine, connections_max=100, durable=True)
    settings |= {"unix_socket_directories": str(folder), "hot_standby": "on"}
    words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    command = process_death.bind_to_parent([program, "-D", folder / "data", *words], signal.SIGINT, user)
    return subprocess.Popen(
        command, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


async def _be_patient(service: Installation) -> None:
    connection = await service.connect()
    for setting in _PATIENT:
        await connection.execute(f"alter system set {setting}")
    await connection.execute("select pg_reload_conf()")
    await connection.close()


async def _until(connection: asyncpg.Connection[asyncpg.Record], query: str, *arguments: str) -> None:
    while not await connection.fetchval(query, *arguments):  # noqa: ASYNC110  it is in the database
        await asyncio.sleep(0.05)
