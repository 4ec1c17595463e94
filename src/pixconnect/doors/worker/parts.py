"""A worker's dependencies, the members that features add to it, and the look that wakes them.

``DueLook`` asks once a second, in one query, which resting parts of the worker have due work, and wakes those. Parts that are
busy look by themselves. A part without a wake-up for ``REST_MAX_S`` looks by itself too, so a wrong condition costs time and no
work.

Features add rows: periodic tasks, figures from the database, health checks, and problems for a person.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime
from typing import Any, Final, Generic, Literal, LiteralString, NamedTuple, Protocol, TypeAlias, TypeVar, cast

import structlog
from msgspec import Struct

from pixconnect.doors.worker.leases import Connect, Member, Poller, SlotLeases, TimedMember, until_beat
from pixconnect.kernel.feature import FeatureParts
from pixconnect.kernel.flows.context import Context
from pixconnect.platform.base import errors
from pixconnect.platform.config import Settings
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.metrics import Measured, MetricFamily, Read, Value
from pixconnect.platform.notifier import Notifier

Seen = TypeVar("Seen")
Reading: TypeAlias = Value | Mapping[str, Value] | Mapping[tuple[str, ...], Value]
"""One value, or several by the value of their label, or of their labels."""


class Chore(Struct, frozen=True, kw_only=True):
    """A periodic task of a worker."""

    name: str
    run: Callable[[Context], Awaitable[float | None]]
    """Returns the seconds until the next round if that is not its interval."""
    every_s: float


class Gauge(Struct, Generic[Seen], frozen=True):
    name: str
    labels: tuple[str, ...]
    meaning: str
    read: Callable[[Seen], Reading]
    kind: Literal["counter", "gauge", "histogram"] = "gauge"

    @property
    def family(self) -> MetricFamily:
        return MetricFamily(name=self.name, kind=self.kind, labels=self.labels, meaning=self.meaning)

    def measure(self, seen: Seen) -> Measured:
        reading = self.read(seen)
        if not isinstance(reading, Mapping):
            reading = {(): reading}
        return Measured(
            family=self.family,
            values={(label,) if isinstance(label, str) else label: value for label, value in reading.items()},
        )


class Meter(Struct, Generic[Seen], frozen=True, kw_only=True):
    """Reads once; its gauges are read from the result."""

    look: Callable[[Context, datetime], Awaitable[Seen]]  # queries the database once; the instant is of service time
    gauges: Sequence[Gauge[Seen]]


class HealthCheck(NamedTuple):
    """A check that every process runs; it raises ``ServiceUnavailable``."""

    name: str
    check: Callable[[Context], Awaitable[None]]


class Problem(Struct, frozen=True, kw_only=True):
    check: str  # the name of the health check that reports it: ``rail``, or one that only live mode runs
    # Describes the problem for the public; ``None`` if there is none.
    find: Callable[[Context], Awaitable[str | None]]


def age_s(instant: datetime | None, now: datetime) -> float:
    """Return how long ago that was; 0 for ``None``."""
    # The writing machine's clock may be a moment ahead of this one's, and no age is negative.
    return 0.0 if instant is None else max(0.0, (now - instant).total_seconds())


def counted(check: str, count: Callable[[Context], Awaitable[int]], one: str, many: str, rest: str) -> Problem:
    """Describe a problem with its number of items: the number, ``one`` or ``many``, and ``rest``."""

    async def find(context: Context) -> str | None:
        found = await count(context)
        return f"{found} {one if found == 1 else many} {rest}" if found else None

    return Problem(check=check, find=find)


async def find_problems(context: Context, problems: Sequence[Problem]) -> list[str]:
    return [text for problem in problems if (text := await problem.find(context)) is not None]


async def check_problems(context: Context, problems: Sequence[Problem]) -> None:
    """Raise ``ServiceUnavailable`` with all of them."""
    if found := await find_problems(context, problems):
        raise errors.ServiceUnavailable("; ".join(found))


class WorkerParts(Struct, frozen=True, kw_only=True):
    context: Context
    notifier: Notifier
    connect: Connect  # opens a separate connection for the leases
    event_retention_days: int
    of_features: FeatureParts  # further dependencies of features' members
    serve_metrics: Callable[[Read], AbstractAsyncContextManager[None]] = lambda _read: nullcontext()


class Runner(Protocol):
    async def run(self) -> None:
        """Work until cancelled."""


class MemberRow(Struct, frozen=True, kw_only=True):
    """A part of a worker that a feature adds."""

    name: str
    make: Callable[[WorkerParts, SlotLeases], Runner]
    gauges: Sequence[Gauge[Any]] = ()  # read from the result


class WorkerExtension(Struct, frozen=True, kw_only=True):
    """A feature's wrappers of a worker's parts."""

    open: Callable[[Settings, WorkerParts], AbstractAsyncContextManager[WorkerParts]]


BATCH_MAX: Final = 64
LOOK_AFTER_S: Final = 1.0
DUE_LOOK_EVERY_S: Final = 1.0

_log = structlog.get_logger(__name__)


class SlotPoller(TimedMember):
    """Does what is due in this worker's slots."""

    def __init__(
        self,
        name: str,
        context: Context,
        leases: SlotLeases,
        do_due: Callable[[Context, Sequence[int], int], Awaitable[int]],
        due_if: LiteralString,
    ) -> None:
        super().__init__()
        self._name = name
        self._context = context
        self._leases = leases
        self._do_due = do_due
        self.due_if = due_if
        leases.add(self)

    async def run(self) -> None:
        while True:
            done_count = 0
            self.is_due.clear()
            slots = sorted(self._leases.held)
            try:
                done_count = await self._do_due(self._context, slots, BATCH_MAX) if slots else 0
            except (*DATABASE_FAILED, errors.PixConnectError) as error:
                _log.warning("due work waits", member=self._name, reason=type(error).__name__)
            if done_count < BATCH_MAX:
                await self.rest(self.is_due, LOOK_AFTER_S, has_found=done_count > 0)


