"""Scans a list backwards by fields without an index, a number of rows at a time; the caller decides when to stop.

For some holders rows are ordered by their instants, each holder's from its own place in the index. No index has that order for
all holders together: there the highest ids come first, which are the newest except for concurrently written rows.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, LiteralString, NamedTuple

import asyncpg
from msgspec import Struct

from pixconnect.doors.console.wanted import Wanted
from pixconnect.features.webhooks.tables.delivery_history import DELIVERY
from pixconnect.kernel.rules.holder import as_kept
from pixconnect.kernel.rules.tax_id import unmask_tax_id
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import listing as listing_store
from pixconnect.kernel.tables import lookup
from pixconnect.kernel.tables.charge import CHARGE
from pixconnect.kernel.tables.event import EVENT
from pixconnect.kernel.tables.listing import NEWEST_FIRST
from pixconnect.kernel.tables.lookup import FindAll, Pairs
from pixconnect.kernel.tables.refund import REFUND
from pixconnect.kernel.tables.tally import Kind
from pixconnect.kernel.tables.transfer import TRANSFER
from pixconnect.platform.pool import Connection, Pool


class BrowsePosition(Struct, frozen=True, kw_only=True):
    """Where the scan continues: before this instant and id."""

    at: datetime
    id: int


read_charge_names: Final = Pairs[int, str, Sequence[int], Sequence[int]]("""
    select charge.id, external_id from unnest($1::bigint[], $2::bigint[]) as wanted (id, holder_id)
    join charge on charge.id = wanted.id and charge.holder_id = wanted.holder_id
""")
"""Read the callers' names of charges, each named by its id and its holder."""

find_refunded: Final = lookup.by_pairs(TRANSFER, "id")
find_payments: Final = FindAll[Transfer, Sequence[int], Sequence[int]](
    TRANSFER,
    """
    join unnest($1::bigint[], $2::bigint[]) as wanted (charge_id, holder_id) using (charge_id, holder_id)
    where settled_at is not null
    """,
)
"""Find the payments of charges, each named by its id and its holder."""

_RETURNED: Final[LiteralString] = """
    select kind, wanted.id::text, returned_cents
    from unnest($1::text[], $2::bigint[], $3::bigint[]) as wanted (kind, id, holder_id)
    join transfer on transfer.holder_id = wanted.holder_id and transfer.charge_id = wanted.id
    where kind = 'charge' and settled_at is not null and returned_cents > 0
    union all
    select kind, wanted.id::text, returned_cents
    from unnest($1::text[], $2::bigint[], $3::bigint[]) as wanted (kind, id, holder_id)
    join transfer on transfer.id = wanted.id and transfer.holder_id = wanted.holder_id
    where kind = 'transfer' and returned_cents > 0
"""


async def read_returned(pool: Pool, wanted: Sequence[tuple[str, int, int]]) -> dict[tuple[str, str], int]:
    """The cents given back of charges and transfers, named by kind, id and holder; by kind and id."""
    rows = await pool.fetch(_RETURNED, *zip(*wanted, strict=True)) if wanted else []
    return {(row["kind"], row["id"]): row["returned_cents"] for row in rows}


_AWAITING: Final[LiteralString] = """
    with wanted as (select * from unnest($1::text[], $2::bigint[], $3::bigint[]) as wanted (kind, id, holder_id))
    select kind, wanted.id::text, 'operator' as what, null::timestamptz as until from wanted
    join transfer on kind = 'transfer' and transfer.id = wanted.id and transfer.holder_id = wanted.holder_id
    join open_order on open_order.name = end_to_end_id and approval || '' = 'awaited'
    union all
    select wanted.kind, wanted.id::text, 'institution', block.until from wanted
    left join charge on wanted.kind = 'charge' and charge.id = wanted.id and charge.holder_id = wanted.holder_id
    join block on block.transfer_id = case wanted.kind when 'charge' then held_by else wanted.id end
        and block.holder_id = wanted.holder_id and state = 'open' and block.kind = 'precautionary'
"""


class Awaited(NamedTuple):
    """An operator's approval, or the end of a suspicion at the institution."""

    what: Literal["operator", "institution"]
    until: datetime | None


async def find_awaiting(pool: Pool, wanted: Sequence[tuple[str, int, int]]) -> dict[tuple[str, str], Awaited]:
    """Find which of these, by kind, id and holder, wait for an operator or at an institution; by kind and id."""
    rows = await pool.fetch(_AWAITING, *zip(*wanted, strict=True)) if wanted else []
    return {(row["kind"], row["id"]): Awaited(row["what"], row["until"]) for row in rows}


class Chunk(Struct, frozen=True, kw_only=True):
    rows: Sequence[asyncpg.Record]  # newest first, at most as many as requested
    looked_at_count: int
    end: BrowsePosition | None  # the last row that the statement read; ``None`` if there was none


class Lookback(Struct, frozen=True, kw_only=True):
    """The statements that scan one table backwards."""

    of_holders: LiteralString
    of_all: LiteralString


