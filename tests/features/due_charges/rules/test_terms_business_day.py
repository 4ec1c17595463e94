"""Business days, compared with the market's printed calendar."""

from datetime import date, timedelta
from itertools import pairwise

import pytest

from pixconnect.features.due_charges.rules.terms import count_business_days, is_business_day, roll
from support.due_day import list_days, read_holidays, works

FIRST, LAST = date(2020, 1, 1), date(2078, 12, 31)


def test_every_day_until_2078_is_one_where_the_markets_calendar_has_it_as_one() -> None:
    days = list_days(FIRST - timedelta(days=1), LAST)
    assert [day for day in days if is_business_day(day) != works(day)] == []
    assert len({day.year for day in read_holidays()}) == 59


@pytest.mark.parametrize(
    ("day", "works"),
    [
        ("2026-02-16", False),  # Carnival's Monday
        ("2026-02-17", False),  # and Tuesday
        ("2026-02-18", True),  # Ash Wednesday, on which banks open at noon
        ("2026-12-24", True),
        ("2020-12-31", True),  # example D of the standard counts it
        ("2023-11-20", True),  # a national holiday since 2024 only
        ("2024-11-20", False),
        ("2026-06-04", False),  # Corpus Christi
        ("2026-07-09", True),  # a holiday of the state of Sao Paulo alone
        ("2026-01-25", False),  # a Sunday, and a holiday of the town of Sao Paulo
        ("2027-01-25", True),  # that holiday on a Monday
        ("2000-04-21", False),  # Good Friday and Tiradentes in one
    ],
)
def test_known_exceptions(day: str, works: bool) -> None:
    assert is_business_day(date.fromisoformat(day)) is works


@pytest.mark.parametrize(
    ("day", "rolled"),
    [("2026-11-24", "2026-11-24"), ("2026-11-28", "2026-11-30"), ("2020-12-25", "2020-12-28"), ("2026-02-14", "2026-02-18")],
)
def test_a_day_rolls_to_itself_or_to_the_next_business_day(day: str, rolled: str) -> None:
    assert roll(date.fromisoformat(day)) == date.fromisoformat(rolled)


@pytest.mark.parametrize("after", [date(2023, 11, 10), date(2024, 2, 8), date(2024, 12, 30), date(2026, 11, 27)])
def test_a_count_is_of_the_days_after_the_first_until_the_last(after: date) -> None:
    counted = 0
    for day in list_days(after, after + timedelta(days=900)):
        counted += works(day)
        assert count_business_days(after, day) == counted
    assert count_business_days(after, after) == count_business_days(after, after - timedelta(days=400)) == 0


def test_a_span_of_thousands_of_years_is_the_sum_of_its_parts() -> None:
    cuts = [
        date(2026, 11, 24), date(2027, 1, 1), date(2100, 2, 28), date(4321, 6, 15), date(9998, 12, 31),
        date(9999, 12, 30),
    ]  # fmt: skip
    parts = sum(count_business_days(after, until) for after, until in pairwise(cuts))
    assert count_business_days(cuts[0], cuts[-1]) == parts
    assert count_business_days(cuts[-2], cuts[-1]) == sum(map(is_business_day, list_days(cuts[-2], cuts[-1])))
