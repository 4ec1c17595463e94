"""The documentation as one page that needs nothing else: no script, no font, no other host."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import Any, Final

from pixconnect.api import envelope, idempotency_key, openapi
from pixconnect.api.openapi_examples import example_of_answer, example_of_body
from pixconnect.api.openapi_records import FORMATS, SCHEMAS, Schema, find_schema
from pixconnect.api.operation import AnyOperation, Document, Nothing, Section
from pixconnect.domain import errors

_INTRODUCTION: Final = """
<p>JSON over HTTPS. Every answer is an envelope: <code>success</code>, then <code>data</code> or <code>error</code>, then
<code>meta</code>; lists add <code>pagination</code>. Amounts are integers in cents, instants are RFC 3339 in UTC. Send
<code>Authorization: Bearer &lt;access token&gt;</code>, a unique <code>external_id</code> with everything that you create, and
keep <code>meta.request_id</code>. For programs there is <a href="/openapi.json">/openapi.json</a>.</p>
"""


def render_docs(document: dict[str, Any], sections: Sequence[Section]) -> str:
    """Write the page; the document must be the OpenAPI document of the same sections."""
    style = (files("pixconnect.api") / "docs_page.css").read_text(encoding="utf-8")
    schemas: dict[str, Schema] = document["components"]["schemas"]
    return "".join(
        [
            "<!doctype html><html lang=en><meta charset=utf-8>",
            '<meta name=viewport content="width=device-width,initial-scale=1">',
            "<title>Pix Connect</title><link rel=icon href=data:,>",
            f"<style>{style}</style><nav><a href=#top><b>Pix Connect</b></a>",
            *(_render_contents(section) for section in sections),
            '<strong>Reference</strong><a href="#errors">Errors</a></nav><main id=top>',
            f"<h1>Pix Connect</h1><p class=note>{escape(document['info']['description'])}</p>{_INTRODUCTION}",
            *(_render_section(section, schemas) for section in sections),
            _render_errors(),
            "</main></html>",
        ]
    )


def list_errors() -> list[tuple[int, str, str]]:
    """Status, code and meaning of every error, in the order of ``envelope.STATUSES``."""
    meanings = {kind.code: (kind.__doc__ or "").partition("\n")[0] for kind in _kinds(errors.PixConnectError)}
    return [(status, code, meanings[code]) for code, status in envelope.STATUSES.items()]


def _kinds(kind: type[errors.PixConnectError]) -> Iterator[type[errors.PixConnectError]]:
    # Classes without a code of their own only group others.
    if "code" in vars(kind):
        yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


def _render_contents(section: Section) -> str:
    links = "".join(f"<a href=#{row.id}>{_prose(openapi.summarize(row)[0])}</a>" for row in section.operations)
    return f"<strong>{escape(section.title)}</strong>{links}"


def _render_section(section: Section, schemas: dict[str, Schema]) -> str:
    articles = "".join(_render_operation(row, schemas) for row in section.operations)
    return f"<h2>{escape(section.title)}</h2><p>{_prose(section.text)}</p>{articles}"


def _render_operation(row: AnyOperation, schemas: dict[str, Schema]) -> str:
    summary, description = openapi.summarize(row)
    needs = "Public." if row.scope is None else "Any valid token."
    if row.scope not in (None, "any"):
        needs = f"Scope <code>{row.scope}</code>."
    parts = [
        f"<article id={row.id}><h3>{_prose(summary)}</h3>",
        f"<p><span class=verb>{row.method}</span><span class=path>{escape(row.path)}</span></p>",
        f"<p>{_prose(description)}</p>" if description else "",
        f"<p class=note>{needs}</p>",
        _render_fields("Parameters", _parameters(row, schemas)),
    ]
    if row.body is not Nothing:
        parts += [
            _render_fields("Body", _fields(row.body.__name__, schemas)),
            _render_example("Example", example_of_body(row, schemas)),
        ]
    # A list is described by one of its items.
    if row.answer is not Document:
        example = example_of_answer(row, schemas)
        parts += [_render_fields("Answer", _fields(row.record.__name__, schemas)), _render_example("Example", example)]
    return "".join([*parts, "</article>"])


def _parameters(row: AnyOperation, schemas: dict[str, Schema]) -> list[tuple[str, str, str]]:
    rows: list[tuple[str, str, str]] = []
    if row.parameter.name:
        rows.append((row.parameter.name, "in the path", row.parameter.description))
    for parameter in openapi.describe_query(row):
        kind = _kind(parameter["schema"], schemas) + (", required" if parameter["required"] else "")
        rows.append((parameter["name"], kind, parameter["description"]))
    if idempotency_key.is_taken_by(row):
        header = openapi.IDEMPOTENCY_KEY_PARAMETER
        rows.append((header["name"], "string, in the header", header["description"]))
    return rows


def _fields(record: str, schemas: dict[str, Schema]) -> list[tuple[str, str, str]]:
    # Of alternatives, which have the same fields, all kinds of each field are shown.
    forms = [find_schema(schema, schemas) for schema in schemas[record].get("oneOf", [schemas[record]])]
    required = forms[0].get("required", [])
    return [
        (
            name,
            " | ".join(dict.fromkeys(_kind(form["properties"][name], schemas) for form in forms))
            + ("" if name in required else ", optional"),
            field.get("description", ""),
        )
        for name, field in forms[0]["properties"].items()
    ]


def _kind(schema: Schema, schemas: dict[str, Schema]) -> str:
    if "$ref" in schema and "enum" not in find_schema(schema, schemas):
        return str(schema["$ref"]).removeprefix(SCHEMAS)
    schema = find_schema(schema, schemas) | schema
    # Longer enumerations, such as that of the event types, would make the column unreadable.
    if "enum" in schema and len(schema["enum"]) <= 9:
        return " | ".join(map(str, schema["enum"]))
    if "items" in schema:
        return f"list of {_kind(schema['items'], schemas)}"
    limits = [f"{schema[word]}" for word in ("minLength", "maxLength") if word in schema]
    default = f", default {schema['default']}" if "default" in schema else ""
    # Of a number the type says more than the format.
    words = ("type", "format") if schema.get("type") in FORMATS else ("format", "type")
    return (
        str(schema.get(words[0], schema.get(words[1], ""))) + (f" ({' to '.join(limits)})" if limits else "") + default
    )


def _render_fields(title: str, rows: list[tuple[str, str, str]]) -> str:
    if not rows:
        return ""
    lines = "".join(
        f"<tr><td><code>{escape(name)}</code><td class=kind>{escape(kind)}<td>{_prose(meaning)}"
        for name, kind, meaning in rows
    )
    return f"<h4>{title}</h4><table>{lines}</table>"


def _render_example(title: str, example: object) -> str:
    text = escape(json.dumps(example, indent=2, ensure_ascii=False))
    return f"<details><summary>{title}</summary><pre>{text}</pre></details>"


def _render_errors() -> str:
    lines = "".join(
        f"<tr><td>{status}<td><code>{code}</code><td>{_prose(meaning)}" for status, code, meaning in list_errors()
    )
    return (
        "<h2 id=errors>Errors</h2><p>The first that applies is the answer: route, token, scope, size, shape, resource, "
        f"replay, then the rules in this order, then availability.</p><table>{lines}</table>"
    )


def _prose(text: str) -> str:
    # Docstrings mark code with one or two backquotes.
    return re.sub(r"`+([^`]+)`+", r"<code>\1</code>", escape(text, quote=False))
