"""The tables of institutions' statement lines, and of their source files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Final, LiteralString

import msgspec

from pixconnect.features.institutions.rules.day import DayCases, ItemGroup
from pixconnect.features.institutions.rules.institution import InstitutionItem, ItemKind, ItemParts
from pixconnect.features.institutions.rules.joining import PIX, ItemJoin, LineKey, RecordedItem, Waiting
from pixconnect.features.institutions.rules.sum_line import read_form
from pixconnect.features.institutions.rules.unmatched import ASK_NOBODY, SET_ASIDE, ReversedMovement
from pixconnect.kernel.tables.lookup import AdvisoryLocks, Command, FindAll, Tuples, Value
from pixconnect.kernel.tables.table import Table, or_null
from pixconnect.platform.pool import Connection, Pool

_decode_parts = msgspec.json.Decoder(ItemParts).decode
_encode = msgspec.json.Encoder().encode

ITEM: Final = Table(
    "institution_item",
    RecordedItem,
    """
    institution_id smallint, item_id text, day date, settled_at timestamptz, direction text, amount_cents bigint, kind text,
    end_to_end_id text, return_id text, txid text, tax_id text, counterparty text, text text, source text,
    parts jsonb, recorded_at timestamptz, joined_kind text, joined_id text, joined_by text, is_reversal boolean,
    fee_of_kind text, fee_of_id text, waits text
    """,
    key=("institution_id", "item_id"),
    read={"parts": (or_null(_decode_parts), "parts")},
    write={"parts": lambda item: None if item.parts is None else _encode(item.parts).decode()},
)

lock_recording: Final = AdvisoryLocks(0x1D58).lock
"""Lock the recording of the account's lines until the transaction ends: each recording depends on the present rows."""

_AT_ONCE: Final = 5_000
_ADD: Final[LiteralString] = f"insert into institution_item ({ITEM.names}) values ({ITEM.parameters})"


async def add(connection: Connection, items: Sequence[RecordedItem]) -> None:
    """Insert new items, in the order of their ids, to avoid deadlocks."""
    ordered = sorted(items, key=lambda item: item.item_id)
    await _write(connection, _ADD, [ITEM.values(item) for item in ordered])


async def _write(connection: Connection, statement: LiteralString, rows: Sequence[Sequence[object]]) -> None:
    """Write many lines in parts: one statement of all would exceed the statement timeout."""
    for start in range(0, len(rows), _AT_ONCE):
        await connection.executemany(statement, rows[start : start + _AT_ONCE])


# Before the first analyze of a new account's lines, the planner assumes that each column is selective. So look-ups by name run
# one by one, and the other conditions are expressions without an index.
_FIND: Final[LiteralString] = f"""
    select {ITEM.select} from unnest($2::text[]) as wanted (name)
    cross join lateral (select * from institution_item where institution_id = $1 and item_id = wanted.name limit 1)
        as institution_item
"""


async def find(connection: Connection, institution_id: int, item_ids: Sequence[str]) -> dict[str, RecordedItem]:
    rows = await connection.fetch(_FIND, institution_id, item_ids)
    return {item.item_id: item for item in map(ITEM.read, rows)}


list_days: Final = FindAll[RecordedItem, int, date, date](
    ITEM, "where institution_id = $1 and day between $2 and $3 order by day, item_id"
)

list_filed: Final = FindAll[RecordedItem, int, date, date, Sequence[int]](
    ITEM,
    """
    where institution_id = $1 and day between $2 and $3 and amount_cents = any($4) and (source <> 'api' or waits = 'same_line')
    order by day, item_id
""",
)
"""List lines of files of some days and amounts, and the API's that repeat one."""

list_unlisted: Final = FindAll[RecordedItem, int, date, date, Sequence[int], Sequence[str], Sequence[str]](
    ITEM,
    """
    where institution_id = $1 and day between $2 and $3 and amount_cents = any($4) and source = 'api'
        and not coalesce(waits, '') = any($5)
        and not exists (select from unnest($6::text[]) as listed (name) where name = item_id)
    order by day, item_id
""",
)
"""List the API's lines of some days and amounts, except for some reasons and ids."""

list_moved: Final = FindAll[RecordedItem, int, Sequence[int], Sequence[str], date, date](
    ITEM,
    """
    where institution_id = $1 and joined_kind = 'movement' and amount_cents = any($2) and (
        direction = 'OUT' and (coalesce(return_id, end_to_end_id) = any($3) or day between $4 and $5)
        or direction = 'IN' and day between $4 and $5 and (
            kind in ('reversal', 'fee', 'wire', 'boleto', 'judicial') or coalesce(return_id, end_to_end_id) is not null
        )
    ) order by day, item_id
    """,
)
"""List lines that are movements: debits by amounts, and network names or days, and credits of these that may give one back."""
NO_DAYS: Final = date.max, date.min

