"""Shares a resource that several parties want at once: in turn, and a party that is alone gets all of it.

A party is a holder, or an address that requests tokens. There is no rate limit: a party that is alone may use every permit, and
while others are active at most half of them.

::

    party A ─► a a a a a ─┐
    party B ─► b ─────────┼─► a b c a a a      one of each in turn
    party C ─► c ─────────┘

Concurrent calls to hosts that holders chose are limited per holder, and in all, because the owner of a host decides how long it
takes to answer. If very many holders use their own limit at once, they share the total in turn.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Final, Generic, TypeVar
from weakref import WeakValueDictionary

from pixconnect.platform.base import errors

Item = TypeVar("Item")

PRESENT_S: Final = 1.0  # how long a party counts as active after a request: meanwhile others leave it half

_SERVICE: Final = "the service"
current_party: ContextVar[Hashable] = ContextVar("current_party", default=_SERVICE)
"""The id of the holder served, or the caller's address while the holder is unknown."""


class RecentParties:
    """Tracks whether a party is alone: the only one with a request in the last second."""

    def __init__(self) -> None:
        self._last_party: Hashable = None
        self._last_at_s = float("-inf")
        # When a party other than the last one last made a request.
        self._other_at_s = float("-inf")

    def note(self, party: Hashable, now_s: float) -> None:
        if party != self._last_party:
            self._other_at_s = self._last_at_s
            self._last_party = party
        self._last_at_s = now_s

    def is_alone(self, party: Hashable, now_s: float) -> bool:
        """Whether no other party has made a request for a while."""
        other_at_s = self._other_at_s if party == self._last_party else self._last_at_s
        return now_s - other_at_s >= PRESENT_S

    def is_only_one(self, now_s: float) -> bool:
        """Whether all recent requests are of one party."""
        return now_s - self._other_at_s >= PRESENT_S


@contextmanager
def on_behalf_of_all() -> Generator[None]:
    """Act on behalf of all, so as not to wait in the queue of the first requesting party."""
    before = current_party.set(_SERVICE)
    try:
        yield
    finally:
        current_party.reset(before)


