"""What payees give back of transfers: recorded once, for the transfer's holder, or by two operators where no list has it."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.civil_time import to_day
from pixconnect.domain.institutions.institution import InstitutionItem, InstitutionTraits
from pixconnect.domain.institutions.proposal import name_proposal
from pixconnect.domain.institutions.sent_return import SentReturn
from pixconnect.domain.money.transfer import Transfer
from pixconnect.usecases.institutions import inquiry
from pixconnect.usecases.institutions.sent_return import EVERY, follow_sent_returns
from pixconnect.usecases.institutions.statement import settle_items
from pixconnect.usecases.institutions.statement_sweep import note_listed, record_listed
from pixconnect.usecases.money import kept_report as kept_usecases
from pixconnect.usecases.money import transfer as transfer_usecases
from pixconnect.usecases.proof import case as case_usecases
from pixconnect.usecases.proof.adjustment import WantedAdjustment, propose_adjustment
from pixconnect.usecases.proof.case import ShownCase
from pixconnect.usecases.proof.proposal import confirm_proposal
from support.account_shop import Shop
from support.books import check_books
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.records import OUTSIDE_ISPB
from support.service import Service, read_funds


class Returns:
    def __init__(self) -> None:
        self.listed: list[SentReturn] = []
        self.asked: list[tuple[datetime, datetime]] = []

    async def list_returns(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[SentReturn]]:
        self.asked.append((since, until))
        yield self.listed


@pytest.fixture
def there(live: Service) -> FakeInstitution:
    opened = FakeInstitution(live.clock, InstitutionTraits(sends=("KEY",)))
    opened.sent_returns = Returns()
    return opened


def returns_of(shop: Shop) -> Returns:
    assert isinstance(shop.there.sent_returns, Returns)
    return shop.there.sent_returns


async def send(shop: Shop, amount_cents: int = 2000) -> Transfer:
    """A transfer that settled there, as it is recorded now."""
    await shop.allow_sending()
    await shop.receive(amount_cents)
    sent = await shop.send(amount_cents)
    for _ in range(2):
        await shop.move_orders()
        shop.live.clock.advance(minutes=1)
    return (await transfer_usecases.read_transfer_by_id(shop.context, shop.house, sent.id)).transfer


def give_back(shop: Shop, name: str, amount_cents: int, number: int = 1) -> SentReturn:
    returned = SentReturn(
        end_to_end_id=name,
        return_id=f"D{OUTSIDE_ISPB}202607011600{number:011}",
        amount_cents=amount_cents,
        settled_at=shop.live.clock.real_now(),
    )
    returns_of(shop).listed.append(returned)
    shop.there.balance_cents += amount_cents
    return returned


async def follow(shop: Shop) -> None:
    shop.live.clock.advance(seconds=EVERY.total_seconds() + 1)
    await follow_sent_returns(shop.at, shop.opened)


async def list_returned(shop: Shop) -> list[tuple[Any, ...]]:
    rows = await shop.live.fetch(
        "select holder_id, amount_cents, status from refund where flow = 'IN' order by amount_cents"
    )
    return [tuple(row) for row in rows]


async def test_what_a_payee_gives_back_is_recorded_once_however_often_it_is_listed(shop: Shop) -> None:
    sent = await send(shop)
    for number, cents in ((1, 700), (2, 1300)):
        give_back(shop, sent.network_id or "", cents, number)
    for _ in range(3):
        await follow(shop)
    holder_id = shop.house.holder_id
    assert await list_returned(shop) == [(holder_id, 700, "RETURNED"), (holder_id, 1300, "RETURNED")]
    assert await read_funds(shop.live, shop.house) == (2000, 0)
    await check_books(shop.live)
    # What is listed with another amount, or beyond the whole, is for a person.
    returns_of(shop).listed[0] = structs.replace(returns_of(shop).listed[0], amount_cents=600)
    give_back(shop, sent.network_id or "", 1, 3)
    await follow(shop)
    assert await read_funds(shop.live, shop.house) == (2000, 0)
    assert set(await kept_usecases.count_open(shop.context.pool)) == {"changed_repeat", "cannot_be_refused"}


async def test_they_are_read_for_a_hundred_days_only_where_something_was_sent(shop: Shop) -> None:
    await shop.read()
    await follow(shop)
    assert returns_of(shop).asked == []
    await send(shop)
    await follow(shop)
    await follow_sent_returns(shop.at, shop.opened)
    (span,) = returns_of(shop).asked
    assert span[1] - span[0] == timedelta(days=100)
    await follow_sent_returns(shop.at, shop.opened, is_told=True)
    assert len(returns_of(shop).asked) == 2


async def test_the_return_of_a_pix_that_a_person_sent_there_goes_to_the_house(shop: Shop) -> None:
    await send(shop)
    give_back(shop, f"E{OUTSIDE_ISPB}202607011500{7:011}", 250)
    for _ in range(2):
        await follow(shop)
    rows = await shop.live.fetch("select kind, direction, amount_cents from movement")
    assert [tuple(row) for row in rows] == [("reversal", "IN", 250)]
    assert await read_funds(shop.live, shop.house) == (250, 0)
    await check_books(shop.live)


async def test_while_an_order_has_no_name_there_nothing_is_taken_for_another_ones(shop: Shop) -> None:
    await send(shop)
    shop.there.send_status = "under_way"
    shop.there.tells_codes = True
    await shop.receive(100)
    await shop.send(100)
    await shop.move_orders()
    give_back(shop, f"E{OUTSIDE_ISPB}202607011500{8:011}", 50)
    await follow(shop)
    assert await shop.live.fetch("select from movement") == []


async def test_a_sent_pix_is_asked_about_by_its_name_with_what_was_given_back(shop: Shop) -> None:
    sent = await send(shop)
    name = sent.network_id or ""
    returned = give_back(shop, name, 700)
    (there,) = shop.there.sent.values()
    shop.there.sent[there.name] = structs.replace(there, returns=[returned])
    for asked in (name, sent.end_to_end_id):
        says = await inquiry.ask(as_operator(shop.context), shop.at, shop.opened, asked)
        assert says.sent is not None
        assert says.order is not None
        assert (says.is_unknown, says.lists_returns, says.sent.status) == (False, True, "settled")
        assert (says.order.id, says.order.returned_cents) == (sent.id, 700)
    assert await read_funds(shop.live, shop.house) == (700, 0)
    shop.there.sent.clear()
    says = await inquiry.ask(as_operator(shop.context), shop.at, shop.opened, name)
    assert (says.is_unknown, says.order is not None) == (True, True)


async def tell(shop: Shop, **changes: Any) -> None:
    """The institution's statement has a line of it, two days ago."""
    at = shop.live.clock.now()
    item = InstitutionItem(item_id="L1", day=to_day(at), settled_at=at, direction="IN", amount_cents=700, kind="refund")
    await record_listed(shop.at, shop.account, [structs.replace(item, **changes)])
    await note_listed(shop.at, shop.account, (to_day(at), to_day(at)))
    await settle_items(shop.at, shop.account)


