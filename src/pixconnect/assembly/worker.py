"""The worker process: its leases, every task that works in the leased slots, and periodic tasks.

Periodic tasks are tallies of lists, partitions, texts, keys, endpoints, and those of features.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from typing import Final

import structlog
from msgspec import structs

from pixconnect.assembly.base import (
    connect_as_service,
    list_background_tasks,
    listen_for_metrics,
    open_base,
    running_beside,
)
from pixconnect.doors.worker.leases import Poller, SlotLeases, until_beat
from pixconnect.doors.worker.orders import Expiry, OrderMover, keep_taking_reports
from pixconnect.doors.worker.parts import Chore, DueLook, WorkerExtension, WorkerParts
from pixconnect.features.identity.service import signing_key as signing_key_usecases
from pixconnect.features.monitoring.worker import MEMBERS, CountingRail, RailFigures, WorkerFigures, make_worker_read
from pixconnect.features.sandbox.rules import SandboxUnavailable
from pixconnect.features.sandbox.service import clock as clock_usecases
from pixconnect.features.sandbox.service.sandbox import SANDBOX_CONTROL
from pixconnect.features.webhooks.worker.delivery import DeliveryParts, DeliveryWorker
from pixconnect.features.webhooks.worker.delivery_queue import QueueLimits
from pixconnect.features.webhooks.worker.delivery_records import AttemptLog
from pixconnect.features.webhooks.worker.feed import Sequencer
from pixconnect.kernel.feature import FeatureParts, gather
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows import incoming as incoming_usecases
from pixconnect.kernel.flows import partition as partition_usecases
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.tables import clock as clock_store
from pixconnect.platform.base import errors
from pixconnect.platform.base.entropy import SealBroken
from pixconnect.platform.config import Settings
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.http import listening as descriptors
from pixconnect.platform.http.server import serve_metrics
from pixconnect.platform.logging import set_up_logging

LAST_RECORDS_TIMEOUT_S: Final = 0.5
"""How long a stopping worker waits for running attempts; an abandoned one is made again by another worker."""


async def work(settings: Settings, stop: asyncio.Event, report_ready: Callable[[], None]) -> None:
    """Do due work until stopped: settle, expire, deliver, tidy up."""
    descriptors.raise_limit()
    set_up_logging(settings.log_format, settings.log_level, is_watched=settings.mode == "sandbox")
    async with (
        # It runs no lists, whose best plan depends on their filters.
        open_base(settings, "pixconnect worker", plans_once=True) as base,
        running_beside(*list_background_tasks(base, for_others=True)),
        AsyncExitStack() as opened,
    ):
        attempt_log = AttemptLog(base.context.clock, is_on=settings.log_level in {"debug", "info"})
        parts = WorkerParts(
            context=base.context,
            notifier=base.notifier,
            connect=connect_as_service(settings, "pixconnect leases"),
            event_retention_days=settings.event_retention_days,
            serve_metrics=partial(serve_metrics, listen_for_metrics(settings)),
            of_features=FeatureParts({DeliveryParts: DeliveryParts(limits=QueueLimits(), attempt_log=attempt_log)}),
        )
        for extension in gather("worker_extensions", WorkerExtension):
            parts = await opened.enter_async_context(extension.open(settings, parts))
        await _work(parts, stop, report_ready)


async def _work(parts: WorkerParts, stop: asyncio.Event, report_ready: Callable[[], None]) -> None:
    rail_figures = RailFigures()
    context = structs.replace(parts.context, rail=CountingRail(parts.context.rail, rail_figures))
    parts = structs.replace(parts, context=context)
    leases = SlotLeases(parts.connect, context.clock, look=context.server.look)
    if context.policy.is_sandbox:
        leases.listen(clock_store.CHANNEL, lambda *message: clock_usecases.receive_move(context, str(message[-1])))
    # If this worker holds all slots, its own work wakes itself without a round trip.
    parts.notifier.wake_local = leases.on_local_wakeup
    orders = OrderMover(context, leases)
    sending = parts.of_features[DeliveryParts]
    deliveries = DeliveryWorker(context, leases, sending.limits, sending.attempt_log, sending.attempt)
    sequencer = Sequencer(context, leases)
    holding = asyncio.create_task(leases.run(), name="leases")
    delivering = asyncio.create_task(deliveries.run(), name="deliveries")
    expiry = Expiry(context, leases)
    members = {row.name: row.make(parts, leases) for row in MEMBERS}
    figures = WorkerFigures(leases=leases, deliveries=deliveries, sequencer=sequencer, rail=rail_figures, members=members)
    tasks = [
        asyncio.create_task(orders.run(), name="orders"),
        asyncio.create_task(expiry.run(), name="expiry"),
        asyncio.create_task(DueLook(context, leases).run(), name="due"),
        asyncio.create_task(sequencer.run(), name="sequencer"),
        asyncio.create_task(run_housekeeping(context, parts.event_retention_days), name="housekeeping"),
        asyncio.create_task(keep_taking_reports(context, take_reports), name="reports"),
        *(asyncio.create_task(member.run(), name=name) for name, member in members.items()),
    ]
    report_ready()
    stopping = asyncio.create_task(stop.wait())
    try:
        async with parts.serve_metrics(make_worker_read(context, figures)):
            # No task ends by itself. If one does, it has met a defect: the worker ends, and the supervisor starts another.
            await asyncio.wait([*tasks, holding, delivering, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        deliveries.stop()
        # Only deliveries are finished: an attempt that is cut off after the receiver answered would be made twice.
        for task in (*tasks, stopping):
            task.cancel()
        await asyncio.wait([delivering], timeout=LAST_RECORDS_TIMEOUT_S)
        # Slots are released last: records of the attempts above are still fenced by them.
        leases.stop()
        await asyncio.wait([holding], timeout=LAST_RECORDS_TIMEOUT_S)
        for task in (holding, delivering):
            task.cancel()
        results = await asyncio.gather(*tasks, holding, delivering, return_exceptions=True)
    if failures := [result for result in results if isinstance(result, Exception)]:
        raise ExceptionGroup("the worker met a defect", failures)


FOLD_EVERY_S: Final = 2.0
FOLD_EVERY_MAX_S: Final = 8.0  # once there was nothing to add up for some time
ROTATE_EVERY_S: Final = 3600.0
PARTITION_EVERY_S: Final = 60.0
AGREE_EVERY_S: Final = 30.0
FORGET_EVERY_S: Final = 3600.0
LIMITS_EVERY_S: Final = 60.0
SWEEP_EVERY_S: Final = 300.0
REST_TIMES: Final = 2  # texts are swept with pauses of this many times a batch's duration
APART_S: Final = 0.2  # between the first rounds of two chores
AGAIN_AFTER_S: Final = 1.0  # the retry interval of a failed round: doubled each time, up to the task's own interval

_CHORES: Final = gather("chores", Chore)
_AWAY = (*DATABASE_FAILED, errors.PixConnectError, SealBroken, SandboxUnavailable)
_log = structlog.get_logger(__name__)


async def run_housekeeping(context: Context, retention_days: int) -> None:
    """Repeat every task at its own interval, until cancelled; ``retention_days`` is of events."""
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
        await partition_usecases.forget_origins(context.pool)

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
    if (control := context.port(SANDBOX_CONTROL)) is not None:
        await clock_usecases.agree_with_sandbox(context, control)


async def _sweep(context: Context) -> float | None:
    began_s = context.clock.monotonic_s()
    if not await partition_usecases.sweep_texts(context):
        return None
    return max(REST_TIMES * (context.clock.monotonic_s() - began_s), APART_S)


async def _repeat(name: str, chore: Callable[[], Awaitable[float | None]], every_s: float, first_after_s: float) -> None:
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
