"""The log of exchanges at simulated banks has everything except secrets, and nothing of other APIs."""

import json
from typing import Any

import pytest

from pixconnect_faces.api import READ_MAX, SHOWN_MAX, FaceDoor, FaceLog, mask_body, mask_query
from support.api import Api
from support.service import FakeClock


class Echo:
    """Answers with a token and the request."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = (await receive()).get("body", b"")
        await send({"type": "http.response.start", "status": 201, "headers": []})
        said = {
            "access_token": "t0k3n",
            "path": scope["raw_path"].decode(),
            "asked": body.decode() if body[:1] != b"{" else json.loads(body),
        }
        await send({"type": "http.response.body", "body": json.dumps(said).encode()})

    def answer_at_once(self, scope: Any) -> None:
        return None


async def test_exchanges_at_faces_are_noted_without_secrets() -> None:
    noted: list[tuple[str, dict[str, Any]]] = []
    log = FaceLog(Echo(), FakeClock(), lambda face, line: noted.append((face, json.loads(line))))
    await Api(log).call("POST", "/v2/cob", b"x")
    assert noted == []
    # Of a login only its occurrence is kept.
    answer = await Api(FaceDoor(log, "/faces/efi")).call("POST", "/oauth/token?access_token=s3cret", b"client%5Fsecret=s3cret")
    assert b"t0k3n" in answer.content
    asked = b'{"authorization": "s3cret", "webhookUrl": "https://shop.example/pix?hmac=s3cret&ignorar=", "valor": "1.00"}'
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
    await Api(log).call("PUT", "/faces/efi/x", json.dumps(["y" * SHOWN_MAX]).encode())
    assert len(noted[0][1]["asked"]) == SHOWN_MAX
    await Api(log).call("PUT", "/faces/efi/x?t=1", json.dumps(["y" * READ_MAX]).encode())
    assert (noted[1][1]["path"], noted[1][1]["asked"]) == ("/x?t=1", f"({READ_MAX} octets and more)")


@pytest.mark.parametrize(
    "body",
    [
        r'{"webhook": {"authorization": "abc\"SECRET", "url": "http://127.0.0.1:9/a\"?SECRET"}}',
        r'{"authoriz\u0061tion": "SECRET", "Authorization": ["SECRET"], "client_secret": {"a": "SECRET"}}',
        r'{"webhookUrl": "http://h/x\u003ft=SECRET"}',
        '{"violacoes": [{"valor": "ftp://h/x?t=SECRET"}, {"valor": "http://user:SECRET@h/x"}, {"valor": "h/?SECRET"}]}',
        '{"valor": " h /x?t=SECRET", "razao": "a URL http://h/x?SECRET não responde", "url": "a b?SECRET"}',
        '{"url": "http://h/x#SECRET", "hmacSecret": 7, "url2": "//user:SECRET@h"}',
        '{"url": "x?SECRET", "url": "y"}',
        "{'authorization': 'SECRET'}",
        "authorization=SECRET",
        '{"authorization": "SECRET',
        '["' + "x" * SHOWN_MAX + '", {"authorization": "SECRET"}]',
        "[" * 100_000 + '"http://h/?SECRET"',
    ],
)
def test_no_form_of_a_body_shows_its_secrets(body: str) -> None:
    assert "SECRET" not in mask_body(body.encode())


def test_what_is_no_secret_is_shown_as_it_was_written() -> None:
    for body in ('{ "valor": 1.10, "chave": "joana@pix.example", "pergunta": "Tudo bem? Sim: a@b" }', '"\\ud800"', ""):
        assert mask_body(body.encode()) == body
    assert json.loads(mask_body(b'{"url": "https://u:p@h/a?b", "x": "\\ud800"}')) == {
        "url": "https://***@h/a?***",
        "x": "?",
    }
    assert mask_body(b"\xff\x00") == "(2 octets that are no JSON)"


def test_queries_show_no_secrets_either() -> None:
    for query in (
        b"url=http%3A%2F%2Fh%2Fa%3Ft%3DSECRET",
        b"url=http://h/a?t=SECRET&more=SECRET",
        b"a=b&url=http%253A%252F%252Fh%252Fa%253Ft%253DSECRET",
        b"url=http%3A%2F%2Fuser%3ASECRET%40h",
        b"acc%65ss_token=SECRET",
    ):
        assert "SECRET" not in mask_query(query), query
    kept = b"inicio=2020-01-01T00:00:00-03:00&fim=2020-01-02T00%3A00%3A00Z&chave=a%40b.example&x"
    assert mask_query(kept) == kept.decode()
    assert mask_query(b"url=http%3A%2F%2Fh%2Fa%3Ft%3DSECRET") == "url=http://h/a?***"
