"""Orders that the institution never answers, until they become cases."""

from datetime import timedelta

from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.service.statement import settle_items
from pixconnect.features.institutions.service.statement_sweep import note_listed, record_listed
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.rules.transfer import KeyTransferRequest, Transfer
from pixconnect.platform.base.clock import to_day
from support.account_shop import Shop
from support.fake_institution import LOST_BEFORE

TWO_WEEKS = 14


async def lose_order(shop: Shop, amount_cents: int = 400, *, is_heard: bool = False) -> Transfer:
    """A transfer that the institution never received and never answers; the house had 10.00."""
    await shop.allow_sending()
    shop.pay(1000)
    await shop.read()
    request = KeyTransferRequest(amount_cents=amount_cents, key="joana@pix.example", key_type="EMAIL")
    sent = (await transfer_usecases.start_transfer(shop.context, shop.house, request)).transfer
    if not is_heard:
        shop.there.send_answers.append(LOST_BEFORE)
    await shop.move_orders()
    return sent


async def read_days(shop: Shop, *items: InstitutionItem) -> None:
    """Read the statement of the next two weeks, after them."""
    first = to_day(shop.live.clock.real_now())
    shop.live.clock.advance(days=TWO_WEEKS)
    await record_listed(shop.at, shop.account, items)
    await note_listed(shop.at, shop.account, (first, first + timedelta(days=TWO_WEEKS - 1)))
    await settle_items(shop.at, shop.account)
    await shop.move_orders()


async def open_case_of_order(shop: Shop) -> int:
    """A case about an order without an answer."""
    await lose_order(shop)
    await read_days(shop)
    await case_usecases.look_for_cases(shop.live.context)
    (listed,) = await case_usecases.list_cases(shop.live.context, kind="order")
    return listed.case.id
