"""Delivers webhooks: reads due ones, posts them, and records the outcomes.

::

    read ──► queue ──► take ──► post (no transaction) ──► record, in groups, fenced ──► what comes next for the same resource
             bounded,           endpoints as they are
             fair               at this moment

A delivery stays in memory until its attempt is recorded; nothing is written to claim it. A worker that dies leaves its
deliveries pending, and the worker that takes over its slots sends them again.

Asymmetric signatures are cached: an event has one holder, so its signed header (``features/webhooks/rules/endpoint.py``) is
the same for every endpoint. Signing is expensive, so a signature is reused while it is young and its key is the current one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from msgspec import Struct, structs

from pixconnect.doors.worker.leases import Member, SlotLeases
from pixconnect.features.identity.rules import Signer
from pixconnect.features.identity.service.keyring import SIGNER
from pixconnect.features.webhooks.rules.delivery import Conclusion, DueDelivery
from pixconnect.features.webhooks.rules.endpoint import jws_header
from pixconnect.features.webhooks.service import delivery as delivery_usecases
from pixconnect.features.webhooks.service.delivery import Recipient, Signatures
from pixconnect.features.webhooks.tables import delivery as delivery_store
from pixconnect.features.webhooks.tables import endpoint as endpoint_store
from pixconnect.features.webhooks.worker.delivery_queue import DeliveryQueue, QueueLimits, Work
from pixconnect.features.webhooks.worker.delivery_reader import DeliveryReader
from pixconnect.features.webhooks.worker.delivery_records import AttemptLog, AttemptRecords, EndedAttempt
from pixconnect.kernel.flows.context import Context
from pixconnect.platform.base import errors
from pixconnect.platform.bounded_cache import BoundedCache
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.metrics import Histogram
from pixconnect.platform.notifier import ONLY_ORDERS
from pixconnect.platform.shared_look import wait_for

USED_FOR_S: Final = 45
"""Receivers are promised a signature that is at most a minute old; the other 15 s are for the exchange itself."""
_KEPT_MAX: Final = 8192


class _Signature(Struct, frozen=True, kw_only=True):
    jws: str
    kid: str
    issued_s: int


class EventSignatures:
    def __init__(self, signer: Signer, kept_max: int = _KEPT_MAX) -> None:
        self._signer = signer
        self._kept = BoundedCache[str, _Signature](kept_max)

    def sign_ahead(self, deliveries: Iterable[DueDelivery], real_now: datetime) -> None:
        """Sign the next ones in a row: that costs a fifth less than signing each before it is sent."""
        for delivery in deliveries:
            try:
                self.sign(delivery, real_now)
            except Exception:  # noqa: BLE001  any error comes again in the attempt, which judges it
                return

    def sign(self, delivery: DueDelivery, real_now: datetime) -> str:
        """Return the detached JWS of a delivery's body; ``ServiceUnavailable`` if there is no key to sign with."""
        now_s, kid, message_id = int(real_now.timestamp()), self._signer.current_kid, delivery.message_id
        kept = self._kept.get(message_id)
        # From 0: after the clock was set back, an old signature would otherwise look young.
        if kept is not None and kept.kid == kid and 0 <= now_s - kept.issued_s <= USED_FOR_S:
            return kept.jws
        header = jws_header(delivery.holder_id, message_id, now_s)
        jws = self._signer.sign_detached(delivery.body.encode(), header)
        self._kept.keep(message_id, _Signature(jws=jws, kid=kid, issued_s=now_s))
        return jws


_READ_EVERY_S = 0.25  # after something was found, without wake-ups
# The health check fails when this worker could not read anything for this long.
_READ_LATE_S = 5.0
_READ_PAUSE_MIN_S = 0.005
_READ_PART_MAX = 0.5  # the largest share of the time for reading, however much there is to do
# Attempts that start together need one read of their endpoints. They are signed one after the other, so this bounds how long a
# signature waits; it is twice the limit of one holder (``QueueLimits.holder_max``).
START_MAX = 256
_RETRY_ENDPOINTS_S = 0.5
# How long an unanswered attempt keeps its part of the endpoint's limit. An endpoint that refuses connections would otherwise be
# called hundreds of times a second, and each attempt recorded by a separate commit, since so few are in progress.
UNANSWERED_REST_S = 0.02
# A slower answer lowers the endpoint's limit as if there were none.
_SLOW_US = 5_000_000
_FIRST_ATTEMPT_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)

_log = structlog.get_logger(__name__)


MakeAttempt = Callable[[Context, DueDelivery, Recipient, Signatures], Awaitable[Conclusion]]


class DeliveryParts(Struct, frozen=True, kw_only=True):
    limits: QueueLimits
    attempt_log: AttemptLog
    attempt: MakeAttempt = delivery_usecases.attempt


