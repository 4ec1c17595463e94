"""What journeys share."""

from collections.abc import Iterator

import pytest

from support.installation import Installation, running_in_new_home


@pytest.fixture(scope="session")
def service() -> Iterator[Installation]:
    """One for all journeys of a program that calls for the demonstration's holder: they are the group `programs`."""
    with running_in_new_home() as installation:
        yield installation
