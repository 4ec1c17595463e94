"""Schemas of OpenAPI, generated from the records and from the docstrings under their fields.

They are as code generators need them: an integer has the format of 64 bits, no field is null, no object has a default, and
repeated values have a name.

Python keeps docstrings of fields nowhere but in the source. Only classes are parsed, not whole files: that takes some
milliseconds of a process's start.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, Final, cast, get_args

import msgspec
from msgspec import inspect as types

from pixconnect.doors.api import envelope
from pixconnect.doors.api.document import Document
from pixconnect.doors.api.operation import AnyOperation, Anything, Nothing
from pixconnect.doors.api.violation import alternatives
from pixconnect.features.identity import api as oauth
from pixconnect.features.monitoring.service.health import HealthStatus
from pixconnect.features.webhooks.rules.endpoint import EndpointStatus
from pixconnect.kernel.rules.event import OWN_EVENT_NAMES, EventName
from pixconnect.kernel.rules.holder import AccountType, KeyType
from pixconnect.kernel.rules.rail import InitiationType
from pixconnect.kernel.rules.refund import RefundReason
from pixconnect.kernel.rules.transfer import Direction
from pixconnect.platform.base import errors

# The name, the bases on lines of their own if they are long, and the lines that are indented or empty.
_CLASS: Final = re.compile(r"^class (\w+)(?:\(\n(?: .*\n)+\))?.*\n(?:(?: .*)?\n)+", re.MULTILINE)


def describe_fields(record: type) -> dict[str, str]:
    """Return the docstring under each field, by the field's name in JSON; inherited fields are included."""
    found: dict[str, str] = {}
    # From the base to the record itself, so that its own docstring wins.
    for ancestor in reversed(record.__mro__):
        if issubclass(ancestor, msgspec.Struct) and ancestor is not msgspec.Struct:
            found |= _read_module(ancestor.__module__).get(ancestor.__name__, {})
    names = {field.name: field.encode_name for field in msgspec.structs.fields(record)}
    return {names[name]: text for name, text in found.items()}


@cache
def _read_module(name: str) -> Mapping[str, Mapping[str, str]]:
    source = inspect.getsource(sys.modules[name])
    return {match[1]: _read_class(match[0]) for match in _CLASS.finditer(source)}


def _read_class(source: str) -> dict[str, str]:
    (definition,) = ast.parse(source).body
    if not isinstance(definition, ast.ClassDef):
        raise errors.InvariantBroken(source)
    found: dict[str, str] = {}
    for field, below in pairwise(definition.body):
        match field, below:
            case (ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as text))):
                found[name] = " ".join(text.split())
            case _:
                pass
    return found


Schema = dict[str, Any]

SCHEMAS: Final = "#/components/schemas/"

# Aliases have no names at run time, and generators would name each use after its field. No value may be in two of these:
# openapi-generator writes the values of all of them into one Go package. So statuses have no names.
_ENUMERATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "AccountType": get_args(AccountType),
    "Direction": get_args(Direction),
    "EndpointStatus": get_args(EndpointStatus),
    # The contract's names: generated programs stay valid. Our further ones are named where callers may use them.
    "EventName": tuple(name for name in get_args(EventName) if name not in OWN_EVENT_NAMES),
    "HealthStatus": get_args(HealthStatus),
    "InitiationType": get_args(InitiationType),
    "KeyType": get_args(KeyType),
    "RefundReason": get_args(RefundReason),
}
_NAMES: Final = {frozenset(values): name for name, values in _ENUMERATIONS.items()}
_NAMES[frozenset(get_args(EventName))] = "EventName"

# A number's schema has its width: without it generators use 32 bits, which is R$ 21.474.836,47.
FORMATS: Final = dict(integer="int64", number="double")

_NULL: Final = dict(type="null")


def typed(kind: str, **more: object) -> Schema:
    return {"type": kind, **({"format": FORMATS[kind]} if kind in FORMATS else {}), **more}


def described(description: str, **more: object) -> Schema:
    return {"description": description, **more}


def parameter(place: str, name: str, description: str, schema: Schema, **more: object) -> Schema:
    return {"name": name, "in": place, **more, "description": description, "schema": schema}


def describe_query(query: type) -> list[Schema]:
    """Describe the parameters of a query, without the default of a switch that is off."""
    # An unused parameter is not described either.
    if query is Anything or query is Nothing:
        return []
    (_,), components = msgspec.json.schema_components([query])
    record: Schema = components[query.__name__]
    required, descriptions = record.get("required", []), describe_fields(query)
    found: list[Schema] = []
    for name, field in record["properties"].items():
        schema = {key: value for key, value in polish(field).items() if (key, value) != ("default", False)}
        found.append(parameter("query", name, descriptions[name], schema, required=name in required))
    return found


def to_schema(name: str) -> Schema:
    return {"$ref": SCHEMAS + name}


def find_schema(schema: Schema, schemas: Mapping[str, Schema]) -> Schema:
    """Return the schema itself, or the one that it references."""
    return schemas[schema["$ref"].removeprefix(SCHEMAS)] if "$ref" in schema else schema