class DeliveryFigures:
    def __init__(self) -> None:
        self.attempts = {"delivered": 0, "refused": 0, "broken": 0}
        self.given_up_count = 0
        self.first_attempt_s = Histogram(_FIRST_ATTEMPT_BOUNDS_S)

    def note(self, conclusion: Conclusion) -> None:
        delivery, attempt = conclusion.delivery, conclusion.attempt
        status_code = attempt.status_code
        if conclusion.status == "delivered":
            self.attempts["delivered"] += 1
        else:
            has_refused = status_code is not None and not 200 <= status_code <= 299
            self.attempts["refused" if has_refused else "broken"] += 1
            self.given_up_count += conclusion.status == "failed"
        if delivery.attempts_count == 0:
            # From 0: the sandbox clock may have been moved back meanwhile.
            self.first_attempt_s.observe(max(0.0, (attempt.started_at - delivery.due_at).total_seconds()))


class DeliveryWorker(Member):
    due_if = delivery_store.IS_ANY_DUE

    def __init__(
        self,
        context: Context,
        leases: SlotLeases,
        limits: QueueLimits,
        attempt_log: AttemptLog,
        attempt: MakeAttempt = delivery_usecases.attempt,
    ) -> None:
        self._context = context
        self._attempt = attempt
        self._attempt_log = attempt_log
        self._leases = leases
        self.queue = DeliveryQueue(limits, leases.may_start)
        self._reader = DeliveryReader(context, self.queue)
        self._attempts: set[asyncio.Task[object]] = set()
        self._records = AttemptRecords(context, leases, self.queue, self._recorded)
        self._done: list[DueDelivery] = []
        self._signatures = EventSignatures(context.port(SIGNER))
        self._has_news = asyncio.Event()
        self._is_due_news = False
        self._has_work = asyncio.Event()
        self._stopping = asyncio.Event()
        self._read_at: datetime | None = None
        self.figures = DeliveryFigures()
        leases.add(self)

    async def run(self) -> None:
        """Deliver until ``stop``; then finish attempts in progress."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_reading(), name="read deliveries")
            tasks.create_task(self._keep_starting(), name="start deliveries")
        await self._wait_for_attempts()
        await self._records.wait_until_empty()
        # Unanswered attempts rest after they are recorded.
        await self._wait_for_attempts()
        self._attempt_log.flush()

    async def _wait_for_attempts(self) -> None:
        if self._attempts:
            await asyncio.wait(self._attempts)

    def stop(self) -> None:
        self._stopping.set()
        self._has_news.set()
        self._has_work.set()

    def wake(self, news: str = "") -> None:
        if news != ONLY_ORDERS:
            self._is_due_news = True
            self._has_news.set()

    def looked(self, *, is_due: bool) -> None:
        if not is_due:
            self._read_at = self._context.clock.real_now()
        super().looked(is_due=is_due)

    def busy_slots(self) -> AbstractSet[int]:
        return self.queue.busy_slots()

    def slots_lost(self) -> None:
        """Stop all attempts: they could not be recorded any more."""
        self.queue.clear()
        loop = asyncio.get_running_loop()
        for attempt in self._attempts:
            # In the next turn, when each has begun: one cancelled earlier never runs its `finally`, which removes it from the
            # queue's attempts in progress.
            loop.call_soon(attempt.cancel)
        self._records.drop()

    def oldest_due_at(self) -> datetime | None:
        """Return when the oldest delivery became due that could be sent and is not; real time."""
        now = self._context.clock.real_now()
        if self._read_at is not None and now - self._read_at > timedelta(seconds=_READ_LATE_S):
            return self._read_at
        startable_at = self.queue.oldest_startable_at()
        return None if startable_at is None else startable_at - self._context.clock.offset

    async def _keep_reading(self) -> None:
        clock = self._context.clock
        looked_s = float("-inf")
        while not self._stopping.is_set():
            self._has_news.clear()
            started_s = clock.monotonic_s()
            # After a finished delivery only its followers are new. But time passes too, and there is room for a backlog.
            is_follower_news = not self._is_due_news and not self.queue.full_endpoints()
            if is_follower_news and self._done and started_s - looked_s < _READ_EVERY_S:
                has_more = await self._read(only_followers=True)
            else:
                self._is_due_news, looked_s = False, started_s
                has_more = await self._read()
                self._is_due_news |= has_more
            if self.queue.waiting_count:
                self._has_work.set()
            ended_s = clock.monotonic_s()
            pause_s = max(_READ_PAUSE_MIN_S, (ended_s - started_s) * (1 / _READ_PART_MAX - 1))
            if not has_more:
                # A backlog is read a page at a time, and ordinary reads skip its endpoint.
                has_found = bool(self.queue.waiting_count or self.queue.in_flight_count or self.queue.full_endpoints())
                await self.rest(self._has_news, _READ_EVERY_S, has_found=has_found)
            # The rest of the pause, so that a pause after a longer wait does not wake us separately.
            left_s = ended_s + pause_s - clock.monotonic_s()
            if left_s > 0:
                await asyncio.sleep(left_s)

    async def _read(self, *, only_followers: bool = False) -> bool:
        held = self._leases.held
        done, self._done = self._done, []
        if not held:
            return False
        self.queue.workers_count = self._leases.workers_count
        try:
            if only_followers:
                await self._reader.read_followers(held, done)
                return False
            has_more = await self._reader.read(held, done)
        except DATABASE_FAILED as error:
            _log.warning("cannot read deliveries", error=type(error).__name__)
            self._done += done
            return False
        self._read_at = self._context.clock.real_now()
        return has_more

    async def _keep_starting(self) -> None:
        while not self._stopping.is_set():
            await self._has_work.wait()
            self._has_work.clear()
            while not self._stopping.is_set() and (taken := self.queue.take(START_MAX)):
                await self._start(taken)

    async def _start(self, taken: list[Work]) -> None:
        try:
            endpoint_ids = sorted({work.delivery.endpoint_id for work in taken})
            endpoints = await endpoint_store.find_many(self._context.pool, endpoint_ids)
            # Their endpoint was deleted meanwhile, so there is no receiver.
            orphans = [work for work in taken if work.delivery.endpoint_id not in endpoints]
            if orphan_ids := sorted(delivery_id for work in orphans for delivery_id in work.delivery_ids):
                await delivery_store.give_up_orphans(self._context.pool, orphan_ids, self._context.clock.now())
        except DATABASE_FAILED as error:
            _log.warning("cannot read endpoints", error=type(error).__name__)
            endpoints = {}
            await asyncio.sleep(_RETRY_ENDPOINTS_S)
        recipients = {each.id: Recipient(each) for each in endpoints.values() if each.status == "active"}
        await self._context.port(SIGNER).look_after_rest()
        begun: list[tuple[Work, Recipient]] = []
        for work in taken:
            recipient = recipients.get(work.delivery.endpoint_id)
            # The slots may have been lost while we waited: then another worker sends it.
            if recipient is None or not self._leases.is_held(work.delivery.slot, work.epoch):
                self.queue.start_over(work)
            else:
                begun.append((work, recipient))
        with_body = [work.delivery for work, _ in begun if not work.delivery.needs_notice]
        self._signatures.sign_ahead(with_body, self._context.clock.real_now())
        for work, recipient in begun:
            deliver = self._deliver_notice if work.delivery.needs_notice else self._deliver
            self._begin_task(deliver(work, recipient))

    async def _deliver_notice(self, work: Work, recipient: Recipient) -> None:
        along_ids = [other.delivery.id for other in work.along]
        delivery: DueDelivery | None = None
        try:
            form = errors.require(recipient.format, f"delivery {work.delivery.id} has no body")
            delivery = await form.make_notice(self._context, work.delivery, work.epoch, along_ids)
        except DATABASE_FAILED as error:
            _log.warning("cannot write the body of a delivery", error=type(error).__name__)
        except Exception:  # noqa: BLE001  as for an attempt: it is counted, and the others are tried without it
            _log.exception("the event of a delivery has no body (a defect)", delivery_id=work.delivery.id)
            await self._records.record(delivery_usecases.conclude_defect(self._context, work.delivery), work.epoch)
        finally:
            if delivery is None:
                self.queue.start_over(work)
        if delivery is not None:
            await self._deliver(structs.replace(work, delivery=delivery), recipient)

    async def _deliver(self, work: Work, recipient: Recipient) -> None:
        conclusion, is_lost = None, True
        try:
            conclusion = await self._attempt(self._context, work.delivery, recipient, self._signatures)
        except errors.ServiceUnavailable as error:
            _log.warning("cannot sign deliveries", reason=error.message)
        except Exception:  # noqa: BLE001  after any error, the next delivery is another
            is_lost = False  # it is read again by the next sweep, and not at once
            _log.exception("a delivery failed by a defect", delivery_id=work.delivery.id)
        finally:
            if conclusion is None:
                self._finish(work, has_answered=False, is_lost=is_lost)
            else:
                self._records.add(work, conclusion, recipient.endpoint.url)

    def _recorded(self, ended: EndedAttempt, recorded: Conclusion | None, is_lost: bool) -> None:  # noqa: FBT001  a callback
        work, attempt = ended.work, ended.conclusion.attempt
        if recorded is not None and recorded.status != "pending":
            self._done.append(work.delivery)
            self._has_news.set()
        try:
            # Not before: with any fault of the log, such as a pipe without a reader, the attempt is counted.
            self.figures.note(ended.conclusion)
            self._attempt_log.append(ended.conclusion, ended.url)
        except Exception:  # noqa: BLE001  after any error, the next delivery is another
            _log.exception("an attempt was not logged, by a defect", delivery_id=work.delivery.id)
        if attempt.status_code is not None:
            self._finish(work, has_answered=attempt.duration_us < _SLOW_US, is_lost=is_lost)
        else:
            rest = self._begin_task(wait_for(self._stopping, UNANSWERED_REST_S))
            # As a callback, which is called even if the task is cancelled before it has begun.
            rest.add_done_callback(lambda _: self._finish(work, has_answered=False, is_lost=is_lost))

    def _finish(self, work: Work, *, has_answered: bool, is_lost: bool) -> None:
        self.queue.finish(work, self._context.clock.monotonic_s(), has_answered=has_answered, is_lost=is_lost)
        self._has_work.set()

    def _begin_task(self, coroutine: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
        task = asyncio.create_task(coroutine)
        self._attempts.add(task)
        task.add_done_callback(self._attempts.discard)
        return task
