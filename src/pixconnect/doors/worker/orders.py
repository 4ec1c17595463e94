"""Moves orders: hands over due ones, queries silent ones, and records the rail's reports.

A payment is in time if the rail reported it in time. So before a charge expires, every report up to its deadline is recorded: a
payment that a killed worker had received must not come too late.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog
from msgspec import Struct

from pixconnect.doors.worker.leases import LeaseLost, Member, SlotLeases, TimedMember
from pixconnect.kernel.flows.charge import expire_charges
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.handover import move_due
from pixconnect.kernel.rules.rail import RailUnavailable, Report
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.kernel.tables import order as order_store
from pixconnect.platform.base import errors
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.notifier import ONLY_DELIVERIES

BATCH_MAX: Final = 256  # orders handed over, or reports recorded, at once
LOOK_AFTER_S: Final = 0.25  # when it reads again after it found something, without a wake-up
GATHER_S: Final = 0.004
GATHER_BUSY_S: Final = 0.025
BUSY_FROM: Final = 8
"""The pause between two reads. A batch of many costs little more than one of few, so the pause is longer from ``BUSY_FROM``
orders on; a single order hardly waits."""
SWEEP_EVERY_S: Final = 2.0  # how often all due orders are read, and not only those after the cursor
COMMITTED_LATE: Final = timedelta(seconds=1)
"""How long after its due instant an order may be committed; one that took longer waits for the next sweep."""
REPORTS_WAIT_S: Final = 20.0
REPORT_BATCHES_MAX: Final = 4  # batches of reports that are recorded while the next one is fetched
PAUSE_S: Final = 0.5  # the pause after the rail or the database gave no answer

_EARLIEST = datetime.fromisoformat("0001-01-01T00:00:00+00:00")
_AWAY = (*DATABASE_FAILED, errors.PixConnectError, RailUnavailable, LeaseLost)

_log = structlog.get_logger(__name__)


class _Cursor(Struct, frozen=True, kw_only=True):
    """How far the due orders have been read."""

    since: datetime  # orders that were due before this are done, except those that were committed late
    until: datetime  # the service time of the last read
    slots: tuple[int, ...]
    swept_s: float  # the monotonic time of the last sweep


class OrderMover(Member):
    """Does the next step of every transfer and refund that is due in the worker's slots."""

    due_if = order_store.IS_ANY_DUE

    def __init__(self, context: Context, leases: SlotLeases, batch_max: int = BATCH_MAX) -> None:
        self._context = context
        self._batch_max = batch_max
        self._leases = leases
        self._has_news = asyncio.Event()
        self._cursor: _Cursor | None = None
        leases.add(self)

    async def run(self) -> None:
        while True:
            self._has_news.clear()
            try:
                due_count = await self.move_due(self._context.clock.now())
            except _AWAY as error:
                _log.warning("orders wait", reason=type(error).__name__)
                await asyncio.sleep(PAUSE_S)
                continue
            if due_count < self._batch_max:
                ended_s = self._context.clock.monotonic_s()
                # Each step ends an order or postpones it, so none that it found is due.
                await self.rest(self._has_news, LOOK_AFTER_S, has_found=False)
                # The pause is over if the wake-up came late.
                left_s = ended_s + _gather_s(due_count) - self._context.clock.monotonic_s()
                if left_s > 0:
                    await asyncio.sleep(left_s)

    async def move_due(self, until: datetime) -> int:
        """Do the next step of a batch of orders that are due up to an instant, and return their number."""
        slots = tuple(sorted(self._leases.held))
        if not slots:
            return 0
        now_s = self._context.clock.monotonic_s()
        cursor = self._cursor
        # Start from the beginning too when the sandbox clock was moved back, or when this worker holds other slots.
        if cursor is None or until < cursor.until or slots != cursor.slots or now_s - cursor.swept_s > SWEEP_EVERY_S:
            cursor = _Cursor(since=_EARLIEST, until=until, slots=slots, swept_s=now_s)
        due = await move_due(self._context, self._leases, slots, cursor.since, until, self._batch_max)
        since = max(cursor.since, due[-1] - COMMITTED_LATE) if due else cursor.since
        self._cursor = _Cursor(since=since, until=until, slots=slots, swept_s=cursor.swept_s)
        return len(due)

    def wake(self, news: str = "") -> None:
        if news != ONLY_DELIVERIES:
            self._has_news.set()


