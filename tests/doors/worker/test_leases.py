"""One worker at a time holds a slot, even if processes die or sleep."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from pixconnect.doors.worker import leases
from pixconnect.kernel.tables import lease as lease_store
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.notifier import ONLY_DELIVERIES, ONLY_ORDERS, Notifier
from pixconnect.platform.pool import connect
from support import postgres
from support.cut_connections import open_wire
from support.service import Service
from support.waiting import until

Connection = asyncpg.Connection


@pytest.fixture
async def connections(database: postgres.Addresses) -> AsyncIterator[list[Connection]]:
    opened = [
        await connect(database.service_url, role="pixconnect_service", schema="pixconnect", name="worker") for _ in range(4)
    ]
    yield opened
    for connection in opened:
        connection.terminate()


async def renew(connection: Connection, worker_id: int, given_back: list[int] | None = None) -> leases.Share:
    share = await leases.renew(connection, worker_id, given_back or [], None)
    assert share is not None
    return share


async def test_the_first_worker_takes_every_slot_at_once(connections: list[Connection]) -> None:
    share = await renew(connections[0], await lease_store.join(connections[0]))
    assert sorted(share.epochs) == list(range(256))
    assert set(share.epochs.values()) == {1}


async def test_workers_share_evenly_once_slots_are_given_back(connections: list[Connection]) -> None:
    ids = [await lease_store.join(connection) for connection in connections[:3]]
    first = await renew(connections[0], ids[0])
    assert (len(first.epochs), first.workers_count, first.slots_count) == (86, 3, 86)
    assert len((await renew(connections[1], ids[1])).epochs) == 86
    assert len((await renew(connections[2], ids[2])).epochs) == 84


async def test_a_latecomer_gets_its_part_as_others_give_back(connections: list[Connection]) -> None:
    first, second = connections[:2]
    first_id = await lease_store.join(first)
    await renew(first, first_id)
    second_id = await lease_store.join(second)
    assert (await renew(second, second_id)).epochs == {}
    share = await renew(first, first_id)
    assert (len(share.epochs), share.slots_count) == (256, 128)
    await renew(first, first_id, sorted(share.epochs)[128:])
    taken = (await renew(second, second_id)).epochs
    assert sorted(taken) == list(range(128, 256))
    assert set(taken.values()) == {2}


async def test_the_slots_of_a_worker_whose_connection_is_gone_are_free_at_once(connections: list[Connection]) -> None:
    first, second = connections[:2]
    await renew(first, await lease_store.join(first))
    second_id = await lease_store.join(second)
    await renew(second, second_id)
    first.terminate()
    async with asyncio.timeout(60):
        while len((await renew(second, second_id)).epochs) < 256:  # noqa: ASYNC110  the server notices in its own time
            await asyncio.sleep(0.01)


async def test_the_slots_of_a_worker_that_sleeps_are_free_after_its_lease(connections: list[Connection]) -> None:
    first, second = connections[:2]
    first_id = await lease_store.join(first)
    await renew(first, first_id)
    await first.execute("update worker set expires_at = clock_timestamp() - interval '1 ms'")
    second_id = await lease_store.join(second)
    assert len((await renew(second, second_id)).epochs) == 256
    assert await leases.renew(first, first_id, [], None) is None


async def test_a_lease_that_ran_out_cannot_be_renewed_even_if_nobody_took_over(connections: list[Connection]) -> None:
    first_id = await lease_store.join(connections[0])
    await renew(connections[0], first_id)
    await connections[0].execute("update worker set expires_at = clock_timestamp()")
    assert await leases.renew(connections[0], first_id, [], None) is None


async def test_a_record_is_refused_after_a_takeover(connections: list[Connection]) -> None:
    first, second = connections[:2]
    share = await renew(first, await lease_store.join(first))
    await first.execute("delete from worker")
    await renew(second, await lease_store.join(second))
    async with first.transaction():
        with pytest.raises(leases.LeaseLost):
            await leases.fence(first, {7: share.epochs[7]})


async def test_a_takeover_waits_for_a_record_under_way_and_takes_the_rest(connections: list[Connection]) -> None:
    first, second = connections[:2]
    share = await renew(first, await lease_store.join(first))
    async with connections[2].transaction():
        await leases.fence(connections[2], {7: share.epochs[7]})
        await first.execute("delete from worker")
        second_id = await lease_store.join(second)
        taken = await renew(second, second_id)
        assert sorted(taken.epochs) == [slot for slot in range(256) if slot != 7]
    assert len((await renew(second, second_id)).epochs) == 256


async def test_renewing_does_not_wait_for_records_under_way(connections: list[Connection]) -> None:
    first_id = await lease_store.join(connections[0])
    share = await renew(connections[0], first_id)
    async with connections[1].transaction():
        await leases.fence(connections[1], share.epochs)
        await connections[0].execute("set lock_timeout = 100")
        await renew(connections[0], first_id)


async def test_workers_that_come_and_go_at_once_never_share_a_slot(database: postgres.Addresses) -> None:
    held: dict[int, dict[int, int]] = {}

    async def live(number: int) -> None:
        for _ in range(3):
            connection = await connect(database.service_url, role="pixconnect_service", schema="pixconnect", name="worker")
            worker_id = await lease_store.join(connection)
            for _ in range(6):
                share = await leases.renew(connection, worker_id, [], None)
                assert share is not None
                held[worker_id] = share.epochs
                surplus = sorted(share.epochs)[share.slots_count :]
                for slot in surplus:
                    del held[worker_id][slot]
                await leases.renew(connection, worker_id, surplus, None)
                await asyncio.sleep(0.005 * number)
            del held[worker_id]
            connection.terminate()

    await asyncio.gather(*(live(number) for number in range(4)))
    rows = await _all_leases(database)
    assert len(rows) == 256
    assert held == {}


async def _all_leases(database: postgres.Addresses) -> list[asyncpg.Record]:
    connection = await connect(database.service_url, role="pixconnect_service", schema="pixconnect", name="reader")
    try:
        return await connection.fetch("select slot, epoch from slot_lease")
    finally:
        await connection.close()


async def test_a_worker_whose_connection_goes_without_a_word_joins_again(database: postgres.Addresses) -> None:
    """As when the database's machine loses its power: nothing closes the connection, and nothing answers on it."""
    async with open_wire(database) as (wire, near):
        opened: list[Connection] = []

        async def open_connection() -> Connection:
            opened.append(await connect(near.service_url, role="pixconnect_service", schema="pixconnect", name="worker"))
            return opened[-1]

        slots = leases.SlotLeases(open_connection, SystemClock(), silent_max_s=0.5)
        task = asyncio.create_task(slots.run())
        await until(lambda: bool(slots.held))
        wire.vanish()
        await until(lambda: len(opened) > 1 and bool(slots.held))
        slots.stop()
        await task


