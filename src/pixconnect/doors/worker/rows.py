"""Rows of features for workers and health: periodic tasks, figures from the database, and problems for a person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct

from pixconnect.kernel.flows.context import Context
from pixconnect.platform.base import errors
from pixconnect.platform.metrics import Measured, MetricFamily, Value

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

    look: Callable[[Context, datetime], Awaitable[Seen]]
    """Queries the database once; the instant is of service time."""
    gauges: Sequence[Gauge[Seen]]


class HealthCheck(NamedTuple):
    """A check that every process runs; it raises ``ServiceUnavailable``."""

    name: str
    check: Callable[[Context], Awaitable[None]]


class Problem(Struct, frozen=True, kw_only=True):
    check: str
    """The name of the health check that reports it: ``rail``, or one that only live mode runs."""
    find: Callable[[Context], Awaitable[str | None]]
    """Describes the problem for the public; ``None`` if there is none."""


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
    return [said for problem in problems if (said := await problem.find(context)) is not None]


async def check_problems(context: Context, problems: Sequence[Problem]) -> None:
    """Raise ``ServiceUnavailable`` with all of them."""
    if found := await find_problems(context, problems):
        raise errors.ServiceUnavailable("; ".join(found))
