"""What a charge with a due date may not ask for: rules of money, which hold at every door and for a revision too.

What a request's form tells (that a value is an amount, that a kind exists, how many dates there may be) the doors judge before.

Source: Pix API 2.9.0, ``CobVOperacaoInvalida``.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Literal

from msgspec import Struct

from pixconnect.domain.due.day_amount import LAST_DAY_MAX
from pixconnect.domain.due.terms import UNTIL_A_DATE, DeductionKind, Discount, DiscountKind, DueTerms, Hundredths
from pixconnect.domain.frame.money import Cents

TermMember = Literal["due_on", "valid_days", "rebate.value", "discount.value", "discount.dated"]
TermReason = Literal[
    "before_today",
    "too_late",
    "negative",
    "not_below_original",
    "not_below_all",
    "missing",
    "not_with_dates",
    "not_with_days",
    "after_due_date",
    "date_again",
]
_HUNDRED_PER_CENT = 10_000


class RefusedTerm(Struct, frozen=True, kw_only=True):
    member: TermMember
    reason: TermReason
    place: int | None = None
    """Which of the dated discounts, from 0 on; ``None`` where none of them alone is refused."""


def list_refused_terms(terms: DueTerms, original_cents: Cents, *, today: date | None) -> list[RefusedTerm]:
    """All that is wrong, in the order of the members.

    A fine or interest has no bound but that of an amount: what the law allows is not judged here. Discounts that leave nothing
    together with the rebate are no reason either: ``compute_amount`` cuts them.

    Args:
        terms: As they would be kept, a revision's merged with what it does not change.
        original_cents: Likewise.
        today: The day in Sao Paulo, before which no due date may be; ``None`` if a revision does not change it.
    """
    return [
        *_list_of_dates(terms, today),
        *_list_of_rebate(terms, original_cents),
        *_list_of_discount(terms, original_cents),
    ]


def _list_of_dates(terms: DueTerms, today: date | None) -> Iterator[RefusedTerm]:
    if today is not None and terms.due_on < today:
        yield RefusedTerm(member="due_on", reason="before_today")
    # The instant at which it ends would be no date any more.
    if terms.due_on > LAST_DAY_MAX:
        yield RefusedTerm(member="due_on", reason="too_late")
    if terms.valid_days < 0:
        yield RefusedTerm(member="valid_days", reason="negative")


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
            yield RefusedTerm(member="discount.value", reason="not_with_dates")
        if not discount.dated:
            yield RefusedTerm(member="discount.dated", reason="missing")
    else:
        if discount.value is None:
            yield RefusedTerm(member="discount.value", reason="missing")
        else:
            # Of one day: of how many days it is taken off nobody knows before it is paid.
            reason = _find_reason(discount.kind, discount.value, original_cents)
            if reason is not None:
                yield RefusedTerm(member="discount.value", reason=reason)
        if discount.dated:
            yield RefusedTerm(member="discount.dated", reason="not_with_days")
    yield from _list_of_dated(terms, discount, original_cents)


def _list_of_dated(terms: DueTerms, discount: Discount, original_cents: Cents) -> Iterator[RefusedTerm]:
    for place, dated in enumerate(discount.dated):
        # The due date as it was sent, which the caller sees, and not the business day to which it rolls.
        if dated.until > terms.due_on:
            yield RefusedTerm(member="discount.dated", reason="after_due_date", place=place)
        # The later one is refused and the first is not, so that one mistake is told once.
        if any(dated.until == earlier.until for earlier in discount.dated[:place]):
            yield RefusedTerm(member="discount.dated", reason="date_again", place=place)
        reason = _find_reason(discount.kind, dated.value, original_cents)
        if reason is not None:
            yield RefusedTerm(member="discount.dated", reason=reason, place=place)


def _find_reason(kind: DeductionKind | DiscountKind, value: Hundredths, original_cents: Cents) -> TermReason | None:
    """Why a sum or percentage may not be taken off."""
    # What reaches the whole would leave nothing to pay, and a Pix has at least a cent.
    if kind.startswith("sum"):
        return "not_below_original" if value >= original_cents else None
    return "not_below_all" if value >= _HUNDRED_PER_CENT else None
