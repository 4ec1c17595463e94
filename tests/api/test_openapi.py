"""The published description is valid, complete and true."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from pixconnect.api.operation import Document
from pixconnect.api.operations import list_operations
from pixconnect.api.services import Descriptions
from support.api import Api

ROWS = list_operations(is_sandbox=True)


@pytest.fixture(scope="module")
def document(described: Descriptions) -> dict[str, Any]:
    return json.loads(described.openapi)


def operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for item in document["paths"].values():
        yield from item.values()


def validator(document: dict[str, Any], schema: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator({"allOf": [schema], "components": document["components"]})


def test_it_is_valid_openapi_3_1(document: dict[str, Any]) -> None:
    assert [str(error.message) for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


async def test_it_is_served_as_public_json(api: Api, document: dict[str, Any]) -> None:
    answer = await api.get("/openapi.json", token=None)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.body == document


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
    assert len(contents) > 50
    for content in contents:
        errors = [error.message for error in validator(document, content["schema"]).iter_errors(content["example"])]
        assert errors == [], content["example"]


def test_every_field_of_every_record_says_what_it_means(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        for field, described in schema["properties"].items():
            if name != "Failure":
                assert described.get("description"), f"{name}.{field}"


def test_no_schema_allows_null(document: dict[str, Any]) -> None:
    assert '"null"' not in json.dumps(document["components"]["schemas"])


def test_only_health_declares_success_alone(document: dict[str, Any]) -> None:
    for operation in operations(document):
        row = next(row for row in ROWS if row.id == operation["operationId"])
        statuses = set(operation["responses"])
        if row.id == "health_check":
            assert statuses == {"200"}
        elif row.is_bare:
            assert statuses in ({"200"}, {"200", "400", "401", "413", "429", "500", "503"}), row.id
        elif row.answer is not Document:
            assert {"200", "400", "422", "503"} <= statuses, row.id
            assert ({"401", "403"} <= statuses) or row.scope in {None, "any"}


@pytest.mark.parametrize(
    ("operation_id", "body"),
    [
        ("create_charge", {"amount": 1.5, "key": "x"}),
        ("create_charge", {"amount": 1}),
        ("create_charge", {"amount": 1, "key": ""}),
        ("create_charge", {"amount": 1, "key": "x", "unknown": 1}),
        ("initiate_pix_with_key", {"amount": 1, "key": "x", "key_type": "IBAN"}),
        ("initiate_pix_with_qrcode", {"amount": "1", "emv": "x"}),
        ("create_webhook_endpoint", {"url": "https://x.example", "secret": "short", "event_types": ["qrcode.paid"]}),
    ],
)
def test_what_is_refused_for_its_shape_is_refused_by_the_schema(
    document: dict[str, Any], operation_id: str, body: dict[str, Any]
) -> None:
    (operation,) = [found for found in operations(document) if found["operationId"] == operation_id]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    assert list(validator(document, schema).iter_errors(body))


async def test_the_page_for_people_needs_nothing_else(api: Api) -> None:
    answer = await api.get("/docs", token=None)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    page = answer.content.decode()
    assert "<script" not in page
    assert "src=" not in page
    assert "@import" not in page
    assert all(f"id={row.id}" in page for row in ROWS)
    assert page.count("INSUFFICIENT_FUNDS") >= 1
