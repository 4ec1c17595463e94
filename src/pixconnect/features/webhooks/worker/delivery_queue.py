"""Decides which delivery is tried next: limits by endpoint and holder, first attempts before retries, endpoints in turn.

An endpoint that does not answer gets fewer and fewer requests at a time, down to two, and more again as it answers. So a
hanging endpoint uses hardly any room. Deliveries beyond ``kept_max`` stay in the database, and are read when there is room
again. Nothing here waits or uses the network.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from datetime import datetime

from msgspec import Struct, field

from pixconnect.features.webhooks.rules.delivery import BacklogWalk, DueDelivery
from pixconnect.features.webhooks.rules.endpoint import NOTICE_PIX_MAX

_LIMIT_START = 16.0
_LIMIT_MIN = 2.0
# For this long, a read that began before a record was written may still show the delivery as pending.
_FINISHED_KEPT_S = 30.0
# Reads skip at least this many of the deliveries taken last: the reads just before found most of those that are due now.
_TAKEN_LATELY_MAX = 2048


class QueueLimits(Struct, frozen=True, kw_only=True):
    # These two count for all workers together; each has its share.
    endpoint_max: int = 64  # more than needed by a receiver that answers in 50 ms at 1,000 events a second
    # Two endpoints at their limit; a new signature waits for at most these (docs/explanations/fairness.md).
    holder_max: int = 128
    total_max: int = 2048
    kept_max: int = 1024  # deliveries of one endpoint in memory; a quarter of it while ``kept_in_all`` wait
    kept_in_all: int = 4096


class Work(Struct, frozen=True, kw_only=True):
    delivery: DueDelivery
    epoch: int
    along: "tuple[Work, ...]" = ()  # other deliveries to the key's webhook that the same body may include

    @property
    def delivery_ids(self) -> tuple[int, ...]:
        """Return its own id first, then those of its body."""
        return self.delivery.id, *(self.delivery.covers or ()), *(other.delivery.id for other in self.along)

    @property
    def is_retry(self) -> bool:
        return self.delivery.attempts_count > 0


class EndpointQueue(Struct, eq=False):
    endpoint_id: int
    holder_id: int
    fresh: deque[Work] = field(default_factory=deque[Work])
    retries: deque[Work] = field(default_factory=deque[Work])
    in_flight_count: int = 0
    retries_in_flight_count: int = 0
    limit: float = _LIMIT_START
    has_more: bool = False
    walk: BacklogWalk = BacklogWalk()

    @property
    def kept_count(self) -> int:
        return len(self.fresh) + len(self.retries)

    def waiting(self, *, is_retry: bool) -> deque[Work]:
        return self.retries if is_retry else self.fresh


class DeliveryQueue:
    """The deliveries that one worker has read and not finished.

    ``may_start`` says whether work may start in a slot under an epoch.
    """

    def __init__(self, limits: QueueLimits, may_start: Callable[[int, int], bool]) -> None:
        self._limits = limits
        self._may_start_in = may_start
        self._queues: dict[int, EndpointQueue] = {}
        self._known: dict[int, int] = {}  # deliveries in memory, each with the epoch under which it was read
        self._taken_lately: deque[int] = deque(maxlen=_TAKEN_LATELY_MAX)
        self._finished: deque[tuple[float, tuple[int, int]]] = deque()
        self._finished_attempts: set[tuple[int, int]] = set()
        self._in_flight_by_slot: Counter[int] = Counter()
        self._in_flight_by_holder: Counter[int] = Counter()
        self.in_flight_count = 0
        self.waiting_count = 0
        self.workers_count = 1
        self._turn = 0

    def offer(self, work: Work) -> bool:
        """Add a delivery, unless it is in memory or its endpoint has no room; return whether it was added."""
        delivery = work.delivery
        # A slow read may show a delivery whose attempt is recorded by now: it must not be made twice.
        if delivery.id in self._known or (delivery.id, delivery.attempts_count) in self._finished_attempts:
            return False
        queue = self._queues.get(delivery.endpoint_id)
        if queue is None:
            queue = self._queues[delivery.endpoint_id] = EndpointQueue(delivery.endpoint_id, delivery.holder_id)
        if self.room(queue) <= 0:
            queue.has_more = True
            return False
        (queue.retries if work.is_retry else queue.fresh).append(work)
        self._known[delivery.id] = work.epoch
        self._taken_lately.append(delivery.id)
        self.waiting_count += 1
        return True

    def room(self, queue: EndpointQueue) -> int:
        return self._kept_max() - queue.kept_count

    def known_lately(self) -> list[int]:
        """Return deliveries in memory that reads would find again."""
        return [delivery_id for delivery_id in self._taken_lately if delivery_id in self._known]

    def take(self, count_max: int) -> list[Work]:
        """Take out deliveries that may start now: one of each endpoint in turn, first attempts before retries."""
        taken: list[Work] = []
        if self.waiting_count:
            self._turn += 1
            for is_retry in (False, True):
                self._take_in_turn(taken, count_max, is_retry=is_retry)
        return taken

    def start_over(self, work: Work) -> None:
        """Drop deliveries that were taken and not tried; they are still pending, and a later read finds them."""
        self._end(work)

    def finish(self, work: Work, now_s: float, *, has_answered: bool, is_lost: bool = False) -> None:
        """Remove a delivery whose attempt was recorded, or is lost with its slot and made again by another worker.

        ``has_answered`` is whether the receiver answered in good time.
        """
        queue = self._end(work)
        # As TCP does: increase slowly, halve on failure.
        queue.limit = min(queue.limit + 1, self._limits.endpoint_max) if has_answered else max(queue.limit / 2, _LIMIT_MIN)
        if not is_lost:
            attempt = (work.delivery.id, work.delivery.attempts_count)
            self._finished.append((now_s, attempt))
            self._finished_attempts.add(attempt)
        self.forget_finished(now_s)

    def forget_finished(self, now_s: float) -> None:
        """Forget attempts that were recorded before any running read began."""
        while self._finished and now_s - self._finished[0][0] > _FINISHED_KEPT_S:
            self._finished_attempts.discard(self._finished.popleft()[1])

    def clear(self) -> None:
        """Drop everything that is not in progress, because the slots are lost."""
        for queue in self._queues.values():
            queue.fresh.clear()
            queue.retries.clear()
            queue.has_more = False
        self._known.clear()
        self.waiting_count = 0

    def busy_slots(self) -> set[int]:
        return set(self._in_flight_by_slot)

    def full_endpoints(self) -> list[int]:
        """Return the endpoints that have more in the database: ordinary reads skip them."""
        return [queue.endpoint_id for queue in self._queues.values() if queue.has_more]

    def queues_with_more(self) -> Iterator[EndpointQueue]:
        """Yield the queues of endpoints that have more in the database, and room for it here."""
        # From half on: one read then brings many deliveries, and not one for each that is finished.
        return (queue for queue in self._queues.values() if queue.has_more and queue.kept_count <= self._kept_max() // 2)

    def oldest_startable_at(self) -> datetime | None:
        """Return when the oldest delivery became due that only the worker's own limit delays; service time."""
        if not self.waiting_count or self.in_flight_count < self._limits.total_max:
            return None
        return min(
            (
                queue.fresh[0].delivery.due_at
                for queue in self._queues.values()
                if queue.fresh and queue.in_flight_count < queue.limit
            ),
            default=None,
        )

    def forget_idle(self) -> None:
        """Drop endpoints without deliveries, and their limits."""
        for queue in list(self._queues.values()):
            if not queue.kept_count and not queue.in_flight_count and not queue.has_more:
                del self._queues[queue.endpoint_id]

    def _kept_max(self) -> int:
        has_much = self.waiting_count >= self._limits.kept_in_all
        return self._limits.kept_max // 4 if has_much else self._limits.kept_max

    def _take_in_turn(self, taken: list[Work], count_max: int, *, is_retry: bool) -> None:
        queues = deque(queue for queue in self._queues.values() if queue.waiting(is_retry=is_retry))
        # Starts with another endpoint each time: otherwise the first ones would use up the limits.
        queues.rotate(-self._turn)
        while queues and len(taken) < count_max:
            queue = queues.popleft()
            waiting = queue.waiting(is_retry=is_retry)
            if not waiting or not self._may_start(queue, is_retry=is_retry):
                continue
            work = waiting.popleft()
            self.waiting_count -= 1
            if self._may_start_in(work.delivery.slot, work.epoch):
                if work.delivery.needs_notice and not is_retry:
                    work = self._gather(waiting, work)
                self._begin(queue, work)
                taken.append(work)
            else:
                self._forget(work)
            queues.append(queue)

    def _gather(self, waiting: deque[Work], work: Work) -> Work:
        # Later deliveries of this queue are due already; they are dropped with it, and stay known until then.
        along: list[Work] = []
        while waiting and len(along) < NOTICE_PIX_MAX - 1:
            if waiting[0].epoch != work.epoch or not waiting[0].delivery.needs_notice:
                break
            along.append(waiting.popleft())
        self.waiting_count -= len(along)
        return Work(delivery=work.delivery, epoch=work.epoch, along=tuple(along))

    def _may_start(self, queue: EndpointQueue, *, is_retry: bool) -> bool:
        # Endpoints and holders are limited over all workers, so each worker has its share; but never less than one request.
        limit = min(queue.limit, self._limits.endpoint_max / self.workers_count)
        # Retries have half of each limit, so that a failing endpoint does not delay its first attempts.
        if is_retry and queue.retries_in_flight_count >= max(limit / 2, 1):
            return False
        return (
            queue.in_flight_count < max(limit, 1)
            and self._in_flight_by_holder[queue.holder_id] < max(self._limits.holder_max / self.workers_count, 1)
            and self.in_flight_count < (self._limits.total_max / 2 if is_retry else self._limits.total_max)
        )

    def _begin(self, queue: EndpointQueue, work: Work) -> None:
        queue.in_flight_count += 1
        queue.retries_in_flight_count += work.is_retry
        self.in_flight_count += 1
        self._in_flight_by_holder[queue.holder_id] += 1
        self._in_flight_by_slot[work.delivery.slot] += 1

    def _end(self, work: Work) -> EndpointQueue:
        delivery = work.delivery
        queue = self._queues[delivery.endpoint_id]
        queue.in_flight_count -= 1
        queue.retries_in_flight_count -= work.is_retry
        self.in_flight_count -= 1
        _decrement(self._in_flight_by_holder, queue.holder_id)
        _decrement(self._in_flight_by_slot, delivery.slot)
        self._forget(work)
        for other in work.along:
            self._forget(other)
        return queue

    def _forget(self, work: Work) -> None:
        # Under another epoch it was read again, after the slots were lost and leased once more: it belongs to that.
        if self._known.get(work.delivery.id) == work.epoch:
            del self._known[work.delivery.id]


def _decrement(counter: Counter[int], key: int) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