TakeReports = Callable[[Context, Sequence[Report]], Awaitable[int]]  # records reports, and returns how many of them


async def keep_taking_reports(context: Context, take_reports: TakeReports, pause_s: float = PAUSE_S) -> None:
    """Record the rail's reports, until cancelled; the next batch is fetched meanwhile."""
    limit = asyncio.Semaphore(REPORT_BATCHES_MAX)
    async with asyncio.TaskGroup() as batches:
        while True:
            # Before fetching: a report that was fetched and waits here would be reported again.
            await limit.acquire()
            try:
                reports = await context.rail.reports(REPORTS_WAIT_S)
            except RailUnavailable:
                limit.release()
                await asyncio.sleep(pause_s)
                continue
            batches.create_task(_take(context, take_reports, reports, limit, pause_s))
            if len(reports) < BATCH_MAX:
                await asyncio.sleep(_gather_s(len(reports)))


async def _take(
    context: Context, take_reports: TakeReports, reports: Sequence[Report], limit: asyncio.Semaphore, pause_s: float
) -> None:
    try:
        # The rail repeats an unacknowledged report at once, and would keep this loop busy.
        if await take_reports(context, reports) < len(reports):
            await asyncio.sleep(pause_s)
    except _AWAY as error:
        _log.warning("reports wait", reports_count=len(reports), reason=type(error).__name__)
        await asyncio.sleep(pause_s)
    finally:
        limit.release()


def _gather_s(count: int) -> float:
    return GATHER_BUSY_S if count >= BUSY_FROM else GATHER_S


EXPIRED_MAX: Final = 256
EXPIRY_EVERY_S: Final = 1.0
ASK_AGAIN_AFTER_S: Final = 0.1  # the pause while an earlier report is being recorded
WAIT_MAX_S: Final = 60.0
"""The longest that an unreachable rail, or a report that cannot be recorded, keeps charges from expiring; real time."""


class Expiry(TimedMember):
    """Marks charges as expired."""

    due_if = charge_store.IS_ANY_EXPIRED

    def __init__(self, context: Context, leases: SlotLeases) -> None:
        super().__init__()
        self._context = context
        self._leases = leases
        self._waits_since_s: float | None = None
        leases.add(self)

    async def run(self) -> None:
        while True:
            pause_s = EXPIRY_EVERY_S
            self.is_due.clear()
            try:
                pause_s = await self.expire(self._context.clock.now())
            except (*DATABASE_FAILED, errors.PixConnectError) as error:
                _log.warning("expiry waits", reason=type(error).__name__)
            await self.rest(self.is_due, pause_s, has_found=pause_s < EXPIRY_EVERY_S)

    async def expire(self, now: datetime) -> float:
        """Expire charges due by an instant, as far as reports are recorded; return seconds until the next check."""
        slots = sorted(self._leases.held)
        if not slots or not await charge_store.find_expired(self._context.pool, slots, now, 1):
            self._waits_since_s = None
            return EXPIRY_EVERY_S
        until = await self._recorded_until(now)
        expired_count = await expire_charges(self._context, slots, until, EXPIRED_MAX)
        if until < now:
            return ASK_AGAIN_AFTER_S
        self._waits_since_s = None
        return 0 if expired_count >= EXPIRED_MAX else EXPIRY_EVERY_S

    async def _recorded_until(self, now: datetime) -> datetime:
        """Return the instant up to which every report of the rail is recorded."""
        monotonic_s = self._context.clock.monotonic_s()
        self._waits_since_s = self._waits_since_s or monotonic_s
        is_over = monotonic_s - self._waits_since_s >= WAIT_MAX_S
        try:
            oldest_at = await self._context.rail.waiting_since()
        except RailUnavailable:
            # Any report may be waiting, so none counts as recorded.
            oldest_at = datetime.min.replace(tzinfo=now.tzinfo)
        if oldest_at is None or oldest_at > now:
            return now
        if is_over:
            # Otherwise one report that cannot be recorded would keep all charges of these slots from expiring for ever.
            _log.error("charges expire although reports of the rail up to their expiry are missing", waited_s=WAIT_MAX_S)
            return now
        return oldest_at
