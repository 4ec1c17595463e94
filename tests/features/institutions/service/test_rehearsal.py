"""A rehearsal leaves nothing open, refunds one cent at most, and is for test accounts only."""

import json

import pytest
from msgspec import structs

from pixconnect.features.institutions.rules.institution import InstitutionTraits, UnknownOutcome
from pixconnect.features.institutions.rules.recording import Rehearsal
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service import rehearsal as rehearsal_usecases
from pixconnect.kernel.flows import audit
from pixconnect.platform.base import errors
from support.account_shop import Shop
from support.operators import as_operator


async def rehearse(shop: Shop) -> Rehearsal:
    return await rehearsal_usecases.rehearse(as_operator(shop.context), shop.there.open, [], "loja")


async def test_the_charge_is_removed_and_nothing_is_returned_that_was_not_allowed(shop: Shop) -> None:
    shop.pay(700)
    found = await rehearse(shop)
    assert found.differs_count == 0, found.steps
    (charge,) = shop.there.charges.values()
    assert (charge.txid, charge.status) == (found.recording.txid, "removed_by_us")
    assert (shop.there.given_back_cents, found.recording.refunds) == (0, False)
    (entry,) = await audit.list_entries(as_operator(shop.context), count_max=1)
    assert (entry.verb, json.loads(entry.after or "")["txid"]) == ("institution rehearse", charge.txid)


async def test_one_cent_is_returned_under_one_id_asked_for_twice(shop: Shop) -> None:
    shop.there.traits = InstitutionTraits(repeats_refunds=True)
    shop.pay(700)
    await shop.allow()
    found = await rehearse(shop)
    asked = [call for call in shop.there.calls if call.startswith("refund")]
    assert asked == [f"refund {found.recording.refund_id}"] * 2
    assert shop.there.given_back_cents == 1


async def test_where_a_repeat_is_not_known_to_be_one_it_is_asked_for_once(shop: Shop) -> None:
    shop.pay(700)
    await shop.allow()
    await rehearse(shop)
    assert shop.there.given_back_cents == 1


async def test_what_differs_is_told_and_keeps_nothing_from_being_tried(shop: Shop) -> None:
    shop.there.answers = [UnknownOutcome(reason="the institution answered 500")]
    shop.there.loses_answers = True
    found = await rehearse(shop)
    assert {step.step: step.text for step in found.steps if step.outcome == "differs"} == {
        "open charge": "it is unknown what became of it: the institution answered 500"
    }
    assert [charge.status for charge in shop.there.charges.values()] == ["removed_by_us"]


async def test_nothing_is_rehearsed_in_production_or_at_a_paused_account(shop: Shop) -> None:
    await account_usecases.set_state(as_operator(shop.context), "loja", "paused")
    with pytest.raises(errors.BadRequest, match="paused"):
        await rehearse(shop)
    await account_usecases.set_state(as_operator(shop.context), "loja", "active")
    production = structs.replace(shop.account, environment="production")
    with pytest.raises(errors.BadRequest, match="production"):
        rehearsal_usecases.check_place(production)
    assert shop.there.charges == {}
