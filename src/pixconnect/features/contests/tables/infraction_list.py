"""Infractions for people: undecided ones first, by deadline; then ended ones, newest first.

Undecided ones are found by their blocks, which stay open as long: open blocks have an index, so no list reads long-ended
infractions to find one that ends tomorrow.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

from pixconnect.doors.console.wanted import Wanted
from pixconnect.features.contests.rules.block import Block
from pixconnect.features.contests.rules.infraction import Infraction
from pixconnect.features.contests.tables.infraction import BLOCK, INFRACTION
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.tables import listing as listing_store
from pixconnect.kernel.tables.lookup import FindOne
from pixconnect.kernel.tables.refund import REFUND
from pixconnect.kernel.tables.table import fetch_row, split_pairs
from pixconnect.platform.pool import Pool

# $1 holder, or null for all; $2 states; $3 and $4 when it was opened; $5 and $6 amounts; $7 a part of a name.
_ASKED: Final[LiteralString] = """
    ($1::bigint is null or infraction.holder_id + 0 = $1) and infraction.state = any($2::text[])
    and opened_at between $3 and $4
    and amount_cents between coalesce($5::bigint, 0) and coalesce($6::bigint, 9223372036854775807)
    and ($7::text is null or strpos(lower(concat_ws(' ', name, end_to_end_id, txid, charge_external_id)), lower($7)) > 0)
"""
_UNDER_BLOCK: Final[LiteralString] = """
    (
        select infraction.* from block join infraction on infraction.name = block.reference
            and infraction.holder_id = block.holder_id
            and coalesce(infraction.institution_id, 0) = coalesce(block.institution_id, 0)
        where block.state = 'open' and block.kind = 'med'
    ) as infraction
"""
_UNDECIDED: Final[LiteralString] = f"""
    select {INFRACTION.select} from {_UNDER_BLOCK} where state in ('open', 'answered') and {_ASKED}
        and (respond_by, id) > ($8, $9::bigint)
    order by respond_by, id limit $10
"""
# By ids, as in all lists without an index of their own: the highest are the newest.
_DECIDED: Final[LiteralString] = f"""
    where state in ('taken', 'released') and {_ASKED} and id < $8
    order by id desc limit $9
"""


def _asked(holder_id: int | None, states: Sequence[str], wanted: Wanted) -> tuple[Any, ...]:
    oldest, newest = listing_store.bounds(wanted.initial_at, wanted.final_at)
    amounts = wanted.amount_min_cents, wanted.amount_max_cents
    return (holder_id, list(states), oldest, newest, *amounts, wanted.name_part)


async def list_undecided(
    pool: Pool,
    holder_id: int | None,
    states: Sequence[str],
    wanted: Wanted,
    after: tuple[datetime, int],
    count_max: int,
) -> list[Infraction]:
    """List undecided infractions, after a deadline and an id."""
    rows = await pool.fetch(_UNDECIDED, *_asked(holder_id, states, wanted), *after, count_max)
    return [INFRACTION.read(row) for row in rows]


async def list_decided(
    pool: Pool, holder_id: int | None, states: Sequence[str], wanted: Wanted, before_id: int, count_max: int
) -> list[Infraction]:
    return await INFRACTION.find_all(pool, _DECIDED, *_asked(holder_id, states, wanted), before_id, count_max)


# An answer that the institution refused counts as none: another may be given.
_UNANSWERED: Final[LiteralString] = f"""
    select count(*) as count, min(respond_by) as first_ends_at from {_UNDER_BLOCK}
    where state = 'open' and ($1::bigint is null or holder_id + 0 = $1) and respond_by > $2
        and (defence is null or defence_state = 'refused')
"""


async def count_unanswered(pool: Pool, holder_id: int | None, now: datetime) -> tuple[int, datetime | None]:
    """Count infractions that can be answered and have no answer, with the first deadline."""
    row = await fetch_row(pool, _UNANSWERED, holder_id, now)
    return row["count"], row["first_ends_at"]


find: Final = FindOne[Infraction, int, int | None](INFRACTION, "where id = $1 and ($2::bigint is null or holder_id = $2)")

_OF_TRANSFERS: Final[LiteralString] = """
    where (transfer_id, holder_id) in (select * from unnest($1::bigint[], $2::bigint[])) order by id
"""


async def find_of_transfers(pool: Pool, transfers: Sequence[tuple[int, int]]) -> list[Infraction]:
    """Find infractions of some Pix, given by id and holder, in order of first report."""
    return await INFRACTION.find_all(pool, _OF_TRANSFERS, *split_pairs(transfers)) if transfers else []


_REFUNDS: Final[LiteralString] = """
    where (id, holder_id) in (
        select refund_id, holder_id from infraction_return where infraction_id = $1 and holder_id = $2
    ) order by id
"""


async def find_given_back(pool: Pool, infraction: Infraction) -> list[Refund]:
    return await REFUND.find_all(pool, _REFUNDS, infraction.id, infraction.holder_id)


_BLOCKS: Final[LiteralString] = """
    where state = 'open' and ($1::bigint is null or holder_id = $1)
        and kind = any($2::text[]) and (holder_id, created_at, id) > ($3, $4, $5::bigint)
    order by holder_id, created_at, id limit $6
"""


async def page_blocks(
    pool: Pool, holder_id: int | None, kinds: Sequence[str], after: tuple[int, datetime, int], count_max: int
) -> list[Block]:
    """List open blocks, holder by holder, each one's oldest first."""
    return await BLOCK.find_all(pool, _BLOCKS, holder_id, list(kinds), *after, count_max)
