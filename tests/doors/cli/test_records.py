"""What all verbs of a holder share."""

from datetime import UTC, datetime

import pytest
from msgspec import Struct

from pixconnect.doors.cli import records
from pixconnect_client import Refund
from pixconnect_client.enums import Direction, RefundReason, RefundStatus

AT = datetime(2026, 11, 23, tzinfo=UTC)


def make(refund_id: int, status: RefundStatus) -> Refund:
    return Refund(
        id=refund_id, return_identification=f"D{refund_id}", original_end_to_end_id="E1", correlation_id="1", amount=700,
        status=status, flow=Direction.OUT, reason=RefundReason.MD06, create_timestamp=AT, last_modified=AT,
    )  # fmt: skip


def test_what_goes_from_one_list_to_the_next_while_they_are_read_counts_once_and_as_it_was_last() -> None:
    under_way = [make(2, RefundStatus.PROCESSING), make(1, RefundStatus.PROCESSING)]
    returned = [make(3, RefundStatus.RETURNED), make(2, RefundStatus.RETURNED)]

    lists = {"PROCESSING": under_way, "RETURNED": returned}
    assert records.read_each(lambda status, **_: lists[status], [*lists], 10) == [under_way[1], *returned]


def test_no_more_of_each_list_is_read_than_was_asked_for() -> None:
    endless = (make(refund_id, RefundStatus.RETURNED) for refund_id in range(10**9))
    lists = {"RETURNED": endless, "ERROR": [make(7, RefundStatus.ERROR)]}
    found = records.read_each(lambda status, **_: lists[status], [*lists], 2)
    assert [refund.id for refund in found] == [0, 1, 7]


@pytest.mark.parametrize(
    ("text", "is_end", "read"),
    [
        ("2026-11-20", False, "2026-11-20T03:00:00+00:00"),
        ("2026-11-20", True, "2026-11-21T02:59:59.999999+00:00"),
        ("2026-11-20 09:30", True, "2026-11-20T12:30:00+00:00"),
        ("2026-11-20T09:30:00Z", False, "2026-11-20T09:30:00+00:00"),
        ("2026-11-20 09:30:00-03", False, "2026-11-20T12:30:00+00:00"),
        ("9999-12-31", True, "9999-12-31T23:59:59.999999+00:00"),
    ],
)
def test_a_day_or_time_without_an_offset_is_of_sao_paulo(text: str, is_end: bool, read: str) -> None:
    assert records.parse_instant("--since", text, is_end=is_end).isoformat() == read


def test_people_see_sao_paulo_and_scripts_utc(capsys: pytest.CaptureFixture[str]) -> None:
    class Dated(Struct):
        at: datetime
        event: dict[str, str]

    dated = Dated(AT, {"create_timestamp": "2026-07-01T01:00:00.000000Z", "late_timestamp": "-"})
    records.show(dated, as_json=False)
    assert capsys.readouterr().out == (
        "at: 2026-11-22 21:00:00-03\nevent.create_timestamp: 2026-06-30 22:00:00-03\nevent.late_timestamp: -\n"
    )
    records.show(Dated(AT, {}), as_json=True)
    assert capsys.readouterr().out == '{"at":"2026-11-23T00:00:00.000000Z","event":{}}\n'


def test_all_money_of_an_infraction_is_shown_alike(capsys: pytest.CaptureFixture[str]) -> None:
    class Contested(Struct):
        amount: int
        held: int
        taken: int

    records.show(Contested(10_000, 6_000, 4_000), as_json=False)
    assert capsys.readouterr().out == "amount: R$ 100,00\nheld: R$ 60,00\ntaken: R$ 40,00\n"
