"""The blocks of the guide for production are run as they stand, on a server that nobody has prepared."""

import asyncio
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from pixconnect import config
from pixconnect.cli.migrate import bring_up_to_date
from pixconnect.cli.part import command
from pixconnect.config import Settings
from pixconnect.foundation import pool
from pixconnect.foundation.privileges import OPERATOR_ROLE, SERVICE_ROLE
from pixconnect.local.embedded_postgres import GROUP_ROLES, LOGIN_ROLE, EmbeddedPostgres

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "production.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def variables(block: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in block.splitlines())


@pytest.fixture
def server() -> Iterator[str]:
    """A server's address, as its superuser."""
    with tempfile.TemporaryDirectory(prefix="pixconnect-tests-") as folder:
        home = Path(folder)
        home.chmod(0o711)  # so that, as root, the server's own user gets in
        postgres = EmbeddedPostgres(home, version="18", connections_max=20, durable=False)
        asyncio.run(postgres.start())
        yield postgres.owner_url.replace("/pixconnect?", "/postgres?")
        asyncio.run(postgres.stop())


async def _run_sql(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        # What the embedded server brings, and a new server does not.
        await connection.execute("drop database pixconnect")
        await connection.execute(f"drop role {', '.join((LOGIN_ROLE, OPERATOR_ROLE, *GROUP_ROLES))}")
        # One by one, because a database is made outside of every transaction.
        for statement in filter(str.strip, blocks("sql")[0].split(";")):
            await connection.execute(statement)
    finally:
        await connection.close()


async def _open_as(url: str, role: str) -> None:
    connection = await pool.connect(url, role=role, schema="pixconnect", name="test")
    await connection.close()


def test_the_logins_the_settings_and_the_migration_of_the_guide_fit_together(server: str) -> None:
    asyncio.run(_run_sql(server))
    # It listens on a socket of its own, not on the guide's port.
    socket = urlsplit(server).query
    given = variables(blocks("ini")[0]) | variables(blocks("ini")[1])
    here = {
        name: value.replace("@127.0.0.1:5432/pixconnect", f"@/pixconnect?{socket}") for name, value in given.items()
    }
    del here["PIXCONNECT_SECRET_KEY_FILE"]
    settings: Settings = config.read_settings(here)
    assert config.misspelt_variables(given) == []
    asyncio.run(bring_up_to_date(settings))
    asyncio.run(_open_as(settings.database_url, SERVICE_ROLE))
    asyncio.run(_open_as(settings.operator_database_url, OPERATOR_ROLE))
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        asyncio.run(_open_as(settings.database_url, OPERATOR_ROLE))


def test_the_unit_starts_parts_that_exist() -> None:
    unit = blocks("ini")[2]
    assert "ExecStart=/opt/pixconnect/.venv/bin/pixconnect ${PART}\n" in unit
    for part in ("serve", "work", "sandbox"):
        assert f"pixconnect@{part}-" in GUIDE
        assert command(part)[-1] == part
