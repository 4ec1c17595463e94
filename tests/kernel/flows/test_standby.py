"""Reads at a real standby: their maximum age, and when they return to the primary."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg
import msgspec
import pytest
from structlog.testing import capture_logs

from pixconnect.features.statements import service as statement_usecases
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows.standby import GOOD_LOOKS_MIN, Standby, StandbyRefusedError, check_standby
from pixconnect.kernel.rules.charge import ChargeRequest
from pixconnect.kernel.rules.listing import Span
from pixconnect.platform import pool
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Pool
from pixconnect.platform.privileges import SERVICE_ROLE
from support import standby as servers
from support.postgres import Addresses, execute_as_owner
from support.records import own_key
from support.service import open_holder, open_service

pytestmark = [pytest.mark.long]

AGE_MAX_S = 5.0  # more than a look is late on a busy machine
WITHIN_S = 40.0

Pair = tuple[Addresses, servers.Standby]


@pytest.fixture(scope="module")
async def pair() -> AsyncIterator[Pair]:
    """One for all, which each test leaves as it was; the last one has it promoted."""
    async with servers.open_pair(waits=False) as (_, addresses, server):
        yield addresses, server


@asynccontextmanager
async def read_at(server: servers.Standby, primary: Pool) -> AsyncIterator[Standby]:
    """A process's knowledge of a standby, which is updated on request."""
    await primary.execute("insert into installation (mode) values ('sandbox') on conflict do nothing")
    standby = Standby(primary, SystemClock(), age_max_s=AGE_MAX_S)
    connections = await pool.open_standby_pool(
        server.addresses.service_url, primary=primary, role=SERVICE_ROLE, schema="pixconnect", connections_max=3,
        name="test standby", check=standby.check,
    )  # fmt: skip
    standby.use(connections)
    try:
        yield standby
    finally:
        await pool.close_pool(connections)


async def look_until(standby: Standby, *, is_used: bool) -> None:
    async with asyncio.timeout(WITHIN_S):
        while (standby.why_not is None) != is_used:
            await standby.look()
            await asyncio.sleep(0.05)


def reading(which: Pool) -> Callable[[], Awaitable[bool]]:
    """Whether a standby answered."""
    return lambda: which.fetchval("select pg_is_in_recovery()")


async def test_what_a_standby_cancels_or_does_not_have_yet_is_answered_by_the_primary(pair: Pair) -> None:
    addresses, server = pair
    async with open_service(addresses, clock=SystemClock()) as service, read_at(server, service.context.pool) as standby:
        await look_until(standby, is_used=True)

        async def read_slowly() -> str:
            async with standby.pool.acquire() as connection:
                await connection.fetchval("select (select count(*) from holder), pg_sleep(2.5)")
            return "standby"

        async def lock() -> None:
            # Replaying this takes the table from the standby's readers.
            async with asyncio.timeout(WITHIN_S):
                while not await server.ask("select count(*) from pg_stat_activity where wait_event = 'PgSleep'"):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            await execute_as_owner(addresses, "begin; lock table pixconnect.holder in access exclusive mode; commit")

        async def read_here() -> str:
            return "primary"

        answer, _ = await asyncio.gather(standby.read(read_slowly, read_here), lock())
        assert answer == "primary"
        assert standby.outcomes["cancelled"] == 1
        assert standby.why_not is None

        async def find_there() -> str:
            raise errors.NotFound("endpoint: there is none")

        assert await standby.read(find_there, read_here) == "primary"
        assert standby.outcomes["missing"] == 1

        # A refusal is one at both, and a defect is not hidden.
        async def refuse() -> str:
            raise errors.BadRequest("page: too many")

        with pytest.raises(errors.BadRequest):
            await standby.read(refuse, read_here)


async def test_a_standby_of_another_primary_is_not_read_from_however_new_it_is(pair: Pair) -> None:
    addresses, server = pair
    async with open_service(addresses, clock=SystemClock()) as service, read_at(server, service.context.pool) as standby:
        await look_until(standby, is_used=True)
        # As after a failover: the tables' row names the server on which they were written, and the standby does not get
        # it.
        await server.ask("select pg_wal_replay_pause()")
        await execute_as_owner(addresses, "update pixconnect.installation set timeline = 7, beat_at = null")
        await standby.look()
        assert standby.why_not == "its tables are not those of the primary that we know"
        await server.ask("select pg_wal_replay_resume()")
        # It has got it: three good checks in a row are required.
        async with asyncio.timeout(WITHIN_S):
            while standby.why_not is not None:
                await standby.look()
                await asyncio.sleep(0.05)
        assert GOOD_LOOKS_MIN > 1


