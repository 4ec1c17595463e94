"""What every rail must do, as tests that any adapter of ``domain.rail.Rail`` can be run against.

Subclass ``RailConformance`` as ``Test...`` and give it a fixture ``under`` that yields a ``RailUnderTest``: the adapter, and
hooks that make the network behind it do what the tests need. ``docs/guides/write-a-rail.md`` says how, step by step.

The money is safe when these pass: whatever is lost, repeated or late, an order that settled is never told as rejected, and one
that may have left is never told as not taken. The suite leaves alone what it did not cause, so that it can be run against
a shared test environment; it takes each answer that the port allows, so that it does not prescribe one network's ways.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol, TypeVar

import pytest
from msgspec import structs

from pixconnect.domain import reject_code
from pixconnect.domain.rail import (
    Acknowledgement,
    AlreadyKnown,
    CreditReport,
    NeverTaken,
    NotTaken,
    Order,
    QueryAnswer,
    Rail,
    RailUnavailable,
    RefundOrder,
    Rejected,
    RejectedReport,
    Report,
    ReturnReport,
    Settled,
    SettledItem,
    SettledReport,
    Taken,
    Unknown,
)

Fate = Literal["settles", "rejected"]
FATES: Final[tuple[Fate, ...]] = ("settles", "rejected")
STRANGE_NAME: Final = 'O\'Neill \\ "José" \u202e\U0001f600 %s {} \x00\x1f'
"""What breaks programs: quotes, control characters, an end of a string, a change of direction."""

Outcome = SettledReport | RejectedReport
OneReport = TypeVar("OneReport", bound=Report)


class RailUnderTest(Protocol):
    """An adapter, and what the tests need of the network behind it.

    A hook that a test environment cannot offer calls ``pytest.skip`` with the reason: the tests that need it then show as
    skipped, which is a risk that somebody has seen.
    """

    @property
    def rail(self) -> Rail:
        """The adapter."""
        ...

    @property
    def timeout_s(self) -> float:
        """How long an outcome or a report may take at most."""
        ...

    @property
    def known_key(self) -> str:
        """A key that the directory knows, normalised."""
        ...

    @property
    def unknown_key(self) -> str:
        """A key of a valid form that it does not know."""
        ...

    def make_order(self, fate: Fate = "settles", amount_cents: int = 100) -> Order:
        """A new order under a new id, dated now by the network's clock, to somebody with whom it will end that way."""
        ...

    def make_refund_order(self, original_end_to_end_id: str, amount_cents: int) -> RefundOrder:
        """A new refund order under a new id, for a payment that came in."""
        ...

    def pay_in(self, amount_cents: int, txid: str, payer_name: str = "Joana") -> Awaitable[str | None]:
        """Let somebody outside start to pay one of our holders; a name that the network does not know may be left out.

        Returns:
            What the payer is told in the end: ``None`` that it settled, otherwise the reason's code.
        """
        ...

    def give_back(self, end_to_end_id: str, amount_cents: int) -> Awaitable[str | None]:
        """Let the receiver of a settled order start to return it; as ``pay_in``."""
        ...

    async def lose_next_message(self) -> None:
        """What is sent next never arrives."""
        ...

    async def lose_next_answer(self) -> None:
        """What is sent next arrives and takes effect; its answer is lost."""
        ...

    async def repeat_next_report(self) -> None:
        """The next report comes again though it was acknowledged."""
        ...

    def unavailable(self) -> AbstractAsyncContextManager[None]:
        """Inside, nothing can be reached at all."""
        ...

    async def pass_time(self, span: timedelta) -> None:
        """Time passes on the network."""
        ...


