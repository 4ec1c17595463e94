"""The tables of infractions, of blocks and of their steps."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final, LiteralString

from pixconnect.features.contests.rules.block import Block, BlockStep
from pixconnect.features.contests.rules.infraction import Infraction, InfractionReturn
from pixconnect.kernel.rules.block_report import InfractionState
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.tables import listing as listing_store
from pixconnect.kernel.tables import lookup
from pixconnect.kernel.tables.clock import Deadline
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.lookup import Command, FindAll, FindOne, Value
from pixconnect.kernel.tables.table import Table, fetch_row, insert_of, split_pairs, update_of
from pixconnect.platform.pool import Connection, Pool

INFRACTION: Final = Table(
    "infraction",
    Infraction,
    """
    id bigint, holder_id bigint, institution_id smallint, name text, transfer_id bigint, end_to_end_id text, charge_id bigint,
    txid text, charge_external_id text, amount_cents bigint, taken_cents bigint, reason text, situation text, words text,
    state text, opened_at timestamptz, respond_by timestamptz, reported_at timestamptz, defence text, defended_at timestamptz,
    defence_state text, defence_refusal text, send_at timestamptz, remind_at timestamptz, slot smallint,
    created_at timestamptz, modified_at timestamptz
    """,
)
INSERT: Final = insert_of(INFRACTION, INFRACTION, name="infraction_row")
_MOVED: Final = INFRACTION.only(
    "id, holder_id, taken_cents, state, respond_by, reported_at, defence, defended_at, defence_state, defence_refusal",
    "send_at, remind_at, modified_at",
)
UPDATE: Final = update_of(INFRACTION, _MOVED, name="infraction_change")
INFRACTIONS: Final = Fact(rank=140, inserts=(INSERT,), updates=(UPDATE,), may_move_new=True, sort_key=attrgetter("name"))
# Written with the institution's refund, in one statement.
INFRACTION_RETURN: Final = Table(
    "infraction_return",
    InfractionReturn,
    "refund_id bigint, holder_id bigint, infraction_id bigint",
    key=("refund_id", "holder_id"),
)
INSERT_RETURNS: Final = insert_of(INFRACTION_RETURN, INFRACTION_RETURN, name="infraction_return_row")
INFRACTION_RETURNS: Final = Fact(rank=150, inserts=(INSERT_RETURNS,), key=None)

find_by_id: Final = lookup.one_by(INFRACTION, "id")
# Taken after the balances of their holders.
lock_by_id: Final = lookup.by_pairs(INFRACTION, "id", locks=True)


async def move(connection: Connection, infraction: Infraction) -> None:
    """Change one outside of batches; the caller has locked it."""
    await INFRACTION.update(connection, _MOVED, infraction)


_FIND_NAMED: Final[LiteralString] = """
    where name = any($1) and coalesce(institution_id, 0) = coalesce($2::smallint, 0) order by id, holder_id
    for no key update
"""


async def lock_named(
    connection: Connection, names: Sequence[str], institution_id: int | None
) -> dict[tuple[int | None, str], Infraction]:
    """Lock infractions by account and the institution's names; after the balances of their holders."""
    found = await INFRACTION.find_all(connection, _FIND_NAMED, names, institution_id)
    return {(institution_id, each.name): each for each in found}


find_named: Final = FindOne[Infraction, str, int | None](
    INFRACTION, "where name = $1 and coalesce(institution_id, 0) = coalesce($2::smallint, 0)"
)

_FIND_CONTESTED: Final[LiteralString] = """
    select transfer_id, holder_id from unnest($1::bigint[], $2::bigint[]) as wanted (transfer_id, holder_id)
    where exists (
        select from infraction where infraction.transfer_id = wanted.transfer_id
            and infraction.holder_id = wanted.holder_id and state in ('open', 'answered')
    )
"""


