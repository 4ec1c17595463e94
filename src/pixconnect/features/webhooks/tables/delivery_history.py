"""Deliveries for their owner: lists, attempts, and an endpoint's pending ones.

Notices are the bodies sent to the webhooks of keys, each stored in the first of the deliveries that it covers. The others
reference that one. Their statuses, due dates and counts follow it, in the transaction that changes it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, LiteralString

import asyncpg
from msgspec import structs

from pixconnect.features.webhooks.rules import endpoint
from pixconnect.features.webhooks.rules.delivery import RESPONSE_KEPT_MAX, Attempt, Delivery, DeliveryStatus, KeyDelivery
from pixconnect.features.webhooks.tables.delivery import ATTEMPT
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.tables import listing as listing_store
from pixconnect.kernel.tables.listing import AFTER, AFTER_ORDER, Source
from pixconnect.kernel.tables.lookup import OF_VIEWER, Column, Command, Pairs, Value
from pixconnect.kernel.tables.table import Table, split_pairs
from pixconnect.kernel.tables.tally import webhook_hours_statement
from pixconnect.platform.pool import Connection, Pool

ATTEMPTS_SHOWN_MAX: Final = 100  # newest attempts of one delivery: redeliveries continue the count, so it has no maximum
ATTEMPTS_LISTED_MAX: Final = 15  # newest attempts of each delivery of a list: a whole schedule
RESPONSE_LISTED_MAX: Final = 64
"""Characters of the answers to all but the newest attempt of a list, so that a page of any length stays small."""


def _not_read_yet(_: int) -> tuple[Attempt, ...]:
    return ()


DELIVERY: Final = Table(
    "delivery",
    Delivery,
    """
    id bigint, holder_id bigint, endpoint_id bigint, event_id bigint, status text, due_at timestamptz,
    attempts_count integer, created_at timestamptz
    """,
    # The count determines which are read afterwards.
    read={"attempts": (_not_read_yet, "attempts_count")},
)
_UNCUT: Final = ATTEMPT.without("response")

_FIND_ATTEMPTS: Final[LiteralString] = f"""
    select delivery_id, {_UNCUT.names},
        case when number >= attempts_count then response else left(response, $4) end as response
    from unnest($1::bigint[], $2::integer[]) as wanted (id, attempts_count)
    join delivery_attempt on delivery_id = wanted.id and number > attempts_count - $3
    order by delivery_id, number
"""


async def find_attempts(
    connection: Connection | Pool, counts: Mapping[int, int], attempts_max: int, response_max: int
) -> dict[int, list[Attempt]]:
    """Find the newest attempts of deliveries, oldest first, by delivery; given each one's count."""
    attempts: dict[int, list[Attempt]] = {delivery_id: [] for delivery_id in counts}
    wanted = list(counts), list(counts.values())
    for row in await connection.fetch(_FIND_ATTEMPTS, *wanted, attempts_max, response_max):
        attempts[row["delivery_id"]].append(ATTEMPT.read(row))
    return attempts


async def _with_attempts(
    connection: Connection | Pool, rows: Sequence[asyncpg.Record], attempts_max: int, response_max: int
) -> list[Delivery]:
    counts = {row["id"]: row["attempts_count"] for row in rows}
    attempts = await find_attempts(connection, counts, attempts_max, response_max)
    return [structs.replace(DELIVERY.read(row), attempts=tuple(attempts[row["id"]])) for row in rows]


# Webhooks of keys have operations of their own.
_FIND: Final[LiteralString] = f"""
    select {DELIVERY.select} from delivery where {OF_VIEWER} and resource <> '{endpoint.KEY_WEBHOOK_RESOURCE}'
"""


async def find(connection: Connection | Pool, holder_id: int, delivery_id: int) -> Delivery | None:
    """Find one of a holder's or its family's."""
    found = await read_whole(connection, await connection.fetch(_FIND, delivery_id, holder_id))
    return found[0] if found else None


