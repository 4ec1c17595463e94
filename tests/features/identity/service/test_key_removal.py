"""After an operator removes a Pix key, no payment to it reaches a holder, even if a process has the key in its cache."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import msgspec
import pytest

from pixconnect.features.identity.tables import access as access_store
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import ChargeRequest
from pixconnect.kernel.rules.transfer import KeyTransferRequest, QrCodeTransferRequest
from pixconnect.platform.base import errors
from support.books import check_books
from support.operators import as_operator
from support.postgres import Addresses
from support.records import own_key
from support.service import FakeClock, Service, accepted, credit_report, make_charge, open_holder, open_service, read_funds

KEY = own_key()
A_MINUTE_AGO = (
    "alter table removed_pix_key disable trigger removed_pix_key_is_append_only;"
    " update removed_pix_key set removed_at = removed_at - interval '1 minute';"
    " alter table removed_pix_key enable trigger removed_pix_key_is_append_only"
)


async def remove(service: Service, owner: Caller) -> None:
    await holder_usecases.remove_pix_key(as_operator(service.context), owner.holder_id, KEY)


async def give(service: Service, owner: Caller) -> None:
    await holder_usecases.add_pix_key(as_operator(service.context), owner.holder_id, "EMAIL", KEY)


async def look(service: Service) -> None:
    """The keyring's task, which runs twice a second."""
    began_at_s = service.clock.monotonic_s()
    revision = await access_store.read_revision(service.context.pool)
    service.context.directory.note_revision(revision, began_at_s)


@pytest.fixture
async def other(service: Service, caller: Caller) -> Caller:
    del caller
    return await open_holder(service, account_number="2", funds_cents=10_000)


@pytest.fixture
async def second(service: Service, database: Addresses) -> AsyncIterator[Service]:
    """Another process, whose own clock the test moves."""
    async with open_service(database, clock=FakeClock(monotonic_s=0.0)) as opened:
        yield opened


async def test_a_memory_counts_for_a_second_after_a_look(service: Service, second: Service, caller: Caller) -> None:
    directory = second.context.directory
    await look(second)
    assert await directory.find_owner(KEY) == caller.holder_id
    await remove(service, caller)
    assert await directory.find_owner(KEY) == caller.holder_id  # this process has not been notified yet
    second.clock.advance(seconds=1)
    assert await directory.find_owner(KEY) is None
    await look(second)
    assert await directory.find_owner(KEY) is None


async def test_an_overtaken_answer_is_not_remembered(service: Service, second: Service, caller: Caller) -> None:
    directory = second.context.directory
    await look(second)
    asking = asyncio.create_task(directory.find_owner(KEY))
    await asyncio.sleep(0)
    # A removal that may be later than the running answer.
    directory.note_revision(10**6, second.clock.monotonic_s())
    assert await asking == caller.holder_id
    await service.execute_as_owner("delete from pixconnect.pix_key")
    assert await directory.find_owner(KEY) is None


async def test_a_removed_key_can_neither_be_paid_nor_charge(service: Service, caller: Caller, other: Caller) -> None:
    charge = await make_charge(service, caller)
    await remove(service, caller)
    by_key = KeyTransferRequest(amount_cents=100, key=KEY, key_type="EMAIL")
    by_code = QrCodeTransferRequest(amount_cents=1000, br_code=charge.br_code)
    for request in (by_key, by_code):
        with pytest.raises(errors.PixKeyNotFound):
            await transfer_usecases.start_transfer(service.context, other, request)
    with pytest.raises(errors.PixKeyNotOwned):
        await charge_usecases.create_charge(service.context, caller, ChargeRequest(amount_cents=1, key=KEY))
    for report in (credit_report(service), credit_report(service, txid=charge.txid, report_id="r2")):
        assert await take_reports(service.context, [report]) == 1
    assert [one.refusal_code for one in service.rail.acknowledged] == ["AC03", "AC03"]
    assert await read_funds(service, caller) == (1_000_000, 0)
    await check_books(service)


async def test_two_processes_give_a_payment_one_answer(service: Service, second: Service, caller: Caller) -> None:
    await look(second)
    assert await second.context.directory.find_owner(KEY) == caller.holder_id
    await remove(service, caller)
    ahead, behind = credit_report(service, report_id="r1"), credit_report(service, report_id="r2")
    assert await take_reports(service.context, [ahead]) == 1
    assert await take_reports(second.context, [ahead, behind]) == 2
    assert await take_reports(service.context, [behind]) == 1
    # The first one decided: one was refused, and one was credited while the removal was not in force everywhere.
    assert [one.refusal_code for one in service.rail.acknowledged] == ["AC03", None]
    assert [one.refusal_code for one in second.rail.acknowledged] == ["AC03", None]
    assert await read_funds(service, caller) == (1_001_000, 0)
    await check_books(service)


