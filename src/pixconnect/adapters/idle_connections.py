"""Keeps connections for a while to use them again; how many is bounded for each address and in all."""

import asyncio
from typing import Final

from pixconnect.http.client import HttpConnection

IDLE_S: Final = 20.0

Address = tuple[str, str, str, int]
"""Scheme, name, address and port: a connection serves no other name than it was made for."""


class IdleConnections:
    """Idle connections, half of them to one address at most; the oldest is closed first."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        # With the loop's time since when each is idle, the oldest first.
        self._idle: dict[HttpConnection, tuple[Address, float]] = {}
        self._of_address: dict[Address, list[HttpConnection]] = {}
        self._sweep: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._idle)

    def keep(self, address: Address, connection: HttpConnection) -> None:
        """Keep a connection; the oldest is closed if there are too many."""
        loop = asyncio.get_running_loop()
        self._idle[connection] = (address, loop.time())
        same = self._of_address.setdefault(address, [])
        same.append(connection)
        if len(same) > self._count_max // 2:
            self._close(same[0])
        elif len(self._idle) > self._count_max:
            self._close(next(iter(self._idle)))
        if self._sweep is None:
            self._sweep = loop.call_later(IDLE_S, self._close_idle)

    def take(self, address: Address) -> HttpConnection | None:
        same = self._of_address.get(address)
        while same:
            # The one that was used last: the other side is least likely to have closed it.
            connection = same.pop()
            del self._idle[connection]
            if not same:
                del self._of_address[address]
            if connection.is_reusable:
                return connection
        return None

    def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        self._of_address.clear()

    def _close(self, connection: HttpConnection) -> None:
        address, _ = self._idle.pop(connection)
        same = self._of_address[address]
        same.remove(connection)
        if not same:
            del self._of_address[address]
        connection.close()

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        for connection, (_, idle_since_s) in list(self._idle.items()):
            if now_s - idle_since_s >= IDLE_S or not connection.is_reusable:
                self._close(connection)
        self._sweep = loop.call_later(IDLE_S, self._close_idle) if self._idle else None
