"""The same document as OpenAPI 3.0.3, for generators that do not read 3.1 yet. It has no webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pixconnect.api.docs.records import Schema
from pixconnect.api.docs.webhooks import EVENTS, HEADER_PARAMETERS


def convert(document: Mapping[str, Any]) -> Schema:
    """Write an OpenAPI 3.1 document of ours as 3.0.3."""
    components: Schema = document["components"]
    parameters = {name: part for name, part in components["parameters"].items() if name not in HEADER_PARAMETERS}
    license_name = document["info"]["license"]["name"]
    found = {
        **document,
        "openapi": "3.0.3",
        # 3.0 knows no identifiers of licenses.
        "info": document["info"] | {"license": {"name": license_name}},
        "tags": [tag for tag in document["tags"] if tag != EVENTS],
        "components": components | {"parameters": parameters},
    }
    del found["webhooks"]
    return convert_part(found)


def convert_part(part: Any) -> Any:  # noqa: ANN401  any part of a JSON document
    """Write any part of a document as 3.0 has it."""
    if isinstance(part, list):
        return [convert_part(one) for one in cast(list[Any], part)]
    if not isinstance(part, dict):
        return part
    # An example is a caller's own words, in which nothing is a keyword.
    found = {
        name: value if name == "example" else convert_part(value) for name, value in cast(dict[str, Any], part).items()
    }
    if isinstance(found.get("examples"), list):
        found["example"] = found.pop("examples")[0]
    # 3.0 has no conditions.
    found = {name: value for name, value in found.items() if name not in {"if", "then"}}
    # Beside a reference 3.0 ignores everything.
    if "$ref" in found and len(found) > 1:
        found = {"allOf": [{"$ref": found.pop("$ref")}], **found}
    return found