class RailConformance:
    """The tests. ``under`` is the fixture that whoever runs them provides."""

    # -- the directory

    async def test_a_known_key_leads_to_an_account(self, under: RailUnderTest) -> None:
        order = under.make_order()
        entry = await under.rail.lookup_key(under.known_key, order.debit_party.tax_id, order.end_to_end_id)
        assert entry is not None
        assert (entry.key, entry.party.key, entry.party.key_type) == (under.known_key, under.known_key, entry.key_type)
        assert len(entry.party.ispb) == 8
        assert entry.party.name
        assert entry.party.tax_id
        assert entry.party.account_number

    async def test_an_unknown_key_is_an_answer(self, under: RailUnderTest) -> None:
        order = under.make_order()
        assert await under.rail.lookup_key(under.unknown_key, order.debit_party.tax_id, order.end_to_end_id) is None

    # -- orders

    async def test_an_order_settles_and_everybody_says_the_same(self, under: RailUnderTest) -> None:
        order = under.make_order()
        [answer] = await under.rail.submit([order])
        assert isinstance(answer, Taken | Settled)
        told = await outcome(under, order.end_to_end_id)
        assert isinstance(told, SettledReport)
        assert is_aware(told.settled_at)
        assert await under.rail.query([order.end_to_end_id]) == [Settled(settled_at=told.settled_at)]
        if isinstance(answer, Settled):
            assert answer == Settled(settled_at=told.settled_at)

    async def test_an_order_is_rejected_with_the_schemes_reason(self, under: RailUnderTest) -> None:
        order = under.make_order("rejected")
        [answer] = await under.rail.submit([order])
        assert isinstance(answer, Taken | Rejected)
        asked = await final_answer(under, order.end_to_end_id)
        assert isinstance(asked, Rejected)
        assert asked.code in reject_code.REASONS
        assert asked.reason
        if isinstance(answer, Rejected):
            assert answer == asked
        else:
            told = await outcome(under, order.end_to_end_id)
            assert isinstance(told, RejectedReport)
            assert (told.code, told.reason) == (asked.code, asked.reason)

    async def test_a_group_is_answered_order_by_order(self, under: RailUnderTest) -> None:
        fates: list[Fate] = ["settles", "rejected", "settles"]
        orders = [under.make_order(fate) for fate in fates]
        answers = await under.rail.submit(orders)
        assert len(answers) == 3
        assert all(isinstance(answer, Taken | Settled) for answer in answers[::2])
        assert isinstance(answers[1], Taken | Rejected)
        ids = [order.end_to_end_id for order in orders]
        for order_id in ids:
            await final_answer(under, order_id)
        asked = await under.rail.query([*reversed(ids), unknown_id(orders[0])])
        assert [type(answer) for answer in asked] == [Settled, Rejected, Settled, Unknown]

    async def test_no_orders_are_no_answers(self, under: RailUnderTest) -> None:
        assert await under.rail.submit([]) == []
        assert await under.rail.submit_refunds([]) == []
        assert await under.rail.query([]) == []
        await under.rail.acknowledge([])

    async def test_what_was_never_sent_is_unknown(self, under: RailUnderTest) -> None:
        assert await under.rail.query([unknown_id(under.make_order())]) == [Unknown()]

    # -- duplicates and late re-sends

    async def test_a_duplicate_at_once_is_no_rejection(self, under: RailUnderTest) -> None:
        order = under.make_order()
        first, second = await under.rail.submit([order, order])
        assert sum(isinstance(answer, Taken | Settled) for answer in (first, second)) >= 1
        assert not any(isinstance(answer, Rejected | NotTaken) for answer in (first, second))
        await settles_once(under, order.end_to_end_id)

    async def test_duplicates_from_two_sides_are_no_rejections(self, under: RailUnderTest) -> None:
        orders = [under.make_order() for _ in range(5)]
        groups = await asyncio.gather(under.rail.submit(orders), under.rail.submit(orders[::-1]))
        assert not any(isinstance(answer, Rejected | NotTaken) for answers in groups for answer in answers)
        for order in orders:
            await settles_once(under, order.end_to_end_id)

    async def test_a_resend_of_a_settled_order_is_no_rejection(self, under: RailUnderTest) -> None:
        order = under.make_order()
        await under.rail.submit([order])
        settled = await final_answer(under, order.end_to_end_id)
        [again] = await under.rail.submit([order])
        assert isinstance(again, AlreadyKnown | Settled)
        assert await under.rail.query([order.end_to_end_id]) == [settled]
        await settles_once(under, order.end_to_end_id)

    async def test_a_resend_that_comes_too_late_is_no_rejection(self, under: RailUnderTest) -> None:
        order = under.make_order()
        await under.rail.submit([order])
        settled = await final_answer(under, order.end_to_end_id)
        await under.pass_time(timedelta(hours=13))
        [again] = await under.rail.submit([order])
        assert isinstance(again, AlreadyKnown | Settled)
        assert await under.rail.query([order.end_to_end_id]) == [settled]

    async def test_a_resend_of_a_rejected_order_does_not_settle_it(self, under: RailUnderTest) -> None:
        order = under.make_order("rejected")
        await under.rail.submit([order])
        rejected = await final_answer(under, order.end_to_end_id)
        [again] = await under.rail.submit([order])
        assert isinstance(again, AlreadyKnown) or again == rejected
        assert await under.rail.query([order.end_to_end_id]) == [rejected]

    async def test_a_resend_of_what_was_rejected_long_ago_does_not_settle_it(self, under: RailUnderTest) -> None:
        order = under.make_order("rejected")
        await under.rail.submit([order])
        rejected = await final_answer(under, order.end_to_end_id)
        await under.pass_time(timedelta(hours=13))
        [again] = await under.rail.submit([order])
        assert isinstance(again, AlreadyKnown) or again == rejected
        assert await under.rail.query([order.end_to_end_id]) == [rejected]

    async def test_a_resend_with_another_amount_changes_nothing(self, under: RailUnderTest) -> None:
        for fate in FATES:
            order = under.make_order(fate)
            await under.rail.submit([order])
            final = await final_answer(under, order.end_to_end_id)
            [again] = await under.rail.submit([structs.replace(order, amount_cents=order.amount_cents + 1)])
            assert isinstance(again, AlreadyKnown) or again == final
            assert await under.rail.query([order.end_to_end_id]) == [final]

    # -- what is never taken

    async def test_an_order_that_comes_too_late_is_never_taken(self, under: RailUnderTest) -> None:
        order = under.make_order()
        await under.pass_time(timedelta(hours=13))
        [late] = await under.rail.submit([order])
        assert isinstance(late, AlreadyKnown | Unknown)
        await stays_never_taken(under, order)

    async def test_an_order_that_was_lost_is_never_taken_once_its_time_is_over(self, under: RailUnderTest) -> None:
        order = under.make_order()
        await under.lose_next_message()
        assert await under.rail.submit([order]) == [Unknown()]
        assert await under.rail.query([order.end_to_end_id]) == [Unknown()]
        await under.pass_time(timedelta(hours=13))
        await stays_never_taken(under, order)

    async def test_what_was_taken_in_time_is_not_never_taken(self, under: RailUnderTest) -> None:
        order = under.make_order()
        await under.lose_next_answer()
        await under.rail.submit([order])
        await under.pass_time(timedelta(hours=13))
        assert isinstance(await final_answer(under, order.end_to_end_id), Settled)

    # -- unknown outcomes

    async def test_a_lost_answer_is_unknown_until_it_is_asked_for(self, under: RailUnderTest) -> None:
        order = under.make_order()
        await under.lose_next_answer()
        assert await under.rail.submit([order]) == [Unknown()]
        assert isinstance(await final_answer(under, order.end_to_end_id), Settled)

    async def test_a_resend_after_a_lost_answer_is_no_rejection(self, under: RailUnderTest) -> None:
        order = under.make_order()
        await under.lose_next_answer()
        await under.rail.submit([order])
        await final_answer(under, order.end_to_end_id)
        [again] = await under.rail.submit([order])
        assert isinstance(again, AlreadyKnown | Settled)
        assert isinstance(await final_answer(under, order.end_to_end_id), Settled)

    async def test_a_lost_message_is_unknown_and_can_be_sent_again(self, under: RailUnderTest) -> None:
        order = under.make_order()
        await under.lose_next_message()
        assert await under.rail.submit([order]) == [Unknown()]
        assert await under.rail.query([order.end_to_end_id]) == [Unknown()]
        [again] = await under.rail.submit([order])
        assert isinstance(again, Taken | Settled)
        await settles_once(under, order.end_to_end_id)

    async def test_a_rejection_whose_answer_is_lost_is_found_out(self, under: RailUnderTest) -> None:
        order = under.make_order("rejected")
        await under.lose_next_answer()
        assert await under.rail.submit([order]) == [Unknown()]
        assert isinstance(await final_answer(under, order.end_to_end_id), Rejected)

    async def test_a_lost_answer_to_a_question_is_no_answer(self, under: RailUnderTest) -> None:
        order = under.make_order()
        await under.rail.submit([order])
        await final_answer(under, order.end_to_end_id)
        await under.lose_next_answer()
        with pytest.raises(RailUnavailable):
            await under.rail.query([order.end_to_end_id])
        assert isinstance((await under.rail.query([order.end_to_end_id]))[0], Settled)

    # -- unavailability

    async def test_while_nothing_can_be_reached_nothing_is_taken(self, under: RailUnderTest) -> None:
        orders = [under.make_order(), under.make_order()]
        refunds = [under.make_refund_order(unknown_id(orders[0]), 100)]
        await under.rail.check()
        async with under.unavailable():
            assert await under.rail.submit(orders) == [NotTaken(), NotTaken()]
            assert await under.rail.submit_refunds(refunds) == [NotTaken()]
        ids = [*(order.end_to_end_id for order in orders), refunds[0].return_id]
        assert await under.rail.query(ids) == [Unknown(), Unknown(), Unknown()]
        [answer] = await under.rail.submit(orders[:1])
        assert isinstance(answer, Taken | Settled)

    async def test_while_nothing_can_be_reached_every_question_says_so(self, under: RailUnderTest) -> None:
        order = under.make_order()
        async with under.unavailable():
            for ask in (
                under.rail.lookup_key(under.known_key, order.debit_party.tax_id, order.end_to_end_id),
                under.rail.query([order.end_to_end_id]),
                under.rail.reports(0.1),
                under.rail.acknowledge([Acknowledgement(report_id=order.end_to_end_id)]),
                under.rail.position(),
                read_statement(under, order.ordered_at, order.ordered_at + timedelta(hours=1)),
                under.rail.check(),
            ):
                with pytest.raises(RailUnavailable):
                    await ask
        await under.rail.check()

    async def test_what_settles_while_we_are_away_is_reported_afterwards(self, under: RailUnderTest) -> None:
        order = under.make_order()
        await under.rail.submit([order])
        async with under.unavailable():
            await asyncio.sleep(0.1)
        assert isinstance(await outcome(under, order.end_to_end_id), SettledReport)

    # -- refunds

    async def test_a_refund_settles_and_everybody_says_the_same(self, under: RailUnderTest) -> None:
        refund = under.make_refund_order(await receive(under, 1000), 400)
        [answer] = await under.rail.submit_refunds([refund])
        assert isinstance(answer, Taken | Settled)
        told = await outcome(under, refund.return_id)
        assert isinstance(told, SettledReport)
        assert await under.rail.query([refund.return_id]) == [Settled(settled_at=told.settled_at)]

    async def test_refunds_above_the_original_are_rejected(self, under: RailUnderTest) -> None:
        original = await receive(under, 1000)
        first, second = under.make_refund_order(original, 600), under.make_refund_order(original, 600)
        await under.rail.submit_refunds([first])
        assert isinstance(await final_answer(under, first.return_id), Settled)
        await under.rail.submit_refunds([second])
        assert isinstance(await final_answer(under, second.return_id), Rejected)
        rest = under.make_refund_order(original, 400)
        await under.rail.submit_refunds([rest])
        assert isinstance(await final_answer(under, rest.return_id), Settled)

    async def test_a_resend_of_a_refund_is_no_rejection(self, under: RailUnderTest) -> None:
        refund = under.make_refund_order(await receive(under, 1000), 1000)
        await under.rail.submit_refunds([refund])
        settled = await final_answer(under, refund.return_id)
        [again] = await under.rail.submit_refunds([refund])
        assert isinstance(again, AlreadyKnown | Settled)
        await under.pass_time(timedelta(hours=13))
        [again] = await under.rail.submit_refunds([refund])
        assert isinstance(again, AlreadyKnown | Settled)
        assert await under.rail.query([refund.return_id]) == [settled]

    async def test_a_refund_whose_answer_is_lost_is_asked_for(self, under: RailUnderTest) -> None:
        refund = under.make_refund_order(await receive(under, 1000), 1000)
        await under.lose_next_answer()
        assert await under.rail.submit_refunds([refund]) == [Unknown()]
        assert isinstance(await final_answer(under, refund.return_id), Settled)
        [again] = await under.rail.submit_refunds([refund])
        assert isinstance(again, AlreadyKnown | Settled)

    async def test_a_refund_that_never_arrived_can_be_sent_again(self, under: RailUnderTest) -> None:
        refund = under.make_refund_order(await receive(under, 1000), 1000)
        await under.lose_next_message()
        assert await under.rail.submit_refunds([refund]) == [Unknown()]
        assert await under.rail.query([refund.return_id]) == [Unknown()]
        await under.rail.submit_refunds([refund])
        await settles_once(under, refund.return_id)

    # -- reports

    async def test_our_word_on_what_was_never_reported_changes_nothing(self, under: RailUnderTest) -> None:
        order = under.make_order()
        await under.rail.acknowledge([Acknowledgement(report_id=unknown_id(order), refusal_code="AC03")])
        await under.rail.submit([order])
        await settles_once(under, order.end_to_end_id)

    async def test_strange_texts_come_through_and_hold_nobody_back(self, under: RailUnderTest) -> None:
        plain, strange = make_txid(), make_txid()
        paying = [
            asyncio.ensure_future(under.pay_in(100, strange, STRANGE_NAME)),
            asyncio.ensure_future(under.pay_in(100, plain)),
        ]
        for txid in (plain, strange):
            report = await next_report(under, CreditReport, lambda one, txid=txid: one.txid == txid)
            await under.rail.acknowledge([Acknowledgement(report_id=report.report_id)])
        assert await asyncio.gather(*paying) == [None, None]

    async def test_a_payment_is_reported_and_waits_for_our_word(self, under: RailUnderTest) -> None:
        txid = make_txid()
        paying = asyncio.ensure_future(under.pay_in(1234, txid))
        report = await next_report(under, CreditReport, lambda one: one.txid == txid)
        assert report.amount_cents == 1234
        assert len(report.end_to_end_id) == 32
        assert is_aware(report.reported_at)
        assert report.debit_party.tax_id
        assert not paying.done()
        since = await under.rail.waiting_since()
        assert since is not None, "it waits, although it was handed out"
        assert since <= report.reported_at
        await under.rail.acknowledge([Acknowledgement(report_id=report.report_id)])
        assert await paying is None

    async def test_a_payment_that_we_refuse_does_not_settle(self, under: RailUnderTest) -> None:
        txid = make_txid()
        paying = asyncio.ensure_future(under.pay_in(1234, txid))
        report = await next_report(under, CreditReport, lambda one: one.txid == txid)
        await under.rail.acknowledge([Acknowledgement(report_id=report.report_id, refusal_code="BE17")])
        assert await paying == "BE17"

    async def test_our_second_word_changes_nothing(self, under: RailUnderTest) -> None:
        txid = make_txid()
        paying = asyncio.ensure_future(under.pay_in(1234, txid))
        report = await next_report(under, CreditReport, lambda one: one.txid == txid)
        word = Acknowledgement(report_id=report.report_id)
        await under.rail.acknowledge([word])
        await under.rail.acknowledge([word])
        assert await paying is None

    async def test_our_word_whose_answer_is_lost_can_be_given_again(self, under: RailUnderTest) -> None:
        txid = make_txid()
        paying = asyncio.ensure_future(under.pay_in(1234, txid))
        report = await next_report(under, CreditReport, lambda one: one.txid == txid)
        word = Acknowledgement(report_id=report.report_id)
        await under.lose_next_answer()
        with pytest.raises(RailUnavailable):
            await under.rail.acknowledge([word])
        await under.rail.acknowledge([word])
        assert await paying is None

    async def test_a_return_is_reported_and_waits_for_our_word(self, under: RailUnderTest) -> None:
        order = under.make_order(amount_cents=500)
        await under.rail.submit([order])
        assert isinstance(await outcome(under, order.end_to_end_id), SettledReport)
        returning = asyncio.ensure_future(under.give_back(order.end_to_end_id, 200))
        report = await next_report(under, ReturnReport, lambda one: one.original_end_to_end_id == order.end_to_end_id)
        assert report.amount_cents == 200
        assert report.return_id != order.end_to_end_id
        assert is_aware(report.reported_at)
        await under.rail.acknowledge([Acknowledgement(report_id=report.report_id)])
        assert await returning is None

    async def test_a_report_comes_again_until_it_is_acknowledged(self, under: RailUnderTest) -> None:
        order = under.make_order()
        await under.rail.submit([order])
        first = await next_report(under, SettledReport, lambda one: one.id == order.end_to_end_id)
        again = await next_report(under, SettledReport, lambda one: one.id == order.end_to_end_id)
        assert again == first
        await under.rail.acknowledge([Acknowledgement(report_id=first.report_id)])

    async def test_a_report_that_is_lost_comes_again(self, under: RailUnderTest) -> None:
        order = under.make_order()
        await under.rail.submit([order])
        await final_answer(under, order.end_to_end_id)
        await under.lose_next_answer()
        with pytest.raises(RailUnavailable):
            await under.rail.reports(under.timeout_s)
        assert isinstance(await outcome(under, order.end_to_end_id), SettledReport)

    async def test_a_report_that_comes_twice_is_the_same(self, under: RailUnderTest) -> None:
        order = under.make_order()
        await under.repeat_next_report()
        await under.rail.submit([order])
        told = [await outcome(under, order.end_to_end_id) for _ in range(2)]
        assert told[0] == told[1]

    async def test_reports_come_oldest_first(self, under: RailUnderTest) -> None:
        orders = [under.make_order() for _ in range(3)]
        for order in orders:
            await under.rail.submit([order])
            await final_answer(under, order.end_to_end_id)
        ids = [order.end_to_end_id for order in orders]
        seen: list[str] = []
        async for report in incoming(under):
            if isinstance(report, SettledReport) and report.id in ids and report.id not in seen:
                seen.append(report.id)
                await under.rail.acknowledge([Acknowledgement(report_id=report.report_id)])
            if len(seen) == len(ids):
                break
        assert seen == ids

    async def test_without_reports_it_waits_as_long_as_it_was_told(self, under: RailUnderTest) -> None:
        while quiet := await under.rail.reports(0):
            await under.rail.acknowledge([Acknowledgement(report_id=one.report_id) for one in quiet])
        started_s = time.monotonic()
        assert await under.rail.reports(0.5) == []
        assert 0.4 < time.monotonic() - started_s < 0.5 + under.timeout_s

    async def test_whoever_waits_is_told_before_the_time_is_over(self, under: RailUnderTest) -> None:
        waiting = asyncio.ensure_future(under.rail.reports(under.timeout_s * 2))
        await asyncio.sleep(0.1)
        order = under.make_order()
        await under.rail.submit([order])
        started_s = time.monotonic()
        assert await waiting
        assert time.monotonic() - started_s < under.timeout_s

    async def test_whoever_stops_waiting_takes_no_report_along(self, under: RailUnderTest) -> None:
        waiting = asyncio.ensure_future(under.rail.reports(under.timeout_s))
        await asyncio.sleep(0.1)
        waiting.cancel()
        order = under.make_order()
        await under.rail.submit([order])
        assert isinstance(await outcome(under, order.end_to_end_id), SettledReport)

    # -- what has settled

    async def test_two_positions_differ_by_the_statement_between_them(self, under: RailUnderTest) -> None:
        before = await under.rail.position()
        sent, received, refund, returned = await settle_one_of_each(under)
        after = await under.rail.position()
        between = await read_statement(under, before.as_of, after.as_of)
        moved = {item.id: (item.kind, item.amount_cents) for item in between}
        assert moved.get(sent.end_to_end_id) == ("order", 500)
        assert moved.get(received) == ("credit", 1000)
        assert moved.get(refund.return_id) == ("refund", 400)
        assert moved.get(returned) == ("return", 200)
        # Also where others settle in the same test environment.
        assert after.amount_cents - before.amount_cents == sum(signed_cents(item) for item in between)

    async def test_a_statement_is_in_the_order_of_time_and_has_each_item_once(self, under: RailUnderTest) -> None:
        before = await under.rail.position()
        orders = [under.make_order() for _ in range(5)]
        # One after the other, so that they settle at different instants.
        for order in orders:
            await under.rail.submit([order])
        answers = [await final_answer(under, order.end_to_end_id) for order in orders]
        after = await under.rail.position()
        items = await read_statement(under, before.as_of, after.as_of)
        assert [item.settled_at for item in items] == sorted(item.settled_at for item in items)
        assert len({item.id for item in items}) == len(items)
        told = {item.id: item.settled_at for item in items}
        for order, answer in zip(orders, answers, strict=True):
            assert answer == Settled(settled_at=told[order.end_to_end_id])

    async def test_a_statement_begins_with_its_first_instant_and_ends_before_its_last(
        self, under: RailUnderTest
    ) -> None:
        before = await under.rail.position()
        order = under.make_order()
        await under.rail.submit([order])
        answer = await final_answer(under, order.end_to_end_id)
        assert isinstance(answer, Settled)
        await under.rail.position()
        at = answer.settled_at
        until = await read_statement(under, before.as_of, at)
        assert order.end_to_end_id not in {item.id for item in until}
        since = await read_statement(under, at, at + timedelta(microseconds=1))
        assert order.end_to_end_id in {item.id for item in since}

    async def test_what_did_not_settle_is_in_no_statement(self, under: RailUnderTest) -> None:
        before = await under.rail.position()
        rejected, txid = under.make_order("rejected"), make_txid()
        await under.rail.submit([rejected])
        await final_answer(under, rejected.end_to_end_id)
        paying = asyncio.ensure_future(under.pay_in(1234, txid))
        report = await next_report(under, CreditReport, lambda one: one.txid == txid)
        waiting = await under.rail.position()
        await under.rail.acknowledge([Acknowledgement(report_id=report.report_id, refusal_code="BE17")])
        assert await paying == "BE17"
        after = await under.rail.position()
        for until in (waiting.as_of, after.as_of):
            items = await read_statement(under, before.as_of, until)
            assert not {rejected.end_to_end_id, report.end_to_end_id} & {item.id for item in items}

    async def test_the_statement_of_a_span_that_is_over_stays_as_it_is(self, under: RailUnderTest) -> None:
        before = await under.rail.position()
        txid, order = make_txid(), under.make_order()
        paying = asyncio.ensure_future(under.pay_in(1234, txid))
        report = await next_report(under, CreditReport, lambda one: one.txid == txid)
        await under.rail.submit([order])
        await final_answer(under, order.end_to_end_id)
        middle = await under.rail.position()
        first = await read_statement(under, before.as_of, middle.as_of)
        # It was reported in the span, and settles after it.
        await under.rail.acknowledge([Acknowledgement(report_id=report.report_id)])
        assert await paying is None
        assert await read_statement(under, before.as_of, middle.as_of) == first
        after = await under.rail.position()
        later = await read_statement(under, middle.as_of, after.as_of)
        assert report.end_to_end_id in {item.id for item in later}


