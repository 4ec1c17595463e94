"""A worker's metrics of accounts at institutions, each by its cause."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pixconnect.features.cases.service.case import look_for_cases
from pixconnect.features.institutions.rules.institution import InstitutionTraits, InstitutionUnavailable
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service.monitoring import METERS
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables.alarm import raise_alarm
from pixconnect.features.institutions.tables.day import RecordedDay
from pixconnect.features.institutions.worker import READ_EVERY_S, AccountBalances
from pixconnect.features.monitoring import worker as metrics
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows.holder import HolderChanges
from pixconnect.kernel.rules.kept_report import Misfit
from pixconnect.kernel.rules.rail import SettledReport
from pixconnect.platform.base.clock import to_day
from support import postgres
from support.account_shop import Shop, open_shop
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.postgres import make_live
from support.service import no_fence, open_service


@pytest.fixture
async def shop(database: postgres.Addresses) -> AsyncIterator[Shop]:
    await make_live(database)
    async with open_service(database, is_sandbox=False, has_rail=False) as live:
        yield await open_shop(live, FakeInstitution(live.clock, InstitutionTraits(sends=("KEY",))))


async def measure(shop: Shop, name: str) -> Any:
    found = [
        gauge.read(await meter.look(shop.context, shop.live.clock.now()))
        for meter in METERS
        for gauge in meter.gauges
        if gauge.name == f"pixconnect_institution_{name}"
    ]
    return found[0]


async def test_what_came_in_is_counted_for_an_hour_and_once(shop: Shop) -> None:
    assert await measure(shop, "received_last_hour") == {"loja": 0}
    for _ in range(2):
        await shop.charge()
        await shop.receive()
        await shop.read()
    assert await measure(shop, "received_last_hour") == {"loja": 2}
    shop.live.clock.advance(minutes=61)
    assert await measure(shop, "received_last_hour") == {"loja": 0}


async def test_an_account_is_unread_since_its_last_whole_reading(shop: Shop) -> None:
    await shop.read()
    shop.live.clock.advance(minutes=7)
    assert 420 <= (await measure(shop, "unread_seconds"))["loja"] < 500
    await shop.read()
    assert (await measure(shop, "unread_seconds"))["loja"] < 60
    assert await measure(shop, "poll_seconds") == {"loja": shop.account.poll_s}


async def test_a_pause_says_who_or_what_has_made_it(shop: Shop) -> None:
    operator = as_operator(shop.live.context, "ana")
    assert await measure(shop, "paused") == {}
    await account_usecases.set_state(operator, "loja", "paused")
    assert await measure(shop, "paused") == {("loja", "operator"): 1}
    await account_usecases.set_state(operator, "loja", "active")
    assert await raise_alarm(shop.context.pool, shop.account.id, "strays", "three left", shop.live.clock.now())
    assert await measure(shop, "paused") == {("loja", "strays"): 1}
    await account_usecases.set_state(operator, "loja", "active")
    assert await measure(shop, "paused") == {}


async def test_a_day_of_which_nothing_is_known_is_not_closed_and_grows_old(shop: Shop) -> None:
    clock = shop.live.clock
    opened_on = to_day(shop.account.opened_at)
    assert await measure(shop, "unclosed_day_age_seconds") == {"loja": 0.0}
    # The day on which the books began may never be proved; the next one must be.
    clock.advance(days=1)
    assert await measure(shop, "unclosed_day_age_seconds") == {"loja": 0.0}
    clock.advance(days=1)
    age_s = (await measure(shop, "unclosed_day_age_seconds"))["loja"]
    assert 0 < age_s < 2 * 86_400
    day = opened_on + timedelta(days=1)
    async with shop.context.pool.acquire() as connection, connection.transaction():
        await day_store.write_reported(
            connection, [RecordedDay(institution_id=shop.account.id, day=day, source="api", read_at=clock.now())]
        )
        await day_store.write_states(connection, shop.account.id, [(day, "closed_with_cases")], clock.now())
    assert await measure(shop, "unclosed_day_age_seconds") == {"loja": 0.0}


async def queue(shop: Shop) -> None:
    """A transfer that no worker has handed over yet."""
    await shop.allow_sending()
    await shop.receive(1000)
    await shop.send(400)


async def test_what_is_queued_is_added_up_until_it_has_left(shop: Shop) -> None:
    assert await measure(shop, "queued_cents") == {"loja": 0}
    await queue(shop)
    assert await measure(shop, "queued_cents") == {"loja": 400}
    await shop.move_orders()
    assert await measure(shop, "queued_cents") == {"loja": 0}


async def test_what_waits_there_for_enough_money_is_queued_still(shop: Shop) -> None:
    shop.there.send_status, shop.there.waits_for = "under_way", "funds"
    await queue(shop)
    for _ in range(3):
        await shop.move_orders()
        shop.live.clock.advance(seconds=60)
    assert await measure(shop, "queued_cents") == {"loja": 400}


async def test_a_balance_is_read_only_while_something_is_queued_and_forgotten_where_nobody_answers(shop: Shop) -> None:
    balances, clock = AccountBalances(), shop.live.clock
    clock.stand_still()

    async def watch() -> dict[str, int]:
        clock.advance(seconds=READ_EVERY_S + 1)
        await balances.watch(shop.context, shop.opened, no_fence, ())
        return dict(balances.cents)

    assert await watch() == {}
    await queue(shop)
    shop.there.balance_cents = 300
    assert await watch() == {"loja": 300}
    # Within a minute the worker does not read the balance again, even if it changed.
    shop.there.balance_cents = 500
    await balances.watch(shop.context, shop.opened, no_fence, ())
    assert balances.cents == {"loja": 300}
    shop.there.is_reachable = False
    with pytest.raises(InstitutionUnavailable):
        await watch()
    assert balances.cents == {}
    shop.there.is_reachable = True
    assert await watch() == {"loja": 500}
    balances.drop_others({"another"})
    assert balances.cents == {}
    await shop.move_orders()
    assert await watch() == {}


async def measure_all(shop: Shop) -> dict[str, Any]:
    measured = await metrics._measure_waiting(shop.live.context)
    return {one.family.name.removeprefix("pixconnect_"): one.values for one in measured}


async def test_who_waits_for_a_person_is_old_there_and_silent_nowhere(shop: Shop) -> None:
    shop.there.send_status, shop.there.waits_for = "under_way", "approval"
    await queue(shop)
    for _ in range(3):
        await shop.move_orders()
        shop.live.clock.advance(minutes=30)
    told = await measure_all(shop)
    assert told["institution_transfers_waiting"] == {("loja",): 1}
    assert told["institution_transfer_oldest_waiting_age_seconds"][("loja",)] >= 1800
    assert told["orders_open"][("transfer", "silent")] == 1
    assert told["order_oldest_silent_age_seconds"][("transfer",)] == 0


async def test_a_kept_report_and_its_case_are_told_until_somebody_closes_them(shop: Shop) -> None:
    context, report_id = shop.live.context, f"E9999900420260701{15:015}"
    report = SettledReport(report_id="1", id=report_id, settled_at=shop.live.clock.now(), network_id=None)
    await kept_usecases.keep(context.pool, report, Misfit(reason="unknown_order", explanation="we know none"))
    await look_for_cases(context)
    # A case is dated by the database.
    shop.live.clock.real = datetime.now(UTC) + timedelta(days=2)
    told = await measure_all(shop)
    assert told["reports_kept"][("unknown_order",)] == told["cases"][("report",)] == 1
    assert told["case_oldest_open_age_seconds"][("report",)] > 86_400
    (kept,) = await shop.live.fetch("select id from kept_report")
    await kept_usecases.close_kept(as_operator(context, "maria"), kept["id"], "booked by hand")
    told = await measure_all(shop)
    assert told["reports_kept"][("unknown_order",)] == told["cases"][("report",)] == 0
    assert told["case_oldest_open_age_seconds"][("report",)] == 0


async def test_what_an_operator_has_to_approve_is_not_queued(shop: Shop) -> None:
    wanted = HolderChanges(approve_above_cents=100)
    await holder_usecases.set_holder(as_operator(shop.live.context), shop.house.holder_id, wanted)
    await queue(shop)
    told = await measure_all(shop)
    assert told["transfers_to_approve"] == {(): 1}
    assert told["institution_queued_cents"] == {("loja",): 0}
