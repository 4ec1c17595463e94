"""The generated files of the TypeScript client, ``types.ts`` and ``operations.ts``, from the OpenAPI document.

``types.ts`` has the records, ``operations.ts`` the parameters, results and requests of the operations. The client's
methods are written by hand over these, so the compiler refuses a method that does not match its operation.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pixconnect.assembly.operations import list_sections
from pixconnect.features.documentation.openapi import describe_interface

FOLDER: Final = Path(__file__).resolve().parents[2] / "clients" / "typescript" / "src"
_API_URL, _AUTH_URL = "http://api.example", "http://auth.example"
DOCUMENT: Final[Mapping[str, Any]] = describe_interface(
    list_sections(is_sandbox=True), base_url=_API_URL, auth_url=_AUTH_URL, version="1"
)
WITHOUT_METHOD: Final[Mapping[str, str]] = {
    "request_token": "the client logs in by itself",
    "request_oauth_token": "for OAuth 2 libraries; the client logs in by itself",
    "retrieve_balance": "the same as retrieve_current_balance",
    "list_transactions": "the same as list_transactions_by_holder",
    "get_openapi": "for generators",
    "get_openapi_30": "for generators",
    "get_front_page": "for people",
    "get_docs": "for people",
}
"""Operations without a client method, and the reason."""

_OWN_HEADERS: Final = ("Idempotency-Key", "X-Request-Id")
"""Parameters that the client sets itself or offers in another form."""
_SCHEMAS: Final[Mapping[str, Any]] = DOCUMENT["components"]["schemas"]
_HEAD: Final = "// Written by `make docs` of the service's OpenAPI document. Do not edit it.\n"
_INSTANT: Final = """
/** A point in time that is sent: a `Date`, or RFC 3339 with an offset. What is answered is always text, with microseconds. */
export type Instant = Date | string;
"""
_OPERATION: Final = """
/** How an operation is asked for, and how its answer is read. */
export interface Operation {
  readonly method: "DELETE" | "GET" | "PATCH" | "POST" | "PUT";
  /** As the document has it, with names in braces. */
  readonly path: string;
  /** `data` and a `page` stand in the envelope; `bare` JSON and `text` have none; `octets` are a file. */
  readonly reads: "bare" | "data" | "octets" | "page" | "text";
  /** Whether it needs a token. */
  readonly isAuthorized: boolean;
  /** Whether it is served at the identity service's address. */
  readonly isIdentity: boolean;
  /** Whether its body has an `external_id`, so that the same again has no second effect. */
  readonly isNamed: boolean;
  /** Statuses beside 2xx whose answer is one. */
  readonly alsoReads: readonly number[];
}
"""


def write_files() -> dict[Path, str]:
    return {FOLDER / "types.ts": _write_types(), FOLDER / "operations.ts": _write_operations()}


def list_operations() -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Method, path and description of each operation with a client method, in the document's order."""
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            if "operationId" in operation and operation["operationId"] not in WITHOUT_METHOD:
                yield method.upper(), path, operation


def scope_of(operation: Mapping[str, Any]) -> str | None:
    """Its required scope; empty if a token of any scope will do, none if it needs no token."""
    for way in operation.get("security", []):
        return "".join(way["OAuth2"])
    return None


def is_named(operation: Mapping[str, Any]) -> bool:
    """Whether its body has an ``external_id``."""
    return "external_id" in find_body(operation).get("properties", {})


def _write_types() -> str:
    names = sorted(_find_used())
    sent = _find_sent()
    return _HEAD + _INSTANT + "".join(f"\n{_write_record(name, is_sent=name in sent)}" for name in names)


def _write_operations() -> str:
    asked = list(list_operations())
    parts = "".join(_write_parts(operation) for _, _, operation in asked)
    rows = "".join(_write_row(method, path, operation) for method, path, operation in asked)
    used = sorted(name for name in _find_used() | {"Instant"} if re.search(rf"\b{name}\b", parts))
    names = "".join(f"  {name},\n" for name in used)
    return (
        f'{_HEAD}\nimport type {{\n{names}}} from "./types.js";\n{_OPERATION}\n'
        f"/** What each operation takes and answers. */\nexport interface Operations {{\n{parts}}}\n\n"
        "export type OperationId = keyof Operations;\n\n"
        f"export const OPERATIONS: {{ readonly [Id in OperationId]: Operation }} = {{\n{rows}}};\n"
    )


def _write_record(name: str, *, is_sent: bool) -> str:
    schema = _SCHEMAS[name]
    text = _comment(schema.get("description"), "")
    if "properties" not in schema:
        return f"{text}export type {name} = {_type(schema, is_sent=is_sent)};\n"
    required = schema.get("required", [])
    text += f"export interface {name} {{\n"
    for field, one in schema["properties"].items():
        text += _comment(one.get("description"), "  ")
        text += f"  {field}{'' if field in required else '?'}: {_type(one, is_sent=is_sent)};\n"
    return text + "}\n"


def _comment(description: str | None, indent: str) -> str:
    return f"{indent}/** {description.replace('*/', '* /')} */\n" if description else ""


def _type(schema: Mapping[str, Any], *, is_sent: bool) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "oneOf" in schema:
        return " | ".join(_type(one, is_sent=is_sent) for one in schema["oneOf"])
    if schema.get("enum"):
        return " | ".join(json.dumps(word, ensure_ascii=False) for word in schema["enum"])
    return _plain_type(schema, is_sent=is_sent)


