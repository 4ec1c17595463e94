"""What people wrote, and who they were, is emptied once no rule keeps it: a worker's walk over all rows, begun anew each day.

Retention never follows the clock of a sandbox: rows are dated by service time and judged by real time, so that a sandbox whose
clock was moved ahead keeps them longer.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import structlog

from pixconnect.domain.rules.retention import RETENTIONS
from pixconnect.flow.shares import for_everybody
from pixconnect.store.running import erasure as erasure_store
from pixconnect.store.running.erasure import SWEPT, RetentionPeriods
from pixconnect.usecases.frame.context import Context

LOOKED_AT_MAX: Final = 5_000
"""Rows that one step looks at, in one transaction."""

_log = structlog.get_logger(__name__)


def routine_periods(now: datetime) -> RetentionPeriods:
    """How long the register keeps texts that no person asks to erase."""
    return RetentionPeriods(
        unpaid=_find_end("debtor", now), message=_find_end("message", now), party=_find_end("counterparty", now)
    )


def _find_end(data: str, now: datetime) -> timedelta:
    at_most = RETENTIONS.find(data, now).at_most
    if at_most is None:
        raise AssertionError(f"{data}: the register has no end for it")
    return at_most


async def sweep_texts(context: Context, looked_at_max: int = LOOKED_AT_MAX) -> int:
    """One step over each kind; answers how many rows it looked at, 0 where nothing is left to look at today."""
    ages, looked_count = routine_periods(context.clock.real_now()), 0
    for kind in SWEPT:
        # It is nobody's own work, so it takes its turn beside all holders.
        with for_everybody():
            async with context.pool.acquire() as connection:
                step = await erasure_store.sweep(connection, kind, ages, looked_at_max)
        looked_count += step.looked_count
        if step.erased_count:
            _log.info("texts about people were emptied, since no rule keeps them", kind=kind, count=step.erased_count)
    return looked_count
