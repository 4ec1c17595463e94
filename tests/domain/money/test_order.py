"""How an order ends, and what becomes of its transfer or refund."""

from datetime import timedelta

import pytest
from msgspec import structs

from pixconnect.domain.money.order import Ending, FirstIds, GivenUp, end_refund, end_transfer, may_give_up, open_order
from pixconnect.domain.money.rail import NeverTaken, Rejected, Settled
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
