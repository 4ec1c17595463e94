"""What is written outside of groups: who asks is told 503 only where nothing can have been done.

A group finds out what a lost COMMIT did, by running again under the same ids. What is written here is rare and has no such ids:
where its COMMIT was lost, or a later step failed after an earlier one was durable, the answer is ``OUTCOME_UNKNOWN``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import asyncpg

from pixconnect.domain import errors
from pixconnect.foundation.database_failure import DATABASE_AWAY, DATABASE_BUSY
from pixconnect.foundation.pool import Connection, Pool

_UNKNOWN = "the database was lost while this was written, and whether it was is unknown: look before you ask again"


class LoneWrite:
    """The transactions of one request, and whether any of them may be durable."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.may_be_durable = False

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        """A transaction of its own, durable when this ends."""
        async with self._pool.acquire() as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                yield connection
            except BaseException:
                await transaction.rollback()
                raise
            with self.committing():
                await transaction.commit()

    @contextmanager
    def committing(self) -> Generator[None]:
        """What runs here commits by itself: once it was sent, nobody knows until the answer is there."""
        could_be_before, self.may_be_durable = self.may_be_durable, True
        try:
            yield
        except asyncpg.PostgresError as error:
            if not isinstance(error, DATABASE_AWAY):
                self.may_be_durable = could_be_before  # the server has refused it, all of it
            raise


@asynccontextmanager
async def writing(pool: Pool) -> AsyncGenerator[LoneWrite]:
    """Write in several transactions.

    Raises:
        OutcomeUnknown: The database was lost when something may have been durable already.
    """
    write = LoneWrite(pool)
    try:
        yield write
    except (*DATABASE_AWAY, *DATABASE_BUSY, errors.ServiceUnavailable) as error:
        if write.may_be_durable:
            raise errors.OutcomeUnknown(_UNKNOWN) from error
        raise


@asynccontextmanager
async def write_alone(pool: Pool) -> AsyncGenerator[Connection]:
    """Write in one transaction; errors as in ``writing``."""
    async with writing(pool) as write, write.transaction() as connection:
        yield connection
