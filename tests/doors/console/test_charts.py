"""The bars of charts match their numbers."""

from datetime import UTC, datetime, timedelta

from pixconnect.features.console_pages import figures as charts
from pixconnect.features.monitoring.rules import Series, spread

_NOON = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)


def test_steps_begin_with_whole_hours_and_days_of_the_zone() -> None:
    hours = charts.list_steps(_NOON, _NOON + timedelta(hours=2), "hour", lambda at: at)
    assert [at.hour for at in hours] == [12, 13, 14]
    days = charts.list_steps(_NOON, _NOON + timedelta(days=1), "day", lambda at: at)
    assert [(at.day, at.hour) for at in days] == [(21, 0), (22, 0)]


def test_states_stand_on_each_other_and_whatever_is_there_is_seen() -> None:
    hour = _NOON.replace(minute=0)
    series = [
        Series(kind="charge", status="PENDING", points=((hour, 1),)),
        Series(kind="charge", status="APPROVED", points=((hour, 4000), (hour + timedelta(hours=1), 2000))),
    ]
    chart = charts.stack(series, ("APPROVED", "PENDING", "EXPIRED"), [hour, hour + timedelta(hours=1)], lambda at: f"{at:%H}")
    assert chart.statuses == ("APPROVED", "PENDING")
    assert chart.totals == {"APPROVED": 6000, "PENDING": 1}
    (approved, pending), (later,) = (bar.parts for bar in chart.bars)
    assert approved.y + approved.height == chart.base
    assert pending.y + pending.height == approved.y
    assert pending.height == 1
    assert abs(later.height - approved.height / 2) < 0.1
    assert [value for _, value in chart.lines] == [0, 2000, 4000, 6000, 8000]


def test_nothing_is_drawn_without_a_fall() -> None:
    assert charts.stack([], ("APPROVED",), [], lambda at: "").bars == ()
    found = spread([1_500, 40_000])
    assert found is not None
    chart = charts.spread_out(found, str, "delivered")
    assert [sum(part.count for part in bar.parts) for bar in chart.bars] == [1, 0, 0, 0, 1]
