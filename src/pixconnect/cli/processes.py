"""``serve``, ``work`` and ``sandbox``: one process each, started by hand, by an init system, or by ``run``.

What each does is ``assembly``'s: it gets the settings, the sockets to answer on (``serve``), an event that is set when it
shall finish, and a function to call once it is ready.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from socket import socket
from typing import Annotated

import uvloop
from cyclopts import Parameter

from pixconnect import assembly
from pixconnect.cli import failures
from pixconnect.cli.settings import read_settings
from pixconnect.foundation import listening
from pixconnect.foundation.supervised import Lifeline

_Inherited = Annotated[int | None, Parameter(show=False)]
_InheritedSockets = Annotated[list[int] | None, Parameter(show=False)]
_ReportReady = Callable[[], None]
_Life = Callable[[asyncio.Event, _ReportReady], Awaitable[None]]


def serve(*, parent_fd: _Inherited = None, ready_fd: _Inherited = None, socket_fd: _InheritedSockets = None) -> None:
    """Serve the API on PIXCONNECT_HOST and PORT, in this one process."""

    def prepare() -> _Life:
        settings = read_settings()
        sockets = [socket(fileno=descriptor) for descriptor in socket_fd or ()]
        if not sockets:
            sockets = listening.open_listening(settings.host, settings.port, 1, port_setting="PORT")
        return lambda stop, report_ready: assembly.serve(settings, sockets, stop, report_ready)

    _live(Lifeline(parent_fd=parent_fd, ready_fd=ready_fd), prepare)


def work(*, parent_fd: _Inherited = None, ready_fd: _Inherited = None) -> None:
    """Do what has a time: settle, expire, deliver webhooks, tidy up. Start as many as needed."""

    def prepare() -> _Life:
        settings = read_settings()
        return lambda stop, report_ready: assembly.work(settings, stop, report_ready)

    _live(Lifeline(parent_fd=parent_fd, ready_fd=ready_fd), prepare)


def sandbox(*, parent_fd: _Inherited = None, ready_fd: _Inherited = None) -> None:
    """Be the simulated rail, on 127.0.0.1 and PIXCONNECT_SANDBOX_PORT."""

    def prepare() -> _Life:
        settings = read_settings()
        if settings.mode != "sandbox":
            raise failures.CommandError("there is no sandbox in live mode: unset PIXCONNECT_MODE")
        return lambda stop, report_ready: assembly.sandbox(settings, stop, report_ready)

    _live(Lifeline(parent_fd=parent_fd, ready_fd=ready_fd), prepare)


def _live(lifeline: Lifeline, prepare: Callable[[], _Life]) -> None:
    """Prepare, wait for the word to go, and live until told to stop."""
    with failures.told_to_parent(lifeline):
        life = prepare()
        lifeline.wait_for_go()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_until_told(life, lifeline.report_ready))


async def _until_told(life: _Life, report_ready: _ReportReady) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for stop_signal in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(stop_signal, stop.set)
    await life(stop, report_ready)
