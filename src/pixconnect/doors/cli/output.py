"""Prints a verb's result on standard output, and nothing else.

People at a terminal get tables and colours; a pipe gets plain text, and ``--json`` one object on one line for scripts. Texts
for people have instants in Sao Paulo, JSON in UTC.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import chain, zip_longest
from operator import attrgetter
from typing import Annotated, Any, Final, cast

import msgspec
from cyclopts import Parameter

from pixconnect.doors.cli import terminal
from pixconnect.doors.cli.failures import CommandError
from pixconnect.kernel.rules.money import show_reais
from pixconnect.platform import outgoing_text
from pixconnect.platform.base.clock import format_instant, format_local

Json = Annotated[bool, Parameter(negative=(), show_default=False, help="Print one JSON object.")]
"""``--json``, without a ``--no-json`` beside it."""
Shown = dict[str, Any]
"""A verb's output for one resource: texts, numbers, instants, and objects and lists of them; it omits ``None``."""

_GAP: Final = "  "
_SHOWN_MAX: Final = 20


def pick(record: object, columns: str) -> Shown:
    """Return a record's printed attributes, separated by blanks; ``name=attribute`` prints one under another name.

    Example:
        >>> pick(timedelta(hours=1), "days length_s=seconds")
        {'days': 0, 'length_s': 3600}
    """
    pairs = (column.rpartition("=") for column in columns.split())
    return {name or attribute: attrgetter(attribute)(record) for name, _, attribute in pairs}


def show(shown: Shown, *, as_json: bool, money: Collection[str] = ()) -> None:
    """Print one resource, for people as lines of ``name: value``.

    Args:
        money: Names of amounts beside those in ``_cents``: people are shown both as reais.
    """
    if as_json:
        show_json(_present(shown))
        return
    for name, value in _flatten(shown).items():
        terminal.print_line(f"{terminal.paint(name, 'dim')}: {_paint_state(name, _text(name, value, money))}")


def show_json(shown: object) -> None:
    wanted = terminal.field.get()
    terminal.print_line(to_json(shown) if wanted is None else _read_field(msgspec.to_builtins(shown), wanted))


def _read_field(shown: object, wanted: str) -> str:
    """The member of this name, or of this path, as plain text."""
    found = shown
    for name in wanted.split("."):
        if isinstance(found, list) and name.isdecimal() and int(name) < len(cast("list[object]", found)):
            found = cast("list[object]", found)[int(name)]
        elif isinstance(found, dict) and name in found:
            found = cast("Mapping[str, object]", found)[name]
        else:
            known = f"; it has {', '.join(cast('Mapping[str, object]', found))}" if isinstance(found, dict) else ""
            raise CommandError(f"--field: the result has no {wanted}{known}")
    return outgoing_text.on_terminal(found) if isinstance(found, str) else to_json(found)


def to_json(shown: object) -> str:
    return outgoing_text.in_json_line(msgspec.json.encode(shown).decode())


def show_list(
    name: str,
    items: Sequence[Shown],
    *,
    as_json: bool,
    columns: Sequence[str] = (),
    if_wide: Sequence[str] = (),
    money: Collection[str] = (),
) -> None:
    """Print several resources: in JSON one object with a list under this name.

    Args:
        columns: The fields for people, in this order, one line each even without a terminal; by default all fields.
        if_wide: More of them, as many as a terminal has room for; texts are cut too.
        money: As for ``show``.
    """
    if as_json or not items:
        show_lists({name: items}, as_json=as_json)
        return
    for count in range(len(if_wide), -1, -1):
        if (table := _draw_table(items, (*columns, *if_wide[:count]), money, cuts_texts=bool(if_wide))) is not None:
            for line in table:
                terminal.print_line(line)
            return
    flat = [_flatten(item) for item in items]
    _show_blocks([{name: item[name] for name in columns or item if name in item} for item in flat], money)


