"""The HTTP server of API, sandbox and metrics: listening sockets, accepting, timers and stopping."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from email.utils import formatdate
from functools import partial
from typing import Final

import structlog

from pixconnect.platform.http.connection import Connection
from pixconnect.platform.http.exchange import RESPONSE_BODY, RESPONSE_START, ASGIApp, Receive, Scope, Send
from pixconnect.platform.http.listening import BACKLOG, CONNECTIONS_MAX, GRACE_S, Connections
from pixconnect.platform.http.tls import Tls, TlsConnection
from pixconnect.platform.metrics import CONTENT_TYPE, Read, write_text

_TICK_S = 0.1
_SECOND_S = 1.0
ACCEPTED_AT_ONCE = 32  # new connections in one turn of the event loop

_log = structlog.get_logger(__name__)


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
        self.connections = Connections(connections_max, self._begin)
        self._has_news = asyncio.Event()
        self._app = app
        self._own_head = b"".join(f"{name.lower()}: {value}\r\n".encode("latin-1") for name, value in headers)
        self._grace_s = grace_s
        self._is_stopped = False

    def stop(self) -> None:
        """Take no more connections and finish requests under way."""
        self._is_stopped = True
        self._has_news.set()

    async def serve_until(
        self,
        sockets: Sequence[socket.socket],
        stops: Sequence[asyncio.Event],
        *,
        tls: Sequence[Tls] = (),
        on_ready: Callable[[], object],
        on_stop: Callable[[], object] = lambda: None,
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
        tls: Sequence[Tls] = (),
        on_ready: Callable[[], object] = lambda: None,
        on_stop: Callable[[], object] = lambda: None,
    ) -> None:
        """Serve until ``stop`` is called and requests under way are finished, or cut off after ``grace_s``."""
        loop = asyncio.get_running_loop()
        makers: list[tuple[socket.socket, Callable[[], asyncio.BaseProtocol]]] = [
            (each, partial(Connection, self.connections, self._app)) for each in sockets
        ]
        for secure in tls:
            make = partial(TlsConnection, self.connections, secure.app or self._app, secure.context, secure.proxies)
            makers += [(each, make) for each in secure.sockets]
        # libuv accepts one connection per turn for each handle that listens. When turns are long because many clients
        # send, a newcomer would wait one turn for each connection queued before it. So several handles listen on the
        # same socket.
        listening = [
            await loop.create_server(make, sock=each.dup(), backlog=BACKLOG)
            for each, make in makers
            for _ in range(ACCEPTED_AT_ONCE)
        ]
        on_ready()
        await self._keep_ticking()
        on_stop()
        for each in listening:
            each.close()
        # We stop listening at once, so that no caller connects to a server that will not answer.
        for each, _ in makers:
            each.close()
        for connection in list(self.connections.all):
            connection.shutdown()
        await self._wait_for_requests()

    async def _stop_after(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self.stop()

    async def _keep_ticking(self) -> None:
        """Drive connections' timers: once a second, ten times a second while a client stalls."""
        loop = asyncio.get_running_loop()
        next_second_s = loop.time()
        while not self._is_stopped:
            now_s = loop.time()
            self.connections.bound_unsent(now_s)
            if now_s >= next_second_s:
                next_second_s = now_s + _SECOND_S
                self._tick_second(now_s)
            self._has_news.clear()
            if not self.connections.all:
                await self._has_news.wait()
            elif self.connections.has_stalled:
                await asyncio.sleep(_TICK_S)
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(next_second_s):
                        await self._has_news.wait()

    def _tick_second(self, now_s: float) -> None:
        # A separate function: a name for a connection in the endless loop would keep it after it has gone.
        for connection in list(self.connections.all):
            connection.close_if_overdue(now_s)
        self._write_common_head()

    def _begin(self) -> None:
        # The first connection after none, or the first client that does not read. An answer may come before the next tick.
        self._write_common_head()
        self._has_news.set()

    def _write_common_head(self) -> None:
        self.connections.common_head = b"date: %b\r\n" % formatdate(usegmt=True).encode("ascii") + self._own_head

    async def _wait_for_requests(self) -> None:
        try:
            async with asyncio.timeout(self._grace_s):
                while self.connections.all or self.connections.tasks:  # noqa: ASYNC110 - two sets without notification
                    await asyncio.sleep(_TICK_S)
        except TimeoutError:
            _log.warning("requests cut off", count=len(self.connections.tasks))
            for task in self.connections.tasks:
                task.cancel()


METRICS_PATH: Final = "/metrics"

_METRICS_CONNECTIONS_MAX = 64
_METRICS_GRACE_S = 0.5
_METRICS_READ_TIMEOUT_S = 5.0


@asynccontextmanager
async def serve_metrics(listener: socket.socket | None, read: Read) -> AsyncGenerator[None]:
    """Serve metrics on a listening socket while the block runs, or not at all if there is none."""
    if listener is None:
        yield
        return

    server = Server(partial(_answer_metrics, read), connections_max=_METRICS_CONNECTIONS_MAX, grace_s=_METRICS_GRACE_S)
    serving = asyncio.create_task(server.serve([listener]))
    try:
        yield
    finally:
        server.stop()
        await serving


async def _answer_metrics(read: Read, scope: Scope, _receive: Receive, send: Send) -> None:
    status, text = 404, f"ask for GET {METRICS_PATH}\n"
    if scope["method"] in {"GET", "HEAD"} and scope["raw_path"] == METRICS_PATH.encode():
        try:
            async with asyncio.timeout(_METRICS_READ_TIMEOUT_S):
                status, text = 200, write_text(await read())
        except Exception as error:  # noqa: BLE001  a scraper must get an answer after any failure
            _log.warning("metrics cannot be read", error=type(error).__name__)
            status, text = 500, "metrics cannot be read\n"
    body = text.encode()
    headers = [(b"content-type", CONTENT_TYPE.encode()), (b"content-length", b"%d" % len(body))]
    await send({"type": RESPONSE_START, "status": status, "headers": headers})
    await send({"type": RESPONSE_BODY, "body": body})