list_surplus: Final = FindAll[RecordedItem, int, date](
    ITEM,
    """
    where institution_id = $1 and day > $2 and direction = 'IN' and kind = 'other' and joined_kind in ('movement', 'investment')
        and amount_cents > coalesce((
            select principal_cents from own_investment as own
            where own.institution_id = institution_item.institution_id and own.item_id = institution_item.item_id
        ), 0) order by day
    """,
)
"""List credits after a day that are movements, wholly or beyond what was invested."""

list_unjoined: Final = FindAll[RecordedItem, int, date, str, int, Sequence[str]](
    ITEM,
    """
    where institution_id = $1 and (joined_kind is null or waits is not null) and not coalesce(waits, '') = any($5)
        and (day, item_id) > ($2, $3)
    order by day, item_id limit $4
    """,
)
"""List unmatched or waiting items by day and id after a position, at most so many, except for some reasons."""

list_unjoined_others: Final = FindAll[RecordedItem, int, date, date, Sequence[str]](
    ITEM,
    """
    where institution_id = $1 and day between $2 and $3 and joined_kind is null and kind = 'other'
        and not coalesce(waits, '') = any($4)
    """,
)
"""List unmatched items of some days and of no particular kind, except for some reasons."""

list_waiting_as: Final = FindAll[RecordedItem, int, date, date, Sequence[str]](
    ITEM,
    "where institution_id = $1 and joined_kind is null and day between $2 and $3 and waits = any($4) order by day, item_id",
)
"""List unmatched lines of some days that wait for some reasons."""

_ADD_NAMES: Final[LiteralString] = """
    update institution_item set end_to_end_id = coalesce(end_to_end_id, $3), return_id = coalesce(return_id, $4)
    where institution_id = $1 and item_id = $2 and joined_kind is null
"""


async def add_names(connection: Connection, institution_id: int, named: Mapping[str, InstitutionItem]) -> None:
    """Add network names, which the institution lists later, to unmatched items."""
    rows = [(institution_id, name, item.end_to_end_id, item.return_id) for name, item in named.items()]
    await _write(connection, _ADD_NAMES, rows)


# A movement of a line that an answer has made count is joined by the answer, which can be taken back.
_JOIN: Final[LiteralString] = """
    update institution_item as item set joined_kind = $3, joined_id = $4, is_reversal = $6, waits = null, joined_by =
        case when $3::text = 'movement' and counts_by_answer(item) then 'answer' else $5 end
    where institution_id = $1 and item_id = $2 and coalesce(joined_kind, '') = ''
"""
_ADD_PART: Final[LiteralString] = """
    insert into institution_item_part (institution_id, item_id, kind, record_id) values ($1, $2, $3, $4)
"""


async def join(connection: Connection, institution_id: int, joins: Sequence[ItemJoin]) -> None:
    """Match items, including sums, with their records, in the caller's transaction."""
    rows = [(institution_id, one.item_id, *map(str, one.key), one.by, one.is_reversal) for one in joins]
    await _write(connection, _JOIN, rows)
    parts = [(institution_id, one.item_id, kind, int(name)) for one in joins for kind, name in one.parts]
    await _write(connection, _ADD_PART, parts)


_LOCK_ALONE: Final[LiteralString] = """
    select count(*) from (
        select from institution_item where institution_id = $1 and item_id = any($2) and joined_kind is null
        order by item_id for no key update
    ) as alone
"""


async def lock_alone(connection: Connection, institution_id: int, item_ids: Sequence[str]) -> bool:
    """Lock these items until the transaction ends; return whether all are unmatched."""
    return await connection.fetchval(_LOCK_ALONE, institution_id, item_ids) == len(item_ids)


_RELEASE: Final[LiteralString] = """
    update institution_item set (joined_kind, joined_id, joined_by, is_reversal) = (null, null, null, false)
    where institution_id = $1 and item_id = any($2) and joined_by <> 'name'
"""


async def release(connection: Connection, institution_id: int, item_ids: Sequence[str]) -> dict[str, RecordedItem]:
    """Detach items from lines that others name."""
    await connection.execute(_RELEASE, institution_id, item_ids)
    return await find(connection, institution_id, item_ids)


_REJOIN: Final[LiteralString] = """
    update institution_item set joined_kind = $3, joined_id = $4, waits = null,
        joined_by = case $3::text when 'block' then 'amount' else 'name' end
    where institution_id = $1 and item_id = $2
"""


