"""A charge from PENDING to its end."""

from datetime import timedelta

import pytest

from pixconnect.domain.charge import (
    ChargeStatus,
    expire_charge,
    find_reject_code,
    free_charge,
    hold_charge,
    may_expire,
    pay_charge,
    return_charge,
)
from support.records import NOW, a_charge

LATER = NOW + timedelta(hours=1)


@pytest.mark.parametrize(
    ("status", "amount_cents", "seconds_left", "code"),
    [
        ("PENDING", 1000, 1, None),
        ("PENDING", 1000, 0, "BE17"),
        ("PENDING", 999, 1, "AM09"),
        ("PENDING", 1001, 1, "AM09"),
        ("PENDING", 1, 0, "BE17"),
        ("APPROVED", 1000, 1, "BE17"),
        ("EXPIRED", 1000, 1, "BE17"),
        ("RETURNED", 1, 1, "BE17"),
    ],
)
def test_a_charge_is_paid_once_in_full_and_in_time(
    status: ChargeStatus, amount_cents: int, seconds_left: int, code: str | None
) -> None:
    charge = a_charge(status=status)
    assert find_reject_code(charge, amount_cents, charge.expires_at - timedelta(seconds=seconds_left)) == code


def test_a_transition_is_a_new_record_dated_now() -> None:
    charge = a_charge()
    paid = pay_charge(charge, LATER)
    assert (charge.status, paid.status, paid.modified_at) == ("PENDING", "APPROVED", LATER)
    assert return_charge(paid, LATER).status == "RETURNED"
    assert expire_charge(charge, LATER).status == "EXPIRED"


def test_a_held_charge_is_nobody_elses_and_waits_for_its_payment() -> None:
    charge = a_charge()
    held = hold_charge(charge, 5)
    assert (held.status, held.held_by, held.modified_at) == ("PENDING", 5, charge.modified_at)
    assert find_reject_code(held, 1000, NOW) == "BE17"
    assert may_expire(charge, charge.expires_at)
    assert not may_expire(held, charge.expires_at)
    assert pay_charge(held, LATER).held_by is None
    assert free_charge(held) == charge
    for forbidden in (lambda: hold_charge(held, 6), lambda: expire_charge(held, LATER), lambda: free_charge(charge)):
        with pytest.raises(AssertionError):
            forbidden()


def test_no_state_is_left_by_a_way_that_is_not_drawn() -> None:
    for status in ("APPROVED", "EXPIRED", "RETURNED"):
        with pytest.raises(AssertionError):
            pay_charge(a_charge(status=status), LATER)
        with pytest.raises(AssertionError):
            expire_charge(a_charge(status=status), LATER)
    for status in ("PENDING", "EXPIRED", "RETURNED"):
        with pytest.raises(AssertionError):
            return_charge(a_charge(status=status), LATER)
