"""A table's columns, written once: names and types for statements, and the records that rows become.

A statement of one table is the text after its ``select`` and ``from``; a longer one stays text above its function, and takes
its columns from here::

    await TRANSFER.find(connection, "where id = $1", transfer_id)
    _LIST: Final[LiteralString] = f"select {TRANSFER.select} from transfer join ..."

A ``Table`` is declared with its columns and their types as they would stand in its ``create table``.
``tests/kernel/tables/test_table.py`` compares every declared table with the one in the database.

Statements are assembled from parts: one insert or update each, of whole groups of rows.

``find_refusal`` maps constraint violations to the caller's errors, if facts changed after they were checked.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import cache
from operator import attrgetter
from types import NoneType
from typing import Any, Final, Generic, Literal, LiteralString, TypeVar, cast, get_args
from uuid import UUID

import asyncpg
from msgspec import Struct, structs

from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection, Pool

Record = TypeVar("Record", bound=Struct)
Source = tuple[Callable[..., object] | None, *tuple[str, ...]]
"""A function that makes an attribute, and its columns; without a function the attribute is a column of another name."""


def or_null(decode: Callable[[Any], object]) -> Callable[[Any], object]:
    """Decode a column that may be null."""
    return lambda value: None if value is None else decode(value)


_OUR_TYPES: Final = {"ledger_account", "entry_cause", "cause_state"}


class Columns(Generic[Record]):
    """Some columns of a table, in the order in which statements name them.

    Args:
        key: Columns that identify a row: ``assignments`` omits them.
        write: Makes a column's value from a record, if it is not the attribute of the same name.
    """

    names: LiteralString  # ``id, status``
    parameters: LiteralString  # ``$1::bigint, $2::text``, for the ``values`` of one record
    # ``{}::bigint[], {}::text[]``, for a ``Part`` that gets the ``arrays`` of many records.
    array_parameters: LiteralString
    assignments: LiteralString  # ``status = new.status``: each column but the key, from a row that is named ``new``
    # ``select * from unnest({}::bigint[], {}::text[])``: the rows of many records, for a ``Part`` that gets ``arrays``.
    rows: LiteralString

    def __init__(
        self,
        types: Mapping[LiteralString, LiteralString],
        key: Sequence[LiteralString],
        write: Mapping[str, Callable[[Record], object]],
    ) -> None:
        self.types = types
        self.names = ", ".join(types)
        # A number is no LiteralString for the type checker; it holds nothing that could be injected.
        numbers: list[LiteralString] = [f"${number}" for number in range(1, len(types) + 1)]  # pyright: ignore[reportAssignmentType]
        self.parameters = ", ".join(
            [f"{number}::{_sent(sql_type)}" for number, sql_type in zip(numbers, types.values(), strict=True)]
        )
        self.array_parameters = ", ".join([f"{{}}::{_sent(sql_type, '[]')}" for sql_type in types.values()])
        self.assignments = ", ".join([f"{name} = new.{name}" for name in types if name not in key])
        self.rows = f"select * from unnest({self.array_parameters})"
        self._key = key
        self._write = write
        self._attributes = _attributes([name for name in types if name not in write])

    def values(self, record: Record) -> list[object]:
        return [array[0] for array in self.arrays([record])]

    def arrays(self, records: Sequence[Record]) -> list[Sequence[object]]:
        # All attributes of a record at once: that takes half as long as column by column.
        read = zip(*map(self._attributes, records), strict=True)
        return [list(map(self._write[name], records)) if name in self._write else next(read) for name in self.types]

    def only(self, *names: LiteralString) -> "Columns[Record]":
        """Some of these columns; each argument names one or several (``id, status``)."""
        return Columns({name: self.types[name] for name in _split(names)}, self._key, self._write)

    def without(self, *names: LiteralString) -> "Columns[Record]":
        others = _split(names)
        return Columns({name: sql_type for name, sql_type in self.types.items() if name not in others}, self._key, self._write)


def _split(names: Sequence[LiteralString]) -> list[LiteralString]:
    joined: LiteralString = ", ".join(names)
    return joined.split(", ")


def _sent(sql_type: LiteralString, many: LiteralString = "") -> LiteralString:
    # The driver does not know our types: each connection would look them up before first use.
    return f"text{many}::{sql_type}{many}" if sql_type in _OUR_TYPES else f"{sql_type}{many}"


def _attributes(names: Sequence[str]) -> Callable[[object], tuple[object, ...]]:
    getter = attrgetter(*names)
    return getter if len(names) > 1 else lambda record: (getter(record),)


class Update(Generic[Record]):
    """Updates the row that has a record's key."""

    def __init__(self, table: str, changed: Sequence[str], columns: Columns[Record], statement: LiteralString) -> None:
        self.table, self.changed = table, changed
        self._columns, self._statement = columns, statement

    async def __call__(self, connection: Connection, record: Record) -> None:
        await connection.execute(self._statement, *self._columns.values(record))


