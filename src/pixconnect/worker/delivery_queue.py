"""Which delivery is tried next: bounded for each endpoint and holder, first attempts before retries, fair between endpoints.

An endpoint that does not answer is given less and less to do at the same time (down to two requests), and more again as it
answers: what hangs holds hardly anything. What an endpoint has beyond what is kept here stays in the database, and is walked
through when there is room again. Nothing here waits or knows of the network.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from datetime import datetime

from msgspec import Struct

from pixconnect.domain.delivery import DueDelivery

_LIMIT_START = 16.0
_LIMIT_MIN = 2.0
_FINISHED_KEPT_S = 30.0
"""For this long a read that began before the record was written may still show a delivery as pending."""


class QueueLimits(Struct, frozen=True, kw_only=True):
    """How much may be under way in one worker.

    Attributes:
        endpoint_max: Requests to one endpoint.
        holder_max: Requests to all endpoints of one holder.
        total_max: Requests in all.
        kept_max: Deliveries of one endpoint that wait in memory.
    """

    endpoint_max: int = 64
    holder_max: int = 128
    total_max: int = 2048
    kept_max: int = 256


class Work(Struct, frozen=True, kw_only=True):
    """A delivery that this worker has read.

    Attributes:
        delivery: Due.
        epoch: Under which its slot was held.
    """

    delivery: DueDelivery
    epoch: int

    @property
    def is_retry(self) -> bool:
        """Whether it has failed before."""
        return self.delivery.attempts_count > 0


class Lane:
    """One endpoint's deliveries.

    Args:
        endpoint_id: Whose...
        holder_id: ...and whose that is.
    """

    __slots__ = (
        "endpoint_id", "fresh", "has_more", "holder_id", "in_flight_count", "limit", "retries", "retries_in_flight_count",
        "walked_to_id",
    )  # fmt: skip

    def __init__(self, endpoint_id: int, holder_id: int) -> None:
        self.endpoint_id = endpoint_id
        self.holder_id = holder_id
        self.fresh: deque[Work] = deque()
        self.retries: deque[Work] = deque()
        self.in_flight_count = 0
        self.retries_in_flight_count = 0
        self.limit = _LIMIT_START
        self.has_more = False
        self.walked_to_id = 0

    @property
    def kept_count(self) -> int:
        """How many wait here."""
        return len(self.fresh) + len(self.retries)

    def waiting(self, *, is_retry: bool) -> deque[Work]:
        """First attempts, or retries."""
        return self.retries if is_retry else self.fresh


class DeliveryQueue:
    """What one worker has read and not finished.

    Args:
        limits: Over all workers.
        may_start: Whether work may be started in a slot under an epoch.
    """

    def __init__(self, limits: QueueLimits, may_start: Callable[[int, int], bool]) -> None:
        self._limits = limits
        self._may_start_in = may_start
        self._lanes: dict[int, Lane] = {}
        self._known: set[int] = set()
        self._finished: deque[tuple[float, tuple[int, int]]] = deque()
        self._finished_attempts: set[tuple[int, int]] = set()
        self._in_flight_by_slot: Counter[int] = Counter()
        self._in_flight_by_holder: Counter[int] = Counter()
        self.in_flight_count = 0
        self.waiting_count = 0
        self.workers_count = 1
        self._turn = 0

    def offer(self, work: Work) -> bool:
        """Take a delivery in, unless it is here already or its endpoint has no room.

        Returns:
            Whether it was taken.
        """
        delivery = work.delivery
        if delivery.id in self._known or (delivery.id, delivery.attempts_count) in self._finished_attempts:
            return False
        lane = self._lanes.get(delivery.endpoint_id)
        if lane is None:
            lane = self._lanes[delivery.endpoint_id] = Lane(delivery.endpoint_id, delivery.holder_id)
        if lane.kept_count >= self._limits.kept_max:
            lane.has_more = True
            return False
        (lane.retries if work.is_retry else lane.fresh).append(work)
        self._known.add(delivery.id)
        self.waiting_count += 1
        return True

    def take(self, count_max: int) -> list[Work]:
        """What may start now: one of each endpoint in turn, first attempts before retries."""
        taken: list[Work] = []
        if self.waiting_count:
            self._turn += 1
            for is_retry in (False, True):
                self._take_in_turn(taken, count_max, is_retry=is_retry)
        return taken

    def start_over(self, work: Work) -> None:
        """Put off what was taken and not tried: it stays pending and will be read again."""
        self._end(work)

    def finish(self, work: Work, now_s: float, *, has_answered: bool, is_lost: bool = False) -> None:
        """Note that an attempt was recorded, or never will be.

        Args:
            work: From ``take``.
            now_s: Monotonic.
            has_answered: Whether the receiver answered in good time.
            is_lost: Its slot went before it was recorded: it is pending still, and is made again by whoever has the slot then.
        """
        lane = self._end(work)
        lane.limit = min(lane.limit + 1, self._limits.endpoint_max) if has_answered else max(lane.limit / 2, _LIMIT_MIN)
        if not is_lost:
            attempt = (work.delivery.id, work.delivery.attempts_count)
            self._finished.append((now_s, attempt))
            self._finished_attempts.add(attempt)
        self.forget_finished(now_s)

    def forget_finished(self, now_s: float) -> None:
        """Forget what was recorded so long ago that no read can be older; called now and then, also when nothing ends."""
        while self._finished and now_s - self._finished[0][0] > _FINISHED_KEPT_S:
            self._finished_attempts.discard(self._finished.popleft()[1])

    def clear(self) -> None:
        """Forget everything that is not under way: the slots are lost."""
        for lane in self._lanes.values():
            lane.fresh.clear()
            lane.retries.clear()
            lane.has_more = False
        self._known.clear()
        self.waiting_count = 0

    def busy_slots(self) -> set[int]:
        """Slots in which something is under way."""
        return set(self._in_flight_by_slot)

    def full_endpoints(self) -> list[int]:
        """Endpoints that have more than is kept here: nothing more of them is read in passing."""
        return [lane.endpoint_id for lane in self._lanes.values() if lane.has_more]

    def lanes_with_more(self) -> Iterator[Lane]:
        """Endpoints that have more in the database and room for it here."""
        return (
            lane for lane in self._lanes.values() if lane.has_more and lane.kept_count <= self._limits.kept_max // 2
        )

    def oldest_startable_at(self) -> datetime | None:
        """Since when the oldest delivery is due that only the worker's own limit holds back; service time."""
        if not self.waiting_count or self.in_flight_count < self._limits.total_max:
            return None
        return min(
            (
                lane.fresh[0].delivery.due_at
                for lane in self._lanes.values()
                if lane.fresh and lane.in_flight_count < lane.limit
            ),
            default=None,
        )

    def forget_idle(self) -> None:
        """Forget endpoints of which there is nothing; called now and then."""
        for lane in list(self._lanes.values()):
            if not lane.kept_count and not lane.in_flight_count and not lane.has_more:
                del self._lanes[lane.endpoint_id]

    def _take_in_turn(self, taken: list[Work], count_max: int, *, is_retry: bool) -> None:
        """Take one of each endpoint, again and again, until none may start another."""
        lanes = deque(lane for lane in self._lanes.values() if lane.waiting(is_retry=is_retry))
        lanes.rotate(-self._turn)
        while lanes and len(taken) < count_max:
            lane = lanes.popleft()
            waiting = lane.waiting(is_retry=is_retry)
            if not waiting or not self._may_start(lane, is_retry=is_retry):
                continue
            work = waiting.popleft()
            self.waiting_count -= 1
            if self._may_start_in(work.delivery.slot, work.epoch):
                self._begin(lane, work)
                taken.append(work)
            else:
                self._known.discard(work.delivery.id)
            lanes.append(lane)

    def _may_start(self, lane: Lane, *, is_retry: bool) -> bool:
        limit = min(lane.limit, self._limits.endpoint_max / self.workers_count)
        if is_retry and lane.retries_in_flight_count >= max(limit / 2, 1):
            return False
        return (
            lane.in_flight_count < max(limit, 1)
            and self._in_flight_by_holder[lane.holder_id] < max(self._limits.holder_max / self.workers_count, 1)
            and self.in_flight_count < (self._limits.total_max / 2 if is_retry else self._limits.total_max)
        )

    def _begin(self, lane: Lane, work: Work) -> None:
        lane.in_flight_count += 1
        lane.retries_in_flight_count += work.is_retry
        self.in_flight_count += 1
        self._in_flight_by_holder[lane.holder_id] += 1
        self._in_flight_by_slot[work.delivery.slot] += 1

    def _end(self, work: Work) -> Lane:
        delivery = work.delivery
        lane = self._lanes[delivery.endpoint_id]
        lane.in_flight_count -= 1
        lane.retries_in_flight_count -= work.is_retry
        self.in_flight_count -= 1
        _decrement(self._in_flight_by_holder, lane.holder_id)
        _decrement(self._in_flight_by_slot, delivery.slot)
        self._known.discard(delivery.id)
        return lane


def _decrement(counter: Counter[int], key: int) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
