"""What a process has once for each cell, its context first of all: the one place that says where a request goes.

::

    a holder's id ── says its cell ──────────── ``of``: its part; 503 while that database is away, or is not known here yet
    a name ───────── leads to a cell ────────── ``find``: that one is asked first, then the home cell, then all others
    nobody ──────────────────────────────────── ``home``

Who asks all and finds nothing may say so only if all have answered (``find``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import Final, Generic, TypeVar

from pixconnect.domain.frame import cell, errors
from pixconnect.foundation.database_failure import DATABASE_AWAY, DATABASE_BUSY
from pixconnect.usecases.frame.context import Context

RETRY_AFTER_S: Final = 2
ANSWER_WITHIN_S: Final = 3.0
"""What another cell that hangs costs whoever asks it."""
NO_ANSWER: Final = (errors.ServiceUnavailable, *DATABASE_AWAY, *DATABASE_BUSY)
"""What a cell raises that cannot say now whether it knows something."""

Part = TypeVar("Part")
Found = TypeVar("Found")


class UnreachableCells:
    """The cells that one process knows and does not serve now."""

    def __init__(self) -> None:
        self.numbers = set[int]()
        self.are_known = True
        """Whether it was read which cells there are. Before that, what the home cell does not know may be any other's."""
        self.is_wanted = asyncio.Event()
        """Set when somebody asks for a cell that is not known, or one is away: there may be a new one, or it is elsewhere."""
        self._asked_for = set[int]()
        self._looked_for = set[int]()
        self._missing = set[int]()

    def begin_look(self) -> None:
        """Somebody is about to read which cells there are; who asks from now on waits for the next look."""
        self.is_wanted.clear()
        self._looked_for |= self._asked_for
        self._asked_for.clear()

    def end_look(self, numbers: Collection[int]) -> None:
        """These cells were read."""
        self.are_known = True
        self._missing = (self._missing | self._looked_for).difference(numbers)
        self._looked_for.clear()

    def is_missing(self, number: int) -> bool:
        """Whether a cell was asked for before, and was not there when somebody looked then; somebody looks again."""
        if number in self._missing:
            self.is_wanted.set()
        return number in self._missing

    def refuse(self, number: int) -> errors.ServiceUnavailable:
        """What a holder of this cell is answered."""
        if number in self.numbers:
            return errors.ServiceUnavailable(
                "the database of this holder cannot be reached; nothing was done", RETRY_AFTER_S
            )
        self._asked_for.add(number)
        self.is_wanted.set()
        return errors.ServiceUnavailable(
            "the database of this holder is not known here yet; nothing was done", RETRY_AFTER_S
        )


class ByCell(Generic[Part]):
    """A part of a process for each cell that it serves."""

    def __init__(self, home: Part, away: UnreachableCells | None = None) -> None:
        self.home = home
        """For what an installation has once: operators, the sandbox, what the settings say."""
        self._away = away or UnreachableCells()
        self._others: dict[int, Part] = {}

    def of(self, holder_id: int | None) -> Part:
        """The part of a holder's cell; of the home cell for what concerns no holder.

        Raises:
            ServiceUnavailable: This process does not serve that cell now.
        """
        return self.home if holder_id is None else self.at(cell.cell_of_id(holder_id))

    def at(self, number: int) -> Part:
        """The part of a cell; raises as ``of``."""
        # Where there is one cell this is all.
        if number == cell.HOME:
            return self.home
        found = self._others.get(number)
        if found is None:
            raise self._away.refuse(number)
        return found

    def is_missing(self, number: int) -> bool:
        """Whether a look for this cell, after somebody had asked for it, has found that there is none."""
        return number not in self._others and self._away.is_missing(number)

    @property
    def is_alone(self) -> bool:
        """Whether there is the home cell only, as far as this process knows."""
        return not self._others and not self._away.numbers and self._away.are_known

    @property
    def are_all_served(self) -> bool:
        """Whether this process knows which cells there are, and serves each of them now."""
        return self._away.are_known and not self._away.numbers

    def has_other(self, number: int | None) -> bool:
        """Whether this is a cell beside the home cell, served now or away, or may be one."""
        if not self._away.are_known:
            return number not in (None, cell.HOME)
        return number in self._others or number in self._away.numbers

    def __iter__(self) -> Iterator[Part]:
        """All that are served now, the home cell's first."""
        return iter([self.home, *self._others.values()])

    def others(self) -> list[tuple[int, Part]]:
        """Those beside the home cell's."""
        return list(self._others.items())

    def add(self, number: int, part: Part) -> None:
        """Serve a cell from now on."""
        self._others[number] = part

    def remove(self, number: int, part: Part) -> None:
        """Serve a cell by this part no more; one that has taken its place stays."""
        if self._others.get(number) is part:
            # First: whoever comes is told that the cell is away, and never that there may be none.
            self._away.numbers.add(number)
            del self._others[number]

    def with_home(self, home: Part) -> ByCell[Part]:
        """The same but for the home cell; what is added to one is in both."""
        there = ByCell(home, self._away)
        there._others = self._others
        return there

    async def find(self, look: Callable[[Part], Awaitable[Found]], name: str | None = None) -> Found:
        """What the first cell answers that knows of it, beginning where a name leads.

        Raises:
            NotFound: All have answered, and none knows it.
            ServiceUnavailable: None that has answered knows it, and one has not.
        """
        if self.is_alone:
            return await look(self.home)
        has_all, not_found = self.are_all_served, errors.NotFound("nobody knows it")
        for part in self._led_by(name):
            try:
                return await (look(part) if part is self.home else answer_in_time(look(part)))
            except errors.NotFound as refusal:
                not_found = refusal
            except NO_ANSWER:
                has_all = False
        if not has_all:
            raise errors.ServiceUnavailable("a database that may know it cannot be reached", RETRY_AFTER_S)
        raise not_found

    async def ask_all(self, ask: Callable[[Part], Awaitable[Found]]) -> dict[int, Found | None]:
        """What each cell answers, by its number; ``None`` for one beside the home cell that gives no answer in time."""

        async def ask_other(part: Part) -> Found | None:
            try:
                return await answer_in_time(ask(part))
            except NO_ANSWER:
                return None

        others = self.others()
        answers = await asyncio.gather(ask(self.home), *(ask_other(part) for _, part in others))
        answered = dict(zip([cell.HOME, *(number for number, _ in others)], answers, strict=True))
        return answered | dict.fromkeys(sorted(self._away.numbers))

    def list_near(self, name: str | None) -> list[Part]:
        """The part of the cell that a name leads to, if it does and that is served, and the home cell's."""
        number = None if name is None else cell.find_named_cell(name)
        first = None if number is None else self._others.get(number)
        return [self.home] if first is None else [first, self.home]

    def _led_by(self, name: str | None) -> list[Part]:
        near = self.list_near(name)
        return [*near, *(part for part in self._others.values() if part is not near[0])]


async def answer_in_time(asking: Awaitable[Found], within_s: float = ANSWER_WITHIN_S) -> Found:
    """What a cell answers, or ``TimeoutError``, which is one of ``NO_ANSWER``.

    Whoever gives up does not wait for the end of what was asked: a server that hangs does not answer to a cancel either.
    """
    task = asyncio.ensure_future(asking)
    try:
        await asyncio.wait([task], timeout=within_s)
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(lambda given_up: given_up.cancelled() or given_up.exception())
    if not task.done():
        raise TimeoutError
    return task.result()


Cells = ByCell[Context]
"""The contexts."""
