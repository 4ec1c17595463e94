"""Look-ups of charges, transfers, refunds and locations: a function here builds each table's, with its statement.

A statement that needs nothing but its parameters is declared with their types, and called with a connection::

    has_money: Final = Value[bool, int]("select exists (select from balance where holder_id = $1)")
    find_named: Final = FindOne[Account, str](ACCOUNT, "where name = $1")

Levels are as of ``read_at``, in real time: readers add the tokens gained since.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final, Generic, LiteralString, TypeVar, TypeVarTuple, cast

import asyncpg
from msgspec import Struct

from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.tables import listing as listing_store
from pixconnect.kernel.tables.table import Table, fetch_row, split_pairs
from pixconnect.platform.base.clock import RatePolicy
from pixconnect.platform.pool import Connection, Pool

Record = TypeVar("Record", bound=Struct)
Key = TypeVar("Key")
Result = TypeVar("Result")
Sent = TypeVarTuple("Sent")


class Statement:
    """A whole statement, which its subclasses run; their parameters are the types of its result and of what it is sent."""

    def __init__(self, text: LiteralString) -> None:
        self.text = text


class Value(Statement, Generic[Result, *Sent]):
    async def __call__(self, connection: Connection | Pool, *sent: *Sent) -> Result:
        return await connection.fetchval(self.text, *sent)


class Column(Statement, Generic[Result, *Sent]):
    async def __call__(self, connection: Connection | Pool, *sent: *Sent) -> list[Result]:
        return [value for (value,) in await connection.fetch(self.text, *sent)]


class Pairs(Statement, Generic[Key, Result, *Sent]):
    """The second column of each row by its first one."""

    async def __call__(self, connection: Connection | Pool, *sent: *Sent) -> dict[Key, Result]:
        return {key: value for key, value in await connection.fetch(self.text, *sent)}  # noqa: C416  rows are no tuples


class Tuples(Statement, Generic[Result, *Sent]):
    """Each row as a tuple of this type."""

    async def __call__(self, connection: Connection | Pool, *sent: *Sent) -> list[Result]:
        return [cast(Result, tuple(row)) for row in await connection.fetch(self.text, *sent)]


class Command(Statement, Generic[*Sent]):
    async def __call__(self, connection: Connection | Pool, *sent: *Sent) -> None:
        await connection.execute(self.text, *sent)


class _Records(Statement, Generic[Record]):
    """A statement whose rows are records, of a table or of these members."""

    def __init__(self, record: Table[Record] | type[Record], text: LiteralString) -> None:
        super().__init__(text)
        self._read: Callable[[asyncpg.Record], Record] = record.read if isinstance(record, Table) else lambda row: record(**row)


class ReadOne(_Records[Record], Generic[Record, *Sent]):
    async def __call__(self, connection: Connection | Pool, *sent: *Sent) -> Record | None:
        row = await connection.fetchrow(self.text, *sent)
        return None if row is None else self._read(row)


class ReadAll(_Records[Record], Generic[Record, *Sent]):
    async def __call__(self, connection: Connection | Pool, *sent: *Sent) -> list[Record]:
        return [self._read(row) for row in await connection.fetch(self.text, *sent)]


class FindOne(ReadOne[Record, *Sent]):
    """The statement of a table, from ``where`` on."""

    def __init__(self, table: Table[Record], which: LiteralString) -> None:
        super().__init__(table, table.select_from(which))


class FindAll(ReadAll[Record, *Sent]):
    """The statement of a table, from ``where`` on."""

    def __init__(self, table: Table[Record], which: LiteralString) -> None:
        super().__init__(table, table.select_from(which))


class FindBy(Statement, Generic[Key, Record, *Sent]):
    """As ``FindAll``, by a column."""

    def __init__(self, table: Table[Record], key: str, which: LiteralString) -> None:
        super().__init__(table.select_from(which))
        self._read, self._key = table.read, key

    async def __call__(self, connection: Connection | Pool, *sent: *Sent) -> dict[Key, Record]:
        return {row[self._key]: self._read(row) for row in await connection.fetch(self.text, *sent)}


class AdvisoryLocks:
    """Advisory locks of one class, by number. Two numbers that share their last 31 bits have one lock."""

    def __init__(self, of: int) -> None:
        self._of = of

    async def lock(self, connection: Connection, number: int = 0) -> None:
        """Lock until the transaction ends."""
        await connection.execute("select pg_advisory_xact_lock($1, $2)", self._of, number % 2**31)

    async def try_lock(self, connection: Connection, number: int = 0) -> bool:
        """Lock until the transaction ends; ``False`` if another session has it."""
        return await connection.fetchval("select pg_try_advisory_xact_lock($1, $2)", self._of, number % 2**31)

    @asynccontextmanager
    async def holding(self, connection: Connection, number: int = 0) -> AsyncGenerator[bool]:
        """Lock meanwhile; yields ``False`` if another session has it."""
        lock = (self._of, number % 2**31)
        is_alone: bool = await connection.fetchval("select pg_try_advisory_lock($1, $2)", *lock)
        try:
            yield is_alone
        finally:
            if is_alone:
                try:
                    await connection.execute("select pg_advisory_unlock($1, $2)", *lock)
                except BaseException:
                    # The lock ends with its session.
                    connection.terminate()
                    raise


OF_VIEWER: Final[LiteralString] = """
    id = $1 and ($2::bigint is null or holder_id = $2 or holder_id = any (array(
        select member.id from holder as asked join holder as member on member.family_id = asked.family_id where asked.id = $2
    )))
