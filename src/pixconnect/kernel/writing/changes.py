"""The changes of one batch, written by one statement.

Rows, money, events, deliveries and totals go to PostgreSQL together: one round trip, and all or nothing. The statement is
assembled from the parts that have rows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import cache
from typing import Any, LiteralString

import msgspec

from pixconnect.kernel.rules.event import Event
from pixconnect.kernel.rules.money import show_reais
from pixconnect.kernel.tables.fact import Fact, FactRows, Row
from pixconnect.kernel.tables.table import Part, numbered
from pixconnect.platform import logging as our_logging
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection


class _RowsByFact(dict[Fact[Any], FactRows[Any]]):
    def __missing__(self, fact: Fact[Any]) -> FactRows[Any]:
        rows = self[fact] = FactRows(fact)
        return rows


class Changes:
    """Collects the rows that a batch writes, request by request."""

    def __init__(self) -> None:
        self._by_fact = _RowsByFact()

    def put(self, fact: Fact[Row], row: Row) -> None:
        """Write a new row."""
        self._by_fact[fact].put(row)
        if fact.follow is not None:
            self._put_all(fact.follow(None, row))

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
        ranked = sorted(self._by_fact.values(), key=lambda rows: rows.fact.rank)
        present = [part for rows in ranked for part in rows.list_parts()]
        if not present:
            return False  # every request of the batch was refused or a replay
        fitting = [part.fit(rows) for part, rows in present]
        written = tuple((part, sql, len(sent)) for (part, _), (sql, sent) in zip(present, fitting, strict=True))
        row = await connection.fetchrow(_statement(written), *(one for _, arguments in fitting for one in arguments))
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


def log_events(events: Iterable[Event]) -> None:
    for event in events:
        level = logging.WARNING if event.name.endswith(".error") else logging.INFO
        our_logging.print_line(f"event  {describe_event(event.body)}", level=level)


def describe_event(body: str) -> str:
    """Return the name of an event, and of its subject: the amount and its owner's name for it."""
    event: dict[str, Any] = msgspec.json.decode(body)
    payload = event.get("payload", {})
    words = [str(event.get("name", ""))]
    if "amount" in payload:
        words.append(show_reais(payload["amount"]))
    named = payload.get("external_id") or payload.get("end_to_end_id") or payload.get("return_identification")
    return "  ".join([*words, *([str(named)] if named else [])])
