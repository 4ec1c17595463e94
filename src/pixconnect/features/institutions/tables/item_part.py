"""Which transfers and refunds are lines of a statement, and which lines are sums of transfers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date
from typing import Final, LiteralString

from pixconnect.features.institutions.rules.joining import PIX, ItemJoin, LineKey
from pixconnect.features.institutions.rules.sum_line import read_form
from pixconnect.platform.pool import Connection

_ADD_PART: Final[LiteralString] = """
    insert into institution_item_part (institution_id, item_id, transfer_id) values ($1, $2, $3)
"""


async def add_parts(connection: Connection, institution_id: int, joins: Sequence[ItemJoin]) -> None:
    """Record the parts of sums, in the transaction that joins them."""
    rows = [(institution_id, one.item_id, int(name)) for one in joins for _, name in one.parts]
    if rows:
        await connection.executemany(_ADD_PART, rows)


_RELEASE_OUTDONE: Final[LiteralString] = """
    update institution_item as item set joined_kind = null, joined_id = null, joined_by = null
    from unnest($2::date[], $3::text[], $4::bigint[]) as pix (day, direction, amount_cents)
    where item.institution_id = $1 and item.day = pix.day and item.direction = pix.direction
        and item.amount_cents = pix.amount_cents and item.joined_by in ('amount', 'alike', 'near') and item.kind <> all($5)
        and item.end_to_end_id is null and item.return_id is null
    returning item.item_id
"""


async def release_outdone(
    connection: Connection, institution_id: int, looks: Collection[tuple[date, str, int]]
) -> Sequence[str]:
    """Detach items not called a Pix from our lines that fit other items better (``joining.list_looks``)."""
    rows = await connection.fetch(_RELEASE_OUTDONE, institution_id, *map(list, zip(*looks, strict=True)), list(PIX))
    return [row["item_id"] for row in rows]


_LIST_TEXTS: Final[LiteralString] = """
    select distinct text from institution_item where institution_id = $1 and joined_kind = 'sum'
"""


async def list_sum_forms(connection: Connection, institution_id: int) -> frozenset[str]:
    """The forms of the texts of sums that were joined on the account."""
    return frozenset(read_form(row["text"]) for row in await connection.fetch(_LIST_TEXTS, institution_id))


_FIND_JOINED: Final[LiteralString] = """
    select item.* from unnest($2::text[], $3::text[]) as wanted (kind, id)
    cross join lateral (
        select joined_kind, joined_id, joined_by, item_id, is_reversal from institution_item
        where institution_id = $1 and joined_kind = wanted.kind and joined_id = wanted.id
        union all
        select 'transfer', wanted.id, 'name', item_id, false from institution_item_part
        where institution_id = $1 and transfer_id = case wanted.kind when 'transfer' then wanted.id::bigint end
        offset 0
    ) as item
"""


async def find_joined(
    connection: Connection, institution_id: int, keys: Sequence[LineKey]
) -> tuple[set[LineKey], set[LineKey], dict[LineKey, str]]:
    """Our lines joined to an item, those joined to a reversal too, and items joined by resemblance only."""
    kinds, ids = [kind for kind, _ in keys], [str(name) for _, name in keys]
    rows = await connection.fetch(_FIND_JOINED, institution_id, kinds, ids)
    debited: set[LineKey] = {(row["joined_kind"], row["joined_id"]) for row in rows if not row["is_reversal"]}
    reversed_: set[LineKey] = {(row["joined_kind"], row["joined_id"]) for row in rows if row["is_reversal"]}
    alike = {(row["joined_kind"], row["joined_id"]): row["item_id"] for row in rows if row["joined_by"] != "name"}
    return debited, reversed_, alike
