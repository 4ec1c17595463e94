"""What a process tells of itself to who watches it: the text format of Prometheus.

Nothing is made for metrics on the hot road: rooms count in plain attributes, as they would for their own use, and are read when
somebody asks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Family(Struct, frozen=True, kw_only=True):
    """What is measured under one name."""

    name: str
    """With its unit; a counter's ends in ``_total``."""
    kind: Literal["counter", "gauge", "histogram"]
    """A counter only rises, from 0 at the process's start; a gauge is as it is."""
    meaning: str
    """One sentence."""
    labels: tuple[str, ...] = ()
    """Names by which its values are told apart."""


class Histogram:
    """How often values came up to each bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        """Take a value in, as often as it came."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count


Value = float | Histogram


class Measured(Struct, frozen=True, kw_only=True):
    """A family, read."""

    family: Family
    values: Mapping[tuple[str, ...], Value]
    """By the values of its labels, in their order."""


Read = Callable[[], Awaitable[Sequence[Measured]]]


def measure(family: Family, value: Value) -> Measured:
    """A family without labels, read."""
    return Measured(family=family, values={(): value})


def write_text(measured: Iterable[Measured]) -> str:
    """The text format of Prometheus, version 0.0.4."""
    lines: list[str] = []
    for one in measured:
        family = one.family
        lines.append(f"# HELP {family.name} {family.meaning}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for words, value in sorted(one.values.items(), key=lambda item: item[0]):
            labels = dict(zip(family.labels, words, strict=True))
            if isinstance(value, Histogram):
                lines += _write_histogram(family.name, labels, value)
            else:
                lines.append(f"{family.name}{_write_labels(labels)} {value}")
    return "\n".join(lines) + "\n"


def _write_histogram(name: str, labels: Mapping[str, str], histogram: Histogram) -> Iterable[str]:
    count = 0
    for bound, within in zip((*histogram.bounds, "+Inf"), histogram.counts, strict=True):
        count += within
        yield f"{name}_bucket{_write_labels({**labels, 'le': str(bound)})} {count}"
    yield f"{name}_sum{_write_labels(labels)} {histogram.total}"
    yield f"{name}_count{_write_labels(labels)} {count}"


def _write_labels(labels: Mapping[str, str]) -> str:
    written = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{written}}}" if written else ""
