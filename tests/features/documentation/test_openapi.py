"""The published OpenAPI document is valid, complete and true."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from openapi_spec_validator import OpenAPIV30SpecValidator, OpenAPIV31SpecValidator

from pixconnect.assembly.operations import list_operations, list_sections
from pixconnect.doors.api.decoding import BodyDecoder
from pixconnect.doors.api.document import Document
from pixconnect.doors.api.operation import Nothing
from pixconnect.features.documentation.api import Descriptions
from pixconnect.features.documentation.openapi import describe_interface
from pixconnect.kernel.rules.access import OWN_SCOPES
from pixconnect.kernel.rules.br_code import parse_br_code
from pixconnect.kernel.rules.event import EVENT_NAMES
from scripts.pages import events as events_page
from support import postgres
from support.api import Api

ROWS = list_operations(is_sandbox=True)


@pytest.fixture(scope="module")
def document(described: Descriptions) -> dict[str, Any]:
    return json.loads(described.openapi().content)


@pytest.fixture(scope="module")
def document_30(described: Descriptions) -> dict[str, Any]:
    return json.loads(described.openapi_30().content)


def parts(document: Any) -> Iterator[dict[str, Any]]:
    """Every object in it, except examples."""
    if isinstance(document, dict):
        yield document
    inner = document.items() if isinstance(document, dict) else enumerate(document if isinstance(document, list) else [])
    for name, part in inner:
        if name not in {"example", "examples"}:
            yield from parts(part)


def operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for item in document["paths"].values():
        yield from item.values()


def validator(document: dict[str, Any], schema: dict[str, Any]) -> Draft202012Validator:
    whole = {"allOf": [schema], "components": document["components"]}
    return Draft202012Validator(whole, format_checker=FormatChecker())


def body_schema(document: dict[str, Any], operation_id: str) -> dict[str, Any]:
    (operation,) = [found for found in operations(document) if found["operationId"] == operation_id]
    return operation["requestBody"]["content"]["application/json"]["schema"]


def test_it_is_valid_openapi_3_1(document: dict[str, Any]) -> None:
    assert [str(error.message) for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_the_other_form_is_valid_openapi_3_0(document_30: dict[str, Any]) -> None:
    assert [str(error.message) for error in OpenAPIV30SpecValidator(document_30).iter_errors()] == []


@pytest.mark.parametrize(("path", "name"), [("/openapi.json", "document"), ("/openapi-3.0.json", "document_30")])
async def test_it_is_served_as_public_json(api: Api, request: pytest.FixtureRequest, path: str, name: str) -> None:
    answer = await api.get(path, token=None)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.body == request.getfixturevalue(name)


def test_the_other_form_has_the_same_operations(document: dict[str, Any], document_30: dict[str, Any]) -> None:
    ids = [[found["operationId"] for found in operations(one)] for one in (document, document_30)]
    assert ids[0] == ids[1]
    assert document_30["components"]["schemas"].keys() == document["components"]["schemas"].keys()


def test_every_row_is_described(document: dict[str, Any]) -> None:
    described = {
        (item["operationId"], method.upper(), path)
        for path, by_method in document["paths"].items()
        for method, item in by_method.items()
    }
    assert described == {(row.id, row.method, row.path) for row in ROWS}


def test_every_example_is_valid_by_its_own_schema(document: dict[str, Any]) -> None:
    contents = [
        content
        for operation in operations(document)
        for part in (operation.get("requestBody"), operation["responses"]["200"])
        if part
        for content in part["content"].values()
        if "example" in content
    ]
    contents += [part["content"]["application/json"] for part in document["components"]["responses"].values()]
    contents += [item["post"]["requestBody"]["content"]["application/json"] for item in document["webhooks"].values()]
    assert len(contents) > 50
    for content in contents:
        errors = [error.message for error in validator(document, content["schema"]).iter_errors(content["example"])]
        assert errors == [], content["example"]


def test_the_example_of_every_body_is_taken(document: dict[str, Any]) -> None:
    for row in ROWS:
        if row.body is not Nothing:
            content = document["paths"][row.path][row.method.lower()]["requestBody"]["content"]
            for media_type, described in content.items():
                body = json.dumps(described["example"]).encode()
                if "json" not in media_type:
                    body = urlencode(described["example"]).encode()
                BodyDecoder(row.body, row.body_form).decode(body, {b"content-type": media_type.encode()})


def test_the_codes_in_examples_are_whole(document: dict[str, Any]) -> None:
    text = json.dumps(list(document["paths"].values()))
    codes = set(re.findall(r'"(?:emv|emvqrcps)": "([^"]+)"', text))
    assert {parse_br_code(code).kind for code in codes} == {"static", "dynamic"}


def test_every_field_of_every_record_says_what_it_means(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        for field, described in schema.get("properties", {}).items():
            if field not in {"meta", "error", "pagination"}:
                assert described.get("description"), f"{name}.{field}"


def test_no_schema_allows_null(document: dict[str, Any]) -> None:
    assert '"null"' not in json.dumps(document["components"]["schemas"])


def test_an_operation_with_a_bound_of_its_own_shows_it_where_a_body_is_too_large(document: dict[str, Any]) -> None:
    for operation in operations(document):
        row = next(row for row in ROWS if row.id == operation["operationId"])
        if "413" in operation["responses"]:
            found = operation["responses"]["413"]
            found = document["components"]["responses"]["PayloadTooLarge"] if "$ref" in found else found
            content = found["content"]["application/json"]
            if row.refusals.record is None:
                assert content["example"]["error"]["message"] == f"body: must have at most {row.body_max} bytes", row.id


def test_only_health_declares_success_alone(document: dict[str, Any]) -> None:
    for operation in operations(document):
        row = next(row for row in ROWS if row.id == operation["operationId"])
        statuses = set(operation["responses"])
        if row.id == "health_check":
            assert statuses == {"200"}
        elif row.is_bare:
            assert statuses in ({"200"}, {"200", "429", "503"}, {"200", "400", "401", "413", "429", "500", "503"}), row.id
        elif row.answer is not Document:
            assert {"200", "400", "422", "503"} <= statuses, row.id
            assert ({"401", "403"} <= statuses) or row.scope in {None, "any"}


@pytest.mark.parametrize(
    ("operation_id", "body"),
    [
        ("change_webhook_endpoint", {}),
        ("sandbox_pay", {"amount": 1}),
        ("sandbox_pay", {"key": "x"}),
        ("sandbox_pay", {"key": "x", "amount": 1, "emv": "y"}),
        ("sandbox_make_qr_code", {"kind": "dynamic"}),
        ("sandbox_move_clock", {}),
        ("sandbox_move_clock", {"advance_s": 1, "reset": True}),
        ("create_charge", {"amount": 1.5, "key": "x"}),
        ("create_charge", {"amount": 1}),
        ("create_charge", {"amount": 1, "key": ""}),
        ("create_charge", {"amount": 1, "key": "x", "unknown": 1}),
        ("initiate_pix_with_key", {"amount": 1, "key": "x", "key_type": "IBAN"}),
        ("initiate_pix_with_qrcode", {"amount": "1", "emv": "x"}),
        ("create_webhook_endpoint", {"url": "https://x.example", "secret": "short", "event_types": ["qrcode.paid"]}),
    ],
)
def test_the_schema_refuses_a_wrong_shape(document: dict[str, Any], operation_id: str, body: dict[str, Any]) -> None:
    assert list(validator(document, body_schema(document, operation_id)).iter_errors(body))


@pytest.mark.parametrize(
    ("operation_id", "body"),
    [
        ("change_webhook_endpoint", {"status": "active"}),
        ("sandbox_pay", {"emv": "x"}),
        ("sandbox_pay", {"emv": "x", "amount": 1, "payer": {}}),
        ("sandbox_pay", {"key": "x", "amount": 1}),
        ("sandbox_make_qr_code", {"kind": "dynamic", "amount": 1}),
        ("sandbox_make_qr_code", {"kind": "static"}),
        ("sandbox_move_clock", {"reset": True}),
    ],
)
def test_the_schema_takes_what_is_taken(document: dict[str, Any], operation_id: str, body: dict[str, Any]) -> None:
    assert list(validator(document, body_schema(document, operation_id)).iter_errors(body)) == []


def test_every_integer_says_that_it_has_64_bits(document: dict[str, Any], document_30: dict[str, Any]) -> None:
    integers = [part for one in (document, document_30) for part in parts(one) if part.get("type") == "integer"]
    assert len(integers) > 100
    assert {part.get("format") for part in integers} == {"int64"}


def test_nothing_is_said_that_breaks_generators(document: dict[str, Any]) -> None:
    for part in parts(document):
        # openapi-generator writes boolean constants as texts, and object defaults as none.
        assert not (part.get("type") == "boolean" and part.keys() & {"const", "enum"}), part
        assert not (part.keys() & {"type", "$ref"} and isinstance(part.get("default"), dict)), part


def test_every_answer_in_the_envelope_has_a_name(document: dict[str, Any]) -> None:
    for operation in operations(document):
        for response in operation["responses"].values():
            for content in response.get("content", {}).values():
                assert set(content["schema"]) == {"$ref"}, operation["operationId"]


def test_no_schema_is_called_like_what_generators_make_of_an_operation(document: dict[str, Any]) -> None:
    made = {operation["operationId"].replace("_", "") + "response" for operation in operations(document)}
    assert not made & {name.lower() for name in document["components"]["schemas"]}


def test_no_value_stands_in_two_named_enumerations(document: dict[str, Any]) -> None:
    enumerations = [schema["enum"] for schema in document["components"]["schemas"].values() if "enum" in schema]
    values = [value.lower() for values in enumerations for value in values]
    assert len(values) == len(set(values))


@pytest.mark.parametrize("is_sandbox", [True, False])
def test_everything_that_has_a_name_is_referred_to(is_sandbox: bool) -> None:
    sections = list_sections(is_sandbox=is_sandbox)
    document = describe_interface(sections, base_url="http://a", auth_url="http://b", version="1")
    used = {part["$ref"] for part in parts(document) if "$ref" in part}
    named = {f"#/components/{kind}/{name}" for kind in ("schemas", "parameters") for name in document["components"][kind]}
    assert named == {reference for reference in used if "/responses/" not in reference}


def test_operations_need_their_scope_by_oauth2(document: dict[str, Any]) -> None:
    flow = document["components"]["securitySchemes"]["OAuth2"]["flows"]["clientCredentials"]
    assert flow["tokenUrl"].endswith("/oauth/token")
    assert tuple(flow["scopes"]) == OWN_SCOPES
    for row in ROWS:
        scopes = [] if row.scope == "any" else [row.scope]
        expected = [] if row.scope is None else [{"BearerAuth": [], "OAuth2": scopes}]
        assert document["paths"][row.path][row.method.lower()]["security"] == expected


async def test_events_are_as_they_are_described(document: dict[str, Any], database: postgres.Addresses) -> None:
    page = events_page.write_page(await events_page.make_examples(database))
    events = [json.loads(block) for block in re.findall(r"```json\n(.+?)```", page, re.DOTALL)]
    assert {event["name"] for event in events} == EVENT_NAMES == document["webhooks"].keys()
    for event in events:
        content = document["webhooks"][event["name"]]["post"]["requestBody"]["content"]["application/json"]
        for schema in (content["schema"], {"$ref": "#/components/schemas/WebhookEvent"}):
            assert [error.message for error in validator(document, schema).iter_errors(event)] == []
        family = document["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
        payload = document["components"]["schemas"][family["properties"]["payload"]["$ref"].rpartition("/")[2]]
        assert event["payload"].keys() <= payload["properties"].keys()
