"""One page of a list with its exact total, at any length.

Whole hours are added up from ``tally``, those of events and deliveries from ``webhook_tally``; only the hours at both ends of
the span are counted. The page is then searched in the hours in which it begins and ends, so that a page far down the list does
not read everything before it. All reads use one snapshot. The first page needs only the hours' sum.

A page by cursor costs the same at any depth: it begins in the index, right after the last item seen, and its total comes from
the cursor.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, LiteralString

import asyncpg
from msgspec import Struct

from pixconnect.kernel.rules.listing import Cursor, Page, Span
from pixconnect.kernel.tables.tally import Kind, hours_statement, sum_statement
from pixconnect.platform.pool import Connection, Pool

_HOUR = timedelta(hours=1)
_EARLIEST = datetime.fromisoformat("0001-01-02T00:00:00+00:00")
_LATEST = datetime.fromisoformat("9999-12-30T23:00:00+00:00")
_MICROSECOND = timedelta(microseconds=1)
_ID_MAX = 2**63 - 1


AFTER: Final[LiteralString] = "created_at >= $2 and (created_at, id) < ($3, $4)"
"""For ``Source.page_after``. No instant bounds it from above: the row comparison alone determines the start in the index."""
AFTER_ORDER: Final[LiteralString] = "order by created_at desc, id desc limit $5"


class Source(Struct, frozen=True, kw_only=True):
    """The statements of one list; a list by status takes one or several statuses as its last argument."""

    hours: LiteralString  # non-empty whole hours, newest first: ``$1`` owner, ``$2`` oldest and ``$3`` newest hour
    page: LiteralString  # ``$1`` owner, ``$2`` oldest and ``$3`` newest instant, ``$4`` offset, ``$5`` limit
    # ``$1`` owner, ``$2`` oldest instant, ``$3`` and ``$4`` instant and id of the item before, ``$5`` limit.
    page_after: LiteralString
    count: LiteralString
    total: LiteralString = ""  # from ``total_statement``, if the first page's statement uses the index for any span
    of_status: "Source | None" = None  # the same in one status, if its statements differ
    is_sparse: bool = False  # whether the index also leads to unwanted rows; the hours then bound the search


def source(kind: Kind, columns: LiteralString) -> Source:
    """Make the list of a table that is named like its kind, of all statuses or of one."""
    # Only indexes of lists begin with "holder_id + 0".
    owned: LiteralString = f"from {kind} where holder_id = $1 and holder_id + 0 = $1"
    where: LiteralString = f"{owned} and created_at between $2 and $3"
    order: LiteralString = "order by created_at desc, id desc offset $4 limit $5"
    after: LiteralString = f"select {columns} {owned} and {AFTER}"
    noted: LiteralString = f"where holder_id = $1 and kind = '{kind}' and hour between $2 and $3"
    return Source(
        hours=hours_statement("tally", noted),
        page=f"select {columns} {where} {order}",
        page_after=f"{after} {AFTER_ORDER}",
        count=f"select count(*) {where}",
        of_status=Source(
            hours=hours_statement("tally", f"{noted} and status = $4"),
            page=f"select {columns} {where} and status = $6 {order}",
            page_after=f"{after} and status = $6 {AFTER_ORDER}",
            count=f"select count(*) {where} and status = $4",
        ),
    )


NEWEST_FIRST: Final[LiteralString] = "order by created_at desc, id desc"


def merge_statuses(
    kind: Kind,
    columns: LiteralString,
    where: LiteralString,
    *,
    statuses: LiteralString = "$6",
    skipped: LiteralString = "0",
    count: LiteralString = "$5",
) -> LiteralString:
    """Reads status by status, each from its own place in the index, and merges them after an offset."""
    # ``lateral`` with a limit forces PostgreSQL to use the index: it reads only the page.
    return f"""
        select found.* from unnest({statuses}::text[]) as wanted (status)
        cross join lateral (
            select {columns} from {kind} where holder_id = $1 and holder_id + 0 = $1 and status = wanted.status and {where}
            {NEWEST_FIRST} limit {skipped}::bigint + {count}::bigint
        ) as found
        {NEWEST_FIRST} offset {skipped}::bigint limit {count}::bigint
    """


def count_statuses(kind: Kind, where: LiteralString, *, statuses: LiteralString = "$4") -> LiteralString:
    """Counts status by status too: for several at once, PostgreSQL 16 reads the whole index of the holder."""
    return f"""
        select coalesce(sum(found.count), 0)::bigint from unnest({statuses}::text[]) as wanted (status)
        cross join lateral (
            select count(*) from {kind} where holder_id = $1 and holder_id + 0 = $1 and status = wanted.status and {where}
        ) as found
    """


def total_statement(
    hours: LiteralString, count: LiteralString, *, counted_from: LiteralString = "$5 + interval '1 hour'"
) -> LiteralString:
    """Make the total of ``$1``'s span from ``$2`` to ``$3``; ``$4`` and ``$5`` are its first and last whole hour.

    Args:
        hours: Sums whole hours.
        count: Counts rows between ``edge.oldest`` and ``edge.newest``.
        counted_from: No hours exist from here on.
    """
    return f"""
        select (({hours}) + (
            select sum(found.count) from (values
                ($2::timestamptz, least($3::timestamptz, $4::timestamptz - interval '1 microsecond')),
                (greatest($4::timestamptz, {counted_from}), $3::timestamptz)
            ) as edge (oldest, newest)
            cross join lateral ({count}) as found (count)
        ))::bigint
    """


_BETWEEN: Final[LiteralString] = "created_at between $2 and $3"
_EDGE: Final[LiteralString] = "created_at between edge.oldest and edge.newest"


class ListedRows(Struct, frozen=True, kw_only=True):
    """The rows of a table in a list: each condition, and those of another kind of tally that its count omits."""

    where: LiteralString = "true"
    kind: Kind | None = None  # the tally's kind, if it is not the table's name
    without: Kind | None = None
    left_out: LiteralString = "false"  # the rows excluded from the list but counted in the totals


_ALL: Final = ListedRows()


def source_of_statuses(kind: Kind, columns: LiteralString, wanted: ListedRows = _ALL) -> Source:
    """Make the list for queries by several statuses."""
    tallied: LiteralString = wanted.kind or kind
    kinds: LiteralString = f"'{tallied}'" if wanted.without is None else f"'{tallied}', '{wanted.without}'"
    sign: LiteralString = "1" if wanted.without is None else f"case kind when '{wanted.without}' then -1 else 1 end"
    noted: LiteralString = f"where holder_id = $1 and kind in ({kinds}) and hour between $2 and $3"
    summed: LiteralString = f"where holder_id = $1 and kind in ({kinds}) and hour between $4 and $5"
    return Source(
        hours=hours_statement("tally", f"{noted} and status = any($4::text[])", sign),
        page=merge_statuses(kind, columns, f"{_BETWEEN} and {wanted.where}", skipped="$4"),
        page_after=merge_statuses(kind, columns, f"{AFTER} and {wanted.where}"),
        count=_count_wanted(kind, _BETWEEN, wanted, "$4"),
        total=total_statement(
            sum_statement("tally", f"{summed} and status = any($6::text[])", sign), _count_wanted(kind, _EDGE, wanted, "$6")
        ),
    )


def _count_wanted(kind: Kind, where: LiteralString, wanted: ListedRows, statuses: LiteralString) -> LiteralString:
    if wanted.without is None:
        return count_statuses(kind, f"{where} and {wanted.where}", statuses=statuses)
    # Both are counted in an index alone; their difference needs the rows.
    of_all = count_statuses(kind, where, statuses=statuses)
    return f"select ({of_all}) - ({count_statuses(kind, f'{where} and {wanted.left_out}', statuses=statuses)})"


Statuses = str | Sequence[str]  # one status, or several for a source whose statements take them


async def read_page(pool: Pool, source: Source, owner_id: int, status: Statuses | None, span: Span) -> Page[asyncpg.Record]:
    """Read one page; as ``read_page_in``."""
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        return await read_page_in(connection, source, owner_id, status, span)


async def read_page_in(
    connection: Connection, source: Source, owner_id: int, status: Statuses | None, span: Span
) -> Page[asyncpg.Record]:
    """Read a page of a holder's rows, or of an endpoint's deliveries, in a status; ``None`` is any."""
    oldest, newest = bounds(span.initial_at, span.final_at)
    if oldest > newest:
        return Page(items=[], total_count=0)
    of_status = () if status is None else (status,)
    if status is not None and source.of_status is not None:
        source = source.of_status
    # A cursor has the total and the position: no hours are needed.
    if span.after is not None:
        return await _read_page_after(connection, source, owner_id, of_status, span, span.after)
    if span.position == 0 and source.total:
        return await _read_first_page(connection, source, owner_id, of_status, span)
    first_hour, last_hour = _hour_of(max(oldest, _EARLIEST)), _hour_of(newest)
    hours = await connection.fetch(source.hours, owner_id, first_hour, last_hour, *of_status)
    total_count, page_start = 0, span.position
    newest_of_page, oldest_of_page, skipped_count = newest, oldest, 0
    for row in hours:
        first, last = max(oldest, row["hour"]), min(newest, row["hour"] + _HOUR - _MICROSECOND)
        count: int = row["count"]
        # Only an hour that the span cuts is counted row by row.
        if last - first < _HOUR - _MICROSECOND:
            count = await connection.fetchval(source.count, owner_id, first, last, *of_status)
        # Hours before the page are skipped by their totals, and those after its end are not read.
        if total_count <= page_start:
            newest_of_page, skipped_count = last, total_count
        if total_count < page_start + span.page_size:
            oldest_of_page = first
        total_count += count
    if page_start >= total_count:
        return Page(items=[], total_count=total_count)
    place = (oldest_of_page, newest_of_page, page_start - skipped_count, span.page_size)
    rows = await connection.fetch(source.page, owner_id, *place, *of_status)
    return make_page(span, rows, total_count, has_more=page_start + len(rows) < total_count)


async def _read_first_page(
    connection: Connection, source: Source, owner_id: int, of_status: tuple[Statuses, ...], span: Span
) -> Page[asyncpg.Record]:
    oldest, newest = [min(max(each, _EARLIEST), _LATEST) for each in bounds(span.initial_at, span.final_at)]
    first_whole, last_whole = _hour_of(oldest + _HOUR - _MICROSECOND), _hour_of(newest + _MICROSECOND) - _HOUR
    # A month has 720 hours: fetched one by one they would cost as much as the page.
    total_count: int = await connection.fetchval(source.total, owner_id, oldest, newest, first_whole, last_whole, *of_status)
    if total_count == 0:
        return Page(items=[], total_count=0)
    rows = await connection.fetch(source.page, owner_id, oldest, newest, 0, span.page_size, *of_status)
    return make_page(span, rows, total_count, has_more=len(rows) < total_count)


async def _read_page_after(
    connection: Connection, source: Source, owner_id: int, of_status: tuple[Statuses, ...], span: Span, after: Cursor
) -> Page[asyncpg.Record]:
    oldest, newest = bounds(span.initial_at, span.final_at)
    before = begin_after(after, newest)
    if source.is_sparse:
        hours = await connection.fetch(source.hours, owner_id, _hour_of(max(oldest, _EARLIEST)), _hour_of(before[0]))
        oldest = max(oldest, _hour_with_enough(hours, _hour_of(before[0]), span.page_size + 1))
    # One more row than the page shows whether there is a next one.
    rows = await connection.fetch(source.page_after, owner_id, oldest, *before, span.page_size + 1, *of_status)
    return make_page(span, rows[: span.page_size], after.total_count, has_more=len(rows) > span.page_size)


def bounds(initial_at: datetime | None, final_at: datetime | None) -> tuple[datetime, datetime]:
    """The oldest and the newest instant, both included."""
    return initial_at or _EARLIEST, final_at or _LATEST


def begin_after(after: Cursor, newest: datetime) -> tuple[datetime, int]:
    """Return the instant and id before which a page by cursor begins."""
    # A cursor may be invented: it stays within the span.
    return min((after.created_at, after.id), (newest, _ID_MAX))


def _hour_with_enough(hours: Sequence[asyncpg.Record], began_in: datetime, wanted_count: int) -> datetime:
    """Return the newest hour down to which there are so many rows, or the oldest there is."""
    count, hour = 0, began_in
    for row in hours:
        hour = row["hour"]
        # The cursor's position within the page's first hour is unknown.
        count += row["count"] if hour < began_in else 0
        if count >= wanted_count:
            break
    return hour


def make_page(span: Span, rows: Sequence[asyncpg.Record], total_count: int, *, has_more: bool) -> Page[asyncpg.Record]:
    """Make a page of rows that have ``created_at`` and ``id``, and the cursor of the next one."""
    if not (rows and has_more):
        return Page(items=list(rows), total_count=total_count)
    last = rows[-1]
    cursor = Cursor(created_at=last["created_at"], id=last["id"], position=span.position + len(rows), total_count=total_count)
    return Page(items=list(rows), total_count=total_count, next=cursor)


def _hour_of(instant: datetime) -> datetime:
    return instant.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
