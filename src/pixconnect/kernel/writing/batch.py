"""A batch: requests that are written together, their transaction, and the operations that write them.

::

    START_TRANSFERS = WriteOperation("start_transfers", _start_transfers)
    ...
    transfer = await context.writes.submit(START_TRANSFERS, new)
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

import structlog

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
