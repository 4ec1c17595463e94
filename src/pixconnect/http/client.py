"""One outgoing HTTP/1.1 connection: sends a request, reads the answer, and trusts nothing that it reads.

The head of an answer may have 16 KiB, and what follows it has a bound; of the body the first part is kept and the rest only
counted. Nothing is decompressed. An answer that is longer than it may be is cut: its status counts, its connection is closed.
Time is bounded by whoever calls.
"""

import asyncio
from typing import cast

import httptools
from msgspec import Struct

HEAD_MAX = 16 * 1024
BODY_READ_MAX = 64 * 1024


class Answer(Struct, frozen=True, kw_only=True):
    """What came back."""

    status_code: int
    headers: dict[str, str]
    """By name in lower case; of a repeated one the last."""
    body: bytes
    """No more than its first part."""
    error: str | None = None
    """What went wrong after the head; none for a whole answer, or one that was cut."""


class ConnectionFailed(Exception):  # noqa: N818  the receiver failed, not we
    """There was no answer.

    Args:
        detail: For the operator; the same if there is nothing to hide.
        is_untouched: Nothing at all came back: perhaps a kept connection that had been closed meanwhile.
    """

    def __init__(self, reason: str, *, detail: str | None = None, is_untouched: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail or reason
        self.is_untouched = is_untouched


class HttpConnection(asyncio.Protocol):
    """A connection that carries one exchange at a time.

    Args:
        body_read_max: Octets after the head; what is longer is cut.
    """

    def __init__(self, body_kept_max: int, address: str, body_read_max: int = BODY_READ_MAX) -> None:
        self.address = address
        self._body_kept_max = body_kept_max
        self._body_read_max = body_read_max
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Answer] | None = None
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
        self._is_complete = False

    @property
    def is_reusable(self) -> bool:
        """Whether another exchange may follow."""
        return not self._is_spoilt and self._transport is not None and not self._transport.is_closing()

    async def exchange(self, request: bytes) -> Answer:
        """Send a request and wait for its answer; cancelling it closes the connection.

        Raises:
            ConnectionFailed: There is no answer.
        """
        if not self.is_reusable or self._transport is None:
            raise ConnectionFailed("the connection was closed", is_untouched=True)
        self._begin()
        self.exchanges_count += 1
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._answer
        except asyncio.CancelledError:
            self.close()
            raise
        finally:
            self._answer = None

    def read_so_far(self) -> Answer | None:
        """What has come of an answer that is not complete; ``None`` before its head is."""
        return None if self._status_code is None else self._make_answer("the answer was not complete in time")

    def close(self) -> None:
        self._is_spoilt = True
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.close()
            return
        self._read_count += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail("the receiver changed the protocol")
        except httptools.HttpParserError as error:
            if not self._is_complete:
                self._fail(f"the answer is not valid HTTP: {error}")
        if self._answer.done():
            return
        if self._is_complete:
            self._finish(None)
        elif self._status_code is None:
            if max(self._read_count, self._head_count) > HEAD_MAX:
                self._fail(f"the answer's head is over {HEAD_MAX // 1024} KiB")
        elif self._read_count - self._head_count > self._body_read_max:
            self._is_spoilt = True
            self._finish(None)

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
            self._finish(None)

    # What the parser calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._status_code is not None:
            return
        self._head_count += len(name) + len(value) + 4
        if self._head_count <= HEAD_MAX:
            self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The head of an answer is complete; of one that says 1xx another will follow."""
        status_code = self._parser.get_status_code()
        if status_code >= 200 and not self._is_complete:
            self._status_code = status_code
            if self._head_count > HEAD_MAX:
                self._fail(f"the answer's head is over {HEAD_MAX // 1024} KiB")
        else:
            self._headers = {}

    def on_body(self, body: bytes) -> None:
        if len(self._body) < self._body_kept_max:
            self._body += body[: self._body_kept_max - len(self._body)]

    def on_message_complete(self) -> None:
        if self._status_code is not None:
            self._is_spoilt = self._is_spoilt or self._is_complete or not self._parser.should_keep_alive()
            self._is_complete = True

    # How an exchange ends.

    def _finish(self, error: str | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(self._make_answer(error))
        if self._is_spoilt or error is not None:
            self.close()

    def _fail(self, reason: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionFailed(reason, is_untouched=self._read_count == 0))
        self.close()

    def _make_answer(self, error: str | None) -> Answer:
        assert self._status_code is not None
        return Answer(status_code=self._status_code, headers=self._headers, body=bytes(self._body), error=error)
