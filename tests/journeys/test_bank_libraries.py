"""Libraries for banks use our central bank's Pix API unmodified, over TLS with a client certificate.

Each is given our address and its certificate, in the lines of the guide. It creates a charge, is paid, reads received
Pix, refunds a part, and sets a webhook; one of them reads the webhook's requests.
"""

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from efipay.constants import Constants
from msgspec import Struct
from pypix_api.exceptions import PixAcessoNegadoException, PixErroValidacaoException, PixRecursoNaoEncontradoException

from pixconnect.platform.base.clock import SAO_PAULO
from support import toolchains
from support.listener import Listener
from support.pages import ROOT, read_blocks
from support.tls_installation import TlsInstallation, running_with_tls
from support.waiting import read_until, wait_until

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("events")]

GUIDE = ROOT / "docs" / "guides" / "bank-integration.md"
INICIO, FIM = "2020-01-01T00:00:00-03:00", "2099-12-31T23:59:59+00:00"
HOOK = "http://127.0.0.1:9/hook"


class Bank(Struct, frozen=True, kw_only=True):
    """The settings of a library, and a payer."""

    installation: TlsInstallation
    client_id: str
    client_secret: str
    files: dict[str, Any]
    key: str

    @property
    def url(self) -> str:
        return self.installation.tls_url

    def cob(self, original: str) -> dict[str, Any]:
        return {
            "calendario": {"expiracao": 3600},
            "devedor": {"cpf": "12345678909", "nome": "Francisco da Silva"},
            "valor": {"original": original},
            "chave": self.key,
            "solicitacaoPagador": "Qual o número do pedido?",
            "infoAdicionais": [{"nome": "Pedido", "valor": "4711"}],
        }

    def cobv(self, original: str) -> dict[str, Any]:
        today = datetime.now(SAO_PAULO).date()
        address = {"logradouro": "Rua A, 1", "cidade": "Recife", "uf": "PE", "cep": "50000000"}
        return {
            "calendario": {"dataDeVencimento": f"{today + timedelta(days=10)}", "validadeAposVencimento": 30},
            "devedor": {"cpf": "12345678909", "nome": "Francisco da Silva", **address},
            "valor": {
                "original": original,
                "multa": {"modalidade": 2, "valorPerc": "2.00"},
                "juros": {"modalidade": 3, "valorPerc": "1.00"},
                "desconto": {
                    "modalidade": 1,
                    "descontoDataFixa": [{"data": f"{today + timedelta(days=5)}", "valorPerc": "3.00"}],
                },
            },
            "chave": self.key,
        }

    def pay(self, **how: object) -> str:
        """Pay from outside; returns the payment's end-to-end id."""
        sandbox = self.installation.service.sandbox
        credentials = {name: sandbox[name] for name in ("client_id", "client_secret")}
        with httpx2.Client(base_url=sandbox["base_url"], timeout=60) as client:
            login = client.post("/oauth/token", json={"grant_type": "client_credentials"} | credentials).json()
            token = {"Authorization": f"Bearer {login['access_token']}"}
            paid = client.post("/sandbox/v1/payments", json=how, headers=token).json()["data"]
            # The payer does not wait long; on a busy machine the payment arrives a little later.
            assert paid["status"] in {"CONFIRMED", "PROCESSING"}, paid
            path = f"/v1/connect/transfer/end-to-end-id/{paid['end_to_end_id']}"
            wait_until(lambda: client.get(path, headers=token).status_code == 200, "the payment has come in")
            assert client.get(path, headers=token).json()["data"]["status"] == "CONFIRMED"
        return paid["end_to_end_id"]


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsInstallation]:
    with running_with_tls(tmp_path_factory.mktemp("libraries") / "home") as one:
        yield one


