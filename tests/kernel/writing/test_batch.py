"""The time-out of a try on a silent server, and the end of a batch, on a real connection."""

from weakref import ref

import asyncpg
import pytest

from pixconnect.kernel.writing.batch import Batch, ended_if_silent, is_intact
from pixconnect.kernel.writing.unit_of_work import begin_money_work
from support.service import Service, open_holder

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


async def test_a_batch_is_freed_without_the_garbage_collector(service: Service) -> None:
    """Otherwise it stays until then with all its requests, which took a tenth of the CPU of transfers."""
    caller = await open_holder(service)
    async with service.context.pool.acquire() as connection:
        work = ref(await begin_money_work(Batch([caller], connection, service.clock)))
    assert work() is None
