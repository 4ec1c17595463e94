"""One outgoing HTTP/1.1 connection, which trusts no input.

The head and body of an answer are limited, and only the first part of the body is kept. Nothing is decompressed. An answer that
is too long is cut: its status counts and its connection is closed. The caller limits the time.
"""

import asyncio
from typing import cast

import httptools
from msgspec import Struct

from pixconnect.platform.base import errors

HEAD_MAX = 16 * 1024
BODY_READ_MAX = 64 * 1024
_PARSED_AT_ONCE = 4 * 1024


class ReceivedAnswer(Struct, frozen=True, kw_only=True):
    status_code: int
    headers: dict[str, str]  # by name in lower case; the last of repeated ones
    body: bytes  # its first part only
    error: str | None = None  # the error after the head; ``None`` if the answer is complete or was cut
    is_cut: bool = False  # it exceeded the read limit; it is also incomplete if its body exceeds the kept length


class ConnectionFailed(Exception):  # noqa: N818  the receiver failed, not we
    """There was no answer.

    Args:
        reason: May be shown to the receiver's owner.
        detail: For the operator; by default the same.
        is_untouched: Not one octet came back, as from a kept connection that the server has closed.
    """

    def __init__(self, reason: str, *, detail: str | None = None, is_untouched: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail or reason
        self.is_untouched = is_untouched


class HttpConnection(asyncio.Protocol):
    """A connection for one exchange at a time; answers with more than ``body_read_max`` octets after the head are cut."""

    def __init__(self, body_kept_max: int, address: str, body_read_max: int = BODY_READ_MAX) -> None:
        self.address = address
        self._body_kept_max = body_kept_max
        self._body_read_max = body_read_max
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[ReceivedAnswer] | None = None
        self._is_spoilt = False
        self.exchanges_count = 0
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._read_count = 0
        self._head_count = 0
        self._headers: dict[str, str] = {}
        self._status_code: int | None = None
        self._body = bytearray()
        self._body_count = 0
        self._is_complete = self._is_cut = False

    @property
    def is_reusable(self) -> bool:
        return not self._is_spoilt and self._transport is not None and not self._transport.is_closing()

    async def exchange(self, request: bytes) -> ReceivedAnswer:
        """Send a request and wait for its answer; ``ConnectionFailed`` if there is none."""
        if not self.is_reusable or self._transport is None:
            raise ConnectionFailed("the connection was closed", is_untouched=True)
        self._begin()
        self.exchanges_count += 1
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._answer
        # The rest of the answer would be read as that of the next request.
        except asyncio.CancelledError:
            self.close()
            raise
        finally:
            self._answer = None

    def read_so_far(self) -> ReceivedAnswer | None:
        """Return the received part of an answer; ``None`` if not even its head is complete."""
        return None if self._status_code is None else self._make_answer("the answer was not complete in time")

    def close(self) -> None:
        self._is_spoilt = True
        if self._transport is not None:
            self._transport.abort()

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), _PARSED_AT_ONCE):
            # The next request would take this answer for its own.
            if self._answer is None or self._answer.done():
                self.close()
                return
            self._parse(self._answer, data[start : start + _PARSED_AT_ONCE])

    def _parse(self, answer: asyncio.Future[ReceivedAnswer], data: bytes) -> None:
        self._read_count += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail("the receiver changed the protocol")
        except httptools.HttpParserError as error:
            if not self._is_complete:
                self._fail(f"the answer is not valid HTTP: {error}")
        if answer.done():
            return
        if self._is_complete:
            self._finish(None)
        elif self._status_code is None:
            if max(self._read_count, self._head_count) > HEAD_MAX:
                self._fail(f"the answer's head is over {HEAD_MAX // 1024} KiB")
        elif self._read_count - self._head_count > self._body_read_max or self._is_mostly_chunks:
            self._is_spoilt = self._is_cut = True
            self._finish(None)

    @property
    def _is_mostly_chunks(self) -> bool:
        """Whether the octets around its chunks exceed the kept ones, and those that chunks of 64 octets need."""
        around = self._read_count - self._head_count - self._body_count
        return around > self._body_kept_max + self._body_count // 8 and "transfer-encoding" in self._headers

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_spoilt = True
        if self._answer is None or self._answer.done():
            return
        is_reset = exc is not None
        if self._status_code is None:
            way = "reset" if is_reset else "closed"
            where = "in the answer's head" if self._read_count else "before an answer"
            self._fail(f"the connection was {way} {where}")
        elif is_reset:
            self._finish("the connection was reset in the answer's body")
        elif "content-length" in self._headers or "transfer-encoding" in self._headers:
            self._finish("the connection was closed before the answer was complete")
        else:
            # Without a length the end of the connection is the end of the body.
            self._finish(None)

    # Called by the parser.

    def on_header(self, name: bytes, value: bytes) -> None:
        # After the head this is a trailer, which we ignore.
        if self._status_code is not None:
            return
        self._head_count += len(name) + len(value) + 4
        if self._head_count <= HEAD_MAX:
            self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status_code = self._parser.get_status_code()
        # After a head of 1xx another one follows.
        if status_code >= 200 and not self._is_complete:
            self._status_code = status_code
            if self._head_count > HEAD_MAX:
                self._fail(f"the answer's head is over {HEAD_MAX // 1024} KiB")
        else:
            self._headers = {}

    def on_body(self, body: bytes) -> None:
        self._body_count += len(body)
        if len(self._body) < self._body_kept_max:
            self._body += body[: self._body_kept_max - len(self._body)]

    def on_message_complete(self) -> None:
        if self._status_code is not None:
            self._is_spoilt = self._is_spoilt or self._is_complete or not self._parser.should_keep_alive()
            self._is_complete = True

    # The ends of an exchange.

    def _finish(self, error: str | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(self._make_answer(error))
        if self._is_spoilt or error is not None:
            self.close()

    def _fail(self, reason: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionFailed(reason, is_untouched=self._read_count == 0))
        self.close()

    def _make_answer(self, error: str | None) -> ReceivedAnswer:
        status_code = errors.require(self._status_code, "an answer has a head")
        return ReceivedAnswer(
            status_code=status_code, headers=self._headers, body=bytes(self._body), error=error, is_cut=self._is_cut
        )
