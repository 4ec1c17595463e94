"""A stretch of wire between the service and PostgreSQL that a test can cut, at the worst moment of all: during COMMIT."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, quote, urlsplit

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
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self.is_away:
            writer.transport.abort()
            return
        server_reader, server_writer = await asyncio.open_unix_connection(self._server_socket)
        answers = asyncio.create_task(_pass_on(server_reader, writer))
        try:
            await self._pass_questions(reader, server_writer, server_reader, answers)
        finally:
            answers.cancel()
            for side in (writer, server_writer):
                side.transport.abort()
            await asyncio.wait([answers])

    async def end(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _pass_questions(
        self,
        reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        answers: "asyncio.Task[None]",
    ) -> None:
        with suppress(ConnectionError):
            while chunk := await reader.read(65536):
                if self.is_away:
                    return
                if self.cuts and _COMMIT in chunk:
                    await self._cut(chunk, server_writer, server_reader, answers)
                    return
                server_writer.write(chunk)

    async def _cut(
        self,
        chunk: bytes,
        server_writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        answers: "asyncio.Task[None]",
    ) -> None:
        cut = self.cuts.pop(0)
        self.cuts_count += 1
        self.is_away = self.is_away_after_cut
        answers.cancel()
        await asyncio.wait([answers])
        if cut == "before":
            return
        finish = asyncio.create_task(self._finish(chunk, server_writer, server_reader, 0 if cut == "after" else self.LATE_S))
        self._tasks.add(finish)
        finish.add_done_callback(self._tasks.discard)
        if cut == "after":
            await finish
            return
