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

from bench.harness.installation import Installation
from pixconnect.local import postgres_programs, postgres_tuning, process_death
from pixconnect.local.process_death import SystemUser

_NAME = "bench_standby"
_READY_TIMEOUT_S = 60
_STATE = "select sync_state from pg_stat_replication where application_name = $1"


@contextmanager
def standby(service: Installation) -> Iterator[int]:
    """Copy the service's database and let its commits wait for the copy, until the end; gives the copy's process."""
    user = postgres_programs.find_unprivileged_user() if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="pixconnect-standby-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        programs = postgres_programs.find_programs("18")
        if user is not None:
            shutil.chown(folder, user.name)
            programs = postgres_programs.make_runnable(programs, user, service.home / "postgres")
        _copy(service, folder / "data", user)
        process = _start(programs / "bin" / "postgres", folder, user)
        try:
            asyncio.run(_wait_for_it(service, _NAME))
            yield process.pid
        finally:
            asyncio.run(_wait_for_it(service, ""))  # otherwise every commit would wait for ever
            process.send_signal(signal.SIGINT)
            process.wait(_READY_TIMEOUT_S)


def _copy(service: Installation, data: Path, user: SystemUser | None) -> None:
    url = urlsplit(service.running["owner_database_url"])
    # The copy runs as the server's user, who may not read the wheel: so it is made as us and given away.
    program = postgres_programs.find_programs("18") / "bin" / "pg_basebackup"
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


async def _wait_for_it(service: Installation, name: str) -> None:
    """Let commits wait for the standby of this name, and wait until they do; for none where it is empty."""
    connection = await service.connect()
    try:
        await connection.execute(f"alter system set synchronous_standby_names = '{name}'")
        await connection.execute("select pg_reload_conf()")
        async with asyncio.timeout(_READY_TIMEOUT_S):
            while name and await connection.fetchval(_STATE, name) != "sync":  # noqa: ASYNC110  it is in the database
                await asyncio.sleep(0.05)
    finally:
        await connection.close()
