"""Keeps two processes from tidying at once."""

from __future__ import annotations

from typing import Final, LiteralString

from pixconnect.foundation.pool import Connection

LOCK_KEY: Final = 0x7069_7868  # "pixh"

_TRY_LOCK: Final[LiteralString] = "select pg_try_advisory_xact_lock($1)"


async def try_lock(connection: Connection) -> bool:
    """Whether this transaction is the one that tidies."""
    return await connection.fetchval(_TRY_LOCK, LOCK_KEY)
