"""Outside texts on their way out: one function for each target, so that none of them can act there.

A payer's name, a tenant's external id or a receiver's answer may contain anything. We remove or rewrite only the characters
that the target would obey; stored texts stay unchanged. XML has its own rules in ``features/statements/files.py``,
and templates also escape text within HTML.

Long ones are cut, and pasted ones trimmed, here too.

Exceptions go to the log without the rows and arguments that database errors quote: names, tax ids, keys. Of database errors,
and their causes, only the type, the constraint and the SQLSTATE are written.
"""

import csv
import io
import re
import sys
import threading
import traceback
import unicodedata
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Final, cast

_REPLACED: Final = "?"
_OBEYED_BY_TERMINALS: Final = re.compile(r"[^\n\t\x20-\x7e]")
_OUR_COLOURS: Final = re.compile(r"\x1b\[(?:0|1|2|31|32|33)m")
# A spreadsheet would part cells at these; which one it parts by is its language's to say.
_PARTS_CELLS: Final = re.compile(r"[;\t\r\n]")
_FORMULA_BEGINS: Final = tuple("=+-@|%\uff1d\uff0b\uff0d\uff20")  # some languages read the wide ones as the narrow ones
# A program that parts by commas begins a cell at each, also within quotes that it does not see; those of amounts stay.
_COMMA_BEFORE_FORMULA: Final = re.compile(rf',(?=[\s",]*[{re.escape("".join(_FORMULA_BEGINS))}])')
_NUMBER: Final = re.compile(r"-?[0-9]+([.,][0-9]+)?")
_NOT_IN_FILE_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]")
_LINE_ENDS: Final = re.compile(rb"\r\n|\r|\n")
PDF_ENCODING: Final = "cp1252"  # what a PDF's own fonts have letters for (WinAnsiEncoding)


def on_terminal(text: str) -> str:
    """One line, in which nothing moves the cursor, changes colours or the order of reading, or looks like another line."""
    return text if text.isprintable() else "".join(map(_show, text))


def on_terminal_lines(text: str) -> str:
    """Our own coloured lines, which may contain outside text."""
    if text.isascii() and not _OBEYED_BY_TERMINALS.search(text):
        return text
    colours = [*_OUR_COLOURS.findall(text), ""]
    parts = ("".join(each if each in "\n\t" else _show(each) for each in part) for part in _OUR_COLOURS.split(text))
    return "".join(part + colour for part, colour in zip(parts, colours, strict=True))


def _show(character: str) -> str:
    if character.isprintable():
        return character
    # Spaces of other widths are no tricks.
    return " " if unicodedata.category(character) == "Zs" else _REPLACED


def in_json_line(encoded: str) -> str:
    """JSON for a log or a terminal: the same value, with escapes for all that either would obey."""
    return encoded if encoded.isascii() and "\x7f" not in encoded else "".join(map(_escape, encoded))


def _escape(character: str) -> str:
    # Between values of JSON there are only spaces and the ends of lines, so that this is within a text.
    if character.isprintable() or character == "\n":
        return character
    octets = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{octets[at : at + 2].hex()}" for at in range(0, len(octets), 2))


def in_spreadsheet(rows: Sequence[Sequence[str]], separator: str) -> bytes:
    """Rows of a file that people open in a spreadsheet: each cell stays one cell, and none is a formula."""
    text = io.StringIO(newline="")
    cells = ([_guard(cell, separator) for cell in row] for row in rows)
    csv.writer(text, delimiter=separator, quoting=csv.QUOTE_ALL).writerows(cells)
    return text.getvalue().encode(errors="replace")


def _guard(text: str, separator: str) -> str:
    cell = on_terminal(_PARTS_CELLS.sub(" ", text))
    if separator != ",":
        cell = _COMMA_BEFORE_FORMULA.sub(" ", cell)
    is_formula = cell.lstrip().startswith(_FORMULA_BEGINS) and not _NUMBER.fullmatch(cell)
    return f"'{cell}" if is_formula else cell


