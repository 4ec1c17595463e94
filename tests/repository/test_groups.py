"""Tests of one group share what they start, so xdist must see the groups: its mark is part of a test's id."""

import os

import pytest


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="one process has no groups")
@pytest.mark.xdist_group("a group")
def test_a_group_is_seen(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("loadgroup", default=False):
        assert request.node.nodeid.endswith("@a group")
