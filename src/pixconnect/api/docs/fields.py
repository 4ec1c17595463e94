"""Fields of records on the documentation page: each with its type, its meaning, and the fields of the record that it holds."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from msgspec import Struct

from pixconnect.api.docs import openapi
from pixconnect.api.docs.guides import prose
from pixconnect.api.docs.records import FORMATS, SCHEMAS, Schema, find_schema
from pixconnect.api.frame.operation import AnyOperation


class _Field(Struct, frozen=True, kw_only=True):
    name: str
    forms: list[Schema]
    """More than one where the record has alternatives."""
    is_required: bool
    place: str = ""
    """``path`` or ``query``, of a parameter."""

    @property
    def meaning(self) -> str:
        return str(self.forms[0].get("description", ""))


class Fields:
    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas

    def render_record(self, name: str, title: str, *, is_open: bool) -> str:
        """A record's fields under a title; with ``is_open`` the records within it are unfolded."""
        listed = self._list(self._read(name), is_open=is_open)
        return f"<h4>{title}</h4>{listed}" if is_open else _folded(title, listed)

    def render_parameters(self, row: AnyOperation) -> str:
        found: list[_Field] = []
        if row.parameter.name:
            schema = dict(row.parameter.schema) | {"description": row.parameter.description}
            found.append(_Field(name=row.parameter.name, forms=[schema], is_required=True, place="path"))
        found += [
            _Field(
                name=part["name"],
                forms=[part["schema"] | {"description": part["description"]}],
                is_required=part["required"],
                place="query",
            )
            for part in openapi.describe_query(row)
        ]
        return f"<h4>Parameters</h4>{self._list(found, is_open=False)}" if found else ""

    def render_types(self) -> str:
        """The chapter of all records that others hold or that are answered."""
        # An address that leads into something folded unfolds it.
        articles = "".join(
            f"<details class=type><summary>{name}</summary><div id=type-{name}>"
            f"<p>{prose(schema.get('description', ''))}</p>{self._list(self._read(name), is_open=False)}</div></details>"
            for name, schema in self._schemas.items()
            if self.is_shown(name)
        )
        return f"<section id=types><h2>Types</h2><p>The types of answers and bodies.</p>{articles}</section>"

    def is_shown(self, name: str) -> bool:
        """Whether a record has an article: envelopes are described at the beginning."""
        schema = self._schemas[name]
        has_fields = "properties" in schema or "oneOf" in schema
        return has_fields and not name.endswith(("Response", "Request"))

    def _read(self, record: str) -> list[_Field]:
        # For alternatives, which have the same fields, we show all kinds of each field.
        schema = self._schemas[record]
        forms = [find_schema(form, self._schemas) for form in schema.get("oneOf", [schema])]
        required = forms[0].get("required", [])
        return [
            _Field(name=name, forms=[form["properties"][name] for form in forms], is_required=name in required)
            for name in forms[0]["properties"]
        ]

    def _list(self, fields: list[_Field], *, is_open: bool) -> str:
        return f"<ul class=fields>{''.join(self._render(field, is_open=is_open) for field in fields)}</ul>"

    def _render(self, field: _Field, *, is_open: bool) -> str:
        kinds = " | ".join(dict.fromkeys(self._kind(form) for form in field.forms))
        need = "<b class=need>required</b>" if field.is_required else ""
        place = f"<span class=kind>in the {field.place}</span>" if field.place else ""
        marks = f" data-in={field.place} data-name={escape(field.name)}" if field.place else ""
        inner = "".join(self._unfold(form, is_open=is_open) for form in field.forms[:1])
        return (
            f"<li{marks}><code class=name>{escape(field.name)}</code> <span class=kind>{kinds}</span> {place}{need}"
            f"<p>{prose(field.meaning)}</p>{inner}"
        )

    def _unfold(self, schema: Schema, *, is_open: bool) -> str:
        """The fields of the record that a field holds, alone, in a list or by name."""
        inner: Any = schema.get("items", schema.get("additionalProperties", schema))
        # True or false says whether other members are allowed.
        if not inner or inner is True or "$ref" not in inner:
            return ""
        name = str(inner["$ref"]).removeprefix(SCHEMAS)
        # Alternatives are long, and have articles of their own.
        if "properties" not in self._schemas[name]:
            return ""
        listed = self._list(self._read(name), is_open=is_open)
        return _folded(f"Fields of <code>{name}</code>", listed, is_open=is_open)

    def _kind(self, schema: Schema) -> str:
        if "$ref" in schema and "enum" not in find_schema(schema, self._schemas):
            name = str(schema["$ref"]).removeprefix(SCHEMAS)
            return f"<a href=#type-{name}>{name}</a>" if self.is_shown(name) else name
        schema = find_schema(schema, self._schemas) | schema
        # Longer enumerations, such as that of the event types, would make the line unreadable.
        if "enum" in schema and len(schema["enum"]) <= 9:
            return escape(" | ".join(map(str, schema["enum"])))
        if "items" in schema:
            return f"list of {self._kind(schema['items'])}"
        limits = [f"{schema[word]}" for word in ("minLength", "maxLength") if word in schema]
        default = f", default {schema['default']}" if "default" in schema else ""
        # For a number the type says more than the format.
        words = ("type", "format") if schema.get("type") in FORMATS else ("format", "type")
        kind = str(schema.get(words[0], schema.get(words[1], "")))
        return escape(kind + (f" ({' to '.join(limits)})" if limits else "") + default)


def _folded(title: str, content: str, *, is_open: bool = False) -> str:
    return f"<details{' open' if is_open else ''}><summary>{title}</summary>{content}</details>"
