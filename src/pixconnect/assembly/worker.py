"""The worker process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial

from pixconnect.assembly import members as worker_run
from pixconnect.assembly.base import (
    Base,
    connect_as_service,
    list_background_tasks,
    listen_for_metrics,
    open_base,
    running_beside,
)
from pixconnect.doors.worker.parts import WorkerExtension, WorkerParts
from pixconnect.features.institutions.rail import InstitutionRail
from pixconnect.features.institutions.worker import AccountRails
from pixconnect.features.webhooks.worker.delivery import DeliveryParts
from pixconnect.features.webhooks.worker.delivery_queue import QueueLimits
from pixconnect.features.webhooks.worker.delivery_records import AttemptLog
from pixconnect.kernel.feature import gather
from pixconnect.platform.base.feature_parts import FeatureParts
from pixconnect.platform.config import Settings
from pixconnect.platform.http import listening as descriptors
from pixconnect.platform.http.server import serve_metrics
from pixconnect.platform.logging import set_up_logging
from pixconnect.platform.metrics import Read


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
        await worker_run.work(parts, stop, report_ready)


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
