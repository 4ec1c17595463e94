"""Every kind of account at its simulated bank, over TLS with client certificates."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from pixconnect.features.institutions.profiles.profile import NAMES
from pixconnect.features.institutions.rules.institution import (
    CertainRefusal,
    ChargeTerms,
    Institution,
    ListedRefund,
    NotSent,
    OpenedCharge,
    ReceivedPix,
    UnknownOutcome,
)
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules.charge_contents import Line, Payer
from pixconnect.kernel.rules.rail import Settled
from support.faces import KEY, Bank, Control

TXID = "openedatanother00000000000001"
TERMS = ChargeTerms(
    txid=TXID, key=KEY, amount_cents=1234, lifetime_s=3600, payer=Payer(name="Maria", tax_id="52998224725"),
    question="Obrigado", lines=(Line(name="pedido", value="7"),),
)  # fmt: skip


@pytest.fixture
def name() -> str:
    """A profile with traits that no other test needs."""
    return "inter"


async def list_all(institution: Institution, *, only_returned: bool = False) -> list[ReceivedPix]:
    until = datetime.now(UTC)
    found = [
        item
        async for page in institution.list_received(until - timedelta(days=2), until, only_returned=only_returned)
        for item in page
    ]
    assert all(isinstance(item, ReceivedPix) for item in found), found
    return [item for item in found if isinstance(item, ReceivedPix)]


def shown(charge: object) -> OpenedCharge:
    assert isinstance(charge, OpenedCharge), charge
    return charge


async def settle(bank: Bank, return_ids: Sequence[str]) -> None:
    settled = Settled(settled_at=bank.service.context.clock.now())
    await end_orders(bank.service.context, [(each, settled) for each in return_ids])


# Santander's simulated bank takes the grant in the body, where the real institution takes it in the query.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "santander"])
async def test_a_charge_is_opened_revised_paid_and_returned(institution: Institution, bank: Bank, name: str) -> None:
    assert await institution.read_charge(TXID) is None
    opened = shown(await institution.open_charge(TERMS))
    assert (opened.txid, opened.amount_cents, opened.status, opened.lifetime_s) == (TXID, 1234, "active", 3600)
    assert opened.code is not None
    assert opened.code.startswith("000201")
    again = shown(await institution.read_charge(TXID))
    assert (again.code, again.created_at) == (opened.code, opened.created_at)
    longer = ChargeTerms(txid=TXID, key=KEY, amount_cents=1234, lifetime_s=7200)
    assert shown(await institution.revise_charge(longer)).lifetime_s == 7200
    network_txid = opened.network_txid or TXID
    assert (network_txid == TXID) == (name != "woovi")
    assert await list_all(institution) == []
    e2eid = await bank.be_paid(network_txid, 1234)
    other = await bank.be_paid(None, 500)
    found = {pix.end_to_end_id: pix for pix in await list_all(institution)}
    assert {pix.end_to_end_id: (pix.txid, pix.amount_cents) for pix in found.values()} == {
        e2eid: (TXID, 1234),
        other: (None, 500),
    }
    assert shown(await institution.read_charge(TXID)).status == "paid"
    assert await institution.read_received(e2eid) == found[e2eid]
    assert await institution.read_received("E" + "9" * 31) is None
    assert await list_all(institution, only_returned=True) == []
    # In parts.
    assert await institution.read_refund(e2eid, "a" * 32) is None
    for part, cents in (("a" * 32, 1000), ("b" * 32, 234)):
        made = await institution.refund(e2eid, part, cents)
        assert isinstance(made, ListedRefund), made
        assert made.status == "under_way"
        assert made.return_id is not None
        await settle(bank, [made.return_id])
        asked = await institution.read_refund(e2eid, part)
        assert asked is not None
        assert (asked.status, asked.amount_cents) == ("returned", cents)
    (returned,) = await list_all(institution, only_returned=True)
    assert sorted((refund.id, refund.amount_cents) for refund in returned.refunds) == [("a" * 32, 1000), ("b" * 32, 234)]
    assert all(refund.status == "returned" and refund.settled_at for refund in returned.refunds)


@pytest.mark.parametrize("name", ["efi", "woovi", "sicredi"])
async def test_a_removal_done_before_is_never_taken_for_a_refusal(institution: Institution, name: str) -> None:
    shown(await institution.open_charge(TERMS))
    again = await institution.open_charge(TERMS)
    # Some answer as before, some report the txid as used: either way the charge must be read.
    assert isinstance(again, OpenedCharge | UnknownOutcome), again
    assert isinstance(again, UnknownOutcome) == (name in ("efi", "woovi"))
    assert shown(await institution.remove_charge(TXID)).status == "removed_by_us"
    assert shown(await institution.read_charge(TXID)).status == "removed_by_us"
    assert isinstance(await institution.remove_charge(TXID), UnknownOutcome | CertainRefusal | OpenedCharge)
    revised = await institution.revise_charge(TERMS)
    assert not isinstance(revised, OpenedCharge) or revised.status == "removed_by_us"


@pytest.mark.parametrize("name", ["efi", "woovi", "sicoob"])
async def test_a_refusal_is_certain_only_where_the_profile_says_so(institution: Institution, name: str) -> None:
    elsewhere = ChargeTerms(txid=TXID, key="nobody@else.example", amount_cents=1234, lifetime_s=3600)
    answer = await institution.open_charge(elsewhere)
    if name == "woovi":
        # It has none of our keys.
        assert isinstance(answer, OpenedCharge), answer
        return
    assert isinstance(answer, CertainRefusal), answer
    assert answer.code == ("chave_invalida" if name == "efi" else "CobOperacaoInvalida")
    assert await institution.read_charge(TXID) is None


@pytest.mark.parametrize("name", ["efi", "woovi", "inter"])
async def test_a_webhook_is_set_listed_and_removed(institution: Institution, bank: Bank, name: str) -> None:
    assert list(await institution.list_webhooks()) == []
    await institution.set_webhook(KEY, bank.receiver.url)
    (webhook,) = await institution.list_webhooks()
    assert (webhook.key, webhook.url) == (None if name == "woovi" else KEY, bank.receiver.url)
    await institution.remove_webhook(KEY, bank.receiver.url)
    assert list(await institution.list_webhooks()) == []
    await institution.remove_webhook(KEY, "")


@pytest.mark.parametrize("name", ["efi", "woovi", "inter", "sicoob"])
async def test_permissions_are_tried_without_moving_anything(institution: Institution, name: str) -> None:
    tried = {permission.name: permission for permission in await institution.check([KEY])}
    wanted = {"CHARGE_GET", "TRANSACTION_GET_LIST"} if name == "woovi" else {"cob.read", "pix.read"}
    assert all(tried[each].is_given for each in wanted), tried
    if name in ("efi", "inter", "sicoob"):
        # The test client has every right; a program that only receives should not.
        assert tried["send"].is_given
        assert "may send" in tried["send"].explanation


@pytest.mark.parametrize("effect", ["no_answer", "lost", "html:after", "html:before", "unavailable"])
async def test_a_missing_answer_is_an_unknown_outcome(institution: Institution, control: Control, effect: str) -> None:
    control.set(("face_write", effect))
    answer = await institution.open_charge(TERMS)
    assert isinstance(answer, UnknownOutcome), answer
    is_done = effect in ("no_answer", "html:after")
    assert (await institution.read_charge(TXID) is not None) == is_done


async def test_too_many_calls_are_not_sent_until_they_may_be(institution: Institution, control: Control) -> None:
    control.set(("face_write", "too_many:7"))
    refused = await institution.open_charge(TERMS)
    assert isinstance(refused, NotSent), refused
    assert refused.retry_after is not None
    assert 7 <= refused.retry_after.total_seconds() <= 9
    # Nothing is sent before that time.
    soon = await institution.open_charge(TERMS)
    assert isinstance(soon, NotSent)
    assert "asked us to wait" in soon.reason


@pytest.mark.parametrize("name", ["efi", "woovi", "sicoob"])
async def test_an_ended_token_is_renewed_once(institution: Institution, control: Control, name: str) -> None:
    control.set(("face_write", "token_ended"), ("face_read", "token_ended"))
    answer = await institution.open_charge(TERMS)
    # Woovi has none, and a call that may not be repeated is not sent again.
    assert isinstance(answer, UnknownOutcome if name == "woovi" else OpenedCharge), answer
    if name != "woovi":
        assert await institution.read_charge(TXID) is not None


async def test_lists_are_read_again_after_a_failed_page(institution: Institution, bank: Bank, control: Control) -> None:
    made = {await bank.be_paid(None, 100 + number) for number in range(3)}
    for effect in ("html:before", "unavailable", "page_shift", "delay:300"):
        control.set(("face_read", effect))
        assert {pix.end_to_end_id for pix in await list_all(institution)} == made, effect
