"""The health check answers in time, even if a dependency hangs."""

import asyncio
import re
from datetime import timedelta
from functools import partial
from typing import cast
from urllib.parse import urlsplit

import pytest
from asyncpg import InsufficientPrivilegeError
from msgspec import structs

from pixconnect.doors.worker.parts import counted, find_problems
from pixconnect.features.documentation.records import describe_fields
from pixconnect.features.identity.service.keyring import SIGNER, Keyring
from pixconnect.features.monitoring import api as contract_health
from pixconnect.features.monitoring.service import health
from pixconnect.features.monitoring.service.health import HealthWatch, check_rail, check_webhooks, watch_health
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.no_rail import NoRail
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.flows.standby import Standby
from pixconnect.kernel.rules.rail import SettledReport
from pixconnect.kernel.tables import lease as lease_store
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.base import errors
from pixconnect.platform.pool import open_pool
from pixconnect_client import records
from support.operators import as_operator
from support.postgres import Addresses
from support.records import ISPB
from support.service import STARTED_AT, FakeClock, FakeRail, a_policy, open_service


async def fine() -> None:
    pass


async def broken() -> None:
    raise ConnectionRefusedError("postgresql://admin:secret@10.0.0.1/")


async def refused() -> None:
    raise errors.ServiceUnavailable("the rail cannot be reached")


