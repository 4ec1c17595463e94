"""A terminal's output: lines on standard output, one-line errors on standard error, and colours for people."""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar
from typing import Final, Literal, TextIO

from pixconnect.platform import outgoing_text
from pixconnect.platform.outgoing_text import cut_text

field: Final = ContextVar[str | None]("field", default=None)
"""The only member of a result that is printed, from ``--field``."""
Colour = Literal["bold", "dim", "green", "yellow", "red"]

_CODES: Final[dict[Colour, int]] = {"bold": 1, "dim": 2, "green": 32, "yellow": 33, "red": 31}
_BAD: Final = frozenset({"ERROR", "CANCELLED", "EXPIRED", "disabled", "failed"})
_COMPLAINT_MAX: Final = 2_000
_UNDER_WAY: Final = frozenset({"PENDING", "PROCESSING", "inactive", "pending"})


class ReaderGone(Exception):  # noqa: N818  named by the event
    """The program that reads standard output has ended."""


def print_line(text: str) -> None:
    """Print one of our lines.

    Pass outside values through ``outgoing_text.on_terminal`` first, or one may look like two lines.
    """
    _write(sys.stdout, text)


def on_one_line(text: str) -> str:
    """Return another system's text for use within one of our lines."""
    return outgoing_text.on_terminal(text)


def complain(text: str) -> None:
    # An error repeats the typed words, which may be a whole file.
    line = cut_text(" ".join(text.split()), _COMPLAINT_MAX)
    _write(sys.stderr, f"pixconnect: {outgoing_text.on_terminal(line)}")


def notice(text: str) -> None:
    """Print a useful remark beside a result."""
    _write(sys.stderr, text)


def stream(text: str) -> None:
    """Print a line of a verb that runs as long as its output has a reader."""
    if not _write(sys.stdout, text):
        raise ReaderGone


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether a person sees the stream, by default standard output."""
    return (stream or sys.stdout).isatty()


def paint(text: str, colour: Colour) -> str:
    """Return the text in a colour, if it goes to a terminal and colours are not disabled."""
    return text if wants_no_style() or not text or not is_terminal() else f"\033[{_CODES[colour]}m{text}\033[0m"


def wants_no_style() -> bool:
    # As in logs: a user's convention for all programs is not our setting.
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"  # noqa: TID251


def paint_state(state: str) -> str:
    return paint(state, "red" if state in _BAD else "yellow" if state in _UNDER_WAY else "green")


def _write(stream: TextIO, text: str) -> bool:
    """Write a line; ``False`` if the reader has gone."""
    try:
        stream.write(f"{outgoing_text.on_terminal_lines(text)}\n")
        stream.flush()
    except BrokenPipeError:
        # A closed pipe, such as `head`'s, is no reason to stop; Python would report it again on exit.
        _silence(stream)
        return False
    except OSError:
        # The caller that catches this reports it; so would Python on exit, about the rest of the stream's buffer.
        _silence(stream)
        raise
    return True


def _silence(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def silence_output() -> None:
    """Detach standard output, whose reader went away: Python would report that on exit."""
    _silence(sys.stdout)
