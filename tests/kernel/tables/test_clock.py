"""One clock, the database's: a process whose clock is off by more than two seconds only reads, and reports it."""

import re
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import cast

import pytest

from pixconnect.doors.worker.leases import Member, SlotLeases
from pixconnect.features.monitoring.service.health import HealthWatch, check_clock
from pixconnect.features.webhooks.rules.endpoint import EndpointRequest
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import ChargeRequest
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Reading
from pixconnect.platform.pool import connect
from support.operators import as_operator
from support.postgres import Addresses
from support.records import a_new_holder, own_key
from support.service import Service, open_holder, open_service, send_out

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


class WrongClock(SystemClock):
    """A machine's clock that is off."""

    def __init__(self, seconds: float = 0) -> None:
        super().__init__()
        self.wrong_by = timedelta(seconds=seconds)

    def now(self) -> datetime:
        return super().now() + self.wrong_by

    def real_now(self) -> datetime:
        return super().real_now() + self.wrong_by


async def make_charge(service: Service, caller: Caller) -> datetime:
    request = ChargeRequest(amount_cents=1, key=own_key())
    return (await charge_usecases.create_charge(service.context, caller, request)).created_at


async def send(service: Service, caller: Caller) -> datetime:
    return (await send_out(service, caller, 1)).created_at


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_process_whose_clock_is_wrong_reads_and_writes_nothing(database: Addresses, hours: int) -> None:
    clock = WrongClock()
    async with open_service(database, clock=clock) as service:  # type: ignore[arg-type]
        caller = await open_holder(service, funds_cents=1000)
        clock.wrong_by = timedelta(hours=hours)
        endpoint = EndpointRequest(url="https://a.example/", secret="s" * 16, event_types=["qrcode.pending"])
        for write in (
            make_charge(service, caller),
            send(service, caller),
            ledger_usecases.deposit(service.context, caller.holder_id, 1),
            endpoint_usecases.create_endpoint(service.context, caller, endpoint),
            holder_usecases.create_holder(as_operator(service.context), a_new_holder(account_number="2")),
        ):
            with pytest.raises(errors.ServiceUnavailable, match="nothing was done"):
                await write
        balance = await ledger_usecases.read_balance(service.context, caller)
        assert (balance.available_cents, balance.last_number) == (1000, 1)
        assert abs(balance.last_entry_at - datetime.now(UTC)) < timedelta(minutes=5)
        for table in ("charge", "transfer", "webhook_endpoint"):
            assert await service.context.pool.fetchval(f"select count(*) from {table}") == 0


async def test_health_tells_and_forgets_when_the_clock_is_right_again(database: Addresses) -> None:
    clock = WrongClock(seconds=-30)
    async with open_service(database, clock=clock) as service:  # type: ignore[arg-type]

        async def look() -> tuple[str, str | None]:
            async def check() -> None:
                await check_clock(service.context.pool, clock)

            found = await HealthWatch({"clock": check}, clock).read_health()
            return found.status, found.checks["clock"].error

        status, error = await look()
        assert status == "degraded"
        # Less by the time that the question took.
        assert re.search(r" is -(2\d|30)\.\d s ", error or ""), error
        clock.wrong_by = timedelta(0)
        assert await look() == ("healthy", None)
        await open_holder(service)


async def test_what_is_written_is_dated_by_the_database(database: Addresses) -> None:
    clock = WrongClock()
    async with open_service(database, clock=clock) as service:  # type: ignore[arg-type]
        caller = await open_holder(service, funds_cents=1000)
        clock.wrong_by = timedelta(seconds=1.5)
        before, made_at = await service.context.pool.fetchval("select clock_timestamp()"), await send(service, caller)
        assert before <= made_at <= await service.context.pool.fetchval("select clock_timestamp()")


async def test_a_worker_whose_clock_is_wrong_holds_no_slots(database: Addresses) -> None:
    async def open_one():  # noqa: ANN202  asyncpg's
        return await connect(database.service_url, role="pixconnect_service", schema="pixconnect", name="leases")

    leases = SlotLeases(open_one, WrongClock(seconds=60))
    await leases._run_session()
    assert leases.held == {}
    async with open_service(database) as service:
        pool = service.context.pool
        assert await pool.fetchval("select count(*) from worker") == 0
        clock = WrongClock()
        leases = SlotLeases(open_one, clock)
        turn = partial(setattr, clock, "wrong_by", timedelta(seconds=60))
        leases.members = cast("list[Member]", [SimpleNamespace(busy_slots=frozenset, oldest_due_at=turn)])
        await leases._run_session()
        assert (leases.held, await pool.fetchval("select count(*) from worker")) == ({}, 0)


@pytest.mark.parametrize(
    ("asked_s", "database_s", "answered_s", "skew_s"),
    [
        (0, 0.001, 0.002, 0),
        (0, 25, 30, 0),  # a slow answer is no skew
        (0, 0, 30, 0),
        (0, -3, 0.002, 3),  # we are ahead
        (0, 3, 0.002, -2.998),  # we are behind
        (0, 33, 30, -3),
    ],
)
def test_a_skew_is_an_unexplained_time(asked_s: float, database_s: float, answered_s: float, skew_s: float) -> None:
    asked_at, database_now, answered_at = (NOON + timedelta(seconds=s) for s in (asked_s, database_s, answered_s))
    reading = Reading(database_now=database_now, asked_at=asked_at, answered_at=answered_at, offset=timedelta(0), revision=0)
    assert reading.skew == timedelta(seconds=skew_s)
