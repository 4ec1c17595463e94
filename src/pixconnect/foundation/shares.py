"""Shares: what several parties want at once is given to them in turn, and to one that is alone in full.

A party is whoever things are shared among: a holder, or an address that asks for tokens. There is no rate: one party that is
alone has every place, and while others are there it has at most half.

::

    party A ─► a a a a a ─┐
    party B ─► b ─────────┼─► a b c a a a      one of each in turn
    party C ─► c ─────────┘

``FairQueue`` is the line in which things wait, ``FairPlaces`` lends places to those who wait in such a line.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Hashable
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Final, Generic, TypeVar

from pixconnect.domain import errors

Item = TypeVar("Item")

PRESENT_S: Final = 1.0
"""How long a party that asked for a place counts as being there: half of the places are kept within reach of the others."""

_SERVICE: Final = "the service"
current_party: ContextVar[Hashable] = ContextVar("current_party", default=_SERVICE)
"""For whom something is done: a holder's id; while nobody knows whose a request is, where it comes from."""


@contextmanager
def for_everybody() -> Generator[None]:
    """What others wait for too must not stand in the line of whoever asked first."""
    before = current_party.set(_SERVICE)
    try:
        yield
    finally:
        current_party.reset(before)


class FairQueue(Generic[Item]):
    """A line of bounded length for each party, served in turn.

    Args:
        length_max: Items that wait at most, of all parties together.
        drop: Hears of an item that had to give up its place to another party's.
    """

    def __init__(self, length_max: int, drop: Callable[[Item], None]) -> None:
        self._length_max = length_max
        self._drop = drop
        self._lines: dict[Hashable, deque[Item]] = {}
        """Never empty ones; the first is the one whose turn it is."""
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def has(self, party: Hashable) -> bool:
        """Whether anything of a party waits."""
        return party in self._lines

    def is_shared(self, party: Hashable) -> bool:
        """Whether anybody else waits."""
        return len(self._lines) > (party in self._lines)

    def put(self, party: Hashable, item: Item) -> bool:
        """Let an item wait, at the end of its party's line.

        Returns:
            Whether there was room: while others wait, a party has half of it. In a full queue the newest item of whoever has
            most makes room for who has less.
        """
        line = self._lines.get(party)
        own_length = len(line) if line is not None else 0
        if own_length < self._length and own_length >= max(1, self._length_max // 2):
            return False
        if self._length >= self._length_max and not self._make_room(own_length):
            return False
        if line is None:
            line = self._lines[party] = deque()
        line.append(item)
        self._length += 1
        return True

    def take(self, count_max: int, fits: Callable[[Item], bool] | None = None) -> list[Item]:
        """Take items out, one of each party in turn.

        Args:
            count_max: How many at most.
            fits: What is passed over otherwise, and keeps its place.
        """
        taken: list[Item] = []
        passed_over: dict[Hashable, list[Item]] = {}
        while self._lines and len(taken) < count_max:
            party = next(iter(self._lines))
            line = self._lines.pop(party)
            # A party that is alone is not turned round for each of its items: that is the hot road.
            for _ in range(1 if self._lines else min(len(line), count_max - len(taken))):
                item = line.popleft()
                if fits is None or fits(item):
                    taken.append(item)
                else:
                    passed_over.setdefault(party, []).append(item)
            if line:
                self._lines[party] = line
        if passed_over:
            for party, items in passed_over.items():
                self._lines.setdefault(party, deque()).extendleft(reversed(items))
            # It is still their turn.
            self._lines = {party: self._lines.pop(party) for party in passed_over} | self._lines
        self._length -= len(taken)
        return taken

    def take_first(self, may_have: Callable[[Hashable], bool]) -> Item | None:
        """Take the next item of the first party in turn that may have one; ``None`` if there is none."""
        party = next(filter(may_have, self._lines), None)
        if party is None:
            return None
        line = self._lines.pop(party)
        item = line.popleft()
        self._length -= 1
        if line:
            self._lines[party] = line
        return item

    def _make_room(self, own_length: int) -> bool:
        longest_party, longest = max(self._lines.items(), key=lambda entry: len(entry[1]))
        if len(longest) <= own_length + 1:
            return False
        dropped = longest.pop()
        self._length -= 1
        if not longest:
            del self._lines[longest_party]
        self._drop(dropped)
        return True


_Waiter = tuple[Hashable, "asyncio.Future[None]"]


class FairPlaces:
    """Places that are lent to parties in turn.

    Args:
        count: How many there are.
        waiting_max: Those that wait for one at most; more are refused.
        what: Is done there, for who is refused: plural.
        share_max: How many one party has at most while others are there; otherwise half of them.
    """

    def __init__(self, count: int, *, waiting_max: int, what: str, share_max: int | None = None) -> None:
        self._free_count = count
        self._share = share_max or max(1, count // 2)
        self._what = what
        self._lent: dict[Hashable, int] = {}
        self._waiting: FairQueue[_Waiter] = FairQueue(waiting_max, self._refuse)
        self._last: tuple[Hashable, float] = (None, float("-inf"))
        """Who asked last, and when..."""
        self._last_other: tuple[Hashable, float] = (None, float("-inf"))
        """...and who was the last one before that was another."""
        self._look_again: asyncio.TimerHandle | None = None

    @property
    def waiting_count(self) -> int:
        """How many wait, those included who have gone and were not passed over yet."""
        return len(self._waiting)

    @asynccontextmanager
    async def lend(self, party: Hashable) -> AsyncGenerator[None]:
        """A place for a party, for as long as the block lasts; raises as ``take``."""
        if not self.take_now(party):
            await self.take(party)
        try:
            yield
        finally:
            self.give_back(party)

    def take_now(self, party: Hashable) -> bool:
        """Take a place if there is one for this party without waiting; otherwise ``take`` is next."""
        if party != self._last[0]:
            self._last_other = self._last
        self._last = (party, asyncio.get_running_loop().time())
        # Whoever waits while a place is free has its half: nobody is overtaken.
        if self._free_count and self._may_have(party):
            self._give(party)
            return True
        return False

    async def take(self, party: Hashable) -> None:
        """Wait for a place.

        Raises:
            ServiceUnavailable: Too many wait already, of all or of this party.
        """
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self._waiting.put(party, (party, place)):
            raise self._refusal()
        self._lend_free()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self.give_back(party)
            raise

    def give_back(self, party: Hashable) -> None:
        """End what ``take`` began."""
        self._free_count += 1
        left_count = self._lent[party] - 1
        if left_count:
            self._lent[party] = left_count
        else:
            del self._lent[party]
        if len(self._waiting):
            self._lend_free()

    def _lend_free(self) -> None:
        """Give what is free to those who wait, in turn."""
        while self._free_count:
            waiter = self._waiting.take_first(self._may_have)
            if waiter is None:
                break
            party, place = waiter
            if not place.done():
                self._give(party)
                place.set_result(None)
        if self._free_count and len(self._waiting) and self._look_again is None:
            # They have their half. When nobody else has asked for a while they may have the rest.
            self._look_again = asyncio.get_running_loop().call_later(PRESENT_S, self._lend_again)

    def _lend_again(self) -> None:
        self._look_again = None
        self._lend_free()

    def _give(self, party: Hashable) -> None:
        self._free_count -= 1
        self._lent[party] = self._lent.get(party, 0) + 1

    def _may_have(self, party: Hashable) -> bool:
        if self._lent.get(party, 0) < self._share:
            return True
        other_asked_at_s = self._last_other[1] if self._last[0] == party else self._last[1]
        is_alone = asyncio.get_running_loop().time() - other_asked_at_s >= PRESENT_S
        return is_alone and not self._waiting.is_shared(party)

    def _refuse(self, waiter: _Waiter) -> None:
        _, place = waiter
        if not place.done():
            place.set_exception(self._refusal())

    def _refusal(self) -> errors.ServiceUnavailable:
        return errors.ServiceUnavailable(f"too many {self._what} at once: try again shortly; nothing was done")
