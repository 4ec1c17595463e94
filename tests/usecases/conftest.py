"""Fixtures of tests about identity: a service that signs, at a time that a test moves by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.identity.keyring import Keyring
from support import identity
from support.postgres import Addresses
from support.service import FakeClock


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
