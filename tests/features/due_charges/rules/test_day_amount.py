"""The amount of a day: the standard's examples, published ones, an independent computation, and general properties."""

import doctest
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from pixconnect.features.due_charges.rules import day_amount
from pixconnect.features.due_charges.rules.terms import DEDUCTION_KINDS, DISCOUNT_KINDS, INTEREST_KINDS, UNTIL_A_DATE
from pixconnect.kernel.rules.charge_contents import (
    DatedDiscount,
    Discount,
    DiscountKind,
    DueTerms,
    Fine,
    Interest,
    InterestKind,
    Rebate,
)
from pixconnect.kernel.rules.money import AMOUNT_MAX_CENTS
from support.due_day import list_days, roll, work_out

FRIDAY = date(2026, 11, 27)


@pytest.mark.parametrize(
    ("due_on", "valid_days", "due_day", "last_day"),
    [
        # Examples A to G of ``CobDataDeVencimento``: the last accepted day, the day after it being refused.
        ("2020-10-20", 4, "2020-10-20", "2020-10-26"),
        ("2020-12-25", 0, "2020-12-28", "2020-12-28"),
        ("2020-12-25", 1, "2020-12-28", "2020-12-29"),
        ("2020-12-25", 3, "2020-12-28", "2020-12-31"),
        ("2020-12-25", 4, "2020-12-28", "2021-01-04"),
        ("2021-08-27", 5, "2021-08-27", "2021-09-01"),
        ("2021-08-28", 5, "2021-08-30", "2021-09-06"),
        # Carnival, and a due date before 20 November in a year when that was no holiday yet.
        ("2026-02-14", 0, "2026-02-18", "2026-02-18"),
        ("2023-11-20", 0, "2023-11-20", "2023-11-20"),
        # The longest validity of the standard's int32 ends with the calendar.
        ("2026-11-24", 2**31 - 1, "2026-11-24", "9999-12-30"),
        ("9999-12-30", 30, "9999-12-30", "9999-12-30"),
    ],
)
def test_due_day_and_last_day_roll(due_on: str, valid_days: int, due_day: str, last_day: str) -> None:
    terms = DueTerms(due_on=date.fromisoformat(due_on), valid_days=valid_days)
    assert day_amount.find_due_day(terms) == date.fromisoformat(due_day)
    assert day_amount.find_last_day(terms) == date.fromisoformat(last_day)
    assert day_amount.find_last_day(terms) <= day_amount.LAST_DAY_MAX
    # Sao Paulo is three hours behind UTC, as it has been since 2019.
    end = date.fromisoformat(last_day) + timedelta(days=1)
    assert day_amount.find_expiry(terms) == datetime(end.year, end.month, end.day, 3, tzinfo=UTC)


def test_a_last_day_in_a_summer_before_2019_ended_by_the_clock_of_then() -> None:
    terms = DueTerms(due_on=date(2018, 12, 20), valid_days=1)
    assert day_amount.find_expiry(terms) == datetime(2018, 12, 22, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("due_on", "paid_on", "original", "terms", "total"),
    [
        # Pix API 2.9.0, ``componentesValor``: two days late, a fine of 3 % and interest of 1 % a day.
        ("2026-11-24", "2026-11-26", "100.00", {"fine": "3 %", "interest": "1 % percentage_a_day"}, "105.00"),
        # github.com/bacen/pix-api, issue 607: 1 % a month, one day, no rounding of the day's factor.
        ("2024-09-04", "2024-09-05", "30000.00", {"interest": "1 % percentage_a_month"}, "30010.00"),
        # Issue 347: due on a Saturday, 0.10 a day; Monday is in time, and Tuesday is one day late and not three.
        ("2021-02-27", "2021-03-01", "10.00", {"interest": "0.10 sum_a_day"}, "10.00"),
        ("2021-02-27", "2021-03-02", "10.00", {"interest": "0.10 sum_a_day"}, "10.10"),
        # Issue 205, example 1: due on a Friday, 1.00 a day, paid on the Saturday: that day counts, the Sunday has not come.
        ("2020-11-27", "2020-11-28", "100.00", {"interest": "1.00 sum_a_day"}, "101.00"),
        # Issue 404: a rebate of half a cent, which is rounded up.
        ("2026-11-24", "2026-11-24", "10.00", {"rebate": "0.05 %"}, "9.99"),
        # dashboard.ciclo.eco/knowledge-base/article/como-funcionam-os-juros-do-boleto
        ("2026-11-03", "2026-11-13", "100.00", {"fine": "2 %", "interest": "1 % percentage_a_month"}, "102.33"),
        # qive.com.br/?p=41751
        ("2026-11-03", "2026-11-08", "1000.00", {"fine": "2 %", "interest": "1 % percentage_a_month"}, "1021.67"),
        # vivaprev.com.br/2024/11/20/juros-de-mora-e-multa-de-mora-entenda-o-que-sao
        ("2026-11-10", "2026-11-20", "3000.00", {"fine": "2 %", "interest": "1 % percentage_a_month"}, "3070.00"),
        # ajuda.kobana.com.br/pt-BR/articles/8843476-multa-e-juros-de-mora says 102.16, for it cuts where we round.
        ("2026-11-03", "2026-11-08", "100.00", {"fine": "2 %", "interest": "1 % percentage_a_month"}, "102.17"),
    ],
)
def test_published_examples(due_on: str, paid_on: str, original: str, terms: dict[str, str], total: str) -> None:
    asked = DueTerms(
        due_on=date.fromisoformat(due_on),
        fine=Fine(kind="percentage", value=cents(terms["fine"])) if "fine" in terms else None,
        interest=read_interest(terms["interest"]) if "interest" in terms else None,
        rebate=Rebate(kind="percentage", value=cents(terms["rebate"])) if "rebate" in terms else None,
    )
    assert day_amount.compute_amount(asked, cents(original), date.fromisoformat(paid_on)).total_cents == cents(total)


