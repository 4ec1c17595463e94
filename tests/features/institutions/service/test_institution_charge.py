"""The central bank's door for holders whose money lies on accounts at institutions."""

from typing import Any

import pytest
from msgspec import structs

from pixconnect.features.institutions.rules.institution import CertainRefusal, InstitutionTraits, UnknownOutcome
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service.charge_change import CHANGE_CALLS
from pixconnect.features.institutions.service.charge_opening import OPENING_CALLS
from pixconnect.features.institutions.service.pending_call import go_on
from pixconnect.features.pix_api.service import charge as standard_usecases
from pixconnect.features.pix_api.service import location as location_usecases
from pixconnect.features.pix_api.service.charge_write import StandardCharge
from pixconnect.kernel.rules.access import SCOPES, Caller
from pixconnect.kernel.rules.charge_contents import ChargeContents, ContentsChange, Line, Payer
from pixconnect.platform.base import errors
from pixconnect.platform.base.errors import Violated
from support.account_shop import Shop, make_owner
from support.books import check_books
from support.operators import as_operator
from support.records import broken, own_key

TXID = "A" * 26
SILENT = UnknownOutcome(reason="silence")


def contents(**changes: Any) -> ChargeContents:
    return structs.replace(ChargeContents(lifetime_s=3600, amount_cents=1000, key=own_key()), **changes)


async def put(shop: Shop, txid: str | None = TXID, **changes: Any) -> StandardCharge:
    return await standard_usecases.put_charge(shop.context, shop.house, txid, contents(**changes))


async def patch(shop: Shop, *, removes: bool = False, **changes: Any) -> StandardCharge:
    change = ContentsChange(**changes)
    return await standard_usecases.patch_charge(shop.context, shop.house, TXID, change, removes=removes)


async def test_a_charge_is_opened_there_under_the_clients_txid(shop: Shop) -> None:
    made = await put(shop, question="Qual é o pedido?", lines=(Line(name="Pedido", value="7"),))
    there = shop.there.charges[TXID]
    assert (made.charge.external_id, made.charge.br_code, made.location) == (TXID, there.code, None)
    assert made.charge.institution_id == shop.account.id
    read = await standard_usecases.read_charge(shop.context, shop.house, TXID)
    assert (read.contents.question, read.location) == ("Qual é o pedido?", None)
    await check_books(shop.live)


async def test_the_same_put_changes_nothing_and_another_one_revises(shop: Shop) -> None:
    first, again = await put(shop), await put(shop)
    assert again.charge == first.charge
    revised = await put(shop, amount_cents=2000)
    assert (revised.charge.amount_cents, revised.revision) == (2000, 1)
    assert shop.there.charges[TXID].amount_cents == 2000
    earlier = await standard_usecases.read_charge(shop.context, shop.house, TXID, 0)
    assert earlier.contents.amount_cents == 1000
    with pytest.raises(errors.ExternalIdConflict):
        await standard_usecases.put_charge(shop.context, shop.house, TXID, contents(), is_new=True)
    await check_books(shop.live)


async def test_a_txid_of_ours_where_none_is_named(shop: Shop) -> None:
    made = await put(shop, None)
    assert made.charge.txid in shop.there.charges
    assert made.charge.external_id == made.charge.txid


async def test_what_nobody_knows_is_answered_once_it_is_known(shop: Shop) -> None:
    shop.there.answers, shop.there.loses_answers = [SILENT], True
    with pytest.raises(errors.OutcomeUnknown) as caught:
        await put(shop)
    assert caught.value.txid == TXID
    shop.live.clock.advance(seconds=60)
    await go_on(shop.at, shop.opened, OPENING_CALLS)
    assert (await put(shop)).charge.status == "PENDING"


async def test_a_patch_revises_and_removes_there(shop: Shop) -> None:
    await put(shop)
    patched = await patch(shop, amount_cents=1500, payer=Payer(name="Ana", tax_id="52998224725"))
    assert (patched.revision, shop.there.charges[TXID].amount_cents) == (1, 1500)
    assert (await patch(shop)).revision == 1, "nothing new is no revision"
    removed = await patch(shop, removes=True)
    assert (removed.charge.status, shop.there.charges[TXID].status) == ("REMOVED_BY_RECEIVER", "removed_by_us")
    with pytest.raises(Violated):
        await patch(shop, amount_cents=2000)
    await check_books(shop.live)


