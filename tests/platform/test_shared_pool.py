"""Connections are shared fairly, with a real database."""

import asyncio
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import asyncpg
import msgspec
import pytest
from structlog.testing import capture_logs

from pixconnect.kernel.tables.clock import IdBlocks
from pixconnect.platform.base import errors
from pixconnect.platform.flow.shares import current_party
from pixconnect.platform.pool import open_pool
from pixconnect.platform.shared_pool import SLOW_S
from support.cut_connections import open_wire
from support.managed_server import HOST, open_name, url_of
from support.postgres import Addresses
from support.tls import Authority
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pixconnect.platform.pool import Pool


@asynccontextmanager
async def opened(database: Addresses, **options: int) -> "AsyncIterator[Pool]":
    pool = await open_pool(
        database.service_url, role="pixconnect_service", schema="pixconnect", name="test",
        **({"connections_max": 4} | options),
    )  # fmt: skip
    try:
        yield pool
    finally:
        try:
            async with asyncio.timeout(10):
                await pool.close()
        except TimeoutError:  # a test has failed while a task had a connection
            pool.terminate()


class Reader:
    def __init__(self, pool: "Pool", party: str, inside: list[str]) -> None:
        self._pool, self._party, self._inside = pool, party, inside
        self.leave = asyncio.Event()
        self.task = asyncio.create_task(self._read(), context=Context())

    async def _read(self) -> None:
        current_party.set(self._party)
        async with self._pool.acquire() as connection:
            self._inside.append(self._party)
            assert await connection.fetchval("select 1") == 1
            await self.leave.wait()


async def test_a_connection_that_comes_free_is_the_next_holders(database: Addresses) -> None:
    inside: list[str] = []
    async with opened(database) as pool:
        greedy = [Reader(pool, "greedy", inside) for _ in range(8)]
        await until(lambda: len(inside) >= 4)
        calm = Reader(pool, "calm", inside)
        await asyncio.sleep(0.05)
        greedy[0].leave.set()
        await until(lambda: len(inside) >= 5)
        assert inside == ["greedy"] * 4 + ["calm"]
        for reader in (*greedy, calm):
            reader.leave.set()
        await asyncio.gather(*(reader.task for reader in (*greedy, calm)))


async def test_too_many_that_wait_are_refused_and_nothing_of_the_pool_is_lost(database: Addresses) -> None:
    inside: list[str] = []
    async with opened(database, connections_max=1, waiting_max=2) as pool:
        readers = [Reader(pool, "greedy", inside) for _ in range(4)]
        with pytest.raises(errors.ServiceUnavailable):
            await readers[3].task
        readers[1].task.cancel()
        for reader in readers:
            reader.leave.set()
        await asyncio.gather(*(reader.task for reader in readers), return_exceptions=True)
        assert inside == ["greedy", "greedy"]
        assert await pool.fetchval("select 2") == 2
        with pytest.raises(ZeroDivisionError):
            async with pool.acquire():
                raise ZeroDivisionError
        assert await pool.fetchval("select 3") == 3


async def test_a_wait_for_a_connection_has_an_end(database: Addresses) -> None:
    async with opened(database, connections_max=1) as pool, pool.acquire():
        with pytest.raises(TimeoutError):
            async with pool.acquire(timeout=0.05):
                raise AssertionError("there is none")


async def test_what_everybody_waits_for_does_not_stand_in_the_line_of_who_asked_first(database: Addresses) -> None:
    inside: list[str] = []
    async with opened(database, connections_max=1) as pool:
        ids = IdBlocks(pool)
        readers = [Reader(pool, "greedy", inside) for _ in range(6)]
        await until(lambda: len(inside) >= 1)

        async def take_id() -> int:
            current_party.set("greedy")
            return await ids.charge_id()

        taking = asyncio.create_task(take_id(), context=Context())
        await asyncio.sleep(0.05)
        readers[0].leave.set()
        readers[1].leave.set()
        async with asyncio.timeout(60):
            assert await taking > 0
        assert len(inside) <= 3
        for reader in readers:
            reader.leave.set()
        await asyncio.gather(*(reader.task for reader in readers))


