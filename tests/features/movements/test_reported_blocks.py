"""Money that the institution blocks stays the holder's and cannot be spent, and received money covers it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.flows.unresolved import count_accepted, list_accepted
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.block_report import BlockReport, BlockTerms
from pixconnect.kernel.rules.listing import Span
from pixconnect.kernel.rules.rail import Abilities, CreditReport, Rejected
from pixconnect.kernel.tables import clock
from pixconnect.platform.base import errors
from support.books import check_books
from support.credits import funds, kept
from support.postgres import Addresses
from support.service import Service, cancelled, credit_report, held, movement_report, open_holder, open_service, send_out

FUNDS_CENTS = 1_000


@pytest.fixture
async def caller(service: Service) -> Caller:
    return await open_holder(service, funds_cents=FUNDS_CENTS)


def terms(held_cents: int, wanted_cents: int | None = None, reference: str = "J1", **changes: Any) -> BlockTerms:
    wanted = held_cents if wanted_cents is None else wanted_cents
    told = BlockTerms(reference=reference, kind="judicial", wanted_cents=wanted, held_cents=held_cents)
    return structs.replace(told, **changes)


def block_report(service: Service, *blocks: BlockTerms, reported_at: datetime | None = None, **changes: Any) -> BlockReport:
    report = BlockReport(
        report_id=service.context.entropy.token(12), party=credit_report(service).credit_party, blocks=blocks,
        reported_at=reported_at or service.clock.now(),
    )  # fmt: skip
    return structs.replace(report, **changes)


async def tell(service: Service, *blocks: BlockTerms) -> None:
    """The institution's report, a second after its last one."""
    service.clock.advance(seconds=1)
    assert await take_reports(service.context, [block_report(service, *blocks)]) == 1


async def send(service: Service, caller: Caller, amount_cents: int) -> str:
    return (await send_out(service, caller, amount_cents)).end_to_end_id


async def test_what_is_blocked_is_the_holders_and_may_not_be_spent(service: Service, caller: Caller) -> None:
    await tell(service, terms(400))
    balance = await ledger_usecases.read_balance(service.context, caller)
    assert (balance.available_cents, balance.blocked_cents, balance.current_cents) == (600, 400, 1_000)
    with pytest.raises(errors.InsufficientFunds):
        await send(service, caller, 601)
    await send(service, caller, 600)
    # Blocking and releasing are no transactions: current funds stay as they are.
    await tell(service, terms(0))
    assert await funds(service, caller) == (400, 600, 0, 0)
    assert (await ledger_usecases.list_transactions(service.context, caller, Span())).total_count == 1
    await check_books(service)


async def test_what_becomes_available_covers_what_was_not_there(service: Service, caller: Caller) -> None:
    sent = await send(service, caller, 900)
    await tell(service, terms(300, wanted_cents=500))
    assert await funds(service, caller) == (0, 900, 100, 0)
    await receive_credit(service.context, credit_report(service, amount_cents=50))
    assert await funds(service, caller) == (0, 900, 150, 0)
    # A failing order releases its free part once everything held there is blocked here; a claim beyond that is not
    # covered.
    await end_orders(service.context, [(sent, Rejected(code="AC03", reason="no"))])
    assert await funds(service, caller) == (750, 0, 300, 0)
    await check_books(service)


async def test_what_is_owed_is_repaid_before_a_block_is_covered(database: Addresses) -> None:
    async with open_service(database, abilities=Abilities(refuses_credits=False)) as service:
        caller = await open_holder(service, funds_cents=FUNDS_CENTS)
        await take_reports(service.context, [movement_report(service, amount_cents=1_200)])
        await tell(service, terms(100))
        assert await funds(service, caller) == (0, 0, 0, 200)
        await receive_credit(service.context, credit_report(service, amount_cents=250))
        assert await funds(service, caller) == (0, 0, 50, 0)
        # A fee finds nothing available: blocked money is not used for it.
        await take_reports(service.context, [movement_report(service, "M2", amount_cents=7)])
        assert await funds(service, caller) == (0, 0, 50, 7)
        await tell(service, terms(0))
        assert await funds(service, caller) == (43, 0, 0, 0)
        await check_books(service)


