"""Charges at an institution that are changed and removed: there first, and confirmed before it is shown here."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from pixconnect.features.institutions.rules.institution import CertainRefusal, NotSent, OpeningAnswer, UnknownOutcome
from pixconnect.features.institutions.rules.pending_call import TAKEN_FOR, WORKER_AFTER
from pixconnect.features.institutions.service.charge_change import CHANGE_CALLS, change_at_institution
from pixconnect.features.institutions.service.charge_opening import OPENING_CALLS
from pixconnect.features.institutions.service.monitoring import list_late_charges
from pixconnect.features.institutions.service.pending_call import RefusedByInstitution, go_on
from pixconnect.features.pix_api.service import charge as standard_charge
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.rules.charge import Charge, read_contents
from pixconnect.platform.base import errors
from support.account_shop import Shop, lost_at_the_answer
from support.books import check_books
from support.health import check_accounts
from support.operators import as_operator

SILENT: OpeningAnswer = UnknownOutcome(reason="silence")


async def revise(shop: Shop, charge: Charge, **changes: Any) -> Charge:
    contents = structs.replace(read_contents(charge), **changes)
    return await change_at_institution(shop.context, shop.house, charge, contents=contents)


async def remove(shop: Shop, charge: Charge) -> Charge:
    return await change_at_institution(shop.context, shop.house, charge, removal="REMOVED_BY_RECEIVER")


async def ask_again(shop: Shop) -> int:
    shop.live.clock.advance(seconds=90)
    return await go_on(shop.at, shop.opened, CHANGE_CALLS)


async def read(shop: Shop, charge: Charge) -> Charge:
    return await charge_usecases.read_charge_by_id(shop.context, shop.house, charge.id)


async def states(shop: Shop) -> list[str]:
    return [row["state"] for row in await shop.live.fetch("select state from charge_change order by id")]


async def test_a_charge_is_revised_there_and_then_here(shop: Shop) -> None:
    charge = await shop.charge()
    revised = await revise(shop, charge, amount_cents=2000, lifetime_s=7200)
    assert shop.there.charges[charge.txid].amount_cents == revised.amount_cents == 2000
    began_at = shop.there.charges[charge.txid].created_at
    assert (revised.status, revised.revision, revised.expires_at) == ("PENDING", 1, began_at + timedelta(seconds=7200))
    assert await states(shop) == ["done"]
    await check_books(shop.live)


async def test_a_change_is_durable_before_it_is_asked_for(shop: Shop) -> None:
    charge, seen = await shop.charge(), list[Any]()

    async def look() -> None:
        seen.append((await states(shop), (await read(shop, charge)).status))

    shop.there.before_answer = look
    removed = await remove(shop, charge)
    assert seen == [(["asked"], "PENDING")], "it looks removed only once it is"
    assert removed.status == "REMOVED_BY_RECEIVER"
    names = [row["name"] for row in await shop.live.fetch("select name from event order by id")]
    assert names == ["qrcode.pending", "qrcode.expired"]
    await check_books(shop.live)


@pytest.mark.parametrize("is_done", [True, False])
async def test_a_lost_answer_is_looked_after_and_never_guessed(shop: Shop, *, is_done: bool) -> None:
    charge = await shop.charge()
    shop.there.answers, shop.there.loses_answers = [SILENT], is_done
    with pytest.raises(errors.OutcomeUnknown):
        await revise(shop, charge, amount_cents=2000)
    assert (await read(shop, charge)).amount_cents == 1000
    with pytest.raises(errors.ServiceUnavailable, match="another change"):
        await remove(shop, charge)
    assert await go_on(shop.at, shop.opened, CHANGE_CALLS) == 0, "its caller's process may still ask"
    shop.live.clock.advance(seconds=WORKER_AFTER.total_seconds())
    assert await go_on(shop.at, shop.opened, CHANGE_CALLS) == 1
    assert (await read(shop, charge)).amount_cents == shop.there.charges[charge.txid].amount_cents == 2000
    assert shop.there.charges[charge.txid].revision == 1, "what was done is not asked for again"
    assert [call.split()[0] for call in shop.there.calls].count("revise") == (1 if is_done else 2)
    await check_books(shop.live)


@pytest.mark.parametrize("answers", [[], [NotSent(reason="429")]])
async def test_nobody_is_told_that_nothing_was_done_while_a_worker_goes_on(shop: Shop, answers: list[OpeningAnswer]) -> None:
    charge = await shop.charge()
    shop.there.answers = answers
    async with lost_at_the_answer(shop, "charge_change"):
        with pytest.raises(errors.OutcomeUnknown, match="the same request"):
            await revise(shop, charge, amount_cents=2000)
    assert await ask_again(shop) == 1
    assert (await revise(shop, charge, amount_cents=2000)).amount_cents == 2000


async def test_a_repeated_request_waits_for_the_first_one(shop: Shop) -> None:
    charge = await shop.charge()
    both = await asyncio.gather(*(revise(shop, charge, amount_cents=2000) for _ in range(4)))
    assert {one.revision for one in both} == {1}
    assert shop.there.charges[charge.txid].revision == 1


@pytest.mark.parametrize("is_read_first", [True, False])
async def test_a_payment_that_arrives_meanwhile_wins(shop: Shop, *, is_read_first: bool) -> None:
    charge = await shop.charge()
    shop.there.answers, shop.there.loses_answers = [SILENT], is_read_first
    with pytest.raises(errors.OutcomeUnknown):
        await remove(shop, charge)
    if not is_read_first:
        shop.there.charges[charge.txid] = structs.replace(shop.there.charges[charge.txid], status="paid")
    shop.pay(txid=charge.txid)
    if is_read_first:
        await shop.read()
    await ask_again(shop)
    assert await states(shop) == ["overtaken"]
    await shop.read()
    assert (await read(shop, charge)).status == "APPROVED"
    with pytest.raises(RefusedByInstitution):
        await remove(shop, charge)
    await check_books(shop.live)


async def test_what_the_institution_refuses_changes_nothing(shop: Shop) -> None:
    charge = await shop.charge()
    shop.there.answers = [CertainRefusal(code="CobOperacaoInvalida", reason="a cobrança não está ATIVA")]
    with pytest.raises(RefusedByInstitution, match="não está ATIVA"):
        await revise(shop, charge, amount_cents=2000)
    assert (await read(shop, charge)).amount_cents == 1000
    assert await states(shop) == ["refused"]
    assert (await revise(shop, charge, amount_cents=2000)).amount_cents == 2000


@pytest.mark.parametrize("is_read", [True, False])
async def test_where_nothing_was_sent_nothing_is_left(shop: Shop, *, is_read: bool) -> None:
    charge = await shop.charge()
    shop.there.answers, shop.there.is_reachable = [NotSent(reason="429", retry_after=timedelta(seconds=7))], is_read
    with pytest.raises(errors.ServiceUnavailable, match="nothing was done"):
        await remove(shop, charge)
    assert await states(shop) == ["given_up"]
    shop.there.is_reachable, shop.there.answers = True, []
    assert (await remove(shop, charge)).status == "REMOVED_BY_RECEIVER"


async def test_a_charge_that_somebody_removed_there_is_not_shown_as_payable(shop: Shop) -> None:
    charge = await shop.charge()
    there = shop.there.charges[charge.txid]
    shop.there.charges[charge.txid] = structs.replace(there, status="removed_by_institution")
    with pytest.raises(RefusedByInstitution, match="removed at the institution"):
        await revise(shop, charge, amount_cents=2000)
    assert (await read(shop, charge)).status == "REMOVED_BY_PSP"
    await check_books(shop.live)


async def test_an_expired_charge_that_gets_more_time_there_can_be_paid_again(shop: Shop) -> None:
    charge = await shop.charge()
    shop.live.clock.advance(days=1, seconds=5)
    await charge_usecases.expire_charges_of_account(shop.context, shop.account.id, shop.live.clock.real_now(), 10)
    assert (await read(shop, charge)).status == "EXPIRED"
    assert (await revise(shop, charge, lifetime_s=3 * 86_400)).status == "PENDING"


async def test_an_operators_removal_is_done_there_by_a_worker(shop: Shop) -> None:
    charge = await shop.charge()
    operator = as_operator(shop.context)
    with pytest.raises(errors.OutcomeUnknown, match="until then it can be paid"):
        await standard_charge.remove_charge(operator, charge.holder_id, charge.txid, wait_s=0)
    assert (await read(shop, charge)).status == "PENDING"
    assert await go_on(shop.at, shop.opened, CHANGE_CALLS) == 1
    assert shop.there.charges[charge.txid].status == "removed_by_us"
    assert (await read(shop, charge)).status == "REMOVED_BY_PSP"
    with pytest.raises(errors.BadRequest, match="REMOVED_BY_PSP"):
        await standard_charge.remove_charge(operator, charge.holder_id, charge.txid)
    await check_books(shop.live)


@pytest.mark.parametrize("wanted", ["open", "remove"])
async def test_what_a_killed_worker_was_asking_about_is_asked_about_soon(shop: Shop, wanted: str) -> None:
    charge, kind = await shop.charge(), OPENING_CALLS if wanted == "open" else CHANGE_CALLS
    shop.there.answers = [SILENT]
    with pytest.raises(errors.OutcomeUnknown):
        await (shop.charge("order-2") if wanted == "open" else remove(shop, charge))
    shop.live.clock.advance(seconds=WORKER_AFTER.total_seconds())
    is_asked = asyncio.Event()

    async def hang() -> None:
        is_asked.set()
        await asyncio.Event().wait()

    shop.there.before_answer = hang
    killed = asyncio.create_task(go_on(shop.at, shop.opened, kind))
    await is_asked.wait()
    killed.cancel()
    await asyncio.gather(killed, return_exceptions=True)
    shop.there.before_answer = None
    shop.live.clock.advance(seconds=TAKEN_FOR.total_seconds() - 1)
    assert await go_on(shop.at, shop.opened, kind) == 0, "what it has sent may still arrive"
    shop.live.clock.advance(seconds=1)
    assert await go_on(shop.at, shop.opened, kind) == 1
    assert shop.there.charges[charge.txid].status == ("active" if wanted == "open" else "removed_by_us")
    assert len(shop.there.charges) == (2 if wanted == "open" else 1)
    await check_books(shop.live)


async def test_an_operator_waits_for_the_institution(shop: Shop) -> None:
    charge = await shop.charge()
    operator = as_operator(shop.context)
    asked = asyncio.create_task(standard_charge.remove_charge(operator, charge.holder_id, charge.txid))
    while not await go_on(shop.at, shop.opened, CHANGE_CALLS):  # noqa: ASYNC110  no event to await
        await asyncio.sleep(0.01)
    assert (await asked).status == "REMOVED_BY_PSP"


async def test_the_schema_knows_no_charge_that_is_removed_here_alone(shop: Shop) -> None:
    charge = await shop.charge()
    with pytest.raises(Exception, match="looks removed and can still be paid"):
        await shop.live.fetch(f"update charge set status = 'REMOVED_BY_PSP' where id = {charge.id}")


async def test_what_waits_too_long_is_told_to_operators_until_it_is_known(shop: Shop) -> None:
    charge = await shop.charge()
    shop.there.answers = [SILENT, SILENT]
    with pytest.raises(errors.OutcomeUnknown):
        await remove(shop, charge)
    with pytest.raises(errors.OutcomeUnknown):
        await shop.charge("order-2")
    shop.live.clock.advance(minutes=14)
    assert await list_late_charges(shop.context) == []
    shop.live.clock.advance(minutes=2)
    late = await list_late_charges(shop.context)
    # They began in one instant of the test's clock.
    opening, removal = sorted(late, key=lambda charge: charge.wanted)
    assert (removal.institution, removal.txid, removal.wanted) == (shop.account.name, charge.txid, "remove")
    assert (opening.holder_id, opening.wanted) == (shop.house.holder_id, "open")
    with pytest.raises(errors.ServiceUnavailable, match="2 charges at institutions have waited for over 900 s"):
        await check_accounts(shop.context)
    await shop.read()
    await ask_again(shop)
    await go_on(shop.at, shop.opened, OPENING_CALLS)
    assert await list_late_charges(shop.context) == []
    await check_accounts(shop.context)
