"""Puts the rooms together: the only module that names every one of them.

Three processes are assembled here, and each can be killed at any instant: ``serve`` answers callers, ``work`` does what falls
due, ``sandbox`` is the other side of the rail. They share nothing but PostgreSQL.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import msgspec

from pixconnect import __version__
from pixconnect.adapters.qr_image import QrPictures
from pixconnect.adapters.secret_box import AesSecretBox, open_secret_box, read_or_make_secret_key
from pixconnect.adapters.server_file import ServerFile
from pixconnect.adapters.system import SystemClock, SystemEntropy, name_system_user
from pixconnect.api.application import make_application
from pixconnect.api.descriptions import describe
from pixconnect.api.frame import metrics as api_metrics
from pixconnect.api.frame.browser import safe_headers
from pixconnect.api.frame.rates import make_request_rates
from pixconnect.api.frame.request_lines import choose_access_log
from pixconnect.api.frame.services import Services
from pixconnect.api.standard.payload import LOCATION_KEY_SET_PATH, LOCATION_PATH
from pixconnect.assembly.outside import open_outgoing, open_rail, rail_secrets
from pixconnect.config import Settings
from pixconnect.domain.identity import access
from pixconnect.flow.turns import Turns
from pixconnect.foundation import pool, schema_history
from pixconnect.foundation.logging import set_up_logging
from pixconnect.foundation.notifier import EventNotifier, Notifier
from pixconnect.foundation.pool import Pool
from pixconnect.foundation.privileges import OPERATOR_ROLE, SERVICE_ROLE
from pixconnect.http import descriptors, listening, tls
from pixconnect.http.metrics import serve_metrics
from pixconnect.http.server import Server
from pixconnect.sandbox import server as sandbox_server
from pixconnect.sandbox.server import SandboxSettings
from pixconnect.store.frame.identifiers import IdBlocks
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.frame.directory import HolderDirectory
from pixconnect.usecases.frame.operator import Operator
from pixconnect.usecases.frame.policy import Policy
from pixconnect.usecases.frame.server_watch import ServerWatch
from pixconnect.usecases.identity.keyring import Keyring
from pixconnect.usecases.identity.token import TokenVerifier
from pixconnect.usecases.identity.token_issuer import TokenIssuer
from pixconnect.usecases.running import installation
from pixconnect.usecases.running.health_watches import watch_health, watch_readiness
from pixconnect.usecases.simulation.clock import follow_clock
from pixconnect.usecases.simulation.demonstration import DemoCredentials, prepare_demonstration
from pixconnect.usecases.webhooks.feed_waits import FeedWaits
from pixconnect.worker import run as worker_run
from pixconnect.worker.delivery_log import AttemptLog
from pixconnect.worker.delivery_queue import QueueLimits
from pixconnect.worker.leases import Connect
from pixconnect.worker.run import WorkerParts
from pixconnect.writing.write_queues import WriteQueues

SERVICE_SCHEMA: Final = "pixconnect"
SERVICE_PACKAGE: Final = "pixconnect.store"


def make_policy(settings: Settings) -> Policy:
    base = urlsplit(settings.public_base_url)
    return Policy(
        ispb=settings.ispb,
        institution_name=settings.institution_name,
        location_prefix=f"{base.netloc}{base.path}{LOCATION_PATH}",
        location_key_set_url=f"{settings.public_base_url}{LOCATION_KEY_SET_PATH}",
        auth_url=settings.public_auth_url,
        charge_lifetime_s=settings.charge_lifetime_s,
        handover_timeout_s=settings.handover_timeout_s,
        is_sandbox=settings.mode == "sandbox",
        has_rail=settings.mode == "sandbox",
        token_lifetime_s=settings.token_lifetime_s,
        token_failures_max=settings.token_failures_max,
        signing_key_rotation_days=settings.signing_key_rotation_days,
        signing_key_published_days=settings.signing_key_published_days,
        webhook_pending_max=settings.webhook_pending_max,
        lookup_tokens_max=settings.lookup_tokens_max,
        lookup_refill_count=settings.lookup_refill_count,
    )


class Base(msgspec.Struct, frozen=True, kw_only=True):
    context: Context
    keyring: Keyring
    """The context's signer, with the keys that others verify by."""
    notifier: Notifier


