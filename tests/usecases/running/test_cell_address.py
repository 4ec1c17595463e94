"""Which servers may still answer at the former address of a cell that is set to another one."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from uuid import uuid4

import asyncpg
import pytest

from pixconnect.domain.running.known_cell import KnownCell
from pixconnect.usecases.running.cell_address import Connect, is_the_same
from pixconnect.usecases.running.installation import InstallationError
from support import cells
from support.old_home import new_home
from support.postgres import Addresses
from support.standby import Standby, open_pair

pytestmark = pytest.mark.long


def connecting(places: Mapping[str, Addresses]) -> Connect:
    @asynccontextmanager
    async def open_operator(address: str) -> AsyncIterator[asyncpg.Connection]:
        connection = await asyncpg.connect(
            places[address].owner_url, server_settings={"search_path": "pixconnect", "role": "pixconnect_operator"}
        )
        try:
            yield connection
        finally:
            await connection.close()

    def connect(address: str) -> AbstractAsyncContextManager[asyncpg.Connection]:
        return open_operator(address)

    return connect


async def test_a_standby_that_answers_is_one_of_the_server_that_is_set_or_there_would_be_two() -> None:
    async with open_pair(waits=False) as (primary, addresses, standby):
        with new_home() as folder:
            restored = Standby(primary, addresses, folder)
            places = {cells.address_of(each): each for each in (addresses, standby.addresses, restored.addresses)}
            former, connect = cells.address_of(standby.addresses), connecting(places)
            known = KnownCell(
                number=1, name="second", identity=uuid4(), state="OPEN", added_at=datetime.now(UTC), address=former
            )
            await cells.let_claim(addresses, known)
            await asyncio.to_thread(restored.copy)
            restored.start()
            try:
                await restored.wait_until_there()
                await restored.promote()
                async with connect(cells.address_of(addresses)) as there:
                    assert not await is_the_same(connect, known, there, is_fenced=False)
                for is_fenced in (False, True):
                    async with connect(cells.address_of(restored.addresses)) as there:
                        with pytest.raises(InstallationError, match="is a standby of another server"):
                            await is_the_same(connect, known, there, is_fenced=is_fenced)
            finally:
                restored.end()
