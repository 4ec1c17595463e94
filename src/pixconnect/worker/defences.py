"""Sends what holders answer to contests, and reminds those who have not answered, in the worker's slots."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from pixconnect.domain.frame import errors
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.institutions.defence import do_due
from pixconnect.worker.leases import SlotLeases
from pixconnect.worker.rest import Poller, until_beat

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
