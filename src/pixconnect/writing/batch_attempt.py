"""One try to write a batch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import asyncpg

from pixconnect.foundation.database_failure import DATABASE_AWAY
from pixconnect.foundation.pool import Connection
from pixconnect.store.running.installation import WRITE_RECORD
from pixconnect.writing import timeouts


class BatchAttempt:
    """How long a try may wait for locks, and for a connection, and whether it has reached COMMIT."""

    __slots__ = ("committing_at_s", "lock_timeout_ms", "reach_timeout_s")

    def __init__(self, *, lock_timeout_ms: int | None, reach_timeout_s: float) -> None:
        self.lock_timeout_ms = lock_timeout_ms
        self.reach_timeout_s = reach_timeout_s
        self.committing_at_s: float | None = None
        """Set before COMMIT is sent: from there on a lost connection leaves the outcome unknown."""

    def may_have_committed(self, error: Exception) -> bool:
        """Whether the batch may stand although the try ended with this: only the server can say that it does not."""
        # A server that answers with an error of the statement has rolled back. One that goes away says nothing of the COMMIT.
        is_refusal = isinstance(error, asyncpg.PostgresError) and not isinstance(error, DATABASE_AWAY)
        return self.committing_at_s is not None and not is_refusal


@contextmanager
def ended_if_silent(connection: Connection, timeout_s: float = timeouts.SILENT_TIMEOUT_S) -> Generator[None]:
    """End a pool's connection whose server leaves a statement in the block without an answer for so long."""
    began_s = time.monotonic()

    def look() -> None:
        nonlocal timer
        # A batch of many statements may take longer, as long as each is answered.
        left_s = max(began_s, connection.heard_s) + timeout_s - time.monotonic()  # type: ignore[union-attr]  a pool's has it
        if left_s > 0:
            timer = loop.call_later(left_s, look)
        else:
            # To cancel is not enough: the driver then waits for the server's word on that.
            connection.terminate()

    loop = asyncio.get_running_loop()
    timer = loop.call_later(timeout_s, look)
    try:
        yield
    finally:
        timer.cancel()


async def confirm_lost(connection: Connection) -> None:
    """Let this transaction's COMMIT wait for what an earlier one wrote, although this one finds it written and writes nothing.

    A COMMIT that was lost may stand on its own server alone, where an operator has ended its wait for the standby.
    """
    await connection.execute(WRITE_RECORD)


def check_outcomes(outcomes: Sequence[object], requests: Sequence[object]) -> None:
    """Refuse to commit a batch whose operation did not return one outcome for each request."""
    if len(outcomes) != len(requests):
        raise _OutcomesMissingError(f"{len(outcomes)} outcomes of {len(requests)} requests")


class _OutcomesMissingError(Exception): ...
