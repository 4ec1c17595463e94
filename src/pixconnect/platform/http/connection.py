"""One server connection of HTTP/1.1 under our limits; httptools parses.

::

    socket ─► slice ─► part ─► parser ─► waiting ─► running ─► answer
                │ pause                     │
                └── rest of the slice ◄─────┘ until it is answered

- A slice is cut into parts so that each head begins and ends one: we know its octets exactly, and check its first line as sent.
- While a request waits for the answer to the one before it, nothing more is parsed and the rest of the slice is kept. Reading
  goes on when no rest is left.
- Trailers after a chunked body are dropped; they never become headers. All that stands around chunks is bounded.
- An accepted request gets its answer. After octets that are not HTTP/1.1 nothing more is parsed: answers that we owe are sent,
  the last with ``connection: close``. A bare 400 is sent only if we owe none, or the application does not answer a broken body.
- When the client goes away its request is cancelled: if it waits for a batch it is dropped, if it is in one it is committed.

Timers are one sweep over all connections a second (``close_if_overdue``): no request starts or cancels one.
"""

import asyncio
from collections import deque
from http import HTTPStatus
from typing import Final, cast

import httptools

from pixconnect.platform.base import errors
from pixconnect.platform.base.address_rules import recall_client_address
from pixconnect.platform.http import listening as limits
from pixconnect.platform.http.exchange import STATUS_LINES, AnswerAtOnce, ASGIApp, Exchange, FlowControl
from pixconnect.platform.http.head import Head, MessageBody, find_end
from pixconnect.platform.http.listening import Connections

_LINE_BREAKS: Final = b"\r\n"
_FOR_EVER: Final = float("inf")
_NO_HOST: Final = b" "


