"""Reports of attempts whose records fail; with a database see ``test_delivery.py``."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from pixconnect.features.webhooks.rules.delivery import Conclusion, conclude
from pixconnect.features.webhooks.service.delivery import Recording
from pixconnect.features.webhooks.worker.delivery_queue import DeliveryQueue, QueueLimits, Work
from pixconnect.features.webhooks.worker.delivery_records import AttemptRecords, EndedAttempt
from pixconnect.platform.base import errors
from pixconnect.platform.base.webhook_exchange import WebhookExchange
from support.records import NOW, make_delivery
from support.service import a_context

ANSWERED = WebhookExchange(status_code=200, retry_after=None, response=b"", error=None, duration_us=1000)


class Writes:
    """Refuses so many requests, and then gives prepared answers."""

    def __init__(self, refused_count: int, *, answers: bool) -> None:
        self.replies: list[EndedAttempt] = []
        self._refused_count = refused_count
        self._answers = answers

    def put(self, _: object, recording: Recording, reply: EndedAttempt) -> None:
        assert recording.conclusion is reply.conclusion
        self.replies.append(reply)
        if self._refused_count:
            self._refuse()
        if self._answers:
            reply.set_result(True)

    async def submit(self, _: object, __: Recording) -> bool:
        if self._refused_count:
            self._refuse()
        return True

    def _refuse(self) -> None:
        self._refused_count -= 1
        raise errors.ServiceUnavailable("the write queue is full")


class Told:
    def __init__(self, writes: Writes, *, is_held: bool = True) -> None:
        self.told: list[tuple[int, bool, bool]] = []
        queue = DeliveryQueue(QueueLimits(), lambda _slot, _epoch: True)
        leases = SimpleNamespace(is_held=lambda _slot, _epoch: is_held)
        self.records = AttemptRecords(a_context(writes=writes), cast(Any, leases), queue, self._tell)

    def add(self, number: int) -> None:
        conclusion = conclude(make_delivery(id=number), ANSWERED, ended_at=NOW, real_now=NOW, chance=0)
        self.records.add(Work(delivery=conclusion.delivery, epoch=1), conclusion, "https://example.com")

    def _tell(self, ended: EndedAttempt, recorded: Conclusion | None, is_lost: bool) -> None:
        self.told.append((ended.work.delivery.id, recorded is not None, is_lost))


async def test_what_is_recorded_at_once_needs_no_task() -> None:
    told = Told(Writes(0, answers=True))
    tasks_count = len(asyncio.all_tasks())
    # Nothing is under way beside it, so nothing is waited for.
    told.add(1)
    assert told.told == [(1, True, False)]
    assert len(asyncio.all_tasks()) == tasks_count


async def test_what_finds_no_room_is_tried_again_until_it_is_recorded() -> None:
    told = Told(Writes(2, answers=True))
    told.add(1)
    await told.records.wait_until_empty()
    assert told.told == [(1, True, False)]


async def test_what_finds_no_room_is_lost_once_the_slot_is() -> None:
    told = Told(Writes(3, answers=True), is_held=False)
    told.add(1)
    await told.records.wait_until_empty()
    assert told.told == [(1, False, True)]


async def test_what_waits_when_the_slots_are_lost_is_told_once_and_dropped_from_the_queue() -> None:
    writes = Writes(0, answers=False)
    told = Told(writes)
    told.add(1)
    told.records.drop()
    (reply,) = writes.replies
    assert reply.done()
    reply.set_result(True)
    reply.set_exception(errors.ServiceUnavailable("the database is away"))
    assert told.told == [(1, False, True)]
