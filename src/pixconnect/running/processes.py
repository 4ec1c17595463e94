"""``serve``, ``work`` and ``sandbox``: one process each, started by hand or by an init system; ``run`` starts them as parts.

``assembly`` defines each part's work: it gets the settings, the sockets to answer on (``serve``), an event that is set when it
must stop, and a function to call once it is ready.
"""

import asyncio
import gc
import signal
from collections.abc import Awaitable, Callable, Sequence
from socket import socket
from typing import Final

import structlog
import uvloop

from pixconnect import __version__
from pixconnect.assembly import api, worker
from pixconnect.assembly.sandbox import simulate
from pixconnect.doors.cli import failures, live_mode
from pixconnect.doors.cli.settings import FACES, read_listeners, read_settings
from pixconnect.platform.config import Settings
from pixconnect.platform.http import listening
from pixconnect.platform.local.child_process import Lifeline, give_back_memory
from pixconnect.running import tls

_log = structlog.get_logger(__name__)

# By default the collector scans young objects whenever there are 700 more of them. Requests and deliveries in progress are more
# than that, and hardly any is part of a cycle: scanning took up to a tenth of the CPU.
_COLLECTED_AFTER: Final = 5_000

Main = Callable[[asyncio.Event, Callable[[], None]], Awaitable[None]]


def serve() -> None:
    """Serve the API on PIXCONNECT_HOST and PORT, in this one process."""
    settings = read_settings()
    live_mode.refuse_unsafe_live(settings)
    live_mode.complain_of_open(settings)
    sockets = listening.open_listening(settings.host, settings.port, 1, port_setting="PORT")
    if settings.tls_port:
        host = settings.tls_host or settings.host
        sockets += listening.open_listening(host, settings.tls_port, 1, port_setting="PIXCONNECT_TLS_PORT")
    for listener in read_listeners(settings):
        sockets += listening.open_listening(settings.host, listener.port, 1, port_setting=FACES)
    _serve_on(tls.with_files(settings), sockets, Lifeline())


def work() -> None:
    """Do timed work: settle, expire, deliver webhooks, tidy up. Start as many as needed."""
    live_mode.complain_of_open(read_settings())
    work_under(Lifeline())


def sandbox() -> None:
    """Run the simulated rail, on 127.0.0.1 and the port of PIXCONNECT_RAIL_URL."""
    if read_settings().mode != "sandbox":
        raise failures.CommandError("there is no sandbox in live mode: unset PIXCONNECT_MODE")
    sandbox_under(Lifeline())


def serve_on(sockets: Sequence[socket], lifeline: Lifeline) -> None:
    """Serve the API as a part of ``run``: on sockets that listen already."""
    settings = read_settings()
    live_mode.refuse_unsafe_live(settings)
    _serve_on(settings, sockets, lifeline)


def _serve_on(settings: Settings, sockets: Sequence[socket], lifeline: Lifeline) -> None:
    run_process(settings, lifeline, lambda stop, report_ready: api.serve(settings, sockets, stop, report_ready))


def work_under(lifeline: Lifeline) -> None:
    settings = read_settings()
    live_mode.refuse_unsafe_live(settings)
    run_process(settings, lifeline, lambda stop, report_ready: worker.work(settings, stop, report_ready))


def sandbox_under(lifeline: Lifeline) -> None:
    settings = read_settings()
    run_process(settings, lifeline, lambda stop, report_ready: simulate(settings, stop, report_ready))


def run_process(settings: Settings, lifeline: Lifeline, main: Main) -> None:
    """Run one process's work, from its parent's signal until it must stop."""
    # Everything is imported by now; the work itself waits until the parts before this one are ready.
    lifeline.wait_for_start()
    gc.set_threshold(_COLLECTED_AFTER)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run_until_signalled(settings, main, lifeline))


async def _run_until_signalled(settings: Settings, main: Main, lifeline: Lifeline) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for stop_signal in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(stop_signal, stop.set)

    def report_ready() -> None:
        # Under `run` the supervisor prints it; an operator who starts a part alone reads its log.
        if not lifeline.report_ready():
            for risk in live_mode.list_risks(settings):
                _log.warning(risk)
            _log.info("ready", version=__version__)
        give_back_memory()

    await main(stop, report_ready)
