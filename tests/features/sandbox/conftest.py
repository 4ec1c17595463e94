from collections.abc import AsyncIterator

import pytest

from support import sandbox as support
from support.postgres import Addresses
from support.sandbox import Sandbox


@pytest.fixture
async def sandbox(database: Addresses) -> AsyncIterator[Sandbox]:
    async with support.running(database.service_url) as running:
        yield running
