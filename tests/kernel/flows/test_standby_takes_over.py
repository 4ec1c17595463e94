"""A process after its server's standby takes over, on a real pair: it checks once, and refuses a server that may forget."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from structlog.testing import capture_logs

from pixconnect.kernel.flows import installation
from pixconnect.kernel.flows.server_watch import ServerWatch
from pixconnect.kernel.tables import database_loss as loss_store
from pixconnect.kernel.tables import installation as installation_store
from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres
from pixconnect.platform.pool import Pool, close_pool
from support.cut_connections import Wire, open_wire
from support.postgres import Addresses
from support.service import open_watched_pool
from support.standby import CLUSTER, Standby, open_pair

pytestmark = [pytest.mark.long]

TOGETHER = 10


@asynccontextmanager
async def open_process(database: Addresses, watch: ServerWatch) -> AsyncIterator[Pool]:
    pool = await open_watched_pool(database, watch, TOGETHER)
    try:
        async with pool.acquire() as connection:
            await installation.check_mode(connection, "sandbox")
            await watch.begin(connection)
        yield pool
    finally:
        await close_pool(pool)


async def take_all(pool: Pool) -> None:
    together = asyncio.Barrier(TOGETHER)

    async def take() -> None:
        async with pool.acquire():
            await together.wait()

    await asyncio.gather(*(take() for _ in range(TOGETHER)))


async def test_the_connections_of_a_process_meet_the_new_primary_once() -> None:
    watch = ServerWatch()
    forgotten: list[None] = []
    async with open_pair() as (primary, addresses, standby), open_wire(addresses) as (wire, near):  # noqa: SIM117
        async with open_process(near, watch) as pool:
            await take_all(pool)
            watch.on_start(lambda: forgotten.append(None))
            wire.lead_to(standby.addresses)
            await wire.end()
            pool.expire()
            with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
                await pool.fetchval("select 1")
            await primary.stop(timeout_s=0)
            await standby.promote()
            await standby.ask("alter system reset synchronous_standby_names")
            await standby.ask("select pg_reload_conf()")
            with capture_logs() as logs:
                await take_all(pool)
            assert [line["timeline"] for line in logs if line["log_level"] == "critical"] == [2]
            assert len(forgotten) == 1
            (loss,) = await loss_store.find_losses(pool)
            assert "another timeline, 2 after 1" in loss.reason


async def test_a_live_process_takes_no_connection_to_a_server_that_may_forget(database: Addresses) -> None:
    """The run's own server is such a one: it never waits for its disk."""
    watch = ServerWatch(must_last=True)
    with capture_logs() as logs, pytest.raises(ConnectionRefusedError, match="fsync and full_page_writes off"):
        async with open_process(database, watch) as pool:
            await take_all(pool)
    assert [line["off"] for line in logs] == [["fsync", "full_page_writes"]]


async def take_over(primary: EmbeddedPostgres, standby: Standby, pool: Pool, wire: Wire) -> None:
    await primary.stop(timeout_s=0)
    await standby.promote()
    await standby.ask("alter system reset synchronous_standby_names")
    await standby.ask("select pg_reload_conf()")
    wire.lead_to(standby.addresses)
    await wire.end()
    pool.expire()


async def test_in_a_cluster_a_standby_that_was_waited_for_takes_over_and_nothing_counts_as_forgotten() -> None:
    watch = ServerWatch(cluster=CLUSTER)
    forgotten: list[None] = []
    async with open_pair() as (primary, addresses, standby), open_wire(addresses) as (wire, near):  # noqa: SIM117
        async with open_process(near, watch) as pool:
            async with pool.acquire() as connection:
                assert await watch.note(connection)
                before = await connection.fetchval("select nextval('transfer_id')")
            watch.on_start(lambda: forgotten.append(None))
            await take_over(primary, standby, pool, wire)
            with capture_logs() as logs:
                await take_all(pool)
            assert [line["timeline"] for line in logs if "taken over" in line["event"]] == [2]
            assert len(forgotten) == 1
            assert await loss_store.find_losses(pool) == []
            assert watch.first_ids.transfer_id > before
            # It has no standby yet, so its successor may have lost something.
            async with pool.acquire() as connection:
                assert await installation_store.find_waiting_cluster(connection) is None


