"""The table of locations. A row changes only under the lock of the charge that it has or gets."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from pixconnect.kernel.rules.location import Location
from pixconnect.kernel.tables import listing as listing_store
from pixconnect.kernel.tables import lookup, tally
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.table import Table, of_columns, update_of

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
UPDATE: Final = update_of(LOCATION, _MOVED, name="location_change")
LOCATIONS: Final = Fact(
    rank=30,
    inserts=(INSERT,),
    updates=(UPDATE,),
    may_move_new=True,
    sort_key=attrgetter("token"),
    follow=tally.count("location"),
)

find_by_id: Final = lookup.one_by(LOCATION, "id")
find_of_charges: Final = lookup.by_pairs(LOCATION, "charge_id")
find: Final = lookup.by_pairs(LOCATION, "id")
# Locked after the charges that get or lose them.
lock: Final = lookup.by_pairs(LOCATION, "id", locks=True)
read_page: Final = lookup.page_of(LOCATION, listing_store.source_of_statuses("location", LOCATION.select))
