"""Filters with operators, as people write them."""

from datetime import UTC, datetime, timedelta

import pytest

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.wanted import read_amounts, read_instants


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("7,50", 750, 750),
        ("=7,50", 750, 750),
        (">=100", 10000, None),
        ("> 100,00", 10001, None),
        ("<5", None, 499),
        ("<= R$ 1.234,56", None, 123456),
        ("10..20", 1000, 2000),
        ("0,01 .. 9.999.999.999,99", 1, 999_999_999_999),
        ("12.34", 1234, 1234),
    ],
)
def test_an_amount_is_read_with_its_operator(text: str, low: int | None, high: int | None) -> None:
    assert read_amounts(text) == (low, high)


@pytest.mark.parametrize("text", ["", "abc", ">", "1,2", "20..10", "..", "1..", "-5", "99999999999", "1e3", "٣", ">>5"])
def test_an_amount_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(errors.BadRequest, match=r"^amount: "):
        read_amounts(text)


# Sao Paulo is three hours behind UTC.
DAY = datetime(2026, 11, 3, 3, tzinfo=UTC)
END = datetime(2026, 11, 4, 2, 59, 59, 999_999, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("2026-11-03", DAY, END),
        (">=2026-11-03", DAY, None),
        (">2026-11-03", END.replace(microsecond=0, second=0, minute=0, hour=3), None),
        ("<=2026-11-03", None, END),
        ("2026-11-03..2026-11-03", DAY, END),
        ("2026-11-03 00:00..2026-11-03T12:30", DAY, datetime(2026, 11, 3, 15, 30, 59, 999_999, tzinfo=UTC)),
        (">=2026-11-03T12:00:00Z", datetime(2026, 11, 3, 12, tzinfo=UTC), None),
    ],
)
def test_an_instant_is_of_sao_paulo_with_its_operator(text: str, low: datetime | None, high: datetime | None) -> None:
    assert read_instants(text) == (low, high)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "2026-02-30", "0001-01-01", "2026-11-04..2026-11-03"])
def test_an_instant_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(errors.BadRequest, match=r"^instant: "):
        read_instants(text)


@pytest.mark.parametrize(
    ("day", "hours"), [("2018-12-21", 24), ("2018-11-04", 23), ("2018-02-17", 25), ("2026-12-21", 24)]
)
def test_a_day_is_as_long_as_it_was_in_sao_paulo(day: str, hours: int) -> None:
    low, high = read_instants(day)
    assert low is not None
    assert high is not None
    assert high - low == timedelta(hours=hours) - timedelta(microseconds=1)


def test_the_days_of_a_summer_before_2019_begin_an_hour_earlier() -> None:
    assert read_instants(">=2018-12-21")[0] == datetime(2018, 12, 21, 2, tzinfo=UTC)
    assert read_instants(">=2026-12-21")[0] == datetime(2026, 12, 21, 3, tzinfo=UTC)
