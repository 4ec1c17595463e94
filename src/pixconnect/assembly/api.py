"""The process that answers callers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial

from pixconnect import __version__
from pixconnect.adapters.qr_image import QrPictures
from pixconnect.api.application import Application, make_application
from pixconnect.api.descriptions import describe
from pixconnect.api.faces.tls_door import TlsDoor
from pixconnect.api.frame import metrics as api_metrics
from pixconnect.api.frame.browser import safe_headers
from pixconnect.api.frame.rates import make_request_rates
from pixconnect.api.frame.request_lines import choose_access_log
from pixconnect.api.frame.services import Services
from pixconnect.assembly.base import (
    SERVICE_SCHEMA,
    Base,
    connect_as_service,
    keep_up,
    listen_for_metrics,
    open_base,
    running_beside,
)
from pixconnect.assembly.faces import note_exchanges, open_doors
from pixconnect.config import Settings
from pixconnect.domain.frame.clock import Clock
from pixconnect.flow.turns import Turns
from pixconnect.foundation import pool
from pixconnect.foundation.certificates import read_ends
from pixconnect.foundation.logging import set_up_logging
from pixconnect.foundation.metrics import Read
from pixconnect.foundation.pool import Pool
from pixconnect.foundation.privileges import SERVICE_ROLE
from pixconnect.http import descriptors, tls
from pixconnect.http.metrics import serve_metrics
from pixconnect.http.server import Server
from pixconnect.http.tls import Tls
from pixconnect.usecases.identity.token import TokenVerifier
from pixconnect.usecases.identity.token_issuer import TokenIssuer
from pixconnect.usecases.institutions.callback import Callbacks
from pixconnect.usecases.running.health_watches import watch_health, watch_readiness
from pixconnect.usecases.webhooks.feed_waits import FeedWaits


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
        certificates = read_ends(_certificate_files(settings))
        turns, feed_waits = Turns(), FeedWaits(connect_as_service(settings, "pixconnect feed"))
        services = Services(
            context=base.context,
            verifier=verifier,
            token_issuer=TokenIssuer(base.context, base.keyring),
            keyring=base.keyring,
            read_health=watch_health(
                base.context, base.keyring, lacks_proxies=settings.lacks_proxies, certificates=certificates
            ).read_health,
            read_readiness=watch_readiness(base.context, base.keyring, access_pool).read_health,
            shows_system=settings.shows_system,
            binds_tokens=bool(settings.tls_port or settings.faces),
            draw_qr_png=QrPictures(turns).draw,
            feed_waits=feed_waits,
            callbacks=Callbacks(base.context),
            admission=base.context.writes.overload,
            turns=turns,
            descriptions=describe(policy, base_url=settings.public_base_url, version=__version__),
            base_url=settings.public_base_url,
            rates=make_request_rates(base.context.clock, settings.client_requests_max, settings.holder_requests_max),
            trusted_proxies=settings.read_networks("trusted_proxies"),
            version=__version__,
        )
        application = make_application(
            services, choose_access_log(base.context.clock, settings.access_log, settings.log_level)
        )
        noted = note_exchanges(settings, application, base.context.clock)
        server = Server(
            noted,
            connections_max=descriptors.share_out(files_max, settings.database_connections_max),
            headers=safe_headers(settings.public_base_url),
        )
        async with (
            running_beside(verifier.keep_fresh(), feed_waits.listen(), *keep_up(settings, base, for_others=False)),
            serve_metrics(listen_for_metrics(settings), _make_read(base, services, application, certificates)),
        ):
            plain, secure = tls.split(sockets, settings.tls_port)
            plain, doors = open_doors(settings, noted, plain)
            if secure:
                context, proxies = tls.make_context(*settings.tls_files), settings.read_networks("tls_proxies")
                doors.append(Tls(context=context, sockets=secure, app=TlsDoor(noted), proxies=proxies))
            await server.serve_until(plain, [stop], tls=doors, on_ready=report_ready, on_stop=feed_waits.end)


def _certificate_files(settings: Settings) -> dict[str, str]:
    """Our own, by what they are for."""
    # Read once: another one in its place is not in use before the next start, and says nothing of this process.
    files = dict[str, str]()
    if settings.tls_port:
        files["PIXCONNECT_TLS_PORT"] = settings.tls_certificate_file
    if settings.webhook_certificate_file:
        files["webhooks"] = settings.webhook_certificate_file
    return files


def _make_read(base: Base, services: Services, application: Application, ends: Mapping[str, datetime]) -> Read:
    return api_metrics.make_api_read(
        base.context.writes,
        application.answers,
        application.durations_s,
        partial(_measure_left, base.context.clock, ends),
        # As anybody is told: callers that ask at the same time share one look.
        services.read_health,
        base.calls,
    )


def _measure_left(clock: Clock, ends: Mapping[str, datetime]) -> dict[str, float]:
    return {used_for: (ends_at - clock.real_now()).total_seconds() for used_for, ends_at in ends.items()}


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