def show_lists(lists: Mapping[str, Sequence[Shown]], *, as_json: bool, money: Collection[str] = ()) -> None:
    """Print resources of several kinds: in JSON one object with a list under each name."""
    if as_json:
        show_json({name: [_present(item) for item in items] for name, items in lists.items()})
        return
    if not any(lists.values()):
        terminal.print_line(f"{', '.join(lists)}: none")
    # People do not need the kinds apart: each item names itself.
    _show_blocks([item for items in lists.values() for item in items], money)


def _show_blocks(items: Sequence[Shown], money: Collection[str]) -> None:
    for number, item in enumerate(items):
        if number:
            terminal.print_line("")
        show(item, as_json=False, money=money)


def _draw_table(
    items: Sequence[Shown], columns: Sequence[str], money: Collection[str], *, cuts_texts: bool
) -> list[str] | None:
    """Return the lines of a table; ``None`` if it does not fit, or the output is no terminal."""
    if not columns and not terminal.is_terminal():
        return None
    flat = [_flatten(item) for item in items]
    # A member that none of them has needs no column.
    names = [name for name in columns if any(name in item for item in flat)] or [*dict.fromkeys(chain(*flat))]
    cells = [[_text(name, item.get(name), money) for name in names] for item in flat]
    widths = _measure(names, cells)
    # A pipe has no width.
    room = shutil.get_terminal_size().columns - len(_GAP) * (len(widths) - 1) if terminal.is_terminal() else None
    if room is not None and sum(widths) > room:
        cuts = [cuts_texts and not name.endswith("_timestamp") for name in names]
        cells = [[_cut(cell, cuts_texts=is_cut) for cell, is_cut in zip(row, cuts, strict=True)] for row in cells]
        widths = _measure(names, cells)
        if sum(widths) > room:
            return None
    numeric = [all(isinstance(item.get(name), int | None) for item in flat) for name in names]
    heading = terminal.paint(_join((), names, widths, numeric), "dim")
    return [heading, *(_join(names, row, widths, numeric) for row in cells)]


def _measure(names: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(names, *cells, strict=True)]


def _cut(cell: str, *, cuts_texts: bool) -> str:
    """A long id by its ends, which tell it from others; a text by its beginning."""
    if len(cell) <= _SHOWN_MAX or (" " in cell and not cuts_texts):
        return cell
    tail = 0 if " " in cell else _SHOWN_MAX // 2 - 1
    return f"{cell[: _SHOWN_MAX - 1 - tail]}…{cell[len(cell) - tail :]}"


def _join(names: Sequence[str], row: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded: list[str] = []
    for name, cell, width, is_number in zip_longest(names, row, widths, numeric):
        # Padded first: colours have no width.
        space, painted = " " * (width - len(cell)), _paint_state(name, cell)
        padded.append(space + painted if is_number else painted + space)
    return _GAP.join(padded).rstrip()


def _flatten(shown: Shown) -> dict[str, Any]:
    """Members of objects under names such as ``payer.name``."""
    flat: dict[str, Any] = {}
    for name, value in shown.items():
        if isinstance(value, dict):
            inside = _flatten(cast(Shown, value))
            flat |= {f"{name}.{below}": one for below, one in inside.items()}
        elif value is not None:
            flat[name] = value
    return flat


def _present(shown: Shown) -> dict[str, Any]:
    return {
        name: format_instant(value) if isinstance(value, datetime) else value
        for name, value in shown.items()
        if value is not None
    }


def _text(name: str, value: object, money: Collection[str]) -> str:
    if isinstance(value, str) and name.endswith("_timestamp"):
        # Of an event, whose payload is JSON.
        with suppress(ValueError):
            value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return format_local(value)
    if isinstance(value, int) and (name in money or name.endswith("_cents")):
        return show_reais(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return " ".join(outgoing_text.on_terminal(str(each)) for each in cast(Sequence[object], value))
    return "" if value is None else outgoing_text.on_terminal(str(value))


def _paint_state(name: str | None, text: str) -> str:
    return terminal.paint_state(text) if name == "status" else text