# All statements take the same: $1 holders, $2 statuses or types, $3 oldest and $4 newest instant, $5 id, $6 rows scanned and $7
# rows shown, $8 and $9 amounts, $10 direction, $11 and $12 counterparty, $13 a part of a name, $14 and $15 the day.
_BEFORE: Final[LiteralString] = "created_at >= $3 and (created_at, id) < ($4, $5)"
_AMOUNT: Final[LiteralString] = "amount_cents between coalesce($8::bigint, 0) and coalesce($9::bigint, 9223372036854775807)"


# The day of a Pix, for all searches by people: when it settled by the network's clock, or else by ours.
PAID_AT: Final[LiteralString] = "coalesce(network_settled_at, settled_at, created_at)"
# Its payer knows the day on which the institution took it, though it may have held it as suspect for days.
_OF_DAY: Final[LiteralString] = f"({PAID_AT} between $14 and $15 or created_at < {PAID_AT} and created_at between $14 and $15)"


def _statement(looked: LiteralString, filters: LiteralString, order: LiteralString, last: LiteralString) -> LiteralString:
    return f"""
        with looked as materialized ({looked}),
        place as (
            select created_at as end_at, id as end_id, (select count(*) from looked) as looked_at_count
            from looked order by {last} limit 1
        )
        select place.*, shown.* from place
        left join (select * from looked where {filters} {order} limit $7) as shown on true {order}
    """


def _of_holders(table: LiteralString, columns: LiteralString, *, is_by_status: bool) -> LiteralString:
    """Reads holder by holder, and status by status, each from its own place in the index, and merges them."""
    statuses: LiteralString = "cross join unnest($2::text[]) as wanted (status)" if is_by_status else ""
    of_status: LiteralString = "status = wanted.status and" if is_by_status else ""
    return f"""
        select merged.* from unnest($1::bigint[]) as owner (holder_id) {statuses}
        cross join lateral (
            select {columns} from {table}
            where {table}.holder_id = owner.holder_id and {table}.holder_id + 0 = owner.holder_id and {of_status} {_BEFORE}
            {NEWEST_FIRST} limit $6
        ) as merged {NEWEST_FIRST} limit $6
    """


_ESCAPED: Final = str.maketrans({each: f"\\{each}" for each in "\\%_"})


def fold_words(text: str) -> list[str]:
    """A pattern of ``like`` for each word, which folded names are compared with."""
    letters = unicodedata.normalize("NFKD", text.lower())
    folded = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return [f"%{word.translate(_ESCAPED)}%" for word in folded.split()]


def _lookback(table: Kind, columns: LiteralString, filters: LiteralString, *, is_by_status: bool = True) -> Lookback:
    of_all: LiteralString = f"select {columns} from {table} where id < $5 order by id desc limit $6"
    in_span: LiteralString = "created_at between $3 and $4 and status = any($2::text[])"
    return Lookback(
        of_holders=_statement(_of_holders(table, columns, is_by_status=is_by_status), filters, NEWEST_FIRST, "created_at, id"),
        of_all=_statement(of_all, f"{filters} and {in_span} and $1::bigint is null", "order by id desc", "id"),
    )


# People read names aloud and copy them from paper: case, accents and what stands between the words are ignored.
FOLDED: Final[LiteralString] = "translate(lower({}), 'áàâãäéèêëíìîïóòôõöúùûüçñ', 'aaaaaeeeeiiiiooooouuuucn')"
_OF_PARTY: Final[LiteralString] = f"{FOLDED} like all ($11)"
# Institutions report some CPFs by their six middle digits alone, and people have them from receipts.
_BARE: Final[LiteralString] = "translate({}, '.-', '')"
_TAX_ID: Final[LiteralString] = _BARE.format("counterparty ->> 'tax_id'")
_PARTY: Final[LiteralString] = f"""(
    $11::text[] is null or {_OF_PARTY.format("counterparty ->> 'name'")}
    or $12::text in (counterparty ->> 'tax_id', counterparty ->> 'key', own_key)
    or {_TAX_ID} = '***' || substr($12, 4, 6) || '**'
)"""
_NAMED: Final[LiteralString] = """(
    $13::text is null or strpos(lower(concat_ws(' ', external_id, {})), lower($13)) > 0
    or length($13) = 6 and substr({}, 4, 6) = $13
)"""
CHARGES: Final = _lookback(
    "charge",
    CHARGE.select,
    f"""created_at between $14 and $15 and {_AMOUNT}
    and {_NAMED.format("txid", _BARE.format("payer_tax_id"))} and ($10::text is null or $10 = 'IN') and (
        $11::text[] is null or {_OF_PARTY.format("payer_name")} or $12::text in (payer_tax_id, key)
    )""",
)
TRANSFERS: Final = _lookback(
    "transfer",
    TRANSFER.select,
    f"""{_OF_DAY} and {_AMOUNT}
    and {_NAMED.format("end_to_end_id, network_id, payer_message", _TAX_ID)} and ($10::text is null or direction = $10)
    and {_PARTY}""",
)
_RETURNED_TO: Final[LiteralString] = """
    select {} from transfer where transfer.id = transfer_id and transfer.holder_id = looked.holder_id
"""
# Refunds have an index of their list without the status: merged by status, a rare one would make PostgreSQL read all of it.
REFUNDS: Final = _lookback(
    "refund",
    REFUND.select,
    # A value and no "exists", which PostgreSQL may answer by a hash of the whole table.
    f"""status = any($2::text[]) and {_OF_DAY} and {_AMOUNT} and {
        _NAMED.format("return_id, network_id, original_end_to_end_id", f"({_RETURNED_TO.format(_TAX_ID)})")
    } and ($10::text is null or flow = $10) and ($11::text[] is null or ({_RETURNED_TO.format(_PARTY)}))""",
    is_by_status=False,
)

