"""The terms of a charge with a due date: its last day, and the parts that raise or lower its amount.

They are stored as JSON and read by later programs: a new field needs a default, and none is renamed.

Source: Pix API 2.9.0, ``CobDataDeVencimento`` and ``CobVValor``. The tables of kinds stand in its order: a kind's place in its
table, counted from 1, is the standard's ``modalidade``.
"""

from __future__ import annotations

from datetime import date
from typing import Final, Literal, get_args

from msgspec import Struct, structs

from pixconnect.kernel.register.register import ARRANGEMENT

VALID_DAYS: Final = ARRANGEMENT.find_constant("valid_after_due").read_value()
"""Where a charge names none (``validadeAposVencimento``)."""

Hundredths = int
"""Cents of a sum, or hundredths of a per cent: both are written with two decimals."""

DeductionKind = Literal["sum", "percentage"]
InterestKind = Literal[
    "sum_a_day",
    "percentage_a_day",
    "percentage_a_month",
    "percentage_a_year",
    "sum_a_business_day",
    "percentage_a_business_day",
    "percentage_a_month_of_business_days",
    "percentage_a_year_of_business_days",
]
DiscountKind = Literal[
    "sum_until_a_date",
    "percentage_until_a_date",
    "sum_a_day",
    "sum_a_business_day",
    "percentage_a_day",
    "percentage_a_business_day",
]

DEDUCTION_KINDS: Final[tuple[DeductionKind, ...]] = get_args(DeductionKind)
INTEREST_KINDS: Final[tuple[InterestKind, ...]] = get_args(InterestKind)
DISCOUNT_KINDS: Final[tuple[DiscountKind, ...]] = get_args(DiscountKind)
UNTIL_A_DATE: Final = frozenset[DiscountKind](("sum_until_a_date", "percentage_until_a_date"))


class Fine(Struct, frozen=True, kw_only=True):
    """Added once, from the first day after the due date on (``multa``)."""

    kind: DeductionKind
    value: Hundredths


class Interest(Struct, frozen=True, kw_only=True):
    """Added for each day after the due date (``juros``)."""

    kind: InterestKind
    value: Hundredths


class Rebate(Struct, frozen=True, kw_only=True):
    """Taken off on every day, whenever it is paid (``abatimento``)."""

    kind: DeductionKind
    value: Hundredths


class DatedDiscount(Struct, frozen=True, kw_only=True):
    until: date
    """The last day on which it is given."""
    value: Hundredths


class Discount(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Taken off when it is paid early, and never once it is late (``desconto``)."""

    kind: DiscountKind
    value: Hundredths | None = None
    """For each day before the due date; ``None`` where dates are named."""
    dated: tuple[DatedDiscount, ...] = ()
    """In the order in which they were sent; empty where each day counts."""


class DueTerms(Struct, frozen=True, kw_only=True, omit_defaults=True):
    due_on: date
    """As it was sent; on a day without business it rolls to the next business day (``dataDeVencimento``)."""
    valid_days: int = VALID_DAYS
    """Calendar days after the due date on which it may still be paid."""
    fine: Fine | None = None
    interest: Interest | None = None
    rebate: Rebate | None = None
    discount: Discount | None = None
    discounts_roll: bool = False
    """Whether a discount's date without business is moved to the next business day.

    The rule at the charge's creation applies, and a revision keeps it. Requests lack it, as do charges older than the rule.
    """


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
