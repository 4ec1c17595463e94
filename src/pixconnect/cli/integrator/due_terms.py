"""What a charge with a due date adds and takes off, as people write it on the command line.

A value is cents, ``500``, or a percentage with at most two decimals, ``2.5%``. What it is of follows a slash: ``1%/month``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final, TypedDict

from msgspec import Struct

from pixconnect.cli.frame.failures import CommandError
from pixconnect_client import (
    ChargeDatedDiscount,
    ChargeDiscount,
    ChargeFine,
    ChargeInterest,
    ChargeRebate,
    DeductionKind,
    DiscountKind,
    InterestKind,
)

_VALUE: Final = re.compile(r"([0-9]{1,12})|([0-9]{1,10})(?:\.([0-9]{1,2}))?%")
_INTEREST: Final[Mapping[tuple[bool, str], InterestKind]] = {
    (False, "day"): InterestKind.SUM_A_DAY,
    (True, "day"): InterestKind.PERCENTAGE_A_DAY,
    (True, "month"): InterestKind.PERCENTAGE_A_MONTH,
    (True, "year"): InterestKind.PERCENTAGE_A_YEAR,
    (False, "business-day"): InterestKind.SUM_A_BUSINESS_DAY,
    (True, "business-day"): InterestKind.PERCENTAGE_A_BUSINESS_DAY,
    (True, "business-month"): InterestKind.PERCENTAGE_A_MONTH_OF_BUSINESS_DAYS,
    (True, "business-year"): InterestKind.PERCENTAGE_A_YEAR_OF_BUSINESS_DAYS,
}
_DISCOUNT: Final[Mapping[tuple[bool, str], DiscountKind]] = {
    (False, "day"): DiscountKind.SUM_A_DAY,
    (True, "day"): DiscountKind.PERCENTAGE_A_DAY,
    (False, "business-day"): DiscountKind.SUM_A_BUSINESS_DAY,
    (True, "business-day"): DiscountKind.PERCENTAGE_A_BUSINESS_DAY,
}


class Deduction(TypedDict):
    kind: DeductionKind
    value: int


class ReadTerms(Struct, frozen=True, kw_only=True):
    due_on: date
    valid_days: int | None
    fine: ChargeFine | None
    interest: ChargeInterest | None
    rebate: ChargeRebate | None
    discount: ChargeDiscount | None


def read_terms(
    due_on: str | None,
    days_valid: int | None,
    fine: str | None,
    interest: str | None,
    rebate: str | None,
    discounts: Sequence[str],
) -> ReadTerms | None:
    """What the options of one charge say; ``None`` of one without a due date."""
    if due_on is None:
        if discounts or any(option is not None for option in (days_valid, fine, interest, rebate)):
            raise CommandError("--days-valid, --fine, --interest, --rebate, --discount: only with --due-on")
        return None
    return ReadTerms(
        due_on=_read_day("--due-on", due_on),
        valid_days=days_valid,
        fine=None if fine is None else ChargeFine(**_read_deduction("--fine", fine)),
        interest=None if interest is None else _read_interest(interest),
        rebate=None if rebate is None else ChargeRebate(**_read_deduction("--rebate", rebate)),
        discount=_read_discounts(discounts) if discounts else None,
    )


def _read_day(option: str, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise CommandError(f"{option}: a date such as 2026-11-30, not {text!r}") from None


def _read_deduction(option: str, text: str) -> Deduction:
    is_percentage, value = _read_value(option, text)
    return Deduction(kind=DeductionKind.PERCENTAGE if is_percentage else DeductionKind.SUM, value=value)


def _read_interest(text: str) -> ChargeInterest:
    written, _, period = text.partition("/")
    is_percentage, value = _read_value("--interest", written)
    kind = _INTEREST.get((is_percentage, period))
    if kind is None:
        raise CommandError(f"--interest: a value {_list_periods(_INTEREST)}, such as 1%/month, not {text!r}")
    return ChargeInterest(kind=kind, value=value)


def _read_discounts(texts: Sequence[str]) -> ChargeDiscount:
    """One by the day, or one for each of up to three dates."""
    if "@" in texts[0]:
        return _read_dated(texts)
    if len(texts) > 1:
        raise CommandError("--discount: once by the day, or VALUE@DATE for each date")
    written, _, period = texts[0].partition("/")
    is_percentage, value = _read_value("--discount", written)
    kind = _DISCOUNT.get((is_percentage, period))
    if kind is None:
        raise CommandError(f"--discount: VALUE@DATE, or a value {_list_periods(_DISCOUNT)}, not {texts[0]!r}")
    return ChargeDiscount(kind=kind, value=value)


def _read_dated(texts: Sequence[str]) -> ChargeDiscount:
    dated: list[ChargeDatedDiscount] = []
    kinds: set[DiscountKind] = set()
    for text in texts:
        written, _, until = text.partition("@")
        is_percentage, value = _read_value("--discount", written)
        kinds.add(DiscountKind.PERCENTAGE_UNTIL_A_DATE if is_percentage else DiscountKind.SUM_UNTIL_A_DATE)
        dated.append(ChargeDatedDiscount(until=_read_day("--discount", until), value=value))
    if len(kinds) > 1:
        raise CommandError("--discount: sums or percentages, not both")
    return ChargeDiscount(kind=kinds.pop(), dated=dated)


def _read_value(option: str, text: str) -> tuple[bool, int]:
    """Whether it is a percentage, and its cents or hundredths."""
    found = _VALUE.fullmatch(text)
    if found is None:
        raise CommandError(f"{option}: cents such as 500, or a percentage such as 2.5%, not {text!r}")
    sum_cents, units, decimals = found.groups()
    if sum_cents is not None:
        return False, int(sum_cents)
    return True, int(units) * 100 + int((decimals or "").ljust(2, "0"))


def _list_periods(kinds: Mapping[tuple[bool, str], object]) -> str:
    return ", ".join(f"/{period}" for period in dict.fromkeys(period for _, period in kinds))