async def find_contested(connection: Connection | Pool, transfers: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    """Find those of some Pix, by id and holder, with an undecided contest."""
    rows = await connection.fetch(_FIND_CONTESTED, *split_pairs(transfers))
    return {(row["transfer_id"], row["holder_id"]) for row in rows}


_IS_DUE: Final[LiteralString] = """
    slot = any($1::smallint[]) and least(send_at, remind_at) <= $2::timestamptz and (institution_id is null or remind_at <= $2)
"""
IS_ANY_DUE: Final[LiteralString] = f"exists (select from infraction where {_IS_DUE})"
"""For slots ``$1`` at ``$2``."""

find_due: Final = FindAll[Infraction, Sequence[int], datetime, int](
    INFRACTION, f"where {_IS_DUE} order by least(send_at, remind_at), id limit $3"
)
"""Find those with an answer to send over the installation's own rail, or with a reminder due."""
find_unsent_of_account: Final = FindAll[Infraction, int, datetime, int](
    INFRACTION,
    "where least(send_at, remind_at) <= $2 and institution_id = $1 and send_at <= $2 order by send_at, id limit $3",
)
"""Find those whose answer is to be sent over an account by an instant."""

# No holder has so many that counting them would take long.
_LISTED: Final[LiteralString] = """
    from infraction where holder_id + 0 = $1 and created_at between $2 and $3 and ($4::text is null or state = $4)
"""
_PAGE: Final[LiteralString] = f"""
    select {INFRACTION.select} {_LISTED} and ($5::timestamptz is null or (created_at, id) < ($5, $6::bigint))
    order by created_at desc, id desc offset $7 limit $8
"""
_COUNT: Final[LiteralString] = f"select count(*) {_LISTED}"


async def read_page(pool: Pool, holder_id: int, state: InfractionState | None, span: Span) -> Page[Infraction]:
    """Read a page of a holder's infractions, of one state or of all, newest first."""
    listed = (holder_id, *listing_store.bounds(span.initial_at, span.final_at), state)
    after = (None, None, span.position) if span.after is None else (span.after.created_at, span.after.id, 0)
    rows = await pool.fetch(_PAGE, *listed, *after, span.page_size + 1)
    total_count = span.after.total_count if span.after else (await fetch_row(pool, _COUNT, *listed))["count"]
    has_more = len(rows) > span.page_size
    page = listing_store.make_page(span, rows[: span.page_size], total_count, has_more=has_more)
    return page.with_items([INFRACTION.read(row) for row in page.items])


_FIND_OPEN_NAMES: Final[LiteralString] = """
    select coalesce(institution_id, 0) as institution_id, name from infraction
    where name = any($1) and state in ('open', 'answered')
"""


async def find_open_names(connection: Connection, names: Sequence[str]) -> set[tuple[int | None, str]]:
    """Find those of some names with an undecided infraction, by account."""
    rows = await connection.fetch(_FIND_OPEN_NAMES, names) if names else []
    return {(row["institution_id"] or None, row["name"]) for row in rows}


is_of_holder: Final = Value[bool, int, str](
    "select exists (select from infraction where name = $2 and holder_id = $1 and institution_id is null)"
)
"""Whether a holder has an infraction of this name, over the installation's own rail."""

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
    "id bigint, holder_id bigint, block_id bigint, kind text, amount_cents bigint, created_at timestamptz, refund_id bigint",
)
APPEND_STEPS: Final = insert_of(BLOCK_STEP, BLOCK_STEP, name="block_step_row")
BLOCK_STEPS: Final = Fact(rank=130, inserts=(APPEND_STEPS,), key=None)

# The order in which they are covered, that of the index ``block_uncovered``.
LIST_UNCOVERED: Final[LiteralString] = f"""
    select {BLOCK.select} from block where holder_id = any($1) and state = 'open' and covered_cents < held_cents
    order by holder_id, created_at, id
"""


async def list_uncovered_blocks(connection: Connection | Pool, holder_ids: Sequence[int]) -> list[Block]:
    """List blocks that cover less than the institution has blocked, each holder's oldest first."""
    return [BLOCK.read(row) for row in await connection.fetch(LIST_UNCOVERED, holder_ids)]


list_open_blocks: Final = FindAll[Block, Sequence[int]](
    BLOCK, "where holder_id = any($1) and state = 'open' order by holder_id, created_at, id"
)

# As the unique index ``block_reference`` has it: the installation's own rail counts as account 0, since null equals nothing.
_FIND: Final[LiteralString] = """
    where reference = any($1) and coalesce(institution_id, 0) = coalesce($2::smallint, 0)
"""


async def find_blocks(connection: Connection | Pool, references: Sequence[str], institution_id: int | None) -> dict[str, Block]:
    """Find blocks by the institution's names, of any holder, including ended ones."""
    return {block.reference: block for block in await BLOCK.find_all(connection, _FIND, references, institution_id)}


# Ended blocks cover nothing. A name is unique per account, so its holder is read with it.
_READ_COVERED: Final[LiteralString] = """
    select holder_id, institution_id, reference, covered_cents from block where reference = any($1)
"""


async def read_covered(pool: Pool, references: Sequence[str]) -> dict[tuple[int, int | None, str], int]:
    """Read the covered sums of blocks with these names, by holder, account and name."""
    rows = await pool.fetch(_READ_COVERED, references)
    return {(row["holder_id"], row["institution_id"], row["reference"]): row["covered_cents"] for row in rows}


_FIND_TAKEN_OF: Final[LiteralString] = """
    select refund_id, holder_id, block_id from unnest($1::bigint[], $2::bigint[]) as wanted (refund_id, holder_id)
    join block_step using (refund_id, holder_id)
"""


async def find_taken_of(connection: Connection, refunds: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Find the block that each refund, by id and holder, was taken from, if any."""
    rows = await connection.fetch(_FIND_TAKEN_OF, *split_pairs(refunds))
    return {(row["refund_id"], row["holder_id"]): row["block_id"] for row in rows}


_move_back: Final = Command[datetime, timedelta]("""
    update infraction set send_at = send_at - $2::interval, remind_at = remind_at - $2::interval,
        respond_by = respond_by - $2::interval
    where created_at > $1 and least(send_at, remind_at) is not null
""")

DEADLINES: Final = (
    Deadline(
        first="select min(least(send_at, remind_at)) from infraction where least(send_at, remind_at) is not null",
        last="select max(least(send_at, remind_at)) from infraction where least(send_at, remind_at) <= $1",
        move_back=_move_back,
    ),
)
