"""The time-out of a try on a silent server, on a real connection."""

import asyncpg
import pytest

from pixconnect.kernel.writing.batch import ended_if_silent, is_intact
from support.service import Service

PATIENCE_S = 0.5


async def test_a_batch_of_many_statements_may_take_its_time_as_long_as_each_is_answered(service: Service) -> None:
    async with service.context.pool.acquire() as connection:
        with ended_if_silent(connection, PATIENCE_S):
            for _ in range(4):
                await connection.execute("select pg_sleep(0.2)")
        # It has no end afterwards, however long it is used.
        await connection.execute("select pg_sleep(0.6)")


async def test_a_connection_that_leaves_a_statement_without_an_answer_is_ended(service: Service) -> None:
    async with service.context.pool.acquire() as connection:
        with ended_if_silent(connection, PATIENCE_S):
            await connection.execute("select pg_sleep(0.2)")
            with pytest.raises(asyncpg.ConnectionDoesNotExistError) as caught:
                await connection.execute("select pg_sleep(9)")
        # The error that the caller sees must be this one, and not that of a look at the connection.
        assert not is_intact(connection, caught.value)
