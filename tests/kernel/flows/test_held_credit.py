"""Suspect credits: held by the institution, then released or returned, in any order of its reports."""

import json
from itertools import permutations
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from pixconnect.features.finding.service import overview
from pixconnect.features.finding.service.search import find_with_origins
from pixconnect.features.receipts.service import read_parties
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.access import SCOPES, Caller, Viewer
from pixconnect.kernel.rules.block_report import BlockReport, BlockTerms
from pixconnect.kernel.rules.order import OrderWait
from pixconnect.kernel.rules.rail import Abilities
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.kernel.rules.transfer import QrCodeTransferRequest
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day
from support.books import check_books
from support.credits import charge_now, event_names, funds, kept_reasons, statement_lines, suspect_blocks, take, transfer_of
from support.operators import as_operator
from support.postgres import Addresses
from support.service import (
    Service,
    accepted,
    cancelled,
    credit_report,
    held,
    make_charge,
    movement_report,
    open_holder,
    open_service,
)

PAID_CENTS = 1_000


@pytest.fixture
async def caller(service: Service) -> Caller:
    return await open_holder(service, funds_cents=0)


async def test_what_is_held_is_there_and_cannot_be_spent(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller, amount_cents=PAID_CENTS)
    report = credit_report(service, amount_cents=PAID_CENTS, txid=charge.txid)
    assert await take(service, held(report)) == [None]
    transfer = await transfer_of(service, caller, report)
    assert (transfer.status, await funds(service, caller)) == ("PROCESSING", (0, 0, PAID_CENTS, 0))
    now = await charge_now(service, caller, charge)
    assert (now.status, now.held_by) == ("PENDING", transfer.id)
    assert (await event_names(service))[-2:] == ["transfer.in.processing", "transfer.in.held"]
    (row,) = await service.fetch("select body from event where name = 'transfer.in.held'")
    payload, until = json.loads(row["body"])["payload"], held(report).until
    assert (payload["status"], payload["amount"]) == ("PROCESSING", PAID_CENTS)
    for name in (payload["end_to_end_id"], charge.txid):
        ((found, _), *_), _ = await find_with_origins(as_operator(service.context), name)
        assert (found.waits_for, found.held_as_suspect_until) == ("institution", until)
    parties = await read_parties(service.context, caller, transfer.id)
    assert parties.wait == OrderWait(waits_for="institution", since=found.created_at)
    assert payload["hold"] == dict(
        deliver="NOT_YET", until=f"{until:%Y-%m-%dT%H:%M:%S.%fZ}", charge_id=charge.id,
        transaction_identification=charge.txid, external_id=charge.external_id,
    )  # fmt: skip
    # Repeated, it is held once.
    await take(service, held(report), accepted(report))
    assert (await event_names(service)).count("transfer.in.held") == 1
    assert await suspect_blocks(service) == [("open", PAID_CENTS)]
    await check_books(service)


async def test_released_it_pays_its_charge_however_late_that_is(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller, amount_cents=PAID_CENTS)
    report = credit_report(service, amount_cents=PAID_CENTS, txid=charge.txid)
    await take(service, held(report))
    service.clock.advance(days=3)
    # Its time is over, and it waits for the institution's decision.
    assert await charge_usecases.expire_charges(service.context, range(256), service.clock.now(), 9) == 0
    await take(service, structs.replace(report, reported_at=service.clock.now()))
    assert (await charge_now(service, caller, charge)).status == "APPROVED"
    assert (await event_names(service))[-2:] == ["transfer.in.confirmed", "qrcode.approved"]
    found, _ = await find_with_origins(as_operator(service.context), f"10,00 {to_day(charge.created_at):%d/%m/%Y}")
    assert {one.kind for one, _ in found} == {"charge", "transfer"}, "its payer knows the day on which he paid"
    assert await funds(service, caller) == (PAID_CENTS, 0, 0, 0)
    (money,) = await overview.read_money(service.context, Viewer(holder_id=None, scopes=frozenset(SCOPES)), [caller.holder_id])
    assert (money.in_cents, money.other_in_cents, money.out_cents) == (PAID_CENTS, 0, 0), "the end of a hold sends nothing"
    assert await suspect_blocks(service) == [("ended", 0)]
    assert [line[0].split(" from")[0] for line in await statement_lines(service, caller)] == [
        "Suspect Pix held by the institution",
        "Suspect Pix not held any more",
        "Pix received",
    ]
    await refund_usecases.start_refund(
        service.context, caller, RefundRequest(end_to_end_id=report.end_to_end_id, amount_cents=1)
    )
    await check_books(service)


