"""Connections that are kept for a while to be used again: bounded for each address, and in all, whoever is at the other end."""

import asyncio
from typing import Final

from pixconnect.http.client import HttpConnection

IDLE_S: Final = 20.0
KEPT_MAX: Final = 128
"""In all: each holds a descriptor that somebody else may need."""
KEPT_OF_ADDRESS_MAX: Final = 64

Address = tuple[str, str, str, int]
"""Scheme, name, address and port: a connection serves no other name than it was made for."""


class KeptConnections:
    """Idle connections, the oldest of which goes first."""

    def __init__(self) -> None:
        self._kept: dict[HttpConnection, tuple[Address, float]] = {}
        """Since when, in the order of that."""
        self._of_address: dict[Address, list[HttpConnection]] = {}
        self._sweep: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, address: Address, connection: HttpConnection) -> None:
        """Keep a connection, in place of the oldest if there are enough."""
        loop = asyncio.get_running_loop()
        self._kept[connection] = (address, loop.time())
        same = self._of_address.setdefault(address, [])
        same.append(connection)
        if len(same) > KEPT_OF_ADDRESS_MAX:
            self._close(same[0])
        elif len(self._kept) > KEPT_MAX:
            self._close(next(iter(self._kept)))
        if self._sweep is None:
            self._sweep = loop.call_later(IDLE_S, self._close_idle)

    def take(self, address: Address) -> HttpConnection | None:
        """The latest used of those to an address."""
        same = self._of_address.get(address)
        while same:
            connection = same.pop()
            del self._kept[connection]
            if not same:
                del self._of_address[address]
            if connection.is_reusable:
                return connection
        return None

    def close(self) -> None:
        """Close all of them."""
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in self._kept:
            connection.close()
        self._kept.clear()
        self._of_address.clear()

    def _close(self, connection: HttpConnection) -> None:
        address, _ = self._kept.pop(connection)
        same = self._of_address[address]
        same.remove(connection)
        if not same:
            del self._of_address[address]
        connection.close()

    def _close_idle(self) -> None:
        """Close what nobody has used for a while; comes back as long as anything is kept."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        for connection, (_, kept_s) in list(self._kept.items()):
            if now_s - kept_s >= IDLE_S or not connection.is_reusable:
                self._close(connection)
        self._sweep = loop.call_later(IDLE_S, self._close_idle) if self._kept else None
