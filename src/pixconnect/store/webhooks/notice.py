"""Notices: the bodies that the webhooks of keys are sent, each kept in the first of the deliveries that it covers.

The others point to that one. Their statuses, due dates and counts follow it, in the transaction that changes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

import asyncpg

from pixconnect.domain.frame.listing import Page, Span
from pixconnect.domain.webhooks.delivery import DeliveryStatus, KeyDelivery
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame import listing as listing_store
from pixconnect.store.frame.table import split_pairs
from pixconnect.store.webhooks.delivery_history import (
    ATTEMPTS_LISTED_MAX,
    ATTEMPTS_SHOWN_MAX,
    RESPONSE_LISTED_MAX,
    find_attempts,
    lists_of,
)

_LOCK_UNCOVERED: Final[LiteralString] = """
    select id, resource_id from delivery
    where id = any($1) and holder_id = $2 and status = 'pending' and covers is null and covered_by is null
    order by id for no key update
"""


async def lock_uncovered(connection: Connection, holder_id: int, delivery_ids: Sequence[int]) -> dict[int, int]:
    """Those of these deliveries that are pending and in no notice yet, each with the id of its transfer; held."""
    rows = await connection.fetch(_LOCK_UNCOVERED, delivery_ids, holder_id)
    return {row["id"]: row["resource_id"] for row in rows}


# By one statement: what a body covers and nobody has marked would be sent by itself too.
_KEEP: Final[LiteralString] = """
    with covered as (update delivery set covered_by = $1 where id = any($3) and holder_id = $2)
    update delivery set notice = $4, covers = $3 where id = $1 and holder_id = $2
"""


async def keep(connection: Connection, holder_id: int, delivery_id: int, covers: Sequence[int], body: str) -> None:
    """Keep what a delivery is sent with, and which others that covers; all of them are locked."""
    await connection.execute(_KEEP, delivery_id, holder_id, covers, body)


async def lock(connection: Connection, delivery_ids: Sequence[int]) -> None:
    """Hold deliveries in the order in which every process takes them."""
    await connection.execute("select from delivery where id = any($1) order by id for no key update", delivery_ids)


# What became of the body became of all that it tells.
_FOLLOW: Final[LiteralString] = """
    update delivery set status = first.status, due_at = first.due_at, attempts_count = first.attempts_count,
        failures_count = first.failures_count, modified_at = first.modified_at
    from delivery as first
    where delivery.id = any($1) and delivery.covered_by = first.id and first.id = any($2)
"""


async def follow(connection: Connection, delivery_ids: Sequence[int], covered_ids: Sequence[int]) -> None:
    """Make of covered deliveries what became of those that cover them; all of them are locked."""
    await connection.execute(_FOLLOW, covered_ids, delivery_ids)


_SHOWN: Final[LiteralString] = "id, holder_id, resource_id, status, due_at, attempts_count, covered_by, created_at"
_LISTS: Final = lists_of(_SHOWN)


async def read_page(pool: Pool, endpoint_id: int, status: DeliveryStatus | None, span: Span) -> Page[KeyDelivery]:
    """One page of the notices of a key's webhook, of one status or of all, and their number."""
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        page = await listing_store.read_page_in(connection, _LISTS[status], endpoint_id, None, span)
        return page.with_items(await _show(connection, page.items, ATTEMPTS_LISTED_MAX))


# By its id, and not among all of the endpoint's.
_FIND: Final[LiteralString] = f"select {_SHOWN} from delivery where endpoint_id + 0 = $1 and id = $2"


async def find(pool: Pool, endpoint_id: int, delivery_id: int) -> KeyDelivery | None:
    found = await _show(pool, await pool.fetch(_FIND, endpoint_id, delivery_id), ATTEMPTS_SHOWN_MAX)
    return found[0] if found else None


# Deliveries have no index by what they tell of: an endpoint's are read from an instant on.
_FIND_TOLD: Final[LiteralString] = """
    select distinct coalesce(delivery.covered_by, delivery.id) as id from delivery
    join event on event.id = delivery.event_id and event.holder_id = delivery.holder_id
    where delivery.endpoint_id in (select endpoint_id from key_webhook where holder_id = $1)
        and delivery.created_at >= $2 and delivery.resource_id = any($3) and event.name = any($4)
    order by 1
"""


async def find_told(
    pool: Pool, holder_id: int, since: datetime, transfer_ids: Sequence[int], event_types: Sequence[str]
) -> list[int]:
    """The bodies that told a holder's webhooks of such events of these Pix, by the deliveries that hold them."""
    rows = await pool.fetch(_FIND_TOLD, holder_id, since, transfer_ids, event_types)
    return [row["id"] for row in rows]


_FIND_NAMES: Final[LiteralString] = """
    select id, holder_id, end_to_end_id from unnest($1::bigint[], $2::bigint[]) as wanted (id, holder_id)
    join transfer using (id, holder_id)
"""


async def _show(connection: Connection | Pool, rows: Sequence[asyncpg.Record], attempts_max: int) -> list[KeyDelivery]:
    if not rows:
        return []
    counts = {row["covered_by"] or row["id"]: row["attempts_count"] for row in rows}
    attempts = await find_attempts(connection, counts, attempts_max, RESPONSE_LISTED_MAX)
    # A webhook is told of what comes to its holder, and to one that this has succeeded.
    transfers = split_pairs({(row["resource_id"], row["holder_id"]) for row in rows})
    names = {
        (row["id"], row["holder_id"]): row["end_to_end_id"] for row in await connection.fetch(_FIND_NAMES, *transfers)
    }
    return [
        KeyDelivery(
            id=row["id"],
            notice_id=row["covered_by"] or row["id"],
            end_to_end_id=names[row["resource_id"], row["holder_id"]],
            status=row["status"],
            due_at=row["due_at"],
            attempts=tuple(attempts[row["covered_by"] or row["id"]]),
            created_at=row["created_at"],
        )
        for row in rows
    ]
