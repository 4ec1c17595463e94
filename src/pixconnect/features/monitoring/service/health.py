"""The health of the service, answered within two seconds, even if a dependency hangs.

Checks run concurrently, each with its own timeout; one that does not end is abandoned. Callers during the checks share one
answer, and so do those within ``KEPT_S`` of their beginning: this public address cannot be used to overload the database.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Final, Literal, LiteralString

import structlog
from msgspec import Struct

from pixconnect.doors.worker.parts import HealthCheck, Problem, check_problems, counted, find_problems
from pixconnect.features.identity.service.keyring import STALE_AFTER_S, Keyring
from pixconnect.features.webhooks.service import delivery, feed
from pixconnect.kernel.feature import gather
from pixconnect.kernel.flows import installation, kept_report, partition, unresolved
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.source import find_accounts
from pixconnect.kernel.flows.standby import Standby, check_standby
from pixconnect.kernel.rules.rail import Rail, RailUnavailable
from pixconnect.kernel.tables import lease as lease_store
from pixconnect.kernel.tables.clock import service_now_to_write
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock, describe_end
from pixconnect.platform.database_failure import (
    DATABASE_FAILED,
    DATABASE_REFUSES,
    LOGIN_REFUSED,
    database_disk,
    explain_failure,
)
from pixconnect.platform.pool import Pool
from pixconnect.platform.shared_look import SharedLook, retrieve

CHECK_TIMEOUT_S = 1.5
KEPT_S = 0.2  # how long an answer is repeated after its check began: a fault, or its end, shows at most this much later
WEBHOOK_LAG_MAX_S = 60  # if a delivery without an obstacle is overdue for longer than this, webhooks are not being sent
HealthStatus = Literal["healthy", "degraded", "unhealthy"]
Check = Callable[[], Awaitable[None]]  # raises ``ServiceUnavailable``, with a message for the public, when something is wrong

_log = structlog.get_logger(__name__)


class CheckResult(Struct, frozen=True, kw_only=True):
    status: HealthStatus  # ``healthy``, or the service's status when this check fails
    duration_s: float
    error: str | None = None  # the reason, without addresses or secrets
    # ``False`` if the check found nothing out: no answer in time, or none of the database. ``database`` reports that one.
    is_read: bool = True


class Health(Struct, frozen=True, kw_only=True):
    status: HealthStatus  # ``unhealthy`` without the database, ``degraded`` if anything else fails
    duration_s: float  # how long the checks took
    checked_at: datetime
    checks: dict[str, CheckResult]
    uptime_s: float  # since this process started


class ServiceHealth(Struct, frozen=True, kw_only=True):
    read_health: Callable[[], Awaitable[Health]]  # answers within 2 s, even if a dependency hangs
    # Only the checks that decide whether this process should get requests.
    read_readiness: Callable[[], Awaitable[Health]]


class HealthWatch:
    """Runs the named checks; without ``database`` nothing works."""

    def __init__(self, checks: Mapping[str, Check], clock: Clock, timeout_s: float = CHECK_TIMEOUT_S) -> None:
        self._checks = checks
        self._timeout_s = timeout_s
        self._clock = clock
        self._started_s = clock.monotonic_s()
        self._shared_look = SharedLook(self._look, "health")
        self._found: Health | None = None
        self._fresh_until_s = float("-inf")

    async def read_health(self) -> Health:
        """Run the checks, or wait for running ones; or return their recent result."""
        if self._found is not None and self._clock.monotonic_s() < self._fresh_until_s:
            return self._found
        return await self._shared_look.look()

    async def _look(self) -> Health:
        started_s = self._clock.monotonic_s()
        found = await asyncio.gather(*(self._run(name, check) for name, check in self._checks.items()))
        checks = dict(zip(self._checks, found, strict=True))
        bad = {result.status for result in found}
        status: HealthStatus = "unhealthy" if "unhealthy" in bad else "degraded" if "degraded" in bad else "healthy"
        now_s = self._clock.monotonic_s()
        # Counted from the check's begin: its findings may be as old as that.
        self._fresh_until_s = started_s + KEPT_S
        self._found = Health(
            status=status,
            duration_s=now_s - started_s,
            checked_at=self._clock.now(),
            checks=checks,
            uptime_s=now_s - self._started_s,
        )
        return self._found

    async def _run(self, name: str, check: Check) -> CheckResult:
        started_s = self._clock.monotonic_s()
        task = asyncio.ensure_future(check())
        # Not wait_for: that would keep waiting for a check that ignores its cancellation.
        await asyncio.wait([task], timeout=self._timeout_s)
        duration_s = self._clock.monotonic_s() - started_s
        error = _verdict(name, task, self._timeout_s)
        if error is None:
            return CheckResult(status="healthy", duration_s=duration_s)
        if name == "database":
            return CheckResult(status="unhealthy", duration_s=duration_s, error=error)
        return CheckResult(status="degraded", duration_s=duration_s, error=error, is_read=_is_read(task))


def _is_read(task: asyncio.Future[None]) -> bool:
    if not task.done() or task.cancelled():
        return False
    error = task.exception()
    # No outage lacks a right, and no check of the database reports a missing one.
    return isinstance(error, DATABASE_REFUSES) or not isinstance(error, DATABASE_FAILED)


def _verdict(name: str, task: asyncio.Future[None], timeout_s: float) -> str | None:
    if not task.done():
        task.cancel()
        task.add_done_callback(retrieve)
        return f"no answer within {timeout_s} s"
    if task.cancelled():
        return "was cancelled"
    error = task.exception()
    if error is None or isinstance(error, errors.PixConnectError):
        return error.message if error else None
    if isinstance(error, (*DATABASE_REFUSES, *LOGIN_REFUSED)):
        return explain_failure(error)
    # An unforeseen error may name hosts or secrets, so its text is not public.
    _log.warning("health check failed", check=name, error=type(error).__name__)
    return "cannot be reached"


_ONLY_READS: Final[LiteralString] = "select pg_is_in_recovery() or current_setting('transaction_read_only')::boolean"


async def check_database(pool: Pool) -> None:
    """Check that it answers and permits writing: after a failover it may still be a standby."""
    async with pool.acquire(timeout=CHECK_TIMEOUT_S) as connection:
        if await connection.fetchval(_ONLY_READS, timeout=CHECK_TIMEOUT_S):
            raise errors.ServiceUnavailable("the database only reads: it is a standby, or was set so")


async def check_disk(pool: Pool) -> None:
    """Check that the database has room to write, once it had none."""
    await database_disk.check(pool, CHECK_TIMEOUT_S)


async def check_rail(
    rail: Rail,
    find_waiting: Callable[[], Awaitable[Sequence[str]]],
    *,
    has_rail: bool = True,
    find_states: Callable[[], Awaitable[Collection[str]]] | None = None,
) -> None:
    """Check that a rail exists and answers, and whether its work waits for a person."""
    try:
        waiting = await find_waiting()
    except DATABASE_FAILED:
        # The check of the database reports that.
        waiting = ()
    problems: list[str] = []
    # Accounts at institutions are rails of their own.
    states = () if find_states is None else await find_states()
    try:
        if "active" not in states:
            await rail.check()
    except RailUnavailable as error:
        problems.append(
            error.summary
            if has_rail
            else "every account at an institution is paused: no money leaves"
            if "paused" in states
            else "neither an account at an institution nor a rail is configured: payments are impossible in both directions"
        )
    if problems or waiting:
        raise errors.ServiceUnavailable("; ".join((*problems, *waiting)))


async def check_settings(clock: Clock, *, lacks_proxies: bool, certificates: Mapping[str, datetime]) -> None:
    """Check the operator's settings, and that their certificates do not expire soon."""
    problems: list[str] = []
    if lacks_proxies:
        # This page is public: the value would show how to lock all callers out.
        problems.append("a setting is probably wrong: the service said at its start which, as `doctor` does")
    for used_for, ends_at in certificates.items():
        if (end := describe_end(ends_at, clock.real_now())) is not None:
            problems.append(f"the certificate for {used_for} {end}")
    if problems:
        raise errors.ServiceUnavailable("; ".join(problems))


