"""A process's metrics, in the text format of Prometheus.

The hot path only counts in plain attributes; a scrape reads them.
"""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class MetricFamily(Struct, frozen=True):
    name: str  # with its unit; a counter's ends in ``_total``
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str  # one sentence
    labels: tuple[str, ...] = ()


class Histogram:
    """Counts values by the first bound that they do not exceed."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count


Value = float | Histogram


class Measured(Struct, frozen=True, kw_only=True):
    family: MetricFamily
    values: Mapping[tuple[str, ...], Value]  # by the labels' values, in the order of ``MetricFamily.labels``


Read = Callable[[], Awaitable[Sequence[Measured]]]


def write_text(measured: Iterable[Measured]) -> str:
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
    # Each bucket counts the smaller ones as well.
    count = 0
    for bound, within in zip((*histogram.bounds, "+Inf"), histogram.counts, strict=True):
        count += within
        yield f"{name}_bucket{_write_labels({**labels, 'le': str(bound)})} {count}"
    yield f"{name}_sum{_write_labels(labels)} {histogram.total}"
    yield f"{name}_count{_write_labels(labels)} {count}"


def _write_labels(labels: Mapping[str, str]) -> str:
    written = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{written}}}" if written else ""
