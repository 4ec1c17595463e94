"""An account finds out about a key by paying it, so the number of unpaid keys is limited."""

import pytest

from pixconnect.features.institutions.rules.institution import CertainRefusal, InstitutionTraits
from pixconnect.kernel.flows.transfer import Transfer
from pixconnect.platform.base import errors
from support.account_shop import Shop, open_shop
from support.books import check_books
from support.fake_institution import FakeInstitution
from support.service import Service, send_out

TOKENS = 3


@pytest.fixture
async def shop(live: Service) -> Shop:
    live.clock.stand_still()
    there = FakeInstitution(live.clock, InstitutionTraits(sends=("KEY", "MANUAL")))
    opened = await open_shop(live, there)
    await live.execute_as_owner(
        "insert into lookup_budget (holder_id, tokens, read_at, settled_until)"
        f" values ({opened.house.holder_id}, {TOKENS}, '{live.clock.real_now()}', '{live.clock.now()}')"
    )
    opened.pay(10_000)
    await opened.read()
    await opened.allow_sending()
    return opened


async def send(shop: Shop, key: str, amount_cents: int = 100) -> Transfer:
    return await shop.send(amount_cents, key, external_id=key)


async def test_a_refusal_that_tells_that_a_key_is_nobodys_here_costs_a_look_up(shop: Shop) -> None:
    for number in range(TOKENS):
        with pytest.raises(errors.LimitExceeded):
            await send(shop, f"{number}@pix.example", 10_000_000)
    with pytest.raises(errors.RateLimited):
        await send(shop, "one-more@pix.example", 10_000_000)


async def test_unknown_keys_cost_tokens_and_paid_ones_give_more_back(shop: Shop) -> None:
    for number in range(TOKENS):
        sent = await send(shop, f"{number}@pix.example")
        assert (await send(shop, f"{number}@pix.example")).id == sent.id, "a repetition costs nothing"
        shop.there.send_answers.append(CertainRefusal(code="there is none", reason="no such key", reject_code="AC03"))
        await shop.move_orders()
    with pytest.raises(errors.RateLimited):
        await send(shop, "one-more@pix.example")
    # No look-up is needed for an account.
    await send_out(shop, shop.house, 100)
    await shop.move_orders()
    shop.live.clock.advance(seconds=2)
    for number in range(10):
        await send(shop, f"paid-{number}@pix.example")
        await shop.move_orders()
        shop.live.clock.advance(seconds=2)
    await check_books(shop.live)