class FairQueue(Generic[Item]):
    """A queue for each party, with one maximum for all, served in turn; ``drop`` receives items evicted for another party's."""

    def __init__(self, length_max: int, drop: Callable[[Item], None]) -> None:
        self._length_max = length_max
        self._drop = drop
        # None of them is empty; the first one's turn is next.
        self._lines: dict[Hashable, deque[Item]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def has(self, party: Hashable) -> bool:
        return party in self._lines

    def is_shared(self, party: Hashable) -> bool:
        return len(self._lines) > (party in self._lines)

    def find_dominant(self, beside: Mapping[Hashable, int], count_min: int) -> Hashable | None:
        """Return the party with more items than all others together, here and ``beside``, if it has at least so many."""
        counts = Counter({party: len(line) for party, line in self._lines.items()})
        counts.update(beside)
        if not counts:
            return None
        ((party, count),) = counts.most_common(1)
        return party if count >= count_min and 2 * count > counts.total() else None

    def put(self, party: Hashable, item: Item) -> bool:
        """Add an item to its party's queue; false if there is no room.

        While others wait, a party may use half of the room. In a full queue the newest item of the party with the most makes
        room for a party with fewer.
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

    def take(
        self, count_max: int, fits: Callable[[Item], bool] | None = None, may_have: Callable[[Hashable], bool] | None = None
    ) -> list[Item]:
        """Take items out, one of each party in turn; those that do not fit, or are not permitted, keep their position."""
        others: dict[Hashable, deque[Item]] = {}
        if may_have is not None:
            others = {party: line for party, line in self._lines.items() if not may_have(party)}
            for party in others:
                del self._lines[party]
        taken: list[Item] = []
        looked_at: list[tuple[Hashable, Item]] = []
        passed_over: list[tuple[Hashable, Item]] = []
        try:
            while self._lines and len(taken) < count_max:
                party, line = next(iter(self._lines.items()))
                # The hot path: a party that is alone takes all of its items at once.
                for _ in range(1 if len(self._lines) > 1 else min(len(line), count_max - len(taken))):
                    item = line[0]
                    if fits is None or fits(item):
                        taken.append(item)
                    else:
                        passed_over.append((party, item))
                    if fits is not None:
                        looked_at.append((party, item))
                    line.popleft()
                del self._lines[party]
                if line:
                    self._lines[party] = line
        except BaseException:
            # The caller gets nothing, so everything stays.
            taken, passed_over = [], looked_at
            raise
        finally:
            if passed_over:
                self._put_back(passed_over)
            self._lines |= others
            self._length -= len(taken)
        return taken

    def take_first(self, may_have: Callable[[Hashable], bool]) -> Item | None:
        """Take an item of the next party that may have one; ``None`` if there is none."""
        party = next(filter(may_have, self._lines), None)
        if party is None:
            return None
        line = self._lines.pop(party)
        item = line.popleft()
        self._length -= 1
        if line:
            self._lines[party] = line
        return item

    def remove(self, party: Hashable, item: Item) -> None:
        line = self._lines.get(party)
        if line is None or item not in line:
            return
        line.remove(item)
        self._length -= 1
        if not line:
            del self._lines[party]

    def _put_back(self, items: Sequence[tuple[Hashable, Item]]) -> None:
        """Put items where they were; it is still their parties' turn."""
        for party, item in reversed(items):
            self._lines.setdefault(party, deque()).appendleft(item)
        parties = dict.fromkeys(party for party, _ in items)
        self._lines = {party: self._lines.pop(party) for party in parties} | self._lines

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


class FairSemaphore:
    """A semaphore whose waiters wait in a ``FairQueue``.

    Args:
        what: The limited resource, in the plural, for the message of a refusal.
        share_max: How many one party may hold while others are active; by default half of them.
        parties: The other parties that count; by default only those that request one of these permits.
    """

    def __init__(
        self, count: int, *, waiting_max: int, what: str, share_max: int | None = None, parties: RecentParties | None = None
    ) -> None:
        self._free_count = count
        self._share = share_max or max(1, count // 2)
        self._what = what
        self._held: dict[Hashable, int] = {}
        self._waiting: FairQueue[_Waiter] = FairQueue(waiting_max, self._refuse)
        self._parties = parties or RecentParties()
        self._look_again: asyncio.TimerHandle | None = None

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def is_held_by(self, party: Hashable) -> bool:
        return party in self._held

    @asynccontextmanager
    async def hold(self, party: Hashable) -> AsyncGenerator[None]:
        """Hold a permit while the block runs; errors as in ``acquire``."""
        if not self.acquire_now(party):
            await self.acquire(party)
        try:
            yield
        finally:
            self.release(party)

    def acquire_now(self, party: Hashable) -> bool:
        """Take a permit if the party need not wait for it; if this is false, call ``acquire``."""
        self._parties.note(party, asyncio.get_running_loop().time())
        # Parties that wait while a permit is free have their half already, so none is overtaken.
        if self._free_count and self._may_have(party):
            self._grant(party)
            return True
        return False

    async def acquire(self, party: Hashable) -> None:
        """Wait for a permit; ``ServiceUnavailable`` if too many wait already, of all or of this party."""
        permit: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = party, permit
        if not self._waiting.put(party, waiter):
            raise self._refusal()
        self._grant_free()
        try:
            await permit
        except asyncio.CancelledError:
            # Otherwise it would use room, and make others share with it.
            self._waiting.remove(party, waiter)
            # The permit may have been released to us in the same turn of the loop.
            if permit.done() and not permit.cancelled() and permit.exception() is None:
                self.release(party)
            raise

    def release(self, party: Hashable) -> None:
        self._free_count += 1
        left_count = self._held[party] - 1
        if left_count:
            self._held[party] = left_count
        else:
            del self._held[party]
        if len(self._waiting):
            self._grant_free()

    def _grant_free(self) -> None:
        while self._free_count:
            waiter = self._waiting.take_first(self._may_have)
            if waiter is None:
                break
            party, permit = waiter
            # One whose task was cancelled in this turn of the loop is still here.
            if not permit.done():
                self._grant(party)
                permit.set_result(None)
        if self._free_count and len(self._waiting) and self._look_again is None:
            # The waiting parties have their half. Without another party's request for a while they may have the rest.
            self._look_again = asyncio.get_running_loop().call_later(PRESENT_S, self._grant_again)

    def _grant_again(self) -> None:
        self._look_again = None
        self._grant_free()

    def _grant(self, party: Hashable) -> None:
        self._free_count -= 1
        self._held[party] = self._held.get(party, 0) + 1

    def _may_have(self, party: Hashable) -> bool:
        if self._held.get(party, 0) < self._share:
            return True
        is_alone = self._parties.is_alone(party, asyncio.get_running_loop().time())
        return is_alone and not self._waiting.is_shared(party)

    def _refuse(self, waiter: _Waiter) -> None:
        _, permit = waiter
        if not permit.done():
            permit.set_exception(self._refusal())

    def _refusal(self) -> errors.ServiceUnavailable:
        return errors.ServiceUnavailable(f"too many {self._what} at once: try again shortly; nothing was done")


_WAITING_MAX: Final = 4096


class OutgoingLimit:
    def __init__(self, count: int, *, holder_max: int, what: str) -> None:
        self._in_all = FairSemaphore(count, waiting_max=_WAITING_MAX, what=what)
        self._holder_max = holder_max
        # Only of holders with running or waiting calls: these keep their semaphores alive.
        self._of_holder: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self) -> AsyncGenerator[None]:
        """Wait until the current party may begin, and count it while the block runs; errors as ``FairSemaphore.acquire``."""
        party = current_party.get()
        own = self._of_holder.get(party)
        if own is None:
            own = self._of_holder[party] = asyncio.Semaphore(self._holder_max)
        async with own, self._in_all.hold(party):
            yield
