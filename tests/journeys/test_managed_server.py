"""A managed server: our steps by an administrator without superuser rights, and what follows a snapshot."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
import structlog

from journeys.test_restore import go_on, work_and_be_killed
from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres
from pixconnect.platform.local.embedded_roles import GROUP_ROLES
from pixconnect.platform.local.postgres_placement import CONSOLE_LOGIN_ROLE, LOGIN_ROLE
from pixconnect.platform.privileges import OPERATOR_ROLE
from support.home import SECRET_KEY, new_home
from support.installation import ROOT
from support.listener import Listener
from support.ports import reserved_port
from support.production_guide import LOGINS, blocks, read_statements, settings_on

pytestmark = [pytest.mark.journey, pytest.mark.long]

_log = structlog.get_logger(__name__)
GUIDE = (ROOT / "docs" / "guides" / "back-up-and-restore.md").read_text(encoding="utf-8")
PAUSE, LOOK, KEEP_KEY = blocks("sh", GUIDE.partition("\n## Managed servers\n")[2])


async def test_an_installation_on_a_managed_server_goes_on_after_a_snapshot(tmp_path: Path) -> None:
    listener = Listener()
    with (
        new_home() as folder,
        new_home() as snapshot,
        new_home() as first_home,
        new_home() as second_home,
        # It is part of the charges' codes.
        reserved_port() as port,
    ):
        server = EmbeddedPostgres(folder)
        await server.start()
        try:
            before = await prepare(server)
            known = work_and_be_killed(first_home, port, before, listener)
        finally:
            await server.stop(timeout_s=0)
        # The provider's act: the disk at one instant, under another server.
        subprocess.run(["cp", "-a", f"{folder}/.", snapshot], check=True)
        copied = EmbeddedPostgres(snapshot)
        began_s = time.monotonic()
        await copied.start()
        try:
            after = settings_on(copied.owner_url)
            run_as_operator(PAUSE, after, tmp_path, server)
            await go_on(second_home, port, after, known, listener)
            run_as_operator(LOOK, after, tmp_path, server)
            _log.info("a snapshot started and proved", took_s=round(time.monotonic() - began_s))
            keep_key(after, tmp_path, server)
        finally:
            await copied.stop()
    listener.close()


async def prepare(server: EmbeddedPostgres) -> dict[str, str]:
    """The guide's logins and database, made by a login that may make roles and databases, and nothing else."""
    query = urlsplit(server.owner_url).query
    superuser = await asyncpg.connect(server.owner_url.replace("/pixconnect?", "/postgres?"))
    await superuser.execute("drop database pixconnect")
    roles = (LOGIN_ROLE, CONSOLE_LOGIN_ROLE, OPERATOR_ROLE, *GROUP_ROLES)
    await superuser.execute(f"drop role {', '.join(roles)}")
    await superuser.execute("create role administrator login createrole createdb password 'provider'")
    await superuser.close()
    administrator = await asyncpg.connect(f"postgresql://administrator:provider@/postgres?{query}")
    for statement in read_statements(LOGINS):
        await administrator.execute(statement)
    assert not await administrator.fetchval("select bool_or(rolsuper) from pg_roles where rolname ~ '^pix_'")
    await administrator.close()
    return settings_on(server.owner_url)


def keep_key(settings: Mapping[str, str], folder: Path, server: EmbeddedPostgres) -> None:
    (folder / "key").write_text(SECRET_KEY)
    named = dict(settings) | {"KEY_FILE": str(folder / "key"), "SAFE": str(folder)}
    run_as_operator(KEEP_KEY, named, folder, server)
    assert (folder / "secret.key").read_text() == SECRET_KEY


def run_as_operator(block: str, settings: Mapping[str, str], folder: Path, server: EmbeddedPostgres) -> None:
    environment = dict(settings) | {
        "PATH": os.pathsep.join((f"{sys.prefix}/bin", str(server.programs / "bin"), os.environ["PATH"])),
        "PIXCONNECT_SECRET_KEY": SECRET_KEY,
        "PIXCONNECT_HOME": str(folder / "operator"),
    }
    del environment["PIXCONNECT_SECRET_KEY_FILE"]
    ran = subprocess.run(["sh", "-euc", block], env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