async def rejoin(connection: Connection, mistaken: ReversedMovement, key: LineKey) -> None:
    """Match a line with its true record, in the transaction that reverses its movement."""
    await connection.execute(_REJOIN, mistaken.institution_id, mistaken.line_id, key[0], str(key[1]))


_LIST_PARTS: Final[LiteralString] = """
    select kind, record_id::text from institution_item_part where institution_id = $1 and item_id = any($2)
"""
_DETACH: Final[LiteralString] = """
    update institution_item set (joined_kind, joined_id, joined_by, waits) = (null, null, null, $3)
    where institution_id = $1 and item_id = any($2)
"""
_FORGET_PARTS: Final[LiteralString] = """
    delete from institution_item_part where institution_id = $1 and item_id = any($2)
"""


async def separate(connection: Connection, institution_id: int, item_ids: Sequence[str]) -> set[LineKey]:
    """Detach lines from their records until a person answers about them; returns the parts of sums."""
    rows = await connection.fetch(_LIST_PARTS, institution_id, item_ids)
    await connection.execute(_DETACH, institution_id, item_ids, "separated")
    await connection.execute(_FORGET_PARTS, institution_id, item_ids)
    return {(row["kind"], row["record_id"]) for row in rows}


async def strike(connection: Connection, institution_id: int, item_ids: Sequence[str]) -> None:
    """Strike lines, in the transaction that reverses their movements."""
    await connection.execute(_DETACH, institution_id, item_ids, "struck")


take_back: Final = Command[int, Sequence[str]]("""
    update institution_item as item set waits = (
        select reason from line_answer as given
        where given.institution_id = item.institution_id and given.item_id = item.item_id order by id desc limit 1
    )
    where institution_id = $1 and item_id = any($2) and waits = 'no_money'
""")
"""Make lines that an answer has set aside wait again, for the reason that they had before it."""

_NOTE_FEES: Final[LiteralString] = """
    update institution_item set fee_of_kind = $3, fee_of_id = $4 where institution_id = $1 and item_id = $2
"""


async def note_fees(connection: Connection, institution_id: int, fees: dict[str, LineKey]) -> None:
    await _write(connection, _NOTE_FEES, [(institution_id, name, *map(str, key)) for name, key in fees.items()])


_NOTE_WAITING: Final[LiteralString] = """
    update institution_item set waits = $3
    where institution_id = $1 and item_id = $2 and waits is distinct from $3
        and (coalesce(joined_kind, '') = '' or joined_kind = 'movement' and 'perhaps_struck' in (waits, $3))
        and not coalesce(waits, '') in ('struck', 'no_money', 'separated')
"""


async def note_waiting(connection: Connection, institution_id: int, waiting: dict[str, Waiting | None]) -> None:
    await _write(connection, _NOTE_WAITING, [(institution_id, *one) for one in waiting.items()])


find_reversible: Final = Tuples[tuple[ItemKind, Sequence[str], int], int, Sequence[str], Sequence[int]]("""
    select case kind when 'pix' then 'reversal' else kind end, array_remove(array[end_to_end_id, return_id], null), amount_cents
    from institution_item as debit
    where institution_id = $1 and joined_kind = 'movement' and direction = 'OUT' and amount_cents = any($3)
        and kind in ('pix', 'fee') and (end_to_end_id = any($2) or return_id = any($2))
        and not exists (
            select from institution_item as back
            where back.institution_id = debit.institution_id and back.day >= debit.day and back.direction = 'IN'
                and back.joined_kind = 'movement' and (debit.kind = 'pix' or back.kind = 'fee')
                and array[back.end_to_end_id, back.return_id] && array_remove(array[debit.end_to_end_id, debit.return_id], null)
        )
""")
"""Find fees, and Pix that a person sent, that are movements and have not come back: a return's kind, names and cents."""

_SUM: Final[LiteralString] = """
    select day, direction, kind, joined_kind is not distinct from 'refund' as is_return,
        sum(amount_cents - case when $5 then coalesce(principal_cents, 0) else 0 end)::bigint as amount_cents,
        count(*) as items_count
    from institution_item left join own_investment using (institution_id, item_id, direction)
    where institution_id = $1 and day between $2 and $3 and not coalesce(waits, '') = any($4)
    group by 1, 2, 3, 4
"""


async def sum_days(
    connection: Connection | Pool, account_id: int, first_on: date, last_on: date, *, has_investments: bool
) -> list[ItemGroup]:
    """Sum the lines that count on each day, for the account with or without its investments."""
    rows = await connection.fetch(_SUM, account_id, first_on, last_on, SET_ASIDE, has_investments)
    return [ItemGroup(**row) for row in rows]


