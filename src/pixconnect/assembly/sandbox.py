"""The process that simulates the network: the other side of the rail."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

from pixconnect.assembly.base import connect_as_service, open_own_secret_box
from pixconnect.assembly.outside import rail_secrets
from pixconnect.features.sandbox.network import server as sandbox_server
from pixconnect.features.sandbox.network.server import SandboxSettings
from pixconnect.kernel.flows import installation
from pixconnect.platform.adapters.system import SystemClock, SystemEntropy
from pixconnect.platform.config import Settings, SettingsError
from pixconnect.platform.http import listening
from pixconnect.platform.logging import set_up_logging


async def simulate(settings: Settings, stop: asyncio.Event, report_ready: Callable[[], None]) -> None:
    set_up_logging(settings.log_format, settings.log_level)
    entropy = SystemEntropy()
    secret_box = open_own_secret_box(settings, entropy)
    sandbox_settings = SandboxSettings(
        database_url=settings.database_url,
        secrets=rail_secrets(secret_box),
        seed=settings.sandbox_seed,
        latency_ms=settings.sandbox_latency_ms,
    )
    # The sandbox gives money away: it must never use a live database.
    connection = await connect_as_service(settings, "pixconnect sandbox")()
    try:
        await installation.check_mode(connection, "sandbox")
    finally:
        await connection.close()
    (listener,) = listening.open_listening("127.0.0.1", read_port(settings), 1, port_setting="PIXCONNECT_RAIL_URL")
    with listener:
        await sandbox_server.serve(sandbox_settings, listener, SystemClock(), stop, report_ready)


def read_port(settings: Settings) -> int:
    with suppress(ValueError):  # no number, or too large
        if port := urlsplit(settings.rail_url).port:
            return port
    raise SettingsError("PIXCONNECT_RAIL_URL: must name the port to listen on, for example http://127.0.0.1:8090")
