"""Ends of orders, and refunds over the rail, in any order; reservations are checked again when they leave."""

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import permutations
from typing import Any

import asyncpg
import pytest

from pixconnect.features.approvals.service import decide_transfer, list_waiting_transfers
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.before_order import find_holds
from pixconnect.kernel.flows.handover import HELD_AGAIN_AFTER
from pixconnect.kernel.flows.incoming import receive_credit, receive_return
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.flows.settlement import Ending, GivenUp, end_orders
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.block_report import BlockReport, BlockTerms
from pixconnect.kernel.rules.limit import Spent
from pixconnect.kernel.rules.rail import NotTaken, Rejected, ReturnReport, Settled
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import tally as tally_store
from pixconnect.platform.base import errors
from support.books import check_books
from support.operators import as_operator, execute
from support.postgres import Addresses
from support.records import OUTSIDE_ISPB, a_return
from support.service import STARTED_AT, Service, credit_report, open_holder, open_service, read_funds, send_out

SETTLED = Settled(settled_at=STARTED_AT)
REJECTED = Rejected(code="AC03", reason="no such account")


async def now(service: Service, caller: Caller, transfer: Transfer) -> Transfer:
    return (await transfer_usecases.read_transfer_by_id(service.context, caller, transfer.id)).transfer


async def end(service: Service, transfer: Transfer, *endings: Ending) -> None:
    await end_orders(service.context, [(transfer.end_to_end_id, ending) for ending in endings])


@pytest.mark.parametrize(
    ("ending", "status", "available_cents"),
    [(SETTLED, "CONFIRMED", 999_000), (REJECTED, "ERROR", 1_000_000), (GivenUp(), "CANCELLED", 1_000_000)],
)
async def test_an_ending_counts_once_however_often_it_is_said(
    service: Service, caller: Caller, database: Addresses, ending: Ending, status: str, available_cents: int
) -> None:
    transfer = await send_out(service, caller, 1000)
    service.clock.advance(seconds=60)
    async with open_service(database, clock=service.clock) as other:
        await asyncio.gather(*(end(one, transfer, ending, ending) for _ in range(10) for one in (service, other)))
    ended = await now(service, caller, transfer)
    assert ended.status == status
    assert await read_funds(service, caller) == (available_cents, 0)
    await check_books(service)


async def test_an_order_is_not_given_up_by_a_worker_whose_clock_is_ahead(service: Service, caller: Caller) -> None:
    transfer = await send_out(service, caller, 1000)
    service.clock.advance(seconds=59)
    await end(service, transfer, GivenUp())
    assert (await now(service, caller, transfer)).status == "PROCESSING"
    service.clock.advance(seconds=1)
    await end(service, transfer, GivenUp())
    assert (await now(service, caller, transfer)).status == "CANCELLED"


@pytest.mark.parametrize("endings", list(permutations([SETTLED, REJECTED, GivenUp()])))
async def test_the_first_word_stands(service: Service, caller: Caller, endings: tuple[Ending, ...]) -> None:
    transfers = [await send_out(service, caller, 1000) for _ in range(2)]
    service.clock.advance(seconds=60)
    for ending in endings:
        await end(service, transfers[0], ending)
    await end(service, transfers[1], *endings)
    expected = {Settled: "CONFIRMED", Rejected: "ERROR", GivenUp: "CANCELLED"}[type(endings[0])]
    assert [(await now(service, caller, transfer)).status for transfer in transfers] == [expected] * 2
    await check_books(service)


async def test_names_that_are_not_ours_are_passed_over(service: Service, caller: Caller) -> None:
    transfer = await send_out(service, caller, 1000)
    foreign = [(f"E{OUTSIDE_ISPB}202607011500abcdefghijk", SETTLED), ("D404", REJECTED), ("nonsense", SETTLED)]
    await end_orders(service.context, [*foreign, (transfer.end_to_end_id, SETTLED)])
    assert (await now(service, caller, transfer)).status == "CONFIRMED"


