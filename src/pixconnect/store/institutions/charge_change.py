"""The table of changes of charges that are open at institutions."""

from __future__ import annotations

from datetime import datetime
from typing import Final, LiteralString

from pixconnect.domain.frame import errors
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.institutions.charge_change import ChangeState, ChargeChange, decode_caller, encode_caller
from pixconnect.domain.money.charge_contents import ChargeContents, decode_contents, encode_contents
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame.table import Table


def _contents(text: str | None) -> ChargeContents | None:
    return None if text is None else decode_contents(text)


def _caller(text: str | None) -> Caller | None:
    return None if text is None else decode_caller(text)


CHANGE: Final = Table(
    "charge_change",
    ChargeChange,
    """
    id bigint, charge_id bigint, holder_id bigint, institution_id smallint, txid text, kind text, contents text, removal text,
    state text, reason text, revision_there integer, asked_by text, calls_count integer, due_at timestamptz,
    created_at timestamptz
    """,
    read={"contents": (_contents, "contents"), "asked_by": (_caller, "asked_by")},
    write={
        "contents": lambda change: change.contents and encode_contents(change.contents),
        "asked_by": lambda change: change.asked_by and encode_caller(change.asked_by).decode(),
    },
)

_NEW: Final = CHANGE.without("id")
_INSERT: Final[LiteralString] = f"""
    insert into charge_change ({_NEW.names}) values ({_NEW.parameters}) returning {CHANGE.select}
"""


async def insert(connection: Connection, change: ChargeChange) -> ChargeChange:
    """Remember it before it is asked for, under a lock of its charge; it gets its id."""
    row = await connection.fetchrow(_INSERT, *_NEW.values(change))
    return errors.require(CHANGE.read_found(row), "what is inserted is there")


_FIND_ASKED: Final[LiteralString] = f"""
    select {CHANGE.select} from charge_change where charge_id = $1 and holder_id = $2 and state = 'asked'
"""
_FIND_LAST: Final[LiteralString] = f"""
    select {CHANGE.select} from charge_change where charge_id = $1 and holder_id = $2 order by id desc limit 1
"""
_READ: Final[LiteralString] = f"select {CHANGE.select} from charge_change where id = $1"
_LOCK: Final[LiteralString] = f"select {CHANGE.select} from charge_change where id = $1 for update"


async def find_under_way(connection: Connection | Pool, charge_id: int, holder_id: int) -> ChargeChange | None:
    """The one whose outcome nobody knows yet."""
    return CHANGE.read_found(await connection.fetchrow(_FIND_ASKED, charge_id, holder_id))


async def find_last(connection: Connection | Pool, charge_id: int, holder_id: int) -> ChargeChange | None:
    return CHANGE.read_found(await connection.fetchrow(_FIND_LAST, charge_id, holder_id))


async def read(connection: Connection | Pool, change_id: int) -> ChargeChange | None:
    return CHANGE.read_found(await connection.fetchrow(_READ, change_id))


async def lock(connection: Connection, change_id: int) -> ChargeChange | None:
    return CHANGE.read_found(await connection.fetchrow(_LOCK, change_id))


# The count is the fence: who begins to ask raises it, and what an earlier one learns after that is written nowhere.
_NOTE_REVISION: Final[LiteralString] = """
    update charge_change set revision_there = $3 where id = $1 and calls_count = $2 and state = 'asked' returning id
"""


async def note_revision(pool: Pool, change: ChargeChange, revision: int) -> bool:
    """Keep what the institution counted before it is asked; ``False`` if somebody else asks by now."""
    return await pool.fetchval(_NOTE_REVISION, change.id, change.calls_count, revision) is not None


_END: Final[LiteralString] = """
    update charge_change set state = $3, reason = left($4, 1000)
    where id = $1 and calls_count = $2 and state = 'asked' returning id
"""


async def end(connection: Connection, change: ChargeChange, state: ChangeState, reason: str | None = None) -> bool:
    """End it; ``False`` if it has ended, or somebody has begun to ask since."""
    return await connection.fetchval(_END, change.id, change.calls_count, state, reason) is not None


_GIVE_UP_ALL: Final[LiteralString] = """
    update charge_change set state = 'given_up', reason = 'the account was closed' where institution_id = $1 and state = 'asked'
"""


async def give_up_all_of(connection: Connection, institution_id: int) -> None:
    """End those of an account that is asked no more."""
    await connection.execute(_GIVE_UP_ALL, institution_id)


# Counted and put off by one statement, before the call: who dies at it leaves the change to be asked about again.
_TAKE_DUE: Final[LiteralString] = f"""
    with due as (
        select id from charge_change where state = 'asked' and due_at <= $2 and institution_id = $1 order by due_at limit 1
    )
    update charge_change set due_at = $3, calls_count = calls_count + 1 from due where charge_change.id = due.id
    returning {CHANGE.select}
"""


async def take_due(pool: Pool, institution_id: int, now: datetime, again_at: datetime) -> ChargeChange | None:
    """The one that has been due for longest at an account, put off for everybody else."""
    return CHANGE.read_found(await pool.fetchrow(_TAKE_DUE, institution_id, now, again_at))


# Without the fence: a later question harms nobody, whoever puts it off.
_PUT_OFF: Final[LiteralString] = """
    update charge_change set due_at = $2, reason = left($3, 1000) where id = $1 and state = 'asked'
"""


async def ask_later(pool: Pool, change_id: int, until: datetime, reason: str) -> None:
    await pool.execute(_PUT_OFF, change_id, until, reason)
