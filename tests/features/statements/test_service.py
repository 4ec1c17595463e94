"""Statements of a history that the service itself has made."""

import asyncio
from collections.abc import Sequence

import pytest

from pixconnect.features.statements import service as statement_usecases
from pixconnect.features.statements.rules import StatementLine
from pixconnect.kernel.flows import ledger
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.rail import Settled
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.kernel.rules.transfer import KeyTransferRequest
from support.records import OUTSIDE_ISPB, own_key
from support.service import Service, credit_report, make_charge, open_holder
from support.statement import EVER, make_history, read_all, signed_cents


def adds_up(opening_cents: int, lines: Sequence[StatementLine], closing_cents: int) -> bool:
    """Each line's running balance, and the whole."""
    running = [opening_cents + signed_cents(lines[: count + 1]) for count in range(len(lines))]
    return [line.running_balance_cents for line in lines] == running and (running or [opening_cents])[-1] == closing_cents


async def test_every_kind_of_line_names_what_caused_it(service: Service, caller: Caller) -> None:
    history = await make_history(service, caller)
    statement = await statement_usecases.open_statement(service.context, caller, *EVER)
    first, received, sent, refunded, returned, deposit = await read_all(service, statement)
    assert [line.direction for line in (first, received, sent, refunded, returned, deposit)] == [
        "IN", "IN", "OUT", "OUT", "IN", "IN",
    ]  # fmt: skip
    assert [line.amount_cents for line in (received, sent, refunded, returned, deposit)] == [5000, 3000, 700, 1000, 55]
    assert (received.end_to_end_id, received.return_id, received.description) == (history.received, None, None)
    assert (sent.end_to_end_id, sent.return_id) == (history.sent, None)
    assert (refunded.end_to_end_id, refunded.return_id) == (history.received, history.refunded)
    assert refunded.description == '"Tall";\r\n=1+1 & <b>'
    assert (returned.end_to_end_id, returned.return_id) == (history.sent, history.returned)
    for line in (received, sent, refunded, returned):
        assert line.counterparty is not None
        assert (line.counterparty.name, line.counterparty.ispb) == ("Joana Prado", OUTSIDE_ISPB)
    assert (deposit.end_to_end_id, deposit.return_id, deposit.counterparty) == (None, None, None)


async def test_a_line_has_the_holders_own_name_for_what_caused_it(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    report = credit_report(service, txid=charge.txid)
    await receive_credit(service.context, report)
    service.clock.advance(minutes=1)
    asked = RefundRequest(end_to_end_id=report.end_to_end_id, amount_cents=1, external_id="back-1")
    refund = await refund_usecases.start_refund(service.context, caller, asked)
    await end_orders(service.context, [(refund.return_id, Settled(settled_at=service.clock.now()))])
    service.clock.advance(minutes=1)
    other = await open_holder(service, account_number="2")
    request = KeyTransferRequest(amount_cents=1, key=own_key("2"), key_type="EMAIL", external_id="out-1")
    await transfer_usecases.start_transfer(service.context, caller, request)
    statement = await statement_usecases.open_statement(service.context, caller, *EVER)
    *_, paid, refunded, sent = await read_all(service, statement)
    assert (paid.external_id, paid.txid) == (charge.external_id, charge.txid)
    assert (refunded.external_id, refunded.txid) == ("back-1", charge.txid)
    assert (sent.external_id, sent.txid) == ("out-1", None)
    # Another holder's names are not ours to show.
    (received,) = await read_all(service, await statement_usecases.open_statement(service.context, other, *EVER))
    assert (received.external_id, received.txid) == (None, None)


async def test_opening_and_lines_make_closing_and_closing_is_the_balance(service: Service, caller: Caller) -> None:
    await make_history(service, caller)
    statement = await statement_usecases.open_statement(service.context, caller, *EVER)
    lines = await read_all(service, statement)
    assert adds_up(statement.extent.opening_cents, lines, statement.extent.closing_cents)
    assert statement.extent.closing_cents == (await ledger.read_balance(service.context, caller)).current_cents


async def test_a_statement_is_of_its_holder_alone(service: Service, caller: Caller) -> None:
    await make_history(service, caller)
    other = await open_holder(service, account_number="2")
    statement = await statement_usecases.open_statement(service.context, other, *EVER)
    assert await read_all(service, statement) == []
    assert (statement.account.account_number, statement.extent.closing_cents) == ("2", 0)


async def test_two_spans_that_meet_are_the_whole(service: Service, caller: Caller) -> None:
    await make_history(service, caller)
    whole = await statement_usecases.open_statement(service.context, caller, *EVER)
    lines = await read_all(service, whole)
    for line in lines[:-1]:
        before = await statement_usecases.open_statement(service.context, caller, EVER[0], line.created_at)
        after_at = lines[lines.index(line) + 1].created_at
        after = await statement_usecases.open_statement(service.context, caller, after_at, EVER[1])
        assert before.extent.closing_cents == after.extent.opening_cents == line.running_balance_cents
        assert await read_all(service, before) + await read_all(service, after) == lines


@pytest.mark.long
async def test_a_statement_stays_what_it_was_while_money_arrives(service: Service, caller: Caller) -> None:
    async def pay_in() -> None:
        # Limited, because payments that are faster than the reading would make statements endless.
        for _ in range(40):
            await asyncio.gather(*(ledger.deposit(service.context, caller.holder_id, 7) for _ in range(5)))

    async def read() -> int:
        statement = await statement_usecases.open_statement(service.context, caller, *EVER)
        lines: list[StatementLine] = []
        async for part in statement_usecases.read_parts(service.context, statement, lines_a_part=3):
            lines += part
            await asyncio.sleep(0)
        assert adds_up(statement.extent.opening_cents, lines, statement.extent.closing_cents)
        return len(lines)

    lengths = [await read()]
    paying = asyncio.create_task(pay_in())
    while not paying.done():
        lengths.append(await read())
    await paying
    lengths.append(await read())
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


async def test_nothing_is_held_in_the_database_while_a_reader_takes_its_time(service: Service, caller: Caller) -> None:
    await make_history(service, caller)
    statement = await statement_usecases.open_statement(service.context, caller, *EVER)
    pool, parts_count = service.context.pool, 0
    async for _ in statement_usecases.read_parts(service.context, statement, lines_a_part=1):
        parts_count += 1
        assert pool.get_idle_size() == pool.get_size()
        held = await pool.fetchval(
            """select count(*) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()
                and backend_type = 'client backend' and (xact_start is not null or backend_xmin is not null)"""
        )
        assert held == 0
    assert parts_count == 6


@pytest.mark.parametrize("lines_a_part", [1, 2, 5, 6, 7])
async def test_parts_of_any_size_are_the_same_statement(service: Service, caller: Caller, lines_a_part: int) -> None:
    await make_history(service, caller)
    statement = await statement_usecases.open_statement(service.context, caller, *EVER)
    whole = await read_all(service, statement)
    parts = [part async for part in statement_usecases.read_parts(service.context, statement, lines_a_part)]
    assert [line for part in parts for line in part] == whole
    assert {len(part) for part in parts[:-1]} <= {lines_a_part}
