"""Money kept from leaving all accounts of a cell, while whoever moves the cell is about to close it.

A hold ends by itself after ``HOLD_LASTS``: whoever made it may have died, and its row may have been put back with a backup.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.foundation.pool import Connection

HELD: Final[LiteralString] = "(held_at > clock_timestamp() - interval '5 minutes') is true"
"""Whether an account is; as long as ``domain.institutions.account.HOLD_LASTS``."""


class Hold(Struct, frozen=True):
    at: datetime
    transaction: str
    """That made it."""


_HOLD: Final[LiteralString] = """
    with held as (
        update institution_account set held_at = statement_timestamp(), revision = revision + 1
        where state <> 'closed' and removed_at is null returning held_at
    )
    select held_at as at, pg_current_xact_id()::text as transaction from held limit 1
"""


async def hold_all(connection: Connection) -> Hold | None:
    """Keep money from leaving any account of this cell, as whoever owns its tables; ``None`` where there is no account."""
    row = await connection.fetchrow(_HOLD)
    return None if row is None else Hold(**row)


# Who looked before the hold was committed has a snapshot in which its transaction is not over.
_IS_SEEN: Final[LiteralString] = """
    select not exists (
        select from pg_stat_activity where datname = current_database() and application_name like 'pixconnect work%'
            and age(backend_xmin) >= age($1::text::xid8::xid)
    )
"""
_TAKE_NUMBER: Final[LiteralString] = "select pg_current_xact_id()::text"
_ARE_OVER: Final[LiteralString] = "select pg_snapshot_xmin(pg_current_snapshot()) > $1::text::xid8"


async def is_seen_by_all(connection: Connection, hold: Hold) -> bool:
    """Whether no worker is at a statement that began before the hold."""
    return await connection.fetchval(_IS_SEEN, hold.transaction)


async def take_number(connection: Connection) -> str:
    """The number of a transaction that begins now."""
    return await connection.fetchval(_TAKE_NUMBER)


async def are_over(connection: Connection, number: str) -> bool:
    """Whether all transactions that write and began before that one are."""
    return await connection.fetchval(_ARE_OVER, number)


# A minute less than workers go by: what begins at its end is no call of theirs.
_HOLDS: Final[LiteralString] = """
    select not exists (
        select from institution_account where state <> 'closed' and removed_at is null
            and (held_at = $1 and held_at > clock_timestamp() - interval '4 minutes') is not true
    )
"""


async def is_held_for_all(connection: Connection, hold: Hold | None) -> bool:
    """Whether every account is held by it and by nobody else, for a minute at least; of ``None`` whether there is none."""
    return await connection.fetchval(_HOLDS, None if hold is None else hold.at)


_LET_SEND: Final[LiteralString] = """
    update institution_account set held_at = null, revision = revision + 1
    where held_at is not null and held_at = coalesce($1, held_at)
"""


async def let_send(connection: Connection, hold: Hold | None = None) -> None:
    """Let money leave again over those that were held, by this hold or by any; who else has paused an account means it."""
    await connection.execute(_LET_SEND, None if hold is None else hold.at)