def given_back(service: Service, transfer: Transfer, **changes: Any) -> ReturnReport:
    return_id = f"D{OUTSIDE_ISPB}202607011500{service.context.entropy.token(11)}"
    return a_return(transfer.end_to_end_id, return_id=return_id, **(dict(reported_at=service.clock.now()) | changes))


async def code_of(service: Service, report: ReturnReport) -> str | None:
    answer = await receive_return(service.context, report)
    assert answer is not None
    assert answer.report_id == report.report_id
    return answer.refusal_code


async def test_returns_come_in_parts_and_in_the_end_the_transfer_is_returned(service: Service, caller: Caller) -> None:
    transfer = await send_out(service, caller, 1000)
    await end(service, transfer, SETTLED)
    first = given_back(service, transfer, amount_cents=400)
    assert await code_of(service, first) is None
    assert (await now(service, caller, transfer)).status == "CONFIRMED"
    assert await code_of(service, given_back(service, transfer, amount_cents=601)) == "AM09"
    assert await code_of(service, given_back(service, transfer, amount_cents=600)) is None
    assert await code_of(service, first) is None  # again, after all of it
    returned = await now(service, caller, transfer)
    assert (returned.status, returned.returned_cents) == ("RETURNED", 1000)
    assert await code_of(service, given_back(service, transfer, amount_cents=1)) == "AM09"
    assert await read_funds(service, caller) == (1_000_000, 0)
    await check_books(service)


async def test_a_return_that_comes_before_the_settlement_is_to_be_said_again(service: Service, caller: Caller) -> None:
    transfer = await send_out(service, caller, 1000)
    report = given_back(service, transfer)
    assert await receive_return(service.context, report) is None
    assert await service.context.pool.fetchval("select count(*) from refund") == 0
    await end(service, transfer, SETTLED)
    assert await code_of(service, report) is None
    assert (await now(service, caller, transfer)).status == "RETURNED"
    await end(service, transfer, SETTLED)  # the settlement, once more and late
    assert (await now(service, caller, transfer)).status == "RETURNED"
    await check_books(service)


async def test_a_return_of_what_never_settled_is_refused_and_recorded(service: Service, caller: Caller) -> None:
    transfer = await send_out(service, caller, 1000)
    await end(service, transfer, REJECTED)
    assert await code_of(service, given_back(service, transfer)) == "AM09"
    assert await service.context.pool.fetchval("select status from refund") == "ERROR"
    assert await read_funds(service, caller) == (1_000_000, 0)
    await check_books(service)


async def test_a_return_of_something_unknown_or_of_a_book_transfer_is_refused(service: Service, caller: Caller) -> None:
    await open_holder(service, account_number="2")
    unknown = await send_out(service, caller, 1000)
    report = given_back(service, unknown, original_end_to_end_id=f"E{OUTSIDE_ISPB}202607011500abcdefghijk")
    assert await code_of(service, report) == "AM09"
    party = await service.context.directory.find_account("0001", "2")
    assert party is not None
    book = await send_out(service, caller, 1000, credit_party=party.party)
    assert await code_of(service, given_back(service, book)) == "AM09"
    await check_books(service)


async def test_the_window_and_the_holders_flag_hold_for_returns_too(service: Service, caller: Caller) -> None:
    transfer = await send_out(service, caller, 1000)
    await end(service, transfer, SETTLED)
    service.clock.advance(days=90)
    assert await code_of(service, given_back(service, transfer, amount_cents=1)) is None
    service.clock.advance(seconds=1)
    assert await code_of(service, given_back(service, transfer, amount_cents=1)) == "DT05"
    fresh = await send_out(service, caller, 1000)
    await end(service, fresh, SETTLED)
    await service.set_holder(caller, may_deposit=False)
    assert await code_of(service, given_back(service, fresh)) == "AC06"
    await check_books(service)


