"""The table of movements: the institution's own changes to holders' accounts, by no Pix of this service."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import Final, LiteralString

from pixconnect.features.movements.blocks import Block, BlockStep
from pixconnect.features.movements.rules import Movement
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import lookup
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.lookup import FindAll, FindBy, Pairs, ReadAll, Tuples
from pixconnect.kernel.tables.table import Table, insert_of, split_pairs, update_of
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

IS_KEPT: Final[LiteralString] = """not exists (
    select from movement as opposite
    where opposite.holder_id = movement.holder_id and opposite.opposite_of = movement.item_id
)"""
"""Of a movement: nothing has taken it back."""

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


_FIND_STANDING: Final[LiteralString] = f"{_FIND} where status = 'POSTED' and {IS_KEPT}"


async def find_standing(connection: Connection | Pool, wanted: Sequence[tuple[int, str]]) -> dict[tuple[int, str], Movement]:
    """Those of some movements, by holder and item, that moved money and were not taken back."""
    found = map(MOVEMENT.read, await connection.fetch(_FIND_STANDING, *split_pairs(wanted)))
    return {(movement.holder_id, movement.item_id): movement for movement in found}


# One look at each index: names of the network are found by those of transfers and refunds alone.
_FIND_NAMED: Final[LiteralString] = """
    select end_to_end_id as name from transfer where end_to_end_id = any($1)
        and not (end_to_end_id = any($2) and direction = 'IN' and coalesce(institution_id <> $3, false))
    union all select network_id from transfer where network_id = any($1)
    union all select return_id from refund where return_id = any($1)
    union all select network_id from refund where network_id = any($1)
"""


async def find_names(
    connection: Connection, item_ids: Sequence[str], debited: Sequence[str] = (), institution_id: int | None = None
) -> set[str]:
    """Those of the items that are transfers or refunds, by their names on the network.

    Args:
        debited: Of them those of an account's outgoing lines: they do not mean a Pix that came in at another account.
    """
    return {row["name"] for row in await connection.fetch(_FIND_NAMED, item_ids, debited, institution_id)}


BLOCK: Final = Table(
    "block",
    Block,
    """
    id bigint, holder_id bigint, institution_id smallint, kind text, reference text, transfer_id bigint, line_id text,
    wanted_cents bigint, held_cents bigint, covered_cents bigint, respond_by timestamptz, until timestamptz, source text,
    state text, reported_at timestamptz, created_at timestamptz, modified_at timestamptz
    """,
)
INSERT_BLOCK: Final = insert_of(BLOCK, BLOCK, name="block_row")
# The grants permit the service to change these only: the subject of a block never changes.
_MOVED_BLOCK: Final = BLOCK.without("institution_id", "kind", "reference", "line_id", "created_at")
UPDATE_BLOCK: Final = update_of(BLOCK, _MOVED_BLOCK, name="block_change")
BLOCKS: Final = Fact(
    rank=120, inserts=(INSERT_BLOCK,), updates=(UPDATE_BLOCK,), may_move_new=True, sort_key=attrgetter("reference")
)

BLOCK_STEP: Final = Table(
    "block_step",
    BlockStep,
    """
    id bigint, holder_id bigint, block_id bigint, kind text, amount_cents bigint, created_at timestamptz, refund_id bigint,
    reported_at timestamptz
    """,
)
APPEND_STEPS: Final = insert_of(BLOCK_STEP, BLOCK_STEP, name="block_step_row")
BLOCK_STEPS: Final = Fact(rank=130, inserts=(APPEND_STEPS,), key=None)

# The order in which they are covered, that of the index ``block_uncovered``.
LIST_UNCOVERED: Final[LiteralString] = f"""
    select {BLOCK.select} from block where holder_id = any($1) and state = 'open' and covered_cents < held_cents
    order by holder_id, created_at, id
"""

list_uncovered_blocks: Final = ReadAll[Block, Sequence[int]](BLOCK, LIST_UNCOVERED)
"""List blocks that cover less than the institution has blocked, each holder's oldest first."""

list_open_blocks: Final = FindAll[Block, Sequence[int]](
    BLOCK, "where holder_id = any($1) and state = 'open' order by holder_id, created_at, id"
)

# As the unique index ``block_reference`` has it: the installation's own rail counts as account 0, since null equals nothing.
find_blocks: Final = FindBy[str, Block, Sequence[str], int | None](
    BLOCK, "reference", "where reference = any($1) and coalesce(institution_id, 0) = coalesce($2::smallint, 0)"
)
"""Find blocks by the institution's names, of any holder, including ended ones."""

IS_CONTESTED: Final[LiteralString] = """(infraction.state in ('open', 'answered') or infraction.state = 'taken' and exists (
    select from block where block.reference = infraction.name and block.state || '' = 'open'
        and coalesce(block.institution_id, 0) = coalesce(infraction.institution_id, 0)
))"""
"""Of an infraction: it is undecided, or its institution has taken a part and claims the rest."""


async def find_hold(pool: Pool, transfer: Transfer) -> Block | None:
    """Find the open block of a suspect payment, which has the name of its Pix."""
    block = (await find_blocks(pool, [transfer.end_to_end_id], transfer.institution_id)).get(transfer.end_to_end_id)
    return block if block is not None and block.kind == "precautionary" and block.state == "open" else None


# Ended blocks cover nothing. A name is unique per account, so its holder is read with it.
_READ_COVERED: Final[LiteralString] = """
    select holder_id, institution_id, reference, covered_cents from block where reference = any($1)
"""


async def read_covered(pool: Pool, references: Sequence[str]) -> dict[tuple[int, int | None, str], int]:
    """Read the covered sums of blocks with these names, by holder, account and name."""
    rows = await pool.fetch(_READ_COVERED, references)
    return {(row["holder_id"], row["institution_id"], row["reference"]): row["covered_cents"] for row in rows}


find_taken_of: Final = Tuples[tuple[int, int, int], Sequence[int], Sequence[int]]("""
    select refund_id, holder_id, block_id from unnest($1::bigint[], $2::bigint[]) as wanted (refund_id, holder_id)
    join block_step using (refund_id, holder_id)
""")
"""Find the block that each refund, by id and holder, was taken from, if any."""

page_blocks: Final = FindAll[Block, int | None, Sequence[str], int, datetime, int, int](
    BLOCK,
    """
    where state = 'open' and ($1::bigint is null or holder_id = $1)
        and kind = any($2::text[]) and (holder_id, created_at, id) > ($3, $4, $5::bigint)
    order by holder_id, created_at, id limit $6
    """,
)
"""List open blocks, holder by holder, each one's oldest first."""

_FIND_OPEN_NAMES: Final[LiteralString] = """
    select coalesce(institution_id, 0) as institution_id, name from infraction
    where name = any($1) and state in ('open', 'answered')
"""


async def find_open_names(connection: Connection, names: Sequence[str]) -> set[tuple[int | None, str]]:
    """Find those of some names with an undecided infraction, by account."""
    rows = await connection.fetch(_FIND_OPEN_NAMES, names) if names else []
    return {(row["institution_id"] or None, row["name"]) for row in rows}
