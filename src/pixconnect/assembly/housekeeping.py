"""Periodic tasks: tallies of lists, partitions, texts, keys, endpoints, and those of features."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Final

import structlog

from pixconnect.doors.worker.leases import Poller, until_beat
from pixconnect.doors.worker.rows import Chore
from pixconnect.features.finding.service import search as search_usecases
from pixconnect.features.identity.service import signing_key as signing_key_usecases
from pixconnect.features.sandbox.control import SANDBOX_CONTROL
from pixconnect.features.sandbox.rules import SandboxUnavailable
from pixconnect.features.sandbox.service import clock as clock_usecases
from pixconnect.kernel.feature import gather
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows import incoming as incoming_usecases
from pixconnect.kernel.flows import partition as partition_usecases
from pixconnect.kernel.flows.context import Context
from pixconnect.platform.base import errors
from pixconnect.platform.base.entropy import SealBroken
from pixconnect.platform.database_failure import DATABASE_FAILED

FOLD_EVERY_S: Final = 2.0
FOLD_EVERY_MAX_S: Final = 8.0
"""Once there was nothing to add up for some time."""
ROTATE_EVERY_S: Final = 3600.0
PARTITION_EVERY_S: Final = 60.0
AGREE_EVERY_S: Final = 30.0
FORGET_EVERY_S: Final = 3600.0
LIMITS_EVERY_S: Final = 60.0
SWEEP_EVERY_S: Final = 300.0
REST_TIMES: Final = 2
"""Texts are swept with pauses of this many times a batch's duration."""
APART_S: Final = 0.2
"""Between the first rounds of two chores."""
AGAIN_AFTER_S: Final = 1.0
"""The retry interval of a failed round: doubled each time, up to the task's own interval."""

_CHORES: Final = gather("chores", Chore)
_AWAY = (*DATABASE_FAILED, errors.PixConnectError, SealBroken, SandboxUnavailable)
_log = structlog.get_logger(__name__)


async def run_housekeeping(context: Context, retention_days: int) -> None:
    """Repeat every task at its own interval, until cancelled.

    Args:
        retention_days: Of events.
    """
    rest_s = FOLD_EVERY_S

    async def fold() -> float:
        nonlocal rest_s
        has_found = False
        # A full batch means that there are more.
        while notes_count := await partition_usecases.fold_tallies(context):
            has_found = True
            if notes_count < partition_usecases.NOTES_MAX:
                break
        rest_s = FOLD_EVERY_S if has_found else min(2 * rest_s, FOLD_EVERY_MAX_S)
        return until_beat(rest_s, Poller.CHORES, context.clock.monotonic_s())

    async def rotate() -> None:
        await signing_key_usecases.rotate_if_due(context)

    async def partition() -> None:
        await partition_usecases.keep_partitions(context.pool, context.clock, timedelta(days=retention_days))
        await search_usecases.forget_old(context.pool)

    async with asyncio.TaskGroup() as chores:
        # One after the other: concurrent ones would each open a connection, which PostgreSQL needs 6 MiB for.
        for number, (name, chore, every_s) in enumerate(
            (
                ("rotate", rotate, ROTATE_EVERY_S),
                ("partition", partition, PARTITION_EVERY_S),
                ("fold", fold, FOLD_EVERY_S),
                ("clock", partial(_agree, context), AGREE_EVERY_S),
                ("limits", partial(holder_usecases.act_on_due_limits, context), LIMITS_EVERY_S),
                ("texts", partial(_sweep, context), SWEEP_EVERY_S),
                ("refusals", partial(incoming_usecases.forget_refusals, context), FORGET_EVERY_S),
                *((chore.name, partial(chore.run, context), chore.every_s) for chore in _CHORES),
            )
        ):
            chores.create_task(_repeat(name, chore, every_s, number * APART_S))


async def _agree(context: Context) -> None:
    # Live mode has no sandbox.
    control = context.port(SANDBOX_CONTROL)
    if control is not None:
        await clock_usecases.agree_with_sandbox(context, control)


async def _sweep(context: Context) -> float | None:
    began_s = context.clock.monotonic_s()
    if not await partition_usecases.sweep_texts(context):
        return None
    return max(REST_TIMES * (context.clock.monotonic_s() - began_s), APART_S)


async def _repeat(
    name: str, chore: Callable[[], Awaitable[float | None]], every_s: float, first_after_s: float
) -> None:
    await asyncio.sleep(first_after_s)
    again_s = AGAIN_AFTER_S
    while True:
        try:
            rest_s = await chore() or every_s
            again_s = AGAIN_AFTER_S
        except _AWAY as error:
            # Every task may be late, but not by its whole interval: most failures are over after a moment.
            rest_s, again_s = min(again_s, every_s), min(2 * again_s, every_s)
            _log.warning("housekeeping waits", chore=name, reason=type(error).__name__)
        await asyncio.sleep(rest_s)