async def check_clock(pool: Pool, clock: Clock) -> None:
    async with pool.acquire(timeout=CHECK_TIMEOUT_S) as connection:
        # Raises if the two clocks are too far apart to write anything.
        await service_now_to_write(clock, connection)


async def check_signing_key(keyring: Keyring) -> None:
    # A process that was stopped for a while, or had no turn, reads them now: only a failure of that is an alarm.
    with suppress(errors.ServiceUnavailable):
        await keyring.reload_if_older(STALE_AFTER_S)
    keyring.check()


class WorkerWatch:
    """Reports that no worker runs."""

    def __init__(self, context: Context) -> None:
        self._context = context
        # Those that end or begin orderly leave no trace, and a restart takes a moment.
        self._seen_s = context.clock.monotonic_s()

    async def check(self) -> None:
        now_s = self._context.clock.monotonic_s()
        silent_s = await lease_store.read_silent_s(self._context.pool)
        if silent_s is None:
            silent_s = now_s - self._seen_s
        else:
            self._seen_s = now_s - silent_s
        if lease_store.is_without_worker(silent_s):
            raise errors.ServiceUnavailable("no worker is running")


async def check_webhooks(read_oldest_due: Callable[[], Awaitable[datetime | None]], clock: Clock) -> None:
    """Check that due deliveries are sent, by the oldest due one without an obstacle."""
    due_at = await read_oldest_due()
    if due_at is not None and (lag_s := (clock.now() - due_at).total_seconds()) > WEBHOOK_LAG_MAX_S:
        raise errors.ServiceUnavailable(f"the oldest due delivery has waited for {lag_s:.0f} s")


