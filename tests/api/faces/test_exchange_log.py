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
    asked = b'grant_type=a&client_secret=s3cret&x=1 {"client_secret": "s3cret", "authorization": "s3cret"}'
    answer = await Api(FaceDoor(log, "/faces/efi")).call("POST", "/oauth/token?a=b", asked)
    assert b"t0k3n" in answer.content
    ((face, exchange),) = noted
    assert (face, exchange["path"], exchange["status"]) == ("efi", "/oauth/token?a=b", 201)
    assert "s3cret" not in exchange["asked"]
    assert "t0k3n" not in exchange["answered"]
    await Api(log).call("PUT", "/faces/efi/x", b"y" * (KEPT_MAX + 1))
    assert len(noted[1][1]["asked"]) == KEPT_MAX
