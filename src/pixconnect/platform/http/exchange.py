"""One request and its answer: ASGI towards the application, octets towards the connection; and our ASGI types."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from pixconnect.platform.base import errors

if TYPE_CHECKING:  # it makes exchanges
    from pixconnect.platform.http.connection import Connection


class FlowControl:
    __slots__ = ("_transport", "_writable", "read_paused", "write_paused")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._writable = asyncio.Event()
        self._writable.set()
        self.read_paused = False
        self.write_paused = False

    def pause_reading(self) -> None:
        # Pausing asyncio twice fails. The client's further octets stay in the socket.
        if not self.read_paused:
            self.read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self.read_paused:
            self.read_paused = False
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        self.write_paused = True
        self._writable.clear()

    def resume_writing(self) -> None:
        if self.write_paused:
            self.write_paused = False
            self._writable.set()

    async def drain(self) -> None:
        await self._writable.wait()


STATUS_LINES: Final = {status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode()) for status in HTTPStatus}

_BODILESS: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_log = structlog.get_logger(__name__)


class Exchange:
    """A request whose head was accepted, so that it must get exactly one answer."""

    __slots__ = (
        "_arrived",
        "_channel",
        "_expects_continue",
        "_has_started",
        "_head",
        "_is_chunked",
        "_later",
        "body",
        "is_abandoned",
        "is_answered",
        "is_broken",
        "keeps_alive",
        "more_body",
        "scope",
        "task",
        "timer",
    )

    # Set when it is this request's turn; one that is answered without the application has a timer.
    task: asyncio.Task[None] | None
    timer: asyncio.Handle | None

    def __init__(self, channel: Connection, scope: Scope, *, keeps_alive: bool, expects_continue: bool) -> None:
        self._channel = channel
        self.scope = scope
        self._expects_continue = expects_continue
        self._arrived: asyncio.Future[None] | None = None
        self._head = b""
        self._has_started = False
        self._is_chunked = False
        self.keeps_alive = keeps_alive
        self.task = self.timer = None
        self.body: bytes | bytearray = b""
        self.more_body = True
        self.is_abandoned = False
        # Its answer is decided, so what comes of its body is dropped.
        self.is_answered = False
        self.is_broken = False
        # Status, headers and delay of an answer that is sent later.
        self._later: tuple[int, list[tuple[bytes, bytes]], float] | None = None

    @property
    def waits_for_body(self) -> bool:
        """Whether the application waits for the client."""
        return self._arrived is not None and not self._arrived.done()

    async def run(self, app: ASGIApp) -> None:
        try:
            await app(self.scope, self.receive, self.send)
        except asyncio.CancelledError:
            # The client has gone, or the server stops and the grace period is over.
            self._channel.transport.close()
        except Exception as error:  # noqa: BLE001  the application answers its own errors; this one broke the answer itself
            if self.is_broken and not self._has_started and isinstance(error, errors.BadRequest):
                self._channel.refuse(HTTPStatus.BAD_REQUEST)
            else:
                _log.exception("answer broken off")
                self._channel.transport.close()
        finally:
            self._ended(errors.require(self.task, "it runs"))

    def answer(self, answer: WholeAnswer) -> None:
        """Send an answer after its delay, and drop the body meanwhile."""
        self.is_answered = True
        self.body = b""
        self._channel.drop_body()
        # Even without a delay the parser must return first: its callbacks may not call it.
        self.timer = self._channel.loop.call_later(answer.delay_s, self._send_whole, answer)

    def _send_whole(self, answer: WholeAnswer) -> None:
        self.timer = None  # which refers to us
        self._start(answer.status, answer.headers)
        self._continue(answer.body, is_last=True)

    def feed(self, body: bytes) -> None:
        if not self.body:
            self.body = body
        elif isinstance(self.body, bytearray):
            self.body += body
        # Bytes would be copied with each of many small parts.
        else:
            self.body = bytearray(self.body) + body
        if self._arrived is not None:
            self._wake()

    def complete(self) -> None:
        self.more_body = False
        if self._arrived is not None:
            self._wake()

    def break_off(self) -> None:
        """End the body before it is complete: an application that keeps reading gets ``BadRequest``, and may answer it."""
        self.is_broken = True
        self._wake()

    def abandon(self) -> None:
        """Cancel the request, because the client has gone."""
        self.is_abandoned = True
        if self.task is not None:
            # A task that is cancelled before its first step never reaches the end of ``run``.
            self.task.add_done_callback(self._ended)
            self.task.cancel()
        if self.timer is not None:
            self.timer.cancel()

    async def receive(self) -> Message:
        if self._expects_continue and self.more_body:
            self._expects_continue = False
            self._channel.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self.more_body and not self.body and not self.is_abandoned:
            self._channel.read_on()
            # The parser may just have parsed the part that we held back.
            if self.more_body and not self.body and not self.is_broken:
                self._arrived = self._channel.loop.create_future()
                await self._arrived
        if self.is_broken:
            raise errors.BadRequest("body: breaks HTTP/1.1, or has too much around its chunks; send it with a Content-Length")
        if self.is_abandoned:
            return {"type": DISCONNECT}
        body, self.body = self.body, b""
        return {"type": REQUEST, "body": bytes(body), "more_body": self.more_body}

    async def send(self, message: Message) -> None:
        if self._channel.flow.write_paused:
            await self._channel.flow.drain()
        if self.is_abandoned:
            return
        if message["type"] == RESPONSE_START:
            if delay_s := message.get("delay_s", 0.0):
                self._later = message["status"], message["headers"], delay_s
            else:
                self._start(message["status"], message["headers"])
        elif self._later is not None:
            status, headers, delay_s = self._later
            self.answer(WholeAnswer(status, headers, message["body"], delay_s))
        else:
            self._continue(message["body"], is_last=not message.get("more_body", False))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._channel.connections.tasks.discard(task)

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._has_started = True
        # We have not requested the body, so the client may or may not send it: the next octets are ambiguous. And without
        # parsing chunks, which may cost more than they carry, we do not see their end.
        if self.more_body and (self._expects_continue or b"transfer-encoding" in dict(self.scope["headers"])):
            self.keeps_alive = False
        # RFC 9110, 6.4.1: these have no body, so neither a length nor chunks.
        self._is_chunked = status not in _BODILESS
        parts = [STATUS_LINES[status], self._channel.connections.common_head]
        for name, value in headers:
            parts += (name, b": ", value, b"\r\n")
            if name == b"content-length":
                self._is_chunked = False
        # HTTP/1.0 has no chunks: the end of the connection ends the answer.
        if self._is_chunked and self.scope["http_version"] == "1.0":
            self._is_chunked = self.keeps_alive = False
        if self._is_chunked:
            parts.append(b"transfer-encoding: chunked\r\n")
        parts.append(b"\r\n" if self.keeps_alive else b"connection: close\r\n\r\n")
        self._head = b"".join(parts)

    def _continue(self, body: bytes, *, is_last: bool) -> None:
        if self.scope["method"] == "HEAD":
            body = b""
        elif self._is_chunked:
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (b"0\r\n\r\n" if is_last else b"")
        # Head and first part go out in one write, and so in one packet if they are short.
        head, self._head = self._head, b""
        if head or body:
            self._channel.transport.write(head + body)
        if is_last:
            self.is_answered = True
            if self.keeps_alive:
                self._channel.answered()
            else:
                self._channel.close_after_answer()


# ASGI types of our applications and server. Our server's scopes also have ``headers_by_name``, a dictionary or ``None`` if a
# header is repeated; ``client_certificate``, its thumbprint or ``None``, with ``client_name``; and ``traceparent`` if traces
# are exported. If the application has ``answer_at_once``, that is called first; it gives the whole answer to a request whose
# body need not be read, or ``None`` if the application must be called. The start of an answer in one piece may have a
# ``delay_s`` after which it is sent; its request has ended before.

HTTP: Final = "http"
REQUEST: Final = "http.request"
DISCONNECT: Final = "http.disconnect"
RESPONSE_START: Final = "http.response.start"
RESPONSE_BODY: Final = "http.response.body"
TRACEPARENT: Final = "traceparent"

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]


class WholeAnswer(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    delay_s: float = 0.0


AnswerAtOnce = Callable[[Scope], WholeAnswer | None]
