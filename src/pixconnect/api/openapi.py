"""OpenAPI 3.1, read from the table and its records.

Nothing is described twice: types and limits come from the records, what a field means from the sentence under it, what an
operation does from its handler's docstring. A change of any of these changes the published document.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import inspect as types

from pixconnect.api import decoding, envelope
from pixconnect.api.docstrings import describe_fields
from pixconnect.api.operation import AnyOperation, Anything, Document, Nothing, Section
from pixconnect.api.violation import alternatives
from pixconnect.domain import errors

Schema = dict[str, Any]

REQUEST_ID: Final = "#/components/parameters/RequestId"

_EXAMPLES: Final[dict[str, object]] = {
    "amount": 1234,
    "available_funds": 100000000,
    "current_funds": 100000000,
    "key": "loja@sandbox.pix.example",
    "external_id": "order-2026-0001",
    "name": "Maria Silva",
    "tax_id": "52998224725",
    "bank": "Pix Connect Sandbox",
    "emv": "00020101021226",
    "emvqrcps": "00020101021226",
    "base64image": "",
    "txid": "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6",
    "transaction_identification": "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6",
    "end_to_end_id": "E99999003202611201234a1B2c3D4e5F",
    "original_end_to_end_id": "E99999003202611201234a1B2c3D4e5F",
    "return_identification": "D99999003202611201234a1B2c3D4e5F",
    "request_id": "01930a2f-5c7a-7e8d-9f01-23456789abcd",
    "version": "1.0",
    "secret": "at-least-16-characters",
    "effect": "delay:3000",
    "url": "https://example.com/pix",
}
"""The value of a field of this name in examples, unless the field has an example of its own."""

_EXAMPLES_BY_TYPE: Final = dict(string="text", integer=1, number=0.5, boolean=True)

_FAILURES: Final = {
    "400": ("BadRequest", errors.BadRequest("amount: must be an integer")),
    "401": ("Unauthorized", errors.Unauthorized("Authorization: token expired")),
    "403": ("Forbidden", errors.Forbidden("the token lacks the scope charge.write")),
    "404": ("NotFound", errors.NotFound("id: there is nothing with the id 123")),
    "413": ("PayloadTooLarge", errors.PayloadTooLarge("body: must have at most 65536 bytes")),
    "422": ("RuleBroken", errors.AmountOutOfRange("amount: must be from 1 to 999999999999 cents")),
    "429": ("RateLimited", errors.RateLimited("this address has failed too many token requests", 42)),
    "500": ("InternalError", errors.InternalError("internal error")),
    "503": ("ServiceUnavailable", errors.ServiceUnavailable("the database cannot be reached; nothing was done")),
    "504": ("OutcomeUnknown", errors.OutcomeUnknown('repeat the request with external_id "order-2026-0001"')),
}


def describe_interface(sections: Sequence[Section], *, base_url: str, auth_url: str, version: str) -> Schema:
    """The OpenAPI document; addresses as callers see them, and the program's version."""
    operations = [row for section in sections for row in section.operations]
    schemas = _describe_records(operations)
    paths: Schema = {}
    for section in sections:
        for row in section.operations:
            item = _describe_operation(row, section.title, schemas)
            # Only tokens and public keys are served by the identity service, and only where it has an address of its own.
            if row.path.startswith(("/v1/iam/", "/oauth/", "/.well-known/")) and auth_url != base_url:
                item["servers"] = [{"url": auth_url}]
            paths.setdefault(row.path, {})[row.method.lower()] = item
    return {
        "openapi": "3.1.0",
        "info": {
            "title": _TITLE,
            "version": envelope.VERSION,
            "description": f"Charges, transfers, refunds and a ledger over Pix. Served by pixconnect {version}.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base_url}],
        "security": [{"BearerAuth": []}],
        "tags": [{"name": section.title, "description": section.text} for section in sections],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "parameters": {"RequestId": _REQUEST_ID_PARAMETER},
            "responses": {name: _describe_failure(status, error) for status, (name, error) in _FAILURES.items()},
            "securitySchemes": {"BearerAuth": _BEARER_AUTH},
        },
    }


def _typed(kind: str, **more: object) -> Schema:
    return {"type": kind, **more}


def _object(properties: Schema) -> Schema:
    return _typed("object", properties=properties, required=list(properties))


def _parameter(place: str, name: str, description: str, schema: Schema, **more: object) -> Schema:
    return {"name": name, "in": place, **more, "description": description, "schema": schema}


def _described(description: str, **more: object) -> Schema:
    return {"description": description, **more}