# -- what the tests are made of ----------------------------------------------------------------------------


async def final_answer(under: RailUnderTest, order_id: str) -> Settled | Rejected:
    """Ask until the answer is final."""
    deadline_s = time.monotonic() + under.timeout_s
    answer: QueryAnswer | None = None
    while time.monotonic() < deadline_s:
        [answer] = await under.rail.query([order_id])
        if isinstance(answer, Settled | Rejected):
            return answer
        assert not isinstance(answer, NeverTaken), "it was taken"
        await asyncio.sleep(min(0.05, under.timeout_s / 20))
    raise AssertionError(f"no outcome of {order_id} within {under.timeout_s} s; the last answer was {answer}")


async def outcome(under: RailUnderTest, order_id: str) -> Outcome:
    """The report of an order's outcome, acknowledged."""
    async for report in incoming(under):
        if isinstance(report, SettledReport | RejectedReport) and report.id == order_id:
            await under.rail.acknowledge([Acknowledgement(report_id=report.report_id)])
            return report
    raise AssertionError(f"no report of {order_id} within {under.timeout_s} s")


async def next_report(under: RailUnderTest, kind: type[OneReport], is_wanted: Callable[[OneReport], bool]) -> OneReport:
    """A report, not acknowledged."""
    async for report in incoming(under):
        if isinstance(report, kind) and is_wanted(report):
            return report
    raise AssertionError(f"no such {kind.__name__} within {under.timeout_s} s")


