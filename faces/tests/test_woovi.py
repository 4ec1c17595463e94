"""The simulated Woovi: charges by correlationID, partial refunds, payments in two steps, callbacks with three signatures.

Calls beyond its SDK are ours, by the API document.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from datetime import datetime, timedelta
from typing import Any, LiteralString
from urllib.parse import quote

import asyncpg
import pytest
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from msgspec import structs

from faces.tests.woovi_document import find_errors
from pixconnect.features.identity.service import access as access_usecases
from pixconnect.features.pix_api.service import event_callback as callback_key
from pixconnect.features.webhooks.rules.delivery import retry_wait
from pixconnect.features.webhooks.service.delivery import Recipient
from pixconnect.features.webhooks.tables import endpoint as endpoint_store
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.flows.transfer import start_transfer
from pixconnect.kernel.rules.access import make_app_id
from pixconnect.kernel.rules.listing import SEARCHED_MAX
from pixconnect.kernel.rules.rail import DirectoryEntry, Rejected, Settled
from pixconnect.kernel.rules.transfer import KeyTransferRequest
from pixconnect.platform.base.clock import format_milliseconds
from support.api import Answer
from support.faces import ACCOUNT as ACCOUNT_NUMBER
from support.faces import KEY, PAYEE, Bank, FaceClient
from support.operators import as_operator
from support.records import outside_party
from support.service import credit_report, read_funds
from support.webhooks import running_worker

CHARGE: dict[str, Any] = {"correlationID": "pedido 7/ç", "value": 1000, "comment": "nota 7"}
PAYMENT: dict[str, Any] = {
    "type": "PIX_KEY", "value": 1234, "destinationAlias": PAYEE, "destinationAliasType": "EMAIL",
    "comment": "salário",
}  # fmt: skip
ACCOUNT: dict[str, Any] = {
    "psp": "99999004",
    "holder": {"name": "Ana Lima", "taxID": {"type": "BR:CPF", "taxID": "123.456.789-09"}},
    "account": {"account": "10017", "branch": "0019", "accountType": "TRAN"},
}
KNOWN = "Já existe um pagamento com o correlationID fornecido"
TOO_POOR = "Você não possui saldo o suficiente para realizar esse pagamento"


class Woovi(FaceClient):
    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        answer = await super().call(method, path, body, **headers)
        assert find_errors(method, path, answer) == [], (method, path, body, answer)
        return answer

    async def do(self, method: str, path: str, body: Any = None) -> Any:
        answer = await self.call(method, f"/api/v1{path}", body)
        assert answer.status == 200, answer
        return answer.body

    async def fail(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        answer = await self.call(method, f"/api/v1{path}", body)
        assert set(answer.body) == {"error"}, answer
        return answer.status, answer.body["error"]

    async def pay(self, name: str, **changes: Any) -> Any:
        return await self.do("POST", "/payment", PAYMENT | {"correlationID": name} | changes)

    async def ask(self, name: str) -> Any:
        return await self.do("GET", f"/payment/{quote(name)}")

    async def end(self, name: str, outcome: Settled | Rejected | None = None) -> None:
        await self.end_order((await self.ask(name))["transaction"]["endToEndId"], outcome)


def open_woovi(bank: Bank, name: str = "woovi", **answers: str) -> Woovi:
    api = bank.answering(**{f"woovi.{choice}": answer for choice, answer in answers.items()})
    return Woovi(bank, api, name, make_app_id(bank.issued.client.client_id, bank.issued.client_secret))


@pytest.fixture
def woovi(bank: Bank) -> Woovi:
    return open_woovi(bank)


async def test_who_calls_is_told_by_its_app_id_and_refused_once_it_is_disabled(woovi: Woovi) -> None:
    assert (await woovi.do("GET", "/account"))["accounts"][0]["isDefault"]
    wrong = base64.b64encode(b"nobody:secret").decode()
    for authorization in ("", "x", "Bearer x", wrong, f"Bearer {woovi.headers['authorization']}", "%%%%"):
        refused = await woovi.call("GET", "/api/v1/account", authorization=authorization)
        assert (refused.status, refused.body) == (401, {"errors": [{"message": "Invalid appID"}], "data": None})
    client_id = woovi.bank.issued.client.client_id
    await access_usecases.disable_client(as_operator(woovi.bank.service.context), client_id)
    await asyncio.sleep(1.1)
    assert (await woovi.call("GET", "/api/v1/account")).status == 401


async def test_wrong_app_ids_of_an_address_keep_none_of_its_others_out(woovi: Woovi) -> None:
    async def ask(name: str, secret: str) -> Answer:
        return await woovi.call("GET", "/api/v1/account", authorization=base64.b64encode(f"{name}:{secret}".encode()).decode())

    for number in range(10):
        refused = await ask(f"nobody{number}", "x")
        assert (refused.status, "www-authenticate" in refused.headers) == (401, False)
    before = await woovi.bank.service.fetch("select from token_failure")
    client_id = woovi.bank.issued.client.client_id
    assert [(await ask(name, "x")).status for name in ("nobody10", "nobody0", client_id)] == [429] * 3
    assert await woovi.do("GET", "/account")
    assert len(await woovi.bank.service.fetch("select from token_failure")) == len(before)


async def test_a_charge_is_named_by_its_maker_and_made_once(woovi: Woovi) -> None:
    customer = {"name": "Ana Lima", "taxID": "123.456.789-09", "email": "ana@example.com"}
    more = [{"key": "Pedido", "value": "7"}]
    made = await woovi.do("POST", "/charge", CHARGE | {"customer": customer, "additionalInfo": more})
    charge = made["charge"]
    assert (charge["status"], charge["value"], charge["correlationID"]) == ("ACTIVE", 1000, "pedido 7/ç")
    assert charge["customer"] == {"name": "Ana Lima", "taxID": {"taxID": "12345678909", "type": "BR:CPF"}}
    assert (charge["comment"], charge["additionalInfo"], charge["pixKey"]) == ("nota 7", more, KEY)
    assert made["brCode"] == charge["brCode"]
    assert await woovi.fail("POST", "/charge", CHARGE) == (400, "Este correlationID já foi usado.")
    assert await woovi.do("POST", "/charge?return_existing=true", CHARGE | {"value": 7}) == made
    for name in ("pedido 7/ç", charge["transactionID"]):
        assert await woovi.do("GET", f"/charge/{quote(name, safe='')}") == {"charge": charge}
    assert (await woovi.fail("GET", "/charge/absent"))[0] == 400


async def test_charges_are_listed_revised_removed_and_paid(woovi: Woovi) -> None:
    names = ["c0", "c1", "c2", "c3"]
    made = [(await woovi.do("POST", "/charge", CHARGE | {"correlationID": name}))["charge"] for name in names]
    changed = await woovi.do("PATCH", "/charge/c0", {"expiresDate": "2060-01-01T00:00:00.000Z"})
    # Whole seconds after it was created.
    left = datetime.fromisoformat("2060-01-01T00:00:00Z") - datetime.fromisoformat(changed["expiresDate"])
    assert (changed["status"], timedelta(0) <= left < timedelta(seconds=1)) == ("OK", True)
    assert (await woovi.fail("PATCH", "/charge/c0", {"expiresDate": "2020-01-01T00:00:00Z"}))[0] == 400
    assert await woovi.do("DELETE", "/charge/c1") == {"status": "OK", "id": "c1"}
    assert (await woovi.fail("DELETE", "/charge/c1"))[0] == 400
    await woovi.bank.be_paid(made[2]["transactionID"])
    assert (await woovi.fail("PATCH", "/charge/c2", {"expiresDate": "2060-01-01T00:00:00Z"}))[0] == 400
    statuses = {name: (await woovi.do("GET", f"/charge/{name}"))["charge"]["status"] for name in names}
    assert statuses == {"c0": "ACTIVE", "c1": "EXPIRED", "c2": "COMPLETED", "c3": "ACTIVE"}
    for skip, limit, expected in ((0, 10, "3210"), (1, 2, "21"), (3, 2, "0"), (9, 2, "")):
        page = await woovi.do("GET", f"/charge?skip={skip}&limit={limit}")
        assert [each["correlationID"] for each in page["charges"]] == [f"c{number}" for number in expected]
        assert page["pageInfo"] == {
            "skip": skip, "limit": limit, "totalCount": 4, "hasPreviousPage": skip > 0,
            "hasNextPage": skip + limit < 4,
        }  # fmt: skip
    assert len((await woovi.do("GET", "/charge?status=COMPLETED"))["charges"]) == 1


async def test_a_received_pix_is_shown_with_its_payer_and_refunded_in_parts(woovi: Woovi) -> None:
    txid = (await woovi.do("POST", "/charge", CHARGE))["charge"]["transactionID"]
    e2eid = await woovi.bank.be_paid(txid)
    loose = await woovi.bank.be_paid(None, 500)
    listed = await woovi.do("GET", "/transaction?type=PAYMENT")
    assert [each["endToEndId"] for each in listed["transactions"]] == [loose, e2eid]
    shown = (await woovi.do("GET", f"/transaction/{e2eid}"))["transaction"]
    assert shown == listed["transactions"][1]
    assert (shown["charge"]["correlationID"], shown["transactionID"]) == ("pedido 7/ç", txid)
    assert len(shown["debitParty"]["holder"]["taxID"]["taxID"]) == 11
    assert set(shown["debitParty"]) == {"account", "psp", "holder"}
    of_charge = f"/charge/{quote('pedido 7/ç', safe='')}/refund"
    first = (await woovi.do("POST", of_charge, {"correlationID": "d1", "value": 400}))["refund"]
    assert (first["status"], first["value"], first["endToEndId"]) == ("IN_PROCESSING", 400, e2eid)
    assert await woovi.fail("POST", of_charge, {"correlationID": "d1", "value": 400}) == (
        400,
        "Este correlationID já foi usado.",
    )
    rest = await woovi.do("POST", "/refund", {"correlationID": "d2", "transactionEndToEndId": e2eid})
    assert rest["refund"]["value"] == 600
    assert (await woovi.fail("POST", "/refund", {"correlationID": "d3", "transactionEndToEndId": e2eid}))[0] == 400
    answering = open_woovi(woovi.bank, repeated_refund="answered", refund_by_id="absent")
    assert (await answering.do("POST", of_charge, {"correlationID": "d1", "value": 400}))["refund"] == first
    assert (await answering.do("POST", "/refund", {"correlationID": "d2", "transactionEndToEndId": e2eid})) == rest
    settled = Settled(settled_at=woovi.bank.service.context.clock.now())
    await end_orders(woovi.bank.service.context, [(first["returnIdentification"], settled)])
    asked = (await woovi.do("GET", "/refund/d1"))["pixTransactionRefund"]
    assert asked["status"] == "REFUNDED"
    assert await woovi.do("GET", f"/refund/{asked['refundId']}") == {"pixTransactionRefund": asked}
    assert (await answering.fail("GET", f"/refund/{asked['refundId']}"))[0] == 400
    assert [each["status"] for each in (await woovi.do("GET", of_charge))["refunds"]] == ["CONFIRMED", "IN_PROCESSING"]
    assert [each["correlationID"] for each in (await woovi.do("GET", "/refund"))["refunds"]] == ["d2", "d1"]


async def test_a_payment_moves_nothing_before_it_is_approved_once(woovi: Woovi) -> None:
    made = await woovi.pay("p1")
    assert made == {"payment": PAYMENT | {"correlationID": "p1", "status": "CREATED"}}
    assert await woovi.ask("p1") == made
    available, reserved, *_ = await read_funds(woovi.bank.service, woovi.bank.service.caller)
    assert (available, reserved) == (1_000_000, 0)
    # The name is the only guard; contents are not compared.
    assert await woovi.fail("POST", "/payment", PAYMENT | {"correlationID": "p1", "value": 1}) == (400, KNOWN)
    approved = await woovi.do("POST", "/payment/approve", {"correlationID": "p1"})
    assert (approved["payment"]["status"], approved["destination"]["pixKey"]) == ("APPROVED", PAYEE)
    assert (await woovi.fail("POST", "/payment/approve", {"correlationID": "p1"}))[0] == 400
    again = await open_woovi(woovi.bank, approve_again="answered").do("POST", "/payment/approve", {"correlationID": "p1"})
    assert again["transaction"]["endToEndId"] == approved["transaction"]["endToEndId"]
    assert (await woovi.ask("p1"))["payment"]["status"] == "PROCESSING"
    await woovi.end("p1")
    assert (await woovi.ask("p1"))["payment"]["status"] == "CONFIRMED"
    available, reserved, *_ = await read_funds(woovi.bank.service, woovi.bank.service.caller)
    assert (available, reserved) == (1_000_000 - 1234, 0)
    assert (await woovi.fail("POST", "/payment/approve", {"correlationID": "absent"}))[0] == 400
    assert (await woovi.fail("GET", "/payment/absent"))[0] == 400
    assert (await open_woovi(woovi.bank, unknown_payment="absent").fail("GET", "/payment/absent"))[0] == 404


async def test_a_transfer_of_its_name_from_another_door_is_not_its_approval(woovi: Woovi) -> None:
    await woovi.pay("p1")
    other = KeyTransferRequest(amount_cents=7, key=PAYEE, key_type="EMAIL", external_id="p1")
    await start_transfer(woovi.bank.service.context, woovi.bank.service.caller, other)
    assert (await woovi.ask("p1"))["payment"]["status"] == "CREATED"
    assert [each["payment"]["status"] for each in (await woovi.do("GET", "/payment"))["payments"]] == ["CREATED"]
    assert (await woovi.fail("POST", "/payment/approve", {"correlationID": "p1"}))[0] == 400
    _, reserved, *_ = await read_funds(woovi.bank.service, woovi.bank.service.caller)
    assert reserved == 7


async def test_twenty_approvals_at_once_send_once(woovi: Woovi) -> None:
    await woovi.pay("p1")
    ask = [woovi.call("POST", "/api/v1/payment/approve", {"correlationID": "p1"}) for _ in range(20)]
    assert sorted(answer.status for answer in await asyncio.gather(*ask)) == [200, *[400] * 19]
    _, reserved, *_ = await read_funds(woovi.bank.service, woovi.bank.service.caller)
    assert reserved == 1234


@pytest.mark.parametrize("statement", ["update prepared_transfer set amount_cents = 1", "delete from prepared_transfer"])
async def test_what_was_prepared_is_never_changed(woovi: Woovi, statement: LiteralString) -> None:
    await woovi.pay("p1")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await woovi.bank.service.context.pool.execute(statement)


async def test_a_payment_without_balance_stays_created_and_can_be_approved_later(woovi: Woovi) -> None:
    await woovi.pay("p1", value=2_000_000)
    assert await woovi.fail("POST", "/payment/approve", {"correlationID": "p1"}) == (400, TOO_POOR)
    assert (await woovi.ask("p1"))["payment"]["status"] == "CREATED"
    at_once = PAYMENT | {"correlationID": "p2", "value": 2_000_000, "autoApprove": True}
    assert await woovi.fail("POST", "/payment", at_once) == (400, "You do not have enough balance to make this payment")
    assert (await woovi.ask("p2"))["payment"]["status"] == "CREATED"
    await woovi.bank.be_paid(None, 1_500_000)
    assert (await woovi.do("POST", "/payment/approve", {"correlationID": "p2"}))["payment"]["status"] == "APPROVED"


async def test_a_payment_by_key_account_or_code_is_approved_at_once_and_listed(woovi: Woovi) -> None:
    sent = await woovi.pay("p1", autoApprove=True)
    assert (sent["payment"]["status"], set(sent)) == ("APPROVED", {"payment"})
    whole = open_woovi(woovi.bank, auto_approve_answer="whole")
    account = {"type": "MANUAL", "value": 5, "correlationID": "p2", "autoApprove": True, **ACCOUNT}
    sent = await whole.do("POST", "/payment", account | {"psp": {"id": "99999004"}})
    assert sent["destination"]["account"] == "10017"
    assert sent["transaction"]["creditParty"]["psp"]["id"] == "99999004"
    assert (await woovi.do("POST", "/payment", account | {"correlationID": "p3"}))["payment"]["type"] == "MANUAL"
    assert (await woovi.fail("POST", "/payment", {"qrCode": "no code", "correlationID": "p4"}))[0] == 400
    assert (await woovi.fail("POST", "/payment", PAYMENT | {"correlationID": "p5", "destinationAlias": "a@b.example"})) == (
        400,
        "A chave Pix não foi encontrada.",
    )
    listed = await woovi.do("GET", "/payment?limit=2")
    assert [each["payment"]["correlationID"] for each in listed["payments"]] == ["p3", "p2"]
    assert (listed["status"], listed["pageInfo"]["totalCount"]) == ("OK", 3)
    found = await woovi.do("GET", f"/transaction?withdrawal={sent['transaction']['endToEndId']}")
    assert [each["type"] for each in found["transactions"]] == ["WITHDRAW"]


async def test_balance_and_statement_are_in_cents_unless_somebody_chooses(woovi: Woovi) -> None:
    await woovi.bank.be_paid(None, 5000)
    await woovi.pay("p1", autoApprove=True)
    (account,) = (await woovi.do("GET", "/account/"))["accounts"]
    assert account["balance"]["available"] == 1_005_000 - 1234
    assert (account["balance"]["total"], account["balance"]["blocked"]) == (1_005_000, 1234)
    assert (await woovi.do("GET", f"/account/{account['accountId']}"))["account"] == account
    assert (await woovi.fail("GET", "/account/absent"))[0] == 400
    await woovi.end("p1")
    lines = await woovi.do("GET", "/statement")
    assert [(line["type"], line["value"], line["balance"]) for line in lines] == [
        ("DEBIT", 1234, 1_003_766),
        ("CREDIT", 5000, 1_005_000),
        ("CREDIT", 1_000_000, 1_000_000),
    ]
    assert lines[1:2] == await woovi.do("GET", "/statement?skip=1&limit=1")
    (line,) = await open_woovi(woovi.bank, statement_unit="reais").do("GET", "/statement?limit=1")
    assert (line["value"], line["balance"]) == (12.34, 10_037.66)


async def test_a_key_is_told_with_its_owner_masked_and_costs_tokens(woovi: Woovi) -> None:
    tokens = await woovi.do("GET", "/pix-keys/tokens")
    found = await woovi.do("GET", f"/pix-keys/{quote(PAYEE)}/check")
    assert (found["pixKey"], found["type"], len(found["pixKeyEndToEndId"])) == (PAYEE, "EMAIL", 32)
    assert found["owner"]["taxID"].count("*") == 6
    assert found["owner"] | {"taxID": ""} == {
        "account": "****", "branch": "****", "psp": "99999004", "name": "Joana Prado", "taxID": "",
    }  # fmt: skip
    assert (await woovi.do("POST", "/pix-keys/check", {"pixKey": PAYEE}))["owner"] == found["owner"]
    absent = await woovi.call("GET", "/api/v1/pix-keys/nobody@example.com/check")
    assert (absent.status, absent.body["errorCode"]) == (404, "PIX_KEY_INFO_NOT_FOUND")
    assert (await woovi.fail("POST", "/pix-keys/check", {"pixKey": "nobody@example.com"}))[0] == 404
    left = await woovi.do("GET", "/pix-keys/tokens")
    assert tokens["tokens"] - left["tokens"] in (41, 42)


def verify_rsa(keys: Any, signature: str, body: bytes) -> None:
    key = load_pem_public_key(keys["public_keys"][0]["key"].encode())
    assert isinstance(key, RSAPublicKey)
    key.verify(base64.b64decode(signature), body, padding.PKCS1v15(), SHA256())


async def set_webhooks(woovi: Woovi, *events: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for event in events:
        asked = {"name": "loja", "event": event, "url": woovi.bank.receiver.url, "authorization": "s3gredo"}
        made[event] = (await woovi.do("POST", "/webhook", {"webhook": asked}))["webhook"]
    return made


async def test_a_webhook_is_probed_kept_listed_and_removed(woovi: Woovi) -> None:
    (made,) = (await set_webhooks(woovi, "OPENPIX:CHARGE_COMPLETED")).values()
    (probe,) = woovi.bank.receiver.received
    assert json.loads(probe.body)["evento"] == "teste_webhook"
    assert json.loads(probe.body)["event"] == "OPENPIX:CHARGE_COMPLETED"
    assert (made["name"], made["authorization"], made["isActive"]) == ("loja", "s3gredo", True)
    secret = made.pop("hmacSecret")
    (listed,) = (await woovi.do("GET", f"/webhook?url={quote(made['url'], safe='')}"))["webhooks"]
    assert (listed, bool(secret)) == (made, True)
    assert (await woovi.do("GET", "/webhook?url=http://other/"))["webhooks"] == []
    assert await woovi.do("DELETE", f"/webhook/{made['id']}") == {"status": "OK"}
    assert (await woovi.fail("DELETE", f"/webhook/{made['id']}"))[0] == 400
    refused = {"event": "OPENPIX:DISPUTE_CREATED", "url": made["url"]}
    assert (await woovi.fail("POST", "/webhook", {"webhook": refused}))[0] == 400
    assert (await woovi.fail("POST", "/webhook", {"webhook": {"url": "http://127.0.0.1:9/"}}))[0] == 400


async def test_both_events_of_a_paid_charge_come_signed_in_three_ways(woovi: Woovi) -> None:
    made = await set_webhooks(woovi, "OPENPIX:CHARGE_COMPLETED", "OPENPIX:TRANSACTION_RECEIVED")
    txid = (await woovi.do("POST", "/charge", CHARGE))["charge"]["transactionID"]
    context = woovi.bank.service.context
    policy = structs.replace(context.policy, base_url="http://pix.example")
    worker = structs.replace(woovi.bank.service, context=structs.replace(context, policy=policy))
    async with running_worker(worker):
        e2eid = await woovi.bank.be_paid(txid)
        await woovi.bank.receiver.wait_for(4)
    keys = (await woovi.call("GET", "/api/v1/webhook/public-keys", authorization="")).body
    assert [key["is_current"] for key in keys["public_keys"]] == [True]
    told = {json.loads(request.body)["event"]: request for request in woovi.bank.receiver.received[2:]}
    assert told.keys() == made.keys()
    for event, request in told.items():
        body = json.loads(request.body)
        assert (body["pix"]["endToEndId"], body["pix"]["value"]) == (e2eid, 1000)
        assert (body["charge"]["correlationID"], body["charge"]["status"]) == ("pedido 7/ç", "COMPLETED")
        assert body["pix"]["raw"]["valor"] == "10.00"
        pages = [body["charge"]["paymentLinkUrl"], body["pix"]["charge"]["qrCodeImage"]]
        assert [page.partition("/woovi/")[0] for page in pages] == ["http://pix.example/faces"] * 2
        headers = {name.lower(): value for name, value in request.headers.items()}
        digest = hmac.digest(made[event]["hmacSecret"].encode(), request.body, hashlib.sha1)
        assert headers["x-openpix-signature"] == base64.b64encode(digest).decode()
        verify_rsa(keys, headers["x-webhook-signature"], request.body)
        assert headers["authorization"] == "s3gredo"


async def test_a_charges_pix_is_found_among_however_many(woovi: Woovi) -> None:
    charge = (await woovi.do("POST", "/charge", CHARGE))["charge"]
    of_charge = f"/transaction?charge={charge['transactionID']}"
    assert (await woovi.do("GET", of_charge))["transactions"] == []
    e2eid = await woovi.bank.be_paid(charge["transactionID"], 1000)
    await woovi.bank.be_paid(None, 500)
    await woovi.bank.count_more(SEARCHED_MAX)
    found = await woovi.do("GET", of_charge)
    assert found["transactions"][0]["charge"]["paymentLinkUrl"] == charge["paymentLinkUrl"]
    assert ([each["endToEndId"] for each in found["transactions"]], found["pageInfo"]["totalCount"]) == ([e2eid], 1)
    for part in ("skip=1", "end=2020-01-01T00:00:00Z"):
        assert (await woovi.do("GET", f"{of_charge}&{part}"))["transactions"] == []
    for kind in ("PAYMENT", "WITHDRAW"):
        status, reason = await woovi.fail("GET", f"/transaction?type={kind}")
        assert (status, "start, end" in reason) == (400, True)
    assert (await woovi.fail("POST", "/webhook", {"webhook": {"url": "ftp://h/x"}}))[1].startswith("url: ")


async def test_a_pix_dated_back_shows_the_networks_instant(woovi: Woovi) -> None:
    report = credit_report(woovi.bank.service, account_number=ACCOUNT_NUMBER)
    hours_ago = report.reported_at - timedelta(hours=5)
    await receive_credit(woovi.bank.service.context, structs.replace(report, settled_at=hours_ago))
    pix = (await woovi.do("GET", f"/transaction/{report.end_to_end_id}"))["transaction"]
    assert {pix["time"], pix["raw"]["horario"]} == {format_milliseconds(hours_ago)}
    assert pix["createdAt"] > pix["time"]


async def test_amounts_are_numbers_and_no_name_is_a_path(woovi: Woovi) -> None:
    assert "value" in (await woovi.fail("POST", "/charge", CHARGE | {"value": "100"}))[1]
    for changes in (dict(correlationID="p1", value="100"), dict(correlationID="approve")):
        status, reason = await woovi.fail("POST", "/payment", PAYMENT | changes)
        assert (status, list(changes)[-1] in reason) == (400, True)


async def test_the_private_keys_behind_public_ones_are_loaded_once(woovi: Woovi) -> None:
    async def read() -> Any:
        return (await woovi.call("GET", "/api/v1/webhook/public-keys", authorization="")).body

    made = await read()
    loaded_count = callback_key.load_signer.cache_info().misses
    assert await read() == made
    assert callback_key.load_signer.cache_info().misses == loaded_count


@pytest.mark.parametrize("word", ["é", "\u00a0x", "ÿ"])
async def test_a_word_that_is_no_header_of_ours_is_refused(woovi: Woovi, word: str) -> None:
    asked = {"url": woovi.bank.receiver.url, "authorization": word}
    status, reason = await woovi.fail("POST", "/webhook", {"webhook": asked})
    assert (status, "authorization" in reason) == (400, True)
    assert woovi.bank.receiver.received == []


async def test_the_ends_of_payments_and_refunds_are_told(woovi: Woovi) -> None:
    events = ("OPENPIX:MOVEMENT_CONFIRMED", "OPENPIX:MOVEMENT_FAILED", "PIX_TRANSACTION_REFUND_SENT_CONFIRMED")
    await set_webhooks(woovi, *events)
    e2eid = await woovi.bank.be_paid(None, 500)
    for name in ("p1", "p2"):
        await woovi.pay(name, autoApprove=True)
    refund = await woovi.do("POST", "/refund", {"correlationID": "d1", "transactionEndToEndId": e2eid, "value": 200})
    async with running_worker(woovi.bank.service):
        await woovi.end("p1")
        await woovi.end("p2", Rejected(code="AM12", reason="Invalid amount"))
        settled = Settled(settled_at=woovi.bank.service.context.clock.now())
        await end_orders(woovi.bank.service.context, [(refund["refund"]["returnIdentification"], settled)])
        await woovi.bank.receiver.wait_for(6)
    told = {body["event"]: body for body in (json.loads(each.body) for each in woovi.bank.receiver.received[3:])}
    done, failed, returned = (told[event] for event in events)
    assert (done["payment"]["correlationID"], done["payment"]["status"]) == ("p1", "CONFIRMED")
    assert failed["error"] == {"code": "PIX_OUT_NOT_AUTHORIZED", "description": "Invalid amount"}
    assert failed["transaction"]["providerRejectedReason"] == "AM12 - Invalid amount"
    assert (returned["refundTransaction"]["value"], returned["refundTransaction"]["partial"]) == (200, True)
    assert returned["originalTransaction"]["endToEndId"] == e2eid


async def test_a_callback_that_fails_is_tried_nine_times_within_the_hour(woovi: Woovi) -> None:
    await set_webhooks(woovi, "OPENPIX:CHARGE_CREATED")
    service = woovi.bank.service
    (endpoint,) = await endpoint_store.list_of_account(service.context.pool, service.caller.holder_id, "woovi")
    waits = Recipient(endpoint).retry_waits
    found = [retry_wait(number, None, 0, waits) for number in range(1, 10)]
    assert found == [*(timedelta(seconds=10 * 2**number) for number in range(8)), None]


async def test_its_test_environment_plays_the_payer_and_rejects_by_account(bank: Bank) -> None:
    test = open_woovi(bank, "woovi+homologation")
    key = "reject-ac03@sandbox.pix.example"
    bank.service.rail.entries[key] = DirectoryEntry(key=key, key_type="EMAIL", party=outside_party(key=key))
    manual = {"type": "MANUAL", "value": 5, "correlationID": "p1", "autoApprove": True, **ACCOUNT}
    account = ACCOUNT["account"] | {"account": "1111111"}
    await test.do("POST", "/payment", manual | {"account": account})
    await set_webhooks(test, "OPENPIX:MOVEMENT_FAILED")
    asked = await test.ask("p1")
    assert (asked["destination"]["account"], asked["payment"]["type"]) == ("1111111", "MANUAL")
    async with running_worker(bank.service):
        await test.end("p1", Rejected(code="AC03", reason="no such account"))
        await bank.receiver.wait_for(2)
    assert json.loads(bank.receiver.received[1].body)["error"]["code"] == "ACCOUNT_NOT_FOUND"
    ordinary = open_woovi(bank)
    await ordinary.do("POST", "/payment", manual | {"correlationID": "p2", "account": account})
    assert (await ordinary.call("GET", "/openpix/testing?transactionID=x")).status == 400
    assert (await test.call("GET", "/openpix/testing?transactionID=x")).status == 400