_NULL: Final = _typed("null")
_TITLE: Final = "Pix Connect"
_REQUEST_ID_PARAMETER: Final = _parameter(
    "header",
    "X-Request-Id",
    "Your own name for the request: comes back in `meta.request_id` and stands in every log line.",
    _typed("string", pattern="^[A-Za-z0-9._-]{1,64}$"),
)
_BEARER_AUTH: Final = _typed(
    "http",
    scheme="bearer",
    bearerFormat="JWT",
    description="A token of the identity service, good for five minutes unless set otherwise.",
)
_LINK_HEADER: Final = _described(
    'The address of the next page (RFC 8288, `rel="next"`), by cursor; left out on the last page.',
    schema=_typed("string"),
)


def _split_docstring(text: str) -> tuple[str, str]:
    first, _, rest = inspect.cleandoc(text).partition("\n")
    return first, " ".join(rest.split())


def summarize(row: AnyOperation) -> tuple[str, str]:
    """A line on what an operation does, and sentences."""
    first, rest = _split_docstring(row.handler.__doc__ or "")
    if not row.is_built:
        return row.summary, "Not built yet: answers 503."
    return row.summary or first.removesuffix("."), rest


def describe_query(row: AnyOperation) -> list[Schema]:
    # What is ignored is not described either.
    if row.query is Anything or row.query is Nothing:
        return []
    (_,), components = msgspec.json.schema_components([row.query])
    schema: Schema = components[row.query.__name__]
    required = schema.get("required", [])
    descriptions = describe_fields(row.query)
    return [
        _parameter("query", name, descriptions[name], _without_false(_polish(field)), required=name in required)
        for name, field in schema["properties"].items()
    ]


def list_fields(record: type) -> list[str]:
    """The names of a record's fields on the wire."""
    (schema,), components = msgspec.json.schema_components([record])
    return list(components[schema["$ref"].rpartition("/")[2]]["properties"])


def make_example(schema: Schema, schemas: dict[str, Schema], name: str = "") -> object:
    """A value that the schema allows and a reader understands."""
    # What the schema says itself comes first, then what is usual for a field of this name, then any value of the type.
    if "$ref" in schema:
        return make_example(schemas[schema["$ref"].rpartition("/")[2]], schemas, name)
    for word in ("const", "default"):
        if word in schema:
            return schema[word]
    if "examples" in schema:
        return schema["examples"][0]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        fields: Schema = schema.get("properties", {})
        return {field: make_example(part, schemas, field) for field, part in fields.items()}
    if kind == "array":
        return [make_example(schema["items"], schemas, name)]
    return _EXAMPLES.get(name, _EXAMPLES_BY_TYPE.get(str(kind), {}))


def answer_schema(row: AnyOperation) -> Schema:
    """The whole answer of an operation's success, in the envelope unless it is bare."""
    if row.is_bare:
        return _ref(row.record)
    item = row.item
    data = _typed("array", items=_ref(item)) if item else _ref(row.record)
    properties: Schema = {"success": _typed("boolean", const=True), "data": data, "meta": _ref(envelope.Meta)}
    if item:
        properties["pagination"] = _ref(envelope.Pagination)
    return _object(properties)


def _describe_records(operations: Iterable[AnyOperation]) -> dict[str, Schema]:
    records: set[type] = {envelope.Meta, envelope.ErrorInfo, envelope.Pagination}
    for row in operations:
        kinds = (row.body, row.record, row.refusals.record)
        records.update(kind for kind in kinds if kind not in (None, Nothing, Document))
    _, components = msgspec.json.schema_components(list(records), ref_template="#/components/schemas/{name}")
    schemas = {name: _polish(schema) for name, schema in components.items()}
    for record in {record for kind in types.multi_type_info(records) for record in _find_records(kind)}:
        fields = schemas[record.__name__]["properties"]
        for name, description in describe_fields(record).items():
            fields[name] = _described_more(fields[name], description)
    schemas["Failure"] = _object(
        {
            "success": _typed("boolean", const=False),
            "error": _ref(envelope.ErrorInfo),
            "meta": _ref(envelope.Meta),
        }
    )
    # The record has any text there, because only errors.py and STATUSES list the codes.
    schemas["ErrorInfo"]["properties"]["code"]["enum"] = list(envelope.STATUSES)
    return dict(sorted(schemas.items()))


def _find_records(kind: types.Type) -> Iterator[type]:
    for one in alternatives(kind):
        match one:
            case types.StructType(cls=record, fields=fields):
                yield record
                for field in fields:
                    yield from _find_records(field.type)
            case types.ListType(item_type=inner) | types.DictType(value_type=inner):
                yield from _find_records(inner)
            case _:
                pass


def _describe_operation(row: AnyOperation, tag: str, schemas: dict[str, Schema]) -> Schema:
    summary, description = summarize(row)
    found: Schema = {"operationId": row.id, "tags": [tag], "summary": summary}
    if description:
        found["description"] = description
    found["security"] = [] if row.scope is None else [{"BearerAuth": [] if row.scope == "any" else [row.scope]}]
    found["parameters"] = [*_describe_parameter(row), *describe_query(row), {"$ref": REQUEST_ID}]
    if row.body is not Nothing:
        schema = _ref(row.body)
        described = {"schema": schema, "example": make_example(schema, schemas)}
        content = {media_type.decode(): described for media_type in decoding.MEDIA_TYPES[row.body_form]}
        found["requestBody"] = {"required": True, "content": content}
    found["responses"] = {"200": _describe_success(row, schemas), **_failures_of(row)}
    return found


