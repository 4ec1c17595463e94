"""Refunds leave over an account at an institution: once, even if calls fail, and within the allowance."""

import asyncpg
import pytest

from features.institutions.service.test_orders_leave import die
from pixconnect.features.allowances import service as allowance_usecases
from pixconnect.features.allowances.rules import WantedAllowance
from pixconnect.features.institutions.rules.institution import CertainRefusal, InstitutionTraits, NotSent
from pixconnect.features.institutions.rules.rail_memory import RailStep
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.tables import books as books_store
from pixconnect.features.institutions.tables import rail_step as step_store
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows.handover import give_up_unsent
from pixconnect.kernel.rules.refund import Refund
from pixconnect.platform.base import errors
from support.account_shop import Shop, open_shop
from support.books import check_books
from support.fake_institution import LOST_AFTER, LOST_BEFORE, FakeInstitution
from support.operators import as_operator
from support.proposals import confirm_waiting
from support.service import Service, read_funds

TURNED_AWAY = NotSent(reason="429")
REFUSED = CertainRefusal(code="PixDevolucaoInvalida", reason="the institution refuses it")


@pytest.fixture
def there(live: Service) -> FakeInstitution:
    """A second call proves nothing."""
    return FakeInstitution(live.clock, InstitutionTraits(repeats_refunds=False))


async def begin(shop: Shop, amount_cents: int = 1000, **changes: object) -> Refund:
    await shop.allow()
    pix = await shop.receive(1000)
    return await shop.give_back(pix, amount_cents, **changes)


async def read_again(shop: Shop, refund: Refund) -> Refund:
    return await refund_usecases.read_refund_by_id(shop.context, shop.house, refund.id)


async def read_state(shop: Shop, refund: Refund) -> str:
    return await shop.live.fetchval(f"select state from rail_step where order_name = '{refund.return_id}'")


async def test_a_part_of_what_came_in_goes_back_under_a_name_of_ours(shop: Shop) -> None:
    refund = await begin(shop, 400)
    assert refund.status == "PROCESSING"
    assert await read_funds(shop.live, shop.house) == (600, 400)
    await shop.move_orders()
    returned = await read_again(shop, refund)
    (((_, name), listed),) = shop.there.refunds.items()
    assert (returned.status, returned.network_id) == ("RETURNED", listed.return_id)
    assert name.isalnum()
    steps = await step_store.find_named(shop.live.context.pool, shop.account.id, [name, "theirs"])
    assert {there: step.order_name for there, step in steps.items()} == {name: refund.return_id}
    assert await read_funds(shop.live, shop.house) == (600, 0)
    await check_books(shop.live)
    # At rest the comparison reads the bank's balance.
    now = shop.live.clock.real_now()
    books = await books_store.read_books(shop.live.context.pool, shop.account.id, now, tells_fees_later=False)
    assert books.here_cents == 600


async def test_what_is_under_way_there_is_asked_about_until_it_ends(shop: Shop) -> None:
    shop.there.refund_status = "under_way"
    refund = await begin(shop)
    for _ in range(3):
        await shop.move_orders()
        assert (await read_again(shop, refund)).status == "PROCESSING"
        shop.live.clock.advance(seconds=60)
    shop.there.end_refunds("refused")
    await shop.move_orders()
    failed = await read_again(shop, refund)
    assert (failed.status, failed.outcome_code) == ("ERROR", "ED05")
    assert len([call for call in shop.there.calls if call.startswith("refund")]) == 1
    assert await read_funds(shop.live, shop.house) == (1000, 0)
    await check_books(shop.live)


async def test_a_lost_answer_is_asked_about_and_never_a_reason_to_call_again(shop: Shop) -> None:
    shop.there.refund_answers = [LOST_AFTER]
    refund = await begin(shop)
    await shop.move_orders()
    assert await read_state(shop, refund) == "asked"
    await shop.move_orders(seconds=60)
    assert (await read_again(shop, refund)).status == "RETURNED"
    assert shop.there.given_back_cents == 1000


async def test_where_no_source_promises_it_nothing_is_sent_again_though_nobody_there_knows_it(shop: Shop) -> None:
    shop.there.refund_answers = [LOST_BEFORE]
    refund = await begin(shop)
    for _ in range(8):
        await shop.move_orders()
        shop.live.clock.advance(hours=3)
    assert (await read_again(shop, refund)).status == "PROCESSING", "a person has to look"
    assert shop.there.calls == [f"refund {shop.there.calls[0].split()[1]}"]


