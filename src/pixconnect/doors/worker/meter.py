"""Workers' figures from the database: a meter reads once, and its gauges are read from the result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

from pixconnect.kernel.flows.context import Context
from pixconnect.platform.metrics import Measured, MetricFamily, Value

Seen = TypeVar("Seen")
Reading: TypeAlias = Value | Mapping[str, Value] | Mapping[tuple[str, ...], Value]
"""One value, or several by the value of their label, or of their labels."""


class Gauge(Struct, Generic[Seen], frozen=True):
    """One metric."""

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
    look: Callable[[Context, datetime], Awaitable[Seen]]
    """Queries the database once; the instant is of service time."""
    gauges: Sequence[Gauge[Seen]]


def age_s(instant: datetime | None, now: datetime) -> float:
    """Return how long ago that was; 0 for ``None``."""
    # The writing machine's clock may be a moment ahead of this one's, and no age is negative.
    return 0.0 if instant is None else max(0.0, (now - instant).total_seconds())
