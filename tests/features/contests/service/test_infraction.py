"""Contests: mirrored as the institution reports them, each step once, in any order of the reports."""

import asyncio
import itertools
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from pixconnect.features.contests.rules import infraction as infraction_rules
from pixconnect.features.contests.service import defence as defence_usecases
from pixconnect.features.contests.tables import DEADLINES
from pixconnect.features.pix_api.service import pix as pix_usecases
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows.context import FailedReports
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.block_report import (
    BlockReport,
    BlockTerms,
    Defence,
    DefenceAnswer,
    DefenceRefused,
    InfractionReport,
    TakenPart,
)
from pixconnect.kernel.rules.listing import Span
from pixconnect.kernel.rules.rail import NotTaken
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.platform.base import errors
from support.books import check_books
from support.credits import funds, kept
from support.records import OUTSIDE_ISPB
from support.service import (
    STARTED_AT,
    Service,
    accepted,
    cancelled,
    credit_report,
    decided,
    held,
    infraction_report,
    make_charge,
    open_holder,
    send_out,
)

PAID_CENTS = 1_000


@pytest.fixture
async def caller(service: Service) -> Caller:
    return await open_holder(service, funds_cents=0)


async def receive(service: Service, **changes: Any) -> str:
    """A Pix that will be contested; returns its id."""
    report = credit_report(service, amount_cents=PAID_CENTS, **changes)
    assert (await receive_credit(service.context, report)).refusal_code is None
    return report.end_to_end_id


async def tell(service: Service, *reports: InfractionReport | BlockReport) -> None:
    for report in reports:
        assert await take_reports(service.context, [report]) == 1


async def events(service: Service) -> list[tuple[str, int, int]]:
    rows = await service.fetch("select name, body from event where resource = 'infraction' order by id")
    told = [(row["name"], json.loads(row["body"])["payload"]) for row in rows]
    return [(name, payload["held"], payload["taken"]) for name, payload in told]


async def give_back(service: Service, caller: Caller, paid: str, cents: int) -> None:
    await refund_usecases.start_refund(service.context, caller, RefundRequest(end_to_end_id=paid, amount_cents=cents))


async def test_a_contest_blocks_what_it_wants_and_tells_all_of_it(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller, amount_cents=PAID_CENTS)
    paid = await receive(service, txid=charge.txid)
    await tell(service, infraction_report(service, paid))
    assert await funds(service, caller) == (0, 0, PAID_CENTS, 0)
    (row,) = await service.fetch("select body, id from event where name = 'infraction.opened'")
    payload = json.loads(row["body"])["payload"]
    assert payload | dict(id=0, transfer_id=0, create_timestamp="", respond_by="") == dict(
        id=0, infraction_id="I1", end_to_end_id=paid, transfer_id=0, charge_id=charge.id,
        transaction_identification=charge.txid, external_id=charge.external_id, amount=PAID_CENTS, held=PAID_CENTS,
        taken=0, reason="fraud", situation="scam", words="I never got the shoes", status="OPEN", respond_by="",
        respond_to=f"/v1/connect/infraction/id/{payload['id']}/defence", create_timestamp="",
    )  # fmt: skip
    for deadline in DEADLINES:  # a clock that is moved back
        async with service.context.pool.acquire() as connection:
            await errors.require(deadline.move_back, "it moves")(connection, STARTED_AT - timedelta(1), timedelta(1))
    await check_books(service)


async def test_while_it_is_undecided_nobody_here_gives_the_pix_back(service: Service, caller: Caller) -> None:
    paid, other = await receive(service), await receive(service)
    report = infraction_report(service, paid, amount_cents=400, wanted_cents=400, held_cents=400)
    await tell(service, report)
    for state in ("open", "answered"):
        await tell(service, structs.replace(report, state=state, report_id=state))
        with pytest.raises(errors.RefundInfractionOpen):
            await give_back(service, caller, paid, 100)
        received = await pix_usecases.find_received(service.context, caller, paid)
        with pytest.raises(errors.Violated, match="e2eid"):
            await pix_usecases.request_refund(service.context, caller, received, "a1", amount_cents=100, description=None)
        # In the documented order of refusals.
        with pytest.raises(errors.RefundExceedsOriginal):
            await give_back(service, caller, paid, PAID_CENTS + 1)
    await give_back(service, caller, other, 100)
    await tell(service, decided(service, report))
    await give_back(service, caller, paid, 100)
    await check_books(service)