async def test_returned_it_is_in_error_and_its_charge_is_free_again(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller, amount_cents=PAID_CENTS)
    report = credit_report(service, amount_cents=PAID_CENTS, txid=charge.txid)
    await take(service, held(report), cancelled(report, "FRAD"))
    transfer = await transfer_of(service, caller, report)
    assert (transfer.status, transfer.outcome_code) == ("ERROR", "CREDIT_CANCELLED")
    assert "held it as suspect and returned it (FRAD)" in (transfer.outcome_reason or "")
    assert await funds(service, caller) == (0, 0, 0, 0)
    assert (await charge_now(service, caller, charge)).status == "PENDING"
    second = credit_report(service, amount_cents=PAID_CENTS, txid=charge.txid, report_id="r2")
    assert await take(service, second) == [None]
    assert (await charge_now(service, caller, charge)).status == "APPROVED"
    assert (await event_names(service)).count("qrcode.approved") == 1
    await check_books(service)


async def test_returned_after_the_charge_would_have_expired_that_expires(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller, amount_cents=PAID_CENTS)
    report = credit_report(service, amount_cents=PAID_CENTS, txid=charge.txid)
    await take(service, held(report))
    service.clock.advance(days=3)
    await take(service, cancelled(report, "FRAD"))
    assert await charge_usecases.expire_charges(service.context, range(256), service.clock.now(), 9) == 1
    assert (await event_names(service))[-2:] == ["transfer.in.error", "qrcode.expired"]
    await check_books(service)


async def test_while_it_is_held_nobody_else_pays_the_charge_or_changes_it(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller, amount_cents=PAID_CENTS)
    report = credit_report(service, amount_cents=PAID_CENTS, txid=charge.txid)
    await take(service, held(report))
    other = credit_report(service, amount_cents=PAID_CENTS, txid=charge.txid, report_id="r2")
    assert await take(service, other) == ["BE17"]
    third = credit_report(service, amount_cents=PAID_CENTS, txid=charge.txid, report_id="r3")
    assert await take(service, held(third)) == ["BE17"]
    stranger = await open_holder(service, account_number="2", funds_cents=5_000)
    request = QrCodeTransferRequest(amount_cents=PAID_CENTS, br_code=charge.br_code)
    view = await transfer_usecases.start_transfer(service.context, stranger, request)
    assert (view.transfer.status, view.transfer.outcome_code) == ("ERROR", "BE17")
    await take(service, report)
    assert (await charge_now(service, caller, charge)).status == "APPROVED"
    await check_books(service)


async def test_a_charge_that_is_paid_holds_none(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller, amount_cents=PAID_CENTS)
    paid = credit_report(service, amount_cents=PAID_CENTS, txid=charge.txid)
    late = credit_report(service, amount_cents=PAID_CENTS, txid=charge.txid, report_id="r2")
    assert await take(service, paid, held(late)) == [None, "BE17"]
    assert (await transfer_of(service, caller, late)).status == "ERROR"
    assert await suspect_blocks(service) == []
    await check_books(service)


async def test_only_the_institution_gives_it_back(service: Service, caller: Caller) -> None:
    report = credit_report(service, amount_cents=PAID_CENTS)
    await take(service, held(report))
    with pytest.raises(errors.OriginalNotRefundable, match="only it gives back"):
        await refund_usecases.start_refund(
            service.context, caller, RefundRequest(end_to_end_id=report.end_to_end_id, amount_cents=1)
        )
    # A block is reported with its credit, and by nothing else.
    terms = BlockTerms(reference=report.end_to_end_id, kind="precautionary", wanted_cents=0, held_cents=0)
    service.clock.advance(seconds=1)
    told = BlockReport(report_id="b1", party=report.credit_party, blocks=(terms,), reported_at=service.clock.now())
    assert await take_reports(service.context, [told]) == 1
    assert await kept_reasons(service) == ["contradiction"]
    assert await suspect_blocks(service) == [("open", PAID_CENTS)]
    await check_books(service)


