"""Tables of the central bank's API: locations, searches of charges, and received Pix.

Received Pix are listed by the instant at which they settled, newest first, with exact totals at any length. The hours of
``listing`` are those of ``received_hour``, as far as they are counted; from there on the index is counted. So payments write
nothing for this list, and holders who do not use it cost nothing.

A Pix settled at the network's instant, if that is minutes from ours. All hours are counted by ours, which never change once
they are over; the few that the network dates otherwise are moved to their hours.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from functools import cache
from operator import attrgetter
from typing import Final, LiteralString

import asyncpg
from msgspec import Struct, structs

from pixconnect.features.pix_api.lots import find_lots
from pixconnect.features.pix_api.rules import ChargeSearch, ReceivedSearch
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.rules.location import Location
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import listing as listing_store
from pixconnect.kernel.tables import lookup, tally
from pixconnect.kernel.tables.charge import CHARGE, LOCKED_BY_TXID, TAKE_BLOCK
from pixconnect.kernel.tables.clock import Deadline
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.listing import ListedRows, Source, merge_statuses
from pixconnect.kernel.tables.table import Table, insert_of, split_pairs, update_of
from pixconnect.kernel.tables.transfer import TRANSFER
from pixconnect.platform.pool import Connection, Pool

# A location changes only under the lock of the charge that it has or gets.
LOCATION: Final = Table(
    "location", Location, "id bigint, holder_id bigint, token text, status text, charge_id bigint, created_at timestamptz"
)

_INSERT_LOCATION: Final = insert_of(
    LOCATION, LOCATION, name="location_row", once=["status, created_at, holder_id", "status, created_at"]
)

_MOVED: Final = LOCATION.only("id", "holder_id", "status", "charge_id")
_UPDATE_LOCATION: Final = update_of(LOCATION, _MOVED, name="location_change")
LOCATIONS: Final = Fact(
    rank=30,
    inserts=(_INSERT_LOCATION,),
    updates=(_UPDATE_LOCATION,),
    may_move_new=True,
    sort_key=attrgetter("token"),
    follow=tally.count("location"),
)

find_location: Final = lookup.one_by(LOCATION, "id")
find_locations_of_charges: Final = lookup.by_pairs(LOCATION, "charge_id")
find_locations: Final = lookup.by_pairs(LOCATION, "id")
# Locked after the charges that get or lose them.
lock_locations: Final = lookup.by_pairs(LOCATION, "id", locks=True)
read_locations: Final = lookup.page_of(LOCATION, listing_store.source_of_statuses("location", LOCATION.select))


async def lock_charges(
    connection: Connection, wanted: Collection[tuple[str, int]]
) -> tuple[dict[tuple[str, int], Charge], set[tuple[str, int]], int]:
    """Lock charges by txid and holder as ``charge.lock_by_txid``, and find which of these names lots hold.

    Returns:
        The charges; the ``Lots.held`` as they were before the wait for the locks; and the first id of a block that was taken
        when all were locked.
    """
    rows = await connection.fetch(_write_lock(), *split_pairs(wanted))
    # If no row was locked, the rest is in a separate row.
    found = [CHARGE.read(row) for row in rows if row["id"] is not None]
    held: set[tuple[str, int]] = set(zip(rows[0]["held_txids"] or (), rows[0]["held_holder_ids"] or (), strict=True))
    return {(charge.txid, charge.holder_id): charge for charge in found}, held, rows[0]["first_id"]


@cache
def _write_lock() -> LiteralString:
    # One round trip for both: nearly every batch of the standard API requests only new charges, and nearly none is in a lot.
    return f"""
        with {LOCKED_BY_TXID}, {TAKE_BLOCK}, held as materialized (
            select array_agg(txid) as held_txids, array_agg(holder_id) as held_holder_ids from ({find_lots().held}) as found
        )
        select locked.*, taken.first_id, held.* from taken cross join held left join locked on true
    """


_IS_DUE: Final[LiteralString] = "due_on is not null"
_IS_AT_ONCE: Final[LiteralString] = "due_on is null"
_OWNED: Final[LiteralString] = """
    from charge where holder_id = $1 and holder_id + 0 = $1 and created_at between $2 and $3 and status || '' = any($4::text[])
