"""``console``: pages for people, in a separate process; ``run`` starts it at the first connection to its port.

Alone it answers on PIXCONNECT_CONSOLE_HOST and PIXCONNECT_CONSOLE_PORT, or on the socket that systemd hands over.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from pixconnect import __version__
from pixconnect.assembly import pages
from pixconnect.assembly.base import open_base, open_standby
from pixconnect.assembly.operators import open_operator
from pixconnect.doors.api import document as browser
from pixconnect.doors.cli import live_mode
from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.settings import read_settings
from pixconnect.doors.console.application import Console
from pixconnect.doors.console.exports import Exports
from pixconnect.doors.console.visit import Assets, ConsoleParts
from pixconnect.features.identity.service.console_session import SignIn, find_session
from pixconnect.features.monitoring.service.health import HealthWatch, watch_health
from pixconnect.kernel.feature import FeatureParts
from pixconnect.platform.adapters.qr_image import render_qr_png
from pixconnect.platform.config import Settings
from pixconnect.platform.flow.turns import Turns
from pixconnect.platform.http import listening
from pixconnect.platform.http.server import Server
from pixconnect.platform.local.child_process import Lifeline
from pixconnect.platform.logging import set_up_logging
from pixconnect.platform.privileges import CONSOLE_ROLE
from pixconnect.running import processes

IDLE_MAX_S = 900.0  # the process of `run` ends after this long without a request
CONNECTIONS_MAX = 256
_FIRST_GIVEN_FD = 3
_OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
_OPERATOR_CONNECTIONS_MAX = 4


def console() -> None:
    """Serve the console on PIXCONNECT_CONSOLE_HOST and PIXCONNECT_CONSOLE_PORT, or on a socket of systemd's."""
    settings = read_settings()
    live_mode.complain_of_open(settings)
    given = _take_given()
    sockets = given or listening.open_listening(
        settings.console_host, settings.console_port, 1, port_setting="PIXCONNECT_CONSOLE_PORT"
    )
    serve_on(sockets, Lifeline(), idle_max_s=IDLE_MAX_S if given else None)


def serve_on(sockets: Sequence[socket.socket], lifeline: Lifeline, idle_max_s: float | None = IDLE_MAX_S) -> None:
    """Serve on listening sockets, until there was no request for ``idle_max_s``."""
    settings = read_settings()
    live_mode.refuse_unsafe_live(settings)
    # Sessions of operators would cross a network unencrypted.
    if settings.mode == "live" and not settings.public_console_url.startswith("https://"):
        raise CommandError("PIXCONNECT_CONSOLE_BASE_URL: must be an https:// address in live mode")
    processes.run_process(
        settings, lifeline, lambda stop, report_ready: _answer(settings, sockets, stop, report_ready, idle_max_s)
    )


async def _answer(
    settings: Settings,
    sockets: Sequence[socket.socket],
    stop: asyncio.Event,
    report_ready: Callable[[], None],
    idle_max_s: float | None,
) -> None:
    set_up_logging(settings.log_format, settings.log_level)
    port = int(sockets[0].getsockname()[1])
    async with (
        open_base(settings, "pixconnect console") as base,
        open_standby(settings, base.context, "pixconnect console") as standby,
        open_operator(
            settings, url=settings.console_login_url, role=CONSOLE_ROLE, connections_max=_OPERATOR_CONNECTIONS_MAX
        ) as operator,
    ):
        base_url = settings.console_base_url or f"http://{settings.console_host}:{port}"
        address, turns = urlsplit(base_url), Turns()
        is_secure = address.scheme == "https"
        parts = ConsoleParts(
            context=base.context,
            operator=operator,
            find_visitor=find_session,
            of_features=FeatureParts(
                {SignIn: SignIn(operator), HealthWatch: watch_health(base.context, base.keyring, standby=standby)}
            ),
            assets=Assets(),
            exports=Exports(turns),
            turns=turns,
            # Its address, and this machine's own names for itself.
            hosts=frozenset({address.netloc.lower(), *(f"{name}:{port}" for name in _OWN_NAMES)}),
            draw_qr=render_qr_png,
            base_url=base_url,
            # A browser sends cookies to every port of a host: two consoles on one machine must not sign each other out.
            cookie_name="__Host-pixconnect" if is_secure else f"pixconnect_{port}",
            api_url=settings.public_base_url,
            auth_url=settings.public_auth_url,
            version=__version__,
            menu=pages.MENU,
            trusted_proxies=settings.read_networks("trusted_proxies"),
            standby=standby,
        )
        watch = _IdleWatch(idle_max_s)
        server = Server(
            Console(parts, pages.ROUTES, watch.note),
            connections_max=CONNECTIONS_MAX,
            headers=_safe_headers(is_secure=is_secure),
            # Followed pages never end: cutting them off loses nothing.
            grace_s=0.5,
        )
        watching = asyncio.create_task(watch.end_when_idle(stop))
        try:
            await server.serve_until(sockets, [stop], on_ready=report_ready)
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching


def _safe_headers(*, is_secure: bool) -> list[tuple[str, str]]:
    headers = [("x-content-type-options", "nosniff"), ("referrer-policy", "same-origin")]
    # Over http, browsers would ignore it.
    return [*headers, browser.STRICT_TRANSPORT] if is_secure else headers


class _IdleWatch:
    """Ends the process after a time without requests; never without a limit."""

    def __init__(self, idle_max_s: float | None) -> None:
        self._idle_max_s = idle_max_s
        self._used_at_s = 0.0

    def note(self) -> None:
        self._used_at_s = asyncio.get_running_loop().time()

    async def end_when_idle(self, stop: asyncio.Event) -> None:
        if self._idle_max_s is None:
            return
        self.note()
        while not stop.is_set():
            left_s = self._used_at_s + self._idle_max_s - asyncio.get_running_loop().time()
            if left_s <= 0:
                stop.set()
            else:
                await asyncio.sleep(left_s)


def _take_given() -> list[socket.socket]:
    """Return the sockets from systemd (sd_listen_fds(3)), if any."""
    # Not settings: systemd passes its sockets by these, and only to the process that it has started.
    pid, count = os.environ.get("LISTEN_PID", ""), os.environ.get("LISTEN_FDS", "")  # noqa: TID251
    if pid != str(os.getpid()) or not count.isdecimal():
        return []
    return [socket.socket(fileno=_FIRST_GIVEN_FD + number) for number in range(int(count))]
