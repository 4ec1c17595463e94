"""Transfers of any status, also by fields without an index, newest first.

The list's index begins with holder and status, so it is read status by status: see ``kernel/tables/listing.py``.
"""

from __future__ import annotations

from typing import Final, LiteralString

import asyncpg
from msgspec import structs

from pixconnect.kernel.rules.listing import Page, Span, TransferSearch, check_searched
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import listing as listing_store
from pixconnect.kernel.tables.listing import count_statuses, merge_statuses
from pixconnect.kernel.tables.transfer import TRANSFER
from pixconnect.platform.pool import Connection, Pool

_LIST: Final = listing_store.source_of_statuses("transfer", TRANSFER.select)


async def read_page(pool: Pool, holder_id: int, search: TransferSearch, span: Span) -> Page[Transfer]:
    """Read a page in one status or all, at any length."""
    page = await listing_store.read_page(pool, _LIST, holder_id, search.statuses, span)
    return page.with_items([TRANSFER.read(row) for row in page.items])


# "direction || ''" keeps plans off the index of orders accepted by the rail, which spans all holders.
_FILTERS: Final[LiteralString] = """
    ($3::text is null or direction || '' = $3) and ($4::text is null or own_key = $4 or counterparty ->> 'key' = $4)
    and ($5::text is null or txid = $5) and ($6::bigint is null or amount_cents = $6)
    and ($7::text is null or counterparty ->> 'tax_id' = $7)
    and ($8::text is null or strpos(lower(concat_ws(' ', end_to_end_id, network_id)), lower($8)) > 0)
"""
_FILTERED: Final[LiteralString] = f"created_at between $9 and $10 and {_FILTERS}"
_COUNT_FILTERED: Final = count_statuses("transfer", _FILTERED, statuses="$2")
_READ_FILTERED: Final = merge_statuses(
    "transfer", TRANSFER.select, _FILTERED, statuses="$2", skipped="$11", count="$12"
)
_READ_FILTERED_AFTER: Final = merge_statuses(
    "transfer",
    TRANSFER.select,
    f"created_at >= $9 and (created_at, id) < ($10, $11) and {_FILTERS}",
    statuses="$2",
    count="$12",
)


async def read_filtered_page(pool: Pool, holder_id: int, search: TransferSearch, span: Span) -> Page[Transfer]:
    """Read a page filtered by fields without an index.

    Raises:
        BadRequest: The period has too many transfers to scan.
    """
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        # From whole hours' totals: counting the transfers would cost what the limit saves.
        whole = structs.replace(span, page=1, page_size=1, after=None)
        looked_at = await listing_store.read_page_in(connection, _LIST, holder_id, search.statuses, whole)
        check_searched(looked_at.total_count)
        page = await _read_filtered(connection, holder_id, search, span)
    return page.with_items([TRANSFER.read(row) for row in page.items])


async def _read_filtered(
    connection: Connection, holder_id: int, search: TransferSearch, span: Span
) -> Page[asyncpg.Record]:
    named = (search.direction, search.key, search.txid)
    known = (search.amount_cents, search.tax_id, search.end_to_end_id_part)
    asked = (holder_id, list(search.statuses), *named, *known)
    oldest, newest = listing_store.bounds(span.initial_at, span.final_at)
    if span.after is not None:
        before = listing_store.begin_after(span.after, newest)
        rows = await connection.fetch(_READ_FILTERED_AFTER, *asked, oldest, *before, span.page_size + 1)
        has_more = len(rows) > span.page_size
        return listing_store.make_page(span, rows[: span.page_size], span.after.total_count, has_more=has_more)
    total_count: int = await connection.fetchval(_COUNT_FILTERED, *asked, oldest, newest)
    if span.position >= total_count:
        return Page(items=[], total_count=total_count)
    rows = await connection.fetch(_READ_FILTERED, *asked, oldest, newest, span.position, span.page_size)
    has_more = span.position + len(rows) < total_count
    return listing_store.make_page(span, rows, total_count, has_more=has_more)
