"""The institution took money that was not there: the holder owes it, and received money repays it first."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import pytest

from pixconnect.features.movements import tables as movement_store
from pixconnect.features.pix_api.service import pix as standard_refund
from pixconnect.features.statements import service as statement_usecases
from pixconnect.features.statements.rules import StatementLine
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.incoming import receive_credit, receive_return
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.flows.settlement import Ending, GivenUp, end_orders
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.rail import Abilities, Rejected, Settled
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.kernel.rules.transfer import KeyTransferRequest, Transfer
from pixconnect.platform.base import errors
from pixconnect.platform.base.errors import Violated
from support.books import check_books
from support.operators import as_operator
from support.postgres import Addresses
from support.records import OUTSIDE_ISPB, a_return, own_key
from support.service import (
    STARTED_AT,
    Service,
    credit_report,
    make_charge,
    movement_report,
    open_holder,
    open_service,
    send_out,
)

FUNDS_CENTS = 1_000
SENT_CENTS = 400
OWED_CENTS = 250
SETTLED = Settled(settled_at=STARTED_AT)


@pytest.fixture
async def service(database: Addresses) -> AsyncIterator[Service]:
    """Over a rail without refusals."""
    async with open_service(database, abilities=Abilities(refuses_credits=False)) as opened:
        yield opened


@pytest.fixture
async def caller(service: Service) -> Caller:
    return await open_holder(service, funds_cents=FUNDS_CENTS)


async def funds(service: Service, caller: Caller) -> tuple[int, int, int]:
    balance = await ledger_usecases.read_balance(service.context, caller)
    return balance.available_cents, balance.reserved_cents, balance.deficit_cents


async def take_fee(service: Service, caller: Caller, owed_cents: int = OWED_CENTS) -> None:
    """More than is available."""
    available_cents, _, _ = await funds(service, caller)
    fee = movement_report(service, amount_cents=available_cents + owed_cents)
    assert await take_reports(service.context, [fee]) == 1
    assert (await funds(service, caller))[::2] == (0, owed_cents)


async def send(service: Service, caller: Caller, amount_cents: int = SENT_CENTS) -> Transfer:
    return await send_out(service, caller, amount_cents)


async def read_lines(service: Service, caller: Caller) -> list[StatementLine]:
    now = service.clock.now()
    found = await statement_usecases.open_statement(
        service.context, caller, now - timedelta(days=1), now + timedelta(days=1), "pt"
    )
    lines = [line async for part in statement_usecases.read_parts(service.context, found) for line in part]
    signed = [line.amount_cents if line.direction == "IN" else -line.amount_cents for line in lines]
    assert found.extent.opening_cents + sum(signed) == found.extent.closing_cents
    return lines


async def test_a_movement_takes_what_is_there_and_lacks_the_rest(service: Service, caller: Caller) -> None:
    await send(service, caller)
    await take_fee(service, caller)
    assert await funds(service, caller) == (0, SENT_CENTS, OWED_CENTS)
    movement = await movement_store.find_by_item_id(service.context.pool, caller.holder_id, "M1")
    assert movement is not None
    taken_cents = FUNDS_CENTS - SENT_CENTS
    assert (movement.amount_cents, movement.deficit_cents) == (taken_cents + OWED_CENTS, OWED_CENTS)
    line = (await read_lines(service, caller))[-1]
    assert (line.amount_cents, line.running_balance_cents, line.describe("pt")) == (taken_cents, SENT_CENTS, "Tarifa")
    # A second one finds nothing, and is owed in full: it has no line until it is repaid.
    await take_reports(service.context, [movement_report(service, "M2", amount_cents=7)])
    assert await funds(service, caller) == (0, SENT_CENTS, OWED_CENTS + 7)
    assert (await read_lines(service, caller))[-1].id == line.id
    assert await kept_usecases.list_kept(as_operator(service.context), with_closed=True) == []
    told = await service.fetch("select resource_id, body from event where resource = 'movement' order by id")
    first, second = (json.loads(row["body"])["payload"] for row in told)
    assert (first["item_id"], first["amount"], first["deficit"]) == ("M1", taken_cents + OWED_CENTS, OWED_CENTS)
    assert (first["id"], first["status"], first["impact_type"]) == (line.id, "POSTED", "OUT")
    assert (second["item_id"], second["amount"], second["deficit"]) == ("M2", 7, 7)
    assert [row["resource_id"] for row in told] == [first["id"], second["id"]]
    await check_books(service)


async def receive(service: Service, amount_cents: int) -> None:
    await receive_credit(service.context, credit_report(service, amount_cents=amount_cents))


async def move_in(service: Service, amount_cents: int) -> None:
    wire = movement_report(service, "wire", kind="wire", direction="IN", amount_cents=amount_cents)
    await take_reports(service.context, [wire])


async def deposit(service: Service, amount_cents: int) -> None:
    await ledger_usecases.deposit(service.context, 1, amount_cents)


async def pay_by_book(service: Service, amount_cents: int) -> None:
    other = await open_holder(service, account_number="2", funds_cents=amount_cents)
    request = KeyTransferRequest(amount_cents=amount_cents, key=own_key(), key_type="EMAIL")
    await transfer_usecases.start_transfer(service.context, other, request)


INCOMES: dict[str, Callable[[Service, int], Awaitable[None]]] = {
    "a Pix": receive,
    "a movement in": move_in,
    "a deposit": deposit,
    "a book transfer": pay_by_book,
}


@pytest.mark.parametrize("income", INCOMES)
@pytest.mark.parametrize("amount_cents", [1, OWED_CENTS, OWED_CENTS + 50])
async def test_whatever_comes_in_repays_first(service: Service, caller: Caller, income: str, amount_cents: int) -> None:
    await take_fee(service, caller)
    await INCOMES[income](service, amount_cents)
    repaid_cents = min(amount_cents, OWED_CENTS)
    assert await funds(service, caller) == (amount_cents - repaid_cents, 0, OWED_CENTS - repaid_cents)
    came, repaid = (await read_lines(service, caller))[-2:]
    assert (came.direction, came.amount_cents, came.is_repayment) == ("IN", amount_cents, False)
    assert (repaid.direction, repaid.amount_cents, repaid.is_repayment) == ("OUT", repaid_cents, True)
    assert (repaid.end_to_end_id, repaid.counterparty, repaid.movement) == (None, None, None)
    assert (repaid.describe("pt"), repaid.describe("en")) == ("Saldo devedor coberto", "Deficit repaid")
    sources = await service.fetch("select source_entry_id, amount_cents from repayment where holder_id = 1")
    assert [tuple(row) for row in sources] == [(came.id, repaid_cents)]
    await check_books(service)


@pytest.mark.parametrize("ending", [Rejected(code="AC03", reason="no"), GivenUp()], ids=["rejected", "given up"])
async def test_a_freed_order_repays_what_is_owed(service: Service, caller: Caller, ending: Ending) -> None:
    sent = await send(service, caller)
    await take_fee(service, caller)
    service.clock.advance(seconds=61)
    await end_orders(service.context, [(sent.end_to_end_id, ending)] * 2)
    assert await funds(service, caller) == (SENT_CENTS - OWED_CENTS, 0, 0)
    [*_, repaid] = await read_lines(service, caller)
    assert (repaid.is_repayment, repaid.amount_cents) == (True, OWED_CENTS)
    await check_books(service)


async def test_what_was_accepted_goes_on_and_what_is_given_back_repays(service: Service, caller: Caller) -> None:
    sent = await send(service, caller)
    await take_fee(service, caller)
    await end_orders(service.context, [(sent.end_to_end_id, SETTLED)])
    assert await funds(service, caller) == (0, 0, OWED_CENTS)
    name = f"D{OUTSIDE_ISPB}202607011500abcdefghijk"
    given_back = a_return(sent.end_to_end_id, report_id=name, amount_cents=SENT_CENTS, reported_at=service.clock.now())
    assert await receive_return(service.context, given_back) is not None
    assert await funds(service, caller) == (SENT_CENTS - OWED_CENTS, 0, 0)
    await check_books(service)


async def test_a_rejected_refund_repays_too(service: Service, caller: Caller) -> None:
    report = credit_report(service, amount_cents=SENT_CENTS)
    await receive_credit(service.context, report)
    request = RefundRequest(end_to_end_id=report.end_to_end_id, amount_cents=SENT_CENTS)
    refund = await refund_usecases.start_refund(service.context, caller, request)
    await take_fee(service, caller)
    await end_orders(service.context, [(refund.return_id, Rejected(code="AC03", reason="no"))])
    assert await funds(service, caller) == (SENT_CENTS - OWED_CENTS, 0, 0)
    await check_books(service)


async def test_who_owes_starts_no_order_at_either_door_until_it_is_repaid(service: Service, caller: Caller) -> None:
    report = credit_report(service, amount_cents=5)
    await receive_credit(service.context, report)
    await take_fee(service, caller, owed_cents=1)
    refund = RefundRequest(end_to_end_id=report.end_to_end_id, amount_cents=1)
    with pytest.raises(errors.InsufficientFunds, match="owes 1 cents"):
        await send(service, caller, 1)
    with pytest.raises(errors.InsufficientFunds, match="owes 1 cents"):
        await refund_usecases.start_refund(service.context, caller, refund)
    original = await transfer_usecases.read_transfer_by_end_to_end_id(service.context, caller, report.end_to_end_id)
    with pytest.raises(Violated) as caught:
        await standard_refund.request_refund(service.context, caller, original.transfer, "r1", amount_cents=1, description=None)
    assert [row.property for row in caught.value.rows] == ["devolucao.valor"]
    await deposit(service, 2)
    assert (await send(service, caller, 1)).status == "PROCESSING"
    await check_books(service)


async def test_an_opening_balance_of_nothing_has_no_entry(service: Service, caller: Caller) -> None:
    empty = await open_holder(service, account_number="2")
    overdrawn = await open_holder(service, account_number="3")
    opened = [
        movement_report(
            service, f"opening-{number}", kind="opening_balance", direction=direction, amount_cents=amount_cents,
            party=credit_report(service, account_number=number).credit_party,
        )
        for number, direction, amount_cents in (("1", "IN", 70), ("2", "IN", 0), ("3", "OUT", 30))
    ]  # fmt: skip
    for _ in range(2):
        assert await take_reports(service.context, opened) == 3
    assert await funds(service, caller) == (FUNDS_CENTS + 70, 0, 0)
    assert await funds(service, empty) == (0, 0, 0)
    assert await funds(service, overdrawn) == (0, 0, 30)
    assert await read_lines(service, empty) == await read_lines(service, overdrawn) == []
    found = await movement_store.find_by_item_id(service.context.pool, empty.holder_id, "opening-2")
    assert found is not None
    assert (found.status, found.entry_id, found.deficit_entry_id) == ("POSTED", None, None)
    await check_books(service)


async def test_an_unacceptable_payment_that_repaid_is_kept(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller, amount_cents=SENT_CENTS)
    await take_fee(service, caller)
    wrong = credit_report(service, amount_cents=SENT_CENTS + 1, txid=charge.txid)
    for _ in range(2):
        assert await take_reports(service.context, [wrong]) == 1
    assert await funds(service, caller) == (SENT_CENTS + 1 - OWED_CENTS, 0, 0)
    [kept] = await kept_usecases.list_kept(as_operator(service.context), with_closed=False)
    assert (kept.kind, kept.reason, kept.name) == ("credit", "cannot_be_returned", wrong.end_to_end_id)
    assert await service.fetch("select from refund") == []
    await check_books(service)


async def test_movements_and_credits_of_a_batch_go_one_by_one(service: Service, caller: Caller) -> None:
    reports = [
        movement_report(service, "M1", amount_cents=FUNDS_CENTS + 10),
        movement_report(service, "M2", amount_cents=20),
        movement_report(service, "M3", kind="wire", direction="IN", amount_cents=25),
        movement_report(service, "M4", kind="wire", direction="IN", amount_cents=25),
        movement_report(service, "M5", amount_cents=30),
    ]
    assert await take_reports(service.context, reports) == 5
    available_cents, _, owed_cents = await funds(service, caller)
    assert available_cents - owed_cents == -10 - 20 + 25 + 25 - 30
    await check_books(service)
