"""The same seed is the same schedule, and in time every kind of fault comes."""

import msgspec

from pixconnect.domain.simulation.sandbox_control import FaultRule
from support.chaos.schedule import TARGETS, TARGETS_HERE, TARGETS_THERE, plan, plan_of, repeat


def test_a_schedule_follows_from_its_seed() -> None:
    assert plan(1, 600) == plan(1, 600) != plan(2, 600)
    assert plan(1, 600)[: len(plan(1, 60))] == plan(1, 60)
    assert all(fault.target in TARGETS[fault.kind] for fault in plan(1, 600))


def test_every_kind_of_fault_comes_within_ten_minutes() -> None:
    assert {fault.kind for fault in plan(1, 600)} == set(TARGETS)


def test_two_sides_have_schedules_of_their_own_with_all_their_faults() -> None:
    for side, targets in (("here", TARGETS_HERE), ("there", TARGETS_THERE)):
        faults = plan_of(side, targets, 1, 1800)
        assert {fault.kind for fault in faults} == set(targets)
        assert all(fault.target in targets[fault.kind] for fault in faults)
    assert plan_of("here", TARGETS_HERE, 1, 60) != plan_of("there", TARGETS_HERE, 1, 60)


def test_every_fault_of_a_face_is_one_that_it_has() -> None:
    for target in TARGETS_THERE["rail"]:
        operation, _, effect = target.partition(" ")
        said = {"match": {"operation": operation}, "effect": effect}
        assert msgspec.convert(said, FaultRule).effect == effect


def test_a_cycle_comes_again_until_the_time_is_over() -> None:
    faults = repeat([(0.5, "commit", "after", 0.0), (1.5, "deaf", "receiver", 1.0)], 2.0, 4.0)
    assert [(fault.at_s, fault.kind) for fault in faults] == [
        (0.5, "commit"), (1.5, "deaf"), (2.5, "commit"), (3.5, "deaf"),
    ]  # fmt: skip