async def test_a_database_without_our_tables_is_away_to_who_asks_for_a_connection(database: Addresses) -> None:
    async def look(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        if begun:
            await connection.execute("select from a_table_that_is_being_restored")

    begun: list[bool] = []
    pool = await open_pool(
        database.service_url, role="pixconnect_service", schema="pixconnect", name="test", connections_max=2, look=look
    )
    begun.append(True)
    async with pool.acquire():
        with pytest.raises(ConnectionError, match="a_table_that_is_being_restored"):
            await pool.fetchval("select 1")
    assert await pool.fetchval("select 1") == 1
    await pool.close()


GONE = (OSError, asyncpg.InterfaceError, asyncpg.PostgresConnectionError)


async def test_while_no_connection_can_be_opened_everybody_hears_so_at_once_until_one_can(database: Addresses) -> None:
    async with open_wire(database) as (wire, near), opened(near) as pool:
        assert await pool.fetchval("select 1") == 1
        assert not pool.is_away
        wire.is_away = True
        await wire.end()
        for _ in range(2):
            with pytest.raises(GONE):
                await pool.fetchval("select 2")
        assert pool.away_for_s > 0
        async with asyncio.timeout(60):
            while not pool.is_away:  # noqa: ASYNC110  nothing tells
                await asyncio.sleep(0.01)
        for _ in range(100):
            with pytest.raises(ConnectionRefusedError, match="the database is away"):
                await pool.fetchval("select 4")
        with pytest.raises(GONE) as tried:
            async with pool.acquire(insists=True):
                """Nobody gets here."""
        assert "the database is away" not in str(tried.value)
        wire.is_away = False
        async with asyncio.timeout(60):
            while pool.is_away:  # noqa: ASYNC110  nothing tells
                await asyncio.sleep(0.01)
        assert await pool.fetchval("select 5") == 5


async def test_who_gave_up_a_connection_that_took_long_to_open_has_found_the_database_away(database: Addresses) -> None:
    async with open_wire(database) as (wire, near), opened(near, connections_max=1) as pool:
        wire.is_still = True
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await pool.fetchval("select 1")
        assert not pool.away_for_s
        # As long as callers wait who are verified: a proxy without a server takes connections for longer.
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SLOW_S + 0.1):
                await pool.fetchval("select 2")
        async with asyncio.timeout(60):
            while not pool.is_away:  # noqa: ASYNC110  nothing tells
                await asyncio.sleep(0.01)
        with pytest.raises(ConnectionRefusedError, match="the database is away"):
            await pool.fetchval("select 3")
        wire.is_still = False
        async with asyncio.timeout(60):
            while pool.is_away:  # noqa: ASYNC110  nothing tells
                await asyncio.sleep(0.01)
        assert await pool.fetchval("select 4") == 4


async def test_whoever_has_a_connection_left_is_not_away(database: Addresses) -> None:
    long_ago_s = 0.0
    async with opened(database) as pool:
        assert await pool.fetchval("select 1") == 1
        pool.note_failure(ConnectionRefusedError(), long_ago_s)
        assert not pool.is_away
        assert await pool.fetchval("select 2") == 2


async def test_a_server_that_has_no_connection_left_is_not_away(database: Addresses) -> None:
    async with open_wire(database) as (wire, near), opened(near) as pool:
        wire.is_away = True
        await wire.end()
        async with asyncio.timeout(60):
            while pool.get_idle_size():  # noqa: ASYNC110  nothing tells
                await asyncio.sleep(0.01)
        pool.note_failure(asyncpg.TooManyConnectionsError(), 0.0)
        assert not pool.is_away
        pool.note_failure(ConnectionRefusedError(), 0.0)
        assert pool.is_away


async def test_a_certificate_that_no_longer_matches_is_told_once(database: Addresses, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    place = urlsplit(database.service_url)
    with open_name(authority.server_context(HOST)) as name:
        url = url_of(place.netloc.rpartition("@")[0], name.port, tmp_path / "ca.pem", place.path[1:])
        name.lead_to(parse_qs(place.query)["host"][0])
        async with opened(msgspec.structs.replace(database, service_url=url)) as pool:
            assert await pool.fetchval("select 1") == 1
            name.prove_by(authority.server_context("another.example"))
            with capture_logs() as logs:
                name.lead_to(parse_qs(place.query)["host"][0])
                async with asyncio.timeout(60):
                    while not pool.is_away:
                        with suppress(*GONE):
                            await pool.fetchval("select 2")
                        await asyncio.sleep(0.01)
            [said] = [line for line in logs if line["log_level"] == "critical"]
            assert "PIXCONNECT_DATABASE_URL" in said["event"]
            assert "another.example" in said["error"] or HOST in said["error"]
            name.prove_by(authority.server_context(HOST))
            async with asyncio.timeout(60):
                while pool.is_away:  # noqa: ASYNC110  nothing tells
                    await asyncio.sleep(0.01)
            assert await pool.fetchval("select 3") == 3
