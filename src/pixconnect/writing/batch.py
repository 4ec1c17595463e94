"""A batch: the requests that are written together, and the transaction in which they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import structlog

from pixconnect.domain.clock import Clock
from pixconnect.foundation.pool import Connection

Item = TypeVar("Item")

_log = structlog.get_logger(__name__)


class Batch(list[Item]):
    """Requests of one kind; each try to write them has a batch of its own.

    Args:
        requests: Those it begins with.
        connection: With the batch's transaction open.
        clock: Takes over what the database's says.
        wake_workers: Says, without waiting, that there is something to do.
        find_latecomers: Takes out of the queue what fits, in order.
    """

    def __init__(
        self,
        requests: Iterable[Item],
        connection: Connection,
        clock: Clock,
        wake_workers: Callable[[], None],
        find_latecomers: Callable[[Callable[[Item], bool]], Iterable[Item]] = lambda _: (),
    ) -> None:
        super().__init__(requests)
        self.connection = connection
        self.clock = clock
        self.wake_workers = wake_workers
        self._find_latecomers = find_latecomers
        self._commit_hooks: list[Callable[[], None]] = []

    def admit(self, fits: Callable[[Item], bool]) -> None:
        """Take in what has arrived meanwhile and needs no lock that is not held."""
        self.extend(self._find_latecomers(fits))

    def on_commit(self, hook: Callable[[], None]) -> None:
        """Call this when the batch has become durable, and not before; never where it does not."""
        self._commit_hooks.append(hook)

    def tell_committed(self) -> None:
        """Call the hooks. None of them can fail a batch that is written."""
        for hook in self._commit_hooks:
            try:
                hook()
            except Exception:  # noqa: BLE001  whoever is told looks anyway; these requests are written
                _log.exception("nobody was told of a commit")
