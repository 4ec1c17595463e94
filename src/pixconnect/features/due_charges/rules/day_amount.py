"""The amount of a charge with a due date on each day, its last day, its parts, and the limits on its terms.

Every part is computed exactly, in whole numbers, and rounded half up to cents once. No rate and no day's share is rounded; fine
and interest are of the exact sum that the rebate leaves, which may have fractions of a cent.

A new kind of interest or discount is a row in ``_INTEREST`` or ``_DISCOUNT``. A changed rule changes the cost of charges
already printed: it needs a date from which it applies.

The APIs validate a request's form (amounts, known kinds, the number of dates) before this module.

Source: Pix API 2.9.0, ``CobDataDeVencimento``, ``CobVValor``, ``componentesValor`` and ``CobVOperacaoInvalida``; the central
bank's Manual of Standards for the Initiation of the Pix, equation 11. Where they are ambiguous,
``docs/explanations/due-charges.md`` has our reading.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum
from typing import Final, Literal

from msgspec import Struct

from pixconnect.features.due_charges.rules.terms import UNTIL_A_DATE, count_business_days, roll
from pixconnect.kernel.rules.charge_contents import (
    DayAmount,
    DayRules,
    DeductionKind,
    Discount,
    DiscountKind,
    DueTerms,
    Fine,
    Hundredths,
    Interest,
    InterestKind,
    Rebate,
)
from pixconnect.kernel.rules.money import AMOUNT_MAX_CENTS, AMOUNT_MIN_CENTS, Cents
from pixconnect.platform.base.clock import SAO_PAULO

LAST_DAY_MAX: Final = date(9999, 12, 30)
"""Latest possible last day, for any number of valid days: the instant of its end has to be a date too."""

_ONE: Final = 10_000  # hundredths of a per cent in 1; also the unit of exact sums, ten-thousandths of a cent

_CountDays = Callable[[date, date], int]


class ShownAmount(Struct, frozen=True, kw_only=True):
    """The amount of a day, and the reasons for its parts."""

    amount: DayAmount
    terms: DueTerms
    due_day: date
    last_day: date
    is_late: bool
    interest_days: int = 0  # late days that count for the interest, by its kind
    # Until when the day's discount applies; ``None`` if days count, or there is none.
    discount_until: date | None = None
    discount_days: int = 0  # early days that count for the discount, by its kind


def find_due_day(terms: DueTerms) -> date:
    """Return the last day on which it is not late: the due date, or the next business day."""
    return roll(terms.due_on)


def find_last_day(terms: DueTerms) -> date:
    """Return the last day on which it may be paid, always a business day."""
    # Counted from the day to which the due date rolls, so that a weekend costs the payer no day.
    last = min(find_due_day(terms).toordinal() + terms.valid_days, LAST_DAY_MAX.toordinal())
    return roll(date.fromordinal(last))


def find_expiry(terms: DueTerms) -> datetime:
    """Return the instant from which on it can no longer be paid: the midnight that ends its last day in Sao Paulo."""
    return datetime.combine(find_last_day(terms) + timedelta(days=1), time(0), SAO_PAULO).astimezone(UTC)


def compute_amount(terms: DueTerms, original_cents: Cents, day: date) -> DayAmount:
    """Return the amount to pay on this day, of Sao Paulo.

    Every day is valid, also before the charge was created and after its last day; and so are all terms: those that
    ``list_refused_terms`` would refuse still leave a cent to pay.

    Args:
        original_cents: The amount before they apply, from ``AMOUNT_MIN_CENTS`` to ``AMOUNT_MAX_CENTS``.
    """
    rebate_exact = 0 if terms.rebate is None else _take_rebate(terms.rebate, original_cents)
    rebate_cents = min(_round(rebate_exact, _ONE), original_cents)
    due_day = find_due_day(terms)
    fine_cents = interest_cents = discount_cents = 0
    if day > due_day:
        # Of the exact rebate and not of its cents, so that nothing is rounded twice.
        left_exact = max(original_cents * _ONE - rebate_exact, 0)
        room_cents = AMOUNT_MAX_CENTS - (original_cents - rebate_cents)
        # Interest gives way before the fine, which does not grow: so a later day is never cheaper.
        fine_cents = 0 if terms.fine is None else min(_fine(terms.fine, left_exact), room_cents)
        exact_cents = 0 if terms.interest is None else _charge_interest(terms.interest, left_exact, due_day, day)
        interest_cents = min(exact_cents, room_cents - fine_cents)
    elif terms.discount is not None:
        discount_cents = _discount(terms, terms.discount, original_cents, day)
    # A cent is always left to pay, since a Pix cannot be zero: the discount gives way first, then the rebate.
    left_cents = original_cents + fine_cents + interest_cents - rebate_cents - AMOUNT_MIN_CENTS
    return DayAmount(
        original_cents=original_cents,
        fine_cents=fine_cents,
        interest_cents=interest_cents,
        rebate_cents=rebate_cents + min(left_cents, 0),
        discount_cents=min(discount_cents, max(left_cents, 0)),
    )


def show_amount(terms: DueTerms, original_cents: Cents, day: date) -> ShownAmount:
    """As ``compute_amount``, with additions and deductions for display."""
    due_day = find_due_day(terms)
    discount, interest, is_late = terms.discount, terms.interest, day > due_day
    dated = discount is not None and discount.kind in UNTIL_A_DATE
    return ShownAmount(
        amount=compute_amount(terms, original_cents, day),
        terms=terms,
        due_day=due_day,
        last_day=find_last_day(terms),
        is_late=is_late,
        interest_days=0 if interest is None else _INTEREST[interest.kind][0](due_day, day),
        discount_until=_find_dated(terms, discount, day)[0] if discount is not None and dated and not is_late else None,
        discount_days=0 if discount is None or dated else _DISCOUNT[discount.kind](day, due_day),
    )


def _take_rebate(rebate: Rebate, original_cents: Cents) -> int:
    """In ten-thousandths of a cent."""
    return rebate.value * _ONE if rebate.kind == "sum" else original_cents * rebate.value


def _fine(fine: Fine, left_exact: int) -> Cents:
    return fine.value if fine.kind == "sum" else _round(left_exact * fine.value, _ONE * _ONE)


def _charge_interest(interest: Interest, left_exact: int, due_day: date, day: date) -> Cents:
    count_days, period_days = _INTEREST[interest.kind]
    days = count_days(due_day, day)
    if period_days is None:
        # A sum is whole cents already, so there is nothing to round.
        return interest.value * days
    return _round(left_exact * interest.value * days, _ONE * _ONE * period_days)


def _discount(terms: DueTerms, discount: Discount, original_cents: Cents, day: date) -> Cents:
    """On a day that is not late."""
    if discount.kind in UNTIL_A_DATE:
        # A dated discount applies once, however early it is paid.
        value, days = _find_dated(terms, discount, day)[1], 1
    else:
        value, days = discount.value or 0, _DISCOUNT[discount.kind](day, find_due_day(terms))
    if discount.kind.startswith("sum"):
        return value * days
    return _round(original_cents * value * days, _ONE)


def _find_dated(terms: DueTerms, discount: Discount, day: date) -> tuple[date | None, Hundredths]:
    """Find the earliest day that has not passed, and its discount: the largest, if several dates roll to that day."""
    # By the older rule the due date's discount alone rolls, with the due date.
    ends = (
        (roll(dated.until) if terms.discounts_roll or dated.until == terms.due_on else dated.until, dated.value)
        for dated in discount.dated
    )
    return min((end for end in ends if end[0] >= day), key=lambda end: (end[0], -end[1]), default=(None, 0))


def _round(numerator: int, denominator: int) -> int:
    """Half up; neither is negative."""
    return (2 * numerator + denominator) // (2 * denominator)


def _count_calendar_days(after: date, until: date) -> int:
    return max((until - after).days, 0)


_INTEREST: Final[Mapping[InterestKind, tuple[_CountDays, int | None]]] = {
    # Which days count, and of how many days the value is; ``None`` for a sum of each day.
    "sum_a_day": (_count_calendar_days, None),
    "percentage_a_day": (_count_calendar_days, 1),
    "percentage_a_month": (_count_calendar_days, 30),
    "percentage_a_year": (_count_calendar_days, 365),
    "sum_a_business_day": (count_business_days, None),
    "percentage_a_business_day": (count_business_days, 1),
    "percentage_a_month_of_business_days": (count_business_days, 21),
    "percentage_a_year_of_business_days": (count_business_days, 252),
}
_DISCOUNT: Final[Mapping[DiscountKind, _CountDays]] = {
    "sum_a_day": _count_calendar_days,
    "sum_a_business_day": count_business_days,
    "percentage_a_day": _count_calendar_days,
    "percentage_a_business_day": count_business_days,
}


class PaidAmount(Struct, frozen=True, kw_only=True):
    """Cents; ``amount_cents`` is ``original`` with fine and interest, without rebate and discount."""

    transfer_id: int
    holder_id: int
    charge_id: int
    amount_cents: int
    original_cents: int
    fine_cents: int
    interest_cents: int
    rebate_cents: int
    discount_cents: int


TermMember = Literal["due_on", "valid_days", "rebate.value", "discount.value", "discount.dated"]


class TermReason(Enum):
    """Each with its text in our API, in the central bank's, and whether it is about the date of one of several discounts."""

    BEFORE_TODAY = "is before today in Sao Paulo", "não pode ser anterior a hoje, em São Paulo"
    TOO_LATE = f"is later than {LAST_DAY_MAX}", f"não pode ser posterior a {LAST_DAY_MAX}"
    NEGATIVE = "is negative", "não pode ser menor que zero"
    NOT_BELOW_ORIGINAL = "must be less than the amount", "deve ser menor que valor.original"
    NOT_BELOW_ALL = "must be less than 100 %", "deve ser menor que 100.00"
    MISSING = "is missing for this kind", "é obrigatório com esta modalidade"
    NOT_WITH_DATES = "has no place in a kind that names dates", "não pode ser usado com as modalidades 1 e 2"
    NOT_WITH_DAYS = "has no place in a kind by the day", "não pode ser usado com as modalidades 3 a 6"
    AFTER_DUE_DATE = "is later than due_on", "não pode ser posterior a calendario.dataDeVencimento", True
    DATE_AGAIN = "names a date twice", "a data se repete", True

    def __init__(self, english: str, portuguese: str, is_about_date: bool = False) -> None:  # noqa: FBT001, FBT002  members are tuples
        self.english, self.portuguese, self.is_about_date = english, portuguese, is_about_date


