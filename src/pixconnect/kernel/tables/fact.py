"""Facts: the kinds of rows that batches write, each declared beside its table.

::

    TRANSFERS = Fact(rank=40, inserts=(INSERT,), updates=(UPDATE,), sort_key=attrgetter("end_to_end_id"))
    ...
    work.put(TRANSFERS, transfer)
    work.move(TRANSFERS, before, after)

The changes of one batch (rows, money, events, deliveries and totals) go to PostgreSQL in one statement: one round trip, and all
or nothing. The statement is assembled from the parts that have rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Any, Generic, LiteralString, TypeAlias, TypeVar

from msgspec import Struct

from pixconnect.kernel.tables.table import Part, numbered
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection

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
        self.moved: dict[Any, tuple[Row, Row]] = {}  # their state before and after the batch
        self.deleted: list[Row] = []

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
        fact, find_insert, find_update = self.fact, self.fact.find_insert, self.fact.find_update
        by_part: dict[Part[Row], list[Row]] = {part: [] for part in (*fact.inserts, *fact.updates)}
        new = list(self.new.values()) if fact.sort_key is None else sorted(self.new.values(), key=fact.sort_key)
        if find_insert is None:
            by_part[fact.inserts[0]] = new
        else:
            for row in new:
                by_part[find_insert(row)].append(row)
        for key in sorted(self.moved):
            before, after = self.moved[key]
            by_part[fact.updates[0] if find_update is None else find_update(before, after)].append(after)
        if self.deleted:
            by_part[errors.require(fact.delete, "rows of this fact are not deleted")] = self.deleted
        return [(part, rows) for part, rows in by_part.items() if rows]


class _RowsByFact(dict[Fact[Any], FactRows[Any]]):
    def __missing__(self, fact: Fact[Any]) -> FactRows[Any]:
        rows = self[fact] = FactRows(fact)
        return rows


class Changes:
    """Collects the rows that a batch writes, request by request."""

    def __init__(self) -> None:
        self._by_fact = _RowsByFact()

    def put(self, fact: Fact[Row], row: Row) -> None:
        new, key = self._by_fact[fact].new, fact.key
        new[len(new) if key is None else key(row)] = row
        if fact.follow is not None:
            for other, its in fact.follow(None, row):
                self.put(other, its)

    def move(self, fact: Fact[Row], before: Row, after: Row) -> None:
        """Write a change of a row; its lock is held, or this batch makes it."""
        self._by_fact[fact].move(before, after)
        if fact.follow is not None:
            self._put_all(fact.follow(before, after))

    def delete(self, fact: Fact[Row], row: Row) -> None:
        """Delete a row whose lock is held."""
        self._by_fact[fact].deleted.append(row)
        if fact.follow is not None:
            self._put_all(fact.follow(row, None))

    def list_new(self, fact: Fact[Row]) -> list[Row]:
        return list(self._by_fact[fact].new.values()) if fact in self._by_fact else []

    def _put_all(self, followers: Iterable[tuple[Fact[Any], Any]]) -> None:
        for fact, row in followers:
            self.put(fact, row)

    async def write_all(self, connection: Connection) -> bool:
        """Write all of it in one statement.

        Returns:
            Whether deliveries were written, so that workers have something to send.

        Raises:
            asyncpg.UniqueViolationError: Another process used the same external id or end-to-end id meanwhile.
        """
        ranked = sorted(self._by_fact.values(), key=attrgetter("fact.rank"))
        present = [part for rows in ranked for part in rows.list_parts()]
        if not present:
            return False  # every request of the batch was refused or a replay
        fitting = [part.fit(rows) for part, rows in present]
        written = tuple([(part, sql, len(sent)) for (part, _), (sql, sent) in zip(present, fitting, strict=True)])
        row = await connection.fetchrow(_statement(written), *chain.from_iterable([sent for _, sent in fitting]))
        if row is None:
            raise errors.InvariantBroken("a statement that selects has a row")
        for part, rows in present:
            if part.returns == "each row":
                # These rows are locked, so a missing one is an internal defect: nothing of the batch may be committed.
                errors.ensure(row[part.name] == len(rows), part.name)
        return any(row[part.name] for part, _ in present if part.returns == "any row")


# Cached: the same text is also the same prepared statement of a connection.
@cache
def _statement(parts: tuple[tuple[Part[Any], LiteralString, int], ...]) -> LiteralString:
    expressions: list[LiteralString] = []
    first = 1
    for part, sql, arguments_count in parts:
        expressions.append(f"{part.name} as ({numbered(sql, arguments_count, first)})")
        first += arguments_count
    present = [part for part, _, _ in parts]
    for part in present:
        errors.ensure(part.reads is None or part.reads in present, f"{part.name} reads rows that are not written")
    answers: list[LiteralString] = [answer for part in present if (answer := part.answer) is not None]
    return "with " + ", ".join(expressions) + " select " + ", ".join(answers)
