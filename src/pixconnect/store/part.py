"""Statements are put together from parts: one insert or update each, of whole groups of rows."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Generic, LiteralString, TypeVar

from msgspec import Struct

Row = TypeVar("Row")
Columns = Sequence[Sequence[object]]


class Part(Struct, Generic[Row], frozen=True, kw_only=True):
    """One common table expression that writes rows.

    Attributes:
        name: Of the expression.
        sql: Its text, with ``{}`` for each argument.
        columns: Turns rows into its arguments, one array each.
        is_counted: Whether the rows must have been there: it answers one for each of them.
    """

    name: LiteralString
    sql: LiteralString
    columns: Callable[[Sequence[Row]], Columns]
    is_counted: bool = False


def columns_of(*names: str) -> Callable[[Sequence[Any]], Columns]:
    """A function that turns records into one array for each of these attributes.

    Example:
        >>> from pixconnect.domain.charge import Payer
        >>> columns_of("name", "tax_id")([Payer(name="A", tax_id="1"), Payer(name="B", tax_id="2")])
        [('A', 'B'), ('1', '2')]
    """
    row_of = attrgetter(*names)

    def columns(rows: Sequence[Any]) -> Columns:
        return list(zip(*map(row_of, rows), strict=True))

    return columns
