"""A transfer that waits for a person at its institution is reported once, and returns nothing meanwhile."""

import asyncio
from datetime import timedelta

import pytest

from pixconnect.features.institutions.rules.institution import InstitutionTraits
from pixconnect.features.receipts.service import read_parties
from pixconnect.kernel.flows.unresolved import count_silent
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import order as order_store
from pixconnect.platform.base import errors
from support.account_shop import Shop
from support.books import check_books
from support.fake_institution import FakeInstitution
from support.health import check_accounts
from support.service import Service, read_funds


@pytest.fixture
def there(live: Service) -> FakeInstitution:
    """Each transfer has to be approved there."""
    there = FakeInstitution(live.clock, InstitutionTraits(sends=("KEY",)))
    there.send_status, there.waits_for = "under_way", "approval"
    return there


async def send(shop: Shop) -> Transfer:
    await shop.allow_sending()
    await shop.receive(1000)
    return await shop.send(400)


async def ask(shop: Shop, times: int = 3) -> None:
    for _ in range(times):
        await shop.move_orders()
        shop.live.clock.advance(seconds=60)


async def list_receivers(shop: Shop) -> list[str]:
    rows = await shop.live.fetch("select name from event where resource = 'transfer' and name like '%.out.%' order by id")
    return [row["name"] for row in rows]


async def test_it_is_told_once_and_its_parties_say_for_what(shop: Shop) -> None:
    sent = await send(shop)
    await ask(shop)
    assert await list_receivers(shop) == ["transfer.out.processing", "transfer.out.waiting"]
    seen = await read_parties(shop.context, shop.house, sent.id)
    assert seen.wait is not None
    assert (seen.wait.waits_for, seen.view.transfer.status) == ("approval", "PROCESSING")
    assert await read_funds(shop.live, shop.house) == (600, 400)
    # No order is silent; a day later an operator should look at it.
    assert await count_silent(shop.live.context) == 0
    assert len(await order_store.list_waiting_since(shop.live.context.pool, 10)) == 1
    shop.live.clock.advance(days=1, minutes=5)
    with pytest.raises(errors.ServiceUnavailable, match="1 transfer has waited for a person at the institution for over 24 h"):
        await check_accounts(shop.context)
    shop.there.end_sent("settled")
    await ask(shop, 12)
    seen = await read_parties(shop.context, shop.house, sent.id)
    assert (seen.wait, seen.view.transfer.status) == (None, "CONFIRMED")
    assert await list_receivers(shop) == ["transfer.out.processing", "transfer.out.waiting", "transfer.out.confirmed"]
    assert await order_store.list_waiting_since(shop.live.context.pool, 10) == []
    await check_books(shop.live)


async def test_two_who_see_it_at_once_tell_it_once(shop: Shop) -> None:
    await send(shop)
    await shop.move_orders()
    shop.live.clock.advance(seconds=60)
    await asyncio.gather(shop.move_orders(), shop.move_orders())
    assert (await list_receivers(shop)).count("transfer.out.waiting") == 1


async def test_what_nobody_has_to_see_to_is_not_told(shop: Shop) -> None:
    shop.there.waits_for = None
    sent = await send(shop)
    await ask(shop)
    assert await list_receivers(shop) == ["transfer.out.processing"]
    assert (await read_parties(shop.context, shop.house, sent.id)).wait is None
    assert shop.live.clock.now() - sent.created_at < timedelta(hours=1)
