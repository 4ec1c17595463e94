"""The process that answers callers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
from pixconnect.api.traced import TracedApplication
from pixconnect.assembly.base import Base, listen_for_metrics, open_base
from pixconnect.assembly.doors import open_door
from pixconnect.assembly.faces import note_exchanges, open_doors
from pixconnect.assembly.standby import open_standby
from pixconnect.assembly.tracing import open_tracer
from pixconnect.config import Settings
from pixconnect.domain.frame.clock import Clock
from pixconnect.flow.turns import Turns
from pixconnect.foundation.certificates import read_ends
from pixconnect.foundation.logging import set_up_logging
from pixconnect.foundation.metrics import Read
from pixconnect.http import descriptors, tls
from pixconnect.http.metrics import serve_metrics
from pixconnect.http.server import Server
from pixconnect.http.tls import Tls
from pixconnect.usecases.running.health import Health
from pixconnect.usecases.running.health_watches import watch_health, watch_readiness
from pixconnect.usecases.running.standby import Standby


async def serve(
    settings: Settings, sockets: Sequence[socket.socket], stop: asyncio.Event, report_ready: Callable[[], None]
) -> None:
    """Answer callers on these sockets until told to stop; those of ``tls_port`` speak TLS. Requests under way are finished."""
    # Each connection is a file: the limit is raised as far as it goes, and the rest is shared out below.
    files_max = descriptors.raise_limit()
    set_up_logging(settings.log_format, settings.log_level, is_watched=settings.mode == "sandbox")
    async with (
        open_base(settings, "pixconnect api") as base,
        open_door(base) as door,
        open_standby(settings, base.context, "pixconnect api") as standby,
        open_tracer(settings, "pixconnect-api") as tracer,
    ):
        policy, turns = base.context.policy, Turns()
        certificates = read_ends(_certificate_files(settings))
        services = Services(
            context=base.context,
            verifier=door.verifier,
            token_issuer=door.issuer,
            keys=base.keyring,
            read_health=_watch(settings, base, certificates, standby),
            read_readiness=watch_readiness(base.context, base.keyring, door.access_pool).read_health,
            security_contacts=[each.strip() for each in settings.security_contacts.split(",") if each.strip()],
            shows_system=settings.shows_system,
            binds_tokens=bool(settings.tls_port or settings.faces),
            draw_qr_png=QrPictures(turns).draw,
            feed_waits=door.feed_waits,
            callbacks=door.callbacks,
            admission=base.context.writes.overload,
            turns=turns,
            descriptions=describe(policy, base_url=settings.public_base_url, version=__version__),
            base_url=settings.public_base_url,
            rates=make_request_rates(base.context.clock, settings.client_requests_max, settings.holder_requests_max),
            trusted_proxies=settings.read_networks("trusted_proxies"),
            version=__version__,
            standby=standby,
        )
        application = make_application(
            services, choose_access_log(base.context.clock, settings.access_log, settings.log_level)
        )
        traced = application if tracer is None else TracedApplication(application, tracer)
        noted = note_exchanges(settings, traced, base.context.clock)
        server = Server(
            noted,
            connections_max=descriptors.share_out(files_max, settings.database_connections_max),
            headers=safe_headers(settings.public_base_url),
        )
        read_metrics = _make_read(base, services, application, certificates)
        async with serve_metrics(listen_for_metrics(settings), read_metrics):
            plain, secure = tls.split(sockets, settings.tls_port)
            plain, secured = open_doors(settings, noted, plain)
            if secure:
                context = tls.make_context(*settings.tls_files, is_required=settings.requires_client_certificate)
                proxies = settings.read_networks("tls_proxies")
                secured.append(Tls(context=context, sockets=secure, app=TlsDoor(noted), proxies=proxies))
            await server.serve_until(plain, [stop], tls=secured, on_ready=report_ready, on_stop=door.feed_waits.end)


def _watch(
    settings: Settings, base: Base, certificates: Mapping[str, datetime], standby: Standby | None
) -> Callable[[], Awaitable[Health]]:
    return watch_health(
        base.context,
        base.keyring,
        lacks_proxies=settings.lacks_proxies,
        certificates=certificates,
        standby=standby,
    ).read_health


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
        base.shared.calls,
        services.standby,
    )


def _measure_left(clock: Clock, ends: Mapping[str, datetime]) -> dict[str, float]:
    return {used_for: (ends_at - clock.real_now()).total_seconds() for used_for, ends_at in ends.items()}
