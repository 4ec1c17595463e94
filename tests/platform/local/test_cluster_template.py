"""A new home copies a finished cluster, and no two copies are taken for one another."""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import asyncpg
import pytest

from pixconnect.platform.config import POSTGRES_NEWEST, PostgresVersion
from pixconnect.platform.local import cluster_template
from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres
from pixconnect.platform.local.home import closed_mode
from pixconnect.platform.local.postgres_placement import LOGIN_ROLE
from pixconnect.platform.local.process_death import SystemUser
from support.postgres import ask


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = make_home(tmp_path_factory.mktemp("made"))

    async def make() -> Path:
        postgres = EmbeddedPostgres(home, durable=False)
        await postgres.start()
        await ask(postgres.owner_url, "create table found (one int)")
        await postgres.stop()
        return postgres.data_folder

    path = tmp_path_factory.mktemp("kept") / "tables"
    cluster_template.keep(asyncio.run(make()), path)
    return path


def make_home(folder: Path) -> Path:
    for each in (folder.parent, folder):
        each.chmod(closed_mode())
    return folder


class Copies:
    """Servers that were started on new homes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[EmbeddedPostgres] = []
        self.told: list[str] = []

    async def start(self, find: Callable[[PostgresVersion], Path | None]) -> EmbeddedPostgres:
        home = self._folder / str(len(self._started))
        home.mkdir()
        postgres = EmbeddedPostgres(make_home(home), find_template=find, report=self.told.append)
        self._started.append(postgres)
        await postgres.start()
        return postgres

    async def stop(self) -> None:
        for postgres in self._started:
            await postgres.stop()


@pytest.fixture
async def copies(home_folder: Path) -> AsyncIterator[Copies]:
    made = Copies(home_folder)
    yield made
    await made.stop()


IDENTIFIER = "select system_identifier from pg_control_system()"


async def test_copies_differ_in_their_identifier_and_passwords(copies: Copies, template: Path) -> None:
    asked: list[PostgresVersion] = []

    def find(version: PostgresVersion) -> Path:
        asked.append(version)
        return template

    one, two = [await copies.start(find) for _ in range(2)]
    assert asked == [POSTGRES_NEWEST] * 2
    assert await ask(one.owner_url, IDENTIFIER) != await ask(two.owner_url, IDENTIFIER)
    for postgres in (one, two):
        assert await ask(postgres.owner_url, "select count(*) from found") == 0
        assert await ask(postgres.owner_url, "show data_checksums") == "on"
        assert await ask(postgres.login_url, "select current_user") == LOGIN_ROLE
        assert await ask(postgres.console_url, "select 1") == 1
        assert postgres.data_folder.stat().st_mode & 0o777 == 0o700
    socket = one.owner_url.partition("?")[2]
    with pytest.raises(asyncpg.InvalidPasswordError):
        await ask(f"{two.owner_url.partition('?')[0]}?{socket}", "select 1")


async def test_a_copy_keeps_what_was_committed_when_it_is_killed(copies: Copies, template: Path) -> None:
    postgres = await copies.start(lambda _: template)
    identifier = await ask(postgres.owner_url, IDENTIFIER)
    await ask(postgres.owner_url, "insert into found values (1)")
    assert postgres.process is not None
    postgres.process.kill()
    postgres.process.wait()
    await postgres.start()
    assert await ask(postgres.owner_url, "select count(*) from found") == 1
    assert await ask(postgres.owner_url, IDENTIFIER) == identifier


@pytest.mark.parametrize("damage", ["lacks control", "identifier", "lacks log", "log", "in use", "version"])
async def test_a_damaged_template_is_not_used(copies: Copies, template: Path, tmp_path: Path, damage: str) -> None:
    damaged = tmp_path / "damaged"
    cluster_template.keep(template, damaged)
    if damage == "lacks control":
        (damaged / "global" / "pg_control").unlink()
    elif damage == "identifier":
        with (damaged / "global" / "pg_control").open("r+b") as control:
            control.write(b"damaged!")
    elif damage in {"lacks log", "log"}:
        [log] = (path for path in (damaged / "pg_wal").iterdir() if path.is_file())
        log.write_bytes(b"damaged!" * 1024)
        if damage == "lacks log":
            log.unlink()
    elif damage == "in use":
        (damaged / "postmaster.pid").write_text("1\n")
    else:
        (damaged / "PG_VERSION").write_text("9\n")
    postgres = await copies.start(lambda _: damaged)
    assert await ask(postgres.owner_url, "select to_regclass('found')") is None
    [line] = copies.told
    assert line.startswith(f"the finished tables in {damaged} cannot be used (")
    assert line.endswith("): making new ones")


async def test_no_template_is_made_of_a_server_that_was_not_shut_down(copies: Copies, template: Path, tmp_path: Path) -> None:
    postgres = await copies.start(lambda _: template)
    assert postgres.process is not None
    postgres.process.kill()
    postgres.process.wait()
    with pytest.raises(cluster_template.DamagedTemplateError, match="not shut down"):
        cluster_template.keep(postgres.data_folder, tmp_path / "kept")
    assert list(tmp_path.iterdir()) == []


async def test_the_servers_user_cannot_enter_the_folder_before_all_files_are_its_own(
    copies: Copies, template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = cluster_template.copy
    around: list[tuple[int, int]] = []

    def look(template: Path, data: Path, user: SystemUser | None) -> None:
        copy(template, data, user)
        found = data.parent.stat()
        around.append((found.st_uid, found.st_mode & 0o777))

    monkeypatch.setattr(cluster_template, "copy", look)
    await copies.start(lambda _: template)
    assert around == [(os.geteuid(), 0o700)]


@pytest.mark.skipif(sys.platform != "linux", reason="it has another file system in memory")
def test_a_copy_may_be_on_another_kind_of_file_system(template: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        data = Path(folder) / "data"
        cluster_template.copy(template, data, None)
        for path in template.rglob("*"):
            if path.is_file() and path.name != "pg_control" and path.parent.name != "pg_wal":
                assert (data / path.relative_to(template)).read_bytes() == path.read_bytes()


async def test_without_a_template_the_tables_are_made(copies: Copies) -> None:
    postgres = await copies.start(lambda _: None)
    assert await ask(postgres.owner_url, "select to_regclass('found')") is None
    assert copies.told == []
