"""Reads the members of a body and the parameters of a query one by one, and collects all violations.

The record of a body defines the permitted values of its members. A handler reads its members in the standard's order and then
calls ``raise_if_any``: the answer's rows are in that order too. A reader returns ``None`` for an absent and for a faulty
member. The use case then checks against the present state.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from functools import cache
from typing import Final, TypeVar, cast

from msgspec import Struct, inspect

from pixconnect.doors.api import decoding
from pixconnect.kernel.rules import holder, tax_id
from pixconnect.kernel.rules.holder import PixKey
from pixconnect.platform.base import errors
from pixconnect.platform.base.errors import Violated, Violation

ChoiceT = TypeVar("ChoiceT", bound=str)
TypeT = TypeVar("TypeT", bound=inspect.Type)

TXID: Final = re.compile(r"[a-zA-Z0-9]{26,35}")
ROWS_MAX: Final = 20
"""Maximum in one answer: a person fixes these and tries again. A lot may have thousands."""
_VALUE_LENGTH_MAX: Final = 200
_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_AMOUNT: Final = re.compile(r"([0-9]{1,10})\.([0-9]{2})")
_REAIS: Final = re.compile(r"([0-9]{1,10})(?:\.([0-9]{1,2}))?")
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
NO_DAY: Final = "deve ser um dia que existe, como 2026-12-31"
_INT32_MAX: Final = 2**31 - 1
_MISSING: Final = "é obrigatório"
NO_PIX_KEY: Final = "não é uma chave Pix: CPF, CNPJ, telefone com +55, e-mail ou chave aleatória"


class Violations:
    """The violations of one request, in the order of reading: the first ones, and the number of the rest."""

    def __init__(self, entity: str) -> None:
        self.entity = entity
        self.rows: list[Violation] = []
        self._count = 0

    def add(self, name: str, reason: str, value: object = None) -> None:
        """Add a row; ``value`` as sent, ``None`` if missing."""
        self._count += 1
        if self._count <= ROWS_MAX:
            shown = None if value is None else show_value(value)
            self.rows.append(Violation(property=name, reason=reason, value=shown))

    def raise_if_any(self) -> None:
        if self._count > ROWS_MAX:
            rest = f"há mais {self._count - ROWS_MAX + 1} violações, que aqui não são mostradas"
            self.rows[-1] = Violation(property=self.entity, reason=rest)
        if self.rows:
            raise Violated(self.entity, self.rows)


def show_value(value: object) -> str:
    """Write a value as rows show it: a string unchanged, anything else as JSON.

    Example:
        >>> show_value("10.0"), show_value(10.5), show_value([None])
        ('10.0', '10.5', '[null]')
    """
    # Written only as far as it is shown.
    text = value if isinstance(value, str) else ""
    for part in () if isinstance(value, str) else _JSON.iterencode(value):
        text += part
        if len(text) > _VALUE_LENGTH_MAX:
            break
    # Half a surrogate pair can come in, as an escape, but cannot be encoded.
    return text[:_VALUE_LENGTH_MAX].encode("utf-8", "replace").decode()


class Members:
    """The members of one object of a body, under the limits of its record.

    ``null`` is absence when creating or replacing, and refused when changing: nothing can be removed by it.

    Args:
        path: The prefix of each member in rows; ``None`` is the entity, and an empty one nothing.
    """

    __slots__ = ("_members", "_prefix", "_record", "_refuses_null", "violations")

    def __init__(
        self,
        violations: Violations,
        record: type[Struct],
        members: Mapping[str, object],
        path: str | None = None,
        *,
        refuses_null: bool = False,
    ) -> None:
        self.violations = violations
        self._record = list_members(record)
        self._members = members
        self._prefix = "" if path == "" else f"{path or violations.entity}."
        self._refuses_null = refuses_null

    def raise_if_any(self) -> None:
        self.violations.raise_if_any()

    def has(self, name: str) -> bool:
        """Whether the member was sent, in any form; ``null`` counts only if it is refused."""
        return name in self._members and (self._refuses_null or self._members[name] is not None)

    def is_empty(self, name: str) -> bool:
        """Whether the member is absent or an empty list."""
        return self._members.get(name) in (None, [])

    def refuse(self, name: str, reason: str) -> None:
        self.violations.add(f"{self._prefix}{name}", reason, self._members.get(name))

    def text(
        self,
        name: str,
        *,
        length_max: int | None = None,
        pattern: re.Pattern[str] | None = None,
        reason: str = "não tem a forma esperada",
    ) -> str | None:
        """Read a text; ``length_max`` if we accept longer ones than described, ``reason`` for a mismatch of ``pattern``."""
        value, described = self._take(name, inspect.StrType)
        if value is None:
            return None
        length_min, length_max = described.min_length or 0, length_max or described.max_length or 0
        if not isinstance(value, str) or not is_storable(value):
            return self.refuse(name, "deve ser um texto, sem o caractere nulo")
        if len(value) > length_max:
            return self.refuse(name, f"deve ter no máximo {length_max} caracteres")
        if len(value) < length_min:
            return self.refuse(name, f"deve ter no mínimo {length_min} caractere{'s' if length_min > 1 else ''}")
        if pattern is not None and not pattern.fullmatch(value):
            return self.refuse(name, reason)
        return value

    def amount(self, name: str) -> int | None:
        """Read cents from a text like ``123.45``; zero is accepted too."""
        value, _ = self._take(name, inspect.StrType)
        if value is None:
            return None
        found = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            return self.refuse(name, "deve ser um texto com 1 a 10 dígitos, um ponto e 2 decimais, como 123.45")
        return int(found[1] + found[2])

    def day(self, name: str) -> date | None:
        """Read an existing day like ``2026-12-31``."""
        value, _ = self._take(name, inspect.StrType)
        if value is None:
            return None
        found = parse_day(value) if isinstance(value, str) else None
        return self.refuse(name, NO_DAY) if found is None else found

    def reais(self, name: str) -> int | None:
        """Read cents from a number of JSON like ``123.45``, or a text like it; zero is accepted too."""
        value, _ = self._take(name, inspect.FloatType)
        if value is None:
            return None
        # The shortest decimal of a double is what the caller wrote, for all permitted numbers of digits.
        text = repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
        found = _REAIS.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            return self.refuse(name, "deve ser um número com até 10 dígitos e 2 decimais, como 123.45")
        return int(found[1]) * 100 + int((found[2] or "").ljust(2, "0"))

    def integer(self, name: str, *, is_number: bool = False) -> int | None:
        """Read an integer, as a number or, unless ``is_number``, as a text of decimal digits."""
        value, described = self._take(name, inspect.IntType)
        if value is None:
            return None
        least, most = described.ge or 0, described.le or _INT32_MAX
        if isinstance(value, str) and not is_number and _INTEGER.fullmatch(value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            return self.refuse(name, f"deve ser um número inteiro de {least} a {most}")
        return value

    def boolean(self, name: str) -> bool | None:
        value, _ = self._take(name, inspect.BoolType)
        return value if value is None or isinstance(value, bool) else self.refuse(name, "deve ser true ou false")

    def choice(self, name: str, *, also: Sequence[str] = ()) -> str | None:
        """Read one of some words; the handler itself refuses those in ``also``."""
        value, described = self._take(name, inspect.LiteralType)
        if value is None:
            return None
        allowed = (*cast("Sequence[str]", described.values), *also)
        if value not in allowed:
            return self.refuse(name, f"deve ser {' ou '.join(allowed)}")
        return cast("str", value)

    def tax_id(self, name: str) -> str | None:
        """Read a CPF under ``cpf``, a CNPJ under ``cnpj``: without punctuation, with valid check digits."""
        value, _ = self._take(name, inspect.StrType)
        if value is None:
            return None
        if not isinstance(value, str) or not _TAX_IDS[name][0](value):
            return self.refuse(name, _TAX_IDS[name][1])
        return value

    def cpf_or_cnpj(self, name: str) -> str | None:
        """Read a CPF or a CNPJ, without punctuation."""
        text = self.text(name)
        if text is not None and not tax_id.is_cpf(text) and not tax_id.is_cnpj(text):
            self.refuse(name, "deve ser um CPF ou CNPJ sem máscara, com dígitos verificadores corretos")
        return text

    def pix_key(self, name: str, *, length_max: int | None = None) -> PixKey | None:
        """Read a Pix key, with or without punctuation; ``length_max`` as for ``text``."""
        sent = self.text(name, length_max=length_max)
        try:
            return None if sent is None else holder.parse_pix_key(sent)
        except errors.InvalidPixKey:
            return self.refuse(name, NO_PIX_KEY)

    def object(self, name: str) -> Members | None:
        value, described = self._take(name, inspect.StructType)
        if value is None:
            return None
        if not isinstance(value, dict):
            return self.refuse(name, "deve ser um objeto")
        return self._below(name, described, cast("dict[str, object]", value))

    def objects(self, name: str) -> list[Members] | None:
        """Read the members of each object of a list, whose paths have its number, from 0."""
        value, described = self._take(name, inspect.ListType)
        if value is None:
            return None
        count_max = described.max_length or 0
        items = cast("list[object]", value) if isinstance(value, list) else None
        if items is None or len(items) > count_max:
            return self.refuse(name, f"deve ser uma lista de no máximo {count_max} objetos")
        found: list[Members] = []
        for number, item in enumerate(items):
            if isinstance(item, dict):
                found.append(self._below(f"{name}[{number}]", described.item_type, cast("dict[str, object]", item)))
            else:
                self.violations.add(f"{self._prefix}{name}[{number}]", "deve ser um objeto", item)
        return found

    def texts(self, name: str) -> list[str] | None:
        """Read a list of texts, each of the record's pattern."""
        value, described = self._take(name, inspect.ListType)
        if value is None:
            return None
        least, most = described.min_length or 0, described.max_length or 0
        items = cast("list[object]", value) if isinstance(value, list) else None
        if items is None or not least <= len(items) <= most:
            return self.refuse(name, f"deve ser uma lista de {least} a {most} textos")
        pattern = cast("inspect.StrType", _strip(described.item_type)).pattern or ""
        for number, item in enumerate(items):
            if not isinstance(item, str) or not re.fullmatch(pattern, item):
                self.violations.add(f"{self._prefix}{name}[{number}]", "não tem a forma esperada", item)
        return [item for item in items if isinstance(item, str)]

    def _below(self, name: str, described: inspect.Type, members: Mapping[str, object]) -> Members:
        record = cast("inspect.StructType", described).cls
        return Members(self.violations, record, members, f"{self._prefix}{name}", refuses_null=self._refuses_null)

    def _take(self, name: str, kind: type[TypeT]) -> tuple[object, TypeT]:
        is_required, described = self._record[name]
        if not isinstance(described, kind):
            raise _misread(name)
        if (value := self._members.get(name)) is not None:
            return value, described
        if self._refuses_null and name in self._members:
            self.violations.add(f"{self._prefix}{name}", "não pode ser nulo", "null")
        elif is_required:
            self.refuse(name, _MISSING)
        return None, described