class Stubborn:
    """Neither returns before it is released, nor lets itself be cancelled."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()

    async def __call__(self) -> None:
        while True:
            try:
                await self.let_go.wait()
                return
            except asyncio.CancelledError:
                continue


async def test_a_database_that_only_reads_is_no_healthy_one(database: Addresses) -> None:
    url = f"{database.service_url}&default_transaction_read_only=on"
    pool = await open_pool(url, role="pixconnect_service", schema="pixconnect", connections_max=1, name="test")
    try:
        with pytest.raises(errors.ServiceUnavailable, match="the database only reads"):
            await health.check_database(pool)
    finally:
        await pool.close()


async def test_a_refused_login_is_told_from_a_database_that_is_away(database: Addresses) -> None:
    login = urlsplit(database.service_url)
    url = database.service_url.replace(f":{login.password}@", ":another@")
    pool = await open_pool(url, role=None, schema="pixconnect", connections_max=1, name="test")
    try:
        watch = HealthWatch({"database": partial(health.check_database, pool)}, FakeClock(monotonic_s=0.0))
        said = "the database refuses the service's login"
        assert (await watch.read_health()).checks["database"].error == said
        async with asyncio.timeout(60):
            while not pool.is_away:  # noqa: ASYNC110  nothing tells
                await asyncio.sleep(0.05)
        # From now on no request waits for a connection.
        watch = HealthWatch({"database": partial(health.check_database, pool)}, FakeClock(monotonic_s=0.0))
        assert (await watch.read_health()).checks["database"].error == said
    finally:
        await pool.close()


@pytest.mark.parametrize(
    ("database", "rail", "status"),
    [(fine, fine, "healthy"), (fine, refused, "degraded"), (broken, fine, "unhealthy"), (broken, refused, "unhealthy")],
)
async def test_without_the_database_it_is_unhealthy(database: health.Check, rail: health.Check, status: str) -> None:
    found = await HealthWatch({"database": database, "rail": rail}, SystemClock()).read_health()
    assert found.status == status
    assert list(found.checks) == ["database", "rail"]


async def test_a_check_without_an_answer_has_found_nothing_out() -> None:
    async def bare() -> None:
        raise InsufficientPrivilegeError

    async def slow() -> None:
        await asyncio.sleep(60)

    checks = {"database": broken, "clock": broken, "feed": slow, "rail": refused, "books": bare, "disk": fine}
    found = (await HealthWatch(checks, SystemClock(), timeout_s=0.05).read_health()).checks
    assert {name for name, result in found.items() if not result.is_read} == {"clock", "feed"}
    assert {name for name, result in found.items() if result.status == "healthy"} == {"disk"}
    # Without an address or a secret.
    assert (found["database"].error, found["rail"].error) == ("cannot be reached", "the rail cannot be reached")


async def test_what_hangs_is_left_behind() -> None:
    stubborn = Stubborn()
    watch = HealthWatch({"database": stubborn, "rail": stubborn, "webhooks": fine}, SystemClock(), timeout_s=0.05)
    try:
        async with asyncio.timeout(60):
            found = await watch.read_health()
    finally:
        stubborn.let_go.set()
    assert found.status == "unhealthy"
    assert found.checks["rail"].error == "no answer within 0.05 s"
    assert found.checks["webhooks"].status == "healthy"


class Looks:
    """A check that counts how often it looks, and fails while it is broken."""

    def __init__(self) -> None:
        self.count = 0
        self.is_broken = False

    async def __call__(self) -> None:
        self.count += 1
        await asyncio.sleep(0)
        if self.is_broken:
            raise errors.ServiceUnavailable("it broke")


async def test_those_who_ask_one_after_the_other_share_the_looks_of_a_moment() -> None:
    clock, looks = FakeClock(monotonic_s=100.0), Looks()
    watch = HealthWatch({"database": looks}, clock)
    for _ in range(1000):
        await watch.read_health()
        clock.advance(seconds=0.001)
    assert looks.count == 5


async def test_what_breaks_and_what_is_mended_are_seen_a_moment_later() -> None:
    clock, looks = FakeClock(monotonic_s=100.0), Looks()
    watch = HealthWatch({"rail": looks}, clock)
    for is_broken, before, after in ((True, "healthy", "degraded"), (False, "degraded", "healthy")):
        assert (await watch.read_health()).status == before
        looks.is_broken = is_broken
        clock.advance(seconds=health.KEPT_S)
        assert (await watch.read_health()).status == after


async def test_what_took_long_to_look_at_is_not_told_again() -> None:
    clock = FakeClock(monotonic_s=100.0)
    looks_count = 0

    async def slow() -> None:
        nonlocal looks_count
        looks_count += 1
        clock.advance(seconds=1.0)

    watch = HealthWatch({"database": slow}, clock)
    for count in (1, 2):
        await watch.read_health()
        assert looks_count == count


async def test_webhooks_are_well_while_nothing_waits_for_over_a_minute() -> None:
    clock = FakeClock(monotonic_s=0.0)
    await check_webhooks(partial(asyncio.sleep, 0, None), clock)
    await check_webhooks(partial(asyncio.sleep, 0, clock.now() - timedelta(seconds=59)), clock)
    with pytest.raises(errors.ServiceUnavailable, match="has waited for 61 s"):
        await check_webhooks(partial(asyncio.sleep, 0, clock.now() - timedelta(seconds=61)), clock)


@pytest.mark.parametrize(
    ("counts", "error"),
    [
        ((0, 0), None),
        ((1, 0), "1 report waits for an operator"),
        ((2, 0), "2 reports wait for an operator"),
        ((2, 10), "2 reports wait for an operator; 10 orders have been silent for over 60 s"),
    ],
)
async def test_what_a_person_must_see_of_the_rail_degrades_it(counts: tuple[int, int], error: str | None) -> None:
    reports, silent = (lambda _, count=count: asyncio.sleep(0, count) for count in counts)
    problems = (
        counted("rail", reports, "report waits", "reports wait", "for an operator"),
        counted("rail", silent, "order has", "orders have", "been silent for over 60 s"),
    )
    check = partial(check_rail, FakeRail(), partial(find_problems, cast("Context", None), problems))
    found = await HealthWatch({"database": fine, "rail": check}, SystemClock()).read_health()
    assert (found.status, found.checks["rail"].error) == ("degraded" if error else "healthy", error)


async def test_a_rail_that_is_away_hides_no_report() -> None:
    rail = FakeRail()
    rail.is_reachable = False
    with pytest.raises(errors.ServiceUnavailable) as raised:
        await check_rail(rail, partial(asyncio.sleep, 0, ["1 report waits for an operator"]))
    assert raised.value.message == "the rail cannot be reached; 1 report waits for an operator"


async def test_where_there_is_no_rail_health_says_so() -> None:
    said = r"^neither an account .* is configured: payments are impossible in both directions$"
    with pytest.raises(errors.ServiceUnavailable, match=said):
        await check_rail(NoRail(), partial(asyncio.sleep, 0, []), has_rail=False)


async def test_a_doubtful_setting_degrades_health_and_is_told_to_operators_only(database: Addresses) -> None:
    async with open_service(database) as service:
        keyring = cast("Keyring", service.context.port(SIGNER))
        live = structs.replace(service.context, policy=a_policy(is_sandbox=False))
        # Not looked at yet, so that it is not read from.
        standby = Standby(live.pool, live.clock, age_max_s=10)
        for lacks_proxies in (False, True):
            watch = watch_health(live, keyring, lacks_proxies=lacks_proxies, standby=standby)
            found = await watch.read_health()
            assert (found.checks["standby"].error or "").startswith("the standby is not read from")
            told = found.checks["settings"].error
            assert (told is not None) == lacks_proxies
            assert "PROXIES" not in (told or "").upper()
        for record in (contract_health.Health, records.Health):
            assert set(re.findall("`([a-z_]+)`", describe_fields(record)["checks"])) == set(found.checks)
        found = await watch_health(service.context, keyring, lacks_proxies=True).read_health()
        assert not {"settings", "standby"} & set(found.checks)


async def test_without_a_worker_for_two_leases_health_says_so(database: Addresses) -> None:
    async with open_service(database) as service:
        clock, pool = service.clock, service.context.pool
        clock.stand_still()
        check = watch_health(service.context, cast("Keyring", service.context.port(SIGNER)))._checks["workers"]
        # It may start after this process.
        await check()
        clock.advance(seconds=31)
        with pytest.raises(errors.ServiceUnavailable, match="no worker is running"):
            await check()
        async with pool.acquire() as connection:
            worker_id = await lease_store.join(connection)
            await check()
            # A killed one leaves its row.
            await connection.execute("update worker set expires_at = clock_timestamp() - interval '16 s'")
            with pytest.raises(errors.ServiceUnavailable, match="no worker is running"):
                await check()
            await lease_store.leave(connection, worker_id)
            # The pool outlives the test.
            await connection.execute("select pg_advisory_unlock_all()")
            clock.advance(seconds=31)
            with pytest.raises(errors.ServiceUnavailable, match="no worker is running"):
                await check()


async def test_a_database_that_is_away_is_no_trouble_of_the_rails() -> None:
    async def find_waiting() -> list[str]:
        raise ConnectionRefusedError

    await check_rail(FakeRail(), find_waiting)


async def test_a_report_that_waits_degrades_health_until_it_is_closed(database: Addresses) -> None:
    async with open_service(database) as service:
        check = watch_health(service.context, cast("Keyring", service.context.port(SIGNER)))._checks["rail"]
        await check()
        unknown = SettledReport(report_id="s", id=f"E{ISPB}202607011500abcdefghijk", settled_at=STARTED_AT)
        await take_reports(service.context, [unknown])
        with pytest.raises(errors.ServiceUnavailable, match="1 report waits"):
            await check()
        [kept] = await kept_usecases.list_kept(service.context, with_closed=False)
        await kept_usecases.close_kept(as_operator(service.context, "maria@desk"), kept.id, "booked")
        await check()
