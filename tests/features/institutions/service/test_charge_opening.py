"""Charges opened at an institution: durable before they are requested, asked about and never guessed."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from pixconnect.features.institutions.rules.institution import (
    CertainRefusal,
    NotSent,
    OpenedCharge,
    OpeningAnswer,
    UnknownOutcome,
)
from pixconnect.features.institutions.rules.pending_call import WORKER_AFTER
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service.charge_change import CHANGE_CALLS, change_at_institution
from pixconnect.features.institutions.service.charge_opening import OPENING_CALLS
from pixconnect.features.institutions.service.pending_call import RefusedByInstitution, go_on
from pixconnect.features.institutions.tables import pending_call as call_store
from pixconnect.kernel.rules.br_code import parse_br_code
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.platform.base import errors
from support.account_shop import Shop, lost_at_the_answer, open_shop
from support.books import check_books
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.records import own_key
from support.service import Service

SILENT: OpeningAnswer = UnknownOutcome(reason="silence")


async def count_charges(shop: Shop) -> int:
    return len(await shop.live.fetch("select from charge"))


async def states(shop: Shop) -> list[str]:
    return [row["state"] for row in await shop.live.fetch("select state from charge_opening order by charge_id")]


async def test_a_charge_has_the_code_of_its_institution(shop: Shop) -> None:
    charge = await shop.charge("order-1")
    assert charge.br_code == shop.there.charges[charge.txid].code
    assert (charge.status, charge.institution_id) == ("PENDING", shop.account.id)
    assert charge.expires_at == shop.live.clock.real_now() + timedelta(seconds=shop.context.policy.charge_lifetime_s)
    assert [row["name"] for row in await shop.live.fetch("select name from event")] == ["qrcode.pending"]
    await check_books(shop.live)


async def test_its_code_never_changes(shop: Shop) -> None:
    await shop.charge("order-1")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError) as refused:
        await shop.context.pool.execute("update charge set br_code = replace(br_code, 'demo', 'evil') || 'x'")
    assert refused.value.constraint_name == "a_charge_keeps_its_code_there"


async def test_it_is_durable_before_it_is_asked_for(shop: Shop) -> None:
    seen: list[list[str]] = []

    async def look() -> None:
        seen.append(await states(shop))

    shop.there.before_answer = look
    await shop.charge()
    assert seen == [["opening"]]
    assert await states(shop) == ["opened"]


async def test_the_same_request_gets_the_same_charge(shop: Shop) -> None:
    first, again = await shop.charge("order-1"), await shop.charge("order-1")
    assert first == again
    assert len(shop.there.charges) == 1
    with pytest.raises(errors.ExternalIdConflict):
        await shop.charge("order-1", amount_cents=2)


async def test_many_at_once_open_one(shop: Shop) -> None:
    made = await asyncio.gather(*(shop.charge("order-1") for _ in range(8)))
    assert len({charge.id for charge in made}) == 1
    assert len(shop.there.charges) == await count_charges(shop) == 1


@pytest.mark.parametrize("is_there", [True, False])
async def test_what_nobody_knows_is_asked_about(shop: Shop, *, is_there: bool) -> None:
    shop.there.answers, shop.there.loses_answers = [SILENT], is_there
    with pytest.raises(errors.OutcomeUnknown, match="order-1") as caught:
        await shop.charge("order-1")
    assert caught.value.txid is not None
    assert await count_charges(shop) == 0, "nobody sees it before it has its code"
    assert await go_on(shop.at, shop.opened, OPENING_CALLS) == 0, "its caller's process may still ask"
    shop.live.clock.advance(seconds=WORKER_AFTER.total_seconds())
    assert await go_on(shop.at, shop.opened, OPENING_CALLS) == 1
    charge = await shop.charge("order-1")
    assert charge.txid == caught.value.txid
    assert len(shop.there.charges) == 1
    await check_books(shop.live)


@pytest.mark.parametrize("answers", [[], [SILENT]])
async def test_the_txid_that_an_institution_makes_is_kept(shop: Shop, answers: list[OpeningAnswer]) -> None:
    shop.there.makes_txids, shop.there.answers, shop.there.loses_answers = True, answers, True
    with suppress(errors.OutcomeUnknown):
        await shop.charge("order-1")
    shop.live.clock.advance(seconds=WORKER_AFTER.total_seconds())
    await go_on(shop.at, shop.opened, OPENING_CALLS)
    charge = await shop.charge("order-1")
    opening = await call_store.find_opening_of_charge(shop.context.pool, charge.id, charge.holder_id)
    assert opening is not None
    assert (opening.state, opening.txid, opening.network_txid) == ("opened", charge.txid, "there0")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="stays so"):
        await shop.live.fetch("update charge_opening set network_txid = null returning 1")


async def test_one_that_is_shown_without_a_code_is_asked_about_until_it_has_one(shop: Shop) -> None:
    now = shop.live.clock.real_now()
    bare = dict[str, Any](key=own_key(), amount_cents=1000, status="active", created_at=now, lifetime_s=60)
    shop.there.answers = [OpenedCharge(txid="a" * 32, code=None, location=None, **bare)]
    shop.there.loses_answers = True
    with pytest.raises(errors.OutcomeUnknown, match="order-1"):
        await shop.charge("order-1")
    ((txid, shown),) = shop.there.charges.items()
    shop.there.charges[txid] = structs.replace(shown, code=None, location=None)
    shop.live.clock.advance(seconds=120)
    assert await go_on(shop.at, shop.opened, OPENING_CALLS) == 1
    assert await states(shop) == ["opening"]
    shop.there.charges[txid] = shown
    shop.live.clock.advance(seconds=120)
    await go_on(shop.at, shop.opened, OPENING_CALLS)
    assert (await shop.charge("order-1")).br_code == shown.code


async def test_a_worker_asks_again_and_again(shop: Shop) -> None:
    shop.there.answers = [SILENT]
    with pytest.raises(errors.OutcomeUnknown):
        await shop.charge("order-1")
    shop.there.is_reachable = False
    for _ in range(4):
        shop.live.clock.advance(seconds=120)
        assert await go_on(shop.at, shop.opened, OPENING_CALLS) == 1
        assert await states(shop) == ["opening"]
    shop.there.is_reachable = True
    shop.live.clock.advance(seconds=120)
    await go_on(shop.at, shop.opened, OPENING_CALLS)
    assert await states(shop) == ["opened"]


async def test_what_was_certainly_refused_may_be_asked_for_again_under_the_same_txid(shop: Shop) -> None:
    shop.there.answers = [CertainRefusal(code="chave_invalida", reason="a chave não é da conta", member="cob.chave")]
    with pytest.raises(errors.PixKeyNotOwned, match="a chave não é da conta"):
        await shop.charge("order-1")
    assert await count_charges(shop) == 0
    charge = await shop.charge("order-1")
    assert await states(shop) == ["refused", "opened"]
    rows = await shop.live.fetch("select distinct txid from charge_opening")
    assert [row["txid"] for row in rows] == [charge.txid]


async def test_where_nothing_was_sent_nothing_is_left(shop: Shop) -> None:
    shop.there.answers = [NotSent(reason="429", retry_after=timedelta(seconds=7))]
    with pytest.raises(errors.ServiceUnavailable, match="nothing was done") as caught:
        await shop.charge("order-1")
    assert caught.value.retry_after_s == 7
    shop.live.clock.advance(seconds=600)
    assert await go_on(shop.at, shop.opened, OPENING_CALLS) == 0
    await shop.charge("order-1")
    assert await states(shop) == ["given_up", "opened"]


@pytest.mark.parametrize("answers", [[], [NotSent(reason="429")], [CertainRefusal(code="chave", reason="no", member="chave")]])
async def test_nobody_is_told_that_nothing_was_done_while_a_worker_goes_on(shop: Shop, answers: list[OpeningAnswer]) -> None:
    shop.there.answers = answers
    async with lost_at_the_answer(shop, "charge_opening"):
        with pytest.raises(errors.OutcomeUnknown, match="order-1"):
            await shop.charge("order-1")
    shop.live.clock.advance(seconds=WORKER_AFTER.total_seconds())
    assert await go_on(shop.at, shop.opened, OPENING_CALLS) == 1
    assert (await shop.charge("order-1")).txid in shop.there.charges
    assert await states(shop) == ["opened"]


async def test_another_charge_under_its_txid_is_never_taken_for_it(shop: Shop) -> None:
    shop.there.answers, shop.there.loses_answers = [SILENT], True
    with pytest.raises(errors.OutcomeUnknown):
        await shop.charge("order-1", amount_cents=1000)
    (there,) = shop.there.charges.values()
    shop.there.charges[there.txid] = structs.replace(there, amount_cents=1)
    shop.live.clock.advance(seconds=60)
    await go_on(shop.at, shop.opened, OPENING_CALLS)
    assert await states(shop) == ["refused"]
    assert await count_charges(shop) == 0


async def test_a_paused_account_opens_charges_until_the_database_has_forgotten_something(shop: Shop) -> None:
    await account_usecases.set_state(as_operator(shop.context), "loja", "paused")
    await asyncio.sleep(1.1)  # a change is known within a second
    await shop.charge("order-1")
    await shop.live.execute_as_owner(
        "insert into database_loss (reason, system_identifier, started_at, orders_count) values ('a test', 1, now(), 0)"
    )
    await asyncio.sleep(1.1)
    with pytest.raises(errors.ServiceUnavailable, match="paused"):
        await shop.charge("order-2")
    assert len(await states(shop)) == 1


async def test_a_charge_at_an_institution_expires_by_its_readings_alone(shop: Shop) -> None:
    charge = await shop.charge()
    later = shop.live.clock.real_now() + timedelta(days=3)
    assert await charge_store.find_expired(shop.context.pool, list(range(256)), later, 10) == []
    assert await charge_store.find_expired_of_account(shop.context.pool, shop.account.id, later, 10) == [
        (charge.id, shop.house.holder_id)
    ]


@pytest.fixture
async def static_shop(live: Service, there: FakeInstitution) -> Shop:
    return await open_shop(live, there, options={"static_fallback": True})


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_static_code_while_the_bank_is_silent_is_kept(static_shop: Shop, *, is_there: bool) -> None:
    shop = static_shop
    shop.there.answers, shop.there.loses_answers = [SILENT], is_there
    charge = await shop.charge("order-1")
    code = parse_br_code(charge.br_code)
    assert (code.kind, code.amount_cents, code.key) == ("static", 1000, charge.key)
    assert code.txid is not None
    assert await shop.charge("order-1") == charge
    for _ in range(4):
        shop.live.clock.advance(minutes=5)
        await go_on(shop.at, shop.opened, OPENING_CALLS)
        await go_on(shop.at, shop.opened, CHANGE_CALLS)
    assert [there.status for there in shop.there.charges.values()] == (["removed_by_us"] if is_there else [])
    assert [row["state"] for row in await shop.live.fetch("select state from charge_change")] == ["done"]
    with pytest.raises(RefusedByInstitution, match="static code"):
        await change_at_institution(shop.context, shop.house, charge, removal="REMOVED_BY_RECEIVER")
    await shop.receive(txid=code.txid)
    found = await charge_store.find_by_id(shop.context.pool, charge.holder_id, charge.id)
    assert found is not None
    assert (found.status, found.br_code) == ("APPROVED", charge.br_code)
    await check_books(shop.live)


async def test_where_nothing_was_sent_a_static_code_leaves_nothing_to_withdraw(static_shop: Shop) -> None:
    shop = static_shop
    shop.there.answers = [NotSent(reason="no connection")]
    charge = await shop.charge()
    assert parse_br_code(charge.br_code).kind == "static"
    assert await shop.live.fetch("select from charge_change") == []


async def test_a_payment_of_a_charge_that_nobody_knows_to_be_open_waits_for_it(shop: Shop) -> None:
    shop.there.answers, shop.there.loses_answers = [SILENT], True
    with pytest.raises(errors.OutcomeUnknown):
        await shop.charge("order-1")
    (txid,) = shop.there.charges
    await shop.receive(txid=txid)
    assert (await shop.charge("order-1")).status == "APPROVED", "it was asked about before the payment was recorded"
    await check_books(shop.live)
