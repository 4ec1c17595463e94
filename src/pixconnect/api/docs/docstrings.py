"""Descriptions of records' fields: the sentences under them, which Python keeps nowhere but in the source.

Only classes are parsed, not whole files: that keeps it at some milliseconds of a process's start.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Final

import msgspec

from pixconnect.domain.frame import errors

# The name, the bases on lines of their own where they are long, and the lines that are indented or empty.
_CLASS: Final = re.compile(r"^class (\w+)(?:\(\n(?: .*\n)+\))?.*\n(?:(?: .*)?\n)+", re.MULTILINE)


def describe_fields(record: type) -> dict[str, str]:
    """The sentence under each field, by the field's name on the wire; inherited fields are included."""
    found: dict[str, str] = {}
    # From the base to the record itself, so that a sentence of its own wins.
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
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str() as text)),
            ):
                found[name] = " ".join(text.split())
            case _:
                pass
    return found
