"""The network's ids of our orders, if it does not use ours: returned early, late, again, or wrongly."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from itertools import count

import pytest
from msgspec import structs

from kernel.flows.test_handover import Order as AnyOrder
from pixconnect.features.statements import service as statement_usecases
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.flows.unresolved import count_silent, list_unresolved
from pixconnect.kernel.rules import rail as rails
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.listing import Span
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.kernel.rules.transfer import AccountTransferRequest, Transfer
from support.books import check_books
from support.postgres import Addresses
from support.records import OUTSIDE_ISPB, a_return, outside_party
from support.service import STARTED_AT, FakeClock, Service, credit_report, open_holder, open_service, send_out
from support.statement import EVER, read_all

NAMES_ITSELF = rails.Abilities(keeps_our_id=False)
KNOWS_NO_ID_OF_OURS = rails.Abilities(keeps_our_id=False, answers_by_our_id=False)

MakeOrder = Callable[[Service, Caller], Awaitable["Order"]]

_numbers = count(1)


def network_id(letter: str = "E") -> str:
    return f"{letter}{OUTSIDE_ISPB}202607011500{next(_numbers):011}"


@pytest.fixture
async def service(database: Addresses) -> AsyncIterator[Service]:
    """A service on a rail that gives orders its own names, and accepts queries by ours."""
    async with open_service(database, abilities=NAMES_ITSELF) as opened:
        yield opened


class Order(AnyOrder, frozen=True, kw_only=True):
    told: str  # the network's id for it

    async def find(self, service: Service, name: str) -> int:
        if self.is_refund:
            return (await refund_usecases.read_refund_by_return_id(service.context, self.caller, name)).id
        view = await transfer_usecases.read_transfer_by_end_to_end_id(service.context, self.caller, name)
        return view.transfer.id

    async def events(self, service: Service) -> list[str]:
        query = "select body from event where resource = $1 and resource_id = $2 and holder_id = $3 order by id"
        kind = "refund" if self.is_refund else "transfer"
        return [row["body"] for row in await service.fetch(query, kind, self.id, self.caller.holder_id)]


async def make_transfer(service: Service, caller: Caller) -> Order:
    transfer = await send_out(service, caller, 400)
    return Order(caller=caller, id=transfer.id, name=transfer.end_to_end_id, told=network_id(), is_refund=False)


async def make_refund(service: Service, caller: Caller) -> Order:
    report = credit_report(service, amount_cents=400)
    await receive_credit(service.context, report)
    asked = RefundRequest(end_to_end_id=report.end_to_end_id, amount_cents=400)
    refund = await refund_usecases.start_refund(service.context, caller, asked)
    return Order(caller=caller, id=refund.id, name=refund.return_id, told=network_id("D"), is_refund=True)


@pytest.fixture(params=[make_transfer, make_refund])
async def order(request: pytest.FixtureRequest, service: Service, caller: Caller) -> Order:
    return await request.param(service, caller)


async def kept(service: Service) -> list[tuple[str, str, str]]:
    """Kind, reason and name of each report that waits for an operator, oldest first."""
    found = await kept_usecases.list_kept(service.context, with_closed=False)
    return [(one.kind, one.reason, one.name) for one in reversed(found)]


def settled(order: Order, network_id: str | None = None, *, name: str | None = None) -> rails.SettledReport:
    return rails.SettledReport(report_id=f"s{order.id}", id=name or order.name, settled_at=STARTED_AT, network_id=network_id)


async def test_a_name_told_with_the_answer_is_shown_without_an_event(service: Service, order: Order) -> None:
    service.rail.answer(rails.Taken(network_id=order.told))
    await service.work(seconds=1)
    under_way = await order.now(service)
    assert (under_way.status, under_way.shown_id) == ("PROCESSING", order.told)
    assert (under_way.created_at, under_way.modified_at) == (STARTED_AT, service.clock.now())
    assert len(await order.events(service)) == 1
    await take_reports(service.context, [settled(order)])
    first, last = await order.events(service)
    assert order.name in first
    assert order.told not in first
    assert order.told in last
    assert order.name not in last
    assert [await order.find(service, name) for name in (order.name, order.told)] == [order.id, order.id]
    await check_books(service)


@pytest.mark.parametrize("is_settled", [True, False])
async def test_a_name_told_with_the_end_is_in_its_event(service: Service, order: Order, is_settled: bool) -> None:
    settled, rejected = rails.Settled(settled_at=STARTED_AT), rails.Rejected(code="AC03", reason="no such account")
    service.rail.answer(structs.replace(settled if is_settled else rejected, network_id=order.told))
    await service.work()
    ended = await order.now(service)
    assert (ended.settled_at is not None, ended.shown_id) == (is_settled, order.told)
    assert order.told in (await order.events(service))[1]
    assert [await order.find(service, name) for name in (order.name, order.told)] == [order.id, order.id]
    await check_books(service)


async def test_a_name_that_is_told_after_the_end_is_shown_without_an_event(service: Service, order: Order) -> None:
    await service.work()
    assert await take_reports(service.context, [settled(order)]) == 1
    service.clock.advance(hours=1)
    for _ in range(2):
        assert await take_reports(service.context, [settled(order, order.told)]) == 1
        service.clock.advance(hours=1)
    ended = await order.now(service)
    assert ended.shown_id == order.told
    assert ended.modified_at == STARTED_AT + timedelta(hours=1), "to tell it again changes nothing"
    assert len(await order.events(service)) == 2
    assert await kept(service) == []
    await check_books(service)


async def test_the_networks_name_may_be_ours_and_then_nothing_changes(service: Service, order: Order) -> None:
    service.rail.answer(rails.Taken(network_id=order.name))
    await service.work()
    service.clock.advance(seconds=1)
    await take_reports(service.context, [settled(order, order.name)])
    ended = await order.now(service)
    assert (ended.network_id, ended.shown_id) == (None, order.name)
    assert await kept(service) == []


async def test_an_end_may_come_under_the_name_that_was_told(service: Service, order: Order) -> None:
    service.rail.answer(rails.Taken(network_id=order.told))
    await service.work()
    assert await take_reports(service.context, [settled(order, name=order.told), settled(order)]) == 2
    assert (await order.now(service)).settled_at is not None
    assert await kept(service) == []
    await check_books(service)


async def test_another_processes_name_is_in_the_event(service: Service, order: Order, database: Addresses) -> None:
    await service.work()  # from now on this process remembers the order as it was handed over
    async with open_service(database, clock=service.clock, abilities=NAMES_ITSELF) as other:
        other.rail.outcomes[order.name] = rails.Taken(network_id=order.told)
        service.clock.advance(seconds=2)
        await other.work()
    await take_reports(service.context, [settled(order)])
    assert order.told in (await order.events(service))[1]
    assert (await order.now(service)).shown_id == order.told


async def test_lists_replays_and_statements_show_the_name_that_was_told(service: Service, caller: Caller) -> None:
    sent = AccountTransferRequest(amount_cents=400, credit_party=outside_party(), external_id="order-1")
    name = (await transfer_usecases.start_transfer(service.context, caller, sent)).transfer.end_to_end_id
    told = network_id()
    service.rail.answer(rails.Settled(settled_at=STARTED_AT, network_id=told))
    await service.work()
    again = (await transfer_usecases.start_transfer(service.context, caller, sent)).transfer
    page = await transfer_usecases.list_transfers(service.context, caller, "CONFIRMED", Span())
    by_external_id = await transfer_usecases.read_transfer_by_external_id(service.context, caller, "order-1")
    shown = [again, *(view.transfer for view in page.items), by_external_id.transfer]
    assert [(one.end_to_end_id, one.shown_id) for one in shown] == [(name, told)] * 3
    statement = await statement_usecases.open_statement(service.context, caller, *EVER)
    assert [line.end_to_end_id for line in await read_all(service, statement)] == [None, told]


async def test_a_statement_shows_a_refunds_name_that_was_told(service: Service, caller: Caller) -> None:
    refund = await make_refund(service, caller)
    service.rail.answer(rails.Settled(settled_at=STARTED_AT, network_id=refund.told))
    await service.work()
    statement = await statement_usecases.open_statement(service.context, caller, *EVER)
    assert [line.return_id for line in await read_all(service, statement)] == [None, None, refund.told]


async def test_another_holder_finds_nothing_by_a_name_that_was_told(service: Service, order: Order) -> None:
    stranger = structs.replace(order, caller=await open_holder(service, account_number="2"))
    await take_reports(service.context, [settled(order, order.told)])
    with pytest.raises(Exception, match="there is no such"):
        await stranger.find(service, order.told)


def given_back(service: Service, named: str, amount_cents: int = 100) -> rails.ReturnReport:
    names = dict(report_id=f"r{next(_numbers)}", return_id=network_id("D"))
    return a_return(named, amount_cents=amount_cents, reported_at=service.clock.now(), **names)


async def returned_as(service: Service, caller: Caller) -> list[str]:
    page = await refund_usecases.list_refunds(service.context, caller, None, Span())
    return [refund.original_end_to_end_id for refund in page.items]


async def test_a_return_names_its_original_by_either_name(service: Service, caller: Caller) -> None:
    order = await make_transfer(service, caller)
    await take_reports(service.context, [settled(order)])
    by_ours, by_theirs = given_back(service, order.name), given_back(service, order.told)
    await take_reports(service.context, [by_ours])
    assert await returned_as(service, caller) == [order.name]
    await take_reports(service.context, [settled(order, order.told)])
    assert await returned_as(service, caller) == [order.told], "a refund follows its original"
    # Repeated under the other name it is the same return.
    again = structs.replace(by_ours, original_end_to_end_id=order.told)
    assert await take_reports(service.context, [by_theirs, again, by_ours]) == 3
    assert await returned_as(service, caller) == [order.told] * 2
    assert {one.refusal_code for one in service.rail.acknowledged} == {None}
    assert await kept(service) == []
    transfer = await order.now(service)
    assert isinstance(transfer, Transfer)
    assert transfer.returned_cents == 200
    await check_books(service)


async def test_a_transfer_that_was_wholly_returned_is_named_too(service: Service, caller: Caller) -> None:
    order = await make_transfer(service, caller)
    await take_reports(service.context, [settled(order)])
    await take_reports(service.context, [given_back(service, order.name, amount_cents=400)])
    await take_reports(service.context, [settled(order, order.told)])
    named = await order.now(service)
    assert (named.status, named.shown_id) == ("RETURNED", order.told)
    assert await returned_as(service, caller) == [order.told]
    await check_books(service)


async def test_a_return_under_an_untold_name_comes_again(service: Service, caller: Caller) -> None:
    order = await make_transfer(service, caller)
    report = given_back(service, order.told)
    assert await take_reports(service.context, [report]) == 0
    await take_reports(service.context, [settled(order, order.told)])
    assert await take_reports(service.context, [report]) == 1
    assert service.rail.acknowledged[-1].refusal_code is None
    assert await returned_as(service, caller) == [order.told]


async def test_a_return_of_nothing_that_we_know_is_kept_and_refused_after_some_tries(database: Addresses) -> None:
    async with open_service(database, clock=FakeClock(monotonic_s=0), abilities=NAMES_ITSELF) as service:
        await open_holder(service)
        report = given_back(service, network_id())
        assert await tries(service, report) == [0, 0, 1]
        assert await kept(service) == [("return", "unknown_order", report.return_id)]
        assert service.rail.acknowledged[-1].refusal_code == "AM09"


async def test_an_end_of_nothing_that_we_know_is_kept_after_some_tries(database: Addresses) -> None:
    async with open_service(database, clock=FakeClock(monotonic_s=0), abilities=NAMES_ITSELF) as service:
        report = rails.SettledReport(report_id="s", id=network_id(), settled_at=STARTED_AT)
        assert await tries(service, report) == [0, 0, 1]
        assert await kept(service) == [("settled", "unknown_order", report.id)]


async def test_an_end_under_a_name_that_is_told_meanwhile_is_recorded(service: Service, order: Order) -> None:
    """The report is faster than the answer to the submission."""
    early = settled(order, name=order.told)
    assert await take_reports(service.context, [early]) == 0
    service.rail.answer(rails.Taken(network_id=order.told))
    await service.work()
    assert await take_reports(service.context, [early]) == 1
    assert (await order.now(service)).settled_at is not None
    assert await kept(service) == []


async def tries(service: Service, report: rails.Report) -> list[int]:
    """How many reports were acknowledged each time: it comes three times within eleven seconds."""
    counts: list[int] = []
    for _ in range(3):
        counts.append(await take_reports(service.context, [report]))
        service.clock.advance(seconds=5.5)
    return counts


async def test_another_name_than_before_is_kept_and_the_first_one_stays(service: Service, order: Order) -> None:
    service.rail.answer(rails.Taken(network_id=order.told))
    await service.work()
    other = network_id(order.told[0])
    service.rail.outcomes[order.name] = rails.Taken(network_id=other)
    await service.work(seconds=2)
    assert await kept(service) == [("taken", "contradiction", order.name)]
    assert await take_reports(service.context, [settled(order, other)]) == 1
    assert await kept(service) == [("taken", "contradiction", order.name), ("settled", "contradiction", order.name)]
    ended = await order.now(service)
    assert (ended.settled_at is not None, ended.shown_id) == (True, order.told), "it ends by our own id all the same"
    await check_books(service)


@pytest.mark.parametrize("make", [make_transfer, make_refund])
async def test_two_orders_are_never_called_the_same(service: Service, caller: Caller, make: MakeOrder) -> None:
    first, second, third = [await make(service, caller) for _ in range(3)]
    at_once = [settled(first, first.told), settled(second, first.told)]
    assert await take_reports(service.context, at_once) == 2
    assert await take_reports(service.context, [settled(third, first.told)]) == 1
    assert sorted(await kept(service)) == sorted(("settled", "contradiction", order.name) for order in (second, third))
    assert [(await order.now(service)).shown_id for order in (first, second, third)] == [
        first.told, second.name, third.name,
    ]  # fmt: skip
    assert [(await order.now(service)).settled_at is not None for order in (first, second, third)] == [True] * 3
    await check_books(service)


async def test_two_processes_told_the_same_agree(service: Service, caller: Caller, database: Addresses) -> None:
    other_caller = await open_holder(service, account_number="2", funds_cents=1_000_000)
    orders = [await make_transfer(service, each) for each in (caller, other_caller)]
    told = network_id()
    async with open_service(database, clock=service.clock, abilities=NAMES_ITSELF) as other:
        await asyncio.gather(
            take_reports(service.context, [settled(orders[0], told)]), take_reports(other.context, [settled(orders[1], told)])
        )
    ended = [await order.now(service) for order in orders]
    assert sorted(one.network_id is None for one in ended) == [False, True]
    assert all(one.settled_at is not None for one in ended)
    assert len(await kept(service)) == 1
    await check_books(service)


async def test_the_name_of_another_transfer_is_nobody_elses(service: Service, caller: Caller) -> None:
    received = credit_report(service, amount_cents=401)
    await receive_credit(service.context, received)
    named, first, second = [await make_transfer(service, caller) for _ in range(3)]
    await take_reports(service.context, [settled(first, named.name), settled(second, received.end_to_end_id)])
    assert [kind for kind, _, _ in await kept(service)] == ["settled", "settled"]
    assert [(await order.now(service)).network_id for order in (first, second)] == [None, None]


@pytest.mark.parametrize("told", ["E123", "D" + "9" * 31, "X" + "9" * 31, "E" + "9" * 30 + "\ud800", ""])
async def test_what_is_no_name_is_kept_and_hinders_no_end(service: Service, caller: Caller, told: str) -> None:
    order = await make_transfer(service, caller)
    service.rail.answer(rails.Settled(settled_at=STARTED_AT, network_id=told))
    await service.work()
    ended = await order.now(service)
    assert (ended.settled_at is not None, ended.network_id) == (True, None)
    assert await kept(service) == [("settled", "contradiction", order.name)]


async def test_a_rail_that_keeps_our_ids_is_not_believed_another_name(database: Addresses) -> None:
    async with open_service(database) as service:
        order = await make_transfer(service, await open_holder(service, funds_cents=1_000))
        await take_reports(service.context, [settled(order, order.told)])
        ended = await order.now(service)
        assert (ended.settled_at is not None, ended.network_id) == (True, None)
        assert await kept(service) == [("settled", "contradiction", order.name)]


@pytest.fixture
async def mute(database: Addresses) -> AsyncIterator[Service]:
    """A service on a rail that does not know our ids, and would accept an order twice."""
    async with open_service(database, abilities=KNOWS_NO_ID_OF_OURS) as opened:
        yield opened


@pytest.mark.parametrize("make", [make_transfer, make_refund])
@pytest.mark.parametrize("answer", [rails.Unknown(), rails.AlreadyKnown(), rails.Taken()])
async def test_after_a_lost_answer_it_is_left_alone(mute: Service, make: MakeOrder, answer: rails.SubmitAnswer) -> None:
    caller = await open_holder(mute, funds_cents=1_000_000)
    order = await make(mute, caller)
    mute.rail.answer(answer)
    for _ in range(20):
        await mute.work()
        mute.clock.advance(hours=1)
    assert (order.sent_count(mute), mute.rail.queried) == (1, [])
    assert (await ledger_usecases.read_balance(mute.context, caller)).reserved_cents == 400
    assert await count_silent(mute.context) == 1
    ((unresolved, _),) = await list_unresolved(mute.context, timedelta(seconds=60), None, None)
    assert (unresolved.name, unresolved.asked_count) == (order.name, 0)
    # Only a report ends it.
    await take_reports(mute.context, [settled(order, order.told)])
    assert (await order.now(mute)).settled_at is not None
    assert await count_silent(mute.context) == 0
    await check_books(mute)


async def test_what_certainly_never_left_is_sent_again_all_the_same(mute: Service) -> None:
    order = await make_transfer(mute, await open_holder(mute, funds_cents=1_000_000))
    mute.rail.answer(rails.NotTaken(), rails.Taken())
    await mute.work()
    await mute.work(seconds=1)
    assert order.sent_count(mute) == 2


async def test_it_is_asked_by_the_name_that_it_has_told_and_never_sent_to_again(mute: Service) -> None:
    order = await make_transfer(mute, await open_holder(mute, funds_cents=1_000_000))
    mute.rail.answer(rails.Taken(network_id=order.told))
    for _ in range(3):
        await mute.work()
        mute.clock.advance(minutes=10)
    assert (order.sent_count(mute), set(mute.rail.queried)) == (1, {order.told})
    ((_, transfer),) = await list_unresolved(mute.context, timedelta(seconds=60), None, order.told)
    assert isinstance(transfer, Transfer)
    assert transfer.shown_id == order.told
    mute.rail.outcomes[order.told] = rails.Settled(settled_at=STARTED_AT)
    await mute.work()
    assert (await order.now(mute)).settled_at is not None
    await check_books(mute)


async def test_a_rejection_under_the_name_that_was_told_gives_the_money_back(mute: Service) -> None:
    caller = await open_holder(mute, funds_cents=1_000)
    order = await make_transfer(mute, caller)
    mute.rail.answer(rails.Taken(network_id=order.told))
    await mute.work()
    await take_reports(mute.context, [rails.RejectedReport(report_id="x", id=order.told, code="AC03", reason="no")])
    balance = await ledger_usecases.read_balance(mute.context, caller)
    assert (balance.available_cents, balance.reserved_cents) == (1_000, 0)
    await check_books(mute)