async def incoming(under: RailUnderTest) -> AsyncIterator[Report]:
    """Reports as they come, none acknowledged, until the timeout."""
    deadline_s = time.monotonic() + under.timeout_s
    while (left_s := deadline_s - time.monotonic()) > 0:
        for report in await under.rail.reports(left_s):
            yield report


async def settles_once(under: RailUnderTest, order_id: str) -> None:
    """However often it was sent: one outcome, the same to whoever asks and whoever is told."""
    answer = await final_answer(under, order_id)
    assert isinstance(answer, Settled)
    told = await outcome(under, order_id)
    assert isinstance(told, SettledReport)
    assert told.settled_at == answer.settled_at


async def stays_never_taken(under: RailUnderTest, order: Order) -> None:
    """Nothing settles under this id any more, whoever asks and whatever is still sent."""
    assert await under.rail.query([order.end_to_end_id]) == [NeverTaken()]
    [again] = await under.rail.submit([order])
    assert isinstance(again, AlreadyKnown | Unknown | Rejected)
    await asyncio.sleep(min(0.3, under.timeout_s / 10))
    assert await under.rail.query([order.end_to_end_id]) == [NeverTaken()]


async def receive(under: RailUnderTest, amount_cents: int) -> str:
    """A payment that came in and settled: what can be refunded."""
    txid = make_txid()
    paying = asyncio.ensure_future(under.pay_in(amount_cents, txid))
    report = await next_report(under, CreditReport, lambda one: one.txid == txid)
    await under.rail.acknowledge([Acknowledgement(report_id=report.report_id)])
    assert await paying is None
    return report.end_to_end_id


