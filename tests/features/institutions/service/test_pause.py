"""A stop of outgoing money works at every account that can be paused, and in workers that have not heard of it."""

from datetime import timedelta
from functools import partial

import pytest

from pixconnect.features.institutions.accounts import INSTITUTIONS
from pixconnect.features.institutions.rules.account import Credential, InstitutionAccount
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service.account import pause_all
from pixconnect.features.institutions.service.monitoring import PROBLEMS
from pixconnect.features.institutions.service.open_accounts import OpenAccounts
from pixconnect.features.monitoring.service.health import check_rail
from pixconnect.kernel.flows.no_rail import NoRail
from pixconnect.kernel.flows.source import find_accounts
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors
from support.account_shop import Shop, make_owner, read_again
from support.books import check_books
from support.fake_institution import LOST_BEFORE, FakeInstitution, a_description
from support.fixtures.accounts import there_with
from support.operators import as_operator
from support.records import own_key

there = there_with(sends=("KEY",), resend_for=timedelta(hours=12))


async def send(shop: Shop) -> Transfer:
    await shop.allow_sending()
    await shop.receive(1000)
    return await shop.send(400)


async def turn(shop: Shop, times: int = 1) -> None:
    """As a worker that does not know of the pause."""
    for _ in range(times):
        await shop.move_orders()
        shop.live.clock.advance(minutes=1)


@pytest.mark.parametrize("is_called", [False, True])
async def test_a_worker_that_has_not_heard_of_a_pause_calls_nothing(shop: Shop, *, is_called: bool) -> None:
    operator = as_operator(shop.live.context)
    sent = await send(shop)
    if is_called:
        shop.there.send_answers.append(LOST_BEFORE)
        await turn(shop)
    calls = list(shop.there.calls)
    assert await pause_all(operator) == (["loja"], [])
    await turn(shop, 3)
    assert (shop.there.calls, shop.there.paid_cents) == (calls, 0)
    await account_usecases.set_state(operator, "loja", "active")
    await turn(shop, 5)
    ended = await read_again(shop, sent)
    assert (ended.status, shop.there.paid_cents, len(shop.there.calls)) == ("CONFIRMED", 400, len(calls) + 1)
    await check_books(shop.live)


async def test_what_is_there_is_remembered_behind_a_pause_though_its_call_is_forgotten(shop: Shop) -> None:
    sent = await send(shop)
    (step,) = (await shop.memory.open([sent.end_to_end_id])).values()
    shop.there.send_status = "under_way"
    await turn(shop)
    # As in a restored database.
    for statement in (
        "alter table rail_step disable trigger user",
        "update rail_step set state = 'minted', called_at = null, may_be_done = false",
        "alter table rail_step enable trigger user",
    ):
        await shop.live.execute_as_owner(statement)
    await pause_all(as_operator(shop.live.context))
    await turn(shop, 2)
    known = (await shop.memory.open([sent.end_to_end_id]))[sent.end_to_end_id]
    assert (step.state, known.state, known.may_be_done) == ("minted", "asked", True)


async def test_what_keeps_one_account_from_being_paused_keeps_no_other(shop: Shop) -> None:
    operator = as_operator(shop.live.context)

    def open_institution(account: InstitutionAccount, credential: Credential) -> FakeInstitution:
        return FakeInstitution(shop.live.clock)

    for number, name in (("2", "antiga"), ("3", "cheia")):
        tax_id = {"2": "11222333000181", "3": "04252011000110"}[number]
        changes = dict(keys=[own_key(number)], tax_id=tax_id, receiving=Credential(client_id=name, client_secret="x"))
        house_id = await make_owner(shop.live, number, tax_id)
        await account_usecases.add_account(operator, open_institution, name, a_description(**changes), house_id)
    await shop.live.execute_without_guards("update institution_account set state = 'closed' where name = 'antiga'")
    for statement in (
        "create function fail() returns trigger language plpgsql as "
        "$$ begin raise exception 'held' using errcode = 'lock_not_available'; end $$",
        "create trigger a_fail before update on institution_account for each row when (new.name = 'cheia') "
        "execute function fail()",
    ):
        await shop.live.execute_as_owner(statement)
    paused, failures = await pause_all(operator)
    await shop.live.execute_as_owner("drop function fail() cascade")
    assert paused == ["loja"]
    (failed,) = failures
    assert failed.startswith("cheia (")
    states = {shown.account.name: shown.account.state for shown in await account_usecases.list_institutions(operator)}
    assert states == dict(antiga="closed", cheia="active", loja="paused")


async def test_health_distinguishes_a_paused_account_from_none(shop: Shop) -> None:
    async def find_waiting() -> list[str]:
        return []

    accounts = shop.context.port(INSTITUTIONS)
    find_states = partial(find_accounts().find_states, shop.context)
    check = partial(check_rail, NoRail(), find_waiting, has_rail=False, find_states=find_states)
    await check()
    await pause_all(as_operator(shop.live.context))
    assert isinstance(accounts, OpenAccounts)
    accounts.forget()
    with pytest.raises(errors.ServiceUnavailable, match="every account at an institution is paused: no money leaves"):
        await check()


async def test_a_paused_account_that_is_not_read_degrades_health(shop: Shop) -> None:
    await pause_all(as_operator(shop.live.context))
    shop.live.clock.advance(minutes=6)
    assert await PROBLEMS[0].find(shop.context) == "1 account at an institution was not read for over 300 s"
    await shop.read()
    assert await PROBLEMS[0].find(shop.context) is None
