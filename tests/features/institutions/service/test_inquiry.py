"""The institution's current answer beside our records: recorded as by a sweep, and never guessed."""

import pytest
from msgspec import structs

from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service import inquiry
from pixconnect.features.institutions.service.inquiry import InquiryAnswer
from pixconnect.kernel.flows import audit
from pixconnect.platform.base import errors
from support.account_shop import Shop
from support.books import check_books
from support.operators import as_operator
from support.service import read_funds


async def ask(shop: Shop, asked: str) -> InquiryAnswer:
    return await inquiry.ask(as_operator(shop.context), shop.at, shop.opened, asked)


async def test_a_pix_is_recorded_once_and_shown_from_both_sides(shop: Shop) -> None:
    pix = shop.pay(700)
    first = await ask(shop, pix.end_to_end_id)
    again = await ask(shop, pix.end_to_end_id)
    assert ([each.amount_cents for each in first.received], dict(first.before)) == ([700], {})
    assert first.now[pix.end_to_end_id].amount_cents == 700
    assert again.before == again.now == first.now
    assert await read_funds(shop.live, shop.house) == (700, 0)
    await check_books(shop.live)
    entries = await audit.list_entries(as_operator(shop.context), count_max=2)
    assert [each.verb for each in entries] == ["institution ask"] * 2


async def test_a_charge_is_asked_about_with_the_pix_that_paid_it(shop: Shop) -> None:
    charge = await shop.charge()
    assert (await ask(shop, charge.txid)).received == []
    pix = shop.pay(txid=charge.txid)
    shop.there.charges[charge.txid] = structs.replace(
        shop.there.charges[charge.txid], status="paid", paid_by=[pix.end_to_end_id]
    )
    says = await ask(shop, charge.txid)
    assert says.charge is not None
    assert (says.charge.status, says.now[pix.end_to_end_id].charge_id) == ("paid", charge.id)


async def test_what_is_unknown_there_or_cannot_be_asked_is_told(shop: Shop) -> None:
    assert (await ask(shop, "E99999999202607011500AAAAAAAAAAA")).is_unknown
    with pytest.raises(errors.BadRequest, match="asked"):
        await ask(shop, "no name")
    shop.there.is_reachable = False
    with pytest.raises(errors.ServiceUnavailable):
        await ask(shop, "a" * 32)
    await account_usecases.set_state(as_operator(shop.context), "loja", "paused")
    assert (await account_usecases.find_account(shop.context.pool, "loja")).name == "loja"
    await shop.live.execute_without_guards("update institution_account set state = 'closed'")
    with pytest.raises(errors.BadRequest, match="closed"):
        await account_usecases.find_account(shop.context.pool, "loja")


async def test_what_was_before_the_books_is_shown_and_not_recorded(shop: Shop) -> None:
    pix = shop.pay(700, settled_at=shop.account.opened_at.replace(year=2020))
    says = await ask(shop, pix.end_to_end_id)
    assert (len(says.received), dict(says.now)) == (1, {})
    assert (says.explain_missing(pix) or "").startswith("the opening balance includes it: the books of the account began at")
    recorded = shop.pay(700)
    assert (await ask(shop, recorded.end_to_end_id)).explain_missing(recorded) is None
