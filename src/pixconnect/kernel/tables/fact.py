"""Facts: the kinds of rows that batches write, each declared beside its table.

::

    TRANSFERS = Fact(rank=40, inserts=(INSERT,), updates=(UPDATE,), sort_key=attrgetter("end_to_end_id"))
    ...
    work.put(TRANSFERS, transfer)
    work.move(TRANSFERS, before, after)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct

from pixconnect.kernel.tables.table import Part
from pixconnect.platform.base import errors

Row = TypeVar("Row", bound=Struct)
Follow: TypeAlias = "Callable[[Row | None, Row | None], Iterable[tuple[Fact[Any], Any]]]"
"""Returns rows of other facts, from a row before a change (``None`` for a new one) and after (``None`` for a deleted one)."""


class Fact(Struct, Generic[Row], frozen=True, kw_only=True, eq=False):
    rank: int
    """Its place in a batch's statement, so that all batches lock rows in one order. Unique."""
    inserts: Sequence[Part[Row]]
    find_insert: Callable[[Row], Part[Row]] | None = None
    """Which of ``inserts`` writes a row; the only one by default."""
    updates: Sequence[Part[Row]] = ()
    find_update: Callable[[Row, Row], Part[Row]] | None = None
    """Which of ``updates`` writes a row, from the row before the batch and after it; the only one by default."""
    delete: Part[Row] | None = None
    may_move_new: bool = False
    """Whether a new row may change in its batch: columns that ``inserts`` leave out would be lost."""
    key: Callable[[Row], Hashable] | None = attrgetter("id", "holder_id")
    """Identifies a row, and sorts changed ones. ``None``: rows are only added."""
    sort_key: Callable[[Row], Any] | None = None
    """Sorts new rows: all columns on which two processes can conflict, to avoid deadlocks. ``None``: in the batch's order."""
    follow: Follow[Row] | None = None
    """Rows of other facts that are written with each change."""


class FactRows(Generic[Row]):
    __slots__ = ("deleted", "fact", "moved", "new")

    def __init__(self, fact: Fact[Row]) -> None:
        self.fact = fact
        self.new: dict[Hashable, Row] = {}
        self.moved: dict[Any, tuple[Row, Row]] = {}
        """Their state before and after the batch."""
        self.deleted: list[Row] = []

    def put(self, row: Row) -> None:
        key = self.fact.key
        self.new[len(self.new) if key is None else key(row)] = row

    def move(self, before: Row, after: Row) -> None:
        fact = self.fact
        key = after if fact.key is None else fact.key(after)
        # A new row of this batch does not exist yet, so it cannot be changed.
        if key in self.new:
            errors.ensure(fact.may_move_new, "a row that this batch makes is not changed by it")
            self.new[key] = after
        else:
            first, _ = self.moved.get(key, (before, after))
            self.moved[key] = first, after

    def list_parts(self) -> list[tuple[Part[Row], list[Row]]]:
        """List the parts that have rows."""
        fact, find_insert, find_update = self.fact, self.fact.find_insert, self.fact.find_update
        by_part: dict[Part[Row], list[Row]] = {part: [] for part in (*fact.inserts, *fact.updates)}
        for row in self.new.values() if fact.sort_key is None else sorted(self.new.values(), key=fact.sort_key):
            by_part[fact.inserts[0] if find_insert is None else find_insert(row)].append(row)
        for key in sorted(self.moved):
            before, after = self.moved[key]
            by_part[fact.updates[0] if find_update is None else find_update(before, after)].append(after)
        if self.deleted:
            by_part[errors.require(fact.delete, "rows of this fact are not deleted")] = self.deleted
        return [(part, rows) for part, rows in by_part.items() if rows]
