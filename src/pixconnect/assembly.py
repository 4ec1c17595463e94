"""Puts the rooms together: the only module that names every one of them.

Three processes are assembled here, and each can be killed at any instant: ``serve`` answers callers, ``work`` does what has a
time, ``sandbox`` is the other side of the rail. All they share is PostgreSQL.
"""

import asyncio
import hashlib
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec
from cryptography import x509

from pixconnect import __version__
from pixconnect.adapters.certificate_chain import Trusted, trust_bundle, trust_sandbox
from pixconnect.adapters.location_reader import LIMITS as LOCATION_LIMITS
from pixconnect.adapters.location_reader import LocationReader
from pixconnect.adapters.no_rail import NoRail
from pixconnect.adapters.outgoing_http import Limits, OutgoingHttp
from pixconnect.adapters.qr_image import render_qr_png
from pixconnect.adapters.rail_sandbox import HttpSandboxControl, SandboxConnection, SandboxRail
from pixconnect.adapters.secret_box import AesSecretBox, read_or_make_secret_key, read_secret_key
from pixconnect.adapters.system import SystemClock, SystemEntropy
from pixconnect.adapters.webhook_sender import WebhookSender
from pixconnect.api import metrics as api_metrics
from pixconnect.api.application import make_application
from pixconnect.api.descriptions import describe
from pixconnect.api.http_protocol import make_server
from pixconnect.api.location import LOCATION_KEY_SET_PATH, LOCATION_PATH
from pixconnect.api.services import Services
from pixconnect.config import Settings, SettingsError
from pixconnect.domain import access
from pixconnect.domain.rail import Rail
from pixconnect.foundation import listening, pool
from pixconnect.foundation.logging import AccessLog, is_for_people, set_up_logging
from pixconnect.foundation.metrics import tell_metrics
from pixconnect.foundation.notifier import Notifier
from pixconnect.sandbox import server as sandbox_server
from pixconnect.sandbox.server import SandboxSettings
from pixconnect.store.identifiers import IdBlocks
from pixconnect.usecases import delivery, health
from pixconnect.usecases.access import TokenDesk
from pixconnect.usecases.clock import follow_clock
from pixconnect.usecases.context import Context, Policy
from pixconnect.usecases.demonstration import DemoCredentials, prepare_demonstration
from pixconnect.usecases.directory import HolderDirectory
from pixconnect.usecases.groups import GroupCommits
from pixconnect.usecases.health import HealthWatch
from pixconnect.usecases.signing_key import Keyring
from pixconnect.usecases.token import TokenVerifier
from pixconnect.worker import run as worker_run
from pixconnect.worker.delivery_log import AttemptLog
from pixconnect.worker.delivery_queue import QueueLimits
from pixconnect.worker.run import WorkerParts

if TYPE_CHECKING:
    from pixconnect.foundation.pool import Pool

SERVICE_ROLE: Final = "pixconnect_service"
SERVICE_SCHEMA: Final = "pixconnect"

_CLOSE_TIMEOUT_S = 1.0
_WEBHOOK_LIMITS = Limits(connect_s=5.0, exchange_s=15.0, body_kept_max=1024)


def make_policy(settings: Settings) -> Policy:
    """The operator's rules, out of the settings."""
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
        token_lifetime_s=settings.token_lifetime_s,
        token_failures_max=settings.token_failures_max,
        signing_key_rotation_days=settings.signing_key_rotation_days,
        signing_key_published_days=settings.signing_key_published_days,
    )


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """What every process of the service has.

    Attributes:
        context: For use cases.
        keyring: Its signer, with the keys that others need.
    """

    context: Context
    keyring: Keyring


