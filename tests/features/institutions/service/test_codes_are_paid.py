"""QR codes are paid over an account at an institution, which reads them itself: once, as accepted, and to allowed payees."""

from datetime import timedelta

import pytest
from msgspec import structs

from pixconnect.features.institutions.rules.institution import InstitutionTraits
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.rules.br_code import format_dynamic_br_code, format_static_br_code
from pixconnect.kernel.rules.location import OutsideCharge
from pixconnect.kernel.rules.transfer import KeyTransferRequest, QrCodeTransferRequest, SendingTerms, Transfer, TransferRequest
from pixconnect.platform.base import errors
from support.account_shop import Shop, read_again
from support.books import check_books
from support.fake_institution import LOST_AFTER, LOST_BEFORE, OWNER_TAX_ID, FakeInstitution
from support.records import own_key
from support.service import Service, read_funds

KEY, OTHER = "joana@pix.example", "maria@pix.example"
LOCATION, TXID = "pix.shop.example/v2/7d9f0335", "T" * 32
CODES = InstitutionTraits(sends=("KEY", "MANUAL", "QRCODE"), resend_for=timedelta(hours=12))


@pytest.fixture
def there(live: Service) -> FakeInstitution:
    return FakeInstitution(live.clock, CODES)


def static(key: str = KEY, amount_cents: int | None = 400) -> str:
    return format_static_br_code(key, "Loja", "Recife", amount_cents=amount_cents, txid="order7")


def dynamic(shop: Shop, amount_cents: int | None = 400) -> str:
    asked = OutsideCharge(txid=TXID, key=KEY, amount_cents=amount_cents, status="ATIVA", expires_at=None)
    shop.live.locations.charges[LOCATION] = asked
    return format_dynamic_br_code(LOCATION, "Loja", "Recife")


async def fill(shop: Shop, amount_cents: int = 10_000) -> None:
    await shop.allow_sending()
    await shop.receive(amount_cents)


async def pay(shop: Shop, code: str, amount_cents: int = 400, external_id: str | None = None) -> Transfer:
    return await send(shop, QrCodeTransferRequest(amount_cents=amount_cents, br_code=code, external_id=external_id))


async def send(shop: Shop, request: TransferRequest) -> Transfer:
    return (await transfer_usecases.start_transfer(shop.context, shop.house, request, SendingTerms())).transfer


@pytest.mark.parametrize("is_static", [True, False])
async def test_a_code_leaves_as_it_is_with_what_it_led_to(shop: Shop, *, is_static: bool) -> None:
    await fill(shop)
    code = static() if is_static else dynamic(shop)
    sent = await pay(shop, code, external_id="t1")
    assert (sent.initiation_type, sent.counterparty.key, sent.txid) == ("QRCODE", KEY, "order7" if is_static else TXID)
    assert (await pay(shop, code, external_id="t1")).id == sent.id, "a repetition is answered"
    await shop.move_orders()
    ((_, listed),) = shop.there.sent.items()
    (paid,) = shop.there.paid
    assert (paid.br_code, paid.txid, paid.amount_cents, listed.payee) == (code, sent.txid, 400, KEY)
    assert (await read_again(shop, sent)).status == "CONFIRMED"
    assert (await read_funds(shop.live, shop.house), shop.there.paid_cents) == ((9_600, 0), 400)
    await check_books(shop.live)


@pytest.mark.parametrize("lost", [LOST_BEFORE, LOST_AFTER])
async def test_an_answer_that_is_lost_is_asked_about_and_paid_once(shop: Shop, lost: object) -> None:
    await fill(shop)
    shop.there.send_answers = [lost]  # type: ignore[list-item]  one of its answers
    sent = await pay(shop, static())
    for _ in range(4):
        await shop.move_orders()
        shop.live.clock.advance(minutes=2)
    assert ((await read_again(shop, sent)).status, shop.there.paid_cents) == ("CONFIRMED", 400)
    assert {paid.br_code for paid in shop.there.paid} == {static()}
    await check_books(shop.live)


