"""Statements are put together from parts: one insert or update each, of whole groups of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Generic, Literal, LiteralString, TypeVar

from msgspec import Struct

from pixconnect.store.table import AlikeColumns, Columns

Row = TypeVar("Row", bound=Struct)
Arguments = Sequence[object]

Returns = Literal["nothing", "each row", "any row"]
"""What is asked of a part: nothing; that it found each row that it was given; or whether it wrote any."""


class Alike(Struct, Generic[Row], frozen=True, kw_only=True):
    sql: LiteralString
    arguments: Callable[[Sequence[Row]], Arguments | None]
    """``None`` if the rows are not alike."""


class Part(Struct, Generic[Row], frozen=True, kw_only=True):
    """One common table expression that writes rows."""

    name: LiteralString
    """Of the expression."""
    sql: LiteralString
    """Its text, with ``{}`` for each argument."""
    arguments: Callable[[Sequence[Row]], Arguments]
    """Turns rows into its arguments, mostly one array for each column."""
    alike: Alike[Row] | None = None
    """The same at less cost, for rows that are alike in some columns."""
    returns: Returns = "nothing"
    reads: Part[Any] | None = None
    """The part whose rows it takes up, which is in every statement that it is in."""

    def fit(self, rows: Sequence[Row]) -> tuple[LiteralString, Arguments]:
        """The text that is the cheapest for these rows, and its arguments."""
        if self.alike is not None:
            arguments = self.alike.arguments(rows)
            if arguments is not None:
                return self.alike.sql, arguments
        return self.sql, self.arguments(rows)

    @property
    def answer(self) -> LiteralString | None:
        """Selects what is asked of it, under its name."""
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
    once: Sequence[LiteralString],
    name: LiteralString,
    sql: LiteralString,
    returns: Returns = "nothing",
) -> Part[Row]:
    """A part that writes columns of rows.

    Args:
        once: Those in which the rows of a batch are mostly alike: if they are, each is sent once.
        sql: With ``{rows}`` for a query that gives the rows, ``{names}`` for its columns, ``{assignments}`` for an update.
    """
    alike = AlikeColumns(columns, once)
    return Part(
        name=name,
        sql=sql.format(rows=columns.rows, names=columns.names, assignments=columns.assignments),
        arguments=columns.arrays,
        alike=Alike(
            sql=sql.format(rows=alike.rows, names=alike.names, assignments=columns.assignments),
            arguments=alike.arguments,
        ),
        returns=returns,
    )


# Cached: the same text is also the same prepared statement of a connection.
@cache
def numbered(sql: LiteralString, count: int, first: int = 1) -> LiteralString:
    """A part's text with its parameters: ``$1`` and so on."""
    return sql.format(*(f"${number}" for number in range(first, first + count)))  # pyright: ignore[reportArgumentType, reportReturnType]


def no_arguments(_: Sequence[object]) -> Arguments:
    """Of a part that is given nothing: it takes up what another one has written."""
    return ()
