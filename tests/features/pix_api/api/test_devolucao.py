"""``devolucao``: every rule on refunds, through the central bank's API with a real database."""

from datetime import timedelta
from typing import Any

import pytest

from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows.holder import HolderChanges
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.settlement import Ending, end_orders
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.rail import Rejected, Settled
from pixconnect.kernel.rules.refund import RefundRequest
from support.api import Answer, Api, told
from support.books import check_books
from support.operators import as_operator
from support.service import STARTED_AT, Service, credit_report, read_funds

UNKNOWN = "E99999004202611201234a1B2c3D4e5F"
SETTLED = Settled(settled_at=STARTED_AT)


@pytest.fixture
async def e2e(service: Service, caller: Caller) -> str:
    """A Pix of R$ 10,00 from outside, to a key."""
    report = credit_report(service)
    await receive_credit(service.context, report)
    return report.end_to_end_id


async def end(service: Service, answer: Answer, ending: Ending = SETTLED) -> None:
    await end_orders(service.context, [(answer.body["rtrId"], ending)])


async def test_a_refund_from_request_to_settlement(door: Api, service: Service, caller: Caller, e2e: str) -> None:
    path = f"/v2/pix/{e2e}/devolucao/a1"
    asked = await door.put(path, {"valor": "3.00", "descricao": "tamanho errado", "extra": 1, "natureza": "ORIGINAL"})
    assert (asked.status, asked.headers["content-type"]) == (201, "application/json")
    rtr_id = asked.body["rtrId"]
    expected: dict[str, Any] = {
        "id": "a1",
        "rtrId": rtr_id,
        "valor": "3.00",
        "natureza": "ORIGINAL",
        "descricao": "tamanho errado",
        "horario": {"solicitacao": "2026-07-01T15:00:00.000Z"},
        "status": "EM_PROCESSAMENTO",
    }
    assert asked.body == expected
    await end(service, asked)
    expected |= {
        "status": "DEVOLVIDO",
        "horario": {"solicitacao": "2026-07-01T15:00:00.000Z", "liquidacao": "2026-07-01T15:00:00.000Z"},
    }
    for answer in (await door.get(path), await door.put(path, {"valor": "3.00", "descricao": "tamanho errado"})):
        assert answer.body == expected
    assert (await door.get(f"/pix/v2/pix/{e2e}")).body["devolucoes"] == [expected]
    assert await read_funds(service, caller) == (1_000_700, 0)


async def test_what_failed_says_why_and_leaves_its_money_to_others(door: Api, service: Service, e2e: str) -> None:
    first = await door.put(f"/v2/pix/{e2e}/devolucao/1", {"valor": "10.00"})
    await end(service, first, Rejected(code="AC07", reason="conta encerrada " * 20))
    failed = (await door.get(f"/v2/pix/{e2e}/devolucao/1")).body
    assert failed["status"] == "NAO_REALIZADO"
    assert failed["motivo"].startswith("AC07: ")
    assert len(failed["motivo"]) == 140
    assert "liquidacao" not in failed["horario"]
    # The request under this id keeps its result; a new id tries again.
    assert (await door.put(f"/v2/pix/{e2e}/devolucao/1", {"valor": "10.00"})).body == failed
    assert (await door.put(f"/v2/pix/{e2e}/devolucao/2", {"valor": "10.00"})).status == 201


BAD_BODIES: list[tuple[object, list[tuple[str, str | None]]]] = [
    ({}, [("devolucao.valor", None)]),
    ({"valor": None}, [("devolucao.valor", None)]),
    ({"valor": "0.00"}, [("devolucao.valor", "0.00")]),
    ({"valor": "1"}, [("devolucao.valor", "1")]),
    ({"valor": 1.5}, [("devolucao.valor", "1.5")]),
    ({"valor": "1.00", "natureza": "RETIRADA"}, [("devolucao.natureza", "RETIRADA")]),
    ({"valor": "1.00", "natureza": "MED_FRAUDE"}, [("devolucao.natureza", "MED_FRAUDE")]),
    ({"valor": "1.00", "descricao": "x" * 141}, [("devolucao.descricao", "x" * 141)]),
    ({"valor": "1,00", "natureza": 5, "descricao": {}},
     [("devolucao.valor", "1,00"), ("devolucao.natureza", "5"), ("devolucao.descricao", "{}")]),
    ({"valor": "10.01"}, [("devolucao.valor", "10.01")]),
    ([], []),
    ("x", []),
]  # fmt: skip


