"""Calls of the application as a server makes them, with stubs behind it."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pixconnect.features.locations.problem import TYPE_PREFIX
from pixconnect.kernel.rules.access import SCOPES, Caller
from pixconnect.platform.base import errors

SMALL_SITE = {
    "index.html": "<!doctype html><title>Pix Connect</title>",
    "guides/webhooks.html": "<!doctype html><title>Webhooks</title><script>let a = 1</script><script src=../a.js></script>",
    "guides/webhooks.md": "# Webhooks\n",
    "guides/a-picture.png": "\x89PNG",
    "assets/page.css": "body { margin: 0 }\n",
    "assets/javascripts/bundle.js": "let b = 2\n",
    "llms.txt": "# Pix Connect\n",
    "secret.pem": "no file of the site",
}


def build_small_site(folder: Path) -> Path:
    """Files as `make site` builds them, one or two of each kind."""
    for name, content in SMALL_SITE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    return folder


class Answer:
    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], content: bytes) -> None:
        self.status = status
        self.headers = {name.decode(): value.decode() for name, value in headers}
        self.content = content

    @property
    def body(self) -> Any:
        return json.loads(self.content)

    @property
    def code(self) -> str:
        return self.body["error"]["code"]

    @property
    def message(self) -> str:
        return self.body["error"]["message"]

    def __repr__(self) -> str:
        return f"<{self.status} {self.content[:300]!r}>"


def told(answer: Answer) -> tuple[int, str, list[tuple[str, str | None]]]:
    """Check an error of the central bank's API: its status, its type, and the violated properties with their values."""
    rows = answer.body.get("violacoes", [])
    assert all(row["razao"] for row in rows)
    named = [(row["propriedade"], row.get("valor")) for row in rows]
    return answer.status, answer.body["type"].removeprefix(TYPE_PREFIX), named


class StubVerifier:
    """Accepts two tokens: ``good`` has all scopes, ``poor`` has none."""

    def recall_party(self, authorization: bytes) -> int | None:
        return None

    def recall(self, authorization: bytes) -> Caller | None:
        scopes = {b"Bearer good": frozenset(SCOPES), b"Bearer poor": frozenset[str]()}.get(authorization)
        return None if scopes is None else Caller(client_id="client", holder_id=7, scopes=scopes)

    async def verify(self, authorization: bytes | None) -> Caller:
        raise errors.Unauthorized("Authorization: token expired" if authorization else "Authorization: missing")


class HolderVerifier(StubVerifier):
    def __init__(self, callers: Mapping[str, Caller]) -> None:
        self._callers = {b"Bearer " + token.encode(): caller for token, caller in callers.items()}

    def recall(self, authorization: bytes) -> Caller | None:
        return self._callers.get(authorization)


class Api:
    def __init__(self, app: Callable[..., Any], *, hangs_up: bool = False) -> None:
        self.app = app
        self._hangs_up = hangs_up
        self.delays_s: list[float] = []  # of the answers that the server sends later

    async def call(
        self,
        method: str,
        target: str | bytes,
        body: bytes | list[bytes] = b"",
        *,
        token: str | None = "good",  # noqa: S107  a stub's
        headers: Mapping[str, str] | list[tuple[str, str]] | None = None,
        content_type: str | None = "application/json",
        certificate: tuple[str, str] | None = None,
    ) -> Answer:
        """``certificate`` is the name and the thumbprint of the client certificate."""
        raw = target if isinstance(target, bytes) else target.encode("latin-1")
        path, _, query = raw.partition(b"?")
        chunks = body if isinstance(body, list) else [body]
        given = list(headers.items()) if isinstance(headers, Mapping) else list(headers or [])
        if token is not None:
            given.append(("authorization", f"Bearer {token}"))
        if any(chunks):
            if content_type is not None:
                given.append(("content-type", content_type))
            if not isinstance(body, list):
                given.append(("content-length", str(len(body))))
        scope = {
            "type": "http",
            "method": method,
            "raw_path": path,
            "query_string": query,
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given],
            "client_name": certificate and certificate[0],
            "client_certificate": certificate and certificate[1],
            "client": ("127.0.0.1", 5),
        }
        waiting, sent = list(chunks), []

        async def receive() -> dict[str, Any]:
            part = waiting.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(waiting)}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        if delay_s := sent[0].get("delay_s"):
            self.delays_s.append(delay_s)
            # Or its next request may be refused unread, if the machine is busy and took long for this one.
            await asyncio.sleep(0.0 if self._hangs_up else delay_s)
        content = b"".join(message["body"] for message in sent[1:])
        return Answer(sent[0]["status"], sent[0]["headers"], content)

    async def put(self, target: str, body: object, **options: Any) -> Answer:
        return await self.call("PUT", target, json.dumps(body).encode(), **options)

    async def patch(self, target: str, body: object, **options: Any) -> Answer:
        return await self.call("PATCH", target, json.dumps(body).encode(), **options)

    async def get(self, target: str | bytes, **options: Any) -> Answer:
        return await self.call("GET", target, **options)

    async def post(self, target: str, body: object, **options: Any) -> Answer:
        raw = body if isinstance(body, bytes | list) else json.dumps(body).encode()
        return await self.call("POST", target, raw, **options)


class UseCases:
    """A stub of a module of use cases: ``answers`` by function name; any other function finds nothing."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[..., Any]] = {}
        self.asked: list[tuple[str, tuple[object, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        if name[:1].isupper():
            return SimpleNamespace

        async def use_case(*arguments: object) -> object:
            self.asked.append((name, arguments))
            if name in self.answers:
                return self.answers[name](*arguments)
            raise errors.NotFound("there is none")

        return use_case
