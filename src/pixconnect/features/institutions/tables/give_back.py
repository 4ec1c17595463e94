"""The table of automatic returns of accounts, and the list of credits that pay no charge."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from pixconnect.features.institutions.rules.returned_line import GiveBack, UnmatchedCredit
from pixconnect.kernel.tables.table import Table
from pixconnect.platform.pool import Connection, Pool

GIVE_BACK: Final = Table(
    "give_back",
    GiveBack,
    """
    transfer_id bigint, holder_id bigint, institution_id smallint, state text, reason text, due_at timestamptz,
    created_at timestamptz
    """,
    key=("transfer_id", "holder_id"),
)


async def find_due(pool: Pool, institution_id: int, now: datetime, count_max: int) -> list[GiveBack]:
    which: LiteralString = "where institution_id = $1 and state = 'waiting' and due_at <= $2 order by due_at limit $3"
    return await GIVE_BACK.find_all(pool, which, institution_id, now, count_max)


# Only from *waiting*: if two check one payment, the first records how it ended.
_MOVE: Final[LiteralString] = """
    update give_back set state = $3, reason = $4, due_at = $5 where transfer_id = $1 and holder_id = $2 and state = 'waiting'
"""


async def move(pool: Pool, after: GiveBack) -> None:
    """Record how it ended, or its next try; ended ones stay."""
    await pool.execute(_MOVE, after.transfer_id, after.holder_id, after.state, after.reason, after.due_at)


_STANDING: Final[LiteralString] = """
    where institution_id = $1 and state = 'waiting' and reason is not null and created_at <= $2 order by created_at limit $3
"""


async def list_standing(
    connection: Connection | Pool, institution_id: int, since: datetime, count_max: int
) -> list[GiveBack]:
    """List an account's failed automatic returns since an instant, oldest first."""
    return await GIVE_BACK.find_all(connection, _STANDING, institution_id, since, count_max)


_LIST_WITHOUT_CHARGE: Final[LiteralString] = """
    select transfer.id as transfer_id, transfer.holder_id, end_to_end_id, txid, amount_cents, returned_cents, returning_cents,
        coalesce(network_settled_at, settled_at) as settled_at, give_back.state as given_back, give_back.reason
    from transfer left join give_back on give_back.transfer_id = transfer.id and give_back.holder_id = transfer.holder_id
    where transfer.institution_id = $1 and direction = 'IN' and charge_id is null and settled_at is not null
        and network_settled_at >= $2
    order by network_settled_at desc limit $3
"""


async def list_without_charge(
    connection: Connection | Pool, institution_id: int, since: datetime, count_max: int
) -> Sequence[UnmatchedCredit]:
    """List an account's credits since then without a charge, newest first."""
    return [
        UnmatchedCredit(**row) for row in await connection.fetch(_LIST_WITHOUT_CHARGE, institution_id, since, count_max)
    ]
