"""Charges of several statuses, and by whom they ask to pay or whether a code leads to them, newest first."""

from __future__ import annotations

from typing import Final, LiteralString

import asyncpg
from msgspec import structs

from pixconnect.domain.frame.listing import Page, Span
from pixconnect.domain.money.charge import Charge
from pixconnect.domain.money.charge_search import ChargeSearch
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame import listing as listing_store
from pixconnect.store.frame.listing import merge_statuses
from pixconnect.store.money import charge as charge_store
from pixconnect.store.money.charge import CHARGE

_LIST: Final = listing_store.source_of_statuses("charge", CHARGE.select)

_OWNED: Final[LiteralString] = """
    from charge where holder_id = $1 and holder_id + 0 = $1 and created_at between $2 and $3 and status || '' = any($4::text[])
"""
# "status || ''", so that no plan takes the index of all charges, which leads to few of those that are wanted.
_OF_DEBTOR: Final[LiteralString] = f"""
    {_OWNED} and payer_tax_id = $5 and ($6::boolean is null or (is_unbound is null) = $6)
"""
_UNBOUND: Final[LiteralString] = f"{_OWNED} and is_unbound"
_ORDER: Final[LiteralString] = "order by created_at desc, id desc"
_COUNT_OF_DEBTOR: Final[LiteralString] = f"select count(*) {_OF_DEBTOR}"
_READ_OF_DEBTOR: Final[LiteralString] = f"select {CHARGE.select} {_OF_DEBTOR} {_ORDER} offset $7 limit $8"
_COUNT_UNBOUND: Final[LiteralString] = f"select count(*) {_UNBOUND}"
_READ_UNBOUND: Final[LiteralString] = f"select {CHARGE.select} {_UNBOUND} {_ORDER} offset $5 limit $6"
_READ_PLACED: Final = merge_statuses(
    "charge",
    CHARGE.select,
    "created_at between $2 and $3 and is_unbound is null",
    statuses="$4",
    skipped="$5",
    count="$6",
)


async def read_page(pool: Pool, holder_id: int, search: ChargeSearch, span: Span) -> Page[Charge]:
    """One page by number. Only the first pages of those that a code leads to are quick: most charges are such."""
    if search.tax_id is None and search.is_placed is None:
        return await charge_store.read_page_of(pool, holder_id, search.statuses, span)
    oldest, newest = listing_store.bounds(span)
    if oldest > newest:
        return Page(items=[], total_count=0)
    asked = (holder_id, oldest, newest, list(search.statuses))
    part = (span.position, span.page_size)
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        if search.tax_id is not None:
            filtered = (*asked, search.tax_id, search.is_placed)
            count: int = await connection.fetchval(_COUNT_OF_DEBTOR, *filtered)
            rows = await _read(connection, count, _READ_OF_DEBTOR, *filtered, *part)
        else:
            count = await connection.fetchval(_COUNT_UNBOUND, *asked)
            if search.is_placed:
                # Nearly all are, so they are counted as what is left of the totals.
                whole = structs.replace(span, page=1, page_size=1)
                listed = await listing_store.read_page_in(connection, _LIST, holder_id, search.statuses, whole)
                count = listed.total_count - count
            statement = _READ_PLACED if search.is_placed else _READ_UNBOUND
            rows = await _read(connection, count, statement, *asked, *part)
    return Page(items=[CHARGE.read(row) for row in rows], total_count=count)


async def _read(
    connection: Connection, count: int, statement: LiteralString, *arguments: object
) -> list[asyncpg.Record]:
    # The page begins after so many, which stand before its size.
    position = arguments[-2]
    return await connection.fetch(statement, *arguments) if isinstance(position, int) and position < count else []