@asynccontextmanager
async def open_base(settings: Settings, name: str, *, plans_once: bool = False) -> AsyncGenerator[Base]:
    """Open everything that a process of the service needs; on the way out, what waits is written first.

    Args:
        settings: Those of this process.
        name: The process, as PostgreSQL shows it.
        plans_once: As in ``open_pool``.

    Raises:
        InstallationError: The database is of the other mode, or in live mode not durable.
        SchemaError: The tables are not those of this program.
        SettingsError: The sandbox's address is missing.
        ClientCertificateError: There is no certificate for receivers where the settings say.
    """
    # Everything is closed in the opposite order: the writes before the connections that they need.
    clock, entropy, policy = SystemClock(), SystemEntropy(), make_policy(settings)
    secret_box = _open_secret_box(settings, entropy)
    server = ServerWatch(ServerFile(settings.home_path), has_rail=policy.has_rail)
    async with AsyncExitStack() as opened:
        connections = await _open_connections(settings, name, server, plans_once=plans_once)
        opened.push_async_callback(pool.close_pool, connections)
        ids = IdBlocks(connections)
        # Before anything is written: the tables must be this program's, of this mode, on a server that forgets nothing.
        async with connections.acquire() as connection:
            await schema_history.refuse_other_tables(connection, SERVICE_SCHEMA, SERVICE_PACKAGE)
            await installation.check_mode(connection, settings.mode)
            await installation.check_durability(connection, settings.mode)
            await server.begin(connection)
        keyring = Keyring(pool=connections, clock=clock, policy=policy, secret_box=secret_box)
        await keyring.start()
        directory = HolderDirectory(connections, policy.ispb, policy.institution_name, clock.monotonic_s)
        keyring.on_look, directory.on_use = directory.note_revision, keyring.note_use
        rail, control = await opened.enter_async_context(open_rail(settings, secret_box))
        policy = msgspec.structs.replace(policy, abilities=rail.abilities)
        locations, receivers = await opened.enter_async_context(open_outgoing(settings, clock, control))
        notifier = Notifier(connections)
        writes = WriteQueues(
            pool=connections,
            clock=clock,
            size_max=settings.group_size_max,
            queue_length_max=settings.queue_length_max,
            wake_workers=notifier.notify,
            wake_sequencer=EventNotifier(connections).notify,
        )
        opened.push_async_callback(writes.close)
        context = Context(
            pool=connections,
            clock=clock,
            entropy=entropy,
            ids=ids,
            writes=writes,
            policy=policy,
            directory=directory,
            rail=rail,
            locations=locations,
            signer=keyring,
            receivers=receivers,
            secret_box=secret_box,
            sandbox_control=control,
            wake_workers=notifier.notify,
            server=server,
        )
        server.on_start(keyring.forget_all)
        yield Base(context=context, keyring=keyring, notifier=notifier)


