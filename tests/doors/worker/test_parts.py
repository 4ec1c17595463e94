"""One look a second wakes those resting parts of the worker that have due work; the others share one beat."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixconnect.doors.worker.leases import APART_S, EARLY_S, Poller, until_beat
from pixconnect.doors.worker.orders import Expiry, OrderMover
from pixconnect.doors.worker.parts import DueLook, SlotPoller
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.rules.charge import ChargeRequest
from support.postgres import Addresses
from support.records import own_key
from support.service import EverySlot, Service, open_holder, open_service
from support.waiting import until


async def open_due_charge(service: Service) -> None:
    caller = await open_holder(service)
    await charge_usecases.create_charge(service.context, caller, ChargeRequest(amount_cents=1000, key=own_key()))
    service.clock.advance(days=1, seconds=3)


async def test_only_a_resting_part_with_due_work_is_woken(database: Addresses) -> None:
    async with open_service(database) as service:
        leases = EverySlot()
        expiry = Expiry(service.context, leases)  # type: ignore[arg-type]
        orders = OrderMover(service.context, leases)  # type: ignore[arg-type]
        look = DueLook(service.context, leases)  # type: ignore[arg-type]
        news = asyncio.Event()
        resting = [asyncio.create_task(part.rest(news, 0.0, has_found=False)) for part in (expiry, orders)]
        await asyncio.sleep(0)
        assert await look.look() == []
        await open_due_charge(service)
        assert await look.look() == [expiry]
        expiry.is_resting = False
        assert await look.look() == []
        expiry.is_resting = True
        leases.held = {}
        assert await look.look() == []
        news.set()
        await asyncio.gather(*resting)


async def test_a_part_that_rests_does_its_work_once_it_is_due(database: Addresses) -> None:
    done = asyncio.Event()

    async def do_due(_context: object, _slots: object, _count_max: int) -> int:
        done.set()
        return 0

    async with open_service(database) as service:
        leases = EverySlot()
        due = "exists (select from charge where expires_at <= $2::timestamptz and slot = any($1::smallint[]))"
        poller = SlotPoller("test", service.context, leases, do_due, due)  # type: ignore[arg-type]
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


def test_those_that_rest_look_one_shortly_after_the_other() -> None:
    waits = [until_beat(1.0, looker, 12.3) for looker in Poller]
    assert waits == pytest.approx([0.7 + looker * APART_S for looker in Poller])


@given(st.floats(0, 1e7), st.sampled_from([0.25, 1.0, 2.0]), st.sampled_from(Poller))
def test_a_beat_is_never_met_twice_by_a_timer_that_ends_early(now_s: float, every_s: float, looker: Poller) -> None:
    wait_s = until_beat(every_s, looker, now_s)
    assert EARLY_S <= wait_s <= every_s + EARLY_S
    assert until_beat(every_s, looker, now_s + wait_s - EARLY_S / 2) == pytest.approx(every_s + EARLY_S / 2)
