"""A merchant's dynamic code, fetched and checked as a payer's institution would."""

from datetime import timedelta
from typing import Any

import httpx2
import pytest
from joserfc import jws
from joserfc.jwk import KeySet

from pixconnect.features.sandbox import rules as commands
from pixconnect.kernel.rules import br_code
from pixconnect.kernel.rules.rail import Taken
from support.sandbox import Sandbox, order, reports_of


async def fetch(location: str) -> tuple[int, str, bytes]:
    async with httpx2.AsyncClient(trust_env=False) as client:
        response = await client.get(f"http://{location}")
    return response.status_code, response.headers["content-type"], response.content


async def make_code(sandbox: Sandbox, **changes: Any) -> str:
    fields: dict[str, Any] = {"kind": "dynamic", "amount_cents": 10607, "txid": "t" * 32} | changes
    emv = await sandbox.control.call(commands.MAKE_QR_CODE, commands.NewQrCode(**fields))
    location = br_code.parse_br_code(emv).location
    assert location is not None
    return location


async def read_payload(location: str) -> dict[str, Any]:
    status, content_type, body = await fetch(location)
    assert (status, content_type) == (200, "application/jose")
    header = jws.extract_compact(body).headers()
    _, _, keys = await fetch(str(header["jku"]).removeprefix("http://"))
    import json  # noqa: PLC0415

    signed = jws.deserialize_compact(body, KeySet.import_key_set(json.loads(keys)), algorithms=["ES256"])
    return json.loads(signed.payload)


async def test_the_payload_is_the_official_one(sandbox: Sandbox) -> None:
    payload = await read_payload(await make_code(sandbox))
    assert set(payload) == {"calendario", "valor", "chave", "txid", "revisao", "status"}
    assert set(payload["calendario"]) == {"criacao", "apresentacao", "expiracao"}
    assert payload["valor"]["original"] == "106.07"
    assert (payload["txid"], payload["status"], payload["revisao"]) == ("t" * 32, "ATIVA", 0)
    assert payload["chave"] == "settle@sandbox.pix.example"


async def test_a_paid_code_says_so(sandbox: Sandbox) -> None:
    location = await make_code(sandbox)
    assert await sandbox.rail.submit([order(txid="t" * 32, amount_cents=10607)]) == [Taken()]
    await reports_of(sandbox.rail, 1)
    assert (await read_payload(location))["status"] == "CONCLUIDA"


@pytest.mark.long
async def test_the_payload_is_dated_by_the_sandbox_clock_and_the_certificate_is_not(sandbox: Sandbox) -> None:
    await sandbox.control.call(commands.SET_OFFSET, timedelta(days=500))
    location = await make_code(sandbox)
    before = (await read_payload(location))["calendario"]["criacao"]
    await sandbox.control.call(commands.SET_OFFSET, timedelta(days=501))
    assert (await read_payload(location))["calendario"]["apresentacao"] > before


async def test_what_is_not_there_is_404_and_a_rule_can_hide_what_is(sandbox: Sandbox) -> None:
    location = await make_code(sandbox)
    assert (await fetch(location + "x"))[0] == 404
    for effect, status in (("unavailable", 503), ("no_answer", 503), ("reject:BE17", 404), ("delay:50", 200)):
        rule = commands.FaultRule(match=commands.FaultMatch(operation="resolve", amount_cents=10607), effect=effect)
        await sandbox.control.call(commands.REPLACE_FAULTS, [rule])
        assert (await fetch(location))[0] == status, effect