async def test_a_removal_is_repeated_by_who_may_not_have_heard_that_it_was_done(shop: Shop) -> None:
    await put(shop)
    removed = await patch(shop, removes=True)
    calls = list(shop.there.calls)
    # The process may have been killed between its commit and its answer: the same request gets the same answer.
    assert await patch(shop, removes=True) == removed
    assert shop.there.calls == calls
    other = structs.replace(shop.house, client_id="other")
    with pytest.raises(Violated) as caught:
        await standard_usecases.patch_charge(shop.context, other, TXID, ContentsChange(), removes=True)
    assert broken(caught.value) == ["cob.status"]
    await check_books(shop.live)


async def test_what_somebody_removed_there_is_nobodys_removal_here(shop: Shop) -> None:
    await put(shop)
    shop.there.charges[TXID] = structs.replace(shop.there.charges[TXID], status="removed_by_us")
    with pytest.raises(Violated):
        await patch(shop, amount_cents=2000)
    with pytest.raises(Violated):
        await patch(shop, removes=True)


async def test_a_removal_whose_caller_was_told_too_late_is_answered_once(shop: Shop) -> None:
    await put(shop)
    shop.there.answers, shop.there.loses_answers = [SILENT], True
    with pytest.raises(errors.OutcomeUnknown):
        await patch(shop, removes=True)
    assert (await put(shop, None)).charge.status == "PENDING", "others go on"
    shop.live.clock.advance(seconds=60)
    await go_on(shop.at, shop.opened, CHANGE_CALLS)
    assert (await patch(shop, removes=True)).charge.status == "REMOVED_BY_RECEIVER"


async def test_a_put_says_nothing_already_while_a_revision_is_unknown(shop: Shop) -> None:
    await put(shop)
    shop.there.answers = [SILENT]
    with pytest.raises(errors.OutcomeUnknown):
        await put(shop, amount_cents=2000)
    with pytest.raises(errors.ServiceUnavailable):
        await put(shop)


async def test_what_these_charges_do_not_offer_is_told_at_once(shop: Shop) -> None:
    with pytest.raises(Violated) as caught:
        await standard_usecases.put_charge(
            shop.context, shop.house, TXID, contents(may_change_amount=True, key="nobodys@test.example"), 7
        )
    assert broken(caught.value) == ["cob.chave", "cob.valor.modalidadeAlteracao", "cob.loc.id"]
    await put(shop, question="?")
    with pytest.raises(Violated) as caught:
        await put(shop)
    assert broken(caught.value) == ["cob.solicitacaoPagador"]
    assert [call.split()[0] for call in shop.there.calls] == ["open"]


async def test_a_refusal_of_the_institution_names_the_member(shop: Shop) -> None:
    shop.there.answers = [CertainRefusal(code="chave", reason="a chave não é da conta", member="cob.chave")]
    with pytest.raises(Violated) as caught:
        await put(shop)
    assert broken(caught.value) == ["cob.chave"]
    assert "a chave não é da conta" in caught.value.rows[0].reason
    assert (await put(shop)).charge.status == "PENDING"


async def test_a_lifetime_that_is_not_taken_there_is_refused_before_it_is_asked(shop: Shop) -> None:
    shop.there.traits = InstitutionTraits(lifetime_min_s=300, lifetime_max_s=5000)
    for lifetime_s in (299, 5001):
        with pytest.raises(Violated, match="expiracao"):
            await put(shop, lifetime_s=lifetime_s)
    assert shop.there.calls == []
    await put(shop, lifetime_s=300)
    with pytest.raises(Violated, match="expiracao"):
        await patch(shop, lifetime_s=299)
    with pytest.raises(errors.InvalidQrCode, match="expiry"):
        await shop.charge()


async def test_a_txid_is_unique_over_the_holders_of_an_account(shop: Shop) -> None:
    await put(shop)
    other_id = await make_owner(shop.live, "2", "12345678000276")
    async with as_operator(shop.context).pool.acquire() as connection:
        await account_usecases.put_on_account(connection, shop.account, other_id)
    shop.context.directory.forget_all()
    other = Caller(client_id="other", holder_id=other_id, scopes=frozenset(SCOPES))
    with pytest.raises(Violated) as caught:
        await standard_usecases.put_charge(shop.context, other, TXID, contents(key=own_key("2")))
    assert broken(caught.value) == ["txid"]
    assert len(shop.there.calls) == 1, "before the bank is asked"


async def test_an_external_id_of_the_other_door_is_no_txid(shop: Shop) -> None:
    await shop.charge(TXID)
    with pytest.raises(Violated) as caught:
        await put(shop)
    assert broken(caught.value) == ["txid"]


async def test_locations_are_the_institutions(shop: Shop) -> None:
    with pytest.raises(errors.Forbidden):
        await location_usecases.create_location(shop.context, shop.house, "cob")
    with pytest.raises(errors.Forbidden):
        await location_usecases.unbind_location(shop.context, shop.house, 1)
