"""The payee of a QR code, and a payee that the institution names only with the end."""

from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from pixconnect.features.finding.service import timeline as timeline_usecases
from pixconnect.features.institutions.rules.institution import InstitutionTraits
from pixconnect.features.receipts import service as receipt_usecases
from pixconnect.features.receipts.service import show_parties
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.rules import br_code
from pixconnect.kernel.rules.access import Caller, Viewer
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY, Party
from pixconnect.kernel.rules.location import OutsideCharge
from pixconnect.kernel.rules.rail import DirectoryEntry
from pixconnect.kernel.rules.transfer import (
    AccountTransferRequest,
    KeyTransferRequest,
    QrCodeTransferRequest,
    Transfer,
    TransferRequest,
    TransferView,
)
from pixconnect.platform.base import errors
from support.account_shop import Shop, read_again
from support.books import check_books
from support.fake_institution import FakeInstitution
from support.records import outside_party, own_key
from support.service import STARTED_AT, Service, credit_report, make_charge, open_holder

OUTSIDE_KEY = "loja@outside.example"
LOCATION = "pix.outside.example/qr/v2/abc"
DYNAMIC = br_code.format_dynamic_br_code(LOCATION, "Loja", "Recife")


def a_static(**changes: Any) -> str:
    return br_code.format_static_br_code(**({"key": OUTSIDE_KEY, "merchant_name": "Loja", "merchant_city": "R"} | changes))


@pytest.fixture(autouse=True)
def outside(service: Service) -> None:
    """An outside shop in the directory, with a charge of R$ 5,00."""
    party = outside_party(key=OUTSIDE_KEY)
    service.rail.entries[OUTSIDE_KEY] = DirectoryEntry(key=OUTSIDE_KEY, key_type="EMAIL", party=party)
    ask(service)


def ask(service: Service, **changes: Any) -> None:
    charge: dict[str, Any] = {
        "txid": "T" * 32,
        "key": OUTSIDE_KEY,
        "amount_cents": 500,
        "status": "ATIVA",
        "expires_at": STARTED_AT + timedelta(hours=1),
    }
    service.locations.charges[LOCATION] = OutsideCharge(**(charge | changes))


async def pay(service: Service, caller: Caller, code: str, amount_cents: int = 500) -> TransferView:
    request = QrCodeTransferRequest(amount_cents=amount_cents, br_code=code)
    return await transfer_usecases.start_transfer(service.context, caller, request)


async def test_an_outside_charge_is_paid_with_its_txid(service: Service, caller: Caller) -> None:
    view = await pay(service, caller, DYNAMIC)
    assert (view.transfer.initiation_type, view.transfer.txid, view.transfer.is_book) == ("QRCODE", "T" * 32, False)
    assert view.credit_party == outside_party(key=OUTSIDE_KEY)


async def test_an_outside_charge_that_takes_any_amount_takes_any(service: Service, caller: Caller) -> None:
    ask(service, amount_cents=None)
    assert (await pay(service, caller, DYNAMIC, 77)).transfer.amount_cents == 77


async def test_a_static_code_carries_its_txid_and_three_stars_are_none(service: Service, caller: Caller) -> None:
    assert (await pay(service, caller, a_static(txid="PEDIDO1"))).transfer.txid == "PEDIDO1"
    assert (await pay(service, caller, a_static())).transfer.txid is None
    assert (await pay(service, caller, a_static(amount_cents=500))).transfer.amount_cents == 500


async def test_a_charge_of_another_holder_is_paid_by_book(service: Service, caller: Caller) -> None:
    other = await open_holder(service, account_number="2")
    charge = await make_charge(service, other, amount_cents=500, key=own_key("2"))
    view = await pay(service, caller, charge.br_code)
    assert (view.transfer.status, view.transfer.txid) == ("CONFIRMED", charge.txid)
    paid = await charge_usecases.read_charge_by_id(service.context, other, charge.id)
    assert paid.status == "APPROVED"
    names = [row["name"] for row in await service.context.pool.fetch("select name from event order by id")]
    assert names == [
        "qrcode.pending", "transfer.out.processing", "transfer.in.processing", "transfer.out.confirmed",
        "transfer.in.confirmed", "qrcode.approved",
    ]  # fmt: skip
    await check_books(service)


