"""``migrate`` updates the tables; ``doctor --upgrade`` prints in advance which migrations it will run.

That runs the new program against the old tables, beside the old program, and cannot write: its session is read only.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import asyncpg

from pixconnect.doors.cli import failures, live_mode, terminal
from pixconnect.doors.cli.live_mode import Symptom
from pixconnect.doors.cli.settings import complaining_of_home, read_database_settings
from pixconnect.features.identity.service.secret_key import refuse_other_key
from pixconnect.features.sandbox.network import read_network_steps
from pixconnect.kernel.baseline import SERVICE_SCHEMA, read_service_steps
from pixconnect.kernel.flows.installation import check_durability, check_mode, refuse_other_mode
from pixconnect.kernel.tables import installation as installation_store
from pixconnect.kernel.tables import partition as partition_store
from pixconnect.platform import migrations as schema_history
from pixconnect.platform import pool, privileges
from pixconnect.platform.base.entropy import SecretBox
from pixconnect.platform.config import Settings
from pixconnect.platform.logging import set_up_logging
from pixconnect.platform.migrations import Migration, Steps, read_steps

SCHEMAS: Final[tuple[tuple[str, Callable[[], Steps], str], ...]] = (
    (SERVICE_SCHEMA, read_service_steps, privileges.SERVICE_ROLE),
    ("sandbox", read_network_steps, privileges.SANDBOX_ROLE),
    ("verify", partial(read_steps, "pixconnect.features.proof.tables"), privileges.VERIFIER_ROLE),
)
"""Each schema with its reader of steps, and its role."""

POSTGRES_VERSION_MIN = 160_000  # 16.0, as ``server_version_num`` counts


def migrate(*, roles_only: bool = False) -> None:
    """Update the database's tables; may be run again, and concurrently.

    Args:
        roles_only: Only make the roles that the tables are granted to, on a server into which a dump is to be restored.
    """
    settings = read_database_settings()
    with complaining_of_home(settings):
        if roles_only:
            asyncio.run(_make_roles(settings))
            terminal.print_line("the roles exist")
            return
        applied = asyncio.run(bring_up_to_date(settings))
    terminal.print_line(f"the tables are up to date{f' ({len(applied)} steps applied)' if applied else ''}")


async def bring_up_to_date(settings: Settings, *, box: SecretBox | None = None) -> list[Migration]:
    """Apply the missing steps, as the owner, and grant the service's login its roles.

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
        await connection.execute(f"set search_path = {SERVICE_SCHEMA}")
        # Before the first change: tables of another version or mode must stay unchanged.
        for schema, read, _ in schemas_of(settings):
            await schema_history.list_missing(connection, schema, read())
        refuse_other_mode(await installation_store.find_mode(connection), settings.mode)
        if box is not None:
            await refuse_other_key(connection, box)
        login = await _login_of(connection, settings.database_url or url)
        await privileges.make_roles(connection, with_sandbox=settings.mode == "sandbox")
        applied = await _make_tables(connection, settings, login)
        await privileges.grant_reading(connection, SERVICE_SCHEMA)
        await connection.execute(f"set search_path = {SERVICE_SCHEMA}")
        await partition_store.set_retention(connection, timedelta(days=settings.event_retention_days))
        # The owner and the operators' login may both use operators' verbs.
        for login_url in (url, settings.operators_url):
            await privileges.grant_role(connection, await _login_of(connection, login_url), privileges.OPERATOR_ROLE)
        console_login = await _login_of(connection, settings.console_login_url)
        await privileges.grant_role(connection, console_login, privileges.CONSOLE_ROLE)
        # Only in a sandbox may the service create money, and holders, from nothing.
        if settings.mode == "sandbox":
            await privileges.allow_play(connection, SERVICE_SCHEMA, login)
        else:
            await privileges.forbid_play(connection, SERVICE_SCHEMA)
        for line in await privileges.narrow(connection, SERVICE_SCHEMA, login, privileges.SERVICE_ROLE):
            terminal.complain(line)
        await installation_store.begin_times(connection)
        await check_mode(connection, settings.mode)
        return applied
    finally:
        await connection.close()


def schemas_of(settings: Settings) -> list[tuple[str, Callable[[], Steps], str]]:
    """Return each schema with its reader of steps, and its role."""
    # A live database has no tables of the simulated network.
    return [each for each in SCHEMAS if each[0] != "sandbox" or settings.mode == "sandbox"]


