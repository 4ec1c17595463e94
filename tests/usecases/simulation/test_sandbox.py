"""What people outside do, for the holder who asks: what is meant where something is left out, and what is refused before."""

from datetime import date
from typing import cast

import pytest
from msgspec import structs

from pixconnect.domain.due.terms import DueTerms, Fine, Rebate
from pixconnect.domain.frame import errors
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.money.charge_contents import ChargeContents, Payer
from pixconnect.domain.money.rail import ReturnReport, Settled
from pixconnect.domain.money.transfer import AccountTransferRequest
from pixconnect.domain.simulation.sandbox_control import (
    GIVE_BACK,
    LIST_KEYS,
    PAY,
    REPLACE_FAULTS,
    Arrival,
    ControlCall,
    NewKey,
    NewQrCode,
    OutsidePayer,
    OutsideReturn,
    OutsideTransfer,
    SandboxControl,
    SandboxSilent,
    SandboxUnavailable,
)
from pixconnect.usecases.money import transfer as transfer_usecases
from pixconnect.usecases.money.incoming import receive_return
from pixconnect.usecases.money.settlement import end_orders
from pixconnect.usecases.simulation import sandbox as sandbox_usecases
from pixconnect.usecases.standard import charge as charge_usecases
from support.records import outside_party, own_key
from support.service import STARTED_AT, Service, make_charge, open_holder


class Returning:
    """A sandbox in which receivers return what they are asked to; it remembers how much."""

    def __init__(self) -> None:
        self.amounts: list[int | None] = []

    async def call(self, what: ControlCall[OutsideReturn, Arrival], asked: OutsideReturn) -> Arrival:
        assert what is GIVE_BACK
        self.amounts.append(asked.amount_cents)
        return Arrival(id="D1", amount_cents=asked.amount_cents or 0, status="CONFIRMED")


def with_control(service: Service, control: object) -> Service:
    """The same service, beside this sandbox."""
    context = structs.replace(service.context, sandbox_control=cast("SandboxControl", control))
    return structs.replace(service, context=context)


async def test_a_return_without_an_amount_is_of_what_is_left(service: Service, caller: Caller) -> None:
    control = Returning()
    context = with_control(service, control).context
    request = AccountTransferRequest(amount_cents=1000, credit_party=outside_party())
    sent = (await transfer_usecases.start_transfer(context, caller, request)).transfer
    await end_orders(context, [(sent.end_to_end_id, Settled(settled_at=STARTED_AT))])
    for number, amount_cents in enumerate([400, 600]):
        await sandbox_usecases.give_back(context, caller, sent.end_to_end_id, None, "MD06")
        report = ReturnReport(
            report_id=f"r{number}",
            return_id=f"D99999004202601010000abcdefghij{number}",
            original_end_to_end_id=sent.end_to_end_id,
            amount_cents=amount_cents,
            reason="MD06",
            description=None,
            reported_at=STARTED_AT,
        )
        await receive_return(context, report)
    await sandbox_usecases.give_back(context, caller, sent.end_to_end_id, None, "MD06")
    assert control.amounts == [1000, 600, None], "of nothing left the sandbox asks for all, which is refused"


class Away:
    """A sandbox that fails in one way, whatever is asked."""

    def __init__(self, failure: Exception) -> None:
        self.failure = failure

    async def call(self, *_: object) -> None:
        raise self.failure


