"""The worker process: its leases, and every task that works in the leased slots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Final

from msgspec import structs

from pixconnect.assembly.base import (
    Base,
    connect_as_service,
    list_background_tasks,
    listen_for_metrics,
    open_base,
    running_beside,
)
from pixconnect.assembly.housekeeping import run_housekeeping
from pixconnect.doors.worker.leases import SlotLeases
from pixconnect.doors.worker.orders import Expiry, OrderMover, keep_taking_reports
from pixconnect.doors.worker.parts import DueLook, WorkerExtension, WorkerParts
from pixconnect.features.contests.service.report import take_reports
from pixconnect.features.institutions.rail import InstitutionRail
from pixconnect.features.institutions.worker import AccountRails
from pixconnect.features.monitoring.worker import MEMBERS, CountingRail, RailFigures, WorkerFigures, make_worker_read
from pixconnect.features.sandbox.service.clock import receive_move
from pixconnect.features.webhooks.worker.delivery import DeliveryParts, DeliveryWorker
from pixconnect.features.webhooks.worker.delivery_queue import QueueLimits
from pixconnect.features.webhooks.worker.delivery_records import AttemptLog
from pixconnect.features.webhooks.worker.feed import Sequencer
from pixconnect.kernel.feature import gather
from pixconnect.kernel.tables import clock as clock_store
from pixconnect.platform.base.feature_parts import FeatureParts
from pixconnect.platform.config import Settings
from pixconnect.platform.http import listening as descriptors
from pixconnect.platform.http.server import serve_metrics
from pixconnect.platform.logging import set_up_logging
from pixconnect.platform.metrics import Read

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
        parts = _make_parts(base, partial(serve_metrics, listen_for_metrics(settings)))
        for extension in gather("worker_extensions", WorkerExtension):
            parts = await opened.enter_async_context(extension.open(settings, parts))
        await _work(parts, stop, report_ready)


def _make_parts(base: Base, serve: Callable[[Read], AbstractAsyncContextManager[None]]) -> WorkerParts:
    settings, clock = base.settings, base.context.clock
    attempt_log = AttemptLog(clock, is_on=settings.log_level in {"debug", "info"})
    return WorkerParts(
        context=base.context,
        notifier=base.notifier,
        calls=base.shared.calls,
        connect=connect_as_service(settings, "pixconnect leases"),
        event_retention_days=settings.event_retention_days,
        serve_metrics=serve,
        of_features=FeatureParts(
            {
                DeliveryParts: DeliveryParts(limits=QueueLimits(), attempt_log=attempt_log),
                AccountRails: AccountRails(
                    open=lambda opened, memory: InstitutionRail(opened.institution, memory, clock, opened.own_sender)
                ),
            }
        ),
    )


async def _work(parts: WorkerParts, stop: asyncio.Event, report_ready: Callable[[], None]) -> None:
    rail_figures = RailFigures()
    context = structs.replace(parts.context, rail=CountingRail(parts.context.rail, rail_figures))
    parts = structs.replace(parts, context=context)
    leases = SlotLeases(parts.connect, context.clock, look=context.server.look)
    if context.policy.is_sandbox:
        leases.listen(clock_store.CHANNEL, lambda *heard: receive_move(context, str(heard[-1])))
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
    figures = WorkerFigures(
        leases=leases, deliveries=deliveries, sequencer=sequencer, rail=rail_figures, calls=parts.calls, members=members
    )
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
    failures = [result for result in results if isinstance(result, Exception)]
    if failures:
        raise ExceptionGroup("the worker met a defect", failures)
