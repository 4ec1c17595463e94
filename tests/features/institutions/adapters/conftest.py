from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pixconnect.doors.api.operation import Services
from pixconnect.features.institutions.rules.institution import Institution
from support import postgres
from support.account_there import AccountThere, open_account_there
from support.faces import Bank, Control, open_bank


@pytest.fixture
async def control() -> Control:
    return Control()


@pytest.fixture
async def bank(database: postgres.Addresses, services: Services, control: Control) -> AsyncIterator[Bank]:
    async with open_bank(database, services, control=control) as opened:
        yield opened


@pytest.fixture
async def there(bank: Bank, name: str, tmp_path: Path) -> AsyncIterator[AccountThere]:
    """An account at the institution that the test's fixture or parameter ``name`` names."""
    async with open_account_there(bank, name, tmp_path) as opened:
        yield opened


@pytest.fixture
async def institution(there: AccountThere) -> Institution:
    return there.institution
