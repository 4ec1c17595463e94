"""Hears what is notified on a channel of PostgreSQL, over a connection of its own, which is opened again when it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg
import structlog

from pixconnect.foundation.database_failure import DATABASE_FAILED

REJOIN_AFTER_S: Final = 0.5

_log = structlog.get_logger(__name__)

Connect = Callable[[], Awaitable["asyncpg.Connection[asyncpg.Record]"]]


async def keep_listening(
    connect: Connect, channel: str, hear: Callable[[str], None], stay: Callable[[asyncio.Event], Awaitable[None]]
) -> None:
    """Listen until cancelled.

    Args:
        connect: Opens a connection; it may wait until one is wanted.
        hear: Is called with each payload.
        stay: Runs while the listener is there, so it can catch up with what was said before. Its argument is set when the
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
        # Before it listens, so that a connection that breaks in between is told of too.
        connection.add_termination_listener(lambda _: lost.set())
        await connection.add_listener(channel, lambda _connection, _pid, _channel, payload: hear(str(payload)))
        # Once it hears: who catches up now may see something twice, and misses nothing.
        await stay(lost)
        return lost.is_set()
    finally:
        # Not by the protocol: a server that is gone would let us wait for its answer.
        connection.terminate()
