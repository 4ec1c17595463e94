"""A loss of the database that is seen pauses every account, once, until an operator resumes each."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from pixconnect.domain.frame import errors
from pixconnect.foundation.pool import open_pool
from pixconnect.usecases.frame.server_watch import ServerWatch
from pixconnect.usecases.institutions import account as account_usecases
from pixconnect.usecases.running.health import check_accounts
from support.account_shop import open_shop
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.postgres import Addresses
from support.service import Service


async def start(database: Addresses) -> None:
    """A process of the service begins."""
    watch = ServerWatch(has_rail=False)
    pool = await open_pool(
        database.service_url,
        role="pixconnect_service",
        schema="pixconnect",
        connections_max=1,
        name="test",
        look=watch.look,
    )
    try:
        async with pool.acquire() as connection:
            await watch.begin(connection)
    finally:
        await pool.close()


@pytest.mark.parametrize("seen", ["system_identifier", "timeline", "database_oid", "tables_oid"])
async def test_a_loss_that_is_seen_pauses_all_accounts_until_each_is_resumed(
    live: Service, there: FakeInstitution, database: Addresses, seen: str
) -> None:
    shop = await open_shop(live, there)
    operator = as_operator(live.context)
    await start(database)
    await check_accounts(shop.context)
    await live.execute_as_owner(f"update installation set {seen} = {seen} - 1")
    with capture_logs() as logs:
        await start(database)
        # Whoever begins after that finds it done.
        await start(database)
    (line,) = [line for line in logs if line["log_level"] == "critical"]
    assert line["accounts_count"] == 1
    account = (await account_usecases.read_account(operator, "loja")).account
    assert (account.state, account.paused_because) == ("paused", line["seen"])
    with pytest.raises(errors.ServiceUnavailable, match="1 account at an institution is paused since"):
        await check_accounts(shop.context)
    # Pausing it again takes the reason from nobody.
    await account_usecases.set_state(operator, "loja", "paused")
    assert (await account_usecases.read_account(operator, "loja")).account.paused_because
    resumed = await account_usecases.set_state(operator, "loja", "active")
    assert (resumed.state, resumed.paused_because) == ("active", None)
    await start(database)
    await check_accounts(shop.context)
    assert (await account_usecases.read_account(operator, "loja")).account.state == "active"


async def test_a_restart_that_loses_nothing_pauses_nothing(
    live: Service, there: FakeInstitution, database: Addresses
) -> None:
    await open_shop(live, there)
    await start(database)
    await live.execute_as_owner("update installation set started_at = started_at - interval '1 hour'")
    await start(database)
    assert (await account_usecases.read_account(as_operator(live.context), "loja")).account.state == "active"
