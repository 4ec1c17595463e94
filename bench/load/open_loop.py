"""Requests at a fixed pace: each is sent when it is due, on a new connection if no other is free."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from itertools import cycle
from typing import cast
from urllib.parse import urlsplit

from msgspec import Struct

from bench.figures import Row, percentile
from bench.harness.installation import Account
from bench.load.http_client import find_whole_body

_TICK_S = 0.002
_ANSWER_TIMEOUT_S = 30.0
_CONNECTIONS_MAX = 9000  # below the service's limit, and the number of files that a process may open


class Answers(Struct, kw_only=True):
    """Response times in milliseconds from the time at which each request was due, by result."""

    accepted_ms: list[float]
    refused_ms: list[float]  # 503 and 429, which mean that nothing was done
    failed_count: int  # other responses, and missing ones
    sent_late_ms: float  # the greatest delay of the sender itself

    def said(self) -> Row:
        """The fields of a row."""
        row: Row = {"accepted": len(self.accepted_ms), "refused": len(self.refused_ms), "failed": self.failed_count}
        for name, took_ms in (("accepted", self.accepted_ms), ("refused", self.refused_ms)):
            for part, value in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
                row[f"{name}_{part}_ms"] = percentile(took_ms, value) if took_ms else 0.0
        return row | {"sent_late_ms": self.sent_late_ms}


class OpenLoop:
    """Posts one body repeatedly, in turn for each of the callers, whose tokens are renewed before each flood."""

    def __init__(self, base_url: str, path: str, body: object, callers: Sequence[Account]) -> None:
        url = urlsplit(base_url)
        self._callers = callers
        self._content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Type: application/json\r\n"
        self._head = f"{head}Content-Length: {len(self._content)}\r\nAuthorization: Bearer "
        self.renew()
        self._place = url.hostname or "", url.port or 80
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._answers = _no_answers()

    def renew(self) -> None:
        """Replace the tokens by ones that are valid for some minutes more."""
        requests = [f"{self._head}{caller.token}\r\n\r\n".encode() + self._content for caller in self._callers]
        self._requests = cycle(requests)

    async def flood(self, per_second: float, seconds: float) -> Answers:
        """Send so many a second for so long, and wait for the responses that were not taken meanwhile."""
        self._answers = _no_answers()
        await asyncio.to_thread(self.renew)
        started_s, sent_count, wanted_count = time.monotonic(), 0, round(per_second * seconds)
        while sent_count < wanted_count:
            now_s = time.monotonic()
            due_count = min(wanted_count, 1 + int((now_s - started_s) * per_second))
            for number in range(sent_count, due_count):
                due_at_s = started_s + number / per_second
                self._answers.sent_late_ms = max(self._answers.sent_late_ms, 1000 * (now_s - due_at_s))
                self._send(due_at_s)
            sent_count = due_count
            await asyncio.sleep(_TICK_S)
        await self._until_answered()
        return self._answers

    def take(self) -> Answers:
        """Take the response times since the last call, because a long flood would collect millions."""
        taken, self._answers = self._answers, _no_answers()
        return taken

    def close(self) -> None:
        for connection in list(self._all):
            connection.transport.close()

    def note(self, status: int, took_s: float) -> None:
        """Count a response, or 0 for none."""
        if status == 200 or status == 201:  # noqa: PLR1714  a set is looked up for each of a million answers
            self._answers.accepted_ms.append(1000 * took_s)
        elif status in {429, 503}:
            self._answers.refused_ms.append(1000 * took_s)
        else:
            self._answers.failed_count += 1

    def keep(self, connection: _Connection) -> None:
        self._idle.append(connection)

    def forget(self, connection: _Connection) -> None:
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def _send(self, due_at_s: float) -> None:
        if self._idle:
            self._idle.pop().send(next(self._requests), due_at_s)
        elif len(self._all) + len(self._opening) >= _CONNECTIONS_MAX:
            self._answers.failed_count += 1
        else:
            task = asyncio.create_task(self._open_and_send(due_at_s))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open_and_send(self, due_at_s: float) -> None:
        try:
            _, connection = await asyncio.get_running_loop().create_connection(lambda: _Connection(self), *self._place)
        except OSError:
            self._answers.failed_count += 1
            return
        self._all.add(connection)
        connection.send(next(self._requests), due_at_s)

    async def _until_answered(self) -> None:
        given_up_s = time.monotonic() + _ANSWER_TIMEOUT_S
        while self._opening or any(connection.is_asking for connection in self._all):
            if time.monotonic() > given_up_s:
                self._answers.failed_count += sum(connection.is_asking for connection in self._all)
                return
            await asyncio.sleep(0.01)


def _no_answers() -> Answers:
    return Answers(accepted_ms=[], refused_ms=[], failed_count=0, sent_late_ms=0.0)


class _Connection(asyncio.Protocol):
    """Sends one request at a time; parses only as much of the response as it counts."""

    def __init__(self, loop: OpenLoop) -> None:
        self._loop = loop
        self._read = b""
        self.is_asking = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def send(self, request: bytes, due_at_s: float) -> None:
        self._due_at_s = due_at_s
        self.is_asking = True
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._read += data
        if find_whole_body(self._read) is None:
            return
        status, self._read = int(self._read[9:12]), b""
        self.is_asking = False
        self._loop.note(status, time.monotonic() - self._due_at_s)
        self._loop.keep(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_asking:
            self.is_asking = False
            self._loop.note(0, 0.0)
        self._loop.forget(self)
