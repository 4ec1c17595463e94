"""Submitting orders to the rail: the mark before the call, and never a second payment (P1, P2)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec import Struct

from pixconnect.doors.worker.leases import LeaseLost
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import settlement
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.handover import RETRY_AFTER, move_due
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.settlement import Fence, GivenUp, ask_again_after, end_orders
from pixconnect.kernel.rules import rail as rails
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.order import OpenOrder
from pixconnect.kernel.rules.refund import Refund, RefundRequest
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import order as order_store
from pixconnect.platform.base import errors
from support.books import check_books
from support.postgres import Addresses
from support.service import STARTED_AT, EverySlot, Service, credit_report, open_service, send_out

if TYPE_CHECKING:
    from pixconnect.platform.pool import Connection

Call = Callable[[Sequence[object]], Awaitable[list[rails.SubmitAnswer]]]
EVERY_SLOT = range(256)


class KilledError(Exception):
    """The process dies here."""


async def move(service: Service, fence: Fence) -> int:
    long_ago, now = STARTED_AT - timedelta(days=1), service.clock.now()
    return len(await move_due(service.context, fence, EVERY_SLOT, long_ago, now, 256))


class Order(Struct, frozen=True, kw_only=True):
    caller: Caller
    id: int
    name: str
    is_refund: bool

    async def now(self, service: Service) -> Transfer | Refund:
        if self.is_refund:
            return await refund_usecases.read_refund_by_id(service.context, self.caller, self.id)
        return (await transfer_usecases.read_transfer_by_id(service.context, self.caller, self.id)).transfer

    async def order_now(self, service: Service) -> OpenOrder:
        """Its order: it is under way."""
        (row,) = await service.context.pool.fetch("select * from open_order where name = $1", self.name)
        return OpenOrder(**row)

    async def handed_at(self, service: Service) -> datetime | None:
        return (await self.order_now(service)).handed_at

    def sent_count(self, service: Service) -> int:
        names = [order.end_to_end_id for order in service.rail.orders]
        names += [order.return_id for order in service.rail.refund_orders]
        return names.count(self.name)


@pytest.fixture(params=["transfer", "refund"])
async def order(request: pytest.FixtureRequest, service: Service, caller: Caller) -> Order:
    if request.param == "transfer":
        transfer = await send_out(service, caller, 400)
        return Order(caller=caller, id=transfer.id, name=transfer.end_to_end_id, is_refund=False)
    report = credit_report(service, amount_cents=400)
    await receive_credit(service.context, report)
    refund = await refund_usecases.start_refund(
        service.context, caller, RefundRequest(end_to_end_id=report.end_to_end_id, amount_cents=400)
    )
    return Order(caller=caller, id=refund.id, name=refund.return_id, is_refund=True)


async def reserved(service: Service, caller: Caller) -> int:
    return (await ledger_usecases.read_balance(service.context, caller)).reserved_cents


async def is_settled(service: Service, order: Order) -> bool:
    await check_books(service)
    return (await order.now(service)).settled_at is not None


async def test_the_mark_comes_before_the_rail(service: Service, order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    async def look(orders: Sequence[object]) -> list[rails.SubmitAnswer]:
        seen.append(await order.handed_at(service))
        return [rails.Taken() for _ in orders]

    monkeypatch.setattr(service.rail, "submit", look)
    monkeypatch.setattr(service.rail, "submit_refunds", look)
    assert await service.work() == 1
    assert seen == [service.clock.now()]
    assert await service.work() == 0  # nothing more until it is time to ask


async def test_what_the_rail_settles_at_once_is_settled(service: Service, order: Order) -> None:
    service.rail.answer(rails.Settled(settled_at=STARTED_AT))
    await service.work()
    assert await is_settled(service, order)
    assert await reserved(service, order.caller) == 0


async def test_a_rejection_is_final_and_gives_the_money_back(service: Service, order: Order) -> None:
    service.rail.answer(rails.Rejected(code="AC03", reason="no such account"))
    await service.work()
    ended = await order.now(service)
    assert (ended.status, ended.outcome_code, ended.outcome_reason) == ("ERROR", "AC03", "no such account")
    assert await reserved(service, order.caller) == 0
    assert await service.work(days=1) == 0
    await check_books(service)


async def test_what_never_left_is_tried_again_and_given_up_after_a_minute(service: Service, order: Order) -> None:
    service.rail.answer(*[rails.NotTaken()] * 100)
    tries_count = 0
    for _ in range(59):
        tries_count += await service.work()
        assert await order.handed_at(service) is None
        assert (await order.now(service)).status == "PROCESSING"
        service.clock.advance(seconds=1)
    assert tries_count == order.sent_count(service) == 59
    await service.work()
    service.clock.advance(seconds=1)  # a minute
    await service.work()
    ended = await order.now(service)
    assert (ended.status, ended.outcome_code) == ("ERROR" if order.is_refund else "CANCELLED", "NOT_HANDED_OVER")
    assert await reserved(service, order.caller) == 0
    await check_books(service)


async def test_what_left_after_all_is_not_given_up(service: Service, order: Order) -> None:
    service.rail.answer(rails.NotTaken(), rails.Taken())
    await service.work()
    await service.work(seconds=1)
    service.rail.is_reachable = False
    await service.work(days=3)
    assert (await order.now(service)).status == "PROCESSING"
    await end_orders(service.context, [(order.name, GivenUp())])
    assert (await order.now(service)).status == "PROCESSING"
    assert await reserved(service, order.caller) == 400


@pytest.mark.parametrize(
    "answer",
    [
        rails.Unknown(),
        pytest.param(rails.AlreadyKnown(), marks=pytest.mark.long),
        pytest.param(rails.Taken(), marks=pytest.mark.long),
    ],
)
async def test_silence_is_asked_about_with_backoff(service: Service, order: Order, answer: rails.SubmitAnswer) -> None:
    service.rail.answer(answer)
    service.rail.outcomes[order.name] = rails.Taken()
    await service.work()
    passed_s = 0
    for due_s in (2, 4, 8, 16, 32, 64, 128, 256, 512, 812, 1112):
        service.clock.advance(seconds=due_s - 1 - passed_s)
        assert not await service.work(), "a second too early"
        assert await service.work(seconds=1), due_s
        passed_s = due_s
    assert (order.sent_count(service), len(service.rail.queried)) == (1, 11)
    service.rail.outcomes[order.name] = rails.Settled(settled_at=STARTED_AT)
    await service.work(minutes=5)
    assert await is_settled(service, order)


def test_the_waits_grow_and_have_an_end() -> None:
    waits = [ask_again_after(count) for count in (*range(12), 10_000)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (timedelta(seconds=2), timedelta(minutes=5))


async def test_what_the_rail_has_never_seen_is_sent_again_under_the_same_name(service: Service, order: Order) -> None:
    service.rail.answer(rails.Unknown(), rails.Unknown(), rails.Taken())
    await service.work()
    for _ in range(2):
        await service.work(seconds=10)
    assert order.sent_count(service) == 3
    assert (await order.now(service)).status == "PROCESSING"
    await check_books(service)


@pytest.mark.parametrize("answer", [rails.NotTaken(), rails.AlreadyKnown(), rails.Unknown()])
async def test_a_failed_resend_changes_no_mark(service: Service, order: Order, answer: rails.SubmitAnswer) -> None:
    service.rail.answer(rails.Unknown(), answer)
    await service.work()
    await service.work(seconds=2)
    assert (await order.handed_at(service), order.sent_count(service)) == (STARTED_AT, 2)
    await service.work(days=9)
    assert (await order.now(service)).status == "PROCESSING"


@pytest.mark.parametrize(
    ("outcome", "status"), [(rails.Rejected(code="AC07", reason="closed"), "ERROR"), (rails.Settled(settled_at=STARTED_AT), "")]
)
async def test_a_query_answer_is_final(service: Service, order: Order, outcome: rails.QueryAnswer, status: str) -> None:
    service.rail.answer(rails.Unknown())
    await service.work()
    service.rail.outcomes[order.name] = outcome
    await service.work(seconds=2)
    assert (await order.now(service)).status == (status or ("RETURNED" if order.is_refund else "CONFIRMED"))
    assert await reserved(service, order.caller) == 0
    await check_books(service)


async def be_killed_in(call: Call, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(service.rail, "submit", call)
        patch.setattr(service.rail, "submit_refunds", call)
        with pytest.raises(KilledError):
            await service.work()


async def test_killed_between_mark_and_call_another_worker_asks_and_sends_it_once(
    service: Service, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(_: Sequence[object]) -> list[rails.SubmitAnswer]:
        raise KilledError

    await be_killed_in(die, service, monkeypatch)
    service.clock.advance(seconds=90)  # long past the time in which it could have been given up
    await service.work()
    assert (service.rail.queried, order.sent_count(service)) == ([order.name], 1)
    assert (await order.now(service)).status == "PROCESSING"


async def test_killed_between_call_and_record_the_rail_is_asked_and_nothing_is_given_back(
    service: Service, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def settle_and_die(_: Sequence[object]) -> list[rails.SubmitAnswer]:
        service.rail.outcomes[order.name] = rails.Settled(settled_at=STARTED_AT)
        raise KilledError

    await be_killed_in(settle_and_die, service, monkeypatch)
    service.rail.is_reachable = False
    await service.work(seconds=61)
    assert await reserved(service, order.caller) == 400
    service.rail.is_reachable = True
    await service.work(minutes=5)
    assert await is_settled(service, order)
    assert order.sent_count(service) == 0


async def test_without_its_slot_a_worker_neither_marks_nor_sends_nor_asks(service: Service, order: Order) -> None:
    class Lost(EverySlot):
        def epochs_of(self, slots: Sequence[int]) -> dict[int, int]:
            raise LeaseLost("another worker has the slot")

        async def fence(self, connection: "Connection", slots: Sequence[int]) -> None:
            self.epochs_of(slots)

    lost = Lost()
    with pytest.raises(LeaseLost):
        await move(service, lost)
    assert (await order.handed_at(service), order.sent_count(service)) == (None, 0)
    await service.work()
    service.clock.advance(seconds=2)
    with pytest.raises(LeaseLost):
        await move(service, lost)
    assert (service.rail.queried, (await order.order_now(service)).asked_count) == ([], 0)


async def test_a_late_unmark_changes_none(service: Service, order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was answered NotTaken, was suspended, and the next worker has asked or submitted meanwhile."""
    first_marked_at = service.clock.now()
    service.rail.answer(rails.Taken())
    await service.work()
    # The next worker read the mark, which was removed before it asked: it must not submit without one.
    service.clock.advance(seconds=2)
    sent_before = order.sent_count(service)

    class TakingBack(EverySlot):
        async def fence(self, connection: "Connection", slots: Sequence[int]) -> None:
            await order_store.unmark(connection, [order.name], first_marked_at, first_marked_at + RETRY_AFTER)

    await move(service, TakingBack())
    assert (await order.handed_at(service), order.sent_count(service)) == (None, sent_before)
    marked_at = service.clock.now()
    service.rail.answer(rails.Taken())
    await service.work()
    async with service.context.pool.acquire() as connection:
        # The next worker has submitted it itself, under its own mark.
        await order_store.unmark(connection, [order.name], first_marked_at, service.clock.now())
        assert await order.handed_at(service) == marked_at
        # The next worker has asked.
        await service.work(seconds=2)
        await order_store.unmark(connection, [order.name], marked_at, service.clock.now())
        assert await order.handed_at(service) == marked_at


