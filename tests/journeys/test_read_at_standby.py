"""An installation that reads at a standby: whatever becomes of that, callers and operators read what is true, and are told."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from pixconnect.adapters.system import SystemClock
from pixconnect.domain.money.charge import ChargeRequest
from pixconnect.foundation import pool
from pixconnect.foundation.privileges import SERVICE_ROLE
from pixconnect.usecases.money import charge as charge_usecases
from pixconnect.usecases.running import standby as standby_usecases
from pixconnect.usecases.running.standby import Standby
from support import standby as servers
from support.console import open_console, sign_in_client
from support.cut_connections import open_wire
from support.home import new_home
from support.installation import run_verb
from support.ports import reserved_pair
from support.postgres import Addresses
from support.prometheus import find_program
from support.records import own_key
from support.service import Service, open_holder, open_service
from support.waiting import wait_until
from support.watching import watching
from support.whole_installation import Account, WholeInstallation, open_whole_installation

pytestmark = [pytest.mark.journey, pytest.mark.long]

ALERT = "StandbyUnread"
AGE_MAX_S = 2
EVER = "initial_date=2020-01-01T00:00:00Z&final_date=2099-12-31T23:59:59Z"
READS = (
    "/v1/connect/charge/list",
    "/v1/connect/transfer/list",
    "/v1/connect/refund/list",
    "/v1/connect/ledger/list",
    f"/v1/connect/ledger/statement?{EVER}",
)
_WHICH = "select pg_postmaster_start_time()"
PAGES = ("/charges", "/transfers", "/refunds", "/ledger", "/events", "/deliveries", "/figures", "/search?q=a")


@contextmanager
def open_pair(runner: asyncio.Runner) -> Iterator[tuple[Addresses, servers.Standby]]:
    pair = servers.open_pair(waits=False)
    _, addresses, standby = runner.run(pair.__aenter__())
    try:
        yield addresses, standby
    finally:
        runner.run(pair.__aexit__(None, None, None))


def count_reads(port: int, outcome: str) -> float:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith("pixconnect_standby_reads_total") and f'outcome="{outcome}"' in line
    )


def read_all(service: WholeInstallation, account: Account) -> list[object]:
    # A list says how many pages there are of what is asked for, and nothing that is new each time.
    return [service.insist(account, "GET", path).data for path in READS]


def is_used(service: WholeInstallation) -> bool:
    return service.installation.health_report()["checks"]["standby"]["status"] == "healthy"


def test_an_installation_reads_at_its_standby_and_goes_on_without_it(tmp_path: Path) -> None:
    find_program("prometheus")
    with asyncio.Runner() as runner, ExitStack() as ended:
        addresses, standby = ended.enter_context(open_pair(runner))
        metrics = ended.enter_context(reserved_pair())
        settings = dict(
            database_url=addresses.service_url,
            owner_database_url=addresses.owner_url,
            read_database_url=standby.addresses.service_url,
            metrics_port=str(metrics),
        )
        service = ended.enter_context(open_whole_installation(**settings))
        seen = ended.enter_context(watching(tmp_path, {"work": [metrics], "serve": [metrics + 1]}))
        account = service.open_account(1_000_000)
        body = dict(amount=7, key="settle@sandbox.pix.example", key_type="EMAIL", external_id="sent")
        service.insist(account, "POST", "/v1/connect/transfer/key", body)
        service.settle([account])

        def read_all_there() -> list[object] | None:
            # Each process looks at the standby for itself: that the worker uses it does not say that those that serve do.
            before = count_reads(metrics + 1, "answered")
            found = read_all(service, account)
            return found if count_reads(metrics + 1, "answered") == before + len(READS) else None

        wait_until(lambda: is_used(service), "the standby is used")
        # What was written so long ago is there.
        runner.run(asyncio.sleep(standby_usecases.AGE_MAX_S))
        shown = read_all(service, account)
        wait_until(lambda: read_all_there() == shown, "all lists are read at the standby")
        assert "sent" in json.dumps(shown)
        home = service.installation.home
        assert json.loads(verify(home, settings))["findings"] == []

        # It stands still, and then it is gone: what is read stays the same, and somebody is told.
        with standby.standing_still():
            assert read_all(service, account) == shown
            wait_until(lambda: not is_used(service), "one that stands still is left")
            assert read_all(service, account) == shown
        wait_until(lambda: is_used(service), "the standby is used again")
        standby.end()
        assert read_all(service, account) == shown
        seen.wait_until_firing(ALERT)
        assert json.loads(verify(home, settings))["findings"] == []
        standby.start()
        seen.wait_until_quiet(ALERT)
        wait_until(lambda: read_all_there() == shown, "lists are read at the standby once more")


def verify(home: Path, settings: dict[str, str]) -> str:
    given = {name: value for name, value in settings.items() if name != "metrics_port"}
    proved = run_verb(home, "verify", "--whole", "--again-after-s", "2", "--json", **given)
    assert proved.returncode in {0, 7}, proved.stderr
    return proved.stdout


@asynccontextmanager
async def read_by(url: str, service: Service) -> AsyncIterator[Standby]:
    """As a process reads at a standby, and watches it."""
    await service.context.pool.execute("insert into installation (mode) values ('sandbox') on conflict do nothing")
    standby = Standby(service.context.pool, SystemClock(), age_max_s=AGE_MAX_S)
    connections = await pool.open_standby_pool(
        url, primary=service.context.pool, role=SERVICE_ROLE, schema="pixconnect", connections_max=4,
        name="test standby", check=standby.check,
    )  # fmt: skip
    standby.use(connections)
    task = asyncio.create_task(standby.keep_watch())
    try:
        await until_used(standby)
        yield standby
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await pool.close_pool(connections)


async def until_used(standby: Standby) -> None:
    async with asyncio.timeout(60):
        while standby.why_not is not None:  # noqa: ASYNC110  nothing tells
            await asyncio.sleep(0.05)


async def test_of_several_standbys_behind_one_name_none_shows_what_is_too_old() -> None:
    async with servers.open_pair(waits=False) as (primary, addresses, one), open_wire(one.addresses) as (wire, near):
        with new_home() as folder:
            two = servers.Standby(primary, addresses, folder)
            await asyncio.to_thread(two.copy)
            two.start()
            try:
                await two.wait_until_there()
                async with (
                    open_service(addresses, clock=SystemClock()) as service,
                    read_by(near.service_url, service) as standby,
                ):
                    caller = await open_holder(service)
                    # A connection to each of both.
                    async with standby.pool.acquire() as first:
                        wire.lead_to(two.addresses)
                        async with standby.pool.acquire() as second, standby.pool.acquire() as third:
                            started = {await each.fetchval(_WHICH) for each in (first, second, third)}
                    assert len(started) == 2
                    await two.ask("select pg_wal_replay_pause()")
                    made = 0
                    async with asyncio.timeout(60):
                        while made < 4:
                            request = ChargeRequest(amount_cents=5, key=own_key(), external_id=f"n{made}")
                            await charge_usecases.create_charge(service.context, caller, request)
                            made += 1
                            await asyncio.sleep(AGE_MAX_S + 0.1)
                            found = await asyncio.gather(*(count_charges(standby, service) for _ in range(4)))
                            assert found == [made] * 4
                    # The other one is as good as before, once the name leads to it.
                    wire.lead_to(one.addresses)
                    await until_used(standby)
                    before = standby.outcomes["answered"]
                    assert await count_charges(standby, service) == made
                    assert standby.outcomes["answered"] == before + 1
            finally:
                two.end()


async def count_charges(standby: Standby, service: Service) -> int:
    question = "select count(*) from charge"
    return await standby.read(lambda: standby.pool.fetchval(question), lambda: service.context.pool.fetchval(question))


async def test_the_console_shows_lists_of_the_standby_and_of_the_primary_where_that_is_gone() -> None:
    async with (
        servers.open_pair(waits=False) as (_, addresses, server),
        open_service(addresses, clock=SystemClock()) as service,
        read_by(server.addresses.service_url, service) as standby,
        open_console(service, standby=standby) as console,
    ):
        caller = await open_holder(service)
        request = ChargeRequest(amount_cents=12_345, key=own_key(), external_id="shown")
        await charge_usecases.create_charge(service.context, caller, request)
        browser = console.nobody.of(await sign_in_client(console, caller.holder_id))
        await asyncio.sleep(AGE_MAX_S + 0.1)
        await until_used(standby)
        for there in (True, False):
            if not there:
                server.end()
            before = standby.outcomes["answered"]
            answers = [await browser.get(page) for page in PAGES]
            assert [answer.status for answer in answers] == [200] * len(PAGES)
            assert b"123,45" in answers[0].content or b"123.45" in answers[0].content
            assert (standby.outcomes["answered"] == before + len(PAGES)) is there
