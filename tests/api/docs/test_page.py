"""What the documentation page shows of each operation is true: errors that exist, and samples that can be pasted."""

import gzip
import io
import json
import posixpath
import re
import shlex
from contextlib import redirect_stdout
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import msgspec
import pytest
from openapi_spec_validator import validate

from pixconnect.api import descriptions
from pixconnect.api.docs import guides, search
from pixconnect.api.docs.errors import RULES
from pixconnect.api.docs.examples import example_of_answer, example_of_body
from pixconnect.api.docs.samples import example_path, render_samples
from pixconnect.api.frame import envelope
from pixconnect.api.frame.document import Document
from pixconnect.api.frame.operation import AnyOperation, Descriptions, Nothing
from pixconnect.api.operations import list_operations
from pixconnect.api.standard.frame import PREFIXES
from pixconnect.api.standard.operations import SPOKEN
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
        ("gzip, deflate, br, zstd", True), ("br;q=1.0, gzip;q=0.8, *;q=0.1", True), ("x-gzip", True),
        ("gzip;q=0", False), ("gzip; q=0.000, identity", False), ("br", False), ("gzipped", False), (None, False),
    ],
)  # fmt: skip
async def test_pages_are_packed_for_who_takes_that_and_say_so(api: Api, takes: str | None, *, is_packed: bool) -> None:
    for path in ("/docs", "/docs/guides/webhooks", "/openapi.json", "/docs/search.js"):
        plain = await api.get(path, token=None)
        answer = await api.get(path, token=None, headers={} if takes is None else {"accept-encoding": takes})
        assert (answer.headers.get("content-encoding") == "gzip") is is_packed
        assert (gzip.decompress(answer.content) if is_packed else answer.content) == plain.content, path


# What the documentation's search looks through leads to what is there, and knows readers' words.


@pytest.fixture(scope="module")
def searched(described: Descriptions) -> dict[str, Any]:
    return json.loads(described.search().content.decode().removeprefix("const SEARCHED = ").rstrip(";\n"))


def test_everything_that_is_found_is_there(described: Descriptions, searched: dict[str, Any]) -> None:
    ids = set(re.findall(r" id=([^ >]+)", described.docs().content.decode()))
    pages = {address: guides.render_page(page) for address, page in guides.find_pages().items()}
    for href, title, where, words, _ in searched["found"]:
        address, _, anchor = href.partition("#")
        assert title
        assert where
        assert words == words.lower()
        if address == "docs":
            assert anchor in ids, href
        else:
            assert not anchor or f'id="{anchor}"' in pages[posixpath.normpath(address)], href


def test_each_operation_and_page_is_found(searched: dict[str, Any]) -> None:
    found = {href for href, *_ in searched["found"]}
    assert {f"docs#{row.id}" for row in list_operations(is_sandbox=True)} <= found
    assert {href.partition("#")[0] for href in found} == {"docs", *guides.find_pages()}


def test_words_of_readers_lead_to_words_of_ours(searched: dict[str, Any]) -> None:
    every = " ".join(f"{search.fold(title)} {href} {words}" for href, title, _, words, _ in searched["found"])
    for word, meant in searched["also"].items():
        assert word == search.fold(word)
        for ours in meant.split():
            assert ours in every, (word, ours)


async def test_it_is_served_as_a_script(api: Api) -> None:
    answer = await api.get("/docs/search.js", token=None)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/javascript; charset=utf-8")


# The repository's pages as they are served: each can be read in both forms, and each link leads somewhere.


PAGES = guides.find_pages()
ONE_OF_EACH_KIND = {posixpath.dirname(address): address for address in PAGES}.values()


@pytest.mark.parametrize("address", ONE_OF_EACH_KIND)
async def test_a_page_is_served_in_both_forms(api: Api, address: str) -> None:
    page = await api.get(f"/{address}", token=None)
    text = await api.get(f"/{address}.md", token=None)
    assert (page.status, text.status) == (200, 200)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert text.headers["content-type"] == "text/markdown; charset=utf-8"
    assert "unsafe" not in page.headers["content-security-policy"]
    assert text.content.decode().startswith(f"# {PAGES[address].title}\n")
    assert f"<title>{PAGES[address].title.replace('&', '&amp;')}" in page.content.decode().replace("&#x27;", "'")


