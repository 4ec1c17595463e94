"""The table of sweeps: how far the lists of accounts at institutions were read."""

from __future__ import annotations

from datetime import date, datetime
from typing import Final, LiteralString

from pixconnect.features.institutions.rules.sweep import Pace, Sweep
from pixconnect.kernel.tables.table import Table
from pixconnect.platform.pool import Connection, Pool

SWEEP: Final = Table(
    "institution_sweep",
    Sweep,
    """
    institution_id smallint, pace text, began_at timestamptz, ended_at timestamptz, items_count bigint, failed_at timestamptz,
    failure text
    """,
    key=("institution_id", "pace"),
)


async def find(connection: Connection | Pool, institution_id: int, pace: Pace) -> Sweep | None:
    return await SWEEP.find(connection, "where institution_id = $1 and pace = $2", institution_id, pace)


_LIST: Final[LiteralString] = f"select {SWEEP.select} from institution_sweep where institution_id = $1"


async def list_last_of(connection: Connection | Pool, institution_id: int) -> dict[Pace, Sweep]:
    """The last whole sweep of an account at each pace that it had one."""
    found = [SWEEP.read(row) for row in await connection.fetch(_LIST, institution_id)]
    return {sweep.pace: sweep for sweep in found}


# Two workers may end the same sweep: the one that read further stays, but none that is ahead of time.
_WRITE: Final[LiteralString] = f"""
    insert into institution_sweep as kept ({SWEEP.names}) values ({SWEEP.parameters})
    on conflict (institution_id, pace) do update set
        began_at = greatest(least(kept.began_at, excluded.ended_at), excluded.began_at), ended_at = excluded.ended_at,
        items_count = excluded.items_count, failed_at = null, failure = null
"""


async def write(connection: Connection | Pool, sweep: Sweep) -> None:
    """Note a sweep that has ended with all its items recorded or kept."""
    await connection.execute(_WRITE, *SWEEP.values(sweep))


_HAS_SENT: Final[LiteralString] = """
    select exists (select from transfer_day where institution_id = $1 and day >= $2 and cents > 0)
"""


async def has_sent(pool: Pool, institution_id: int, since: date) -> bool:
    """Whether anything was accepted since a day to be sent over an account."""
    return await pool.fetchval(_HAS_SENT, institution_id, since)


_NOTE_FAILURE: Final[LiteralString] = """
    update institution_sweep set failed_at = $3, failure = left($4, 300) where institution_id = $1 and pace = $2
"""


async def note_failure(pool: Pool, institution_id: int, pace: Pace, at: datetime, failure: str) -> None:
    """Note that a sweep failed; one that never ended has no row, and is known by that."""
    await pool.execute(_NOTE_FAILURE, institution_id, pace, at, failure)
