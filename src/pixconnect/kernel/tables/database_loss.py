"""Detected losses of the database: open orders count as handed over, and operators are notified."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.kernel.tables.lookup import Command, ReadAll
from pixconnect.platform.base.database_server import DatabaseServer
from pixconnect.platform.pool import Connection

# A queried order is never given up nor sent as if it were new, and no late answer removes its mark.
_COUNT_AS_HANDED: Final[LiteralString] = """
    update open_order set handed_at = coalesce(handed_at, now_at), asked_count = greatest(asked_count, 1),
        due_at = least(due_at, now_at),
        -- The lost data may include an approval: no second one can be given.
        approval = case approval when 'awaited' then 'refused' else approval end
    from (select clock_timestamp() + offset_us * interval '1 microsecond' as now_at from clock) as clock
    where $1 or institution_id is not null
"""
_MARKING_TIMEOUT_S: Final = 600


async def count_orders_as_handed(connection: Connection, *, has_rail: bool) -> int:
    """Mark every open order as handed to its rail, so that workers query it at once; returns their number.

    Args:
        has_rail: Without a rail of the installation, only orders over accounts at institutions can have been sent.
    """
    tag = await connection.execute(_COUNT_AS_HANDED, has_rail, timeout=_MARKING_TIMEOUT_S)
    return int(tag.rpartition(" ")[2])


class Loss(Struct, frozen=True, kw_only=True):
    """The evidence by which a process detected a loss of the database."""

    id: int
    noticed_at: datetime
    reason: str
    orders_count: int  # open orders that count as handed over since
    # Accounts at institutions that it paused, until the lost facts of each are in the books again.
    accounts_count: int
    known_until: datetime | None = None  # when the service last recorded its highest ids: later facts may be lost


_INSERT_LOSS: Final[LiteralString] = """
    insert into database_loss (reason, system_identifier, started_at, timeline_before, position_before, orders_count)
    values ($1, $2, $3, $4, $5, $6) returning accounts_count
"""


async def insert_loss(
    connection: Connection, reason: str, found: DatabaseServer, behind: DatabaseServer | None, orders_count: int
) -> int:
    """Record a loss, which pauses all accounts at institutions (trigger ``pause_accounts``); return their number.

    Args:
        connection: In a transaction.
        found: The server's present state.
        behind: The recorded state of this or another server, if the present one is older.
    """
    same = behind if behind is not None and behind.place == found.place else None
    return await connection.fetchval(
        _INSERT_LOSS,
        reason,
        found.system_identifier,
        found.started_at,
        None if same is None else same.timeline,
        None if same is None else same.position,
        orders_count,
    )


# A process that has the server's state after that start has seen the remaining data, and more is missing now.
_IS_KNOWN: Final[LiteralString] = """
    select exists (
        select from database_loss
        where system_identifier = $1 and (timeline_before, position_before) >= ($2, $3) and started_at > $4
    )
"""


async def is_known_to_be_behind(connection: Connection, before: DatabaseServer) -> bool:
    """Whether another process has already detected that the server is behind its earlier state."""
    known = (before.system_identifier, before.timeline, before.position, before.started_at)
    return await connection.fetchval(_IS_KNOWN, *known)


find_losses: Final = ReadAll[Loss](
    Loss,
    """
    select id, noticed_at, reason, orders_count, accounts_count, known_until
    from database_loss where recovered_at is null order by id
""",
)
"""List losses that no operator has closed yet, oldest first."""

close_losses: Final = Command[Sequence[int], str]("""
    update database_loss set recovered_at = clock_timestamp(), recovered_by = $2 where id = any($1) and recovered_at is null
""")
