"""Reads due deliveries in the held slots, without scanning finished ones again.

There are three reads, each a page at a time:

- *forward*: from the end of the last one, with a small overlap;
- *late*, once a second: from service time three seconds ago, for late commits;
- *the sweep*, once a minute and for new slots: from the very beginning. Correctness depends on this one alone.

It also reads the followers of finished deliveries, and the backlog of endpoints that exceed memory.
"""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta

from pixconnect.features.webhooks.rules.delivery import BacklogWalk, DueCursor, DueDelivery, DueRead, ResourceAt
from pixconnect.features.webhooks.rules.endpoint import KEY_WEBHOOK_RESOURCE
from pixconnect.features.webhooks.tables import delivery as delivery_store
from pixconnect.features.webhooks.worker.delivery_queue import DeliveryQueue, Work
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.tables.clock import take_reading

_BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
_OVERLAP = timedelta(milliseconds=250)
_LATE_S = 3.0
"""Of real time: a walk of the sandbox's clock may advance service time between the date of a delivery and its commit.

A delivery gets its date once all locks are held. If its commit takes longer than this, the sweep finds it. A larger number
costs reads: while an old transaction keeps dead rows alive, each read scans all those of this time, every second.
"""
_LATE_EVERY_S = 1.0
_SWEEP_EVERY_S = 60.0
_PAGE = 1024
_BACKLOG_PAGE = 512
_HELD_BACK_MAX = 4096
_BACKLOGS_MAX = 4  # maximum of endpoints' backlogs per pass


class HeldBack:
    """Endpoints and resources for which a read has found deliveries that wait for earlier ones.

    After a delivery its follower is queried only if one may wait. Until a sweep has read everything pending, or if there were
    too many to remember, one may wait anywhere.
    """

    def __init__(self) -> None:
        self._at = set[ResourceAt]()
        self._is_complete = False
        self._is_gathering = False  # whether nothing was forgotten since the sweep under way began

    def may_wait_for(self, done: DueDelivery) -> bool:
        # A body for a key's webhook stands for several deliveries, of several resources.
        return not self._is_complete or done.at in self._at or done.resource == KEY_WEBHOOK_RESOURCE

    def add(self, found: Iterable[ResourceAt]) -> None:
        self._at.update(found)
        if len(self._at) > _HELD_BACK_MAX:
            self._at.clear()
            self._is_complete = self._is_gathering = False

    def forget(self, done: Collection[ResourceAt]) -> None:
        self._at.difference_update(done)

    def begin_sweep(self, *, has_changed: bool) -> None:
        """Start gathering; ``has_changed`` discards earlier finds, because the slots or the clock have changed."""
        if has_changed:
            self._at.clear()
            self._is_complete = False
        self._is_gathering = True

    def end_sweep(self) -> None:
        self._is_complete = self._is_gathering