@asynccontextmanager
async def open_base(settings: Settings, name: str) -> AsyncGenerator[Base]:
    """Open everything that a process of the service needs; on the way out, what waits is written.

    Args:
        settings: All of them.
        name: Of the process, as PostgreSQL shows it.

    Raises:
        SettingsError: There is no address of the sandbox.
    """
    clock, entropy, policy = SystemClock(), SystemEntropy(), make_policy(settings)
    secret_box = AesSecretBox(read_secret_key(settings.secret_key, settings.home_path), entropy)
    async with AsyncExitStack() as opened:
        connections = await pool.open_pool(
            settings.database_url,
            role=SERVICE_ROLE,
            schema=SERVICE_SCHEMA,
            connections_max=settings.database_connections_max,
            name=name,
        )
        opened.push_async_callback(_close_pool, connections)
        keyring = Keyring(pool=connections, clock=clock, policy=policy, secret_box=secret_box)
        await keyring.start()
        rail, control = await opened.enter_async_context(_open_rail(settings, secret_box))
        tls = ssl.create_default_context()
        webhook_http, location_http = OutgoingHttp(_WEBHOOK_LIMITS, tls=tls), OutgoingHttp(LOCATION_LIMITS, tls=tls)
        opened.push_async_callback(webhook_http.close)
        opened.push_async_callback(location_http.close)
        wake_workers = Notifier(connections).notify
        groups = GroupCommits(
            pool=connections,
            clock=clock,
            size_max=settings.group_size_max,
            queue_length_max=settings.queue_length_max,
            wake_workers=wake_workers,
        )
        opened.push_async_callback(groups.close)
        context = Context(
            pool=connections,
            clock=clock,
            entropy=entropy,
            ids=IdBlocks(connections),
            groups=groups,
            policy=policy,
            directory=HolderDirectory(connections, policy.ispb, policy.institution_name),
            rail=rail,
            locations=LocationReader(location_http, clock, _trusted(settings, control), is_sandbox=policy.is_sandbox),
            signer=keyring,
            receivers=WebhookSender(webhook_http, is_sandbox=policy.is_sandbox),
            secret_box=secret_box,
            sandbox_control=control,
            wake_workers=wake_workers,
        )
        yield Base(context=context, keyring=keyring)


async def serve(
    settings: Settings, sockets: Sequence[socket.socket], stop: asyncio.Event, report_ready: Callable[[], None]
) -> None:
    """Answer callers on these sockets until told to stop; requests under way are finished."""
    set_up_logging(settings.log_format, settings.log_level)
    async with open_base(settings, "pixconnect api") as base:
        verifier, policy = TokenVerifier(base.context, base.keyring), base.context.policy
        services = Services(
            context=base.context,
            verifier=verifier,
            token_desk=TokenDesk(base.context, base.keyring),
            keyring=base.keyring,
            read_health=_watch_health(base).read_health,
            render_qr_png=render_qr_png,
            descriptions=describe(policy, base_url=settings.public_base_url, version=__version__),
            trusted_proxies=access.parse_networks(settings.trusted_proxies),
            version=__version__,
        )
        application = make_application(services, AccessLog(base.context.clock, is_on=settings.log_level == "debug"))
        server = make_server(application)
        async with (
            _running(base.keyring.keep_fresh(), verifier.keep_fresh(), *_follow_clock(settings, base)),
            tell_metrics(
                _listen_for_metrics(settings),
                api_metrics.make_read(base.context, application.answers, application.durations_s),
            ),
        ):
            serving = asyncio.create_task(server.serve(sockets=list(sockets)))
            report_ready()
            await asyncio.wait([serving, asyncio.ensure_future(stop.wait())], return_when=asyncio.FIRST_COMPLETED)
            server.should_exit = True
            await serving


async def work(settings: Settings, stop: asyncio.Event, report_ready: Callable[[], None]) -> None:
    """Do what has a time until told to stop: settle, expire, deliver, keep house."""
    set_up_logging(settings.log_format, settings.log_level)
    owner_url = settings.owner_database_url or settings.database_url
    async with (
        open_base(settings, "pixconnect worker") as base,
        _running(base.keyring.keep_fresh(), *_follow_clock(settings, base)),
    ):
        parts = WorkerParts(
            context=base.context,
            signing=base.keyring,
            connect=partial(
                pool.connect, settings.database_url, role=SERVICE_ROLE, schema=SERVICE_SCHEMA, name="pixconnect leases"
            ),
            connect_as_owner=partial(
                pool.connect, owner_url, role=None, schema=SERVICE_SCHEMA, name="pixconnect housekeeping"
            ),
            limits=QueueLimits(
                endpoint_max=settings.webhook_in_flight_max, holder_max=settings.webhook_in_flight_holder_max
            ),
            attempt_log=AttemptLog(
                base.context.clock,
                is_on=settings.log_level in {"debug", "info"},
                is_for_people=is_for_people(settings.log_format),
            ),
            event_retention_days=settings.event_retention_days,
            tell_metrics=partial(tell_metrics, _listen_for_metrics(settings)),
        )
        await worker_run.work(parts, stop, report_ready)


