"""Charges and locations of the standard's door, on a real database."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from pixconnect.features.locations import service as payloads
from pixconnect.features.pix_api.service import charge as standard_charge
from pixconnect.features.pix_api.service import charge as usecases
from pixconnect.features.pix_api.service import location as location_usecases
from pixconnect.features.pix_api.service.charge_write import StandardCharge
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.br_code import parse_br_code
from pixconnect.kernel.rules.charge import ChargeRequest
from pixconnect.kernel.rules.charge_contents import ChargeContents, ContentsChange, Line, Payer
from pixconnect.kernel.rules.listing import Span
from pixconnect.platform.base import errors
from pixconnect.platform.base.errors import Violated
from support.books import check_books
from support.operators import as_operator
from support.postgres import Addresses
from support.records import broken, own_key
from support.service import Service, accepted, cancelled, credit_report, make_charge, open_holder, open_service

TXID = "order000000000000000000001"
OTHER_TXID = "order000000000000000000002"


def contents(**changes: Any) -> ChargeContents:
    return ChargeContents(**{"lifetime_s": 3600, "amount_cents": 1000, "key": own_key(), **changes})


async def put(service: Service, caller: Caller, txid: str | None = TXID, /, **changes: Any) -> StandardCharge:
    location_id = changes.pop("location_id", None)
    return await usecases.put_charge(service.context, caller, txid, contents(**changes), location_id)


async def patch(service: Service, caller: Caller, txid: str = TXID, /, **changes: Any) -> StandardCharge:
    asked = {name: changes.pop(name) for name in ("location_id", "removes") if name in changes}
    return await usecases.patch_charge(service.context, caller, txid, ContentsChange(**changes), **asked)


async def pay(service: Service, amount_cents: int = 1000, txid: str = TXID, account_number: str = "1") -> str | None:
    """A payment from outside; returns the code of its refusal."""
    report = credit_report(service, amount_cents=amount_cents, txid=txid, account_number=account_number)
    return (await receive_credit(service.context, report)).refusal_code


async def expire(service: Service) -> None:
    await charge_usecases.expire_charges(service.context, range(256), service.clock.now(), 10)


async def names_of(service: Service, charge_id: int) -> list[str]:
    rows = await service.fetch("select name from event where resource_id = $1 order by id", charge_id)
    return [row["name"].removeprefix("qrcode.") for row in rows if row["name"].startswith("qrcode.")]


async def test_a_put_makes_a_charge_that_both_doors_know(service: Service, caller: Caller) -> None:
    asked = contents(payer=Payer(name="Ana", tax_id="52998224725"), question="?", lines=(Line(name="a", value="b"),))
    made = await usecases.put_charge(service.context, caller, TXID, asked)
    assert (made.contents, made.revision, made.charge.status) == (asked, 0, "PENDING")
    assert made.location is not None
    assert len(made.location.token) == 22
    assert parse_br_code(made.charge.br_code).location == service.context.policy.location_prefix + made.location.token
    assert await usecases.read_charge(service.context, caller, TXID) == made
    of_contract = await charge_usecases.read_charge_by_external_id(service.context, caller, TXID)
    assert of_contract == made.charge
    assert (of_contract.payer, of_contract.amount_cents) == (asked.payer, 1000)
    assert await names_of(service, made.charge.id) == ["pending"]
    with pytest.raises(errors.ExternalIdConflict):
        await charge_usecases.create_charge(
            service.context, caller, ChargeRequest(amount_cents=1000, key=own_key(), external_id=TXID)
        )
    assert await pay(service) is None
    await check_books(service)


async def test_what_is_stored_stays_readable() -> None:
    stored = (
        '{"lifetime_s":60,"amount_cents":0,"may_change_amount":true,"key":"k","payer":{"name":"A","tax_id":"1"},'
        '"question":"q","lines":[{"name":"n","value":"v"}]}'
    )
    assert msgspec.json.decode(stored, type=ChargeContents) == ChargeContents(
        lifetime_s=60, amount_cents=0, may_change_amount=True, key="k", payer=Payer(name="A", tax_id="1"),
        question="q", lines=(Line(name="n", value="v"),),
    )  # fmt: skip


async def test_puts_of_one_txid_at_once_are_one_charge(service: Service, caller: Caller, database: Addresses) -> None:
    async with open_service(database, clock=service.clock) as other:
        made = await asyncio.gather(
            *(put(each, caller, amount_cents=cents) for cents in (1000, 2000) for each in (service, other) * 4)
        )
    assert len({one.charge.id for one in made}) == 1
    (row,) = await service.fetch("select count(*), max(revision) as revision from charge")
    assert row["count"] == 1
    assert await service.context.pool.fetchval("select count(*) from charge_revision") == row["revision"]
    await check_books(service)


async def test_two_holders_may_choose_the_same_txid(service: Service, caller: Caller) -> None:
    other = await open_holder(service, account_number="2")
    made = await put(service, caller)
    theirs = await put(service, other, key=own_key("2"), amount_cents=500)
    assert await pay(service, 500, account_number="2") is None
    assert (await usecases.read_charge(service.context, caller, TXID)).charge.status == "PENDING"
    assert await pay(service) is None
    for one in (made, theirs):
        assert one.location is not None
        served = await service.context.directory.find_served(one.location.token)
        assert served is not None
        assert served.id == one.charge.id
    assert await service.context.directory.find_served(TXID) is None
    await check_books(service)


async def test_a_charge_that_expired_can_be_paid_again_when_it_gets_more_time(service: Service, caller: Caller) -> None:
    made = await put(service, caller)
    service.clock.advance(hours=1)
    assert await pay(service) == "BE17"
    await expire(service)
    assert (await patch(service, caller, question="?")).charge.status == "EXPIRED"
    revived = await patch(service, caller, lifetime_s=7200)
    assert (revived.charge.status, revived.revision) == ("PENDING", 2)
    assert revived.charge.expires_at == made.charge.created_at + timedelta(hours=2)
    service.clock.advance(hours=1)
    await expire(service)
    await patch(service, caller, lifetime_s=9000)
    assert await pay(service) is None
    assert await names_of(service, made.charge.id) == ["pending", "expired"] * 2 + ["pending", "approved"]
    await check_books(service)


@pytest.mark.parametrize("has_expired", [False, True])
async def test_a_removed_charge_reads_as_expired(service: Service, caller: Caller, has_expired: bool) -> None:
    made = await put(service, caller)
    if has_expired:
        service.clock.advance(hours=1)
        await expire(service)
    removed = await patch(service, caller, removes=True)
    assert (removed.charge.status, removed.revision, removed.location) == ("REMOVED_BY_RECEIVER", 1, made.location)
    assert removed.charge.shown_status == "EXPIRED"
    for changes in ({"removes": True}, {"lifetime_s": 9000}):
        with pytest.raises(Violated) as violated:
            await patch(service, caller, **changes)
        assert broken(violated.value) == ["cob.status"]
    assert await pay(service) == "BE17"
    assert await names_of(service, made.charge.id) == ["pending", "expired"]
    listed = await charge_usecases.list_charges(service.context, caller, "EXPIRED", Span())
    assert [charge.id for charge in listed.items] == [made.charge.id]
    assert listed.total_count == 1
    await check_books(service)


async def test_a_free_amount_becomes_the_one_that_was_paid(service: Service, caller: Caller) -> None:
    made = await put(service, caller, amount_cents=0, may_change_amount=True)
    assert await pay(service, 777) is None
    paid = await usecases.read_charge(service.context, caller, TXID)
    assert (paid.charge.amount_cents, paid.contents, paid.revision) == (777, made.contents, 0)
    assert (await put(service, caller, amount_cents=0, may_change_amount=True)).charge == paid.charge
    await put(service, caller, OTHER_TXID, may_change_amount=True)
    with pytest.raises(Violated) as violated:
        await patch(service, caller, OTHER_TXID, amount_cents=0, may_change_amount=False)
    assert broken(violated.value) == ["cob.valor.original"]
    assert await pay(service, 1, OTHER_TXID) is None
    await check_books(service)


async def test_a_charge_that_a_payment_holds_is_not_changed_under_it(service: Service, caller: Caller) -> None:
    await put(service, caller, may_change_amount=True)
    report = credit_report(service, amount_cents=1500, txid=TXID)
    assert (await receive_credit(service.context, accepted(report))).refusal_code is None
    for changes in ({"amount_cents": 2000}, {"removes": True}):
        with pytest.raises(Violated) as violated:
            await patch(service, caller, **changes)
        assert broken(violated.value) == ["cob.status"]
    await receive_credit(service.context, cancelled(report))
    assert (await patch(service, caller, lifetime_s=7200)).revision == 1
    report = credit_report(service, amount_cents=1500, txid=TXID, report_id="r2")
    await receive_credit(service.context, accepted(report))
    await receive_credit(service.context, report)
    assert (await usecases.read_charge(service.context, caller, TXID)).charge.amount_cents == 1500
    await check_books(service)


async def test_a_charge_of_the_contract_is_a_charge_here(service: Service, caller: Caller) -> None:
    of_contract = await make_charge(service, caller)
    (shown,) = await asyncio.gather(usecases.read_charge(service.context, caller, of_contract.txid))
    assert shown.location is not None
    assert (shown.location.token, shown.revision, shown.contents.lifetime_s) == (of_contract.txid, 0, 86_400)
    assert await put(service, caller, of_contract.txid, lifetime_s=86_400) == shown
    other = await make_charge(service, caller)
    revised = await patch(service, caller, other.txid, amount_cents=5)
    assert (revised.revision, revised.location and revised.location.token) == (1, other.txid)
    earlier = await usecases.read_charge(service.context, caller, other.txid, 0)
    assert earlier.contents.amount_cents == other.amount_cents
    assert await pay(service, 5, other.txid) is None
    await check_books(service)


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_location_that_cannot_be_had_is_refused(service: Service, caller: Caller, is_new: bool) -> None:
    txid = "new00000000000000000000001" if is_new else OTHER_TXID
    used = (await put(service, caller)).location
    await put(service, caller, OTHER_TXID)
    theirs = await location_usecases.create_location(service.context, await open_holder(service, account_number="2"), "cob")
    of_other_kind = await location_usecases.create_location(service.context, caller, "cobv")
    assert used is not None
    for location_id in (used.id, theirs.id, of_other_kind.id, 2**53 - 1):
        with pytest.raises(Violated) as violated:
            await put(service, caller, txid, location_id=location_id)
        assert broken(violated.value) == ["cob.loc.id"]
    await check_books(service)


async def test_what_is_refused_touches_nothing_else_of_its_batch(service: Service, caller: Caller) -> None:
    free = await location_usecases.create_location(service.context, caller, "cob")
    wanted = [free.id, None, 2**53 - 1, free.id, None, 2**53 - 1, free.id, None]
    outcomes = await asyncio.gather(
        *(put(service, caller, f"{number:026}", location_id=location_id) for number, location_id in enumerate(wanted)),
        return_exceptions=True,
    )
    made = [location_id for location_id, done in zip(wanted, outcomes, strict=True) if isinstance(done, StandardCharge)]
    assert sorted(made, key=str) == [free.id, None, None, None]
    await check_books(service)


async def test_of_two_charges_that_want_one_location_one_gets_it(service: Service, caller: Caller, database: Addresses) -> None:
    free = await location_usecases.create_location(service.context, caller, "cob")
    async with open_service(database, clock=service.clock) as other:
        outcomes = await asyncio.gather(
            put(service, caller, TXID, location_id=free.id),
            put(other, caller, OTHER_TXID, location_id=free.id),
            return_exceptions=True,
        )
    assert [type(outcome) for outcome in outcomes].count(Violated) == 1
    await check_books(service)


@pytest.mark.parametrize("is_of_contract", [False, True])
async def test_a_charge_is_payable_with_a_location(service: Service, caller: Caller, is_of_contract: bool) -> None:
    txid = (await make_charge(service, caller)).txid if is_of_contract else (await put(service, caller)).charge.txid
    made = await usecases.read_charge(service.context, caller, txid)
    assert made.location is not None
    free = await location_usecases.unbind_location(service.context, caller, made.location.id)
    assert await location_usecases.unbind_location(service.context, caller, free.id) == free
    unbound = await usecases.read_charge(service.context, caller, txid)
    assert (unbound.location, unbound.revision, unbound.charge.br_code) == (None, 0, made.charge.br_code)
    assert await service.context.directory.find_served(free.token) is None
    assert await pay(service, txid=txid) == "BE17"
    assert (await patch(service, caller, txid, question="?")).location is None
    bound = await put(service, caller, txid)
    assert bound.location is not None
    assert bound.location.id != free.id
    assert (await patch(service, caller, txid, location_id=free.id)).location is not None
    assert await pay(service, txid=txid) is None
    paid = await location_usecases.unbind_location(service.context, caller, free.id)
    assert (paid.charge_id, (await usecases.read_charge(service.context, caller, txid)).location) == (None, None)
    await check_books(service)


async def test_an_operator_removes_a_charge_once_and_not_what_is_paid(service: Service, caller: Caller) -> None:
    made = await put(service, caller)
    operator = as_operator(service.context)
    removed = await usecases.remove_charge(operator, caller.holder_id, TXID)
    assert (removed.status, removed.shown_status, removed.revision) == ("REMOVED_BY_PSP", "EXPIRED", 1)
    assert await pay(service) == "BE17"
    assert await names_of(service, made.charge.id) == ["pending", "expired"]
    await put(service, caller, OTHER_TXID)
    assert await pay(service, txid=OTHER_TXID) is None
    for txid in (TXID, OTHER_TXID):
        with pytest.raises(errors.BadRequest):
            await usecases.remove_charge(operator, caller.holder_id, txid)
    with pytest.raises(errors.NotFound):
        await usecases.remove_charge(operator, caller.holder_id + 1, TXID)
    await check_books(service)


CONTENTS = ChargeContents(
    lifetime_s=3600, amount_cents=0, may_change_amount=True, key=own_key(),
    payer=Payer(name="Ana", tax_id="52998224725"), question="?", lines=(Line(name="a", value="b"),),
)  # fmt: skip


async def read(service: Service, path: str) -> dict[str, Any]:
    signed = await payloads.read_payload(service.context, path)
    return json.loads(signed[signed.index(".{") + 1 : signed.rindex(".")])


async def test_a_charge_of_the_standard_is_served_with_all_that_it_says(service: Service, caller: Caller) -> None:
    made = await standard_charge.put_charge(service.context, caller, TXID, CONTENTS)
    assert made.location is not None
    service.clock.advance(seconds=1)
    assert await read(service, made.location.token) == {
        "calendario": {"criacao": "2026-07-01T15:00:00.000Z", "apresentacao": "2026-07-01T15:00:01.000Z", "expiracao": 3600},
        "devedor": {"nome": "Ana", "cpf": "52998224725"},
        "valor": {"original": "0.00", "modalidadeAlteracao": 1},
        "chave": own_key(),
        "solicitacaoPagador": "?",
        "infoAdicionais": [{"nome": "a", "valor": "b"}],
        "txid": TXID,
        "revisao": 0,
        "status": "ATIVA",
    }


async def test_locations_that_are_looked_up_at_once_lead_to_what_each_serves(service: Service, caller: Caller) -> None:
    of_contract = await make_charge(service, caller)
    made = await standard_charge.put_charge(service.context, caller, TXID, CONTENTS)
    assert made.location is not None
    paths = [of_contract.txid, made.location.token, TXID, f"cobv/{of_contract.txid}", "no path", "x" * 22]
    # The first is asked for alone, and the others together while that is under way.
    found = await asyncio.gather(*(service.context.directory.find_served(path) for path in paths * 2))
    assert [charge and charge.id for charge in found] == [of_contract.id, made.charge.id, None, None, None, None] * 2


async def test_its_status_is_that_of_the_charge_and_expiry_is_none(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    service.clock.advance(days=2)
    await charge_usecases.expire_charges(service.context, range(256), service.clock.now(), 10)
    assert (await read(service, charge.txid))["status"] == "ATIVA"
    await standard_charge.patch_charge(service.context, caller, charge.txid, ContentsChange(lifetime_s=3 * 86_400))
    await receive_credit(service.context, credit_report(service, txid=charge.txid))
    paid = await read(service, charge.txid)
    assert (paid["status"], paid["revisao"], paid["valor"]) == ("CONCLUIDA", 1, {"original": "10.00", "modalidadeAlteracao": 0})
    other = await make_charge(service, caller)
    await standard_charge.patch_charge(service.context, caller, other.txid, ContentsChange(), removes=True)
    assert (await read(service, other.txid))["status"] == "REMOVIDA_PELO_USUARIO_RECEBEDOR"


async def tell(service: Service, path: str) -> set[str]:
    return {"devedor", "solicitacaoPagador", "infoAdicionais"} & set(await read(service, path))


ALL = {"devedor", "solicitacaoPagador", "infoAdicionais"}


async def test_who_a_charge_is_for_is_served_until_it_is_paid_or_removed(service: Service, caller: Caller) -> None:
    paths: list[str] = []
    for number in range(2):
        made = await standard_charge.put_charge(service.context, caller, f"{TXID}{number}", CONTENTS)
        assert made.location is not None
        paths.append(made.location.token)
        assert await tell(service, paths[-1]) == ALL
    await receive_credit(service.context, credit_report(service, txid=f"{TXID}0"))
    await standard_charge.patch_charge(service.context, caller, f"{TXID}1", ContentsChange(), removes=True)
    assert [(await read(service, path))["status"] for path in paths] == ["CONCLUIDA", "REMOVIDA_PELO_USUARIO_RECEBEDOR"]
    assert [await tell(service, path) for path in paths] == [set(), set()]
    # With a token of its holder it can still be read, at both APIs.
    for number in range(2):
        shown = await standard_charge.read_charge(service.context, caller, f"{TXID}{number}")
        assert shown.contents.payer == CONTENTS.payer
        assert shown.charge.payer == CONTENTS.payer


async def test_who_a_charge_is_for_is_served_for_seven_days_after_its_expiry(service: Service, caller: Caller) -> None:
    made = await standard_charge.put_charge(service.context, caller, TXID, CONTENTS)
    assert made.location is not None
    path = made.location.token
    service.clock.advance(seconds=CONTENTS.lifetime_s)
    await charge_usecases.expire_charges(service.context, range(256), service.clock.now(), 10)
    assert await tell(service, path) == ALL
    service.clock.advance(days=7, seconds=-1)
    assert await tell(service, path) == ALL
    service.clock.advance(seconds=1)
    assert await tell(service, path) == set()
    # A charge with a new expiry can be paid again, so its location has a payload again.
    await standard_charge.patch_charge(service.context, caller, TXID, ContentsChange(lifetime_s=30 * 86_400))
    assert await tell(service, path) == ALL


async def test_a_charge_of_the_other_door_hides_its_payer_alike(service: Service, caller: Caller) -> None:
    request = ChargeRequest(amount_cents=1000, key=own_key(), payer=CONTENTS.payer)
    charge = await charge_usecases.create_charge(service.context, caller, request)
    assert await tell(service, charge.txid) == {"devedor"}
    await receive_credit(service.context, credit_report(service, txid=charge.txid))
    assert await tell(service, charge.txid) == set()


async def test_what_nobody_could_be_paid_by_reads_as_removed_by_us(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    await service.execute_as_owner("update holder set may_deposit = false")
    assert (await read(service, charge.txid))["status"] == "REMOVIDA_PELO_PSP"
    await service.execute_as_owner("update holder set may_deposit = true")
    assert (await read(service, charge.txid))["status"] == "ATIVA"


async def test_where_nothing_is_bound_nothing_is_served(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    shown = await standard_charge.read_charge(service.context, caller, charge.txid)
    assert shown.location is not None
    await location_usecases.unbind_location(service.context, caller, shown.location.id)
    free = await location_usecases.create_location(service.context, caller, "cobv")
    for path in (charge.txid, free.token, free.path, f"cobv/{charge.txid}", "a/b", "x" * 36, "", "\0" * 22):
        with pytest.raises(errors.NotFound):
            await payloads.read_payload(service.context, path)
