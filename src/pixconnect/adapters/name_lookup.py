"""Looks up names of hosts that holders chose; names that hang delay nobody but the holder who chose them.

::

    find ─► failed lately? ─► joins the same look-up of this holder ─► waits for a permit ─► asks the name servers, 2 s

A look-up is cancelled when nobody waits for it any more. Found addresses are not cached, because the caller judges them anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Final

from pixconnect.flow.shares import OutgoingLimit, current_party
from pixconnect.foundation.bounded_cache import BoundedCache

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""Finds the addresses of a name and port; raises ``OSError`` if there are none."""

LOOKUP_S: Final = 2.0
LOOKUPS_MAX: Final = 64
LOOKUPS_OF_HOLDER_MAX: Final = 4
# How long a failure is cached: short enough for a holder who has just corrected the name, long enough that we seldom
# wait for a name that hangs.
FAILED_FOR_S: Final = 5.0
FAILURES_MAX: Final = 1024


class _Asked:
    __slots__ = ("answer", "waiting_count")

    def __init__(self, answer: asyncio.Task[Sequence[str]]) -> None:
        self.answer = answer
        self.waiting_count = 0


class NameLookups:
    def __init__(self, lookup: Lookup, *, lookup_s: float = LOOKUP_S, failed_for_s: float = FAILED_FOR_S) -> None:
        self._lookup = lookup
        self._lookup_s = lookup_s
        self._failed_for_s = failed_for_s
        self._limit = OutgoingLimit(LOOKUPS_MAX, holder_max=LOOKUPS_OF_HOLDER_MAX, what="look-ups of names")
        # By holder, so that nobody joins a look-up that waits for another holder's permit.
        self._asked: dict[tuple[Hashable, str, int], _Asked] = {}
        self._failed = BoundedCache[str, tuple[float, str]](FAILURES_MAX)

    async def find(self, host: str, port: int) -> Sequence[str]:
        """All addresses of a name.

        Raises:
            ServiceUnavailable: Too many look-ups wait already.
        """
        self._check_failed(host)
        key = (current_party.get(), host, port)
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = _Asked(asyncio.ensure_future(self._ask(host, port)))
            asked.answer.add_done_callback(_retrieve_exception)
        asked.waiting_count += 1
        # Shielded, because others may wait for the same answer; the last one who leaves cancels it.
        try:
            return await asyncio.shield(asked.answer)
        finally:
            asked.waiting_count -= 1
            if not asked.waiting_count:
                asked.answer.cancel()
                del self._asked[key]

    async def _ask(self, host: str, port: int) -> Sequence[str]:
        async with self._limit.hold():
            # Another look-up of this name may have failed while this one waited for its permit.
            self._check_failed(host)
            try:
                async with asyncio.timeout(self._lookup_s):
                    return await self._lookup(host, port)
            except TimeoutError:
                raise self._failure(host, f"no answer within {self._lookup_s:g} s") from None
            except (OSError, UnicodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else None
                raise self._failure(host, reason or type(error).__name__) from error

    def _failure(self, host: str, reason: str) -> OSError:
        self._failed.keep(host, (asyncio.get_running_loop().time() + self._failed_for_s, reason))
        return OSError(0, reason)

    def _check_failed(self, host: str) -> None:
        failed = self._failed.get(host)
        if failed is None:
            return
        until_s, reason = failed
        if asyncio.get_running_loop().time() < until_s:
            raise OSError(0, reason)
        del self._failed[host]


def _retrieve_exception(answer: asyncio.Task[Sequence[str]]) -> None:
    # Otherwise asyncio would log the failure of a look-up that nobody waited for as never retrieved.
    if not answer.cancelled():
        answer.exception()
