"""The table of locations. A row changes only under the lock of the charge that it has or gets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, LiteralString

from pixconnect.domain.frame.listing import Page, Span
from pixconnect.domain.standard.location import Location, LocationStatus
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame import listing as listing_store
from pixconnect.store.frame.part import Part, of_columns
from pixconnect.store.frame.table import Table, split_pairs

LOCATION: Final = Table(
    "location",
    Location,
    "id bigint, holder_id bigint, token text, status text, charge_id bigint, created_at timestamptz",
)

INSERT: Final = of_columns(
    LOCATION,
    once=[("status", "created_at", "holder_id"), ("status", "created_at")],
    name="location_row",
    sql="insert into location ({names}) {rows}",
)

_MOVED: Final = LOCATION.only("id", "holder_id", "status", "charge_id")
UPDATE: Final = Part[Location](
    name="location_change",
    sql=f"""
        update location set {_MOVED.assignments} from unnest({_MOVED.array_parameters}) as new ({_MOVED.names})
        where location.id = new.id and location.holder_id = new.holder_id
        returning 1
    """,
    returns="each row",
    arguments=_MOVED.arrays,
)

_FIND_BY_ID: Final[LiteralString] = f"select {LOCATION.select} from location where id = $1 and holder_id = $2"


async def find_by_id(pool: Pool | Connection, holder_id: int, location_id: int) -> Location | None:
    return LOCATION.read_found(await pool.fetchrow(_FIND_BY_ID, location_id, holder_id))


_FIND_OF_CHARGES: Final[LiteralString] = f"""
    select {LOCATION.select} from unnest($1::bigint[], $2::bigint[]) as wanted (charge_id, holder_id)
    join location using (charge_id, holder_id)
"""


async def find_of_charges(
    connection: Connection | Pool, wanted: Collection[tuple[int, int]]
) -> dict[tuple[int, int], Location]:
    """The locations that charges have, by the charge's id and holder."""
    rows = await connection.fetch(_FIND_OF_CHARGES, *split_pairs(wanted))
    return {(row["charge_id"], row["holder_id"]): LOCATION.read(row) for row in rows}


_FIND: Final[LiteralString] = f"""
    select {LOCATION.select} from unnest($1::bigint[], $2::bigint[]) as wanted (id, holder_id)
    join location using (id, holder_id)
"""


async def find(connection: Connection, wanted: Collection[tuple[int, int]]) -> dict[tuple[int, int], Location]:
    """Locations by id and holder, not locked."""
    rows = await connection.fetch(_FIND, *split_pairs(wanted))
    return {(row["id"], row["holder_id"]): LOCATION.read(row) for row in rows}


_LOCK: Final[LiteralString] = f"""
    select {LOCATION.select} from unnest($1::bigint[], $2::bigint[]) as wanted (id, holder_id)
    join location using (id, holder_id) order by location.id for no key update of location
"""


async def lock(connection: Connection, wanted: Collection[tuple[int, int]]) -> dict[tuple[int, int], Location]:
    """Lock locations by id and holder, after the charges that they are given to or taken from."""
    rows = await connection.fetch(_LOCK, *split_pairs(wanted))
    return {(row["id"], row["holder_id"]): LOCATION.read(row) for row in rows}


_LIST: Final = listing_store.source_of_statuses("location", LOCATION.select)


async def read_page(pool: Pool, holder_id: int, statuses: Sequence[LocationStatus], span: Span) -> Page[Location]:
    page = await listing_store.read_page(pool, _LIST, holder_id, statuses, span)
    return page.with_items([LOCATION.read(row) for row in page.items])
