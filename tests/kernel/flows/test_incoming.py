"""Money that comes in: judged once, recorded once, answered the same however often it is reported."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows import incoming
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.tables import transfer as refused_store
from support.books import check_books
from support.credits import event_names, transfer_of
from support.operators import as_operator
from support.postgres import Addresses, execute_as_owner
from support.records import own_key
from support.service import Service, credit_report, held, make_charge, open_holder, open_service, read_funds


async def charge_now(service: Service, caller: Caller, charge: Charge) -> str:
    return (await charge_usecases.read_charge_by_id(service.context, caller, charge.id)).status


async def test_a_payment_raises_the_balance_and_is_announced_in_order(service: Service, caller: Caller) -> None:
    report = credit_report(service)
    answer = await receive_credit(service.context, report)
    assert (answer.report_id, answer.refusal_code) == ("r1", None)
    transfer = await transfer_of(service, caller, report)
    assert (transfer.status, transfer.direction, transfer.amount_cents) == ("CONFIRMED", "IN", 1000)
    assert (transfer.own_key, transfer.initiation_type, transfer.external_id) == (own_key(), "KEY", None)
    assert await read_funds(service, caller) == (1_001_000, 0)
    assert await event_names(service) == ["transfer.in.processing", "transfer.in.confirmed"]
    await check_books(service)


async def test_a_payment_with_the_txid_of_a_charge_pays_it(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    report = credit_report(service, txid=charge.txid)
    assert (await receive_credit(service.context, report)).refusal_code is None
    assert await charge_now(service, caller, charge) == "APPROVED"
    assert (await transfer_of(service, caller, report)).charge_id == charge.id
    assert await event_names(service) == [
        "qrcode.pending",
        "transfer.in.processing",
        "transfer.in.confirmed",
        "qrcode.approved",
    ]
    await check_books(service)


async def test_a_txid_of_no_charge_is_only_a_word(service: Service, caller: Caller) -> None:
    report = credit_report(service, txid="PEDIDO-123")
    assert (await receive_credit(service.context, report)).refusal_code is None
    assert (await transfer_of(service, caller, report)).txid == "PEDIDO-123"


async def test_what_a_charge_cannot_take_is_refused_and_recorded(service: Service, caller: Caller) -> None:
    stranger = await open_holder(service, account_number="2")
    strangers = await make_charge(service, stranger, key=own_key("2"))
    paid, other, expired = [await make_charge(service, caller) for _ in range(3)]
    await receive_credit(service.context, credit_report(service, txid=paid.txid))
    before = await read_funds(service, caller)
    late = msgspec.structs.replace(credit_report(service, txid=expired.txid), reported_at=expired.expires_at)
    refused = [
        (credit_report(service, txid=paid.txid), "BE17"),
        (credit_report(service, txid=other.txid, amount_cents=999), "AM09"),
        (credit_report(service, txid=other.txid, amount_cents=1001), "AM09"),
        (credit_report(service, txid=strangers.txid), "BE17"),
        (late, "BE17"),
    ]
    for report, code in refused:
        assert (await receive_credit(service.context, report)).refusal_code == code
        transfer = await transfer_of(service, caller, report)
        assert (transfer.status, transfer.outcome_code, transfer.settled_at) == ("ERROR", code, None)
        assert transfer.outcome_reason
    assert await read_funds(service, caller) == before
    for charge, holder in ((other, caller), (expired, caller), (strangers, stranger)):
        assert await charge_now(service, holder, charge) == "PENDING"
    await check_books(service)


async def test_the_last_microsecond_counts_by_the_rails_word_and_not_by_ours(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    report = credit_report(service, txid=charge.txid)
    report = msgspec.structs.replace(report, reported_at=charge.expires_at - timedelta(microseconds=1))
    service.clock.advance(days=2)
    assert (await receive_credit(service.context, report)).refusal_code is None
    assert await charge_now(service, caller, charge) == "APPROVED"


async def test_what_was_announced_as_expired_is_paid_no_more(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    report = credit_report(service, txid=charge.txid)
    service.clock.advance(days=2)
    await charge_usecases.expire_charges(service.context, range(256), service.clock.now(), 10)
    assert (await receive_credit(service.context, report)).refusal_code == "BE17"
    await check_books(service)


async def test_a_holder_who_may_not_deposit_is_paid_nothing(service: Service, caller: Caller) -> None:
    await service.set_holder(caller, may_deposit=False)
    charge = await make_charge(service, caller)
    for txid in (None, charge.txid):
        report = credit_report(service, txid=txid)
        assert (await receive_credit(service.context, report)).refusal_code == "AC06"
        assert (await transfer_of(service, caller, report)).status == "ERROR"
    assert await read_funds(service, caller) == (1_000_000, 0)


@pytest.mark.parametrize("party", [{"key": "nobody@test.example"}, {"key": None, "key_type": None, "account_number": "9"}])
async def test_an_unknown_account_is_refused(service: Service, caller: Caller, party: dict[str, str | None]) -> None:
    for report in (credit_report(service), held(credit_report(service))):
        credit_party = msgspec.structs.replace(report.credit_party, **party)
        answer = await receive_credit(service.context, msgspec.structs.replace(report, credit_party=credit_party))
        assert answer.refusal_code == "AC03"
    assert await event_names(service) == []


async def test_what_was_refused_for_nobody_stays_refused_when_somebody_gets_the_key(service: Service, caller: Caller) -> None:
    report = credit_report(service)
    party = msgspec.structs.replace(report.credit_party, key="nobody@test.example")
    report = msgspec.structs.replace(report, credit_party=party)
    for _ in range(2):
        assert (await receive_credit(service.context, report)).refusal_code == "AC03"
    await holder_usecases.add_pix_key(as_operator(service.context), caller.holder_id, "EMAIL", party.key)
    assert (await receive_credit(service.context, report)).refusal_code == "AC03"
    assert await read_funds(service, caller) == (1_000_000, 0)
    other = msgspec.structs.replace(credit_report(service), credit_party=party)
    assert (await receive_credit(service.context, other)).refusal_code is None
    assert await read_funds(service, caller) == (1_001_000, 0)


async def test_a_key_is_not_given_out_while_its_payments_are_refused(service: Service, caller: Caller) -> None:
    key = "nobody@test.example"
    async with service.context.pool.acquire() as connection:
        async with connection.transaction():
            assert not (await refused_store.hold_accounts(connection, [key]))
            adding = asyncio.create_task(
                holder_usecases.add_pix_key(as_operator(service.context), caller.holder_id, "EMAIL", key)
            )
            done, _ = await asyncio.wait([adding], timeout=0.3)
            assert not done
        await adding
        assert (await refused_store.hold_accounts(connection, [key, "0001 9"])) == {key}


async def test_refusals_are_forgotten_after_a_time(service: Service) -> None:
    await execute_as_owner(
        service.database,
        """
        insert into refused_credit (name, kind, refusal_code, refused_at)
        select 'E' || lpad(n::text, 31, '0'), 'credit', 'AC03', now() - n * interval '20 days' from generate_series(1, 3) as n
    """,
    )
    await incoming.forget_refusals(service.context)
    assert await service.context.pool.fetchval("select count(*) from refused_credit") == 1


async def test_an_account_of_ours_is_found_by_its_number(service: Service, caller: Caller) -> None:
    report = credit_report(service)
    party = msgspec.structs.replace(report.credit_party, key=None, key_type=None)
    await receive_credit(service.context, msgspec.structs.replace(report, credit_party=party))
    assert (await transfer_of(service, caller, report)).own_key is None


async def test_a_report_may_come_many_times_anywhere(service: Service, caller: Caller, database: Addresses) -> None:
    charge = await make_charge(service, caller)
    report = credit_report(service, txid=charge.txid)
    refused = credit_report(service, txid=(await make_charge(service, caller)).txid, amount_cents=5, report_id="r2")
    async with open_service(database, clock=service.clock) as other:
        answers = await asyncio.gather(
            *(receive_credit(one.context, said) for _ in range(20) for one in (service, other) for said in (report, refused))
        )
        answers += [await receive_credit(other.context, report), await receive_credit(service.context, refused)]
    assert {(answer.report_id, answer.refusal_code) for answer in answers} == {("r1", None), ("r2", "AM09")}
    assert await read_funds(service, caller) == (1_001_000, 0)
    assert (await service.context.pool.fetchval("select count(*) from transfer")) == 2
    await check_books(service)


async def test_of_payments_at_once_exactly_one_pays(service: Service, caller: Caller, database: Addresses) -> None:
    charge = await make_charge(service, caller)
    async with open_service(database, clock=service.clock) as other:
        answers = await asyncio.gather(
            *(
                receive_credit(one.context, credit_report(service, txid=charge.txid))
                for _ in range(25)
                for one in (service, other)
            )
        )
    assert sorted(answer.refusal_code or "" for answer in answers) == ["", *["BE17"] * 49]
    assert await read_funds(service, caller) == (1_001_000, 0)
    await check_books(service)


async def test_payment_and_expiry_leave_one_of_them(service: Service, caller: Caller, database: Addresses) -> None:
    charges = [await make_charge(service, caller) for _ in range(30)]
    reports = [credit_report(service, txid=charge.txid) for charge in charges]
    service.clock.advance(days=2)
    async with open_service(database, clock=service.clock) as other:
        await asyncio.gather(
            *(receive_credit(service.context, report) for report in reports),
            *(charge_usecases.expire_charges(other.context, [n], service.clock.now(), 9) for n in range(256)),
        )
    await check_books(service)
    paid = await service.context.pool.fetchval("select count(*) from charge where status = 'APPROVED'")
    assert await read_funds(service, caller) == (1_000_000 + 1000 * paid, 0)
