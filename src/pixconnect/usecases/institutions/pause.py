"""Pauses every account at once: what keeps one of them from it keeps no other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from pixconnect.domain.frame import errors
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.store.institutions import account as account_store
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.usecases.institutions.account import set_state

# Few: each takes a connection of its own, and no account should wait long for its turn.
_AT_ONCE: Final = 4


class PausedAccounts(Struct, frozen=True, kw_only=True):
    names: Sequence[str]
    failed: Sequence[str]
    """Of which nobody knows that nothing leaves them any more, each with the reason."""


async def pause_all(context: OperatorContext) -> PausedAccounts:
    """Let no money leave any account any more; those that are closed for good are left as they are."""
    # Given back before the turns begin, which take their own connections.
    async with context.pool.acquire() as connection:
        found = [one.name for one in await account_store.list_all(connection) if one.state != "closed"]
    turns = asyncio.Semaphore(_AT_ONCE)

    async def pause(name: str) -> str | None:
        async with turns:
            try:
                await set_state(context, name, "paused")
            except (*DATABASE_FAILED, errors.PixConnectError) as error:
                # One that was closed or removed meanwhile is told of too: whoever stops all looks at each.
                return f"{name} ({error or type(error).__name__})"
        return None

    failures = await asyncio.gather(*map(pause, found))
    return PausedAccounts(
        names=[name for name, failure in zip(found, failures, strict=True) if failure is None],
        failed=[failure for failure in failures if failure is not None],
    )
