"""The table of lines that move money between an account and its own investment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, LiteralString

from pixconnect.platform.pool import Connection, Pool

POSITION: Final[LiteralString] = """
    select coalesce(sum(case direction when 'OUT' then principal_cents else -principal_cents end), 0)::bigint
    from own_investment where institution_id = $1
"""
_ADD: Final[LiteralString] = """
    insert into own_investment (institution_id, item_id, direction, principal_cents)
    select institution_id, item_id, direction, wanted.cents from unnest($2::text[], $3::bigint[]) as wanted (id, cents)
    join institution_item on institution_id = $1 and item_id = wanted.id and joined_kind = 'investment'
    on conflict do nothing
"""


async def read_position(connection: Connection | Pool, institution_id: int) -> int:
    """The invested sum of an account, in cents."""
    return await connection.fetchval(POSITION, institution_id)


async def add(connection: Connection, institution_id: int, principals: Mapping[str, int]) -> None:
    """Record the invested part of joined lines, in the transaction that joins them."""
    await connection.execute(_ADD, institution_id, list(principals), list(principals.values()))
