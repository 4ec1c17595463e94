"""Where the bars of a chart stand: templates draw them as SVG, with a shape, a word and a colour for each state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from pixconnect.domain.reading.figures import Series, Spread, Step

WIDTH: Final = 480
HEIGHT: Final = 200
_LEFT: Final = 52
_BOTTOM: Final = 22
_TOP: Final = 10
_LABELS_MAX: Final = 6
_LINES: Final = 4


class BarPart(Struct, frozen=True, kw_only=True):
    """One piece of a bar."""

    status: str
    count: int
    y: float
    height: float


class Bar(Struct, frozen=True, kw_only=True):
    x: float
    width: float
    label: str
    parts: tuple[BarPart, ...]
    is_labelled: bool
    """Whether there is room for its label below it."""


class Chart(Struct, frozen=True, kw_only=True):
    width: int
    height: int
    left: int
    base: int
    """Where the bars stand."""
    bars: tuple[Bar, ...]
    lines: tuple[tuple[float, int], ...]
    """Lines across, with the value of each."""
    statuses: tuple[str, ...]
    """In the order in which they stand on each other."""
    totals: Mapping[str, int]


def list_steps(
    initial_at: datetime, final_at: datetime, step: Step, zone: Callable[[datetime], datetime]
) -> list[datetime]:
    """When each step of a span begins, in the visitor's time zone."""
    local = zone(initial_at).replace(minute=0, second=0, microsecond=0)
    at = local.replace(hour=0) if step == "day" else local
    length, found = timedelta(days=1) if step == "day" else timedelta(hours=1), list[datetime]()
    while at <= final_at:
        found.append(at)
        at += length
    return found


def stack(
    series: Sequence[Series], order: Sequence[str], steps: Sequence[datetime], label: Callable[[datetime], str]
) -> Chart:
    """Bars of the things created in each step, stacked by state."""
    counts = {each.status: dict(each.points) for each in series}
    statuses = tuple(status for status in order if any(counts.get(status, {}).values()))
    columns = [(label(at), [(status, counts[status].get(at, 0)) for status in statuses]) for at in steps]
    return _draw(columns, statuses)


def spread_out(spread: Spread, label: Callable[[int], str], status: str) -> Chart:
    """Bars of how many took how long."""
    return _draw([(label(bound), [(status, count)]) for bound, count in spread.buckets], (status,))


def _draw(columns: Sequence[tuple[str, Sequence[tuple[str, int]]]], statuses: tuple[str, ...]) -> Chart:
    highest = max((sum(count for _, count in parts) for _, parts in columns), default=0)
    unit = _round_up(highest / _LINES)
    base, room = HEIGHT - _BOTTOM, HEIGHT - _BOTTOM - _TOP
    scale = room / (unit * _LINES)
    pitch = (WIDTH - _LEFT) / max(1, len(columns))
    every = -(-len(columns) // _LABELS_MAX)
    bars: list[Bar] = []
    for number, (label, counts) in enumerate(columns):
        parts, y = list[BarPart](), float(base)
        for status, count in counts:
            # Every value is visible, however small it is beside the highest.
            height = max(1.0, count * scale) if count > 0 else 0.0
            y -= height
            if count > 0:
                parts.append(BarPart(status=status, count=count, y=round(y, 1), height=round(height, 1)))
        bars.append(
            Bar(
                x=round(_LEFT + number * pitch + pitch * 0.1, 1),
                width=round(pitch * 0.8, 1),
                label=label,
                parts=tuple(parts),
                is_labelled=number % max(1, every) == 0,
            )
        )
    totals = {status: sum(dict(counts)[status] for _, counts in columns) for status in statuses}
    lines = tuple((round(base - unit * line * scale, 1), unit * line) for line in range(_LINES + 1))
    return Chart(
        width=WIDTH,
        height=HEIGHT,
        left=_LEFT,
        base=base,
        bars=tuple(bars),
        lines=lines,
        statuses=statuses,
        totals=totals,
    )


def _round_up(value: float) -> int:
    """The next of 1, 2, 5, 10, 20 and so on."""
    power = 1
    while True:
        for digit in (1, 2, 5):
            if digit * power >= value:
                return digit * power
        power *= 10
