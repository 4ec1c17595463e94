"""The tables of lots of charges with a due date: the lots, their items, and workers' pending requests.

Changes lock items in the order of their lots and places, after the charges.
"""

from collections.abc import Collection, Sequence
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.features.lots.rules import ChargeLot, LotItem, LotRequest, ShownItem, decode_refusal, encode_refusal
from pixconnect.kernel.tables.clock import Deadline
from pixconnect.kernel.tables.lookup import Column, Value, counted_page
from pixconnect.kernel.tables.table import Table, split_pairs
from pixconnect.platform.pool import Connection, Pool

LOT: Final = Table(
    "charge_lot",
    ChargeLot,
    """
    holder_id bigint, number bigint, slot smallint, description text, item_count integer, asked_count integer,
    created_at timestamptz
    """,
    key=("holder_id", "number"),
)
ITEM: Final = Table(
    "lot_item",
    LotItem,
    "holder_id bigint, lot_number bigint, place smallint, txid text, status text, charge_id bigint, wanted text, refusal text",
    key=("holder_id", "lot_number", "place"),
    read={"refusal": (decode_refusal, "refusal")},
    write={"refusal": lambda item: encode_refusal(item.refusal)},
)
REQUEST: Final = Table(
    "lot_request",
    LotRequest,
    "holder_id bigint, lot_number bigint, place smallint, number integer, slot smallint, asked text, asked_by text",
    key=("holder_id", "lot_number", "place", "number"),
)


class ItemKey(Struct, frozen=True, order=True):
    holder_id: int
    lot_number: int
    place: int


class DueItem(Struct, frozen=True, kw_only=True):
    request: LotRequest
    txid: str
    charge_id: int | None


async def find(pool: Connection | Pool, holder_id: int, number: int, *, locks: bool = False) -> ChargeLot | None:
    # The weaker lock: rows that refer to the lot need not wait for it.
    end: LiteralString = "for no key update" if locks else ""
    return await LOT.find(pool, f"where holder_id = $1 and number = $2 {end}", holder_id, number)


async def read_lot_items(pool: Connection | Pool, lot: ChargeLot, *, locks: bool = False) -> list[LotItem]:
    end: LiteralString = "for no key update" if locks else ""
    which: LiteralString = f"where holder_id = $1 and lot_number = $2 order by place {end}"
    return await ITEM.find_all(pool, which, lot.holder_id, lot.number)


_SHOWN: Final[LiteralString] = """
    select lot_item.lot_number, lot_item.txid, lot_item.status, refusal, charge.created_at as made_at
    from unnest($2::bigint[]) as wanted (lot_number)
    join lot_item on lot_item.holder_id = $1 and lot_item.lot_number = wanted.lot_number
    left join charge on charge.id = charge_id and charge.holder_id = lot_item.holder_id
    order by lot_item.lot_number, place
"""


async def read_shown(pool: Pool, holder_id: int, numbers: Sequence[int]) -> dict[int, list[ShownItem]]:
    """Read the items of lots, each with its charge's creation, by the lot's number."""
    found: dict[int, list[ShownItem]] = {number: [] for number in numbers}
    for row in await pool.fetch(_SHOWN, holder_id, numbers):
        shown = ShownItem(
            txid=row["txid"], status=row["status"], refusal=decode_refusal(row["refusal"]), made_at=row["made_at"]
        )
        found[row["lot_number"]].append(shown)
    return found


measure_refusals: Final = Value[int, int, Sequence[int]]("""
    select coalesce(sum(octet_length(refusal)), 0) from lot_item where holder_id = $1 and lot_number = any($2::bigint[])
""")
"""The size in octets of these lots' refusals, without reading them."""

read_page: Final = counted_page(LOT, "number")
"""Read a page, newest first: there is one lot for hundreds of charges."""

find_taken: Final = Column[str, int, Sequence[str]]("""
    select txid from charge where holder_id = $1 and txid = any($2::text[])
    union select txid from lot_item where holder_id = $1 and txid = any($2::text[])
""")
"""Find those of some txids that a charge, or another lot, has already."""

