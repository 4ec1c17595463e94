"""Charts as SVG: what is drawn is also written, as text beside each bar and in the description for who cannot see it.

A chart brings its own background and follows the reader's choice of light or dark, because on a page it is an image, which
knows nothing of the page's colours.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH = 800
COLOURS = 6
"""More parts than these would look alike."""
_MARGIN = 16
_LABELS_WIDTH = 270
_SAID_WIDTH = 150
_BAR_HEIGHT = 18
_LINE = 26
_HEAD = 56
_PANEL_HEIGHT = 110
_PANEL_STEP = 160

# Contrast with the background is at least 4.5 to 1 for text and 3 to 1 for bars and lines, in both.
_STYLE = """\
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328;
  stroke: #ffffff; stroke-width: 3px; paint-order: stroke }
.title { font-size: 15px; font-weight: 600 } .small { font-size: 12px; fill: #57606a } .end { text-anchor: end }
.back { fill: #ffffff } .axis { stroke: #8c959f } .mark { stroke: #57606a; stroke-dasharray: 4 3 }
.c0 { fill: #0a5fb4 } .c1 { fill: #b85c00 } .c2 { fill: #23803f } .c3 { fill: #7d4bb0 } .c4 { fill: #6a737d }
.c5 { fill: #a83254 }
.line { fill: none; stroke-width: 2 } .s0 { stroke: #0a5fb4 } .s1 { stroke: #b85c00 } .s2 { stroke: #23803f }
.s3 { stroke: #7d4bb0 } .s4 { stroke: #6a737d } .s5 { stroke: #a83254 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; stroke: #0d1117 } .small { fill: #9ea7b3 }
.back { fill: #0d1117 } .axis { stroke: #6e7681 } .mark { stroke: #9ea7b3 }
.c0 { fill: #5aa9f5 } .c1 { fill: #ef9a4d } .c2 { fill: #56c271 } .c3 { fill: #bd94ea } .c4 { fill: #98a2ad }
.c5 { fill: #f07ba0 }
.s0 { stroke: #5aa9f5 } .s1 { stroke: #ef9a4d } .s2 { stroke: #56c271 } .s3 { stroke: #bd94ea } .s4 { stroke: #98a2ad }
.s5 { stroke: #f07ba0 }
}"""


class Bar(NamedTuple):
    """One line of a bar chart; several parts stand one after the other."""

    label: str
    parts: Sequence[tuple[str, float]]
    said: str

    @property
    def value(self) -> float:
        return sum(value for _, value in self.parts)


class Series(NamedTuple):
    """One line of a panel: its name, and pairs of x and y in the order of x."""

    name: str
    points: Sequence[tuple[float, float]]


class Panel(NamedTuple):
    """Lines over the same x that share an axis of their own, from 0."""

    title: str
    series: Sequence[Series]


def draw_bars(title: str, bars: Sequence[Bar], mark: tuple[str, float] | None = None) -> str:
    """Bars from 0, one below the other; ``mark`` is a value to compare with, drawn as a line through all."""
    names = list(dict.fromkeys(name for bar in bars for name, _ in bar.parts if name))
    top = _HEAD + (_LINE if names or mark else 0)
    room = WIDTH - 2 * _MARGIN - _LABELS_WIDTH - _SAID_WIDTH
    scale = room / (max([*(bar.value for bar in bars), mark[1] if mark else 0.0]) or 1)
    left = _MARGIN + _LABELS_WIDTH
    drawn = list(_legend(names, mark[0] if mark else None))
    said: list[str] = []
    for number, bar in enumerate(bars):
        y = top + number * _LINE
        drawn.append(_text(left - 8, y + 13, bar.label, "end"))
        x = float(left)
        for name, value in bar.parts:
            width = value * scale
            colour = names.index(name) if name else 0
            drawn.append(f'<rect class="c{colour}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR_HEIGHT}"/>')
            x += width
        said.append(_text(x + 6, y + 13, bar.said))
    bottom = top + len(bars) * _LINE
    if mark:
        x = left + mark[1] * scale
        drawn.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 4}" y2="{bottom}"/>')
    drawn += said
    description = "; ".join(f"{bar.label}: {bar.said}{_parts_said(bar)}" for bar in bars)
    return _svg(title, description, bottom + _MARGIN, drawn)


def draw_lines(title: str, x_said: str, panels: Sequence[Panel]) -> str:
    """Panels one below the other, over the same x; each says where it begins, ends and is highest."""
    drawn: list[str] = []
    descriptions: list[str] = []
    left, right = _MARGIN + 70, WIDTH - _MARGIN - _SAID_WIDTH
    x_max = max(x for panel in panels for series in panel.series for x, _ in series.points) or 1
    for number, panel in enumerate(panels):
        bottom = _HEAD + 30 + number * _PANEL_STEP + _PANEL_HEIGHT
        y_max = max(y for series in panel.series for _, y in series.points) or 1
        drawn += [
            _text(_MARGIN, bottom - _PANEL_HEIGHT - 12, panel.title),
            _text(left - 6, bottom - _PANEL_HEIGHT + 10, short(y_max), "small end"),
            _text(left - 6, bottom, "0", "small end"),
            f'<path class="axis line" style="stroke-width: 1" d="M{left} {bottom - _PANEL_HEIGHT}V{bottom}H{right}"/>',
        ]
        ends: list[float] = []
        for place, series in enumerate(panel.series):
            at = [(left + (right - left) * x / x_max, bottom - _PANEL_HEIGHT * y / y_max) for x, y in series.points]
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in at)
            drawn.append(f'<path class="line s{place % COLOURS}" d="M{path}"/>')
            ends.append(at[-1][1])
        for place, y in _apart(ends):
            series = panel.series[place]
            drawn.append(f'<rect class="c{place % COLOURS}" x="{right + 6}" y="{y - 4:.1f}" width="8" height="8"/>')
            drawn.append(_text(right + 18, y + 4, f"{series.name} {short(series.points[-1][1])}".strip(), "small"))
        descriptions.append(f"{panel.title}: {'; '.join(map(_series_said, panel.series))}")
    height = _HEAD + len(panels) * _PANEL_STEP
    drawn.append(_text(right, height - 6, f"{x_said}, to {short(x_max)}", "small end"))
    return _svg(title, f"Over {x_said}, to {short(x_max)}. {'. '.join(descriptions)}", height + 8, drawn)


def short(value: float) -> str:
    """A number with as many digits as can be read off a chart."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _series_said(series: Series) -> str:
    values = [y for _, y in series.points]
    said = f"from {short(values[0])} to {short(values[-1])}, at most {short(max(values))}"
    return f"{series.name} {said}".strip()


def _parts_said(bar: Bar) -> str:
    named = [f"{name} {short(value)}" for name, value in bar.parts if name]
    return f" ({', '.join(named)})" if len(named) > 1 else ""


def _apart(ends: Sequence[float]) -> Iterator[tuple[int, float]]:
    """Where the names of lines stand beside their ends, so that none covers another."""
    last = float("-inf")
    for place in sorted(range(len(ends)), key=ends.__getitem__):
        last = max(ends[place], last + 15)
        yield place, last


def _legend(names: Sequence[str], mark: str | None) -> Iterator[str]:
    x = _MARGIN
    for number, name in enumerate(names):
        yield f'<rect class="c{number}" x="{x}" y="{_HEAD - 8}" width="12" height="12"/>'
        yield _text(x + 18, _HEAD + 3, name, "small")
        x += 40 + 7 * len(name)
    if mark:
        yield f'<line class="mark" x1="{x}" x2="{x + 18}" y1="{_HEAD - 2}" y2="{_HEAD - 2}"/>'
        yield _text(x + 24, _HEAD + 3, mark, "small")


def _text(x: float, y: float, text: str, style: str = "") -> str:
    styled = f' class="{style}"' if style else ""
    return f'<text{styled} x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _svg(title: str, description: str, height: float, drawn: Sequence[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title description" '
            f'viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="description">{escape(description)}.</desc>',
            f"<style>\n{_STYLE}\n</style>",
            f'<rect class="back" width="{WIDTH}" height="{height:.0f}" rx="6"/>',
            _text(_MARGIN, 26, title, "title"),
            *drawn,
            "</svg>\n",
        ]
    )
