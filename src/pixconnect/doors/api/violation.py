"""Describes a value that violates its record's declaration, in a sentence about one field.

Only values that msgspec has refused come here. Its own messages may change with any release, and callers read ours; so the
value is compared again with the declared types, in msgspec's order: the fields as they were sent, then missing ones.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Final, cast

from msgspec import inspect

from pixconnect.platform.base import errors

NAME_LENGTH_MAX: Final = 64  # a longer name of the caller's is cut to this

IN_CENTS: Final = " number of cents (R$ 10,50 is 1050)"
_DECLARED_FORM: Final = "have the declared form"
_KINDS: Final[Sequence[tuple[str, tuple[type[inspect.Type], ...]]]] = (
    ("an integer", (inspect.IntType,)),
    ("a number", (inspect.FloatType,)),
    ("true or false", (inspect.BoolType,)),
    ("a string", (inspect.StrType, inspect.LiteralType)),
    ("a date-time", (inspect.DateTimeType,)),
    ("a list", (inspect.ListType,)),
    ("an object", (inspect.DictType, inspect.StructType)),
)
_NOUNS: Final[Mapping[type[inspect.Type], str]] = {kind: noun for noun, kinds in _KINDS for kind in kinds}


def find_violation(value: object, record: type) -> str | None:
    """The first violation of a record in a value, and its rule."""
    return _check(value, _read_type(record), "")


def alternatives(kind: inspect.Type) -> list[inspect.Type]:
    """Return the types that a value may have, without their descriptions."""
    if isinstance(kind, inspect.Metadata):
        return alternatives(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [part for one in kind.types for part in alternatives(one)]
    return [kind]


def show_name(name: str) -> str:
    """Show a name of the caller's, cut and without half characters."""
    return name[:NAME_LENGTH_MAX].encode("utf-8", "replace").decode()


# Cached: refusals can come in floods, and reading a type costs more than comparing a value with it.
_read_type = cache(inspect.type_info)


def _check(value: object, declared: inspect.Type, path: str) -> str | None:
    kinds = alternatives(declared)
    kind = next((one for one in kinds if _is_of(value, one)), None)
    if kind is None:
        # For a field that may be null the message names its other type.
        nouns = [_NOUNS[type(one)] for one in kinds if not isinstance(one, inspect.NoneType)]
        of_cents = IN_CENTS if nouns == ["an integer"] and path.rpartition(".")[2] == "amount" else ""
        return f"{path or 'body'}: must be {' or '.join(dict.fromkeys(nouns))}{of_cents}"
    if isinstance(kind, inspect.StructType):
        return _check_fields(cast(dict[str, object], value), kind, path)
    if isinstance(kind, inspect.DictType):
        parts = [(path, part) for part in cast(dict[str, object], value).values()]
        return _check_parts(parts, kind.value_type)
    if (rule := _broken_rule(value, kind)) is not None:
        return f"{path or 'body'}: must {_name_form(declared) if rule == _DECLARED_FORM else rule}"
    if isinstance(kind, inspect.ListType):
        parts = [(f"{path}[{index}]", part) for index, part in enumerate(cast(list[object], value))]
        return _check_parts(parts, kind.item_type)
    return None


def _name_form(declared: inspect.Type) -> str:
    # A pattern's description is a sentence that continues after "be".
    for each in declared.types if isinstance(declared, inspect.UnionType) else (declared,):
        schema = cast("dict[str, object]", getattr(each, "extra_json_schema", None) or {})
        if form := str(schema.get("description", "")):
            return f"be {form[0].lower()}{form[1:].rstrip('.')}"
    return _DECLARED_FORM


def _check_fields(given: Mapping[str, object], struct: inspect.StructType, path: str) -> str | None:
    declared = {field.encode_name: field for field in struct.fields}
    for name, part in given.items():
        below = f"{path}.{show_name(name)}" if path else show_name(name)
        field = declared.get(name)
        if field is not None:
            if (found := _check(part, field.type, below)) is not None:
                return found
        elif struct.forbid_unknown_fields:
            return f"{below}: unknown field"
    # After the fields that were sent: we name a misspelt field before the missing one that it stands for.
    for name, field in declared.items():
        if field.required and name not in given:
            return f"{path}.{name}: is required" if path else f"{name}: is required"
    return None


def _check_parts(parts: Sequence[tuple[str, object]], kind: inspect.Type) -> str | None:
    return next((found for path, part in parts if (found := _check(part, kind, path)) is not None), None)


def _is_of(value: object, kind: inspect.Type) -> bool:
    match kind:
        case inspect.NoneType():
            return value is None
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType():
            # 1.0 is no integer of the contract's, and true is one only to Python.
            return isinstance(value, int) and not isinstance(value, bool)
        case inspect.FloatType():
            return isinstance(value, int | float) and not isinstance(value, bool)
        case inspect.StrType() | inspect.LiteralType():
            return isinstance(value, str)
        case inspect.DateTimeType():
            return isinstance(value, datetime)
        case inspect.ListType():
            return isinstance(value, list)
        case inspect.DictType() | inspect.StructType():
            return isinstance(value, dict)
        case _:
            raise errors.InvariantBroken(f"no request has a {kind}")


def _broken_rule(value: object, kind: inspect.Type) -> str | None:
    """Return the rule that a value of the right type breaks, as it continues after "must"."""
    match kind:
        case inspect.IntType():
            return _broken_bound(cast(int, value), kind.ge, kind.le)
        case inspect.FloatType():
            return _broken_bound(cast(float, value), _as_float(kind.ge), _as_float(kind.le))
        case inspect.StrType():
            text = cast(str, value)
            broken = _broken_length(len(text), kind.min_length, kind.max_length, "characters")
            # Patterns are for programs: quoting one does not help people.
            if broken is None and kind.pattern is not None and re.search(kind.pattern, text) is None:
                return _DECLARED_FORM
            return broken
        case inspect.ListType():
            return _broken_length(len(cast(list[object], value)), kind.min_length, kind.max_length, "items")
        case inspect.LiteralType() if value not in kind.values:
            return f"be one of {', '.join(str(word) for word in kind.values)}"
        case _:
            return None


def _broken_bound(number: float, at_least: float | None, at_most: float | None) -> str | None:
    if at_least is not None and number < at_least:
        return f"be at least {at_least}"
    if at_most is not None and number > at_most:
        return f"be at most {at_most}"
    return None


def _broken_length(length: int, at_least: int | None, at_most: int | None, what: str) -> str | None:
    if at_least is not None and length < at_least:
        return f"have at least {at_least} {what}"
    if at_most is not None and length > at_most:
        return f"have at most {at_most} {what}"
    return None


def _as_float(bound: float | None) -> float | None:
    return None if bound is None else float(bound)
