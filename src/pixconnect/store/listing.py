"""One page of a list with its exact total, at any length.

Whole hours are added up from ``tally``, those of events and deliveries from ``webhook_tally``; only the hours at the two edges
of the span are counted. The page is then looked for in the hours in which it begins and ends, so that a page far down the list
does not read what comes before it. Everything is read from one snapshot.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import LiteralString

import asyncpg
from msgspec import Struct

from pixconnect.domain.listing import Span
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.tally import Kind, hours_statement

_HOUR = timedelta(hours=1)
_EARLIEST = datetime.fromisoformat("0001-01-02T00:00:00+00:00")
_LATEST = datetime.fromisoformat("9999-12-30T23:00:00+00:00")


class Source(Struct, frozen=True, kw_only=True):
    """What is listed. ``of_status`` is empty where a text names its statuses itself, or has none.

    Attributes:
        hours: Whole hours with something in them, the newest first: ``$1`` whose, ``$2`` oldest and ``$3`` newest hour.
        page: ``$1`` whose, ``$2`` oldest and ``$3`` newest instant, ``$4`` offset, ``$5`` limit.
        count: ``$1`` to ``$3`` as above.
        hours_of_status: With ``$4`` status.
        page_of_status: With ``$6`` status.
        count_of_status: With ``$4`` status.
    """

    hours: LiteralString
    page: LiteralString
    count: LiteralString
    hours_of_status: LiteralString = ""
    page_of_status: LiteralString = ""
    count_of_status: LiteralString = ""


def source(kind: Kind, columns: LiteralString) -> Source:
    """The list of a table that is named like its kind."""
    # "holder_id + 0" is what the indexes of lists begin with, and nothing else does.
    where: LiteralString = f"from {kind} where holder_id = $1 and holder_id + 0 = $1 and created_at between $2 and $3"
    order: LiteralString = "order by created_at desc, id desc offset $4 limit $5"
    noted: LiteralString = f"where holder_id = $1 and kind = '{kind}' and hour between $2 and $3"
    return Source(
        hours=hours_statement("tally", noted),
        hours_of_status=hours_statement("tally", f"{noted} and status = $4"),
        page=f"select {columns} {where} {order}",
        page_of_status=f"select {columns} {where} and status = $6 {order}",
        count=f"select count(*) {where}",
        count_of_status=f"select count(*) {where} and status = $4",
    )


async def read_page(
    pool: Pool, source: Source, owner_id: int, status: str | None, span: Span
) -> tuple[list[asyncpg.Record], int]:
    """Read one page; as ``read_page_in``."""
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        return await read_page_in(connection, source, owner_id, status, span)


async def read_page_in(
    connection: Connection, source: Source, owner_id: int, status: str | None, span: Span
) -> tuple[list[asyncpg.Record], int]:
    """Read one page.

    Args:
        connection: In a transaction that sees one snapshot.
        source: What is listed.
        owner_id: Whose: a holder's, or of deliveries an endpoint's.
        status: In this one; ``None`` is any.
        span: Which page of which time.

    Returns:
        The rows, newest first, and how many there are in all.
    """
    oldest, newest = span.initial_at or _EARLIEST, span.final_at or _LATEST
    if oldest > newest:
        return [], 0
    read_hours, page, count_rows, of_status = source.hours, source.page, source.count, ()
    if status is not None:
        read_hours, page, count_rows = source.hours_of_status, source.page_of_status, source.count_of_status
        of_status = (status,)
    hours = await connection.fetch(read_hours, owner_id, _hour_of(max(oldest, _EARLIEST)), _hour_of(newest), *of_status)
    total_count, page_start = 0, (span.page - 1) * span.page_size
    newest_of_page, oldest_of_page, skipped_count = newest, oldest, 0
    for row in hours:
        first, last = max(oldest, row["hour"]), min(newest, row["hour"] + _HOUR - timedelta(microseconds=1))
        count: int = row["count"]
        if last - first < _HOUR - timedelta(microseconds=1):
            count = await connection.fetchval(count_rows, owner_id, first, last, *of_status)
        if total_count <= page_start:
            newest_of_page, skipped_count = last, total_count
        if total_count < page_start + span.page_size:
            oldest_of_page = first
        total_count += count
    if page_start >= total_count:
        return [], total_count
    rows = await connection.fetch(
        page, owner_id, oldest_of_page, newest_of_page, page_start - skipped_count, span.page_size, *of_status
    )
    return rows, total_count


def _hour_of(instant: datetime) -> datetime:
    return instant.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