"""


def of_viewer(table: Table[Record]) -> FindOne[Record, int, int | None]:
    """Find a row by id, of this holder or of its family; ``None`` is any holder."""
    return FindOne(table, f"where {OF_VIEWER}")


# Without any succession in the installation, PostgreSQL skips the part that searches a family.
_HAS_FAMILIES: Final[LiteralString] = "exists (select from holder where family_id is not null)"


def one_by(
    table: Table[Record], *columns: LiteralString
) -> Callable[[Connection | Pool, int, int | str], Awaitable[Record | None]]:
    """Find a holder's row by name in the first of these columns, or in the next; or a row of its family."""
    statements: list[LiteralString] = [
        f"""
            select {table.select} from {table.name} where {column} = $1 and holder_id = $2
            union all
            select {table.select}
            from holder as asked join holder as member on member.family_id = asked.family_id and member.id <> asked.id
            join {table.name} on {table.name}.{column} = $1 and {table.name}.holder_id = member.id
            where asked.id = $2 and {_HAS_FAMILIES}
            limit 1
        """
        for column in columns
    ]

    async def find(pool: Connection | Pool, holder_id: int, name: int | str) -> Record | None:
        # Few rows have two names, so only missing ids cost a second query.
        for statement in statements:
            if (row := await pool.fetchrow(statement, name, holder_id)) is not None:
                return table.read(row)
        return None

    return find


def many_by_id(table: Table[Record]) -> Callable[[Connection | Pool, int, Collection[int]], Awaitable[dict[int, Record]]]:
    find_pairs = by_pairs(table, "id")

    async def find(pool: Connection | Pool, holder_id: int, ids: Collection[int]) -> dict[int, Record]:
        found = await find_pairs(pool, [(one, holder_id) for one in ids])
        return {one: record for (one, _), record in found.items()}

    return find


def by_pairs(
    table: Table[Record], column: LiteralString, *, locks: bool = False
) -> Callable[[Connection | Pool, Collection[tuple[int, int]]], Awaitable[dict[tuple[int, int], Record]]]:
    """Find rows by a column of ids and the holder; locked rows stay so until the transaction ends."""
    # Every process locks in this order, to avoid deadlocks.
    end: LiteralString = f"order by {table.name}.id, {table.name}.holder_id for no key update of {table.name}"
    statement: LiteralString = f"""
        select {table.select} from unnest($1::bigint[], $2::bigint[]) as wanted ({column}, holder_id)
        join {table.name} using ({column}, holder_id) {end if locks else ""}
    """

    async def find(pool: Connection | Pool, wanted: Collection[tuple[int, int]]) -> dict[tuple[int, int], Record]:
        rows = await pool.fetch(statement, *split_pairs(wanted))
        return {(row[column], row["holder_id"]): table.read(row) for row in rows}

    return find


def by_external_ids(
    table: Table[Record],
) -> Callable[[Connection, Sequence[tuple[str, int]]], Awaitable[dict[tuple[int, str], Record]]]:
    """Find rows by external id and requesting holder, as they are now: its own, or one of its family."""
    statement: LiteralString = f"""
        with wanted as (select * from unnest($1::text[], $2::bigint[]) as wanted (external_id, holder_id))
        select {table.select}, wanted.holder_id as asked_by from wanted
        join {table.name} on {table.name}.external_id = wanted.external_id and {table.name}.holder_id = wanted.holder_id
        union all
        select {table.select}, wanted.holder_id as asked_by from wanted
        join holder as asked on asked.id = wanted.holder_id
        join holder as member on member.family_id = asked.family_id and member.id <> asked.id
        join {table.name} on {table.name}.external_id = wanted.external_id and {table.name}.holder_id = member.id
        where {_HAS_FAMILIES}
    """

    async def find(connection: Connection, wanted: Sequence[tuple[str, int]]) -> dict[tuple[int, str], Record]:
        rows = await connection.fetch(statement, *split_pairs(wanted))
        return {(row["asked_by"], row["external_id"]): table.read(row) for row in rows}

    return find


