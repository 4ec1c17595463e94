"""``migrate`` brings the tables up to date."""

import asyncio
from urllib.parse import urlsplit

import asyncpg

from pixconnect.cli import failures, terminal
from pixconnect.cli.settings import read_settings
from pixconnect.config import Settings
from pixconnect.foundation import migrations, pool

POSTGRES_VERSION_MIN = 160_000  # as the server itself counts: 16.0

_GROUP_ROLES = {"pixconnect": "pixconnect_service", "sandbox": "pixconnect_sandbox"}
_PACKAGES = {"pixconnect": "pixconnect.store", "sandbox": "pixconnect.sandbox"}


def migrate() -> None:
    """Bring the database's tables up to date; may be run again, and by several at once."""
    applied = asyncio.run(bring_up_to_date(read_settings()))
    for migration in applied:
        terminal.say(f"applied {migration.version:04d} {migration.name}")
    terminal.say("the tables are up to date")


async def bring_up_to_date(settings: Settings) -> list[migrations.Migration]:
    """Apply the migrations that are missing, as the owner, and let the service's login take its roles.

    Raises:
        CommandError: There is no database, or it is too old.
    """
    url = settings.owner_database_url or settings.database_url
    if not url:
        raise failures.CommandError(
            "there is no database: set DATABASE_URL, or PIXCONNECT_HOME to the home of a running `pixconnect run`"
        )
    connection = await pool.connect(url, role=None, schema="public", name="pixconnect migrate")
    try:
        await refuse_old_server(connection)
        applied: list[migrations.Migration] = []
        for schema, package in _PACKAGES.items():
            if schema == "sandbox" and settings.mode != "sandbox":
                continue
            applied += await migrations.migrate(connection, schema, migrations.read_migrations(package))
            await _let_login_take_role(connection, settings.database_url or url, _GROUP_ROLES[schema])
        return applied
    finally:
        await connection.close()


async def refuse_old_server(connection: asyncpg.Connection) -> None:
    """Refuse a PostgreSQL that lacks what our SQL uses.

    Raises:
        CommandError: It is older than 16.
    """
    if int(await connection.fetchval("show server_version_num")) < POSTGRES_VERSION_MIN:
        version = await connection.fetchval("show server_version")
        raise failures.CommandError(f"the database is PostgreSQL {version}: pixconnect needs 16 or later")


async def _let_login_take_role(connection: asyncpg.Connection, login_url: str, role: str) -> None:
    """Let the role that the service logs in as take its group role, unless it may already."""
    login = urlsplit(login_url).username or await connection.fetchval("select current_user")
    if await connection.fetchval("select pg_has_role($1, $2, 'SET')", login, role):
        return
    await connection.execute(
        await connection.fetchval("select format('grant %I to %I', $1::text, $2::text)", role, login)
    )
