"""Searches of charges by the central bank's API."""

from __future__ import annotations

from typing import Final, LiteralString

import asyncpg
from msgspec import Struct, structs

from pixconnect.features.pix_api.rules import ChargeSearch
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.tables import listing as listing_store
from pixconnect.kernel.tables.charge import CHARGE
from pixconnect.kernel.tables.listing import ListedRows, Source, merge_statuses
from pixconnect.platform.pool import Connection, Pool

_IS_DUE: Final[LiteralString] = "due_on is not null"
_IS_AT_ONCE: Final[LiteralString] = "due_on is null"
_OWNED: Final[LiteralString] = """
    from charge where holder_id = $1 and holder_id + 0 = $1 and created_at between $2 and $3 and status || '' = any($4::text[])
"""
_ORDER: Final[LiteralString] = "order by created_at desc, id desc"


# Searched from its lot, which has at most a thousand.
_OF_LOT: Final[LiteralString] = """
    from lot_item join charge on charge.id = lot_item.charge_id and charge.holder_id = lot_item.holder_id
    where lot_item.holder_id = $1 and charge.created_at between $2 and $3 and charge.status = any($4::text[])
        and lot_number = $5 and ($6::text is null or payer_tax_id = $6) and ($7::boolean is null or (is_unbound is null) = $7)
"""
_READ_OF_LOT: Final[LiteralString] = f"""
    select {CHARGE.select} {_OF_LOT} order by charge.created_at desc, charge.id desc offset $8 limit $9
"""


class _Statements(Struct, frozen=True, kw_only=True):
    list: Source
    count_of_debtor: LiteralString
    read_of_debtor: LiteralString
    count_unbound: LiteralString
    read_unbound: LiteralString
    read_placed: LiteralString


def _write_statements(kind: LiteralString, wanted: ListedRows) -> _Statements:
    # "status || ''" keeps plans off the index of all charges, which has few matches.
    of_debtor: LiteralString = (
        f"{_OWNED} and {kind} and payer_tax_id = $5 and ($6::boolean is null or (is_unbound is null) = $6)"
    )
    unbound: LiteralString = f"{_OWNED} and {kind} and is_unbound"
    return _Statements(
        list=listing_store.source_of_statuses("charge", CHARGE.select, wanted),
        count_of_debtor=f"select count(*) {of_debtor}",
        read_of_debtor=f"select {CHARGE.select} {of_debtor} {_ORDER} offset $7 limit $8",
        count_unbound=f"select count(*) {unbound}",
        read_unbound=f"select {CHARGE.select} {unbound} {_ORDER} offset $5 limit $6",
        read_placed=merge_statuses(
            "charge",
            CHARGE.select,
            f"created_at between $2 and $3 and {kind} and is_unbound is null",
            statuses="$4",
            skipped="$5",
            count="$6",
        ),
    )


_AT_ONCE: Final = _write_statements(_IS_AT_ONCE, ListedRows(where=_IS_AT_ONCE, without="charge_due", left_out=_IS_DUE))
_DUE: Final = _write_statements(_IS_DUE, ListedRows(where=_IS_DUE, kind="charge_due"))


async def search(pool: Pool, holder_id: int, search: ChargeSearch, span: Span) -> Page[Charge]:
    """Read one page by number. Only the first pages of charges with a location are quick: most charges have one."""
    statements = _DUE if search.has_due_date else _AT_ONCE
    if search.tax_id is None and search.is_placed is None and search.lot_number is None:
        page = await listing_store.read_page(pool, statements.list, holder_id, search.statuses, span)
        return page.with_items([CHARGE.read(row) for row in page.items])
    oldest, newest = listing_store.bounds(span.initial_at, span.final_at)
    if oldest > newest:
        return Page(items=[], total_count=0)
    asked = (holder_id, oldest, newest, list(search.statuses))
    part = (span.position, span.page_size)
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        if search.lot_number is not None:
            filtered = (*asked, search.lot_number, search.tax_id, search.is_placed)
            count: int = await connection.fetchval(f"select count(*) {_OF_LOT}", *filtered)
            rows = await _read_search(connection, count, _READ_OF_LOT, *filtered, *part)
        elif search.tax_id is not None:
            filtered = (*asked, search.tax_id, search.is_placed)
            count = await connection.fetchval(statements.count_of_debtor, *filtered)
            rows = await _read_search(connection, count, statements.read_of_debtor, *filtered, *part)
        else:
            count = await connection.fetchval(statements.count_unbound, *asked)
            if search.is_placed:
                # Nearly all have one, so the count is the remainder of the totals.
                whole = structs.replace(span, page=1, page_size=1)
                listed = await listing_store.read_page_in(
                    connection, statements.list, holder_id, search.statuses, whole
                )
                count = listed.total_count - count
            statement = statements.read_placed if search.is_placed else statements.read_unbound
            rows = await _read_search(connection, count, statement, *asked, *part)
    return Page(items=[CHARGE.read(row) for row in rows], total_count=count)


async def _read_search(
    connection: Connection, count: int, statement: LiteralString, *arguments: object
) -> list[asyncpg.Record]:
    position = arguments[-2]
    return await connection.fetch(statement, *arguments) if isinstance(position, int) and position < count else []
