"""The API process."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime

from msgspec import Struct

from pixconnect import __version__
from pixconnect.assembly.application import Application, make_application
from pixconnect.assembly.base import (
    Base,
    connect_as_service,
    list_background_tasks,
    listen_for_metrics,
    open_base,
    open_standby,
    running_beside,
)
from pixconnect.doors.api.document import safe_headers
from pixconnect.doors.api.extension import Answering, ApiExtension, ApiExtensionRow, TlsDoor
from pixconnect.doors.api.operation import Services, choose_access_log
from pixconnect.doors.api.rates import make_request_rates
from pixconnect.doors.api.site import BUILT, Site
from pixconnect.features.identity.service.access import TokenVerifier
from pixconnect.features.identity.service.keyring import Keyring
from pixconnect.features.identity.service.token_issuer import TokenIssuer
from pixconnect.features.monitoring import process_metrics as api_metrics
from pixconnect.features.monitoring.service.health import ServiceHealth, watch_health, watch_readiness
from pixconnect.features.webhooks.service.feed import FeedWaits
from pixconnect.kernel.baseline import SERVICE_SCHEMA
from pixconnect.kernel.feature import FeatureParts, gather
from pixconnect.kernel.flows.standby import Standby
from pixconnect.kernel.writing.write_queues import QUEUE_LENGTH_MAX
from pixconnect.platform import pool
from pixconnect.platform.adapters.qr_image import QrPictures
from pixconnect.platform.certificates import read_ends
from pixconnect.platform.config import Settings
from pixconnect.platform.flow.turns import Turns
from pixconnect.platform.http import listening as descriptors
from pixconnect.platform.http import tls
from pixconnect.platform.http.server import Server, serve_metrics
from pixconnect.platform.logging import set_up_logging
from pixconnect.platform.metrics import Read
from pixconnect.platform.pool import Pool
from pixconnect.platform.privileges import SERVICE_ROLE


class ApiParts(Struct, frozen=True, kw_only=True):
    access_pool: Pool
    verifier: TokenVerifier
    feed_waits: FeedWaits


@asynccontextmanager
async def open_door(base: Base) -> AsyncGenerator[ApiParts]:
    """Open the application, and run its tasks beside the block."""
    # One connection for access alone: callers are verified however busy everything else is.
    access_pool = await pool.open_pool(
        base.settings.database_url,
        role=SERVICE_ROLE,
        schema=SERVICE_SCHEMA,
        connections_max=1,
        name="pixconnect access",
        waiting_max=QUEUE_LENGTH_MAX,
        look=base.context.server.look,
    )
    try:
        verifier = TokenVerifier(base.context, base.keyring, access_pool)
        base.context.server.on_start(verifier.forget_all)
        feed_waits = FeedWaits(connect_as_service(base.settings, "pixconnect feed"))
        async with running_beside(verifier.keep_fresh, feed_waits.listen, *list_background_tasks(base, for_others=False)):
            yield ApiParts(access_pool=access_pool, verifier=verifier, feed_waits=feed_waits)
    finally:
        await pool.close_pool(access_pool)


async def serve(
    settings: Settings, sockets: Sequence[socket.socket], stop: asyncio.Event, report_ready: Callable[[], None]
) -> None:
    """Serve callers on these sockets until stopped; those of ``tls_port`` use TLS. Running requests are finished."""
    # Each connection is a file: the limit is raised to its maximum, and divided below.
    files_max = descriptors.raise_limit()
    set_up_logging(settings.log_format, settings.log_level, is_watched=settings.mode == "sandbox")
    async with (
        open_base(settings, "pixconnect api") as base,
        open_door(base) as door,
        open_standby(settings, base.context, "pixconnect api") as standby,
        AsyncExitStack() as opened,
    ):
        extensions = [
            await opened.enter_async_context(row.open(settings, base.context))
            for row in gather("api_extensions", ApiExtensionRow)
        ]
        certificates = read_ends(_certificate_files(settings))
        services = _make_services(base, door, standby, extensions, certificates)
        access_log = choose_access_log(base.context.clock, settings.access_log, settings.log_level)
        application = make_application(services, access_log)
        outer: Answering = application
        for extension in extensions:
            outer = extension.wrap(outer, application.find_operation)
        server = Server(
            outer,
            connections_max=descriptors.share_out(files_max, settings.database_connections_max),
            headers=safe_headers(settings.public_base_url),
        )
        async with serve_metrics(listen_for_metrics(settings), _make_read(base, services, application, certificates)):
            plain, secure = tls.split(sockets, settings.tls_port)
            secured: list[tls.Tls] = []
            for extension in extensions:
                plain, own = extension.take_sockets(outer, plain)
                secured += own
            if secure:
                context = tls.make_context(*settings.tls_files, is_required=settings.requires_client_certificate)
                proxies = settings.read_networks("tls_proxies")
                secured.append(tls.Tls(context=context, sockets=secure, app=TlsDoor(outer), proxies=proxies))
            await server.serve_until(plain, [stop], tls=secured, on_ready=report_ready, on_stop=door.feed_waits.end)


def _make_services(
    base: Base,
    door: ApiParts,
    standby: Standby | None,
    extensions: Sequence[ApiExtension],
    certificates: Mapping[str, datetime],
) -> Services:
    settings, context, turns = base.settings, base.context, Turns()
    watch = watch_health(
        context, base.keyring, lacks_proxies=settings.lacks_proxies, certificates=certificates, standby=standby
    )
    readiness = watch_readiness(context, base.keyring, door.access_pool)
    parts: dict[type, object] = {
        Keyring: base.keyring,
        TokenIssuer: TokenIssuer(context, base.keyring),
        ServiceHealth: ServiceHealth(read_health=watch.read_health, read_readiness=readiness.read_health),
        FeedWaits: door.feed_waits,
    }
    for extension in extensions:
        parts |= extension.parts
    return Services(
        context=context,
        verifier=door.verifier,
        of_features=FeatureParts(parts),
        security_contacts=[each.strip() for each in settings.security_contacts.split(",") if each.strip()],
        shows_system=settings.shows_system,
        binds_tokens=bool(settings.tls_port or settings.faces),
        draw_qr_png=QrPictures(turns).draw,
        admission=context.writes.overload,
        turns=turns,
        site=Site(BUILT if settings.documentation == "on" else None),
        base_url=settings.public_base_url,
        rates=make_request_rates(context.clock, settings.client_requests_max, settings.holder_requests_max),
        trusted_proxies=settings.read_networks("trusted_proxies"),
        version=__version__,
        standby=standby,
    )


def _certificate_files(settings: Settings) -> dict[str, str]:
    # Read once: a replacement is not in use before the next start, and proves nothing about this process.
    files = dict[str, str]()
    if settings.tls_port:
        files["PIXCONNECT_TLS_PORT"] = settings.tls_certificate_file
    if settings.webhook_certificate_file:
        files["webhooks"] = settings.webhook_certificate_file
    return files


def _make_read(base: Base, services: Services, application: Application, ends: Mapping[str, datetime]) -> Read:
    real_now = base.context.clock.real_now
    return api_metrics.make_api_read(
        base.context,
        application.answers,
        application.durations_s,
        lambda: {used_for: (ends_at - real_now()).total_seconds() for used_for, ends_at in ends.items()},
        # For public callers: concurrent ones share one query.
        services.of_features[ServiceHealth].read_health,
        services.standby,
    )
