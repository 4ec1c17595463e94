"""Charges, from request to expiry, on a real database."""

import asyncio
import json
from hashlib import blake2b
from typing import Any

import asyncpg
import msgspec
import pytest

from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.br_code import parse_br_code
from pixconnect.kernel.rules.charge import ChargeRequest
from pixconnect.kernel.rules.charge_contents import Payer
from pixconnect.kernel.rules.listing import Span
from pixconnect.platform.base import errors
from support.books import check_books
from support.postgres import Addresses, as_owner
from support.records import own_key
from support.service import Service, credit_report, open_holder, open_service


def a_request(**changes: Any) -> ChargeRequest:
    return ChargeRequest(**{"amount_cents": 1234, "key": own_key(), **changes})


async def events_of(service: Service, charge_id: int) -> list[dict[str, Any]]:
    rows = await service.context.pool.fetch(
        "select body from event where resource = 'charge' and resource_id = $1 order by id", charge_id
    )
    return [json.loads(row["body"]) for row in rows]


async def count(service: Service, table: str) -> int:
    return await service.context.pool.fetchval(f"select count(*) from {table}")


async def test_a_new_charge_is_pending_and_carries_its_location(service: Service, caller: Caller) -> None:
    charge = await charge_usecases.create_charge(service.context, caller, a_request())
    assert (charge.status, charge.amount_cents, len(charge.txid)) == ("PENDING", 1234, 32)
    assert parse_br_code(charge.br_code).location == f"{service.context.policy.location_prefix}{charge.txid}"
    assert await charge_usecases.read_charge_by_id(service.context, caller, charge.id) == charge


async def test_a_new_charge_is_announced_with_it(service: Service, caller: Caller) -> None:
    charge = await charge_usecases.create_charge(service.context, caller, a_request(external_id="a"))
    (event,) = await events_of(service, charge.id)
    assert event["name"] == "qrcode.pending"
    assert event["payload"] == {
        "id": charge.id,
        "transaction_identification": charge.txid,
        "external_id": "a",
        "status": "PENDING",
        "create_timestamp": "2026-07-01T15:00:00.000000Z",
    }


REFUSALS = [
    (a_request(amount_cents=0, key="no key"), errors.AmountOutOfRange),
    (a_request(key="no key", payer=Payer(name="A", tax_id="1")), errors.InvalidPixKey),
    (a_request(key="else@test.example", payer=Payer(name="A", tax_id="1")), errors.PixKeyNotOwned),
    (a_request(payer=Payer(name="A", tax_id="1")), errors.InvalidTaxId),
]


@pytest.mark.parametrize(("request_", "refusal"), REFUSALS)
async def test_the_first_rule_that_is_broken_is_the_answer_and_nothing_is_left(
    service: Service, caller: Caller, request_: ChargeRequest, refusal: type[errors.RuleBroken]
) -> None:
    with pytest.raises(refusal):
        await charge_usecases.create_charge(service.context, caller, request_)
    assert (await count(service, "charge"), await count(service, "event")) == (0, 0)


async def test_a_replay_beats_refusals_and_answers_the_charge_as_it_is(service: Service, caller: Caller) -> None:
    charge = await charge_usecases.create_charge(service.context, caller, a_request(external_id="a"))
    assert await charge_usecases.create_charge(service.context, caller, a_request(external_id="a")) == charge
    for other in (a_request(external_id="a", amount_cents=0), a_request(external_id="a", amount_cents=1)):
        with pytest.raises(errors.ExternalIdConflict):
            await charge_usecases.create_charge(service.context, caller, other)
    assert await count(service, "charge") == 1


async def test_charges_of_before_an_upgrade_are_found(service: Service, caller: Caller, database: Addresses) -> None:
    charge = await charge_usecases.create_charge(service.context, caller, a_request(external_id="a", amount_cents=7))
    contents = {"amount_cents": 7, "external_id": "ChargeRequest", "key": charge.key, "payer": None}
    first_version = blake2b(msgspec.json.encode(contents), digest_size=16).digest()
    async with as_owner(database) as owner:
        await owner.execute("update pixconnect.charge set fingerprint = $1", first_version)
    again = await charge_usecases.create_charge(service.context, caller, a_request(external_id="a", amount_cents=7))
    assert again.id == charge.id
    with pytest.raises(errors.ExternalIdConflict):
        await charge_usecases.create_charge(service.context, caller, a_request(external_id="a", amount_cents=8))


async def test_fifty_at_once_with_one_external_id_make_one_charge(service: Service, caller: Caller) -> None:
    requests = [a_request(external_id="a") for _ in range(50)]
    charges = await asyncio.gather(*(charge_usecases.create_charge(service.context, caller, request) for request in requests))
    assert len({charge.id for charge in charges}) == 1
    assert (await count(service, "charge"), await count(service, "event")) == (1, 1)


async def test_two_hundred_at_once_with_every_third_refused(service: Service, caller: Caller) -> None:
    taken = await charge_usecases.create_charge(service.context, caller, a_request(external_id="taken"))
    requests = [
        a_request(external_id="taken", amount_cents=2) if n % 3 == 0 else a_request(external_id=f"n{n}") for n in range(200)
    ]
    outcomes = await asyncio.gather(
        *(charge_usecases.create_charge(service.context, caller, request) for request in requests), return_exceptions=True
    )
    assert [isinstance(outcome, errors.ExternalIdConflict) for outcome in outcomes] == [n % 3 == 0 for n in range(200)]
    assert await count(service, "charge") == 1 + sum(n % 3 != 0 for n in range(200))
    assert await charge_usecases.read_charge_by_id(service.context, caller, taken.id) == taken