class Connection(asyncio.BufferedProtocol):
    """A client's connection, which makes an ``Exchange`` of each request."""

    transport: asyncio.Transport
    flow: FlowControl

    def __init__(self, connections: Connections, app: ASGIApp) -> None:
        self.loop = asyncio.get_running_loop()
        self.connections = connections
        # The peer's IPv4 address, or the /64 of its IPv6 address. No forwarded header is trusted here.
        self.address = ""
        # Where the client speaks TLS to us, the thumbprint of its certificate.
        self.client_certificate: str | None = None
        self.client_name: str | None = None
        self.held_octets = 0
        self.waits_since_s = self.loop.time()
        self._app = app
        self._answer_at_once: AnswerAtOnce | None = getattr(app, "answer_at_once", None)
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._client: tuple[str, int] | None = None
        # The request that is being answered, those after it, and the one read last, whose body may still be coming.
        self._running: Exchange | None = None
        self._waiting: deque[Exchange] = deque()
        self._read: Exchange | None = None
        self._rest: bytes | bytearray = b""
        # Whether we drop all that the client sends from now on; and whether only until it has read a refusal.
        self._is_stopped = self._is_lingering = False
        self._has_begun = False
        self._head: Head | None = None
        self._body: MessageBody | None = None
        self._head_octets = 0
        self._host: bytes = _NO_HOST  # of the last request that was accepted
        self._tail = b""  # the last octets before a part: a blank line may be split there
        self._unread_octets, self._unread_octets_max, self._stalled_since_s = 0, limits.UNREAD_MAX, 0.0

    @property
    def keeps_us_waiting(self) -> bool:
        return self._running is None or self._running.waits_for_body

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.flow = FlowControl(self.transport)
        if peer := cast("tuple[str, int] | None", transport.get_extra_info("peername")):
            self._client = (peer[0], peer[1])
            self.address = recall_client_address(peer[0], "", ())
        self.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.remove(self)
        self._is_stopped, self._rest = True, b""
        self._waiting.clear()
        self._head = self._parser = None  # which refers to us: this circle would wait for the garbage collector
        running, self._running, self._read = self._running, None, None
        self.flow.resume_writing()
        if running is not None:
            running.abandon()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.connections.slice

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_stopped:
            self._drop(nbytes)
            return
        octets = self.connections.slice[:nbytes]  # a small request in one piece costs no accounting
        is_kept = nbytes > limits.SMALL_MAX or self._head is not None or self._body is not None
        if is_kept and not (self._head is None and self._read is not None and self._read.is_answered):
            self.connections.hold(self, nbytes)
            if self.transport.is_closing():
                return
        self._parse(self._rest + octets if self._rest else octets)

    def pause_writing(self) -> None:
        self._stalled_since_s = self.loop.time()
        self.connections.stalls(self, self._stalled_since_s)
        self.flow.pause_writing()

    def resume_writing(self) -> None:
        self.connections.flows_again(self)
        self.flow.resume_writing()
        self.waits_since_s = self.loop.time()
        self._run_next()

    def on_url(self, url: bytes) -> None:
        if self._head is not None:
            self._head.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is not None:
            self._head.headers.append((name.lower(), value.rstrip(b" \t")))
        elif self._body is not None:
            self._body.trailer_octets += len(name) + len(value) + 4
            if self._body.trailer_octets > limits.TRAILERS_MAX:
                self._stop(HTTPStatus.BAD_REQUEST)

    def on_headers_complete(self) -> None:
        if self._body is not None:
            return  # of data that we write ourselves in `_read_skipped`
        begun, self._head = self._head, None
        if self._is_stopped or self.transport.is_closing():
            return
        if begun is None:  # the parser may see the end of a body where we do not, and read a head there
            self._stop(HTTPStatus.BAD_REQUEST)
            return
        parser = errors.require(self._parser, "the parser calls this")
        fields = dict(begun.headers)
        version, method = parser.get_http_version(), parser.get_method()
        if (refusal := begun.find_refusal(version, method, fields, self._host)) is not None:
            self._stop(refusal)
            return
        self._host = fields.get(b"host", _NO_HOST)
        scope = begun.make_scope(version, method, fields, self._client, self.client_certificate)
        scope["client_name"] = self.client_name
        framing = begun.repeat_framing() if parser.should_upgrade() else b""
        self._body = MessageBody(int(fields.get(b"content-length", 0)), framing)
        self._tail = b""
        self._read = exchange = Exchange(
            self,
            scope,
            keeps_alive=parser.should_keep_alive() and not parser.should_upgrade(),
            expects_continue=b"expect" in fields and fields[b"expect"].lower() == b"100-continue",
        )
        if self._running is None and not self._waiting and not self.flow.write_paused:
            self._run(exchange)
        else:
            self._waiting.append(exchange)

    def on_body(self, body: bytes) -> None:
        if self._body is not None:
            self._body.octets += len(body)
            self._body.left -= min(self._body.left, len(body))
        if self._read is not None and not self._read.is_answered:
            self._read.feed(body)
        elif self._read is not None:
            self._unread_octets += len(body)  # dropped: the answer is decided
            if self._unread_octets > limits.UNREAD_BODY_MAX:
                self.transport.close()

    def on_message_complete(self) -> None:
        if self._body is not None and self._body.skipped_framing:
            return
        self._body = None
        self._tail = b""
        self._unread_octets = 0
        if self._read is not None:
            self._read.complete()

    def read_on(self) -> None:
        if self._rest and not self._is_stopped:
            self._parse(self._rest)
        elif not self._rest:
            self.flow.resume_reading()

    def answered(self) -> None:
        """Continue with the next request, because an answer is complete."""
        self._running = None
        if self.transport.is_closing():
            return
        self.waits_since_s = self.loop.time()
        self.drop_body()
        if self._waiting:
            self._run_next()
        if self._rest or self.flow.read_paused:
            self.read_on()

    def drop_body(self) -> None:
        """Hold no more of the running request, whose answer is decided."""
        if self.held_octets:
            is_begun = self._waiting or self._head is not None
            self.connections.release(self, len(self._rest) + (self._head_octets if is_begun else 0))

    def refuse(self, status: HTTPStatus) -> None:
        if self.transport.is_closing():
            return
        self._linger(limits.UNREAD_MAX)
        # In a flood each one is sent a little after the one before it, as the application does with its own.
        delay_s = self.connections.refusal_pace.delay_s(self.address, self.loop.time())
        self.loop.call_later(delay_s, self._send_refusal, status) if delay_s else self._send_refusal(status)

    def _send_refusal(self, status: HTTPStatus) -> None:
        if not self.transport.is_closing():
            opening = STATUS_LINES[status] + self.connections.common_head
            self.transport.write(opening + b"connection: close\r\ncontent-length: 0\r\n\r\n")
            self.transport.write_eof()

    def close_after_answer(self) -> None:
        """Close after an answer; the rest of its request is dropped unparsed."""
        if self.transport.is_closing() or (self._body is None and not (self._running and self._running.is_broken)):
            self._running = None
            self.transport.close()
        else:
            self.transport.write_eof()
            self._linger(limits.UNREAD_BODY_MAX)

    def _linger(self, unread_octets_max: int) -> None:
        # What the client still sends is dropped for a moment: if we closed at once, it might never see the answer.
        self._is_stopped = self._is_lingering = True
        self._unread_octets_max = unread_octets_max
        self._running = self._read = self._body = None
        self._rest = b""
        self.waits_since_s = self.loop.time()
        self.connections.release(self, 0)
        self.flow.resume_reading()

    def shutdown(self) -> None:
        if not self._close_after_last():
            self.transport.close()

    def hang_up(self) -> None:
        self.connections.remove(self)
        self.transport.abort()

    def close_if_overdue(self, now_s: float) -> None:
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
        if self._head is not None:
            return limits.HEAD_TIMEOUT_S
        if self._body is not None:
            return limits.BODY_TIMEOUT_S
        if self._running is not None:
            return _FOR_EVER
        return limits.KEEP_ALIVE_S if self._has_begun else limits.FIRST_OCTET_TIMEOUT_S

    def _parse(self, octets: bytes | bytearray) -> None:
        """Parse until something must wait, and keep the rest."""
        position, end = 0, len(octets)
        while position < end and not self._waiting and not self._is_stopped:
            left = 0
            if self._body is not None:
                left = self._body.left
                if self._is_full():
                    break
            elif self._head is None:
                # Line breaks before a request are ignored (RFC 9112, 2.2).
                if octets[position] in _LINE_BREAKS:
                    octets = octets[position:].lstrip(_LINE_BREAKS)
                    position, end = 0, len(octets)
                    continue
                self._head = Head()
                self._has_begun = True
                self._tail = b""
                self.waits_since_s = self.loop.time()
            # A part ends with a head, a body or the slice. One cut too many does no harm.
            find = find_end if self._body is None else self._body.find_cut
            cut = min(position + left, end) if left else find(octets, position, end, self._tail)
            self._feed(octets if cut - position == end else octets[position:cut])
            position = cut
        if position < end or self._body is not None or self.held_octets or self.flow.read_paused:
            self._keep(octets[position:])
        else:
            self._rest = b""

    def _keep(self, rest: bytes | bytearray) -> None:
        """Keep what cannot be parsed yet, and read no more until it is."""
        if self._is_stopped or self.transport.is_closing():
            return
        self._rest = rest
        if self._running is None and not self._waiting and self._head is None:
            self.connections.release(self, len(rest))
        if rest or (self._body is not None and self._is_full()):
            self.flow.pause_reading()
        else:
            self.flow.resume_reading()

    def _is_full(self) -> bool:
        return self._read is not None and not self._read.is_answered and len(self._read.body) > limits.BODY_HELD_MAX

    def _feed(self, part: bytes | bytearray) -> None:
        parser = errors.require(self._parser, "nothing is read after the end")
        if self._head is not None:
            opening = self._head.opening = self._head.opening + part if self._head.opening else part
            self._head_octets = len(opening)
            if self._head_octets > limits.HEAD_MAX:
                self._stop(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
                return
        elif self._body is not None and not self._body.left:
            self._body.wire_octets += len(part)
        try:
            parser.feed_data(part)
        except httptools.HttpParserUpgrade:  # we speak no other protocol; the request itself is answered
            if self._body is not None and self._body.skipped_framing:
                self._read_skipped(self._body)
            else:
                self._stop(None)
        except httptools.HttpParserError:
            self._stop(HTTPStatus.BAD_REQUEST)
        if self._head is not None or (self._body is not None and not self._body.left):
            self._tail = (self._tail + part[-3:])[-3:]
            if self._body is not None and self._body.is_overhead_too_large:
                self._stop(HTTPStatus.BAD_REQUEST)

    def _read_skipped(self, body: MessageBody) -> None:
        # Java's client first offers h2c. The parser takes what follows for that, so a new one reads how long the body is.
        framing, body.skipped_framing = body.skipped_framing, b""
        self._parser = httptools.HttpRequestParser(self)
        body.trailer_octets = 0
        try:
            self._parser.feed_data(b"POST / HTTP/1.1\r\nConnection: close\r\n" + framing + b"\r\n")
        except httptools.HttpParserError:
            self._stop(HTTPStatus.BAD_REQUEST)

    def _run_next(self) -> None:
        if self._running is None and self._waiting and not self.flow.write_paused:
            self._run(self._waiting.popleft())

    def _run(self, exchange: Exchange) -> None:
        self._running = exchange
        if self._answer_at_once is not None and (answer := self._answer_at_once(exchange.scope)) is not None:
            exchange.answer(answer)
            return
        exchange.task = self.loop.create_task(exchange.run(self._app), name="request")
        self.connections.tasks.add(exchange.task)

    def _close_after_last(self) -> bool:
        """Close after the last answer that we owe; false if we owe none."""
        last = self._waiting[-1] if self._waiting else self._running
        if last is not None:
            last.keeps_alive = False
        return last is not None

    def _stop(self, refusal: HTTPStatus | None) -> None:
        """Parse no more and send the answers that we owe; if there are none, refuse or just close."""
        if self._is_stopped:
            return
        is_between_answers = self._body is None
        if self._body is not None and self._read is not None:
            if self._read in self._waiting:
                # It has not begun, and its body will never be complete.
                self._waiting.remove(self._read)
            elif self._read is self._running:
                self._read.break_off()
        self._is_stopped, self._rest = True, b""
        self._head = self._body = self._read = None
        if self.transport.is_closing():
            return
        if self._close_after_last():
            # Closing with unread octets would reset the connection, perhaps before the client has the answer.
            self.flow.resume_reading()
        elif refusal is not None and is_between_answers:
            self.refuse(refusal)
        else:
            self.transport.close()

    def _drop(self, octets: int) -> None:
        self._unread_octets += octets
        if self._unread_octets > self._unread_octets_max:
            self.hang_up() if self._is_lingering else self.flow.pause_reading()
