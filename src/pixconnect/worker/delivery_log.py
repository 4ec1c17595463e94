"""One log line for each attempt, at a cost that may be paid thousands of times a second.

A line names endpoint, event and delivery by their ids, and what came of it. It has nothing of the URL, the secret, the body or
the answer: those who may see them read the delivery itself. Lines are encoded together, a few microseconds each; through
structlog each would cost sixty. For people on a terminal a few are shown each second and the others counted.
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
    """One attempt.

    Attributes:
        timestamp: When it had ended, real time.
        level: Of the line.
        event: What the line is.
        delivery_id: Of what.
        endpoint_id: Who was told.
        event_id: Of what they were told.
        holder_id: Whose they are.
        number: Of the attempt, from 1.
        status: Of the delivery now: ``delivered``, ``pending`` or given up, ``failed``.
        status_code: HTTP's, if there was an answer.
        duration_ms: From looking the name up to the last byte.
        error: Why it failed, in full: the delivery's owner may have been told less.
    """

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
    error: str | None = None


class AttemptLog(GatheredLog[_Noted]):
    """Writes a line for each attempt.

    Args:
        clock: Real time.
        is_on: Whether lines are wanted at all.
        is_for_people: Some of them, for people; otherwise all of them, as JSON.
        stream: Where to, as JSON.
    """

    SHOWN_MAX = 5
    """Attempts of one second that people are shown."""

    def __init__(self, clock: Clock, *, is_on: bool, is_for_people: bool = False, stream: IO[str] = sys.stderr) -> None:
        super().__init__(stream)
        self._is_on = is_on
        self._is_for_people = is_for_people
        self._clock = clock
        if is_for_people:
            self.INTERVAL_S = _INTERVAL_FOR_PEOPLE_S
            self.LINES_MAX = _GATHERED_FOR_PEOPLE_MAX

    def append(self, conclusion: Conclusion) -> None:
        """Take an attempt."""
        if self._is_on:
            self.gather((self._clock.real_now(), conclusion))

    def make_line(self, noted: _Noted) -> AttemptLine:
        """A line of what was noted."""
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
        """Write all of them, or for people some; of these, those that failed come first."""
        if not self._is_for_people:
            super().write(gathered)
            return
        by_outcome = sorted(gathered, key=lambda noted: noted[1].status == "delivered")
        for noted in by_outcome[: self.SHOWN_MAX]:
            fields = structs.asdict(self.make_line(noted)).items()
            shown = {name: value for name, value in fields if name not in _OF_EVERY_LINE and value is not None}
            _log.info("attempt", **shown)
        if len(gathered) > self.SHOWN_MAX:
            _log.info("more attempts", attempts_count=len(gathered) - self.SHOWN_MAX)
