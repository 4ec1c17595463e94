"""Fixtures of journeys."""

from collections.abc import AsyncIterator, Iterator

import pytest

from pixconnect.doors.api.operation import Services
from support import postgres
from support.faces import Bank, Control, open_bank
from support.installation import Installation, running_in_new_home
from support.two_books import MonthClock


@pytest.fixture(scope="session")
def service() -> Iterator[Installation]:
    """One for all programs that use the demonstration's holder: they are the group `programs`."""
    with running_in_new_home() as installation:
        yield installation


@pytest.fixture
def clock() -> MonthClock:
    return MonthClock()


@pytest.fixture
def control() -> Control:
    return Control()


@pytest.fixture
async def bank(database: postgres.Addresses, services: Services, clock: MonthClock, control: Control) -> AsyncIterator[Bank]:
    async with open_bank(database, services, clock, control) as opened:
        yield opened
