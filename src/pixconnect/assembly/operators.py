"""Opens the resources of operators' verbs, of the preparation, and of the proof (a read-only role)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import asyncpg
import structlog

from pixconnect.assembly.base import make_policy, make_writes, open_base, open_own_secret_box
from pixconnect.assembly.outside import has_rail, open_rail
from pixconnect.features.identity.service import console_session
from pixconnect.features.identity.service.secret_key import refuse_other_key
from pixconnect.features.proof.service.rule_group import BookReader
from pixconnect.features.sandbox.service.demonstration import DemoCredentials, prepare_demonstration
from pixconnect.kernel.baseline import SERVICE_SCHEMA, read_service_steps
from pixconnect.kernel.flows import installation
from pixconnect.kernel.flows.context import Context, Operator, Writer
from pixconnect.kernel.flows.directory import HolderDirectory
from pixconnect.kernel.flows.installation import refuse_other_mode
from pixconnect.kernel.flows.server_watch import ServerWatch
from pixconnect.kernel.flows.standby import AGE_MAX_S
from pixconnect.kernel.rules.rail import Rail
from pixconnect.kernel.tables import installation as installation_store
from pixconnect.platform import migrations as schema_history
from pixconnect.platform import pool
from pixconnect.platform.adapters.secret_box import AesSecretBox, open_sending_box, read_or_make_secret_key
from pixconnect.platform.adapters.system import ServerFile, SystemClock, SystemEntropy, name_system_user
from pixconnect.platform.base.entropy import SecretBox
from pixconnect.platform.config import Settings
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.logging import set_up_logging
from pixconnect.platform.notifier import Notifier
from pixconnect.platform.privileges import CONSOLE_ROLE, OPERATOR_ROLE, SERVICE_ROLE, VERIFIER_ROLE


def prepare_home(settings: Settings) -> AesSecretBox:
    """Make the key that seals secrets at rest, if there is none yet, and open its box; no other process may be running.

    Raises:
        SecretKeyError: The setting or the file has no key.
        OSError: The file can be neither read nor made.
    """
    entropy = SystemEntropy()
    read_or_make_secret_key(settings.secret_key, settings.home_path, entropy)
    return open_own_secret_box(settings, entropy)


LOGIN_ROLES: Final[Mapping[str, str | None]] = {
    "database_url": SERVICE_ROLE,
    "owner_database_url": None,
    "operator_database_url": OPERATOR_ROLE,
    "console_database_url": CONSOLE_ROLE,
    "read_database_url": SERVICE_ROLE,
    "verify_database_url": VERIFIER_ROLE,
}
"""The role that the login of each setting takes; the owner keeps its own."""


async def try_login(settings: Settings, name: str, box: SecretBox | None = None) -> None:
    """Log in by the setting of this name, as its part does; ``SealBroken`` if the secret key of ``box`` is not the tables'."""
    connection = await pool.connect(
        getattr(settings, name), role=LOGIN_ROLES[name], schema=SERVICE_SCHEMA, name="pixconnect doctor"
    )
    try:
        if box is not None:
            await refuse_other_key(connection, box)
    finally:
        await connection.close()


async def try_secret_key(settings: Settings, name: str) -> None:
    """As ``try_login``; raises ``SecretKeyError`` without a secret key."""
    await try_login(settings, name, open_own_secret_box(settings, SystemEntropy()))


@asynccontextmanager
async def open_operator(
    settings: Settings, *, url: str = "", role: str = OPERATOR_ROLE, connections_max: int = 1, compares_key: bool = True
) -> AsyncGenerator[Operator]:
    """Open the resources of operators' verbs, by their role or a lesser one.

    Raises:
        InstallationError: The database is of the other mode.
        SchemaError: The tables are not those of this program.
        SecretKeyError: There is no secret key.
        SealBroken: It is not the key of these tables, and ``compares_key``: values sealed by it could not be opened.
    """
    entropy = SystemEntropy()
    secret_box = open_own_secret_box(settings, entropy)
    # A verb may be the first to meet the database after a restore, and assign ids.
    policy = make_policy(settings)
    file = ServerFile(settings.home_path)
    server = ServerWatch(file, has_rail=policy.has_rail, cluster=settings.database_cluster, is_remembered=False)
    connections = await pool.open_pool(
        url or settings.operators_url,
        role=role,
        schema=SERVICE_SCHEMA,
        connections_max=connections_max,
        name=f"{role.replace('_', ' ')} verbs",
        look=server.look,
    )
    server.on_start(connections.expire)
    try:
        async with connections.acquire() as connection:
            await schema_history.refuse_other_tables(connection, SERVICE_SCHEMA, read_service_steps())
            await installation.check_mode(connection, settings.mode)
            if compares_key:
                await refuse_other_key(connection, secret_box)
            await server.begin(connection)
        yield Operator(
            pool=connections,
            clock=SystemClock(),
            entropy=entropy,
            policy=policy,
            secret_box=secret_box,
            operator=settings.operator or name_system_user(),
            # The console's lesser role acts for people, and needs no sending credential.
            sending_box=open_sending_box(settings.sending_secret_key, settings.sending_secret_key_previous, entropy)
            if role == OPERATOR_ROLE
            else None,
        )
    finally:
        await connections.close()


