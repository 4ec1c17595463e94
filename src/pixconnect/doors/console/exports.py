"""Long files that are written while a page shows their progress, with or without a script.

A file has no name on the disk, so that none is left when the process ends, and belongs to the session that began it.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import suppress
from io import FileIO
from typing import Final

import structlog
from msgspec import Struct

from pixconnect.platform.base import errors
from pixconnect.platform.flow.turns import Turns

LONG_MIN: Final = 10_000
"""A file with at least this many lines is written before its download.

A shorter one is ready before the page is.
"""
AT_ONCE_MAX: Final = 4
"""Files of all sessions that are written or kept: each may be large. A discarded one that is still read is not counted."""
OF_HOLDER_MAX: Final = 2  # of these, the maximum of one holder's sessions...
OF_HOLDERS_MAX: Final = 3  # ...and of all holders': an operator always has a place
LEFT_AFTER_S: Final = 120.0
"""A file whose page has not been opened for this long is removed; a downloaded or interrupted one at once."""
_READ_SIZE: Final = 64 * 1024
_log = structlog.get_logger(__name__)

Parts = AsyncIterator[tuple[int, bytes]]  # each part of a file, with how many lines it has


class Export:
    """One file, written by a separate task; ``ServiceUnavailable`` if there is no folder for it."""

    def __init__(self, name: str, media_type: str, lines_count: int, parts: Parts) -> None:
        self.name = name
        self.media_type = media_type
        self.lines_count = lines_count
        self.written_count = 0
        self.size = 0
        self.has_failed = False
        self._is_taken = False
        self._looked_at_s = asyncio.get_running_loop().time()
        try:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed after forget()
        except OSError as error:
            # As it is, it would pass for a failure of the database.
            _log.error("no temporary file", name=name, exc_info=error)
            raise errors.ServiceUnavailable(
                "the console cannot write temporary files: TMPDIR names the folder for them"
            ) from error
        self._task = asyncio.create_task(self._write(parts))

    @property
    def is_done(self) -> bool:
        return self._task.done() and not self.has_failed

    def look(self) -> None:
        """Keep its place: a visitor is watching its progress."""
        self._looked_at_s = asyncio.get_running_loop().time()

    def may_go(self, now_s: float) -> bool:
        """Whether another session may have its place: not while a visitor waits for it, however long that takes."""
        is_spent = self._task.done() and (self._is_taken or self.has_failed)
        return is_spent or now_s - self._looked_at_s > LEFT_AFTER_S

    async def _write(self, parts: Parts) -> None:
        try:
            async for count, content in parts:
                self.size += self._file.write(content)
                self.written_count += count
            # The disk may be too full for the rest as well, and the file would be incomplete.
            self._file.flush()
        except Exception as error:  # noqa: BLE001 - the page shows that it failed, and the log why
            self.has_failed = True
            _log.error("export failed", name=self.name, exc_info=error)

    def read(self) -> AsyncIterator[bytes]:
        """Read all of it, by a descriptor of the reader's own: a download outlives its removal."""
        file = open(os.dup(self._file.fileno()), "rb", buffering=0)  # noqa: SIM115 - closed by its reader
        self._is_taken = True
        return _read_all(file)

    def forget(self) -> None:
        """End it without awaiting, so that no other task runs in between; the file is closed when its task has ended."""
        self._task.cancel()
        self._task.add_done_callback(self._close)

    def _close(self, _: asyncio.Task[None]) -> None:
        # On a full disk writing the rest of the buffer fails once more.
        with suppress(OSError):
            self._file.close()


class _Place(Struct, frozen=True):
    export: Export
    holder_id: int | None  # ``None`` for an operator's


class Exports:
    """The files of one process: one of each session at a time."""

    def __init__(self, turns: Turns | None = None) -> None:
        """``turns`` are those of the process; by default, only files take turns with each other."""
        self._turns = turns or Turns()
        # By session, the oldest first.
        self._kept: dict[int, _Place] = {}

    def begin(self, session_id: int, make: Callable[[], Export], holder_id: int | None = None) -> None:
        """Remove the session's earlier file and expired ones, and begin a new one.

        Args:
            holder_id: The session's holder; ``None`` for an operator's, for which the oldest file is removed when all places
                are taken.
        """
        now_s = asyncio.get_running_loop().time()
        for key, place in list(self._kept.items()):
            if key == session_id or place.export.may_go(now_s):
                self._forget(key)
        is_full = len(self._kept) >= AT_ONCE_MAX
        if holder_id is not None:
            whose = [place.holder_id for place in self._kept.values() if place.holder_id is not None]
            if is_full or len(whose) >= OF_HOLDERS_MAX or whose.count(holder_id) >= OF_HOLDER_MAX:
                raise errors.ServiceUnavailable("too many files are being written: try again in some minutes")
        if is_full:
            # The oldest, preferably a complete one.
            self._forget(min(self._kept, key=lambda key: not self._kept[key].export.is_done))
        self._kept[session_id] = _Place(make(), holder_id)

    def find(self, session_id: int) -> Export:
        """Find the session's own; ``NotFound`` if it has none."""
        place = self._kept.get(session_id)
        if place is None:
            raise errors.NotFound("there is no such file any more: save it again")
        place.export.look()
        return place.export

    async def in_turn(self, party: Hashable, parts: Parts) -> Parts:
        """Yield the parts of a file in its party's turns: a page of entries takes as long as many other pages."""
        while True:
            async with self._turns.hold_long(party):
                try:
                    part = await anext(parts)
                except StopAsyncIteration:
                    return
            yield part

    def forget_all(self) -> None:
        for session_id in list(self._kept):
            self._forget(session_id)

    def _forget(self, session_id: int) -> None:
        self._kept.pop(session_id).export.forget()


async def _read_all(file: FileIO) -> AsyncIterator[bytes]:
    try:
        at = 0
        # Descriptors of one file share their position, and several may read concurrently: each keeps its own.
        while content := os.pread(file.fileno(), _READ_SIZE, at):
            at += len(content)
            yield content
    finally:
        file.close()
