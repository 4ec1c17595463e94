"""Transfers over an account whose institution refuses by texts, and at which people approve and remove what was sent."""

from datetime import timedelta

import pytest
from msgspec import structs

from pixconnect.adapters.rails.institution import BELIEVED_AFTER
from pixconnect.domain.institutions.institution import InstitutionTraits
from pixconnect.domain.money.transfer import Transfer
from pixconnect.usecases.money import transfer as transfer_usecases
from support.account_shop import Shop, open_shop
from support.books import check_books
from support.fake_institution import LOST_BEFORE, REFUSED_AND_DONE, REFUSED_BY_TEXT, FakeInstitution
from support.service import Service, read_funds

TRAITS = InstitutionTraits(sends=("KEY", "MANUAL"), resend_for=timedelta(hours=12))


@pytest.fixture
async def by_text(live: Service) -> Shop:
    live.clock.stand_still()
    return await open_shop(live, FakeInstitution(live.clock, TRAITS))


async def begin(shop: Shop) -> Transfer:
    await shop.allow_sending()
    await shop.receive(1000)
    return await shop.send(1000)


async def work(shop: Shop, span: timedelta) -> None:
    until = shop.live.clock.now() + span
    while shop.live.clock.now() < until:
        await shop.move_orders()
        shop.live.clock.advance(seconds=5)


async def read_again(shop: Shop, sent: Transfer) -> Transfer:
    return (await transfer_usecases.read_transfer_by_id(shop.context, shop.house, sent.id)).transfer


async def test_a_refusal_by_a_text_is_believed_a_minute_later_and_nothing_is_sent_again(by_text: Shop) -> None:
    there = by_text.there
    there.send_answers = [REFUSED_BY_TEXT]
    sent = await begin(by_text)
    await work(by_text, BELIEVED_AFTER - timedelta(seconds=10))
    assert (await read_again(by_text, sent)).status == "PROCESSING"
    await work(by_text, timedelta(minutes=20))
    ended = await read_again(by_text, sent)
    assert (ended.status, ended.outcome_code, ended.outcome_reason) == ("ERROR", "CH16", REFUSED_BY_TEXT.reason)
    assert (len(there.calls), await read_funds(by_text.live, by_text.house)) == (1, (1000, 0))
    await check_books(by_text.live)


async def test_what_was_refused_by_a_text_keeps_no_other_from_being_sent(by_text: Shop) -> None:
    there = by_text.there
    there.send_answers = [REFUSED_BY_TEXT]
    begun = [await begin(by_text), await begin(by_text)]
    await work(by_text, timedelta(seconds=15))
    # They are sent at once, and either may be the one that is refused.
    assert sorted([(await read_again(by_text, one)).status for one in begun]) == ["CONFIRMED", "PROCESSING"]


async def test_a_text_of_what_was_done_all_the_same_is_no_refusal(by_text: Shop) -> None:
    there = by_text.there
    there.send_answers = [REFUSED_AND_DONE]
    sent = await begin(by_text)
    await work(by_text, timedelta(minutes=2))
    assert ((await read_again(by_text, sent)).status, there.paid_cents, len(there.calls)) == ("CONFIRMED", 1000, 1)
    await check_books(by_text.live)


async def test_a_text_is_not_believed_while_nobody_there_can_be_asked(by_text: Shop) -> None:
    by_text.there.send_answers = [REFUSED_BY_TEXT]
    sent = await begin(by_text)
    await by_text.move_orders()
    by_text.there.is_reachable = False
    await work(by_text, timedelta(minutes=5))
    assert (await read_again(by_text, sent)).status == "PROCESSING"
    by_text.there.is_reachable = True
    await work(by_text, timedelta(minutes=10))
    assert (await read_again(by_text, sent)).status == "ERROR"


async def test_a_text_of_a_later_call_is_never_believed(by_text: Shop) -> None:
    """The first may be done, and the text be of that."""
    there = by_text.there
    there.send_answers = [LOST_BEFORE, *[REFUSED_BY_TEXT] * 100]
    sent = await begin(by_text)
    await work(by_text, timedelta(minutes=10))
    assert (await read_again(by_text, sent)).status == "PROCESSING"


async def test_a_text_is_not_believed_of_what_was_open_at_a_loss(by_text: Shop) -> None:
    by_text.there.send_answers = [REFUSED_BY_TEXT]
    sent = await begin(by_text)
    await by_text.move_orders()
    await by_text.live.execute_as_owner(
        "insert into database_loss (reason, system_identifier, orders_count) values ('another timeline', 1, 0); "
        "update institution_account set lost_at = null, state = 'active', paused_because = null"
    )
    await work(by_text, timedelta(minutes=10))
    assert ((await read_again(by_text, sent)).status, len(by_text.there.calls)) == ("PROCESSING", 1)


@pytest.mark.parametrize("end", ["settled", "refused", "gone"])
async def test_an_order_that_waits_there_is_called_once_and_ends_by_a_person(by_text: Shop, end: str) -> None:
    there = by_text.there
    there.send_status = "under_way"
    sent = await begin(by_text)
    await by_text.move_orders()
    ((name, listed),) = there.sent.items()
    # From here on it is there, whatever is found.
    there.sent[name] = structs.replace(listed, code="n1")
    await work(by_text, timedelta(minutes=2))
    del there.sent[name]
    await work(by_text, timedelta(minutes=10))
    assert (len(there.calls), (await read_again(by_text, sent)).status) == (1, "PROCESSING")
    status = "settled" if end == "settled" else "refused"
    amount_cents = None if end == "gone" else 1000
    now = by_text.live.clock.real_now()
    there.sent[name] = structs.replace(
        listed, code="n1", status=status, amount_cents=amount_cents, settled_at=now if end == "settled" else None
    )
    await work(by_text, timedelta(minutes=20))
    ended = await read_again(by_text, sent)
    assert (len(there.calls), ended.status) == (1, "CONFIRMED" if end == "settled" else "ERROR")
    assert await read_funds(by_text.live, by_text.house) == (0 if end == "settled" else 1000, 0)