_NEW_ITEM: Final = ITEM.only("place, txid, wanted")
_INSERT: Final[LiteralString] = f"""
    with new_lot as (
        insert into charge_lot ({LOT.names}) values ($1, $2, $3, $4, $5, $6, $7)
    ), new_item as (
        insert into lot_item (holder_id, lot_number, place, txid, status, wanted)
        select $1, $2, place, txid, 'PROCESSING', wanted
        from unnest($8::smallint[], $9::text[], $10::text[]) as each ({_NEW_ITEM.names})
    )
    insert into lot_request ({REQUEST.names})
    select * from unnest(
        $11::bigint[], $12::bigint[], $13::smallint[], $14::integer[], $15::smallint[], $16::text[], $17::text[]
    )
"""


async def insert(connection: Connection, lot: ChargeLot, items: Sequence[LotItem], requests: Sequence[LotRequest]) -> None:
    """Insert a lot, its items and requests in one statement: none exists without the others."""
    await connection.execute(_INSERT, *LOT.values(lot), *_NEW_ITEM.arrays(items), *REQUEST.arrays(requests))


_UPDATE_LOT: Final = LOT.updating(LOT.only("holder_id, number, description, asked_count"))

_ASKED_ITEM: Final = ITEM.only("place, wanted")
# The sent contents are kept until their charge exists: afterwards the charge has them.
_ASK: Final[LiteralString] = f"""
    with new_request as (
        insert into lot_request ({REQUEST.names})
        select * from unnest(
            $4::bigint[], $5::bigint[], $6::smallint[], $7::integer[], $8::smallint[], $9::text[], $10::text[]
        )
    )
    update lot_item set status = 'PROCESSING', refusal = null, wanted = case when charge_id is null then each.wanted end
    from unnest($2::smallint[], $3::text[]) as each ({_ASKED_ITEM.names})
    where lot_item.holder_id = ($4::bigint[])[1] and lot_item.lot_number = $1 and lot_item.place = each.place
"""


async def ask_again(connection: Connection, lot: ChargeLot, items: Sequence[LotItem], requests: Sequence[LotRequest]) -> None:
    """Add a request for each of these items of a lot; they are locked."""
    await _UPDATE_LOT(connection, lot)
    if items:
        await connection.execute(_ASK, lot.number, *_ASKED_ITEM.arrays(items), *REQUEST.arrays(requests))


_WAITING: Final[LiteralString] = """
    select place, count(*), (array_agg(asked order by number desc))[1] as last
    from lot_request where holder_id = $1 and lot_number = $2 group by place
"""


async def read_requests_ahead(connection: Connection, lot: ChargeLot) -> dict[int, tuple[int, str]]:
    """Count the pending requests of each charge, and return the last one's contents, by its place."""
    rows = await connection.fetch(_WAITING, lot.holder_id, lot.number)
    return {row["place"]: (row["count"], row["last"]) for row in rows}


IS_ANY_DUE: Final[LiteralString] = "exists (select from lot_request where slot = any($1::smallint[]))"  # for slots ``$1``

# Place by place across lots: a short lot does not wait for a long one. In each slot only the first are read, by their keys
# alone: requests are long, and a hundred lots may wait. Requests of one charge follow each other, and the first of them is due.
_DUE: Final[LiteralString] = f"""
    with held as (
        select slot from unnest($1::smallint[]) as held (slot)
        where exists (select from lot_request where lot_request.slot = held.slot)
    ), bound as (
        select greatest(16, 2 * $2::bigint / greatest(1, count(*))) + $3::bigint as of_slot from held
    ), due as (
        select distinct on (place, holder_id, lot_number) first.* from bound, held cross join lateral (
            select holder_id, lot_number, place, number from lot_request where lot_request.slot = held.slot
            order by place, holder_id, lot_number, number limit of_slot
        ) as first
        order by place, holder_id, lot_number, number limit $2::bigint + $3::bigint
    )
    select {REQUEST.select}, lot_item.txid, lot_item.charge_id
    from due join lot_request using (holder_id, lot_number, place, number)
    join lot_item using (holder_id, lot_number, place)
    order by lot_request.place, lot_request.holder_id, lot_request.lot_number
"""


async def find_due(pool: Pool, slots: Sequence[int], count_max: int, left_out_count: int) -> list[DueItem]:
    """Find the next request of each charge in these slots; plus as many more as are excluded now."""
    rows = await pool.fetch(_DUE, slots, count_max, left_out_count)
    return [DueItem(request=REQUEST.read(row), txid=row["txid"], charge_id=row["charge_id"]) for row in rows]