async def look(shop: Shop) -> list[ShownCase]:
    await case_usecases.look_for_cases(shop.live.context)
    return await case_usecases.list_cases(shop.live.context, kind="day")


async def record(shop: Shop, case_id: int, returns: str | None = None) -> None:
    wanted = WantedAdjustment(case_id=case_id, kind="found", returns=returns, line="L1")
    proposal = await propose_adjustment(as_operator(shop.live.context, "ana"), wanted)
    with pytest.raises(errors.Forbidden):
        await confirm_proposal(as_operator(shop.live.context, "ana"), shop.live.context, "loja", "adjust", None)
    code = name_proposal(proposal)
    await confirm_proposal(as_operator(shop.live.context, "bia"), shop.live.context, "loja", "adjust", code)


@pytest.mark.parametrize("is_named", [True, False])
async def test_two_operators_record_a_line_that_no_list_has(shop: Shop, *, is_named: bool) -> None:
    sent = await send(shop)
    # Of the day on which the books began a line is in the opening balance, or not.
    shop.live.clock.advance(days=1)
    named = {"end_to_end_id": sent.network_id} if is_named else {"return_id": f"D{OUTSIDE_ISPB}202607021600{9:011}"}
    await tell(shop, **named)
    assert await look(shop) == [], "a reading may still tell it"
    shop.live.clock.advance(days=2)
    (shown,) = await look(shop)
    assert (shown.case.amount_cents, "`case adjust`" in shown.case.said) == (700, True)
    if not is_named:
        with pytest.raises(errors.BadRequest, match="returns: the line names no Pix"):
            await record(shop, shown.case.id)
    with pytest.raises(errors.BadRequest, match="returns: no transfer"):
        await record(shop, shown.case.id, "E" + "0" * 31)
    await record(shop, shown.case.id, None if is_named else sent.network_id)
    assert await list_returned(shop) == [(shop.house.holder_id, 700, "RETURNED")]
    assert await read_funds(shop.live, shop.house) == (700, 0)
    assert await look(shop) == []
    assert await shop.live.fetchval("select joined_kind from institution_item") == "refund"
    with pytest.raises(errors.BadRequest, match="whose case is open"):
        await record(shop, shown.case.id)
    await check_books(shop.live)


async def test_a_line_gives_back_no_more_than_what_was_sent(shop: Shop) -> None:
    sent = await send(shop, 600)
    shop.live.clock.advance(days=1)
    await tell(shop, end_to_end_id=sent.network_id)
    shop.live.clock.advance(days=2)
    (shown,) = await look(shop)
    with pytest.raises(errors.BadRequest, match="returns: 600 cents of the transfer were not given back"):
        await record(shop, shown.case.id)
