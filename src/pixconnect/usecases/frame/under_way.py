"""A cache of the transfers and refunds that this process has handed to the rail.

While an order is open its transfer or refund does not change, except for its id on the network, which the order has
too. So we need not read it again when it ends. On a miss (another worker handed it over, or too many are under way) we
read it from the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pixconnect.domain.frame import identifiers
from pixconnect.domain.money.order import name_of
from pixconnect.domain.money.refund import Refund
from pixconnect.domain.money.transfer import Transfer
from pixconnect.foundation.bounded_cache import BoundedCache
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.money import refund as refund_store
from pixconnect.store.money import transfer as transfer_store

REMEMBERED_MAX: Final = 4096
"""About 8 MiB; the one that was handed over first is forgotten first."""


class UnderWay:
    def __init__(self, remembered_max: int = REMEMBERED_MAX) -> None:
        self._by_name = BoundedCache[str, Transfer | Refund](remembered_max)

    def remember(self, handed: Iterable[Transfer | Refund]) -> None:
        for ordered in handed:
            self._by_name.keep(name_of(ordered), ordered)

    def recall(self, names: Sequence[str]) -> dict[str, Transfer | Refund]:
        return {name: self._by_name[name] for name in names if name in self._by_name}

    def forget(self, name: str) -> None:
        self._by_name.pop(name, None)

    def forget_all(self) -> None:
        self._by_name.clear()


async def read_ordered(pool: Connection | Pool, names: Sequence[str]) -> dict[str, Transfer | Refund]:
    """Our own outgoing transfers and refunds of these names, as the database has them; other names are skipped."""
    transfers = [name for name in names if identifiers.names_a_transfer(name)]
    refunds = [name for name in names if not identifiers.names_a_transfer(name)]
    found: dict[str, Transfer | Refund] = {}
    if transfers:
        found |= await transfer_store.find_named(pool, transfers, "OUT")
    if refunds:
        found |= await refund_store.find_named(pool, refunds, "OUT")
    return found
