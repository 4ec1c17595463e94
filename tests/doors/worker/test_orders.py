"""The worker keeps moving orders and records the rail's reports while other parts fail."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import pytest

from pixconnect.doors.worker.leases import LeaseLost
from pixconnect.doors.worker.orders import OrderMover, keep_taking_reports
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.rail import RailUnavailable, Report, SettledReport
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import order as order_store
from support.books import check_books
from support.service import STARTED_AT, EverySlot, Service, send_out

if TYPE_CHECKING:
    from pixconnect.doors.worker.leases import SlotLeases


class AllSlots(EverySlot):
    """As long as the test allows."""

    is_lost = False

    def epochs_of(self, slots: Sequence[int]) -> dict[int, int]:
        if self.is_lost:
            raise LeaseLost("another worker has them")
        return {}


def a_mover(service: Service, leases: AllSlots, **bounds: int) -> OrderMover:
    return OrderMover(service.context, cast("SlotLeases", leases), **bounds)


async def send(service: Service, caller: Caller) -> Transfer:
    return await send_out(service, caller, 1)


async def test_a_batch_is_handed_over_and_not_again(service: Service, caller: Caller) -> None:
    sent = [await send(service, caller) for _ in range(3)]
    mover = a_mover(service, AllSlots())
    assert [await mover.move_due(service.clock.now()) for _ in range(2)] == [3, 0]
    assert sorted(order.end_to_end_id for order in service.rail.orders) == sorted(one.end_to_end_id for one in sent)


async def test_without_slots_nothing_is_done(service: Service, caller: Caller) -> None:
    await send(service, caller)
    leases = AllSlots()
    mover = a_mover(service, leases)
    leases.is_lost = True
    with pytest.raises(LeaseLost):
        await mover.move_due(service.clock.now())
    leases.held = {}
    assert await mover.move_due(service.clock.now()) == 0
    assert service.rail.orders == []


async def test_a_mark_waits_for_a_takeover_under_way_and_is_not_made(service: Service, caller: Caller) -> None:
    sent, pool, now = await send(service, caller), service.context.pool, service.clock.now()
    name, slot = sent.end_to_end_id, sent.slot
    # Not by the view of activity, which stays as it is until the transaction ends.
    blocked = "select exists (select from pg_locks where not granted and pg_backend_pid() = any (pg_blocking_pids(pid)))"
    async with asyncio.timeout(60), pool.acquire() as connection:
        async with connection.transaction():
            # As a takeover does it: the row is locked, and has another epoch once others see it.
            epoch = await connection.fetchval("select epoch from slot_lease where slot = $1 for update", slot)
            await connection.execute("update slot_lease set epoch = epoch + 1 where slot = $1", slot)
            marking = asyncio.create_task(order_store.mark_handed(pool, {slot: epoch}, [name], now, now))
            while not await connection.fetchval(blocked):  # noqa: ASYNC110  it is in the database
                await asyncio.sleep(0.002)
        assert await marking is None
    assert await order_store.mark_handed(pool, {slot: epoch + 1}, [name], now, now) == {name: sent}


async def test_more_than_a_batch_is_walked_through(service: Service, caller: Caller) -> None:
    for _ in range(10):
        await send(service, caller)
        service.clock.advance(seconds=3)
    mover = a_mover(service, AllSlots(), batch_max=4)
    counts = [await mover.move_due(service.clock.now()) for _ in range(4)]
    assert sum(counts[:3]) >= 10
    assert len(service.rail.orders) == 10


async def test_what_was_committed_late_is_found(service: Service, caller: Caller) -> None:
    mover = a_mover(service, AllSlots())
    await send(service, caller)
    await mover.move_due(service.clock.now())
    late = await send(service, caller)
    await service.context.pool.execute(
        "update open_order set due_at = due_at - interval '1 minute' where resource_id = $1", late.id
    )
    mover._cursor = None  # as the next sweep does
    assert await mover.move_due(service.clock.now()) == 1


async def test_reports_go_on_after_outages(service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    transfers = [await send(service, caller) for _ in range(2)]
    reports = [SettledReport(report_id=one.end_to_end_id, id=one.end_to_end_id, settled_at=STARTED_AT) for one in transfers]
    asked = 0
    all_said = asyncio.Event()

    async def answer(_: float) -> list[Report]:
        nonlocal asked
        asked += 1
        if asked % 3 == 0:
            raise RailUnavailable("away")
        said = {one.report_id for one in service.rail.acknowledged}
        if len(said) == len(reports):
            all_said.set()
        await asyncio.sleep(0.005)
        return [report for report in reports if report.report_id not in said]

    async def fail_at_first(context: Context, found: Sequence[Report]) -> int:
        if asked < 3:
            raise OSError("the database is away")
        return await take_reports(context, found)

    monkeypatch.setattr(service.rail, "reports", answer)
    task = asyncio.create_task(keep_taking_reports(service.context, fail_at_first, pause_s=0.01))
    async with asyncio.timeout(60):
        await all_said.wait()
    task.cancel()
    await asyncio.wait([task])
    await check_books(service)