def poll_slots(name: str, do_due: Callable[[Context, Sequence[int], int], Awaitable[int]], due_if: LiteralString) -> MemberRow:
    """Make a part that does what is due in the worker's slots; ``due_if`` is the condition of ``Member``."""
    return MemberRow(name=name, make=lambda parts, leases: SlotPoller(name, parts.context, leases, do_due, due_if))


class DueLook:
    def __init__(self, context: Context, leases: SlotLeases) -> None:
        self._context = context
        self._leases = leases
        self._members = [member for member in leases.members if member.due_if]
        for member in self._members:
            member.is_looked_after = True
        # PostgreSQL evaluates no condition of a part that is busy.
        asked: list[LiteralString] = [
            f"case when ($3::boolean[])[{cast('LiteralString', str(place))}] then {member.due_if} else false end"
            for place, member in enumerate(self._members, 1)
        ]
        self._query: LiteralString = "select " + ", ".join(asked)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(until_beat(DUE_LOOK_EVERY_S, Poller.DUE, self._context.clock.monotonic_s()))
            try:
                await self.look()
            except (*DATABASE_FAILED, errors.PixConnectError) as error:
                _log.warning("due work waits", reason=type(error).__name__)

    async def look(self) -> list[Member]:
        """Wake the resting parts that have due work, and return them."""
        resting = [member.is_resting for member in self._members]
        slots = sorted(self._leases.held)
        if not slots or not any(resting):
            return []
        found = await self._context.pool.fetchrow(self._query, slots, self._context.clock.now(), resting)
        due: list[Member] = []
        for member, was_resting, is_due in zip(self._members, resting, found or (), strict=True):
            if was_resting:
                member.looked(is_due=is_due)
            if is_due:
                due.append(member)
        return due
