"""HTTP/1.1 under our limits: connections of our own on httptools, uvicorn's server around them.

- A head is at most 16 KiB and takes at most 10 s, a body at most 30 s; of a body that nobody reads any more, at most 1 MiB is
  thrown away before the connection is closed. Whoever does not read our answer is hung up on after 30 s.
- When the client goes away its request is cancelled: what waits for a group commit is dropped, what is in one is committed.
- The peer's address is the peer's: no forwarded header is believed here.
- An answer that is whole is one write. Its headers are ours, so they are not searched for line breaks again.

Timers are one sweep over the connections a second, and not two calls to the event loop a request. Measured with an
application that answers constant bytes, this costs two thirds of the CPU of uvicorn's own protocol.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Generator, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any, Final, cast

import httptools
import structlog
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.server import ServerState

from pixconnect.api.application import ASGIApp, Scope

HEAD_MAX: Final = 16 * 1024
HEAD_TIMEOUT_S: Final = 10
BODY_TIMEOUT_S: Final = 30
BODY_HELD_MAX: Final = 128 * 1024
"""Of a body that is not read yet; more stays in the socket."""
UNREAD_MAX: Final = 1024 * 1024
STALLED_MAX_S: Final = 30
KEEP_ALIVE_S: Final = 75
CONNECTIONS_MAX: Final = 10_000
GRACE_S: Final = 2.5
"""How long requests under way may go on after the server was told to stop."""

_STATUS_LINES: Final = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode()) for status in HTTPStatus
}

_log = structlog.get_logger(__name__)


class Exchange:
    """One request on its way to the application, and its answer on the way back.

    Args:
        connection: Where it came from.
        scope: ASGI's.
        keeps_alive: Whether the connection goes on after the answer.
        expects_continue: Whether the client waits for a word before it sends the body.
    """

    __slots__ = (
        "_arrived",
        "_connection",
        "_expects_continue",
        "_head",
        "_is_chunked",
        "_scope",
        "body",
        "is_abandoned",
        "is_answered",
        "keeps_alive",
        "more_body",
    )

    def __init__(self, connection: "Connection", scope: Scope, *, keeps_alive: bool, expects_continue: bool) -> None:
        self._connection = connection
        self._scope = scope
        self._expects_continue = expects_continue
        self._arrived: asyncio.Future[None] | None = None
        self._head = b""
        self._is_chunked = False
        self.keeps_alive = keeps_alive
        self.body = b""
        self.more_body = True
        self.is_abandoned = False
        self.is_answered = False

    async def run(self, app: ASGIApp) -> None:
        """Let the application answer."""
        try:
            await app(self._scope, self.receive, self.send)
        except asyncio.CancelledError:
            # The client has gone, or the server stops and was patient enough.
            self._connection.transport.close()
        except Exception:  # noqa: BLE001  the application answers its own defects; this one is of the answer itself
            _log.exception("answer broken off")
            self._connection.transport.close()

    def feed(self, body: bytes) -> None:
        """Take a part of the body; nothing, to say that it is complete."""
        self.body = self.body + body if self.body else body
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    async def receive(self) -> MutableMapping[str, Any]:
        """What there is of the body, as ASGI has it."""
        if self._expects_continue and self.more_body:
            self._expects_continue = False
            self._connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self.more_body and not self.body and not self.is_abandoned:
            self._connection.flow.resume_reading()
            self._arrived = self._connection.loop.create_future()
            await self._arrived
        if self.is_abandoned:
            return {"type": "http.disconnect"}
        body, self.body = self.body, b""
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """A part of the answer, as ASGI has it."""
        if self._connection.flow.write_paused:
            await self._connection.flow.drain()
        if self.is_abandoned:
            return
        if message["type"] == "http.response.start":
            self._start(message["status"], message["headers"])
        else:
            self._continue(message["body"], is_last=not message.get("more_body", False))

    def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        if self.more_body and self._expects_continue:
            self.keeps_alive = False  # it was never told to send the body, and may or may not do so
        self._is_chunked = True
        parts = [_STATUS_LINES[status]]
        for name, value in (*self._connection.server_state.default_headers, *headers):
            parts += (name, b": ", value, b"\r\n")
            if name == b"content-length":
                self._is_chunked = False
        if self._is_chunked and self._scope["http_version"] == "1.0":
            self._is_chunked = self.keeps_alive = False  # it knows no chunks: the answer ends with the connection
        if self._is_chunked:
            parts.append(b"transfer-encoding: chunked\r\n")
        parts.append(b"\r\n" if self.keeps_alive else b"connection: close\r\n\r\n")
        self._head = b"".join(parts)

    def _continue(self, body: bytes, *, is_last: bool) -> None:
        if self._scope["method"] == "HEAD":
            body = b""
        elif self._is_chunked:
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (b"0\r\n\r\n" if is_last else b"")
        head, self._head = self._head, b""
        if head or body:
            self._connection.transport.write(head + body)
        if is_last:
            self.is_answered = True
            if not self.keeps_alive:
                self._connection.transport.close()
            self._connection.answered()


class Connection(asyncio.Protocol):
    """One client's connection; makes an ``Exchange`` of each of its requests.

    Args:
        config: uvicorn's; holds the application.
        server_state: What all connections of the server share.
        app_state: Not used: there is no lifespan.
        _loop: Not used: it is the one that runs.
    """

    transport: asyncio.Transport
    flow: FlowControl

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: Mapping[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.server_state = server_state
        self._connections = cast("set[Connection]", server_state.connections)
        self._app = cast(ASGIApp, config.app)
        self._parser = httptools.HttpRequestParser(self)
        self._client: tuple[str, int] | None = None
        self._read: Exchange | None = None
        """The request that was read last..."""
        self._running: Exchange | None = None
        """...and the one that is being answered, which may be an earlier one."""
        self._waiting: deque[Exchange] = deque()
        self._task: asyncio.Task[None] | None = None
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._is_in_head = False
        self._head_octets = 0
        """Of the head that is being read, without the piece in which it began..."""
        self._piece_octets = 0
        """...which may hold the end of the request before it, and has so many."""
        self._unread_octets = 0
        self._waits_since_s = self.loop.time()
        self._stalled_since_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self.transport = cast(asyncio.Transport, transport)
        self.flow = FlowControl(self.transport)
        peer = cast("tuple[str, int] | None", transport.get_extra_info("peername"))
        self._client = (peer[0], peer[1]) if peer else None
        self._connections.add(self)
        if len(self._connections) > CONNECTIONS_MAX:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone, and whatever it waited for is wanted no more."""
        self._connections.discard(self)
        self._waiting.clear()
        if self._running is not None:
            self._running.is_abandoned = True
        self.flow.resume_writing()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Bytes, of which the head's are counted here: the parser would gather any number of them."""
        self._piece_octets = len(data)
        if self._is_in_head:
            self._head_octets += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # we speak nothing else; the request itself is answered, and then the connection is closed
        except httptools.HttpParserError:
            self._refuse(HTTPStatus.BAD_REQUEST)
        if self._is_in_head and self._head_octets > HEAD_MAX:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        self._stalled_since_s = self.loop.time()
        self.flow.pause_writing()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.flow.resume_writing()

    def on_message_begin(self) -> None:
        """A head begins."""
        self._url = b""
        self._headers = []
        self._is_in_head = True
        self._head_octets = 0
        self._waits_since_s = self.loop.time()

    def on_url(self, url: bytes) -> None:
        """A part of the request's target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """A head is complete."""
        self._is_in_head = False
        if self.transport.is_closing():
            return
        if self._head_octets + self._piece_octets > HEAD_MAX and self._measure_head() > HEAD_MAX:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return
        raw_path, query = _split(self._url)
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": self._parser.get_http_version(),
            "client": self._client,
            "method": self._parser.get_method().decode("ascii"),
            "raw_path": raw_path,
            "query_string": query,
            "headers": self._headers,
        }
        keeps_alive = self._parser.should_keep_alive() and not self._parser.should_upgrade()
        expects_continue = (b"expect", b"100-continue") in self._headers
        self._read = exchange = Exchange(self, scope, keeps_alive=keeps_alive, expects_continue=expects_continue)
        if self._running is None:
            self._run(exchange)
        else:
            # Requests sent before the answer to the one before them wait their turn.
            self.flow.pause_reading()
            self._waiting.append(exchange)

    def on_body(self, body: bytes) -> None:
        """A part of a body; what is answered already is thrown away, but not for ever."""
        if self._read is None:
            return
        if not self._read.is_answered:
            self._read.feed(body)
            if len(self._read.body) > BODY_HELD_MAX:
                self.flow.pause_reading()
            return
        self._unread_octets += len(body)
        if self._unread_octets > UNREAD_MAX:
            self.transport.close()

    def on_message_complete(self) -> None:
        """A request is complete."""
        self._unread_octets = 0
        if self._read is not None:
            self._read.more_body = False
            self._read.feed(b"")

    def answered(self) -> None:
        """An answer is complete: the next request's turn."""
        self.server_state.total_requests += 1
        self._running = self._task = None
        if self.transport.is_closing():
            return
        self._waits_since_s = self.loop.time()
        self.flow.resume_reading()
        if self._waiting:
            self._run(self._waiting.popleft())

    def shutdown(self) -> None:
        """The server stops: finish what is under way and close."""
        if self._running is None:
            self.transport.close()
        else:
            self._running.keeps_alive = False

    def close_if_overdue(self, now_s: float) -> None:
        """Hang up on a client that has kept us waiting; called once a second."""
        waited_s = now_s - self._waits_since_s
        if self.flow.write_paused:
            is_overdue = now_s - self._stalled_since_s > STALLED_MAX_S
        elif self._is_in_head:
            is_overdue = waited_s > HEAD_TIMEOUT_S
        elif self._running is None:
            is_overdue = waited_s > KEEP_ALIVE_S
        else:
            is_overdue = self._running.more_body and waited_s > BODY_TIMEOUT_S
        if is_overdue:
            self.transport.abort()

    def _run(self, exchange: Exchange) -> None:
        self._running = exchange
        self._task = task = self.loop.create_task(exchange.run(self._app))
        self.server_state.tasks.add(task)
        task.add_done_callback(self.server_state.tasks.discard)

    def _measure_head(self) -> int:
        return len(self._url) + sum(len(name) + len(value) + 4 for name, value in self._headers)

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer what is no request of HTTP/1.1 within our limits, and hang up."""
        self._is_in_head = False
        self._read = None
        if not self.transport.is_closing():
            self.transport.write(_STATUS_LINES[status] + b"connection: close\r\ncontent-length: 0\r\n\r\n")
            self.transport.close()


class Server(uvicorn.Server):
    """uvicorn's server: sweeps the connections, and leaves signals to whoever started it (who sets ``should_exit``)."""

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        if counter % 10 == 0:
            now_s = asyncio.get_running_loop().time()
            for connection in cast("list[Connection]", list(self.server_state.connections)):
                connection.close_if_overdue(now_s)
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Capture none."""
        yield


def make_server(app: ASGIApp) -> Server:
    """A server for an application.

    Args:
        app: What answers.

    Returns:
        A server: ``await server.serve(sockets=[...])`` until ``should_exit`` is set and requests under way are finished, or
        ``GRACE_S`` are over.
    """
    return Server(
        uvicorn.Config(
            cast(Any, app),
            loop="none",
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=cast(int, GRACE_S),  # whose it is in the end, asyncio, knows halves too
        )
    )


def _split(url: bytes) -> tuple[bytes, bytes]:
    """Path and query of a request's target."""
    if not url.startswith(b"/"):
        parsed = httptools.parse_url(url)
        return parsed.path or b"/", parsed.query or b""
    path, _, query = url.partition(b"#")[0].partition(b"?")
    return path, query
