"""Calls of the rail are counted, and pass unchanged."""

from datetime import UTC, datetime

import pytest

from pixconnect.features.monitoring.worker import CountingRail, RailFigures
from pixconnect.kernel.rules import rail as rails
from support.records import outside_party
from support.service import FakeRail

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def make_order(number: int) -> rails.Order:
    return rails.Order(
        end_to_end_id=f"E{number:031}", amount_cents=1, debit_party=outside_party(), credit_party=outside_party(),
        initiation_type="MANUAL", txid=None, ordered_at=NOW,
    )  # fmt: skip


def make_refund(number: int) -> rails.RefundOrder:
    return rails.RefundOrder(
        return_id=f"D{number:031}", original_end_to_end_id=f"E{number:031}", amount_cents=1, reason="MD06",
        description=None, ordered_at=NOW,
    )  # fmt: skip


class ReportingRail(FakeRail):
    """Reports one settlement, and again, and one rejection."""

    async def reports(self, wait_s: float) -> list[rails.Report]:
        settled = rails.SettledReport(report_id="1", id="E1", settled_at=NOW)
        return [settled, settled, rails.RejectedReport(report_id="2", id="E2", code="AC03", reason="no such account")]


async def test_every_answer_is_counted_and_passed_on() -> None:
    figures, inner = RailFigures(), ReportingRail()
    rail: rails.Rail = CountingRail(inner, figures)
    answers: list[rails.SubmitAnswer] = [rails.Taken(), rails.Settled(settled_at=NOW), rails.NotTaken(), rails.Taken()]
    inner.answer(*answers)
    assert await rail.submit([make_order(number) for number in range(3)]) == answers[:3]
    assert await rail.submit_refunds([make_refund(1)]) == answers[3:]
    assert figures.submissions == {
        ("transfer", "taken"): 1, ("transfer", "settled"): 1, ("transfer", "not_taken"): 1, ("refund", "taken"): 1,
    }  # fmt: skip
    assert await rail.query(["E1", "E2"]) == [rails.Unknown(), rails.Unknown()]
    assert len(await rail.reports(0)) == 3
    await rail.acknowledge([rails.Acknowledgement(report_id="1"), rails.Acknowledgement(report_id="2", refusal_code="AC06")])
    assert [said.report_id for said in inner.acknowledged] == ["1", "2"]
    assert figures.questions == {"unknown": 2}
    assert figures.reports == {"settled": 2, "rejected": 1}
    assert figures.acknowledgements == {"accepted": 1, "refused": 1}


async def test_a_rail_that_gives_no_answer_is_counted_and_heard_of() -> None:
    figures, inner = RailFigures(), FakeRail()
    rail = CountingRail(inner, figures)
    inner.is_reachable = False
    with pytest.raises(rails.RailUnavailable):
        await rail.query(["E1", "E2"])
    with pytest.raises(rails.RailUnavailable):
        await rail.acknowledge([rails.Acknowledgement(report_id="1")])
    with pytest.raises(rails.RailUnavailable):
        await rail.check()
    assert figures.questions == {"unavailable": 2}
    assert figures.acknowledgements == {}