_HUNDRED_PER_CENT = 10_000


class RefusedTerm(Struct, frozen=True, kw_only=True):
    member: TermMember
    reason: TermReason
    place: int | None = None  # which of the dated discounts, from 0 on; ``None`` if none of them alone is refused


def list_refused_terms(terms: DueTerms, original_cents: Cents, *, today: date | None) -> list[RefusedTerm]:
    """List all violations, in the order of the members.

    Fine and interest have no limit but that of an amount: legal limits are not checked here. Discounts that leave nothing
    together with the rebate are no violation either: ``compute_amount`` cuts them.

    Args:
        terms: As they would be stored; a revision's are merged with its unchanged terms.
        original_cents: Likewise.
        today: The day in Sao Paulo, the earliest permitted due date; ``None`` if a revision does not change it.
    """
    return [*_list_of_dates(terms, today), *_list_of_rebate(terms, original_cents), *_list_of_discount(terms, original_cents)]


def _list_of_dates(terms: DueTerms, today: date | None) -> Iterator[RefusedTerm]:
    if today is not None and terms.due_on < today:
        yield RefusedTerm(member="due_on", reason=TermReason.BEFORE_TODAY)
    # The instant at which it ends would be no date any more.
    if terms.due_on > LAST_DAY_MAX:
        yield RefusedTerm(member="due_on", reason=TermReason.TOO_LATE)
    if terms.valid_days < 0:
        yield RefusedTerm(member="valid_days", reason=TermReason.NEGATIVE)