def named(
    table: Table[Record], column: LiteralString, way_column: LiteralString
) -> Callable[[Connection | Pool, Sequence[str], str], Awaitable[dict[str, Record]]]:
    """Find rows of one direction, of any holder, by our id or, for outgoing ones, the network's."""
    ours: LiteralString = f"select {table.select} from {table.name} where {column} = any($1) and {way_column} = $2"
    of_network: LiteralString = f"select {table.select} from {table.name} where network_id = any($1)"

    async def find(pool: Connection | Pool, names: Sequence[str], way: str) -> dict[str, Record]:
        found = {row[column]: table.read(row) for row in await pool.fetch(ours, names, way)}
        missing = [name for name in names if name not in found] if way == "OUT" else []
        if missing:
            rows = await pool.fetch(of_network, missing)
            found |= {row["network_id"]: table.read(row) for row in rows}
        return found

    return find


def page_of(
    table: Table[Record], source: listing_store.Source
) -> Callable[[Pool, int, listing_store.Statuses | None, Span], Awaitable[Page[Record]]]:
    """Read a page of a holder's rows, of one status, of several, or of all, as the source takes them."""

    async def read(pool: Pool, holder_id: int, status: listing_store.Statuses | None, span: Span) -> Page[Record]:
        page = await listing_store.read_page(pool, source, holder_id, status, span)
        return page.with_items([table.read(row) for row in page.items])

    return read


def counted_page(
    table: Table[Record], key: LiteralString, *, source: LiteralString | None = None, also: LiteralString = ""
) -> Callable[[Pool, int, Span], Awaitable[Page[Record]]]:
    """Read a page of a holder's rows, newest first, which are so few that they are counted each time.

    Args:
        key: Orders rows of one instant.
        source: The table with those that it is joined to; ``also`` are their columns.
    """
    name = table.name
    rows: LiteralString = f"{source or name} where {name}.holder_id = $1 and {name}.created_at between $2 and $3"
    counted: LiteralString = f"select count(*) from {rows}"
    page: LiteralString = f"""
        select {table.select}{also} from {rows} order by {name}.created_at desc, {name}.{key} desc offset $4 limit $5
    """

    async def read(pool: Pool, holder_id: int, span: Span) -> Page[Record]:
        between = (holder_id, *listing_store.bounds(span.initial_at, span.final_at))
        return await read_counted(pool, table, counted, page, between, span)

    return read


async def read_counted(
    pool: Pool, table: Table[Record], count: LiteralString, page: LiteralString, asked: Sequence[object], span: Span
) -> Page[Record]:
    """Read a page by its number, and the count; ``page`` takes what ``count`` takes, then the position and the size."""
    rows: Sequence[asyncpg.Record] = ()
    # One snapshot: a row that is made between the two would be counted on no page, or shown and not counted.
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        total_count: int = await connection.fetchval(count, *asked)
        if span.position < total_count:
            rows = await connection.fetch(page, *asked, span.position, span.page_size)
    return Page(items=[table.read(row) for row in rows], total_count=total_count)


class KeptBudget(Struct, frozen=True, kw_only=True):
    tokens: float  # below zero after overspending
    read_at: datetime
    settled_until: datetime  # settled payments made until then are already counted; in service time


find_budget: Final = ReadOne[KeptBudget, int](
    KeptBudget, "select tokens, read_at, settled_until from lookup_budget where holder_id = $1"
)

# Tokens regained meanwhile are added first: waiting neither loses nor gains any.
_REFILLED: Final[LiteralString] = "least($4, kept.tokens + greatest(0, extract(epoch from $3 - kept.read_at)) * $5)"
_SPEND: Final[LiteralString] = f"""
    insert into lookup_budget as kept (holder_id, tokens, read_at, settled_until)
    values ($1, greatest(-$4::float8, $4 - $2::float8), $3, $6)
    on conflict (holder_id) do update set
        tokens = greatest(-$4, {_REFILLED} - $2), read_at = greatest(kept.read_at, $3)
    returning tokens, read_at, settled_until
"""


async def spend_budget(
    pool: Pool, holder_id: int, policy: RatePolicy, cost: int, *, now: datetime, made_at: datetime
) -> KeptBudget:
    """Spend a holder's tokens; the level may go as far below zero as the maximum is above it.

    Args:
        made_at: When the budget was created, in service time: only later payments return tokens.
    """
    row = await fetch_row(pool, _SPEND, holder_id, cost, now, policy.tokens_max, policy.refill_per_s, made_at)
    return KeptBudget(**row)


put_back_budget: Final = ReadOne[KeptBudget, int, int, datetime, int, float, datetime, datetime](
    KeptBudget,
    f"""
    update lookup_budget as kept
    set tokens = least($4::float8, {_REFILLED} + $2::float8), read_at = greatest(kept.read_at, $3), settled_until = $6
    where holder_id = $1 and settled_until = $7
    returning tokens, read_at, settled_until
""",
)
"""Add tokens for the payments of a span of service time, whose end and begin come last.

``None`` if another process has counted these.
"""
