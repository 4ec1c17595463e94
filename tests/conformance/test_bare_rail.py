"""A rail without any optional ability, which accepts money in two steps, passes the conformance suite too."""

from collections.abc import AsyncIterator

import pytest

from conformance.rail import RailConformance
from conformance.sandbox_under_test import SandboxUnderTest, open_sandbox
from support.bare_rail import BareRail
from support.postgres import Addresses


@pytest.fixture
async def under(database: Addresses, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SandboxUnderTest]:
    async with open_sandbox(database, monkeypatch, BareRail, two_steps_ms=30) as under:
        yield under


class TestBareRail(RailConformance):
    """The conformance suite."""
