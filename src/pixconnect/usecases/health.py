"""Whether the service is well, said within two seconds whatever hangs.

Checks run at the same time, each with its own limit; one that does not come back is left behind. Callers that ask at the
same time share one answer, so that a public address cannot be used to wear out the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Literal

import structlog
from msgspec import Struct

from pixconnect.domain import errors
from pixconnect.domain.clock import Clock
from pixconnect.domain.rail import Rail, RailUnavailable
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.foundation.pool import Pool
from pixconnect.foundation.shares import for_everybody
from pixconnect.usecases import unresolved
from pixconnect.usecases.unresolved import RailWaiting
from pixconnect.writing.service_time import service_now_to_write

CHECK_TIMEOUT_S = 1.5
WEBHOOK_LAG_MAX_S = 60
"""A delivery that nothing holds back and that is due for longer than this means that webhooks are not sent."""

HealthStatus = Literal["healthy", "degraded", "unhealthy"]
Check = Callable[[], Awaitable[None]]
"""Raises ``ServiceUnavailable``, with a message for the public, when what it looks at is not well."""

_log = structlog.get_logger(__name__)


class CheckResult(Struct, frozen=True, kw_only=True):
    """What one check found.

    Attributes:
        status: ``healthy``, or how bad it is for the whole.
        duration_s: How long it took.
        error: What is wrong, without addresses or secrets.
    """

    status: HealthStatus
    duration_s: float
    error: str | None = None


class Health(Struct, frozen=True, kw_only=True):
    """How the service is.

    Attributes:
        status: ``unhealthy`` without the database, ``degraded`` if anything else fails.
        duration_s: How long it took to find out.
        checked_at: Service time.
        checks: By name.
        uptime_s: Since this process began to watch.
    """

    status: HealthStatus
    duration_s: float
    checked_at: datetime
    checks: dict[str, CheckResult]
    uptime_s: float


class HealthWatch:
    """Knows how the service is.

    Args:
        checks: By name; ``database`` is the one without which nothing works.
        clock: Service time and stop-watch.
    """

    def __init__(self, checks: Mapping[str, Check], clock: Clock) -> None:
        self._checks = checks
        self._clock = clock
        self._started_s = clock.monotonic_s()
        self._looking: asyncio.Task[Health] | None = None

    async def read_health(self) -> Health:
        """Look, or wait for the look that is under way."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="health")
        return await asyncio.shield(self._looking)

    async def _look(self) -> Health:
        started_s = self._clock.monotonic_s()
        names = list(self._checks)
        with for_everybody():
            found = await asyncio.gather(*(self._run(name) for name in names))
        checks = dict(zip(names, found, strict=True))
        bad = {result.status for result in found}
        status: HealthStatus = "unhealthy" if "unhealthy" in bad else "degraded" if "degraded" in bad else "healthy"
        now_s = self._clock.monotonic_s()
        return Health(
            status=status,
            duration_s=now_s - started_s,
            checked_at=self._clock.now(),
            checks=checks,
            uptime_s=now_s - self._started_s,
        )

    async def _run(self, name: str) -> CheckResult:
        started_s = self._clock.monotonic_s()
        task = asyncio.ensure_future(self._checks[name]())
        # Not wait_for: that would wait for a check which does not let itself be cancelled.
        await asyncio.wait([task], timeout=CHECK_TIMEOUT_S)
        duration_s = self._clock.monotonic_s() - started_s
        error = _verdict(name, task)
        if error is None:
            return CheckResult(status="healthy", duration_s=duration_s)
        status: HealthStatus = "unhealthy" if name == "database" else "degraded"
        return CheckResult(status=status, duration_s=duration_s, error=error)


def _verdict(name: str, task: asyncio.Future[None]) -> str | None:
    if not task.done():
        task.cancel()
        task.add_done_callback(_forget)
        return f"no answer within {CHECK_TIMEOUT_S} s"
    if task.cancelled():
        return "was cancelled"
    error = task.exception()
    if error is None or isinstance(error, errors.PixConnectError):
        return error.message if error else None
    _log.warning("health check failed", check=name, error=type(error).__name__)
    return "cannot be reached"


def _forget(task: asyncio.Future[None]) -> None:
    """Take note of how a check ended that nobody waits for, or asyncio complains that nobody did."""
    if not task.cancelled():
        task.exception()


async def check_database(pool: Pool) -> None:
    """See whether the database answers."""
    async with pool.acquire(timeout=CHECK_TIMEOUT_S) as connection:
        await connection.fetchval("select 1", timeout=CHECK_TIMEOUT_S)


async def check_rail(rail: Rail, read_waiting: Callable[[], Awaitable[RailWaiting]]) -> None:
    """See whether the rail answers, and whether it has left anything that a person must see.

    Args:
        rail: The rail.
        read_waiting: What waits for a person.

    Raises:
        ServiceUnavailable: It does not, or it has.
    """
    said: list[str] = []
    try:
        waiting = await read_waiting()
    except DATABASE_FAILED:
        waiting = RailWaiting(reports_count=0, silent_count=0)  # the database's own check says so
    try:
        await rail.check()
    except RailUnavailable:
        said.append("the rail cannot be reached")
    if waiting.reports_count:
        said.append(_count(waiting.reports_count, "report waits", "reports wait") + " for an operator")
    if waiting.silent_count:
        silent = _count(waiting.silent_count, "order has", "orders have")
        said.append(f"{silent} been silent for over {unresolved.SILENT_MAX // timedelta(seconds=1)} s")
    if said:
        raise errors.ServiceUnavailable("; ".join(said))


def _count(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


async def check_clock(pool: Pool, clock: Clock) -> None:
    """See whether this process's clock is the database's.

    Raises:
        ServiceUnavailable: They are too far apart: nothing is written.
    """
    async with pool.acquire(timeout=CHECK_TIMEOUT_S) as connection:
        await service_now_to_write(clock, connection)


async def check_webhooks(read_oldest_due: Callable[[], Awaitable[datetime | None]], clock: Clock) -> None:
    """See whether deliveries are made.

    Args:
        read_oldest_due: Since when the oldest delivery is due that neither its endpoint's limit nor an earlier event of its
            resource holds back; ``None`` if none is.
        clock: Service time.

    Raises:
        ServiceUnavailable: It waits for too long.
    """
    due_at = await read_oldest_due()
    if due_at is not None and (lag_s := (clock.now() - due_at).total_seconds()) > WEBHOOK_LAG_MAX_S:
        raise errors.ServiceUnavailable(f"the oldest due delivery has waited for {lag_s:.0f} s")
