"""Payments over a rail without refusals: what cannot be accepted is credited and returned at once."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import msgspec
import pytest

from pixconnect.features.pix_api.service import pix as standard_pix
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.rail import Abilities, CreditReport, RejectedReport, ReturnReport, SettledReport
from pixconnect.kernel.rules.refund import Refund, RefundRequest
from pixconnect.kernel.rules.transfer import KeyTransferRequest
from pixconnect.platform.base import errors
from support.books import check_books
from support.credits import charge_now, transfer_of
from support.postgres import Addresses
from support.records import a_return, own_key
from support.service import (
    STARTED_AT,
    Service,
    accepted,
    cancelled,
    credit_report,
    make_charge,
    open_holder,
    open_service,
    read_funds,
    send_out,
)

FUNDS_CENTS = 1_000_000
EARLIEST = STARTED_AT - timedelta(days=1)
ABILITIES = Abilities(refuses_credits=False)


@pytest.fixture
async def service(database: Addresses) -> AsyncIterator[Service]:
    async with open_service(database, abilities=ABILITIES) as opened:
        yield opened


@pytest.fixture
async def caller(service: Service) -> Caller:
    return await open_holder(service, funds_cents=FUNDS_CENTS)


async def take(service: Service, *reports: CreditReport | ReturnReport) -> None:
    """Report one after the other: none of them is refused."""
    for report in reports:
        assert await take_reports(service.context, [report]) == 1
    assert {said.refusal_code for said in service.rail.acknowledged} <= {None}


async def refund_of(service: Service, caller: Caller, report: CreditReport) -> Refund:
    name = f"auto:{report.end_to_end_id}"
    return await refund_usecases.read_refund_by_external_id(service.context, caller, name)


async def kept(service: Service) -> list[tuple[str, str, str | None]]:
    rows = await service.fetch("select kind, reason, refusal_code from kept_report order by id")
    return [tuple(row) for row in rows]


async def test_another_amount_is_credited_and_given_back_whole(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    report = credit_report(service, txid=charge.txid, amount_cents=999)
    await take(service, report)
    transfer, refund = await transfer_of(service, caller, report), await refund_of(service, caller, report)
    assert (transfer.status, transfer.charge_id, transfer.returning_cents) == ("CONFIRMED", None, 999)
    assert (refund.status, refund.flow, refund.amount_cents, refund.reason) == ("PROCESSING", "OUT", 999, "BE08")
    assert refund.description == "The amount is not the one expected, or a refund is above its original."
    assert refund.correlation_id == transfer.correlation_id
    assert await read_funds(service, caller) == (FUNDS_CENTS, 999)
    assert (await charge_now(service, caller, charge)).status == "PENDING"
    names = [row["name"] for row in await service.fetch("select name from event order by id")]
    assert names == ["qrcode.pending", "transfer.in.processing", "transfer.in.confirmed", "refund.out.processing"]
    await check_books(service)
    # It takes the way of every refund.
    await service.work()
    [order] = service.rail.refund_orders
    assert (order.original_end_to_end_id, order.amount_cents) == (report.end_to_end_id, 999)
    done = SettledReport(report_id="s1", id=refund.return_id, settled_at=service.clock.now())
    await take_reports(service.context, [done])
    assert (await refund_of(service, caller, report)).status == "RETURNED"
    assert (await transfer_of(service, caller, report)).status == "RETURNED"
    assert await read_funds(service, caller) == (FUNDS_CENTS, 0)
    # The charge is still payable.
    await take(service, credit_report(service, txid=charge.txid, report_id="r2"))
    assert (await charge_now(service, caller, charge)).status == "APPROVED"
    await check_books(service)


async def test_what_can_be_accepted_is_not_given_back(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    await take(service, credit_report(service, txid=charge.txid), credit_report(service, report_id="r2"))
    assert (await charge_now(service, caller, charge)).status == "APPROVED"
    assert await service.fetch("select from refund") == []
    assert await read_funds(service, caller) == (FUNDS_CENTS + 2000, 0)


async def test_a_second_payment_and_one_that_comes_too_late_are_given_back(service: Service, caller: Caller) -> None:
    charge, late = await make_charge(service, caller), await make_charge(service, caller)
    await take(service, credit_report(service, txid=charge.txid))
    second = credit_report(service, txid=charge.txid, report_id="r2")
    stranger = await open_holder(service, account_number="2")
    misled = credit_report(service, txid=late.txid, report_id="r3", account_number="2")
    await take(service, second, misled)
    service.clock.advance(days=1)
    too_late = credit_report(service, txid=late.txid, report_id="r4")
    await take(service, too_late)
    for holder, report in ((caller, second), (stranger, misled), (caller, too_late)):
        assert (await refund_of(service, holder, report)).amount_cents == 1000
    assert (await charge_now(service, caller, charge)).status == "APPROVED"
    assert (await charge_now(service, caller, late)).status == "PENDING"
    await check_books(service)


async def test_a_blocked_holder_gives_back_whatever_it_may_withdraw(service: Service, caller: Caller) -> None:
    await service.set_holder(caller, may_deposit=False, may_withdraw=False)
    report = credit_report(service)
    await take(service, report)
    assert (await refund_of(service, caller, report)).status == "PROCESSING"
    assert await read_funds(service, caller) == (FUNDS_CENTS, 1000)
    await check_books(service)


async def test_a_payment_is_given_back_once_everywhere(service: Service, caller: Caller, database: Addresses) -> None:
    charge = await make_charge(service, caller)
    reports = [credit_report(service, txid=charge.txid, amount_cents=5, report_id=f"r{number}") for number in range(10)]
    async with open_service(database, clock=service.clock, abilities=ABILITIES) as other:
        await asyncio.gather(*(take_reports(one.context, reports) for one in (service, other) for _ in range(3)))
    assert await service.context.pool.fetchval("select count(*) from refund") == 10
    assert await read_funds(service, caller) == (FUNDS_CENTS, 50)
    await check_books(service)


async def test_a_batch_of_good_and_bad_payments_is_one_transaction(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    reports = [credit_report(service, txid=charge.txid, report_id=f"r{number}") for number in range(5)]
    assert await take_reports(service.context, reports) == 5
    assert await service.context.pool.fetchval("select count(*) from refund") == 4
    assert await read_funds(service, caller) == (FUNDS_CENTS + 1000, 4000)
    await check_books(service)


async def test_it_is_not_given_up_soon_and_its_failure_keeps_the_money(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    report = credit_report(service, txid=charge.txid, amount_cents=5)
    await take(service, report)
    await service.work(hours=1)
    refund = await refund_of(service, caller, report)
    assert [order.return_id for order in service.rail.refund_orders] == [refund.return_id]
    failed = RejectedReport(report_id="s1", id=refund.return_id, code="AC07", reason="closed")
    await take_reports(service.context, [failed])
    assert (await refund_of(service, caller, report)).status == "ERROR"
    assert await read_funds(service, caller) == (FUNDS_CENTS + 5, 0)
    # It can be returned once more by hand.
    request = RefundRequest(end_to_end_id=report.end_to_end_id, amount_cents=5)
    assert (await refund_usecases.start_refund(service.context, caller, request)).status == "PROCESSING"
    await check_books(service)


async def test_at_the_standards_door_it_takes_no_id_from_a_caller(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    report = credit_report(service, txid=charge.txid, amount_cents=5)
    await take(service, report)
    refund = await refund_of(service, caller, report)
    context, e2e = service.context, report.end_to_end_id
    shown = await standard_pix.read_refund(context, caller, e2e, refund.return_id)
    assert (shown.rtr_id, shown.valor) == (refund.return_id, "0.05")
    await take_reports(context, [RejectedReport(report_id="s1", id=refund.return_id, code="AC07", reason="closed")])
    original, number = await standard_pix.find_received(context, caller, e2e), str(refund.id)
    mine = await standard_pix.request_refund(context, caller, original, number, amount_cents=5, description=None)
    assert (mine.id, mine.status) == (number, "EM_PROCESSAMENTO")
    pix = await standard_pix.read_pix(context, caller, e2e)
    assert [each.id for each in pix.devolucoes or ()] == [refund.return_id, number]
    await check_books(service)


async def test_a_client_cannot_take_the_name_of_an_automatic_refund(service: Service, caller: Caller) -> None:
    await take(service, paid := credit_report(service))
    request = RefundRequest(end_to_end_id=paid.end_to_end_id, amount_cents=1, external_id="auto:x")
    with pytest.raises(errors.ExternalIdConflict):
        await refund_usecases.start_refund(service.context, caller, request)


async def test_a_payment_for_nobody_here_is_kept_for_an_operator(service: Service, caller: Caller) -> None:
    report = credit_report(service, account_number="9")
    await take(service, accepted(report), cancelled(credit_report(service, account_number="9")))
    assert await kept(service) == []  # no money is here yet
    await take(service, report, report)
    assert await kept(service) == [("credit", "cannot_be_refused", None)]


async def test_what_cannot_be_recorded_is_kept_and_not_refused(service: Service, caller: Caller) -> None:
    report = credit_report(service)
    poisoned = msgspec.structs.replace(report.debit_party, name="Jo\0ana")
    await take(service, msgspec.structs.replace(report, debit_party=poisoned))
    assert await kept(service) == [("credit", "cannot_be_recorded", None)]


async def test_an_acceptance_against_the_rules_is_given_back(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    first = credit_report(service, txid=charge.txid)
    second = credit_report(service, txid=charge.txid, report_id="r2")
    await take(service, accepted(first), accepted(second))
    assert (await transfer_of(service, caller, second)).charge_id is None
    assert await service.fetch("select from refund") == []
    # Though the charge is free again by now, the second payment was not accepted for it.
    await take(service, cancelled(first), second)
    assert (await refund_of(service, caller, second)).amount_cents == 1000
    assert (await charge_now(service, caller, charge)).status == "PENDING"
    third = credit_report(service, txid=charge.txid, report_id="r3")
    await take(service, accepted(third))
    await service.set_holder(caller, may_deposit=False)
    await take(service, third)  # it held the charge, and pays it
    assert (await charge_now(service, caller, charge)).status == "APPROVED"
    await check_books(service)


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_what_is_accepted_for_a_blocked_holder_ends_either_way(
    service: Service, caller: Caller, *, is_cancelled: bool
) -> None:
    await service.set_holder(caller, may_deposit=False)
    report = credit_report(service)
    await take(service, accepted(report), cancelled(report) if is_cancelled else report)
    count = await service.context.pool.fetchval("select count(*) from refund")
    assert count == (0 if is_cancelled else 1)
    assert (await transfer_of(service, caller, report)).status == ("ERROR" if is_cancelled else "CONFIRMED")
    await check_books(service)


async def test_an_irrefusable_return_is_the_holders_up_to_what_was_sent(service: Service, caller: Caller) -> None:
    sent = await send_out(service, caller, 500)
    await service.work()
    done = SettledReport(report_id="s1", id=sent.end_to_end_id, settled_at=service.clock.now())
    await take_reports(service.context, [done])
    await service.set_holder(caller, may_deposit=False)

    def returned(number: int, amount_cents: int) -> ReturnReport:
        names = dict(report_id=f"d{number}", return_id=f"D99999004202607011500abcdefghij{number}")
        return a_return(sent.end_to_end_id, amount_cents=amount_cents, reported_at=service.clock.now(), **names)

    await take(service, returned(1, 300))
    assert await read_funds(service, caller) == (FUNDS_CENTS - 200, 0)
    await take(service, returned(2, 201))
    assert await read_funds(service, caller) == (FUNDS_CENTS - 200, 0)
    assert await kept(service) == [("return", "cannot_be_refused", None)]
    await check_books(service)


async def test_what_else_a_rail_cannot_do_is_refused_before_anything_is_done(database: Addresses) -> None:
    abilities = Abilities(refunds_partly=False, resolves_keys=False, issues_codes=False)
    async with open_service(database, abilities=abilities) as service:
        caller = await open_holder(service, funds_cents=FUNDS_CENTS)
        stranger = await open_holder(service, account_number="2")
        paid = credit_report(service)
        await take_reports(service.context, [paid])
        part = RefundRequest(end_to_end_id=paid.end_to_end_id, amount_cents=1, external_id="part")
        with pytest.raises(errors.AmountMismatch):
            await refund_usecases.start_refund(service.context, caller, part)
        whole = RefundRequest(end_to_end_id=paid.end_to_end_id, amount_cents=1000, external_id="part")
        assert (await refund_usecases.start_refund(service.context, caller, whole)).status == "PROCESSING"
        key = KeyTransferRequest(amount_cents=1, key="nobody@test.example", key_type="EMAIL")
        with pytest.raises(errors.PixKeyNotFound):
            await transfer_usecases.start_transfer(service.context, caller, key)
        ours = KeyTransferRequest(amount_cents=1, key=own_key("2"), key_type="EMAIL")
        view = await transfer_usecases.start_transfer(service.context, caller, ours)
        assert (view.transfer.is_book, view.transfer.status) == (True, "CONFIRMED")
        with pytest.raises(errors.InvalidQrCode):
            await make_charge(service, stranger, amount_cents=1, key=own_key("2"))
        assert await service.fetch("select from charge") == []
        assert service.rail.orders == []
        await check_books(service)