async def test_the_first_rule_that_is_broken_is_the_answer(service: Service, caller: Caller) -> None:
    other = await open_holder(service, account_number="2")
    paid, expired, mine = (
        await make_charge(service, other, amount_cents=500, key=own_key("2")),
        await make_charge(service, other, amount_cents=500, key=own_key("2")),
        await make_charge(service, caller, amount_cents=500, key=own_key()),
    )
    await receive_credit(service.context, credit_report(service, amount_cents=500, account_number="2", txid=paid.txid))
    nothing = br_code.format_dynamic_br_code(service.context.policy.location_prefix + "x" * 32, "Loja", "Recife")
    recurrence = (
        "00020126180014br.gov.bcb.pix5204000053039865802BR5904Loja6006Recife62070503***"
        "80490014br.gov.bcb.pix2527pix.outside.example/rec/abc6304C3B5"
    )
    refusals: list[tuple[str, str, int, type[errors.RuleBroken]]] = [
        ("its form before its key", DYNAMIC[:-1] + "0", 1, errors.InvalidQrCode),
        ("a recurrence alone", recurrence, 1, errors.InvalidQrCode),
        ("nothing behind it", nothing, 1, errors.InvalidQrCode),
        ("paid, and another amount", paid.br_code, 1, errors.QrCodeAlreadyPaid),
        ("another amount", expired.br_code, 1, errors.AmountMismatch),
        ("another amount, and my own", mine.br_code, 1, errors.AmountMismatch),
        ("my own", mine.br_code, 500, errors.SameAccount),
        ("my own key", a_static(key=own_key()), 500, errors.SameAccount),
        ("unknown, and another amount", a_static(key="x@outside.example", amount_cents=5), 500, errors.PixKeyNotFound),
        ("another amount of a static one", a_static(amount_cents=501), 500, errors.AmountMismatch),
        ("another amount of an outside one", DYNAMIC, 501, errors.AmountMismatch),
    ]
    for why, code, amount_cents, refusal in refusals:
        with pytest.raises(errors.PixConnectError) as caught:
            await pay(service, caller, code, amount_cents)
        assert type(caught.value) is refusal, why
    service.clock.advance(days=1)
    with pytest.raises(errors.QrCodeExpired):
        await pay(service, caller, expired.br_code, 1)
    await check_books(service)


async def test_of_an_outside_charge_the_key_is_judged_before_its_state(service: Service, caller: Caller) -> None:
    ask(service, key="nobody@outside.example", status="CONCLUIDA")
    with pytest.raises(errors.PixKeyNotFound):
        await pay(service, caller, DYNAMIC, 1)
    ask(service, key="no form")
    with pytest.raises(errors.PixKeyNotFound):
        await pay(service, caller, DYNAMIC)
    ask(service, status="CONCLUIDA")
    with pytest.raises(errors.QrCodeAlreadyPaid):
        await pay(service, caller, DYNAMIC, 1)
    for gone in ("REMOVIDA_PELO_PSP", "REMOVIDA_PELO_USUARIO_RECEBEDOR"):
        ask(service, status=gone)
        with pytest.raises(errors.QrCodeExpired):
            await pay(service, caller, DYNAMIC, 1)
    ask(service, expires_at=STARTED_AT)
    with pytest.raises(errors.QrCodeExpired):
        await pay(service, caller, DYNAMIC, 1)


async def test_who_cannot_be_asked_is_passed_over_until_nothing_else_is_wrong(service: Service, caller: Caller) -> None:
    service.rail.is_reachable = False
    with pytest.raises(errors.AmountMismatch):  # the location answered, the directory does not
        await pay(service, caller, DYNAMIC, 501)
    with pytest.raises(errors.ServiceUnavailable):
        await pay(service, caller, DYNAMIC)
    service.locations.charges.clear()
    with pytest.raises(errors.InsufficientFunds):
        await pay(service, caller, DYNAMIC, 1_000_001)
    with pytest.raises(errors.ServiceUnavailable):
        await pay(service, caller, DYNAMIC)
    await service.set_holder(caller, may_withdraw=False)
    with pytest.raises(errors.HolderBlocked):
        await pay(service, caller, DYNAMIC, 1_000_001)


async def test_expiry_is_judged_by_the_clock_as_it_is_in_the_database(service: Service, caller: Caller) -> None:
    """Another process has moved it, and this one has not written since (P15)."""
    other = await open_holder(service, account_number="2")
    charge = await make_charge(service, other, amount_cents=500, key=own_key("2"))
    await service.context.pool.execute("update clock set offset_us = $1", 86_400 * 1_000_000)
    with pytest.raises(errors.QrCodeExpired):
        await pay(service, caller, charge.br_code)


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
    return await read_again(shop, sent)


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
        await shop.live.execute_as_owner("update settled_payee set reported_at = now()")
