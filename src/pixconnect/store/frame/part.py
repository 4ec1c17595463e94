"""Statements are put together from parts: one insert or update each, of whole groups of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Generic, Literal, LiteralString, TypeVar

from msgspec import Struct

from pixconnect.store.frame.table import AlikeColumns, Columns, Table

Row = TypeVar("Row", bound=Struct)
Arguments = Sequence[Any]

Returns = Literal["nothing", "each row", "any row"]
"""What we ask a part: nothing; whether it found each row that it got; or whether it wrote any."""


class Alike(Struct, frozen=True, kw_only=True, eq=False):
    sql: LiteralString
    fit: Callable[[Sequence[Sequence[object]]], Arguments | None]
    """Turns the arrays of all columns into its arguments; ``None`` if the rows are not alike."""


class Part(Struct, Generic[Row], frozen=True, kw_only=True, eq=False):
    """One common table expression that writes rows."""

    name: LiteralString
    """Of the expression."""
    sql: LiteralString
    """Its text, with ``{}`` for each argument."""
    arguments: Callable[[Sequence[Row]], Arguments]
    """Turns rows into its arguments, one array each."""
    alike: Sequence[Alike] = ()
    """The same at less cost for rows that are alike in some columns, the cheapest first."""
    returns: Returns = "nothing"
    reads: Part[Any] | None = None
    """The part whose rows this one reads; a statement that has this one has that one too."""

    def fit(self, rows: Sequence[Row]) -> tuple[LiteralString, Arguments]:
        """The text that is the cheapest for these rows, and its arguments."""
        arrays = self.arguments(rows)
        for alike in self.alike:
            arguments = alike.fit(arrays)
            if arguments is not None:
                return alike.sql, arguments
        return self.sql, arrays

    @property
    def answer(self) -> LiteralString | None:
        """Selects the answer of the part, under the part's name."""
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
    once: Sequence[Sequence[LiteralString]],
    name: LiteralString,
    sql: LiteralString,
    returns: Returns = "nothing",
) -> Part[Row]:
    """A part that writes columns of rows.

    Args:
        once: In which the rows of a batch are often alike: those of the first set in which they are, are sent once. Each set is
            a statement more that connections prepare, so there are few. None has a column by which an update finds its rows.
        sql: With ``{rows}`` for a query that gives the rows, ``{names}`` for its columns, ``{assignments}`` for an update.
    """
    alike = [AlikeColumns(columns, names) for names in once]
    return Part(
        name=name,
        sql=sql.format(rows=columns.rows, names=columns.names, assignments=columns.assignments),
        arguments=columns.arrays,
        alike=[
            Alike(sql=sql.format(rows=each.rows, names=each.names, assignments=columns.assignments), fit=each.fit)
            for each in alike
        ],
        returns=returns,
    )


def update_of(
    table: Table[Any], columns: Columns[Row], *, name: LiteralString, once: Sequence[Sequence[LiteralString]] = ()
) -> Part[Row]:
    """A part that changes rows by their id and holder, and finds each of them."""
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
    """Of a part that is given nothing: it takes up what another one has written."""
    return ()