async def _make_tables(connection: asyncpg.Connection, settings: Settings, login: str) -> list[Migration]:
    """Apply each schema's missing steps, and permit the login to take its role."""
    applied: list[Migration] = []
    for schema, read, role in schemas_of(settings):
        applied += await schema_history.migrate(connection, schema, read())
        user = (
            await _login_of(connection, settings.verify_database_url or settings.operators_url) if schema == "verify" else login
        )
        await privileges.grant_role(connection, user, role)
    return applied


async def _make_roles(settings: Settings) -> None:
    _, connection = await connect_as_owner(settings)
    try:
        await privileges.make_roles(connection, with_sandbox=settings.mode == "sandbox")
    finally:
        await connection.close()


async def connect_as_owner(settings: Settings) -> tuple[str, asyncpg.Connection]:
    """Connect to a database that may have no tables yet; also return the future owner's address."""
    url = settings.owner_database_url or settings.database_url
    connect = partial(pool.connect, url, role=None, schema="public", name="pixconnect migrate")
    connection = await connect()
    try:
        await pool.refuse_shared_sessions(connection, "public", connect)
        await refuse_old_server(connection)
    except BaseException:
        await connection.close()
        raise
    return url, connection


async def refuse_old_server(connection: asyncpg.Connection, version_min: int = POSTGRES_VERSION_MIN) -> None:
    """Refuse a PostgreSQL too old for our SQL."""
    if int(await connection.fetchval("show server_version_num")) < version_min:
        version = await connection.fetchval("show server_version")
        raise failures.CommandError(
            f"the database is PostgreSQL {version}: pixconnect needs 16 or later. On Debian: apt install postgresql-common "
            "&& /usr/share/postgresql-common/pgdg/apt.postgresql.org.sh, then apt install postgresql-17"
        )


async def _login_of(connection: asyncpg.Connection, url: str) -> str:
    return urlsplit(url).username or await connection.fetchval("select current_user")


_UPGRADE: Final = "upgrade"
_FORMS: Final = {form.removeprefix("--").strip() for form in (schema_history.OUTSIDE_A_TRANSACTION, schema_history.IN_BATCHES)}
"""How a step may run, as one of its first lines declares."""
_BEGINS_FROM: Final = re.compile(r"from [0-9a-f]{64}$")


def look_at_upgrade() -> Iterator[Symptom]:
    try:
        settings = read_database_settings()
        set_up_logging(settings.log_format, "error")
        with complaining_of_home(settings):
            yield from asyncio.run(_look_at_upgrade(settings))
    except Exception as error:
        # An operator can repair it; an internal defect keeps its traceback.
        line = failures.explain(error)
        if line is None:
            raise
        yield live_mode.split(_UPGRADE, line)


async def _look_at_upgrade(settings: Settings) -> list[Symptom]:
    # Only the tables' owner may read their whole history.
    url = settings.owner_database_url or settings.operators_url
    connection = await pool.connect(url, role=None, schema="pixconnect", name="pixconnect doctor")
    try:
        await connection.execute("set default_transaction_read_only = on")
        await refuse_old_server(connection)
        found: list[Symptom] = []
        for schema, read, _ in schemas_of(settings):
            missing = await schema_history.list_missing(connection, schema, read())
            for step in missing:
                text = f"`migrate` will run {schema} {step.version:04d} {step.name}: {_describe_step(step)}"
                found.append(live_mode.note(_UPGRADE, text, _advise(step)))
            if not missing:
                found.append(live_mode.ok(_UPGRADE, f"the tables of {schema} are this version's"))
        await connection.execute("set search_path = pixconnect")
        refuse_other_mode(await installation_store.find_mode(connection), settings.mode)
        await check_durability(connection, settings.mode)
        return found
    finally:
        await connection.close()


def _describe_step(step: Migration) -> str:
    """Its first sentence, which states the step's purpose."""
    if step.is_baseline:
        return "makes all tables."
    lines = (line.removeprefix("--").strip() for line in step.sql.splitlines() if line.startswith("--"))
    text = " ".join(line for line in lines if line and line not in _FORMS and not _BEGINS_FROM.match(line))
    sentence, stop, _ = text.partition(". ")
    return f"{sentence}." if stop else text or "changes without a description"


def _advise(step: Migration) -> str:
    if step.is_outside_transaction or step.is_in_batches:
        return "takes as long as reading the tables concerned; no request waits for it, and you may interrupt and repeat it"
    return "takes moments, in one transaction, once no other transaction holds its tables"
