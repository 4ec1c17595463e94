"""Expires charges that were not paid in time.

A payment is in time if the rail reported it in time. So before a charge expires, every report up to its deadline is recorded:
a payment that a killed worker had in hand must not come too late.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Final

import structlog

from pixconnect.domain.frame import errors
from pixconnect.domain.money.rail import RailUnavailable
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.store.money import charge as charge_store
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.money.charge import expire_charges
from pixconnect.worker.leases import Poller, SlotLeases, until_beat

BATCH_MAX: Final = 256
LOOK_AFTER_S: Final = 1.0
ASK_AGAIN_AFTER_S: Final = 0.1
"""The pause while an earlier report is being recorded."""
WAIT_MAX_S: Final = 60.0
"""The longest that an unreachable rail, or a report that cannot be recorded, keeps charges from expiring; real time."""

_log = structlog.get_logger(__name__)


class Expiry:
    def __init__(self, context: Context, leases: SlotLeases) -> None:
        self._context = context
        self._leases = leases
        self._waits_since_s: float | None = None

    async def run(self) -> None:
        while True:
            pause_s = LOOK_AFTER_S
            try:
                pause_s = await self.expire(self._context.clock.now())
            except (*DATABASE_FAILED, errors.PixConnectError) as error:
                _log.warning("expiry waits", reason=type(error).__name__)
            now_s = self._context.clock.monotonic_s()
            await asyncio.sleep(min(pause_s, until_beat(LOOK_AFTER_S, Poller.EXPIRY, now_s)))

    async def expire(self, now: datetime) -> float:
        """Expire what was due by an instant, as far as reports are recorded; answer in how many seconds to look again."""
        slots = sorted(self._leases.held)
        if not slots or not await charge_store.find_expired(self._context.pool, slots, now, 1):
            self._waits_since_s = None
            return LOOK_AFTER_S
        until = await self._heard_until(now)
        expired_count = await expire_charges(self._context, slots, until, BATCH_MAX)
        if until < now:
            return ASK_AGAIN_AFTER_S
        self._waits_since_s = None
        return 0 if expired_count >= BATCH_MAX else LOOK_AFTER_S

    async def _heard_until(self, now: datetime) -> datetime:
        """Return the instant up to which every report of the rail is recorded."""
        monotonic_s = self._context.clock.monotonic_s()
        self._waits_since_s = self._waits_since_s or monotonic_s
        is_over = monotonic_s - self._waits_since_s >= WAIT_MAX_S
        try:
            oldest_at = await self._context.rail.waiting_since()
        except RailUnavailable:
            # Anything may be waiting there, so nothing counts as recorded.
            oldest_at = datetime.min.replace(tzinfo=now.tzinfo)
        if oldest_at is None or oldest_at > now:
            return now
        if is_over:
            # Otherwise one report that nobody can record would keep all charges of these slots from expiring for ever.
            _log.error(
                "charges expire although reports of the rail up to their expiry are missing", waited_s=WAIT_MAX_S
            )
            return now
        return oldest_at
