"""A whole worker: leases, and everything that is done in their slots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from msgspec import Struct, structs

from pixconnect.foundation.metrics import Read
from pixconnect.usecases.context import Context
from pixconnect.usecases.operator import SigningContext
from pixconnect.worker import metrics
from pixconnect.worker.delivery import DeliveryWorker
from pixconnect.worker.delivery_log import AttemptLog
from pixconnect.worker.delivery_queue import QueueLimits
from pixconnect.worker.expiry import Expiry
from pixconnect.worker.housekeeping import run_housekeeping
from pixconnect.worker.leases import Connect, SlotLeases
from pixconnect.worker.rail_figures import RailFigures, WatchedRail
from pixconnect.worker.settlement import OrderMover, keep_taking_reports

LAST_RECORDS_TIMEOUT_S = 0.5
"""How long attempts that are under way may take when the worker is told to stop; they are made again otherwise."""


class WorkerParts(Struct, frozen=True, kw_only=True):
    """What a worker is made of.

    Attributes:
        context: For use cases.
        signing: For rotating keys.
        connect: Opens the connection that carries the leases.
        limits: Of webhooks under way.
        attempt_log: Takes every attempt.
        event_retention_days: How long events are kept.
        tell_metrics: Lets who watches read what is measured.
    """

    context: Context
    signing: SigningContext
    connect: Connect
    limits: QueueLimits
    attempt_log: AttemptLog
    event_retention_days: int
    tell_metrics: Callable[[Read], AbstractAsyncContextManager[None]]


async def work(parts: WorkerParts, stop: asyncio.Event, report_ready: Callable[[], None]) -> None:
    """Do what has a time, until told to stop."""
    rail_figures = RailFigures()
    context = structs.replace(parts.context, rail=WatchedRail(parts.context.rail, rail_figures))
    leases = SlotLeases(parts.connect, context.clock)
    orders = OrderMover(context, leases)
    deliveries = DeliveryWorker(context, leases, parts.limits, parts.attempt_log)
    holding = asyncio.create_task(leases.run(), name="leases")
    delivering = asyncio.create_task(deliveries.run(), name="deliveries")
    tasks = [
        asyncio.create_task(orders.run(), name="orders"),
        asyncio.create_task(keep_taking_reports(context), name="reports"),
        asyncio.create_task(Expiry(context, leases).run(), name="expiry"),
        asyncio.create_task(
            run_housekeeping(context, parts.signing, parts.event_retention_days),
            name="housekeeping",
        ),
    ]
    report_ready()
    stopping = asyncio.create_task(stop.wait())
    try:
        async with parts.tell_metrics(metrics.make_read(context, leases, deliveries, rail_figures)):
            # None of them ends by itself: one that does has met a defect, and the supervisor starts a new worker.
            await asyncio.wait([*tasks, holding, delivering, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        deliveries.stop()
        for task in (*tasks, stopping):
            task.cancel()
        await asyncio.wait([delivering], timeout=LAST_RECORDS_TIMEOUT_S)
        leases.stop()
        await asyncio.wait([holding], timeout=LAST_RECORDS_TIMEOUT_S)
        for task in (holding, delivering):
            task.cancel()
        results = await asyncio.gather(*tasks, holding, delivering, return_exceptions=True)
    failures = [result for result in results if isinstance(result, Exception)]
    if failures:
        raise ExceptionGroup("the worker met a defect", failures)