async def read_whole(connection: Connection | Pool, rows: Sequence[asyncpg.Record]) -> list[Delivery]:
    """Read deliveries from their rows, with their newest attempts and complete answers."""
    return await _with_attempts(connection, rows, ATTEMPTS_SHOWN_MAX, RESPONSE_KEPT_MAX)


async def read_listed(connection: Connection | Pool, rows: Sequence[asyncpg.Record]) -> list[Delivery]:
    """Read deliveries for lists: with fewer attempts, and their answers cut."""
    return await _with_attempts(connection, rows, ATTEMPTS_LISTED_MAX, RESPONSE_LISTED_MAX)


def lists_of(columns: LiteralString) -> dict[DeliveryStatus | None, Source]:
    statuses: tuple[DeliveryStatus | None, ...] = (None, "pending", "delivered", "failed")
    lists: dict[DeliveryStatus | None, Source] = {}
    for status in statuses:
        # The status is part of the text: PostgreSQL cannot use an index of failed deliveries for a parameter.
        in_status: LiteralString = "" if status is None else f"and status = '{status}'"
        owned: LiteralString = f"from delivery where endpoint_id = $1 {in_status}"
        where: LiteralString = f"{owned} and created_at between $2 and $3"
        lists[status] = Source(
            hours=webhook_hours_statement("delivery", status or "made"),
            page=f"select {columns} {where} order by created_at desc, id desc offset $4 limit $5",
            page_after=f"select {columns} {owned} and {AFTER} {AFTER_ORDER}",
            count=f"select count(*) {where}",
            is_sparse=status is not None,
        )
    return lists


_LISTS: Final = lists_of(DELIVERY.select)


async def read_page(pool: Pool, endpoint_id: int, status: DeliveryStatus | None, span: Span) -> Page[Delivery]:
    # Attempts are read from the same snapshot as the page.
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        page = await listing_store.read_page_in(connection, _LISTS[status], endpoint_id, None, span)
        return page.with_items(await read_listed(connection, page.items))


# The batch is chosen in the order of the index and locked in order of id, as every process locks deliveries. Deliveries made
# or attempted since the resumption keep their due date.
_RESUME: Final[LiteralString] = """
    with chosen as (
        select id, holder_id, resource_id, event_id from delivery
        where endpoint_id = $1 and status = 'pending' and (resource_id, event_id, id) > ($4, $5, $6)
            and not (due_at >= $2 and modified_at between $2 and $3)
        order by resource_id, event_id, id limit $7
    ),
    locked as (
        select delivery.id, delivery.holder_id from delivery join chosen using (id, holder_id)
        where delivery.status = 'pending' order by delivery.id for no key update of delivery
    ),
    dated as (
        update delivery set due_at = $3, failures_count = 0, modified_at = $3 from locked
        where delivery.id = locked.id and delivery.holder_id = locked.holder_id
    )
    select resource_id, event_id, id from chosen order by resource_id, event_id, id offset $7::integer - 1
"""

BacklogCursor = tuple[int, int, int]
"""The position in an endpoint's pending deliveries: the ids of a resource, an event and a delivery."""


async def resume(
    connection: Connection | Pool, endpoint_id: int, resumed_at: datetime, now: datetime, after: BacklogCursor, count_max: int
) -> BacklogCursor | None:
    """Start a new schedule, now, for some of an endpoint's pending deliveries; return where to continue, if at all."""
    row = await connection.fetchrow(_RESUME, endpoint_id, resumed_at, now, *after, count_max)
    return None if row is None else (row["resource_id"], row["event_id"], row["id"])


count_pending: Final = Value[int, int, datetime | None, int]("""
    select count(*) from (
        select from delivery where endpoint_id = $1 and status = 'pending' and (due_at <= $2 or $2 is null) limit $3
    ) as pending
""")
"""Count an endpoint's pending deliveries, due by an instant or all, up to ``count_max``."""