async def test_released_the_money_is_there_again(service: Service, caller: Caller) -> None:
    report = infraction_report(service, await receive(service))
    await tell(service, report, decided(service, report))
    assert await funds(service, caller) == (PAID_CENTS, 0, 0, 0)
    assert await events(service) == [("infraction.opened", PAID_CENTS, 0), ("infraction.released", 0, 0)]
    await check_books(service)


async def test_taken_whole_it_is_a_refund_that_the_institution_made(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller, amount_cents=PAID_CENTS)
    report = infraction_report(service, await receive(service, txid=charge.txid))
    taken = decided(service, report, PAID_CENTS)
    await tell(service, report, taken)
    assert await funds(service, caller) == (0, 0, 0, 0)
    assert await events(service) == [("infraction.opened", PAID_CENTS, 0), ("infraction.taken", 0, PAID_CENTS)]
    (refund,) = await service.fetch("select * from refund")
    assert (refund["return_id"], refund["made_by"], refund["reason"]) == (taken.taken[0].return_id, "institution", "FR01")
    assert (refund["status"], refund["external_id"]) == ("RETURNED", f"theirs:{taken.taken[0].return_id}")
    found = await charge_usecases.read_charge_by_id(service.context, caller, charge.id)
    assert found.status == "RETURNED"
    entries = await service.fetch("select debit_account, credit_account from ledger_entry where cause_kind = 'refund'")
    assert [tuple(row) for row in entries] == [("available", "settlement")]
    assert await service.fetchval("select cause_state from ledger_entry where debit_account = 'blocked'") == "taken"
    await check_books(service)


async def test_taken_with_too_little_left_the_rest_stays_wanted(service: Service, caller: Caller) -> None:
    paid = await receive(service)
    await send_out(service, caller, 700)
    report = infraction_report(service, paid, held_cents=300)
    taken = decided(service, report, 300, rest_cents=700)
    await tell(service, report, taken)
    assert await funds(service, caller) == (0, 700, 0, 0)
    with pytest.raises(errors.RefundInfractionOpen):
        await refund_usecases.start_refund(service.context, caller, RefundRequest(end_to_end_id=paid, amount_cents=1))
    # Received money is blocked there, up to the rest, and taken too.
    await receive(service)
    at = taken.reported_at + timedelta(days=1)
    rest = BlockTerms(reference="I1", kind="med", wanted_cents=700, held_cents=700)
    await tell(service, BlockReport(report_id="b", party=report.party, blocks=(rest,), reported_at=at))
    assert await funds(service, caller) == (300, 700, 700, 0)
    return_id = f"D{OUTSIDE_ISPB}202607011500{service.context.entropy.token(11)}"
    more = TakenPart(return_id=return_id, amount_cents=700, settled_at=at)
    at += timedelta(days=1)
    gone = structs.replace(taken, report_id="m", taken=(*taken.taken, more), wanted_cents=0, held_cents=0, reported_at=at)
    await tell(service, gone)
    assert await funds(service, caller) == (300, 700, 0, 0)
    assert [event for event in await events(service) if event[0] == "infraction.taken"] == [
        ("infraction.taken", 0, 300),
        ("infraction.taken", 0, 1_000),
    ]
    await check_books(service)


async def test_what_it_takes_and_is_not_here_is_owed(service: Service, caller: Caller) -> None:
    paid = await receive(service)
    await send_out(service, caller, 900)
    report = infraction_report(service, paid)
    await tell(service, report, decided(service, report, PAID_CENTS))
    # 100 were blocked here, 900 are on their way out and the institution had them still.
    assert await funds(service, caller) == (0, 900, 0, 900)
    await check_books(service)


async def test_in_whatever_order_and_how_often_its_words_come_each_step_is_taken_once(service: Service, caller: Caller) -> None:
    for number, order in enumerate(itertools.permutations(range(3))):
        paid = await receive(service)
        opened = infraction_report(service, paid, name=f"I{number}", amount_cents=600, wanted_cents=600, held_cents=600)
        answered = structs.replace(
            opened, report_id=f"a{number}", state="answered", reported_at=opened.reported_at + timedelta(hours=1)
        )
        told = [opened, answered, decided(service, opened, 600)]
        await tell(service, *(told[place] for place in order), *told)
        assert (await funds(service, caller))[1:] == (0, 0, 0)
        names = [name for name, _, _ in (await events(service))]
        assert names.count("infraction.opened") == names.count("infraction.taken") == number + 1
    assert (await funds(service, caller))[0] == 6 * (PAID_CENTS - 600)
    assert await kept(service) == []
    await check_books(service)


