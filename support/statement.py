"""Statements and lines for tests, valid by default, and a history made by the service."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from pixconnect.features.statements import service as statement_usecases
from pixconnect.features.statements.rules import Statement, StatementLine
from pixconnect.kernel.flows import incoming, ledger, settlement
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.rail import DirectoryEntry, ReturnReport, Settled
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.kernel.rules.transfer import KeyTransferRequest
from support.records import OUTSIDE_ISPB, outside_party
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
    await incoming.receive_return(context, make_return(service, returned, sent.end_to_end_id))
    service.clock.advance(minutes=1)
    await ledger.deposit(context, caller.holder_id, 55)
    return History(received=report.end_to_end_id, sent=sent.end_to_end_id, refunded=refund.return_id, returned=returned)


def make_return(service: Service, return_id: str, end_to_end_id: str) -> ReturnReport:
    return ReturnReport(
        report_id="r2", return_id=return_id, original_end_to_end_id=end_to_end_id, amount_cents=1_000, reason="MD06",
        description=None, reported_at=service.clock.now(),
    )  # fmt: skip


async def read_all(service: Service, statement: Statement) -> list[StatementLine]:
    return [line async for part in statement_usecases.read_parts(service.context, statement) for line in part]


def signed_cents(lines: Sequence[StatementLine]) -> int:
    return sum(line.amount_cents if line.direction == "IN" else -line.amount_cents for line in lines)