_ASKED_OF_EVENTS: Final[LiteralString] = """
    name = any($2::text[]) and ($8::bigint is null and $9::bigint is null and $10::text is null and $11::text[] is null
        and $12::text is null and $13::text is null) and created_at between $14 and $15
"""
EVENTS: Final = Lookback(
    of_holders=_statement(
        _of_holders("event", EVENT.select, is_by_status=False), _ASKED_OF_EVENTS, NEWEST_FIRST, "created_at, id"
    ),
    of_all=_statement(
        f"select {EVENT.select} from event where id < $5 order by id desc limit $6",
        f"{_ASKED_OF_EVENTS} and created_at between $3 and $4 and $1::bigint is null",
        "order by id desc",
        "id",
    ),
)


async def look_back(
    connection: Connection | Pool,
    lookback: Lookback,
    holder_ids: Sequence[int] | None,
    wanted: Wanted,
    names: Sequence[str],
    before: BrowsePosition,
    look_at_count: int,
    show_count: int,
) -> Chunk:
    """Scan rows before a position.

    Args:
        holder_ids: The holders; ``None`` means all, by id.
        names: Statuses, or types of events: never none.
        before: For some holders it is no later than the span's end.
    """
    oldest, newest = listing_store.bounds(wanted.initial_at, wanted.final_at)
    rows = await connection.fetch(
        lookback.of_all if holder_ids is None else lookback.of_holders,
        None if holder_ids is None else list(holder_ids),
        list(names),
        oldest,
        newest if holder_ids is None else before.at,
        before.id,
        look_at_count,
        show_count,
        wanted.amount_min_cents,
        wanted.amount_max_cents,
        wanted.direction,
        None if wanted.counterparty is None else fold_words(wanted.counterparty),
        # Tax ids and keys are stored without punctuation.
        None if wanted.counterparty is None else as_kept(unmask_tax_id(wanted.counterparty)),
        wanted.name_part,
        *listing_store.bounds(*(wanted.paid_between or (None, None))),
    )
    return _chunk(rows)


def _chunk(rows: Sequence[asyncpg.Record]) -> Chunk:
    if not rows:
        return Chunk(rows=[], looked_at_count=0, end=None)
    end = BrowsePosition(at=rows[0]["end_at"], id=rows[0]["end_id"])
    # If nothing was found, the position is in a separate row.
    found = [row for row in rows if row["id"] is not None]
    return Chunk(rows=found, looked_at_count=rows[0]["looked_at_count"], end=end)


# Endpoint by endpoint, each from its own position in the index; failed ones have an index of their own, if the text uses it.
def _of_endpoints(status: LiteralString) -> LiteralString:
    return _statement(
        f"""
        select merged.* from unnest($1::bigint[]) as endpoint (endpoint_id)
        cross join lateral (
            select {DELIVERY.select} from delivery
            where delivery.endpoint_id = endpoint.endpoint_id and {status} {_BEFORE} {NEWEST_FIRST} limit $6
        ) as merged {NEWEST_FIRST} limit $6
        """,
        """status = any($2::text[]) and ($8::text[] is null or (
            select event.name = any($8) from event where event.id = event_id and event.holder_id = looked.holder_id
        ))""",
        NEWEST_FIRST,
        "created_at, id",
    )


_DELIVERIES: Final[LiteralString] = _of_endpoints("")
_FAILED_DELIVERIES: Final[LiteralString] = _of_endpoints("status = 'failed' and")


async def look_back_at_deliveries(
    connection: Connection | Pool,
    endpoint_ids: Sequence[int],
    wanted: Wanted,
    statuses: Sequence[str],
    before: BrowsePosition,
    look_at_count: int,
    show_count: int,
) -> Chunk:
    """As ``look_back``, for the deliveries to endpoints."""
    oldest, _ = listing_store.bounds(wanted.initial_at, wanted.final_at)
    rows = await connection.fetch(
        _FAILED_DELIVERIES if list(statuses) == ["failed"] else _DELIVERIES,
        list(endpoint_ids),
        list(statuses),
        oldest,
        before.at,
        before.id,
        look_at_count,
        show_count,
        list(wanted.event_types) or None,
    )
    return _chunk(rows)


read_event_names: Final = Pairs[int, str, Sequence[int], Sequence[int]]("""
    select event.id, event.name from unnest($1::bigint[], $2::bigint[]) as wanted (id, holder_id)
    join event using (id, holder_id)
""")
"""The names of these events, by id and holder; expired ones are missing."""
