"""The guide for production: its files, and servers that were prepared by them."""

import re
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres
from pixconnect.platform.local.embedded_roles import GROUP_ROLES
from pixconnect.platform.local.postgres_placement import CONSOLE_LOGIN_ROLE, LOGIN_ROLE
from pixconnect.platform.privileges import OPERATOR_ROLE
from pixconnect.running.systemd import read_file
from support.installation import ROOT

UNITS = ROOT / "deploy" / "systemd"
SETTINGS = ("service.env", "operators.env", "console.env")
LOGINS = (UNITS / "logins.sql").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "guides" / "production.md").read_text(encoding="utf-8")


def blocks(language: str, text: str = GUIDE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def variables(name: str) -> dict[str, str]:
    return read_file(UNITS / name)


def settings_on(server_url: str, *, verifies: bool = False) -> dict[str, str]:
    """The settings of all parts, operators and the console, on a server with a separate socket.

    ``verifies`` uses the login of `verify`, which needs its role from `migrate`, instead of the operators'.
    """
    found = {name: value for file in SETTINGS for name, value in variables(file).items()}
    if not verifies:
        del found["PIXCONNECT_VERIFY_DATABASE_URL"]
    here = f"@/pixconnect?{urlsplit(server_url).query}"
    return {name: value.replace("@127.0.0.1:5432/pixconnect", here) for name, value in found.items()}


@asynccontextmanager
async def empty_server(folder: Path, *, durable: bool = False) -> AsyncGenerator[tuple[EmbeddedPostgres, str]]:
    """A server without our roles and database, and a superuser's address of its database ``postgres``."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o711)  # as root, the server's user must be able to enter
    server = EmbeddedPostgres(folder, connections_max=100, durable=durable)
    await server.start()
    try:
        superuser_url = server.owner_url.replace("/pixconnect?", "/postgres?")
        roles = ", ".join((LOGIN_ROLE, CONSOLE_LOGIN_ROLE, OPERATOR_ROLE, *GROUP_ROLES))
        await _run_statements(superuser_url, ("drop database pixconnect", f"drop role {roles}"))
        yield server, superuser_url
    finally:
        await server.stop()


@asynccontextmanager
async def prepared_server(
    folder: Path, *, durable: bool = False, logins: str = LOGINS
) -> AsyncGenerator[tuple[EmbeddedPostgres, str]]:
    """The same with the guide's logins and empty database."""
    async with empty_server(folder, durable=durable) as (server, superuser_url):
        await _run_statements(superuser_url, read_statements(logins))
        yield server, superuser_url


async def _run_statements(url: str, statements: Iterable[str]) -> None:
    connection = await asyncpg.connect(url)
    try:
        # One by one, because a database cannot be created or dropped in a transaction.
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


def read_statements(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if not line.startswith("--")]
    return [statement for statement in "\n".join(lines).split(";") if statement.strip()]