# Requests from before a move of the clock are executed at their own time: due dates may pass.
DEADLINES: Final = (Deadline(is_undone="select exists (select from lot_request)"),)

_FIND_UNFINISHED: Final[LiteralString] = (
    "select 'a lot of its charges is being made' from lot_request where holder_id = $1 limit 1"
)
UNFINISHED: Final = (_FIND_UNFINISHED,)

# Locked in this order within the statement: a join by itself would lock in the order of its plan.
_LOCK: Final[LiteralString] = f"""
    with locked as materialized (
        select {ITEM.select} from unnest($1::bigint[], $2::bigint[], $3::smallint[]) as wanted (holder_id, lot_number, place)
        join lot_item using (holder_id, lot_number, place)
        order by lot_item.holder_id, lot_item.lot_number, lot_item.place for no key update of lot_item
    )
    select * from locked
"""
# Queried after the wait, in a new snapshot: requests done by another worker meanwhile are gone.
_WAITING_NUMBERS: Final[LiteralString] = """
    select holder_id, lot_number, place, min(number) as next, count(*)
    from unnest($1::bigint[], $2::bigint[], $3::smallint[]) as wanted (holder_id, lot_number, place)
    join lot_request using (holder_id, lot_number, place) group by 1, 2, 3
"""


class LockedItem(Struct, frozen=True, kw_only=True):
    item: LotItem
    next_number: int  # the number of the pending request
    waiting_count: int


async def lock_items(connection: Connection, keys: Collection[ItemKey]) -> dict[ItemKey, LockedItem]:
    """Lock and return the items with pending requests."""
    arrays = [key.holder_id for key in keys], [key.lot_number for key in keys], [key.place for key in keys]
    items = [ITEM.read(row) for row in await connection.fetch(_LOCK, *arrays)]
    waiting = {
        ItemKey(row["holder_id"], row["lot_number"], row["place"]): (row["next"], row["count"])
        for row in await connection.fetch(_WAITING_NUMBERS, *arrays)
    }
    by_key = [(ItemKey(item.holder_id, item.lot_number, item.place), item) for item in items]
    return {
        key: LockedItem(item=item, next_number=waiting[key][0], waiting_count=waiting[key][1])
        for key, item in by_key
        if key in waiting
    }


# By the request's number: one that came meanwhile stays, and is done next.
_DONE: Final = ITEM.without("txid")
_FINISH: Final[LiteralString] = f"""
    with done as (
        select * from unnest(
            $1::integer[], $2::bigint[], $3::bigint[], $4::smallint[], $5::text[], $6::bigint[], $7::text[], $8::text[]
        ) as done (number, {_DONE.names})
    ), removed as (
        delete from lot_request using done
        where lot_request.holder_id = done.holder_id and lot_request.lot_number = done.lot_number
            and lot_request.place = done.place and lot_request.number = done.number
    )
    update lot_item set status = done.status, charge_id = done.charge_id, wanted = done.wanted, refusal = done.refusal
    from done
    where lot_item.holder_id = done.holder_id and lot_item.lot_number = done.lot_number and lot_item.place = done.place
"""


async def finish(connection: Connection, done: Sequence[tuple[LotItem, int]]) -> None:
    items, numbers = split_pairs(done)
    await connection.execute(_FINISH, numbers, *_DONE.arrays(items))


# A lot's pending request would later undo a change made now through another API.
FIND_HELD: Final[LiteralString] = """
    select txid, holder_id from unnest($1::text[], $2::bigint[]) as wanted (txid, holder_id)
    join lot_item using (txid, holder_id) where status = 'PROCESSING' or charge_id is null
"""


async def find_held(connection: Connection, wanted: Collection[tuple[str, int]]) -> set[tuple[str, int]]:
    """Find those of some txids, with their holders, that only requests of their lot may make or change now."""
    rows = await connection.fetch(FIND_HELD, *split_pairs(wanted))
    return {(row["txid"], row["holder_id"]) for row in rows}


# Searched from its lot, which has at most a thousand.
SEARCHED: Final[LiteralString] = """
    from lot_item join charge on charge.id = lot_item.charge_id and charge.holder_id = lot_item.holder_id
    where lot_item.holder_id = $1 and charge.created_at between $2 and $3 and charge.status = any($4::text[])
        and lot_number = $5 and ($6::text is null or payer_tax_id = $6) and ($7::boolean is null or (is_unbound is null) = $7)
"""