async def test_where_a_source_promises_it_a_call_is_made_again_under_the_same_name(live: Service) -> None:
    there = FakeInstitution(live.clock, InstitutionTraits(repeats_refunds=True))
    shop = await open_shop(live, there)
    there.refund_answers = [LOST_BEFORE, TURNED_AWAY, REFUSED, LOST_AFTER]
    refund = await begin(shop)
    for _ in range(8):
        await shop.move_orders()
        shop.live.clock.advance(seconds=60)
    assert (await read_again(shop, refund)).status == "RETURNED"
    assert there.given_back_cents == 1000
    assert len(set(there.calls)) == 1
    await check_books(live)


async def test_a_call_that_was_turned_away_is_none_and_the_refund_is_given_up_in_time(shop: Shop) -> None:
    shop.there.refund_answers = [TURNED_AWAY] * 2
    refund = await begin(shop)
    await shop.move_orders()
    assert await read_state(shop, refund) == "minted"
    await shop.move_orders(seconds=5)
    await shop.move_orders(seconds=60)
    assert (await read_again(shop, refund)).status == "ERROR"
    assert (await read_funds(shop.live, shop.house), shop.there.given_back_cents) == ((1000, 0), 0)
    await check_books(shop.live)


async def test_a_certain_refusal_of_the_first_call_ends_it(shop: Shop) -> None:
    shop.there.refund_answers = [REFUSED]
    refund = await begin(shop)
    await shop.move_orders()
    failed = await read_again(shop, refund)
    assert (failed.status, failed.outcome_reason) == ("ERROR", REFUSED.reason)
    assert await read_state(shop, refund) == "closed"


@pytest.mark.parametrize("is_reachable", [True, False])
async def test_a_refusal_of_what_was_returned_before_a_restore_is_none(live: Service, *, is_reachable: bool) -> None:
    there = FakeInstitution(live.clock)
    shop = await open_shop(live, there)
    refund = await begin(shop)
    step = (await shop.memory.open([refund.return_id]))[refund.return_id]
    await there.refund(step.original_end_to_end_id or "", step.name_there or "", step.amount_cents)
    there.refund_answers = [REFUSED]
    there.is_reachable = is_reachable
    await shop.move_orders()
    assert (await read_again(shop, refund)).status == ("RETURNED" if is_reachable else "PROCESSING")
    there.is_reachable = True
    live.clock.advance(seconds=60)
    await shop.move_orders()
    assert (await read_again(shop, refund)).status == "RETURNED"
    assert (there.given_back_cents, await read_funds(live, shop.house)) == (1000, (0, 0))
    await check_books(live)


async def test_of_an_institution_that_is_silent_nothing_is_concluded(shop: Shop) -> None:
    shop.there.refund_answers = [LOST_BEFORE]
    refund = await begin(shop)
    await shop.move_orders()
    shop.there.is_reachable = False
    shop.live.clock.advance(days=2)
    await shop.move_orders()
    assert (await read_again(shop, refund)).status == "PROCESSING"


@pytest.mark.parametrize(
    "dies", ["calling", *(pytest.param(step, marks=pytest.mark.long) for step in ("marked", "named", "asked", "never"))]
)
async def test_whatever_is_lost_and_whenever_the_worker_dies_it_is_returned_once_at_most(live: Service, dies: str) -> None:
    there = FakeInstitution(live.clock)
    shop = await open_shop(live, there)

    async def ask(step: RailStep) -> None:
        await there.refund(step.original_end_to_end_id or "", step.name_there or "", step.amount_cents)

    for repeats in (True, False):
        there.traits = InstitutionTraits(repeats_refunds=repeats)
        for answer in (LOST_BEFORE, LOST_AFTER, TURNED_AWAY, REFUSED, None):
            there.refund_answers = [] if answer is None else [answer]
            before_cents = there.given_back_cents
            refund = await begin(shop)
            await die(shop, refund.return_id, dies, ask)
            for _ in range(6):
                live.clock.advance(seconds=61)
                await shop.move_orders()
            ended = await read_again(shop, refund)
            # Our answer always agrees with the institution.
            given_back_cents = there.given_back_cents - before_cents
            assert given_back_cents == (1000 if ended.status == "RETURNED" else 0), (repeats, answer)
            assert ended.status != "PROCESSING" or not repeats
    await check_books(live)


async def test_the_same_request_has_the_same_name_there_whatever_was_forgotten_here(shop: Shop) -> None:
    await shop.allow()
    pix = await shop.receive(1000)
    refund = await shop.give_back(pix, external_id="r1")
    before = (await shop.memory.open([refund.return_id]))[refund.return_id]
    await shop.live.execute_as_owner("delete from rail_step")
    after = (await shop.memory.open([refund.return_id]))[refund.return_id]
    assert after.name_there == before.name_there


