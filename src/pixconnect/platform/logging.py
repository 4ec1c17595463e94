"""Writes log lines: for people on a terminal, otherwise as JSON lines, and never with a secret.

Everything goes through structlog, including libraries' logs. Lines written while a request is answered carry the request's id
and holder. Lines about requests and webhook attempts are many, so they are gathered and written together.

Secrets are removed where a line is made, and where an exception becomes text (``exception_text.py``). As a safety net, values
are hidden by the names of their fields, and tokens, e-mail addresses and tax ids in any place.

On a terminal there is one readable line for each request, event and webhook. Nothing is written there unless ``show`` was
called: callers check ``is_shown`` first, which costs a cache look-up. Lines are shown as they come, up to a number a second,
and the others are counted.
"""

import asyncio
import logging
import os
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, MutableMapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import IO, Any, Final, Generic, Literal, TypeVar, cast

import msgspec
import structlog

from pixconnect.platform import outgoing_text
from pixconnect.platform.base.clock import Clock, format_instant
from pixconnect.platform.outgoing_text import write_exception

current_request: Final[ContextVar[tuple[str, int | None] | None]] = ContextVar("current_request", default=None)
"""The request's id and holder."""

current_trace: Final[ContextVar[str | None]] = ContextVar("current_trace", default=None)
"""The ``traceparent`` for calls to other systems; ``None`` if traces are not exported."""

has_written: Final[ContextVar[bool]] = ContextVar("has_written", default=False)
"""Whether a batch with a part of it was committed: from then on no failure means that nothing was done."""


_logger = logging.getLogger("pixconnect.shown")
# Off by default: a logger without a level would take the root's, and write these lines into every log.
_logger.setLevel(logging.CRITICAL)
_logger.propagate = False

_COLORS: Final = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m"}
_PLAIN: Final = "\x1b[0m"


class LinesOnTerminal(logging.Handler):
    SHOWN_MAX = 20  # lines a second, and as many again for failures

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
    _logger.handlers = [LinesOnTerminal(stream, has_colors=stream.isatty() and not _wants_no_color())]
    _logger.setLevel(logging.INFO)


def hide() -> None:
    _logger.setLevel(logging.CRITICAL)
    _logger.handlers = []


def is_shown() -> bool:
    return _logger.isEnabledFor(logging.INFO)


def print_line(text: str, *, level: int = logging.INFO) -> None:
    _logger.log(level, "%s", text)


LogFormat = Literal["auto", "console", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
AccessLogWanted = Literal["all", "refused", "off"]

_SECRET_FIELDS: Final = re.compile(
    r"(?:^|_)(?:token|secret|password|authorization|key|tax_id|name|email|phone|pix_key)$|_sealed$|_hash$"
)
_SHOWN_FIELDS: Final = frozenset({"logger", "request_id", "setting_name", "timestamp"})
_SECRETS: Final = re.compile(
    r"eyJ[\w-]+\.[\w-]*\.[\w-]*"  # a JWS
    r"|[\w.+-]+@[\w-]+\.[\w.-]+"  # an e-mail address
    r"|(?<![\w-])\d{11}(?![\w-])|(?<![\w-])[0-9A-Z]{12}\d{2}(?![\w-])"  # a CPF; a CNPJ
    r"|(?<=://)[^/@\s:]+:[^/@\s]+(?=@)"  # a login in an address
)
_HIDDEN: Final = "[hidden]"
_REFUSED: Final = frozenset({401, 403, 429})  # refused because of the sender: unknown, not permitted, or too often

_log = structlog.get_logger(__name__)

EventDict = MutableMapping[str, Any]
Noted = TypeVar("Noted")


def set_up_logging(log_format: LogFormat, level: LogLevel, stream: IO[str] = sys.stderr, *, is_watched: bool = False) -> None:
    """Configure structlog and the standard library's logging for this process.

    Args:
        is_watched: Whether people on a terminal are shown what happens, too. Not in live mode: what callers call their own
            is none of its operators' business.
    """
    is_console = log_format == "console" or (log_format == "auto" and stream.isatty())
    if is_watched and is_console and level in {"debug", "info"}:
        show(stream)
    shared: list[structlog.types.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        _add_time,
        _add_request,
        structlog.processors.ExceptionRenderer(lambda exc_info: write_exception(exc_info[1]) if exc_info[1] else ""),
        _hide_secrets,
    ]
    renderer: structlog.types.Processor = (
        structlog.dev.ConsoleRenderer(colors=stream.isatty() and not _wants_no_color())
        if is_console
        else structlog.processors.JSONRenderer(serializer=_write_json)
    )
    # In place: a logger that has written keeps its first list, and must follow a new configuration.
    steps: list[structlog.types.Processor] = structlog.get_config()["processors"]
    steps[:] = [structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter]
    structlog.configure(processors=steps, logger_factory=structlog.stdlib.LoggerFactory(), cache_logger_on_first_use=True)
    output = logging.StreamHandler(stream)
    output.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *([_make_printable] if is_console else []),
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [output]
    root.setLevel(level.upper())
    # A pool without a database logs that each time, with a traceback; we log an absent database ourselves.
    logging.getLogger("asyncpg.pool").setLevel(logging.ERROR)
    # Below a warning asyncio only logs details of the loop itself.
    logging.getLogger("asyncio").setLevel(max(logging.WARNING, root.level))


def _wants_no_color() -> bool:
    # https://no-color.org: set and not empty.
    return bool(os.environ.get("NO_COLOR"))  # noqa: TID251  a user's convention for all programs, and not our setting


class GatheredLog(ABC, Generic[Noted]):
    """Gathers frequent lines and writes them together."""

    LINES_MAX = 512
    INTERVAL_S = 0.25

    def __init__(self, stream: IO[str] = sys.stderr) -> None:
        self._stream = stream
        self._encode_lines = msgspec.json.Encoder().encode_lines
        self._waiting: list[Noted] = []
        self._timer: asyncio.TimerHandle | None = None

    def gather(self, noted: Noted) -> None:
        """Add the data of a line; it is written within ``INTERVAL_S``, or after ``LINES_MAX`` of them."""
        waiting = self._waiting
        waiting.append(noted)
        if len(waiting) >= self.LINES_MAX:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.INTERVAL_S, self.flush)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        if waiting:
            self.write(waiting)

    def write(self, gathered: Sequence[Noted]) -> None:
        lines = self._encode_lines([self.make_line(noted) for noted in gathered]).decode()
        self._stream.write(outgoing_text.in_json_line(lines))
        self._stream.flush()

    @abstractmethod
    def make_line(self, noted: Noted) -> msgspec.Struct: ...