async def test_two_workers_at_one_report_take_it_once(service: Service, caller: Caller) -> None:
    report = infraction_report(service, await receive(service))
    taken = decided(service, report, PAID_CENTS)
    await asyncio.gather(*(take_reports(service.context, [each]) for each in (report, taken) * 4))
    await tell(service, taken)
    assert await funds(service, caller) == (0, 0, 0, 0)
    assert len(await service.fetch("select from refund")) == 1
    await check_books(service)


async def test_two_contests_of_one_pix_take_no_more_than_it_was(service: Service, caller: Caller) -> None:
    paid = await receive(service)
    first = infraction_report(service, paid, "I1", amount_cents=700, wanted_cents=700, held_cents=700)
    second = infraction_report(service, paid, "I2", amount_cents=600, wanted_cents=600, held_cents=300)
    await tell(service, first, second)
    assert await funds(service, caller) == (0, 0, PAID_CENTS, 0)
    await tell(service, decided(service, first, 700))
    # The other one is about the same Pix, and can take what is left of it.
    await tell(service, decided(service, second, 600))
    assert await kept(service) == ["infraction contradiction"]
    await tell(service, decided(service, second, 300, rest_cents=300, days=2))
    assert await funds(service, caller) == (0, 0, 0, 0)
    await check_books(service)


async def test_of_two_contests_of_one_pix_each_takes_of_its_own_block(service: Service, caller: Caller) -> None:
    paid = await receive(service)
    await receive(service)
    first = infraction_report(service, paid, "I1", amount_cents=400, wanted_cents=400, held_cents=400)
    second = infraction_report(service, paid, "I2")
    await tell(service, first, second)
    assert await funds(service, caller) == (600, 0, 1_400, 0)
    await tell(service, decided(service, second, PAID_CENTS))
    # The institution still blocks the amount of the first one; nothing of this was ever owed.
    assert await funds(service, caller) == (600, 0, 400, 0)
    listed = await defence_usecases.list_infractions(service.context, caller, None, Span(page_size=9))
    assert sorted((one.infraction.name, one.held_cents) for one in listed.items) == [("I1", 400), ("I2", 0)]
    assert await service.fetch("select from ledger_entry where 'deficit' in (debit_account, credit_account)") == []
    await check_books(service)


async def test_what_one_contest_takes_is_still_held_for_the_other(service: Service, caller: Caller) -> None:
    paid = await receive(service)
    await send_out(service, caller, 700)
    first = infraction_report(service, paid, "I1", amount_cents=400, wanted_cents=400, held_cents=400)
    second = infraction_report(service, paid, "I2", amount_cents=400, wanted_cents=400, held_cents=400)
    await tell(service, first, second, decided(service, second, 400))
    assert await funds(service, caller) == (0, 700, 0, 100)
    # The first one is still open: received money is blocked for it, once nothing is owed.
    await receive(service)
    assert await funds(service, caller) == (500, 700, 400, 0)
    await check_books(service)


async def test_a_late_decision_covers_the_block_that_it_took_money_from(service: Service, caller: Caller) -> None:
    paid = await receive(service)
    await receive(service)
    first = infraction_report(service, paid, "I1", amount_cents=400, wanted_cents=400, held_cents=400)
    second = infraction_report(service, paid, "I2", amount_cents=400, wanted_cents=400, held_cents=100)
    await tell(service, first, second)
    assert await funds(service, caller) == (1_500, 0, 500, 0)
    # The younger report of the block comes first, so the decision does not change the block.
    rest = BlockTerms(reference="I2", kind="med", wanted_cents=50, held_cents=50)
    reported_at = second.reported_at + timedelta(days=9)
    await tell(service, BlockReport(report_id="b", party=second.party, blocks=(rest,), reported_at=reported_at))
    await tell(service, decided(service, second, 400))
    assert await funds(service, caller) == (1_150, 0, 450, 0)
    await check_books(service)


async def test_a_returned_pix_can_be_contested_and_is_not_taken(service: Service, caller: Caller) -> None:
    paid = await receive(service)
    await give_back(service, caller, paid, 600)
    report = infraction_report(service, paid, held_cents=400)
    await tell(service, report)
    assert await funds(service, caller) == (0, 600, 400, 0)
    # The outcome of our refund must be recorded first.
    taken = decided(service, report, 500)
    assert await take_reports(service.context, [taken]) == 0
    await tell(service, decided(service, report, 400))
    assert await funds(service, caller) == (0, 600, 0, 0)
    await check_books(service)


