"""A batch: requests that are written together, their transaction, and the operations that write them.

::

    START_TRANSFERS = WriteOperation("start_transfers", _start_transfers)
    ...
    transfer = await context.writes.submit(START_TRANSFERS, new)

The changes of one batch (rows, money, events, deliveries and totals) go to PostgreSQL in one statement: one round trip, and all
or nothing. The statement is assembled from the parts that have rows.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from typing import Any, Generic, LiteralString, Protocol, TypeVar

import msgspec
import structlog

from pixconnect.kernel.rules.event import Event
from pixconnect.kernel.rules.money import show_reais
from pixconnect.kernel.tables.fact import Fact, FactRows, Row
from pixconnect.kernel.tables.table import Part, numbered
from pixconnect.platform import logging as our_logging
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.notifier import WakeWorkers
from pixconnect.platform.pool import Connection

Item = TypeVar("Item")

_log = structlog.get_logger(__name__)


def _wake_none(orders_count: int = 0, *, only_deliveries: bool = False) -> None:
    """For processes without a connection to wake workers; these poll too."""
    del orders_count, only_deliveries


class Batch(list[Item]):
    """Requests of one kind; each try to write them has its own batch."""

    def __init__(
        self,
        requests: Iterable[Item],
        connection: Connection,
        clock: Clock,
        wake_workers: WakeWorkers = _wake_none,
        wake_sequencer: Callable[[], None] = _wake_none,
        find_latecomers: Callable[[Callable[[Item], bool]], Iterable[Item]] = lambda _: (),
    ) -> None:
        super().__init__(requests)
        self.connection = connection
        self.clock = clock
        self.wake_workers = wake_workers
        self.wake_sequencer = wake_sequencer
        self._find_latecomers = find_latecomers
        self._commit_hooks: list[Callable[[], None]] = []

    def admit(self, fits: Callable[[Item], bool]) -> None:
        """Add requests that have arrived meanwhile and need only our locks."""
        self.extend(self._find_latecomers(fits))

    def on_commit(self, hook: Callable[[], None]) -> None:
        """Register a callback for after the commit; it is never called if the batch does not commit."""
        self._commit_hooks.append(hook)

    def run_commit_hooks(self) -> None:
        for hook in self._commit_hooks:
            try:
                hook()
            # The batch is committed, so nothing may fail it any more; workers poll too.
            except Exception:  # noqa: BLE001
                _log.exception("a notification after a commit failed")


class OfHolder(Protocol):
    """A request that can wait in a queue: queues are shared fairly among holders."""

    @property
    def holder_id(self) -> int: ...


Request = TypeVar("Request", bound=OfHolder)
Answer = TypeVar("Answer")
Answer_contra = TypeVar("Answer_contra", contravariant=True)
Outcomes = Sequence[Answer | errors.PixConnectError]


class PendingReply(Protocol[Answer_contra]):
    """Receives a request's outcome: a future, or something cheaper that raises nothing."""

    def done(self) -> bool:
        """Whether no caller waits any more."""
        ...

    def set_result(self, result: Answer_contra, /) -> None: ...

    def set_exception(self, exception: errors.PixConnectError, /) -> None: ...


class WriteOperation(Generic[Request, Answer]):
    """One way of writing.

    Args:
        write: Writes a batch in its transaction and returns one outcome for each request, in order, admitted ones
            included. It may be called again with the same requests, and must then find what it wrote.
        write_at_once: Writes a batch by a single statement, without a transaction around it; ``None`` if it cannot, and has
            written nothing. What it writes, ``write`` must find.
        makes_orders: Whether workers have to hand over what it writes.
        external_id_of: The idempotency key under which a client can repeat a request.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[Batch[Request]], Awaitable[Outcomes[Answer]]],
        *,
        write_at_once: Callable[[Batch[Request]], Awaitable[Outcomes[Answer] | None]] | None = None,
        makes_orders: bool = False,
        external_id_of: Callable[[Request], str | None] = lambda _: None,
    ) -> None:
        self.name = name
        self.write = write
        self.write_at_once = write_at_once
        self.makes_orders = makes_orders
        self.external_id_of = external_id_of

    async def write_within(self, connection: Connection, clock: Clock, requests: Sequence[Request]) -> Outcomes[Answer]:
        """Write one request in the caller's own transaction, which may hold other locks and write more."""
        return await self.write(Batch(list(requests), connection, clock))


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
