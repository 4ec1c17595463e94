"""The time to restore a server from a copy and the archived log, and the part of the log that would be lost.

``restore``: a server is filled and copied by ``pg_basebackup`` (``copy_s``) while ``pg_receivewal`` archives its log; a
quarter of the rows is rewritten (``log_mib``), and the server is killed. ``put_back_s`` is the copying of the folder,
``replay_s`` the time from the start of the restored server until it accepts writes. ``behind_ms`` is the greatest delay
of the archive on its disk, sampled ten times a second while rows are written: so much is lost with the machine.
Everything is on one disk and the same cores.
"""

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import uvloop

from bench.figures import Row
from pixconnect.platform.config import POSTGRES_NEWEST
from pixconnect.platform.local import postgres_placement
from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres

_READY_TIMEOUT_S = 600
_ROWS_IN_GIB = 1_000_000
_FILL = "create table filling as select n, repeat(md5(n::text), 32) as text from generate_series(1, $1::int) as n"
_WRITE = "update filling set text = reverse(text) where n % 4 = 0"
_LAG = "select extract(epoch from flush_lag) * 1000 from pg_stat_replication where application_name = 'bench_log'"
_KEPT = "select flush_lsn >= $1::text::pg_lsn from pg_stat_replication where application_name = 'bench_log'"


def measure_restore(gib: int) -> Iterator[Row]:
    """Restore a database of so many GiB."""
    yield uvloop.run(_measure(gib))


class _Keeper:
    """Copies a server with PostgreSQL's own programs, as the server's user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.user = postgres_placement.find_unprivileged_user() if os.geteuid() == 0 else None
        programs = postgres_placement.find_programs(POSTGRES_NEWEST)
        if self.user is not None:
            shutil.chown(folder, self.user.name)
            programs = postgres_placement.make_runnable(programs, self.user, folder)
        self._programs = programs / "bin"

    def start(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        path = self._programs / program
        user = None if self.user is None else self.user.uid
        return subprocess.Popen(
            [path if path.exists() else program, *words], cwd=self.folder, user=user, stderr=subprocess.DEVNULL
        )

    async def run(self, program: str, *words: str) -> float:
        """Run it to its end; returns the seconds."""
        began_s = time.monotonic()
        status = await asyncio.to_thread(self.start(program, *words).wait)
        if status != 0:
            raise RuntimeError(f"{program} has ended with {status}")
        return time.monotonic() - began_s


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pixconnect-restore-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o711)
        yield Path(name)


async def _measure(gib: int) -> Row:
    with _folder() as home, _folder() as copies:
        keeper, server = _Keeper(copies), EmbeddedPostgres(home)
        url = server.owner_url
        await server.start()
        connection = await asyncpg.connect(url)
        await connection.execute("alter system set unix_socket_directories = '" + str(copies) + "'")
        await connection.execute(_FILL.replace("$1", str(gib * _ROWS_IN_GIB)))
        wal = copies / "wal"
        await keeper.run("mkdir", str(wal))
        to_log = (f"--dbname={url}&application_name=bench_log", f"--directory={wal}", "--slot=bench_log")
        await keeper.run("pg_receivewal", *to_log, "--create-slot", "--if-not-exists")
        keeping = keeper.start("pg_receivewal", *to_log, "--synchronous")
        try:
            copy_s = await keeper.run("pg_basebackup", f"--dbname={url}", "--pgdata=base", "--checkpoint=fast")
            written = await _write(connection, url)
        finally:
            await connection.close()
            await server.stop(timeout_s=0)
            keeping.terminate()
            keeping.wait()
        return {"name": f"restore_{gib}", "gib": gib, "copy_s": copy_s} | written | await _put_back(keeper, url)


async def _write(connection: asyncpg.Connection, url: str) -> Row:
    watching = await asyncpg.connect(url)
    began = await connection.fetchval("select pg_current_wal_lsn()::text")
    writing = asyncio.create_task(connection.execute(_WRITE))
    lags = [0.0]
    while not writing.done():
        lags.append(float(await watching.fetchval(_LAG) or 0))
        await asyncio.sleep(0.1)
    await writing
    end = await watching.fetchval("select pg_current_wal_flush_lsn()::text")
    log_octets = int(await watching.fetchval("select pg_wal_lsn_diff($1::text::pg_lsn, $2::text::pg_lsn)", end, began))
    async with asyncio.timeout(_READY_TIMEOUT_S):
        while not await watching.fetchval(_KEPT, end):  # noqa: ASYNC110  it is in the database
            await asyncio.sleep(0.1)
    await watching.close()
    return {"log_mib": log_octets / 2**20, "behind_ms": max(lags)}


async def _put_back(keeper: _Keeper, url: str) -> Row:
    put_back_s = await keeper.run("cp", "-a", "base", "restored")
    wal, restored = keeper.folder / "wal", keeper.folder / "restored"
    with (restored / "postgresql.auto.conf").open("a") as settings:
        settings.write(f"restore_command = 'cp {wal}/%f %p || cp {wal}/%f.partial %p'\n")
    await keeper.run("touch", str(restored / "recovery.signal"))
    began_s = time.monotonic()
    running = keeper.start("postgres", "-D", str(restored))
    try:
        address = url.partition("?")[0] + f"?host={keeper.folder}"
        async with asyncio.timeout(_READY_TIMEOUT_S):
            while not await _takes_writes(address):  # noqa: ASYNC110  it is another process
                await asyncio.sleep(0.1)
        return {"put_back_s": put_back_s, "replay_s": time.monotonic() - began_s}
    finally:
        running.terminate()
        running.wait()


async def _takes_writes(url: str) -> bool:
    try:
        connection = await asyncpg.connect(url)
    except (OSError, asyncpg.PostgresError):
        return False
    try:
        return not await connection.fetchval("select pg_is_in_recovery()")
    finally:
        await connection.close()