lock_uncovered: Final = Pairs[int, int, int, Sequence[int]]("""
    select id, resource_id from delivery
    where holder_id = $1 and id = any($2) and status = 'pending' and covers is null and covered_by is null
    order by id for no key update
""")
"""Lock those of these deliveries that are pending and in no notice yet, each with the id of its transfer."""

# In one statement: a covered delivery that is not marked would also be sent by itself.
keep_notice: Final = Command[int, int, Sequence[int], str]("""
    with covered as (update delivery set covered_by = $2 where id = any($3) and holder_id = $1)
    update delivery set notice = $4, covers = $3 where id = $2 and holder_id = $1
""")
"""Store a holder's delivery's body, and the other deliveries that it covers; all of them are locked."""

lock_deliveries: Final = Command[Sequence[int]]("select from delivery where id = any($1) order by id for no key update")
"""Lock deliveries in the order that every process uses."""

# The body's result applies to all deliveries in it.
follow_notice: Final = Command[Sequence[int], Sequence[int]]("""
    update delivery set status = first.status, due_at = first.due_at, attempts_count = first.attempts_count,
        failures_count = first.failures_count, modified_at = first.modified_at
    from delivery as first
    where delivery.id = any($2) and delivery.covered_by = first.id and first.id = any($1)
""")
"""Copy the result of notices to the deliveries that they cover; all of them are locked."""

_SHOWN: Final[LiteralString] = "id, holder_id, resource_id, status, due_at, attempts_count, covered_by, created_at"
_LISTS_OF_NOTICES: Final = lists_of(_SHOWN)


async def read_notices(pool: Pool, endpoint_id: int, status: DeliveryStatus | None, span: Span) -> Page[KeyDelivery]:
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        page = await listing_store.read_page_in(connection, _LISTS_OF_NOTICES[status], endpoint_id, None, span)
        return page.with_items(await _show(connection, page.items, ATTEMPTS_LISTED_MAX))


# By its id, and not among all of the endpoint's.
_FIND_NOTICE: Final[LiteralString] = f"select {_SHOWN} from delivery where endpoint_id + 0 = $1 and id = $2"


async def find_notice(pool: Pool, endpoint_id: int, delivery_id: int) -> KeyDelivery | None:
    found = await _show(pool, await pool.fetch(_FIND_NOTICE, endpoint_id, delivery_id), ATTEMPTS_SHOWN_MAX)
    return found[0] if found else None


# Deliveries have no index by resource: an endpoint's are read from an instant on.
find_notices: Final = Column[int, int, datetime, Sequence[int], Sequence[str]]("""
    select distinct coalesce(delivery.covered_by, delivery.id) as id from delivery
    join event on event.id = delivery.event_id and event.holder_id = delivery.holder_id
    where delivery.endpoint_id in (select endpoint_id from key_webhook where holder_id = $1)
        and delivery.created_at >= $2 and delivery.resource_id = any($3) and event.name = any($4)
    order by 1
""")
"""Find the deliveries whose bodies had such events of these Pix, to a holder's webhooks."""

_FIND_NAMES: Final[LiteralString] = """
    select id, holder_id, end_to_end_id from unnest($1::bigint[], $2::bigint[]) as wanted (id, holder_id)
    join transfer using (id, holder_id)
"""


async def _show(connection: Connection | Pool, rows: Sequence[asyncpg.Record], attempts_max: int) -> list[KeyDelivery]:
    if not rows:
        return []
    counts = {row["covered_by"] or row["id"]: row["attempts_count"] for row in rows}
    attempts = await find_attempts(connection, counts, attempts_max, RESPONSE_LISTED_MAX)
    # A webhook receives its holder's credits, and those of the holder's predecessors.
    transfers = split_pairs({(row["resource_id"], row["holder_id"]) for row in rows})
    names = {(row["id"], row["holder_id"]): row["end_to_end_id"] for row in await connection.fetch(_FIND_NAMES, *transfers)}
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
