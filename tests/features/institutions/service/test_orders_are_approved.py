"""Transfers over an account at an institution that wait for an operator's approval: nothing is called before it."""

from datetime import timedelta
from typing import Any

import pytest

from pixconnect.features.approvals.service import decide_transfer, list_waiting_transfers
from pixconnect.features.institutions.rules.institution import InstitutionTraits
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.kernel.flows.handover import give_up_unsent
from pixconnect.kernel.flows.holder import HolderChanges, set_holder
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import order as order_store
from pixconnect.platform.base import errors
from support.account_shop import Shop, read_again
from support.books import check_books
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.service import Service, read_funds


@pytest.fixture
def there(live: Service) -> FakeInstitution:
    there = FakeInstitution(live.clock, InstitutionTraits(sends=("KEY",)))
    there.send_status = "settled"
    return there


async def send(shop: Shop, key: str = "joana@pix.example") -> Transfer:
    return await shop.send(400, key)


async def begin(shop: Shop) -> Transfer:
    await shop.allow_sending()
    operator = as_operator(shop.live.context)
    await set_holder(operator, shop.house.holder_id, HolderChanges(approve_new_payees=True))
    await shop.receive(1000)
    return await send(shop)


async def test_nothing_is_sent_before_the_yes_and_the_payee_is_known_once_it_settled(shop: Shop) -> None:
    first = await begin(shop)
    await shop.move_orders(minutes=30)
    assert shop.there.sent == {}
    # Orders that wait for people do not count as waiting to be sent.
    assert await order_store.count_unsent_of_account(shop.live.context.pool, shop.account.id, 10) == 0
    await decide_transfer(as_operator(shop.live.context), first.id, is_approved=True)
    await shop.move_orders()
    await shop.move_orders()
    second = await send(shop)
    await shop.move_orders()
    await shop.move_orders()
    for each in (first, second):
        assert (await read_again(shop, each)).status == "CONFIRMED"
    assert await read_funds(shop.live, shop.house) == (200, 0)
    await check_books(shop.live)


async def test_a_pause_keeps_it_waiting_and_no_yes_is_taken_that_would_only_end_it(shop: Shop) -> None:
    sent = await begin(shop)
    operator = as_operator(shop.live.context)
    await account_usecases.set_state(operator, shop.account.name, "paused")
    with pytest.raises(errors.BadRequest, match="resume the account first"):
        await decide_transfer(operator, sent.id, is_approved=True)
    await give_up_unsent(shop.at, shop.account.id, shop.live.clock.now() + timedelta(hours=1), 10)
    assert await read_funds(shop.live, shop.house) == (600, 400)
    await decide_transfer(operator, sent.id, is_approved=False)
    await give_up_unsent(shop.at, shop.account.id, shop.live.clock.now(), 10)
    assert await read_funds(shop.live, shop.house) == (1000, 0)
    assert shop.there.sent == {}
    await check_books(shop.live)


@pytest.mark.parametrize(
    ("lowered", "hold"),
    [
        (dict(transfer_cents=399), "allowed up to 399 cents each"),
        (dict(transfers_day_cents=399), "allowed up to 399 cents more today"),
        (dict(payees="own"), "allowed to its owner alone"),
        (dict(payees="known"), "to payees already paid over it alone"),
    ],
)
async def test_an_allowance_lowered_meanwhile_holds_until_it_is_raised(shop: Shop, lowered: dict[str, Any], hold: str) -> None:
    sent, operator = await begin(shop), as_operator(shop.live.context)
    await shop.allow_sending(**lowered)
    (waiting,) = await list_waiting_transfers(shop.live.context)
    assert hold in (waiting.hold or "")
    with pytest.raises(errors.BadRequest, match=hold):
        await decide_transfer(operator, sent.id, is_approved=True)
    await shop.allow_sending()
    await decide_transfer(operator, sent.id, is_approved=True)
    await shop.allow_sending(**lowered)
    await shop.move_orders()
    assert shop.there.sent == {}
    await shop.allow_sending()
    await shop.move_orders(seconds=10)
    await shop.move_orders()
    assert (await read_again(shop, sent)).status == "CONFIRMED"
    await check_books(shop.live)
