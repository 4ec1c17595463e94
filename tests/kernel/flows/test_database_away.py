"""Answers while the database is away: 503 if nothing was done, and 504 if the outcome is unknown."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from pixconnect.platform.base import errors
from support.postgres import Addresses
from support.service import make_charge, open_holder, open_service


@asynccontextmanager
async def _made_a_standby(database: Addresses) -> AsyncIterator[None]:
    """What a failover leaves of a primary: it can be read and not written."""
    name = database.service_url.partition("@/")[2].partition("?")[0]
    owner = await asyncpg.connect(database.owner_url)
    try:
        await owner.execute(f"alter database {name} set default_transaction_read_only = on")
        yield
    finally:
        await owner.execute(f"alter database {name} reset all")
        await owner.close()


async def test_what_meets_a_standby_was_not_written(database: Addresses) -> None:
    async with open_service(database) as service:
        caller = await open_holder(service)
        await make_charge(service, caller, amount_cents=1)
        async with _made_a_standby(database):
            await service.context.pool.expire_connections()
            with pytest.raises(errors.ServiceUnavailable, match="nothing was done"):
                await make_charge(service, caller, amount_cents=2)
        await make_charge(service, caller, amount_cents=3)
