"""Refunds out: never a cent above the original, inside their window, by rail and by book."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.settlement import Ending, end_orders
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.listing import Span
from pixconnect.kernel.rules.rail import Rejected, Settled
from pixconnect.kernel.rules.refund import Refund, RefundRequest
from pixconnect.kernel.rules.transfer import QrCodeTransferRequest, Transfer
from pixconnect.platform.base import errors
from support.books import check_books
from support.postgres import Addresses
from support.service import STARTED_AT, Service, credit_report, make_charge, open_holder, open_service, read_funds, send_out

SETTLED = Settled(settled_at=STARTED_AT)
REJECTED = Rejected(code="AC07", reason="closed")


async def receive(service: Service, **changes: Any) -> str:
    report = credit_report(service, **changes)
    await receive_credit(service.context, report)
    return report.end_to_end_id


async def start(service: Service, caller: Caller, name: str, amount_cents: int = 1000, **more: Any) -> Refund:
    request = RefundRequest(end_to_end_id=name, amount_cents=amount_cents, **more)
    return await refund_usecases.start_refund(service.context, caller, request)


async def end(service: Service, refund: Refund, ending: Ending = SETTLED) -> None:
    await end_orders(service.context, [(refund.return_id, ending)])


async def original_now(service: Service, caller: Caller, name: str) -> Transfer:
    return (await transfer_usecases.read_transfer_by_end_to_end_id(service.context, caller, name)).transfer


async def test_a_refund_reserves_settles_and_returns_charge_and_transfer(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller, amount_cents=1000)
    name = await receive(service, txid=charge.txid)
    refund = await start(service, caller, name, 300, reason="BE08", description="wrong size", external_id="a")
    original = await original_now(service, caller, name)
    assert (refund.status, refund.flow, refund.reason, refund.description) == ("PROCESSING", "OUT", "BE08", "wrong size")
    assert (refund.original_end_to_end_id, refund.correlation_id) == (name, original.correlation_id)
    assert refund.return_id.startswith("D99999003202607011500")
    assert await read_funds(service, caller) == (1_000_700, 300)
    assert (original.status, original.returning_cents, original.returned_cents) == ("CONFIRMED", 300, 0)
    await end(service, refund)
    await end(service, refund)
    rest = await start(service, caller, name, 700)
    assert (await original_now(service, caller, name)).status == "CONFIRMED"
    await end(service, rest)
    original = await original_now(service, caller, name)
    assert (original.status, original.returned_cents) == ("RETURNED", 1000)
    assert (await charge_usecases.read_charge_by_id(service.context, caller, charge.id)).status == "RETURNED"
    assert await read_funds(service, caller) == (1_000_000, 0)
    reads = [
        refund_usecases.read_refund_by_id(service.context, caller, refund.id),
        refund_usecases.read_refund_by_external_id(service.context, caller, "a"),
        refund_usecases.read_refund_by_return_id(service.context, caller, refund.return_id),
    ]
    assert [found.status for found in await asyncio.gather(*reads)] == ["RETURNED"] * 3
    await check_books(service)


async def test_what_the_rail_rejected_can_be_refunded_again(service: Service, caller: Caller) -> None:
    name = await receive(service)
    refund = await start(service, caller, name)
    with pytest.raises(errors.RefundExceedsOriginal):
        await start(service, caller, name, 1)
    await end(service, refund, REJECTED)
    ended = await refund_usecases.read_refund_by_id(service.context, caller, refund.id)
    assert (ended.status, ended.outcome_code) == ("ERROR", "AC07")
    assert await read_funds(service, caller) == (1_001_000, 0)
    await end(service, await start(service, caller, name))
    assert (await original_now(service, caller, name)).status == "RETURNED"
    await check_books(service)


async def test_the_first_broken_rule_answers_and_leaves_nothing(service: Service, caller: Caller) -> None:
    other = await open_holder(service, account_number="2", funds_cents=100)
    theirs = await receive(service, account_number="2")
    charge = await make_charge(service, caller, amount_cents=5)
    refused = await receive(service, txid=charge.txid)
    sent = await send_out(service, caller, 1)
    await end_orders(service.context, [(sent.end_to_end_id, SETTLED)])
    mine = await receive(service)
    before = await read_funds(service, caller)

    await service.set_holder(caller, may_withdraw=False)
    blocked: list[tuple[str, int, type[errors.RuleBroken]]] = [
        ("E404", 0, errors.AmountOutOfRange),
        ("E404", 1, errors.HolderBlocked),
        (mine, 2000, errors.HolderBlocked),
    ]
    for name, amount_cents, refusal in blocked:
        with pytest.raises(refusal):
            await start(service, caller, name, amount_cents)
    await service.set_holder(caller, may_withdraw=True)
    for name in ("E404", theirs, refused, sent.end_to_end_id):
        with pytest.raises(errors.OriginalNotRefundable):
            await start(service, caller, name, 5_000)
    service.clock.advance(days=91)
    for amount_cents, refusal in ((1001, errors.RefundExceedsOriginal), (1000, errors.RefundWindowClosed)):
        with pytest.raises(refusal):
            await start(service, caller, mine, amount_cents)
    assert await read_funds(service, caller) == before
    poor = await receive(service, account_number="2")
    await send_out(service, other, 2000)
    with pytest.raises(errors.InsufficientFunds):
        await start(service, other, poor, 101)
    assert await service.context.pool.fetchval("select count(*) from refund") == 0
    await check_books(service)


async def test_the_window_is_ninety_days_of_24_hours_inclusive(service: Service, caller: Caller) -> None:
    name = await receive(service)
    service.clock.advance(days=90)
    await start(service, caller, name, 1)
    service.clock.real += timedelta(microseconds=1)
    with pytest.raises(errors.RefundWindowClosed):
        await start(service, caller, name, 1)


async def test_a_replay_comes_before_every_refusal(service: Service, caller: Caller) -> None:
    name = await receive(service)
    refund = await start(service, caller, name, external_id="a")
    service.clock.advance(days=100)
    await service.set_holder(caller, may_withdraw=False)
    assert await start(service, caller, name, external_id="a") == refund
    assert await start(service, caller, name, external_id="a", reason="MD06") == refund  # a default filled in
    for changes in ({"amount_cents": 0}, {"amount_cents": 1}, {"reason": "FR01"}, {"description": "x"}, {"name": "E1"}):
        with pytest.raises(errors.ExternalIdConflict):
            await start(service, caller, **({"name": name, "external_id": "a"} | changes))  # type: ignore[arg-type]


async def test_a_hundred_refunds_never_exceed_theirs(service: Service, caller: Caller, database: Addresses) -> None:
    name = await receive(service)
    async with open_service(database, clock=service.clock) as other:
        outcomes = await asyncio.gather(
            *(start(one, caller, name, 30) for _ in range(50) for one in (service, other)), return_exceptions=True
        )
        assert Counter(map(type, outcomes)) == {Refund: 33, errors.RefundExceedsOriginal: 67}
        accepted = [outcome for outcome in outcomes if isinstance(outcome, Refund)]
        await asyncio.gather(
            *(end(one, refund, SETTLED if n % 2 else REJECTED) for n, refund in enumerate(accepted) for one in (service, other))
        )
    assert await read_funds(service, caller) == (1_001_000 - 16 * 30, 0)
    await check_books(service)


async def test_fifty_of_one_external_id_answer_alike(service: Service, caller: Caller, database: Addresses) -> None:
    name = await receive(service)
    async with open_service(database, clock=service.clock) as other:
        refunds = await asyncio.gather(
            *(start(one, caller, name, 30, external_id="a") for _ in range(25) for one in (service, other))
        )
    assert all(refund == refunds[0] for refund in refunds)
    assert await read_funds(service, caller) == (1_000_970, 30)


async def test_a_book_transfer_is_refunded_by_book(service: Service, caller: Caller) -> None:
    payer = await open_holder(service, account_number="2", funds_cents=1_000)
    charge = await make_charge(service, caller, amount_cents=1000)
    paid = await transfer_usecases.start_transfer(
        service.context, payer, QrCodeTransferRequest(amount_cents=1000, br_code=charge.br_code)
    )
    name = paid.transfer.end_to_end_id
    with pytest.raises(errors.OriginalNotRefundable):
        await start(service, payer, name)
    first = await start(service, caller, name, 400)
    assert (first.status, first.is_book) == ("RETURNED", True)
    theirs = await refund_usecases.read_refund_by_return_id(service.context, payer, first.return_id)
    assert (theirs.status, theirs.flow, theirs.external_id, theirs.amount_cents) == ("RETURNED", "IN", None, 400)
    assert (await original_now(service, payer, name)).returned_cents == 400
    await start(service, caller, name, 600)
    assert [(await original_now(service, holder, name)).status for holder in (payer, caller)] == ["RETURNED"] * 2
    assert (await charge_usecases.read_charge_by_id(service.context, caller, charge.id)).status == "RETURNED"
    assert (await read_funds(service, payer), await read_funds(service, caller)) == ((1_000, 0), (1_000_000, 0))
    await check_books(service)


async def test_a_book_refund_to_a_blocked_holder_fails_on_both_sides(service: Service, caller: Caller) -> None:
    payer = await open_holder(service, account_number="2", funds_cents=1_000)
    party = (await service.context.directory.read_account(caller.holder_id)).party
    paid = await send_out(service, payer, 1000, credit_party=party)
    await service.set_holder(payer, may_deposit=False)
    refund = await start(service, caller, paid.end_to_end_id)
    assert (refund.status, refund.outcome_code) == ("ERROR", "AC06")
    assert (await refund_usecases.read_refund_by_return_id(service.context, payer, refund.return_id)).status == "ERROR"
    assert await read_funds(service, caller) == (1_001_000, 0)
    await service.set_holder(payer, may_deposit=True)
    assert (await start(service, caller, paid.end_to_end_id)).status == "RETURNED"
    await check_books(service)


@pytest.mark.long
async def test_book_refunds_and_transfers_cross_without_a_ring_of_locks(service: Service, database: Addresses) -> None:
    holders = [await open_holder(service, account_number=str(n), funds_cents=10_000) for n in (1, 2)]
    parties = [(await service.context.directory.read_account(holder.holder_id)).party for holder in holders]

    async def send(one: Service, payer: int) -> tuple[int, str]:
        return 1 - payer, (await send_out(one, holders[payer], 10, credit_party=parties[1 - payer])).end_to_end_id

    async with open_service(database, clock=service.clock) as other:
        sent = await asyncio.gather(*(send(one, payer) for _ in range(20) for payer in (0, 1) for one in (service, other)))
        await asyncio.gather(
            *(start(one, holders[payee], name, 5) for payee, name in sent for one in (other, service)),
            *(send(one, payer) for _ in range(20) for payer in (0, 1) for one in (service, other)),
        )
    assert [await read_funds(service, holder) for holder in holders] == [(10_000, 0)] * 2
    await check_books(service)


async def test_another_holders_refund_looks_like_an_absent_one(service: Service, caller: Caller) -> None:
    stranger = await open_holder(service, account_number="2")
    refund = await start(service, caller, await receive(service), external_id="a")
    reads = [
        refund_usecases.read_refund_by_id(service.context, stranger, refund.id),
        refund_usecases.read_refund_by_external_id(service.context, stranger, "a"),
        refund_usecases.read_refund_by_return_id(service.context, stranger, refund.return_id),
    ]
    for read in reads:
        with pytest.raises(errors.NotFound):
            await read


async def test_a_list_is_of_one_status_or_of_all(service: Service, caller: Caller) -> None:
    name = await receive(service)
    refunds = [await start(service, caller, name, 10) for _ in range(3)]
    await end(service, refunds[0])
    await end(service, refunds[1], REJECTED)
    for status, expected in ((None, refunds), ("PROCESSING", refunds[2:]), ("ERROR", refunds[1:2])):
        page = await refund_usecases.list_refunds(service.context, caller, status, Span())  # type: ignore[arg-type]
        assert {refund.id for refund in page.items} == {refund.id for refund in expected}
        assert page.total_count == len(expected)