async def _count_reports(context: Context) -> int:
    return sum((await kept_report.count_open(context.pool)).values())


_SILENT: Final = f"{unresolved.SILENT_MAX // timedelta(seconds=1)} s"
_OF_RAIL: Final = (
    counted("rail", _count_reports, "report waits", "reports wait", "for an operator"),
    counted("rail", unresolved.count_silent, "order has", "orders have", f"been silent for over {_SILENT}"),
    counted(
        *("rail", unresolved.count_accepted, "payment was", "payments were"), f"accepted over {_SILENT} ago and not settled"
    ),
)
NO_CERTIFICATES: Final[Mapping[str, datetime]] = MappingProxyType({})


def watch_health(
    context: Context,
    keyring: Keyring,
    *,
    lacks_proxies: bool = False,
    certificates: Mapping[str, datetime] = NO_CERTIFICATES,
    standby: Standby | None = None,
) -> HealthWatch:
    """Return the health checks; ``certificates`` has the ends of those in the settings, by purpose."""
    by_check = defaultdict[str, list[Problem]](list)
    for problem in (*_OF_RAIL, *gather("problems", Problem)):
        by_check[problem.check].append(problem)
    policy = context.policy
    checks: dict[str, Check] = {
        "database": partial(check_database, context.pool),
        "disk": partial(check_disk, context.pool),
        "clock": partial(check_clock, context.pool, context.clock),
        "rail": partial(
            check_rail,
            context.rail,
            partial(find_problems, context, by_check.pop("rail")),
            has_rail=policy.has_rail,
            find_states=partial(find_accounts().find_states, context),
        ),
        "workers": WorkerWatch(context).check,
        "webhooks": partial(check_webhooks, partial(delivery.read_oldest_due, context), context.clock),
        "signing_key": partial(check_signing_key, keyring),
        "partitions": partial(partition.check_partitions, context.pool),
        "database_loss": partial(installation.check_losses, context.pool),
        **{each.name: partial(each.check, context) for each in gather("checks", HealthCheck)},
        "feed": partial(feed.check_feed, context.pool, context.clock),
    }
    if standby is not None:
        checks["standby"] = partial(check_standby, standby)
    # In a sandbox, no setting is dangerous.
    if not policy.is_sandbox:
        checks["settings"] = partial(check_settings, context.clock, lacks_proxies=lacks_proxies, certificates=certificates)
        checks |= {name: partial(check_problems, context, found) for name, found in by_check.items()}
    return HealthWatch(checks, context.clock)


def watch_readiness(context: Context, keyring: Keyring, access_pool: Pool) -> HealthWatch:
    """Return the check for load balancers: only problems that another process may not have."""
    return HealthWatch(
        {
            # By the connection for access, which is free when callers hold all others: a busy process is ready.
            "database": partial(check_database, access_pool),
            "disk": partial(check_disk, access_pool),
            "clock": partial(check_clock, access_pool, context.clock),
            "signing_key": partial(check_signing_key, keyring),
        },
        context.clock,
    )