def in_event_stream(name: str, content: bytes) -> bytes:
    """One event: each line of its content is a separate field, with any of the three line endings."""
    lines = b"".join(b"data: " + line + b"\n" for line in _LINE_ENDS.split(content))
    return b"event: " + name.encode() + b"\n" + lines + b"\n"


def in_attachment(name: str) -> str:
    """The value of ``Content-Disposition`` for a file of this name."""
    return f'attachment; filename="{_NOT_IN_FILE_NAMES.sub("_", name)}"'


def on_page(text: str) -> str:
    """What a page shows, before it is escaped: nothing unseen that changes the order of reading."""
    if text.isprintable():
        return text
    return "".join(each if each == "\n" or each.isprintable() else _show(each) for each in text)


def in_pdf(text: str) -> str:
    """One line for a page that is printed: a letter that its font lacks is shown without its marks, or as a question mark."""
    return "".join(map(_find_letter, on_terminal(unicodedata.normalize("NFC", text))))


def _find_letter(character: str) -> str:
    # Its marks follow it where it is taken apart.
    for found in (character, unicodedata.normalize("NFKD", character)[:1]):
        if found.isprintable() and found.encode(PDF_ENCODING, "ignore"):
            return found
    return _REPLACED


LENGTH_MAX: Final = 200


_PASTED: Final = " \t\n\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\xad\u1680\u202f\u3000\ufeff" + "".join(
    map(chr, (*range(0x2000, 0x2010), *range(0x2028, 0x202D), *range(0x205F, 0x2070)))
)
"""Blanks, and invisible marks of direction, which phones put around a number copied from contacts."""


def trim_pasted(text: str) -> str:
    """Trim blanks and line ends that people copy with a text."""
    return text.strip(_PASTED)


def cut_text(text: str, length_max: int = LENGTH_MAX) -> str:
    """Cut a long text and append its length."""
    return text if len(text) <= length_max else f"{text[:length_max]}... (cut, of {len(text)} characters)"


_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"


def write_exception(error: BaseException) -> str:
    """Write the whole traceback, with causes and groups, without the values of a row."""
    return "".join(_write(error, set(), is_of_database=False)).rstrip("\n")


def name_database_error(error: BaseException) -> str:
    """Return the type of a database error, with any constraint and SQLSTATE."""
    found = {name: getattr(error, name, None) for name in ("sqlstate", "constraint_name")}
    known = ", ".join(f"{name.removesuffix('_name')} {value}" for name, value in found.items() if value)
    kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    return f"{kind}: {known}" if known else kind


def hide_rows_in_tracebacks() -> None:
    """Write uncaught exceptions to standard error in the same way."""

    def write(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        sys.stderr.write(f"{write_exception(error or kind())}\n")

    sys.excepthook = write
    threading.excepthook = lambda ended: write(ended.exc_type, ended.exc_value, ended.exc_traceback)


def _write(error: BaseException, written: set[int], *, is_of_database: bool) -> Iterator[str]:
    # Causes may be cyclic; each exception is written once.
    written.add(id(error))
    # Recognised by its form, so that this file imports no driver: its text may quote a row or an argument.
    is_of_driver = hasattr(error, "sqlstate") or type(error).__module__.partition(".")[0] == "asyncpg"
    is_of_database = is_of_database or is_of_driver
    cause, context = error.__cause__, None if error.__suppress_context__ else error.__context__
    if cause is not None and id(cause) not in written:
        yield from _write(cause, written, is_of_database=is_of_database)
        yield _CAUSE
    elif context is not None and id(context) not in written:
        yield from _write(context, written, is_of_database=False)
        yield _CONTEXT
    if error.__traceback__ is not None:
        yield "Traceback (most recent call last):\n"
        yield from traceback.format_tb(error.__traceback__)
    if is_of_database:
        yield f"{name_database_error(error)}\n"
    else:
        yield from traceback.format_exception_only(error)
    is_group = isinstance(error, BaseExceptionGroup)
    parts = cast("BaseExceptionGroup[BaseException]", error).exceptions if is_group else ()
    for number, part in enumerate(parts, start=1):
        yield f"  {number} of {len(parts)} in the group:\n"
        for text in _write(part, written, is_of_database=is_of_database):
            yield from (f"  {line}\n" for line in text.splitlines())
