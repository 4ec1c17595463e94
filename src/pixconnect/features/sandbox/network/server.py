"""The sandbox as a process: only one at a time for a database. It may be killed at any instant and loses nothing."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Final

import asyncpg
import structlog
from msgspec import Struct

from pixconnect.features.sandbox.network import outside, read_network_steps, registry, tables
from pixconnect.features.sandbox.network.application import SandboxApplication
from pixconnect.features.sandbox.network.behaviour import Chance, Faults
from pixconnect.features.sandbox.network.network import Network
from pixconnect.features.sandbox.network.outside import ARRIVALS_MAX, Outside
from pixconnect.features.sandbox.network.registry import HOST
from pixconnect.platform import pool as pool_module
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.flow.batches import Batches
from pixconnect.platform.http import listening as descriptors
from pixconnect.platform.http.server import Server
from pixconnect.platform.migrations import refuse_other_tables
from pixconnect.platform.privileges import SANDBOX_ROLE

SCHEMA: Final = "sandbox"
LOCK_KEY: Final = 0x7069_7862  # the advisory lock of the process that is the sandbox of this database

_CONNECTIONS_MAX = 8
_GRACE_S = 1
_TAKEOVER_TRIES_MAX = 300
_TAKEOVER_WAIT_S = 0.1
_AGAIN_AFTER_S = 0.25

_log = structlog.get_logger(__name__)


class AlreadyRunningError(Exception):
    """Another process is the sandbox of this database, and does not end."""


class SandboxSettings(Struct, frozen=True, kw_only=True):
    database_url: str  # the login must be allowed to take the role ``pixconnect_sandbox``
    secrets: Sequence[str]  # any of them authenticates the service
    seed: int
    latency_ms: int  # from the acceptance of an ordinary order to its settlement
    two_steps_ms: int = 0  # likewise for payments to our holders; 0 settles them in one step


async def serve(
    settings: SandboxSettings, listener: socket.socket, clock: Clock, stop: asyncio.Event, on_ready: Callable[[], None]
) -> None:
    """Run the sandbox until stopped, on a listener that is bound to 127.0.0.1.

    Its state in memory is tied to the connection that holds the lock, and is read again after each new connection.

    Raises:
        AlreadyRunningError: Another process is the sandbox of this database.
        SchemaError: Its tables are not those of this program.
        OSError: The database cannot be reached at the start; later it is waited for.
    """
    is_first = True
    while not stop.is_set():
        # Calls fail at once while the database is unreachable, and not at their timeout.
        hanging_up = None if is_first else await asyncio.start_server(_hang_up, sock=listener.dup())

        def signal_ready(hanging_up: asyncio.Server | None = hanging_up) -> None:
            nonlocal is_first
            if hanging_up is not None:
                hanging_up.close()
            if is_first:
                on_ready()
            is_first = False

        try:
            with listener.dup() as own:  # the server closes its listener
                await _serve_while_connected(settings, own, clock, stop, signal_ready)
        except DATABASE_FAILED as error:
            if is_first:
                raise
            _log.warning("the sandbox waits for the database", reason=type(error).__name__)
            await asyncio.sleep(_AGAIN_AFTER_S)
        finally:
            if hanging_up is not None:
                hanging_up.close()


async def _hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def _serve_while_connected(
    settings: SandboxSettings, listener: socket.socket, clock: Clock, stop: asyncio.Event, on_ready: Callable[[], None]
) -> None:
    port: int = listener.getsockname()[1]
    lost = asyncio.Event()
    async with _being_the_only_one(settings, lost.set), open_application(settings, clock, f"{HOST}:{port}") as application:
        connections_max = descriptors.share_out(descriptors.raise_limit(), _CONNECTIONS_MAX)
        server = Server(application, connections_max=connections_max, grace_s=_GRACE_S)
        # Requests that wait for a report or an acknowledgement are answered first: they would outlast the grace period.
        await server.serve_until([listener], [stop, lost], on_ready=on_ready, on_stop=application.release)


@asynccontextmanager
async def open_application(settings: SandboxSettings, clock: Clock, address: str) -> AsyncGenerator[SandboxApplication]:
    """Open the application and its database; ``address`` is the ``host:port`` at which it will be reached."""
    pool = await pool_module.open_pool(
        settings.database_url, role=SANDBOX_ROLE, schema=SCHEMA, connections_max=_CONNECTIONS_MAX, name="pixconnect sandbox"
    )
    chance = Chance(settings.seed)
    faults = Faults(chance)
    network = Network(pool, clock, faults, partial(outside.save_faults, pool, faults), settings.latency_ms)
    try:
        faults.replace(await registry.read_rules(pool))
        await network.open()
        network.arrival_numbers = count(await tables.last_number(pool) + 1)
        world = Outside(
            pool=pool,
            clock=clock,
            chance=chance,
            faults=faults,
            network=network,
            signer=await registry.open_signer(pool, address, clock.real_now()),
            address=address,
            entry_numbers=count(await pool.fetchval(registry.LAST_ENTRY) + 1),
            code_numbers=count(await pool.fetchval(registry.LAST_CODE) + 1),
            arrivals=Batches(network.insert_arrivals, ARRIVALS_MAX),
            deciding=asyncio.Lock(),
            two_steps_ms=settings.two_steps_ms,
        )
        yield SandboxApplication(world, settings.secrets)
    finally:
        network.close()
        async with asyncio.timeout(2):
            await pool.close()


@asynccontextmanager
async def _being_the_only_one(settings: SandboxSettings, on_lost: Callable[[], None]) -> AsyncGenerator[None]:
    """Hold the database's lock; ``on_lost`` is called when its connection ends, and with it the lock."""
    connection = await pool_module.connect(
        settings.database_url, role=SANDBOX_ROLE, schema=SCHEMA, name="pixconnect sandbox lock"
    )

    def lose(_: object) -> None:
        on_lost()

    try:
        await refuse_other_tables(connection, SCHEMA, read_network_steps())
        await _take_lock(connection)
        connection.add_termination_listener(lose)
        yield
        connection.remove_termination_listener(lose)
    finally:
        await connection.close(timeout=1)


async def _take_lock(connection: asyncpg.Connection) -> None:
    # Tried for 30 s: the process before this one may still be ending.
    for _ in range(_TAKEOVER_TRIES_MAX):
        if await connection.fetchval("select pg_try_advisory_lock($1)", LOCK_KEY):
            return
        await asyncio.sleep(_TAKEOVER_WAIT_S)
    raise AlreadyRunningError("another sandbox is running on this database: stop it first")
