"""The process that does what falls due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from pixconnect.adapters.rails.institution import InstitutionRail
from pixconnect.assembly.base import (
    connect_as_service,
    keep_up,
    listen_for_metrics,
    open_base,
    running_beside,
)
from pixconnect.config import Settings
from pixconnect.foundation.logging import set_up_logging
from pixconnect.http import descriptors
from pixconnect.http.metrics import serve_metrics
from pixconnect.worker import run as worker_run
from pixconnect.worker.delivery_log import AttemptLog
from pixconnect.worker.delivery_queue import QueueLimits
from pixconnect.worker.run import WorkerParts


async def work(settings: Settings, stop: asyncio.Event, report_ready: Callable[[], None]) -> None:
    """Do what falls due until told to stop: settle, expire, deliver, tidy up."""
    descriptors.raise_limit()
    set_up_logging(settings.log_format, settings.log_level, is_watched=settings.mode == "sandbox")
    async with (
        # It asks for no lists, whose best plan depends on what is looked for.
        open_base(settings, "pixconnect worker", plans_once=True) as base,
        running_beside(*keep_up(settings, base, for_others=True)),
    ):
        parts = WorkerParts(
            context=base.context,
            signing=base.keyring,
            notifier=base.notifier,
            calls=base.calls,
            connect=connect_as_service(settings, "pixconnect leases"),
            limits=QueueLimits(
                endpoint_max=settings.webhook_in_flight_max, holder_max=settings.webhook_in_flight_holder_max
            ),
            attempt_log=AttemptLog(
                base.context.clock,
                is_on=settings.log_level in {"debug", "info"},
            ),
            event_retention_days=settings.event_retention_days,
            serve_metrics=partial(serve_metrics, listen_for_metrics(settings)),
            open_account_rail=lambda opened, memory: InstitutionRail(
                opened.institution, memory, base.context.clock, opened.own_sender
            ),
        )
        await worker_run.work(parts, stop, report_ready)
