"""Tables of charges' pending calls to institutions (``features/institutions/rules/pending_call.py``).

The count of calls is the fence: a process raises it before a call, and the results of earlier calls no longer end anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, LiteralString, TypeVar

from pixconnect.features.institutions.rules.pending_call import ChargeChange, PendingCall, decode_caller, encode_caller
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge_contents import ChargeContents, decode_contents, encode_contents
from pixconnect.kernel.tables.table import Source, Table
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection, Pool

Row = TypeVar("Row", bound=PendingCall)


def _read_caller(text: str | None) -> Caller | None:
    return None if text is None else decode_caller(text)


class PendingCalls(Table[Row]):
    """A table of pending calls.

    Args:
        open_state: The state of rows whose outcome is unknown.
        words: The column for the institution's last answer.
    """

    def __init__(
        self,
        name: LiteralString,
        record: type[Row],
        columns: LiteralString,
        *,
        key: tuple[LiteralString, LiteralString],
        open_state: LiteralString,
        words: LiteralString,
        read: Mapping[str, Source],
        write: Mapping[str, Callable[[Row], object]],
    ) -> None:
        read = {**read, "asked_by": (_read_caller, "asked_by")}
        write = {**write, "asked_by": lambda row: row.asked_by and encode_caller(row.asked_by).decode()}
        super().__init__(name, record, columns, key=key, read=read, write=write)
        self._keys = self.only(*key)
        self._here: LiteralString = f"where {key[0]} = $1 and {key[1]} = $2"
        self.open_state = open_state
        is_open: LiteralString = f"state = '{open_state}'"
        # Counted and postponed by one statement, before the call: if the worker dies in it, the row is queried again.
        self._take_due: LiteralString = f"""
            with due as (
                select {self._keys.names} from {name} where {is_open} and due_at <= $2 and institution_id = $1
                order by due_at limit 1
            )
            update {name} set due_at = $3, calls_count = calls_count + 1 from due
            where {name}.{key[0]} = due.{key[0]} and {name}.{key[1]} = due.{key[1]} returning {self.select}
        """
        # Without the fence: a later query is harmless.
        self._put_off: LiteralString = (
            f"update {name} set due_at = $3, {words} = left($4, 1000) {self._here} and {is_open}"
        )
        self._end: LiteralString = f"""
            update {name} set state = $4, {words} = left($5, 1000) {self._here} and calls_count = $3 and {is_open}
            returning txid
        """
        self._give_up_all: LiteralString = (
            f"update {name} set state = 'given_up' where institution_id = $1 and {is_open}"
        )

    async def find_again(self, connection: Connection | Pool, row: Row) -> Row | None:
        return await self.find(connection, self._here, *self._keys.values(row))

    async def lock(self, connection: Connection, row: Row) -> Row | None:
        return await self.find(connection, f"{self._here} for update", *self._keys.values(row))

    async def take_due(self, pool: Pool, institution_id: int, now: datetime, again_at: datetime) -> Row | None:
        """Take the row that has been due for longest at an account, postponed for all other workers."""
        return self.read_found(await pool.fetchrow(self._take_due, institution_id, now, again_at))

    async def put_off(self, pool: Pool, row: Row, until: datetime, words: str) -> None:
        await pool.execute(self._put_off, *self._keys.values(row), until, words)

    async def end(self, connection: Connection, row: Row, state: str, words: str | None = None) -> bool:
        """End a row; ``False`` if it has ended, or another process has called since."""
        ended = await connection.fetchval(self._end, *self._keys.values(row), row.calls_count, state, words)
        return ended is not None

    async def give_up_all(self, connection: Connection, institution_id: int) -> None:
        """End the rows of an account that is being closed, which is not called any more."""
        await connection.execute(self._give_up_all, institution_id)


# The table of changes of charges that are open at institutions.


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
