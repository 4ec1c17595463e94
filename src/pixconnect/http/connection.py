"""HTTP/1.1 under our limits: one connection, from its octets to requests in their order. The parser is httptools'.

::

    socket ─► slice ─► part ─► parser ─► waiting ─► running ─► answer
                │ pause                     │
                └── what is left of it ◄────┘ until it is answered

- A slice is cut into parts so that a head begins and ends one: each part holds at most one request, a head's octets are known
  exactly, and its first line can be judged as it was sent.
- While a request waits for the answer to the one before it, nothing more is parsed, and what is left of a slice is kept.
  Reading goes on when nothing is left.
- What follows a chunked body (trailers) is counted and dropped; it never becomes a header.
- An accepted request gets its answer. After octets that are no HTTP/1.1 nothing more is parsed: what is owed goes out, the
  last with ``connection: close``. A bare 400 is written only where nothing is owed.
- When the client goes away its request is cancelled: what waits for a group commit is dropped, what is in one is committed.
- The peer's address is the peer's: no forwarded header is believed here.

Timers are one sweep over the connections a second, and not two calls to the event loop a request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from http import HTTPStatus
from typing import Final, cast

import httptools

from pixconnect.domain.access import client_address
from pixconnect.http import head, limits
from pixconnect.http.asgi import ASGIApp, Scope
from pixconnect.http.exchange import STATUS_LINES, Exchange
from pixconnect.http.flow import FlowControl
from pixconnect.http.open_connections import Connections

_HEAD_END: Final = b"\r\n\r\n"
_LINE_BREAKS: Final = b"\r\n"
_FOR_EVER: Final = float("inf")
_NO_HOST: Final = b" "
"""What no host can be."""


class Connection(asyncio.BufferedProtocol):
    """One client's connection; makes an ``Exchange`` of each of its requests.

    Args:
        connections: All of the server.
        app: What answers.
    """

    transport: asyncio.Transport
    flow: FlowControl

    def __init__(self, connections: Connections, app: ASGIApp) -> None:
        self.loop = asyncio.get_running_loop()
        self.connections = connections
        self.address = ""
        """Of the peer; of IPv6 its /64."""
        self.held_octets = 0
        self.waits_since_s = self.loop.time()
        self._app = app
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._client: tuple[str, int] | None = None
        self._running: Exchange | None = None
        """The request that is being answered..."""
        self._waiting: deque[Exchange] = deque()
        """...those after it..."""
        self._read: Exchange | None = None
        """...and the one that was read last, whose body may still be on its way."""
        self._rest: bytes | bytearray = b""
        self._is_stopped = False
        """Whether what the client sends is thrown away."""
        self._is_lingering = False
        """Whether a refusal was the last that is written here."""
        self._has_begun = False
        self._is_in_head = False
        self._is_in_body = False
        self._opening: bytes | bytearray = b""
        """A head as it was sent, so far."""
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._host: bytes = _NO_HOST
        """The last that was good."""
        self._head_octets = 0
        self._body_left = 0
        """Of a body whose length was told."""
        self._overhead_octets = 0
        """Since the last octet of a chunked body..."""
        self._trailer_octets = 0
        """...and what of it are complete fields."""
        self._tail = b""
        """The last octets before a part, where the end of a head or of trailers may be split."""
        self._unread_octets = 0
        self._stalled_since_s = 0.0

    @property
    def keeps_us_waiting(self) -> bool:
        """Whether it is owed nothing before it sends more."""
        return self._running is None or self._running.waits_for_body

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self.transport = cast(asyncio.Transport, transport)
        self.flow = FlowControl(self.transport)
        peer = cast("tuple[str, int] | None", transport.get_extra_info("peername"))
        if peer:
            self._client = (peer[0], peer[1])
            self.address = client_address(peer[0], "", ())
        self.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone, and whatever it waited for is wanted no more."""
        self.connections.remove(self)
        self._is_stopped = True
        self._waiting.clear()
        self._rest = b""
        self._headers = []
        self._parser = None  # it holds us: otherwise all of this would wait for the garbage collector
        running, self._running, self._read = self._running, None, None
        self.flow.resume_writing()
        if running is not None:
            running.abandon()

    def get_buffer(self, sizehint: int) -> bytearray:
        """Where the next octets go: never more than a slice."""
        return self.connections.slice

    def buffer_updated(self, nbytes: int) -> None:
        """So many octets were read."""
        if self._is_stopped:
            self._throw_away(nbytes)
            return
        octets = self.connections.slice[:nbytes]
        if nbytes > limits.SMALL_MAX or self._is_in_head or self._is_in_body:
            self.connections.hold(self, nbytes)
            if self.transport.is_closing():
                return
        self._parse(self._rest + octets if self._rest else octets)

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        self._stalled_since_s = self.loop.time()
        self.connections.stalls(self, self._stalled_since_s)
        self.flow.pause_writing()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.connections.flows_again(self)
        self.flow.resume_writing()
        self.waits_since_s = self.loop.time()
        self._run_next()

    def on_url(self, url: bytes) -> None:
        """A part of the request's target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; after a body, a trailer."""
        if self._is_in_head:
            self._headers.append((name.lower(), value))
            return
        self._trailer_octets += len(name) + len(value) + 4
        if self._trailer_octets > limits.TRAILERS_MAX:
            self._stop(HTTPStatus.BAD_REQUEST)

    def on_headers_complete(self) -> None:
        """A head is complete."""
        self._is_in_head = False
        if self._is_stopped or self.transport.is_closing():
            return
        assert self._parser is not None, "it calls"
        fields = dict(self._headers)
        version = self._parser.get_http_version()
        method = self._parser.get_method()
        # On a connection that is kept the host is the same each time.
        is_each_once = len(fields) == len(self._headers)
        is_as_before = version == "1.1" and is_each_once and fields.get(b"host") == self._host
        if not (is_as_before or head.is_fit(version, self._headers, fields)) or not head.is_opening_strict(
            self._opening, method, self._url
        ):
            self._stop(HTTPStatus.BAD_REQUEST)
            return
        self._host = fields.get(b"host", _NO_HOST)
        if len(self._headers) > limits.FIELDS_MAX:
            self._stop(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return
        raw_path, query = head.split_target(self._url)
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": version,
            "client": self._client,
            "method": method.decode("ascii"),
            "raw_path": raw_path,
            "query_string": query,
            "headers": self._headers,
            "headers_by_name": fields if is_each_once else None,
        }
        self._headers = []  # the scope's from now on
        self._opening = b""
        self._is_in_body = True
        self._body_left = int(fields.get(b"content-length", 0))
        self._overhead_octets = self._trailer_octets = 0
        self._tail = b""
        self._read = exchange = Exchange(
            self,
            scope,
            keeps_alive=self._parser.should_keep_alive() and not self._parser.should_upgrade(),
            expects_continue=b"expect" in fields and fields[b"expect"].lower() == b"100-continue",
        )
        if self._running is None and not self._waiting and not self.flow.write_paused:
            self._run(exchange)
        else:
            self._waiting.append(exchange)

    def on_body(self, body: bytes) -> None:
        """A part of a body; what is answered already is thrown away, but not for ever."""
        self._overhead_octets = 0
        if self._body_left:
            self._body_left -= len(body)
        if self._read is None:
            return
        if not self._read.is_answered:
            self._read.feed(body)
            return
        self._unread_octets += len(body)
        if self._unread_octets > limits.UNREAD_MAX:
            self.transport.close()

    def on_message_complete(self) -> None:
        """A request is complete."""
        self._is_in_body = False
        self._tail = b""
        self._unread_octets = 0
        if self._read is not None:
            self._read.complete()

    def read_on(self) -> None:
        """There is room again: for a body that was taken, or for the next request."""
        if self._rest and not self._is_stopped:
            self._parse(self._rest)
        elif not self._rest:
            self.flow.resume_reading()

    def answered(self) -> None:
        """An answer is complete: the next request's turn."""
        self._running = None
        if self.transport.is_closing():
            return
        self.waits_since_s = self.loop.time()
        if self.held_octets:
            is_begun = self._waiting or self._is_in_head
            self.connections.release(self, len(self._rest) + (self._head_octets if is_begun else 0))
        if self._waiting:
            self._run_next()
        if self._rest or self.flow.read_paused:
            self.read_on()

    def ended(self, task: asyncio.Task[None]) -> None:
        """The application has returned."""
        self.connections.tasks.discard(task)

    def refuse(self, status: HTTPStatus) -> None:
        """Answer what is no request of HTTP/1.1 within our limits, and hang up.

        What the client is still sending is thrown away for a moment: closing at once could cost it the answer.
        """
        if self.transport.is_closing():
            return
        opening = STATUS_LINES[status] + self.connections.common_head
        self.transport.write(opening + b"connection: close\r\ncontent-length: 0\r\n\r\n")
        self.transport.write_eof()
        self._is_stopped = self._is_lingering = True
        self._running = None
        self.waits_since_s = self.loop.time()
        self.flow.resume_reading()

    def shutdown(self) -> None:
        """The server stops: finish what is under way and close."""
        if not self._close_after_last():
            self.transport.close()

    def hang_up(self) -> None:
        """End the connection at once."""
        self.connections.remove(self)
        self.transport.abort()

    def close_if_overdue(self, now_s: float) -> None:
        """Hang up on a client that has kept us waiting; called once a second."""
        waited_s = now_s - self.waits_since_s
        if self.flow.write_paused:
            if now_s - self._stalled_since_s > limits.STALLED_MAX_S:
                self.hang_up()
        elif waited_s > self._waits_max_s():
            if self.keeps_us_waiting:
                self.hang_up()
            else:
                self._stop(None)

    def _waits_max_s(self) -> float:
        if self._is_lingering:
            return limits.LINGER_S
        if self._waiting:
            return _FOR_EVER  # it is we who do not read
        if self._is_in_head:
            return limits.HEAD_TIMEOUT_S
        if self._is_in_body:
            return limits.BODY_TIMEOUT_S
        if self._running is not None:
            return _FOR_EVER
        return limits.KEEP_ALIVE_S if self._has_begun else limits.FIRST_OCTET_TIMEOUT_S

    def _parse(self, octets: bytes | bytearray) -> None:
        """Parse until something must wait, and remember the rest."""
        position, end = 0, len(octets)
        while position < end and not self._waiting and not self._is_stopped:
            if self._is_in_body:
                if self._is_full():
                    break
            elif not self._is_in_head:
                if octets[position] in _LINE_BREAKS:  # before a request they are none of it (RFC 9112, 2.2)
                    octets = octets[position:].lstrip(_LINE_BREAKS)
                    position, end = 0, len(octets)
                    continue
                self._begin_head()
            cut = self._cut(octets, position, end)
            self._feed(octets if cut - position == end else octets[position:cut])
            position = cut
        if position < end or self._is_in_body or self.held_octets or self.flow.read_paused:
            self._keep(octets[position:])
        else:
            self._rest = b""

    def _keep(self, rest: bytes | bytearray) -> None:
        """Remember what could not be parsed yet, and read no more before it is."""
        if self._is_stopped or self.transport.is_closing():
            return
        self._rest = rest
        if self._running is None and not self._waiting and not self._is_in_head:
            self.connections.release(self, len(rest))
        if rest or (self._is_in_body and self._is_full()):
            self.flow.pause_reading()
        else:
            self.flow.resume_reading()

    def _is_full(self) -> bool:
        return self._read is not None and len(self._read.body) > limits.BODY_HELD_MAX

    def _begin_head(self) -> None:
        self._is_in_head = self._has_begun = True
        self._head_octets = 0
        self._opening = self._tail = self._url = b""
        self._headers = []
        self.waits_since_s = self.loop.time()

    def _cut(self, octets: bytes | bytearray, position: int, end: int) -> int:
        """Where a part ends: with a head, with a body, or with the slice. Cutting once more than that does no harm."""
        if self._body_left:
            return min(position + self._body_left, end)
        if self._tail:
            seam = (self._tail + octets[position : position + 3]).find(_HEAD_END)
            if seam >= 0:
                return position + seam + len(_HEAD_END) - len(self._tail)
        found = octets.find(_HEAD_END, position) if position else octets.find(_HEAD_END)
        return end if found < 0 else found + len(_HEAD_END)

    def _feed(self, part: bytes | bytearray) -> None:
        assert self._parser is not None, "nothing is read after the end"
        if self._is_in_head:
            self._head_octets += len(part)
            if self._head_octets > limits.HEAD_MAX:
                self._stop(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
                return
            self._opening = self._opening + part if self._opening else part
        elif not self._body_left:
            self._overhead_octets += len(part)
        try:
            self._parser.feed_data(part)
        except httptools.HttpParserUpgrade:
            self._stop(None)  # we speak nothing else; the request itself is answered
        except httptools.HttpParserError:
            self._stop(HTTPStatus.BAD_REQUEST)
        if self._is_in_head or (self._is_in_body and not self._body_left):
            self._tail = (self._tail + part[-3:])[-3:]
            if self._overhead_octets > limits.TRAILERS_MAX:
                self._stop(HTTPStatus.BAD_REQUEST)

    def _run_next(self) -> None:
        """Let the application answer the next request, unless the client has yet to read the answer before."""
        if self._running is None and self._waiting and not self.flow.write_paused:
            self._run(self._waiting.popleft())

    def _run(self, exchange: Exchange) -> None:
        self._running = exchange
        exchange.task = self.loop.create_task(exchange.run(self._app), name="request")
        self.connections.tasks.add(exchange.task)

    def _close_after_last(self) -> bool:
        """Let the last answer that is owed be the last; whether there is one."""
        last = self._waiting[-1] if self._waiting else self._running
        if last is not None:
            last.keeps_alive = False
        return last is not None

    def _stop(self, refusal: HTTPStatus | None) -> None:
        """Parse no more; what is owed an answer gets it. Where nothing is owed, refuse, or just hang up."""
        if self._is_stopped:
            return
        is_between_answers = not self._is_in_body
        if self._is_in_body and self._read is not None:
            if self._read in self._waiting:
                self._waiting.remove(self._read)  # not begun, and never complete
            elif self._read is self._running:
                self._read.break_off()
        self._is_stopped = True
        self._is_in_head = self._is_in_body = False
        self._read = None
        self._rest = b""
        if self.transport.is_closing():
            return
        if self._close_after_last():
            self.flow.resume_reading()  # what is unread when we close could cost the client the answer
        elif refusal is not None and is_between_answers:
            self.refuse(refusal)
        else:
            self.transport.close()

    def _throw_away(self, octets: int) -> None:
        self._unread_octets += octets
        if self._unread_octets > limits.UNREAD_MAX:
            if self._is_lingering:
                self.hang_up()
            else:
                self.flow.pause_reading()