async def test_nothing_leaves_unless_it_is_allowed_and_the_days_sum_counts_all_holders(shop: Shop) -> None:
    pix = await shop.receive(1000)
    with pytest.raises(errors.LimitExceeded, match="0 cents"):
        await shop.give_back(pix, 1)
    await shop.allow(700)
    first = await shop.give_back(pix, 500, external_id="r1")
    with pytest.raises(errors.LimitExceeded, match="200 cents"):
        await shop.give_back(pix, 300)
    assert (await shop.give_back(pix, 500, external_id="r1")).id == first.id, "a repetition is answered"
    await shop.give_back(pix, 200)
    await shop.allow(0)
    shop.live.clock.advance(days=1)
    with pytest.raises(errors.LimitExceeded):
        await shop.give_back(pix, 1)
    await shop.allow(700)
    await shop.give_back(pix, 300)
    await check_books(shop.live)


async def test_at_a_paused_account_nothing_is_accepted_and_what_never_left_is_given_up(live: Service) -> None:
    live.clock.stand_still()
    shop = await open_shop(live, FakeInstitution(live.clock))
    refund = await begin(shop, 400, external_id="r1")
    await account_usecases.set_state(as_operator(shop.context), "loja", "paused")
    live.clock.advance(seconds=2)
    pix = shop.there.received[0]
    with pytest.raises(errors.ServiceUnavailable, match="paused") as refused:
        await shop.give_back(pix, 100)
    assert refused.value.retry_after_s == 60
    assert (await shop.give_back(pix, 400, external_id="r1")).id == refund.id
    assert len(await live.fetch("select from refund")) == 1
    for seconds, status in ((1, "PROCESSING"), (60, "ERROR")):
        live.clock.advance(seconds=seconds)
        await give_up_unsent(shop.at, shop.account.id, live.clock.now(), 16)
        assert (await read_again(shop, refund)).status == status
    assert await read_funds(live, shop.house) == (1000, 0)
    await check_books(live)


async def test_a_raise_waits_for_an_hour_and_for_another_operator(shop: Shop) -> None:
    await shop.live.execute_as_owner("update institution_account set environment = 'production'")
    ana, rui = (as_operator(shop.live.context, name) for name in ("ana", "rui"))
    proposed = await allowance_usecases.allow(ana, "loja", WantedAllowance(refunds_day_cents=500))
    assert proposed is not None
    assert await read_allowed(shop) == 0
    with pytest.raises(errors.BadRequest, match="may be confirmed from"):
        await confirm_waiting(rui, shop.context, "loja")
    shop.live.clock.advance(hours=1)
    with pytest.raises(errors.Forbidden, match="another operator"):
        await confirm_waiting(ana, shop.context, "loja")
    raised = "update institution_allowance set refunds_day_cents = 500, allowed_by = 'rui'"
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="raised by one person"):
        await shop.live.execute_as_owner(raised)
    await confirm_waiting(rui, shop.context, "loja")
    assert await read_allowed(shop) == 500
    with pytest.raises(errors.NotFound, match="no proposal with the code"):
        await confirm_waiting(rui, shop.context, "loja")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="raised by one person"):
        await shop.live.execute_as_owner("update institution_allowance set refunds_day_cents = 501")
    assert await allowance_usecases.allow(ana, "loja", WantedAllowance(refunds_day_cents=100)) is None, "lowering acts at once"
    assert await read_allowed(shop) == 100
    verbs = [entry.verb for entry in await audit.list_entries(ana, count_max=3)]
    assert verbs == ["institution allow", "proposal confirm", "institution allow"]


async def read_allowed(shop: Shop) -> int:
    shown = await account_usecases.read_account(as_operator(shop.live.context), "loja")
    return shown.allowance.refunds_day_cents


@pytest.mark.parametrize("cents", [-1, 10**12])
async def test_a_sum_that_cannot_be_is_refused(shop: Shop, cents: int) -> None:
    with pytest.raises(errors.BadRequest, match="refunds"):
        await shop.allow(cents)


async def test_a_lowered_allowance_holds_refunds_that_were_not_called(shop: Shop) -> None:
    refund = await begin(shop, 400)
    await shop.allow(399)
    await shop.move_orders(seconds=3)
    assert shop.there.calls == []
    await shop.allow(400)
    await shop.move_orders(seconds=10)
    assert (await read_again(shop, refund)).status == "RETURNED"
    await shop.allow(1000)
    late = await shop.give_back(await shop.receive(300))
    await shop.allow(0)
    await shop.move_orders(seconds=3)
    await shop.move_orders(seconds=61)
    failed = await read_again(shop, late)
    assert (failed.status, "allowed up to 0 cents more today" in (failed.outcome_reason or "")) == ("ERROR", True)
    await check_books(shop.live)


async def test_a_lowered_allowance_leaves_called_refunds_alone(shop: Shop) -> None:
    shop.there.refund_answers = [LOST_AFTER]
    refund = await begin(shop, 400)
    await shop.move_orders()
    await shop.allow(0)
    await shop.move_orders(seconds=60)
    assert (await read_again(shop, refund)).status == "RETURNED"
