"""How an order ends, and the effect on its transfer or refund."""

from datetime import timedelta

import pytest
from msgspec import structs

from pixconnect.kernel.rules.order import (
    Ending,
    FirstIds,
    GivenUp,
    Step,
    end_refund,
    end_transfer,
    may_give_up,
    next_step,
    open_order,
)
from pixconnect.kernel.rules.rail import Abilities, NeverTaken, Rejected, Settled
from support.records import NOW, a_refund, a_transfer

LATER = NOW + timedelta(seconds=60)
REJECTED = Rejected(code="AC07", reason="closed")


@pytest.mark.parametrize(
    ("ending", "transfer_status", "refund_status", "code"),
    [
        (Settled(settled_at=NOW), "CONFIRMED", "RETURNED", None),
        (REJECTED, "ERROR", "ERROR", "AC07"),
        (NeverTaken(), "ERROR", "ERROR", "NEVER_TAKEN"),
        (GivenUp(), "CANCELLED", "ERROR", "NOT_HANDED_OVER"),
    ],
)
def test_each_ending_has_one_state(ending: Ending, transfer_status: str, refund_status: str, code: str | None) -> None:
    transfer, refund = end_transfer(a_transfer(), ending, LATER), end_refund(a_refund(), ending, LATER)
    assert (transfer.status, transfer.outcome_code) == (transfer_status, code)
    assert (refund.status, refund.outcome_code) == (refund_status, code)


def test_a_rejection_counts_whatever_its_words_are() -> None:
    ended = end_transfer(a_transfer(), Rejected(code="A\0" * 60, reason="\0" + "x" * 5000), LATER)
    assert ended.status == "ERROR"
    assert len(ended.outcome_code or "") <= 35
    assert "\0" not in (ended.outcome_code or "") + (ended.outcome_reason or "")


def test_what_was_handed_over_is_never_given_up() -> None:
    order = open_order(a_transfer(), NOW, timedelta(seconds=60))
    assert not may_give_up(order, LATER - timedelta(microseconds=1), FirstIds())
    assert may_give_up(order, LATER, FirstIds())
    assert not may_give_up(structs.replace(order, handed_at=NOW), LATER, FirstIds())


@pytest.mark.parametrize(
    ("changes", "is_late", "outlived", "is_held", "has_rail", "step"),
    [
        ({"handed_at": NOW}, True, True, True, True, "ask"),
        ({}, True, False, True, True, "give up"),
        ({"approval": "awaited"}, False, True, False, True, "leave"),
        ({}, True, True, False, True, "count as handed"),
        ({}, False, True, True, True, "count as handed"),
        ({"approval": "given"}, False, False, True, True, "hold"),
        ({}, False, False, False, True, "send"),
        ({}, False, False, False, False, "leave"),
    ],
)
def test_a_worker_does_the_first_step_that_applies(
    changes: dict[str, object], is_late: bool, outlived: bool, is_held: bool, has_rail: bool, step: Step
) -> None:
    order = structs.replace(open_order(a_transfer(), NOW, timedelta(seconds=60)), **changes)
    first_ids = FirstIds(transfer_id=order.resource_id + outlived)
    now = LATER if is_late else NOW
    assert next_step(order, now, first_ids, Abilities(), is_held=is_held, has_rail=has_rail) == step
