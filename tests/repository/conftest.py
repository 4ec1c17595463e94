"""These tests parse sources."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_garbage_is_collected() -> Iterator[None]:
    """CPython 3.11 fails to parse when a collection in the middle of it parses too.

    A task that an earlier test left with an error does that: it logs the error as it is collected, and a traceback parses the
    lines that it shows.
    """
    gc.disable()
    yield
    gc.enable()
