"""What tests of statements stand on: statements and lines that are valid by default, and a history that a service has made."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from pixconnect.domain.access import Caller
from pixconnect.domain.holder import Party
from pixconnect.domain.rail import DirectoryEntry, ReturnReport, Settled
from pixconnect.domain.refund import RefundRequest
from pixconnect.domain.statement import Counterparty, Extent, Statement, StatementLine
from pixconnect.domain.transfer import KeyTransferRequest
from pixconnect.usecases import incoming, ledger, settlement
from pixconnect.usecases import refund as refund_usecases
from pixconnect.usecases import statement as statement_usecases
from pixconnect.usecases import transfer as transfer_usecases
from support.service import OUTSIDE_ISPB, Service, credit_report, outside_party

AT = datetime(2026, 7, 1, 15, 0, 0, 123456, UTC)
EVER = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
E2E = "E99999004202607011500abcdefghijk"
RETURN_ID = "D99999003202607011500abcdefghijk"


Write = Callable[[Statement, AsyncIterable[Sequence[StatementLine]]], AsyncIterator[bytes]]


def write_whole(write: Write, statement: Statement, lines: Sequence[StatementLine]) -> bytes:
    """A statement whose lines come one by one, written by one of the formats."""

    async def read_parts() -> AsyncIterator[Sequence[StatementLine]]:
        for line in lines:
            yield [line]

    async def gather() -> bytes:
        return b"".join([part async for part in write(statement, read_parts())])

    return asyncio.run(gather())


def make_line(**changes: Any) -> StatementLine:
    """A transfer in of 12.34."""
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
    """A refund out of 0.34, described."""
    fields: dict[str, Any] = {
        "id": 12,
        "return_id": RETURN_ID,
        "direction": "OUT",
        "amount_cents": 34,
        "running_balance_cents": 11200,
        "description": "Wrong size",
    }
    return make_line(**fields | changes)


def make_deposit_line(**changes: Any) -> StatementLine:
    """A deposit of 1.00."""
    fields: dict[str, Any] = {
        "id": 13,
        "end_to_end_id": None,
        "counterparty": None,
        "amount_cents": 100,
        "running_balance_cents": 11300,
    }
    return make_line(**fields | changes)


LINES = [make_line(), make_refund_line(), make_deposit_line()]


def make_statement(lines: Sequence[StatementLine] = LINES, **changes: Any) -> Statement:
    """Of some lines that begin at a balance of 100.00, unless it is told otherwise."""
    closing_cents = lines[-1].running_balance_cents if lines else 10000
    fields: dict[str, Any] = {
        "holder_id": 7,
        "account": Party(
            account_number="1001",
            account_type="TRANSACTIONAL",
            bank="Pix Connect Sandbox",
            branch="0001",
            ispb="99999003",
            name="Maria Souza",
            tax_id="52998224725",
        ),
        "initial_at": AT - timedelta(days=1),
        "final_at": AT + timedelta(days=1),
        "made_at": AT + timedelta(hours=1),
        "extent": Extent(
            first_number=4,
            last_number=3 + len(lines),
            opening_cents=10000,
            closing_cents=closing_cents,
            last_at=lines[-1].created_at if lines else None,
        ),
    }
    return Statement(**fields | changes)


class History(Struct, frozen=True, kw_only=True):
    """What ``make_history`` did.

    Attributes:
        received: The end-to-end id of the transfer in.
        sent: Of the transfer out.
        refunded: The return id of the refund out.
        returned: Of the refund in.
    """

    received: str
    sent: str
    refunded: str
    returned: str


async def make_history(service: Service, caller: Caller) -> History:
    """One line of each kind after the deposits that there are: transfer in and out, refund out and in, a deposit of 0.55."""
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
    await incoming.receive_return(context, make_return(service, returned, sent.end_to_end_id))
    service.clock.advance(minutes=1)
    await ledger.deposit(context, caller.holder_id, 55)
    return History(received=report.end_to_end_id, sent=sent.end_to_end_id, refunded=refund.return_id, returned=returned)


def make_return(service: Service, return_id: str, end_to_end_id: str) -> ReturnReport:
    return ReturnReport(
        report_id="r2",
        return_id=return_id,
        original_end_to_end_id=end_to_end_id,
        amount_cents=1_000,
        reason="MD06",
        description=None,
        reported_at=service.clock.now(),
    )


async def read_all(service: Service, statement: Statement) -> list[StatementLine]:
    return [line async for part in statement_usecases.read_parts(service.context, statement) for line in part]


def signed_cents(lines: Sequence[StatementLine]) -> int:
    return sum(line.amount_cents if line.direction == "IN" else -line.amount_cents for line in lines)
