"""A cheap JSON client over kept connections, since it shares the cores with the measured service."""

import asyncio
import json
from collections import deque
from collections.abc import Sequence
from itertools import cycle
from typing import Any, cast
from urllib.parse import urlsplit


class Refused(Exception):  # noqa: N818  named as what it is
    """An unsuccessful response, with its body."""


class HttpClient:
    """Posts requests with these tokens in turn, over as many connections as there are concurrent requests."""

    def __init__(self, base_url: str, tokens: Sequence[str]) -> None:
        url = urlsplit(base_url)
        self._place = url.hostname or "", url.port or 80
        head = f"Host: {url.netloc}\r\nContent-Type: application/json\r\nAuthorization: Bearer "
        self._heads = cycle([f"{head}{token}\r\n" for token in tokens])
        self._idle: deque[_Connection] = deque()

    async def post(self, path: str, body: object) -> dict[str, Any]:
        """Return ``data`` of a successful response.

        Raises:
            Refused: The response was not successful.
        """
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\n{next(self._heads)}Content-Length: {len(content)}\r\n\r\n"
        connection = self._idle.pop() if self._idle else await self._connect()
        answer = json.loads(await connection.exchange(head.encode() + content))
        self._idle.append(connection)
        if not answer["success"]:
            raise Refused(answer)
        return answer["data"]

    def close(self) -> None:
        for connection in self._idle:
            connection.transport.close()

    async def _connect(self) -> "_Connection":
        _, connection = await asyncio.get_running_loop().create_connection(_Connection, *self._place)
        return connection


class _Connection(asyncio.Protocol):
    """One request at a time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._read = b""

    async def exchange(self, request: bytes) -> bytes:
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._answer

    def data_received(self, data: bytes) -> None:
        self._read += data
        if (begin := find_whole_body(self._read)) is not None:
            body, self._read = self._read[begin:], b""
            self._answer.set_result(body)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("closed before the answer"))


def find_whole_body(answer: bytes) -> int | None:
    """Where a response's body begins; None while it is incomplete."""
    end = answer.find(b"\r\n\r\n")
    if end < 0:
        return None
    length = int(answer[:end].lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    return end + 4 if len(answer) >= end + 4 + length else None
