"""Opens the shared resources of each process, and its background tasks, standby and traces."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import structlog

from pixconnect.assembly.outside import SharedParts, has_rail, open_shared_parts
from pixconnect.doors.worker.leases import Connect
from pixconnect.features.identity.service.keyring import SIGNER, Keyring
from pixconnect.features.locations.api import LOCATION_KEY_SET_PATH, LOCATION_PATH
from pixconnect.features.sandbox.service.clock import follow_clock
from pixconnect.features.sandbox.service.sandbox import SANDBOX_CONTROL
from pixconnect.features.webhooks.service.endpoint import RECEIVERS
from pixconnect.kernel.baseline import SERVICE_SCHEMA, read_service_steps
from pixconnect.kernel.feature import gather
from pixconnect.kernel.flows import installation
from pixconnect.kernel.flows.context import Context, Core, Policy, Port, PortRow
from pixconnect.kernel.flows.directory import HolderDirectory
from pixconnect.kernel.flows.server_watch import ServerWatch
from pixconnect.kernel.flows.standby import AGE_MAX_S, Standby
from pixconnect.kernel.tables import installation as installation_store
from pixconnect.kernel.tables.clock import IdBlocks
from pixconnect.kernel.writing.write_queues import QUEUE_LENGTH_MAX, WriteQueues
from pixconnect.platform import migrations as schema_history
from pixconnect.platform import pool
from pixconnect.platform.adapters.secret_box import AesSecretBox, open_secret_box
from pixconnect.platform.adapters.system import ServerFile, SystemClock, SystemEntropy
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.config import Settings
from pixconnect.platform.http import listening
from pixconnect.platform.notifier import EventNotifier, Notifier
from pixconnect.platform.privileges import SERVICE_ROLE
from pixconnect.platform.shared_pool import SharedPool


def make_policy(settings: Settings) -> Policy:
    base = urlsplit(settings.public_base_url)
    return Policy(
        ispb=settings.named_ispb,
        institution_name=settings.institution_name,
        location_prefix=f"{base.netloc}{base.path}{LOCATION_PATH}",
        location_key_set_url=f"{settings.public_base_url}{LOCATION_KEY_SET_PATH}",
        auth_url=settings.public_auth_url,
        base_url=settings.public_base_url,
        callback_base_url=(settings.callback_base_url or settings.public_base_url).rstrip("/"),
        is_sandbox=settings.mode == "sandbox",
        has_rail=has_rail(settings),
    )


class Base(msgspec.Struct, frozen=True, kw_only=True):
    settings: Settings
    context: Context
    keyring: Keyring  # the context's signer, with the keys for verification
    notifier: Notifier
    shared: SharedParts


@asynccontextmanager
async def open_base(settings: Settings, name: str, *, plans_once: bool = False) -> AsyncGenerator[Base]:
    """Open all shared resources of a process; at the end, queued writes come first. Other arguments as in ``open_pool``.

    Raises:
        InstallationError: The database is of the other mode, or in live mode not durable.
        SchemaError: The tables are not those of this program.
        SettingsError: The sandbox's address is missing.
        ClientCertificateError: The certificate for receivers is missing.
    """
    # Everything is closed in the opposite order: the writes before the connections that they need.
    clock, entropy, policy = SystemClock(), SystemEntropy(), make_policy(settings)
    secret_box = open_own_secret_box(settings, entropy)
    server = ServerWatch(
        ServerFile(settings.home_path),
        has_rail=policy.has_rail,
        must_last=settings.mode == "live",
        cluster=settings.database_cluster,
    )
    async with AsyncExitStack() as opened:
        connections = await _open_connections(settings, name, server, plans_once=plans_once)
        opened.push_async_callback(pool.close_pool, connections)
        await _check_database(connections, settings, server, policy)
        core = Core(pool=connections, clock=clock, entropy=entropy, policy=policy, secret_box=secret_box)
        keyring = Keyring(core)
        await keyring.start()
        directory = HolderDirectory(connections, policy.ispb, policy.institution_name, clock.monotonic_s)
        keyring.on_look, directory.on_use = directory.note_revision, keyring.note_use
        shared = await opened.enter_async_context(open_shared_parts(settings, secret_box, clock))
        policy = msgspec.structs.replace(policy, abilities=shared.rail.abilities)
        notifier = Notifier(connections)
        writes = make_writes(connections, clock, notifier)
        opened.push_async_callback(writes.close)
        ports: dict[Port[Any], Any] = {SIGNER: keyring, RECEIVERS: shared.receivers, SANDBOX_CONTROL: shared.control}
        for row in gather("ports", PortRow):
            ports |= await opened.enter_async_context(row.open(settings, core, server))
        context = Context(
            pool=connections,
            clock=clock,
            entropy=entropy,
            ids=IdBlocks(connections),
            writes=writes,
            policy=policy,
            directory=directory,
            rail=shared.rail,
            locations=shared.locations,
            secret_box=secret_box,
            wake_workers=notifier.notify,
            server=server,
            ports=ports,
        )
        # Sessions may still use the tables of a restored database's predecessor.
        server.on_start(keyring.forget_all, connections.expire)
        yield Base(settings=settings, context=context, keyring=keyring, notifier=notifier, shared=shared)


def make_writes(connections: pool.Pool, clock: Clock, notifier: Notifier) -> WriteQueues:
    return WriteQueues(
        pool=connections, clock=clock, wake_workers=notifier.notify, wake_sequencer=EventNotifier(connections).notify
    )


async def _check_database(connections: pool.Pool, settings: Settings, server: ServerWatch, policy: Policy) -> None:
    """Before any write, check that the tables are ours, of this mode, on a server with durable settings."""
    async with connections.acquire() as connection:
        another = connect_as_service(settings, "pixconnect beside")
        await pool.refuse_shared_sessions(connection, SERVICE_SCHEMA, another)
        await schema_history.refuse_other_tables(connection, SERVICE_SCHEMA, read_service_steps())
        await installation.check_mode(connection, settings.mode)
        await installation.check_durability(connection, settings.mode)
        await server.begin(connection)
        await installation_store.note_location_prefix(connection, policy.location_prefix)


def list_background_tasks(base: Base, *, for_others: bool) -> Sequence[Callable[[], Awaitable[None]]]:
    context = base.context
    noting = partial(context.server.keep_noting, context.pool, for_others=for_others)
    tasks: list[Callable[[], Awaitable[None]]] = [base.keyring.keep_fresh, noting]
    # Only the sandbox's clock can be moved; a process that missed a move would date facts wrongly for a moment. The worker
    # receives moves by the connection of its leases.
    if context.policy.is_sandbox and not for_others:
        tasks.append(partial(follow_clock, context, connect_as_service(base.settings, "pixconnect clock")))
    return tasks


def connect_as_service(settings: Settings, name: str) -> Connect:
    return partial(pool.connect, settings.database_url, role=SERVICE_ROLE, schema=SERVICE_SCHEMA, name=name)


def listen_for_metrics(settings: Settings) -> socket.socket | None:
    """Listen on loopback, where the operator has set a port."""
    if not settings.metrics_port:
        return None
    (listener,) = listening.open_listening("127.0.0.1", settings.metrics_port, 1, port_setting="PIXCONNECT_METRICS_PORT")
    return listener


async def _open_connections(settings: Settings, name: str, server: ServerWatch, *, plans_once: bool) -> SharedPool:
    return await pool.open_pool(
        settings.database_url,
        role=SERVICE_ROLE,
        schema=SERVICE_SCHEMA,
        connections_max=settings.database_connections_max,
        name=name,
        waiting_max=QUEUE_LENGTH_MAX,
        look=server.look,
        plans_once=plans_once,
    )


def open_own_secret_box(settings: Settings, entropy: SystemEntropy) -> AesSecretBox:
    return open_secret_box(settings.secret_key, settings.secret_key_previous, settings.home_path, entropy)


AGAIN_AFTER_S: Final = 1.0

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def running_beside(*tasks: Callable[[], Awaitable[None]]) -> AsyncGenerator[None]:
    """Run these beside the block, and cancel them after it."""
    running = [asyncio.create_task(keep_running(task)) for task in tasks]
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def keep_running(run: Callable[[], Awaitable[None]]) -> None:
    """Run until it returns or this is cancelled; a raised error is logged, and it is restarted after a moment."""
    has_failed = False
    while True:
        try:
            if has_failed:
                await asyncio.sleep(AGAIN_AFTER_S)
            return await run()
        except Exception:  # noqa: BLE001  as it says
            has_failed = True
            # Without memory, even logging may fail.
            with suppress(Exception):
                name = getattr(getattr(run, "func", run), "__qualname__", None)
                _log.exception("what runs beside has failed, and is begun again", task=name)


@asynccontextmanager
async def open_standby(settings: Settings, context: Context, name: str) -> AsyncGenerator[Standby | None]:
    """Watch the configured standby; ``None`` without one. It need not be running yet."""
    if not settings.read_database_url:
        yield None
        return
    standby = Standby(context.pool, context.clock, age_max_s=AGE_MAX_S)
    connections = await pool.open_standby_pool(
        settings.read_database_url,
        primary=context.pool,
        role=SERVICE_ROLE,
        schema=SERVICE_SCHEMA,
        connections_max=settings.database_connections_max,
        name=f"{name} standby",
        check=standby.check,
    )
    standby.use(connections)
    # Restored tables are others there too.
    context.server.on_start(connections.expire)
    try:
        async with running_beside(standby.keep_watch):
            yield standby
    finally:
        await pool.close_pool(connections)
