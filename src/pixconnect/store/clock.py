"""The sandbox clock at rest, and everything that is due by it."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, LiteralString

if TYPE_CHECKING:
    from pixconnect.foundation.pool import Connection, Pool

CHANNEL: Final = "pixconnect_clock"
"""Where a move is told to every process, with the new offset in microseconds."""
LOCK_KEY: Final = 0x7069_7874  # "pixt"

_READ_OFFSET: Final[LiteralString] = "select offset_us from clock"


async def read_offset(connection: "Connection | Pool") -> timedelta:
    """How far the service's time is from the machine's."""
    return timedelta(microseconds=await connection.fetchval(_READ_OFFSET))


_MOVE: Final[LiteralString] = """
    with moved as (update clock set offset_us = $1 returning offset_us)
    select pg_notify($2, offset_us::text) from moved
"""


async def move(connection: "Connection | Pool", offset: timedelta) -> None:
    """Set the offset, and tell every process."""
    await connection.execute(_MOVE, offset // timedelta(microseconds=1), CHANNEL)


_TRY_LOCK: Final[LiteralString] = "select pg_try_advisory_lock($1)"
_UNLOCK: Final[LiteralString] = "select pg_advisory_unlock($1)"


async def try_lock(connection: "Connection") -> bool:
    """Become the only one who moves the clock, until ``unlock`` or the end of the connection."""
    return await connection.fetchval(_TRY_LOCK, LOCK_KEY)


async def unlock(connection: "Connection") -> None:
    """Let others move the clock."""
    await connection.execute(_UNLOCK, LOCK_KEY)


_FIRST_DUE: Final[LiteralString] = """
    select least(
        (select min(expires_at) from charge where status = 'PENDING'),
        (select min(due_at) from open_order)
    )
"""


async def find_first_due(pool: "Pool") -> datetime | None:
    """The earliest deadline of charges, transfers and refunds; those of deliveries are not among them."""
    return await pool.fetchval(_FIRST_DUE)


_LAST_DUE: Final[LiteralString] = """
    select greatest(
        (select max(expires_at) from charge where status = 'PENDING' and expires_at <= $1),
        (select max(due_at) from open_order where due_at <= $1),
        (select max(last.due_at) from generate_series(0, 255) as slots (wanted), lateral (
            select due_at from delivery where slot = wanted and status = 'pending' and due_at <= $1
            order by due_at desc limit 1
        ) as last)
    )
"""


async def find_last_due(pool: "Pool", until: datetime) -> datetime | None:
    """The latest deadline up to an instant."""
    return await pool.fetchval(_LAST_DUE, until)


_MOVE_BACK: Final[LiteralString] = """
    with charge_moved as (
        update charge set expires_at = expires_at - $2::interval where status = 'PENDING' and created_at > $1
    )
    update open_order set due_at = due_at - $2::interval,
        give_up_at = case when ordered_at > $1 then give_up_at - $2::interval else give_up_at end
    where greatest(ordered_at, handed_at) > $1
"""


async def move_back(connection: "Connection", now: datetime, by: timedelta) -> None:
    """Bring open deadlines nearer that were set at an instant which is in the future now; rows keep their instants."""
    await connection.execute(_MOVE_BACK, now, by)
