"""Which charge a payment pays on each road, and how it differs from that charge."""

from datetime import date, timedelta
from typing import Any

import pytest

from pixconnect.kernel.rules.charge_payment import ChargePayment, decide_charge, find_divergences
from support.records import NOW, a_charge

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
    (dict(held_by=9), 1000, -1, ("PAID_BEFORE",)),
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


RAIL = dict(account_id=None, is_refusable=True)
THERE = dict(account_id=3, is_refusable=False)
HELD = THERE | dict(is_held=True)
BOOK_STATIC, BOOK_DYNAMIC = THERE, dict(account_id=3, is_refusable=True)
OPEN, PAID = dict(institution_id=3), dict(institution_id=3, status="APPROVED")
TAKEN, EXPIRED = dict(institution_id=3, held_by=9), dict(institution_id=3, status="EXPIRED")
REMOVED = dict(institution_id=3, status="REMOVED_BY_RECEIVER")
DUE_ON = dict(institution_id=3, due_on=date(2026, 7, 2))

# Road, charge, changes of the payment; whether the charge is its own, the code of its refusal, the differences.
DECISIONS: list[tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any], tuple[bool, str | None, tuple[str, ...]]]] = [
    (RAIL, {}, {}, (True, None, ())),
    (RAIL, None, {}, (False, None, ())),
    (RAIL, {}, dict(amount_cents=1), (True, "AM09", ())),
    (RAIL, dict(status="APPROVED"), {}, (True, "BE17", ())),
    (RAIL, dict(held_by=9), {}, (True, "BE17", ())),
    (RAIL, {}, dict(holder_id=8), (True, "BE17", ())),
    (THERE, OPEN, {}, (True, None, ())),
    (THERE, OPEN, dict(amount_cents=1), (True, None, ("OTHER_AMOUNT",))),
    (THERE, PAID, {}, (False, None, ("PAID_BEFORE",))),
    (THERE, TAKEN, {}, (False, None, ("PAID_BEFORE",))),
    (THERE, EXPIRED, {}, (True, None, ("EXPIRED",))),
    (THERE, REMOVED, {}, (True, None, ("REMOVED",))),
    (THERE, None, {}, (False, None, ("NEVER_OPENED",))),
    (THERE, None, dict(txid="r" * 25), (False, None, ())),
    (THERE, dict(institution_id=4), {}, (False, None, ("NEVER_OPENED",))),
    (HELD, OPEN, {}, (True, None, ())),
    (HELD, TAKEN, {}, (False, None, ("PAID_BEFORE",))),
    (HELD, EXPIRED, {}, (False, None, ("EXPIRED",))),
    (BOOK_DYNAMIC, OPEN, {}, (True, None, ())),
    (BOOK_DYNAMIC, OPEN, dict(amount_cents=1), (True, "AM09", ())),
    (BOOK_DYNAMIC, PAID, {}, (True, "BE17", ())),
    (BOOK_DYNAMIC, TAKEN, {}, (True, "BE17", ())),
    (BOOK_DYNAMIC, EXPIRED, {}, (True, "BE17", ())),
    (BOOK_DYNAMIC, REMOVED, {}, (True, "BE17", ())),
    (BOOK_DYNAMIC, DUE_ON, dict(amount_cents=1), (True, None, ("OTHER_AMOUNT",))),
    (BOOK_DYNAMIC, DUE_ON | PAID, {}, (True, "BE17", ())),
    (BOOK_DYNAMIC, None, {}, (False, None, ("NEVER_OPENED",))),
]


@pytest.mark.parametrize(("road", "changes", "said", "expected"), DECISIONS)
def test_one_function_decides_for_every_road(
    road: dict[str, Any],
    changes: dict[str, Any] | None,
    said: dict[str, Any],
    expected: tuple[bool, str | None, tuple[str, ...]],
) -> None:
    charge = None if changes is None else a_charge(amount_cents=1000, **changes)
    payment: dict[str, Any] = dict(holder_id=7, txid="t" * 32, amount_cents=1000, at=NOW)
    decided = decide_charge(charge, ChargePayment(**(payment | road | said)))
    is_own, *rest = expected
    assert [decided.charge, decided.reject_code, decided.divergences] == [charge if is_own else None, *rest]