_COUNT_CASES: Final[LiteralString] = """
    select day,
        count(*) filter (where (joined_kind is null or waits is not null) and not coalesce(waits, '') = any($4)) as items_count,
        count(*) filter (where waits in ('perhaps_balance', 'perhaps_struck')) as doubts_count
    from institution_item where institution_id = $1 and day between $2 and $3 group by day
"""


async def count_cases(
    connection: Connection | Pool, institution_id: int, first_on: date, last_on: date
) -> dict[date, DayCases]:
    rows = await connection.fetch(_COUNT_CASES, institution_id, first_on, last_on, ASK_NOBODY)
    return {(counts := dict(row)).pop("day"): DayCases(**counts) for row in rows}


sum_before_opening: Final = Value[int | None, int, date]("""
    select case when count(*) filter (where waits = 'opening_day') = 0 then coalesce(sum(
        case direction when 'IN' then amount_cents else -amount_cents end
    ) filter (where waits = 'before_opening'), 0)::bigint end
    from institution_item where institution_id = $1 and day = $2
""")
"""Sum the movements of the opening day before the opening balance; ``None`` if a line has no hour."""

_RELEASE_OUTDONE: Final[LiteralString] = """
    update institution_item as item set joined_kind = null, joined_id = null, joined_by = null
    from unnest($2::date[], $3::text[], $4::bigint[]) as pix (day, direction, amount_cents)
    where item.institution_id = $1 and item.day = pix.day and item.direction = pix.direction
        and item.amount_cents = pix.amount_cents and item.joined_by in ('amount', 'alike', 'near') and item.kind <> all($5)
        and item.joined_kind <> 'block' and item.end_to_end_id is null and item.return_id is null and not exists (
            select from institution_item as back where back.institution_id = $1 and back.joined_kind = item.joined_kind
                and back.joined_id = item.joined_id and back.is_reversal
        ) returning item.item_id
"""


async def release_outdone(
    connection: Connection, institution_id: int, looks: Collection[tuple[date, str, int]]
) -> Sequence[str]:
    """Detach items not called a Pix from our lines that match other items better (``joining.list_looks``)."""
    rows = await connection.fetch(_RELEASE_OUTDONE, institution_id, *map(list, zip(*looks, strict=True)), list(PIX))
    return [row["item_id"] for row in rows]


_LIST_TEXTS: Final[LiteralString] = """
    select text, false as is_separated from institution_item where institution_id = $1 and joined_kind = 'sum'
    union select text, true from institution_item where institution_id = $1 and joined_kind is null and waits = 'separated'
"""


async def list_sum_forms(connection: Connection, institution_id: int) -> frozenset[str]:
    """List the forms of the texts of sums that were matched on the account, without those of separated lines."""
    rows = await connection.fetch(_LIST_TEXTS, institution_id)
    separated = {read_form(row["text"]) for row in rows if row["is_separated"]}
    return frozenset(read_form(row["text"]) for row in rows) - separated


_FIND_JOINED: Final[LiteralString] = """
    select item.* from unnest($2::text[], $3::text[]) as wanted (kind, id)
    cross join lateral (
        select joined_kind, joined_id, joined_by, item_id, is_reversal from institution_item
        where institution_id = $1 and joined_kind = wanted.kind and joined_id = wanted.id
        union all
        select kind, wanted.id, 'name', item_id, false from institution_item_part
        where institution_id = $1 and kind = wanted.kind
            and record_id = case when wanted.kind in ('transfer', 'refund') then wanted.id::bigint end
        offset 0
    ) as item
"""


async def find_joined(
    connection: Connection | Pool, institution_id: int, keys: Sequence[LineKey]
) -> tuple[set[LineKey], dict[LineKey, str | None], dict[LineKey, str]]:
    """Find our lines matched with an item, those matched with a reversal too, and items matched by resemblance only.

    A reversal is given if it is matched only by its amount.
    """
    kinds, ids = [kind for kind, _ in keys], [str(name) for _, name in keys]
    rows = await connection.fetch(_FIND_JOINED, institution_id, kinds, ids)
    found = [((row["joined_kind"], row["joined_id"]), row) for row in rows]
    reversed_ = {key: row["item_id"] if row["joined_by"] == "amount" else None for key, row in found if row["is_reversal"]}
    alike = {key: row["item_id"] for key, row in found if row["joined_by"] != "name" and not row["is_reversal"]}
    return {key for key, row in found if not row["is_reversal"]}, reversed_, alike
