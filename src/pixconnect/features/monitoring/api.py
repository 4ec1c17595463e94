"""Health, and probes, which return 503 where health returns 200 for any finding.

The names in ``system`` are the contract's, which was written for a program in Go.
"""

import asyncio
import gc
import os
import platform
import resource
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from pixconnect.doors.api import envelope
from pixconnect.doors.api.envelope import Instant, Refused, format_duration
from pixconnect.doors.api.operation import Anything, Bare, Nothing, RefusalForm, Request, Services
from pixconnect.features.monitoring.service import health as health_usecases
from pixconnect.features.monitoring.service.health import ServiceHealth
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_instant

_MIB: Final = 1024 * 1024
_STATM: Final = Path("/proc/self/statm")

HealthStatus = Literal["healthy", "degraded", "unhealthy"]
Duration = Annotated[str, Meta(examples=["1.27ms"])]


class CheckResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One check and its result."""

    status: HealthStatus
    """The check's result."""
    duration: Duration
    """How long the check took."""
    error: str | None = None
    """The failure, if there is one."""


class SystemInfo(Struct, frozen=True, kw_only=True):
    """The process that answered."""

    go_version: Annotated[str, Meta(examples=["python 3.11.7"])]
    """The runtime and its version."""
    mem_alloc_mb: int
    """Resident memory."""
    mem_sys_mb: int
    """Resident memory."""
    mem_total_mb: int
    """Resident memory at its peak."""
    num_cpu: int
    """Cores of the machine."""
    num_gc: int
    """Collections of the garbage collector."""
    num_goroutine: int
    """asyncio tasks."""
    uptime: Annotated[str, Meta(examples=["3h12m5s"])]
    """Since the process started."""
    version: str
    """The program's version."""


_NOTHING_TOLD = SystemInfo(
    go_version="", mem_alloc_mb=0, mem_sys_mb=0, mem_total_mb=0, num_cpu=0, num_gc=0, num_goroutine=0, uptime="", version=""
)
"""The answer if the operator hides the system: the declared fields, empty."""


class Health(Struct, frozen=True, kw_only=True):
    """The state of the service."""

    status: HealthStatus
    """`unhealthy` without its database; `degraded` if anything else fails."""
    duration: Duration
    """How long all checks took."""
    timestamp: Instant
    """When the checks were made."""
    checks: dict[str, CheckResult]
    """By name: `database`, `disk`, `clock`, `rail`, `workers`, `webhooks`, `signing_key`, `partitions`, `database_loss`,
    `books`, `feed`, where a standby is read from `standby`, and in live mode `settings` and `institutions`."""
    system: SystemInfo
    """The process that answered."""


class Liveness(Struct, frozen=True, kw_only=True):
    """The process answers."""

    status: Literal["alive"] = "alive"
    """`alive`, always: a process that is not does not answer."""


class Readiness(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether this process should get requests."""

    status: Literal["ready", "not ready"]
    """`not ready` comes with 503."""
    error: str | None = None
    """The checks that failed, and why."""


async def check_health(services: Services, request: Request[None, Anything, Nothing]) -> Health:
    """Ask how the service is.

    Always 200, within two seconds, without a token. Look at `status`.
    """
    # Always 200: the request itself has succeeded, and `status` has the result.
    return _shown.show(await services.of_features[ServiceHealth].read_health(), services)


class _LastShown:
    """Caches the last answer until the checks have run again: encoding it takes longer than everything else here."""

    def __init__(self) -> None:
        self._last: tuple[health_usecases.Health, Services, Health] | None = None

    def show(self, found: health_usecases.Health, services: Services) -> Health:
        if self._last is None or self._last[0] is not found or self._last[1] is not services:
            shown = Health(
                status=found.status,
                duration=format_duration(found.duration_s),
                timestamp=format_instant(found.checked_at),
                checks={
                    name: CheckResult(status=result.status, duration=format_duration(result.duration_s), error=result.error)
                    for name, result in found.checks.items()
                },
                system=_describe_system(found.uptime_s, services.version) if services.shows_system else _NOTHING_TOLD,
            )
            self._last = found, services, shown
        return self._last[2]


_shown: Final = _LastShown()


async def check_liveness(services: Services, request: Request[None, Anything, Nothing]) -> Bare[Liveness]:
    """Ask whether the process lives.

    For a probe that restarts a process: 200, in any state of the database. No envelope.
    """
    return Bare(Liveness())


async def check_readiness(services: Services, request: Request[None, Anything, Nothing]) -> Bare[Readiness]:
    """Ask whether the process is ready.

    For load balancers: 200, or 503 when this process cannot reach the database, has a wrong clock or cannot sign. The rail
    and webhooks do not count, because requests fare no better at another process. No envelope.
    """
    health = await services.of_features[ServiceHealth].read_readiness()
    failed = [f"{name}: {check.error}" for name, check in health.checks.items() if check.error is not None]
    if failed:
        raise errors.ServiceUnavailable("; ".join(failed))
    return Bare(Readiness(status="ready"))


def _refuse_bare(error: errors.PixConnectError, request_id: str, now: datetime) -> Refused:
    content = msgspec.json.encode(Readiness(status="not ready", error=error.message))
    return Refused(status=envelope.find_status(error.code), content=content, headers=envelope.error_headers(error))


NOT_READY: Final = RefusalForm(write=_refuse_bare, record=Readiness)


def _describe_system(uptime_s: float, version: str) -> SystemInfo:
    # macOS counts in bytes, all others in KiB.
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) // _MIB
    resident_mib = max(1, _read_resident_mib() or peak_mib)
    # Python has no second figure, so resident memory stands for both.
    return SystemInfo(
        go_version=f"python {platform.python_version()}",
        mem_alloc_mb=resident_mib,
        mem_sys_mb=resident_mib,
        mem_total_mb=max(resident_mib, peak_mib),
        num_cpu=os.cpu_count() or 1,
        num_gc=sum(generation["collections"] for generation in gc.get_stats()),
        num_goroutine=len(asyncio.all_tasks()),
        uptime=format_duration(uptime_s),
        version=version,
    )


def _read_resident_mib() -> int | None:
    try:
        pages = int(_STATM.read_text(encoding="ascii").split()[1])
    except OSError:
        return None
    return pages * resource.getpagesize() // _MIB