async def test_what_cannot_be_believed_is_kept_and_changes_nothing(service: Service, caller: Caller) -> None:
    paid = await receive(service)
    await open_holder(service, account_number="2")
    other = credit_report(service, account_number="2").credit_party
    known = infraction_report(service, paid, name="I0", amount_cents=100, wanted_cents=100, held_cents=100)
    await tell(service, known)
    later = dict(reported_at=known.reported_at + timedelta(hours=1), report_id="l")
    for number, (report, said) in enumerate(
        (
            (infraction_report(service, paid, party=other), "contradiction"),
            (infraction_report(service, paid, amount_cents=1_001), "contradiction"),
            (structs.replace(known, amount_cents=101, **later), "changed_repeat"),
            (structs.replace(known, reason="operational_flaw", **later), "changed_repeat"),
            (infraction_report(service, paid, held_cents=1_001), "cannot_be_recorded"),
            (infraction_report(service, paid, wanted_cents=0, held_cents=0), "cannot_be_recorded"),
            (infraction_report(service, paid, name=""), "cannot_be_recorded"),
            (infraction_report(service, paid, words="a\0b"), "cannot_be_recorded"),
            (infraction_report(service, "E1"), "cannot_be_recorded"),
            (decided(service, known, 1_001), "contradiction"),
            (structs.replace(decided(service, known, 100), taken=()), None),
        ),
        1,
    ):
        await tell(service, report)
        if said is not None:
            assert ((await kept(service))[0], len(await kept(service))) == (f"infraction {said}", number)
    # Taken without money: there was none. It neither continues after that, nor ends otherwise.
    count = len(await kept(service))
    for state in ("open", "released"):
        wanted_cents = 100 if state == "open" else 0
        told = structs.replace(
            known, state=state, wanted_cents=wanted_cents, held_cents=0, report_id=state,
            reported_at=known.reported_at + timedelta(days=9),
        )  # fmt: skip
        await tell(service, told)
        count += 1
        assert (await kept(service), len(await kept(service)))[1] == count
    assert (await funds(service, caller))[2] == 0
    await check_books(service)


async def test_a_contest_before_its_credit_is_followed_later(service: Service, caller: Caller) -> None:
    paid = credit_report(service, amount_cents=PAID_CENTS)
    opened = infraction_report(service, paid.end_to_end_id)
    answered = structs.replace(opened, report_id="a", state="answered", reported_at=opened.reported_at + timedelta(hours=1))
    # However often it is reported, also with the first step of the payment.
    for _ in range(5):
        assert await take_reports(service.context, [opened, answered]) == 0
    assert await take_reports(service.context, [accepted(paid)]) == 1
    assert await take_reports(service.context, [opened, answered]) == 0
    assert await take_reports(service.context, [paid]) == 1
    assert await take_reports(service.context, [answered, opened]) == 2
    assert await funds(service, caller) == (0, 0, PAID_CENTS, 0)
    assert [name for name, _, _ in await events(service)] == ["infraction.opened", "infraction.answered"]
    assert await kept(service) == []
    await check_books(service)


@pytest.mark.parametrize("is_released", [True, False])
async def test_a_contest_of_a_suspect_pix_waits(service: Service, caller: Caller, is_released: bool) -> None:
    paid = credit_report(service, amount_cents=PAID_CENTS)
    await take_reports(service.context, [held(paid)])
    report = infraction_report(service, paid.end_to_end_id)
    # It lasts for days, and no patience ends before it does.
    context = structs.replace(service.context, failed_reports=FailedReports(overtaken_min_s=0.0))
    assert [await take_reports(context, [report]) for _ in range(5)] == [0] * 5
    assert await take_reports(context, [paid if is_released else cancelled(paid)]) == 1
    await tell(service, report, report)
    if is_released:
        assert await funds(service, caller) == (0, 0, PAID_CENTS, 0)
        assert (await events(service), await kept(service)) == ([("infraction.opened", PAID_CENTS, 0)], [])
    else:
        # After its return there is nothing to block, and the contest is for a person to see.
        assert await funds(service, caller) == (0, 0, 0, 0)
        assert (await events(service), await kept(service)) == ([], ["infraction contradiction"])
    await check_books(service)


