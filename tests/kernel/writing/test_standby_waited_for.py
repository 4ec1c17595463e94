"""Answers while commits wait for a standby, on a real pair: no successful answer is lost by a failover."""

import asyncio

import pytest

from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.rules.charge import Charge, ChargeRequest
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.base import errors
from support.postgres import Addresses, as_owner
from support.records import own_key
from support.service import open_holder, open_service
from support.standby import open_pair
from support.waiting import PATIENCE_S

pytestmark = [pytest.mark.long]

_END_WAITS = "select count(pg_terminate_backend(pid)) from pg_stat_activity where wait_event = 'SyncRep'"


async def ask(addresses: Addresses, statement: str) -> int:
    async with as_owner(addresses) as connection:
        return await connection.fetchval(statement)


async def end_waits(addresses: Addresses) -> None:
    """An operator stops the waiting: the waiting rows are on its server alone, and visible."""
    async with asyncio.timeout(PATIENCE_S):
        while not await ask(addresses, _END_WAITS):  # noqa: ASYNC110  nothing tells
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("is_ended", [False, True], ids=["waits", "ended by an operator"])
async def test_a_commit_that_waits_for_its_standby_is_unknown_and_never_forgotten(*, is_ended: bool) -> None:
    async with open_pair() as (primary, addresses, standby), open_service(addresses, clock=SystemClock()) as service:
        caller = await open_holder(service)

        async def make(external_id: str) -> Charge:
            request = ChargeRequest(amount_cents=5, key=own_key(), external_id=external_id)
            return await charge_usecases.create_charge(service.context, caller, request)

        kept = await make("kept")
        standby.end()
        waiting = asyncio.create_task(make("lost"))
        if is_ended:
            await end_waits(addresses)
        with pytest.raises(errors.OutcomeUnknown, match='repeat the request with external_id "lost"'):
            await waiting
        # We have not cancelled the wait: only an operator's act makes the rows visible.
        assert await ask(addresses, "select count(*) from charge") == (2 if is_ended else 1)
        await primary.stop(timeout_s=0)
        standby.start()
        await standby.wait_until_there()
        await standby.promote()
        assert await ask(standby.addresses, "select count(*) from charge") == 1
        assert await ask(standby.addresses, "select id from charge") == kept.id


async def test_what_waited_for_its_standby_is_told_once_that_is_back() -> None:
    async with open_pair() as (_, addresses, standby), open_service(addresses, clock=SystemClock()) as service:
        caller = await open_holder(service)

        async def make(external_id: str) -> Charge:
            request = ChargeRequest(amount_cents=5, key=own_key(), external_id=external_id)
            return await charge_usecases.create_charge(service.context, caller, request)

        # A block of ids is written down too; nothing can be lost with it.
        with standby.standing_still(), pytest.raises(TimeoutError):
            await make("first")
        await make("first")
        with standby.standing_still(), pytest.raises(errors.OutcomeUnknown):
            await make("late")
        assert (await make("late")).external_id == "late"
        assert await ask(addresses, "select count(*) from charge") == 2
