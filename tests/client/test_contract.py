"""The client agrees with the OpenAPI document: every operation, field, record and enumeration."""

import inspect
import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pixconnect_client import _resources, _sandbox, events
from pixconnect_client._call import Call
from pixconnect_client._operation import Listing, Operation, Resource
from pixconnect_client.download import ask_for_statement
from scripts.pages import clients, python_client
from scripts.pages.python_client import SHORTER
from scripts.pages.schema import MEND
from scripts.pages.typescript import DOCUMENT, WITHOUT_METHOD, find_body, list_operations

SCHEMAS: Mapping[str, Any] = DOCUMENT["components"]["schemas"]
OPERATIONS: Mapping[tuple[str, str], Any] = {(verb, path): operation for verb, path, operation in list_operations()}


def list_calls() -> Iterator[tuple[str, Call[Any], Call[Any]]]:
    """Each method, called with all its arguments and with the required ones only. The values do not matter here."""
    for module in (_resources, _sandbox):
        for resource in vars(module).values():
            if not (inspect.isclass(resource) and issubclass(resource, Resource) and resource is not Resource):
                continue
            for name, method in vars(resource).items():
                if isinstance(method, Operation | Listing):
                    parameters = list(inspect.signature(method.build).parameters.values())[1:]
                    full = {one.name: "text" for one in parameters}
                    least = {one.name: "text" for one in parameters if one.default is inspect.Parameter.empty}
                    yield f"{resource.__name__}.{name}", method.build(None, **full), method.build(None, **least)
    file: Any = ask_for_statement("text", "text", "text", "text")  # type: ignore[arg-type]
    yield "Client.download_statement", file, file


CALLS = list(list_calls())


def resolve(schema: Any) -> Any:
    return SCHEMAS[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def parameters_of(operation: Any, place: str) -> set[str]:
    components = DOCUMENT["components"]["parameters"]
    found = [components[one["$ref"].rpartition("/")[2]] if "$ref" in one else one for one in operation["parameters"]]
    return {one["name"] for one in found if one["in"] == place}


def test_a_method_asks_for_an_operation_with_what_that_takes() -> None:
    for _, full, least in CALLS:
        operation = OPERATIONS[full.method, full.path]
        assert set(full.parameters) == parameters_of(operation, "path")
        assert set(full.query) <= parameters_of(operation, "query")
        body, properties = typing.cast(dict[str, Any], full.body or {}), find_body(operation).get("properties", {})
        assert set(body) <= set(properties)
        assert set(find_body(operation).get("required", [])) <= set(typing.cast(dict[str, Any], least.body or {}))
        assert full.is_authorized == (operation.get("security") != [])
        assert (full.external_id is not None) == ("external_id" in properties)


def test_a_method_gives_what_the_operation_answers() -> None:
    for _, full, _ in CALLS:
        contents = OPERATIONS[full.method, full.path]["responses"]["200"]["content"]
        if full.record in {str, bytes}:
            continue
        (media_type,) = [one for one in contents if "json" in one]
        schema = contents[media_type]["schema"]
        if "data" in resolve(schema).get("properties", {}):
            schema = resolve(schema)["properties"]["data"]
        if schema.get("type") == "array":
            schema = schema["items"]
        expected = "WebhookEvent" if full.record == events.Event else full.record.__name__
        name = schema["$ref"].rpartition("/")[2]
        assert SHORTER.get(name, name) == expected


def test_every_operation_has_a_method_that_takes_all_of_it() -> None:
    for (method, path), operation in OPERATIONS.items():
        calls = [full for _, full, _ in CALLS if (full.method, full.path) == (method, path)]
        assert calls, f"{operation['operationId']}: the client has no method for it"
        queries = set().union(*[call.query for call in calls])
        assert queries == parameters_of(operation, "query"), operation["operationId"]
        bodies = set().union(*[typing.cast(dict[str, Any], call.body or {}) for call in calls])
        assert bodies == set(find_body(operation).get("properties", {})), operation["operationId"]
    names = {one["operationId"] for path in DOCUMENT["paths"].values() for one in path.values() if "operationId" in one}
    assert names - {one["operationId"] for one in OPERATIONS.values()} == set(WITHOUT_METHOD)


def test_its_records_enumerations_and_requests_are_those_of_the_document() -> None:
    for path, text in python_client.write_files().items():
        assert path.read_text(encoding="utf-8") == text, MEND


def test_a_new_field_of_a_request_becomes_a_parameter_of_each_method(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [body for one in OPERATIONS.values() if "external_id" in (body := find_body(one).get("properties", {}))]
    for body in bodies:
        monkeypatch.setitem(body, "note", {"type": "string", "description": "A note."})
    written = python_client.write_files()[python_client.FOLDER / "_resources.py"]
    assert len(bodies) == written.count(" note=note,") == written.count(" note: str | None = None,")


def test_the_page_of_the_clients_has_each_method_with_its_parameters() -> None:
    page = re.sub(r"\n +", " ", clients.write_page())
    assert (
        "client.endpoints.create(url: str, event_types: Sequence[str], *, secret: str | None = None) -> NewEndpoint\n" in page
    )
    assert "client.endpoints.create(endpoint: NewEndpoint, options?: CallOptions): Promise<" in page
    assert "client.download_statement(initial_date: " in page
    names = [name for name, *_ in (*clients.list_python_methods(), *clients.list_typescript_methods())]
    assert [name for name in names if f"client.{name}(" not in page] == []
