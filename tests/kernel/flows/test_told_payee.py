"""The payee of a transfer by key is kept when the institution returns it, and shown beside the accepted one."""

import asyncpg
import pytest
from msgspec import structs

from pixconnect.features.finding.service import timeline as timeline_usecases
from pixconnect.features.institutions.rules.institution import InstitutionTraits
from pixconnect.features.receipts import service as receipt_usecases
from pixconnect.features.receipts.service import show_parties
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.rules.access import Viewer
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY, Party
from pixconnect.kernel.rules.transfer import AccountTransferRequest, KeyTransferRequest, Transfer, TransferRequest
from support.account_shop import Shop
from support.books import check_books
from support.fake_institution import FakeInstitution
from support.records import outside_party
from support.service import Service

KEY = "joana@pix.example"
TO_KEY = KeyTransferRequest(amount_cents=100, key=KEY, key_type="EMAIL", external_id="t1")
TOLD = structs.replace(UNKNOWN_PARTY, name="Joana Lima", tax_id="***.982.247-**", ispb="12345678")


@pytest.fixture
def there(live: Service) -> FakeInstitution:
    return FakeInstitution(live.clock, InstitutionTraits(sends=("KEY", "MANUAL")))


async def send(shop: Shop, request: TransferRequest = TO_KEY, told: Party | None = TOLD) -> Transfer:
    shop.there.told_payee = told
    await shop.allow_sending()
    await shop.receive(1000)
    sent = (await transfer_usecases.start_transfer(shop.context, shop.house, request)).transfer
    await shop.move_orders()
    return (await transfer_usecases.read_transfer_by_id(shop.context, shop.house, sent.id)).transfer


async def read_payee(shop: Shop, sent: Transfer) -> Party:
    return (await receipt_usecases.read_parties(shop.context, shop.house, sent.id)).view.credit_party


async def test_what_is_told_with_the_end_is_shown_and_changes_nothing_that_was_accepted(shop: Shop) -> None:
    sent = await send(shop)
    assert (sent.status, sent.counterparty.name, sent.counterparty.key) == ("CONFIRMED", "-", KEY)
    payee = await read_payee(shop, sent)
    assert (payee.name, payee.tax_id, payee.ispb, payee.key) == ("Joana Lima", "***.982.247-**", "12345678", KEY)
    shown = show_parties(await receipt_usecases.read_parties(shop.context, shop.house, sent.id)).payee
    assert (shown.name.certainty, shown.tax_id.certainty, shown.branch.certainty) == ("known", "masked", "unknown")
    again = await transfer_usecases.start_transfer(shop.context, shop.house, TO_KEY)
    assert (again.transfer.id, again.credit_party.name) == (sent.id, "-")
    await check_books(shop.live)


async def test_what_was_known_stays_and_what_says_nothing_more_is_not_kept(shop: Shop) -> None:
    party = outside_party()
    other = structs.replace(TOLD, name="Somebody Else", ispb="87654321")
    sent = await send(shop, AccountTransferRequest(amount_cents=100, credit_party=party), other)
    assert await read_payee(shop, sent) == sent.counterparty
    nothing = await send(shop, structs.replace(TO_KEY, external_id="t2"), None)
    assert (await read_payee(shop, nothing)).name == "-"
    assert await shop.live.fetch("select from settled_payee") == []


async def test_it_is_on_the_receipt_and_in_the_console(shop: Shop) -> None:
    sent = await send(shop)
    viewer = Viewer(holder_id=shop.house.holder_id, scopes=shop.house.scopes)
    receipt = await receipt_usecases.read_receipt(shop.context, viewer, "transfer", sent.id)
    assert (receipt.payee.name, receipt.payee.tax_id, receipt.payee.key) == ("Joana Lima", "***.982.247-**", KEY)
    case = await timeline_usecases.read_timeline(shop.context, viewer, "transfer", sent.id)
    assert case.facts.transfers[0].counterparty.name == "Joana Lima"


async def test_the_schema_keeps_it_and_takes_none_of_what_has_not_settled(shop: Shop) -> None:
    shop.there.send_status = "under_way"
    sent = await send(shop)
    insert = (
        "insert into settled_payee select id, holder_id, counterparty, now() from transfer "
        f"where id = {sent.id} and direction = 'OUT'"
    )
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="has reached nobody"):
        await shop.live.execute_as_owner(insert)
    shop.there.end_sent("settled")
    await shop.move_orders(minutes=1)
    assert len(await shop.live.fetch("select from settled_payee")) == 1
    with pytest.raises(asyncpg.PostgresError):
        await shop.live.execute_as_owner("update settled_payee set told_at = now()")
