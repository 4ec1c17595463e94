"""Writes outside of batches, and a worker's memory of submitted orders, which is only a short cut."""

import asyncio
from datetime import datetime

import pytest
import structlog.testing

from pixconnect.features.webhooks.rules.endpoint import EndpointChange, EndpointRequest
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.context import writing
from pixconnect.kernel.flows.handover import move_due
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.kept_report import Misfit
from pixconnect.kernel.rules.rail import Rejected, Settled
from pixconnect.platform.base import errors
from pixconnect.platform.database_failure import DATABASE_AWAY
from support.books import check_books
from support.cut_connections import Cut, Wire, open_wire
from support.postgres import Addresses
from support.service import STARTED_AT, Service, no_fence, open_holder, open_service, send_out

REQUEST = EndpointRequest(url="https://shop.example/hook", secret="s" * 32, event_types=["transfer.in.confirmed"])


async def _create(service: Service, caller: Caller, _endpoint_id: int) -> None:
    await endpoint_usecases.create_endpoint(service.context, caller, REQUEST)


async def _change(service: Service, caller: Caller, endpoint_id: int) -> None:
    await endpoint_usecases.change_endpoint(service.context, caller, endpoint_id, EndpointChange(status="inactive"))


async def _delete(service: Service, caller: Caller, endpoint_id: int) -> None:
    await endpoint_usecases.delete_endpoint(service.context, caller, endpoint_id)


async def _limit(service: Service, caller: Caller, _endpoint_id: int) -> None:
    await service.set_holder(caller, day_limit_cents=1)


WRITES = [_create, _change, _delete, _limit]


@pytest.mark.parametrize("cut", ["before", "after"])
@pytest.mark.parametrize("write", WRITES)
async def test_a_lost_commit_is_an_unknown_outcome(database: Addresses, write: object, cut: Cut) -> None:
    async with open_wire(database) as (wire, near), open_service(near) as service:
        caller, endpoint_id = await _prepare(service)
        wire.cuts, wire.is_away_after_cut = [cut], True
        with pytest.raises(errors.OutcomeUnknown, match="look before you ask again"):
            await write(service, caller, endpoint_id)  # type: ignore[operator]
        wire.is_away = False


@pytest.mark.parametrize("write", WRITES)
async def test_a_database_that_is_away_before_the_commit_has_done_nothing(database: Addresses, write: object) -> None:
    async with open_wire(database) as (wire, near), open_service(near) as service:
        caller, endpoint_id = await _prepare(service)
        wire.is_away = True
        with pytest.raises(DATABASE_AWAY):
            await write(service, caller, endpoint_id)  # type: ignore[operator]
        wire.is_away = False


async def test_what_fails_after_an_earlier_part_is_durable_is_not_nothing(database: Addresses) -> None:
    async with open_wire(database) as (wire, near), open_service(near) as service:
        with pytest.raises(errors.OutcomeUnknown):
            await _write_twice(service, wire)
        wire.is_away = False


async def _write_twice(service: Service, wire: Wire) -> None:
    async with writing(service.context.pool) as write:
        async with write.transaction() as connection:
            await connection.execute("update clock set offset_us = 0")
        wire.is_away = True
        async with write.transaction() as connection:
            await connection.execute("update clock set offset_us = 0")


async def _prepare(service: Service) -> tuple[Caller, int]:
    caller = await open_holder(service)
    return caller, (await endpoint_usecases.create_endpoint(service.context, caller, REQUEST)).id


EARLIEST = datetime.fromisoformat("0001-01-01T00:00:00+00:00")
SETTLED = Settled(settled_at=STARTED_AT)


async def hand_over(service: Service, caller: Caller) -> str:
    sent = await send_out(service, caller, 100)
    await move_due(service.context, no_fence, range(256), EARLIEST, service.clock.now(), 10)
    return sent.end_to_end_id


async def status_of(service: Service, caller: Caller, name: str) -> str:
    view = await transfer_usecases.read_transfer_by_end_to_end_id(service.context, caller, name)
    return view.transfer.status


async def test_a_handed_over_order_just_ends(service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    name = await hand_over(service, caller)
    with monkeypatch.context() as patched:
        patched.setattr("pixconnect.kernel.tables.transfer.find_named", None)
        await end_orders(service.context, [(name, SETTLED)])
    assert await status_of(service, caller, name) == "CONFIRMED"
    assert name not in service.context.under_way
    await check_books(service)


async def test_another_workers_end_is_not_ended_again(service: Service, caller: Caller, database: Addresses) -> None:
    name = await hand_over(service, caller)
    async with open_service(database, clock=service.clock) as other:
        await end_orders(other.context, [(name, SETTLED)])
    with structlog.testing.capture_logs() as logged:
        await end_orders(service.context, [(name, SETTLED)])
        assert logged == []
    assert name not in service.context.under_way
    await check_books(service)


async def test_a_contradiction_is_seen_from_anywhere(service: Service, caller: Caller, database: Addresses) -> None:
    name = await hand_over(service, caller)
    async with open_service(database, clock=service.clock) as other:
        await end_orders(other.context, [(name, SETTLED)])
    [misfit] = await end_orders(service.context, [(name, Rejected(code="AC03", reason="no such account"))])
    assert isinstance(misfit, Misfit)
    assert (misfit.reason, misfit.explanation) == ("contradiction", "the rail says Rejected, and CONFIRMED is recorded here")
    assert await status_of(service, caller, name) == "CONFIRMED"
    await check_books(service)


async def test_the_same_word_many_times_at_once_counts_once(service: Service, caller: Caller) -> None:
    names = [await hand_over(service, caller) for _ in range(3)]
    await asyncio.gather(*(end_orders(service.context, [(name, SETTLED) for name in names]) for _ in range(10)))
    assert [await status_of(service, caller, name) for name in names] == ["CONFIRMED"] * 3
    await check_books(service)
