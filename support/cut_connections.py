"""A stretch of wire between the service and PostgreSQL that a test can cut, at the worst moment of all: during COMMIT."""

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
"""Of a COMMIT that the client will never hear of: it is swallowed, or carried out, or carried out half a second later."""


class Wire:
    """Passes everything on, until a test says otherwise.

    Attributes:
        cuts: What to do with the next commits, one each.
        is_away: No connection gets through, and those that are there end at their next word.
        is_away_after_cut: A cut is the last that is heard of the server.
        cuts_count: How many commits were cut.
    """

    LATE_S = 0.5

    def __init__(self, server_socket: str) -> None:
        self._server_socket = server_socket
        self._tasks: set[asyncio.Task[None]] = set()
        self.cuts: list[Cut] = []
        self.is_away = False
        self.is_away_after_cut = False
        self.cuts_count = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_away:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        server_reader, server_writer = await asyncio.open_unix_connection(self._server_socket)
        answers = asyncio.create_task(_pass_on(server_reader, writer))
        try:
            while chunk := await reader.read(65536):
                if self.is_away:
                    break
                if self.cuts and _COMMIT in chunk:
                    answers.cancel()
                    await asyncio.wait([answers])
                    await self._cut(chunk, writer, server_reader, server_writer)
                    break
                server_writer.write(chunk)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client or the test has gone
        finally:
            answers.cancel()
            for side in (writer, server_writer):
                side.transport.abort()

    async def _cut(
        self,
        commit: bytes,
        writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
    ) -> None:
        cut = self.cuts.pop(0)
        self.cuts_count += 1
        self.is_away = self.is_away_after_cut
        if cut == "before":
            return
        if cut == "late":
            writer.transport.abort()
            await asyncio.sleep(self.LATE_S)
        server_writer.write(commit)
        await server_reader.read(65536)

    async def end(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while chunk := await reader.read(65536):
            writer.write(chunk)
        writer.close()


@asynccontextmanager
async def open_wire(database: Addresses) -> AsyncIterator[tuple[Wire, Addresses]]:
    """A wire to a database, and the addresses at which the service finds its near end."""
    server_folder = parse_qs(urlsplit(database.service_url).query)["host"][0]
    folder = Path(tempfile.mkdtemp(prefix="wire-"))
    wire = Wire(f"{server_folder}/{_SOCKET_NAME}")
    listener = await asyncio.start_unix_server(wire.accept, folder / _SOCKET_NAME)
    near_url = database.service_url.replace(server_folder, str(folder))
    try:
        yield wire, msgspec.structs.replace(database, service_url=near_url)
    finally:
        listener.close()
        await wire.end()
        shutil.rmtree(folder)
