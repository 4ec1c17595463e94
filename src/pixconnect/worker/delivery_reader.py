"""Finds what is due in the slots that are held, without walking over what was done.

Three reads, each a page at a time:

- *forward*: from where the last one ended, a little overlapping;
- *behind it*, once a second: ten seconds back, for what was committed late;
- *the sweep*, once a minute and for new slots: from the very beginning. Correctness rests on this one alone.

Beside them: what comes after a delivery that is done, and the backlog of endpoints that have more than is kept in memory.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pixconnect.domain.webhook import DueDelivery, DueRead, Place
from pixconnect.usecases import delivery as delivery_usecases
from pixconnect.worker.delivery_queue import DeliveryQueue, Work

if TYPE_CHECKING:
    from pixconnect.usecases.context import Context

_BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
_OVERLAP = timedelta(milliseconds=250)
_LATE = timedelta(seconds=10)
_LATE_EVERY_S = 1.0
_SWEEP_EVERY_S = 60.0
_PER_SLOT_MAX = 32
_BACKLOG_PAGE = 512
_BACKLOGS_MAX = 4
"""Endpoints whose backlog is walked on in one pass."""


class DeliveryReader:
    """Reads for one worker.

    Args:
        context: Of this process.
        queue: Takes what is found.
    """

    def __init__(self, context: "Context", queue: DeliveryQueue) -> None:
        self._context = context
        self._queue = queue
        self._forward: dict[int, Place] = {}
        self._sweep: dict[int, Place] = {}
        self._late_at_s = self._sweep_at_s = 0.0
        self._read_until = _BEGINNING

    async def read(self, held: dict[int, int], done: Sequence[DueDelivery]) -> bool:
        """Make one pass.

        Args:
            held: The slots, each with its epoch.
            done: Deliveries recorded as delivered or given up since the last pass.

        Returns:
            Whether there is more to read at once.
        """
        now = await delivery_usecases.read_now(self._context)
        if done:
            for follower in await delivery_usecases.read_followers(self._context, done):
                self._offer(follower, held)
        self._begin(held, now)
        forward = await self._read_page(list(self._forward.values()), now, held)
        unfinished = {place.slot: place for place in forward.unfinished}
        end = now - _OVERLAP
        self._forward = {slot: unfinished.get(slot) or Place(slot=slot, due_at=end, id=0) for slot in held}
        if self._sweep:
            swept = await self._read_page(list(self._sweep.values()), now, held)
            self._sweep = {place.slot: place for place in swept.unfinished if place.slot in held}
        await self._walk_backlogs(held)
        return bool(unfinished or self._sweep)

    def _begin(self, held: dict[int, int], now: datetime) -> None:
        """Where this pass begins in each slot."""
        now_s = self._context.clock.monotonic_s()
        has_gone_back = now < self._read_until
        is_sweep = has_gone_back or now_s - self._sweep_at_s >= _SWEEP_EVERY_S
        is_late = has_gone_back or now_s - self._late_at_s >= _LATE_EVERY_S
        late = now - _LATE
        for slot in held:
            place = self._forward.get(slot)
            if place is None or is_sweep:
                self._sweep[slot] = Place(slot=slot, due_at=_BEGINNING, id=0)
            if place is None or (is_late and place.due_at > late):
                self._forward[slot] = Place(slot=slot, due_at=late, id=0)
        self._forward = {slot: place for slot, place in self._forward.items() if slot in held}
        self._sweep = {slot: place for slot, place in self._sweep.items() if slot in held}
        self._sweep_at_s = now_s if is_sweep else self._sweep_at_s
        self._late_at_s = now_s if is_late else self._late_at_s
        self._read_until = now
        if is_sweep:
            self._queue.forget_idle()

    async def _read_page(self, places: Sequence[Place], until: datetime, held: dict[int, int]) -> DueRead:
        found = await delivery_usecases.read_due(
            self._context, places, until, _PER_SLOT_MAX, self._queue.full_endpoints()
        )
        for delivery in found.ready:
            self._offer(delivery, held)
        return found

    async def _walk_backlogs(self, held: dict[int, int]) -> None:
        """Read on in what some endpoints have beyond what is kept here."""
        for _, lane in zip(range(_BACKLOGS_MAX), list(self._queue.hungry_lanes()), strict=False):
            is_from_start = lane.walked_to_id == 0
            found, walked_to_id = await delivery_usecases.read_backlog(
                self._context, lane.endpoint_id, lane.walked_to_id, list(held), _BACKLOG_PAGE
            )
            taken_count = sum(self._offer(delivery, held) for delivery in found)
            lane.walked_to_id = walked_to_id or 0
            if is_from_start and walked_to_id is None and not taken_count:
                lane.has_more = False

    def _offer(self, delivery: DueDelivery, held: dict[int, int]) -> bool:
        epoch = held.get(delivery.slot)
        return epoch is not None and self._queue.offer(Work(delivery=delivery, epoch=epoch))
