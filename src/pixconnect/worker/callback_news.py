"""What institutions told of each account since it was last read."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import cast, get_args

from pixconnect.domain.institutions.sweep import Pace
from pixconnect.domain.institutions.webhook import APART_S


class CallbackNews:
    """Lets an account's reader rest until its institution calls, and read for that at most once in ``APART_S``."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._told: defaultdict[int, set[Pace]] = defaultdict(set)
        self._woken: defaultdict[int, asyncio.Event] = defaultdict(asyncio.Event)
        self._next_s: dict[int, float] = {}

    def hear(self, _connection: object, _process_id: int, _channel: str, payload: object) -> None:
        """Hear what ``usecases.institutions.callback`` tells."""
        # A process of a later version may tell of paces that this one does not know: these it does not read.
        account_id, *paces = str(payload).split()
        self.tell(int(account_id), [cast("Pace", pace) for pace in paces if pace in get_args(Pace)])

    def tell(self, account_id: int, paces: Collection[Pace]) -> None:
        if paces:
            self._told[account_id].update(paces)
            self._woken[account_id].set()

    def take(self, account_id: int) -> frozenset[Pace]:
        """The paces at which to read now because its institution called; whoever fails to read tells again."""
        now_s = self._monotonic_s()
        if not self._told[account_id] or now_s < self._next_s.get(account_id, 0.0):
            return frozenset()
        self._next_s[account_id] = now_s + APART_S
        self._woken[account_id].clear()
        return frozenset(self._told.pop(account_id))

    async def rest(self, account_id: int, longest_s: float) -> None:
        """Wait until an institution has told of an account that may be read for it, at most so long."""
        # Called too soon after the last reading: what was told waits for that long, and is not lost.
        early_s = self._next_s.get(account_id, 0.0) - self._monotonic_s()
        if early_s > 0:
            await asyncio.sleep(min(early_s, longest_s))
            longest_s -= early_s
        if longest_s <= 0:
            return
        try:
            async with asyncio.timeout(longest_s):
                await self._woken[account_id].wait()
        except TimeoutError:
            return
