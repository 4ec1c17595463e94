"""Payments that the sandbox, as the holder's institution, holds as suspect: what becomes of one, by hand, by rule or by time.

A held payment is one in two steps, and its row has what is told when its time is over. A decision by hand takes its place.
"""

import asyncio
from contextlib import suppress
from datetime import datetime
from typing import Final

import asyncpg
import msgspec
from asyncpg.pool import PoolConnectionProxy
from msgspec import structs

from pixconnect.domain.money.rail import CreditCancelled, CreditReport
from pixconnect.domain.simulation.sandbox_control import Arrival, OutsideVerdict, SandboxRefusal
from pixconnect.sandbox import behaviour
from pixconnect.sandbox.outside import ACKNOWLEDGED_TIMEOUT_S, Outside

_decode: Final = msgspec.json.Decoder(CreditReport | CreditCancelled).decode

FIND = """
select report, due_at, is_due from arrival
where id = $1 and kind = 'credit' and is_open and held_at is not null for update
"""
# Told at once; that its time has come stays so when the clock is moved back.
DECIDE = "update arrival set report = $2, taken_at = $3, due_at = $3, is_due = true where id = $1"


async def decide_suspect_credit(outside: Outside, asked: OutsideVerdict) -> Arrival:
    """Release a payment that is held, or return it to its payer."""

    async def write(connection: PoolConnectionProxy, now: datetime) -> CreditReport:
        found = await connection.fetchrow(FIND, asked.end_to_end_id)
        # What its time has decided may have left already.
        if found is None or found["is_due"] or found["due_at"] <= now:
            raise SandboxRefusal("unknown", "end_to_end_id: no payment of this name is held as suspect")
        report = _judge(found, asked)
        await connection.execute(DECIDE, asked.end_to_end_id, msgspec.json.encode(report).decode(), now)
        return report

    with outside.network.expecting_acknowledgement(asked.end_to_end_id) as acknowledgement:
        report = await outside.network.change(write)
        code: str | None = None
        is_heard = False
        with suppress(TimeoutError):
            async with asyncio.timeout(ACKNOWLEDGED_TIMEOUT_S):
                code = await acknowledgement
                is_heard = True
    status = "PROCESSING" if not is_heard else "CONFIRMED" if code is None else "ERROR"
    return Arrival(id=report.end_to_end_id, amount_cents=report.amount_cents, status=status, code=code)


def _judge(found: asyncpg.Record, asked: OutsideVerdict) -> CreditReport:
    planned = _decode(found["report"])
    fields = structs.asdict(planned)
    fields.pop("code", None)
    if asked.verdict == "return":
        return CreditCancelled(**fields, code=behaviour.SUSPECT_CODE)
    return CreditReport(**fields)