class AccessLine(msgspec.Struct, frozen=True):
    timestamp: datetime  # real time
    level: str
    event: str
    operation: str  # its id; empty if the path is unknown
    method: str
    # The operation's path: the caller's may contain a key or a txid.
    path: str
    status: int
    duration_ms: float  # from the request's head to the answer's last octet
    request_id: str
    holder_id: int | None
    client_id: str | None
    peer: str  # the address at the other end, or the one that a trusted proxy names


# Refused requests that are gathered in a second, which is far more than one process answers.
_REFUSED_GATHERED_MAX: Final = 8192


class AccessLog(GatheredLog[AccessLine]):
    """Writes a line for each request, or only for those refused because of their sender."""

    # We write only a few of those a second, with the number of the others, so that guessing does not fill the disk.
    REFUSED_SHOWN_MAX = 4

    def __init__(self, clock: Clock, *, wanted: AccessLogWanted, stream: IO[str] = sys.stderr) -> None:
        super().__init__(stream)
        self._real_now = clock.real_now
        self._shown_max = self.LINES_MAX
        if wanted == "refused":
            self._shown_max, self.INTERVAL_S, self.LINES_MAX = self.REFUSED_SHOWN_MAX, 1.0, _REFUSED_GATHERED_MAX
        self._wanted: AccessLogWanted = wanted

    def wants(self, status: int) -> bool:
        """Whether a request with this answer gets a line."""
        return self._wanted == "all" or (self._wanted == "refused" and status in _REFUSED)

    def append(  # noqa: PLR0913  each is a field of the line
        self,
        *,
        operation: str,
        method: str,
        path: str,
        status: int,
        duration_ms: float,
        request_id: str,
        holder_id: int | None,
        client_id: str | None,
        peer: str,
        target: bytes = b"",
        result: object = None,
    ) -> None:
        """Note a request; only terminals show the full name and the message."""
        level = "warning" if status in _REFUSED else "info"
        line = AccessLine(
            self._real_now(), level, "request", operation, method, path, status, round(duration_ms, 3), request_id,
            holder_id, client_id, peer,
        )  # fmt: skip
        self.gather(line)

    def write(self, gathered: Sequence[AccessLine]) -> None:
        super().write(gathered[: self._shown_max])
        if len(gathered) > self._shown_max:
            _log.warning("more requests refused", requests_count=len(gathered) - self._shown_max)

    def make_line(self, noted: AccessLine) -> AccessLine:
        return noted


def hide_secrets(text: str) -> str:
    """Hide what looks like a token, an e-mail address, a tax id or a login."""
    return _SECRETS.sub(_HIDDEN, text)


def _add_time(logger: object, method: str, event: EventDict) -> EventDict:
    event["timestamp"] = format_instant(datetime.now(UTC))  # noqa: TID251  logs keep the machine's time
    return event


def _add_request(logger: object, method: str, event: EventDict) -> EventDict:
    if (request := current_request.get()) is not None:
        event["request_id"], holder_id = request
        if holder_id is not None:
            event.setdefault("holder_id", holder_id)
    return event


def _hide_secrets(logger: object, method: str, event: EventDict) -> EventDict:
    for field, value in event.items():
        if field in _SHOWN_FIELDS:
            continue
        if _SECRET_FIELDS.search(field):
            event[field] = _HIDDEN
        elif isinstance(value, str):
            event[field] = hide_secrets(value)
    return event


def _make_printable(logger: object, method: str, event: EventDict) -> EventDict:
    for field, value in event.items():
        if isinstance(value, str):
            # A traceback has several lines; any other text with several comes from outside.
            is_ours = field in {"exception", "stack"}
            event[field] = outgoing_text.on_terminal_lines(value) if is_ours else outgoing_text.on_terminal(value)
    return event


def _write_json(event: object, **options: object) -> str:
    encoded = msgspec.json.encode(event, enc_hook=cast(Any, options.get("default", str))).decode()
    return outgoing_text.in_json_line(encoded)
