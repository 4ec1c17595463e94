"""``migrate`` brings the tables up to date."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from urllib.parse import urlsplit

import asyncpg

from pixconnect.cli.frame import failures, terminal
from pixconnect.cli.frame.settings import complaining_of_home, read_database_settings
from pixconnect.config import Settings
from pixconnect.domain.frame.secret_box import SecretBox
from pixconnect.foundation import migrations, pool, pooler, privileges
from pixconnect.foundation import migrations as schema_history
from pixconnect.store.running import installation as installation_store
from pixconnect.store.running import partition as partition_store
from pixconnect.usecases.identity.secret_key import refuse_other_key
from pixconnect.usecases.running.installation import check_mode, refuse_other_mode

POSTGRES_VERSION_MIN = 160_000
"""16.0, as ``server_version_num`` counts."""

_SCHEMA = "pixconnect"
_SCHEMAS = (
    (_SCHEMA, "pixconnect.store", privileges.SERVICE_ROLE),
    ("sandbox", "pixconnect.sandbox", privileges.SANDBOX_ROLE),
    ("verify", "pixconnect.store.proof", privileges.VERIFIER_ROLE),
)


def migrate(*, roles_only: bool = False) -> None:
    """Bring the database's tables up to date; may be run again, and by several at once.

    Args:
        roles_only: Only make the roles that the tables are granted to, on a server into which a dump is to be restored.
    """
    settings = read_database_settings()
    with complaining_of_home(settings):
        if roles_only:
            asyncio.run(_make_roles(settings))
            terminal.say("the roles are there")
            return
        applied = asyncio.run(bring_up_to_date(settings))
    for step in applied:
        terminal.say(f"applied {step.version:04d} {step.name}")
    terminal.say("the tables are up to date")


async def bring_up_to_date(settings: Settings, *, box: SecretBox | None = None) -> list[migrations.Migration]:
    """Apply the steps that are missing, as the owner, and grant the service's login its roles.

    Args:
        box: Of the secret key, which must be that of these tables; `migrate` alone may have none.

    Raises:
        CommandError: The server is too old.
        InstallationError: The tables are of the other mode.
        SchemaError: The tables were made by another program.
        SealBroken: The secret key is another one.
    """
    url, connection = await connect_as_owner(settings)
    try:
        await connection.execute(f"set search_path = {_SCHEMA}")
        # Before the first change: tables of another version or mode must stay as they are.
        for schema, package, _ in schemas_of(settings):
            await schema_history.list_missing(connection, schema, migrations.read_steps(package))
        refuse_other_mode(await installation_store.find_mode(connection), settings.mode)
        if box is not None:
            await refuse_other_key(connection, box)
        login = await _login_of(connection, settings.database_url or url)
        await privileges.make_roles(connection, with_sandbox=settings.mode == "sandbox")
        applied = await _make_tables(connection, settings, login)
        await privileges.let_verify(connection, _SCHEMA)
        await connection.execute(f"set search_path = {_SCHEMA}")
        await partition_store.set_retention(connection, timedelta(days=settings.event_retention_days))
        # The owner and the operators' login may both use operators' verbs.
        for login_url in (url, settings.operators_url):
            await privileges.let_take(connection, await _login_of(connection, login_url), privileges.OPERATOR_ROLE)
        console_login = await _login_of(connection, settings.console_login_url)
        await privileges.let_take(connection, console_login, privileges.CONSOLE_ROLE)
        # Only in a sandbox may the service make money, and holders, out of nothing.
        if settings.mode == "sandbox":
            await privileges.allow_play(connection, _SCHEMA, login)
        else:
            await privileges.forbid_play(connection, _SCHEMA)
        for line in await privileges.narrow(connection, _SCHEMA, login, privileges.SERVICE_ROLE):
            terminal.complain(line)
        await check_mode(connection, settings.mode)
        return applied
    finally:
        await connection.close()


def schemas_of(settings: Settings) -> list[tuple[str, str, str]]:
    """Each schema with the package that makes it, and the role that may use it."""
    # A live database has no tables of the simulated network.
    return [each for each in _SCHEMAS if each[0] != "sandbox" or settings.mode == "sandbox"]


async def _make_tables(connection: asyncpg.Connection, settings: Settings, login: str) -> list[migrations.Migration]:
    """Apply what each schema lacks, and let whoever uses it take its role."""
    applied: list[migrations.Migration] = []
    for schema, package, role in schemas_of(settings):
        applied += await schema_history.migrate(connection, schema, migrations.read_steps(package))
        user = (
            await _login_of(connection, settings.verify_database_url or settings.operators_url)
            if schema == "verify"
            else login
        )
        await privileges.let_take(connection, user, role)
    return applied


async def _make_roles(settings: Settings) -> None:
    _, connection = await connect_as_owner(settings)
    try:
        await privileges.make_roles(connection, with_sandbox=settings.mode == "sandbox")
    finally:
        await connection.close()


async def connect_as_owner(settings: Settings) -> tuple[str, asyncpg.Connection]:
    """A connection to a database that may have no tables yet, and the address of whoever is to own them."""
    url = settings.owner_database_url or settings.database_url
    connect = partial(pool.connect, url, role=None, schema="public", name="pixconnect migrate")
    connection = await connect()
    try:
        await pooler.refuse_shared_sessions(connection, "public", connect)
        await refuse_old_server(connection)
    except BaseException:
        await connection.close()
        raise
    return url, connection


async def refuse_old_server(connection: asyncpg.Connection, version_min: int = POSTGRES_VERSION_MIN) -> None:
    """Refuse a PostgreSQL that lacks what our SQL uses."""
    if int(await connection.fetchval("show server_version_num")) < version_min:
        version = await connection.fetchval("show server_version")
        raise failures.CommandError(f"the database is PostgreSQL {version}: pixconnect needs 16 or later")


async def _login_of(connection: asyncpg.Connection, url: str) -> str:
    return urlsplit(url).username or await connection.fetchval("select current_user")