def _list_of_rebate(terms: DueTerms, original_cents: Cents) -> Iterator[RefusedTerm]:
    if terms.rebate is not None:
        reason = _find_reason(terms.rebate.kind, terms.rebate.value, original_cents)
        if reason is not None:
            yield RefusedTerm(member="rebate.value", reason=reason)


def _list_of_discount(terms: DueTerms, original_cents: Cents) -> Iterator[RefusedTerm]:
    discount = terms.discount
    if discount is None:
        return
    if discount.kind in UNTIL_A_DATE:
        if discount.value is not None:
            yield RefusedTerm(member="discount.value", reason=TermReason.NOT_WITH_DATES)
        if not discount.dated:
            yield RefusedTerm(member="discount.dated", reason=TermReason.MISSING)
    else:
        if discount.value is None:
            yield RefusedTerm(member="discount.value", reason=TermReason.MISSING)
        else:
            # For one day: the number of days is unknown before payment.
            reason = _find_reason(discount.kind, discount.value, original_cents)
            if reason is not None:
                yield RefusedTerm(member="discount.value", reason=reason)
        if discount.dated:
            yield RefusedTerm(member="discount.dated", reason=TermReason.NOT_WITH_DAYS)
    yield from _list_of_dated(terms, discount, original_cents)


def _list_of_dated(terms: DueTerms, discount: Discount, original_cents: Cents) -> Iterator[RefusedTerm]:
    for place, dated in enumerate(discount.dated):
        # The due date as it was sent, which the caller sees, and not the business day to which it rolls.
        if dated.until > terms.due_on:
            yield RefusedTerm(member="discount.dated", reason=TermReason.AFTER_DUE_DATE, place=place)
        # Only the later one is refused, so that one mistake is reported once.
        if any(dated.until == earlier.until for earlier in discount.dated[:place]):
            yield RefusedTerm(member="discount.dated", reason=TermReason.DATE_AGAIN, place=place)
        reason = _find_reason(discount.kind, dated.value, original_cents)
        if reason is not None:
            yield RefusedTerm(member="discount.dated", reason=reason, place=place)


def _find_reason(kind: DeductionKind | DiscountKind, value: Hundredths, original_cents: Cents) -> TermReason | None:
    # A discount of the whole amount would leave nothing to pay, and a Pix has at least a cent.
    if kind.startswith("sum"):
        return TermReason.NOT_BELOW_ORIGINAL if value >= original_cents else None
    return TermReason.NOT_BELOW_ALL if value >= _HUNDRED_PER_CENT else None


class DueDays(DayRules):
    def find_expiry(self, terms: DueTerms) -> datetime:
        return find_expiry(terms)

    def compute_amount(self, terms: DueTerms, original_cents: Cents, day: date) -> DayAmount:
        return compute_amount(terms, original_cents, day)


DAY_RULES: Final = (DueDays(),)
