"""Statements and lines for tests, valid by default, and a history made by the service."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from pixconnect.features.statements import service as statement_usecases
from pixconnect.features.statements.rules import Counterparty, MovedItem, NumberRange, Statement, StatementLine
from pixconnect.kernel.flows import incoming, ledger, settlement
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.rail import DirectoryEntry, ReturnReport, Settled
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.kernel.rules.transfer import KeyTransferRequest
from support.records import AT, E2E, OUTSIDE_ISPB, RETURN_ID, outside_party
from support.service import Service, credit_report

EVER = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


Write = Callable[[Statement, AsyncIterable[Sequence[StatementLine]]], AsyncIterator[bytes]]


def write_whole(write: Write, statement: Statement, lines: Sequence[StatementLine]) -> bytes:
    """A statement whose lines come one by one, in one of the formats."""

    async def read_parts() -> AsyncIterator[Sequence[StatementLine]]:
        for line in lines:
            yield [line]

    async def gather() -> bytes:
        return b"".join([part async for part in write(statement, read_parts())])

    return asyncio.run(gather())


class History(Struct, frozen=True, kw_only=True):
    """The end-to-end ids of both transfers in the history, and the return ids of both refunds."""

    received: str
    sent: str
    refunded: str
    returned: str


async def make_history(service: Service, caller: Caller) -> History:
    """Make a line of each kind after the existing deposits: transfer in and out, refund out and in, a deposit of 0.55."""
    context = service.context
    report = credit_report(service, amount_cents=5_000)
    await incoming.receive_credit(context, report)
    service.clock.advance(minutes=1)
    key = "joana@outside.example"
    service.rail.entries[key] = DirectoryEntry(key=key, key_type="EMAIL", party=outside_party(key=key))
    request = KeyTransferRequest(amount_cents=3_000, key=key, key_type="EMAIL")
    sent = (await transfer_usecases.start_transfer(context, caller, request)).transfer
    await settlement.end_orders(context, [(sent.end_to_end_id, Settled(settled_at=service.clock.now()))])
    service.clock.advance(minutes=1)
    asked = RefundRequest(end_to_end_id=report.end_to_end_id, amount_cents=700, description='"Tall";\r\n=1+1 & <b>')
    refund = await refund_usecases.start_refund(context, caller, asked)
    await settlement.end_orders(context, [(refund.return_id, Settled(settled_at=service.clock.now()))])
    service.clock.advance(minutes=1)
    returned = "D" + OUTSIDE_ISPB + "202607011503" + context.entropy.token(11)
    await incoming.receive_return(context, ReturnReport(
        report_id="r2", return_id=returned, original_end_to_end_id=sent.end_to_end_id, amount_cents=1_000, reason="MD06",
        description=None, reported_at=service.clock.now(),
    ))  # fmt: skip
    service.clock.advance(minutes=1)
    await ledger.deposit(context, caller.holder_id, 55)
    return History(received=report.end_to_end_id, sent=sent.end_to_end_id, refunded=refund.return_id, returned=returned)


async def read_all(service: Service, statement: Statement) -> list[StatementLine]:
    return [line async for part in statement_usecases.read_parts(service.context, statement) for line in part]


def signed_cents(lines: Sequence[StatementLine]) -> int:
    return sum(line.amount_cents if line.direction == "IN" else -line.amount_cents for line in lines)


def make_line(**changes: Any) -> StatementLine:
    fields: dict[str, Any] = {
        "id": 11,
        "created_at": AT,
        "end_to_end_id": E2E,
        "return_id": None,
        "direction": "IN",
        "amount_cents": 1234,
        "running_balance_cents": 11234,
        "counterparty": Counterparty(name="Joana Prado", tax_id="12345678909", ispb=OUTSIDE_ISPB),
        "description": None,
    }
    return StatementLine(**fields | changes)


def make_refund_line(**changes: Any) -> StatementLine:
    fields: dict[str, Any] = {
        "id": 12, "return_id": RETURN_ID, "direction": "OUT", "amount_cents": 34, "running_balance_cents": 11200,
        "description": "Wrong size",
    }  # fmt: skip
    return make_line(**fields | changes)


def make_deposit_line(**changes: Any) -> StatementLine:
    fields: dict[str, Any] = {
        "id": 13, "end_to_end_id": None, "counterparty": None, "amount_cents": 100, "running_balance_cents": 11300,
    }  # fmt: skip
    return make_line(**fields | changes)


def make_fee_line(**changes: Any) -> StatementLine:
    item = MovedItem(kind="fee", item_id="M1", end_to_end_id=E2E)
    return make_deposit_line(**{"id": 14, "direction": "OUT", "amount_cents": 50, "movement": item} | changes)


def make_repayment_line(**changes: Any) -> StatementLine:
    return make_deposit_line(**{"id": 15, "direction": "OUT", "amount_cents": 40, "is_repayment": True} | changes)


def make_adjustment_line(**changes: Any) -> StatementLine:
    return make_deposit_line(**{"id": 16, "direction": "OUT", "amount_cents": 30, "adjustment": "bank_error"} | changes)


LINES = [make_line(), make_refund_line(), make_deposit_line()]


def make_statement(lines: Sequence[StatementLine] = LINES, **changes: Any) -> Statement:
    """Lines from an opening balance of 100.00, unless another is given."""
    closing_cents = lines[-1].running_balance_cents if lines else 10000
    fields: dict[str, Any] = {
        "holder_id": 7,
        "account": Party(
            account_number="1001", account_type="TRANSACTIONAL", bank="Pix Connect Sandbox", branch="0001",
            ispb="99999003", name="Maria Souza", tax_id="52998224725",
        ),
        "initial_at": AT - timedelta(days=1),
        "final_at": AT + timedelta(days=1),
        "made_at": AT + timedelta(hours=1),
        "extent": NumberRange(
            first_number=4,
            last_number=3 + len(lines),
            opening_cents=10000,
            closing_cents=closing_cents,
            last_at=lines[-1].created_at if lines else None,
        ),
    }  # fmt: skip
    return Statement(**fields | changes)
