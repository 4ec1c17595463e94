"""Dates in OFX of banks: the day in Sao Paulo, no date, or an error if it is ambiguous."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from pixconnect.features.institutions.statement_files.ofx_text import parse_date
from pixconnect.features.institutions.statement_files.statement_file import InvalidStatement

BRT = timezone(timedelta(hours=-3))


@pytest.mark.parametrize(
    ("told", "day", "settled_at"),
    [
        ("20261102", date(2026, 11, 2), None),
        ("20261102000000[-3:BRT]", date(2026, 11, 2), None),
        ("20261102000000[-03:EST]", date(2026, 11, 2), None),
        ("20261102000000.000[0:GMT]", date(2026, 11, 2), None),
        ("20261102000000Z", date(2026, 11, 2), None),
        ("20261102101112[-3:GMT]", date(2026, 11, 2), datetime(2026, 11, 2, 10, 11, 12, tzinfo=BRT)),
        ("20261102101112.500 [-3]", date(2026, 11, 2), datetime(2026, 11, 2, 10, 11, 12, 500_000, tzinfo=BRT)),
        ("20261102013000[0:GMT]", date(2026, 11, 1), datetime(2026, 11, 2, 1, 30, tzinfo=UTC)),
        ("20261102120000", date(2026, 11, 2), None),
        ("202611021200", date(2026, 11, 2), None),
        ("20261102120000.000 GMT", date(2026, 11, 2), datetime(2026, 11, 2, 12, tzinfo=UTC)),
        ("20261102013000 UTC", date(2026, 11, 1), datetime(2026, 11, 2, 1, 30, tzinfo=UTC)),
        ("20261102013000Z", date(2026, 11, 1), datetime(2026, 11, 2, 1, 30, tzinfo=UTC)),
        ("20261102150000.000[+0000]", date(2026, 11, 2), datetime(2026, 11, 2, 15, tzinfo=UTC)),
        ("20261102101112[-0300]", date(2026, 11, 2), datetime(2026, 11, 2, 10, 11, 12, tzinfo=BRT)),
        ("20261102101112-03:00", date(2026, 11, 2), datetime(2026, 11, 2, 10, 11, 12, tzinfo=BRT)),
        ("20261102101112 [-03:00:BRT]", date(2026, 11, 2), datetime(2026, 11, 2, 10, 11, 12, tzinfo=BRT)),
        ("20261102101112[-3:BRT", date(2026, 11, 2), datetime(2026, 11, 2, 10, 11, 12, tzinfo=BRT)),
        ("20261102101112[BRT]", date(2026, 11, 2), datetime(2026, 11, 2, 10, 11, 12, tzinfo=BRT)),
        ("2026-11-02T10:11:12-03:00", date(2026, 11, 2), datetime(2026, 11, 2, 10, 11, 12, tzinfo=BRT)),
        ("2026-11-02", date(2026, 11, 2), None),
        ("02/11/2026", date(2026, 11, 2), None),
        ("02/11/2026 10:11:12", date(2026, 11, 2), None),
        # Even with an unreadable time or zone, the day is certain.
        ("2026110215034[-3:GMT]", date(2026, 11, 2), None),
        ("20261102250000", date(2026, 11, 2), None),
        ("20261102120000[-30:X]", date(2026, 11, 2), None),
        ("20261102120000[x]", date(2026, 11, 2), None),
    ],
)
def test_a_day_is_the_day_in_sao_paulo(told: str, day: date, settled_at: datetime | None) -> None:
    assert parse_date(told, "DTPOSTED", 1) == (day, settled_at)


@pytest.mark.parametrize("told", ["010726", "01/07/26", "1-7-26", "202607", "010726 12:00", "01/07/26 12:00"])
def test_what_could_be_two_days_is_refused(told: str) -> None:
    with pytest.raises(InvalidStatement, match=r"^line 7: DTEND: '.*' could be more than one day$"):
        parse_date(told, "DTEND", 7)


@pytest.mark.parametrize(
    "told",
    ["", "00000000", "0", "00/00/0000", "N/A", "20261302", "20260631", "00010101", "99991231", "31/06/2026", "2026110",
     "2 de julho", "2026", "A1"],
)  # fmt: skip
def test_what_names_no_day_tells_none(told: str) -> None:
    assert parse_date(told, "DTEND", 7) is None
