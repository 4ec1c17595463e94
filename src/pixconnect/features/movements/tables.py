"""The table of movements: the institution's own changes to holders' accounts, by no Pix of this service."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final, LiteralString

from pixconnect.features.movements.rules import Movement
from pixconnect.kernel.tables import lookup
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.lookup import Pairs
from pixconnect.kernel.tables.table import Table, insert_of, split_pairs
from pixconnect.platform.pool import Connection, Pool

MOVEMENT: Final = Table(
    "movement",
    Movement,
    """
    holder_id bigint, item_id text, kind text, direction text, amount_cents bigint, deficit_cents bigint, status text,
    outcome_code text, entry_id bigint, deficit_entry_id bigint, end_to_end_id text, description text,
    network_settled_at timestamptz, created_at timestamptz, opposite_of text
    """,
    key=("holder_id", "item_id"),
)

INSERT: Final = insert_of(MOVEMENT, MOVEMENT, name="movement_row")
MOVEMENTS: Final = Fact(rank=160, inserts=(INSERT,), key=None, sort_key=attrgetter("holder_id", "item_id"))

find_by_item_id: Final = lookup.one_by(MOVEMENT, "item_id")

find_holders: Final = Pairs[str, int, int, Sequence[str]]("""
    select item_id, holder_id from movement where institution_id = $1 and item_id = any($2)
""")
"""The holders of the movements of an account's items."""

_FIND: Final[LiteralString] = f"""
    select {MOVEMENT.select} from unnest($1::bigint[], $2::text[]) as wanted (holder_id, item_id)
    join movement using (holder_id, item_id)
"""


async def find_items(connection: Connection | Pool, wanted: Sequence[tuple[int, str]]) -> dict[tuple[int, str], Movement]:
    """Movements by holder and item."""
    found = map(MOVEMENT.read, await connection.fetch(_FIND, *split_pairs(wanted)))
    return {(movement.holder_id, movement.item_id): movement for movement in found}


_FIND_STANDING: Final[LiteralString] = f"""
    {_FIND} where status = 'POSTED' and not exists (
        select from movement as opposite
        where opposite.holder_id = movement.holder_id and opposite.opposite_of = movement.item_id
    )
"""


async def find_standing(connection: Connection | Pool, wanted: Sequence[tuple[int, str]]) -> dict[tuple[int, str], Movement]:
    """Those of some movements, by holder and item, that moved money and were not taken back."""
    found = map(MOVEMENT.read, await connection.fetch(_FIND_STANDING, *split_pairs(wanted)))
    return {(movement.holder_id, movement.item_id): movement for movement in found}


# One look at each index: names of the network are found by those of transfers and refunds alone.
_FIND_NAMED: Final[LiteralString] = """
    select end_to_end_id as name from transfer where end_to_end_id = any($1)
    union all select network_id from transfer where network_id = any($1)
    union all select return_id from refund where return_id = any($1)
    union all select network_id from refund where network_id = any($1)
"""


async def find_names(connection: Connection, item_ids: Sequence[str]) -> set[str]:
    """Those of the items that are transfers or refunds, by their names on the network."""
    return {row["name"] for row in await connection.fetch(_FIND_NAMED, item_ids)}
