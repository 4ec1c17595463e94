"""Long files that are written while a page says how far they are, with a script and without.

A file has no name on the disk, so that nothing of it is left where the process ends, and belongs to the session that began it.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import structlog

from pixconnect.domain import errors

LONG_MIN: Final = 10_000
"""Lines of a file that is written before it is taken; a shorter one is there before anybody could look."""
AT_ONCE_MAX: Final = 4
"""Files of all sessions that are written or wait to be taken: each may be large."""
KEPT_S: Final = 900.0
"""How long a file keeps others from being begun."""
_READ_SIZE: Final = 64 * 1024
_log = structlog.get_logger(__name__)

# Each part of a file, with how many lines it has.
Parts = AsyncIterator[tuple[int, bytes]]


class Export:
    """One file, written by a task of its own."""

    def __init__(self, name: str, media_type: str, lines_count: int, parts: Parts) -> None:
        self.name = name
        self.media_type = media_type
        self.lines_count = lines_count
        self.written_count = 0
        self.size = 0
        self.has_failed = False
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by forget()
        self._task = asyncio.create_task(self._write(parts))

    @property
    def is_done(self) -> bool:
        return self._task.done() and not self.has_failed

    async def _write(self, parts: Parts) -> None:
        try:
            async for count, content in parts:
                self.size += self._file.write(content)
                self.written_count += count
        except Exception as error:  # noqa: BLE001 - the page says that it failed, and the log why
            self.has_failed = True
            _log.error("export failed", name=self.name, exc_info=error)

    async def read(self) -> AsyncIterator[bytes]:
        at = 0
        while at < self.size:
            # Two may take it at once, so each goes back to its own place.
            self._file.seek(at)
            content = self._file.read(_READ_SIZE)
            at += len(content)
            yield content

    async def forget(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._file.close()


class Exports:
    """The files of one process: one of each session at a time."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[float, Export]] = {}

    async def make_room(self, session_id: int) -> None:
        """Forget the session's earlier file, and those that nobody has taken for long.

        Raises:
            ServiceUnavailable: Too many are written or wait.
        """
        now_s = asyncio.get_running_loop().time()
        for key, (began_s, export) in list(self._kept.items()):
            if key == session_id or now_s - began_s > KEPT_S:
                del self._kept[key]
                await export.forget()
        if len(self._kept) >= AT_ONCE_MAX:
            raise errors.ServiceUnavailable("too many files are being written: try again in some minutes")

    def keep(self, session_id: int, export: Export) -> None:
        self._kept[session_id] = (asyncio.get_running_loop().time(), export)

    def find(self, session_id: int) -> Export:
        """The session's own; ``NotFound`` if it has none."""
        found = self._kept.get(session_id)
        if found is None:
            raise errors.NotFound("there is no such file any more: save it again")
        return found[1]
