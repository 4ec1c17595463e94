"""One log line for each delivery attempt, cheap enough for thousands a second.

A line has ids and the outcome. It has nothing of the URL, the secret, the body or the answer: those who may see them read the
delivery itself. Lines are encoded together, at a few microseconds each; structlog would take sixty. On a terminal only a few
are shown each second, and the others are counted.
"""

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import IO

import structlog
from msgspec import Struct, structs

from pixconnect.domain.clock import Clock, format_instant
from pixconnect.domain.delivery import Conclusion, DeliveryStatus
from pixconnect.foundation.logging import GatheredLog, hide_secrets

_INTERVAL_FOR_PEOPLE_S = 1.0
_GATHERED_FOR_PEOPLE_MAX = 20_000
_OF_EVERY_LINE = frozenset({"timestamp", "level", "event"})
_Noted = tuple[datetime, Conclusion]

_log = structlog.get_logger(__name__)


class AttemptLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    timestamp: str
    level: str
    event: str
    delivery_id: int
    endpoint_id: int
    event_id: int
    holder_id: int
    number: int
    status: DeliveryStatus
    status_code: int | None = None
    duration_ms: float
    """From the look-up of the name to the last byte."""
    error: str | None = None
    """Why it failed, in full; the delivery's owner may be told less."""


class AttemptLog(GatheredLog[_Noted]):
    SHOWN_MAX = 5
    """How many attempts of a second a terminal shows."""

    def __init__(self, clock: Clock, *, is_on: bool, is_for_people: bool = False, stream: IO[str] = sys.stderr) -> None:
        super().__init__(stream)
        self._is_on = is_on
        self._is_for_people = is_for_people
        self._clock = clock
        if is_for_people:
            self.INTERVAL_S = _INTERVAL_FOR_PEOPLE_S
            self.LINES_MAX = _GATHERED_FOR_PEOPLE_MAX

    def append(self, conclusion: Conclusion) -> None:
        if self._is_on:
            self.gather((self._clock.real_now(), conclusion))

    def make_line(self, noted: _Noted) -> AttemptLine:
        at, conclusion = noted
        delivery, attempt = conclusion.delivery, conclusion.attempt
        error = conclusion.detail or attempt.error
        return AttemptLine(
            timestamp=format_instant(at),
            level="info",
            event="attempt",
            delivery_id=delivery.id,
            endpoint_id=delivery.endpoint_id,
            event_id=delivery.event_id,
            holder_id=delivery.holder_id,
            number=attempt.number,
            status=conclusion.status,
            status_code=attempt.status_code,
            duration_ms=attempt.duration_us / 1000,
            error=None if error is None else hide_secrets(error),
        )

    def write(self, gathered: Sequence[_Noted]) -> None:
        if not self._is_for_people:
            super().write(gathered)
            return
        # Failures first: when only a few are shown, these are the ones that people look for.
        by_outcome = sorted(gathered, key=lambda noted: noted[1].status == "delivered")
        for noted in by_outcome[: self.SHOWN_MAX]:
            fields = structs.asdict(self.make_line(noted)).items()
            shown = {name: value for name, value in fields if name not in _OF_EVERY_LINE and value is not None}
            _log.info("attempt", **shown)
        if len(gathered) > self.SHOWN_MAX:
            _log.info("more attempts", attempts_count=len(gathered) - self.SHOWN_MAX)
