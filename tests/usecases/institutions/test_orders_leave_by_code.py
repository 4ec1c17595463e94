"""Transfers over an account whose institution knows them by codes of its own, which the answers alone tell."""

from datetime import timedelta

import pytest
from msgspec import structs

from pixconnect.domain.institutions.institution import CertainRefusal, InstitutionTraits, NotSent
from pixconnect.domain.money.transfer import Transfer
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.institutions import account as account_usecases
from pixconnect.usecases.money import transfer as transfer_usecases
from pixconnect.usecases.money.handover import move_due_there
from support.account_shop import Shop, open_shop
from support.books import check_books
from support.fake_institution import LOST_AFTER, LOST_BEFORE, FakeInstitution
from support.operators import as_operator
from support.service import Service, no_fence, read_funds

TRAITS = InstitutionTraits(sends=("KEY", "MANUAL"), resend_for=timedelta(seconds=60), resends_after_restart=False)


@pytest.fixture
async def by_code(live: Service) -> Shop:
    there = FakeInstitution(live.clock, TRAITS)
    there.tells_codes = True
    return await open_shop(live, there)


async def begin(shop: Shop, external_id: str | None = None) -> Transfer:
    await shop.allow_sending()
    await shop.receive(1000)
    return await shop.send(1000, external_id=external_id)


async def work(at: Context, shop: Shop, times: int = 6, seconds: int = 5) -> None:
    """What one process does, each time a few seconds later."""
    for _ in range(times):
        await move_due_there(at, no_fence, shop.account.id, shop.live.clock.now(), 16)
        shop.live.clock.advance(seconds=seconds)


async def read_again(shop: Shop, sent: Transfer) -> Transfer:
    return (await transfer_usecases.read_transfer_by_id(shop.context, shop.house, sent.id)).transfer


async def read_code(shop: Shop, sent: Transfer) -> str | None:
    (row,) = await shop.live.fetch(f"select code_there from rail_step where order_name = '{sent.end_to_end_id}'")
    return row["code_there"]


async def test_its_code_is_remembered_and_asked_about(by_code: Shop) -> None:
    there, sent = by_code.there, await begin(by_code)
    await work(by_code.at, by_code)
    ended = await read_again(by_code, sent)
    ((_, listed),) = there.sent.items()
    assert (ended.status, ended.shown_id) == ("CONFIRMED", listed.end_to_end_id)
    assert (await read_code(by_code, sent), set(there.asked)) == (listed.code, {listed.code})
    assert there.paid_cents == 1000
    await check_books(by_code.live)


async def test_what_waits_for_its_turn_is_looked_for_in_no_list(by_code: Shop) -> None:
    by_code.there.send_status = "under_way"
    first = await begin(by_code)
    at = by_code.at
    await work(at, by_code, times=1, seconds=1)
    second = await begin(by_code)
    await work(at, by_code, times=10, seconds=1)
    assert (len(by_code.there.calls), None in by_code.there.asked) == (1, False)
    by_code.there.end_sent("settled")
    await work(at, by_code, times=4, seconds=20)
    by_code.there.end_sent("settled")
    await work(at, by_code, times=4, seconds=20)
    assert {(await read_again(by_code, one)).status for one in (first, second)} == {"CONFIRMED"}
    assert by_code.there.paid_cents == 2000


@pytest.mark.parametrize("answers", [[LOST_BEFORE], [LOST_AFTER], [LOST_AFTER, NotSent(reason="429")]])
async def test_the_process_that_called_asks_by_the_same_call_again(by_code: Shop, answers: list[NotSent]) -> None:
    there = by_code.there
    there.is_listed = False
    there.send_answers = [*answers]
    sent = await begin(by_code)
    await work(by_code.at, by_code, times=12)
    assert (await read_again(by_code, sent)).status == "CONFIRMED"
    assert (there.paid_cents, len(there.calls), len(set(there.calls))) == (1000, len(answers) + 1, 1)
    assert None not in there.asked, "a list would tell it later"


async def test_a_certain_refusal_ends_it_though_no_list_can_be_read(by_code: Shop) -> None:
    there = by_code.there
    there.send_answers = [CertainRefusal(code="", reason="there is no such key", reject_code="CH16")]
    sent = await begin(by_code)
    there.is_reachable = False
    await work(by_code.at, by_code, times=1)
    ended = await read_again(by_code, sent)
    assert (ended.status, ended.outcome_code, len(there.calls)) == ("ERROR", "CH16", 1)
    assert await read_funds(by_code.live, by_code.house) == (1000, 0)


async def test_a_clock_that_is_set_back_makes_no_call_young_again(by_code: Shop) -> None:
    there, clock = by_code.there, by_code.live.clock
    clock.stand_still()
    there.send_answers = [LOST_AFTER]
    there.forgets_names = True
    sent, at = await begin(by_code), by_code.at
    await work(at, by_code, times=1, seconds=61)
    clock.real -= timedelta(seconds=55)
    await work(at, by_code)
    assert (there.paid_cents, len(there.calls)) == (1000, 1)
    assert (await read_again(by_code, sent)).status == "CONFIRMED"