def test_each_page_begins_with_its_title_and_shows_it() -> None:
    for address, page in PAGES.items():
        assert page.text.startswith(f"# {page.title}\n"), address
        html = guides.render_page(page).replace("&#x27;", "'")
        assert f"<title>{page.title.replace('&', '&amp;')}" in html, address


async def test_each_picture_of_a_page_is_served(api: Api) -> None:
    shown = {
        posixpath.normpath(posixpath.join(posixpath.dirname(address), picture))
        for address, page in PAGES.items()
        for picture in re.findall(r'<img src="([^"]*)"', guides.render_page(page))
    }
    assert shown <= {f"{guides.PICTURES}/{name}" for name in guides.find_pictures()}
    assert len(shown) > 12
    assert not [address for address, page in PAGES.items() if "<img alt" in guides.render_page(page)]
    for address in shown:
        picture = await api.get(f"/{address}", token=None)
        assert (picture.status, picture.headers["content-type"][:6]) == (200, "image/")
    assert (await api.get(f"/{guides.PICTURES}/console-nothing.png", token=None)).status == 404


async def test_programs_that_read_are_told_what_there_is(api: Api) -> None:
    answer = await api.get("/llms.txt", token=None)
    text = answer.content.decode()
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    assert text.startswith("# Pix Connect\n\n> ")
    listed = re.findall(r"^- \[[^\]]+\]\(http://127\.0\.0\.1:8080/([^)]+)\): \S", text, flags=re.MULTILINE)
    assert listed == ["openapi.json", "openapi-3.0.json", *(f"{address}.md" for address in PAGES)]
    headings = re.findall(r"^## .+", text, flags=re.MULTILINE)
    assert len(headings) == len(set(headings))
    # Each says what its page is about, and not how it is made or where the same is in another language.
    for summary in (page.summary for page in PAGES.values()):
        assert summary[0].isupper() or summary[0] == "`", summary
        assert not summary.startswith(("Written by", "Em português")), summary


async def test_the_documentations_address_may_end_in_a_slash_and_no_other(api: Api) -> None:
    answer = await api.get("/docs/", token=None)
    assert answer.status == 200
    assert b'content="0; url=../docs"' in answer.content
    for path in ("/v1/connect/charge/", "/v1/connect/ledger/balance/", "/docs/guides/", "/openapi.json/"):
        assert (await api.get(path, token=None)).status == 404, path


@pytest.mark.parametrize("name", ["nothing", "..%2F..%2Fpyproject", "..%2FREADME", "guides"])
async def test_a_name_is_looked_up_and_is_no_path(api: Api, name: str) -> None:
    assert (await api.get(f"/docs/guides/{name}", token=None)).status == 404


# The document of the standard's door: valid, complete, and the contract's own document without a word of it.


@pytest.fixture(scope="module")
def document(described: Descriptions) -> Any:
    return json.loads(described.standard().content)


def test_it_is_valid_and_says_everything(document: Any) -> None:
    assert document["openapi"] == "3.0.3"
    validate(document)
    described = {(path, method.upper()) for path, item in document["paths"].items() for method in item}
    assert described == {(row.path, row.method) for row in SPOKEN}
    for item in document["paths"].values():
        for operation in item.values():
            assert operation["summary"]
            assert all(parameter["description"] for parameter in operation["parameters"])
            # What the standard's own document leaves out.
            assert {"400", "401", "403", "404", "503"} <= operation["responses"].keys()
    for name, schema in document["components"]["schemas"].items():
        assert schema["description"], name
        for field, part in schema["properties"].items():
            # An echo of the query, where each is described.
            assert part.get("description") or name.startswith("Parametros"), f"{name}.{field}"


async def test_it_is_served_outside_the_prefixes_without_a_token(api: Api, document: Any) -> None:
    answer = await api.get("/pix/openapi.json", token=None)
    assert (answer.status, answer.body) == (200, document)


def test_the_contracts_document_has_nothing_of_this_door(described: Descriptions) -> None:
    paths = json.loads(described.openapi().content)["paths"]
    assert not [path for path in paths if path.startswith((*PREFIXES, "/pix"))]