def _plain_type(schema: Mapping[str, Any], *, is_sent: bool) -> str:
    match schema["type"], schema.get("format"):
        case "array", _:
            inner = _type(schema["items"], is_sent=is_sent)
            return f"({inner})[]" if " " in inner else f"{inner}[]"
        case "object", _:
            more = schema.get("additionalProperties")
            return f"Record<string, {_type(more, is_sent=is_sent) if isinstance(more, dict) else 'unknown'}>"
        case "integer" | "number", _:
            return "number"
        case "string", "binary":
            return "Uint8Array"
        case "string", "date-time" if is_sent:
            return "Instant"
        case kind, _:
            return str(kind)


def _write_parts(operation: Mapping[str, Any]) -> str:
    """Its parameters and result, as a member of ``Operations``."""
    text = f"  {operation['operationId']}: {{\n"
    parameters = [_resolve_parameter(one) for one in operation["parameters"]]
    inside = [one for one in parameters if one["in"] == "path"]
    if inside:
        text += f"    parameters: {{ {_write_members(inside)} }};\n"
    query = [one for one in parameters if one["in"] == "query"]
    if query:
        mark = "" if any(one["required"] for one in query) else "?"
        text += f"    query{mark}: {{ {_write_members(query)} }};\n"
    headers = [one for one in parameters if one["in"] == "header" and one["name"] not in _OWN_HEADERS]
    if headers:
        text += f"    headers?: {{ {_write_members(headers)} }};\n"
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        text += f"    body: {_type(schema, is_sent=True)};\n"
    return text + f"    answer: {_type(_answer_schema(operation), is_sent=False)};\n  }};\n"


def _write_members(parameters: list[Mapping[str, Any]]) -> str:
    members = list[str]()
    for one in parameters:
        name = one["name"] if one["name"].isidentifier() else json.dumps(one["name"])
        members.append(f"{name}{'' if one['required'] else '?'}: {_type(one['schema'], is_sent=True)}")
    return "; ".join(members)


def _write_row(method: str, path: str, operation: Mapping[str, Any]) -> str:
    fields = dict(
        method=method,
        path=path,
        reads=_how_read(operation),
        isAuthorized=scope_of(operation) is not None,
        isIdentity=any(one["url"] == _AUTH_URL for one in operation.get("servers", [])),
        isNamed=is_named(operation),
        alsoReads=_list_also_read(operation),
    )
    inner = ", ".join(f"{name}: {json.dumps(value)}" for name, value in fields.items())
    return f"  {operation['operationId']}: {{ {inner} }},\n"


def _resolve_parameter(one: Mapping[str, Any]) -> Mapping[str, Any]:
    found = DOCUMENT["components"]["parameters"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one
    return {"required": False, **found}


def _resolve(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return _SCHEMAS[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def find_body(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    if "requestBody" not in operation:
        return {}
    return _resolve(operation["requestBody"]["content"]["application/json"]["schema"])


def _answer_content(operation: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    contents = operation["responses"]["200"]["content"]
    # Of several content types the method returns JSON; the statement's files have another method.
    media_type = next((one for one in contents if "json" in one), next(iter(contents)))
    return media_type, contents[media_type]["schema"]


def _answer_schema(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    """The result of a method: the item type, if it is a page."""
    _, schema = _answer_content(operation)
    match _how_read(operation):
        case "data":
            return _resolve(schema)["properties"]["data"]
        case "page":
            return _resolve(schema)["properties"]["data"]["items"]
        case _:
            return schema


def _how_read(operation: Mapping[str, Any]) -> str:
    media_type, schema = _answer_content(operation)
    properties = _resolve(schema).get("properties", {})
    if "json" not in media_type:
        return "octets" if _resolve(schema).get("format") == "binary" else "text"
    if "pagination" in properties:
        return "page"
    return "data" if "data" in properties else "bare"


def _list_also_read(operation: Mapping[str, Any]) -> list[int]:
    """Statuses with the same record as 200."""
    contents = {status: one.get("content") for status, one in operation["responses"].items()}
    schemas = {
        status: [one["schema"] for one in content.values()] for status, content in contents.items() if content is not None
    }
    return [int(status) for status, found in schemas.items() if status != "200" and found == schemas["200"]]


def _find_used() -> set[str]:
    """Names of all records in operations, webhooks, errors and pages."""
    found = {"ErrorCode", "EventName", "Pagination", "WebhookEvent"}
    for _, _, operation in list_operations():
        found |= _names_in(_answer_schema(operation)) | _names_in(operation.get("requestBody", {}))
    return _close_over(found)


def _find_sent() -> set[str]:
    """Names of records that are only sent."""
    bodies = set[str]()
    answers = {"WebhookEvent"}
    for _, _, operation in list_operations():
        bodies |= _names_in(operation.get("requestBody", {}))
        answers |= _names_in(_answer_schema(operation))
    return _close_over(bodies) - _close_over(answers)


def _close_over(names: set[str]) -> set[str]:
    while more := {inner for name in names for inner in _names_in(_SCHEMAS[name])} - names:
        names |= more
    return names


def _names_in(node: object) -> set[str]:
    match node:
        case dict():
            own = {str(node["$ref"]).rpartition("/")[2]} if "$ref" in node else set[str]()
            return own.union(*(_names_in(inner) for inner in node.values()))
        case list():
            return set[str]().union(*map(_names_in, node))
        case _:
            return set()