class Table(Columns[Record]):
    """The columns of a table that a record has.

    Args:
        columns: ``id bigint, status text``.
        key: As in ``Columns``.
        read: Makes an attribute from one or more columns, if it is not the column of the same name.
        write: As in ``Columns``.
        joined: Columns of other tables that attributes need: a row has them beside ``select``.
    """

    name: LiteralString
    select: LiteralString  # ``transfer.id, transfer.status``
    # Turns a row into a record by the names of its columns, and ignores others.
    read: Callable[[asyncpg.Record], Record]

    def __init__(
        self,
        name: LiteralString,
        record: type[Record],
        columns: LiteralString,
        *,
        key: Sequence[LiteralString] = ("id", "holder_id"),
        read: Mapping[str, Source] | None = None,
        write: Mapping[str, Callable[[Record], object]] | None = None,
        joined: Sequence[str] = (),
    ) -> None:
        types = read_types(columns)
        super().__init__(types, key, write or {})
        self.name = name
        self.record = record
        self.joined = joined
        self.select = ", ".join([f"{name}.{column}" for column in types])
        self._returning: LiteralString = f"returning {self.select}"
        self._insert: LiteralString = f"insert into {name} ({self.names}) values ({self.parameters})"
        changed = ", ".join([f"{column} = excluded.{column}" for column in types if column not in key])
        self._put: LiteralString = f"{self._insert} on conflict ({', '.join(key)}) do update set {changed}"
        self.read = _constructor(record, {*types, *joined}, read or {})

    def select_from(self, which: LiteralString) -> LiteralString:
        """A statement, of which ``which`` is the part from ``where`` on."""
        return f"select {self.select} from {self.name} {which}"

    def read_found(self, row: asyncpg.Record | None) -> Record | None:
        return None if row is None else self.read(row)

    async def find(self, connection: Connection | Pool, which: LiteralString, *arguments: object) -> Record | None:
        """Find the record of one row; ``which`` is the statement from ``where`` on."""
        return self.read_found(await connection.fetchrow(self.select_from(which), *arguments))

    async def find_all(self, connection: Connection | Pool, which: LiteralString, *arguments: object) -> list[Record]:
        return [self.read(row) for row in await connection.fetch(self.select_from(which), *arguments)]

    async def insert(self, connection: Connection | Pool, record: Record) -> None:
        await connection.execute(self._insert, *self.values(record))

    async def insert_new(self, connection: Connection | Pool, record: Record) -> bool:
        """Insert a row, unless it meets a unique constraint; returns whether it did."""
        return await connection.execute(f"{self._insert} on conflict do nothing", *self.values(record)) == "INSERT 0 1"

    async def put(self, connection: Connection | Pool, record: Record) -> None:
        """Insert a row, or replace the one of its key."""
        await connection.execute(self._put, *self.values(record))

    def updating(self, columns: Columns[Record]) -> Update[Record]:
        """Make the update of these columns of the row that has a record's key."""
        found = " and ".join([f"{self.name}.{name} = new.{name}" for name in self._key])
        new: LiteralString = f"(select {columns.parameters}) as new ({columns.names})"
        statement: LiteralString = f"update {self.name} set {columns.assignments} from {new} where {found}"
        return Update(self.name, [name for name in columns.types if name not in self._key], columns, statement)

    async def change(self, connection: Connection, how: LiteralString, *arguments: object) -> Record | None:
        """Update one row and return its record; ``how`` is the statement from ``set`` on."""
        return self.read_found(await connection.fetchrow(f"update {self.name} {how} {self._returning}", *arguments))


