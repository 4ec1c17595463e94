"""Fine, interest, rebate and discount on the command line."""

from datetime import date

import pytest

from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.integrator.charge import read_terms
from pixconnect_client import ChargeDatedDiscount, ChargeDiscount, ChargeFine, ChargeInterest, ChargeRebate, InterestKind

DUE_ON = "2026-11-30"


INTEREST = [
    ("50/day", "sum_a_day", 50),
    ("0.1%/day", "percentage_a_day", 10),
    ("1%/month", "percentage_a_month", 100),
    ("12.05%/year", "percentage_a_year", 1205),
    ("50/business-day", "sum_a_business_day", 50),
    ("0.03%/business-day", "percentage_a_business_day", 3),
    ("1%/business-month", "percentage_a_month_of_business_days", 100),
    ("12%/business-year", "percentage_a_year_of_business_days", 1200),
]


@pytest.mark.parametrize(("text", "kind", "value"), INTEREST)
def test_interest_says_of_what_it_is(text: str, kind: str, value: int) -> None:
    terms = read_terms(DUE_ON, None, None, text, None, ())
    assert terms is not None
    assert terms.interest == ChargeInterest(kind=kind, value=value)  # type: ignore[arg-type]


def test_each_kind_of_interest_can_be_said() -> None:
    assert [kind for _, kind, _ in INTEREST] == list(InterestKind)


def test_all_terms_are_read() -> None:
    terms = read_terms(DUE_ON, 5, "2%", None, "500", ("5%@2026-11-20", "2.5%@2026-11-30"))
    assert terms is not None
    assert (terms.due_on, terms.valid_days, terms.interest) == (date(2026, 11, 30), 5, None)
    assert terms.fine == ChargeFine(kind="percentage", value=200)  # type: ignore[arg-type]
    assert terms.rebate == ChargeRebate(kind="sum", value=500)  # type: ignore[arg-type]
    dated = [ChargeDatedDiscount(until=date(2026, 11, day), value=value) for day, value in ((20, 500), (30, 250))]
    assert terms.discount == ChargeDiscount(kind="percentage_until_a_date", dated=dated)  # type: ignore[arg-type]
    assert read_terms(None, None, None, None, None, ()) is None


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("40/day", "sum_a_day", 40),
        ("40/business-day", "sum_a_business_day", 40),
        ("0.5%/day", "percentage_a_day", 50),
        ("0.5%/business-day", "percentage_a_business_day", 50),
    ],
)
def test_a_discount_may_be_by_the_day(text: str, kind: str, value: int) -> None:
    terms = read_terms(DUE_ON, None, None, None, None, (text,))
    assert terms is not None
    assert terms.discount == ChargeDiscount(kind=kind, value=value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((None, 5, None, None, None, ()), "only with --due-on"),
        ((None, None, None, None, None, ("40/day",)), "only with --due-on"),
        (("30/11/2026", None, None, None, None, ()), "--due-on: a date such as"),
        (("2026-02-30", None, None, None, None, ()), "--due-on: a date such as"),
        ((DUE_ON, None, "2,5%", None, None, ()), "--fine: cents such as 500, or a percentage"),
        ((DUE_ON, None, "2.555%", None, None, ()), "--fine: "),
        ((DUE_ON, None, "-1", None, None, ()), "--fine: "),
        ((DUE_ON, None, None, "1%", None, ()), "--interest: a value /day, /month, /year"),
        ((DUE_ON, None, None, "100/month", None, ()), "--interest: "),
        ((DUE_ON, None, None, None, "5.00", ()), "--rebate: "),
        ((DUE_ON, None, None, None, None, ("40/day", "40/day")), "--discount: once by the day"),
        ((DUE_ON, None, None, None, None, ("40/month",)), "--discount: VALUE@DATE, or a value /day, /business-day"),
        ((DUE_ON, None, None, None, None, ("40@2026-11-20", "5%@2026-11-25")), "sums or percentages"),
        ((DUE_ON, None, None, None, None, ("40@2026-11-20", "40/day")), "--discount: "),
        ((DUE_ON, None, None, None, None, ("40@soon",)), "--discount: a date such as"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_option(options: tuple[object, ...], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        read_terms(*options)  # type: ignore[arg-type]
