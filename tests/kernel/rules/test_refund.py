"""A refund from PROCESSING to its end."""

from datetime import timedelta

import pytest

from pixconnect.kernel.rules.refund import fail_refund, find_window, settle_refund
from support.records import NOW, a_refund

LATER = NOW + timedelta(seconds=1)


def test_a_refund_ends_once() -> None:
    settled, failed = settle_refund(a_refund(), LATER), fail_refund(a_refund(), "AC07", "closed", LATER)
    assert (settled.status, settled.settled_at) == ("RETURNED", LATER)
    assert (failed.status, failed.settled_at, failed.outcome_code) == ("ERROR", None, "AC07")
    for ended in (settled, failed):
        with pytest.raises(AssertionError):
            settle_refund(ended, LATER)
        with pytest.raises(AssertionError):
            fail_refund(ended, "AC07", "closed", LATER)


def test_the_window_is_ninety_times_24_hours() -> None:
    assert timedelta(hours=90 * 24) == find_window(NOW)
