"""The client agrees with the OpenAPI document: every operation, field, record and enumeration."""

import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any, Final

import msgspec

from pixconnect.assembly.operations import list_sections
from pixconnect.features.documentation.openapi import describe_interface
from pixconnect.kernel.rules.event import OWN_EVENT_NAMES
from pixconnect_client import _resources, _sandbox, enums, events, feed, lists, records, sandbox_records
from pixconnect_client._call import Call
from pixconnect_client._open_enum import OpenEnum
from pixconnect_client._operation import Listing, Operation, Resource
from pixconnect_client.download import ask_for_statement
from scripts.pages import clients
from scripts.pages.typescript import WITHOUT_METHOD

DOCUMENT = describe_interface(
    list_sections(is_sandbox=True), base_url="http://a.example", auth_url="http://b.example", version="1"
)
SCHEMAS: Mapping[str, Any] = DOCUMENT["components"]["schemas"]
OPERATIONS: Mapping[tuple[str, str], Any] = {
    (method.upper(), path): operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
    if "operationId" in operation
}
SHORTER = {"HolderBalance": "Balance", "WebhookEndpoint": "Endpoint", "WebhookDelivery": "Delivery"}
"""Records with longer names in the document, to distinguish them there."""
JSON_TYPES = {
    str: "string", int: "integer", float: "number", bool: "boolean", date: "string", datetime: "string",
    msgspec.Raw: "object",
}  # fmt: skip

RECORDS = {
    name: record
    for module in (records, sandbox_records, events, feed, lists)
    for name, record in vars(module).items()
    if inspect.isclass(record) and issubclass(record, msgspec.Struct) and record.__module__ == module.__name__
    if not name.startswith("_") and name not in {"Page", "OtherEvent", "NewEndpoint"}
}
ENUMS = {name: one for name, one in vars(enums).items() if inspect.isclass(one) and one is not OpenEnum}


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


def body_schema(operation: Any) -> Any:
    return resolve(operation["requestBody"]["content"]["application/json"]["schema"]) if "requestBody" in operation else {}


def shape_of_schema(schema: Any) -> Any:
    """The type of a value, in words that also fit a Python type."""
    name = schema["$ref"].rpartition("/")[2] if "$ref" in schema else None
    schema = resolve(schema)
    if schema.get("enum"):
        return frozenset(schema["enum"])
    if name is not None and ("properties" in schema or "oneOf" in schema):
        return SHORTER.get(name, name)
    if schema["type"] == "array":
        return [shape_of_schema(schema["items"])]
    if isinstance(schema.get("additionalProperties"), dict):
        return {"*": shape_of_schema(schema["additionalProperties"])}
    return "instant" if schema.get("format") == "date-time" else schema["type"]


OURS: Final = frozenset(OWN_EVENT_NAMES)
"""Unknown events pass, although the document's enumeration is closed."""


def shape_of_type(annotation: Any) -> Any:
    args = [one for one in typing.get_args(annotation) if one is not types.NoneType]
    if isinstance(annotation, types.UnionType) and len(args) == 1:
        return shape_of_type(args[0])
    match typing.get_origin(annotation):
        case origin if origin is list:
            return [shape_of_type(args[0])]
        case origin if origin is dict:
            return {"*": shape_of_type(args[1])}
        case _ if annotation is datetime:
            return "instant"
        case _ if issubclass(annotation, OpenEnum):
            return frozenset(annotation)
        case _:
            return JSON_TYPES.get(annotation, annotation.__name__)


def is_same(schema: Any, own: Any) -> bool:
    if isinstance(schema, list) and isinstance(own, list):
        return is_same(schema[0], own[0])
    if not isinstance(schema, frozenset):
        return schema == own
    # Some fields only allow part of an enumeration, which rarely deserves a separate enumeration.
    return schema <= own if isinstance(own, frozenset) else len(schema) == 1 and own == "string"


def test_a_method_asks_for_an_operation_with_what_that_takes() -> None:
    for _, full, least in CALLS:
        operation = OPERATIONS[full.method, full.path]
        assert set(full.parameters) == parameters_of(operation, "path")
        assert set(full.query) <= parameters_of(operation, "query")
        body, properties = typing.cast(dict[str, Any], full.body or {}), body_schema(operation).get("properties", {})
        assert set(body) <= set(properties)
        assert set(body_schema(operation).get("required", [])) <= set(typing.cast(dict[str, Any], least.body or {}))
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
        assert shape_of_schema(schema) == expected


def test_every_operation_has_a_method_that_takes_all_of_it() -> None:
    for (method, path), operation in OPERATIONS.items():
        calls = [full for _, full, _ in CALLS if (full.method, full.path) == (method, path)]
        if operation["operationId"] in WITHOUT_METHOD:
            assert calls == [], operation["operationId"]
            continue
        assert calls, f"{operation['operationId']}: the client has no method for it"
        queries = set().union(*[call.query for call in calls])
        assert queries == parameters_of(operation, "query"), operation["operationId"]
        bodies = set().union(*[typing.cast(dict[str, Any], call.body or {}) for call in calls])
        assert bodies == set(body_schema(operation).get("properties", {})), operation["operationId"]
    assert set(WITHOUT_METHOD) <= {operation["operationId"] for operation in OPERATIONS.values()}


def test_a_record_has_the_fields_of_its_schema() -> None:
    for name in sorted(RECORDS):
        longer = {short: long for long, short in SHORTER.items()}
        schema, record = SCHEMAS[longer.get(name, name)], RECORDS[name]
        hints = typing.get_type_hints(record)
        assert set(hints) == set(schema["properties"])
        required = {field.encode_name for field in msgspec.structs.fields(record) if field.required}
        assert required == set(schema.get("required", []))
        for field, hint in hints.items():
            expected, own = shape_of_schema(schema["properties"][field]), shape_of_type(hint)
            assert is_same(expected, own), (field, expected, own)


def list_words(node: Any) -> Iterator[frozenset[str]]:
    if isinstance(node, Mapping):
        if isinstance(node.get("enum"), list):
            yield frozenset(node["enum"])
        for value in node.values():
            yield from list_words(value)
    elif isinstance(node, list):
        for value in node:
            yield from list_words(value)


def test_the_words_are_those_of_the_document() -> None:
    for name in sorted(ENUMS):
        assert frozenset(ENUMS[name]) - OURS in set(list_words(DOCUMENT))


def test_the_page_of_the_clients_has_each_method_with_its_parameters() -> None:
    page = re.sub(r"\n +", " ", clients.write_page())
    assert (
        "client.endpoints.create(url: str, event_types: Sequence[str], *, secret: str | None = None) -> NewEndpoint\n" in page
    )
    assert "client.endpoints.create(endpoint: NewEndpoint, options?: CallOptions): Promise<" in page
    assert "client.download_statement(initial_date: " in page
    names = [name for name, *_ in (*clients.list_python_methods(), *clients.list_typescript_methods())]
    assert [name for name in names if f"client.{name}(" not in page] == []
