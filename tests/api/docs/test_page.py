"""What the documentation page shows of each operation is true: errors that exist, and samples that can be pasted."""

import gzip
import io
import json
import shlex
from contextlib import redirect_stdout
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import msgspec
import pytest

from pixconnect.api import descriptions
from pixconnect.api.docs.errors import RULES
from pixconnect.api.docs.examples import example_of_answer, example_of_body
from pixconnect.api.docs.samples import example_path, render_samples
from pixconnect.api.frame import envelope
from pixconnect.api.frame.document import Document
from pixconnect.api.frame.operation import AnyOperation, Descriptions, Nothing
from pixconnect.api.operations import list_operations
from pixconnect_client import Client
from support.api import Api

ROWS = list_operations(is_sandbox=True)
(LOGIN,) = (row for row in ROWS if row.id == "request_token")
OF_RULES = {code for code, status in envelope.STATUSES.items() if status == 422}


def test_the_rules_are_of_operations_that_exist_and_each_rule_is_of_one() -> None:
    assert RULES.keys() <= {row.id for row in ROWS}
    assert set().union(*RULES.values()) == OF_RULES


def test_samples_can_be_pasted(described: Descriptions) -> None:
    schemas = msgspec.json.decode(described.openapi().content)["components"]["schemas"]
    for row in ROWS:
        _check_samples(row, schemas)


def _check_samples(row: AnyOperation, schemas: dict[str, Any]) -> None:
    tabs, curl, python, typescript = _unescape(render_samples(row, "http://127.0.0.1:8080", schemas)).split("<pre")
    assert "TypeScript" in tabs, row.id
    words = shlex.split(_code(curl))
    assert words[0] == "curl", row.id
    assert any(word.startswith("http://127.0.0.1:8080/") for word in words), row.id
    assert "await fetch(" in typescript, row.id
    if row.body_form == "json" and row.answer is not Document:
        _assert_asks(_code(python), row, schemas)


def _assert_asks(python: str, row: AnyOperation, schemas: dict[str, Any]) -> None:
    """A sample, run with the client itself, sends the request that it is a sample of."""
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == LOGIN.path:
            return httpx2.Response(200, json=example_of_answer(LOGIN, schemas))
        asked.append(request)
        return httpx2.Response(200, json=example_of_answer(row, schemas))

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    with Client("http://127.0.0.1:8080", "shop", "secret", http=http) as client, redirect_stdout(io.StringIO()):
        exec(compile(python, row.id, "exec"), {"client": client})  # noqa: S102  our own words
    path, _, query = example_path(row).partition("?")
    (request,) = asked
    assert (request.method, request.url.path) == (row.method, path)
    # The client writes the same instants with an offset in numbers.
    assert {name: value.replace("+00:00", "Z") for name, value in request.url.params.items()} == dict(parse_qsl(query))
    body = {} if row.body is Nothing else example_of_body(row, schemas)
    assert json.loads(request.content.replace(b"+00:00", b"Z") or b"{}") == body, row.id


def _unescape(html: str) -> str:
    return html.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _code(html: str) -> str:
    return html.partition("<code>")[2].partition("</code>")[0]


def test_in_live_mode_nothing_is_tried_from_the_page() -> None:
    policy: Any = SimpleNamespace(is_sandbox=False, auth_url="https://pix.example")
    described = descriptions.describe(policy, base_url="https://pix.example", version="0.1.0")
    assert b"data-try" not in described.docs().content
    assert b"sandbox_pay" not in described.docs().content


@pytest.mark.parametrize(("path", "kind"), [("/docs/page.css", "text/css"), ("/docs/page.js", "text/javascript")])
async def test_the_page_brings_its_style_and_script(api: Api, path: str, kind: str) -> None:
    page = await api.get("/docs", token=None)
    assert f'"{path.removeprefix("/")}"' in page.content.decode()
    assert "unsafe" not in page.headers["content-security-policy"]
    answer = await api.get(path, token=None)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith(kind)


@pytest.mark.parametrize(
    ("takes", "is_packed"),
    [
        ("gzip, deflate, br, zstd", True),
        ("br;q=1.0, gzip;q=0.8, *;q=0.1", True),
        ("x-gzip", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, identity", False),
        ("br", False),
        ("gzipped", False),
        (None, False),
    ],
)
async def test_pages_are_packed_for_who_takes_that_and_say_so(api: Api, takes: str | None, *, is_packed: bool) -> None:
    for path in ("/docs", "/docs/guides/webhooks", "/openapi.json", "/docs/search.js"):
        plain = await api.get(path, token=None)
        answer = await api.get(path, token=None, headers={} if takes is None else {"accept-encoding": takes})
        assert (answer.headers.get("content-encoding") == "gzip") is is_packed
        assert (gzip.decompress(answer.content) if is_packed else answer.content) == plain.content, path
