"""Notices: the bodies that the webhooks of keys are sent, each kept in the first of the deliveries that it covers.

The others point to that one. Their statuses, due dates and counts follow it, in the transaction that changes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, LiteralString

from pixconnect.foundation.pool import Connection

_LOCK_UNCOVERED: Final[LiteralString] = """
    select id, resource_id from delivery
    where id = any($1) and holder_id = $2 and status = 'pending' and covers is null and covered_by is null
    order by id for no key update
"""


async def lock_uncovered(connection: Connection, holder_id: int, delivery_ids: Sequence[int]) -> dict[int, int]:
    """Those of these deliveries that are pending and in no notice yet, each with the id of its transfer; held."""
    rows = await connection.fetch(_LOCK_UNCOVERED, delivery_ids, holder_id)
    return {row["id"]: row["resource_id"] for row in rows}


_KEEP: Final[LiteralString] = """
    with covered as (update delivery set covered_by = $1 where id = any($3) and holder_id = $2)
    update delivery set notice = $4, covers = $3 where id = $1 and holder_id = $2
"""


async def keep(connection: Connection, holder_id: int, delivery_id: int, covers: Sequence[int], body: str) -> None:
    """Keep what a delivery is sent with, and which others that covers; all of them are locked."""
    await connection.execute(_KEEP, delivery_id, holder_id, covers, body)


_LOCK: Final[LiteralString] = "select from delivery where id = any($1) order by id for no key update"


async def lock(connection: Connection, delivery_ids: Sequence[int]) -> None:
    """Hold deliveries in the order in which every process takes them."""
    await connection.execute(_LOCK, delivery_ids)


_FOLLOW: Final[LiteralString] = """
    update delivery set status = first.status, due_at = first.due_at, attempts_count = first.attempts_count,
        failures_count = first.failures_count, modified_at = first.modified_at
    from delivery as first
    where delivery.id = any($1) and delivery.covered_by = first.id and first.id = any($2)
"""


async def follow(connection: Connection, delivery_ids: Sequence[int], covered_ids: Sequence[int]) -> None:
    """Make of covered deliveries what became of those that cover them; all of them are locked."""
    await connection.execute(_FOLLOW, covered_ids, delivery_ids)


_FIND_NOTICE: Final[LiteralString] = """
    select first.id, first.covers from delivery join delivery as first
        on first.id = coalesce(delivery.covered_by, delivery.id) and first.holder_id = delivery.holder_id
    where delivery.id = $1 and delivery.holder_id = $2
"""


async def find(connection: Connection, holder_id: int, delivery_id: int) -> tuple[int, list[int]] | None:
    """The delivery in which a delivery's body is kept, or will be, and the ids of the others that this covers."""
    row = await connection.fetchrow(_FIND_NOTICE, delivery_id, holder_id)
    return None if row is None else (row["id"], row["covers"] or [])
