"""Being one of several workers: which slots are mine, and for how long.

All workers share the slots evenly. Whoever has more than its part gives the rest back once nothing of it is under way; whoever
has less takes what is free. The slots of a worker that is gone are free at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from pixconnect.domain.event import SLOTS_COUNT
from pixconnect.foundation.pool import Connection
from pixconnect.store import lease as lease_store

LEASE_S = lease_store.LEASE.total_seconds()
"""A worker that has not been able to renew for this long has lost its slots."""


class LeaseLost(Exception):  # noqa: N818  it is what happens to a worker that was too slow
    """A slot belongs to another worker by now: nothing more may be written for it."""


class Standing(Struct, frozen=True, kw_only=True):
    """A worker among the others.

    Attributes:
        epochs: The slots that it holds, each with its epoch.
        workers_count: How many workers there are.
    """

    epochs: dict[int, int]
    workers_count: int

    @property
    def share_count(self) -> int:
        """How many slots a worker should hold."""
        return -(-SLOTS_COUNT // self.workers_count)


async def join(connection: Connection) -> int:
    """Become a worker, for as long as this connection lives; answers the worker's id."""
    return await lease_store.join(connection)


async def renew(
    connection: Connection, worker_id: int, given_back: Sequence[int], oldest_due_at: datetime | None
) -> Standing | None:
    """Go on being a worker: renew, clear away those that are gone, give back, take.

    Args:
        connection: The one that joined.
        worker_id: From ``join``.
        given_back: Slots in which nothing is under way.
        oldest_due_at: For the health check, real time.

    Returns:
        What it holds now; ``None`` when it came too late and must join again.
    """
    async with connection.transaction():
        if not await lease_store.renew(connection, worker_id, oldest_due_at):
            return None
        await lease_store.remove_gone(connection, worker_id)
        if given_back:
            await lease_store.release(connection, worker_id, given_back)
        held = await lease_store.read_held(connection, worker_id)
        standing = Standing(epochs=held, workers_count=await lease_store.count_workers(connection))
        missing_count = standing.share_count - len(held)
        if missing_count > 0:
            taken = await lease_store.take(connection, worker_id, missing_count)
            standing = Standing(epochs=held | taken, workers_count=standing.workers_count)
    return standing


async def leave(connection: Connection, worker_id: int) -> None:
    """Stop being a worker; its slots are free at once."""
    await lease_store.leave(connection, worker_id)


async def fence(connection: Connection, epochs: Mapping[int, int]) -> None:
    """Hold slots for what a transaction writes next; the first lock that it takes.

    Args:
        connection: In a transaction.
        epochs: The slots, each with the epoch under which its work was read.

    Raises:
        LeaseLost: One of them belongs to another worker by now.
    """
    held = await lease_store.fence(connection, epochs)
    if len(held) < len(epochs):
        raise LeaseLost("another worker has taken over")
