"""A readable line for each request, on the terminal of a sandbox."""

from __future__ import annotations

import logging
from typing import Final

from pixconnect.api.frame.envelope import Listing
from pixconnect.api.frame.operation import Reply
from pixconnect.domain.frame.clock import Clock
from pixconnect.domain.frame.errors import PixConnectError
from pixconnect.domain.frame.money import format_reais
from pixconnect.foundation import terminal_log
from pixconnect.foundation.logging import AccessLog, AccessLogWanted, LogLevel

# What programs and browsers ask for by themselves, again and again.
_UNTOLD: Final = frozenset({"health_check", "check_liveness", "check_readiness", "get_docs_style", "get_docs_script"})
_WITH_SECRETS: Final = frozenset({"take_callback", "try_callback", "try_callback_by_options"})
"""Their addresses have one, which is for nobody who reads a log."""


class RequestLines:
    """Replaces the access log when the service runs in a terminal."""

    def wants(self, status: int) -> bool:
        return True

    def append(
        self,
        *,
        operation: str,
        method: str,
        path: str,
        target: bytes,
        status: int,
        duration_ms: float,
        request_id: str,
        said: object,
        **others: object,
    ) -> None:
        if operation in _UNTOLD and status < 400:
            return
        shown = path if operation in _WITH_SECRETS else target.decode("latin-1")
        words = [f"{method:6} {shown}", str(status), f"{duration_ms:.0f} ms", *_describe(said)]
        if isinstance(said, PixConnectError):
            words.append(f"(request {request_id})")
        level = logging.ERROR if status >= 500 else logging.WARNING if status >= 400 else logging.INFO
        terminal_log.tell("  ".join(words), level=level)

    def flush(self) -> None:
        """Do nothing: lines are written as they come."""


def choose_access_log(clock: Clock, wanted: AccessLogWanted, level: LogLevel) -> AccessLog | RequestLines:
    """The lines for a terminal, or the access log as the settings say."""
    if terminal_log.is_shown() and wanted != "off":
        return RequestLines()
    return AccessLog(clock, wanted="all" if level == "debug" else "off" if level == "error" else wanted)


def _describe(said: object) -> list[str]:
    match said:
        case PixConnectError(code=code, message=message):
            return [f"{code}: {message}"]
        case Listing(total_count=count):
            return [f"{count} in all"]
        case Reply(record=record):
            return _describe_standard(record)
        case _:
            amount = getattr(said, "amount", None)
            found = [f"R$ {format_reais(amount)}"] if isinstance(amount, int) else []
            named = ("external_id", "status", "code", "reason")
            return found + [str(word) for name in named if (word := getattr(said, name, None))]


def _describe_standard(record: object) -> list[str]:
    """What the standard's door answered: its lists have their counts inside, and amounts are texts."""
    page = getattr(getattr(record, "parametros", None), "paginacao", None)
    if page is not None:
        return [f"{page.quantidade_total_de_itens} in all"]
    value = getattr(record, "valor", None)
    original = getattr(value, "original", value)
    found = [f"R$ {original}"] if isinstance(original, str) else []
    return found + [word for name in ("txid", "status") if isinstance(word := getattr(record, name, None), str)]