class DeliveryReader:
    def __init__(self, context: Context, queue: DeliveryQueue) -> None:
        self._context = context
        self._queue = queue
        self._held_back = HeldBack()
        self._forward: DueCursor | None = None
        self._sweep: DueCursor | None = None
        self._swept: frozenset[tuple[int, int]] = frozenset()
        self._late_at_s = self._sweep_at_s = float("-inf")
        self._stood = deque[tuple[float, datetime]]()
        """The start of late reads, and service time then; the next read goes back to the first."""
        self._read_until = _BEGINNING

    async def read(self, held: dict[int, int], done: Sequence[DueDelivery]) -> bool:
        """Make one pass, and return whether there is more to read at once.

        ``done`` are the deliveries that were delivered or given up since the last pass.
        """
        if done:
            await self.read_followers(held, done)
        now = self._context.clock.now()
        while (found := await self._read_page(self._begin(held, now), now, held)) is None:
            now = self._context.clock.now()
        self._forward = found.unfinished or DueCursor(due_at=now - _OVERLAP)
        if self._sweep is not None and (swept := await self._read_page(self._sweep, now, held)) is not None:
            self._sweep = swept.unfinished
            if self._sweep is None:
                self._held_back.end_sweep()
        await self._walk_backlogs(held)
        return found.unfinished is not None or self._sweep is not None

    async def read_followers(self, held: dict[int, int], done: Sequence[DueDelivery]) -> None:
        followed = [due for due in done if self._held_back.may_wait_for(due)]
        if not followed:
            return
        followers = await delivery_store.read_followers(self._context.pool, followed, self._context.clock.now())
        self._held_back.forget({due.at for due in followed} - {due.at for due in followers})
        for follower in followers:
            self._offer(follower, held)

    def _begin(self, held: dict[int, int], now: datetime) -> DueCursor:
        """Begin a sweep if it is due, and return where this pass reads forward from."""
        now_s = self._context.clock.monotonic_s()
        # The sandbox clock was moved back: due deliveries may be behind the cursor.
        has_gone_back = now < self._read_until
        has_new_slots = not held.items() <= self._swept
        self._read_until = now
        if has_gone_back or has_new_slots or now_s - self._sweep_at_s >= _SWEEP_EVERY_S:
            self._sweep, self._sweep_at_s, self._swept = DueCursor(due_at=_BEGINNING), now_s, frozenset(held.items())
            self._held_back.begin_sweep(has_changed=has_gone_back or has_new_slots)
            self._queue.forget_idle()
            self._queue.forget_finished(now_s)
        forward = self._forward
        if has_gone_back:
            self._stood.clear()
        elif forward is not None and now_s - self._late_at_s < _LATE_EVERY_S:
            return forward
        self._late_at_s = now_s
        late = DueCursor(due_at=self._go_back(now, now_s))
        if forward is None or has_gone_back:
            return late
        return min(forward, late, key=lambda cursor: (cursor.due_at, cursor.id))

    def _go_back(self, now: datetime, now_s: float) -> datetime:
        self._stood.append((now_s, now))
        while len(self._stood) > 1 and self._stood[1][0] <= now_s - _LATE_S:
            self._stood.popleft()
        return min(self._stood[0][1], now - timedelta(seconds=_LATE_S))

    async def _read_page(self, cursor: DueCursor, until: datetime, held: dict[int, int]) -> DueRead | None:
        """Read a page; return ``None`` if the sandbox has moved the clock, so that other deliveries are due."""
        clock = self._context.clock
        offset, asked_at = clock.offset, clock.real_now()
        read, found = await delivery_store.read_due(
            self._context.pool, cursor, until, list(held), _PAGE, self._queue.full_endpoints(), self._queue.known_lately()
        )
        take_reading(clock, asked_at, read)
        if clock.offset != offset:
            return None
        self._held_back.add(found.held_back)
        for delivery in found.ready:
            self._offer(delivery, held)
        return found

    async def _walk_backlogs(self, held: dict[int, int]) -> None:
        for _, queue in zip(range(_BACKLOGS_MAX), list(self._queue.queues_with_more()), strict=False):
            walk = queue.walk
            found, goes_on = await delivery_store.read_backlog(
                self._context.pool,
                queue.endpoint_id,
                walk,
                list(held),
                self._context.clock.now(),
                # Others may have filled memory since the last read.
                max(1, min(self._queue.room(queue), _BACKLOG_PAGE)),
                self._queue.known_lately(),
            )
            taken_count = sum(self._offer(delivery, held) for delivery in found)
            queue.walk = goes_on or BacklogWalk()
            # The backlog is gone only when a complete walk finds nothing new.
            if walk.is_at_start and goes_on is None and not taken_count:
                queue.has_more = False

    def _offer(self, delivery: DueDelivery, held: dict[int, int]) -> bool:
        epoch = held.get(delivery.slot)
        return epoch is not None and self._queue.offer(Work(delivery=delivery, epoch=epoch))