async def test_what_is_called_again_leaves_within_the_minute_or_not_at_all(by_code: Shop) -> None:
    there, clock = by_code.there, by_code.live.clock
    clock.stand_still()
    there.send_answers = [LOST_AFTER]
    sent, at, began_s = await begin(by_code), by_code.at, clock.monotonic_s()
    there.is_listed = False
    await work(at, by_code, seconds=20)
    assert (await read_again(by_code, sent)).status == "CONFIRMED"
    assert there.not_after == [None, began_s + 60]


async def test_after_a_minute_it_is_not_called_again(by_code: Shop) -> None:
    there = by_code.there
    there.send_answers = [LOST_BEFORE]
    sent, at = await begin(by_code), by_code.at
    await work(at, by_code, times=1, seconds=61)
    await work(at, by_code, times=8, seconds=400)
    assert (len(there.calls), (await read_again(by_code, sent)).status) == (1, "PROCESSING")


@pytest.mark.parametrize("lost", [LOST_BEFORE, LOST_AFTER])
async def test_another_process_calls_nothing_and_finds_it_listed(by_code: Shop, lost: NotSent | object) -> None:
    there = by_code.there
    there.is_listed = False
    there.send_answers = [LOST_BEFORE if lost is LOST_BEFORE else LOST_AFTER]
    sent = await begin(by_code)
    await work(by_code.at, by_code, times=1)
    await work(by_code.at, by_code, times=4)
    assert (len(there.calls), (await read_again(by_code, sent)).status) == (1, "PROCESSING")
    there.is_listed = True
    await work(by_code.at, by_code, times=4, seconds=400)
    assert (await read_again(by_code, sent)).status == ("PROCESSING" if lost is LOST_BEFORE else "CONFIRMED")
    assert len(there.calls) == 1
    await check_books(by_code.live)


async def test_a_restored_database_finds_a_forgotten_order_before_it_sends(by_code: Shop) -> None:
    there = by_code.there
    sent = await begin(by_code, "t1")
    await work(by_code.at, by_code)
    await _note_loss(by_code)
    again = await begin(by_code)
    # The request comes again under the name that it had, to a database that knows nothing of the first time.
    step = (await by_code.memory.open([again.end_to_end_id]))[again.end_to_end_id]
    ((_, listed),) = there.sent.items()
    there.sent[step.name_there or ""] = structs.replace(listed, end_to_end_id=f"E{'7' * 31}")
    there.forgets_names = True
    calls_count = len(there.calls)
    await work(by_code.at, by_code)
    assert (await read_again(by_code, again)).status == (await read_again(by_code, sent)).status == "CONFIRMED"
    assert (len(there.calls), there.paid_cents) == (calls_count, 1000)


async def _note_loss(shop: Shop) -> None:
    """Nothing was open at it, and the account was recovered since."""
    await shop.live.execute_as_owner(
        "insert into database_loss (reason, system_identifier, orders_count) values ('another timeline', 1, 0); "
        "update institution_account set lost_at = null, state = 'active', paused_because = null"
    )


async def test_a_second_code_under_one_name_ends_nothing(by_code: Shop) -> None:
    there = by_code.there
    there.send_status = "under_way"
    sent = await begin(by_code)
    await work(by_code.at, by_code, times=2)
    there.end_sent("settled")
    ((name, listed),) = there.sent.items()
    there.sent[name] = structs.replace(listed, code="another")
    await work(by_code.at, by_code, times=3, seconds=400)
    assert (await read_again(by_code, sent)).status == "PROCESSING", "a person has to look"
    assert await read_code(by_code, sent) == listed.code


@pytest.mark.parametrize("decision", ["settled", "refused"])
async def test_an_order_that_needs_a_person_waits_for_days(by_code: Shop, decision: str) -> None:
    there = by_code.there
    there.send_status = "under_way"
    sent = await begin(by_code)
    await work(by_code.at, by_code, times=5, seconds=50_000)
    assert (await read_again(by_code, sent)).status == "PROCESSING"
    await account_usecases.set_state(as_operator(by_code.context), "loja", "paused")
    await account_usecases.set_state(as_operator(by_code.context), "loja", "active")
    assert await read_funds(by_code.live, by_code.house) == (0, 1000)
    there.end_sent("settled" if decision == "settled" else "refused")
    await work(by_code.at, by_code, times=2, seconds=400)
    is_paid = decision == "settled"
    assert (await read_again(by_code, sent)).status == ("CONFIRMED" if is_paid else "ERROR")
    assert await read_funds(by_code.live, by_code.house) == (0 if is_paid else 1000, 0)
    assert len(there.calls) == 1
    await check_books(by_code.live)
