"""One page of a list with its exact total, at any length.

Whole hours are added up from ``tally``; only the hours at the two edges of the span are counted. The page is then looked for in
the hour in which it begins, so that a page far down the list does not read what comes before it. Everything is read from one
snapshot.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, LiteralString

import asyncpg
from msgspec import Struct

from pixconnect.domain.listing import Span
from pixconnect.store.tally import Kind

if TYPE_CHECKING:
    from pixconnect.foundation.pool import Pool

_HOUR = timedelta(hours=1)
_EARLIEST = datetime.fromisoformat("0001-01-02T00:00:00+00:00")
_LATEST = datetime.fromisoformat("9999-12-30T23:00:00+00:00")

_READ_HOURS: Final[LiteralString] = """
    select hour, sum(count)::bigint as count from (
        select hour, count from tally
        where holder_id = $1 and kind = $2 and status = any($3) and hour between $4 and $5
        union all
        select hour, change from tally_change
        where holder_id = $1 and kind = $2 and status = any($3) and hour between $4 and $5
    ) as noted
    group by hour having sum(count) <> 0 order by hour desc
"""


class Source(Struct, frozen=True, kw_only=True):
    """What is listed.

    Attributes:
        kind: As ``tally`` knows it.
        page: ``$1`` holder, ``$2`` statuses, ``$3`` oldest and ``$4`` newest instant, ``$5`` offset, ``$6`` limit.
        count: ``$1`` to ``$4`` as above.
    """

    kind: Kind
    page: LiteralString
    count: LiteralString


def source(kind: Kind, columns: LiteralString) -> Source:
    """The list of a table that is named like its kind."""
    where: LiteralString = f"from {kind} where holder_id = $1 and status = any($2) and created_at between $3 and $4"
    return Source(
        kind=kind,
        page=f"select {columns} {where} order by created_at desc, id desc offset $5 limit $6",
        count=f"select count(*) {where}",
    )


async def read_page(
    pool: "Pool", source: Source, holder_id: int, statuses: Sequence[str], span: Span
) -> tuple[list[asyncpg.Record], int]:
    """Read one page.

    Args:
        pool: Connections.
        source: What is listed.
        holder_id: Whose.
        statuses: In one of these.
        span: Which page of which time.

    Returns:
        The rows, newest first, and how many there are in all.
    """
    oldest, newest = span.initial_at or _EARLIEST, span.final_at or _LATEST
    if oldest > newest:
        return [], 0
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        hours = await connection.fetch(
            _READ_HOURS, holder_id, source.kind, statuses, _hour_of(max(oldest, _EARLIEST)), _hour_of(newest)
        )
        total_count = 0
        page_start = (span.page - 1) * span.page_size
        newest_of_page, skipped_count = newest, 0
        for row in hours:
            first, last = max(oldest, row["hour"]), min(newest, row["hour"] + _HOUR - timedelta(microseconds=1))
            count: int = row["count"]
            if last - first < _HOUR - timedelta(microseconds=1):
                count = await connection.fetchval(source.count, holder_id, statuses, first, last)
            if total_count <= page_start:
                newest_of_page, skipped_count = last, total_count
            total_count += count
        if page_start >= total_count:
            return [], total_count
        rows = await connection.fetch(
            source.page, holder_id, statuses, oldest, newest_of_page, page_start - skipped_count, span.page_size
        )
        return rows, total_count


def _hour_of(instant: datetime) -> datetime:
    return instant.replace(minute=0, second=0, microsecond=0)
