"""Writes outside of batches: the answer is 503 only if certainly nothing was done.

A batch finds out what a lost COMMIT did by running again with the same ids. The rare writes here have no such ids: if a COMMIT
was lost, or a step failed after an earlier one had committed, the answer is ``OUTCOME_UNKNOWN``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import asyncpg

from pixconnect.domain.frame import errors
from pixconnect.foundation.database_failure import DATABASE_AWAY, DATABASE_BUSY
from pixconnect.foundation.pool import Connection, Pool

_UNKNOWN = "the database was lost while this was written, and whether it was is unknown: look before you ask again"


class LoneWrite:
    """The transactions of one request, and whether any of them may have committed."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.may_be_durable = False

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        async with self._pool.acquire() as connection, self.begin_on(connection):
            yield connection

    @asynccontextmanager
    async def begin_on(self, connection: Connection) -> AsyncGenerator[Connection]:
        """The same on a connection that the caller keeps, for a lock that outlives the transaction."""
        transaction = connection.transaction()
        await transaction.start()
        try:
            yield connection
        except BaseException:
            await transaction.rollback()
            raise
        with self._committing():
            await transaction.commit()

    @contextmanager
    def _committing(self) -> Generator[None]:
        """Wrap whatever commits: until its answer arrives, nobody knows whether it did."""
        could_be_before, self.may_be_durable = self.may_be_durable, True
        try:
            yield
        except asyncpg.PostgresError as error:
            if not isinstance(error, DATABASE_AWAY):
                self.may_be_durable = could_be_before  # the server has refused it, all of it
            raise


@asynccontextmanager
async def writing(pool: Pool) -> AsyncGenerator[LoneWrite]:
    """Write in several transactions."""
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


@contextmanager
def or_unknown(unknown: errors.OutcomeUnknown) -> Generator[None]:
    """What was asked for is kept, and somebody goes on with it: whatever fails here, it is not true that nothing was done."""
    try:
        yield
    except (*DATABASE_AWAY, *DATABASE_BUSY, errors.ServiceUnavailable) as error:
        raise unknown from error
