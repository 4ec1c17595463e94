"""Writes outside of batches: 503 means that nothing was done, and 504 that the outcome is unknown."""

import pytest

from pixconnect.features.webhooks.rules.endpoint import EndpointChange, EndpointRequest
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.kernel.flows.context import writing
from pixconnect.kernel.rules.access import Caller
from pixconnect.platform.base import errors
from pixconnect.platform.database_failure import DATABASE_AWAY
from support.cut_connections import Cut, Wire, open_wire
from support.postgres import Addresses
from support.service import Service, open_holder, open_service

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
