"""Records attempts: those that end at about the same time go into one transaction.

::

    ended ──► gathered, while much is in progress ──► write queue ──► recorded
                                                          └── failed ──► tried again, in a separate task

An attempt that is recorded at the first try, as nearly all are, waits without a task and without a future.

Each attempt is logged in one line, cheap enough for thousands a second: lines are encoded together, at a few microseconds each
(structlog: sixty). A line has ids and the outcome, but nothing of the URL, the secret, the body or the answer: authorized
people read the delivery itself. A sandbox on a terminal shows more: the event, the receiver's host, and the next attempt.
"""

import asyncio
import logging
import sys
from collections.abc import Callable
from datetime import datetime
from typing import IO
from urllib.parse import urlsplit

import structlog
from msgspec import Struct

from pixconnect.doors.worker.leases import SlotLeases
from pixconnect.features.webhooks.rules import endpoint
from pixconnect.features.webhooks.rules.delivery import Conclusion, DeliveryStatus
from pixconnect.features.webhooks.service import delivery as delivery_usecases
from pixconnect.features.webhooks.service.delivery import Recording
from pixconnect.features.webhooks.worker.delivery_queue import DeliveryQueue, Work
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.event import describe_event
from pixconnect.platform import logging as our_logging
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock, format_instant
from pixconnect.platform.logging import GatheredLog, hide_secrets

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
    duration_ms: float  # from name resolution to the last byte
    error: str | None = None  # why it failed, in full; the delivery's owner may see less


class AttemptLog(GatheredLog[_Noted]):
    def __init__(self, clock: Clock, *, is_on: bool, stream: IO[str] = sys.stderr) -> None:
        super().__init__(stream)
        self._is_on = is_on
        self._clock = clock

    def append(self, conclusion: Conclusion, url: str = "") -> None:
        if our_logging.is_shown():
            _show(conclusion, url)
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


def _show(conclusion: Conclusion, url: str) -> None:
    delivery, attempt = conclusion.delivery, conclusion.attempt
    is_notice = delivery.resource == endpoint.KEY_WEBHOOK_RESOURCE
    subject = f"{1 + len(delivery.covers or ())} Pix of a key" if is_notice else describe_event(delivery.body)
    # Only the host: the rest of an address may be a secret.
    words = [f"webhook {subject}", f"-> {urlsplit(url).netloc}"]
    words.append(str(attempt.status_code or conclusion.detail or attempt.error))
    words.append(f"{attempt.duration_us / 1000:.0f} ms")
    match conclusion.status:
        case "delivered":
            our_logging.print_line("  ".join(words))
            return
        case "pending" if conclusion.due_at is not None:
            wait_s = max(0, round((conclusion.due_at - conclusion.ended_at).total_seconds()))
            words.append(f"attempt {attempt.number}; again in {wait_s} s")
        case _:
            words.append(f"attempt {attempt.number}, the last: given up")
    our_logging.print_line("  ".join(words), level=logging.WARNING)


# While many attempts are in progress, an ended one waits at most this long to be recorded together with others.
GATHER_S = 0.005
GATHER_FROM = 8
RETRY_S = 0.5

_log = structlog.get_logger(__name__)


class EndedAttempt:
    __slots__ = ("_records", "conclusion", "is_over", "url", "work")

    def __init__(self, records: "AttemptRecords", work: Work, conclusion: Conclusion, url: str) -> None:
        self.work = work
        self.conclusion = conclusion
        self.url = url
        self.is_over = False
        self._records = records

    def done(self) -> bool:
        return self.is_over

    def set_result(self, is_recorded: bool, /) -> None:  # noqa: FBT001  as a future has it
        self._records.close(self, self.conclusion if is_recorded else None, is_lost=not is_recorded)

    def set_exception(self, _: errors.PixConnectError, /) -> None:
        self._records.try_again(self)


class AttemptRecords:
    """The attempts that one worker has to record.

    Args:
        report: Receives each attempt, its recorded outcome, and whether its slot went to another worker before; must not raise.
    """

    def __init__(
        self,
        context: Context,
        leases: SlotLeases,
        queue: DeliveryQueue,
        report: Callable[[EndedAttempt, Conclusion | None, bool], None],
    ) -> None:
        self._context = context
        self._leases = leases
        self._queue = queue
        self._report = report
        self._gathered: list[EndedAttempt] = []
        self._timer: asyncio.TimerHandle | None = None
        # All unrecorded attempts, each with the task of its retries.
        self._open: dict[EndedAttempt, asyncio.Task[None] | None] = {}
        self._has_closed = asyncio.Event()

    def add(self, work: Work, conclusion: Conclusion, url: str) -> None:
        """Record an attempt together with others in progress, if these are many."""
        ended = EndedAttempt(self, work, conclusion, url)
        self._open[ended] = None
        self._gathered.append(ended)
        # Deliveries that were taken and not posted yet count as in progress: overlapping waves of attempts are recorded
        # together.
        unanswered_count = self._queue.in_flight_count - len(self._open)
        if unanswered_count == 0 or (self._timer is None and unanswered_count < GATHER_FROM):
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_S, self._flush)

    async def wait_until_empty(self) -> None:
        while self._open:
            self._has_closed.clear()
            await self._has_closed.wait()

    def drop(self) -> None:
        """Record none of the open attempts, because the slots are lost."""
        for ended, task in list(self._open.items()):
            if task is not None:
                task.cancel()
            self.close(ended, None, is_lost=True)

    def close(self, ended: EndedAttempt, recorded: Conclusion | None, *, is_lost: bool) -> None:
        if not ended.is_over:
            ended.is_over = True
            del self._open[ended]
            self._has_closed.set()
            self._report(ended, recorded, is_lost)

    def try_again(self, ended: EndedAttempt) -> None:
        if not ended.is_over:
            self._open[ended] = asyncio.create_task(self._keep_trying(ended))

    async def record(self, conclusion: Conclusion, epoch: int) -> Conclusion | None:
        """Record an attempt, with retries; ``None`` if the slot went to another worker before."""
        is_plain = False
        while True:
            try:
                is_recorded = await delivery_usecases.record(self._context, conclusion, epoch)
            except (errors.ServiceUnavailable, errors.OutcomeUnknown):
                # Retried only while the slot is ours: afterwards another worker makes the attempt.
                if not self._leases.is_held(conclusion.delivery.slot, epoch):
                    return None
                await asyncio.sleep(RETRY_S)
            except errors.PixConnectError:
                # It contains something that cannot be written: its failure can, and the schedule continues from there.
                if is_plain:
                    raise
                conclusion, is_plain = delivery_usecases.conclude_defect(self._context, conclusion.delivery), True
            else:
                return conclusion if is_recorded else None

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        gathered, self._gathered = self._gathered, []
        for ended in gathered:
            if ended.is_over:
                continue
            recording = Recording(conclusion=ended.conclusion, epoch=ended.work.epoch)
            try:
                self._context.writes.put(delivery_usecases.RECORD, recording, ended)
            except errors.ServiceUnavailable as error:
                ended.set_exception(error)

    async def _keep_trying(self, ended: EndedAttempt) -> None:
        recorded, is_lost = None, True
        try:
            recorded = await self.record(ended.conclusion, ended.work.epoch)
            is_lost = recorded is None
        except Exception:  # noqa: BLE001  after any error, the next delivery is another
            is_lost = False  # it is read again by the next sweep, and not at once
            _log.exception("a delivery failed by a defect", delivery_id=ended.work.delivery.id)
        finally:
            self.close(ended, recorded, is_lost=is_lost)
