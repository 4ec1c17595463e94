"""What this process has handed to the rail, remembered until its end.

While an order is open nothing of its transfer or refund changes, so whoever hears of its end need not read it again. What is
not remembered, because another worker handed it over or too many are under way, is read.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pixconnect.domain.refund import Refund
from pixconnect.domain.transfer import Transfer

REMEMBERED_MAX: Final = 4096
"""About 8 MiB; the oldest is forgotten first."""


def name_of(ordered: Transfer | Refund) -> str:
    """Its name on the network."""
    return ordered.end_to_end_id if isinstance(ordered, Transfer) else ordered.return_id


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
