"""The HTTP server of API, sandbox and metrics: it accepts connections, drives their timers and stops."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from email.utils import formatdate
from functools import partial

import structlog

from pixconnect.http.asgi import ASGIApp
from pixconnect.http.connection import Connection
from pixconnect.http.limits import CONNECTIONS_MAX, GRACE_S
from pixconnect.http.listening import BACKLOG
from pixconnect.http.open_connections import Connections
from pixconnect.http.tls import Tls, TlsConnection

_TICK_S = 0.1
_TICKS_OF_SECOND = 10
ACCEPTED_AT_ONCE = 8
"""New connections in one turn of the event loop."""

_log = structlog.get_logger(__name__)


def _nothing() -> None:
    pass


class Server:
    """Serves an application until it is stopped; it handles no signals."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        connections_max: int = CONNECTIONS_MAX,
        headers: Sequence[tuple[str, str]] = (),
        grace_s: float = GRACE_S,
    ) -> None:
        self.connections = Connections(connections_max)
        self._app = app
        self._own_head = b"".join(f"{name.lower()}: {value}\r\n".encode("latin-1") for name, value in headers)
        self._grace_s = grace_s
        self._is_stopped = False

    def stop(self) -> None:
        """Take no more connections and finish requests under way."""
        self._is_stopped = True

    async def serve_until(
        self,
        sockets: Sequence[socket.socket],
        stops: Sequence[asyncio.Event],
        *,
        tls: Tls | None = None,
        on_ready: Callable[[], None],
        on_stop: Callable[[], None] = _nothing,
    ) -> None:
        """Serve until one of ``stops`` is set; ``on_stop`` is called before requests under way are finished."""
        watching = [asyncio.create_task(self._stop_after(stop)) for stop in stops]
        try:
            await self.serve(sockets, tls=tls, on_ready=on_ready, on_stop=on_stop)
        finally:
            for watch in watching:
                watch.cancel()

    async def serve(
        self,
        sockets: Sequence[socket.socket],
        *,
        tls: Tls | None = None,
        on_ready: Callable[[], None] = _nothing,
        on_stop: Callable[[], None] = _nothing,
    ) -> None:
        """Serve until ``stop`` is called and requests under way are finished, or cut off after ``grace_s``."""
        loop = asyncio.get_running_loop()
        # The first answer may come before the first tick.
        self._write_common_head()
        makers: list[tuple[socket.socket, Callable[[], asyncio.BaseProtocol]]] = [
            (each, partial(Connection, self.connections, self._app)) for each in sockets
        ]
        if tls is not None:
            make = partial(TlsConnection, self.connections, self._app, tls.context)
            makers += [(each, make) for each in tls.sockets]
        # libuv accepts one connection a turn for each file it listens on. Where a turn is long because many send, a newcomer
        # would wait as many turns as there are others in the queue before it: so the same socket is listened on several times.
        listening = [
            await loop.create_server(make, sock=each.dup(), backlog=BACKLOG)
            for each, make in makers
            for _ in range(ACCEPTED_AT_ONCE)
        ]
        on_ready()
        ticks_count = 0
        while not self._is_stopped:
            self._tick(loop.time(), is_new_second=ticks_count % _TICKS_OF_SECOND == 0)
            ticks_count += 1
            await asyncio.sleep(_TICK_S)
        on_stop()
        for each in listening:
            each.close()
        # At once, so that nobody connects to a server that will not answer.
        for each, _ in makers:
            each.close()
        for connection in list(self.connections.all):
            connection.shutdown()
        await self._wait_for_requests()

    async def _stop_after(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self.stop()

    def _tick(self, now_s: float, *, is_new_second: bool) -> None:
        self.connections.bound_unsent(now_s)
        if is_new_second:
            for connection in list(self.connections.all):
                connection.close_if_overdue(now_s)
            self._write_common_head()

    def _write_common_head(self) -> None:
        self.connections.common_head = b"date: %b\r\n" % formatdate(usegmt=True).encode("ascii") + self._own_head

    async def _wait_for_requests(self) -> None:
        try:
            async with asyncio.timeout(self._grace_s):
                while self.connections.all or self.connections.tasks:  # noqa: ASYNC110 - two sets that tell nobody
                    await asyncio.sleep(_TICK_S)
        except TimeoutError:
            _log.warning("requests cut off", count=len(self.connections.tasks))
            for task in self.connections.tasks:
                task.cancel()
