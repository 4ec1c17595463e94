"""Transfers leave over an account at an institution once, even if it refuses by texts and people approve there."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from pixconnect.features.institutions.rail import BELIEVED_AFTER, InstitutionRail
from pixconnect.features.institutions.rules.institution import CertainRefusal, InstitutionTraits, NotSent
from pixconnect.features.institutions.rules.rail_memory import OutgoingPix, RailStep
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service.open_accounts import at_account
from pixconnect.kernel.flows.handover import RETRY_AFTER, ask_about_handed_orders, give_up_unsent, process_due_orders
from pixconnect.kernel.rules.order import FirstIds
from pixconnect.kernel.rules.rail import Taken
from pixconnect.kernel.rules.transfer import Transfer
from support.account_shop import Shop, open_shop, read_again
from support.books import check_books
from support.fake_institution import LOST_AFTER, LOST_BEFORE, REFUSED_AND_DONE, REFUSED_BY_TEXT, FakeInstitution
from support.operators import as_operator
from support.service import Service, no_fence, read_funds

TURNED_AWAY = NotSent(reason="429")
REFUSED = CertainRefusal(code="chave_favorecido_nao_encontrada", reason="there is no such key", reject_code="AC03")
ASKED_ONLY = InstitutionTraits(sends=("KEY", "MANUAL"))
REPEATED = structs.replace(ASKED_ONLY, resend_for=timedelta(hours=12))


@pytest.fixture
def there(live: Service) -> FakeInstitution:
    """A second call proves nothing."""
    return FakeInstitution(live.clock, ASKED_ONLY)


async def begin(shop: Shop, amount_cents: int = 1000, external_id: str | None = None) -> Transfer:
    await shop.allow_sending()
    await shop.receive(amount_cents)
    return await send(shop, amount_cents, external_id)


async def send(shop: Shop, amount_cents: int = 1000, external_id: str | None = None) -> Transfer:
    return await shop.send(amount_cents, external_id=external_id)


async def read_state(shop: Shop, sent: Transfer) -> str:
    (row,) = await shop.live.fetch(f"select state from rail_step where order_name = '{sent.end_to_end_id}'")
    return row["state"]


async def test_a_transfer_leaves_under_a_name_of_ours_and_has_the_networks_from_then_on(shop: Shop) -> None:
    sent = await begin(shop, 400)
    assert await read_funds(shop.live, shop.house) == (0, 400)
    await shop.move_orders()
    settled = await read_again(shop, sent)
    ((name, listed),) = shop.there.sent.items()
    assert (settled.status, settled.shown_id) == ("CONFIRMED", listed.end_to_end_id)
    assert (name.isalnum(), listed.payee) == (True, "joana@pix.example")
    assert (await read_funds(shop.live, shop.house), shop.there.paid_cents) == ((0, 0), 400)
    await check_books(shop.live)


async def test_one_is_under_way_at_a_time_until_it_is_silent_for_long(shop: Shop) -> None:
    shop.there.send_status = "under_way"
    first = await begin(shop, 400)
    await shop.receive(1000)
    second = await send(shop, 300)
    for _ in range(3):
        await shop.move_orders()
        shop.live.clock.advance(seconds=3)
    assert [len(shop.there.sent), await read_state(shop, second)] == [1, "minted"]
    await shop.move_orders(seconds=25)
    assert len(shop.there.sent) == 2
    shop.there.end_sent("refused")
    await shop.move_orders(seconds=60)
    assert {(await read_again(shop, one)).status for one in (first, second)} == {"ERROR"}
    assert (await read_funds(shop.live, shop.house), shop.there.paid_cents) == ((1400, 0), 0)
    await check_books(shop.live)


async def test_what_a_dead_worker_had_marked_does_not_miss_its_turn(shop: Shop) -> None:
    shop.there.send_status = "under_way"
    await begin(shop, 400)
    await shop.move_orders()
    await shop.receive(1000)
    second = await send(shop, 300)
    await _die(shop, second, "marked")
    for _ in range(20):
        await shop.move_orders(seconds=1)
    assert [len(shop.there.sent), await read_state(shop, second)] == [1, "minted"]
    (order,) = await shop.live.fetch(f"select due_at from open_order where name = '{second.end_to_end_id}'")
    assert order["due_at"] <= shop.live.clock.now() + RETRY_AFTER
    await shop.move_orders(seconds=15)
    assert len(shop.there.sent) == 2
    # Its end is asked for soon, however often it had to wait.
    shop.there.end_sent("settled")
    await shop.move_orders(seconds=5)
    assert (await read_again(shop, second)).status == "CONFIRMED"


async def test_what_is_there_under_our_name_is_not_given_up_when_nobody_there_knows_it_any_more(shop: Shop) -> None:
    shop.there.send_status = "under_way"
    sent = await begin(shop, external_id="t1")
    await shop.move_orders()
    # The database forgets the call.
    await shop.live.execute_as_owner("delete from rail_step")
    await shop.move_orders(seconds=61)
    assert await read_state(shop, sent) == "asked"
    shop.there.sent.clear()
    for _ in range(4):
        shop.live.clock.advance(hours=13)
        await shop.move_orders()
    assert (await read_again(shop, sent)).status == "PROCESSING", "a person has to look"


async def test_where_no_source_promises_it_nothing_is_sent_again_though_nobody_there_knows_it(shop: Shop) -> None:
    shop.there.send_answers = [LOST_BEFORE]
    sent = await begin(shop)
    for _ in range(8):
        await shop.move_orders()
        shop.live.clock.advance(hours=3)
    assert (await read_again(shop, sent)).status == "PROCESSING", "a person has to look"
    assert len(shop.there.calls) == 1


async def test_where_a_source_promises_it_a_call_is_made_again_under_the_same_name(live: Service) -> None:
    there = FakeInstitution(live.clock, REPEATED)
    shop = await open_shop(live, there)
    there.send_answers = [LOST_BEFORE, TURNED_AWAY, REFUSED, LOST_AFTER]
    sent = await begin(shop)
    for _ in range(8):
        await shop.move_orders()
        shop.live.clock.advance(seconds=60)
    assert (await read_again(shop, sent)).status == "CONFIRMED"
    assert (there.paid_cents, len(set(there.calls))) == (1000, 1)
    await check_books(live)


async def test_a_certain_refusal_of_the_first_call_ends_it_with_the_schemes_reason(shop: Shop) -> None:
    shop.there.send_answers = [REFUSED]
    sent = await begin(shop)
    await shop.move_orders()
    failed = await read_again(shop, sent)
    assert (failed.status, failed.outcome_code, failed.outcome_reason) == ("ERROR", "AC03", REFUSED.reason)
    assert await read_state(shop, sent) == "closed"
    assert await read_funds(shop.live, shop.house) == (1000, 0)


async def test_a_certain_refusal_that_could_not_be_asked_about_is_believed_a_minute_later(live: Service) -> None:
    there = FakeInstitution(live.clock, REPEATED)
    shop = await open_shop(live, there)
    there.send_answers = [REFUSED] * 5
    sent = await begin(shop)
    there.is_reachable = False
    await shop.move_orders()
    there.is_reachable = True
    for _ in range(2):
        assert (await read_again(shop, sent)).status == "PROCESSING"
        live.clock.advance(seconds=30)
        await shop.move_orders()
    failed = await read_again(shop, sent)
    assert (failed.status, failed.outcome_reason) == ("ERROR", REFUSED.reason)
    assert (len(there.calls), await read_funds(live, shop.house)) == (1, (1000, 0))


@pytest.mark.parametrize("is_reachable", [True, False])
async def test_a_refusal_of_what_was_sent_before_a_restore_is_none(live: Service, *, is_reachable: bool) -> None:
    there = FakeInstitution(live.clock, REPEATED)
    shop = await open_shop(live, there)
    sent = await begin(shop, external_id="t1")
    await shop.move_orders()
    # The database forgets the call, and its end.
    again = await begin(shop)
    there.send_answers = [REFUSED]
    there.is_reachable = is_reachable
    step = (await shop.memory.open([again.end_to_end_id]))[again.end_to_end_id]
    ((_, listed),) = there.sent.items()
    there.sent[step.name_there or ""] = structs.replace(listed, end_to_end_id=f"E{'7' * 31}")
    await shop.move_orders()
    assert (await read_again(shop, again)).status == ("CONFIRMED" if is_reachable else "PROCESSING")
    there.is_reachable = True
    live.clock.advance(seconds=60)
    await shop.move_orders()
    assert (await read_again(shop, again)).status == (await read_again(shop, sent)).status == "CONFIRMED"
    assert there.paid_cents == 1000, "nothing was paid under that name again"


async def test_the_same_request_has_the_same_name_there_whatever_was_forgotten_here(shop: Shop) -> None:
    sent = await begin(shop, external_id="t1")
    before = (await shop.memory.open([sent.end_to_end_id]))[sent.end_to_end_id]
    await shop.live.execute_as_owner("delete from rail_step")
    after = (await shop.memory.open([sent.end_to_end_id]))[sent.end_to_end_id]
    assert (after.name_there, after.payee) == (before.name_there, "joana@pix.example")


@pytest.mark.parametrize("changes", [dict(amount_cents=999), dict(payee="other@pix.example")])
async def test_other_contents_under_our_name_end_nothing(shop: Shop, changes: dict[str, object]) -> None:
    sent = await begin(shop)
    shop.there.send_answers = [LOST_AFTER]
    await shop.move_orders()
    ((name, listed),) = shop.there.sent.items()
    shop.there.sent[name] = structs.replace(listed, **changes)
    for _ in range(3):
        shop.live.clock.advance(hours=13)
        await shop.move_orders()
    assert (await read_again(shop, sent)).status == "PROCESSING"
    assert await shop.at.rail.query([sent.end_to_end_id]) == [Taken()]
    assert (await read_funds(shop.live, shop.house), shop.there.paid_cents) == ((0, 1000), 1000)


async def test_what_was_open_at_a_loss_is_asked_about_and_never_sent(live: Service) -> None:
    there = FakeInstitution(live.clock, REPEATED)
    shop = await open_shop(live, there)
    sent = await begin(shop)
    await live.execute_as_owner(
        "insert into database_loss (reason, system_identifier, orders_count) values ('another timeline', 1, 0)"
    )
    step = (await shop.memory.open([sent.end_to_end_id]))[sent.end_to_end_id]
    assert (step.state, step.only_asked) == ("calling", True)
    await live.execute_as_owner("update institution_account set lost_at = null, state = 'active', paused_because = null")
    for _ in range(5):
        await shop.move_orders()
        live.clock.advance(hours=3)
    assert (there.calls, (await read_again(shop, sent)).status) == ([], "PROCESSING")


async def test_an_order_that_was_too_late_at_a_start_of_the_server_fails_half_a_day_later(live: Service) -> None:
    shop = await open_shop(live, FakeInstitution(live.clock, REPEATED))
    sent = await begin(shop)
    shop.context.server.first_ids = FirstIds(transfer_id=9000000000000000)
    for hours in (0.1, 11.8):
        live.clock.advance(hours=hours)
        await shop.move_orders()
        assert (await read_again(shop, sent)).status == "PROCESSING"
    live.clock.advance(hours=0.2)
    await shop.move_orders()
    ended = await read_again(shop, sent)
    assert (ended.status, ended.outcome_code, shop.there.calls) == ("ERROR", "NEVER_TAKEN", [])
    assert await read_funds(live, shop.house) == (1000, 0)
    await check_books(live)


async def test_a_paused_account_sends_nothing_and_what_never_left_is_given_up(live: Service) -> None:
    live.clock.stand_still()
    shop = await open_shop(live, FakeInstitution(live.clock, ASKED_ONLY))
    sent = await begin(shop)
    await account_usecases.set_state(as_operator(shop.context), "loja", "paused")
    live.clock.advance(seconds=61)
    await give_up_unsent(shop.at, shop.account.id, live.clock.now(), 16)
    assert (await read_again(shop, sent)).status == "CANCELLED"
    assert (shop.there.calls, await read_funds(live, shop.house)) == ([], (1000, 0))
    await check_books(live)


@pytest.mark.parametrize("is_lost", [True, False])
async def test_an_order_of_a_paused_account_is_asked_about_only(live: Service, *, is_lost: bool) -> None:
    shop = await open_shop(live, FakeInstitution(live.clock, REPEATED))
    shop.there.send_answers = [LOST_BEFORE if is_lost else LOST_AFTER]
    sent = await begin(shop)
    await shop.move_orders()
    await account_usecases.set_state(as_operator(shop.context), "loja", "paused")
    for _ in range(4):
        live.clock.advance(seconds=60)
        await ask_about_handed_orders(shop.at, no_fence, shop.account.id, live.clock.now(), 16)
    assert (await read_again(shop, sent)).status == ("PROCESSING" if is_lost else "CONFIRMED")
    assert len(shop.there.calls) == 1
    await check_books(live)


class StoppedMemory:
    """As a worker that is suspended after noting its call."""

    def __init__(self, shop: Shop, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self._memory = shop.memory
        self._meanwhile = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)

    async def take(self, before: RailStep, after: RailStep) -> bool:
        is_taken = await self._memory.take(before, after)
        if after.state == "calling":
            await self._meanwhile()
        return is_taken


@pytest.mark.parametrize(("seconds", "calls_count"), [(10, 1), (31, 0)])
async def test_what_is_noted_leaves_soon_or_not_at_all(shop: Shop, seconds: int, calls_count: int) -> None:
    clock = shop.live.clock
    clock.stand_still()
    sent = await begin(shop)

    async def pass_by() -> None:
        clock.advance(seconds=seconds)

    await _move_stopped(shop, pass_by)
    assert len(shop.there.calls) == calls_count
    assert await read_state(shop, sent) == ("closed" if calls_count else "minted")
    clock.advance(seconds=2)
    await shop.move_orders()
    assert ((await read_again(shop, sent)).status, len(shop.there.calls)) == ("CONFIRMED", 1)


async def test_who_was_stopped_before_a_call_makes_none_after_another_worker_has_asked(shop: Shop) -> None:
    clock = shop.live.clock
    clock.stand_still()
    sent = await begin(shop)

    async def be_replaced() -> None:
        clock.advance(hours=1)
        await shop.move_orders()

    await _move_stopped(shop, be_replaced)
    assert (shop.there.calls, await read_state(shop, sent)) == ([], "asked")
    assert (await read_again(shop, sent)).status == "PROCESSING", "nobody promises that it was not called"


async def _move_stopped(shop: Shop, meanwhile: Callable[[], Awaitable[object]]) -> None:
    memory: Any = StoppedMemory(shop, meanwhile)
    rail = InstitutionRail(shop.there, memory, shop.live.clock)
    at = at_account(shop.context, shop.account, rail)
    await process_due_orders(at, no_fence, shop.account.id, shop.live.clock.now(), 16)


@pytest.mark.parametrize(
    "dies", ["calling", *(pytest.param(step, marks=pytest.mark.long) for step in ("marked", "named", "asked", "never"))]
)
async def test_whatever_is_lost_and_whenever_the_worker_dies_it_is_paid_once_at_most(live: Service, dies: str) -> None:
    there = FakeInstitution(live.clock)
    shop = await open_shop(live, there)
    for traits in (REPEATED, ASKED_ONLY):
        there.traits = traits
        for answer in (LOST_BEFORE, LOST_AFTER, TURNED_AWAY, REFUSED, None):
            there.send_answers = [] if answer is None else [answer]
            before_cents = there.paid_cents
            sent = await begin(shop)
            await _die(shop, sent, dies)
            for _ in range(6):
                live.clock.advance(seconds=61)
                await shop.move_orders()
            ended = await read_again(shop, sent)
            # Our answer always agrees with the institution.
            assert there.paid_cents - before_cents == (1000 if ended.status == "CONFIRMED" else 0), (traits, answer)
            assert ended.status != "PROCESSING" or traits is ASKED_ONLY
    await check_books(live)


async def die(shop: Shop, name: str, dies: str, call: Callable[[RailStep], Awaitable[object]]) -> None:
    """Leave an order as a worker does that is killed at this point."""
    if dies == "never":
        await shop.move_orders()
        return
    now = shop.live.clock.now()
    marked = f"handed_at = '{now}', due_at = '{now + timedelta(seconds=2)}'"
    await shop.live.execute_as_owner(f"update open_order set {marked} where name = '{name}'")
    if dies == "marked":
        return
    step = (await shop.memory.open([name]))[name]
    if dies == "named":
        return
    # Its clock was ahead.
    calling = structs.replace(step, state="calling", called_at=now + timedelta(minutes=7))
    assert await shop.memory.take(step, calling)
    await call(calling)
    if dies == "asked":
        await shop.memory.take(calling, structs.replace(calling, state="asked", may_be_done=True))


async def _die(shop: Shop, sent: Transfer, dies: str) -> None:
    async def send(step: RailStep) -> None:
        name, payee = step.name_there or "", sent.counterparty
        await shop.there.send(
            OutgoingPix(name=name, amount_cents=sent.amount_cents, payer_key=None, payee=payee, is_by_key=True)
        )

    await die(shop, sent.end_to_end_id, dies, send)


TRAITS = InstitutionTraits(sends=("KEY", "MANUAL"), resend_for=timedelta(hours=12))


@pytest.fixture
async def by_text(live: Service) -> Shop:
    live.clock.stand_still()
    return await open_shop(live, FakeInstitution(live.clock, TRAITS))


async def work(shop: Shop, span: timedelta) -> None:
    until = shop.live.clock.now() + span
    while shop.live.clock.now() < until:
        await shop.move_orders()
        shop.live.clock.advance(seconds=5)


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
    # They are sent at once, and either may be the refused one.
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
    """The first may be done, and the text may be about that."""
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
    # From here on the institution has the order, even if a query does not find it.
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
