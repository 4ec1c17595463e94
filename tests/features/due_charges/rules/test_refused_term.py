"""Forbidden terms of a charge with a due date: a row for each violation about money that the standard lists."""

from datetime import date

import pytest

from pixconnect.features.due_charges.rules.day_amount import RefusedTerm, TermReason, list_refused_terms
from pixconnect.kernel.rules.charge_contents import DatedDiscount, Discount, DueTerms, Fine, Interest, Rebate

TODAY = date(2026, 11, 24)
YESTERDAY = date(2026, 11, 23)
SATURDAY = date(2026, 11, 28)


def until(*days: date, value: int = 100) -> tuple[DatedDiscount, ...]:
    return tuple(DatedDiscount(until=day, value=value) for day in days)


@pytest.mark.parametrize(
    ("terms", "refused"),
    [
        (DueTerms(due_on=TODAY), []),
        (DueTerms(due_on=YESTERDAY), [("due_on", "before_today", None)]),
        (DueTerms(due_on=date(9999, 12, 31)), [("due_on", "too_late", None)]),
        (DueTerms(due_on=TODAY, valid_days=-1), [("valid_days", "negative", None)]),
        (DueTerms(due_on=TODAY, valid_days=0), []),
        (DueTerms(due_on=TODAY, rebate=Rebate(kind="sum", value=9_99)), []),
        (DueTerms(due_on=TODAY, rebate=Rebate(kind="sum", value=10_00)), [("rebate.value", "not_below_original", None)]),
        (DueTerms(due_on=TODAY, rebate=Rebate(kind="percentage", value=99_99)), []),
        (DueTerms(due_on=TODAY, rebate=Rebate(kind="percentage", value=100_00)), [("rebate.value", "not_below_all", None)]),
        # Legal limits are not checked here.
        (DueTerms(due_on=TODAY, fine=Fine(kind="percentage", value=101_00)), []),
        (DueTerms(due_on=TODAY, fine=Fine(kind="sum", value=10_00), interest=Interest(kind="sum_a_day", value=10_00)), []),
        (DueTerms(due_on=TODAY, discount=Discount(kind="sum_a_day", value=9_99)), []),
        (
            DueTerms(due_on=TODAY, discount=Discount(kind="sum_a_day", value=10_00)),
            [("discount.value", "not_below_original", None)],
        ),
        (
            DueTerms(due_on=TODAY, discount=Discount(kind="percentage_a_business_day", value=100_00)),
            [("discount.value", "not_below_all", None)],
        ),
        (DueTerms(due_on=TODAY, discount=Discount(kind="percentage_a_day")), [("discount.value", "missing", None)]),
        (
            DueTerms(due_on=TODAY, discount=Discount(kind="sum_a_business_day", value=1, dated=until(TODAY))),
            [("discount.dated", "not_with_days", None)],
        ),
        (DueTerms(due_on=TODAY, discount=Discount(kind="sum_until_a_date")), [("discount.dated", "missing", None)]),
        (
            DueTerms(due_on=TODAY, discount=Discount(kind="percentage_until_a_date", value=1, dated=until(TODAY))),
            [("discount.value", "not_with_dates", None)],
        ),
        (DueTerms(due_on=SATURDAY, discount=Discount(kind="sum_until_a_date", dated=until(SATURDAY, TODAY))), []),
        # The due date rolls to Monday; a discount until the Sunday is later than the due date as sent.
        (
            DueTerms(due_on=SATURDAY, discount=Discount(kind="sum_until_a_date", dated=until(TODAY, date(2026, 11, 29)))),
            [("discount.dated", "after_due_date", 1)],
        ),
        (
            DueTerms(due_on=SATURDAY, discount=Discount(kind="sum_until_a_date", dated=until(TODAY, SATURDAY, TODAY))),
            [("discount.dated", "date_again", 2)],
        ),
        (
            DueTerms(due_on=TODAY, discount=Discount(kind="sum_until_a_date", dated=until(TODAY, value=10_00))),
            [("discount.dated", "not_below_original", 0)],
        ),
        (
            DueTerms(due_on=TODAY, discount=Discount(kind="percentage_until_a_date", dated=until(TODAY, value=100_00))),
            [("discount.dated", "not_below_all", 0)],
        ),
        # Together they leave nothing, which is no listed violation: the amount becomes a cent.
        (
            DueTerms(
                due_on=TODAY,
                rebate=Rebate(kind="sum", value=9_00),
                discount=Discount(kind="sum_until_a_date", dated=until(TODAY, value=9_00)),
            ),
            [],
        ),
    ],
)
def test_terms_are_refused_by_member_and_rule(terms: DueTerms, refused: list[tuple[str, str, int | None]]) -> None:
    found = list_refused_terms(terms, 10_00, today=TODAY)
    assert [(each.member, each.reason.name.lower(), each.place) for each in found] == refused


def test_all_that_is_wrong_is_told_at_once_in_the_order_of_the_members() -> None:
    terms = DueTerms(
        due_on=YESTERDAY,
        valid_days=-1,
        rebate=Rebate(kind="sum", value=10_00),
        discount=Discount(kind="percentage_until_a_date", value=1, dated=until(TODAY, TODAY, value=100_00)),
    )
    found = list_refused_terms(terms, 10_00, today=TODAY)
    assert [(each.member, each.reason.name.lower()) for each in found] == [
        ("due_on", "before_today"), ("valid_days", "negative"), ("rebate.value", "not_below_original"),
        ("discount.value", "not_with_dates"), ("discount.dated", "after_due_date"),
        ("discount.dated", "not_below_all"), ("discount.dated", "after_due_date"), ("discount.dated", "date_again"),
        ("discount.dated", "not_below_all"),
    ]  # fmt: skip


def test_a_revision_that_leaves_the_due_date_may_come_after_it() -> None:
    terms = DueTerms(due_on=YESTERDAY, rebate=Rebate(kind="percentage", value=100_00))
    assert list_refused_terms(terms, 10_00, today=None) == [RefusedTerm(member="rebate.value", reason=TermReason.NOT_BELOW_ALL)]
