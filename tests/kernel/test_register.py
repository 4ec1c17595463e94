"""The register of rules: which row counts at an instant, and which rows are refused."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixconnect.kernel.register import ARRANGEMENT, is_outside_window, parse_register
from pixconnect.platform.base.clock import SAO_PAULO

HEAD = "rule,value,unit,since,clock,binds,stricter,standing,source,says"
OLD = "window,90,days,,the start,holder,none,cited,a page,How long"
NEW = "window,80,days,2026-09-01,the start,holder,none,cited,a page,How long"
ANY_INSTANT = st.datetimes(datetime(2020, 11, 16), datetime(2040, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  # the strategy adds the zone


def a_register(*rows: str) -> str:
    return "\n".join((HEAD, *rows))


@given(began_at=ANY_INSTANT)
def test_what_began_under_an_old_rule_ends_under_it(began_at: datetime) -> None:
    register = parse_register(a_register(OLD, NEW))
    is_old = began_at < datetime(2026, 9, 1, tzinfo=SAO_PAULO)
    assert register.find("window", began_at).duration == timedelta(days=90 if is_old else 80)


def test_a_rule_changes_at_midnight_in_sao_paulo() -> None:
    before, from_then_on = datetime(2026, 2, 2, 2, 59, 59, tzinfo=UTC), datetime(2026, 2, 2, 3, tzinfo=UTC)
    assert ARRANGEMENT.find("return_request", before).duration == timedelta(hours=72)
    assert ARRANGEMENT.find("return_request", from_then_on).duration == timedelta(hours=6)


def test_before_its_first_day_there_is_no_rule() -> None:
    with pytest.raises(LookupError, match="hops_followed on 2026-02-01"):
        ARRANGEMENT.find("hops_followed", datetime(2026, 2, 1, 12, tzinfo=UTC))
    with pytest.raises(LookupError, match="no_such_rule"):
        ARRANGEMENT.find("no_such_rule", datetime(2026, 2, 1, 12, tzinfo=UTC))


def test_a_rule_that_has_changed_is_no_constant() -> None:
    assert ARRANGEMENT.find_constant("settlement_deadline").duration == timedelta(seconds=40)
    with pytest.raises(LookupError, match="return_request has 2 rows"):
        ARRANGEMENT.find_constant("return_request")


def test_of_a_lifted_rule_nothing_is_left() -> None:
    lifted = ARRANGEMENT.find("proximity_amount", datetime(2026, 10, 2, tzinfo=UTC))
    assert lifted.unit == "lifted"
    with pytest.raises(LookupError, match="proximity_amount has no value since 2026-10-01"):
        lifted.read_value()


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        (OLD.replace("days", "fortnights"), "row 2: Invalid enum value 'fortnights'"),
        (OLD.replace("90", "ninety"), r"row 2: Expected `int.*at `\$.value`"),
        (OLD.replace(",90,", ",,"), "row 2: window: each unit needs a value"),
        (OLD.replace("days", "duty"), "row 2: window: each unit needs a value"),
        (OLD.replace(",,the", ",31/12/2026,the"), "row 2: Invalid RFC3339 encoded date"),
        (OLD.replace("holder", "everybody"), "row 2: Invalid enum value 'everybody'"),
    ],
)
def test_a_row_that_is_not_as_it_must_be_is_named(row: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_register(a_register(row))


def test_rows_of_a_rule_stand_in_the_order_of_their_days() -> None:
    with pytest.raises(ValueError, match="row 3: window is not after its former row"):
        parse_register(a_register(NEW, OLD))


def test_each_row_has_a_source_and_says_what_it_is() -> None:
    rows = [rule for rows in ARRANGEMENT.rows.values() for rule in rows]
    assert [rule.name for rule in rows if not (rule.source and rule.says)] == []
    assert [rule.name for rule in rows if rule.since < date(2020, 11, 16) and rule.since != date.min] == []
    # A rule with one source only is never enforced.
    assert [rule.name for rule in rows if rule.binds == "holder" and rule.standing == "one source"] == []


def test_a_name_is_good_for_twelve_hours_around_its_minute() -> None:
    name, minute = "E99999003202611241200abcdefghijk", datetime(2026, 11, 24, 12, tzinfo=UTC)
    window, moment = timedelta(hours=12), timedelta(microseconds=1)
    assert not is_outside_window(name, minute + window)
    assert not is_outside_window(name, minute - window)
    assert is_outside_window(name, minute + window + moment)
    assert is_outside_window(name, minute - window - moment)
