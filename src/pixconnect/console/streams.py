"""Pages that are followed: how many at once, and which one gives way to another.

We refuse no stream, and no visitor can keep streams from others: a session's oldest gives way to its next; when all are
taken, the oldest stream of the party with the most gives way.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator, Hashable
from contextlib import contextmanager
from typing import Final

STREAMS_MAX: Final = 64
"""For one process."""
OF_SESSION_MAX: Final = 4
"""A page in the background follows nothing, so a person has rarely more than one."""


class Stream:
    """One page that a visitor follows."""

    def __init__(self, session_id: int, party: Hashable) -> None:
        self.session_id = session_id
        self.party = party
        self.gives_way = asyncio.Event()


class Streams:
    """All of one process, the oldest first."""

    def __init__(self) -> None:
        self._open: list[Stream] = []

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def hold(self, session_id: int, party: Hashable) -> Generator[Stream]:
        """A place for one more while the block runs, which another one gives up if there is none."""
        of_session = [each for each in self._open if each.session_id == session_id]
        if len(of_session) >= OF_SESSION_MAX:
            self._end(of_session[0])
        elif len(self._open) >= STREAMS_MAX:
            ((largest, _),) = Counter(each.party for each in self._open).most_common(1)
            self._end(next(each for each in self._open if each.party == largest))
        stream = Stream(session_id, party)
        self._open.append(stream)
        try:
            yield stream
        finally:
            self._end(stream)

    def _end(self, stream: Stream) -> None:
        stream.gives_way.set()
        if stream in self._open:
            self._open.remove(stream)
