"""The sandbox's adapter passes the conformance suite over HTTP."""

from collections.abc import AsyncIterator

import pytest

from conformance.rail import RailConformance
from conformance.sandbox_under_test import SandboxUnderTest, open_sandbox
from conformance.under_test import RailUnderTest
from pixconnect.features.sandbox.rail import SandboxRail
from support.postgres import Addresses


@pytest.fixture
async def under(database: Addresses, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SandboxUnderTest]:
    async with open_sandbox(database, monkeypatch, SandboxRail) as under:
        yield under


class TestSandboxRail(RailConformance):
    """The conformance suite."""


async def test_what_is_run_is_a_rail_under_test(under: SandboxUnderTest) -> None:
    is_one: RailUnderTest = under
    assert is_one.rail is not None
