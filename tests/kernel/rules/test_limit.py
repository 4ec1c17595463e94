"""Limits, and the local time in which they count."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixconnect.kernel.rules.limit import Limits, Spending, Spent, begin_of_night, check_limits, cut_limits, end_of_night
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import begin_of_day, end_of_day

CENTS = st.none() | st.integers(0, 10**12)
LIMITS = st.builds(Limits, transfer_cents=CENTS, day_cents=CENTS, night_cents=CENTS, night_begins_late=st.booleans())


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "day", "night"),
    [
        ("2026-07-01T22:59:59", "2026-07-01T03:00", None),  # 19:59:59 in Sao Paulo
        ("2026-07-01T23:00:00", "2026-07-01T03:00", "2026-07-01T23:00"),  # 20:00
        ("2026-07-02T02:59:59", "2026-07-01T03:00", "2026-07-01T23:00"),  # 23:59:59
        ("2026-07-02T03:00:00", "2026-07-02T03:00", "2026-07-01T23:00"),  # midnight
        ("2026-07-02T08:59:59", "2026-07-02T03:00", "2026-07-01T23:00"),  # 05:59:59
        ("2026-07-02T09:00:00", "2026-07-02T03:00", None),  # 06:00
        ("2026-01-01T03:00:00", "2026-01-01T03:00", "2025-12-31T23:00"),  # a new year
    ],
)
def test_days_and_nights_are_those_of_sao_paulo(now: str, day: str, night: str | None) -> None:
    assert begin_of_day(utc(now)) == utc(day)
    assert end_of_day(utc(now)) == utc(day) + timedelta(days=1)
    assert begin_of_night(utc(now)) == (None if night is None else utc(night))
    if night is not None:
        assert end_of_night(utc(now)) == utc(night) + timedelta(hours=10)


@pytest.mark.parametrize(
    ("now", "night"),
    [
        ("2026-07-02T00:59:59", None),  # 21:59:59
        ("2026-07-02T01:00:00", "2026-07-02T01:00"),  # 22:00
        ("2026-07-02T08:59:59", "2026-07-02T01:00"),  # 05:59:59
        ("2026-07-02T09:00:00", None),  # 06:00
    ],
)
def test_a_night_may_begin_later(now: str, night: str | None) -> None:
    assert begin_of_night(utc(now), is_late=True) == (None if night is None else utc(night))
    limits, spending = Limits(night_cents=1, night_begins_late=True), Spending(utc(now))
    if night is None:
        spending.check(1, limits, 100)
        return
    with pytest.raises(errors.LimitExceeded, match=r"a night$"):
        spending.check(1, limits, 100)


@given(before=LIMITS, wanted=LIMITS)
def test_what_acts_at_once_is_never_higher_in_any_part(before: Limits, wanted: Limits) -> None:
    at_once = cut_limits(before, wanted)
    assert cut_limits(at_once, before) == at_once == cut_limits(at_once, wanted) == cut_limits(wanted, before)
    assert (at_once == wanted) == (cut_limits(wanted, before) == wanted)


@pytest.mark.parametrize(
    ("limits", "spent", "is_night", "which"),
    [
        (Limits(), Spent(day_cents=10**12), True, None),
        (Limits(transfer_cents=100), Spent(), False, None),
        (Limits(transfer_cents=99), Spent(), False, "a transfer"),
        (Limits(transfer_cents=0), Spent(), False, "a transfer"),
        (Limits(day_cents=150), Spent(day_cents=50), False, None),
        (Limits(day_cents=149), Spent(day_cents=50), False, "a day"),
        (Limits(night_cents=150), Spent(night_cents=50), True, None),
        (Limits(night_cents=149), Spent(night_cents=50), True, "a night"),
        (Limits(night_cents=1), Spent(night_cents=50), False, None),
        (Limits(transfer_cents=1, day_cents=1, night_cents=1), Spent(), True, "a transfer"),
        (Limits(day_cents=1, night_cents=1), Spent(), True, "a day"),
    ],
)
def test_a_limit_may_be_reached_not_exceeded(limits: Limits, spent: Spent, is_night: bool, which: str | None) -> None:
    if which is None:
        check_limits(limits, spent, 100, is_night=is_night)
        return
    with pytest.raises(errors.LimitExceeded, match=f"{which}$"):
        check_limits(limits, spent, 100, is_night=is_night)


def test_what_one_transfer_of_a_batch_spends_counts_against_the_next_of_its_holder() -> None:
    spending, limits = Spending(utc("2026-07-01T15:00:00")), Limits(day_cents=150)
    spending.start(1, Spent(day_cents=50))
    spending.check(1, limits, 100)
    spending.count(1, 60)
    spending.count(2, 1000)
    spending.check(1, limits, 40)
    with pytest.raises(errors.LimitExceeded, match="a day"):
        spending.check(1, limits, 41)
    spending.check(2, Limits(), 10**12)


def test_a_day_and_a_night_of_a_summer_before_2019_are_those_of_then() -> None:
    now = datetime(2018, 12, 22, 1, 30, tzinfo=UTC)  # 23:30 in Sao Paulo, where it was summer time
    assert begin_of_day(now) == datetime(2018, 12, 21, 2, tzinfo=UTC)
    assert begin_of_night(now) == datetime(2018, 12, 21, 22, tzinfo=UTC)
    now = datetime(2018, 11, 4, 12, tzinfo=UTC)  # that day had no hour from 00:00 to 01:00
    assert begin_of_day(now) == datetime(2018, 11, 4, 3, tzinfo=UTC)
