"""The kinds of parts that a charge with a due date may have, whether terms are equivalent, and business days."""

from bisect import bisect_left, bisect_right
from datetime import date, timedelta
from functools import cache, lru_cache
from typing import Final, get_args

from msgspec import structs

from pixconnect.kernel.rules.charge_contents import DeductionKind, DiscountKind, DueTerms, InterestKind

DEDUCTION_KINDS: Final[tuple[DeductionKind, ...]] = get_args(DeductionKind)
INTEREST_KINDS: Final[tuple[InterestKind, ...]] = get_args(InterestKind)
DISCOUNT_KINDS: Final[tuple[DiscountKind, ...]] = get_args(DiscountKind)
UNTIL_A_DATE: Final = frozenset[DiscountKind](("sum_until_a_date", "percentage_until_a_date"))


def are_same(one: DueTerms, other: DueTerms) -> bool:
    """Whether they are equivalent: the order of dates and empty parts do not matter."""
    return _settle(one) == _settle(other)


def _settle(terms: DueTerms) -> DueTerms:
    discount = terms.discount
    if discount is not None:
        dated = sorted((each for each in discount.dated if each.value), key=lambda each: each.until)
        discount = structs.replace(discount, dated=tuple(dated)) if dated or discount.value else None
    return structs.replace(
        terms,
        fine=terms.fine if terms.fine and terms.fine.value else None,
        interest=terms.interest if terms.interest and terms.interest.value else None,
        rebate=terms.rebate if terms.rebate and terms.rebate.value else None,
        discount=discount,
        discounts_roll=False,
    )


# Business days of Brazil's financial market, by national holidays; those of states and towns are not considered. A new holiday
# is a row in ``_FIXED`` with its first year: earlier days keep their status. Ash Wednesday and 24 and 31 December are business
# days, on which banks only close early, or to the public.
#
# Source: Resolution CMN 4,880 of 2020 (weekends, national holidays, Carnival's Monday and Tuesday, Corpus Christi); laws 662 of
# 1949, 6,802 of 1980, 9,093 of 1995 (Good Friday), 10,607 of 2002 and 14,759 of 2023 (20 November).

_ONE_DAY: Final = timedelta(days=1)
_SATURDAY: Final = 5
# Due dates are within a few years of each other; a far year is only computed again.
_YEARS_KEPT: Final = 128
_FIXED: Final = (
    # First year, month, day.
    (1, 1, 1),
    (1, 4, 21),
    (1, 5, 1),
    (1, 9, 7),
    (1, 10, 12),
    (1, 11, 2),
    (1, 11, 15),
    (2024, 11, 20),
    (1, 12, 25),
)
_FROM_EASTER: Final = (-48, -47, -2, 60)  # days from Easter to Carnival's Monday and Tuesday, Good Friday and Corpus Christi


def is_business_day(day: date) -> bool:
    return day.weekday() < _SATURDAY and day.toordinal() not in _list_holidays(day.year)


def roll(day: date) -> date:
    """Return the day itself if it is a business day, else the next one."""
    while not is_business_day(day):
        day += _ONE_DAY
    return day


def count_business_days(after: date, until: date) -> int:
    """Count the business days later than ``after`` and not later than ``until``; 0 for an empty span."""
    # Counted by years, not day by day: callers may send due dates thousands of years away.
    if until <= after:
        return 0
    return _count_in_year_until(until) - _count_in_year_until(after) + sum(map(_count_of_year, range(after.year, until.year)))


def _count_in_year_until(day: date) -> int:
    """Count from the year's first day to this one, inclusive."""
    last = day.toordinal()
    holidays = _list_holidays(day.year)
    before = date(day.year, 1, 1).toordinal() - 1
    return _count_weekdays(last) - _count_weekdays(before) - bisect_right(holidays, last) + bisect_left(holidays, before)


# Cached for good: a number for each of at most 9,999 years, and a due date may have any of them.
@cache
def _count_of_year(year: int) -> int:
    return _count_in_year_until(date(year, 12, 31))


def _count_weekdays(ordinal: int) -> int:
    """Count the days from Monday to Friday until this one, inclusive. The first of all days was a Monday."""
    weeks, days = divmod(ordinal, 7)
    return 5 * weeks + min(days, 5)


@lru_cache(maxsize=_YEARS_KEPT)
def _list_holidays(year: int) -> tuple[int, ...]:
    """List those from Monday to Friday, as ordinals in order. Two may be one day: Good Friday was 21 April in 2000."""
    easter = _find_easter(year)
    days = {date(year, month, day).toordinal() for since, month, day in _FIXED if year >= since}
    days |= {easter + offset for offset in _FROM_EASTER}
    # A holiday on a weekend takes no business day away, so it must not be counted as one.
    return tuple(sorted(day for day in days if (day - 1) % 7 < _SATURDAY))


def _find_easter(year: int) -> int:
    """Easter Sunday, as an ordinal, by the rule of the Gregorian calendar (Meeus, *Astronomical Algorithms*, chapter 8)."""
    century, of_century = divmod(year, 100)
    golden = year % 19
    leap_centuries, century_rest = divmod(century, 4)
    moon_correction = (century - (century + 8) // 25 + 1) // 3
    epact = (19 * golden + century - leap_centuries - moon_correction + 15) % 30
    leaps, leap_rest = divmod(of_century, 4)
    to_sunday = (32 + 2 * century_rest + 2 * leaps - epact - leap_rest) % 7
    late = (golden + 11 * epact + 22 * to_sunday) // 451
    month, day = divmod(epact + to_sunday - 7 * late + 114, 31)
    return date(year, month, day + 1).toordinal()
