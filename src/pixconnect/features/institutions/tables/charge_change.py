"""The table of changes of charges that are open at institutions."""

from __future__ import annotations

from typing import Final, LiteralString

from pixconnect.features.institutions.rules.charge_change import ChargeChange
from pixconnect.features.institutions.tables.pending_call import PendingCalls
from pixconnect.kernel.rules.charge_contents import ChargeContents, decode_contents, encode_contents
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection, Pool


def _read_contents(text: str | None) -> ChargeContents | None:
    return None if text is None else decode_contents(text)


CHANGES: Final = PendingCalls(
    "charge_change",
    ChargeChange,
    """
    id bigint, charge_id bigint, holder_id bigint, institution_id smallint, txid text, kind text, contents text, removal text,
    state text, reason text, revision_there integer, asked_by text, calls_count integer, due_at timestamptz,
    created_at timestamptz
    """,
    key=("id", "holder_id"),
    open_state="asked",
    words="reason",
    read={"contents": (_read_contents, "contents")},
    write={"contents": lambda change: change.contents and encode_contents(change.contents)},
)

_NEW: Final = CHANGES.without("id")
_INSERT: Final[LiteralString] = f"""
    insert into charge_change ({_NEW.names}) values ({_NEW.parameters}) returning {CHANGES.select}
"""


async def insert(connection: Connection, change: ChargeChange) -> ChargeChange:
    """Store it before the call, under a lock of its charge; it gets its id."""
    row = await connection.fetchrow(_INSERT, *_NEW.values(change))
    return errors.require(CHANGES.read_found(row), "the inserted row exists")


async def find_under_way(connection: Connection | Pool, charge_id: int, holder_id: int) -> ChargeChange | None:
    """The pending change, whose outcome is unknown."""
    return await CHANGES.find(
        connection, "where charge_id = $1 and holder_id = $2 and state = 'asked'", charge_id, holder_id
    )


async def find_last(connection: Connection | Pool, charge_id: int, holder_id: int) -> ChargeChange | None:
    return await CHANGES.find(
        connection, "where charge_id = $1 and holder_id = $2 order by id desc limit 1", charge_id, holder_id
    )


_NOTE_REVISION: Final[LiteralString] = """
    update charge_change set revision_there = $3 where id = $1 and calls_count = $2 and state = 'asked' returning id
"""


async def note_revision(pool: Pool, change: ChargeChange, revision: int) -> bool:
    """Store the institution's revision before the call; ``False`` if another process is calling by now."""
    return await pool.fetchval(_NOTE_REVISION, change.id, change.calls_count, revision) is not None