async def test_released_to_somebody_who_owes_it_repays_and_covers_first(database: Addresses) -> None:
    async with open_service(database, abilities=Abilities(refuses_credits=False)) as service:
        caller = await open_holder(service, funds_cents=0)
        await _owe_and_release(service, caller)


async def _owe_and_release(service: Service, caller: Caller) -> None:
    party = credit_report(service).credit_party
    assert await take_reports(service.context, [movement_report(service, "M1", amount_cents=300, party=party)]) == 1
    court = BlockTerms(reference="J1", kind="judicial", wanted_cents=200, held_cents=200)
    told = BlockReport(report_id="b1", party=party, blocks=(court,), reported_at=service.clock.now())
    await take_reports(service.context, [told])
    report = credit_report(service, amount_cents=PAID_CENTS)
    await take(service, held(report))
    # Held money repays and covers nothing.
    assert await funds(service, caller) == (0, 0, PAID_CENTS, 300)
    await take(service, report)
    assert await funds(service, caller) == (500, 0, 200, 0)
    await check_books(service)


_STEPS = ("held", "held again", "returned", "released", "accepted")
# Each sixth, and all of them in the long run.
_ORDERS = [pytest.param(one, marks=[pytest.mark.long] * (nth % 6 > 0)) for nth, one in enumerate(permutations(_STEPS, 4))]


@pytest.mark.parametrize("order", _ORDERS, ids=" - ".join)
async def test_it_ends_once_in_every_order_of_arrival(service: Service, caller: Caller, order: tuple[str, ...]) -> None:
    charge = await make_charge(service, caller, amount_cents=PAID_CENTS)
    report = credit_report(service, amount_cents=PAID_CENTS, txid=charge.txid)
    reports = {"held": held(report), "returned": cancelled(report, "FRAD"), "released": report, "accepted": accepted(report)}
    there_cents, end = 0, None
    for step in order:
        name = step.split()[0]
        await take(service, reports[name])
        if end is None and name in {"returned", "released"}:
            end = name
        there_cents = {None: max(there_cents, PAID_CENTS * (name == "held")), "returned": 0}.get(end, PAID_CENTS)
        available_cents, reserved_cents, blocked_cents, owed_cents = await funds(service, caller)
        assert available_cents + reserved_cents + blocked_cents - owed_cents == there_cents
        assert blocked_cents == (there_cents if end is None else 0)
    assert (await charge_now(service, caller, charge)).status == ("APPROVED" if end == "released" else "PENDING")
    assert (await event_names(service)).count("transfer.in.held") == len(await suspect_blocks(service))
    assert await kept_reasons(service) == ["contradiction"] * ({"returned", "released"} <= set(order))
    await check_books(service)


async def test_without_refusals_it_is_held_for_no_charge_and_given_back(database: Addresses) -> None:
    async with open_service(database, abilities=Abilities(refuses_credits=False)) as service:
        caller = await open_holder(service, funds_cents=0)
        charge = await make_charge(service, caller, amount_cents=PAID_CENTS)
        report = credit_report(service, amount_cents=PAID_CENTS + 1, txid=charge.txid)
        assert await take(service, held(report)) == [None]
        assert (await charge_now(service, caller, charge)).held_by is None
        assert await funds(service, caller) == (0, 0, PAID_CENTS + 1, 0)
        await take(service, report)
        assert await funds(service, caller) == (0, PAID_CENTS + 1, 0, 0)
        await check_books(service)


@pytest.mark.parametrize(
    "by_hand",
    [
        "update transfer set status = 'ERROR', outcome_code = 'X', outcome_reason = 'x' where direction = 'IN'",
        "update block set state = 'ended', wanted_cents = 0, held_cents = 0",
        "update block set wanted_cents = wanted_cents + 1",
    ],
)
async def test_the_schema_ties_a_block_to_its_transfer(service: Service, caller: Caller, by_hand: str) -> None:
    await take(service, held(credit_report(service, amount_cents=PAID_CENTS)))
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await service.context.pool.execute(by_hand)


async def test_a_report_without_a_time_zone_is_kept(service: Service, caller: Caller) -> None:
    report = held(credit_report(service, amount_cents=PAID_CENTS))
    broken: dict[str, Any] = {"until": report.until.replace(tzinfo=None)}
    assert await take_reports(service.context, [structs.replace(report, **broken)]) == 1
    assert await kept_reasons(service) == ["cannot_be_recorded"]
