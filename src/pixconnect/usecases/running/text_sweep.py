"""What people wrote, and who they were, is emptied once no rule keeps it: a worker's walk over all rows, begun anew each day.

Retention never follows the clock of a sandbox: rows are dated by service time and judged by real time, so that a sandbox whose
clock was moved ahead keeps them longer.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final, Protocol

import structlog

from pixconnect.flow.shares import for_everybody
from pixconnect.store.running import erasure as erasure_store
from pixconnect.store.running.erasure import SWEPT, RetentionPeriods
from pixconnect.usecases.frame.context import HasPolicy, HasPool
from pixconnect.usecases.frame.policy import Policy

LOOKED_AT_MAX: Final = 5_000
"""Rows that one step looks at, in one transaction."""

_log = structlog.get_logger(__name__)


class SweepContext(HasPool, HasPolicy, Protocol): ...


def routine_periods(policy: Policy) -> RetentionPeriods:
    """How long texts are kept without anybody's request."""
    message = timedelta(days=policy.message_retention_days)
    return RetentionPeriods(unpaid=message, message=message, party=timedelta(days=policy.counterparty_retention_days))


async def sweep_texts(context: SweepContext, looked_at_max: int = LOOKED_AT_MAX) -> int:
    """One step over each kind; answers how many rows it looked at, 0 where nothing is left to look at today."""
    ages, looked_count = routine_periods(context.policy), 0
    for kind in SWEPT:
        # It is nobody's own work, so it takes its turn beside all holders.
        with for_everybody():
            async with context.pool.acquire() as connection:
                step = await erasure_store.sweep(connection, kind, ages, looked_at_max)
        looked_count += step.looked_count
        if step.erased_count:
            _log.info("texts about people were emptied, since no rule keeps them", kind=kind, count=step.erased_count)
    return looked_count