"""
_ORDER: Final[LiteralString] = "order by created_at desc, id desc"
_ORDER_OF_LOT: Final[LiteralString] = "order by charge.created_at desc, charge.id desc"


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


async def search_charges(pool: Pool, holder_id: int, search: ChargeSearch, span: Span) -> Page[Charge]:
    """Read one page by number. Only the first pages of charges with a location are quick: most charges have one."""
    statements = _DUE if search.has_due_date else _AT_ONCE
    if search.tax_id is None and search.is_placed is None and search.lot_number is None:
        page = await listing_store.read_page(pool, statements.list, holder_id, search.statuses, span)
        return page.with_items([CHARGE.read(row) for row in page.items])
    oldest, newest = listing_store.bounds(span.initial_at, span.final_at)
    of_lot = None if search.lot_number is None else find_lots().searched
    if oldest > newest or (search.lot_number is not None and of_lot is None):
        return Page(items=[], total_count=0)
    asked = (holder_id, oldest, newest, list(search.statuses))
    if of_lot is not None:
        count: LiteralString = f"select count(*) {of_lot}"
        read: LiteralString = f"select {CHARGE.select} {of_lot} {_ORDER_OF_LOT} offset $8 limit $9"
        filtered = (*asked, search.lot_number, search.tax_id, search.is_placed)
        return await lookup.read_counted(pool, CHARGE, count, read, filtered, span)
    if search.tax_id is not None:
        filtered = (*asked, search.tax_id, search.is_placed)
        return await lookup.read_counted(pool, CHARGE, statements.count_of_debtor, statements.read_of_debtor, filtered, span)
    if not search.is_placed:
        return await lookup.read_counted(pool, CHARGE, statements.count_unbound, statements.read_unbound, asked, span)
    rows: list[asyncpg.Record] = []
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        # Nearly all have one, so the count is the remainder of the totals.
        whole = structs.replace(span, page=1, page_size=1)
        listed = await listing_store.read_page_in(connection, statements.list, holder_id, search.statuses, whole)
        total_count = listed.total_count - await connection.fetchval(statements.count_unbound, *asked)
        if span.position < total_count:
            rows = await connection.fetch(statements.read_placed, *asked, span.position, span.page_size)
    return Page(items=[CHARGE.read(row) for row in rows], total_count=total_count)


_RECEIVED: Final[LiteralString] = """
    from transfer where holder_id = $1 and holder_id + 0 = $1 and direction = 'IN' and settled_at is not null
"""
# As in ``date_settled`` of ``kernel/rules/rail.py`` and in the indexes.
_IS_REDATED: Final[LiteralString] = """
    (settled_at - network_settled_at >= interval '1 minute' or settled_at - network_settled_at <= interval '-1 minute')
"""
# Only their own indexes begin with "holder_id - 0": PostgreSQL overestimates their number, and would read all incoming ones.
_REDATED: Final[LiteralString] = f"""
    from transfer where holder_id = $1 and holder_id - 0 = $1 and direction = 'IN' and settled_at is not null and {_IS_REDATED}
"""
_NEWEST_FIRST: Final[LiteralString] = "order by listed_at desc, id desc"
_KNOWN_UNTIL: Final[LiteralString] = """
    coalesce((select until from received_known where holder_id = $1), timestamptz '-infinity')
"""


# How many more there are in a span than by our instants.
_REDATED_IN: Final[LiteralString] = f"""
    (select count(*) {_REDATED} and network_settled_at between $2 and $3)
    - (select count(*) {_REDATED} and settled_at between $2 and $3)
"""


def _part(where: LiteralString, listed_at: LiteralString) -> LiteralString:
    # Each part is read from its own place in its index, and no further than the page.
    return f"""(
        select {TRANSFER.select}, {listed_at} as listed_at {where} and {listed_at} between $2 and $3
        order by {listed_at} desc, id desc limit $4::bigint + $5::bigint
    )"""


_LIST: Final = Source(
    hours=f"""
        select hour, sum(count)::bigint as count from (
            select hour, count from received_hour where holder_id = $1 and hour between $2 and $3 and hour < {_KNOWN_UNTIL}
            union all
            select date_trunc('hour', settled_at, 'UTC'), count(*) {_RECEIVED}
                and settled_at >= greatest({_KNOWN_UNTIL}, $2) and settled_at < $3 + interval '1 hour' group by 1
            union all
            select date_trunc('hour', settled_at, 'UTC'), -count(*) {_REDATED}
                and settled_at >= $2 and settled_at < $3 + interval '1 hour' group by 1
            union all
            select date_trunc('hour', network_settled_at, 'UTC'), count(*) {_REDATED}
                and network_settled_at >= $2 and network_settled_at < $3 + interval '1 hour' group by 1
        ) as counted
        group by hour having sum(count) > 0 order by hour desc
    """,
    page=f"""
        {_part(f"{_RECEIVED} and {_IS_REDATED} is not true", "settled_at")}
        union all
        {_part(_REDATED, "network_settled_at")}
        {_NEWEST_FIRST} offset $4 limit $5
    """,
    page_after="",
    count=f"select (select count(*) {_RECEIVED} and settled_at between $2 and $3) + {_REDATED_IN}",
    total=listing_store.total_statement(
        f"""
            select coalesce(sum(count), 0) + {_REDATED_IN} from received_hour
            where holder_id = $1 and hour between $4 and $5 and hour < {_KNOWN_UNTIL}
        """,
        f"select count(*) {_RECEIVED} and settled_at between edge.oldest and edge.newest",
        counted_from=f"least({_KNOWN_UNTIL}, $5 + interval '1 hour')",
    ),
)

_COUNTED_UNTIL: Final[LiteralString] = f"""
    select coalesce(
        (select until from received_known where holder_id = $1),
        (select date_trunc('hour', min(settled_at), 'UTC') {_RECEIVED})
    )
