"""Movements by the institution: each item once, with its entry, up to the available balance."""

import asyncio
from collections import Counter
from datetime import timedelta

from pixconnect.features.statements import service as statement_usecases
from pixconnect.features.statements.rules import StatementLine
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.holder import HolderChanges
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.listing import Span
from pixconnect.kernel.rules.rail import Abilities, Report, Settled
from support.books import check_books
from support.operators import as_operator
from support.postgres import Addresses
from support.service import STARTED_AT, Service, credit_report, movement_report, open_holder, open_service, send_out

FUNDS_CENTS = 1_000_000


async def available(service: Service, caller: Caller) -> int:
    return (await ledger_usecases.read_balance(service.context, caller)).available_cents


async def read_lines(service: Service, caller: Caller) -> list[StatementLine]:
    now = service.clock.now()
    found = await statement_usecases.open_statement(
        service.context, caller, now - timedelta(days=1), now + timedelta(days=1), "pt"
    )
    return [line async for part in statement_usecases.read_parts(service.context, found) for line in part]


def answers(service: Service) -> list[str | None]:
    return [one.refusal_code for one in service.rail.acknowledged]


async def test_a_fee_is_a_numbered_line_with_the_networks_instant(service: Service, caller: Caller) -> None:
    hours_ago = service.clock.now() - timedelta(hours=5)
    fee = movement_report(service, end_to_end_id="E1", settled_at=hours_ago, description=None)
    assert await take_reports(service.context, [fee]) == 1
    assert await available(service, caller) == FUNDS_CENTS - 100
    line = (await read_lines(service, caller))[-1]
    assert (line.direction, line.amount_cents, line.running_balance_cents) == ("OUT", 100, FUNDS_CENTS - 100)
    assert (line.end_to_end_id, line.counterparty, line.describe("pt")) == (None, None, "Tarifa")
    assert line.movement is not None
    assert (line.movement.kind, line.movement.item_id, line.movement.end_to_end_id) == ("fee", "M1", "E1")
    assert line.network_settled_at == hours_ago
    transactions = await ledger_usecases.list_transactions(service.context, caller, Span(page_size=1))
    assert [(one.direction, one.amount_cents) for one in transactions.items] == [("OUT", 100)]
    await check_books(service)


async def test_an_item_is_posted_once_however_often_and_by_how_many_it_is_reported(service: Service, caller: Caller) -> None:
    wire = movement_report(service, kind="wire", direction="IN", amount_cents=500)
    await asyncio.gather(*(take_reports(service.context, [wire, wire]) for _ in range(4)))
    assert await available(service, caller) == FUNDS_CENTS + 500
    assert set(answers(service)) == {None}
    await check_books(service)


async def test_a_repeat_with_other_contents_is_kept_and_changes_nothing(service: Service, caller: Caller) -> None:
    await take_reports(service.context, [movement_report(service)])
    await take_reports(service.context, [movement_report(service, amount_cents=101)])
    assert await available(service, caller) == FUNDS_CENTS - 100
    [kept] = await kept_usecases.list_kept(as_operator(service.context), with_closed=False)
    assert (kept.kind, kept.reason, kept.name) == ("movement", "changed_repeat", "M1")
    await check_books(service)


async def test_what_lacks_funds_is_refused_and_stays_refused(service: Service, caller: Caller) -> None:
    by_hand = movement_report(service, kind="by_hand", amount_cents=FUNDS_CENTS + 1)
    await take_reports(service.context, [by_hand])
    await ledger_usecases.deposit(service.context, caller.holder_id, 1)
    await take_reports(service.context, [by_hand])
    assert answers(service) == ["AM04", "AM04"]
    assert await available(service, caller) == FUNDS_CENTS + 1
    assert await kept_usecases.list_kept(as_operator(service.context), with_closed=True) == []
    await take_reports(service.context, [movement_report(service, "M2", amount_cents=FUNDS_CENTS + 1)])
    assert await available(service, caller) == 0
    await check_books(service)


async def test_a_holder_who_may_not_deposit_gets_no_wire_and_pays_its_fees(service: Service, caller: Caller) -> None:
    changes = HolderChanges(may_deposit=False, may_withdraw=False)
    await holder_usecases.set_holder(as_operator(service.context), caller.holder_id, changes)
    wire = movement_report(service, "M1", kind="wire", direction="IN")
    await take_reports(service.context, [wire, movement_report(service, "M2")])
    assert sorted(answers(service), key=str) == ["AC06", None]
    assert await available(service, caller) == FUNDS_CENTS - 100
    await check_books(service)


async def test_an_unknown_account_is_for_a_person_without_refusals(database: Addresses) -> None:
    async with open_service(database, abilities=Abilities(refuses_credits=False)) as service:
        await open_holder(service, funds_cents=FUNDS_CENTS)
        nobodys = credit_report(service, account_number="404").credit_party
        await take_reports(service.context, [movement_report(service, "M2", party=nobodys)])
        assert answers(service) == [None]
        [kept] = await kept_usecases.list_kept(as_operator(service.context), with_closed=False)
        assert (kept.reason, kept.refusal_code) == ("cannot_be_recorded", None)
        await check_books(service)


async def test_an_item_that_is_an_order_of_ours_is_no_movement(service: Service, caller: Caller) -> None:
    sent = await send_out(service, caller, 100)
    for _ in range(2):
        await take_reports(service.context, [movement_report(service, sent.end_to_end_id)])
    await end_orders(service.context, [(sent.end_to_end_id, Settled(settled_at=STARTED_AT))])
    assert await available(service, caller) == FUNDS_CENTS - 100
    [kept] = await kept_usecases.list_kept(as_operator(service.context), with_closed=False)
    assert kept.reason == "contradiction"
    await check_books(service)


async def test_an_item_of_nobody_here_or_without_form_is_kept(service: Service, caller: Caller) -> None:
    nobodys = credit_report(service, account_number="404").credit_party
    odd: list[Report] = [
        movement_report(service, "M1", party=nobodys),
        movement_report(service, "m" * 65),
        movement_report(service, "M3", amount_cents=0),
        movement_report(service, "M4", description="x" * 141),
        movement_report(service, "M\0"),
    ]
    assert await take_reports(service.context, odd) == 5
    assert Counter(answers(service)) == {"AC03": 1, "CH16": 4}
    assert len(await kept_usecases.list_kept(as_operator(service.context), with_closed=False)) == 5
    assert await available(service, caller) == FUNDS_CENTS
    await check_books(service)


async def test_the_networks_instant_is_kept_beside_ours(service: Service, caller: Caller) -> None:
    sent = await send_out(service, caller, 100)
    theirs = STARTED_AT - timedelta(hours=3)
    await end_orders(service.context, [(sent.end_to_end_id, Settled(settled_at=theirs))])
    found = await transfer_usecases.read_transfer_by_id(service.context, caller, sent.id)
    assert found.transfer.network_settled_at == theirs
    assert found.transfer.settled_at is not None
    assert found.transfer.settled_at >= STARTED_AT
    await check_books(service)