async def test_what_was_forgotten_meets_its_own_name(shop: Shop) -> None:
    shop.there.send_status = "under_way"
    await fill(shop)
    sent = await pay(shop, static(), external_id="t1")
    await shop.move_orders()
    await shop.live.execute_as_owner("delete from rail_step")
    shop.there.end_sent("settled")
    for _ in range(3):
        await shop.move_orders(minutes=2)
    assert ((await read_again(shop, sent)).status, shop.there.paid_cents, len(shop.there.sent)) == ("CONFIRMED", 400, 1)


async def test_a_code_that_fixes_no_amount_is_paid_only_where_the_amount_can_be_said(shop: Shop) -> None:
    await fill(shop)
    for code in (static(amount_cents=None), dynamic(shop, None)):
        with pytest.raises(errors.InvalidQrCode, match="fixes no amount"):
            await pay(shop, code, 250)
    shop.there.traits = structs.replace(CODES, states_amount_of_code=True)
    await pay(shop, static(amount_cents=None), 250)
    with pytest.raises(errors.AmountMismatch):
        await pay(shop, static(), 250)
    await shop.move_orders()
    assert [paid.amount_cents for paid in shop.there.paid] == [250]


async def test_where_codes_are_not_paid_nothing_is_reserved(shop: Shop) -> None:
    await fill(shop)
    shop.there.traits = structs.replace(CODES, sends=("KEY", "MANUAL"))
    with pytest.raises(errors.ServiceUnavailable, match="QR code"):
        await pay(shop, static())
    shop.there.traits = CODES
    with pytest.raises(errors.SameAccount):
        await pay(shop, static(own_key()))
    assert await read_funds(shop.live, shop.house) == (10_000, 0)


async def test_a_code_goes_to_whom_is_allowed_by_the_key_that_it_leads_to(shop: Shop) -> None:
    await fill(shop)
    await pay(shop, static(OTHER))
    await shop.move_orders()
    await shop.allow_sending(payees="own")
    with pytest.raises(errors.LimitExceeded, match=r"emv: .* its owner alone"):
        await pay(shop, static(OTHER))
    await pay(shop, static(OWNER_TAX_ID))
    await shop.allow_sending(payees="known")
    # The payee of a code does not become known by other names.
    with pytest.raises(errors.LimitExceeded, match="already paid over it"):
        await pay(shop, static(KEY))
    await pay(shop, static(OTHER))
    await send(shop, KeyTransferRequest(amount_cents=100, key=OTHER, key_type="EMAIL"))
    await shop.allow_sending(transfer_cents=399)
    with pytest.raises(errors.LimitExceeded, match="399 cents each"):
        await pay(shop, static(KEY))
    await check_books(shop.live)


async def test_a_code_that_is_not_the_one_that_was_accepted_is_never_paid(shop: Shop) -> None:
    await fill(shop)
    sent = await pay(shop, static())
    await shop.live.execute_as_owner(f"update open_order set br_code = '{static(OTHER)}'")
    await shop.move_orders()
    await shop.move_orders(seconds=shop.context.policy.handover_timeout_s + 1)
    assert ((await read_again(shop, sent)).status, shop.there.paid) == ("CANCELLED", [])
    assert await read_funds(shop.live, shop.house) == (10_000, 0)


async def test_the_schema_takes_no_order_by_code_without_its_code(shop: Shop) -> None:
    await fill(shop)
    await shop.live.execute_as_owner(
        "create function lose_code() returns trigger language plpgsql as $$ begin new.br_code := null; return new; end $$"
    )
    await shop.live.execute_as_owner(
        "create trigger a_lose before insert on open_order for each row execute function lose_code()"
    )
    with pytest.raises(errors.PixConnectError):
        await pay(shop, static())
    assert await read_funds(shop.live, shop.house) == (10_000, 0)
