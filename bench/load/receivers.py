"""Cheap webhook receivers in another process, which records the arrival of each event.

Each listens on a port of its own and answers. Requests to ``/count`` are recorded too.
"""

import asyncio
import multiprocessing
import ssl
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast

import uvloop
from msgspec import Struct

from support.tls import Authority

_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_BACKLOG = 4096


class HttpReceiver(asyncio.Protocol):
    """As much of HTTP as a receiver needs; ``hear`` takes a request's head and body, and the transport for the response."""

    def __init__(self, hear: Callable[[bytes, bytes, asyncio.Transport], None]) -> None:
        self._hear = hear
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._read += data
        while (end := self._read.find(b"\r\n\r\n")) >= 0:
            length_at = self._read.find(b"Content-Length: ", 0, end) + 16
            end_of_body = end + 4 + int(self._read[length_at : self._read.find(b"\r\n", length_at)])
            if len(self._read) < end_of_body:
                return
            head, body, self._read = self._read[:end], self._read[end + 4 : end_of_body], self._read[end_of_body:]
            self._hear(head, body, self._transport)


def answer(transport: asyncio.Transport) -> None:
    if not transport.is_closing():
        transport.write(_OK)


class Arrivals(Struct, kw_only=True):
    """The ids of received events in order, and their arrivals on the monotonic clock that all processes share."""

    event_ids: Sequence[int]
    at_s: Sequence[float]


class Receivers:
    """Running receivers in a process, with the address of each."""

    def __init__(self, urls: Sequence[str], pid: int, pipe: Connection) -> None:
        self.urls = urls
        self.pid = pid
        self._pipe = pipe

    def count(self) -> int:
        self._pipe.send("count")
        return self._pipe.recv()

    def arrivals(self) -> Arrivals:
        """Take the records since the last call."""
        self._pipe.send("arrivals")
        return Arrivals(event_ids=self._pipe.recv(), at_s=self._pipe.recv())


@contextmanager
def receiving(count: int = 1, tls_folder: Path | None = None) -> Iterator[Receivers]:
    """Start receivers, and end their process afterwards; they use TLS if they have a folder for its files."""
    pem = None
    if tls_folder is not None:
        Authority(tls_folder).server_context("127.0.0.1")
        pem = str(tls_folder / "127.0.0.1-0.pem")
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=_receive, args=(there, count, pem), daemon=True)
    process.start()
    assert process.pid is not None
    try:
        scheme = "https" if pem else "http"
        yield Receivers([f"{scheme}://127.0.0.1:{port}" for port in here.recv()], process.pid, here)
    finally:
        process.kill()
        process.join()


def _receive(pipe: Connection, count: int, pem: str | None) -> None:
    uvloop.run(_serve(pipe, count, pem))


async def _serve(pipe: Connection, count: int, pem: str | None) -> None:
    loop = asyncio.get_running_loop()
    tls = None
    if pem:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(pem)
    notes = _Notes()
    servers = [
        await loop.create_server(lambda: HttpReceiver(notes.hear), "127.0.0.1", 0, ssl=tls, backlog=_BACKLOG)
        for _ in range(count)
    ]
    pipe.send([server.sockets[0].getsockname()[1] for server in servers])
    while True:
        if await loop.run_in_executor(None, pipe.recv) == "count":
            pipe.send(len(notes.event_ids))
        else:
            event_ids, at_s = notes.event_ids, notes.at_s
            notes.event_ids, notes.at_s = array("q"), array("d")
            pipe.send(event_ids)
            pipe.send(at_s)


class _Notes:
    def __init__(self) -> None:
        self.event_ids = array("q")
        self.at_s = array("d")

    def hear(self, head: bytes, _: bytes, transport: asyncio.Transport) -> None:
        if head[: head.index(b" HTTP/")].endswith(b"/count"):
            id_at = head.index(b"webhook-id: evt_") + 16
            end = head.find(b"\r\n", id_at)
            self.event_ids.append(int(head[id_at : end if end >= 0 else None]))
            self.at_s.append(time.monotonic())
        answer(transport)