async def test_in_a_cluster_whose_commits_waited_for_nobody_a_takeover_is_a_loss() -> None:
    watch = ServerWatch(cluster=CLUSTER)
    async with open_pair() as (primary, addresses, standby), open_wire(addresses) as (wire, near):  # noqa: SIM117
        async with open_process(near, watch) as pool:
            owner = await asyncpg.connect(primary.owner_url)
            await owner.execute("alter system reset synchronous_standby_names")
            await owner.execute("select pg_reload_conf()")
            await owner.close()
            async with pool.acquire() as connection:
                async with asyncio.timeout(60):
                    while not await installation_store.note_cluster(connection):  # noqa: ASYNC110  nothing tells
                        await asyncio.sleep(0.05)
                position = await connection.fetchval("select pg_current_wal_flush_lsn()::text")
            async with asyncio.timeout(60):
                while not await standby.ask(f"select pg_last_wal_receive_lsn() >= '{position}'"):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            await take_over(primary, standby, pool, wire)
            await take_all(pool)
            (loss,) = await loss_store.find_losses(pool)
            assert "another timeline, 2 after 1" in loss.reason


_LAST_ID = "select last_value from pixconnect.transfer_id"
_DIE = """
    create function pixconnect.die() returns trigger language plpgsql as $$ begin raise exception 'it dies here'; end $$;
    create trigger die before update on pixconnect.installation for each row execute function pixconnect.die()
"""


async def test_in_a_cluster_a_process_that_dies_while_it_meets_the_new_primary_has_changed_nothing() -> None:
    async with open_pair() as (primary, addresses, standby), open_wire(addresses) as (wire, near):
        async with open_process(near, ServerWatch(cluster=CLUSTER)) as pool:
            before = await standby.ask(_LAST_ID)
            assert isinstance(before, int)
            await take_over(primary, standby, pool, wire)
            owner = await asyncpg.connect(standby.addresses.owner_url)
            await owner.execute(_DIE)
            # Ids have moved ahead by then, which no rollback undoes: some are left out, and none is assigned twice.
            with pytest.raises(ConnectionError, match="it dies here"):
                await pool.fetchval("select 1")
            assert await owner.fetchval("select timeline from pixconnect.installation") == 1
            await owner.execute("drop trigger die on pixconnect.installation")
            await owner.close()
        async with open_process(near, ServerWatch(cluster=CLUSTER)) as pool:
            assert await pool.fetchval("select timeline from installation") == 2
            after = await standby.ask(_LAST_ID)
            assert isinstance(after, int)
            assert after > before
            assert await loss_store.find_losses(pool) == []


async def test_of_two_primaries_the_one_that_was_replaced_is_not_used_and_nor_is_that_of_another_cluster() -> None:
    watch = ServerWatch(cluster=CLUSTER)
    async with open_pair() as (_, addresses, standby), open_wire(addresses) as (wire, near):  # noqa: SIM117
        async with open_process(near, watch) as pool:
            await standby.promote()
            wire.lead_to(standby.addresses)
            await wire.end()
            pool.expire()
            await standby.ask("alter system reset synchronous_standby_names")
            await standby.ask("select pg_reload_conf()")
            await take_all(pool)
            wire.lead_to(addresses)
            await wire.end()
            pool.expire()
            with pytest.raises(ConnectionRefusedError, match="on timeline 1, and another of its cluster has been on 2"):
                await pool.fetchval("select 1")
            with pytest.raises(ConnectionRefusedError, match=r'of the cluster "pair", and .* name "another"'):
                async with open_process(addresses, ServerWatch(cluster="another")):
                    """Nobody gets here."""
