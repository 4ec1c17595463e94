"""Without an allowance nothing is sent over an account, and two accounts never settle on the books."""

import pytest
from msgspec import structs

from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.transfer import AccountTransferRequest, KeyTransferRequest
from pixconnect.platform.base import errors
from support.account_shop import Shop, make_owner
from support.books import check_books
from support.records import outside_party, own_key
from support.service import read_funds


async def send(shop: Shop, caller: Caller, key: str) -> str:
    request = KeyTransferRequest(amount_cents=100, key=key, key_type="EMAIL")
    return (await transfer_usecases.start_transfer(shop.context, caller, request)).transfer.status


async def test_by_book_goes_what_stays_on_one_account(shop: Shop) -> None:
    sister = await make_owner(shop.live, "2")
    stranger = await make_owner(shop.live, "3")
    await shop.live.execute_as_owner(f"update holder set institution_id = {shop.account.id} where id = {sister}")
    await shop.receive(1000)
    assert await send(shop, shop.house, own_key("2")) == "CONFIRMED"
    with pytest.raises(errors.ServiceUnavailable, match="nothing was done"):
        await send(shop, shop.house, own_key("3"))
    elsewhere = structs.replace(shop.house, holder_id=stranger)
    with pytest.raises(errors.ServiceUnavailable, match="nothing was done"):
        await send(shop, elsewhere, own_key("2"))
    assert await read_funds(shop.live, shop.house) == (900, 0)
    await check_books(shop.live)


async def test_nothing_is_sent_outside(shop: Shop) -> None:
    await shop.receive(1000)
    request = AccountTransferRequest(amount_cents=100, credit_party=outside_party())
    with pytest.raises(errors.ServiceUnavailable, match="nothing was done"):
        await transfer_usecases.start_transfer(shop.context, shop.house, request)
    assert await read_funds(shop.live, shop.house) == (1000, 0)
