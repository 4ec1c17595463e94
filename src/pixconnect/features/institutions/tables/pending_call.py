"""Tables of charges' pending calls to institutions (``features/institutions/rules/pending_call.py``).

The count of calls is the fence: a process raises it before a call, and the results of earlier calls no longer end anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, LiteralString, TypeVar

from msgspec import Struct

from pixconnect.features.institutions.rules.pending_call import (
    ChargeChange,
    ChargeOpening,
    PendingCall,
    decode_caller,
    encode_caller,
)
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.charge_contents import decode_contents, encode_contents
from pixconnect.kernel.tables.charge import CHARGE
from pixconnect.kernel.tables.lookup import FindOne, ReadAll, ReadOne, Value
from pixconnect.kernel.tables.table import Source, Table, or_null
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection, Pool

Row = TypeVar("Row", bound=PendingCall)


class WaitingCharge(Struct, frozen=True, kw_only=True):
    """A charge that is being opened, revised, removed or withdrawn, with an unknown outcome."""

    institution: str  # the account's name
    holder_id: int
    txid: str
    wanted: str  # ``open``, or the kind of its change
    asked_count: int
    reason: str | None  # the institution's last answer, in its words or ours
    since: datetime  # real time


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
        read = {**read, "asked_by": (or_null(decode_caller), "asked_by")}
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
        self._put_off: LiteralString = f"update {name} set due_at = $3, {words} = left($4, 1000) {self._here} and {is_open}"
        self._end: LiteralString = f"""
            update {name} set state = $4, {words} = left($5, 1000) {self._here} and calls_count = $3 and {is_open}
            returning txid
        """
        self._give_up_all: LiteralString = f"update {name} set state = 'given_up' where institution_id = $1 and {is_open}"

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
    read={"contents": (or_null(decode_contents), "contents")},
    write={"contents": lambda change: change.contents and encode_contents(change.contents)},
)

_FIND_UNFINISHED: Final[LiteralString] = """
    select 'charges of it are being opened' from charge_opening where holder_id = $1 and state = 'opening' limit 1
"""
UNFINISHED: Final = (_FIND_UNFINISHED,)

OPENINGS: Final = PendingCalls(
    "charge_opening",
    ChargeOpening,
    """
    charge_id bigint, holder_id bigint, institution_id smallint, external_id text, txid text, state text, wanted text,
    asked_by text, fingerprint bytea, refusal_code text, refusal_reason text, reference text, network_txid text,
    calls_count integer, due_at timestamptz, created_at timestamptz
    """,
    key=("charge_id", "holder_id"),
    open_state="opening",
    words="refusal_reason",
    read={"contents": (decode_contents, "wanted")},
    write={"wanted": lambda opening: encode_contents(opening.contents)},
)

_NEW: Final = CHANGES.without("id")
_INSERT: Final[LiteralString] = f"""
    insert into charge_change ({_NEW.names}) values ({_NEW.parameters}) returning {CHANGES.select}
"""


async def insert_change(connection: Connection, change: ChargeChange) -> ChargeChange:
    """Store it before the call, under a lock of its charge; it gets its id."""
    row = await connection.fetchrow(_INSERT, *_NEW.values(change))
    return errors.require(CHANGES.read_found(row), "the inserted row exists")


find_under_way: Final = FindOne[ChargeChange, int, int](CHANGES, "where charge_id = $1 and holder_id = $2 and state = 'asked'")
"""The pending change, whose outcome is unknown."""

find_last: Final = FindOne[ChargeChange, int, int](CHANGES, "where charge_id = $1 and holder_id = $2 order by id desc limit 1")

_NOTE_REVISION: Final[LiteralString] = """
    update charge_change set revision_there = $3 where id = $1 and calls_count = $2 and state = 'asked' returning id
"""


async def note_revision(pool: Pool, change: ChargeChange, revision: int) -> bool:
    """Store the institution's revision before the call; ``False`` if another process is calling by now."""
    return await pool.fetchval(_NOTE_REVISION, change.id, change.calls_count, revision) is not None


insert_opening: Final = OPENINGS.insert_new  # store it before the call; ``False`` if its txid or external id is taken

