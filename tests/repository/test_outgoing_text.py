"""Foreign texts have no effect: each place where text leaves gets the same hostile characters, and no place is missing."""

import csv
import io
import json
import logging
import re
import unicodedata
from pathlib import Path

import msgspec
import pytest

from pixconnect.doors.cli import output, terminal
from pixconnect.doors.console.visit import _templates as templates  # pyright: ignore[reportPrivateUsage]
from pixconnect.features.statements import files
from pixconnect.platform import outgoing_text
from pixconnect.platform.logging import LinesOnTerminal, set_up_logging

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "pixconnect"

HOSTILE = {
    "colours": "\x1b[31mred",
    "clears the screen": "\x1b[2J\x1b[H",
    "sets the clipboard": "\x1b]52;c;cm0gLXJm\x07",
    "C1 control sequence": "\x9b2J\x9d52;c;eA==\x9c",
    "bell, NUL, DEL": "\x07\x00\x7f\x08",
    "another line": "x\r\nevent: gone\rdata: y\nid: 1",
    "tab": "a\tb",
    "lines of Unicode": "a\u2028b\u2029c\x85d",
    "order of reading": "\u202egnp.exe\u202c\u2066x\u2069\u200f",
    "nothing seen": "a\u200bb\u200d\ufeff\u00ad",
    "half a character": "a\ud800b",
    "formula": "=cmd|'/C calc'!A0",
    "formula in another cell": "x;=cmd|'/C calc'!A0;",
    "formula in a third": "x\t@SUM(1)\r+1\n-1;%1;|1",
    "formula behind a comma": "x,=cmd|'/C calc'!A0,@SUM(1), \u00a0+1,\"=1,,|1,%2",
    "formula behind spaces": "  \u00a0=1+1",
    "wide formula": "\uff1d1+1",
    "quotes": '"\';,""',
    "markup": "</script><script>alert(1)</script>&amp;<!--",
    "path": '../../etc/passwd"; filename=x',
    "long": "\x1b[31m" * 10_000,
}
PLAIN = "João & Zoë d'Água, Ltda. (50%) 日本 🙂"


def obeyed(text: str) -> list[str]:
    """Characters that act in a terminal or mislead a reader."""
    return sorted({each for each in text if each != " " and unicodedata.category(each)[0] in "CZ"})


def on_one_line(text: str, capsys: pytest.CaptureFixture[str]) -> str:
    output.show({"name": text, "inside": {"names": [text, text]}}, as_json=False)
    output.show_list("found", [{"name": text}] * 2, as_json=False, columns=("name",))
    terminal.complain(f"refused: {text}")
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 5, said.out[:200]
    assert len(said.err.splitlines()) == 1, said.err[:200]
    return said.out + said.err


def test_a_value_is_one_line_on_a_terminal_and_moves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for text in [*HOSTILE.values(), PLAIN]:
        shown = on_one_line(text, capsys)
        assert obeyed(shown.replace("\n", "")) == []
        if text == PLAIN:
            assert PLAIN in shown
        terminal.print_line(f"ours: {terminal.paint('x', 'red')} {text}")
        said = re.sub(r"\x1b\[\d+m", "", capsys.readouterr().out)
        assert obeyed(said.replace("\n", "").replace("\t", "")) == []


def test_json_has_the_very_value_and_nothing_that_acts(capsys: pytest.CaptureFixture[str]) -> None:
    for text in [*HOSTILE.values(), PLAIN]:
        if "\ud800" in text:
            with pytest.raises(UnicodeEncodeError):
                msgspec.json.encode(text)  # so none is ever written
            continue
        output.show_json({"name": text})
        said = capsys.readouterr().out
        assert json.loads(said) == {"name": text}
        assert obeyed(said.rstrip("\n")) == []


def test_a_line_of_the_log_is_one_line() -> None:
    for text in [*HOSTILE.values(), PLAIN]:
        for form in ["json", "console"]:
            stream = io.StringIO()
            root = logging.getLogger()
            handlers, level = root.handlers, root.level
            try:
                set_up_logging(form, "info", stream)  # pyright: ignore[reportArgumentType]
                logging.getLogger("test").info("%s", text.replace("\ud800", ""))
            finally:
                root.handlers, root.level = handlers, level
            said = stream.getvalue()
            assert said.count("\n") == 1
            assert obeyed(said.rstrip("\n")) == []
            shown = io.StringIO()
            LinesOnTerminal(shown, has_colors=False).emit(logging.makeLogRecord(dict(msg=text, levelno=20, created=0.0)))
            assert obeyed(shown.getvalue().rstrip("\n")) == []


