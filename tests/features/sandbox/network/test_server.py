"""The sandbox as a process: killed at any instant, it has lost nothing that it answered."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from pixconnect.features.sandbox import rules as commands
from pixconnect.features.sandbox.network import tables
from pixconnect.features.sandbox.network.server import LOCK_KEY
from pixconnect.kernel.rules.rail import AlreadyKnown, CreditReport, NotTaken, Settled, Taken, Unknown
from support import sandbox as support
from support.postgres import Addresses
from support.sandbox import SandboxProcess, order, outside_transfer, reports_of


@pytest.fixture
async def process(database: Addresses) -> AsyncIterator[SandboxProcess]:
    with SandboxProcess(database.service_url, latency_ms=300) as process:
        await process.start()
        yield process
        assert process.stop() == 0


async def test_kill_9_loses_no_order_no_arrival_no_rule_no_entry_and_no_code(process: SandboxProcess) -> None:
    orders = [order() for _ in range(100)]
    rules = [commands.FaultRule(match=commands.FaultMatch(operation="lookup"), effect="unavailable", times=3)]
    async with support.connected(process.url) as (rail, control):
        assert await rail.submit(orders) == [Taken()] * 100
        paying = asyncio.create_task(control.call(commands.PAY, outside_transfer()))
        credit = None
        while credit is None:  # payments that have settled meanwhile come with it, and again later
            credit = next((one for one in await rail.reports(20) if isinstance(one, CreditReport)), None)
        entry = await control.call(commands.ADD_KEY, commands.NewKey(key="a@b.example", key_type="EMAIL"))
        await control.call(commands.MAKE_QR_CODE, commands.NewQrCode(kind="dynamic", amount_cents=5, txid="q" * 32))
        authority = await control.call(commands.READ_AUTHORITY, None)
        await control.call(commands.REPLACE_FAULTS, rules)
        process.kill()
        with pytest.raises(commands.SandboxUnavailable):
            await paying
        assert await rail.submit(orders[:1]) == [NotTaken()]
        await process.start()
        assert await control.call(commands.READ_FAULTS, None) == rules
        await control.call(commands.REPLACE_FAULTS, [])
        assert await rail.submit(orders) == [AlreadyKnown()] * 100
        reports = await reports_of(rail, 101)
        assert {report.report_id for report in reports} == {one.end_to_end_id for one in orders} | {credit.report_id}
        assert credit in reports
        assert all(isinstance(answer, Settled) for answer in await rail.query([one.end_to_end_id for one in orders]))
        assert await rail.lookup_key("a@b.example", "1", support.network_id()) == entry
        assert await control.call(commands.READ_AUTHORITY, None) == authority
        late = order(txid="q" * 32, amount_cents=5)
        assert await rail.submit([late]) == [Taken()]


@pytest.mark.long
async def test_killed_again_and_again_under_load_everything_taken_is_reported(process: SandboxProcess) -> None:
    taken: set[str] = set()
    seen: set[str] = set()

    async def send() -> None:
        async with support.connected(process.url) as (rail, _):
            for _ in range(60):
                group = [order() for _ in range(8)]
                answers = await rail.submit(group)
                taken.update(one.end_to_end_id for one, answer in zip(group, answers, strict=True) if answer == Taken())
                await asyncio.sleep(0.02)

    async with asyncio.timeout(180), asyncio.TaskGroup() as group:
        sending = [group.create_task(send()) for _ in range(2)]
        for _ in range(3):
            await asyncio.sleep(0.4)
            process.kill()
            await process.start()
        await asyncio.gather(*sending)
    assert taken
    async with support.connected(process.url) as (rail, _), asyncio.timeout(60):
        while not taken <= seen:
            seen |= {report.report_id for report in await support.next_reports(rail)}


async def test_the_clock_stays_where_it_was_moved_over_a_kill(process: SandboxProcess) -> None:
    async with support.connected(process.url) as (rail, control):
        await rail.submit([order("lost")])
        await control.call(commands.SET_OFFSET, timedelta(seconds=41))
        process.kill()
        await process.start()
        assert (await control.call(commands.READ_DUE, None)).reports_count == 1


@pytest.mark.long
async def test_a_second_process_waits_until_the_first_is_gone(process: SandboxProcess, database: Addresses) -> None:
    with SandboxProcess(database.service_url) as second:
        starting = asyncio.create_task(second.start())
        await asyncio.sleep(1.5)
        assert not starting.done()
        process.kill()
        await asyncio.wait_for(starting, 60)
        assert second.stop() == 0
    await process.start()


_HOLDER_OF_LOCK = """
    select pid from pg_locks join pg_stat_activity using (pid)
    where locktype = 'advisory' and granted and application_name = 'pixconnect sandbox lock' and datname = current_database()
"""
_CUT_LOCK = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where application_name = 'pixconnect sandbox lock' and datname = current_database()
"""


async def test_without_its_lock_it_takes_it_again_and_goes_on(process: SandboxProcess, database: Addresses) -> None:
    async with support.connected(process.url) as (rail, _):
        first = order()
        assert await rail.submit([first]) == [Taken()]
        owner = await asyncpg.connect(database.owner_url)
        before = await owner.fetchval(_HOLDER_OF_LOCK)
        assert await owner.fetchval(_CUT_LOCK)
        async with asyncio.timeout(60):
            while await owner.fetchval(_HOLDER_OF_LOCK) in {None, before}:  # noqa: ASYNC110  nothing tells
                await asyncio.sleep(0.05)
        await owner.close()
        async with asyncio.timeout(60):
            while await rail.submit([first]) != [AlreadyKnown()]:  # noqa: ASYNC110  nothing tells
                await asyncio.sleep(0.05)


@pytest.mark.long
async def test_where_another_has_its_lock_it_ends_so_that_there_are_never_two(database: Addresses) -> None:
    with SandboxProcess(database.service_url, errors=subprocess.DEVNULL) as process:
        await process.start()
        owner = await asyncpg.connect(database.owner_url)
        another = asyncio.create_task(owner.execute(f"select pg_advisory_lock({LOCK_KEY})"))
        beside = await asyncpg.connect(database.owner_url)
        assert await beside.fetchval(_CUT_LOCK)
        await another
        assert await asyncio.to_thread(process.wait) != 0
        await owner.close()
        await beside.close()


@pytest.mark.long
async def test_told_to_stop_it_lets_go_of_those_who_wait(process: SandboxProcess) -> None:
    async with support.connected(process.url) as (rail, _):
        await rail.check()  # so that there is a connection, and the next request is on its way at once
        waiting = asyncio.create_task(rail.reports(30))
        await asyncio.sleep(1)
        start = asyncio.get_running_loop().time()
        assert await asyncio.to_thread(process.stop) == 0
        assert await waiting == []
        assert asyncio.get_running_loop().time() - start < 20
    await process.start()


async def test_a_broken_connections_rows_are_reported(database: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    insert = tables.insert_orders

    async def insert_and_break(*arguments: Any) -> set[str]:
        await insert(*arguments)
        raise asyncpg.ConnectionDoesNotExistError

    one = order()
    async with support.running(database.service_url) as sandbox:
        with monkeypatch.context() as broken:
            broken.setattr(tables, "insert_orders", insert_and_break)
            assert await sandbox.rail.submit([one]) == [Unknown()]
        assert await sandbox.rail.submit([one]) == [AlreadyKnown()]
        assert [report.report_id for report in await reports_of(sandbox.rail, 1)] == [one.end_to_end_id]
