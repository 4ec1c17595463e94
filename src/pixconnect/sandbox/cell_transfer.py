"""A Pix between two holders of one installation whose money is in different databases: it leaves one and arrives in the other.

::

    order taken ─── with the credit that comes of it, in one transaction; due at no time that anybody knows yet
    credit told ─── to the payee's cell, again until that has accepted or refused it
    both ended ──── in one transaction: what the payee's cell has answered is how the order ends, and the payer's cell is told

A refund goes the same way back, as a return. So money has left where it has arrived, or neither; both are in the position of
the network, and add up to nothing.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec
from asyncpg.pool import PoolConnectionProxy

from pixconnect.domain.money.rail import CreditReport, Order, RefundOrder, ReturnReport
from pixconnect.sandbox import directory
from pixconnect.sandbox.outbox import Pending
from pixconnect.sandbox.tables import Executor, NewArrival, NewOrder

AFTER_ARRIVAL: Final = timedelta(microseconds=1)
"""An order settles so much later than what came of it: a statement goes on after an instant and a name, which they share."""

# On disk before anybody is told: the payer's cell dates its transfer by it.
END = """
update settlement s set due_at = $3::timestamptz, is_due = true, code = e.code
from unnest($1::text[], $2::text[]) as e (id, code),
    (select set_config('synchronous_commit', 'on', true)) as durable
where s.id = e.id and s.crosses and s.due_at = 'infinity'
returning s.id, s.code, s.is_open
"""

UNDER_WAY = "select id from settlement where crosses and due_at = 'infinity'"

Arriving = CreditReport | ReturnReport


def make_credit(order: Order, at: datetime) -> CreditReport | None:
    """What comes of an order to an account of the payer's own institution; ``None`` where it goes to another one."""
    # Holders of one database pay each other by book, so this payee is in another; nobody outside is, whatever ours is called.
    if order.credit_party.ispb != order.debit_party.ispb or order.credit_party.ispb == directory.ISPB:
        return None
    return CreditReport(
        report_id=order.end_to_end_id,
        end_to_end_id=order.end_to_end_id,
        amount_cents=order.amount_cents,
        debit_party=order.debit_party,
        credit_party=order.credit_party,
        txid=order.txid,
        initiation_type=order.initiation_type,
        reported_at=at,
        payer_message=order.payer_message,
    )


def make_return(order: RefundOrder, at: datetime) -> ReturnReport:
    return ReturnReport(
        report_id=order.return_id,
        return_id=order.return_id,
        original_end_to_end_id=order.original_end_to_end_id,
        amount_cents=order.amount_cents,
        reason=order.reason,
        description=order.description,
        reported_at=at,
    )


def make_arrivals(
    arriving: Mapping[str, Arriving], orders: Mapping[str, NewOrder], now: datetime, numbers: Iterator[int]
) -> list[tuple[NewArrival, Pending]]:
    """What comes of those orders that cross, each with its report; due when an order to somebody else would settle."""
    made: list[tuple[NewArrival, Pending]] = []
    for order_id, order in orders.items():
        if not order.crosses:
            continue
        report = arriving[order_id]
        arrival = NewArrival(
            number=next(numbers),
            id=order_id,
            kind="credit" if isinstance(report, CreditReport) else "return",
            original_id=order.original_id,
            amount_cents=order.amount_cents,
            key=order.key,
            report=msgspec.json.encode(report).decode(),
            taken_at=now,
            due_at=now + timedelta(milliseconds=order.delay_ms),
            code=None,
            is_due=False,
            is_open=True,
        )
        made.append((arrival, Pending(msgspec.structs.replace(report, reported_at=arrival.due_at))))
    return made


async def list_under_way(executor: Executor) -> set[str]:
    """The orders whose end nobody knows yet."""
    return {row[0] for row in await executor.fetch(UNDER_WAY)}


async def end(
    connection: PoolConnectionProxy, ended: Mapping[str, str | None], now: datetime
) -> list[tuple[str, datetime, str | None]]:
    """End orders as what came of them has ended, by the codes of refusals; answers those whose end is to be told."""
    due_at = now + AFTER_ARRIVAL
    rows = await connection.fetch(END, list(ended), list(ended.values()), due_at)
    return [(row[0], due_at, row[1]) for row in rows if row[2]]
