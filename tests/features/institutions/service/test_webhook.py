"""Our webhook is registered at an institution only if no other is replaced, and never by guessing."""

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
from pixconnect.features.identity.service import secret_key as secret_key_usecases
from pixconnect.features.institutions.rail import InstitutionRail
from pixconnect.features.institutions.rules.institution import InstitutionTraits, Webhook
from pixconnect.features.institutions.rules.sweep import digest_secret
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service import webhook as webhook_usecases
from pixconnect.features.institutions.service.webhook import CALLBACKS, Callbacks, RegisteredWebhooks
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.worker import AccountReaders
from pixconnect.kernel.flows import audit
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.base import errors
from pixconnect.platform.flow.overload import Admission
from pixconnect.platform.flow.turns import Turns
from pixconnect.platform.http.server import Server
from pixconnect.platform.logging import AccessLog
from pixconnect.platform.notifier import CALLBACK_CHANNEL
from pixconnect.platform.pool import connect
from pixconnect.platform.privileges import SERVICE_ROLE
from support.account_shop import Shop
from support.operators import as_operator
from support.postgres import Addresses, execute_as_owner
from support.service import a_context, read_funds
from support.waiting import until

KEY = "loja@test.example"
THEIRS = "https://erp.example/hooks"


def operator_of(shop: Shop) -> Any:
    operator = as_operator(shop.context)
    return structs.replace(operator, policy=structs.replace(operator.policy, callback_base_url="https://pay.example"))


async def register(shop: Shop, **changes: Any) -> RegisteredWebhooks:
    return await webhook_usecases.set_webhooks(operator_of(shop), shop.there.open, "loja", **changes)


async def restore(shop: Shop) -> RegisteredWebhooks:
    return await webhook_usecases.restore_webhooks(operator_of(shop), shop.there.open, "loja")


async def read(shop: Shop) -> RegisteredWebhooks:
    return await webhook_usecases.read_webhooks(operator_of(shop), shop.there.open, "loja")


async def read_verbs(shop: Shop) -> list[str]:
    entries = await audit.list_entries(operator_of(shop), count_max=50)
    return [each.verb for each in entries if each.verb.startswith("institution webhook ")]


async def test_ours_is_registered_once_and_shown_again(shop: Shop) -> None:
    assert [(each.key, each.whose) for each in (await read(shop)).found] == [(KEY, None)]
    done = await register(shop)
    assert (done.whose, done.address) == ("ours", shop.there.webhooks[0].url)
    assert done.address is not None
    assert done.address.startswith("https://pay.example/institutions/loja/")
    callback = await account_store.find_callback(shop.context.pool, shop.account.id)
    assert callback is not None
    assert callback.digest == digest_secret(done.address.rpartition("/")[2])
    assert await register(shop) == done
    assert shop.there.calls.count(f"webhook {KEY}") == 1, "what is there already is not sent again"
    assert await read_verbs(shop) == ["institution webhook set"] * 2


async def test_what_is_not_ours_is_kept_before_it_is_replaced_and_put_back(shop: Shop) -> None:
    shop.there.webhooks = [Webhook(key=KEY, url=THEIRS)]
    with pytest.raises(errors.BadRequest, match="--replace"):
        await register(shop)
    assert shop.there.webhooks[0].url == THEIRS
    assert await read_verbs(shop) == []
    done = await register(shop, replaces=True)
    assert (done.whose, [each.url for each in done.kept]) == ("ours", [THEIRS])
    after = await restore(shop)
    assert ([each.url for each in after.found], list(after.kept)) == ([THEIRS], [])
    assert (await restore(shop)).found == after.found, "nothing of ours is there any more"


async def test_ours_goes_where_nothing_stood_before(shop: Shop) -> None:
    await register(shop)
    assert [each.url for each in (await restore(shop)).found] == [None]


