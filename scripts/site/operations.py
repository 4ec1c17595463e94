"""Pages about the API from the OpenAPI document, one for each group of operations and one for types."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from pixconnect import __version__
from pixconnect.assembly.operations import list_operations, list_sections
from pixconnect.features.documentation.openapi import describe_interface
from pixconnect.features.documentation.records import FORMATS, SCHEMAS, Schema, find_schema
from scripts.pages.interface import list_errors

ADDRESS: Final = "http://127.0.0.1:8080"
FOLDER: Final = "reference/operations"
TYPES: Final = "types"
_RULES: Final = {row.id: row.rules for row in list_operations(is_sandbox=True)}
_ENUMERATED_MAX: Final = 9
"""A longer enumeration, such as that of the events, would make the line unreadable."""


def write_pages() -> dict[str, tuple[str, str]]:
    """Title and Markdown of each page, by its path in the documentation."""
    document = describe_interface(list_sections(is_sandbox=True), base_url=ADDRESS, auth_url=ADDRESS, version=__version__)
    schemas: Mapping[str, Schema] = document["components"]["schemas"]
    found = {
        f"{FOLDER}/{tag['name'].lower()}.md": (tag["name"], _write_group(tag, document))
        for tag in document["tags"]
        if list(_list_operations(document, tag["name"]))
    }
    return found | {f"{FOLDER}/{TYPES}.md": ("Types", _write_types(schemas))}


def _list_operations(document: Schema, tag: str) -> Iterator[tuple[str, str, Schema]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method != "servers" and tag in operation["tags"]:
                yield method.upper(), path, operation


def _write_group(tag: Schema, document: Schema) -> str:
    parts = [f"# {tag['name']}", tag["description"]]
    for method, path, operation in _list_operations(document, tag["name"]):
        parts += _describe_operation(method, path, operation, document)
    return "\n\n".join(parts) + "\n"


def _describe_operation(method: str, path: str, operation: Schema, document: Schema) -> Iterator[str]:
    schemas = document["components"]["schemas"]
    yield f"## {operation['summary']} {{ #{operation['operationId']} }}"
    yield f"`{method} {path}`: {_need(operation['security'])}; `operationId` `{operation['operationId']}`"
    if "description" in operation:
        yield operation["description"]
    parameters = [part for part in operation["parameters"] if "$ref" not in part]
    if parameters:
        yield _table(
            ("Parameter", "Type", "Meaning"),
            (
                (
                    f"`{part['name']}` ({part['in']})",
                    _kind(part["schema"], schemas),
                    _meaning(part, part.get("required")),
                )
                for part in parameters
            ),
        )
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"**Request** (`{media_type}`)"
        yield _list_fields(find_schema(content["schema"], schemas), schemas)
        yield _sample(content["example"])
    yield from _describe_answer(operation["responses"], schemas)
    yield from _describe_errors(operation)


def _need(security: Sequence[Schema]) -> str:
    if not security:
        return "public"
    scopes = security[0]["OAuth2"]
    return f"scope `{scopes[0]}`" if scopes else "any valid token"


def _describe_answer(responses: Schema, schemas: Mapping[str, Schema]) -> Iterator[str]:
    for media_type, content in responses["200"].get("content", {}).items():
        if media_type != "application/json" or "example" not in content:
            yield f"**Answer** (`{media_type}`): {find_schema(content['schema'], schemas).get('description', '')}"
            continue
        answered = find_schema(content["schema"], schemas)["properties"].get("data", content["schema"])
        yield f"**Answer**: {_kind(answered, schemas)}"
        yield _sample(content["example"])


def _describe_errors(operation: Schema) -> Iterator[str]:
    rules = _RULES.get(operation["operationId"], ())
    found = [
        (status, code, meaning)
        for status, code, meaning in list_errors()
        if str(status) in operation["responses"] and (status != 422 or code in rules)
    ]
    if rules:
        ruled = ((f"{status} `{code}`", meaning) for status, code, meaning in found if status == 422)
        yield _table(("Error", "Meaning"), ruled)
    others = [f"{status} `{code}`" for status, code, _ in found if status != 422]
    if others:
        yield f"Other [errors](../errors.md): {', '.join(others)}."


def _write_types(schemas: Mapping[str, Schema]) -> str:
    parts = ["# Types", "The records that operations take and answer, and that webhooks carry."]
    for name, schema in schemas.items():
        if _is_shown(name, schemas):
            parts += [f"## {name} {{ #{name} }}", schema.get("description", ""), _list_fields(schema, schemas)]
    return "\n\n".join(parts) + "\n"


def _is_shown(name: str, schemas: Mapping[str, Schema]) -> bool:
    """Whether a record has its own chapter: bodies are shown with their operation, and envelopes are all alike."""
    schema = schemas[name]
    return ("properties" in schema or "oneOf" in schema) and not name.endswith(("Response", "Request"))


def _list_fields(schema: Schema, schemas: Mapping[str, Schema]) -> str:
    # Alternatives have the same fields, so all their variants are shown.
    forms = [find_schema(form, schemas) for form in schema.get("oneOf", [schema])]
    required = forms[0].get("required", [])
    return _table(
        ("Field", "Type", "Meaning"),
        (
            (
                f"`{name}`",
                " or ".join(dict.fromkeys(_kind(form["properties"][name], schemas) for form in forms)),
                _meaning(field, name in required),
            )
            for name, field in forms[0].get("properties", {}).items()
        ),
    )


def _meaning(field: Schema, is_required: object) -> str:
    return f"{'**Required.** ' if is_required else ''}{field.get('description', '')}"


def _kind(schema: Schema, schemas: Mapping[str, Schema]) -> str:
    found = find_schema(schema, schemas)
    if "$ref" in schema and "enum" not in found:
        name = str(schema["$ref"]).removeprefix(SCHEMAS)
        return f"[{name}]({TYPES}.md#{name})" if _is_shown(name, schemas) else name
    found = {**found, **schema}
    if "enum" in found and len(found["enum"]) <= _ENUMERATED_MAX:
        return ", ".join(f"`{value}`" for value in found["enum"])
    if "items" in found:
        return f"list of {_kind(found['items'], schemas)}"
    limits = [f"{found[word]}" for word in ("minLength", "maxLength") if word in found]
    default = f", default {found['default']}" if "default" in found else ""
    # The format of a number adds nothing to its type.
    words = ("type", "format") if found.get("type") in FORMATS else ("format", "type")
    kind = str(found.get(words[0], found.get(words[1], "")))
    return kind + (f" ({' to '.join(limits)})" if limits else "") + default


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    lines += [" | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def _sample(value: object) -> str:
    return f"```json\n{json.dumps(value, indent=2, ensure_ascii=False)}\n```"
