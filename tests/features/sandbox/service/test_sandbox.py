"""The sandbox clock passes every deadline, can be set back, and every process follows it."""

import asyncio
from datetime import date, datetime, timedelta
from typing import Any, cast

import pytest
from msgspec import structs

from pixconnect.features.lots import service as lot_usecases
from pixconnect.features.lots.rules import WantedItem
from pixconnect.features.lots.service import NewItem, do_due_items
from pixconnect.features.pix_api.service import charge as standard_usecases
from pixconnect.features.sandbox.rules import (
    GIVE_BACK,
    LIST_KEYS,
    PAY,
    READ_DUE,
    REPLACE_FAULTS,
    SET_OFFSET,
    Arrival,
    ControlCall,
    Due,
    NewKey,
    NewQrCode,
    OutsidePayer,
    OutsideReturn,
    OutsideTransfer,
    PaymentTerms,
    SandboxControl,
    SandboxKeyRefused,
    SandboxSilent,
    SandboxUnavailable,
)
from pixconnect.features.sandbox.service import clock as clock_usecases
from pixconnect.features.sandbox.service import sandbox as sandbox_usecases
from pixconnect.features.sandbox.service.sandbox import SANDBOX_CONTROL
from pixconnect.features.webhooks.rules.endpoint import EndpointRequest
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.handover import move_due
from pixconnect.kernel.flows.incoming import receive_return
from pixconnect.kernel.flows.settlement import ASK_AFTER_MAX, end_orders
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import read_contents
from pixconnect.kernel.rules.charge_contents import ChargeContents, DueTerms, Fine, Payer, Rebate
from pixconnect.kernel.rules.rail import Settled
from pixconnect.kernel.rules.transfer import AccountTransferRequest
from pixconnect.kernel.tables import clock as clock_store
from pixconnect.platform.base import errors
from pixconnect.platform.logging import has_written
from pixconnect.platform.pool import connect
from support.books import check_books
from support.postgres import Addresses
from support.records import a_return, outside_party, own_key
from support.service import STARTED_AT, Service, make_charge, no_fence, open_holder, send_out


