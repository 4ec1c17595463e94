"""The answers in Woovi's official document, corrected where it contradicts its own examples."""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator

from support.api import Answer

FILE: Final = Path(__file__).parents[2] / "tests" / "vectors" / "woovi" / "openpix.json"
_UNDECLARED: Final = frozenset((401, 404, 405, 413, 429, 503))
"""Cases outside of the document: a wrong AppID, unknown operations, and fault rules."""


def find_errors(method: str, path: str, answer: Answer) -> list[str]:
    """The differences of an answer from the document, if that describes the operation."""
    found = _find(method, path.partition("?")[0])
    if found is None:
        return []
    schema = found.get(str(answer.status))
    if schema is None:
        return [] if answer.status in _UNDECLARED else [f"the status {answer.status} is not declared"]
    whole = {**schema, "components": _read()["components"]}
    return [f"{error.json_path}: {error.message[:200]}" for error in Draft202012Validator(whole).iter_errors(answer.body)]


def _find(method: str, path: str) -> Mapping[str, Any] | None:
    for template, operations in _read()["paths"].items():
        pattern = re.sub(r"\{[^}]*\}", "[^/]+", template.rstrip("/"))
        if re.fullmatch(pattern, path.rstrip("/")) and method.lower() in operations:
            responses = operations[method.lower()]["responses"]
            return {status: each["content"]["application/json"]["schema"] for status, each in responses.items()}
    return None


@cache
def _read() -> dict[str, Any]:
    document = json.loads(FILE.read_text(encoding="utf-8"))
    _mend(document)
    return document


def _mend(value: Any) -> None:
    """Apply the corrections in ``docs/reference/faces.md``."""
    if isinstance(value, list):
        for item in value:
            _mend(item)
    elif isinstance(value, dict):
        properties = value.get("properties")
        if isinstance(properties, dict):
            if "expiresIn" in properties:
                properties["expiresIn"] = {"type": "number"}
            status = properties.get("status")
            if isinstance(status, dict) and "DENIED" in status.get("enum", ()):
                status["enum"] = [*status["enum"], "APPROVED", "PROCESSING"]
            if "PAYMENT" in (status or {}).get("enum", ()):
                properties["status"], properties["type"] = properties["type"], properties["status"]
        for item in value.values():
            _mend(item)
