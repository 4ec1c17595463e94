"""In live mode one host receives the webhooks of one holder's keys, unless an operator allows more."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec import structs

from pixconnect.features.pix_api.service import key_webhook
from pixconnect.features.webhooks.rules.endpoint import EndpointChange, EndpointRequest
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.features.webhooks.service.endpoint import HostIsAnothers
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.access import Caller
from pixconnect.platform.base import address_rules, errors
from pixconnect.platform.base.errors import Violated
from support.operators import as_operator
from support.postgres import Addresses
from support.records import own_key
from support.service import Service, a_policy, open_holder, open_service
from support.webhooks import SECRET

KEYS = (own_key("1"), own_key("2"))


@pytest.fixture
async def live(database: Addresses) -> AsyncIterator[Service]:
    async with open_service(database) as service:
        yield service


async def open_both(service: Service) -> tuple[Caller, Caller, Context]:
    first, second = await open_holder(service), await open_holder(service, account_number="2")
    context = structs.replace(service.context, policy=a_policy(is_sandbox=False))
    return first, second, context


async def test_a_host_of_anothers_key_is_refused_at_both_doors_until_an_operator_allows_it(live: Service) -> None:
    shop, thief, context = await open_both(live)
    await key_webhook.set_webhook(context, shop, KEYS[0], "https://shop.example/hook")
    for url in ("https://shop.example/hook", "https://SHOP.example.:8443/other?x=y"):
        with pytest.raises(Violated) as refused:
            await key_webhook.set_webhook(context, thief, KEYS[1], url)
        (row,) = refused.value.rows
        assert (row.property, row.value) == ("webhook.webhookUrl", url)
        assert "outro titular" in row.reason
    request = EndpointRequest(url="https://shop.example/x", secret=SECRET, event_types=["qrcode.approved"])
    with pytest.raises(HostIsAnothers, match=r"^url: shop.example receives another holder's Pix keys; ask"):
        await endpoint_usecases.create_endpoint(context, thief, request)
    mine = await endpoint_usecases.create_endpoint(context, thief, structs.replace(request, url="https://b.example/"))
    with pytest.raises(HostIsAnothers):
        await endpoint_usecases.change_endpoint(context, thief, mine.id, EndpointChange(url="https://shop.example/"))
    # Its owner goes on, at both.
    await key_webhook.set_webhook(context, shop, KEYS[0], "https://shop.example/new")
    await endpoint_usecases.create_endpoint(context, shop, request)

    assert await endpoint_usecases.allow_host(as_operator(live.context), "Shop.Example.") == "shop.example"
    await key_webhook.set_webhook(context, thief, KEYS[1], "https://shop.example/hook")
    await endpoint_usecases.change_endpoint(context, thief, mine.id, EndpointChange(url="https://shop.example/"))


async def test_a_host_is_free_again_when_its_webhooks_are_gone_and_a_sandbox_refuses_none(live: Service) -> None:
    shop, other, context = await open_both(live)
    await key_webhook.set_webhook(context, shop, KEYS[0], "https://shop.example/hook")
    await key_webhook.set_webhook(live.context, other, KEYS[1], "https://shop.example/hook")
    await key_webhook.delete_webhook(context, other, KEYS[1])
    await key_webhook.delete_webhook(context, shop, KEYS[0])
    await key_webhook.set_webhook(context, other, KEYS[1], "https://shop.example/hook")


async def test_of_two_holders_who_name_one_host_at_once_one_gets_it(live: Service) -> None:
    shop, other, context = await open_both(live)
    for number in range(10):
        url = f"https://shop{number}.example/hook"
        found = await asyncio.gather(
            key_webhook.set_webhook(context, shop, KEYS[0], url),
            key_webhook.set_webhook(context, other, KEYS[1], url),
            return_exceptions=True,
        )
        assert [type(one) for one in found].count(Violated) == 1, found


def test_one_host_has_one_usual_form_however_it_is_written() -> None:
    for url in ("https://LOJA.example:8443/a", "https://loja.example.?x", "https://loja.example#y"):
        assert address_rules.spell_host(address_rules.host_of(url))[0] == "loja.example"
    assert address_rules.spell_host("ação.example") == ["xn--ao-siap.example", "ação.example"]
    assert address_rules.spell_host("xn--ao-siap.example")[1] == "ação.example"
    assert address_rules.spell_host(address_rules.host_of("https://[2001:DB8::1]:443/"))[0] == "[2001:db8::1]"
    with pytest.raises(address_rules.TargetRefused):
        address_rules.spell_host("no host")


async def test_an_operator_is_told_what_is_no_host(live: Service) -> None:
    with pytest.raises(errors.BadRequest, match=r"^host: has a host that cannot be read$"):
        await endpoint_usecases.allow_host(as_operator(live.context), "https://shop.example/")