async def test_a_connection_is_asked_again_only_once_what_it_showed_has_grown_old(pair: Pair) -> None:
    addresses, server = pair
    async with open_service(addresses, clock=SystemClock()) as service, read_at(server, service.context.pool) as standby:
        await look_until(standby, is_used=True)
        asked = list[str]()

        async def count_statements() -> None:
            async with standby.pool.acquire() as connection:
                connection.add_query_logger(lambda query: asked.append(query.query))

        await count_statements()
        for _ in range(5):
            await standby.pool.fetchval("select 1")
        assert asked == ["select 1"] * 5
        # Behind a name of several standbys, each connection is judged by its own server.
        await server.ask("select pg_wal_replay_pause()")
        await asyncio.sleep(AGE_MAX_S + 1)
        await standby.look()
        with pytest.raises(StandbyRefusedError, match=r"its tables are \d+ s old"):
            await standby.pool.fetchval("select 1")
        await server.ask("select pg_wal_replay_resume()")


async def test_a_statement_begun_at_a_standby_is_ended_by_the_primary_with_every_line(pair: Pair) -> None:
    addresses, server = pair
    async with open_service(addresses, clock=SystemClock()) as service, read_at(server, service.context.pool) as standby:
        caller = await open_holder(service)
        for number in range(6):
            await ledger_usecases.deposit(service.context, caller.holder_id, 100 + number)
        await look_until(standby, is_used=True)
        async with asyncio.timeout(WITHIN_S):
            while await server.ask("select count(*) from pixconnect.ledger_entry") != 6:  # noqa: ASYNC110  nothing tells
                await asyncio.sleep(0.05)
        there = msgspec.structs.replace(service.context, pool=standby.pool)
        now = SystemClock().now()
        found = await statement_usecases.open_statement(there, caller, now.replace(year=2000), now)
        lines = list[int]()
        async for part in statement_usecases.read_parts(there, found, lines_a_part=2):
            lines += [line.amount_cents for line in part]
            server.end()
        assert lines == [100, 101, 102, 103, 104, 105]
        server.start()


async def test_lists_read_at_a_standby_what_was_written_at_the_primary_and_write_nothing(pair: Pair) -> None:
    addresses, server = pair
    async with open_service(addresses, clock=SystemClock()) as service, read_at(server, service.context.pool) as standby:
        caller = await open_holder(service, account_number="2")
        request = ChargeRequest(amount_cents=5, key=own_key("2"), external_id="one")
        made = await charge_usecases.create_charge(service.context, caller, request)
        await look_until(standby, is_used=True)
        there = msgspec.structs.replace(service.context, pool=standby.pool)
        async with asyncio.timeout(WITHIN_S):
            while not (await charge_usecases.list_charges(there, caller, "PENDING", Span())).items:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        page = await charge_usecases.list_charges(there, caller, "PENDING", Span())
        assert [charge.id for charge in page.items] == [made.id]


async def test_reads_go_to_a_standby_while_it_is_young_enough_and_to_the_primary_otherwise(pair: Pair) -> None:
    addresses, server = pair
    async with open_service(addresses, clock=SystemClock()) as service, read_at(server, service.context.pool) as standby:
        primary = service.context.pool

        async def is_answered_there() -> bool:
            return await standby.read(reading(standby.pool), reading(primary))

        # Before the first check the service reads nothing at the standby, and its health reports that.
        assert not await is_answered_there()
        with pytest.raises(errors.ServiceUnavailable, match="not looked at yet"):
            await check_standby(standby)
        await look_until(standby, is_used=True)
        await check_standby(standby)
        assert await is_answered_there()
        assert standby.age_s is not None
        assert standby.age_s <= AGE_MAX_S

        # It stays in use without writes, though PostgreSQL's instant of the last transaction grows old.
        for _ in range(6):
            await asyncio.sleep(AGE_MAX_S / 4)
            await standby.look()
        await look_until(standby, is_used=True)
        assert await is_answered_there()

        # Replay stands still: it answers all the while, and is too old.
        await server.ask("select pg_wal_replay_pause()")
        with capture_logs() as lines:
            await look_until(standby, is_used=False)
            for _ in range(5):
                assert not await is_answered_there()
                await standby.look()
        assert [line["event"] for line in lines] == ["the standby is not read from, and the primary instead"]
        with pytest.raises(errors.ServiceUnavailable, match=r"its tables are \d+ s old: at most 5 s are allowed"):
            await check_standby(standby)
        await server.ask("select pg_wal_replay_resume()")
        await look_until(standby, is_used=True)

        # It is gone, and comes back.
        server.end()
        assert not await is_answered_there()
        await look_until(standby, is_used=False)
        server.start()
        await look_until(standby, is_used=True)
        assert await is_answered_there()

        # A hanging query is repeated at the primary, and the watch abandons it.
        with server.standing_still():
            assert not await is_answered_there()
            await look_until(standby, is_used=False)
        await look_until(standby, is_used=True)

        # After the promotion the server of an existing session accepts writes, and the session itself still refuses them.
        async with standby.pool.acquire() as connection:
            await server.promote()
            with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
                await connection.execute("update installation set beat_at = null")
        await look_until(standby, is_used=False)
        assert standby.why_not == "it is no standby: it was promoted, or its address leads to the primary"
        assert not await is_answered_there()
        assert standby.outcomes["failed"] >= 2
        assert standby.outcomes["not_used"] >= 6