@pytest.mark.parametrize(
    ("failure", "error"),
    [(SandboxUnavailable("refused"), errors.ServiceUnavailable), (SandboxSilent("no answer"), errors.OutcomeUnknown)],
)
async def test_what_may_have_been_done_is_never_told_as_not_done(
    service: Service, caller: Caller, failure: Exception, error: type[errors.PixConnectError]
) -> None:
    context = with_control(service, Away(failure)).context
    request = AccountTransferRequest(amount_cents=1000, credit_party=outside_party())
    sent = (await transfer_usecases.start_transfer(context, caller, request)).transfer
    for asked in (
        sandbox_usecases.pay_by_key(context, caller, own_key(), 100, OutsidePayer()),
        sandbox_usecases.give_back(context, caller, sent.end_to_end_id, None, "MD06"),
        sandbox_usecases.add_key(context, NewKey(key_type="EVP")),
        sandbox_usecases.make_qr_code(context, NewQrCode(kind="static")),
        sandbox_usecases.call(context, REPLACE_FAULTS, []),
    ):
        with pytest.raises(error) as raised:
            await asked
        assert ("nothing was done" in raised.value.message) == (error is errors.ServiceUnavailable)
    with pytest.raises(errors.ServiceUnavailable):
        await sandbox_usecases.call(context, LIST_KEYS, None)


async def test_a_tax_id_of_nobody_is_refused(service: Service, caller: Caller) -> None:
    context = with_control(service, Returning()).context
    payer = OutsidePayer(name="Maria", tax_id="11111111111")
    with pytest.raises(errors.InvalidTaxId, match=r"payer\.tax_id"):
        await sandbox_usecases.pay_by_key(context, caller, own_key(), 100, payer)
    with pytest.raises(errors.InvalidTaxId, match="tax_id"):
        await sandbox_usecases.add_key(context, NewKey(key_type="EVP", tax_id="11111111111"))


class Paying:
    """A sandbox in which everybody pays; it remembers what."""

    def __init__(self) -> None:
        self.paid: list[OutsideTransfer] = []

    async def call(self, what: ControlCall[OutsideTransfer, Arrival], asked: OutsideTransfer) -> Arrival:
        assert what is PAY
        self.paid.append(asked)
        return Arrival(id="E1", amount_cents=asked.amount_cents, status="CONFIRMED")


async def test_a_payer_reads_a_payload_and_pays_the_charge_in_it(service: Service, caller: Caller) -> None:
    control, nobody = Paying(), OutsidePayer()
    context = with_control(service, control).context
    charge = await make_charge(service, caller, amount_cents=1234)
    location = f"{context.policy.location_prefix}{charge.txid}"
    await sandbox_usecases.pay_by_location(context, caller, location, None, nobody, "obrigado")
    await sandbox_usecases.pay_by_code(context, caller, charge.br_code, 5, nobody, "de nada")
    await sandbox_usecases.pay_by_key(context, caller, own_key(), 6, nobody, "oi")
    assert [(paid.txid, paid.amount_cents, paid.payer_message) for paid in control.paid] == [
        (charge.txid, 1234, "obrigado"),
        (charge.txid, 5, "de nada"),
        (None, 6, "oi"),
    ]
    other = await open_holder(service, account_number="2")
    for asked, theirs in ((caller, "example.org/v1/qr/x"), (caller, ""), (other, location)):
        with pytest.raises(errors.PixKeyNotOwned):
            await sandbox_usecases.pay_by_location(context, asked, theirs, None, nobody)


async def test_a_payer_of_a_due_charge_pays_what_the_clock_asks_for(service: Service, caller: Caller) -> None:
    control, nobody = Paying(), OutsidePayer()
    context = with_control(service, control).context
    terms = DueTerms(
        due_on=date(2026, 7, 10), fine=Fine(kind="percentage", value=200), rebate=Rebate(kind="sum", value=500)
    )
    contents = ChargeContents(
        lifetime_s=0, amount_cents=10_000, key=own_key(), payer=Payer(name="Ana", tax_id="52998224725"), due=terms
    )
    made = await charge_usecases.put_charge(context, caller, "boleto00000000000000000001", contents)
    await sandbox_usecases.pay_by_code(context, caller, made.charge.br_code, None, nobody)
    service.clock.advance(days=20)
    assert made.location is not None
    place = f"{context.policy.location_prefix}{made.location.path}"
    await sandbox_usecases.pay_by_location(context, caller, place, None, nobody)
    await sandbox_usecases.pay_by_code(context, caller, made.charge.br_code, 7, nobody)
    assert [paid.amount_cents for paid in control.paid] == [9_500, 9_690, 7]
