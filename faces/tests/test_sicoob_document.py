"""The simulated Sicoob answers by its official documents, with the corrections in docs/reference/faces.md."""

import json
import random
import re
from typing import Any, Final
from urllib.parse import quote

import pytest
from openapi_schema_validator import OAS30Validator

from faces.tests.test_face_fuzz import CODE, fill_path, make_body, make_query
from faces.tests.test_sicoob import CONFIRM, MANUAL, PAYMENTS, Sicoob, open_sicoob, own_party
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules.rail import Rejected, Settled
from pixconnect_faces.api import TABLES
from pixconnect_faces.frame import open_faces
from support.api import Answer
from support.faces import ACCOUNT, KEY, PAYEE, Bank
from support.installation import ROOT
from support.webhooks import running_worker

_FOLDER: Final = ROOT / "tests" / "vectors" / "sicoob"
_PREFIXES: Final = {"pix": "/pix/api/v2", "pagamentos-pix": "/pix-pagamentos/v2"}
_WHEN_DUE: Final = {405, 413, 429}
_ROUNDS: Final = 15


def _read(name: str) -> dict[str, Any]:
    document = json.loads((_FOLDER / f"{name}.json").read_text())
    schemas = document["components"]["schemas"]
    if name == "pix":
        schemas["Pix"]["required"].remove("pagador")
        schemas["PixConsultados"]["required"] = ["pix", "parametros"]
    else:
        by_number, by_text = schemas["PagamentoIniciadoQRCodeResponse"]["allOf"]
        whole = schemas["RetornoPagamento"]
        schemas["PagamentoIniciadoQRCodeResponse"] = whole | {"properties": whole["properties"] | by_text["properties"]}
        assert by_number == {"$ref": "#/components/schemas/RetornoPagamento"}
    return document


DOCUMENTS: Final = {name: _read(name) for name in _PREFIXES}


def check_schema(name: str, schema: dict[str, Any], body: object) -> None:
    """Raise if a body does not match this schema."""
    OAS30Validator(schema | {"components": DOCUMENTS[name]["components"]}).validate(body)


def check_answer(method: str, path: str, answer: Answer) -> bool:
    """Whether a document describes the operation; then the answer must match it."""
    for name, prefix in _PREFIXES.items():
        if not path.startswith(prefix):
            continue
        # A literal path goes before one with a parameter.
        for template, operations in sorted(DOCUMENTS[name]["paths"].items(), key=lambda each: "{" in each[0]):
            pattern = re.sub(r"\{\w+\}", "[^/]+", template)
            if method.lower() not in operations or not re.fullmatch(prefix + pattern, path.partition("?")[0]):
                continue
            if (answer.status == 400 and method in ("GET", "DELETE")) or answer.status in _WHEN_DUE:
                return True
            described = operations[method.lower()]["responses"].get(str(answer.status))
            assert described is not None, (method, path, answer)
            contents = _resolve(name, described).get("content", {})
            if answer.content:
                kind = answer.headers["content-type"]
                assert kind in contents, (method, path, answer)
                if kind != "image/png":
                    check_schema(name, contents[kind]["schema"], answer.body)
            return True
    return False


