"""A day is closed by its balances and matched lines, and opens again."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixconnect.features.institutions.rules.day import (
    BalanceGap,
    DayBalances,
    DayCases,
    DaySums,
    ItemGroup,
    JudgedDay,
    find_gaps,
    judge_days,
    sum_groups,
)

DAY = date(2026, 11, 2)
NOW = datetime(2026, 11, 10, 12, tzinfo=UTC)
KINDS = ["pix", "refund", "fee", "wire", "boleto", "by_hand", "reversal", "judicial", "other"]


def a_group(cents: int, kind: str = "pix", *, is_return: bool = False) -> ItemGroup:
    direction: Any = "IN" if cents > 0 else "OUT"
    return ItemGroup(day=DAY, direction=direction, kind=kind, is_return=is_return, amount_cents=abs(cents), items_count=1)


def sums_of(cents: int) -> DaySums:
    return sum_groups([a_group(cents)] if cents else [])


def judge(*told: DayBalances, nets: dict[date, int] | None = None, now: datetime = NOW, **cases: int) -> list[JudgedDay]:
    sums = {day: sums_of(cents) for day, cents in (nets or {DAY: 100}).items()}
    return judge_days(told, sums, {DAY: DayCases(**cases)}, now)


def told(
    opening: int | None = 1000, closing: int | None = 1100, day: date = DAY, read_at: datetime | None = NOW
) -> DayBalances:
    return DayBalances(day=day, opening_cents=opening, closing_cents=closing, read_at=read_at)


@pytest.mark.parametrize(
    ("balances", "now", "cases", "state"),
    [
        (told(), NOW, {}, "closed"),
        (told(), NOW, dict(items_count=1), "closed_with_cases"),
        (told(), NOW, dict(lines_count=1), "closed_with_cases"),
        (told(), NOW, dict(items_count=1, doubts_count=1), "provisional"),
        (told(closing=1101), NOW, {}, "open"),
        (told(read_at=None), NOW, {}, "open"),
        (told(opening=None, closing=None), NOW, {}, "provisional"),
        # A balance that is computed from the items proves nothing.
        (told(opening=None), NOW, {}, "provisional"),
        (told(closing=None), NOW, {}, "provisional"),
        # It is still the second in Sao Paulo, then it is the third.
        (told(read_at=datetime(2026, 11, 3, 2, 59, tzinfo=UTC)), NOW, {}, "provisional"),
        (told(read_at=datetime(2026, 11, 3, 3, 0, tzinfo=UTC)), NOW, {}, "closed"),
        (told(), datetime(2026, 11, 3, 2, 59, tzinfo=UTC), {}, "provisional"),
    ],
)
def test_the_state_of_a_day(balances: DayBalances, now: datetime, cases: dict[str, int], state: str) -> None:
    assert [day.state for day in judge(balances, now=now, **cases)] == [state]


def test_balances_are_carried_from_day_to_day() -> None:
    days = [DAY + timedelta(days=number) for number in range(3)]
    balances = [told(day=day, opening=1000 if day == DAY else None, closing=None) for day in days]
    nets = dict(zip(days, (100, 0, -50), strict=True))
    judged = judge(*reversed(balances), nets=nets)
    assert [(day.opening_cents, day.closing_cents) for day in judged] == [(1000, 1100), (1100, 1100), (1100, 1050)]
    assert {day.state for day in judged} == {"provisional"}
    later = told(day=days[-1] + timedelta(days=1), opening=1050, closing=None)
    judged = judge(*balances, later, nets=nets)
    assert [day.state for day in judged] == ["closed", "closed", "closed", "provisional"]
    judged = judge(*balances, told(day=later.day, opening=1051, closing=None), nets=nets)
    assert [day.state for day in judged] == ["provisional", "provisional", "provisional", "open"]
    # The sums of a day after a doubtful or an unfinished one prove nothing either, until the next reported balance.
    assert {day.state for day in judge(*balances, later, nets=nets, doubts_count=1)} == {"provisional"}
    early = told(opening=None, closing=None, day=days[1], read_at=NOW - timedelta(days=7))
    assert judge(balances[0], early, *balances[2:], later, nets=nets)[0].state == "provisional"
    judged = judge(balances[0], told(opening=1100, closing=None, day=days[1]), *balances[2:], later, nets=nets, doubts_count=1)
    assert [day.state for day in judged] == ["provisional", "closed", "closed", "provisional"]


def test_a_balance_at_the_end_tells_what_the_first_day_began_with() -> None:
    after = DAY + timedelta(days=1)
    judged = judge(told(opening=None, closing=None), told(day=after, opening=None, closing=1150), nets={DAY: 100, after: 50})
    assert [(day.opening_cents, day.closing_cents) for day in judged] == [(1000, 1100), (1100, 1150)]
    assert {day.difference_cents for day in judged} == {None}


def test_a_line_that_is_missing_shows_where_the_next_balance_is_told() -> None:
    after = DAY + timedelta(days=1)
    judged = judge(told(closing=None), told(day=after, opening=None, closing=1160), nets={DAY: 100, after: 50})
    assert [(day.state, day.difference_cents) for day in judged] == [("provisional", None), ("open", 10)]
    judged = judge(told(), told(day=after, opening=1099, closing=None), nets={DAY: 100, after: 50})
    assert [(day.state, day.difference_cents) for day in judged] == [("closed", 0), ("open", -1)]
    later = told(day=after + timedelta(days=1), opening=None, closing=1070)
    judged = judge(told(closing=None), told(day=after, opening=1070, closing=None), later, nets={DAY: 100})
    assert [day.difference_cents for day in judged] == [None, -30, 0]


@pytest.mark.parametrize("opening", [1100, None])
def test_a_gap_between_equal_balances_is_empty(opening: int | None) -> None:
    later, nets = DAY + timedelta(days=3), {DAY: 100, DAY + timedelta(days=3): 5}
    for closing in (1100, None):
        judged = judge(told(closing=closing), told(day=later, opening=opening, closing=1105), nets=nets)
        assert [(day.day.day, day.state) for day in judged] == [(2, "closed"), (3, "closed"), (4, "closed"), (5, "closed")]
        assert ({day.opening_cents for day in judged[1:]}, find_gaps(judged, ())) == ({1100}, [])
    assert [day.state for day in judge(told(), told(day=later, opening=None, closing=None))] == ["closed", "provisional"]
    judged = judge(told(), told(day=later, opening=opening, closing=1106), nets=nets)
    assert (judged[-1].state != "closed", len(find_gaps(judged, ()))) == (True, opening is None)


@pytest.mark.parametrize("opening", [1050, None])
def test_recorded_lines_of_a_gap_connect_its_balances(opening: int | None) -> None:
    days = [DAY + timedelta(days=number) for number in range(4)]
    unread = told(day=days[2], opening=None, closing=None, read_at=None)
    balances = told(closing=None), unread, told(day=days[3], opening=opening, closing=1055)
    sums = {DAY: sums_of(100), days[2]: sums_of(-50), days[3]: sums_of(5)}
    judged = judge_days(balances, sums, {days[2]: DayCases(items_count=1)}, NOW)
    assert [day.state for day in judged] == ["closed", "closed", "closed_with_cases", "closed"]
    assert [day.closing_cents for day in judged] == [1100, 1100, 1050, 1055]
    # A doubtful line may be a part of the change, and may not.
    judged = judge_days(balances, sums, {days[2]: DayCases(doubts_count=1)}, NOW)
    assert [day.state for day in judged] == ["provisional", "open", "closed" if opening else "provisional"]
    assert judge_days(balances, sums | {days[2]: sums_of(-51)}, {}, NOW)[1].state == "open"


def test_a_gap_asks_for_a_file_unless_a_day_of_it_or_a_line_beside_it_is_asked_about() -> None:
    days = [DAY + timedelta(days=number) for number in range(4)]
    later, last = (told(day=DAY + timedelta(days=n), opening=1050, closing=1055) for n in (4, 3))
    judged = judge(told(), told(day=days[2], opening=None, closing=None), later, nets={DAY: 100})
    assert find_gaps(judged, ()) == [BalanceGap(days[1], days[3], 1100, 1050)]
    balances = told(), told(day=days[2], opening=None, closing=None, read_at=None), last
    judged = judge(*balances, nets={DAY: 100, days[3]: 5, days[2]: -20})
    assert (find_gaps(judged, days[3:]), find_gaps(judged, days[1:2])) == ([BalanceGap(days[1], days[2], 1100, 1050, -20)], [])
    # The end of a day that was read at noon is not known: the gap begins with it.
    at_noon = judge(told(read_at=NOW - timedelta(days=8)), *balances[1:], nets={DAY: 100, days[3]: 5, days[2]: -20})
    assert find_gaps(at_noon, days[3:]) == [BalanceGap(days[0], days[2], 1000, 1050, 80)]
    assert find_gaps(judge(*balances, nets={DAY: 100, days[3]: 5, days[2]: -50}), ()) == []
    assert find_gaps(judge(*balances, nets={DAY: 100, days[3]: 5}, doubts_count=1), ()) == []


def test_what_a_day_moved_has_four_parts() -> None:
    groups = [
        a_group(1000), a_group(-50, "fee"), a_group(20, "fee"), a_group(-300, "refund"),
        a_group(-70, "other", is_return=True), a_group(-200), a_group(40, "wire"), a_group(5, "refund"),
    ]  # fmt: skip
    found = sum_groups(groups)
    assert found == DaySums(gross_cents=1000, fees_cents=30, returns_cents=370, others_cents=-155, net_cents=445, items_count=8)


@given(st.lists(st.tuples(st.integers(-1000, 1000).filter(bool), st.sampled_from(KINDS), st.booleans()), max_size=12))
def test_the_parts_of_a_day_are_the_whole(drawn: list[tuple[int, str, bool]]) -> None:
    found = sum_groups([a_group(cents, kind, is_return=is_return) for cents, kind, is_return in drawn])
    assert found.gross_cents - found.fees_cents - found.returns_cents + found.others_cents == found.net_cents
    assert found.net_cents == sum(cents for cents, _, _ in drawn)
