"""Fixtures: a service that signs, with a clock moved by hand; one in live mode, and its account at an institution."""

from collections.abc import AsyncIterator

import pytest

from pixconnect.features.identity.service.keyring import Keyring
from pixconnect.kernel.flows.context import Context
from support import identity
from support.account_shop import Shop, open_shop
from support.fake_institution import FakeInstitution
from support.postgres import Addresses, make_live
from support.service import FakeClock, Service, open_service


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(monotonic_s=0.0)


@pytest.fixture
async def context(database: Addresses, clock: FakeClock) -> AsyncIterator[Context]:
    async with identity.open_context(database, clock) as opened:
        yield opened


@pytest.fixture
async def keyring(context: Context) -> Keyring:
    return await identity.start_keyring(context)


@pytest.fixture
async def live(database: Addresses) -> AsyncIterator[Service]:
    await make_live(database)
    async with open_service(database, is_sandbox=False, has_rail=False) as opened:
        yield opened


@pytest.fixture
def there(live: Service) -> FakeInstitution:
    return FakeInstitution(live.clock)


@pytest.fixture
async def shop(live: Service, there: FakeInstitution) -> Shop:
    return await open_shop(live, there)