async def test_returns_never_exceed_what_was_sent(service: Service, caller: Caller, database: Addresses) -> None:
    transfer = await send_out(service, caller, 1000)
    await end(service, transfer, SETTLED)
    reports = [given_back(service, transfer, amount_cents=30) for _ in range(50)]
    async with open_service(database, clock=service.clock) as other:
        codes = await asyncio.gather(*(code_of(one, report) for report in reports for one in (service, other)))
    assert codes.count(None) == 2 * 33
    assert await read_funds(service, caller) == (1_000_000 - 1000 + 33 * 30, 0)
    await check_books(service)


Step = Callable[[Service, Transfer, ReturnReport], Any]
STEPS: dict[str, Step] = {
    "settled": lambda service, transfer, _: end(service, transfer, SETTLED),
    "settled again": lambda service, transfer, _: end(service, transfer, SETTLED),
    "returned": lambda service, _, report: receive_return(service.context, report),
    "returned again": lambda service, _, report: receive_return(service.context, report),
}


@pytest.mark.long
async def test_any_order_of_settlements_and_returns_ends_alike(service: Service, caller: Caller) -> None:
    for order in permutations(STEPS):
        transfer = await send_out(service, caller, 1000)
        report = given_back(service, transfer)
        for step in order:
            await STEPS[step](service, transfer, report)
        await receive_return(service.context, report)  # reports that were not acknowledged come again
        assert (await now(service, caller, transfer)).status == "RETURNED", order
    assert await read_funds(service, caller) == (1_000_000, 0)
    await check_books(service)


async def decide(service: Service, transfer: Transfer, *, is_approved: bool = True) -> None:
    await decide_transfer(as_operator(service.context, "maria"), transfer.id, is_approved=is_approved)


@pytest.fixture
async def payer(service: Service) -> AsyncIterator[Caller]:
    """Holder 1 with R$ 10,00; transfers above R$ 3,00 wait for an operator."""
    caller = await open_holder(service, funds_cents=1000)
    await service.set_holder(caller, approve_above_cents=300)
    service.rail.answer(*[Settled(settled_at=service.clock.now())] * 9)
    yield caller
    await check_books(service)


@pytest.mark.parametrize(
    ("change", "back", "hold"),
    [
        (dict(may_withdraw=False), dict(may_withdraw=True), "the holder may not withdraw"),
        (dict(is_disabled=True), dict(is_disabled=False), "the holder is disabled"),
        (dict(transfer_limit_cents=399), dict(transfer_limit_cents=400), "399 cents a transfer"),
        (dict(day_limit_cents=499), dict(day_limit_cents=500), "499 cents a day"),
    ],
)
async def test_a_yes_is_refused_while_the_holder_may_not_send_and_the_list_shows_it(
    service: Service, payer: Caller, change: dict[str, Any], back: dict[str, Any], hold: str
) -> None:
    await send_out(service, payer, 100)
    sent = await send_out(service, payer, 400)
    await service.work()
    await service.set_holder(payer, **change)
    # A limit counts on the day on which a transfer was accepted.
    service.clock.advance(hours=10)
    (waiting,) = await list_waiting_transfers(service.context)
    assert hold in (waiting.hold or "")
    with pytest.raises(errors.BadRequest, match=hold):
        await decide(service, sent)
    await service.set_holder(payer, **back)
    (waiting,) = await list_waiting_transfers(service.context)
    assert waiting.hold is None
    await decide(service, sent)
    await service.work()
    assert (await now(service, payer, sent)).status == "CONFIRMED"


async def test_a_no_is_taken_whatever_the_holder_may_do(service: Service, payer: Caller) -> None:
    sent = await send_out(service, payer, 400)
    await service.set_holder(payer, is_disabled=True)
    await decide(service, sent, is_approved=False)
    await service.work()
    assert await read_funds(service, payer) == (1000, 0)


