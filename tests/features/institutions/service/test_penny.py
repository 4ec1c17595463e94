"""One cent is sent from an account's house to a key that an operator names, and its return is seen."""

import pytest

from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service.inquiry import follow_penny, read_penny_terms, send_penny
from pixconnect.features.institutions.service.statement_sweep import record_listed
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day
from support.account_shop import Shop
from support.books import check_books
from support.fixtures.accounts import there_with
from support.operators import as_operator
from support.service import read_funds

there = there_with(sends=("KEY",))


async def send(shop: Shop) -> Transfer:
    operator = as_operator(shop.context, "ana")
    return await send_penny(shop.context, operator, shop.account, "joana@pix.example", "EMAIL")


async def test_one_cent_leaves_the_house_and_what_comes_in_after_it_is_told(shop: Shop) -> None:
    await shop.allow_sending()
    await shop.receive(1000)
    shop.live.clock.advance(seconds=1)
    sent = await send(shop)
    await shop.move_orders()
    arrived = await follow_penny(shop.context, sent)
    assert (arrived.transfer.status, arrived.transfer.amount_cents, arrived.is_back) == ("CONFIRMED", 1, False)
    await shop.receive(2000)
    assert not (await follow_penny(shop.context, sent)).is_back, "a customer has paid"
    await shop.receive(1)
    back = await follow_penny(shop.context, sent)
    assert ([one.amount_cents for one in back.came_back], back.is_back) == ([1], True)
    assert (await read_funds(shop.live, shop.house), shop.there.paid_cents) == ((3000, 0), 1)
    asked = "select operator, subject from audit where verb = 'institution check'"
    (row,) = await as_operator(shop.live.context).pool.fetch(asked)
    assert tuple(row) == ("ana", "institution loja")
    await check_books(shop.live)


async def test_it_leaves_only_where_a_transfer_may(shop: Shop) -> None:
    await shop.receive(1000)
    with pytest.raises(errors.RuleBroken):
        await send(shop)
    assert shop.there.calls == []


async def test_the_fee_that_was_last_taken_for_a_transfer_is_told_before(shop: Shop) -> None:
    assert await read_penny_terms(shop.context, "loja") == (shop.account, None)
    today = to_day(shop.live.clock.real_now())
    for number, cents in enumerate((90, 150)):
        fee = InstitutionItem(
            item_id=f"F{number}", day=today, settled_at=shop.live.clock.real_now(), direction="OUT",
            amount_cents=cents, kind="fee", text="TARIFA PIX",
        )  # fmt: skip
        await record_listed(shop.at, shop.account, [fee])
        async with shop.context.pool.acquire() as connection:
            await item_store.note_fees(connection, shop.account.id, {f"F{number}": ("transfer", 7)})
        shop.live.clock.advance(seconds=1)
    assert await read_penny_terms(shop.context, "loja") == (shop.account, 150)


async def test_nothing_is_planned_over_an_account_that_is_paused_or_none(shop: Shop) -> None:
    await account_usecases.set_state(as_operator(shop.context), "loja", "paused")
    with pytest.raises(errors.BadRequest, match="the account loja is paused"):
        await read_penny_terms(shop.context, "loja")
    with pytest.raises(errors.NotFound):
        await read_penny_terms(shop.context, "laden")
