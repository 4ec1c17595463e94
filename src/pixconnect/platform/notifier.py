"""Wakes the workers by one debounced ``NOTIFY``, outside every transaction that makes work for them.

``NOTIFY`` inside a write transaction makes commits queue behind one lock. Here it is a separate statement, sent at most once in
``QUIET_S``. A lost one only costs the time until the next poll.

Also listens on a channel of PostgreSQL, over a separate connection, which is reopened when lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Protocol

import asyncpg
import structlog

from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.flow.shares import on_behalf_of_all
from pixconnect.platform.pool import Pool

CHANNEL: Final = "pixconnect_work"
ONLY_ORDERS: Final = "orders"
ONLY_DELIVERIES: Final = "deliveries"
ORDERS_AND_DELIVERIES: Final = "orders and deliveries"
"""The payloads when nothing else is new: a listener for anything else need not wake up."""
QUIET_S: Final = 0.005
QUIET_BUSY_S: Final = 0.02
"""The pause after ``BUSY_FROM`` orders or more: workers gather for longer then. Other news ends it."""
BUSY_FROM: Final = 4

EVENT_CHANNEL: Final = "pixconnect_events"  # there are events without a position in the feed
CALLBACK_CHANNEL: Final = "pixconnect_callbacks"
"""An institution called about incoming money; the payload names the account and the paces at which to read it."""
EVENT_QUIET_S: Final = 0.2
"""The time that an event may take to be readable. One without orders and deliveries waits for that at most."""


class WakeWorkers(Protocol):
    def __call__(self, orders_count: int = 0, *, only_deliveries: bool = False) -> None:
        """Wake them soon, and return at once.

        Either argument may describe all the new work: the number of orders, or deliveries only.
        """


class Notifier:
    def __init__(self, pool: Pool, quiet_busy_s: float = QUIET_BUSY_S) -> None:
        self._pool = pool
        self._quiet_busy_s = quiet_busy_s
        self._speaking: asyncio.Task[None] | None = None
        self._orders_count = 0
        self._is_all_new = False
        self._has_other_news = asyncio.Event()
        self.wake_local: Callable[[str], bool] = lambda _news: False
        """Wakes the worker in this process, and returns whether it is the only one."""

    def notify(self, orders_count: int = 0, *, only_deliveries: bool = False) -> None:
        """Wake the others soon; returns at once. As ``WakeWorkers``."""
        self._orders_count += orders_count
        if not orders_count:
            self._has_other_news.set()
            self._is_all_new = self._is_all_new or not only_deliveries
        if self._speaking is None or self._speaking.done():
            self._speaking = asyncio.create_task(self._speak(), name="notifier")

    async def _speak(self) -> None:
        while self._orders_count or self._has_other_news.is_set():
            is_busy = self._orders_count >= BUSY_FROM and not self._has_other_news.is_set()
            news = self._take_news()
            if not self.wake_local(news):
                payload = f", '{news}'" if news else ""
                try:
                    # It acts for all callers, or it would wait for a connection in the share of the first one.
                    with on_behalf_of_all():
                        await self._pool.execute(f"notify {CHANNEL}{payload}")
                # The others will find the work when they poll.
                except DATABASE_FAILED:
                    return
            await asyncio.sleep(QUIET_S)
            if is_busy:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._quiet_busy_s - QUIET_S):
                        await self._has_other_news.wait()

    def _take_news(self) -> str:
        """Everything new since the last time, as the payload says it."""
        has_orders, has_others, is_all_new = self._orders_count > 0, self._has_other_news.is_set(), self._is_all_new
        self._orders_count, self._is_all_new = 0, False
        self._has_other_news.clear()
        if is_all_new:
            return ""
        if has_orders and has_others:
            return ORDERS_AND_DELIVERIES
        return ONLY_DELIVERIES if has_others else ONLY_ORDERS


class EventNotifier:
    """Notifies listeners of new work: at once after a silence, then at most once in ``quiet_s``.

    Without another channel it wakes the sequencer of the feed.
    """

    def __init__(self, pool: Pool, quiet_s: float = EVENT_QUIET_S, channel: str = EVENT_CHANNEL, payload: str = "") -> None:
        self._pool = pool
        self._quiet_s = quiet_s
        self._channel, self._payload = channel, payload
        self._speaking: asyncio.Task[None] | None = None
        self._has_news = False

    def notify(self) -> None:
        self._has_news = True
        if self._speaking is None or self._speaking.done():
            self._speaking = asyncio.create_task(self._speak(), name="event notifier")

    async def _speak(self) -> None:
        while self._has_news:
            self._has_news = False
            try:
                with on_behalf_of_all():
                    await self._pool.execute("select pg_notify($1, $2)", self._channel, self._payload)
            # Listeners find it when they poll.
            except DATABASE_FAILED:
                return
            await asyncio.sleep(self._quiet_s)


REJOIN_AFTER_S: Final = 0.5

_log = structlog.get_logger(__name__)

Connect = Callable[[], Awaitable["asyncpg.Connection[asyncpg.Record]"]]


async def keep_listening(
    connect: Connect, channel: str, hear: Callable[[str], None], stay: Callable[[asyncio.Event], Awaitable[None]]
) -> None:
    """Listen until cancelled.

    Args:
        connect: Opens a connection; it may wait until one is wanted.
        hear: Called with each payload.
        stay: Runs while the listener is connected, to catch up with earlier notifications. Its argument is set when the
            connection is lost; when it returns, the connection is closed.
    """
    while True:
        try:
            was_lost = await _listen_once(await connect(), channel, hear, stay)
        except DATABASE_FAILED as error:
            _log.warning("listening was interrupted", channel=channel, reason=type(error).__name__)
            was_lost = True
        if was_lost:
            await asyncio.sleep(REJOIN_AFTER_S)


async def _listen_once(
    connection: asyncpg.Connection[asyncpg.Record],
    channel: str,
    hear: Callable[[str], None],
    stay: Callable[[asyncio.Event], Awaitable[None]],
) -> bool:
    lost = asyncio.Event()
    try:
        # Before it listens, so that a connection that breaks in between is reported too.
        connection.add_termination_listener(lambda _: lost.set())
        await connection.add_listener(channel, lambda _connection, _pid, _channel, payload: hear(str(payload)))
        # Once listening: catching up now may repeat something, and misses nothing.
        await stay(lost)
        return lost.is_set()
    finally:
        # Not by the protocol: a server that is gone would let us wait for its answer.
        connection.terminate()