async def test_what_is_blocked_takes_the_money_of_what_waits(service: Service, payer: Caller) -> None:
    report = credit_report(service, amount_cents=800)
    await receive_credit(service.context, report)
    sent = await send_out(service, payer, 1500)
    told = BlockTerms(reference="J1", kind="judicial", wanted_cents=800, held_cents=800)
    block = BlockReport(report_id="B1", party=report.credit_party, blocks=(told,), reported_at=service.clock.now())
    await take_reports(service.context, [block])
    with pytest.raises(errors.BadRequest, match="has blocked more of the holder's money than is blocked here"):
        await decide(service, sent)
    await decide(service, sent, is_approved=False)
    await service.work()
    assert await read_funds(service, payer) == (1000, 0)


async def test_an_approved_order_does_not_leave_a_blocked_holder(service: Service, payer: Caller) -> None:
    sent = await send_out(service, payer, 400)
    await decide(service, sent)
    await service.set_holder(payer, may_withdraw=False)
    await service.work()
    await service.work(seconds=61)
    ended = await now(service, payer, sent)
    reason = "An operator approved it, and it could not be handed to the rail in time: the holder may not withdraw."
    assert (ended.status, ended.outcome_reason) == ("CANCELLED", reason)
    assert service.rail.orders == []
    assert await read_funds(service, payer) == (1000, 0)


@pytest.mark.parametrize("is_allowed_again", [True, False])
async def test_a_late_order_is_judged_again(service: Service, payer: Caller, *, is_allowed_again: bool) -> None:
    service.rail.answers.clear()
    service.rail.answer(NotTaken(), Settled(settled_at=service.clock.now()))
    sent = await send_out(service, payer, 100)
    await service.work()
    await service.set_holder(payer, is_disabled=True)
    for _ in range(3):
        service.clock.advance(seconds=HELD_AGAIN_AFTER.total_seconds())
        await service.work()
    assert len(service.rail.orders) == 1, "the one that was turned away"
    if is_allowed_again:
        await service.set_holder(payer, is_disabled=False)
    service.clock.advance(seconds=HELD_AGAIN_AFTER.total_seconds())
    await service.work()
    await service.work(seconds=61)
    ended = await now(service, payer, sent)
    reason = "It could not be handed to the rail in time: the holder is disabled."
    expected = ("CONFIRMED", None) if is_allowed_again else ("CANCELLED", reason)
    assert (ended.status, ended.outcome_reason) == expected


async def test_an_unseen_order_is_not_sent_while_the_holder_may_not(service: Service, payer: Caller) -> None:
    service.rail.answers.clear()
    await send_out(service, payer, 100)
    await service.work()
    await service.set_holder(payer, may_withdraw=False)
    await service.work(seconds=3)
    assert (len(service.rail.queried), len(service.rail.orders)) == (1, 1)
    await service.set_holder(payer, may_withdraw=True)
    await service.work(seconds=5)
    assert (len(service.rail.queried), len(service.rail.orders)) == (2, 2)


async def test_the_schema_approves_nothing_for_a_blocked_holder(service: Service, payer: Caller) -> None:
    sent = await send_out(service, payer, 400)
    await service.set_holder(payer, may_withdraw=False)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError) as caught:
        await execute(service.context, f"insert into approval_answer values ('{sent.end_to_end_id}', true, 'maria', now())")
    assert caught.value.constraint_name == "only_what_may_leave_is_approved"


async def test_a_days_sum_is_read_once(service: Service, payer: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    await service.set_holder(payer, day_limit_cents=900)
    sent = [await send_out(service, payer, 100) for _ in range(3)]
    read_spent, asked = tally_store.read_spent, list[int]()

    async def count(connection: Any, holder_id: int, *spans: Any) -> Spent:
        asked.append(holder_id)
        return await read_spent(connection, holder_id, *spans)

    monkeypatch.setattr(tally_store, "read_spent", count)
    assert await find_holds(service.context.pool, sent) == {}
    assert asked == [payer.holder_id]
