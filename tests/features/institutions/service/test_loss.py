"""After a detected loss of the database accounts are only read, until the lost movements are in the books."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from pixconnect.features.institutions.accounts import INSTITUTIONS
from pixconnect.features.institutions.rules.institution import InstitutionTraits
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service.loss import list_lost, recover_account
from pixconnect.features.institutions.service.open_accounts import at_account
from pixconnect.features.institutions.service.statement_sweep import note_listed
from pixconnect.features.institutions.service.sweep import sweep_due
from pixconnect.kernel.flows.server_watch import ServerWatch
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day
from support.account_shop import Shop, open_banco, open_shop
from support.fake_institution import FakeInstitution
from support.health import check_accounts
from support.operators import as_operator
from support.postgres import Addresses
from support.service import Service, open_watched_pool


async def start(database: Addresses) -> None:
    watch = ServerWatch(has_rail=False)
    pool = await open_watched_pool(database, watch, 1)
    try:
        async with pool.acquire() as connection:
            await watch.begin(connection)
    finally:
        await pool.close()


@pytest.mark.parametrize("seen", ["system_identifier", "timeline", "database_oid", "tables_oid"])
async def test_a_loss_pauses_accounts(live: Service, there: FakeInstitution, database: Addresses, seen: str) -> None:
    shop = await open_shop(live, there)
    operator = as_operator(live.context)
    await start(database)
    await check_accounts(shop.context)
    await live.execute_as_owner(f"update installation set {seen} = {seen} - 1")
    with capture_logs() as logs:
        await start(database)
        # A later process finds it done.
        await start(database)
    (line,) = [line for line in logs if line["log_level"] == "critical"]
    assert line["accounts_count"] == 1
    account = (await account_usecases.read_account(operator, "loja")).account
    assert (account.state, account.paused_because) == ("paused", line["seen"])
    with pytest.raises(errors.ServiceUnavailable, match="1 account at an institution is paused since"):
        await check_accounts(shop.context)
    await read_again(shop)
    recovered = await recover_account(operator, there.open, "loja", statement_was_read=True)
    assert (recovered.state, recovered.paused_because) == ("active", None)
    await start(database)
    await check_accounts(shop.context)
    assert (await account_usecases.read_account(operator, "loja")).account.state == "active"


async def test_nothing_leaves_until_all_is_read_and_an_operator_agrees(live: Service, there: FakeInstitution) -> None:
    shop = await open_shop(live, there)
    operator = as_operator(live.context)
    with pytest.raises(errors.BadRequest, match="nothing is known to be forgotten of loja"):
        await recover_account(operator, there.open, "loja", statement_was_read=True)
    await lose(live)
    with pytest.raises(errors.BadRequest, match="`pixconnect database recovered --institution loja` resumes it"):
        await account_usecases.set_state(operator, "loja", "active")
    with pytest.raises(errors.BadRequest, match=r"was not read whole \(near, wide, deep\) since"):
        await recover_account(operator, there.open, "loja", statement_was_read=True)
    await read_again(shop)
    with pytest.raises(errors.BadRequest, match=r"^statement_was_read: loja has no statement by API"):
        await recover_account(operator, there.open, "loja", statement_was_read=False)
    assert [account.name for account in await list_lost(operator)] == ["loja"]
    await recover_account(operator, there.open, "loja", statement_was_read=True)
    assert not await list_lost(operator)


@pytest.mark.parametrize("is_before", [True, False])
async def test_an_operators_pause_outlasts_a_loss(live: Service, there: FakeInstitution, is_before: bool) -> None:
    shop = await open_shop(live, there)
    operator = as_operator(live.context)
    await (account_usecases.set_state(operator, "loja", "paused") if is_before else lose(live))
    await (lose(live) if is_before else account_usecases.set_state(operator, "loja", "paused"))
    with pytest.raises(errors.ServiceUnavailable, match="1 account at an institution is paused since"):
        await check_accounts(shop.context)
    await read_again(shop)
    assert (await recover_account(operator, there.open, "loja", statement_was_read=True)).state == "paused"


async def lose(live: Service) -> None:
    await live.execute_as_owner(
        "insert into database_loss (reason, system_identifier, started_at, orders_count) values ('a test', 1, now(), 0)"
    )


async def read_again(shop: Shop) -> None:
    """Read as a worker that has just opened the account."""
    # The test's clock differs from the database's, which dates its observations.
    now = shop.live.clock.now().isoformat()
    await shop.live.execute_as_owner(f"update institution_account set lost_at = '{now}' where lost_at is not null")
    institutions: Any = shop.context.port(INSTITUTIONS)
    institutions.forget()
    assert await institutions.find(shop.account.id) is None, "callers find nothing to send over"
    opened = await institutions.find_read(shop.account.id)
    await sweep_due(at_account(shop.context, opened.account, shop.context.rail), opened.institution)


async def test_a_lossless_restart_pauses_nothing(live: Service, there: FakeInstitution, database: Addresses) -> None:
    await open_shop(live, there)
    await start(database)
    await live.execute_as_owner("update installation set started_at = started_at - interval '1 hour'")
    await start(database)
    assert (await account_usecases.read_account(as_operator(live.context), "loja")).account.state == "active"


async def test_where_no_name_of_ours_is_known_a_word_is_not_enough(live: Service, there: FakeInstitution) -> None:
    """A repetition of a lost request would be paid twice: only its line of the statement shows that it was paid."""
    shop = await open_shop(live, there)
    there.traits = InstitutionTraits(sends=("KEY",), names_first=True)
    operator = as_operator(live.context)
    await lose(live)
    await read_again(shop)
    now = live.clock.real_now()
    await live.execute_as_owner(f"update database_loss set noticed_at = '{now}', known_until = null")
    today = to_day(now)
    for days in (None, (today, today)):
        if days is not None:
            await note_listed(shop.at, shop.account, days)
        with pytest.raises(errors.BadRequest, match=f"record that of {today - timedelta(days=1)} first"):
            await recover_account(operator, there.open, "loja", statement_was_read=True)
    await note_listed(shop.at, shop.account, (today - timedelta(days=1), today))
    assert (await recover_account(operator, there.open, "loja", statement_was_read=True)).state == "active"


async def test_where_the_owner_has_another_account_a_word_is_not_enough(live: Service, there: FakeInstitution) -> None:
    """A successor repeats a lost request over an account whose institution does not have its name."""
    shop = await open_shop(live, there)
    operator = as_operator(live.context)
    banco = await open_banco(shop)
    await lose(live)
    await read_again(shop)
    now = live.clock.real_now()
    await live.execute_as_owner(f"update database_loss set noticed_at = '{now}', known_until = '{now}'")
    with pytest.raises(errors.BadRequest, match=f"is of the owner of banco.*record that of {to_day(now)} first"):
        await recover_account(operator, there.open, "loja", statement_was_read=True)
    await note_listed(shop.at, shop.account, (to_day(now), to_day(now)))
    assert (await recover_account(operator, there.open, "loja", statement_was_read=True)).state == "active"
    # Nothing is repeated over a closed account.
    await lose(live)
    await read_again(shop)
    closed = f"state = 'closed', lost_at = null, paused_because = null where id = {banco.id}"
    await live.execute_without_guards(f"update institution_account set {closed}")
    await live.execute_as_owner("update institution_day set read_at = null")
    assert (await recover_account(operator, there.open, "loja", statement_was_read=True)).state == "active"


async def test_a_refund_of_a_forgotten_pix_waits_for_the_reading(live: Service, there: FakeInstitution) -> None:
    """The institution may have made it: after a refusal the caller would request another one."""
    shop = await open_shop(live, there)
    await shop.allow()
    pix = shop.pay(1000)
    await lose(live)
    institutions: Any = shop.context.port(INSTITUTIONS)
    institutions.forget()
    with pytest.raises(errors.ServiceUnavailable, match="may have been done before that"):
        await shop.give_back(pix, external_id="r1")
    await read_again(shop)
    await recover_account(as_operator(live.context), there.open, "loja", statement_was_read=True)
    institutions.forget()
    assert (await shop.give_back(pix, external_id="r1")).amount_cents == 1000
    with pytest.raises(errors.OriginalNotRefundable):
        await shop.give_back(structs.replace(pix, end_to_end_id="E" + "9" * 31), external_id="r2")
