"""The conformance suite of rails: tests that every adapter of ``kernel.rules.rail.Rail`` must pass.

Subclass ``RailConformance`` as ``Test...`` and give it a fixture ``under`` that yields a ``RailUnderTest``: the
adapter, and hooks that make the network behind it do what the tests need. ``docs/guides/write-a-rail.md`` explains each
step.

A rail that passes keeps the money safe: if messages are lost, repeated or late, it never reports a settled order as
rejected, and never reports an order as not taken that may have been sent. The suite only touches what it created, so it
can run against a shared test environment. It accepts every answer that the port allows, so it does not prescribe the
ways of one network. Abilities that a rail declares as missing are not tested, and the rail must not have them partly.
"""

import asyncio
import time
from contextlib import suppress
from datetime import timedelta
from typing import ClassVar, Final

import pytest
from msgspec import structs

from conformance import under_test as kit
from pixconnect.kernel.rules import rail as rails
from pixconnect.kernel.rules import reject_code

STRANGE_NAME: Final = 'O\'Neill \\ "José" \u202e\U0001f600 %s {} \x00\x1f'
"""Characters that break programs: quotes, control characters, a string terminator, a change of writing direction."""


class RailConformance:
    """The tests of one rail, given by the fixture ``under``.

    A test names the work that it needs by ``asks``, and a needed ability by ``needs``.
    """

    does: ClassVar[frozenset[kit.Work]] = kit.WORK  # the same as ``does`` of the rail under test

    # -- the directory

    @kit.asks("orders")
    async def test_a_known_key_leads_to_an_account(self, under: kit.RailUnderTest) -> None:
        kit.needs(under, "resolves_keys")
        order = under.make_order()
        entry = await under.rail.lookup_key(under.known_key, order.debit_party.tax_id, order.end_to_end_id)
        assert entry is not None
        assert (entry.key, entry.party.key, entry.party.key_type) == (under.known_key, under.known_key, entry.key_type)
        assert len(entry.party.ispb) == 8
        assert entry.party.name
        assert entry.party.tax_id
        assert entry.party.account_number

    @kit.asks("orders")
    async def test_an_unknown_key_is_an_answer(self, under: kit.RailUnderTest) -> None:
        kit.needs(under, "resolves_keys")
        order = under.make_order()
        assert await under.rail.lookup_key(under.unknown_key, order.debit_party.tax_id, order.end_to_end_id) is None

    # -- orders

    @kit.asks("orders", "reports")
    async def test_an_order_settles_and_everybody_says_the_same(self, under: kit.RailUnderTest) -> None:
        order = under.make_order()
        [answer] = await kit.submit(under, [order])
        assert isinstance(answer, rails.Taken | rails.Settled)
        told = await kit.outcome(under, order.end_to_end_id)
        assert isinstance(told, rails.SettledReport)
        assert kit.is_aware(told.settled_at)
        assert await kit.ask(under, order.end_to_end_id) == [rails.Settled(settled_at=told.settled_at)]
        if isinstance(answer, rails.Settled):
            assert answer == rails.Settled(settled_at=told.settled_at)

    @kit.asks("orders", "reports")
    async def test_an_order_is_rejected_with_the_schemes_reason(self, under: kit.RailUnderTest) -> None:
        order = under.make_order("rejected")
        [answer] = await kit.submit(under, [order])
        assert isinstance(answer, rails.Taken | rails.Rejected)
        if isinstance(answer, rails.Rejected) and not under.rail.abilities.answers_by_our_id:
            # An order that was rejected at once may have no id to ask by.
            asked = answer
        else:
            asked = await kit.final_answer(under, order.end_to_end_id)
        assert isinstance(asked, rails.Rejected)
        assert asked.code in reject_code.REASONS
        assert asked.reason
        if isinstance(answer, rails.Rejected):
            assert answer == asked
        else:
            told = await kit.outcome(under, order.end_to_end_id)
            assert isinstance(told, rails.RejectedReport)
            assert (told.code, told.reason) == (asked.code, asked.reason)

    @kit.asks("orders")
    async def test_a_group_is_answered_order_by_order(self, under: kit.RailUnderTest) -> None:
        fates: list[kit.Fate] = ["settles", "rejected", "settles"]
        orders = [under.make_order(fate) for fate in fates]
        answers = await kit.submit_until_taken(under, orders)
        assert len(answers) == 3
        # A busy rail may leave a submission unanswered. Its outcome is asked for below.
        assert all(isinstance(answer, rails.Taken | rails.Settled | rails.Unknown) for answer in answers[::2])
        assert isinstance(answers[1], rails.Taken | rails.Rejected | rails.Unknown)
        ids = [order.end_to_end_id for order in orders]
        for order_id in ids:
            await kit.final_answer(under, order_id)
        asked = await kit.ask(under, *reversed(ids), kit.unknown_id(orders[0]))
        assert [type(answer) for answer in asked] == [rails.Settled, rails.Rejected, rails.Settled, rails.Unknown]

    async def test_no_orders_are_no_answers(self, under: kit.RailUnderTest) -> None:
        assert await kit.submit(under, []) == []
        assert await kit.submit_refunds(under, []) == []
        assert await under.rail.query([]) == []
        await under.rail.acknowledge([])

    @kit.asks("orders")
    async def test_what_was_never_sent_is_unknown(self, under: kit.RailUnderTest) -> None:
        assert await kit.ask(under, kit.unknown_id(under.make_order())) == [rails.Unknown()]

    # -- names

    @kit.asks("orders", "refunds")
    async def test_an_order_is_asked_about_by_the_name_that_the_rail_says(self, under: kit.RailUnderTest) -> None:
        sent, _, refund = await kit.settle_an_order_and_a_refund(under)
        for order_id in (sent, refund):
            settled = await kit.final_answer(under, order_id)
            answers = await under.rail.query([order_id])
            by_our_id = [kit.note_name(under, order_id, answer) for answer in answers]
            assert by_our_id == [settled if under.rail.abilities.answers_by_our_id else rails.Unknown()]

    @kit.asks("orders", "refunds", "reports")
    async def test_a_name_of_the_network_is_told_by_the_time_of_the_outcome(self, under: kit.RailUnderTest) -> None:
        sent, _, refund = await kit.settle_an_order_and_a_refund(under)
        for order_id in (sent, refund):
            await kit.outcome(under, order_id)
            assert (order_id in under.names) is not under.rail.abilities.keeps_our_id

    # -- duplicates and late re-sends

    @kit.asks("orders", "reports")
    async def test_a_duplicate_at_once_is_no_rejection(self, under: kit.RailUnderTest) -> None:
        kit.needs(under, "answers_by_our_id")
        order = under.make_order()
        first, second = await kit.submit(under, [order, order])
        assert sum(isinstance(answer, rails.Taken | rails.Settled) for answer in (first, second)) >= 1
        assert not any(isinstance(answer, rails.Rejected | rails.NotTaken) for answer in (first, second))
        await kit.settles_once(under, order.end_to_end_id)

    @kit.asks("orders", "reports")
    async def test_duplicates_from_two_sides_are_no_rejections(self, under: kit.RailUnderTest) -> None:
        kit.needs(under, "answers_by_our_id")
        orders = [under.make_order() for _ in range(5)]
        groups = await asyncio.gather(kit.submit(under, orders), kit.submit(under, orders[::-1]))
        assert not any(isinstance(answer, rails.Rejected | rails.NotTaken) for answers in groups for answer in answers)
        for order in orders:
            await kit.settles_once(under, order.end_to_end_id)

    @kit.asks("orders", "reports")
    async def test_a_resend_of_a_settled_order_is_no_rejection(self, under: kit.RailUnderTest) -> None:
        kit.needs(under, "answers_by_our_id")
        order = under.make_order()
        await kit.submit(under, [order])
        settled = await kit.final_answer(under, order.end_to_end_id)
        [again] = await kit.submit(under, [order])
        assert isinstance(again, rails.AlreadyKnown | rails.Settled)
        assert await kit.ask(under, order.end_to_end_id) == [settled]
        await kit.settles_once(under, order.end_to_end_id)
        await under.pass_time(timedelta(hours=13))
        [again] = await kit.submit(under, [order])
        assert isinstance(again, rails.AlreadyKnown | rails.Settled)
        assert await kit.ask(under, order.end_to_end_id) == [settled]

    @kit.asks("orders")
    async def test_a_resend_of_a_rejected_order_does_not_settle_it(self, under: kit.RailUnderTest) -> None:
        kit.needs(under, "answers_by_our_id")
        order = under.make_order("rejected")
        await kit.submit(under, [order])
        rejected = await kit.final_answer(under, order.end_to_end_id)
        for hours in (0, 13):
            await under.pass_time(timedelta(hours=hours))
            [again] = await kit.submit(under, [order])
            assert isinstance(again, rails.AlreadyKnown) or again == rejected
            assert await kit.ask(under, order.end_to_end_id) == [rejected]

    @kit.asks("orders")
    async def test_a_resend_with_another_amount_changes_nothing(self, under: kit.RailUnderTest) -> None:
        kit.needs(under, "answers_by_our_id")
        for fate in kit.FATES:
            order = under.make_order(fate)
            await kit.submit_until_taken(under, [order])
            final = await kit.final_answer(under, order.end_to_end_id)
            [again] = await kit.submit(under, [structs.replace(order, amount_cents=order.amount_cents + 1)])
            assert isinstance(again, rails.AlreadyKnown) or again == final
            assert await kit.ask(under, order.end_to_end_id) == [final]

    # -- what is never taken

    @kit.asks("orders")
    async def test_an_order_that_comes_too_late_is_never_taken(self, under: kit.RailUnderTest) -> None:
        kit.needs(under, "answers_by_our_id")
        order = under.make_order()
        await under.pass_time(timedelta(hours=13))
        [late] = await kit.submit(under, [order])
        assert isinstance(late, rails.AlreadyKnown | rails.Unknown)
        await kit.stays_never_taken(under, order)

    @kit.asks("orders")
    async def test_an_order_that_was_lost_is_never_taken_once_its_time_is_over(self, under: kit.RailUnderTest) -> None:
        kit.needs(under, "answers_by_our_id")
        order = under.make_order()
        await under.lose_next_message()
        assert await kit.submit(under, [order]) == [rails.Unknown()]
        assert isinstance((await kit.ask(under, order.end_to_end_id))[0], rails.Unknown)
        await under.pass_time(timedelta(hours=13))
        if "memory" in under.does:
            # It has called, and the institution may still report the order, so the answer stays unknown.
            assert isinstance((await kit.ask(under, order.end_to_end_id))[0], rails.Unknown)
            [again] = await kit.submit(under, [order])
            assert isinstance(again, rails.AlreadyKnown | rails.Unknown)
        else:
            await kit.stays_never_taken(under, order)

    @kit.asks("orders")
    async def test_what_was_taken_in_time_is_not_never_taken(self, under: kit.RailUnderTest) -> None:
        order = under.make_order()
        await under.lose_next_answer()
        await kit.submit(under, [order])
        await under.pass_time(timedelta(hours=13))
        assert isinstance(await kit.final_answer(under, order.end_to_end_id), rails.Settled)

    # -- unknown outcomes

    @kit.asks("orders")
    async def test_a_lost_answer_is_unknown_until_it_is_asked_for(self, under: kit.RailUnderTest) -> None:
        order = under.make_order()
        await under.lose_next_answer()
        assert await kit.submit(under, [order]) == [rails.Unknown()]
        assert isinstance(await kit.final_answer(under, order.end_to_end_id, order), rails.Settled)

    @kit.asks("orders")
    async def test_a_resend_after_a_lost_answer_is_no_rejection(self, under: kit.RailUnderTest) -> None:
        kit.needs(under, "answers_by_our_id")
        order = under.make_order()
        await under.lose_next_answer()
        await kit.submit(under, [order])
        await kit.final_answer(under, order.end_to_end_id, order)
        [again] = await kit.submit(under, [order])
        assert isinstance(again, rails.AlreadyKnown | rails.Settled)
        assert isinstance(await kit.final_answer(under, order.end_to_end_id), rails.Settled)

    @kit.asks("orders", "reports")
    async def test_a_lost_message_is_unknown_and_can_be_sent_again(self, under: kit.RailUnderTest) -> None:
        kit.needs(under, "answers_by_our_id")
        order = under.make_order()
        await under.lose_next_message()
        assert await kit.submit(under, [order]) == [rails.Unknown()]
        assert await kit.ask(under, order.end_to_end_id) == [rails.Unknown()]
        [again] = await kit.submit(under, [order])
        assert isinstance(again, rails.Taken | rails.Settled)
        await kit.settles_once(under, order.end_to_end_id)

    @kit.asks("orders")
    async def test_a_rejection_whose_answer_is_lost_is_found_out(self, under: kit.RailUnderTest) -> None:
        order = under.make_order("rejected")
        await under.lose_next_answer()
        assert await kit.submit(under, [order]) == [rails.Unknown()]
        assert isinstance(await kit.final_answer(under, order.end_to_end_id, order), rails.Rejected)

    @kit.asks("orders")
    async def test_a_lost_answer_to_a_question_is_no_answer(self, under: kit.RailUnderTest) -> None:
        order = under.make_order()
        await kit.submit(under, [order])
        settled = await kit.final_answer(under, order.end_to_end_id)
        await (under.disturb_next_list("lost") if "lists" in under.does else under.lose_next_answer())
        # The rail may ask once more by itself. "It may have it" forbids a second submission too; "unknown" would not.
        with suppress(rails.RailUnavailable):
            assert (await kit.ask(under, order.end_to_end_id))[0] in (rails.Taken(), settled)
        assert await kit.final_answer(under, order.end_to_end_id) == settled

    @kit.asks("orders", "memory")
    async def test_an_order_is_sent_once_wherever_its_memory_is_put_back_to(self, under: kit.RailUnderTest) -> None:
        for remembered in kit.REMEMBERED:
            order = under.make_order(amount_cents=300)
            before_cents = await kit.read_funds_there(under)
            await kit.submit_until_taken(under, [order])
            # Once before a submission, and once before a question.
            await under.forget(remembered)
            [answer] = await kit.submit_until_taken(under, [order])
            assert not isinstance(answer, rails.Rejected), (remembered, answer)
            for _ in range(2):
                assert isinstance(await kit.final_answer(under, order.end_to_end_id, order), rails.Settled)
                await under.forget(remembered)
            assert before_cents - await kit.read_funds_there(under) == 300, remembered

    # -- unavailability

    @kit.asks("orders", "refunds")
    async def test_while_nothing_can_be_reached_nothing_is_taken(self, under: kit.RailUnderTest) -> None:
        orders = [under.make_order(), under.make_order()]
        refunds = [under.make_refund_order(kit.unknown_id(orders[0]), 100)]
        await under.rail.check()
        async with under.unavailable():
            assert await kit.submit(under, orders) == [rails.NotTaken(), rails.NotTaken()]
            # A rail that does not repeat refunds asks first, and without an answer it cannot know.
            assert await kit.submit_refunds(under, refunds) == [
                rails.NotTaken() if "repeats" in under.does else rails.Unknown()
            ]
        ids = [*(order.end_to_end_id for order in orders), refunds[0].return_id]
        assert await kit.ask(under, *ids) == [rails.Unknown(), rails.Unknown(), rails.Unknown()]
        [answer] = await kit.submit_until_taken(under, orders[:1])
        assert isinstance(answer, rails.Taken | rails.Settled)

    @kit.asks("orders", "reports", "statement")
    async def test_while_nothing_can_be_reached_every_question_says_so(self, under: kit.RailUnderTest) -> None:
        order = under.make_order()
        async with under.unavailable():
            for asking in (
                under.rail.lookup_key(under.known_key, order.debit_party.tax_id, order.end_to_end_id),
                kit.ask(under, order.end_to_end_id),
                under.rail.reports(0.1),
                under.rail.acknowledge([rails.Acknowledgement(report_id=order.end_to_end_id)]),
                under.rail.position(),
                kit.read_statement(under, order.ordered_at, order.ordered_at + timedelta(hours=1)),
                under.rail.check(),
            ):
                with pytest.raises(rails.RailUnavailable):
                    await asking
        await under.rail.check()

    @kit.asks("orders", "reports")
    async def test_what_settles_while_we_are_away_is_reported_afterwards(self, under: kit.RailUnderTest) -> None:
        order = under.make_order()
        await kit.submit(under, [order])
        async with under.unavailable():
            await asyncio.sleep(0.1)
        assert isinstance(await kit.outcome(under, order.end_to_end_id), rails.SettledReport)

    # -- refunds

    @kit.asks("refunds")
    async def test_a_refund_settles_and_everybody_says_the_same(self, under: kit.RailUnderTest) -> None:
        refund = under.make_refund_order(await kit.receive(under, 1000), 1000)
        [answer] = await kit.submit_refunds(under, [refund])
        assert isinstance(answer, rails.Taken | rails.Settled)
        await kit.settles_once(under, refund.return_id)

    @kit.asks("refunds")
    async def test_a_refund_that_was_never_sent_is_unknown(self, under: kit.RailUnderTest) -> None:
        refund = under.make_refund_order(await kit.receive(under, 1000), 1000)
        assert await kit.ask(under, refund.return_id) == [rails.Unknown()]

    @kit.asks("refunds")
    async def test_a_refund_moves_its_amount_once_however_often_it_is_sent(self, under: kit.RailUnderTest) -> None:
        kit.needs(under, "answers_by_our_id")
        kit.needs(under, "refunds_partly")
        refund = under.make_refund_order(await kit.receive(under, 1000), 300)
        before_cents = await kit.read_funds_there(under)
        groups = await asyncio.gather(*(kit.submit_refunds(under, [refund, refund]) for _ in range(2)))
        answers = [answer for group in groups for answer in group]
        assert not any(isinstance(answer, rails.Rejected | rails.NotTaken) for answer in answers), answers
        await kit.settles_once(under, refund.return_id)
        settled = await kit.ask(under, refund.return_id)
        await kit.submit_refunds(under, [refund])
        assert await kit.ask(under, refund.return_id) == settled
        assert before_cents - await kit.read_funds_there(under) == 300

    @kit.asks("refunds")
    async def test_refunds_are_asked_about_each_by_its_own_payment(self, under: kit.RailUnderTest) -> None:
        first = under.make_refund_order(await kit.receive(under, 1000), 1000)
        second = under.make_refund_order(await kit.receive(under, 700), 700)
        await kit.submit_refunds(under, [first])
        settled = await kit.final_answer(under, first.return_id)
        assert isinstance(settled, rails.Settled)
        assert await kit.ask(under, second.return_id) == [rails.Unknown()]
        await kit.submit_refunds(under, [second])
        assert isinstance(await kit.final_answer(under, second.return_id), rails.Settled)
        assert await kit.ask(under, first.return_id) == [settled]

    @kit.asks("refunds")
    async def test_while_nothing_can_be_reached_no_refund_is_taken(self, under: kit.RailUnderTest) -> None:
        refund = under.make_refund_order(await kit.receive(under, 1000), 1000)
        before_cents = await kit.read_funds_there(under)
        async with under.unavailable():
            [answer] = await kit.submit_refunds(under, [refund])
            # A rail that does not repeat refunds asks first, and without an answer it cannot know.
            assert answer == (rails.NotTaken() if "repeats" in under.does else rails.Unknown())
        assert await kit.ask(under, refund.return_id) == [rails.Unknown()]
        assert await kit.read_funds_there(under) == before_cents
        await kit.submit_refunds(under, [refund])
        await kit.settles_once(under, refund.return_id)

    @kit.asks("refunds")
    async def test_while_all_is_away_a_refund_query_is_not_answered(self, under: kit.RailUnderTest) -> None:
        refund = under.make_refund_order(await kit.receive(under, 1000), 1000)
        await kit.submit_refunds(under, [refund])
        settled = await kit.final_answer(under, refund.return_id)
        other = under.make_refund_order(await kit.receive(under, 700), 700)
        await under.lose_next_answer()
        await kit.submit_refunds(under, [other])
        async with under.unavailable():
            # "It may have it" forbids a second submission too; "unknown" would not.
            with suppress(rails.RailUnavailable):
                assert await kit.ask(under, other.return_id) == [rails.Taken()]
        assert await kit.ask(under, refund.return_id) == [settled]
        assert isinstance(await kit.final_answer(under, other.return_id), rails.Settled)

    @kit.asks("refunds")
    async def test_a_refund_that_never_left_is_never_taken_once_its_time_is_over(self, under: kit.RailUnderTest) -> None:
        kit.needs(under, "answers_by_our_id")
        refund = under.make_refund_order(await kit.receive(under, 1000), 1000)
        before_cents = await kit.read_funds_there(under)
        async with under.unavailable():
            await kit.submit_refunds(under, [refund])
        assert await kit.ask(under, refund.return_id) == [rails.Unknown()]
        await under.pass_time(timedelta(hours=13))
        assert await kit.ask(under, refund.return_id) == [rails.NeverTaken()]
        [late] = await kit.submit_refunds(under, [refund])
        assert isinstance(late, rails.AlreadyKnown | rails.Unknown | rails.Rejected)
        assert await kit.ask(under, refund.return_id) == [rails.NeverTaken()]
        assert await kit.read_funds_there(under) == before_cents

    @kit.asks("refunds")
    async def test_a_refund_that_was_taken_in_time_is_not_never_taken(self, under: kit.RailUnderTest) -> None:
        refund = under.make_refund_order(await kit.receive(under, 1000), 1000)
        await under.lose_next_answer()
        await kit.submit_refunds(under, [refund])
        await under.pass_time(timedelta(hours=13))
        assert isinstance(await kit.final_answer(under, refund.return_id), rails.Settled)

    @kit.asks("refunds", "memory")
    async def test_a_refund_is_made_once_though_what_was_remembered_of_it_is_lost(self, under: kit.RailUnderTest) -> None:
        refund = under.make_refund_order(await kit.receive(under, 1000), 300)
        before_cents = await kit.read_funds_there(under)
        for loses in (under.lose_next_answer, None):
            if loses is not None:
                await loses()
            await kit.submit_refunds(under, [refund])
            await under.forget()
        answers = await kit.submit_refunds(under, [refund])
        assert not any(isinstance(answer, rails.Rejected | rails.NotTaken) for answer in answers), answers
        await kit.settles_once(under, refund.return_id)
        await under.forget()
        await kit.settles_once(under, refund.return_id)
        assert before_cents - await kit.read_funds_there(under) == 300

    @kit.asks("refunds", "memory")
    async def test_a_refund_is_made_once_wherever_its_memory_is_put_back_to(self, under: kit.RailUnderTest) -> None:
        for remembered in kit.REMEMBERED:
            refund = under.make_refund_order(await kit.receive(under, 1000), 300)
            before_cents = await kit.read_funds_there(under)
            await kit.submit_refunds(under, [refund])
            # Once before a submission, and once before a question.
            await under.forget(remembered)
            [answer] = await kit.submit_refunds(under, [refund])
            assert not isinstance(answer, rails.Rejected | rails.NotTaken), (remembered, answer)
            await kit.settles_once(under, refund.return_id)
            await under.forget(remembered)
            await kit.settles_once(under, refund.return_id)
            assert before_cents - await kit.read_funds_there(under) == 300, remembered

    @kit.asks("refunds")
    async def test_a_part_is_refunded_by_a_rail_that_does_that_and_by_no_other(self, under: kit.RailUnderTest) -> None:
        part = under.make_refund_order(await kit.receive(under, 1000), 400)
        [answer] = await kit.submit_refunds(under, [part])
        # A refund that was rejected at once may have no id to ask by.
        if not isinstance(answer, rails.Rejected):
            answer = await kit.final_answer(under, part.return_id)
        assert isinstance(answer, rails.Settled if under.rail.abilities.refunds_partly else rails.Rejected)

    @kit.asks("refunds")
    async def test_refunds_above_the_original_move_nothing(self, under: kit.RailUnderTest) -> None:
        kit.needs(under, "refunds_partly")
        original = await kit.receive(under, 1000)
        before_cents = await kit.read_funds_there(under)
        first, second = under.make_refund_order(original, 600), under.make_refund_order(original, 600)
        await kit.submit_refunds(under, [first])
        assert isinstance(await kit.final_answer(under, first.return_id), rails.Settled)
        [answer] = await kit.submit_refunds(under, [second])
        assert not isinstance(answer, rails.Settled)
        [asked] = await kit.ask(under, second.return_id)
        assert not isinstance(asked, rails.Settled | rails.NeverTaken)
        assert before_cents - await kit.read_funds_there(under) == 600

    @kit.asks("refunds", "refusals")
    async def test_refunds_above_the_original_are_rejected(self, under: kit.RailUnderTest) -> None:
        kit.needs(under, "refunds_partly")
        original = await kit.receive(under, 1000)
        first, second = under.make_refund_order(original, 600), under.make_refund_order(original, 600)
        await kit.submit_refunds(under, [first])
        assert isinstance(await kit.final_answer(under, first.return_id), rails.Settled)
        await kit.submit_refunds(under, [second])
        assert isinstance(await kit.final_answer(under, second.return_id), rails.Rejected)
        rest = under.make_refund_order(original, 400)
        await kit.submit_refunds(under, [rest])
        assert isinstance(await kit.final_answer(under, rest.return_id), rails.Settled)

    @kit.asks("refunds")
    async def test_a_resend_of_a_refund_is_no_rejection(self, under: kit.RailUnderTest) -> None:
        kit.needs(under, "answers_by_our_id")
        refund = under.make_refund_order(await kit.receive(under, 1000), 1000)
        await kit.submit_refunds(under, [refund])
        settled = await kit.final_answer(under, refund.return_id)
        [again] = await kit.submit_refunds(under, [refund])
        assert isinstance(again, rails.AlreadyKnown | rails.Settled)
        await under.pass_time(timedelta(hours=13))
        [again] = await kit.submit_refunds(under, [refund])
        assert isinstance(again, rails.AlreadyKnown | rails.Settled)
        assert await kit.ask(under, refund.return_id) == [settled]

    @kit.asks("refunds")
    async def test_a_refund_whose_answer_is_lost_is_asked_for(self, under: kit.RailUnderTest) -> None:
        refund = under.make_refund_order(await kit.receive(under, 1000), 1000)
        await under.lose_next_answer()
        assert await kit.submit_refunds(under, [refund]) == [rails.Unknown()]
        assert isinstance(await kit.final_answer(under, refund.return_id), rails.Settled)

    @kit.asks("refunds", "repeats")
    async def test_a_refund_that_never_arrived_can_be_sent_again(self, under: kit.RailUnderTest) -> None:
        kit.needs(under, "answers_by_our_id")
        refund = under.make_refund_order(await kit.receive(under, 1000), 1000)
        await under.lose_next_message()
        assert await kit.submit_refunds(under, [refund]) == [rails.Unknown()]
        assert await kit.ask(under, refund.return_id) == [rails.Unknown()]
        await kit.submit_refunds(under, [refund])
        await kit.settles_once(under, refund.return_id)

    # -- lists, where what came in is not reported

    @kit.asks("lists")
    async def test_a_payment_is_listed_once_and_again_and_says_the_same(self, under: kit.RailUnderTest) -> None:
        txids = [kit.make_txid() for _ in range(3)]
        before_cents = await under.read_funds()
        for number, txid in enumerate(txids, start=1):
            assert await under.pay_in(1000 + number, txid) is None
        listed = [await kit.find_listed(under, txid) for txid in txids]
        for number, report in enumerate(listed, start=1):
            assert report.amount_cents == 1000 + number
            assert len(report.end_to_end_id) == 32
            assert kit.is_aware(report.reported_at)
        assert len({report.end_to_end_id for report in listed}) == len(listed)
        assert len({report.report_id for report in listed}) == len(listed)
        assert [await kit.find_listed(under, txid) for txid in reversed(txids)] == listed[::-1]
        assert await under.read_funds() - before_cents == sum(report.amount_cents for report in listed)

    @kit.asks("lists")
    async def test_a_list_of_which_an_answer_is_lost_is_whole_or_none(self, under: kit.RailUnderTest) -> None:
        txid = kit.make_txid()
        await under.pay_in(1234, txid)
        first = await kit.find_listed(under, txid)
        await under.disturb_next_list("lost")
        with suppress(rails.RailUnavailable):
            assert first in await under.list_received()
        assert await kit.find_listed(under, txid) == first

    @kit.asks("lists")
    async def test_what_a_list_is_late_with_it_names_later(self, under: kit.RailUnderTest) -> None:
        early, late = kit.make_txid(), kit.make_txid()
        await under.pay_in(1234, early)
        first = await kit.find_listed(under, early)
        await under.pay_in(1235, late)
        await under.disturb_next_list("late")
        await under.list_received()
        assert (await kit.find_listed(under, late)).amount_cents == 1235
        assert await kit.find_listed(under, early) == first

    @kit.asks("lists")
    async def test_while_nothing_can_be_reached_no_list_is_empty(self, under: kit.RailUnderTest) -> None:
        txid = kit.make_txid()
        await under.pay_in(1234, txid)
        async with under.unavailable():
            with pytest.raises(rails.RailUnavailable):
                await under.list_received()
            with pytest.raises(rails.RailUnavailable):
                await under.rail.check()
        assert (await kit.find_listed(under, txid)).amount_cents == 1234
        await under.rail.check()

    @kit.asks("lists", "refunds")
    async def test_a_payment_that_was_refunded_is_listed_as_before(self, under: kit.RailUnderTest) -> None:
        txid = kit.make_txid()
        await under.pay_in(1000, txid)
        first = await kit.find_listed(under, txid)
        refund = under.make_refund_order(first.end_to_end_id, 1000)
        await kit.submit_refunds(under, [refund])
        await kit.settles_once(under, refund.return_id)
        assert await kit.find_listed(under, txid) == first

    # -- reports

    @kit.asks("orders", "reports")
    async def test_our_word_on_what_was_never_reported_changes_nothing(self, under: kit.RailUnderTest) -> None:
        order = under.make_order()
        await under.rail.acknowledge([rails.Acknowledgement(report_id=kit.unknown_id(order), refusal_code="AC03")])
        await kit.submit(under, [order])
        await kit.settles_once(under, order.end_to_end_id)

    @kit.asks("reports")
    async def test_strange_texts_come_through_and_hold_nobody_back(self, under: kit.RailUnderTest) -> None:
        plain, strange = kit.make_txid(), kit.make_txid()
        paying = [kit.begin(under.pay_in(100, strange, STRANGE_NAME)), kit.begin(under.pay_in(100, plain))]
        for txid in (plain, strange):
            await kit.take_payment(under, txid)
        assert await asyncio.gather(*paying) == [None, None]

    @kit.asks("reports")
    async def test_a_payment_is_reported_and_waits_for_our_word(self, under: kit.RailUnderTest) -> None:
        txid = kit.make_txid()
        paying = kit.begin(under.pay_in(1234, txid))
        report = await kit.next_report(under, rails.CreditReport, lambda one: one.txid == txid)
        assert report.amount_cents == 1234
        assert len(report.end_to_end_id) == 32
        assert kit.is_aware(report.reported_at)
        assert report.debit_party.tax_id
        assert not paying.done()
        since = await under.rail.waiting_since()
        assert since is not None, "it waits, although it was handed out"
        assert since <= report.reported_at
        await kit.take_payment(under, txid)
        assert await paying is None

    @kit.asks("reports")
    async def test_our_refusal_of_a_payment_counts_where_the_rail_takes_it(self, under: kit.RailUnderTest) -> None:
        txid = kit.make_txid()
        paying = kit.begin(under.pay_in(1234, txid))
        assert await kit.refuse_payment(under, txid, paying) == ("BE17" if under.rail.abilities.refuses_credits else None)

    @kit.asks("reports")
    async def test_our_word_can_be_given_again_also_if_its_answer_is_lost(self, under: kit.RailUnderTest) -> None:
        txid = kit.make_txid()
        paying = kit.begin(under.pay_in(1234, txid))
        report = await kit.next_report(under, rails.CreditReport, lambda one: one.txid == txid)
        word = rails.Acknowledgement(report_id=report.report_id)
        await under.lose_next_answer()
        with pytest.raises(rails.RailUnavailable):
            await under.rail.acknowledge([word])
        for _ in range(2):
            await under.rail.acknowledge([word])
        if isinstance(report, rails.CreditAccepted):
            await kit.take_payment(under, txid)
        assert await paying is None

    @kit.asks("reports", "statement")
    async def test_a_payment_that_was_accepted_settles_by_a_report_of_its_own(self, under: kit.RailUnderTest) -> None:
        txid = kit.make_txid()
        before = await under.rail.position()
        paying = kit.begin(under.pay_in_two_steps(1234, txid, "settles"))
        accepted = await kit.next_report(under, rails.CreditAccepted, lambda one: one.txid == txid)
        await under.rail.acknowledge([rails.Acknowledgement(report_id=accepted.report_id)])
        end = await kit.next_report(under, rails.CreditReport, lambda one: kit.is_end(one, txid))
        assert type(end) is rails.CreditReport
        assert kit.is_same_payment(accepted, end)
        assert end.report_id != accepted.report_id
        assert not paying.done()
        middle = await under.rail.position()
        assert end.end_to_end_id not in {item.id for item in await kit.read_statement(under, before.as_of, middle.as_of)}
        await under.rail.acknowledge([rails.Acknowledgement(report_id=end.report_id)])
        assert await paying is None

    @kit.asks("reports", "statement")
    async def test_a_payment_that_was_accepted_and_cancelled_never_settles(self, under: kit.RailUnderTest) -> None:
        txid = kit.make_txid()
        before = await under.rail.position()
        paying = kit.begin(under.pay_in_two_steps(1234, txid, "rejected"))
        accepted = await kit.next_report(under, rails.CreditAccepted, lambda one: one.txid == txid)
        await under.rail.acknowledge([rails.Acknowledgement(report_id=accepted.report_id)])
        end = await kit.next_report(under, rails.CreditReport, lambda one: kit.is_end(one, txid))
        assert isinstance(end, rails.CreditCancelled)
        assert end.code in reject_code.REASONS
        assert kit.is_same_payment(accepted, end)
        assert end.report_id != accepted.report_id
        await under.rail.acknowledge([rails.Acknowledgement(report_id=end.report_id)])
        assert await paying == end.code
        after = await under.rail.position()
        assert end.end_to_end_id not in {item.id for item in await kit.read_statement(under, before.as_of, after.as_of)}

    @kit.asks("orders", "reports")
    async def test_a_return_is_reported_and_waits_for_our_word(self, under: kit.RailUnderTest) -> None:
        order = under.make_order(amount_cents=500)
        await kit.submit(under, [order])
        assert isinstance(await kit.outcome(under, order.end_to_end_id), rails.SettledReport)
        returning = kit.begin(under.give_back(order.end_to_end_id, 200))
        report = await kit.next_report(under, rails.ReturnReport, lambda one: one.original_end_to_end_id == order.end_to_end_id)
        assert report.amount_cents == 200
        assert report.return_id != order.end_to_end_id
        assert kit.is_aware(report.reported_at)
        await under.rail.acknowledge([rails.Acknowledgement(report_id=report.report_id)])
        assert await returning is None

    @kit.asks("orders", "reports")
    async def test_a_report_comes_again_until_it_is_acknowledged(self, under: kit.RailUnderTest) -> None:
        order = under.make_order()
        await kit.submit(under, [order])
        first = await kit.next_report(under, rails.SettledReport, lambda one: one.id == order.end_to_end_id)
        again = await kit.next_report(under, rails.SettledReport, lambda one: one.id == order.end_to_end_id)
        assert again == first
        await under.rail.acknowledge([rails.Acknowledgement(report_id=first.report_id)])

    @kit.asks("orders", "reports")
    async def test_a_report_that_is_lost_comes_again(self, under: kit.RailUnderTest) -> None:
        order = under.make_order()
        await kit.submit(under, [order])
        await kit.final_answer(under, order.end_to_end_id)
        await under.lose_next_answer()
        with pytest.raises(rails.RailUnavailable):
            await under.rail.reports(under.timeout_s)
        assert isinstance(await kit.outcome(under, order.end_to_end_id), rails.SettledReport)

    @kit.asks("orders", "reports")
    async def test_a_report_that_comes_twice_is_the_same(self, under: kit.RailUnderTest) -> None:
        order = under.make_order()
        await under.repeat_next_report()
        await kit.submit(under, [order])
        told = [await kit.outcome(under, order.end_to_end_id) for _ in range(2)]
        assert told[0] == told[1]

    @kit.asks("orders", "reports")
    async def test_reports_come_oldest_first(self, under: kit.RailUnderTest) -> None:
        # The outcome of the others is only known from reports.
        kit.needs(under, "answers_by_our_id")
        orders = [under.make_order() for _ in range(3)]
        for order in orders:
            await kit.submit(under, [order])
            await kit.final_answer(under, order.end_to_end_id)
        ids = [order.end_to_end_id for order in orders]
        seen: list[str] = []
        async for report in kit.incoming(under):
            if isinstance(report, rails.SettledReport) and report.id in ids and report.id not in seen:
                seen.append(report.id)
                await under.rail.acknowledge([rails.Acknowledgement(report_id=report.report_id)])
            if len(seen) == len(ids):
                break
        assert seen == ids

    @kit.asks("reports")
    async def test_without_reports_it_waits_as_long_as_it_was_told(self, under: kit.RailUnderTest) -> None:
        while quiet := await under.rail.reports(0):
            await under.rail.acknowledge([rails.Acknowledgement(report_id=one.report_id) for one in quiet])
        started_s = time.monotonic()
        assert await under.rail.reports(0.5) == []
        assert 0.4 < time.monotonic() - started_s < 0.5 + under.timeout_s

    @kit.asks("orders", "reports")
    async def test_whoever_waits_is_told_before_the_time_is_over(self, under: kit.RailUnderTest) -> None:
        started_s = time.monotonic()
        waiting = kit.begin(under.rail.reports(under.timeout_s))
        await asyncio.sleep(0.1)
        order = under.make_order()
        await kit.submit(under, [order])
        assert await waiting
        assert time.monotonic() - started_s < under.timeout_s

    @kit.asks("orders", "reports")
    async def test_whoever_stops_waiting_takes_no_report_along(self, under: kit.RailUnderTest) -> None:
        waiting = kit.begin(under.rail.reports(under.timeout_s))
        await asyncio.sleep(0.1)
        waiting.cancel()
        order = under.make_order()
        await kit.submit(under, [order])
        assert isinstance(await kit.outcome(under, order.end_to_end_id), rails.SettledReport)

    # -- what has settled

    @kit.asks("orders", "refunds", "reports", "statement")
    async def test_two_positions_differ_by_the_statement_between_them(self, under: kit.RailUnderTest) -> None:
        before = await under.rail.position()
        sent, received, refund, returned = await kit.settle_one_of_each(under)
        after = await under.rail.position()
        between = await kit.read_statement(under, before.as_of, after.as_of)
        moved = {item.id: (item.kind, item.amount_cents) for item in between}
        assert moved.get(sent) == ("order", 500)
        assert moved.get(received) == ("credit", 1000)
        assert moved.get(refund) == ("refund", 1000)
        assert moved.get(returned) == ("return", 200)
        # Others may settle orders in the same test environment.
        assert after.amount_cents - before.amount_cents == sum(kit.signed_cents(item) for item in between)

    @kit.asks("orders", "statement")
    async def test_a_statement_is_in_the_order_of_time_and_has_each_item_once(self, under: kit.RailUnderTest) -> None:
        before = await under.rail.position()
        orders = [under.make_order() for _ in range(5)]
        # One after the other, so that they settle at different times.
        for order in orders:
            await kit.submit(under, [order])
        answers = [await kit.final_answer(under, order.end_to_end_id) for order in orders]
        after = await under.rail.position()
        items = await kit.read_statement(under, before.as_of, after.as_of)
        assert [item.settled_at for item in items] == sorted(item.settled_at for item in items)
        assert len({item.id for item in items}) == len(items)
        told = {item.id: item.settled_at for item in items}
        for order, answer in zip(orders, answers, strict=True):
            assert answer == rails.Settled(settled_at=told[order.end_to_end_id])

    @kit.asks("orders", "statement")
    async def test_a_statement_has_its_first_instant_and_not_its_last(self, under: kit.RailUnderTest) -> None:
        before = await under.rail.position()
        order = under.make_order()
        await kit.submit(under, [order])
        answer = await kit.final_answer(under, order.end_to_end_id)
        assert isinstance(answer, rails.Settled)
        await under.rail.position()
        at = answer.settled_at
        until = await kit.read_statement(under, before.as_of, at)
        assert order.end_to_end_id not in {item.id for item in until}
        since = await kit.read_statement(under, at, at + timedelta(microseconds=1))
        assert order.end_to_end_id in {item.id for item in since}

    @kit.asks("orders", "reports", "statement")
    async def test_what_did_not_settle_is_in_no_statement(self, under: kit.RailUnderTest) -> None:
        before = await under.rail.position()
        rejected, txid = under.make_order("rejected"), kit.make_txid()
        await kit.submit(under, [rejected])
        await kit.final_answer(under, rejected.end_to_end_id)
        paying = kit.begin(under.pay_in(1234, txid))
        report = await kit.next_report(under, rails.CreditReport, lambda one: one.txid == txid)
        waiting = await under.rail.position()
        refused = await kit.refuse_payment(under, txid, paying)
        after = await under.rail.position()
        left_out = {rejected.end_to_end_id, report.end_to_end_id}
        assert not left_out & {item.id for item in await kit.read_statement(under, before.as_of, waiting.as_of)}
        if refused is None:
            left_out.remove(report.end_to_end_id)
        assert not left_out & {item.id for item in await kit.read_statement(under, before.as_of, after.as_of)}

    @kit.asks("orders", "reports", "statement")
    async def test_the_statement_of_a_span_that_is_over_stays_as_it_is(self, under: kit.RailUnderTest) -> None:
        before = await under.rail.position()
        txid, order = kit.make_txid(), under.make_order()
        paying = kit.begin(under.pay_in(1234, txid))
        report = await kit.next_report(under, rails.CreditReport, lambda one: one.txid == txid)
        await kit.submit(under, [order])
        await kit.final_answer(under, order.end_to_end_id)
        middle = await under.rail.position()
        first = await kit.read_statement(under, before.as_of, middle.as_of)
        # It was reported in the period, and settled after it.
        await kit.take_payment(under, txid)
        assert await paying is None
        assert await kit.read_statement(under, before.as_of, middle.as_of) == first
        after = await under.rail.position()
        later = await kit.read_statement(under, middle.as_of, after.as_of)
        assert report.end_to_end_id in {item.id for item in later}
