from collections.abc import AsyncIterator

import pytest

from pixconnect.domain.access import Caller
from support.postgres import Addresses
from support.service import Service, open_holder, open_service


@pytest.fixture
async def service(database: Addresses) -> AsyncIterator[Service]:
    async with open_service(database) as opened:
        yield opened


@pytest.fixture
async def caller(service: Service) -> Caller:
    """A holder with R$ 10 000.00."""
    return await open_holder(service, funds_cents=1_000_000)
