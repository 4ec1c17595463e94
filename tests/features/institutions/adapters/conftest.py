from collections.abc import AsyncIterator

import pytest

from features.faces.test_face_fault import Control
from pixconnect.doors.api.operation import Services
from support import postgres
from support.faces import Bank, open_bank


@pytest.fixture
async def control() -> Control:
    return Control()


@pytest.fixture
async def bank(database: postgres.Addresses, services: Services, control: Control) -> AsyncIterator[Bank]:
    async with open_bank(database, services, control=control) as opened:
        yield opened