async def test_a_new_secret_takes_the_place_of_the_one_before(shop: Shop) -> None:
    before = await register(shop)
    after = await register(shop, has_new_secret=True)
    assert before.address != after.address
    assert [each.url for each in shop.there.webhooks] == [after.address]


async def test_a_lost_answer_is_read_again(shop: Shop) -> None:
    shop.there.loses_answers = True
    assert (await register(shop)).whose == "ours"
    assert [each.url for each in (await restore(shop)).found] == [None]


async def test_what_was_not_done_is_told_and_goes_on_with_the_same_secret(shop: Shop) -> None:
    shop.there.is_reachable = False
    with pytest.raises(errors.ServiceUnavailable):
        await register(shop)
    assert await account_store.find_callback(shop.context.pool, shop.account.id) is None, "nobody was asked"


async def test_another_installation_is_told_from_a_strange_program(shop: Shop) -> None:
    shop.there.webhooks = [Webhook(key=KEY, url="https://other.example/institutions/loja/abc")]
    (judged,) = webhook_usecases.judge_webhooks(await read(shop))
    assert (judged.is_given, "another installation" in judged.explanation) == (False, True)


async def test_where_an_account_has_any_number_ours_stands_beside_theirs(shop: Shop) -> None:
    shop.there.traits = InstitutionTraits(has_webhook_per_key=False)
    shop.there.webhooks = [Webhook(key=None, url=THEIRS)]
    done = await register(shop)
    again = await register(shop, has_new_secret=True)
    assert [each.url for each in shop.there.webhooks] == [THEIRS, again.address]
    assert (done.whose, again.whose) == ("ours", "ours")
    await restore(shop)
    assert [each.url for each in shop.there.webhooks] == [THEIRS]


async def test_an_address_that_no_institution_calls_is_refused_before_anything_is_kept(shop: Shop) -> None:
    account = structs.replace(shop.account, environment="production")
    with pytest.raises(errors.BadRequest, match="PIXCONNECT_CALLBACK_BASE_URL"):
        webhook_usecases.check_address("http://pay.example/institutions/loja/x", account)
    with pytest.raises(errors.BadRequest, match="200"):
        webhook_usecases.check_address("https://pay.example/" + "x" * 200, account)


async def test_the_secret_is_sealed_again_with_the_others(shop: Shop) -> None:
    done = await register(shop)
    await secret_key_usecases.reseal(operator_of(shop))
    assert (await read(shop)).address == done.address


async def test_an_account_that_is_used_keeps_its_webhook(shop: Shop) -> None:
    await register(shop)
    with pytest.raises(errors.BadRequest, match="cannot be removed"):
        await webhook_usecases.withdraw_webhooks(operator_of(shop), shop.there.open, "loja")
    assert len(shop.there.webhooks) == 1
    assert (await account_usecases.read_account(operator_of(shop), "loja")).account.state == "active"


async def test_a_key_without_a_webhook_cannot_pay(shop: Shop, database: Addresses) -> None:
    async def check() -> None:
        await webhook_usecases.check_keys_pay(operator_of(shop), shop.there.open, "loja")

    shop.there.webhooks = []
    await check()
    await execute_as_owner(database, "update institution_account set kind = 'efi'")
    with pytest.raises(errors.BadRequest, match=f"keys: {KEY} cannot pay"):
        await check()
    shop.there.webhooks = [Webhook(key=KEY, url=THEIRS)]
    await check()


@asynccontextmanager
async def serving(shop: Shop) -> AsyncIterator[str]:
    """The API on a free port, with callbacks only."""
    empty: dict[str, Any] = dict.fromkeys(Services.__struct_fields__)
    present = dict(
        context=shop.context.with_port(CALLBACKS, Callbacks(shop.context)),
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
    await shop.live.execute_without_guards("update institution_account set state = 'closed'")
    callbacks = Callbacks(shop.context)
    await callbacks.take("loja", "wrong", b"", has_certificate=False)
