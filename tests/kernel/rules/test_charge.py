"""A charge from PENDING to its end."""

from datetime import timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from pixconnect.kernel.rules import charge as charges
from pixconnect.kernel.rules.charge_contents import ChargeContents
from support.records import NOW, a_charge

LATER = NOW + timedelta(hours=1)


@pytest.mark.parametrize(
    ("status", "amount_cents", "seconds_left", "code"),
    [
        ("PENDING", 1000, 1, None), ("PENDING", 1000, 0, "BE17"), ("PENDING", 999, 1, "AM09"),
        ("PENDING", 1001, 1, "AM09"), ("PENDING", 1, 0, "BE17"), ("APPROVED", 1000, 1, "BE17"),
        ("EXPIRED", 1000, 1, "BE17"), ("REMOVED_BY_RECEIVER", 1000, 1, "BE17"), ("REMOVED_BY_PSP", 1000, 1, "BE17"),
        ("RETURNED", 1, 1, "BE17"),
    ],
)  # fmt: skip
def test_a_charge_is_paid_once_in_full_and_in_time(
    status: charges.ChargeStatus, amount_cents: int, seconds_left: int, code: str | None
) -> None:
    charge = a_charge(status=status)
    assert charges.find_reject_code(charge, amount_cents, charge.expires_at - timedelta(seconds=seconds_left)) == code


def test_a_transition_is_a_new_record_dated_now() -> None:
    charge = a_charge()
    paid = charges.pay_charge(charge, charge.amount_cents, LATER)
    assert (charge.status, paid.status, paid.modified_at) == ("PENDING", "APPROVED", LATER)
    assert charges.return_charge(paid, LATER).status == "RETURNED"
    assert charges.expire_charge(charge, LATER).status == "EXPIRED"


def test_a_held_charge_is_nobody_elses_and_waits_for_its_payment() -> None:
    charge = a_charge()
    held = charges.hold_charge(charge, 5)
    assert (held.status, held.held_by, held.modified_at) == ("PENDING", 5, charge.modified_at)
    assert charges.find_reject_code(held, 1000, NOW) == "BE17"
    assert charges.may_expire(charge, charge.expires_at)
    assert not charges.may_expire(held, charge.expires_at)
    assert charges.pay_charge(held, held.amount_cents, LATER).held_by is None
    assert charges.free_charge(held) == charge
    for forbidden in (
        lambda: charges.hold_charge(held, 6),
        lambda: charges.expire_charge(held, LATER),
        lambda: charges.free_charge(charge),
    ):
        with pytest.raises(AssertionError):
            forbidden()


def test_no_state_is_left_by_a_way_that_is_not_drawn() -> None:
    for status in ("APPROVED", "EXPIRED", "RETURNED"):
        with pytest.raises(AssertionError):
            charges.pay_charge(a_charge(status=status), 1000, LATER)
        with pytest.raises(AssertionError):
            charges.expire_charge(a_charge(status=status), LATER)
    for status in ("PENDING", "EXPIRED", "RETURNED"):
        with pytest.raises(AssertionError):
            charges.return_charge(a_charge(status=status), LATER)


class Course:
    """The transitions of a charge and their results, written independently."""

    STEPS: Final = ("pay", "pay less", "hold", "free", "expire", "revise", "revive", "remove", "return", "wait")

    def __init__(self) -> None:
        self.now = NOW
        self.charge = a_charge(expires_at=NOW + timedelta(hours=1))
        self.paid_count = 0

    def take(self, step: str) -> None:
        before, is_open = self.charge, charges.may_be_changed(self.charge)
        match step:
            case "pay" | "pay less":
                cents = 1000 if step == "pay" else 999
                if charges.find_reject_code(before, cents, self.now) is None:
                    assert before.status == "PENDING"
                    assert self.now < before.expires_at
                    assert not before.held_by
                    self.charge = charges.pay_charge(before, cents, self.now)
                    self.paid_count += 1
            case "hold" if charges.find_reject_code(before, 1000, self.now) is None:
                self.charge = charges.hold_charge(before, 5)
            case "free" if before.held_by:
                self.charge = charges.free_charge(before)
            case "expire" if charges.may_expire(before, self.now):
                self.charge = charges.expire_charge(before, self.now)
            case "revise" | "revive" if is_open:
                seconds = 3600 if step == "revise" else int((self.now - NOW).total_seconds()) + 3600
                contents = structs.replace(charges.read_contents(before), lifetime_s=seconds)
                self.charge = charges.revise_charge(before, contents, self.now)
                assert self.charge.revision == (before.revision or 0) + 1
                assert (self.charge.status == "PENDING") == (before.status == "PENDING" or self.now < self.charge.expires_at)
            case "remove" if is_open:
                self.charge = charges.remove_charge(before, "REMOVED_BY_RECEIVER", self.now)
            case "return" if before.status == "APPROVED":
                self.charge = charges.return_charge(before, self.now)
            case _:
                self.now += timedelta(minutes=40)
        assert is_open or self.charge.contents == before.contents
        assert before.status not in {"RETURNED", "REMOVED_BY_RECEIVER"} or self.charge is before
        assert self.paid_count == (self.charge.status in charges.PAID) <= 1


@given(st.lists(st.sampled_from(Course.STEPS), max_size=30))
def test_whatever_happens_a_charge_is_paid_once_in_time_and_changed_only_while_it_is_open(steps: list[str]) -> None:
    course = Course()
    for step in steps:
        course.take(step)


def test_a_free_amount_is_paid_with_any_and_an_unbound_charge_with_none() -> None:
    free = structs.replace(
        a_charge(), contents=ChargeContents(lifetime_s=1, amount_cents=1000, may_change_amount=True, key="k")
    )
    assert charges.find_reject_code(free, 1, NOW) is None
    assert charges.pay_charge(free, 1, NOW).amount_cents == 1
    assert charges.find_reject_code(charges.unbind_charge(free), 1, NOW) == "BE17"
    assert charges.find_reject_code(charges.lead_to_charge(charges.unbind_charge(free), "0002"), 1, NOW) is None