async def test_a_rejection_of_a_resend_is_a_reason_to_ask(service: Service, order: Order) -> None:
    """The first message was slow: it may still settle."""
    service.rail.answer(rails.Unknown(), rails.Rejected(code="AB03", reason="too slow"))
    await service.work()
    await service.work(seconds=2)
    assert (order.sent_count(service), (await order.now(service)).status) == (2, "PROCESSING")
    service.rail.outcomes[order.name] = rails.Settled(settled_at=STARTED_AT)
    await service.work(seconds=4)
    assert await is_settled(service, order)


async def test_an_ended_order_is_not_sent(service: Service, order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first worker has asked, and is suspended; the second asks too, and gets the outcome."""
    service.rail.answer(rails.Unknown())
    await service.work()
    service.clock.advance(seconds=2)
    ask = service.rail.query

    async def stand_still(ids: Sequence[str]) -> list[rails.QueryAnswer]:
        answers = await ask(ids)
        monkeypatch.setattr(service.rail, "query", ask)
        service.rail.outcomes[order.name] = rails.Rejected(code="AC07", reason="closed")
        await service.work(seconds=4)
        return answers

    monkeypatch.setattr(service.rail, "query", stand_still)
    await service.work()
    assert ((await order.now(service)).status, order.sent_count(service)) == ("ERROR", 1)
    await check_books(service)


async def test_a_rails_contradiction_is_kept(service: Service, order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    service.rail.answer(rails.Unknown())
    await service.work()
    service.clock.advance(seconds=2)
    service.rail.outcomes[order.name] = rails.Rejected(code="AC07", reason="closed")
    ask = service.rail.query

    async def be_overtaken(ids: Sequence[str]) -> list[rails.QueryAnswer]:
        answers = await ask(ids)
        await end_orders(service.context, [(order.name, rails.Settled(settled_at=STARTED_AT))])
        return answers

    monkeypatch.setattr(service.rail, "query", be_overtaken)
    await service.work()
    [kept] = await kept_usecases.list_kept(service.context, with_closed=False)
    assert (kept.kind, kept.reason, kept.name) == ("rejected", "contradiction", order.name)
    assert await is_settled(service, order)


async def test_a_worker_that_lost_its_slot_while_it_asked_sends_nothing_again(service: Service, order: Order) -> None:
    service.rail.answer(rails.Unknown())
    await service.work()
    service.clock.advance(seconds=2)
    fences_count = 0

    class Losing(EverySlot):
        async def fence(self, connection: "Connection", slots: Sequence[int]) -> None:
            nonlocal fences_count
            fences_count += 1
            if fences_count == 2:
                raise LeaseLost("another worker has the slot")

    with pytest.raises(LeaseLost):
        await move(service, Losing())
    assert (order.sent_count(service), (await order.now(service)).status) == (1, "PROCESSING")


async def test_an_order_of_another_workers_slot_is_not_sent(service: Service, order: Order) -> None:
    class TakenOver(EverySlot):
        def epochs_of(self, slots: Sequence[int]) -> dict[int, int]:
            return dict.fromkeys(slots, -1)

    with pytest.raises(errors.ServiceUnavailable):
        await move(service, TakenOver())
    assert order.sent_count(service) == 0
    # The next one finds it without a mark, and submits it.
    await service.work()
    assert order.sent_count(service) == 1


async def test_what_the_rail_can_never_take_any_more_is_given_back(service: Service, order: Order) -> None:
    service.rail.answer(rails.Unknown(), rails.AlreadyKnown())
    await service.work()
    await service.work(hours=13)
    assert (await order.now(service)).status == "PROCESSING"
    service.rail.outcomes[order.name] = rails.NeverTaken()
    await service.work(minutes=5)
    ended = await order.now(service)
    assert (ended.status, ended.outcome_code) == ("ERROR", "NEVER_TAKEN")
    assert ended.outcome_reason
    assert await reserved(service, order.caller) == 0
    await check_books(service)


async def test_a_rail_that_denies_an_order_too_early_is_not_believed(service: Service, order: Order) -> None:
    service.rail.answer(rails.Unknown())
    service.rail.outcomes[order.name] = rails.NeverTaken()
    await service.work()
    await service.work(hours=12)
    assert (await order.now(service)).status == "PROCESSING"
    assert await reserved(service, order.caller) == 400
    await service.work(minutes=5)
    assert (await order.now(service)).status == "ERROR"


async def test_without_a_rail_all_is_given_up_unmarked(service: Service, order: Order, database: Addresses) -> None:
    async with open_service(database, clock=service.clock, has_rail=False) as live:
        assert await live.work() == 1
        assert (await order.handed_at(live), live.rail.orders, live.rail.refund_orders) == (None, [], [])
        assert await live.work() == 0
        service.clock.advance(seconds=60)
        assert await live.work() == 1
    assert (await order.now(service)).outcome_code == "NOT_HANDED_OVER"
    await check_books(service)


async def test_two_workers_at_once_send_an_order_once(service: Service, order: Order) -> None:
    await asyncio.gather(*(service.work() for _ in range(5)))
    assert order.sent_count(service) == 1


async def test_a_rail_that_cannot_be_asked_is_asked_again_later(service: Service, order: Order) -> None:
    service.rail.answer(rails.Unknown())
    await service.work()
    service.rail.is_reachable = False
    await service.work(seconds=2)
    asked = await order.order_now(service)
    assert (asked.asked_count, asked.due_at) == (1, service.clock.now() + timedelta(seconds=2))
    with pytest.raises(rails.RailUnavailable):
        await service.rail.query([order.name])


async def test_a_bad_ending_stops_no_other(service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    old = await send_out(service, caller, 400)
    service.clock.advance(seconds=60)
    new = await send_out(service, caller, 400)

    def fail(*_: object) -> Transfer:
        raise AssertionError("a defect of ours")

    with monkeypatch.context() as patch:
        patch.setattr(settlement.transfer_rules, "cancel_transfer", fail)
        await service.work()
    assert [order.end_to_end_id for order in service.rail.orders] == [new.end_to_end_id]
    await service.work()
    assert (await transfer_usecases.read_transfer_by_id(service.context, caller, old.id)).transfer.status == "CANCELLED"
    await check_books(service)
