"""One page of a list with its exact total, at any length.

Whole hours are added up from ``tally``; only the hours at the two edges of the span are counted. The page is then looked for in
the hour in which it begins, so that a page far down the list does not read what comes before it. Everything is read from one
snapshot.
"""

from datetime import UTC, datetime, timedelta
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
        where holder_id = $1 and kind = $2 and ($3::text is null or status = $3) and hour between $4 and $5
        union all
        select hour, change from tally_change
        where holder_id = $1 and kind = $2 and ($3::text is null or status = $3) and hour between $4 and $5
    ) as noted
    group by hour having sum(count) <> 0 order by hour desc
"""


class Source(Struct, frozen=True, kw_only=True):
    """What is listed.

    Attributes:
        kind: As ``tally`` knows it.
        page: ``$1`` holder, ``$2`` oldest and ``$3`` newest instant, ``$4`` offset, ``$5`` limit.
        page_of_status: With ``$6`` status.
        count: ``$1`` to ``$3`` as above.
        count_of_status: With ``$4`` status.
    """

    kind: Kind
    page: LiteralString
    page_of_status: LiteralString
    count: LiteralString
    count_of_status: LiteralString


def source(kind: Kind, columns: LiteralString) -> Source:
    """The list of a table that is named like its kind."""
    # "holder_id + 0" is what the indexes of lists begin with, and nothing else does.
    where: LiteralString = f"from {kind} where holder_id = $1 and holder_id + 0 = $1 and created_at between $2 and $3"
    order: LiteralString = "order by created_at desc, id desc offset $4 limit $5"
    return Source(
        kind=kind,
        page=f"select {columns} {where} {order}",
        page_of_status=f"select {columns} {where} and status = $6 {order}",
        count=f"select count(*) {where}",
        count_of_status=f"select count(*) {where} and status = $4",
    )


async def read_page(
    pool: "Pool", source: Source, holder_id: int, status: str | None, span: Span
) -> tuple[list[asyncpg.Record], int]:
    """Read one page.

    Args:
        pool: Connections.
        source: What is listed.
        holder_id: Whose.
        status: In this one; ``None`` is any.
        span: Which page of which time.

    Returns:
        The rows, newest first, and how many there are in all.
    """
    oldest, newest = span.initial_at or _EARLIEST, span.final_at or _LATEST
    page, count_rows, of_status = source.page, source.count, ()
    if status is not None:
        page, count_rows, of_status = source.page_of_status, source.count_of_status, (status,)
    if oldest > newest:
        return [], 0
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        hours = await connection.fetch(
            _READ_HOURS, holder_id, source.kind, status, _hour_of(max(oldest, _EARLIEST)), _hour_of(newest)
        )
        total_count = 0
        page_start = (span.page - 1) * span.page_size
        newest_of_page, skipped_count = newest, 0
        for row in hours:
            first, last = max(oldest, row["hour"]), min(newest, row["hour"] + _HOUR - timedelta(microseconds=1))
            count: int = row["count"]
            if last - first < _HOUR - timedelta(microseconds=1):
                count = await connection.fetchval(count_rows, holder_id, first, last, *of_status)
            if total_count <= page_start:
                newest_of_page, skipped_count = last, total_count
            total_count += count
        if page_start >= total_count:
            return [], total_count
        rows = await connection.fetch(
            page, holder_id, oldest, newest_of_page, page_start - skipped_count, span.page_size, *of_status
        )
        return rows, total_count


def _hour_of(instant: datetime) -> datetime:
    return instant.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
