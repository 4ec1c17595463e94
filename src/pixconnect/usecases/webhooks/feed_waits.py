"""Requests that wait for a holder's events: woken when a worker gives positions, without a connection of their own.

One connection listens for all requests that wait in this process, and only while there are any. A slow poll finds
positions whose notification was lost.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import asyncpg

from pixconnect.domain.frame import errors
from pixconnect.foundation.listener import REJOIN_AFTER_S, Connect, keep_listening
from pixconnect.store.webhooks.feed import FEED_CHANNEL, read_feed_notice

HOLDER_MAX: Final = 64
"""For one holder in one process: more programs than one feed has."""
ALL_MAX: Final = 2048
POLL_S: Final = 5.0
LINGER_S: Final = 60.0
"""How long the connection stays when nobody waits any more."""
RETRY_AFTER_S: Final = 1


class FeedWaits:
    """The waiting requests of one process."""

    def __init__(self, connect: Connect, poll_s: float = POLL_S) -> None:
        self._connect = connect
        self._poll_s = poll_s
        self._waiting: dict[int, set[asyncio.Event]] = defaultdict(set)
        self._count = 0
        self._is_listening = asyncio.Event()
        self._is_wanted = asyncio.Event()
        self._has_ended = False

    @asynccontextmanager
    async def hold(self, holder_id: int) -> AsyncGenerator[Wait]:
        """Hear of a holder's events while the block runs; look for them after entering it."""
        if len(self._waiting.get(holder_id, ())) >= HOLDER_MAX:
            raise errors.RateLimited(f"at most {HOLDER_MAX} requests of yours may wait for events", RETRY_AFTER_S)
        if self._count >= ALL_MAX:
            raise errors.ServiceUnavailable("too many requests wait for events: ask without wait_s", RETRY_AFTER_S)
        woken = asyncio.Event()
        self._waiting[holder_id].add(woken)
        self._count += 1
        self._is_wanted.set()
        try:
            # A request that reads before the listener is there would miss later positions.
            with suppress(TimeoutError):
                async with asyncio.timeout(REJOIN_AFTER_S):
                    await self._is_listening.wait()
            yield Wait(woken, lambda: self._has_ended, self._poll_s)
        finally:
            self._count -= 1
            self._waiting[holder_id].discard(woken)
            # An empty set of each holder who ever waited would stay as long as the process.
            if not self._waiting[holder_id]:
                del self._waiting[holder_id]
            if not self._count:
                self._is_wanted.clear()

    def end(self) -> None:
        """Answer everybody: the process is about to stop."""
        self._has_ended = True
        self._wake(None)

    async def listen(self) -> None:
        """Listen while a request waits, until cancelled."""
        await keep_listening(self._connect_when_wanted, FEED_CHANNEL, self._hear, self._stay)

    async def _connect_when_wanted(self) -> asyncpg.Connection[asyncpg.Record]:
        await self._is_wanted.wait()
        return await self._connect()

    async def _stay(self, lost: asyncio.Event) -> None:
        self._is_listening.set()
        try:
            # Events may have got positions before we listened.
            self._wake(None)
            while not lost.is_set() and (self._count or await self._is_wanted_soon()):
                with suppress(TimeoutError):
                    async with asyncio.timeout(LINGER_S):
                        await lost.wait()
        finally:
            self._is_listening.clear()

    async def _is_wanted_soon(self) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                return await self._is_wanted.wait()
        return False

    def _hear(self, notice: str) -> None:
        self._wake(read_feed_notice(notice))

    def _wake(self, holder_ids: frozenset[int] | None) -> None:
        for holder_id in self._waiting.keys() if holder_ids is None else self._waiting.keys() & holder_ids:
            for woken in self._waiting[holder_id]:
                woken.set()


class Wait:
    """One request that waits."""

    def __init__(self, woken: asyncio.Event, has_ended: Callable[[], bool], poll_s: float) -> None:
        self._woken = woken
        self._poll_s = poll_s
        self._has_ended = has_ended

    async def until_woken(self, seconds: float) -> bool:
        """Wait until there may be something; false if the time is up, or the process stops."""
        if seconds <= 0 or self._has_ended():
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, self._poll_s)):
                await self._woken.wait()
        # Before the caller looks: what comes while it looks wakes it again.
        self._woken.clear()
        return not self._has_ended()