async def serve(
    settings: Settings, sockets: Sequence[socket.socket], stop: asyncio.Event, report_ready: Callable[[], None]
) -> None:
    """Answer callers on these sockets until told to stop; those of ``tls_port`` speak TLS. Requests under way are finished."""
    # Each connection is a file: the limit is raised as far as it goes, and the rest is shared out below.
    files_max = descriptors.raise_limit()
    set_up_logging(settings.log_format, settings.log_level, is_watched=settings.mode == "sandbox")
    async with open_base(settings, "pixconnect api") as base, _open_access_pool(settings, base) as access_pool:
        verifier, policy = TokenVerifier(base.context, base.keyring, access_pool), base.context.policy
        base.context.server.on_start(verifier.forget_all)
        turns, feed_waits = Turns(), FeedWaits(_connect(settings, "pixconnect feed"))
        services = Services(
            context=base.context,
            verifier=verifier,
            token_issuer=TokenIssuer(base.context, base.keyring),
            keyring=base.keyring,
            read_health=watch_health(base.context, base.keyring, lacks_proxies=settings.lacks_proxies).read_health,
            read_readiness=watch_readiness(base.context, base.keyring, access_pool).read_health,
            shows_system=settings.shows_system,
            binds_tokens=bool(settings.tls_port),
            draw_qr_png=QrPictures(turns).draw,
            feed_waits=feed_waits,
            admission=base.context.writes.overload,
            turns=turns,
            descriptions=describe(policy, base_url=settings.public_base_url, version=__version__),
            base_url=settings.public_base_url,
            rates=make_request_rates(base.context.clock, settings.client_requests_max, settings.holder_requests_max),
            trusted_proxies=access.parse_networks(settings.trusted_proxies),
            version=__version__,
        )
        application = make_application(
            services, choose_access_log(base.context.clock, settings.access_log, settings.log_level)
        )
        server = Server(
            application,
            connections_max=descriptors.share_out(files_max, settings.database_connections_max),
            headers=safe_headers(settings.public_base_url),
        )
        async with (
            _running(verifier.keep_fresh(), feed_waits.listen(), *_keep_up(settings, base, for_others=False)),
            serve_metrics(
                _listen_for_metrics(settings),
                api_metrics.make_api_read(base.context.writes, application.answers, application.durations_s),
            ),
        ):
            plain, secure = tls.split(sockets, settings.tls_port, settings.tls_files)
            await server.serve_until(plain, [stop], tls=secure, on_ready=report_ready, on_stop=feed_waits.end)


async def work(settings: Settings, stop: asyncio.Event, report_ready: Callable[[], None]) -> None:
    """Do what falls due until told to stop: settle, expire, deliver, tidy up."""
    descriptors.raise_limit()
    set_up_logging(settings.log_format, settings.log_level, is_watched=settings.mode == "sandbox")
    async with (
        # It asks for no lists, whose best plan depends on what is looked for.
        open_base(settings, "pixconnect worker", plans_once=True) as base,
        _running(*_keep_up(settings, base, for_others=True)),
    ):
        parts = WorkerParts(
            context=base.context,
            signing=base.keyring,
            notifier=base.notifier,
            connect=_connect(settings, "pixconnect leases"),
            limits=QueueLimits(
                endpoint_max=settings.webhook_in_flight_max, holder_max=settings.webhook_in_flight_holder_max
            ),
            attempt_log=AttemptLog(
                base.context.clock,
                is_on=settings.log_level in {"debug", "info"},
            ),
            event_retention_days=settings.event_retention_days,
            serve_metrics=partial(serve_metrics, _listen_for_metrics(settings)),
        )
        await worker_run.work(parts, stop, report_ready)


async def sandbox(settings: Settings, stop: asyncio.Event, report_ready: Callable[[], None]) -> None:
    """Simulate the network until told to stop."""
    set_up_logging(settings.log_format, settings.log_level)
    entropy = SystemEntropy()
    secret_box = _open_secret_box(settings, entropy)
    sandbox_settings = SandboxSettings(
        database_url=settings.database_url,
        secrets=rail_secrets(secret_box),
        seed=settings.sandbox_seed,
        latency_ms=settings.sandbox_latency_ms,
        two_steps_ms=settings.sandbox_two_steps_ms,
    )
    (listener,) = listening.open_listening(
        "127.0.0.1", settings.sandbox_port, 1, port_setting="PIXCONNECT_SANDBOX_PORT"
    )
    # The sandbox gives money away: it must never meet a live database.
    await _refuse_live_database(settings)
    with listener:
        await sandbox_server.serve(sandbox_settings, listener, SystemClock(), stop, report_ready)


async def _refuse_live_database(settings: Settings) -> None:
    connection = await _connect(settings, "pixconnect sandbox")()
    try:
        await installation.check_mode(connection, "sandbox")
    finally:
        await connection.close()


