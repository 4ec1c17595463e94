"""A database with a full disk: requests are refused truthfully, it is reported once, and it recovers by itself."""

import logging
from collections.abc import Iterator

import pytest
import structlog

from pixconnect.features.monitoring.service.health import check_database, check_disk
from pixconnect.features.webhooks.rules.endpoint import EndpointRequest
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.rules.access import Caller
from pixconnect.platform import database_failure as full_disk
from pixconnect.platform.base import errors
from pixconnect.platform.database_failure import DATABASE_AWAY, MESSAGE, FullDisk, database_disk
from support.books import check_books
from support.service import Service, make_charge

_NO_ROOM = "create or replace function {name}() returns {kind} language plpgsql as $$ begin {body} end $$"
_RAISE = "raise exception 'could not extend file: No space left on device' using errcode = '53100';"


async def _fill(service: Service, *, is_full: bool) -> None:
    body = _RAISE if is_full else ""
    await service.execute_as_owner(_NO_ROOM.format(name="no_room", kind="trigger", body=f"{body} return new;"))
    await service.execute_as_owner(_NO_ROOM.format(name="probe_room", kind="bigint", body=f"{body} return 1;"))
    await service.execute_as_owner("grant execute on function probe_room to public")


@pytest.fixture
async def full(service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> Service:
    """A service whose charges and endpoints find no room."""
    await make_charge(service, caller)
    monkeypatch.setattr(full_disk, "_NEEDS_ROOM", "select probe_room()")
    await _fill(service, is_full=True)
    for table in ("charge", "webhook_endpoint", "ledger_entry"):
        await service.execute_as_owner(
            f"create trigger no_room before insert on {table} for each row execute function no_room()"
        )
    return service


@pytest.fixture(autouse=True)
def disk() -> Iterator[FullDisk]:
    """This process's knowledge of the disk, which it forgets afterwards."""
    database_disk._looks_at_s = 0.0
    yield database_disk
    database_disk.is_full = False


async def test_a_write_is_refused_reads_go_on(full: Service, caller: Caller, caplog: pytest.LogCaptureFixture) -> None:
    started_s = full.clock.monotonic_s()
    with structlog.testing.capture_logs() as logged, caplog.at_level(logging.WARNING, "asyncio"):
        for _ in range(5):
            with pytest.raises(errors.ServiceUnavailable, match=f"^{MESSAGE}; nothing was done$"):
                await make_charge(full, caller)
        with pytest.raises(errors.ServiceUnavailable, match=MESSAGE):
            await ledger_usecases.deposit(full.context, caller.holder_id, 100)
    # It is not waited for like a restarting database.
    assert full.clock.monotonic_s() - started_s < 15
    assert [(line["log_level"], line["event"]) for line in logged if MESSAGE in line["event"]] == [
        ("critical", f"{MESSAGE}: nothing is written until there is room")
    ]
    assert caplog.records == [], "no connection came back with a transaction open"
    (charge,) = await full.fetch("select id from charge")
    assert (await charge_usecases.read_charge_by_id(full.context, caller, charge["id"])).id == charge["id"]
    assert (await ledger_usecases.read_balance(full.context, caller)).available_cents == 1_000_000


async def test_what_is_written_outside_of_batches_says_so_too(full: Service, caller: Caller) -> None:
    request = EndpointRequest(url="https://shop.example/hook", secret="s" * 32, event_types=["transfer.in.confirmed"])
    with pytest.raises(DATABASE_AWAY):
        await endpoint_usecases.create_endpoint(full.context, caller, request)
    assert database_disk.is_full


async def test_a_process_that_writes_nothing_finds_it_out(
    service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_disk, "_NEEDS_ROOM", "select probe_room()")
    await _fill(service, is_full=False)
    await check_disk(service.context.pool)
    await _fill(service, is_full=True)
    await check_disk(service.context.pool)  # it has checked just now
    database_disk._looks_at_s = 0.0
    for _ in range(2):
        with pytest.raises(errors.ServiceUnavailable, match=f"^{MESSAGE}$"):
            await check_disk(service.context.pool)


async def test_health_and_readiness_name_it_until_there_is_room(full: Service, caller: Caller) -> None:
    pool = full.context.pool
    with pytest.raises(errors.ServiceUnavailable):
        await make_charge(full, caller)
    for _ in range(2):
        with pytest.raises(errors.ServiceUnavailable, match=f"^{MESSAGE}$"):
            await check_disk(pool)
        await check_database(pool)
    await _fill(full, is_full=False)
    with structlog.testing.capture_logs() as logged:
        await check_disk(pool)
        await check_disk(pool)
    assert [line["event"] for line in logged] == ["the database's disk has room again"]
    assert (await make_charge(full, caller)).status == "PENDING"
    await check_books(full)


async def test_the_look_for_room_writes_a_file(service: Service) -> None:
    database_disk.is_full = True
    await check_disk(service.context.pool)
    assert not database_disk.is_full
    async with service.context.pool.acquire() as connection, connection.transaction():
        await connection.execute("set local work_mem = '64kB'")
        plan = await connection.fetch(f"explain (analyze, costs off, timing off, summary off) {full_disk._NEEDS_ROOM}")
    assert "external merge  Disk: " in "".join(row[0] for row in plan)
