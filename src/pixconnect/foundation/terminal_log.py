"""One readable line for each request, event and webhook, for whoever tries the sandbox out on a terminal.

Nothing is written unless ``show`` was called: what would make a line asks ``is_shown`` first, which costs a look into a cache.
Lines are shown as they come, so many a second, and the others are counted.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import IO, Final

from pixconnect.foundation import outgoing_text

_logger = logging.getLogger("pixconnect.shown")
# Off until it is asked for: a logger without a level would take the root's, and write these lines into every log.
_logger.setLevel(logging.CRITICAL)
_logger.propagate = False

_COLORS: Final = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m"}
_PLAIN: Final = "\x1b[0m"


class LinesOnTerminal(logging.Handler):
    SHOWN_MAX = 20
    """Lines a second, and as many again of what went wrong."""

    def __init__(self, stream: IO[str], *, has_colors: bool, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._stream = stream
        self._has_colors = has_colors
        self._monotonic_s = monotonic_s
        self._second = 0.0
        self._shown_count = 0
        self._left_out_count = 0

    def emit(self, record: logging.LogRecord) -> None:
        now = self._monotonic_s()
        if now - self._second >= 1:
            self._begin(now)
        is_bad = record.levelno >= logging.WARNING
        if self._shown_count >= self.SHOWN_MAX * (1 + is_bad):
            self._left_out_count += 1
            return
        self._shown_count += 1
        at = time.strftime("%H:%M:%S", time.localtime(record.created))
        text = outgoing_text.on_terminal(record.getMessage())
        color = _COLORS.get(record.levelno, "") if self._has_colors else ""
        self._write(f"{at}  {color}{text}{_PLAIN if color else ''}")

    def _begin(self, now: float) -> None:
        self._second = now
        self._shown_count = 0
        left_out_count, self._left_out_count = self._left_out_count, 0
        if left_out_count:
            self._write(f"          ... and {left_out_count} more")

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


def show(stream: IO[str]) -> None:
    """Show lines on this stream from now on."""
    # https://no-color.org: set and not empty.
    wants_no_color = bool(os.environ.get("NO_COLOR"))  # noqa: TID251  what a person asks of all programs, and no setting of ours
    _logger.handlers = [LinesOnTerminal(stream, has_colors=stream.isatty() and not wants_no_color)]
    _logger.setLevel(logging.INFO)


def hide() -> None:
    _logger.setLevel(logging.CRITICAL)
    _logger.handlers = []


def is_shown() -> bool:
    return _logger.isEnabledFor(logging.INFO)


def tell(text: str, *, level: int = logging.INFO) -> None:
    _logger.log(level, "%s", text)
