"""What this process has handed to the rail, remembered until its end.

While an order is open nothing of its transfer or refund changes, so whoever hears of its end need not read it again. What is
not remembered, because another worker handed it over or too many are under way, is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pixconnect.domain.order import name_of
from pixconnect.domain.refund import Refund
from pixconnect.domain.transfer import Transfer
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store import refund as refund_store
from pixconnect.store import transfer as transfer_store

REMEMBERED_MAX: Final = 4096
"""About 8 MiB; the oldest is forgotten first."""


class UnderWay:
    """Transfers and refunds by their names on the network, as they were accepted."""

    def __init__(self, remembered_max: int = REMEMBERED_MAX) -> None:
        self._remembered_max = remembered_max
        self._by_name: dict[str, Transfer | Refund] = {}

    def remember(self, handed: Iterable[Transfer | Refund]) -> None:
        """They are about to be handed over."""
        for ordered in handed:
            self._by_name[name_of(ordered)] = ordered
        while len(self._by_name) > self._remembered_max:
            del self._by_name[next(iter(self._by_name))]

    def recall(self, names: Sequence[str]) -> dict[str, Transfer | Refund]:
        """Those of them that are remembered."""
        return {name: self._by_name[name] for name in names if name in self._by_name}

    def forget(self, name: str) -> None:
        """It has ended."""
        self._by_name.pop(name, None)


async def read_ordered(pool: Connection | Pool, names: Sequence[str]) -> dict[str, Transfer | Refund]:
    """Our own outgoing transfers and refunds of these names, as they are at rest; other names are passed over."""
    transfers = [name for name in names if name.startswith("E")]
    refunds = [name for name in names if name.startswith("D")]
    found: dict[str, Transfer | Refund] = {}
    if transfers:
        found |= await transfer_store.find_named(pool, transfers, "OUT")
    if refunds:
        found |= await refund_store.find_named(pool, refunds, "OUT")
    return found
