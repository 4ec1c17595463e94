"""Whoever drains a cell and whoever opens a holder there at the same moment come one after the other."""

import asyncio

import pytest

from pixconnect.domain.frame import errors
from pixconnect.usecases.frame.cell_figures import drain_cell, refuse_drained
from support.operators import as_operator
from support.postgres import Addresses
from support.service import open_service

_IS_WAITED_FOR = (
    "select exists (select from pg_locks where not granted and pg_backend_pid() = any (pg_blocking_pids(pid)))"
)


async def test_a_cell_is_drained_once_holders_that_are_being_opened_are_there(database: Addresses) -> None:
    async with open_service(database) as service:
        operator = as_operator(service.context)
        await service.context.pool.execute("insert into installation (mode) values ('sandbox') on conflict do nothing")
        async with service.context.pool.acquire() as connection:
            async with connection.transaction():
                await refuse_drained(connection)
                draining = asyncio.create_task(drain_cell(operator, "home"))
                async with asyncio.timeout(60):
                    while not await connection.fetchval(_IS_WAITED_FOR):  # noqa: ASYNC110  nobody tells
                        await asyncio.sleep(0.01)
            assert (await draining).is_drained
            with pytest.raises(errors.BadRequest, match="no holder is opened in this one any more"):
                await refuse_drained(connection)