def read_types(columns: LiteralString) -> dict[LiteralString, LiteralString]:
    """Of columns that are written as in ``Table``."""
    types: dict[LiteralString, LiteralString] = {}
    for column in columns.split(","):
        name, sql_type = column.split()
        types[name] = sql_type
    return types


_SQL_TYPES: Final[dict[object, str]] = {
    int: "bigint", bool: "boolean", bytes: "bytea", UUID: "uuid", date: "date", datetime: "timestamptz",
}  # fmt: skip


def list_columns(record: type[Struct], **types: str) -> LiteralString:
    """Columns for a record's fields, as they are written in ``Table``; a nested ``payer`` has those from ``payer_`` on.

    Args:
        types: Of columns that have another type than their fields suggest.
    """
    # Names and types of declared fields only.
    return cast(LiteralString, ", ".join(_list_columns(record, types)))


def _list_columns(record: type[Struct], types: Mapping[str, str], prefix: str = "") -> Iterator[str]:
    for field in structs.fields(record):
        name = f"{prefix}{field.name}"
        kind: object = next(one for one in get_args(field.type) or (field.type,) if one is not NoneType)
        column = f"{name} {types.get(name) or _SQL_TYPES.get(kind, 'text')}"  # an enumeration is text too
        is_nested = name not in types and isinstance(kind, type) and issubclass(kind, Struct)
        yield from _list_columns(cast(type[Struct], kind), types, f"{name}_") if is_nested else [column]


def _constructor(record: type[Record], columns: set[str], read: Mapping[str, Source]) -> Callable[[asyncpg.Record], Record]:
    """Make a function that builds a record from a row, as if written by hand: lists build a thousand of them."""
    known: dict[str, Any] = {"record": record}
    arguments: list[str] = []
    used: set[str] = set()
    for attribute in record.__struct_fields__:
        function, *sources = read.get(attribute, (None, attribute))
        used.update(sources)
        value = ", ".join(f"row[{source!r}]" for source in sources)
        if function is not None:
            known[f"read_{attribute}"] = function
            value = f"read_{attribute}({value})"
        arguments.append(f"{attribute}={value}")
    if used != columns:
        raise TypeError(f"{record.__name__} and its columns do not agree on {', '.join(sorted(used ^ columns))}")
    # Names of attributes and columns only, from declarations in this package.
    return eval(f"lambda row: record({', '.join(arguments)})", known)  # noqa: S307


First = TypeVar("First")
Second = TypeVar("Second")


def split_pairs(pairs: Collection[tuple[First, Second]]) -> tuple[list[First], list[Second]]:
    """Make two arrays, for a statement that joins them again by ``unnest``."""
    return [first for first, _ in pairs], [second for _, second in pairs]


async def fetch_row(connection: Connection | Pool, statement: LiteralString, *arguments: object) -> asyncpg.Record:
    """Run a statement that always returns one row."""
    row = await connection.fetchrow(statement, *arguments)
    if row is None:
        raise errors.InvariantBroken("a statement that always answers a row has answered none")
    return row


Row = TypeVar("Row", bound=Struct)
Arguments = Sequence[Any]

Returns = Literal["nothing", "each row", "any row"]
"""The expected result of a part: none; whether it found each of its rows; or whether it wrote any."""


class Alike(Struct, frozen=True, kw_only=True, eq=False):
    sql: LiteralString
    fit: Callable[[Sequence[Sequence[object]]], Arguments | None]
    """Turns the arrays of all columns into its arguments; ``None`` if the rows are not alike."""


class Part(Struct, Generic[Row], frozen=True, kw_only=True, eq=False):
    """One common table expression that writes rows."""

    name: LiteralString  # of the expression
    sql: LiteralString  # its text, with ``{}`` for each argument
    arguments: Callable[[Sequence[Row]], Arguments]  # turns rows into its arguments, one array each
    alike: Sequence[Alike] = ()  # cheaper variants for rows that share values in some columns, cheapest first
    returns: Returns = "nothing"
    reads: "Part[Any] | None" = None  # the part whose rows this one reads; a statement with this part needs that one

    def fit(self, rows: Sequence[Row]) -> tuple[LiteralString, Arguments]:
        """Return the cheapest text for these rows, and its arguments."""
        arrays = self.arguments(rows)
        for alike in self.alike:
            if (arguments := alike.fit(arrays)) is not None:
                return alike.sql, arguments
        return self.sql, arrays

    @property
    def answer(self) -> LiteralString | None:
        """Selects the result of the part, under the part's name."""
        match self.returns:
            case "nothing":
                return None
            case "each row":
                return f"(select count(*) from {self.name}) as {self.name}"
            case "any row":
                return f"exists (select from {self.name}) as {self.name}"


