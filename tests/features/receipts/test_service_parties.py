"""The data about a transfer's parties: at an institution, over our own rail, and between two of our holders."""

from collections import Counter

import pytest
from msgspec import structs

from pixconnect.features.receipts.service import KnownParty, TransferParties, read_parties, show_parties
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.holder import Party, describe_party
from pixconnect.platform.base.errors import NotFound
from support.account_shop import Shop
from support.records import ISPB, outside_party
from support.service import Service, open_holder, send_out


async def read(context: Context, caller: Caller, transfer_id: int) -> TransferParties:
    return show_parties(await read_parties(context, caller, transfer_id))


def certainties(party: KnownParty) -> dict[str, str]:
    return {member: getattr(party, member).certainty for member in KnownParty.__struct_fields__}


async def test_each_member_of_a_payer_is_known_masked_or_unknown(shop: Shop) -> None:
    await shop.receive(payer=describe_party(name="Ana", tax_id="***982247**"))
    (row,) = await shop.live.fetch("select id, end_to_end_id from transfer")
    found = await read(shop.context, shop.house, row["id"])
    payer = certainties(found.payer)
    assert (payer.pop("name"), payer.pop("tax_id"), set(payer.values())) == ("known", "masked", {"unknown"})
    assert (found.payer.tax_id.value, found.payer.ispb.value) == ("***982247**", None)
    assert (found.payee.name.certainty, found.payee.key.certainty) == ("known", "known")
    names = found.end_to_end_id, found.is_end_to_end_id_ours, found.institution
    assert names == (row["end_to_end_id"], False, shop.account.name)


async def test_what_becomes_known_later_is_known(shop: Shop) -> None:
    pix = await shop.receive()
    shop.there.received[0] = structs.replace(pix, payer=describe_party(name="Ana", ispb="12345678"))
    await shop.read()
    (row,) = await shop.live.fetch("select id from transfer")
    found = await read(shop.context, shop.house, row["id"])
    assert (found.payer.name.value, found.payer.ispb.value) == ("Ana", "12345678")
    assert certainties(found.payer)["tax_id"] == "unknown"


async def test_the_txid_that_an_institution_makes_is_shown_of_what_paid_its_charge(shop: Shop) -> None:
    shop.there.makes_txids = True
    charge = await shop.charge()
    for txid in (charge.txid, charge.txid, None):
        shop.pay(txid=txid)
    await shop.read()
    rows = await shop.live.fetch("select id from transfer order by id")
    found = [await read(shop.context, shop.house, row["id"]) for row in rows]
    named = [(one.transaction_identification, one.network_transaction_identification) for one in found]
    # Items of one list are recorded concurrently, so ids are in no order.
    assert Counter(named) == {(charge.txid, "there0"): 2, (None, None): 1}


async def start(service: Service, caller: Caller, payee: Party) -> int:
    return (await send_out(service, caller, 100, credit_party=payee)).id


async def test_over_our_own_rail_the_parties_are_whole_and_names_as_its_abilities_say(service: Service) -> None:
    caller = await open_holder(service, funds_cents=1000)
    found = await read(service.context, caller, await start(service, caller, outside_party()))
    assert certainties(found.payee)["account_type"] == certainties(found.payer)["tax_id"] == "known"
    assert (found.is_end_to_end_id_ours, found.institution) == (not service.context.policy.abilities.keeps_our_id, None)


async def test_between_two_holders_of_ours_the_name_is_ours(service: Service) -> None:
    caller = await open_holder(service, funds_cents=1000)
    await open_holder(service, account_number="2")
    payee = structs.replace(outside_party(), ispb=ISPB, account_number="2")
    found = await read(service.context, caller, await start(service, caller, payee))
    assert found.is_end_to_end_id_ours


async def test_another_holders_transfer_looks_absent(service: Service) -> None:
    caller = await open_holder(service, funds_cents=1000)
    stranger = await open_holder(service, account_number="2")
    sent = await start(service, caller, outside_party())
    with pytest.raises(NotFound) as refused:
        await read_parties(service.context, stranger, sent)
    with pytest.raises(NotFound) as absent:
        await read_parties(service.context, stranger, sent + 1000)
    assert str(refused.value) == str(absent.value)
