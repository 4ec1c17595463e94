"""One look a second wakes those resting parts of the worker that have due work, and no others."""

from __future__ import annotations

import asyncio

from pixconnect.doors.worker.due_look import DueLook
from pixconnect.doors.worker.leases import Member
from pixconnect.doors.worker.orders import Expiry, OrderMover
from pixconnect.doors.worker.parts import SlotPoller
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.rules.charge import ChargeRequest
from support.postgres import Addresses
from support.records import own_key
from support.service import Service, open_holder, open_service
from support.waiting import until


class AllSlots:
    """As a worker that has every slot."""

    def __init__(self) -> None:
        self.held = dict.fromkeys(range(256), 1)
        self.members: list[Member] = []

    def add(self, member: Member) -> None:
        self.members.append(member)


async def open_due_charge(service: Service) -> None:
    caller = await open_holder(service)
    await charge_usecases.create_charge(service.context, caller, ChargeRequest(amount_cents=1000, key=own_key()))
    service.clock.advance(days=1, seconds=3)


async def test_only_a_resting_part_with_due_work_is_woken(database: Addresses) -> None:
    async with open_service(database) as service:
        leases = AllSlots()
        expiry = Expiry(service.context, leases)  # type: ignore[arg-type]
        orders = OrderMover(service.context, leases)  # type: ignore[arg-type]
        look = DueLook(service.context, leases)  # type: ignore[arg-type]
        news = asyncio.Event()
        resting = [asyncio.create_task(part.rest(news, 0.0, has_found=False)) for part in (expiry, orders)]
        await asyncio.sleep(0)
        assert await look.look() == []
        await open_due_charge(service)
        assert await look.look() == [expiry]
        leases.held.clear()
        assert await look.look() == []
        news.set()
        await asyncio.gather(*resting)


async def test_a_busy_part_is_not_asked_for(database: Addresses) -> None:
    async with open_service(database) as service:
        leases = AllSlots()
        expiry = Expiry(service.context, leases)  # type: ignore[arg-type]
        look = DueLook(service.context, leases)  # type: ignore[arg-type]
        await open_due_charge(service)
        assert await look.look() == []
        expiry.is_resting = True
        assert await look.look() == [expiry]


async def test_a_part_that_rests_does_its_work_once_it_is_due(database: Addresses) -> None:
    done = asyncio.Event()

    async def do_due(_context: object, _slots: object, _count_max: int) -> int:
        done.set()
        return 0

    async with open_service(database) as service:
        leases = AllSlots()
        due = "exists (select from charge where expires_at <= $2::timestamptz and slot = any($1::smallint[]))"
        poller = SlotPoller("test", service.context, leases, 9, do_due, due)  # type: ignore[arg-type]
        look = DueLook(service.context, leases)  # type: ignore[arg-type]
        running = asyncio.create_task(poller.run())
        await done.wait()
        await until(lambda: poller.is_resting)
        done.clear()
        assert await look.look() == []
        await open_due_charge(service)
        assert await look.look() == [poller]
        await done.wait()
        running.cancel()
