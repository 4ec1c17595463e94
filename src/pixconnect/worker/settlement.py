"""Keeps orders moving: hands over what is due, asks about what is silent, takes in what the rail reports."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Final

import structlog
from msgspec import Struct

from pixconnect.domain import errors
from pixconnect.domain.rail import RailUnavailable, Report
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.usecases.context import Context
from pixconnect.usecases.handover import move_due
from pixconnect.usecases.report import take_reports
from pixconnect.worker.leases import LeaseLost, SlotLeases

BATCH_MAX: Final = 256
"""Orders handed over, or reports taken in, at once."""
LOOK_AFTER_S: Final = 0.25
"""How often we look without having been told."""
GATHER_S: Final = 0.004
GATHER_BUSY_S: Final = 0.025
BUSY_FROM: Final = 8
"""Between two looks: what comes in meanwhile goes on together, and a group of many costs little more than one of few. So the
more there is to do, the longer is waited; a lone order goes on at once."""
SWEEP_EVERY_S: Final = 2.0
"""How often we look at everything, and not only beyond where we were."""
COMMITTED_LATE: Final = timedelta(seconds=1)
"""An order may be committed so long after the instant at which it is due; what took longer waits for the next sweep."""
REPORTS_WAIT_S: Final = 20.0
REPORT_BATCHES_MAX: Final = 4
"""Batches of reports being recorded while the next one is fetched."""
PAUSE_S: Final = 0.5
"""After the rail or the database gave no answer."""

_EARLIEST = datetime.fromisoformat("0001-01-01T00:00:00+00:00")
_AWAY = (*DATABASE_FAILED, errors.PixConnectError, RailUnavailable, LeaseLost)

_log = structlog.get_logger(__name__)


class _Place(Struct, frozen=True, kw_only=True):
    """How far the due orders have been read.

    Attributes:
        since: Orders due before it have been dealt with, but for those that were committed late.
        until: When we looked last, service time.
        slots: Which we looked at.
        swept_s: When we last looked at everything, monotonic.
    """

    since: datetime
    until: datetime
    slots: tuple[int, ...]
    swept_s: float


class OrderMover:
    """The part of a worker that does the next step of every transfer and refund that is due in its slots.

    Args:
        context: Of this process.
        leases: Which slots are ours.
    """

    def __init__(self, context: Context, leases: SlotLeases) -> None:
        self._context = context
        self._leases = leases
        self._has_news = asyncio.Event()
        self._place: _Place | None = None
        leases.add(self)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._has_news.clear()
            try:
                due_count = await self.move_due(self._context.clock.now())
            except _AWAY as error:
                _log.warning("orders wait", reason=type(error).__name__)
                await asyncio.sleep(PAUSE_S)
                continue
            if due_count < BATCH_MAX:
                await asyncio.sleep(_gather_s(due_count))
                await self._wait_for_news()

    async def move_due(self, until: datetime) -> int:
        """Do the next step of a batch of orders that are due up to an instant; answers how many they were."""
        slots = tuple(sorted(self._leases.held))
        if not slots:
            return 0
        now_s = self._context.clock.monotonic_s()
        place = self._place
        if place is None or until < place.until or slots != place.slots or now_s - place.swept_s > SWEEP_EVERY_S:
            place = _Place(since=_EARLIEST, until=until, slots=slots, swept_s=now_s)
        due = await move_due(self._context, self._leases.fence, slots, place.since, until, BATCH_MAX)
        since = max(place.since, due[-1] - COMMITTED_LATE) if due else place.since
        self._place = _Place(since=since, until=until, slots=slots, swept_s=place.swept_s)
        return len(due)

    def busy_slots(self) -> AbstractSet[int]:
        """None: what is written for an order is fenced, and what another worker does in between is no harm."""
        return frozenset()

    def slots_lost(self) -> None:
        """Nothing to stop: whatever is under way is refused by its fence."""

    def wake(self) -> None:
        """There may be something to do."""
        self._has_news.set()

    def oldest_due_at(self) -> datetime | None:
        """Orders are not deliveries."""
        return None

    async def _wait_for_news(self) -> None:
        try:
            async with asyncio.timeout(LOOK_AFTER_S):
                await self._has_news.wait()
        except TimeoutError:
            return


async def keep_taking_reports(context: Context) -> None:
    """Take in what the rail reports, until cancelled; the next batch is fetched while the last ones are recorded."""
    places = asyncio.Semaphore(REPORT_BATCHES_MAX)
    async with asyncio.TaskGroup() as batches:
        while True:
            await places.acquire()
            try:
                reports = await context.rail.reports(REPORTS_WAIT_S)
            except RailUnavailable:
                places.release()
                await asyncio.sleep(PAUSE_S)
                continue
            batches.create_task(_take(context, reports, places))
            if len(reports) < BATCH_MAX:
                await asyncio.sleep(_gather_s(len(reports)))


async def _take(context: Context, reports: Sequence[Report], places: asyncio.Semaphore) -> None:
    try:
        if reports and await take_reports(context, reports) < len(reports):
            await asyncio.sleep(PAUSE_S)  # what was not acknowledged comes again at once
    except _AWAY as error:
        _log.warning("reports wait", reports_count=len(reports), reason=type(error).__name__)
        await asyncio.sleep(PAUSE_S)
    finally:
        places.release()


def _gather_s(count: int) -> float:
    return GATHER_BUSY_S if count >= BUSY_FROM else GATHER_S