@cache
def list_members(record: type[Struct]) -> Mapping[str, tuple[bool, inspect.Type]]:
    """List for each member whether it is required, and its permitted values."""
    fields = cast("inspect.StructType", inspect.type_info(record)).fields
    return {field.encode_name: (field.required, _strip(field.type)) for field in fields}


def _misread(name: str) -> errors.InvariantBroken:
    return errors.InvariantBroken(f"{name} is read as something else than it is described as")


def _strip(described: inspect.Type) -> inspect.Type:
    # An optional member is this or None.
    if isinstance(described, inspect.UnionType):
        (described,) = (each for each in described.types if not isinstance(each, inspect.NoneType))
    return described.type if isinstance(described, inspect.Metadata) else described


class Parameters:
    """The sent parameters of a query, under the limits of its record; without one the reader has the limits."""

    def __init__(self, violations: Violations, values: Mapping[str, str], record: type[Struct] | None = None) -> None:
        self.violations = violations
        self.raise_if_any = violations.raise_if_any
        self._values = values
        self._record = None if record is None else list_members(record)

    def or_under(self, record: type[Struct]) -> Parameters:
        """Apply the limits of ``record``, unless these parameters have a record of their own."""
        return Parameters(self.violations, self._values, record) if self._record is None else self

    def refuse(self, name: str, reason: str) -> None:
        self.violations.add(name, reason, self._values.get(name))

    def text(self, name: str, pattern: re.Pattern[str] | None = None) -> str | None:
        value = self._values.get(name)
        if value is None or re.fullmatch(pattern or self._describe(name, inspect.StrType).pattern or "", value):
            return value
        return self.refuse(name, "não tem a forma esperada")

    def instant(self, name: str) -> datetime | None:
        text = self._values.get(name)
        if text is None:
            is_required = self._record is not None and self._record[name][0]
            return self.refuse(name, _MISSING) if is_required else None
        try:
            return decoding.read_instant(name, text)
        except errors.BadRequest:
            return self.refuse(name, "deve ser um instante RFC 3339 com fuso, como 2026-01-31T12:00:00Z")

    def day(self, name: str) -> date | None:
        """Read an existing day like ``2026-12-31``."""
        text = self._values.get(name)
        if text is None:
            return None
        return parse_day(text) or self.refuse(name, NO_DAY)

    def integer(self, name: str, *, least: int | None = None, most: int = _INT32_MAX) -> int | None:
        text = self._values.get(name)
        if text is None:
            return None
        if least is None:
            described = self._describe(name, inspect.IntType)
            least, most = described.ge or 0, described.le or _INT32_MAX
        if not _INTEGER.fullmatch(text) or not least <= int(text) <= most:
            return self.refuse(name, f"deve ser um número inteiro de {least} a {most}")
        return int(text)

    def boolean(self, name: str) -> bool | None:
        text = self._values.get(name)
        if text in (None, "true", "false"):
            return None if text is None else text == "true"
        return self.refuse(name, "deve ser true ou false")

    def choice(self, name: str, allowed: Sequence[ChoiceT]) -> ChoiceT | None:
        text = self._values.get(name)
        if text is None or text in allowed:
            return cast("ChoiceT | None", text)
        return self.refuse(name, f"deve ser {' ou '.join(allowed)}")

    def tax_id(self, name: str) -> str | None:
        """Read a CPF under ``cpf``, a CNPJ under ``cnpj``."""
        text = self._values.get(name)
        if text is None or _TAX_IDS[name][0](text):
            return text
        return self.refuse(name, _TAX_IDS[name][1])

    def _describe(self, name: str, kind: type[TypeT]) -> TypeT:
        _, described = (self._record or {})[name]
        if not isinstance(described, kind):
            raise _misread(name)
        return described


def parse_day(text: str) -> date | None:
    """Parse a day of the calendar as RFC 3339 writes it; ``None`` if it is none."""
    try:
        return date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        return None


def is_storable(text: str) -> bool:
    """Whether PostgreSQL and UTF-8 can store it: neither NUL nor half a surrogate pair."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text))


_TAX_IDS: Final[Mapping[str, tuple[Callable[[str], bool], str]]] = {
    "cpf": (tax_id.is_cpf, "deve ser um CPF de 11 dígitos, sem máscara, com dígitos verificadores corretos"),
    "cnpj": (tax_id.is_cnpj, "deve ser um CNPJ de 14 caracteres, sem máscara, com dígitos verificadores corretos"),
}
