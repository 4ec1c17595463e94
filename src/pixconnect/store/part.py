"""Statements are put together from parts: one insert or update each, of whole groups of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, LiteralString, TypeVar

from msgspec import Struct

Row = TypeVar("Row")
Columns = Sequence[Sequence[object]]

Returns = Literal["nothing", "each row", "any row"]
"""What is asked of a part: nothing; that it found each row that it was given; or whether it wrote any."""


class Part(Struct, Generic[Row], frozen=True, kw_only=True):
    """One common table expression that writes rows."""

    name: LiteralString
    """Of the expression."""
    sql: LiteralString
    """Its text, with ``{}`` for each argument."""
    columns: Callable[[Sequence[Row]], Columns]
    """Turns rows into its arguments, one array each."""
    returns: Returns = "nothing"
    reads: Part[Any] | None = None
    """The part whose rows it takes up, which is in every statement that it is in."""

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


def no_columns(_: Sequence[object]) -> Columns:
    """Of a part that is given nothing: it takes up what another one has written."""
    return ()
