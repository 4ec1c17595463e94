"""What is written down of exchanges at faces: all of them but secrets, and nothing of other doors."""

from __future__ import annotations

import json
from typing import Any

from pixconnect.api.faces.door import FaceDoor
from pixconnect.api.faces.exchange_log import KEPT_MAX, FaceLog
from support.api import Api
from support.service import FakeClock


class Echo:
    """Answers with a token and what it was asked."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = (await receive()).get("body", b"")
        await send({"type": "http.response.start", "status": 201, "headers": []})
        await send({"type": "http.response.body", "body": b'{"access_token": "t0k3n"}' + scope["raw_path"] + body})

    def answer_at_once(self, scope: Any) -> None:
        return None


async def test_exchanges_at_faces_are_noted_without_secrets() -> None:
    noted: list[tuple[str, dict[str, Any]]] = []
    log = FaceLog(Echo(), FakeClock(), lambda face, line: noted.append((face, json.loads(line))))
    await Api(log).call("POST", "/v2/cob", b"x")
    assert noted == []
    # Of a login nothing is kept but that there was one.
    answer = await Api(FaceDoor(log, "/faces/efi")).call(
        "POST", "/oauth/token?access_token=s3cret", b"client%5Fsecret=s3cret"
    )
    assert b"t0k3n" in answer.content
    asked = (
        b'{"authorization": "s3cret", "webhookUrl": "https://shop.example/pix?hmac=s3cret&ignorar=", "valor": "1.00"}'
    )
    await Api(FaceDoor(log, "/faces/efi")).call("PUT", "/v2/webhook/a?b=c", asked)
    assert [(face, each["path"], each["status"]) for face, each in noted] == [
        ("efi", "/oauth/token", 201),
        ("efi", "/v2/webhook/a?b=c", 201),
    ]
    assert "s3cret" not in str(noted)
    assert "t0k3n" not in str(noted)
    assert "https://shop.example/pix?***" in noted[1][1]["asked"]
    assert '"valor": "1.00"' in noted[1][1]["asked"]
    noted.clear()
    await Api(log).call("GET", "/faces/efi%2Bhomologation/v2/cob")
    assert [(face, each["path"]) for face, each in noted] == [("efi+homologation", "/v2/cob")]
    noted.clear()
    await Api(log).call("PUT", "/faces/efi/x", b"y" * (KEPT_MAX + 1))
    assert len(noted[0][1]["asked"]) == KEPT_MAX
