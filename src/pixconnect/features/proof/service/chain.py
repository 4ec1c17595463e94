"""Chains entries and the audit by hash, after they were committed; shows chains and logs their heads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

import msgspec
import structlog

from pixconnect.doors.worker.chore import Chore
from pixconnect.features.proof.rules.chain import HEADS_TOLD, ChainedEntry, ChainHead
from pixconnect.features.proof.tables import chain as chain_store
from pixconnect.kernel.flows.context import Context
from pixconnect.platform.base import errors
from pixconnect.platform.flow.shares import on_behalf_of_all
from pixconnect.platform.pool import Connection

CHAINED_MAX: Final = 5_000
"""Entries that are chained in one transaction."""
AUDIT_CHAINED_MAX: Final = 1_000
"""The same for rows of the audit: each is a separate link."""
REST_TIMES: Final = 2
"""Rows from before an upgrade are chained with pauses of this many times a batch's duration."""
REST: Final = timedelta(minutes=1)
"""Rows are chained this long after they are visible for good: longer than any batch waits that has taken its ids already."""

_log = structlog.get_logger(__name__)


async def chain_entries(context: Context, chained_max: int = CHAINED_MAX, rest: timedelta = REST) -> int:
    """Chain entries of all holders, the oldest first; returns how many there were."""
    # It is no party's own work, so it takes its turn beside all holders.
    with on_behalf_of_all():
        return await chain_store.chain_entries(context.pool, chained_max, rest)


async def chain_audit(context: Context, chained_max: int = AUDIT_CHAINED_MAX) -> int:
    """Chain rows of the audit, the oldest first; returns how many there were."""
    with on_behalf_of_all():
        return await chain_store.chain_audit(context.pool, chained_max)


async def list_heads(connection: Connection) -> list[ChainHead]:
    """The last head of each chain, to be stored out of reach of everyone who writes the database."""
    return await chain_store.list_heads(connection) + await chain_store.list_named_heads(connection)


async def log_heads(context: Context) -> None:
    """Write into the log what all chains have come to, in one line: where logs go, the database's owner cannot reach."""
    with on_behalf_of_all():
        async with context.pool.acquire() as connection:
            heads = await chain_store.list_named_heads(connection)
    _log.info(HEADS_TOLD, heads=[msgspec.to_builtins(head) for head in heads])


async def show_entry(connection: Connection, entry_id: int, holder_id: int) -> ChainedEntry:
    """An entry with all inputs of its link in the chain, so that anyone can compute it.

    Raises:
        NotFound: The holder's chain has no such entry, or not yet.
    """
    found = await chain_store.find_chained(connection, entry_id, holder_id)
    if found is None:
        raise errors.NotFound(f"entry: the chain of holder {holder_id} has no entry {entry_id}, or not yet")
    return found


async def _chain(context: Context, chain: Callable[[Context], Awaitable[int]], count_max: int) -> float | None:
    began_s = context.clock.monotonic_s()
    # A full batch means that there are more, as after an upgrade: what callers want goes on between them.
    if await chain(context) < count_max:
        return None
    return REST_TIMES * (context.clock.monotonic_s() - began_s)


async def _tell_heads(context: Context) -> None:
    # A sandbox's history proves nothing to others, and its terminal is for people.
    if context.sandbox_control is None:
        await log_heads(context)


CHORES: Final = (
    Chore(name="chain", run=lambda context: _chain(context, chain_entries, CHAINED_MAX), every_s=20.0),
    Chore(name="audit", run=lambda context: _chain(context, chain_audit, AUDIT_CHAINED_MAX), every_s=20.0),
    # Also when a worker starts: one that is started each night would never log them otherwise.
    Chore(name="heads", run=_tell_heads, every_s=86_400.0),
)