def cents(text: str) -> int:
    """Cents of a sum, hundredths of a percentage."""
    units, _, decimals = text.partition(" ")[0].partition(".")
    return int(units) * 100 + int(decimals.ljust(2, "0"))


def read_interest(text: str) -> Interest:
    return Interest(kind=next(kind for kind in INTEREST_KINDS if text.endswith(f" {kind}")), value=cents(text))


@pytest.mark.parametrize(
    ("kind", "on_saturday", "on_monday", "a_month_later"),
    [
        # Worked out by hand: 1,000.00 due on Friday 27 November 2026, a value of 12.60, paid on the 28th, the 30th, and on
        # 28 December, 31 days and (Christmas being a Friday) 20 business days later.
        ("sum_a_day", 1260, 3780, 39060),
        ("percentage_a_day", 12600, 37800, 390600),
        ("percentage_a_month", 420, 1260, 13020),
        ("percentage_a_year", 35, 104, 1070),
        ("sum_a_business_day", 0, 1260, 25200),
        ("percentage_a_business_day", 0, 12600, 252000),
        ("percentage_a_month_of_business_days", 0, 600, 12000),
        ("percentage_a_year_of_business_days", 0, 50, 1000),
    ],
)
def test_interest_of_each_kind(kind: InterestKind, on_saturday: int, on_monday: int, a_month_later: int) -> None:
    terms = DueTerms(due_on=FRIDAY, interest=Interest(kind=kind, value=1260))
    days = [FRIDAY, date(2026, 11, 28), date(2026, 11, 30), date(2026, 12, 28)]
    found = [day_amount.compute_amount(terms, 1000_00, day).interest_cents for day in days]
    assert found == [0, on_saturday, on_monday, a_month_later]


@pytest.mark.parametrize(
    ("kind", "a_week_before", "on_thursday", "on_friday"),
    [
        ("sum_a_day", 10_50, 1_50, 0),
        ("sum_a_business_day", 7_50, 1_50, 0),
        ("percentage_a_day", 105_00, 15_00, 0),
        ("percentage_a_business_day", 75_00, 15_00, 0),
    ],
)
def test_discounts_by_the_day(kind: DiscountKind, a_week_before: int, on_thursday: int, on_friday: int) -> None:
    """Of 1.50, or of 1.5 % of 1,000.00, due on a Friday. 20 November, a week before, is a holiday and does not count."""
    terms = DueTerms(due_on=FRIDAY, discount=Discount(kind=kind, value=150))
    days = [date(2026, 11, 20), date(2026, 11, 26), FRIDAY, date(2026, 11, 30)]
    expected = [a_week_before, on_thursday, on_friday, 0]
    assert [day_amount.compute_amount(terms, 1000_00, day).discount_cents for day in days] == expected