# A paused account still opens charges, since a pause only stops outgoing money. After a loss, the charges open at the
# institution are unknown.
may_begin: Final = Value[bool, int, int]("""
    select exists (
        select from holder join institution_account as account on account.id = holder.institution_id
        where holder.id = $1 and account.id = $2 and account.state <> 'closed' and account.lost_at is null
    )
""")
"""Whether a holder is on an account, and the account is neither closed nor paused by a loss."""

find_opening: Final = FindOne[ChargeOpening, int, str](
    OPENINGS, "where external_id = $2 and holder_id = $1 and state in ('opening', 'opened')"
)
"""Find the opening that has this name now, except refused ones."""

find_opening_of_txid: Final = FindOne[ChargeOpening, int, str](
    OPENINGS, "where institution_id = $1 and txid = $2 and state in ('opening', 'opened')"
)
"""Find the opening that has this txid on the account, of any holder."""

find_opening_of_charge: Final = FindOne[ChargeOpening, int, int](OPENINGS, "where charge_id = $1 and holder_id = $2")

find_charge: Final = ReadOne[Charge, int, str](
    CHARGE,
    f"""
    with named as materialized (
        select charge_id as id, holder_id from charge_opening where institution_id = $1 and reference = $2
        union
        select charge_id, holder_id from charge_opening where institution_id = $1 and network_txid = $2
        union
        select id, holder_id from charge where institution_id = $1 and txid = $2
    )
    select {CHARGE.select} from named join charge using (id, holder_id) order by charge.txid = $2 desc, charge.id desc limit 1
""",
)
"""Find the charge of the account with this txid, txid of the institution, or reference of a static code."""

find_refused_txid: Final = Value[str | None, int, str]("""
    select txid from charge_opening where external_id = $2 and holder_id = $1 and state = 'refused' and refusal_code <> 'txid'
    order by created_at desc limit 1
""")
"""Find the txid of the last refused opening of this name, unless another charge uses it at the institution."""

# Without the fence: once any process has read that it is open, the charge exists.
_NOTE_OPENED: Final[LiteralString] = """
    update charge_opening set state = 'opened', refusal_reason = null, reference = $3, network_txid = $4, code_digest = (
        select sha256(convert_to(br_code, 'UTF8')) from charge where id = $1 and charge.holder_id = $2
    )
    where charge_id = $1 and holder_id = $2 and state = 'opening'
"""


async def note_opened(
    connection: Connection, opening: ChargeOpening, *, reference: str | None = None, network_txid: str | None = None
) -> None:
    await connection.execute(_NOTE_OPENED, opening.charge_id, opening.holder_id, reference, network_txid)


_REFUSE: Final[LiteralString] = """
    update charge_opening set state = 'refused', refusal_code = $4, refusal_reason = left($5, 1000)
    where charge_id = $1 and holder_id = $2 and calls_count = $3 and state = 'opening'
"""


async def refuse(connection: Connection, opening: ChargeOpening, code: str, reason: str) -> None:
    """End it as refused, unless another process has called since."""
    keys = opening.charge_id, opening.holder_id, opening.calls_count
    await connection.execute(_REFUSE, *keys, code, reason)


take_named: Final = ReadAll[ChargeOpening, int, Sequence[str], datetime](
    OPENINGS,
    f"""
    update charge_opening set due_at = $3, calls_count = calls_count + 1
    where institution_id = $1 and txid = any($2::text[]) and state = 'opening' returning {OPENINGS.select}
""",
)
"""Take openings of these txids with an unknown outcome, postponed for all other workers."""

# Few wait at any time, and each table has an index of those alone.
list_begun: Final = ReadAll[WaitingCharge, datetime, int](
    WaitingCharge,
    """
    select name as institution, holder_id, txid, wanted, asked_count, reason, waiting.created_at as since from (
        select institution_id, holder_id, txid, 'open' as wanted, calls_count as asked_count, refusal_reason as reason,
            created_at
        from charge_opening where state = 'opening' and created_at < $1
        union all
        select institution_id, holder_id, txid, kind, calls_count, reason, created_at
        from charge_change where state = 'asked' and created_at < $1
    ) as waiting
    join institution_account on institution_account.id = institution_id
    order by waiting.created_at, txid limit $2
    """,
)
"""List those that began before an instant, longest waiting first; at most so many."""