def of_columns(
    columns: Columns[Row],
    *,
    name: LiteralString,
    sql: LiteralString,
    once: Sequence[LiteralString] = (),
    returns: Returns = "nothing",
) -> Part[Row]:
    """Make a part that writes columns of rows.

    Args:
        sql: With ``{rows}`` for a query that returns the rows, ``{names}`` for its columns, ``{assignments}`` for an update.
        once: Sets of columns in which the rows of a batch often agree; the first that applies is sent once. Each set is one
            more prepared statement, so there are few. None has a column by which an update finds its rows.
    """
    return Part(
        name=name,
        sql=sql.format(rows=columns.rows, names=columns.names, assignments=columns.assignments),
        arguments=columns.arrays,
        alike=[_send_once(columns, names, sql) for names in once],
        returns=returns,
    )


def _send_once(columns: Columns[Row], once: LiteralString, sql: LiteralString) -> Alike:
    """Make the variant for rows that agree in these columns. An array costs up to 0.3 us per record."""
    shared, each = columns.only(once), columns.without(once)
    values: list[LiteralString] = [f"{{}}::{_sent(sql_type)}" for sql_type in shared.types.values()]
    rows: LiteralString = f"select {', '.join(values)}, each.* from unnest({each.array_parameters}) as each"
    names: LiteralString = f"{shared.names}, {each.names}"
    places = {name: place for place, name in enumerate(columns.types)}
    shared_at, each_at = [places[name] for name in shared.types], [places[name] for name in each.types]

    def fit(arrays: Sequence[Sequence[object]]) -> Arguments | None:
        for place in shared_at:
            if arrays[place].count(arrays[place][0]) < len(arrays[place]):
                return None
        return [arrays[place][0] for place in shared_at] + [arrays[place] for place in each_at]

    return Alike(sql=sql.format(rows=rows, names=names, assignments=columns.assignments), fit=fit)


def insert_of(
    table: Table[Any], columns: Columns[Row], *, name: LiteralString, once: Sequence[LiteralString] = ()
) -> Part[Row]:
    return of_columns(columns, name=name, sql=f"insert into {table.name} ({{names}}) {{rows}}", once=once)


def update_of(
    table: Table[Any], columns: Columns[Row], *, name: LiteralString, once: Sequence[LiteralString] = ()
) -> Part[Row]:
    """Make a part that updates rows by id and holder, and requires that each exists."""
    sql: LiteralString = f"""
        update {table.name} set {{assignments}} from ({{rows}}) as new ({{names}})
        where {table.name}.id = new.id and {table.name}.holder_id = new.holder_id
        returning 1
    """
    return of_columns(columns, once=once, name=name, sql=sql, returns="each row")


# Cached: the same text is also the same prepared statement of a connection.
@cache
def numbered(sql: LiteralString, count: int, first: int = 1) -> LiteralString:
    """A part's text with its parameters: ``$1`` and so on."""
    return sql.format(*(f"${number}" for number in range(first, first + count)))  # pyright: ignore[reportArgumentType, reportReturnType]


def no_arguments(_: Sequence[object]) -> Arguments:
    """For a part without its own rows: it reads those of another part."""
    return ()


SUCCEEDED: Final = "another account succeeded this one: get a new token"
_ANSWERS: Final[dict[str, tuple[type[errors.PixConnectError], str]]] = {
    "who_was_succeeded_starts_nothing": (errors.HolderBlocked, SUCCEEDED),
    "a_charge_opens_on_its_holders_account": (
        errors.ServiceUnavailable,
        "the holder was put on another account meanwhile; nothing was done",
    ),
}


def find_refusal(error: BaseException) -> errors.PixConnectError | None:
    """Find the error for the constraint that ``error`` names; ``None`` for our own defects."""
    answer = _ANSWERS.get(getattr(error, "constraint_name", None) or "")
    return answer[0](answer[1]) if answer else None