async def test_violations_of_the_body(door: Api, e2e: str) -> None:
    for body, rows in BAD_BODIES:
        answer = await door.put(f"/v2/pix/{e2e}/devolucao/a", body)
        assert told(answer) == (400, "PixDevolucaoInvalida", rows)
    assert (await door.get(f"/v2/pix/{e2e}/devolucao/a")).status == 404


@pytest.mark.parametrize(
    ("method", "path", "status", "kind", "rows"),
    [
        ("PUT", f"/v2/pix/{UNKNOWN}/devolucao/a", 404, "PixNaoEncontrado", []),
        ("PUT", "/v2/pix/curto/devolucao/a", 404, "PixNaoEncontrado", []),
        ("PUT", f"/v2/pix/{UNKNOWN}/devolucao/a-b", 400, "PixDevolucaoInvalida", [("id", "a-b")]),
        ("PUT", f"/v2/pix/{UNKNOWN}/devolucao/{'a' * 36}", 400, "PixDevolucaoInvalida", [("id", "a" * 36)]),
        ("GET", f"/v2/pix/{UNKNOWN}/devolucao/a", 404, "PixDevolucaoNaoEncontrada", []),
        ("GET", f"/v2/pix/{UNKNOWN}/devolucao/a-b", 404, "PixDevolucaoNaoEncontrada", []),
        ("GET", f"/v2/pix/{UNKNOWN}", 404, "PixNaoEncontrado", []),
    ],
)
async def test_the_path_is_judged_before_the_body(
    door: Api, method: str, path: str, status: int, kind: str, rows: list[tuple[str, str]]
) -> None:
    assert told(await door.call(method, path, b"" if method == "GET" else b"no json")) == (status, kind, rows)


async def test_a_used_id_is_a_replay_or_refused(door: Api, e2e: str) -> None:
    path = f"/v2/pix/{e2e}/devolucao/Abc"
    first = await door.put(path, {"valor": "4.00"})
    # Contents are compared by meaning: nulls, defaults and extras make no difference.
    again = await door.put(path, {"valor": "4.00", "natureza": "ORIGINAL", "descricao": None, "x": 1})
    assert (again.status, again.body) == (201, first.body)
    for other in ({"valor": "4.01"}, {"valor": "4.00", "descricao": "x"}):
        assert told(await door.put(path, other)) == (400, "PixDevolucaoInvalida", [("id", "Abc")])
    # Ids are case-sensitive.
    assert (await door.put(f"/v2/pix/{e2e}/devolucao/abc", {"valor": "4.00"})).status == 201


async def test_all_objections_are_told_at_once(door: Api, service: Service, caller: Caller, e2e: str) -> None:
    service.clock.advance(seconds=timedelta(days=90).total_seconds())
    assert (await door.put(f"/v2/pix/{e2e}/devolucao/last", {"valor": "1.00"})).status == 201
    service.clock.advance(seconds=1)
    blocked = HolderChanges(may_withdraw=False)
    await holder_usecases.set_holder(as_operator(service.context), caller.holder_id, blocked)
    answer = await door.put(f"/v2/pix/{e2e}/devolucao/late", {"valor": "10010.00"})
    assert told(answer) == (
        400,
        "PixDevolucaoInvalida",
        [("devolucao", None), ("devolucao.valor", "10010.00"), ("e2eid", e2e), ("devolucao.valor", "10010.00")],
    )


async def test_refunds_of_the_other_door_have_a_fit_id(door: Api, service: Service, caller: Caller, e2e: str) -> None:
    async def make(external_id: str | None, reason: Any = "MD06") -> None:
        request = RefundRequest(end_to_end_id=e2e, amount_cents=100, external_id=external_id, reason=reason)
        await refund_usecases.start_refund(service.context, caller, request)

    await door.put(f"/v2/pix/{e2e}/devolucao/taken", {"valor": "1.00"})
    service.clock.advance(seconds=1)
    for external_id, reason in (("fits1", "BE08"), ("does-not", "FR01"), ("taken", "SL02"), (None, "MD06")):
        await make(external_id, reason)
        service.clock.advance(seconds=1)
    shown = (await door.get(f"/v2/pix/{e2e}")).body["devolucoes"]
    assert [(each["id"], each["natureza"]) for each in shown] == [
        ("taken", "ORIGINAL"), ("fits1", "MED_OPERACIONAL"), (shown[2]["rtrId"], "MED_FRAUDE"),
        (shown[3]["rtrId"], "ORIGINAL"), (shown[4]["rtrId"], "ORIGINAL"),
    ]  # fmt: skip
    for each in shown:
        assert (await door.get(f"/v2/pix/{e2e}/devolucao/{each['id']}")).body == each
    # An id from the other API is taken: the same refund is returned, another one refused.
    assert (await door.put(f"/v2/pix/{e2e}/devolucao/fits1", {"valor": "2.00"})).status == 400
    await make("fits2")
    again = await door.put(f"/v2/pix/{e2e}/devolucao/fits2", {"valor": "1.00"})
    assert (again.status, again.body["id"]) == (201, "fits2")
    # An id that is only used on the network was chosen by no caller, so it is never the same refund.
    nameless = shown[4]["id"]
    assert told(await door.put(f"/v2/pix/{e2e}/devolucao/{nameless}", {"valor": "1.00"}))[2] == [("id", nameless)]
    mine = await refund_usecases.read_refund_by_external_id(service.context, caller, f"{e2e}:taken")
    assert (mine.amount_cents, mine.reason) == (100, "MD06")


