"""A wire between the service and a server, which a test can cut during COMMIT."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

import msgspec

from support.postgres import Addresses

_COMMIT = b"COMMIT;\x00"
_SOCKET_NAME = ".s.PGSQL.5432"

Cut = Literal["before", "after", "late"]
"""The fate of a COMMIT whose client gets no answer: lost, carried out, or carried out half a second later."""


class Wire:
    """Forwards everything until a test interferes.

    Attributes:
        cuts: The fates of the next commits, one each.
        is_away: No new connection succeeds, and existing ones end at their next message.
        is_away_after_cut: The server is away after a cut.
        is_still: Nothing is forwarded, and no connection is closed.
        delay_s: The delay of each piece.
        held: Beginnings of pieces with the seconds by which the first such piece is delayed; one each.
        cuts_count: The number of cut commits.
    """

    LATE_S = 0.5

    def __init__(self, server: str | tuple[str, int]) -> None:
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()
        self._reached: set[asyncio.StreamWriter] = set()
        self.cuts: list[Cut] = []
        self.held: list[tuple[bytes, float]] = []
        self.is_away = False
        self.is_away_after_cut = False
        self.is_still = False
        self.delay_s = 0.0
        self.cuts_count = 0
        self._vanished_count = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_away:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            server_reader, server_writer = await self._reach()
        except (OSError, asyncio.CancelledError):  # the server is away, or this end was cut meanwhile
            writer.transport.abort()
            return
        self._reached.add(server_writer)
        since = self._vanished_count
        answers = asyncio.create_task(self._pass_on(server_reader, writer, since))
        try:
            while chunk := await reader.read(65536):
                await self._be_slow()
                if self.is_away:
                    break
                if since != self._vanished_count:
                    continue
                if self.cuts and _COMMIT in chunk:
                    # Taken at once, because another connection may commit meanwhile.
                    cut = self.cuts.pop(0)
                    answers.cancel()
                    await asyncio.wait([answers])
                    await self._cut(cut, chunk, writer, server_reader, server_writer)
                    break
                await self._hold(chunk)
                server_writer.write(chunk)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client or the test has gone
        finally:
            answers.cancel()
            self._reached.discard(server_writer)
            for side in (server_writer, writer):
                side.transport.abort()

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._server, str):
            return await asyncio.open_unix_connection(self._server)
        return await asyncio.open_connection(*self._server)

    async def _be_slow(self) -> None:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        while self.is_still:  # noqa: ASYNC110  no event to await
            await asyncio.sleep(0.05)

    async def _hold(self, chunk: bytes) -> None:
        if self.held and chunk.startswith(self.held[0][0]):
            _, seconds = self.held.pop(0)
            await asyncio.sleep(seconds)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, since: int) -> None:
        with suppress(ConnectionError):
            while chunk := await reader.read(65536):
                await self._be_slow()
                if since == self._vanished_count:
                    writer.write(chunk)
        if since == self._vanished_count:
            writer.close()

    async def _cut(
        self,
        cut: Cut,
        commit: bytes,
        writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
    ) -> None:
        self.cuts_count += 1
        self.is_away = self.is_away_after_cut
        if cut == "before":
            return
        if cut == "late":
            writer.transport.abort()
            await asyncio.sleep(self.LATE_S)
        server_writer.write(commit)
        await server_reader.read(65536)

    def lead_to(self, database: Addresses) -> None:
        self._server = _socket_of(database)

    def vanish(self) -> None:
        """Leave all current connections without an answer and without an end."""
        self._vanished_count += 1

    def mend(self) -> None:
        self.is_away = self.is_still = False
        self.delay_s = 0.0
        self.cuts.clear()
        self.held.clear()

    async def end(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        # The writer is closed however the task ended; otherwise a later test would report the leak.
        for reached in self._reached:
            reached.transport.abort()
        self._reached.clear()


@asynccontextmanager
async def open_wire(database: Addresses) -> AsyncIterator[tuple[Wire, Addresses]]:
    """Put a wire in front of a database, and yield the addresses at which the service reaches it."""
    server_folder = _folder_of(database)
    folder = Path(tempfile.mkdtemp(prefix="wire-"))
    wire = Wire(_socket_of(database))
    listener = await asyncio.start_unix_server(wire.accept, folder / _SOCKET_NAME)
    near_url = database.service_url.replace(server_folder, str(folder))
    try:
        yield wire, msgspec.structs.replace(database, service_url=near_url)
    finally:
        listener.close()
        await wire.end()
        shutil.rmtree(folder)


def _folder_of(database: Addresses) -> str:
    return parse_qs(urlsplit(database.service_url).query)["host"][0]


def _socket_of(database: Addresses) -> str:
    return f"{_folder_of(database)}/{_SOCKET_NAME}"
