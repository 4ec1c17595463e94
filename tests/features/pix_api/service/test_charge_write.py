"""Charges with a due date: made, revised, and paid by the amount of the day, on a real database."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from pixconnect.features.pix_api.service import charge as usecases
from pixconnect.features.pix_api.service import location as location_usecases
from pixconnect.features.pix_api.service.charge_write import StandardCharge
from pixconnect.features.pix_api.service.pix import Componente, ComponentesValor, read_pix
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.br_code import parse_br_code
from pixconnect.kernel.rules.charge_contents import (
    ChargeContents,
    ContentsChange,
    DatedDiscount,
    Discount,
    DueChange,
    DueTerms,
    Fine,
    Interest,
    Payer,
    PayerAddress,
    Rebate,
)
from pixconnect.kernel.rules.transfer import QrCodeTransferRequest
from pixconnect.platform.base import errors
from pixconnect.platform.base.errors import Violated
from support.books import check_books
from support.postgres import Addresses, as_owner
from support.records import broken, own_key
from support.service import Service, accepted, cancelled, credit_report, open_holder

TXID = "boleto00000000000000000001"
TERMS = DueTerms(
    due_on=date(2026, 7, 10),
    valid_days=20,
    fine=Fine(kind="percentage", value=200),
    interest=Interest(kind="percentage_a_month", value=100),
    rebate=Rebate(kind="sum", value=500),
    discount=Discount(kind="sum_until_a_date", dated=(DatedDiscount(until=date(2026, 7, 5), value=1000),)),
    discounts_roll=True,
)


def contents(**changes: Any) -> ChargeContents:
    asked = dict(lifetime_s=0, amount_cents=10_000, key=own_key(), payer=Payer(name="Ana", tax_id="52998224725"), due=TERMS)
    return ChargeContents(**{**asked, **changes})


async def put(service: Service, caller: Caller, txid: str = TXID, /, **changes: Any) -> StandardCharge:
    return await usecases.put_charge(service.context, caller, txid, contents(**changes))


async def patch(service: Service, caller: Caller, txid: str = TXID, /, **changes: Any) -> StandardCharge:
    return await usecases.patch_charge(service.context, caller, txid, ContentsChange(**changes), kind="cobv")


def set_day(service: Service, day: date, hour: int = 12) -> None:
    """Move the clock to an hour of a day in Sao Paulo, which is three hours behind."""
    service.clock.advance(
        seconds=(
            datetime(day.year, day.month, day.day, hour, tzinfo=UTC) + timedelta(hours=3) - service.clock.now()
        ).total_seconds()
    )


async def pay(service: Service, amount_cents: int, txid: str = TXID) -> str | None:
    """A payment from outside; returns the code of its refusal."""
    report = credit_report(service, amount_cents=amount_cents, txid=txid)
    return (await receive_credit(service.context, structs.replace(report, reported_at=service.clock.now()))).refusal_code


async def read(service: Service, caller: Caller, txid: str = TXID) -> StandardCharge:
    return await usecases.read_charge(service.context, caller, txid, kind="cobv")


async def find_parts(service: Service, caller: Caller) -> ComponentesValor | None:
    """The parts of the Pix that has paid."""
    paid = await usecases.find_pix(service.context, [await read(service, caller)])
    (pix,) = paid.values()
    return (await read_pix(service.context, caller, pix.end_to_end_id)).componentes_valor


@pytest.mark.parametrize(
    ("day", "amount_cents", "parts"),
    [
        # 100.00 - 5.00, and 10.00 less until the 5th.
        (date(2026, 7, 3), 8_500, dict(abatimento="5.00", desconto="10.00")),
        # A Sunday, and the Monday to which it rolls.
        (date(2026, 7, 6), 8_500, dict(abatimento="5.00", desconto="10.00")),
        (date(2026, 7, 10), 9_500, dict(abatimento="5.00")),
        # 95.00, 2 % of that once, 1 % a month for 3 days: 1.90 and 0.095.
        (date(2026, 7, 13), 9_700, dict(abatimento="5.00", multa="1.90", juros="0.10")),
    ],
)
async def test_the_amount_of_the_day_pays_it_and_no_other(
    service: Service, caller: Caller, day: date, amount_cents: int, parts: dict[str, str]
) -> None:
    made = await put(service, caller)
    set_day(service, day)
    for other in (amount_cents - 1, amount_cents + 1, 10_000):
        assert await pay(service, other) == "AM09"
    assert await pay(service, amount_cents) is None
    paid = (await read(service, caller)).charge
    assert (paid.status, paid.amount_cents, paid.asked_cents) == ("APPROVED", amount_cents, 10_000)
    assert await find_parts(service, caller) == ComponentesValor(
        original=Componente(valor="100.00"), **{name: Componente(valor=valor) for name, valor in parts.items()}
    )
    assert await pay(service, amount_cents) == "BE17"
    # Its contents stay: the same request returns it as it is.
    again = await put(service, caller)
    assert (again.charge.id, again.charge.status, again.contents) == (made.charge.id, "APPROVED", made.contents)
    await check_books(service)


async def test_an_old_charge_keeps_its_discount_rule(service: Service, caller: Caller, database: Addresses) -> None:
    await put(service, caller)
    async with as_owner(database) as owner:
        change = """update charge set contents = replace(contents, ',"discounts_roll":true', '')"""
        with pytest.raises(asyncpg.IntegrityConstraintViolationError) as refused:
            await owner.execute(change)
        assert refused.value.constraint_name == "a_charge_keeps_its_rule"
        await owner.execute(f"set session_replication_role = replica; {change}")
    # The same request, as a program of today repeats it, makes no revision.
    assert (await put(service, caller)).revision == 0
    revised = await patch(service, caller, due=DueChange(discount=TERMS.discount), amount_cents=20_000)
    assert (revised.revision, revised.contents.due) == (1, structs.replace(TERMS, discounts_roll=False))
    assert (await put(service, caller, amount_cents=20_000)).revision == 1
    set_day(service, date(2026, 7, 6))
    assert await pay(service, 18_500) == "AM09"
    assert await pay(service, 19_500) is None
    await check_books(service)


async def test_it_expires_at_the_midnight_after_its_last_day(service: Service, caller: Caller) -> None:
    made = await put(service, caller)
    # Friday the 10th and 20 days: Thursday the 30th.
    assert made.charge.expires_at == datetime(2026, 7, 31, 3, tzinfo=UTC)
    set_day(service, date(2026, 7, 30), hour=23)
    service.clock.advance(seconds=3599)
    assert await pay(service, 1) == "AM09"
    service.clock.advance(seconds=1)
    assert await pay(service, 1) == "BE17"
    await charge_usecases.expire_charges(service.context, range(256), service.clock.now(), 10)
    assert (await read(service, caller)).charge.status == "EXPIRED"
    revived = await patch(service, caller, due=DueChange(valid_days=40))
    assert (revived.charge.status, revived.revision) == ("PENDING", 1)
    assert revived.contents.due == structs.replace(TERMS, valid_days=40)
    await check_books(service)


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_an_accepted_payment_settles_as_accepted(service: Service, caller: Caller, is_cancelled: bool) -> None:
    await put(service, caller)
    set_day(service, date(2026, 7, 10))
    report = credit_report(service, amount_cents=9_500, txid=TXID)
    report = structs.replace(report, reported_at=service.clock.now())
    assert (await receive_credit(service.context, accepted(report))).refusal_code is None
    await check_books(service)
    set_day(service, date(2026, 7, 20))
    assert await pay(service, 9_500) == "BE17"
    if is_cancelled:
        await receive_credit(service.context, cancelled(report))
        await check_books(service)
        assert await pay(service, 9_500) == "AM09"
        return
    await receive_credit(service.context, structs.replace(report, reported_at=service.clock.now()))
    paid = (await read(service, caller)).charge
    assert (paid.status, paid.amount_cents, paid.asked_cents) == ("APPROVED", 9_500, 10_000)
    assert await find_parts(service, caller) == ComponentesValor(
        original=Componente(valor="100.00"), abatimento=Componente(valor="5.00")
    )
    await check_books(service)


async def test_another_holder_of_ours_pays_the_amount_of_the_day_by_its_code(service: Service, caller: Caller) -> None:
    made = await put(service, caller)
    payer = await open_holder(service, account_number="2", funds_cents=50_000)
    set_day(service, date(2026, 7, 13))

    async def send(amount_cents: int) -> None:
        request = QrCodeTransferRequest(amount_cents=amount_cents, br_code=made.charge.br_code)
        await transfer_usecases.start_transfer(service.context, payer, request)

    with pytest.raises(errors.AmountMismatch):
        await send(10_000)
    await send(9_700)
    paid = (await read(service, caller)).charge
    assert (paid.status, paid.amount_cents) == ("APPROVED", 9_700)
    assert await find_parts(service, caller) is not None
    await check_books(service)


async def test_its_code_leads_to_a_location_of_its_kind(service: Service, caller: Caller) -> None:
    made = await put(service, caller)
    assert made.location is not None
    assert made.location.path == f"cobv/{made.location.token}"
    code = parse_br_code(made.charge.br_code)
    assert code.location == service.context.policy.location_prefix + made.location.path
    assert "010212" not in made.charge.br_code
    directory = service.context.directory
    served = await directory.find_served(made.location.path)
    assert served is not None
    assert served.id == made.charge.id
    assert await directory.find_served(made.location.token) is None
    unbound = await location_usecases.unbind_location(service.context, caller, made.location.id)
    assert unbound.status == "COBV_FREE"
    assert await pay(service, 9_500) == "BE17"
    at_once = await location_usecases.create_location(service.context, caller, "cob")
    with pytest.raises(Violated) as violated:
        await usecases.put_charge(service.context, caller, TXID, contents(), at_once.id)
    assert broken(violated.value) == ["cobv.loc.id"]
    bound = await usecases.put_charge(service.context, caller, TXID, contents(), made.location.id)
    assert bound.location == made.location
    await check_books(service)


async def test_a_patch_changes_parts_and_a_new_payer_takes_its_address_along(service: Service, caller: Caller) -> None:
    address = PayerAddress(email="ana@test.example", street="Rua A, 1")
    await put(service, caller, address=address)
    fine = Fine(kind="sum", value=100)
    patched = await patch(service, caller, due=DueChange(fine=fine, due_on=date(2026, 7, 9)), amount_cents=20_000)
    assert patched.contents == contents(
        address=address, amount_cents=20_000, due=structs.replace(TERMS, fine=fine, due_on=date(2026, 7, 9))
    )
    assert (patched.charge.due_on, patched.revision) == (date(2026, 7, 9), 1)
    moved = await patch(service, caller, payer=Payer(name="Bia", tax_id="52998224725"))
    assert moved.contents.address is None
    assert (await patch(service, caller)).revision == 2
    earlier = await usecases.read_charge(service.context, caller, TXID, 0, kind="cobv")
    assert earlier.contents == contents(address=address)
    await check_books(service)


async def test_a_past_due_date_may_stay_and_no_new_one_may_be_past(service: Service, caller: Caller) -> None:
    await put(service, caller)
    set_day(service, date(2026, 7, 13))
    assert (await patch(service, caller, question="?")).revision == 1
    with pytest.raises(Violated) as violated:
        await patch(service, caller, due=DueChange(due_on=date(2026, 7, 12)))
    assert broken(violated.value) == ["cobv.calendario.dataDeVencimento"]
    assert (await patch(service, caller, due=DueChange(due_on=date(2026, 7, 13)))).revision == 2


async def test_a_holder_without_an_address_can_make_none(service: Service) -> None:
    homeless = await open_holder(service, account_number="2", has_address=False)
    with pytest.raises(Violated) as violated:
        await put(service, homeless, key=own_key("2"))
    assert broken(violated.value) == ["cobv.recebedor"]
    assert "holder set" in violated.value.rows[0].reason