@pytest.mark.parametrize(
    ("due_on", "dated", "final"),
    [
        # Good Friday, and the Monday after it: 3.00 on the 27th, 28th and 29th, and 2.00 never.
        ("2027-03-31", {"2027-03-26": 3, "2027-03-29": 2}, {27: 97, 28: 97, 29: 97, 30: 100}),
        # A Saturday, a Sunday and the Monday after them.
        ("2027-06-30", {"2027-06-19": 3, "2027-06-20": 2, "2027-06-21": 1}, {19: 97, 20: 97, 21: 97, 22: 100}),
        ("2027-06-30", {"2027-06-19": 1, "2027-06-20": 2, "2027-06-21": 3}, {18: 97, 19: 97, 20: 97, 21: 97, 22: 100}),
        # A due date's own discount, on a Saturday, with an earlier one of the Friday, which is a business day.
        ("2027-06-19", {"2027-06-18": 1, "2027-06-19": 2}, {18: 99, 19: 98, 21: 98, 22: 100}),
    ],
)
def test_a_discount_date_rolls_and_the_larger_holds(due_on: str, dated: dict[str, int], final: dict[int, int]) -> None:
    discount = Discount(
        kind="sum_until_a_date",
        dated=tuple(DatedDiscount(until=date.fromisoformat(day), value=value * 100) for day, value in dated.items()),
    )
    terms = DueTerms(due_on=date.fromisoformat(due_on), discount=discount, discounts_roll=True)
    first = terms.due_on.replace(day=1)
    found = {day: day_amount.compute_amount(terms, 100_00, first.replace(day=day)).total_cents // 100 for day in final}
    assert found == final


def test_by_the_rule_of_before_the_due_dates_own_discount_alone_rolls() -> None:
    saturday = date(2026, 11, 28)
    dated = (
        DatedDiscount(until=saturday, value=1_00),
        DatedDiscount(until=date(2026, 11, 21), value=3_00),
        DatedDiscount(until=date(2026, 11, 24), value=2_00),
    )
    terms = DueTerms(due_on=saturday, discount=Discount(kind="sum_until_a_date", dated=dated))
    found = {
        day.day: day_amount.compute_amount(terms, 50_00, day).discount_cents
        for day in list_days(date(2026, 11, 19), date(2026, 12, 1))
    }
    # The 21st was a Saturday too: its discount does not roll to the Monday.
    assert found == {
        20: 300, 21: 300, 22: 200, 23: 200, 24: 200, 25: 100, 26: 100, 27: 100, 28: 100, 29: 100, 30: 100, 1: 0,
    }  # fmt: skip


def test_a_cent_is_left_whatever_is_taken_off_and_no_more_is_asked_than_a_pix_can_have() -> None:
    discount = Discount(kind="percentage_a_day", value=50_00)
    terms = DueTerms(due_on=FRIDAY, rebate=Rebate(kind="sum", value=40_00), discount=discount)
    assert day_amount.compute_amount(terms, 50_00, date(2026, 1, 2)) == day_amount.DayAmount(
        original_cents=50_00, rebate_cents=40_00, discount_cents=9_99
    )
    terms = DueTerms(due_on=FRIDAY, rebate=Rebate(kind="percentage", value=99_99))
    assert day_amount.compute_amount(terms, 1, FRIDAY).total_cents == 1
    # 99.99 % of 50.00 is all of it in cents, which the rebate may take if a fine is left to pay.
    assert day_amount.compute_amount(terms, 50_00, FRIDAY).rebate_cents == 49_99
    terms = structs.replace(terms, fine=Fine(kind="sum", value=5_00))
    late = day_amount.compute_amount(terms, 50_00, date(2026, 11, 28))
    assert late == day_amount.DayAmount(original_cents=50_00, fine_cents=5_00, rebate_cents=50_00)
    huge = AMOUNT_MAX_CENTS
    terms = DueTerms(due_on=FRIDAY, fine=Fine(kind="sum", value=5), interest=Interest(kind="sum_a_day", value=huge))
    late = day_amount.compute_amount(terms, huge - 7, date(2026, 11, 28))
    assert late == day_amount.DayAmount(original_cents=huge - 7, fine_cents=5, interest_cents=2)
    terms = DueTerms(due_on=FRIDAY, fine=Fine(kind="sum", value=huge), interest=Interest(kind="sum_a_day", value=1))
    assert day_amount.compute_amount(terms, 1, date(2026, 11, 28)) == day_amount.DayAmount(
        original_cents=1, fine_cents=huge - 1
    )


def test_fine_and_interest_are_of_what_the_rebate_leaves_before_that_is_rounded() -> None:
    # A third of the rebate's cent is worth half a cent of interest here: 0.35 less 3.5 % is 0.33775, and not 0.34.
    terms = DueTerms(
        due_on=FRIDAY,
        rebate=Rebate(kind="percentage", value=3_50),
        fine=Fine(kind="percentage", value=100_00),
        interest=Interest(kind="percentage_a_day", value=1000_00),
    )
    found = day_amount.compute_amount(terms, 35, date(2026, 11, 28))
    assert (found.rebate_cents, found.fine_cents, found.interest_cents) == (1, 34, 338)


def test_the_charge_on_the_page_costs_what_the_page_says() -> None:
    page = Path(__file__).parents[4] / "docs" / "explanations" / "due-charges.md"
    failed, tried = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert (failed, tried > 3) == (0, True)


VALUES = st.one_of(st.integers(0, 300), st.integers(0, 20_000), st.integers(0, AMOUNT_MAX_CENTS))
ORIGINALS = st.one_of(st.integers(1, 200), st.integers(1, 10_000_000), st.integers(1, AMOUNT_MAX_CENTS))
DUE_DATES = st.one_of(st.dates(date(2024, 1, 1), date(2029, 12, 31)), st.dates(date(1910, 1, 1), date(2400, 12, 31)))


@st.composite
def discounts(draw: st.DrawFn, due_on: date) -> Discount:
    kind = draw(st.sampled_from(DISCOUNT_KINDS))
    if kind not in UNTIL_A_DATE:
        return Discount(kind=kind, value=draw(VALUES))
    until = draw(st.lists(st.integers(0, 40), min_size=1, max_size=3, unique=True))
    return Discount(
        kind=kind, dated=tuple(DatedDiscount(until=due_on - timedelta(days=each), value=draw(VALUES)) for each in until)
    )


@st.composite
def all_terms(draw: st.DrawFn) -> DueTerms:
    due_on = draw(DUE_DATES)
    return DueTerms(
        due_on=due_on,
        valid_days=draw(st.integers(0, 120)),
        fine=draw(st.none() | st.builds(Fine, kind=st.sampled_from(DEDUCTION_KINDS), value=VALUES)),
        interest=draw(st.none() | st.builds(Interest, kind=st.sampled_from(INTEREST_KINDS), value=VALUES)),
        rebate=draw(st.none() | st.builds(Rebate, kind=st.sampled_from(DEDUCTION_KINDS), value=VALUES)),
        discount=draw(st.none() | discounts(due_on)),
        discounts_roll=draw(st.booleans()),
    )


@given(terms=all_terms(), original_cents=ORIGINALS, from_due=st.integers(-60, 150))
@example(terms=DueTerms(due_on=FRIDAY, rebate=Rebate(kind="percentage", value=50_00)), original_cents=1, from_due=3)
def test_two_ways_of_working_it_out_agree(terms: DueTerms, original_cents: int, from_due: int) -> None:
    if day_amount.list_refused_terms(terms, original_cents, today=None):
        return
    day = terms.due_on + timedelta(days=from_due)
    assert day_amount.compute_amount(terms, original_cents, day) == work_out(terms, original_cents, day)


@given(terms=all_terms(), original_cents=ORIGINALS, from_due=st.integers(-60, 150))
def test_a_total_is_a_possible_amount_and_its_parts_sum(terms: DueTerms, original_cents: int, from_due: int) -> None:
    """Also of terms that are refused today: a stored charge may be older than a rule."""
    day = terms.due_on + timedelta(days=from_due)
    found = day_amount.compute_amount(terms, original_cents, day)
    assert 1 <= found.total_cents <= AMOUNT_MAX_CENTS
    added = found.original_cents + found.fine_cents + found.interest_cents
    assert found.total_cents == added - found.rebate_cents - found.discount_cents
    assert min(found.fine_cents, found.interest_cents, found.rebate_cents, found.discount_cents) >= 0
    is_late = day > day_amount.find_due_day(terms)
    assert found.discount_cents == 0 if is_late else found.fine_cents == found.interest_cents == 0


@given(terms=all_terms(), original_cents=ORIGINALS, late=st.integers(1, 60), later=st.integers(0, 60))
def test_a_later_day_is_never_cheaper_once_late(terms: DueTerms, original_cents: int, late: int, later: int) -> None:
    due_day = day_amount.find_due_day(terms)
    first = day_amount.compute_amount(terms, original_cents, due_day + timedelta(days=late))
    assert (
        day_amount.compute_amount(terms, original_cents, due_day + timedelta(days=late + later)).total_cents
        >= first.total_cents
    )
    assert first.total_cents >= day_amount.compute_amount(terms, original_cents, due_day).total_cents


@given(terms=all_terms(), original_cents=ORIGINALS, from_due=st.integers(-60, 10))
def test_no_discount_is_given_after_its_date(terms: DueTerms, original_cents: int, from_due: int) -> None:
    day = terms.due_on + timedelta(days=from_due)
    found = day_amount.compute_amount(terms, original_cents, day)
    if terms.discount is not None and terms.discount.dated and found.discount_cents:
        assert day <= max(roll(each.until) for each in terms.discount.dated)
    if day >= day_amount.find_due_day(terms) and terms.discount is not None and not terms.discount.dated:
        assert found.discount_cents == 0
