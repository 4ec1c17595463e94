"""Drawings of tables as boxes, one for each subject, with lines from columns to the tables that they refer to.

Referenced tables stand to the left. A reference to a table that is not beside its column is written into the row.
"""

from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

from msgspec import Struct

from scripts.pages.catalogue import Table

WIDTH = 1240
_COLUMNS_COUNT = 4
_MARGIN = 16
_GUTTER = 44
_ROW = 17
_HEAD = 26
_TOP = 44
_BOX_WIDTH = (WIDTH - 2 * _MARGIN - (_COLUMNS_COUNT - 1) * _GUTTER) / _COLUMNS_COUNT

_SHORT_TYPES = {"timestamp with time zone": "timestamptz", "ledger_account": "account"}
_NAMED = {"endpoint_id": "webhook_endpoint", "operator_name": "console_operator"}
"""Columns whose names do not follow the table that they refer to."""

# Contrast with both backgrounds is at least 4.5 to 1 for text and 3 to 1 for lines.
_STYLE = """\
text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.title { font-size: 15px; font-weight: 600 } .name { font-weight: 600 } .small { font-size: 11px; fill: #57606a }
.end { text-anchor: end } .back { fill: #ffffff } .box { fill: #f6f8fa; stroke: #8c959f } .bar { fill: #d8e6f7 }
.key { font-weight: 600 } .line { fill: none; stroke: #0a5fb4; stroke-width: 1.5 } .meant { stroke-dasharray: 4 3 }
.dot { fill: #0a5fb4 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .small { fill: #9ea7b3 } .back { fill: #0d1117 } .box { fill: #161b22; stroke: #6e7681 }
.bar { fill: #1f3350 } .line { stroke: #5aa9f5 } .dot { fill: #5aa9f5 }
}"""


class Reference(Struct, frozen=True, kw_only=True):
    column: str
    target: str
    is_key: bool  # whether it is a foreign key; otherwise a trigger or the program enforces it


class _Box(Struct, frozen=True, kw_only=True):
    table: Table
    column: int
    x: float
    y: float

    @property
    def height(self) -> int:
        return _HEAD + _ROW * len(self.table.columns) + 6

    def row_y(self, name: str) -> float:
        place = [column.name for column in self.table.columns].index(name)
        return self.y + _HEAD + _ROW * place + _ROW / 2


def find_references(table: Table, tables: Mapping[str, Table]) -> list[Reference]:
    """The references of its columns: foreign keys, and names after a table."""
    found = {
        name: Reference(column=name, target=target, is_key=True)
        for target, columns in table.references
        for name in columns
        if len(columns) == 1 or name.removesuffix("_id") == target
    }
    for column in table.columns:
        target = _NAMED.get(column.name, column.name.removesuffix("_id"))
        if column.name not in found and column.name.endswith("_id") and target in tables and target != table.name:
            found[column.name] = Reference(column=column.name, target=target, is_key=False)
    return [found[column.name] for column in table.columns if column.name in found]


def draw_tables(title: str, shown: Sequence[Table], tables: Mapping[str, Table]) -> str:
    """One drawing; ``tables`` are all tables that can be referred to."""
    references = {table.name: find_references(table, tables) for table in shown}
    boxes = _place(shown, references)
    height = max(box.y + box.height for box in boxes.values()) + _MARGIN
    drawn = [line for box in boxes.values() for line in _draw_box(box, references[box.table.name])]
    drawn += _draw_lines(boxes, references)
    description = f"Tables: {', '.join(boxes)}. " + "; ".join(
        f"{name} refers to {', '.join(dict.fromkeys(reference.target for reference in found))}"
        for name, found in references.items()
        if found
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title description" '
            f'viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="description">{escape(description)}.</desc>',
            f"<style>\n{_STYLE}\n</style>",
            f'<rect class="back" width="{WIDTH}" height="{height:.0f}" rx="6"/>',
            _text(_MARGIN, 28, title, "title"),
            *drawn,
            "</svg>\n",
        ]
    )


def _place(shown: Sequence[Table], references: Mapping[str, Sequence[Reference]]) -> dict[str, _Box]:
    """Place it right of the tables that it refers to, otherwise where there is room."""
    bottoms = [float(_TOP)] * _COLUMNS_COUNT
    boxes: dict[str, _Box] = {}
    named = {reference.target for found in references.values() for reference in found}
    # Tables without references fill the remaining room.
    for table in sorted(shown, key=lambda table: not references[table.name] and table.name not in named):
        beside = [boxes[reference.target].column for reference in references[table.name] if reference.target in boxes]
        if beside:
            column = min(max(beside) + 1, _COLUMNS_COUNT - 1)
        elif table.name in named:
            column = 0
        else:
            column = bottoms.index(min(bottoms))
        box = _Box(table=table, column=column, x=_MARGIN + column * (_BOX_WIDTH + _GUTTER), y=bottoms[column])
        boxes[table.name] = box
        bottoms[column] += box.height + 18
    return boxes


def _draw_box(box: _Box, references: Sequence[Reference]) -> Iterator[str]:
    targets = {reference.column: reference.target for reference in references}
    yield f'<rect class="box" x="{box.x:.1f}" y="{box.y:.1f}" width="{_BOX_WIDTH:.1f}" height="{box.height}" rx="4"/>'
    inner = f'x="{box.x + 1:.1f}" y="{box.y + 1:.1f}" width="{_BOX_WIDTH - 2:.1f}"'
    yield f'<rect class="bar" {inner} height="{_HEAD - 4}" rx="3"/>'
    yield _text(box.x + 8, box.y + 16, box.table.name, "name")
    for column in box.table.columns:
        y = box.row_y(column.name) + 4
        kind = _SHORT_TYPES.get(column.type, column.type)
        said = f"\u2192 {targets[column.name]}" if column.name in targets else kind
        said += "" if column.is_required or box.table.view else "?"
        yield _text(box.x + 8, y, column.name, "key" if column.name in box.table.key else "")
        yield _text(box.x + _BOX_WIDTH - 8, y, said, "small end")


def _draw_lines(boxes: Mapping[str, _Box], references: Mapping[str, Sequence[Reference]]) -> Iterator[str]:
    """In the gutter between two columns of boxes, so that no line crosses a box."""
    lanes = [0] * _COLUMNS_COUNT
    for name, found in references.items():
        box = boxes[name]
        for reference in found:
            target = boxes.get(reference.target)
            if target is None or target.column != box.column - 1:
                continue
            lane = box.x - 8 - 6 * (lanes[box.column] % 5)
            lanes[box.column] += 1
            y, end = box.row_y(reference.column), target.x + _BOX_WIDTH
            style = "line" if reference.is_key else "line meant"
            yield f'<path class="{style}" d="M{box.x:.1f} {y:.1f}H{lane:.1f}V{target.y + 13:.1f}H{end:.1f}"/>'
            yield f'<circle class="dot" cx="{end:.1f}" cy="{target.y + 13:.1f}" r="3.5"/>'


def _text(x: float, y: float, text: str, style: str = "") -> str:
    styled = f' class="{style}"' if style else ""
    return f'<text{styled} x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