def _resolve(name: str, node: dict[str, Any]) -> dict[str, Any]:
    return DOCUMENTS[name]["components"]["responses"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node


async def _call(sicoob: Sicoob, method: str, path: str, body: Any = None) -> Any:
    answer = await sicoob.call(method, path, body)
    assert answer.status < 300, answer
    assert check_answer(method, path, answer), path
    return answer.body if answer.content[:1] == b"{" else None


async def test_what_is_answered_to_good_requests_is_described(bank: Bank) -> None:
    sicoob = await open_sicoob(bank, unconfirmed="state")
    cob = {
        "calendario": {"expiracao": 3600},
        "valor": {"original": "10.00"},
        "chave": KEY,
        "devedor": {"cpf": "12345678909", "nome": "Ana"},
        "infoAdicionais": [{"nome": "a", "valor": "b"}],
        "solicitacaoPagador": "quem é?",
    }
    pix, span = "/pix/api/v2", "inicio=2020-01-01T00:00:00Z&fim=2099-01-01T00:00:00Z"
    made = await _call(sicoob, "PUT", f"{pix}/cob/{'a' * 30}", cob)
    await _call(sicoob, "POST", f"{pix}/cob", cob)
    await _call(sicoob, "PATCH", f"{pix}/cob/{'a' * 30}", {"valor": {"original": "11.00"}})
    e2eid = await bank.be_paid("a" * 30, 1100)
    refund = await _call(sicoob, "PUT", f"{pix}/pix/{e2eid}/devolucao/d1", {"valor": "4.00", "descricao": "x"})
    settled = Settled(settled_at=bank.service.context.clock.now())
    await end_orders(bank.service.context, [(refund["rtrId"], settled)])
    await _call(sicoob, "POST", f"{pix}/loc", {"tipoCob": "cob"})
    await _call(sicoob, "PUT", f"{pix}/webhook/{quote(KEY)}", {"webhookUrl": bank.receiver.url})
    for path in (f"cob/{'a' * 30}", f"cob?{span}", f"pix/{e2eid}", f"pix?{span}", f"pix/{e2eid}/devolucao/d1", f"loc?{span}",
                 f"loc/{made['loc']['id']}", f"cob/{'a' * 30}/imagem", f"loc/{made['loc']['id']}/imagem",
                 f"webhook/{quote(KEY)}", "webhook"):  # fmt: skip
        await _call(sicoob, "GET", f"{pix}/{path}")
    await _call(sicoob, "DELETE", f"{pix}/webhook/{quote(KEY)}")
    await _call(sicoob, "PUT", f"{PAYMENTS}/webhook", {"webhookUrl": bank.receiver.url})
    await _call(sicoob, "GET", f"{PAYMENTS}/webhook")
    paid = (await _call(sicoob, "POST", PAYMENTS, {"chave": PAYEE}))["endToEndId"]
    await _call(sicoob, "GET", f"{PAYMENTS}/{paid}")
    await _call(sicoob, "POST", f"{PAYMENTS}/confirmacao", CONFIRM | {"endToEndId": paid, "descricao": "x"})
    manual = {"meioIniciacao": "MANUAL", "valor": "1", "destino": MANUAL}
    failed = (await _call(sicoob, "POST", f"{PAYMENTS}/confirmacao", manual))["endToEndId"]
    own = await own_party(bank)
    origin = MANUAL | {"cpfCnpj": own.tax_id, "conta": ACCOUNT, "agencia": own.branch}
    await _call(sicoob, "POST", f"{PAYMENTS}/qrcode", CODE | {"origem": origin})
    async with running_worker(bank.service):
        await sicoob.end_order(paid)
        await sicoob.end_order(failed, Rejected(code="AC03", reason="no such account"))
        await bank.receiver.wait_for(2)
    for request in bank.receiver.received:
        check_schema("pagamentos-pix", DOCUMENTS["pagamentos-pix"]["x-callback"], json.loads(request.body))
    for name in (paid, failed):
        await _call(sicoob, "GET", f"{PAYMENTS}/{name}")
    await _call(sicoob, "DELETE", f"{PAYMENTS}/webhook")


async def test_what_is_answered_to_whatever_is_asked_is_described(bank: Bank) -> None:
    sicoob, chance, described = await open_sicoob(bank), random.Random(7), 0  # noqa: S311  the same requests in each run
    for _ in range(_ROUNDS):
        for row in TABLES["sicoob"](open_faces("sicoob")[0]):
            path = fill_path(chance, row.path)
            body = None if row.method in ("GET", "DELETE") else make_body(chance)
            answer = await sicoob.call(row.method, f"{path}?{make_query(chance)}", body)
            described += check_answer(row.method, path, answer)
    assert described > _ROUNDS * 20


def test_an_answer_that_no_document_describes_is_seen() -> None:
    body = json.dumps({"endToEndId": "E" * 32, "valor": 1, "estado": "NAO_REALIZADO"}).encode()
    answer = Answer(200, [(b"content-type", b"application/json")], body)
    with pytest.raises(Exception, match=r"origem|estado|NAO_REALIZADO"):
        check_answer("GET", f"{PAYMENTS}/{'E' * 32}", answer)
