"""What operators' verbs open, and what they prepare before a service runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pixconnect.adapters.secret_box import AesSecretBox, read_or_make_secret_key
from pixconnect.adapters.server_file import ServerFile
from pixconnect.adapters.system import SystemClock, SystemEntropy, name_system_user
from pixconnect.assembly.base import (
    SERVICE_PACKAGE,
    SERVICE_SCHEMA,
    make_policy,
    open_base,
    open_own_secret_box,
)
from pixconnect.config import Settings
from pixconnect.foundation import pool, schema_history
from pixconnect.foundation.logging import set_up_logging
from pixconnect.foundation.privileges import OPERATOR_ROLE
from pixconnect.usecases.frame.operator import Operator
from pixconnect.usecases.frame.server_watch import ServerWatch
from pixconnect.usecases.running import installation
from pixconnect.usecases.simulation.demonstration import DemoCredentials, prepare_demonstration


def prepare_home(settings: Settings) -> AesSecretBox:
    """Make the key that seals secrets at rest, if there is none yet, and open its box; no other process may be running.

    Raises:
        SecretKeyError: The setting or the file holds no key.
        OSError: The file can be neither read nor made.
    """
    entropy = SystemEntropy()
    read_or_make_secret_key(settings.secret_key, settings.home_path, entropy)
    return open_own_secret_box(settings, entropy)


@asynccontextmanager
async def open_operator(
    settings: Settings, *, url: str = "", role: str = OPERATOR_ROLE, connections_max: int = 1
) -> AsyncGenerator[Operator]:
    """Open what operators' verbs need, by their role or a lesser one; ``SchemaError`` or ``SecretKeyError`` if it cannot be."""
    entropy = SystemEntropy()
    secret_box = open_own_secret_box(settings, entropy)
    # A verb may be the first to meet the database after a restore, and give out ids.
    policy = make_policy(settings)
    server = ServerWatch(ServerFile(settings.home_path), has_rail=policy.has_rail)
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
            await schema_history.refuse_other_tables(connection, SERVICE_SCHEMA, SERVICE_PACKAGE)
            await installation.check_mode(connection, settings.mode)
            await server.begin(connection)
        yield Operator(
            pool=connections,
            clock=SystemClock(),
            entropy=entropy,
            policy=policy,
            secret_box=secret_box,
            operator=settings.operator or name_system_user(),
        )
    finally:
        await connections.close()


async def prepare_demo(settings: Settings, known: DemoCredentials | None) -> DemoCredentials:
    """Make what is missing of the sandbox's demonstration; ``known`` is what it answered at an earlier start."""
    # Only complaints: who started us tells what was made, in words for people.
    set_up_logging(settings.log_format, "error" if settings.log_level == "error" else "warning")
    async with open_base(settings, "pixconnect prepare") as base, open_operator(settings) as operator:
        return await prepare_demonstration(
            base.context,
            operator,
            known,
            client_id=settings.demonstration_client_id,
            client_secret=settings.demonstration_client_secret,
            clock_at=settings.clock_begins_at,
        )