async def test_a_worker_takes_no_slots_where_its_process_may_not_work(
    database: postgres.Addresses, connections: list[Connection]
) -> None:
    looks: list[object] = []

    async def open_connection() -> Connection:
        return await connect(database.service_url, role="pixconnect_service", schema="pixconnect", name="worker")

    async def look(connection: object) -> None:
        looks.append(connection)
        if len(looks) < 3:
            assert await connections[0].fetch("select from slot_lease where worker_id is not null") == []
            raise ConnectionRefusedError("the database is that of another installation")

    slots = leases.SlotLeases(open_connection, SystemClock(), look=look)
    task = asyncio.create_task(slots.run())
    await until(lambda: bool(slots.held))
    assert len(looks) == 3
    slots.stop()
    await task


class Listener(leases.Member):
    """A part of a worker that records its wake-ups."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[str] = asyncio.Queue()

    def wake(self, news: str = "") -> None:
        self.heard.put_nowait(news)


async def test_a_worker_hears_whether_orders_or_deliveries_are_all_that_is_new(service: Service) -> None:
    async def join() -> Connection:
        return await connect(service.database.service_url, role="pixconnect_service", schema="pixconnect", name="worker")

    held = leases.SlotLeases(join, service.clock)
    listener = Listener()
    held.add(listener)
    running = asyncio.create_task(held.run())
    notifier = Notifier(service.context.pool)
    async with asyncio.timeout(60):
        assert await listener.heard.get() == ""  # it has slots, which may have all kinds of work
        for orders_count, only_deliveries, news in [(1, False, ONLY_ORDERS), (0, True, ONLY_DELIVERIES), (0, False, "")]:
            notifier.notify(orders_count, only_deliveries=only_deliveries)
            assert await listener.heard.get() == news
        # What it tells itself needs no statement, for no other worker has slots.
        assert held.on_local_wakeup("")
        assert await listener.heard.get() == ""
        held.stop()
        await running
