"""The amount of a day by another way than the service's: one day after the other, in fractions, from a printed calendar.

Only for days of the years that ``tests/vectors/market_holidays.json`` has.
"""

import json
from datetime import date, timedelta
from fractions import Fraction
from functools import cache
from math import floor
from pathlib import Path

from pixconnect.domain.due.day_amount import DayAmount
from pixconnect.domain.due.terms import DueTerms

CALENDAR = Path(__file__).resolve().parents[1] / "tests" / "vectors" / "market_holidays.json"
_DAYS_OF_PERIOD = {"month": 30, "year": 365, "month_of_business_days": 21, "year_of_business_days": 252}


@cache
def read_holidays() -> frozenset[date]:
    years = json.loads(CALENDAR.read_bytes())["years"]
    return frozenset(date.fromisoformat(f"{year}-{day}") for year, days in years.items() for day in days)


def works(day: date) -> bool:
    """Whether the printed calendar has it as a day of business."""
    return day.weekday() not in (5, 6) and day not in read_holidays()


def list_days(after: date, until: date) -> list[date]:
    """Each one later than the first and not later than the second."""
    return [after + timedelta(days=number) for number in range(1, (until - after).days + 1)]


def work_out(terms: DueTerms, original_cents: int, day: date) -> DayAmount:
    """What ``compute_amount`` is to say, of terms that would not be refused."""
    near = list_days(terms.due_on - timedelta(days=1), terms.due_on + timedelta(days=10))
    due = next(each for each in near if works(each))
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
    # What is short of a cent the discount gives back first, which is not there where the rebate alone takes it.
    discount_cents = min(_to_cents(discount), max(whole_cents - rebate_cents - 1, 0))
    return DayAmount(
        original_cents=original_cents,
        fine_cents=fine_cents,
        interest_cents=interest_cents,
        rebate_cents=min(rebate_cents, whole_cents - 1),
        discount_cents=discount_cents,
    )


def _one_day_later(terms: DueTerms, base: Fraction, day: date) -> Fraction:
    """What the interest grows by with this day."""
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
        for dated in sorted(terms.discount.dated, key=lambda each: each.until):
            end = due if dated.until == terms.due_on else dated.until
            if day <= end:
                percentage = terms.discount.kind.startswith("per")
                return _share(original, dated.value) if percentage else Fraction(dated.value)
        return Fraction(0)
    each = terms.discount.value if terms.discount.kind.startswith("sum") else _share(original, terms.discount.value)
    early = [one for one in list_days(day, due) if works(one) or "business" not in terms.discount.kind]
    return sum((Fraction(each) for _ in early), Fraction(0))


def _share(of: Fraction, hundredths_of_a_per_cent: int) -> Fraction:
    return of * Fraction(hundredths_of_a_per_cent, 100) / 100


def _to_cents(exact: Fraction) -> int:
    return floor(exact + Fraction(1, 2))
