"""Callbacks over HTTP: a payment is recorded as soon as its institution calls, and a stranger's call has no effect."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import httpx
import pytest
from msgspec import structs

from pixconnect.assembly.application import make_application
from pixconnect.assembly.base import running_beside
from pixconnect.doors.api.operation import Services
from pixconnect.doors.worker.leases import SlotLeases
from pixconnect.features.institutions.rail import InstitutionRail
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service import webhook as webhook_usecases
from pixconnect.features.institutions.service.webhook import Callbacks
from pixconnect.features.institutions.worker import AccountReaders
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.base.feature_parts import FeatureParts
from pixconnect.platform.flow.overload import Admission
from pixconnect.platform.flow.turns import Turns
from pixconnect.platform.http.server import Server
from pixconnect.platform.logging import AccessLog
from pixconnect.platform.notifier import CALLBACK_CHANNEL
from pixconnect.platform.pool import connect
from pixconnect.platform.privileges import SERVICE_ROLE
from support.account_shop import Shop
from support.operators import as_operator
from support.service import a_context, read_funds
from support.waiting import until


@asynccontextmanager
async def serving(shop: Shop) -> AsyncIterator[str]:
    """The API on a free port, with callbacks only."""
    empty: dict[str, Any] = dict.fromkeys(Services.__struct_fields__)
    present = dict(
        context=shop.context, of_features=FeatureParts({Callbacks: Callbacks(shop.context)}),
        admission=Admission(), turns=Turns(), trusted_proxies=(), base_url="",
    )  # fmt: skip
    services = Services(**cast("Any", empty | present))
    application = make_application(services, AccessLog(shop.context.clock, wanted="off"))
    listener = socket.create_server(("127.0.0.1", 0))
    server, is_ready = Server(application), asyncio.Event()
    task = asyncio.create_task(server.serve([listener], on_ready=is_ready.set))
    await is_ready.wait()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.stop()
        await task


@asynccontextmanager
async def reading(shop: Shop) -> AsyncIterator[None]:
    """A worker with all slots, which reads by itself only once an hour."""
    leases = SlotLeases(partial(connect_as_service, shop), SystemClock())
    readers = AccountReaders(
        shop.context, leases, lambda opened, memory: InstitutionRail(opened.institution, memory, shop.context.clock)
    )
    async with running_beside(leases.run, readers.run):
        yield


async def hang(shop: Shop, url: str) -> str:
    operator = as_operator(shop.context)
    operator = structs.replace(operator, policy=structs.replace(operator.policy, callback_base_url=url))
    there = await webhook_usecases.set_webhooks(operator, shop.there.open, "loja")
    assert there.address is not None
    return there.address


async def connect_as_service(shop: Shop) -> Any:
    return await connect(shop.live.database.service_url, role=SERVICE_ROLE, schema="pixconnect", name="tests")


async def wait_for(shop: Shop, count: int) -> None:
    await until(lambda: len(shop.there.lists) >= count)


async def test_a_payment_is_recorded_when_the_bank_calls_and_not_when_it_is_due(shop: Shop) -> None:
    await shop.live.execute_as_owner("update institution_account set poll_s = 3600, revision = revision + 1")
    shop.there.lists.clear()
    async with serving(shop) as url, reading(shop), httpx.AsyncClient() as client:
        address = await hang(shop, url)
        # The first near, wide and deep sweeps.
        await wait_for(shop, 3)
        shop.pay(700)
        answer = await client.post(f"{address}/pix", content=b'{"pix":[{"endToEndId":"E1"}]}')
        assert (answer.status_code, answer.content) == (200, b"")
        async with asyncio.timeout(60):
            while await read_funds(shop.live, shop.house) != (700, 0):  # noqa: ASYNC110  no event to await
                await asyncio.sleep(0.02)
        assert [only for _, _, only in shop.there.lists] == [False, False, True, False]
        shop.live.clock.advance(seconds=3)
        await client.post(address, content=b'{"pix":[{"devolucoes":[{}]}]}')
        await wait_for(shop, 6)
        assert [only for _, _, only in shop.there.lists[4:]] == [False, True]


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST"])
async def test_whatever_comes_the_answer_is_the_same_and_a_false_one_tells_nobody(shop: Shop, method: str) -> None:
    heard: list[str] = []
    listener = await connect_as_service(shop)
    await listener.add_listener(CALLBACK_CHANNEL, lambda *said: heard.append(str(said[-1])))
    async with serving(shop) as url, httpx.AsyncClient() as client:
        address = await hang(shop, url)
        stem = address.rpartition("/")[0]
        false = [f"{stem}/wrong", f"{stem}/wrong/pix", f"{url}/institutions/nobody/%FF", f"{address[:-1]}"]
        answers = [await client.request(method, one, content=b"x" * 100) for one in false]
        answers.append(await client.request(method, f"{address}/pix/lancamento", content=b"{"))
        assert {(each.status_code, each.content) for each in answers} == {(200, b"")}
        told = method == "POST"
        if told:
            await until(lambda: bool(heard))
        assert heard == ([f"{shop.account.id} near"] if told else [])
        if told:
            assert (await client.post(address, content=b"x" * 70_000)).status_code == 413
    await listener.close()


class CountingPool:
    """Counts the statements sent to the database."""

    def __init__(self, pool: Any) -> None:
        self.asked = 0
        self._pool = pool

    async def fetch(self, *words: Any) -> Any:
        self.asked += 1
        return await self._pool.fetch(*words)


async def test_a_thousand_strangers_cost_one_look_and_no_notice(shop: Shop) -> None:
    pool = CountingPool(shop.context.pool)
    callbacks = Callbacks(a_context(clock=shop.context.clock, pool=pool))
    for number in range(1000):
        await callbacks.take("loja", f"wrong{number}", b"{}", has_certificate=False)
    # The clock of the test stands still; a notification would be a statement, which this pool does not have.
    assert pool.asked == 1


async def test_where_the_bank_shows_a_certificate_others_are_refused(shop: Shop) -> None:
    async with serving(shop) as url, httpx.AsyncClient() as client:
        address = await hang(shop, url)
        await shop.live.execute_as_owner("""update institution_account set options = '{"webhook_mtls": true}'""")
        answer = await client.post(address, content=b"{}")
        assert answer.status_code == 403
        # Without the secret a caller learns nothing about the account.
        guessed = await client.post(f"{address[:-1]}{'a' if address[-1] != 'a' else 'b'}", content=b"{}")
        invented = await client.post(address.replace("/loja/", "/nobody/"), content=b"{}")
        assert guessed.status_code == invented.status_code != 403


async def test_nothing_leaves_a_paused_account_and_what_comes_in_is_recorded(shop: Shop) -> None:
    await shop.allow(1000)
    pix = await shop.receive(900)
    refund = await shop.give_back(pix, 200)
    await account_usecases.set_state(as_operator(shop.context), "loja", "paused")
    async with serving(shop) as url, reading(shop), httpx.AsyncClient() as client:
        address = await hang(shop, url)
        charge = await shop.charge("order-1", amount_cents=700)
        shop.pay(700, txid=charge.txid)
        assert (await client.post(f"{address}/pix", content=b"{}")).status_code == 200
        async with asyncio.timeout(60):
            while await read_funds(shop.live, shop.house) != (1400, 200):  # noqa: ASYNC110  no event to await
                await asyncio.sleep(0.02)
    assert (await shop.live.fetch("select status from charge"))[0]["status"] == "APPROVED"
    assert await shop.live.fetch(f"select from rail_step where order_name = '{refund.return_id}'") == []


async def test_a_closed_account_is_told_nothing(shop: Shop) -> None:
    await shop.live.execute_as_owner("update institution_account set state = 'closed'")
    callbacks = Callbacks(shop.context)
    await callbacks.take("loja", "wrong", b"", has_certificate=False)