def describe_records(operations: Iterable[AnyOperation], others: Iterable[type]) -> dict[str, Schema]:
    """Return the schemas of all records of requests and answers, of other records, and of the envelopes around them."""
    rows = list(operations)
    records = {envelope.Meta, envelope.ErrorInfo, envelope.Pagination, oauth.PublishedKey, *others}
    for row in rows:
        kinds = (row.body, row.record, row.refusals.record)
        records.update(kind for kind in kinds if kind not in (None, Nothing, Document))
    schemas = describe_structs(records)
    # The record accepts any text here, because features add codes.
    code = schemas["ErrorInfo"]["properties"]["code"]
    schemas["ErrorInfo"]["properties"]["code"] = {**to_schema("ErrorCode"), "description": code["description"]}
    enumerations = {**_ENUMERATIONS, "ErrorCode": tuple(envelope.list_statuses())}
    schemas |= {name: typed("string", enum=list(values)) for name, values in enumerations.items()}
    return dict(sorted((schemas | _describe_envelopes(rows)).items()))


def describe_structs(records: Iterable[type]) -> dict[str, Schema]:
    """Return the schemas of records and of the records in them, with the docstrings under their fields."""
    _, components = msgspec.json.schema_components(list(records), ref_template=SCHEMAS + "{name}")
    schemas = {name: polish(schema) for name, schema in components.items()}
    for record in {record for kind in types.multi_type_info(records) for record in find_records(kind)}:
        schema = schemas[record.__name__]
        for name, description in describe_fields(record).items():
            field = schema["properties"][name]
            # Followed by that of its type, such as the unit.
            schema["properties"][name] = field | described(f"{description} {field.get('description', '')}".strip())
        # A rule between fields: a type cannot express it.
        schema |= getattr(record, "schema_rules", {})
    return schemas


def _describe_envelopes(rows: Iterable[AnyOperation]) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    for row in rows:
        if row.answer is Document or row.is_bare:
            continue
        name = row.record.__name__
        data = dict(**to_schema(name), description="The answer to the request.")
        if row.item:
            data = typed("array", items=to_schema(name), description="The items of this page.")
        found[envelope_name(row)] = _describe_envelope(f"`{name}` in the envelope.", is_success=True, data=data)
        if row.item:
            found[envelope_name(row)]["properties"]["pagination"] = to_schema("Pagination")
            found[envelope_name(row)]["required"].append("pagination")
    error = to_schema("ErrorInfo")
    found["ErrorResponse"] = _describe_envelope("Why the request failed.", is_success=False, error=error)
    return found


def envelope_name(row: AnyOperation) -> str:
    return f"{row.record.__name__}{'List' if row.item else ''}Response"


def _describe_envelope(description: str, *, is_success: bool, **fields: Schema) -> Schema:
    # No constant: openapi-generator writes boolean constants as texts.
    success = typed("boolean", description=f"Always {str(is_success).lower()} here.")
    properties: Schema = {"success": success, **fields, "meta": to_schema("Meta")}
    return typed("object", description=description, properties=properties, required=list(properties))


def split_docstring(text: str) -> tuple[str, str]:
    first, _, rest = inspect.cleandoc(text).partition("\n")
    return first, " ".join(rest.split())


def polish(schema: Schema) -> Schema:
    """Polish a schema: no null beside a type, and a type or name for every enumeration."""
    schema = {name: value for name, value in schema.items() if name != "title"}
    if "anyOf" in schema:
        # An optional field is never answered as null, and need not be sent as null.
        parts = [part for part in schema.pop("anyOf") if part != _NULL]
        schema = {**schema, **(parts[0] if len(parts) == 1 else {"anyOf": parts})}
    # A default of null or of an object only means that the field is optional.
    if isinstance(schema.get("default", ...), dict | None):
        del schema["default"]
    # msgspec gives enumerations no type, and some readers of the document want one.
    if "enum" in schema:
        name = _NAMES.get(frozenset(schema["enum"]))
        schema = {**typed("string"), **schema}
        if name:
            schema = {**to_schema(name), **{word: schema[word] for word in schema.keys() - {"type", "enum"}}}
    if schema.get("type") in FORMATS:
        schema["format"] = FORMATS[schema["type"]]
    if "items" in schema:
        schema["items"] = polish(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        schema["additionalProperties"] = polish(schema["additionalProperties"])
    if "properties" in schema:
        schema["description"] = " ".join(split_docstring(schema.get("description", ""))).strip()
        schema["properties"] = {name: polish(field) for name, field in schema["properties"].items()}
        # OpenAPI 3.0 permits no empty list here.
        if not schema.get("required"):
            schema.pop("required", None)
    return schema


def find_records(kind: types.Type) -> Iterator[type]:
    for one in alternatives(kind):
        match one:
            case types.StructType(cls=record, fields=fields):
                yield record
                for field in fields:
                    yield from find_records(field.type)
            case types.ListType(item_type=inner) | types.DictType(value_type=inner):
                yield from find_records(inner)
            case _:
                pass


def convert_part(part: Any) -> Any:  # noqa: ANN401  any part of a JSON document
    """Convert any part of a document to 3.0."""
    if isinstance(part, list):
        return [convert_part(one) for one in cast(list[Any], part)]
    if not isinstance(part, dict):
        return part
    # An example contains a caller's own words, and no keywords.
    found = {name: value if name == "example" else convert_part(value) for name, value in cast(dict[str, Any], part).items()}
    if isinstance(found.get("examples"), list):
        found["example"] = found.pop("examples")[0]
    # 3.0 has no conditions.
    found = {name: value for name, value in found.items() if name not in {"if", "then"}}
    # Beside a reference 3.0 ignores everything.
    if "$ref" in found and len(found) > 1:
        found = {"allOf": [{"$ref": found.pop("$ref")}], **found}
    return found
