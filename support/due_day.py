"""The amount on a day, computed in another way than by the service: day by day, in fractions.

Holidays come from the printed calendar ``tests/vectors/market_holidays.json``, and for other years from a separate
Easter computation.
"""

import json
from datetime import date, timedelta
from fractions import Fraction
from functools import cache
from math import floor
from pathlib import Path

from pixconnect.kernel.rules.charge_contents import DayAmount, DueTerms

CALENDAR = Path(__file__).resolve().parents[1] / "tests" / "vectors" / "market_holidays.json"
_DAYS_OF_PERIOD = {"month": 30, "year": 365, "month_of_business_days": 21, "year_of_business_days": 252}


@cache
def read_holidays() -> frozenset[date]:
    years = json.loads(CALENDAR.read_bytes())["years"]
    return frozenset(date.fromisoformat(f"{year}-{day}") for year, days in years.items() for day in days)


@cache
def _list_holidays(year: int) -> frozenset[date]:
    printed = frozenset(day for day in read_holidays() if day.year == year)
    if printed:
        return printed
    movable = {_find_easter(year) + timedelta(days=days) for days in (-48, -47, -2, 60)}
    fixed = "01-01 04-21 05-01 09-07 10-12 11-02 11-15 12-25" + (" 11-20" if year > 2023 else "")
    return frozenset(movable | {date.fromisoformat(f"{year:04}-{day}") for day in fixed.split()})


def _find_easter(year: int) -> date:
    """The Sunday after the first full moon from 21 March on, by the table of golden numbers instead of a formula."""
    century = year // 100
    shift = century - century // 4 - (8 * century + 13) // 25 + 15
    age = (19 * (year % 19) + shift) % 30
    # The table has no two moons on 19 April within one cycle.
    age -= age == 29 or (age == 28 and year % 19 > 10)
    moon = date(year, 3, 21) + timedelta(days=age)
    return next(moon + timedelta(days=later) for later in range(1, 8) if (moon + timedelta(days=later)).weekday() == 6)


def works(day: date) -> bool:
    return day.weekday() not in (5, 6) and day not in _list_holidays(day.year)


def roll(day: date) -> date:
    return next(each for each in list_days(day - timedelta(days=1), day + timedelta(days=10)) if works(each))


def list_days(after: date, until: date) -> list[date]:
    """The days after the first, up to and including the second."""
    return [after + timedelta(days=number) for number in range(1, (until - after).days + 1)]


def work_out(terms: DueTerms, original_cents: int, day: date) -> DayAmount:
    """The expected result of ``compute_amount`` for valid terms."""
    due = roll(terms.due_on)
    original = Fraction(original_cents)
    rebate = Fraction(0)
    if terms.rebate is not None:
        rebate = _share(original, terms.rebate.value) if "per" in terms.rebate.kind else Fraction(terms.rebate.value)
    base = original - rebate
    fine = interest = discount = Fraction(0)
    if day > due:
        if terms.fine is not None:
            fine = _share(base, terms.fine.value) if "per" in terms.fine.kind else Fraction(terms.fine.value)
        interest = sum((_one_day_later(terms, base, each) for each in list_days(due, day)), Fraction(0))
    else:
        discount = _early(terms, original, day, due)
    rebate_cents = min(_to_cents(rebate), original_cents)
    most_cents = 999_999_999_999 - (original_cents - rebate_cents)
    fine_cents = min(_to_cents(fine), most_cents)
    interest_cents = min(_to_cents(interest), most_cents - fine_cents)
    whole_cents = original_cents + fine_cents + interest_cents
    # If the reductions leave less than a cent, the discount is cut first. It is not there if the rebate alone does
    # that.
    discount_cents = min(_to_cents(discount), max(whole_cents - rebate_cents - 1, 0))
    return DayAmount(
        original_cents=original_cents,
        fine_cents=fine_cents,
        interest_cents=interest_cents,
        rebate_cents=min(rebate_cents, whole_cents - 1),
        discount_cents=discount_cents,
    )


def _one_day_later(terms: DueTerms, base: Fraction, day: date) -> Fraction:
    """The interest of this day."""
    if terms.interest is None or ("business" in terms.interest.kind and not works(day)):
        return Fraction(0)
    if terms.interest.kind.startswith("sum"):
        return Fraction(terms.interest.value)
    period = terms.interest.kind.removeprefix("percentage_a_")
    return _share(base, terms.interest.value) / _DAYS_OF_PERIOD.get(period, 1)


def _early(terms: DueTerms, original: Fraction, day: date, due: date) -> Fraction:
    if terms.discount is None:
        return Fraction(0)
    if terms.discount.value is None:
        percentage = terms.discount.kind.startswith("per")
        for last in list_days(day - timedelta(days=1), due):
            # Of several discounts that end on this day the payer gets the best.
            given = [
                _share(original, dated.value) if percentage else Fraction(dated.value)
                for dated in terms.discount.dated
                if last == (roll(dated.until) if terms.discounts_roll or dated.until == terms.due_on else dated.until)
            ]
            if given:
                return max(given)
        return Fraction(0)
    each = terms.discount.value if terms.discount.kind.startswith("sum") else _share(original, terms.discount.value)
    early = [one for one in list_days(day, due) if works(one) or "business" not in terms.discount.kind]
    return sum((Fraction(each) for _ in early), Fraction(0))


def _share(of: Fraction, hundredths_of_a_per_cent: int) -> Fraction:
    return of * Fraction(hundredths_of_a_per_cent, 100) / 100


def _to_cents(exact: Fraction) -> int:
    return floor(exact + Fraction(1, 2))