@pytest.fixture
def bank(installation: TlsInstallation, monkeypatch: pytest.MonkeyPatch) -> Bank:
    made = installation.create_client()
    # The certificate authorities of Python's requests.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", installation.authority_file)
    return Bank(
        installation=installation,
        client_id=made["client_id"],
        client_secret=made["client_secret"],
        files=installation.certify(made["client_id"]),
        key=installation.service.sandbox["pix_keys"][0],
    )


def until_returned(read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Read a refund until it is final."""
    return read_until(read, lambda refund: refund["status"] != "EM_PROCESSAMENTO")


def build(bank: Bank, library: str) -> dict[str, Any]:
    """Run the guide's lines for a library, with only the address changed."""
    (block,) = (block for block in read_blocks(GUIDE) if block.language == "python" and library in block.text)
    names = dict[str, Any](CLIENT_ID=bank.client_id, CLIENT_SECRET=bank.client_secret, files=bank.files)
    exec(block.text.replace("https://localhost:8443", bank.url), names)  # noqa: S102 - the page's own
    return names


@pytest.fixture
def listener() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


def test_pypix_api(bank: Bank, listener: Listener) -> None:
    names = build(bank, "pypix_api")
    api = names["api"]
    (first,) = (block for block in read_blocks(GUIDE) if block.language == "python" and "criar_cob(" in block.text)
    exec(first.text, names)  # noqa: S102 - the page's own
    assert names["charge"]["status"] == "ATIVA"
    hook = f"{listener.url}/1"
    assert api.configurar_webhook(bank.key, hook) == {}
    txid = "pypix00000000000000000000001"
    made = api.criar_cob(txid, bank.cob("123.45"))
    assert (made["txid"], made["status"], made["valor"]["original"]) == (txid, "ATIVA", "123.45")
    assert api.consultar_cob(txid) == made
    assert api.revisar_cob(txid, {"valor": {"original": "100.00"}})["revisao"] == 1
    assert api.consultar_cob(txid, revisao=0)["valor"]["original"] == "123.45"
    assert api.criar_cob_auto_txid(bank.cob("1.00"))["status"] == "ATIVA"
    listed = api.consultar_cobs(INICIO, FIM, cpf="12345678909", status="ATIVA", pagina_atual=0, itens_por_pagina=1000)
    assert txid in [cob["txid"] for cob in listed["cobs"]]

    e2eid = bank.pay(emv=api.consultar_cob(txid)["pixCopiaECola"])
    assert api.consultar_cob(txid)["status"] == "CONCLUIDA"
    assert [pix["endToEndId"] for pix in api.consultar_pix(INICIO, FIM, txid=txid)["pix"]] == [e2eid]
    assert api.consultar_pix_por_e2eid(e2eid)["valor"] == "100.00"
    listener.wait_until_told(1, api.consultar_pix_por_e2eid(e2eid))
    assert api.solicitar_devolucao_pix(e2eid, "d1", {"valor": "40.00"})["valor"] == "40.00"
    assert until_returned(lambda: api.consultar_devolucao_pix(e2eid, "d1"))["status"] == "DEVOLVIDO"
    listener.wait_until_told(1, api.consultar_pix_por_e2eid(e2eid))
    without_txid = bank.pay(key=bank.key, amount=500)
    listener.wait_until_told(1, api.consultar_pix_por_e2eid(without_txid))

    location = api.criar_location("cob")
    assert api.consultar_location(location["id"])["location"] == location["location"]
    assert location["id"] in [each["id"] for each in api.listar_locations(INICIO, FIM)["loc"]]
    assert api.consultar_webhook(bank.key)["webhookUrl"] == hook
    assert bank.key in [each["chave"] for each in api.listar_webhooks(INICIO, FIM)["webhooks"]]
    assert api.excluir_webhook(bank.key)

    with pytest.raises(PixErroValidacaoException) as refused:
        api.criar_cob(txid, bank.cob("5.00") | {"valor": {"original": "5"}})
    assert [violation["propriedade"] for violation in refused.value.violacoes or []] == ["cob.valor.original"]
    with pytest.raises(PixRecursoNaoEncontradoException):
        api.consultar_cob("absent0000000000000000000001")
    with pytest.raises(PixAcessoNegadoException):
        api.consultar_solicrec("1")
    lot = {"descricao": "Carnê", "cobsv": [bank.cobv("10.00") | {"txid": f"pypixlot{number:020d}"} for number in range(3)]}
    assert api.criar_lote_cobv("1", lot) == {}
    wait_until(lambda: {each["status"] for each in api.consultar_lote_cobv("1")["cobsv"]} == {"CRIADA"}, "all are made")
    assert api.alterar_lote_cobv("1", {"cobsv": [{**lot["cobsv"][0], "valor": {"original": "0.00"}}]}) == {}
    wait_until(lambda: api.consultar_lote_cobv("1")["cobsv"][0]["status"] == "NEGADA", "one is refused")
    assert [each["id"] for each in api.listar_lotes_cobv(INICIO, FIM)["lotes"]] == [1]


def test_pypix_api_with_a_due_date(bank: Bank) -> None:
    api = build(bank, "pypix_api")["api"]
    txid = "pypixdue00000000000000000001"
    made = api.criar_cobv(txid, bank.cobv("100.00"))
    assert (made["txid"], made["status"], made["loc"]["tipoCob"]) == (txid, "ATIVA", "cobv")
    assert api.consultar_cobv(txid) == made
    assert api.revisar_cobv(txid, {"valor": {"original": "90.00"}})["revisao"] == 1
    assert api.consultar_cobv(txid, revisao=0)["valor"]["original"] == "100.00"
    listed = api.listar_cobv(INICIO, FIM, cpf="12345678909", status="ATIVA", pagina_atual=0, itens_por_pagina=1000)
    assert txid in [cob["txid"] for cob in listed["cobs"]]
    e2eid = bank.pay(emv=made["pixCopiaECola"])
    assert api.consultar_cobv(txid)["status"] == "CONCLUIDA"
    parts = {name: part["valor"] for name, part in api.consultar_pix_por_e2eid(e2eid)["componentesValor"].items()}
    assert parts == {"original": "90.00", "desconto": "3.00"}
    with pytest.raises(PixErroValidacaoException) as refused:
        api.criar_cobv("pypixdue00000000000000000002", bank.cobv("5.00") | {"valor": {"original": "5"}})
    assert [violation["propriedade"] for violation in refused.value.violacoes or []] == ["cobv.valor.original"]
    with pytest.raises(PixRecursoNaoEncontradoException):
        api.consultar_cobv("absent0000000000000000000001")


def test_efipay(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    # The guide's lines set it, for the whole process.
    monkeypatch.setitem(Constants.APIS["PIX"]["URL"], "sandbox", "")
    efi = build(bank, "efipay")["efi"]
    txid = "efipay0000000000000000000001"
    made = efi.pix_create_charge(params={"txid": txid}, body=bank.cob("10.00"))
    assert (made["txid"], made["status"]) == (txid, "ATIVA")
    assert efi.pix_create_immediate_charge(body=bank.cob("1.00"))["status"] == "ATIVA"
    assert efi.pix_detail_charge(params={"txid": txid}) == made
    changed = efi.pix_update_charge(params={"txid": txid}, body={"solicitacaoPagador": "Qual a mesa?"})
    assert (changed["revisao"], changed["solicitacaoPagador"]) == (1, "Qual a mesa?")
    span = {"inicio": INICIO, "fim": FIM}
    assert txid in [cob["txid"] for cob in efi.pix_list_charges(params=dict(span))["cobs"]]

    e2eid = bank.pay(emv=made["pixCopiaECola"])
    assert e2eid in [pix["endToEndId"] for pix in efi.pix_received_list(params=dict(span))["pix"]]
    assert efi.pix_detail_received(params={"e2eId": e2eid})["txid"] == txid
    refund = {"e2eId": e2eid, "id": "d1"}
    assert efi.pix_devolution(params=dict(refund), body={"valor": "4.00"})["valor"] == "4.00"
    assert until_returned(lambda: efi.pix_detail_devolution(params=dict(refund)))["status"] == "DEVOLVIDO"

    due = {"txid": "efipaydue0000000000000000001"}
    assert efi.pix_create_due_charge(params=dict(due), body=bank.cobv("10.00"))["status"] == "ATIVA"
    body = {"valor": {"original": "20.00"}}
    changed = efi.pix_update_due_charge(params=dict(due), body=body)
    assert (changed["revisao"], changed["valor"]["original"]) == (1, "20.00")
    # It asks below a path with a slash at its end.
    assert due["txid"] in [cob["txid"] for cob in efi.pix_list_due_charges(params=dict(span))["cobs"]]
    e2eid = bank.pay(emv=changed["pixCopiaECola"])
    assert efi.pix_detail_due_charge(params=dict(due))["pix"][0]["endToEndId"] == e2eid

    location = efi.pix_create_location(body={"tipoCob": "cob"})
    assert efi.pix_detail_location(params={"id": location["id"]})["tipoCob"] == "cob"
    key = {"chave": bank.key}
    efi.pix_config_webhook(params=dict(key), body={"webhookUrl": HOOK})
    assert efi.pix_detail_webhook(params=dict(key))["webhookUrl"] == HOOK
    assert bank.key in [each["chave"] for each in efi.pix_list_webhook(params=dict(span))["webhooks"]]
    efi.pix_delete_webhook(params=dict(key))
    lot = {"descricao": "Carnê", "cobsv": [bank.cobv("10.00") | {"txid": f"efipaylot{number:020d}"} for number in range(3)]}
    efi.pix_create_due_charge_batch(params={"id": "2"}, body=lot)
    read = partial(efi.pix_detail_due_charge_batch, params={"id": "2"})
    wait_until(lambda: {each["status"] for each in read()["cobsv"]} == {"CRIADA"}, "all are made")
    refused = efi.pix_detail_charge(params={"txid": "absent0000000000000000000001"})
    assert (refused["status"], refused["type"].rpartition("/")[2]) == (404, "CobNaoEncontrado")


NodeCalls = Callable[..., list[dict[str, Any]]]
"""Calls of the Node.js library in order: method, its own schema of the answer, arguments."""


@pytest.fixture
def call(bank: Bank, tmp_path: Path) -> NodeCalls:
    folder = toolchains.take_node(tmp_path)
    (lines,) = (block.text for block in read_blocks(GUIDE) if block.language == "javascript")
    assert lines in (folder / "efi.js").read_text()

    def call(*calls: tuple[Any, ...]) -> list[dict[str, Any]]:
        (folder / "calls.json").write_text(json.dumps(calls))
        told = dict(BASE_URL=bank.url, CLIENT_ID=bank.client_id, CLIENT_SECRET=bank.client_secret)
        return toolchains.run_json(
            folder,
            *("node", "efi.js", "calls.json"),
            PKCS12_FILE=bank.files["pkcs12_file"],
            NODE_EXTRA_CA_CERTS=bank.installation.authority_file,
            **told,
        )

    return call


def test_sdk_node_apis_efi_with_a_due_date(bank: Bank, call: NodeCalls) -> None:
    txid, span = "efinodedue000000000000000001", {"inicio": INICIO, "fim": FIM}
    made, changed, read, listed = call(
        ("pixCreateDueCharge", "CreateDueCharge", {"txid": txid}, bank.cobv("10.00")),
        ("pixUpdateDueCharge", "UpdateDueCharge", {"txid": txid}, {"valor": {"original": "12.00"}}),
        ("pixDetailDueCharge", "DetailDueCharge", {"txid": txid}),
        ("pixListDueCharges", "ListDueCharges", span),
    )
    assert (made["answer"]["txid"], changed["answer"]["revisao"]) == (txid, 1)
    # Some of its schemas require a receiver's e-mail address and have no txid of a location, unlike the standard.
    receiver, located = "recebedor invalid_union", "loc unrecognized_keys txid"
    assert made["issues"] == [receiver]
    assert sorted(changed["issues"]) == [located, receiver]
    assert read["issues"] == ["loc unrecognized_keys criacao txid"]
    assert txid in [cob["txid"] for cob in listed["answer"]["cobs"]]
    e2eid = bank.pay(emv=made["answer"]["pixCopiaECola"])
    (paid,) = call(("pixDetailDueCharge", None, {"txid": txid}))
    assert paid["answer"]["pix"][0]["endToEndId"] == e2eid


def test_sdk_node_apis_efi(bank: Bank, call: NodeCalls) -> None:
    txid, span, key = "efinode000000000000000000001", {"inicio": INICIO, "fim": FIM}, {"chave": bank.key}
    made, read, changed, drawn, listed, located, set_, webhook, webhooks = call(
        ("pixCreateCharge", "CreateCharge", {"txid": txid}, bank.cob("10.00")),
        ("pixDetailCharge", "DetailCharge", {"txid": txid}),
        ("pixUpdateCharge", "UpdateCharge", {"txid": txid}, {"valor": {"original": "12.00"}}),
        ("pixCreateImmediateCharge", "CreateImmediateCharge", bank.cob("1.00")),
        ("pixListCharges", "ListCharges", {**span, "status": "ATIVA"}),
        ("pixCreateLocation", "CreateLocation", {"tipoCob": "cob"}),
        ("pixConfigWebhook", None, key, {"webhookUrl": HOOK}),
        ("pixDetailWebhook", "DetailWebhook", key),
        ("pixListWebhook", "ListWebhook", span),
    )
    for each in (made, read, changed, drawn, listed, located, webhook, webhooks):
        assert each.get("issues") == [], each
    assert (made["answer"]["txid"], changed["answer"]["revisao"]) == (txid, 1)
    assert txid in [cob["txid"] for cob in listed["answer"]["cobs"]]
    assert set_["answer"] == ""

    e2eid = bank.pay(emv=changed["answer"]["pixCopiaECola"])
    refund = {"e2eId": e2eid, "id": "d1"}
    paid, received, one, refunded, forgotten, absent = call(
        ("pixDetailCharge", "DetailCharge", {"txid": txid}),
        ("pixReceivedList", "ListReceived", {**span, "txid": txid}),
        ("pixDetailReceived", "DetailReceived", {"e2eId": e2eid}),
        ("pixDevolution", "Devolution", refund, {"valor": "3.00"}),
        ("pixDeleteWebhook", None, key),
        ("pixDetailCharge", None, {"txid": "absent0000000000000000000001"}),
    )
    for each in (received, one, refunded, forgotten):
        assert each.get("issues") == [], each
    assert paid["answer"]["status"] == "CONCLUIDA"
    # Members of the standard that the schema lacks.
    assert paid["issues"] == ["pix.0 unrecognized_keys componentesValor chave"]
    assert [pix["endToEndId"] for pix in received["answer"]["pix"]] == [e2eid]
    assert absent["refusal"]["type"].endswith("/CobNaoEncontrado")
    until_returned(lambda: call(("pixDetailDevolution", None, refund))[0]["answer"])
    ended, returned = call(
        ("pixDetailDevolution", "DetailDevolution", refund), ("pixDetailReceived", "DetailReceived", {"e2eId": e2eid})
    )
    assert (ended["answer"]["valor"], ended["issues"]) == ("3.00", [])
    assert returned["issues"] == ["devolucoes.0 unrecognized_keys natureza"]