def test_a_cell_stays_one_cell_and_is_no_formula_however_the_file_is_opened() -> None:
    for separator in [",", ";", "\t"]:
        for text in [*HOSTILE.values(), PLAIN]:
            for written in (",", ";"):
                content = outgoing_text.in_spreadsheet([("1", text, "-12,50"), ("2", text, "3.00")], written).decode()
                assert content.count("\r\n") == 2
                for row in csv.reader(io.StringIO(content, newline=""), delimiter=separator):
                    if separator == written:
                        assert len(row) == 3
                        assert row[2] in {"-12,50", "3.00"}
                    for cell in row:
                        bare = cell.strip(' "')
                        assert not bare.startswith(("=", "+", "@", "|", "%", "\uff1d")), cell[:80]
                        assert obeyed(cell) == []


def test_an_event_of_a_stream_has_one_name_and_the_lines_of_its_content() -> None:
    for text in [*HOSTILE.values(), PLAIN]:
        content = text.encode(errors="replace")
        written = outgoing_text.in_event_stream("part", content)
        # As browsers read it: a line ends with CRLF, CR or LF.
        fields = [line.partition(b": ")[::2] for line in re.split(rb"\r\n|\r|\n", written) if line]
        assert [value for name, value in fields if name != b"data"] == [b"part"]
        assert b"\n".join(value for name, value in fields if name == b"data") == re.sub(rb"\r\n|\r", b"\n", content)


def test_a_page_shows_it_as_text_in_the_order_in_which_it_stands() -> None:
    for text in [*HOSTILE.values(), PLAIN]:
        made = templates.from_string('<p title="{{ text }}">{{ text }}</p>').render(text=text)
        assert made.count("<") == made.count(">") == 2
        assert made.count('"') == 2
        assert obeyed(made.replace("\n", "")) == []


def test_a_printed_page_has_a_letter_for_each_of_it() -> None:
    for text in [*HOSTILE.values(), PLAIN]:
        shown = outgoing_text.in_pdf(text)
        assert shown.isprintable()
        assert len(shown.encode(outgoing_text.PDF_ENCODING)) == len(shown)


def test_a_header_and_an_xml_document_hold_only_what_they_may() -> None:
    for text in [*HOSTILE.values(), PLAIN]:
        assert re.fullmatch(r'attachment; filename="[A-Za-z0-9._-]*"', outgoing_text.in_attachment(text))
        (element,) = files.make({"NAME": files.clean(text, 140)})
        assert len(element.text or "") <= 140


def writes(pattern: str) -> set[str]:
    found = re.compile(pattern)
    return {
        str(path.relative_to(source))
        for source in (SOURCE, ROOT / "faces" / "src")
        for path in [*source.rglob("*.py"), *source.rglob("*.html")]
        if any(found.search(line) for line in path.read_text().splitlines() if not line.lstrip().startswith("#"))
    }


@pytest.mark.parametrize(
    ("pattern", "places"),
    [
        # A file that a program asked for, and how much of it has come; a defect before logs are set up.
        (r"sys\.(stdout|stderr)\.(buffer|write)", {"features/statements/cli.py", "platform/outgoing_text.py"}),
        (r"csv\.writer", {"platform/outgoing_text.py", "features/statements/api.py"}),
        (r"event-stream|b\"data: \"", {"platform/outgoing_text.py", "doors/console/application.py"}),
        (r"filename=\\?\"\{", {"platform/outgoing_text.py"}),
        # Our own markup with escaped placeholders.
        (r"Markup\(", {"doors/console/filters.py"}),
        (r"\|\s*safe\b|autoescape false", set()),
        (r"jinja2 import|Environment\(", {"doors/console/visit.py"}),
    ],
)
def test_no_other_place_writes_text_past_these(pattern: str, places: set[str]) -> None:
    assert writes(pattern) == places
