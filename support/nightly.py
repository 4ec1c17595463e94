"""Marks what is run once a night and before a release, and not before each change (``make test-nightly``)."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet


def nightly(*values: object) -> ParameterSet:
    """One more case of a test whose others, or one of them, are run before each change."""
    return pytest.param(*values, marks=pytest.mark.nightly)