def _describe_parameter(row: AnyOperation) -> list[Schema]:
    parameter = row.parameter
    if not parameter.name:
        return []
    return [_parameter("path", parameter.name, parameter.description, dict(parameter.schema), required=True)]


def _describe_success(row: AnyOperation, schemas: dict[str, Schema]) -> Schema:
    # The media types beside JSON, such as a CSV file's, are described as text.
    content: Schema = {media_type: {"schema": _typed("string")} for media_type in row.media_types}
    if row.answer is Document:
        if row.media_types[0].endswith("json"):
            content[row.media_types[0]] = {"schema": _typed("object")}
        return _described("The document.", content=content)
    schema = answer_schema(row)
    content["application/json"] = {"schema": schema, "example": make_example(schema, schemas)}
    found = _described("Done.", content=content)
    # Only what can be read on by cursor has a next page to link to.
    if "after" in row.query.__struct_fields__:
        found["headers"] = {"Link": _LINK_HEADER}
    return found


def _failures_of(row: AnyOperation) -> Schema:
    """The statuses of an operation's failures: the health check has none, what only serves a document hardly any."""
    is_only_read = (row.answer is Document or row.is_bare) and row.body is Nothing
    if row.id == "health_check" or (is_only_read and not row.parameter.name):
        return {}
    if row.answer is Document:
        statuses = ["404", "503"]
    else:
        # Every request can be of the wrong form, break a rule, or meet a defect or a missing database.
        statuses = ["400", "500", "503"]
        statuses += ["422"] if row.refusals.record is None else []
        statuses += ["401"] if row.scope or row.body_form != "json" else []
        statuses += ["403"] if row.scope not in (None, "any") else []
        statuses += ["404"] if row.parameter.name else []
        statuses += ["413"] if row.body is not Nothing else []
        statuses += ["429"] if row.body_form != "json" else []
        # Only a write can have been done without our knowing it.
        statuses += ["504"] if row.method != "GET" and row.scope else []
    if row.refusals.record is not None:
        content = {"application/json": {"schema": _ref(row.refusals.record)}}
        return {status: _described(_FAILURES[status][0], content=content) for status in sorted(statuses)}
    return {status: {"$ref": f"#/components/responses/{_FAILURES[status][0]}"} for status in sorted(statuses)}


def _describe_failure(status: str, error: errors.PixConnectError) -> Schema:
    codes = [code for code, of_code in envelope.STATUSES.items() if str(of_code) == status]
    found = _described(", ".join(codes))
    if any(name == b"retry-after" for name, _ in envelope.error_headers(error)):
        found["headers"] = {"Retry-After": _described("Seconds.", schema=_typed("integer"))}
    example = {
        "success": False,
        "error": {"code": error.code, "message": error.message},
        "meta": {
            "request_id": _EXAMPLES["request_id"],
            "timestamp": "2026-11-20T12:34:56.789012Z",
            "version": envelope.VERSION,
        },
    }
    schema = {"$ref": "#/components/schemas/Failure"}
    found["content"] = {"application/json": {"schema": schema, "example": example}}
    return found


def _ref(record: type) -> Schema:
    return {"$ref": f"#/components/schemas/{record.__name__}"}


def _polish(schema: Schema) -> Schema:
    """A schema as we want it read: no null beside a type, and a type beside every enumeration."""
    schema = dict(schema)
    if "anyOf" in schema:
        # What may be left out is never answered as null, and need not be sent as null.
        parts = [part for part in schema.pop("anyOf") if part != _NULL]
        schema = {**schema, **(parts[0] if len(parts) == 1 else {"anyOf": parts})}
        if schema.get("default", ...) is None:
            del schema["default"]
    # msgspec gives enumerations no type, and some readers of the document want one.
    if "enum" in schema:
        schema = {**_typed("string"), **schema}
    if "items" in schema:
        schema["items"] = _polish(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        schema["additionalProperties"] = _polish(schema["additionalProperties"])
    if "properties" in schema:
        schema["description"] = " ".join(_split_docstring(schema.get("description", ""))).strip()
        schema["properties"] = {name: _polish(field) for name, field in schema["properties"].items()}
    return schema


def _described_more(schema: Schema, description: str) -> Schema:
    """The field's description, followed by its type's, such as the unit."""
    return {**schema, "description": f"{description} {schema.get('description', '')}".strip()}


def _without_false(schema: Schema) -> Schema:
    """A switch that is off by default needs no word about it."""
    return {name: value for name, value in schema.items() if (name, value) != ("default", False)}
