"""All connections of one server: how many there are, what they hold together, and who must go when that is too much.

A bound in all is never met by refusing the newest, or whoever came first could keep everybody out. Who must go is somebody
who keeps us waiting: of the peer with the most connections, the one that has done so for longest. One peer alone, such as a
proxy, may have all of them.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Iterable
from operator import attrgetter, itemgetter
from typing import Protocol

from pixconnect.http.limits import HELD_IN_ALL_MAX, SLICE_MAX, UNSENT_IN_ALL_MAX, UNSENT_OF_ONE_MAX

# When a bound is met, room is made for some more, so that not each newcomer costs a look at everybody.
_ROOM = 64


class Client(Protocol):
    """What the bounds in all look at in one connection."""

    address: str
    held_octets: int
    waits_since_s: float
    transport: asyncio.Transport

    @property
    def keeps_us_waiting(self) -> bool:
        """Whether it is owed nothing before it sends more."""
        ...

    def hang_up(self) -> None:
        """End the connection at once."""
        ...

    def close_if_overdue(self, now_s: float) -> None:
        """Hang up if it has kept us waiting for too long."""
        ...

    def shutdown(self) -> None:
        """Finish what is under way and close."""
        ...


class Connections:
    """Counts, and makes room."""

    def __init__(self, count_max: int) -> None:
        self.all: set[Client] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        """Applications at work, some of them for a client that has gone."""
        self.common_head = b""
        """Headers that every answer has, as they are sent."""
        self.slice = bytearray(SLICE_MAX)
        """What was read last, until the connection has copied it: one for all, because that happens at once."""
        self.held_octets = 0
        self.unsent_octets = 0
        self._count_max = count_max
        self._counts: Counter[str] = Counter()
        self._stalled: dict[Client, _Stall] = {}

    def add(self, connection: Client) -> None:
        """A client is there; another one may have to go."""
        self.all.add(connection)
        self._counts[connection.address] += 1
        if len(self.all) > self._count_max:
            self._hang_up_on_idle()

    def remove(self, connection: Client) -> None:
        if connection not in self.all:
            return
        self.all.remove(connection)
        self.held_octets -= connection.held_octets
        connection.held_octets = 0
        self._counts[connection.address] -= 1
        if not self._counts[connection.address]:
            del self._counts[connection.address]
        self.flows_again(connection)

    def hold(self, connection: Client, octets: int) -> None:
        """It sent so much of a request, which we keep until that is answered."""
        connection.held_octets += octets
        self.held_octets += octets
        if self.held_octets > HELD_IN_ALL_MAX:
            self._hang_up_on_senders()

    def release(self, connection: Client, octets_kept: int) -> None:
        """It is owed no answer; so much of the next request is there."""
        self.held_octets += octets_kept - connection.held_octets
        connection.held_octets = octets_kept

    def stalls(self, connection: Client, now_s: float) -> None:
        """It does not read its answer as fast as we write."""
        stall = self._stalled[connection] = _Stall(now_s, connection.transport.get_write_buffer_size())
        self.unsent_octets += stall.octets

    def flows_again(self, connection: Client) -> None:
        stall = self._stalled.pop(connection, None)
        if stall is not None:
            self.unsent_octets -= stall.octets

    def bound_unsent(self, now_s: float) -> None:
        """Hang up on the slowest readers while too much is unsent; called ten times a second.

        Not when it is written: whoever reads at all has read by then.
        """
        if self.unsent_octets <= UNSENT_OF_ONE_MAX:
            return
        self.unsent_octets = 0
        paces: list[tuple[float, float, Client]] = []
        for connection, stall in self._stalled.items():
            unsent = connection.transport.get_write_buffer_size()
            stalled_s = max(now_s - stall.since_s, 0.1)
            paces.append(((stall.octets_first - unsent) / stalled_s, stall.since_s, connection))
            stall.octets = unsent
            self.unsent_octets += unsent
        paces.sort(key=itemgetter(0, 1))
        for _, since_s, connection in paces:
            is_too_much = self._stalled[connection].octets > UNSENT_OF_ONE_MAX and now_s - since_s > 1
            if self.unsent_octets > UNSENT_IN_ALL_MAX or is_too_much:
                connection.hang_up()

    def _hang_up_on_idle(self) -> None:
        address, _ = max(self._counts.items(), key=itemgetter(1))
        idle = [connection for connection in self.all if connection.keeps_us_waiting]
        of_largest = [connection for connection in idle if connection.address == address]
        self._hang_up_on(of_largest or idle, len(of_largest or idle) // _ROOM + 1)

    def _hang_up_on_senders(self) -> None:
        senders = [one for one in self.all if one.keeps_us_waiting and one.held_octets]
        for connection in heapq.nsmallest(len(senders), senders, key=_since):
            if self.held_octets <= HELD_IN_ALL_MAX - HELD_IN_ALL_MAX // _ROOM:
                break
            connection.hang_up()

    @staticmethod
    def _hang_up_on(idle: Iterable[Client], count: int) -> None:
        for connection in heapq.nsmallest(count, idle, key=_since):
            connection.hang_up()


_since = attrgetter("waits_since_s")


class _Stall:
    """What a client had not read, when that began and when it was looked at last."""

    __slots__ = ("octets", "octets_first", "since_s")

    def __init__(self, since_s: float, octets: int) -> None:
        self.since_s = since_s
        self.octets_first = octets
        self.octets = octets