async def test_another_holder_gets_the_key_after_a_minute(service: Service, caller: Caller, other: Caller) -> None:
    charge = await make_charge(service, caller)
    with pytest.raises(errors.InvalidPixKey, match="another holder has it"):
        await give(service, other)
    await remove(service, caller)
    with pytest.raises(errors.InvalidPixKey, match=r"led to another holder until a moment ago; .* in \d+ s"):
        await give(service, other)
    await service.execute_as_owner(A_MINUTE_AGO)
    await give(service, other)
    payer = await open_holder(service, account_number="3", funds_cents=10_000)
    by_key = KeyTransferRequest(amount_cents=100, key=KEY, key_type="EMAIL")
    await transfer_usecases.start_transfer(service.context, payer, by_key)
    by_code = QrCodeTransferRequest(amount_cents=1000, br_code=charge.br_code)
    with pytest.raises(errors.PixKeyNotFound):
        await transfer_usecases.start_transfer(service.context, payer, by_code)
    await take_reports(service.context, [credit_report(service, txid=charge.txid)])
    await take_reports(service.context, [credit_report(service, report_id="r2")])
    assert [one.refusal_code for one in service.rail.acknowledged] == ["BE17", None]
    assert await read_funds(service, caller) == (1_000_000, 0)
    assert await read_funds(service, other) == (10_000 + 100 + 1_000, 0)
    await check_books(service)


async def test_what_was_accepted_before_the_removal_is_paid(service: Service, caller: Caller, other: Caller) -> None:
    report = credit_report(service)
    await take_reports(service.context, [accepted(report)])
    await remove(service, caller)
    await service.execute_as_owner(A_MINUTE_AGO)
    with pytest.raises(errors.InvalidPixKey, match="has not settled all payments"):
        await give(service, other)
    await take_reports(service.context, [report, report])
    assert {one.refusal_code for one in service.rail.acknowledged} == {None}
    assert await read_funds(service, caller) == (1_001_000, 0)
    await give(service, other)
    # A repetition still gets the first answer, and no holder is credited twice.
    await take_reports(service.context, [report])
    assert {one.refusal_code for one in service.rail.acknowledged} == {None}
    assert (await read_funds(service, caller), await read_funds(service, other)) == ((1_001_000, 0), (10_000, 0))
    await check_books(service)


async def test_the_schema_keeps_a_removed_key_for_good(service: Service, caller: Caller, other: Caller) -> None:
    await remove(service, caller)
    by_hand = f"insert into pix_key (key, key_type, holder_id, created_at) values ('{KEY}', 'EMAIL', {{}}, now())"
    for statement, name in (
        (by_hand.format(other.holder_id), "a_removed_key_is_in_quarantine"),
        ("update removed_pix_key set removed_at = '2020-01-01'", "removed_pix_key_is_append_only"),
        ("delete from removed_pix_key", "removed_pix_key_is_append_only"),
    ):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError) as caught:
            await service.execute_as_owner(statement)
        assert caught.value.constraint_name == name
    await service.execute_as_owner(by_hand.format(caller.holder_id))


async def test_the_same_holder_gets_its_key_back_at_once(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    await remove(service, caller)
    await give(service, caller)
    await take_reports(service.context, [credit_report(service, txid=charge.txid)])
    assert await read_funds(service, caller) == (1_001_000, 0)
    assert len(await service.fetch("select from removed_pix_key")) == 1


async def test_a_key_that_the_holder_does_not_have_is_refused(service: Service, caller: Caller, other: Caller) -> None:
    operator = as_operator(service.context)
    for holder_id, key in ((other.holder_id, KEY), (caller.holder_id, "nobody@test.example"), (caller.holder_id, "x")):
        with pytest.raises(errors.NotFound, match="has no such key"):
            await holder_usecases.remove_pix_key(operator, holder_id, key)
    with pytest.raises(errors.NotFound, match="there is no holder 404"):
        await holder_usecases.remove_pix_key(operator, 404, KEY)
    removed = await holder_usecases.remove_pix_key(operator, caller.holder_id, KEY.upper())
    assert msgspec.structs.asdict(removed) == dict(key=KEY, key_type="EMAIL")