@pytest.mark.parametrize("external_id", [None, "does-not-fit", "9"])
@pytest.mark.parametrize("is_contract_first", [True, False])
async def test_a_number_of_the_other_door_takes_no_id_from_a_caller(
    door: Api, service: Service, caller: Caller, e2e: str, external_id: str | None, *, is_contract_first: bool
) -> None:
    request = RefundRequest(end_to_end_id=e2e, amount_cents=400, external_id=external_id)
    # The number of the refund by ``start_refund``: each request takes one.
    number = str(await service.context.ids.refund_id() + (1 if is_contract_first else 2))
    path = f"/v2/pix/{e2e}/devolucao/{number}"
    shown: dict[str, Any] = {}
    for is_contract in (is_contract_first, not is_contract_first):
        if is_contract:
            made = await refund_usecases.start_refund(service.context, caller, request)
            assert str(made.id) == number
        else:
            assert (await door.put(path, {"valor": "4.00"})).status == 201
        before = shown
        shown = {each["id"]: each for each in (await door.get(f"/v2/pix/{e2e}")).body["devolucoes"]}
        # A refund keeps the name under which it was shown.
        assert before.items() <= shown.items()
        assert len(shown) == len(before) + 1
    again = await door.put(path, {"valor": "4.00"})
    assert (again.status, again.body) == (201, shown[number])
    assert (await door.get(path)).body == shown[number]
    contract_id = "9" if external_id == "9" else made.return_id
    assert (await door.get(f"/v2/pix/{e2e}/devolucao/{contract_id}")).body["rtrId"] == made.return_id
    assert shown[number]["rtrId"] != made.return_id
    assert await read_funds(service, caller) == (1_000_200, 800)
    await check_books(service)


async def test_a_later_external_id_takes_no_id(door: Api, service: Service, caller: Caller, e2e: str) -> None:
    mine = await door.put(f"/v2/pix/{e2e}/devolucao/a1", {"valor": "4.00"})
    request = RefundRequest(end_to_end_id=e2e, amount_cents=300, external_id="a1")
    theirs = await refund_usecases.start_refund(service.context, caller, request)
    shown = (await door.get(f"/v2/pix/{e2e}")).body["devolucoes"]
    assert [(each["id"], each["valor"]) for each in shown] == [("a1", "4.00"), (theirs.return_id, "3.00")]
    assert (await door.put(f"/v2/pix/{e2e}/devolucao/a1", {"valor": "4.00"})).body == mine.body


async def test_another_holder_sees_nothing_of_it(door: Api, e2e: str) -> None:
    await door.put(f"/v2/pix/{e2e}/devolucao/a", {"valor": "1.00"})
    assert (await door.get(f"/v2/pix/{e2e}", token="other")).status == 404
    assert (await door.get(f"/v2/pix/{e2e}/devolucao/a", token="other")).status == 404
    assert (await door.put(f"/v2/pix/{e2e}/devolucao/a", {"valor": "1.00"}, token="other")).status == 404


async def test_an_id_of_another_pix_is_told_as_that(door: Api, service: Service, caller: Caller, e2e: str) -> None:
    other = credit_report(service)
    await receive_credit(service.context, other)
    request = RefundRequest(end_to_end_id=other.end_to_end_id, amount_cents=100, external_id=f"{e2e}:a1")
    await refund_usecases.start_refund(service.context, caller, request)
    answer = await door.put(f"/v2/pix/{e2e}/devolucao/a1", {"valor": "3.00"})
    assert [row["razao"] for row in answer.body["violacoes"]] == ["já foi usado em outra devolução, com outro conteúdo"]