def prepare_home(settings: Settings) -> None:
    """Make the key that seals secrets at rest, if there is none yet; no other process may be running.

    Raises:
        SecretKeyError: The setting or the file holds no key.
        OSError: The file can be neither read nor made.
    """
    read_or_make_secret_key(settings.secret_key, settings.home_path, SystemEntropy())


@asynccontextmanager
async def open_operator(
    settings: Settings, *, url: str = "", role: str = OPERATOR_ROLE, connections_max: int = 1
) -> AsyncGenerator[Operator]:
    """Open what operators' verbs need, by their role or a lesser one; ``SchemaError`` or ``SecretKeyError`` if it cannot be."""
    entropy = SystemEntropy()
    secret_box = open_secret_box(settings.secret_key, settings.secret_key_previous, settings.home_path, entropy)
    connections = await pool.open_pool(
        url or settings.operators_url,
        role=role,
        schema=SERVICE_SCHEMA,
        connections_max=connections_max,
        name=f"{role.replace('_', ' ')} verbs",
    )
    try:
        async with connections.acquire() as connection:
            await schema_history.refuse_other_tables(connection, SERVICE_SCHEMA, SERVICE_PACKAGE)
            await installation.check_mode(connection, settings.mode)
        yield Operator(
            pool=connections,
            clock=SystemClock(),
            entropy=entropy,
            policy=make_policy(settings),
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
        return await prepare_demonstration(base.context, operator, known)


def _keep_up(settings: Settings, base: Base, *, for_others: bool) -> Sequence[Coroutine[None, None, None]]:
    context = base.context
    tasks = [base.keyring.keep_fresh(), context.server.keep_noting(context.pool, for_others=for_others)]
    # Only the sandbox's clock can be moved; a process that has not heard of it would date things wrongly for a moment.
    return (
        [*tasks, follow_clock(context, _connect(settings, "pixconnect clock"))] if context.policy.is_sandbox else tasks
    )


def _connect(settings: Settings, name: str) -> Connect:
    return partial(pool.connect, settings.database_url, role=SERVICE_ROLE, schema=SERVICE_SCHEMA, name=name)


def _listen_for_metrics(settings: Settings) -> socket.socket | None:
    """Listen on loopback, where the operator has set a port."""
    if not settings.metrics_port:
        return None
    (listener,) = listening.open_listening(
        "127.0.0.1", settings.metrics_port, 1, port_setting="PIXCONNECT_METRICS_PORT"
    )
    return listener


@asynccontextmanager
async def _open_access_pool(settings: Settings, base: Base) -> AsyncGenerator[Pool]:
    """One connection, opened by the first caller, for access alone: callers are verified however busy everything else is."""
    connections = await pool.open_pool(
        settings.database_url,
        role=SERVICE_ROLE,
        schema=SERVICE_SCHEMA,
        connections_max=1,
        name="pixconnect access",
        waiting_max=settings.queue_length_max,
        look=base.context.server.look,
    )
    try:
        yield connections
    finally:
        await pool.close_pool(connections)


async def _open_connections(settings: Settings, name: str, server: ServerWatch, *, plans_once: bool) -> pool.Pool:
    return await pool.open_pool(
        settings.database_url,
        role=SERVICE_ROLE,
        schema=SERVICE_SCHEMA,
        connections_max=settings.database_connections_max,
        name=name,
        waiting_max=settings.queue_length_max,
        look=server.look,
        plans_once=plans_once,
    )


@asynccontextmanager
async def _running(*tasks: Coroutine[None, None, None]) -> AsyncGenerator[None]:
    """Run these beside the block, and cancel them after it."""
    running = [asyncio.create_task(task) for task in tasks]
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _open_secret_box(settings: Settings, entropy: SystemEntropy) -> AesSecretBox:
    return open_secret_box(settings.secret_key, settings.secret_key_previous, settings.home_path, entropy)