async def test_one_report_may_split_a_block_and_end_many(service: Service, caller: Caller) -> None:
    await tell(service, terms(300), terms(200, reference="S1", kind="security"))
    assert (await funds(service, caller))[2] == 500
    await tell(service, terms(100), terms(200, reference="J2"), terms(0, reference="S1", kind="security"))
    assert (await funds(service, caller))[2] == 300
    await tell(service, terms(0), terms(0, reference="J2"))
    assert await funds(service, caller) == (FUNDS_CENTS, 0, 0, 0)
    await check_books(service)


async def test_the_later_word_counts_in_whatever_order_both_come(service: Service, caller: Caller) -> None:
    now = service.clock.now()
    later = block_report(service, terms(100), reported_at=now + timedelta(minutes=1))
    earlier = block_report(service, terms(700), reported_at=now)
    for report in (later, earlier, later, earlier):
        await take_reports(service.context, [report])
        assert (await funds(service, caller))[2] == 100
    # A block that ended before its beginning was reported.
    ended = block_report(service, terms(0, reference="J2"), reported_at=now + timedelta(minutes=1))
    await take_reports(service.context, [ended])
    await take_reports(service.context, [block_report(service, terms(10, reference="J2"), reported_at=now)])
    assert (await funds(service, caller))[2] == 100
    assert await kept(service) == []
    await check_books(service)


async def test_a_later_word_of_a_block_that_ended_leaves_it_so_and_its_report_is_taken(
    service: Service, caller: Caller
) -> None:
    await tell(service, terms(400))
    await tell(service, terms(0))
    service.clock.advance(seconds=1)
    await tell(service, terms(0), terms(300, reference="J2"))
    assert await funds(service, caller) == (FUNDS_CENTS - 300, 0, 300, 0)
    assert await kept(service) == []
    await check_books(service)


async def test_two_workers_that_hear_of_one_block_at_once_take_it_once(service: Service, caller: Caller) -> None:
    report = block_report(service, terms(400))
    await asyncio.gather(*(take_reports(service.context, [report]) for _ in range(5)))
    assert (await funds(service, caller))[2] == 400
    await check_books(service)


async def test_what_cannot_be_believed_is_kept_and_changes_nothing(service: Service, caller: Caller) -> None:
    await open_holder(service, account_number="2")
    await tell(service, terms(100))
    other = credit_report(service, account_number="2").credit_party
    nobody = structs.replace(other, account_number="777", key=None)
    service.clock.advance(seconds=1)
    for number, (report, said) in enumerate(
        (
            (block_report(service, terms(50), party=structs.replace(other, key=None)), "block changed_repeat"),
            (block_report(service, terms(50, kind="security")), "block changed_repeat"),
            (block_report(service, terms(50, reference="J9"), party=nobody), "block cannot_be_recorded"),
            (block_report(service, terms(50, reference="I1", kind="med")), "block unknown_order"),
            (block_report(service, terms(50, reference="E1", kind="precautionary")), "block unknown_order"),
            # More is released than is held.
            (block_report(service, terms(-1, wanted_cents=0)), "block cannot_be_recorded"),
            (block_report(service, terms(101, wanted_cents=100)), "block cannot_be_recorded"),
            (block_report(service, terms(1), terms(2)), "block cannot_be_recorded"),
            (block_report(service), "block cannot_be_recorded"),
            (block_report(service, terms(1, reference="")), "block cannot_be_recorded"),
            (block_report(service, terms(1, reference="a\0b")), "block cannot_be_recorded"),
        ),
        1,
    ):
        assert await take_reports(service.context, [report]) == 1
        assert ((await kept(service))[0], len(await kept(service))) == (said, number)
    assert (await funds(service, caller))[2] == 100
    await tell(service, terms(0))
    await tell(service, terms(5))
    assert (await kept(service))[0] == "block contradiction"
    assert (await funds(service, caller))[2] == 0
    await check_books(service)