async def sandbox(settings: Settings, stop: asyncio.Event, report_ready: Callable[[], None]) -> None:
    """Be the other side of the rail until told to stop."""
    set_up_logging(settings.log_format, settings.log_level)
    entropy = SystemEntropy()
    secret_box = AesSecretBox(read_secret_key(settings.secret_key, settings.home_path), entropy)
    sandbox_settings = SandboxSettings(
        database_url=settings.database_url,
        secret=_rail_secret(secret_box),
        seed=settings.sandbox_seed,
        latency_ms=settings.sandbox_latency_ms,
    )
    (listener,) = listening.open_listening(
        "127.0.0.1", settings.sandbox_port, 1, port_setting="PIXCONNECT_SANDBOX_PORT"
    )
    with listener:
        await sandbox_server.serve(sandbox_settings, listener, SystemClock(), stop, report_ready)


def prepare_home(settings: Settings) -> None:
    """Make what the home must hold before any process starts: the key that seals secrets at rest.

    Raises:
        SecretKeyError: The setting or the file holds no key.
        OSError: The file can be neither read nor made.
    """
    read_or_make_secret_key(settings.secret_key, settings.home_path, SystemEntropy())


async def prepare_demo(settings: Settings, known: DemoCredentials | None) -> DemoCredentials:
    """Make what is missing of the sandbox's demonstration; ``known`` is what it answered at an earlier start."""
    set_up_logging(settings.log_format, settings.log_level)
    async with open_base(settings, "pixconnect prepare") as base:
        return await prepare_demonstration(base.context, known)


def _follow_clock(settings: Settings, base: Base) -> Sequence[Coroutine[None, None, None]]:
    """In the sandbox, whoever dates something hears of it when the clock is moved."""
    if not base.context.policy.is_sandbox:
        return ()
    connect = partial(
        pool.connect, settings.database_url, role=SERVICE_ROLE, schema=SERVICE_SCHEMA, name="pixconnect clock"
    )
    return (follow_clock(base.context, connect),)


def _listen_for_metrics(settings: Settings) -> socket.socket | None:
    """Where this process tells its metrics, if it does."""
    if not settings.metrics_port:
        return None
    (listener,) = listening.open_listening(
        "127.0.0.1", settings.metrics_port, 1, port_setting="PIXCONNECT_METRICS_PORT"
    )
    return listener


@asynccontextmanager
async def _open_rail(
    settings: Settings, secret_box: AesSecretBox
) -> AsyncGenerator[tuple[Rail, HttpSandboxControl | None]]:
    """The network of this mode, and in the sandbox the doors to it."""
    if settings.mode != "sandbox":
        yield NoRail(), None
        return
    if not settings.rail_url:
        raise SettingsError("PIXCONNECT_RAIL_URL: missing; it is where `pixconnect sandbox` answers")
    connection = SandboxConnection(settings.rail_url, _rail_secret(secret_box))
    try:
        yield SandboxRail(connection), HttpSandboxControl(connection)
    finally:
        await connection.close()


async def _close_pool(connections: "Pool") -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(connections.close(), _CLOSE_TIMEOUT_S)


def _trusted(settings: Settings, control: HttpSandboxControl | None) -> Trusted:
    """Whose signature on a QR code's payload is believed: in the sandbox its own CA, in live mode a configured bundle."""
    if control is not None:
        return trust_sandbox(control)
    if settings.location_ca_file:
        return trust_bundle(Path(settings.location_ca_file).read_bytes())

    async def trust_nobody() -> Sequence[x509.Certificate]:
        return ()

    return trust_nobody


@asynccontextmanager
async def _running(*tasks: Coroutine[None, None, None]) -> AsyncGenerator[None]:
    """Keep these running meanwhile."""
    running = [asyncio.create_task(task) for task in tasks]
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _rail_secret(secret_box: AesSecretBox) -> str:
    """Shared by the service and its sandbox, and by nobody else on this machine."""
    return hashlib.blake2b(secret_box.fingerprint(b"", "sandbox"), digest_size=16).hexdigest()


def _watch_health(base: Base) -> HealthWatch:
    context = base.context

    async def check_signing_key() -> None:
        base.keyring.check()

    return HealthWatch(
        {
            "database": partial(health.check_database, context.pool),
            "rail": partial(health.check_rail, context.rail),
            "webhooks": partial(health.check_webhooks, partial(delivery.read_oldest_due, context), context.clock),
            "signing_key": check_signing_key,
        },
        context.clock,
    )
