"""Which delivery is tried next; nothing waits here, so these are plain functions."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from pixconnect.features.webhooks.rules.delivery import DueDelivery
from pixconnect.features.webhooks.rules.endpoint import ENDPOINTS_MAX
from pixconnect.features.webhooks.worker.delivery import START_MAX
from pixconnect.features.webhooks.worker.delivery_queue import DeliveryQueue, QueueLimits, Work

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


def make_queue(*, may_start: bool = True, **limits: int) -> DeliveryQueue:
    return DeliveryQueue(QueueLimits(**limits), lambda slot, epoch: may_start)


def make_work(delivery_id: int, endpoint_id: int = 1, **changes: Any) -> Work:
    """A first attempt of a holder with one endpoint."""
    fields: dict[str, Any] = {
        "id": delivery_id, "holder_id": endpoint_id, "endpoint_id": endpoint_id, "event_id": delivery_id,
        "resource": "charge", "resource_id": delivery_id, "slot": delivery_id % 256, "due_at": NOW,
        "attempts_count": 0, "failures_count": 0, "body": "{}",
    }  # fmt: skip
    return Work(delivery=DueDelivery(**(fields | changes)), epoch=1)


def ids(taken: list[Work]) -> list[int]:
    return [work.delivery.id for work in taken]


def test_what_is_offered_twice_is_taken_once() -> None:
    queue = make_queue()
    assert queue.offer(make_work(1))
    assert not queue.offer(make_work(1))
    assert ids(queue.take(9)) == [1]
    assert not queue.offer(make_work(1))
    assert queue.take(9) == []


def test_a_read_that_was_late_does_not_bring_back_what_was_recorded() -> None:
    queue = make_queue()
    queue.offer(make_work(1))
    (work,) = queue.take(9)
    queue.finish(work, 0.0, has_answered=True)
    assert not queue.offer(make_work(1))
    assert queue.offer(make_work(1, attempts_count=1))


def test_what_was_lost_before_it_was_recorded_can_be_read_again() -> None:
    queue = make_queue()
    queue.offer(make_work(1))
    (work,) = queue.take(9)
    queue.clear()
    queue.finish(work, 0.0, has_answered=False, is_lost=True)
    assert queue.offer(make_work(1))


def test_what_was_read_again_under_another_epoch_is_not_forgotten_with_what_was_lost() -> None:
    queue = make_queue()
    queue.offer(make_work(1))
    (lost,) = queue.take(9)
    queue.clear()
    again = structs.replace(make_work(1), epoch=2)
    assert queue.offer(again)
    queue.start_over(lost)
    assert not queue.offer(again), "it would be sent twice"
    assert queue.take(9) == [again]


def test_what_was_recorded_is_forgotten_in_time_though_nothing_else_ends() -> None:
    queue = make_queue()
    queue.offer(make_work(1))
    queue.finish(queue.take(1)[0], 0.0, has_answered=True)
    queue.forget_finished(29.0)
    assert not queue.offer(make_work(1))
    queue.forget_finished(31.0)
    assert queue.offer(make_work(1))


def test_what_was_put_off_can_be_read_again() -> None:
    queue = make_queue()
    queue.offer(make_work(1))
    queue.start_over(queue.take(1)[0])
    assert queue.in_flight_count == 0
    assert queue.offer(make_work(1))


def test_first_attempts_go_before_retries() -> None:
    queue = make_queue()
    queue.offer(make_work(1, attempts_count=3))
    queue.offer(make_work(2))
    assert ids(queue.take(9)) == [2, 1]


def test_endpoints_take_turns() -> None:
    queue = make_queue()
    for delivery_id in range(1, 9):
        queue.offer(make_work(delivery_id, endpoint_id=1))
    for delivery_id in (11, 12):
        queue.offer(make_work(delivery_id, endpoint_id=2))
    taken = ids(queue.take(4))
    assert len([delivery_id for delivery_id in taken if delivery_id > 10]) == 2


def test_an_endpoint_has_no_more_in_flight_than_its_limit() -> None:
    queue = make_queue(endpoint_max=4)
    for delivery_id in range(1, 11):
        queue.offer(make_work(delivery_id))
    taken = queue.take(99)
    assert len(taken) == 4
    queue.finish(taken[0], 0.0, has_answered=True)
    assert len(queue.take(99)) == 1


def test_the_limits_are_divided_by_the_workers() -> None:
    queue = make_queue(endpoint_max=8)
    queue.workers_count = 4
    for delivery_id in range(1, 11):
        queue.offer(make_work(delivery_id))
    assert len(queue.take(99)) == 2


def test_a_holder_has_no_more_in_flight_than_its_limit() -> None:
    queue = make_queue(holder_max=5)
    for delivery_id in range(1, 21):
        queue.offer(make_work(delivery_id, endpoint_id=delivery_id % 4 + 1, holder_id=7))
    assert len(queue.take(99)) == 5


def test_of_what_starts_and_is_signed_together_one_holder_has_at_most_half() -> None:
    queue = make_queue()
    for delivery_id in range(1, 40 * ENDPOINTS_MAX):
        queue.offer(make_work(delivery_id, endpoint_id=delivery_id % ENDPOINTS_MAX + 1, holder_id=7))
    queue.offer(make_work(9_999, endpoint_id=99, holder_id=8))
    taken = queue.take(START_MAX)
    assert [work.delivery.holder_id for work in taken].count(7) <= START_MAX / 2
    assert 9_999 in ids(taken[: ENDPOINTS_MAX + 1])
    # However many more could start now: those under way count.
    assert queue.take(START_MAX) == []


def test_retries_take_at_most_half_of_an_endpoint() -> None:
    queue = make_queue(endpoint_max=8)
    for delivery_id in range(1, 21):
        queue.offer(make_work(delivery_id, attempts_count=1))
    assert len(queue.take(99)) == 4


def test_an_endpoint_that_hangs_gets_less_and_one_that_answers_gets_more() -> None:
    queue = make_queue()
    for delivery_id in range(1, 200):
        queue.offer(make_work(delivery_id))
    taken = queue.take(99)
    assert len(taken) == 16
    for work in taken[:4]:
        queue.finish(work, 0.0, has_answered=False)
    assert queue.take(99) == []
    for work in taken[4:]:
        queue.finish(work, 0.0, has_answered=False)
    taken = queue.take(99)
    assert len(taken) == 2
    for work in taken:
        queue.finish(work, 0.0, has_answered=True)
    assert len(queue.take(99)) == 4


def test_more_than_is_kept_is_left_in_the_database_and_known_to_be_there() -> None:
    queue = make_queue(kept_max=4, endpoint_max=2)
    offered = [queue.offer(make_work(delivery_id)) for delivery_id in range(1, 7)]
    assert offered == [True] * 4 + [False] * 2
    assert queue.full_endpoints() == [1]
    assert list(queue.queues_with_more()) == []
    queue.take(2)
    assert [full.endpoint_id for full in queue.queues_with_more()] == [1]


def test_work_of_a_slot_that_is_not_held_is_dropped() -> None:
    queue = make_queue(may_start=False)
    queue.offer(make_work(1))
    assert queue.take(9) == []
    assert queue.waiting_count == 0
    assert queue.offer(make_work(1))


def test_slots_are_busy_while_something_is_under_way() -> None:
    queue = make_queue()
    queue.offer(make_work(1, slot=9))
    queue.offer(make_work(2, slot=9))
    assert queue.busy_slots() == set()
    first, second = queue.take(9)
    queue.finish(first, 0.0, has_answered=True)
    assert queue.busy_slots() == {9}
    queue.finish(second, 0.0, has_answered=True)
    assert queue.busy_slots() == set()


def test_lost_slots_empty_the_queue_and_what_is_under_way_ends_by_itself() -> None:
    queue = make_queue()
    for delivery_id in (1, 2, 3):
        queue.offer(make_work(delivery_id))
    (work,) = queue.take(1)
    queue.clear()
    assert queue.take(9) == []
    queue.finish(work, 0.0, has_answered=False)
    assert (queue.in_flight_count, queue.busy_slots()) == (0, set())


def test_the_oldest_startable_is_what_only_the_workers_own_limit_holds_back() -> None:
    queue = make_queue(endpoint_max=2)
    for delivery_id in range(1, 9):
        queue.offer(make_work(delivery_id))
    queue.take(9)
    assert queue.oldest_startable_at() is None, "its endpoint's limit holds it back"
    queue = make_queue(total_max=1)
    for delivery_id in (1, 2):
        queue.offer(make_work(delivery_id, due_at=NOW + timedelta(seconds=delivery_id)))
    queue.take(9)
    assert queue.oldest_startable_at() == NOW + timedelta(seconds=2)


def test_endpoints_of_which_there_is_nothing_are_forgotten() -> None:
    queue = make_queue()
    queue.offer(make_work(1))
    (work,) = queue.take(1)
    queue.forget_idle()
    queue.finish(work, 0.0, has_answered=True)
    queue.forget_idle()
    assert queue.full_endpoints() == []
    with pytest.raises(KeyError):
        queue.finish(work, 0.0, has_answered=True)


def test_while_much_waits_an_endpoint_keeps_a_quarter() -> None:
    queue = make_queue(kept_max=8, kept_in_all=9)
    assert sum(queue.offer(make_work(delivery_id, endpoint_id=1)) for delivery_id in range(1, 11)) == 8
    assert sum(queue.offer(make_work(delivery_id, endpoint_id=2)) for delivery_id in range(11, 21)) == 2


def test_reads_are_told_what_is_here_until_it_is_done() -> None:
    queue = make_queue()
    for delivery_id in (1, 2, 3):
        queue.offer(make_work(delivery_id))
    assert queue.known_lately() == [1, 2, 3]
    queue.finish(queue.take(1)[0], 0.0, has_answered=True)
    assert queue.known_lately() == [2, 3]
