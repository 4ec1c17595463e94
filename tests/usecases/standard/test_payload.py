"""What is served at the locations of our QR codes."""

import asyncio
import json
from typing import Any

import pytest

from pixconnect.domain.frame import errors
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.money.charge import ChargeRequest
from pixconnect.domain.money.charge_contents import ChargeContents, ContentsChange, Line, Payer
from pixconnect.usecases.money import charge as charge_usecases
from pixconnect.usecases.money.incoming import receive_credit
from pixconnect.usecases.standard import charge as standard_charge
from pixconnect.usecases.standard import location as location_usecases
from pixconnect.usecases.standard import payload as usecases
from support.records import own_key
from support.service import Service, credit_report, make_charge

TXID = "order000000000000000000001"
CONTENTS = ChargeContents(
    lifetime_s=3600,
    amount_cents=0,
    may_change_amount=True,
    key=own_key(),
    payer=Payer(name="Ana", tax_id="52998224725"),
    question="?",
    lines=(Line(name="a", value="b"),),
)


async def read(service: Service, path: str) -> dict[str, Any]:
    signed = await usecases.read_payload(service.context, path)
    return json.loads(signed[signed.index(".{") + 1 : signed.rindex(".")])


async def test_a_charge_of_the_standard_is_served_with_all_that_it_says(service: Service, caller: Caller) -> None:
    made = await standard_charge.put_charge(service.context, caller, TXID, CONTENTS)
    assert made.location is not None
    service.clock.advance(seconds=1)
    assert await read(service, made.location.token) == {
        "calendario": {
            "criacao": "2026-07-01T15:00:00.000Z",
            "apresentacao": "2026-07-01T15:00:01.000Z",
            "expiracao": 3600,
        },
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
    assert (paid["status"], paid["revisao"], paid["valor"]) == (
        "CONCLUIDA",
        1,
        {"original": "10.00", "modalidadeAlteracao": 0},
    )
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
    # Whoever has a token of its holder still reads it, at both doors.
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
    # A charge whose expiry is put off can be paid again, so it is for somebody again.
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
            await usecases.read_payload(service.context, path)