_CONNECTIONS_MAX: Final = 4  # one holds a lock while others read and write


@asynccontextmanager
async def open_operator_who_writes(settings: Settings) -> AsyncGenerator[tuple[Operator, Writer]]:
    """Open the resources of a verb that records as an operator, and writes money as the service does; without a rail."""
    async with open_operator(settings, connections_max=_CONNECTIONS_MAX) as operator:
        notifier = Notifier(operator.pool)
        writes = make_writes(operator.pool, operator.clock, notifier)
        policy = operator.policy
        directory = HolderDirectory(operator.pool, policy.ispb, policy.institution_name, operator.clock.monotonic_s)
        writer = Writer(
            pool=operator.pool,
            clock=operator.clock,
            entropy=operator.entropy,
            policy=policy,
            secret_box=operator.secret_box,
            directory=directory,
            writes=writes,
        )
        try:
            yield operator, writer
        finally:
            await writes.close()


@asynccontextmanager
async def open_operator_beside_service(settings: Settings, name: str) -> AsyncGenerator[tuple[Operator, Context]]:
    """Open the resources of a verb that records as an operator and acts as the service, with its rail and its accounts."""
    opening = open_operator(settings, connections_max=_CONNECTIONS_MAX)
    async with opening as operator, open_base(settings, name) as base:
        yield operator, base.context


async def prepare_demo(settings: Settings, known: DemoCredentials | None) -> tuple[DemoCredentials, str]:
    """Make the missing parts of the sandbox's demonstration, and a token for a link to the console.

    Args:
        known: The result of an earlier start.
    """
    # Errors only: the parent process reports the result, for people.
    set_up_logging(settings.log_format, "error" if settings.log_level == "error" else "warning")
    async with open_base(settings, "pixconnect prepare") as base, open_operator(settings) as operator:
        made = await prepare_demonstration(
            base.context,
            operator,
            known,
            client_id=settings.demonstration_client_id,
            client_secret=settings.demonstration_client_secret,
            clock_at=settings.clock_begins_at,
        )
        return made, await console_session.make_link(operator)


_log = structlog.get_logger(__name__)
_SCHEMAS: Final = f"{SERVICE_SCHEMA}, verify"


@asynccontextmanager
async def open_book_reader(settings: Settings) -> AsyncGenerator[BookReader]:
    """Connect as the reader.

    Raises:
        SchemaError: The tables are not those of this program.
        InstallationError: They are of the other mode.
    """
    own_url = settings.verify_database_url or settings.operators_url
    connection = await _connect(own_url)
    standby: pool.Connection | None = None
    try:
        await schema_history.refuse_other_tables(connection, SERVICE_SCHEMA, read_service_steps())
        refuse_other_mode(await installation_store.find_mode(connection), settings.mode)
        async with _open_rail(settings) as rail:
            operator = settings.operator or name_system_user()
            standby = await _open_standby(settings.read_database_url, own_url)
            yield BookReader(
                connection=connection,
                standby=standby,
                standby_age_max_s=AGE_MAX_S,
                clock=SystemClock(),
                operator=operator,
                rail=rail,
            )
    finally:
        if standby is not None:
            # It may hang.
            standby.terminate()
        await connection.close()


async def _connect(url: str) -> asyncpg.Connection[asyncpg.Record]:
    return await pool.connect(url, role=VERIFIER_ROLE, schema=_SCHEMAS, name="pixconnect verify", reads_tables=True)


async def _open_standby(read_url: str, own_url: str) -> asyncpg.Connection[asyncpg.Record] | None:
    """The reader's connection to the standby, if the service has one and it is reachable."""
    if not read_url:
        return None
    # The standby's address with another login: the service's may not assume the verifier's role.
    read = urlsplit(read_url)
    login, host = urlsplit(own_url).netloc.rpartition("@")[0], read.netloc.rpartition("@")[2]
    try:
        return await _connect(read._replace(netloc=f"{login}@{host}" if login else host).geturl())
    except DATABASE_FAILED as error:
        _log.warning("the standby is not read from, and the primary instead", reason=type(error).__name__)
        return None


@asynccontextmanager
async def _open_rail(settings: Settings) -> AsyncGenerator[Rail | None]:
    # An operator who only reads the database may know neither its address nor its password.
    if not has_rail(settings) or not settings.rail_url:
        yield None
        return
    async with open_rail(settings, open_own_secret_box(settings, SystemEntropy())) as (rail, _):
        yield rail
