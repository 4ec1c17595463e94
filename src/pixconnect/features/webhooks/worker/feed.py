"""The sequencer: assigns positions in the feed to committed events.

The worker that leases one certain slot runs it. That only saves work: two concurrent sequencers wait for each other in the
database. Written events wake it; after it found some it rests, so that those of the meantime share one transaction.

Another member makes the backlog of resumed endpoints due.
"""

import asyncio
from typing import Final

import structlog

from pixconnect.doors.worker.leases import Member, SlotLeases
from pixconnect.doors.worker.parts import poll_slots
from pixconnect.features.webhooks.service.endpoint import finish_resuming
from pixconnect.features.webhooks.service.feed import give_positions, sweep_positions
from pixconnect.features.webhooks.tables import feed as feed_store
from pixconnect.features.webhooks.tables.endpoint import IS_ANY_RESUMED
from pixconnect.kernel.flows.context import Context
from pixconnect.platform.base import errors
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.notifier import EVENT_CHANNEL

SLOT: Final = 0
REST_S: Final = 0.1
"""The pause after a read that found events.

Half of the time that an event may take to be readable.
"""
REST_TIMES: Final = 2  # a slow read, behind a hanging writer, is followed by this many times its length
POLL_S: Final = 2.0  # without ``DueLook``: a wake-up may be lost
SWEEP_EVERY_S: Final = 30.0
RETRY_AFTER_S: Final = 0.5

_log = structlog.get_logger(__name__)


class Sequencer(Member):
    due_if = feed_store.IS_ANY_NEW

    def __init__(self, context: Context, leases: SlotLeases, poll_s: float = POLL_S, sweep_s: float = SWEEP_EVERY_S) -> None:
        self._context = context
        self._leases = leases
        self._poll_s = poll_s
        self._sweep_s = sweep_s
        self._woken = asyncio.Event()
        self.given_count = 0
        self.swept_count = 0
        leases.add(self)
        leases.listen(EVENT_CHANNEL, lambda *_: self._woken.set())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._give())
            tasks.create_task(self._sweep())

    async def _give(self) -> None:
        while True:
            self._woken.clear()
            if SLOT in self._leases.held:
                try:
                    rest_s = await self._look()
                except (*DATABASE_FAILED, errors.PixConnectError) as error:
                    _log.warning("events wait for their positions", reason=type(error).__name__)
                    rest_s = RETRY_AFTER_S
                    self._woken.set()
                await asyncio.sleep(rest_s)
            await self.rest(self._woken, self._poll_s, has_found=False)

    async def _look(self) -> float:
        """Read once; return how long to gather wake-ups before the next read."""
        began_s = self._context.clock.monotonic_s()
        given = await give_positions(self._context)
        self.given_count += given.events_count
        if given.has_more:
            self._woken.set()
        if given.has_more or not given.events_count:
            return 0.0
        return max(REST_S, REST_TIMES * (self._context.clock.monotonic_s() - began_s))

    async def _sweep(self) -> None:
        # Runs beside the reads, which must not wait for it.
        while True:
            await asyncio.sleep(self._sweep_s)
            if SLOT not in self._leases.held:
                continue
            try:
                self.swept_count += await sweep_positions(self._context)
            except (*DATABASE_FAILED, errors.PixConnectError) as error:
                _log.warning("the feed's sweep failed", reason=type(error).__name__)

    def looked(self, *, is_due: bool) -> None:
        if is_due:
            self._woken.set()

    def wake(self, news: str = "") -> None:
        # New orders and deliveries come with events.
        self._woken.set()


MEMBERS: Final = (poll_slots("resumptions", lambda context, _slots, _count_max: finish_resuming(context), IS_ANY_RESUMED),)
