"""The instant that the primary notes for those who read at its standby: it says there how old the tables are."""

from __future__ import annotations

from datetime import datetime
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.foundation.pool import Connection
from pixconnect.store.frame.table import fetch_row

BEAT_EVERY_S: Final = 1.0
"""However many processes ask, the primary notes its clock no more often."""


class Heartbeat(Struct, frozen=True, kw_only=True):
    """What one server shows of the installation."""

    is_standby: bool
    now: datetime
    """Its clock, in real time."""
    beat_at: datetime | None
    """What the primary's clock last noted here."""
    noted: str
    """Which server the tables were last written on: another one after a failover or a restore."""


_READ: Final[LiteralString] = """
    select pg_is_in_recovery() as is_standby, clock_timestamp() as now, beat_at, concat_ws(' ', system_identifier, timeline,
        database_oid, tables_oid, extract(epoch from started_at)) as noted
    from installation
"""
_BEAT: Final[LiteralString] = """
    update installation set beat_at = clock_timestamp()
    where beat_at is null or beat_at not between clock_timestamp() - $1 * interval '1 second' and clock_timestamp()
"""


async def make_heartbeat(connection: Connection) -> Heartbeat:
    """Let the primary note its clock, unless it has just done so; answers what it shows then."""
    async with connection.transaction():
        # Nobody is promised anything by it: it waits neither for the disk nor for a standby.
        await connection.execute("set local synchronous_commit = off")
        await connection.execute(_BEAT, BEAT_EVERY_S)
    return Heartbeat(**await fetch_row(connection, _READ))


async def find_heartbeat(connection: Connection) -> Heartbeat | None:
    """What a server shows; ``None`` where the installation has not come to it yet."""
    row = await connection.fetchrow(_READ)
    return None if row is None else Heartbeat(**row)
