"""A whole worker: its leases, and every task that works in the leased slots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

import structlog
from msgspec import Struct, structs

from pixconnect.domain.frame import errors
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.foundation.metrics import Read
from pixconnect.foundation.notifier import Notifier
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.institutions.defence import do_due
from pixconnect.usecases.webhooks import delivery as delivery_usecases
from pixconnect.worker import metrics
from pixconnect.worker.accounts import AccountBalances, AccountReaders, OpenRail
from pixconnect.worker.delivery import DeliveryWorker, MakeAttempt
from pixconnect.worker.delivery_queue import QueueLimits
from pixconnect.worker.delivery_records import AttemptLog
from pixconnect.worker.feed import Sequencer
from pixconnect.worker.housekeeping import run_housekeeping
from pixconnect.worker.leases import Connect, Poller, SlotLeases, until_beat
from pixconnect.worker.lots import LotWorker
from pixconnect.worker.metrics import InstitutionFigures
from pixconnect.worker.rail_figures import CountingRail, RailFigures
from pixconnect.worker.settlement import Expiry, OrderMover, keep_taking_reports

BATCH_MAX: Final = 64
LOOK_AFTER_S: Final = 1.0

_log = structlog.get_logger(__name__)


class DefenceSender:
    def __init__(self, context: Context, leases: SlotLeases) -> None:
        self._context = context
        self._leases = leases

    async def run(self) -> None:
        while True:
            done_count = 0
            slots = sorted(self._leases.held)
            try:
                done_count = await do_due(self._context, slots, BATCH_MAX) if slots else 0
            except (*DATABASE_FAILED, errors.PixConnectError) as error:
                _log.warning("answers to contests wait", reason=type(error).__name__)
            if done_count < BATCH_MAX:
                now_s = self._context.clock.monotonic_s()
                await asyncio.sleep(min(LOOK_AFTER_S, until_beat(LOOK_AFTER_S, Poller.DEFENCES, now_s)))


LAST_RECORDS_TIMEOUT_S = 0.5
"""How long a stopping worker waits for attempts under way; one that it leaves is made again by another worker."""


class WorkerParts(Struct, frozen=True, kw_only=True):
    context: Context
    notifier: Notifier
    calls: Mapping[tuple[str, str], int]
    """Those to institutions, by account and outcome."""
    connect: Connect
    """Opens a separate connection for the leases."""
    limits: QueueLimits
    attempt_log: AttemptLog
    event_retention_days: int
    open_account_rail: OpenRail
    serve_metrics: Callable[[Read], AbstractAsyncContextManager[None]] = lambda _read: nullcontext()
    attempt: MakeAttempt = delivery_usecases.attempt


async def work(parts: WorkerParts, stop: asyncio.Event, report_ready: Callable[[], None]) -> None:
    """Do due work until stopped."""
    rail_figures, balances = RailFigures(), AccountBalances()
    there = InstitutionFigures(calls=parts.calls, balances_cents=balances.cents)
    context = structs.replace(parts.context, rail=CountingRail(parts.context.rail, rail_figures))
    leases = SlotLeases(parts.connect, context.clock, look=context.server.look)
    # What this worker does wakes itself without a round trip, where it holds all slots.
    parts.notifier.wake_local = leases.on_local_wakeup
    orders = OrderMover(context, leases)
    deliveries = DeliveryWorker(context, leases, parts.limits, parts.attempt_log, parts.attempt)
    sequencer = Sequencer(context, leases)
    holding = asyncio.create_task(leases.run(), name="leases")
    delivering = asyncio.create_task(deliveries.run(), name="deliveries")
    tasks = [
        asyncio.create_task(orders.run(), name="orders"),
        asyncio.create_task(Expiry(context, leases).run(), name="expiry"),
        asyncio.create_task(LotWorker(context, leases).run(), name="lots"),
        asyncio.create_task(DefenceSender(context, leases).run(), name="defences"),
        asyncio.create_task(sequencer.run(), name="sequencer"),
        asyncio.create_task(AccountReaders(context, leases, parts.open_account_rail, balances).run(), name="accounts"),
        asyncio.create_task(run_housekeeping(context, parts.event_retention_days), name="housekeeping"),
        asyncio.create_task(keep_taking_reports(context), name="reports"),
    ]
    report_ready()
    stopping = asyncio.create_task(stop.wait())
    try:
        async with parts.serve_metrics(
            metrics.make_worker_read(context, leases, deliveries, sequencer, rail_figures, there)
        ):
            # No task ends by itself. One that does has met a defect: the worker ends, and the supervisor starts another.
            await asyncio.wait([*tasks, holding, delivering, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        deliveries.stop()
        # Only deliveries end in order: an attempt that is cut off after the receiver answered would be made twice.
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
