from collections.abc import AsyncIterator

import pytest

from pixconnect.doors.api.operation import Services
from support import postgres
from support.faces import Bank, open_bank


@pytest.fixture
async def bank(database: postgres.Addresses, services: Services) -> AsyncIterator[Bank]:
    async with open_bank(database, services) as opened:
        yield opened
