"""How a payment differs from its charge: from what the charge was before, what was paid and when."""

from datetime import timedelta
from typing import Any

import pytest

from pixconnect.domain.institutions.divergence import find_divergences
from support.records import a_charge

CASES: list[tuple[dict[str, Any] | None, int, int, tuple[str, ...]]] = [
    ({}, 1000, -1, ()),
    ({}, 1000, 0, ("EXPIRED",)),
    ({}, 999, -1, ("OTHER_AMOUNT",)),
    (dict(status="EXPIRED"), 1000, -1, ("EXPIRED",)),
    (dict(status="EXPIRED"), 1001, 5, ("EXPIRED", "OTHER_AMOUNT")),
    (dict(status="REMOVED_BY_RECEIVER"), 1000, -1, ("REMOVED",)),
    (dict(status="REMOVED_BY_PSP"), 1, 5, ("REMOVED", "OTHER_AMOUNT")),
    (dict(status="APPROVED"), 1000, -1, ("PAID_BEFORE",)),
    (dict(status="RETURNED"), 1, 5, ("PAID_BEFORE",)),
    (None, 1000, 0, ("NEVER_OPENED",)),
]


@pytest.mark.parametrize(("changes", "paid_cents", "late_s", "expected"), CASES)
def test_each_difference_is_named(
    changes: dict[str, Any] | None, paid_cents: int, late_s: int, expected: tuple[str, ...]
) -> None:
    charge = None if changes is None else a_charge(amount_cents=1000, **changes)
    settled_at = a_charge().expires_at + timedelta(seconds=late_s)
    assert find_divergences(charge, "t" * 26, paid_cents, settled_at) == expected


@pytest.mark.parametrize("txid", [None, "t" * 25])
def test_what_names_no_charge_differs_from_none(txid: str | None) -> None:
    assert find_divergences(None, txid, 1000, a_charge().expires_at) == ()