class FakeControl:
    """A sandbox with its own deadlines, which are done when its clock reaches them."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.deadlines: list[datetime] = []
        self.stops: list[datetime] = []
        self.is_reachable = True
        self.slow_s = 0.0  # the time of its first answer

    async def call(self, what: ControlCall[Any, Any], asked: Any) -> Due:
        if not self.is_reachable:
            raise SandboxUnavailable("switched off")
        self.service.clock.advance(seconds=self.slow_s)
        self.slow_s = 0.0
        if what is SET_OFFSET:
            now = self.service.clock.real_now() + asked
            self.stops.append(now)
            self.deadlines = [deadline for deadline in self.deadlines if deadline > now]
        else:
            assert what in (READ_DUE, REPLACE_FAULTS)
        return Due(next_due_at=min(self.deadlines, default=None), reports_count=0)


@pytest.fixture
def control(service: Service) -> FakeControl:
    return FakeControl(service)


async def test_it_stops_at_every_deadline_on_the_way_in_order(service: Service, control: FakeControl) -> None:
    start = service.clock.now()
    control.deadlines = [start + timedelta(seconds=delay) for delay in (90, 5, 35, 7200)]
    now = await clock_usecases.advance_clock(service.context, control, timedelta(hours=1))
    assert now == start + timedelta(hours=1)
    assert control.stops == [start + timedelta(seconds=delay) for delay in (5, 35, 90, 3600)]
    assert len(control.deadlines) == 1


async def test_a_walk_that_breaks_off_has_written(
    service: Service, control: FakeControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "stops", None)  # the first stop fails, once our clock has moved
    has_written.set(False)
    with pytest.raises(AttributeError):
        await clock_usecases.advance_clock(service.context, control, timedelta(hours=1))
    assert has_written.get()


async def test_close_deadlines_are_one_stop(service: Service, caller: Caller, control: FakeControl) -> None:
    for _ in range(20):
        await make_charge(service, caller, amount_cents=1)
        service.clock.advance(milliseconds=20)
    await clock_usecases.advance_clock(service.context, control, timedelta(days=2))
    assert len(control.stops) == 2
    assert await service.context.pool.fetchval("select count(*) from charge where status = 'EXPIRED'") == 20


async def test_many_deadlines_fit_into_a_walk(service: Service, caller: Caller, control: FakeControl) -> None:
    service.clock.stand_still()
    control.slow_s = 5.0
    for _ in range(20):
        await make_charge(service, caller, amount_cents=1)
        service.clock.advance(seconds=1)
    await clock_usecases.advance_clock(service.context, control, timedelta(days=2))
    assert len(control.stops) == 1 + 20 / 5
    assert await service.context.pool.fetchval("select count(*) from charge where status = 'EXPIRED'") == 20


@pytest.mark.long
async def test_an_endpoint_that_never_answers_holds_no_walk_up(
    service: Service, caller: Caller, control: FakeControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock_usecases, "_SLOW_AFTER_S", 0.1)
    monkeypatch.setattr(clock_usecases, "WALK_MAX_S", 60.0)
    await endpoint_usecases.create_endpoint(
        service.context, caller, EndpointRequest(url="https://a.example/", secret="s" * 16, event_types=["qrcode.pending"])
    )
    await make_charge(service, caller, amount_cents=1)
    start = service.clock.now()
    control.deadlines = [start + timedelta(hours=delay) for delay in range(1, 9)]
    now = await clock_usecases.advance_clock(service.context, control, timedelta(hours=12))
    assert now == start + timedelta(hours=12)
    assert control.stops == [start + timedelta(hours=delay) for delay in (*range(1, 9), 12)]


async def test_a_charge_expires_at_its_own_instant(service: Service, caller: Caller, control: FakeControl) -> None:
    charge = await make_charge(service, caller, amount_cents=1)
    await clock_usecases.advance_clock(service.context, control, timedelta(days=400))
    expired = await charge_usecases.read_charge_by_id(service.context, caller, charge.id)
    assert (expired.status, expired.modified_at) == ("EXPIRED", charge.expires_at)


async def test_it_waits_for_workers_to_do_what_fell_due(service: Service, caller: Caller, control: FakeControl) -> None:
    await send_out(service, caller, 1)
    moving = asyncio.create_task(clock_usecases.advance_clock(service.context, control, timedelta(seconds=1)))
    await asyncio.sleep(0.2)
    assert not moving.done()

    earliest = datetime.fromisoformat("0001-01-01T00:00:00+00:00")
    await move_due(service.context, no_fence, range(256), earliest, service.clock.now(), 10)
    await moving
    assert len(service.rail.orders) == 1


async def test_it_waits_for_the_charges_of_lots(service: Service, caller: Caller, control: FakeControl) -> None:
    contents = ChargeContents(
        lifetime_s=0,
        amount_cents=100,
        key=own_key(),
        payer=Payer(name="Ana", tax_id="52998224725"),
        due=DueTerms(due_on=service.clock.now().date()),
    )
    item = NewItem(txid="carne000000000000000000000001", asked=WantedItem(contents=contents), wanted="{}")
    await lot_usecases.put_lot(service.context, caller, 1, "Carnê", [item])
    walking = asyncio.create_task(clock_usecases.advance_clock(service.context, control, timedelta(days=2)))
    await asyncio.sleep(0)
    await do_due_items(service.context, range(256), 10)
    await walking
    (made,) = (await lot_usecases.read_lot(service.context, caller, 1)).items
    # Two days later its due date is over.
    assert made.status == "CREATED"


async def test_back_it_jumps_and_deadlines_are_near(service: Service, caller: Caller, control: FakeControl) -> None:
    before = await make_charge(service, caller, amount_cents=1)
    await clock_usecases.advance_clock(service.context, control, timedelta(hours=10))
    after = await make_charge(service, caller, amount_cents=2)
    assert await clock_usecases.reset_clock(service.context, control) == service.clock.real_now()
    kept = await charge_usecases.read_charge_by_id(service.context, caller, before.id)
    nearer = await charge_usecases.read_charge_by_id(service.context, caller, after.id)
    assert kept.expires_at == before.expires_at
    assert nearer.expires_at == after.expires_at - timedelta(hours=10)
    assert nearer.created_at == after.created_at


async def test_after_a_reset_the_rail_is_asked_soon(service: Service, caller: Caller, control: FakeControl) -> None:
    await send_out(service, caller, 1)
    earliest = datetime.fromisoformat("0001-01-01T00:00:00+00:00")
    await move_due(service.context, no_fence, range(256), earliest, service.clock.now(), 10)
    await clock_store.move(service.context.pool, timedelta(days=1))
    service.rail.is_reachable = False
    now = await clock_usecases.read_clock(service.context)
    for _ in range(10):
        await move_due(service.context, no_fence, range(256), earliest, now, 10)
        now = await service.context.pool.fetchval("select due_at from open_order")
    await clock_store.move(service.context.pool, now - service.clock.real_now())
    await clock_usecases.reset_clock(service.context, control)
    due_at = await service.context.pool.fetchval("select due_at from open_order")
    assert due_at <= service.clock.now() + ASK_AFTER_MAX
    await move_due(service.context, no_fence, range(256), earliest, due_at, 10)
    await sandbox_usecases.replace_faults(with_control(service, control).context, [])
    assert await service.context.pool.fetchval("select due_at from open_order") == service.clock.now()


async def test_those_who_wait_to_move_the_clock_keep_nobody_else_from_the_database(
    service: Service, caller: Caller, control: FakeControl, database: Addresses
) -> None:
    mover = await connect(database.service_url, role="pixconnect_service", schema="pixconnect", name="test")
    async with clock_store.moving_alone(mover):
        waiting = [asyncio.create_task(clock_usecases.advance_clock(service.context, control, timedelta(0))) for _ in range(30)]
        await asyncio.sleep(0.2)
        async with asyncio.timeout(60):
            await make_charge(service, caller, amount_cents=1)
    await mover.close()
    await asyncio.gather(*waiting)


async def test_it_can_be_moved_within_the_calendar(service: Service, control: FakeControl) -> None:
    target = service.clock.now() + timedelta(days=30)
    assert await clock_usecases.move_clock(service.context, control, target) == target
    earlier = target - timedelta(days=3)
    assert await clock_usecases.move_clock(service.context, control, earlier) == earlier
    with pytest.raises(errors.BadRequest):
        await clock_usecases.advance_clock(service.context, control, timedelta(days=365 * 7500))


async def test_it_goes_back_only_as_far_as_a_reset_walks_again(service: Service, control: FakeControl) -> None:
    real_now = service.clock.real_now()
    with pytest.raises(errors.BadRequest, match="back to 30 days before real time at most"):
        await clock_usecases.move_clock(service.context, control, real_now - timedelta(days=30, seconds=1))
    assert await clock_usecases.read_clock(service.context) == real_now
    earliest = real_now - timedelta(days=30)
    assert await clock_usecases.move_clock(service.context, control, earliest) == earliest
    assert await clock_usecases.reset_clock(service.context, control) == real_now
    # From far ahead it goes back as far as it likes, down to the same bound.
    await clock_usecases.advance_clock(service.context, control, timedelta(days=400))
    assert await clock_usecases.move_clock(service.context, control, real_now) == real_now


async def test_a_charge_of_the_future_keeps_its_term(service: Service, caller: Caller, control: FakeControl) -> None:
    await clock_usecases.advance_clock(service.context, control, timedelta(days=3))
    charge = await make_charge(service, caller, amount_cents=1)
    await clock_usecases.reset_clock(service.context, control)
    nearer = await charge_usecases.read_charge_by_id(service.context, caller, charge.id)
    assert read_contents(nearer).lifetime_s == 86_400


async def test_after_a_reset_a_due_date_stays(service: Service, caller: Caller, control: FakeControl) -> None:
    await clock_usecases.advance_clock(service.context, control, timedelta(days=3))
    due_on = (service.clock.now() + timedelta(days=30)).date()
    contents = ChargeContents(
        lifetime_s=0, amount_cents=1000, key=own_key(), payer=Payer(name="Ana", tax_id="52998224725"),
        due=DueTerms(due_on=due_on),
    )  # fmt: skip
    made = await standard_usecases.put_charge(service.context, caller, "boleto00000000000000000001", contents)
    await clock_usecases.reset_clock(service.context, control)
    read = await charge_usecases.read_charge_by_id(service.context, caller, made.charge.id)
    assert read.expires_at == made.charge.expires_at
    await check_books(service)


async def test_without_the_sandbox_it_is_not_moved(service: Service, control: FakeControl) -> None:
    control.is_reachable = False
    with pytest.raises(errors.ServiceUnavailable):
        await clock_usecases.advance_clock(service.context, control, timedelta(days=1))
    control.is_reachable = True
    await clock_usecases.agree_with_sandbox(service.context, control)
    assert control.stops[-1] == service.clock.now()


async def test_other_processes_hear_of_a_move(service: Service, control: FakeControl, database: Addresses) -> None:
    def open_listener():  # noqa: ANN202  asyncpg's
        return connect(database.service_url, role="pixconnect_service", schema="pixconnect", name="test")

    following = asyncio.create_task(clock_usecases.follow_clock(service.context, open_listener))
    await asyncio.sleep(0.2)
    await service.context.pool.execute(
        "with moved as (update clock set offset_us = 5000000 returning 1) select pg_notify('pixconnect_clock', '1:5000000')"
    )
    async with asyncio.timeout(60):
        while service.clock.offset != timedelta(seconds=5):  # noqa: ASYNC110  no event to await
            await asyncio.sleep(0.01)
    following.cancel()


class Returning:
    """A sandbox in which receivers make the requested returns; it keeps the amounts."""

    def __init__(self) -> None:
        self.amounts: list[int | None] = []

    async def call(self, what: ControlCall[OutsideReturn, Arrival], asked: OutsideReturn) -> Arrival:
        assert what is GIVE_BACK
        self.amounts.append(asked.amount_cents)
        return Arrival(id="D1", amount_cents=asked.amount_cents or 0, status="CONFIRMED")


def with_control(service: Service, control: object) -> Service:
    """The same service, beside this sandbox."""
    context = service.context.with_port(SANDBOX_CONTROL, cast("SandboxControl", control))
    return structs.replace(service, context=context)


async def test_a_return_without_an_amount_is_of_what_is_left(service: Service, caller: Caller) -> None:
    control = Returning()
    context = with_control(service, control).context
    request = AccountTransferRequest(amount_cents=1000, credit_party=outside_party())
    sent = (await transfer_usecases.start_transfer(context, caller, request)).transfer
    await end_orders(context, [(sent.end_to_end_id, Settled(settled_at=STARTED_AT))])
    for number, amount_cents in enumerate([400, 600]):
        await sandbox_usecases.give_back(context, caller, sent.end_to_end_id, None, "MD06")
        names = dict(report_id=f"r{number}", return_id=f"D99999004202601010000abcdefghij{number}")
        await receive_return(context, a_return(sent.end_to_end_id, amount_cents=amount_cents, **names))
    await sandbox_usecases.give_back(context, caller, sent.end_to_end_id, None, "MD06")
    assert control.amounts == [1000, 600, None], "of nothing left the sandbox asks for all, which is refused"


class Away:
    """A sandbox that fails in one way at every request."""

    def __init__(self, failure: Exception) -> None:
        self.failure = failure

    async def call(self, *_: object) -> None:
        raise self.failure


@pytest.mark.parametrize(
    ("failure", "error"),
    [(SandboxKeyRefused("refused"), errors.ServiceUnavailable), (SandboxSilent("no answer"), errors.OutcomeUnknown)],
)
async def test_what_may_have_been_done_is_never_told_as_not_done(
    service: Service, caller: Caller, failure: SandboxUnavailable, error: type[errors.PixConnectError]
) -> None:
    context = with_control(service, Away(failure)).context
    request = AccountTransferRequest(amount_cents=1000, credit_party=outside_party())
    sent = (await transfer_usecases.start_transfer(context, caller, request)).transfer
    for asked in (
        sandbox_usecases.pay_by_key(context, caller, own_key(), 100),
        sandbox_usecases.give_back(context, caller, sent.end_to_end_id, None, "MD06"),
        sandbox_usecases.add_key(context, NewKey(key_type="EVP")),
        sandbox_usecases.make_qr_code(context, NewQrCode(kind="static")),
        sandbox_usecases.call(context, REPLACE_FAULTS, []),
    ):
        with pytest.raises(error) as raised:
            await asked
        assert ("nothing was done" in raised.value.message) == (error is errors.ServiceUnavailable)
    with pytest.raises(errors.ServiceUnavailable, match=failure.summary):
        await sandbox_usecases.call(context, LIST_KEYS, None)


async def test_a_tax_id_of_nobody_is_refused(service: Service, caller: Caller) -> None:
    context = with_control(service, Returning()).context
    payer = OutsidePayer(name="Maria", tax_id="11111111111")
    with pytest.raises(errors.InvalidTaxId, match=r"payer\.tax_id"):
        await sandbox_usecases.pay_by_key(context, caller, own_key(), 100, PaymentTerms(payer=payer))
    with pytest.raises(errors.InvalidTaxId, match="tax_id"):
        await sandbox_usecases.add_key(context, NewKey(key_type="EVP", tax_id="11111111111"))


class Paying:
    """A sandbox in which everybody pays; it keeps the payments."""

    def __init__(self) -> None:
        self.paid: list[OutsideTransfer] = []

    async def call(self, what: ControlCall[OutsideTransfer, Arrival], asked: OutsideTransfer) -> Arrival:
        assert what is PAY
        self.paid.append(asked)
        return Arrival(id="E1", amount_cents=asked.amount_cents, status="CONFIRMED")


async def test_a_payer_reads_a_payload_and_pays_the_charge_in_it(service: Service, caller: Caller) -> None:
    control = Paying()
    context = with_control(service, control).context
    charge = await make_charge(service, caller, amount_cents=1234)
    location = f"{context.policy.location_prefix}{charge.txid}"
    await sandbox_usecases.pay_by_location(context, caller, location, None, PaymentTerms(payer_message="obrigado"))
    await sandbox_usecases.pay_by_code(context, caller, charge.br_code, 5, PaymentTerms(payer_message="de nada"))
    await sandbox_usecases.pay_by_key(context, caller, own_key(), 6, PaymentTerms(payer_message="oi"))
    assert [(paid.txid, paid.amount_cents, paid.payer_message) for paid in control.paid] == [
        (charge.txid, 1234, "obrigado"),
        (charge.txid, 5, "de nada"),
        (None, 6, "oi"),
    ]
    other = await open_holder(service, account_number="2")
    for asked, theirs in ((caller, "example.org/v1/qr/x"), (caller, ""), (other, location)):
        with pytest.raises(errors.PixKeyNotOwned):
            await sandbox_usecases.pay_by_location(context, asked, theirs, None)


async def test_a_payer_of_a_due_charge_pays_what_the_clock_asks_for(service: Service, caller: Caller) -> None:
    control = Paying()
    context = with_control(service, control).context
    terms = DueTerms(due_on=date(2026, 7, 10), fine=Fine(kind="percentage", value=200), rebate=Rebate(kind="sum", value=500))
    contents = ChargeContents(
        lifetime_s=0, amount_cents=10_000, key=own_key(), payer=Payer(name="Ana", tax_id="52998224725"), due=terms
    )
    made = await standard_usecases.put_charge(context, caller, "boleto00000000000000000001", contents)
    await sandbox_usecases.pay_by_code(context, caller, made.charge.br_code, None)
    service.clock.advance(days=20)
    assert made.location is not None
    place = f"{context.policy.location_prefix}{made.location.path}"
    await sandbox_usecases.pay_by_location(context, caller, place, None)
    await sandbox_usecases.pay_by_code(context, caller, made.charge.br_code, 7)
    assert [paid.amount_cents for paid in control.paid] == [9_500, 9_690, 7]