async def test_more_blocks_than_a_batch_has_ids_for_are_covered_by_one_credit(
    service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The sequence gives more: thousands of entries in one statement would need a quiet machine.
    monkeypatch.setattr(clock, "BLOCK_SIZE", 128)
    await send(service, caller, FUNDS_CENTS)
    for first in range(0, 200, 100):
        await tell(service, *(terms(1, reference=f"J{number}") for number in range(first, first + 100)))
    await receive_credit(service.context, credit_report(service, amount_cents=300))
    assert await funds(service, caller) == (100, FUNDS_CENTS, 200, 0)
    await check_books(service)


async def _suspect(bank: Service, number: str, suspect: list[CreditReport], deed: str, cents: int) -> int:
    """Hold one more credit, or release or return the last one; returns the change of the balance."""
    if deed == "hold":
        suspect.append(credit_report(bank, amount_cents=cents, account_number=number))
        await receive_credit(bank.context, held(suspect[-1]))
        return cents
    if not suspect:
        return 0
    told = suspect.pop()
    await receive_credit(bank.context, told if deed == "release" else cancelled(told))
    return 0 if deed == "release" else -told.amount_cents


DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("tell"), st.sampled_from("ABC"), st.integers(0, 900), st.integers(-3, 3)),
        st.tuples(st.just("come"), st.just(""), st.integers(1, 700), st.just(0)),
        st.tuples(st.just("hold"), st.just(""), st.integers(1, 700), st.just(0)),
        st.tuples(st.sampled_from(("release", "return")), st.just(""), st.just(0), st.just(0)),
        st.tuples(st.just("fee"), st.just(""), st.integers(1, 700), st.just(0)),
        st.tuples(st.just("send"), st.just(""), st.integers(1, 700), st.just(0)),
        st.tuples(st.just("fail"), st.just(""), st.just(0), st.just(0)),
    ),
    min_size=1,
    max_size=12,
)


_account_numbers = count(100)


@pytest.fixture
async def bank(database: Addresses) -> AsyncIterator[Service]:
    """Over a rail that takes no refusal."""
    async with open_service(database, abilities=Abilities(refuses_credits=False)) as service:
        yield service


@settings(max_examples=25)
@given(deeds=DEEDS)
async def test_whatever_the_order_the_books_have_what_the_institution_has(
    bank: Service, deeds: list[tuple[str, str, int, int]]
) -> None:
    number = str(next(_account_numbers))
    caller = await open_holder(bank, account_number=number, funds_cents=FUNDS_CENTS)
    party = credit_report(bank, account_number=number).credit_party
    there_cents, sent, last_told = FUNDS_CENTS, list[str](), dict[str, tuple[datetime, int]]()
    suspect: list[CreditReport] = []
    for place, (deed, name, cents, apart) in enumerate(deeds):
        bank.clock.advance(seconds=2)
        match deed:
            case "tell":
                # Some are reported in another order than they happened.
                reported_at = bank.clock.now() + timedelta(seconds=10 * apart)
                told = terms(cents, 900, f"{number}{name}")
                await take_reports(bank.context, [block_report(bank, told, reported_at=reported_at, party=party)])
                if name not in last_told or reported_at > last_told[name][0]:
                    last_told[name] = reported_at, cents
            case "come":
                await receive_credit(bank.context, credit_report(bank, amount_cents=cents, account_number=number))
                there_cents += cents
            case "hold" | "release" | "return":
                there_cents += await _suspect(bank, number, suspect, deed, cents)
            case "fee":
                fee = movement_report(bank, f"M{number}-{place}", amount_cents=cents, party=party)
                await take_reports(bank.context, [fee])
                there_cents -= cents
            case "send":
                try:
                    sent.append(await send(bank, caller, cents))
                except errors.InsufficientFunds:
                    available_cents, _, _, owed_cents = await funds(bank, caller)
                    assert owed_cents or available_cents < cents
            case _:
                ended, sent = sent, []
                await end_orders(bank.context, [(one, Rejected(code="AC03", reason="no")) for one in ended])
        available_cents, reserved_cents, blocked_cents, owed_cents = await funds(bank, caller)
        assert available_cents + reserved_cents + blocked_cents - owed_cents == there_cents
        suspect_cents = sum(one.amount_cents for one in suspect)
        held_cents = suspect_cents + sum(cents for _, cents in last_told.values())
        assert suspect_cents <= blocked_cents <= held_cents
        assert blocked_cents == held_cents or not available_cents
        assert not (owed_cents and available_cents)
    await check_books(bank)


async def test_a_suspect_payment_is_counted_once_its_time_is_over(service: Service, caller: Caller) -> None:
    report = held(credit_report(service))
    await receive_credit(service.context, report)
    service.clock.advance(hours=71)
    assert await count_accepted(service.context) == 0
    assert await list_accepted(service.context, timedelta(seconds=60), None, None) == []
    service.clock.advance(hours=1, seconds=61)
    assert await count_accepted(service.context) == 1
    assert len(await list_accepted(service.context, timedelta(seconds=60), None, None)) == 1
