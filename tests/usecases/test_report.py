"""What the rail reports: recorded, then acknowledged; what could not be recorded comes again."""

import pytest

from pixconnect.domain import errors
from pixconnect.domain.access import Caller
from pixconnect.domain.rail import Acknowledgement, RailUnavailable, RejectedReport, Report, ReturnReport, SettledReport
from pixconnect.domain.transfer import AccountTransferRequest, Transfer
from pixconnect.usecases import ledger as ledger_usecases
from pixconnect.usecases import report as report_usecases
from pixconnect.usecases import settlement
from pixconnect.usecases import transfer as transfer_usecases
from pixconnect.usecases.report import take_reports
from support.books import check_books
from support.service import OUTSIDE_ISPB, STARTED_AT, Service, credit_report, outside_party


async def send(service: Service, caller: Caller) -> Transfer:
    request = AccountTransferRequest(amount_cents=1000, credit_party=outside_party())
    return (await transfer_usecases.start_transfer(service.context, caller, request)).transfer


def settled(transfer: Transfer, report_id: str = "s") -> SettledReport:
    return SettledReport(report_id=report_id, id=transfer.end_to_end_id, settled_at=STARTED_AT)


async def test_a_batch_of_everything_twice_is_recorded_once_and_acknowledged_as_often_as_it_came(
    service: Service, caller: Caller
) -> None:
    kept, lost = await send(service, caller), await send(service, caller)
    batch: list[Report] = [
        settled(kept),
        RejectedReport(report_id="x", id=lost.end_to_end_id, code="AC03", reason="no"),
        credit_report(service, report_id="c", amount_cents=70),
        credit_report(service, report_id="n", txid=None, account_number="404"),
        SettledReport(report_id="f", id=f"E{OUTSIDE_ISPB}202607011500abcdefghijk", settled_at=STARTED_AT),
    ]
    assert await take_reports(service.context, [*batch, *batch]) == 10
    assert await take_reports(service.context, batch) == 5
    said = {(one.report_id, one.refusal_code) for one in service.rail.acknowledged}
    assert said == {("s", None), ("x", None), ("c", None), ("n", "AC03"), ("f", None)}
    balance = await ledger_usecases.read_balance(service.context, caller)
    assert (balance.available_cents, balance.reserved_cents) == (1_000_000 - 1000 + 70, 0)
    await check_books(service)


async def test_a_return_before_its_settlement_waits_in_one_batch_and_is_taken_in_the_next(
    service: Service, caller: Caller
) -> None:
    transfer = await send(service, caller)
    returned = ReturnReport(
        report_id="r",
        return_id=f"D{OUTSIDE_ISPB}202607011500abcdefghijk",
        original_end_to_end_id=transfer.end_to_end_id,
        amount_cents=1000,
        reason="MD06",
        description=None,
        reported_at=STARTED_AT,
    )
    assert await take_reports(service.context, [returned]) == 0
    assert service.rail.acknowledged == []
    await take_reports(service.context, [returned, settled(transfer)])
    await take_reports(service.context, [returned])
    assert Acknowledgement(report_id="r") in service.rail.acknowledged
    assert (await ledger_usecases.read_balance(service.context, caller)).available_cents == 1_000_000
    await check_books(service)


async def test_nothing_is_acknowledged_before_it_is_durable(
    service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    transfer, other = await send(service, caller), await send(service, caller)

    async def fail_one(context: object, endings: list[tuple[str, object]]) -> dict[str, errors.PixConnectError]:
        return {transfer.end_to_end_id: errors.ServiceUnavailable("away")}

    async def fail(context: object, report: object) -> Acknowledgement:
        raise errors.OutcomeUnknown("away")

    with monkeypatch.context() as patch:
        patch.setattr(report_usecases, "end_orders", fail_one)
        patch.setattr(report_usecases, "receive_credit", fail)
        assert (
            await take_reports(service.context, [settled(transfer), settled(other, "o"), credit_report(service)]) == 1
        )
    assert [one.report_id for one in service.rail.acknowledged] == ["o"]


async def test_an_ending_that_cannot_be_recorded_keeps_no_other_from_it(
    service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    transfers = [await send(service, caller) for _ in range(8)]
    original = settlement.transfer_rules.settle_transfer

    def refuse_one(transfer: Transfer, *arguments: object) -> Transfer:
        assert transfer.id != transfers[3].id
        return original(transfer, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(settlement.transfer_rules, "settle_transfer", refuse_one)
    reports = [settled(transfer, f"s{n}") for n, transfer in enumerate(transfers)]
    assert await take_reports(service.context, reports) == 7
    assert "s3" not in {one.report_id for one in service.rail.acknowledged}
    await check_books(service)


async def test_a_rail_that_does_not_hear_our_word_reports_again_and_nothing_changes(
    service: Service, caller: Caller
) -> None:
    reports: list[Report] = [settled(await send(service, caller)), credit_report(service)]
    service.rail.is_reachable = False
    with pytest.raises(RailUnavailable):
        await take_reports(service.context, reports)
    service.rail.is_reachable = True
    before = await ledger_usecases.read_balance(service.context, caller)
    assert await take_reports(service.context, reports) == 2
    assert await ledger_usecases.read_balance(service.context, caller) == before
    await check_books(service)
