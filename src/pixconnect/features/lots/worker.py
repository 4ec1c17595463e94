"""Makes and changes the charges of lots, in the worker's slots."""

import asyncio
from typing import Final

import structlog

from pixconnect.doors.worker.leases import Member, SlotLeases
from pixconnect.doors.worker.parts import MemberRow
from pixconnect.features.lots.service import do_due_items
from pixconnect.features.lots.tables import IS_ANY_DUE, ItemKey
from pixconnect.kernel.flows.context import Context
from pixconnect.platform.base import errors
from pixconnect.platform.database_failure import DATABASE_FAILED

BATCH_MAX: Final = 256  # charges per batch
LOOK_AFTER_S: Final = 0.25  # when it polls again after it found something
PAUSE_S: Final = 0.5  # the pause after the database gave no answer
TRY_AGAIN_AFTER_S: Final = 5.0  # the pause of a charge that could not be written, without a fault in it; real time

_AWAY = (*DATABASE_FAILED, errors.PixConnectError)

_log = structlog.get_logger(__name__)


class LotWorker(Member):
    due_if = IS_ANY_DUE

    def __init__(self, context: Context, leases: SlotLeases) -> None:
        self._context = context
        self._leases = leases
        self._has_news = asyncio.Event()
        # In memory alone: after a takeover the next worker tries at once, which is harmless.
        self._resting_until_s: dict[ItemKey, float] = {}
        leases.add(self)

    async def run(self) -> None:
        while True:
            # Cleared before the work: notifications while it runs lead to another round.
            self._has_news.clear()
            try:
                done_count = await self.work_once()
            except _AWAY as error:
                _log.warning("lots wait", reason=type(error).__name__)
                await asyncio.sleep(PAUSE_S)
                continue
            # A full batch may have left something, so it polls again at once.
            if done_count < BATCH_MAX:
                await self.rest(self._has_news, LOOK_AFTER_S, has_found=done_count > 0)

    async def work_once(self) -> int:
        """Execute due requests, at most one batch; return the number of charges."""
        slots = sorted(self._leases.held)
        if not slots:
            return 0
        now_s = self._context.clock.monotonic_s()
        self._resting_until_s = {key: until_s for key, until_s in self._resting_until_s.items() if until_s > now_s}
        done_count, failed = await do_due_items(self._context, slots, BATCH_MAX, self._resting_until_s.keys())
        self._resting_until_s |= dict.fromkeys(failed, now_s + TRY_AGAIN_AFTER_S)
        return done_count

    def wake(self, news: str = "") -> None:
        if not news:
            self._has_news.set()


MEMBERS: Final = (MemberRow(name="lots", make=lambda parts, leases: LotWorker(parts.context, leases)),)
