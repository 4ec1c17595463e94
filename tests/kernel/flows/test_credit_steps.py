"""Money in two steps: accepted, then settled or cancelled, in any order of the rail's reports."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from itertools import permutations

import msgspec
import pytest

from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.rail import CreditReport
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.kernel.rules.transfer import QrCodeTransferRequest
from pixconnect.kernel.tables import clock as clock_store
from pixconnect.platform.base import errors
from support.books import check_books
from support.credits import charge_now, event_names, kept_reasons, take, transfer_of
from support.postgres import Addresses
from support.service import (
    Service,
    accepted,
    cancelled,
    credit_report,
    held,
    make_charge,
    open_holder,
    open_service,
    read_funds,
)

FUNDS_CENTS = 1_000_000
Begin = Callable[[CreditReport], CreditReport]  # the first step: it is accepted, or held as suspect


async def expire(service: Service) -> int:
    return await charge_usecases.expire_charges(service.context, range(256), service.clock.now(), 9)


async def test_what_is_accepted_is_shown_and_is_no_money_yet(service: Service, caller: Caller) -> None:
    report = credit_report(service)
    assert await take(service, accepted(report)) == [None]
    assert (await transfer_of(service, caller, report)).status == "PROCESSING"
    assert await read_funds(service, caller) == (FUNDS_CENTS, 0)
    assert await event_names(service) == ["transfer.in.processing"]
    await check_books(service)
    assert await take(service, report) == [None]
    transfer = await transfer_of(service, caller, report)
    assert (transfer.status, transfer.settled_at) == ("CONFIRMED", service.clock.now())
    assert await read_funds(service, caller) == (FUNDS_CENTS + 1000, 0)
    assert await event_names(service) == ["transfer.in.processing", "transfer.in.confirmed"]
    await check_books(service)


async def test_a_charge_is_held_for_an_acceptance_and_paid_with_it(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    report = credit_report(service, txid=charge.txid)
    await take(service, accepted(report))
    held = await charge_now(service, caller, charge)
    assert (held.status, held.held_by) == ("PENDING", (await transfer_of(service, caller, report)).id)
    with pytest.raises(errors.NotFound, match="was accepted and has not settled"):
        await charge_usecases.read_paying_transfer(service.context, caller, charge.id)
    # No other payer can pay it meanwhile, over the rail or on the books.
    assert await take(service, credit_report(service, txid=charge.txid, report_id="r2")) == ["BE17"]
    assert await take(service, accepted(credit_report(service, txid=charge.txid, report_id="r3"))) == ["BE17"]
    stranger = await open_holder(service, account_number="2", funds_cents=5_000)
    request = QrCodeTransferRequest(amount_cents=1000, br_code=charge.br_code)
    view = await transfer_usecases.start_transfer(service.context, stranger, request)
    assert (view.transfer.status, view.transfer.outcome_code) == ("ERROR", "BE17")
    await check_books(service)
    await take(service, report)
    paid = await charge_now(service, caller, charge)
    assert (paid.status, paid.held_by) == ("APPROVED", None)
    paying = await charge_usecases.read_paying_transfer(service.context, caller, charge.id)
    assert paying == await transfer_of(service, caller, report)
    assert (await event_names(service))[-2:] == ["transfer.in.confirmed", "qrcode.approved"]
    await check_books(service)


async def test_a_held_charge_does_not_expire_and_one_that_is_free_again_does(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    report = credit_report(service, txid=charge.txid)
    await take(service, accepted(report))
    service.clock.advance(days=2)
    assert await expire(service) == 0
    assert await clock_store.find_first_due(service.context.pool, ()) is None
    assert await clock_store.find_last_due(service.context.pool, (), service.clock.now()) is None
    await take(service, cancelled(report))
    transfer = await transfer_of(service, caller, report)
    assert (transfer.status, transfer.outcome_code) == ("ERROR", "CREDIT_CANCELLED")
    assert "(AB03): The payment did not settle in time." in (transfer.outcome_reason or "")
    assert await clock_store.find_first_due(service.context.pool, ()) == charge.expires_at
    assert await expire(service) == 1
    assert (await charge_now(service, caller, charge)).status == "EXPIRED"
    assert (await event_names(service))[-2:] == ["transfer.in.error", "qrcode.expired"]
    assert await read_funds(service, caller) == (FUNDS_CENTS, 0)
    await check_books(service)


async def test_a_charge_whose_payment_was_cancelled_is_paid_by_another(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    report = credit_report(service, txid=charge.txid)
    await take(service, accepted(report), cancelled(report))
    second = credit_report(service, txid=charge.txid, report_id="r2")
    assert await take(service, accepted(second), second) == [None, None]
    assert (await charge_now(service, caller, charge)).status == "APPROVED"
    assert await kept_reasons(service) == []
    await check_books(service)


_STEPS = ("accepted", "accepted again", "cancelled", "cancelled again", "settled")
# Each fifth, and all of them in the long run.
_ORDERS = [pytest.param(one, marks=[pytest.mark.long] * (nth % 5 > 0)) for nth, one in enumerate(permutations(_STEPS, 3))]


@pytest.mark.parametrize("order", _ORDERS, ids=" - ".join)
async def test_a_credit_ends_once_in_every_order(service: Service, caller: Caller, order: tuple[str, ...]) -> None:
    charge = await make_charge(service, caller)
    settled = credit_report(service, txid=charge.txid)
    reports = {"accepted": accepted(settled), "cancelled": cancelled(settled), "settled": settled}
    codes = await take(service, *(reports[step.split()[0]] for step in order))
    first_end = next(step.split()[0] for step in order if not step.startswith("accepted"))
    transfer, kept = await transfer_of(service, caller, settled), await kept_reasons(service)
    # The first end counts. Another one after it has no effect, and is kept for an operator.
    says_otherwise = any(step.split()[0] not in {"accepted", first_end} for step in order)
    assert kept == ["contradiction"] * says_otherwise
    is_credited = first_end == "settled"
    assert transfer.status == ("CONFIRMED" if is_credited else "ERROR")
    assert await read_funds(service, caller) == (FUNDS_CENTS + 1000 * is_credited, 0)
    now = await charge_now(service, caller, charge)
    assert (now.status, now.held_by) == ("APPROVED" if is_credited else "PENDING", None)
    # A cancelled one is refused if it comes as accepted or settled after all; a cancellation is only acknowledged.
    is_over = False
    for step, code in zip(order, codes, strict=True):
        assert code == ("AB03" if is_over and not step.startswith("cancelled") else None), step
        is_over = is_over or (step.startswith("cancelled") and not is_credited)
    await check_books(service)


@pytest.mark.parametrize("order", list(permutations(("begun", "cancelled", "settled"))), ids=" - ".join)
@pytest.mark.parametrize("begin", [accepted, held])
async def test_steps_at_once_end_once(service: Service, caller: Caller, begin: Begin, order: tuple[str, ...]) -> None:
    charge = await make_charge(service, caller)
    settled = credit_report(service, txid=charge.txid)
    reports = {"begun": begin(settled), "cancelled": cancelled(settled), "settled": settled}
    assert await take_reports(service.context, [reports[step] for step in order]) == 3
    assert await kept_reasons(service) == ["contradiction"]
    assert (await ledger_usecases.read_balance(service.context, caller)).blocked_cents == 0
    await check_books(service)


@pytest.mark.parametrize("begin", [accepted, held])
async def test_both_ends_at_once_leave_one(service: Service, caller: Caller, database: Addresses, begin: Begin) -> None:
    settled = [credit_report(service, report_id=f"r{number}") for number in range(30)]
    await take_reports(service.context, [begin(report) for report in settled])
    async with open_service(database, clock=service.clock) as other:
        await asyncio.gather(
            take_reports(service.context, settled), take_reports(other.context, [cancelled(report) for report in settled])
        )
    credited = await service.context.pool.fetchval("select count(*) from transfer where status = 'CONFIRMED'")
    assert await read_funds(service, caller) == (FUNDS_CENTS + 1000 * credited, 0)
    assert (await ledger_usecases.read_balance(service.context, caller)).blocked_cents == 0
    assert await kept_reasons(service) == ["contradiction"] * 30
    await check_books(service)


@pytest.mark.parametrize("change", [{"amount_cents": 999}, {"txid": "x" * 26}])
async def test_a_step_must_repeat_its_contents(service: Service, caller: Caller, change: dict[str, object]) -> None:
    report = credit_report(service)
    await take(service, accepted(report))
    assert await take(service, msgspec.structs.replace(report, **change)) == [None]
    assert await take(service, msgspec.structs.replace(cancelled(report), **change)) == [None]
    assert (await transfer_of(service, caller, report)).status == "PROCESSING"
    assert await kept_reasons(service) == ["changed_repeat", "changed_repeat"]
    await take(service, report)
    assert await read_funds(service, caller) == (FUNDS_CENTS + 1000, 0)
    await check_books(service)


async def test_an_acceptance_is_credited_though_the_holder_is_blocked(service: Service, caller: Caller) -> None:
    report = credit_report(service)
    await take(service, accepted(report))
    await service.set_holder(caller, may_deposit=False)
    assert await take(service, report) == [None]
    assert await read_funds(service, caller) == (FUNDS_CENTS + 1000, 0)
    assert await take(service, accepted(credit_report(service, report_id="r2"))) == ["AC06"]
    await check_books(service)


async def test_a_cancellation_for_nobody_here_is_acknowledged_and_leaves_nothing(service: Service) -> None:
    report = credit_report(service, account_number="9")
    assert await take(service, cancelled(report), accepted(report)) == [None, "AC03"]
    assert await event_names(service) == []


async def test_what_settles_after_we_refused_to_accept_it_is_kept_for_a_person(service: Service, caller: Caller) -> None:
    await service.set_holder(caller, may_deposit=False)
    for report, code in ((credit_report(service), "AC06"), (credit_report(service, account_number="9"), "AC03")):
        assert await take(service, accepted(report), accepted(report)) == [code, code]
        assert await take(service, report, report) == [code, code]
        kept = await service.fetch("select name, reason, seen_count from kept_report order by id desc limit 1")
        assert [tuple(row) for row in kept] == [(report.end_to_end_id, "contradiction", 2)]
    assert await read_funds(service, caller) == (FUNDS_CENTS, 0)


async def test_an_unsettled_credit_has_no_refund_and_no_line(service: Service, caller: Caller) -> None:
    report = credit_report(service)
    await take(service, accepted(report))
    request = RefundRequest(end_to_end_id=report.end_to_end_id, amount_cents=1)
    with pytest.raises(errors.OriginalNotRefundable):
        await refund_usecases.start_refund(service.context, caller, request)
    balance = await ledger_usecases.read_balance(service.context, caller)
    assert (balance.current_cents, balance.last_number) == (FUNDS_CENTS, 1)
    # Ninety days count from its settlement, however long it was under way.
    service.clock.advance(days=89)
    await take(service, report)
    service.clock.advance(days=89)
    refund = await refund_usecases.start_refund(service.context, caller, request)
    assert refund.status == "PROCESSING"
    assert service.clock.now() - (await transfer_of(service, caller, report)).created_at > timedelta(days=90)
    await check_books(service)
