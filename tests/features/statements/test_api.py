"""The statement from the application, in every format, over a history made by the service."""

import csv
import io
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, cast

import pytest
from lxml import etree
from ofxtools.Parser import OFXTree

from pixconnect.assembly.application import make_application
from pixconnect.doors.api.operation import Services
from pixconnect.features.statements import service as statement_usecases
from pixconnect.features.statements import tables as statement_store
from pixconnect.features.statements.api import FORMATS
from pixconnect.kernel.rules.access import Caller
from pixconnect.platform.base import errors
from pixconnect.platform.flow.turns import Turns
from pixconnect.platform.logging import AccessLog
from support.postgres import Addresses
from support.service import Service, open_holder, open_service
from support.statement import make_history

PATH = b"/v1/connect/ledger/statement"
EVER = b"initial_date=2000-01-01T00:00:00Z&final_date=2100-01-01T00:00:00-03:00"
ENTRIES = "{urn:iso:std:iso:20022:tech:xsd:camt.053.001.08}NtryRef"
MEDIA_TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "ofx": "application/x-ofx",
    "camt053": "application/xml",
}


class OneCaller:
    """Every token belongs to the same caller."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    def recall_party(self, authorization: bytes) -> int | None:
        return None

    def recall(self, authorization: bytes) -> Caller | None:
        return self.caller

    async def verify(self, authorization: bytes | None) -> Caller:
        raise errors.Unauthorized("Authorization: missing")


class Answers:
    """The application over one holder's history."""

    def __init__(self, service: Service, caller: Caller) -> None:
        empty = dict.fromkeys(Services.__struct_fields__) | {"trusted_proxies": ()}
        present = {"context": service.context, "verifier": OneCaller(caller), "turns": Turns()}
        self.service = service
        self.app = make_application(Services(**cast(Any, empty | present)), AccessLog(service.clock, wanted="off"))

    async def get(
        self, query: bytes, *, method: str = "GET", sent: list[dict[str, Any]] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        messages = [] if sent is None else sent
        scope = {
            "type": "http",
            "method": method,
            "raw_path": PATH,
            "query_string": query,
            "headers": [(b"authorization", b"Bearer any"), (b"x-request-id", b"asked-1")],
            "client": ("127.0.0.1", 5),
        }

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            messages.append(message)

        await self.app(cast(Any, scope), cast(Any, receive), cast(Any, send))
        headers = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
        return messages[0]["status"], headers, b"".join(message["body"] for message in messages[1:])


@pytest.fixture
async def answers(database: Addresses) -> AsyncIterator[Answers]:
    async with open_service(database) as service:
        caller = await open_holder(service, funds_cents=1_000_000)
        await make_history(service, caller)
        yield Answers(service, caller)


def ids_of(form: str, content: bytes) -> list[str]:
    match form:
        case "json":
            return [str(line["id"]) for line in json.loads(content)["data"]["lines"]]
        case "csv":
            return [row["id"] for row in csv.DictReader(io.StringIO(content.decode(), newline=""), strict=True)]
        case "ofx":
            tree = OFXTree()
            tree.parse(io.BytesIO(content))
            return [line.fitid for line in cast(Any, tree.convert()).statements[0].transactions]
        case _:
            return [element.text or "" for element in etree.fromstring(content).iter(ENTRIES)]


async def test_json_is_the_usual_envelope(answers: Answers) -> None:
    status, headers, content = await answers.get(EVER)
    body = json.loads(content)
    assert (status, list(body)) == (200, ["success", "data", "meta"])
    assert body["meta"]["request_id"] == headers["x-request-id"] == "asked-1"
    found = body["data"]
    assert list(found) == ["opening_balance", "closing_balance", "lines"]
    assert (found["opening_balance"], found["closing_balance"]) == (0, 1_002_355)
    assert list(found["lines"][1]) == [
        "id", "create_timestamp", "end_to_end_id", "impact_type", "amount", "running_balance", "counterparty",
        "description",
    ]  # fmt: skip
    assert found["lines"][1]["counterparty"] == {"name": "Joana Prado", "tax_id": "12345678909", "ispb": "99999004"}
    assert found["lines"][3]["description"] == '"Tall";\r\n=1+1 & <b>'
    assert found["lines"][3]["external_id"]
    assert list(found["lines"][5]) == [
        "id", "create_timestamp", "impact_type", "amount", "running_balance", "description",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("language", "words"),
    [
        (
            b"",
            ["Deposit", "Pix received from Joana Prado", "Pix sent to Joana Prado", '"Tall";\r\n=1+1 & <b>',
             "Refund received from Joana Prado", "Deposit"],
        ),
        (
            b"&language=pt",
            ["Depósito", "Pix recebido de Joana Prado", "Pix enviado para Joana Prado", '"Tall";\r\n=1+1 & <b>',
             "Devolução recebida de Joana Prado", "Depósito"],
        ),
    ],
)  # fmt: skip
async def test_each_line_says_what_it_is_and_keeps_words(answers: Answers, language: bytes, words: list[str]) -> None:
    _, _, content = await answers.get(EVER + language)
    assert [line["description"] for line in json.loads(content)["data"]["lines"]] == words
    _, _, content = await answers.get(EVER + b"&format=csv" + language)
    rows = list(csv.DictReader(io.StringIO(content.decode(), newline=""), strict=True))
    assert [row["description"] for row in rows] == words


def read_in_parts_of(lines_a_part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read = partial(statement_usecases.read_parts, lines_a_part=lines_a_part)
    monkeypatch.setattr(statement_usecases, "read_parts", read)


@pytest.mark.parametrize("lines_a_part", [1, 4, 100])
async def test_each_format_has_equal_ids(answers: Answers, monkeypatch: pytest.MonkeyPatch, lines_a_part: int) -> None:
    read_in_parts_of(lines_a_part, monkeypatch)
    found: dict[str, list[str]] = {}
    for form in FORMATS:
        status, headers, content = await answers.get(EVER + b"&format=" + form.encode())
        assert (status, headers["content-type"]) == (200, MEDIA_TYPES[form])
        assert "content-length" not in headers
        found[form] = ids_of(form, content)
    assert (len(found["json"]), len(set(map(tuple, found.values())))) == (6, 1)


@pytest.mark.parametrize("form", MEDIA_TYPES)
async def test_a_statement_without_lines_is_whole(answers: Answers, form: str) -> None:
    span = b"initial_date=2000-01-01T00:00:00Z&final_date=2001-01-01T00:00:00Z&format="
    _, _, content = await answers.get(span + form.encode())
    assert ids_of(form, content) == []


async def test_a_statement_is_sent_in_parts(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    read_in_parts_of(2, monkeypatch)
    sent: list[dict[str, Any]] = []
    await answers.get(EVER, sent=sent)
    assert [message.get("more_body", False) for message in sent[1:]] == [True] * 5 + [False]


async def test_a_half_failed_answer_never_looks_whole(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    read_in_parts_of(2, monkeypatch)
    read_lines, calls_count = statement_store.read_lines, 0

    async def fail_on_the_second(*arguments: Any) -> Any:
        nonlocal calls_count
        calls_count += 1
        if calls_count == 2:
            raise ConnectionResetError
        return await read_lines(*arguments)

    monkeypatch.setattr(statement_store, "read_lines", fail_on_the_second)
    sent: list[dict[str, Any]] = []
    with pytest.raises(ConnectionResetError):
        await answers.get(EVER, sent=sent)
    assert all(message["more_body"] for message in sent[1:])


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (b"", "initial_date: is required"),
        (b"initial_date=2026-01-01T00:00:00Z", "final_date: is required"),
        (b"initial_date=2026-01-01&final_date=2026-01-02T00:00:00Z", "initial_date: must be an RFC 3339 date-time"),
        (EVER + b"&format=pdf", "format: must be one of"),
        (EVER + b"&language=fr", "language: must be one of en, pt"),
        (EVER + b"&page=1", "page: unknown query parameter"),
    ],
)
async def test_a_query_of_another_shape_is_refused(answers: Answers, query: bytes, message: str) -> None:
    status, _, content = await answers.get(query)
    error = json.loads(content)["error"]
    assert (status, error["code"]) == (400, "BAD_REQUEST")
    assert error["message"].startswith(message)


@pytest.mark.parametrize("form", MEDIA_TYPES)
async def test_head_answers_as_get_without_lines(answers: Answers, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    query = EVER + b"&format=" + form.encode()
    as_get = (await answers.get(query))[:2]

    async def read_lines(*_: object) -> None:
        raise AssertionError("nobody will see them")

    monkeypatch.setattr(statement_store, "read_lines", read_lines)
    status, headers, content = await answers.get(query, method="HEAD")
    assert ((status, headers), content) == (as_get, b"")


@pytest.mark.parametrize(("form", "filename"), [("csv", "csv"), ("ofx", "ofx"), ("camt053", "xml"), ("json", "")])
async def test_what_is_for_other_programs_is_saved_and_never_shown(answers: Answers, form: str, filename: str) -> None:
    # Days are Brazil's: a month must not end on the first of the next.
    month = b"initial_date=2026-07-01T00:00:00-03:00&final_date=2026-07-31T23:59:59-03:00&format="
    _, headers, _ = await answers.get(month + form.encode())
    expected = f'attachment; filename="statement_1_2026-07-01_2026-07-31.{filename}"' if filename else None
    assert headers.get("content-disposition") == expected


async def test_a_file_of_all_time_has_a_name_too(answers: Answers) -> None:
    ever = b"initial_date=0001-01-01T00:00:00Z&final_date=9999-12-31T23:59:59Z&format=ofx"
    status, headers, _ = await answers.get(ever)
    assert (status, headers["content-disposition"]) == (200, 'attachment; filename="statement_1_0001-01-01_9999-12-31.ofx"')
