"""The tables of blocks and of their steps."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final, LiteralString

from pixconnect.domain.money.block import Block, BlockStep
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame.fact import Fact
from pixconnect.store.frame.table import Table, of_columns, split_pairs, update_of

BLOCK: Final = Table(
    "block",
    Block,
    """
    id bigint, holder_id bigint, institution_id smallint, kind text, reference text, transfer_id bigint, wanted_cents bigint,
    held_cents bigint, covered_cents bigint, respond_by timestamptz, until timestamptz, source text, state text,
    told_at timestamptz, created_at timestamptz, modified_at timestamptz
    """,
)
INSERT: Final = of_columns(BLOCK, once=(), name="block_row", sql="insert into block ({names}) {rows}")
# The grants let the service change these and nothing else: what a block is for stays as it was told first.
_MOVED: Final = BLOCK.without("institution_id", "kind", "reference", "created_at")
UPDATE: Final = update_of(BLOCK, _MOVED, name="block_change")
BLOCKS: Final = Fact(rank=120, inserts=(INSERT,), updates=(UPDATE,), sort_key=attrgetter("reference"))

BLOCK_STEP: Final = Table(
    "block_step",
    BlockStep,
    "id bigint, holder_id bigint, block_id bigint, kind text, amount_cents bigint, created_at timestamptz, refund_id bigint",
)
APPEND_STEPS: Final = of_columns(
    BLOCK_STEP, once=(), name="block_step_row", sql="insert into block_step ({names}) {rows}"
)
BLOCK_STEPS: Final = Fact(rank=130, inserts=(APPEND_STEPS,), key=None)

# The order in which they are covered.
# As the index ``block_uncovered`` has it.
LIST_UNCOVERED: Final[LiteralString] = f"""
    select {BLOCK.select} from block where holder_id = any($1) and state = 'open' and covered_cents < held_cents
    order by holder_id, created_at, id
"""


async def list_uncovered(connection: Connection, holder_ids: Sequence[int]) -> list[Block]:
    """Blocks of which less is blocked here than at the institution, the oldest of each holder first."""
    return [BLOCK.read(row) for row in await connection.fetch(LIST_UNCOVERED, holder_ids)]


async def list_open(connection: Connection | Pool, holder_ids: Sequence[int]) -> list[Block]:
    """Blocks that have not ended, the oldest of each holder first; their balances are locked by whoever changes them."""
    return await BLOCK.find_all(
        connection, "where holder_id = any($1) and state = 'open' order by holder_id, created_at, id", holder_ids
    )


# As the unique index ``block_reference`` has it: the installation's own rail counts as account 0, since null equals nothing.
_FIND: Final[LiteralString] = f"""
    select {BLOCK.select} from block where reference = any($1) and coalesce(institution_id, 0) = coalesce($2::smallint, 0)
"""


async def find_named(
    connection: Connection | Pool, references: Sequence[str], institution_id: int | None
) -> dict[str, Block]:
    """Blocks by the institution's names of them, whoever has them and whether or not they have ended."""
    rows = await connection.fetch(_FIND, references, institution_id)
    return {block.reference: block for block in map(BLOCK.read, rows)}


# What has ended covers nothing. A name is one account's own, so whose it is stands beside it.
_READ_COVERED: Final[LiteralString] = """
    select holder_id, institution_id, reference, covered_cents from block where reference = any($1)
"""


async def read_covered(pool: Pool, references: Sequence[str]) -> dict[tuple[int, int | None, str], int]:
    """What is blocked here by blocks of these names, by holder, account and name."""
    rows = await pool.fetch(_READ_COVERED, references)
    return {(row["holder_id"], row["institution_id"], row["reference"]): row["covered_cents"] for row in rows}


_FIND_TAKEN_OF: Final[LiteralString] = """
    select refund_id, holder_id, block_id from unnest($1::bigint[], $2::bigint[]) as wanted (refund_id, holder_id)
    join block_step using (refund_id, holder_id)
"""


async def find_taken_of(connection: Connection, refunds: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """The block that each refund, by id and holder, was taken of, if anything was in one."""
    rows = await connection.fetch(_FIND_TAKEN_OF, *split_pairs(refunds))
    return {(row["refund_id"], row["holder_id"]): row["block_id"] for row in rows}