"""
_COUNT_HOURS: Final[LiteralString] = f"""
    with counted as (
        insert into received_hour (holder_id, hour, count)
        select $1, date_trunc('hour', settled_at, 'UTC'), count(*) {_RECEIVED}
            and settled_at >= {_KNOWN_UNTIL} and settled_at < $2
        group by 2 order by 2
        on conflict (holder_id, hour) do nothing
    )
    insert into received_known (holder_id, until) values ($1, $2)
    on conflict (holder_id) do update set until = excluded.until where received_known.until < excluded.until
"""
# Millions may have come in since; each step stores its count, and ends long before the statement timeout.
_STEP: Final = timedelta(days=7)


async def count_hours(pool: Pool, holder_id: int, until: datetime) -> None:
    """Count the hours up to ``until``, which are all final."""
    counted_until: datetime | None = await pool.fetchval(_COUNTED_UNTIL, holder_id)
    while counted_until is not None and counted_until < until:
        counted_until = min(counted_until + _STEP, until)
        await pool.execute(_COUNT_HOURS, holder_id, counted_until)


async def forget_hours(connection: Connection, _now: datetime, _by: timedelta) -> None:
    """Delete the counts of hours: the clock was moved back, and some hours are in the future again."""
    await connection.execute("with forgotten as (delete from received_known) delete from received_hour")


DEADLINES: Final = (Deadline(move_back=forget_hours),)


async def read_received_page(pool: Pool, holder_id: int, span: Span) -> Page[Transfer]:
    page = await listing_store.read_page(pool, _LIST, holder_id, None, span)
    return page.with_items([TRANSFER.read(row) for row in page.items])


_FILTERS: Final[LiteralString] = """
    ($4::boolean is null or coalesce(txid ~ '^[a-zA-Z0-9]{1,35}$', false) = $4)
    and ($5::boolean is null or $5 = exists (
        select from refund where refund.transfer_id = transfer.id and refund.holder_id = transfer.holder_id
    ))
    and ($6::text is null or counterparty ->> 'tax_id' = $6)
"""
_FILTERED: Final[LiteralString] = f"""
    from (
        select *, settled_at as listed_at {_RECEIVED} and {_IS_REDATED} is not true
        union all
        select *, network_settled_at as listed_at {_REDATED}
    ) as transfer
    where listed_at between $2 and $3 and {_FILTERS}
"""
_COUNT_FILTERED: Final[LiteralString] = f"select count(*) {_FILTERED}"
_READ_FILTERED: Final[LiteralString] = f"select {TRANSFER.select} {_FILTERED} {_NEWEST_FIRST} offset $7 limit $8"

# Those of a charge are found by the charge, without an index of their own.
_OF_TXID: Final[LiteralString] = f"""
    from (
        select *, case when {_IS_REDATED} then network_settled_at else settled_at end as listed_at from (
            select * from transfer where holder_id = $1 and settled_at is not null
                and charge_id = (select id from charge where holder_id = $1 and txid = $7)
            union all
            select * {_RECEIVED} and charge_id is null and txid = $7
        ) as transfer
    ) as transfer
    where listed_at between $2 and $3 and {_FILTERS}
"""
_COUNT_OF_TXID: Final[LiteralString] = f"select count(*) {_OF_TXID}"
_READ_OF_TXID: Final[LiteralString] = f"select {TRANSFER.select} {_OF_TXID} {_NEWEST_FIRST} offset $8 limit $9"


async def count_received(pool: Pool, holder_id: int, span: Span) -> int:
    whole = Span(page=1, page_size=1, initial_at=span.initial_at, final_at=span.final_at)
    return (await listing_store.read_page(pool, _LIST, holder_id, None, whole)).total_count


async def read_searched_page(pool: Pool, holder_id: int, search: ReceivedSearch, span: Span) -> Page[Transfer]:
    """Read a page of a scan, or of one txid."""
    oldest, newest = listing_store.bounds(span.initial_at, span.final_at)
    asked = (holder_id, oldest, newest, search.has_txid, search.has_refunds, search.payer_tax_id)
    count, read = _COUNT_FILTERED, _READ_FILTERED
    if search.txid is not None:
        asked, count, read = (*asked, search.txid), _COUNT_OF_TXID, _READ_OF_TXID
    return await lookup.read_counted(pool, TRANSFER, count, read, asked, span)
