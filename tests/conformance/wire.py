"""A TCP proxy between an adapter and the institution, which can lose single messages.

::

    adapter ──► BreakableWire ──► the institution's test environment

It loses the next message after ``lose``, on any connection. On a TLS connection that is not open yet the next message
would be the handshake, so let the adapter speak once before.
"""

import asyncio
import socket
from types import TracebackType
from typing import Literal, Self

Loss = Literal["answer", "message"]


class BreakableWire:
    """Forwards every connection.

    Args:
        host: The institution's host.
        port: The institution's port.
    """

    def __init__(self, host: str, port: int) -> None:
        self._far_end = (host, port)
        self._reserved = socket.socket()
        self._server: asyncio.Server | None = None
        self._loss: Loss | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0  # the port on this side

    async def __aenter__(self) -> Self:
        # Bound and not listening: while the wire is cut callers are refused, and no other program takes the port.
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.port = self._reserved.getsockname()[1]
        await self.mend()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cut()
        self._reserved.close()

    async def cut(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", self.port, reuse_address=True)

    def lose(self, what: Loss) -> None:
        """Lose the next message before it arrives, or its answer. The connection breaks with it."""
        self._loss = what

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._far_end)
        except OSError:
            writer.transport.abort()
            return
        ends = (writer, far_writer)
        self._writers.update(ends)
        answers_lost = asyncio.Event()
        try:
            await asyncio.wait(
                (
                    asyncio.ensure_future(self._forward_messages(reader, far_writer, answers_lost)),
                    asyncio.ensure_future(_forward_answers(far_reader, writer, answers_lost)),
                ),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for end in ends:
                end.transport.abort()
            self._writers.difference_update(ends)

    async def _forward_messages(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers_lost: asyncio.Event
    ) -> None:
        while octets := await _read(reader):
            loss, self._loss = self._loss, None
            if loss == "message":
                return
            if loss == "answer":
                answers_lost.set()
            writer.write(octets)


async def _forward_answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers_lost: asyncio.Event) -> None:
    while octets := await _read(reader):
        if answers_lost.is_set():
            return
        writer.write(octets)


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(64 * 1024)
    except ConnectionError:
        return b""