async def test_a_contest_of_nobodys_pix_is_kept_once_it_was_waited_for(service: Service, caller: Caller) -> None:
    report = infraction_report(service, credit_report(service).end_to_end_id)
    assert [await take_reports(service.context, [report]) for _ in range(5)] == [0] * 5
    context = structs.replace(service.context, failed_reports=FailedReports(overtaken_min_s=0.0))
    assert [await take_reports(context, [report]) for _ in range(3)] == [0, 0, 1]
    assert await kept(service) == ["infraction unknown_order"]
    await check_books(service)


async def test_a_block_of_an_undecided_contest_ends_with_it_alone(service: Service, caller: Caller) -> None:
    report = infraction_report(service, await receive(service))
    await tell(service, report)
    ended = BlockTerms(reference="I1", kind="med", wanted_cents=0, held_cents=0)
    await tell(
        service,
        BlockReport(report_id="b", party=report.party, blocks=(ended,), reported_at=report.reported_at + timedelta(hours=1)),
    )
    assert await kept(service) == ["block contradiction"]
    assert (await funds(service, caller))[2] == PAID_CENTS
    await check_books(service)


async def _answer(service: Service, caller: Caller) -> int:
    (row,) = await service.fetch("select id from infraction")
    await defence_usecases.defend(service.context, caller, row["id"], "It was delivered")
    return row["id"]


async def _answer_state(service: Service) -> tuple[str, str | None]:
    (row,) = await service.fetch("select defence_state, defence_refusal from infraction")
    return row["defence_state"], row["defence_refusal"]


async def test_an_answer_under_way_at_the_decision_gets_an_end(service: Service, caller: Caller) -> None:
    report = infraction_report(service, await receive(service))
    await tell(service, report)
    await _answer(service, caller)
    await tell(service, decided(service, report, PAID_CENTS, days=2))
    assert await _answer_state(service) == ("refused", infraction_rules.UNHEARD)
    # It is not sent any more. A report that the institution has it may come after its decision.
    assert await defence_usecases.do_due(service.context, range(256), 10) == 0
    answered = structs.replace(report, report_id="a1", state="answered", reported_at=report.reported_at + timedelta(hours=1))
    await tell(service, answered)
    assert await _answer_state(service) == ("sent", None)
    assert await kept(service) == []


async def test_a_refused_answer_may_be_given_at_the_institution(service: Service, caller: Caller) -> None:
    report = infraction_report(service, await receive(service))
    await tell(service, report)
    infraction_id = await _answer(service, caller)
    refused = defence_usecases.InfractionAnswer(
        holder_id=caller.holder_id,
        infraction_id=infraction_id,
        answer=DefenceRefused(reason="not today"),
        sent="It was delivered",
    )
    await service.context.writes.submit(defence_usecases.ANSWER_INFRACTIONS, refused)
    assert await _answer_state(service) == ("refused", "not today")
    answered = structs.replace(report, report_id="a1", state="answered", reported_at=report.reported_at + timedelta(hours=1))
    await tell(service, answered)
    assert await _answer_state(service) == ("sent", None)


@pytest.mark.parametrize("is_short", [True, False])
async def test_a_rail_whose_own_code_fails_is_sent_the_answer_again(
    service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch, is_short: bool
) -> None:
    report = infraction_report(service, await receive(service))
    await tell(service, report)
    await _answer(service, caller)

    async def fail(_: object, defences: Sequence[Defence]) -> list[DefenceAnswer]:
        if is_short:
            return []
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(service.rail, "send", fail)
        assert await defence_usecases.do_due(service.context, range(256), 10) == 1
    assert await _answer_state(service) == ("sending", None)
    service.clock.advance(seconds=infraction_rules.SEND_AGAIN_AFTER.total_seconds())
    assert await defence_usecases.do_due(service.context, range(256), 10) == 1
    assert await _answer_state(service) == ("sent", None)


async def test_a_waiting_refund_stays_while_its_original_is_contested(service: Service, caller: Caller) -> None:
    paid = await receive(service)
    service.rail.answers.clear()
    service.rail.answer(NotTaken())
    request = RefundRequest(end_to_end_id=paid, amount_cents=100)
    refund = await refund_usecases.start_refund(service.context, caller, request)
    await service.work()
    report = infraction_report(service, paid)
    await take_reports(service.context, [report])
    await service.work(seconds=5)
    assert len(service.rail.refund_orders) == 1
    await service.work(seconds=60)
    ended = await refund_usecases.read_refund_by_id(service.context, caller, refund.id)
    assert ended.status == "ERROR"
    assert "contests the returned Pix" in (ended.outcome_reason or "")
    await take_reports(service.context, [decided(service, report)])
    await check_books(service)
