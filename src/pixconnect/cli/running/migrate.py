"""``migrate`` brings the tables up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Annotated
from urllib.parse import urlsplit

import asyncpg
from cyclopts import Parameter

from pixconnect.cli.frame import failures, terminal
from pixconnect.cli.frame.settings import complaining_of_home, read_database_settings
from pixconnect.config import Settings
from pixconnect.domain.frame.secret_box import SecretBox
from pixconnect.foundation import migrations, pool, pooler, privileges, schema_history
from pixconnect.store.running import installation as installation_store
from pixconnect.store.running import offending as offending_store
from pixconnect.store.running import partition as partition_store
from pixconnect.store.running.offending import Broken
from pixconnect.usecases.identity.secret_key import refuse_other_key
from pixconnect.usecases.running.installation import check_mode, refuse_other_mode, refuse_spread

POSTGRES_VERSION_MIN = 160_000
"""16.0, as ``server_version_num`` counts."""

_SCHEMA = "pixconnect"
SCHEMAS = (
    (_SCHEMA, "pixconnect.store", privileges.SERVICE_ROLE),
    ("sandbox", "pixconnect.sandbox", privileges.SANDBOX_ROLE),
    ("verify", "pixconnect.store.proof", privileges.VERIFIER_ROLE),
)
"""Each schema with the package of its migrations, and the role that may use it."""


RULED_BY = "rows_of_before"
"""The migration that begins to hold rules which rows of before may break."""


def migrate(
    *,
    keep_offending: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    roles_only: bool = False,
) -> None:
    """Bring the database's tables up to date; may be run again, and by several at once.

    Where the new version holds a rule that rows of before break, it prints them, changes nothing, and the exit status is 1.

    Args:
        keep_offending: List such rows in the table `offending_row`, which the new rules pass over.
        roles_only: Only make the roles that the tables are granted to, on a server into which a dump is to be restored.
    """
    settings = read_database_settings()
    with complaining_of_home(settings):
        if roles_only:
            asyncio.run(_make_roles(settings))
            terminal.say("the roles are there")
            return
        applied = asyncio.run(bring_up_to_date(settings, keep_offending=keep_offending))
    for migration in applied:
        terminal.say(f"applied {migration.version:04d} {migration.name}")
    terminal.say("the tables are up to date")


async def bring_up_to_date(
    settings: Settings,
    *,
    keep_offending: bool = False,
    box: SecretBox | None = None,
) -> list[migrations.Migration]:
    """Apply the migrations that are missing, as the owner, and grant the service's login its roles.

    Args:
        keep_offending: List rows that break new rules, and hold the rules for all others.
        box: Of the secret key, which must be that of these tables; whoever only migrates may have none.

    Raises:
        CommandError: The database is too old, or rows break new rules: then nothing was changed.
        InstallationError: The tables are of the other mode.
        SchemaError: The tables were made by another program.
        SealBroken: The secret key is another one.
    """
    url, connection = await connect_as_owner(settings)
    try:
        await connection.execute(f"set search_path = {_SCHEMA}")
        # Before the first change: tables of the other mode must stay as they are.
        refuse_other_mode(await installation_store.find_mode(connection), settings.mode)
        await refuse_spread(connection)
        if box is not None:
            await refuse_other_key(connection, box)
        login = await _login_of(connection, settings.database_url or url)
        broken = await find_offending(connection)
        _tell_offending(broken, keep_offending=keep_offending)
        await privileges.make_roles(connection, with_sandbox=settings.mode == "sandbox")
        applied = await _list_offending(connection, broken)
        applied += await _make_tables(connection, settings, login)
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


async def _make_tables(connection: asyncpg.Connection, settings: Settings, login: str) -> list[migrations.Migration]:
    """Apply what each schema lacks, and let whoever uses it take its role."""
    applied: list[migrations.Migration] = []
    for schema, package, role in SCHEMAS:
        # A live database has no tables of the simulated network.
        if schema == "sandbox" and settings.mode != "sandbox":
            continue
        steps = migrations.read_migrations(package)
        applied += await schema_history.migrate(connection, schema, steps)
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


async def find_offending(connection: asyncpg.Connection) -> list[Broken]:
    """The rows that break a rule which a missing migration makes; nothing is changed."""
    # An empty database has no rows to check; a database with the last of these steps has been checked.
    if not await connection.fetchval("select to_regclass('transfer') is not null") or await connection.fetchval(
        "select max(version) >= $1 from schema_version", _ruled_by() + 2
    ):
        return []
    return await offending_store.find_broken(connection)


def _tell_offending(broken: Sequence[Broken], *, keep_offending: bool) -> None:
    """Name the rows; ``CommandError`` if nobody said that they may stay."""
    for each in broken:
        for row_id, holder_id in each.shown:
            terminal.complain(f"{each.rule.table} {row_id} of holder {holder_id} breaks a rule: {each.rule.says}")
        if each.rows_count > len(each.shown):
            terminal.complain(f"and {each.rows_count - len(each.shown)} more of {each.rule.table}: {each.rule.says}")
    if broken and not keep_offending:
        rows_count = sum(each.rows_count for each in broken)
        raise failures.CommandError(
            f"rows that break rules of this version: {rows_count}; nothing was changed: put them right, or run "
            "`pixconnect migrate --keep-offending`, which lists them and holds the rules for all others"
        )


async def _list_offending(connection: asyncpg.Connection, broken: Sequence[Broken]) -> list[migrations.Migration]:
    """List rows before the rules are there that they break; the migrations that were applied for that."""
    if not broken:
        return []
    steps = migrations.read_migrations("pixconnect.store")
    applied = await schema_history.migrate(connection, _SCHEMA, steps[: _ruled_by()])
    await connection.execute(f"set search_path = {_SCHEMA}")
    await offending_store.list_all(connection, broken)
    return applied


def _ruled_by() -> int:
    return next(step.version for step in migrations.read_migrations("pixconnect.store") if step.name == RULED_BY)


async def refuse_old_server(connection: asyncpg.Connection, version_min: int = POSTGRES_VERSION_MIN) -> None:
    """Refuse a PostgreSQL that lacks what our SQL uses."""
    if int(await connection.fetchval("show server_version_num")) < version_min:
        version = await connection.fetchval("show server_version")
        raise failures.CommandError(f"the database is PostgreSQL {version}: pixconnect needs 16 or later")


async def _login_of(connection: asyncpg.Connection, url: str) -> str:
    return urlsplit(url).username or await connection.fetchval("select current_user")