async def test_another_holders_charge_looks_like_an_absent_one(service: Service, caller: Caller) -> None:
    stranger = await open_holder(service, account_number="2")
    charge = await charge_usecases.create_charge(service.context, caller, a_request(external_id="a"))
    reads = [
        charge_usecases.read_charge_by_id(service.context, stranger, charge.id),
        charge_usecases.read_charge_by_external_id(service.context, stranger, "a"),
        charge_usecases.read_charge_by_txid(service.context, stranger, charge.txid),
    ]
    for read in reads:
        with pytest.raises(errors.NotFound):
            await read


async def test_a_charge_says_by_what_it_was_paid_and_only_to_its_holder(service: Service, caller: Caller) -> None:
    stranger = await open_holder(service, account_number="2")
    charge = await charge_usecases.create_charge(service.context, caller, a_request())
    with pytest.raises(errors.NotFound, match="was not paid; its status is PENDING"):
        await charge_usecases.read_paying_transfer(service.context, caller, charge.id)
    # A refused one counts for no payment.
    await receive_credit(service.context, credit_report(service, txid=charge.txid, amount_cents=1, report_id="r1"))
    with pytest.raises(errors.NotFound, match="was not paid"):
        await charge_usecases.read_paying_transfer(service.context, caller, charge.id)
    report = credit_report(service, txid=charge.txid, amount_cents=1234, report_id="r2")
    await receive_credit(service.context, report)
    paying = await charge_usecases.read_paying_transfer(service.context, caller, charge.id)
    assert (paying.end_to_end_id, paying.amount_cents, paying.status) == (report.end_to_end_id, 1234, "CONFIRMED")
    assert paying.counterparty == report.debit_party
    for who, charge_id in ((stranger, charge.id), (caller, 2**40)):
        with pytest.raises(errors.NotFound, match="there is no such charge"):
            await charge_usecases.read_paying_transfer(service.context, who, charge_id)


async def test_an_unpaid_charge_expires_at_its_instant_and_says_so_once(service: Service, caller: Caller) -> None:
    charge = await charge_usecases.create_charge(service.context, caller, a_request())
    service.clock.advance(seconds=86_399)
    assert await charge_usecases.expire_charges(service.context, range(256), service.clock.now(), 10) == 0
    service.clock.advance(seconds=1)
    assert await charge_usecases.expire_charges(service.context, range(256), service.clock.now(), 10) == 1
    assert await charge_usecases.expire_charges(service.context, range(256), service.clock.now(), 10) == 0
    expired = await charge_usecases.read_charge_by_id(service.context, caller, charge.id)
    assert expired.status == "EXPIRED"
    again = await charge_usecases.create_charge(service.context, caller, a_request(external_id=charge.external_id))
    assert again == expired
    assert [event["name"] for event in await events_of(service, charge.id)] == ["qrcode.pending", "qrcode.expired"]


async def test_a_list_has_true_totals_on_every_page_and_moves_with_states(service: Service, caller: Caller) -> None:
    made = []
    for _ in range(7):
        made.append(await charge_usecases.create_charge(service.context, caller, a_request()))
        service.clock.advance(minutes=25)
    newest_first = [charge.id for charge in reversed(made)]
    for page, size in ((1, 3), (2, 3), (3, 3), (4, 3), (1, 7), (7, 1), (8, 1)):
        found = await charge_usecases.list_charges(service.context, caller, "PENDING", Span(page=page, page_size=size))
        assert [charge.id for charge in found.items] == newest_first[(page - 1) * size : page * size]
        assert found.total_count == 7
    inner = Span(initial_at=made[2].created_at, final_at=made[5].created_at)
    found = await charge_usecases.list_charges(service.context, caller, "PENDING", inner)
    assert ([charge.id for charge in found.items], found.total_count) == (newest_first[1:5], 4)
    service.clock.advance(days=2)
    await charge_usecases.expire_charges(service.context, range(256), service.clock.now(), 10)
    assert (await charge_usecases.list_charges(service.context, caller, "PENDING", Span())).total_count == 0
    assert (await charge_usecases.list_charges(service.context, caller, "EXPIRED", Span())).total_count == 7


async def test_two_processes_fed_the_same_ids_in_opposite_orders_agree(
    service: Service, caller: Caller, database: Addresses
) -> None:
    requests = [a_request(external_id=f"n{n}") for n in range(64)]
    async with open_service(database, clock=service.clock) as other:
        ours, theirs = await asyncio.gather(
            asyncio.gather(*(charge_usecases.create_charge(service.context, caller, request) for request in requests)),
            asyncio.gather(*(charge_usecases.create_charge(other.context, caller, request) for request in reversed(requests))),
        )
    assert ours == list(reversed(theirs))
    assert (await count(service, "charge"), await count(service, "event")) == (64, 64)
    await check_books(service)


async def test_the_database_refuses_a_second_use_of_an_external_id(service: Service, caller: Caller) -> None:
    charge = await charge_usecases.create_charge(service.context, caller, a_request(external_id="a"))
    with pytest.raises(asyncpg.UniqueViolationError, match="charge_external_id_is_used_once"):
        await service.context.pool.execute(
            """insert into charge (id, holder_id, external_id, fingerprint, txid, amount_cents, key, br_code, status, slot,
                created_at, modified_at, expires_at)
            select id + 1, holder_id, external_id, fingerprint, reverse(txid), amount_cents, key, reverse(txid), status, slot,
                created_at, modified_at, expires_at from charge where id = $1""",
            charge.id,
        )
