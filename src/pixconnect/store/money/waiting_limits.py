"""Higher limits that operators want for holders, and that wait."""

from __future__ import annotations

from typing import Final

from pixconnect.domain.money.limit import WaitingLimits
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame.table import Table
from pixconnect.store.money.holder import READ_LIMITS

WAITING_LIMITS: Final = Table(
    "waiting_limits",
    WaitingLimits,
    """
    holder_id bigint, transfer_limit_cents bigint, day_limit_cents bigint, night_limit_cents bigint,
    night_begins_late boolean, wanted_by text, wanted_at timestamptz, acts_at timestamptz
    """,
    key=("holder_id",),
    read={"limits": READ_LIMITS},
    write={
        "transfer_limit_cents": lambda wanted: wanted.limits.transfer_cents,
        "day_limit_cents": lambda wanted: wanted.limits.day_cents,
        "night_limit_cents": lambda wanted: wanted.limits.night_cents,
        "night_begins_late": lambda wanted: wanted.limits.night_begins_late,
    },
)


async def find(connection: Connection | Pool, holder_id: int) -> WaitingLimits | None:
    """What waits for a holder."""
    return await WAITING_LIMITS.find(connection, "where holder_id = $1", holder_id)


async def insert(connection: Connection, wanted: WaitingLimits) -> None:
    """Keep them; the caller has forgotten what waited before."""
    await WAITING_LIMITS.insert(connection, wanted)


async def forget(connection: Connection, holder_id: int) -> None:
    """Let them not act any more; the caller has locked the holder."""
    await connection.execute("delete from waiting_limits where holder_id = $1", holder_id)


async def act_on_due(connection: Connection) -> int:
    """Give holders the limits that have waited for long enough, and say how many there were."""
    return await connection.fetchval("select act_on_waiting_limits()")