async def settle_one_of_each(under: RailUnderTest) -> tuple[Order, str, RefundOrder, str]:
    """An order of 500, a payment of 1000, a refund of 400 of it, and a return of 200 of the order, by its id."""
    sent, received = under.make_order(amount_cents=500), await receive(under, 1000)
    await under.rail.submit([sent])
    refund = under.make_refund_order(received, 400)
    await under.rail.submit_refunds([refund])
    for order_id in (sent.end_to_end_id, refund.return_id):
        assert isinstance(await final_answer(under, order_id), Settled)
    returning = asyncio.ensure_future(under.give_back(sent.end_to_end_id, 200))
    report = await next_report(under, ReturnReport, lambda one: one.original_end_to_end_id == sent.end_to_end_id)
    await under.rail.acknowledge([Acknowledgement(report_id=report.report_id)])
    assert await returning is None
    return sent, received, refund, report.return_id


async def read_statement(under: RailUnderTest, since: datetime, until: datetime) -> list[SettledItem]:
    return [item async for batch in under.rail.statement(since, until) for item in batch]


def signed_cents(item: SettledItem) -> int:
    return item.amount_cents if item.kind in {"credit", "return"} else -item.amount_cents


def make_txid() -> str:
    """A name by which the suite knows its own payments."""
    return secrets.token_hex(16)


def unknown_id(order: Order) -> str:
    """An id of a valid form that nobody has sent."""
    return f"{order.end_to_end_id[:-11]}{secrets.token_hex(6)[:11]}"


def is_aware(instant: datetime) -> bool:
    """Whether an instant says where it is."""
    return instant.tzinfo is not None
