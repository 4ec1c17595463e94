"""The table of the request names of returns recorded as the institution's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, LiteralString

from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.tables.refund import REFUND
from pixconnect.kernel.tables.table import split_pairs
from pixconnect.platform.pool import Connection, Pool

_INSERT: Final[LiteralString] = """
    insert into return_name (asked_as, transfer_id, holder_id, refund_id) values ($1, $2, $3, $4)
"""


async def insert(connection: Connection, refund: Refund, asked_as: str) -> None:
    """In the transaction that records it."""
    await connection.execute(_INSERT, asked_as, refund.transfer_id, refund.holder_id, refund.id)


_FIND: Final[LiteralString] = f"""
    select asked_as, {REFUND.select}
    from return_name join refund on refund.id = refund_id and refund.holder_id = return_name.holder_id
    where asked_as = any($1) and return_name.holder_id = any($2)
"""


async def find_made(
    connection: Connection | Pool, names: Sequence[str], holder_ids: Sequence[int]
) -> dict[str, Refund]:
    """The refunds recorded under names, by name; each of our names has one request and so one refund."""
    return {row["asked_as"]: REFUND.read(row) for row in await connection.fetch(_FIND, names, holder_ids)}


_KEYS: Final[LiteralString] = """
    select institution_id, naming_key from institution_allowance where institution_id = any($1)
"""


async def read_keys(connection: Connection | Pool, institution_ids: Sequence[int]) -> dict[int, bytes]:
    """The key for our names, by account."""
    return {row["institution_id"]: row["naming_key"] for row in await connection.fetch(_KEYS, institution_ids)}


_KEYS_OF_HOLDERS: Final[LiteralString] = """
    select institution_id, naming_key from institution_allowance join holder using (institution_id) where holder.id = any($1)
"""


async def read_keys_of_holders(pool: Pool, holder_ids: Sequence[int]) -> dict[int, bytes]:
    """The same, of the accounts on which the money of holders lies."""
    return {row["institution_id"]: row["naming_key"] for row in await pool.fetch(_KEYS_OF_HOLDERS, holder_ids)}


_FIND_OF_TRANSFERS: Final[LiteralString] = f"""
    select asked_as, {REFUND.select}
    from unnest($1::bigint[], $2::bigint[]) as wanted (transfer_id, holder_id)
    join refund using (transfer_id, holder_id)
    join return_name on return_name.refund_id = refund.id and return_name.holder_id = refund.holder_id
"""


async def find_of_transfers(
    connection: Connection | Pool, wanted: Collection[tuple[int, int]]
) -> dict[tuple[str, int, int], Refund]:
    """The institution's recorded returns of payments, by request name and payment."""
    rows = await connection.fetch(_FIND_OF_TRANSFERS, *split_pairs(wanted))
    return {(row["asked_as"], row["transfer_id"], row["holder_id"]): REFUND.read(row) for row in rows}
