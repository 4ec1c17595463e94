"""One log line for each delivery attempt, cheap enough for thousands a second.

A line has ids and the outcome. It has nothing of the URL, the secret, the body or the answer: people who may see those
read the delivery itself. Lines are encoded together, at a few microseconds each; structlog would take sixty. A sandbox on
a terminal shows more, in words: the event, the receiver's host, and the time of the next attempt.
"""

import logging
import sys
from datetime import datetime
from typing import IO
from urllib.parse import urlsplit

from msgspec import Struct

from pixconnect.domain.frame.clock import Clock, format_instant
from pixconnect.domain.webhooks import key_webhook
from pixconnect.domain.webhooks.delivery import Conclusion, DeliveryStatus
from pixconnect.foundation import terminal_log
from pixconnect.foundation.logging import GatheredLog, hide_secrets
from pixconnect.writing.event_lines import describe_event

_Noted = tuple[datetime, Conclusion]


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
    """Why it failed, in full; the delivery's owner may see less of it."""


class AttemptLog(GatheredLog[_Noted]):
    def __init__(self, clock: Clock, *, is_on: bool, stream: IO[str] = sys.stderr) -> None:
        super().__init__(stream)
        self._is_on = is_on
        self._clock = clock

    def append(self, conclusion: Conclusion, url: str = "") -> None:
        """Note an attempt; the receiver's address is for terminals alone."""
        if terminal_log.is_shown():
            _tell(conclusion, url)
        elif self._is_on:
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


def _tell(conclusion: Conclusion, url: str) -> None:
    delivery, attempt = conclusion.delivery, conclusion.attempt
    is_notice = delivery.resource == key_webhook.RESOURCE
    told = f"{1 + len(delivery.covers or ())} Pix of a key" if is_notice else describe_event(delivery.body)
    # Only the host: the rest of an address may be a secret between the two.
    words = [f"webhook {told}", f"-> {urlsplit(url).netloc}"]
    words.append(str(attempt.status_code or conclusion.detail or attempt.error))
    words.append(f"{attempt.duration_us / 1000:.0f} ms")
    match conclusion.status:
        case "delivered":
            terminal_log.tell("  ".join(words))
            return
        case "pending" if conclusion.due_at is not None:
            wait_s = max(0, round((conclusion.due_at - conclusion.ended_at).total_seconds()))
            words.append(f"attempt {attempt.number}; again in {wait_s} s")
        case _:
            words.append(f"attempt {attempt.number}, the last: given up")
    terminal_log.tell("  ".join(words), level=logging.WARNING)
