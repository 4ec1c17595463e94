"""In which cell a client is that asks to be let in: all are asked, beginning where its id leads.

While a cell is away, a client that no other one knows may be of that one, so nobody refuses it and counts a failure. So that
guessing costs no more then, an address that has asked in vain too often asks the home cell and where an id leads, and no more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.rate import RatePolicy, TokenBuckets
from pixconnect.domain.identity import access as access_rules
from pixconnect.usecases.frame.cells import ByCell

Part = TypeVar("Part")

IN_VAIN_MAX: Final = 10
_IN_VAIN: Final = RatePolicy(name="clients in vain", tokens_max=IN_VAIN_MAX, refill_per_s=IN_VAIN_MAX / 2)


class ClientCells(Generic[Part]):
    """Finds the cell of one client after the other, for one process.

    Args:
        check: Raises ``NotFound`` unless the cell of this part has such a client.
        now_s: Of a clock that never goes back.
    """

    def __init__(
        self, cells: ByCell[Part], check: Callable[[Part, str], Awaitable[None]], now_s: Callable[[], float]
    ) -> None:
        self._cells = cells
        self._check = check
        self._now_s = now_s
        self._buckets = TokenBuckets()

    async def find(self, client_id: str | None, address: str) -> Part | None:
        """The part of a client's cell; ``None`` where all have answered and none knows it.

        Args:
            address: Who asks.

        Raises:
            ServiceUnavailable: It may be of a cell that is away, or of one that is not asked for this address just now.
        """
        cells = self._cells
        if client_id is None or not access_rules.is_client_id(client_id):
            return None
        if cells.is_alone:
            return cells.home
        now_s = self._now_s()
        bucket = self._buckets.find(_IN_VAIN, address, now_s)
        # Those who would know it by all likelihood are asked in any case: nobody waits for what others at his address do.
        asks_all = cells.are_all_served or bucket.read(now_s) >= 1
        near = cells.list_near(client_id)

        async def look(part: Part) -> Part:
            if not asks_all and all(part is not each for each in near):
                raise errors.NotFound("not asked")
            await self._check(part, client_id)
            return part

        try:
            return await cells.find(look, client_id)
        except errors.NotFound:
            return None
        except errors.ServiceUnavailable:
            bucket.spend(1)
            raise
