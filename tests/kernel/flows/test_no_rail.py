"""Live mode without a rail: nothing is sent, and nothing is taken as failed."""

import pytest

from pixconnect.kernel.flows.no_rail import NoRail
from pixconnect.kernel.rules.rail import NotTaken, Rail, RailUnavailable
from support.service import STARTED_AT


async def test_what_is_submitted_certainly_never_left() -> None:
    rail: Rail = NoRail()
    assert await rail.submit([]) == []
    assert await rail.submit([object()]) == [NotTaken()]  # type: ignore[list-item]
    assert await rail.submit_refunds([object()]) == [NotTaken()]  # type: ignore[list-item]


async def test_whatever_asks_is_told_that_nobody_is_there() -> None:
    rail: Rail = NoRail()
    questions = (rail.lookup_key("a", "b", "c"), rail.query(["a"]), rail.acknowledge([]), rail.position(), rail.check())
    for question in questions:
        with pytest.raises(RailUnavailable):
            await question
    with pytest.raises(RailUnavailable):
        await anext(rail.statement(STARTED_AT, STARTED_AT))
    assert await rail.reports(0) == []
