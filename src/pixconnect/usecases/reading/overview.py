"""What a person looks at first: the money of the day, and what waits for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from pixconnect.domain.frame.civil_time import begin_of_day
from pixconnect.domain.identity.console import Viewer
from pixconnect.domain.reading.money_of_day import HolderMoney
from pixconnect.store.money import approval as approval_store
from pixconnect.store.money import waiting_order as waiting_order_store
from pixconnect.store.proof import case as case_store
from pixconnect.store.reading import money_of_day as money_of_day_store
from pixconnect.usecases.frame.context import Context, Core
from pixconnect.usecases.money import unresolved
from pixconnect.writing.service_time import service_now

LINES_MAX: Final = 20_000
"""Of all holders together; that takes 20 ms."""
COUNTED_MAX: Final = 1_000


class WaitingWork(Struct, frozen=True, kw_only=True):
    """How much waits for a person, each counted up to a bound."""

    reports_count: int
    """Reports of a rail that could only be recorded by guessing."""
    cases_count: int
    silent_count: int
    """Orders that were handed over, and have had no answer for longer than the scheme allows."""
    approvals_count: int
    """Transfers that wait for a person at their institution."""
    to_approve_count: int
    """Transfers that wait for an operator's yes here."""

    def __bool__(self) -> bool:
        return any(
            (self.reports_count, self.cases_count, self.silent_count, self.approvals_count, self.to_approve_count)
        )


async def read_money(
    context: Core, viewer: Viewer, holder_ids: Sequence[int], lines_max: int = LINES_MAX
) -> list[HolderMoney]:
    """What these holders have, and what came in and left today; nothing of a holder whose ledger the viewer may not see."""
    seen = [each for each in holder_ids if viewer.may("ledger.read") and viewer.holder_id in (None, each)]
    if not seen:
        return []
    now = await service_now(context.clock, context.pool)
    # The day is that of Sao Paulo, by which limits count too.
    # The bound is shared out, so that many holders do not make the first page slow.
    return await money_of_day_store.read(context.pool, seen, begin_of_day(now), lines_max // len(seen))


async def read_waiting_work(context: Context) -> WaitingWork:
    """Of all holders together: for operators."""
    waiting = await unresolved.read_waiting(context)
    cases = await case_store.count_open(context.pool)
    approvals = await waiting_order_store.list_open_since(context.pool, COUNTED_MAX)
    to_approve_count, _ = await approval_store.measure_awaited(context.pool, COUNTED_MAX)
    return WaitingWork(
        reports_count=waiting.reports_count,
        # A kept report is a case too, once somebody has looked.
        cases_count=sum(each.count for kind, each in cases.items() if kind != "report"),
        silent_count=waiting.silent_count,
        approvals_count=len(approvals),
        to_approve_count=to_approve_count,
    )
