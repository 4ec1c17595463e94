"""Outgoing money as by theft pauses an account, once, until an operator resumes it."""

from typing import Any

import asyncpg
import pytest
from msgspec import structs

from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service.monitoring import DRAIN_MIN_CENTS, describe_alarm, look_for_alarms
from pixconnect.features.institutions.service.statement import settle_items
from pixconnect.features.institutions.service.statement_sweep import note_listed, record_listed
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day
from support.account_shop import Shop, open_shop
from support.books import check_books
from support.fake_institution import FakeInstitution
from support.fixtures.accounts import there_with
from support.health import check_accounts
from support.operators import as_operator
from support.service import Service

there = there_with(sends=("KEY",))


@pytest.fixture
async def watched(live: Service, there: FakeInstitution) -> Shop:
    """An account that may lose something."""
    return await open_shop(live, there, options={"alarms": True})


async def steal(shop: Shop, number: int, minutes: int = 1, **changes: Any) -> None:
    shop.live.clock.advance(minutes=minutes)
    at = shop.live.clock.now()
    item = InstitutionItem(
        item_id=f"L{number}", day=to_day(at), settled_at=at, direction="OUT", amount_cents=100, kind="pix",
        end_to_end_id=f"E{at:00000000%Y%m%d%H%M}{number:011d}",
    )  # fmt: skip
    await record_listed(shop.at, shop.account, [structs.replace(item, **changes)])
    await note_listed(shop.at, shop.account, (to_day(at), to_day(at)))
    await settle_items(shop.at, shop.account)
    await look_for_alarms(shop.live.context)


async def read_state(shop: Shop) -> str:
    return await shop.live.fetchval("select state from institution_account")


async def resume(shop: Shop) -> None:
    await account_usecases.set_state(as_operator(shop.live.context, "ana"), "loja", "active")


async def test_the_third_that_nobody_ordered_in_an_hour_pauses_the_account(watched: Shop) -> None:
    await steal(watched, 1)
    await steal(watched, 2)
    assert await read_state(watched) == "active"
    await steal(watched, 3)
    assert await read_state(watched) == "paused"
    observation = await describe_alarm(watched.live.context, watched.account.id)
    assert observation == "strays: 3 Pix left within an hour without an order here"
    with pytest.raises(errors.ServiceUnavailable, match="1 account at an institution is paused by an alarm"):
        await check_accounts(watched.context)
    # An operator must look; what they have seen does not pause it again, and the next three do.
    await resume(watched)
    await look_for_alarms(watched.live.context)
    assert (await read_state(watched), await describe_alarm(watched.live.context, watched.account.id)) == ("active", None)
    for number in (4, 5):
        await steal(watched, number)
    assert await read_state(watched) == "active"
    await steal(watched, 6)
    assert await read_state(watched) == "paused"
    ended = await watched.live.fetch("select kind, ended_by from account_alarm order by id")
    assert [tuple(row) for row in ended] == [("strays", "ana"), ("strays", None)]
    await check_books(watched.live)


@pytest.mark.parametrize(("minutes", "kind"), [(31, "pix"), (1, "fee")])
async def test_what_is_seldom_or_no_pix_pauses_nothing(watched: Shop, minutes: int, kind: Any) -> None:
    for number in range(4):
        await steal(watched, number, minutes, kind=kind)
    assert await read_state(watched) == "active"


async def test_among_counterparts_it_is_off_unless_it_is_wanted(shop: Shop) -> None:
    await shop.live.execute_as_owner("update institution_account set environment = 'counterpart'")
    for number in range(4):
        await steal(shop, number)
    assert await read_state(shop) == "active"


async def send(shop: Shop, cents: int) -> None:
    shop.live.clock.advance(minutes=1)
    await shop.send(cents)
    await shop.move_orders()
    await look_for_alarms(shop.live.context)


async def test_more_than_half_of_what_was_there_in_an_hour_pauses_the_account(watched: Shop) -> None:
    await watched.allow_sending()
    watched.pay(4 * DRAIN_MIN_CENTS)
    await watched.read()
    await send(watched, 2 * DRAIN_MIN_CENTS)
    assert await read_state(watched) == "active"
    await send(watched, 100)
    assert await read_state(watched) == "paused"
    (row,) = await watched.live.fetch("select kind, observation from account_alarm")
    assert (row["kind"], "200100 cents left within an hour, of 400000: more than" in row["observation"]) == ("drain", True)
    await resume(watched)
    await look_for_alarms(watched.live.context)
    assert await read_state(watched) == "active"


async def test_a_small_sum_or_a_slow_one_is_no_drain_and_the_share_is_an_option(watched: Shop) -> None:
    await watched.allow_sending()
    watched.pay(DRAIN_MIN_CENTS)
    await watched.read()
    await send(watched, DRAIN_MIN_CENTS - 1)
    assert await read_state(watched) == "active"
    watched.live.clock.advance(minutes=61)
    watched.pay(2 * DRAIN_MIN_CENTS)
    await watched.read()
    await watched.live.execute_as_owner("""update institution_account set options = '{"alarms":true,"drain_percent":100}'""")
    await send(watched, 2 * DRAIN_MIN_CENTS)
    assert await read_state(watched) == "active"


async def test_the_service_pauses_by_an_alarm_alone_and_resumes_nothing(watched: Shop) -> None:
    for sql in (
        "update institution_account set state = 'paused'",
        "insert into account_alarm (institution_id, kind, observation, noticed_at) values (1, 'drain', 'x', now())",
        "update account_alarm set ended_at = now(), ended_by = 'ana'",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await watched.live.context.pool.execute(sql)
