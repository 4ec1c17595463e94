"""From bytes to records: bodies, queries and path parameters, and what to say when they are not as declared.

A body is first read by msgspec alone, which is fast and right for what is right. Whatever it refuses, and whatever holds an
escape that could hide a NUL or half a character, is read again at leisure, as the contract wants it:

- of a key that stands twice the last counts, whatever stood before it;
- an integer may be however long: it is cut to ``HUGE``, far outside of any range, and is so never "of the wrong type";
- NUL and lone surrogates, which PostgreSQL and UTF-8 cannot hold, are refused by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Final, Generic, NoReturn, TypeVar, cast
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import inspect

from pixconnect.api.violation import alternatives, find_violation, show_name
from pixconnect.domain import errors

Record = TypeVar("Record")

BODY_MAX: Final = 64 * 1024
"""Bytes of a body at most."""

HUGE: Final = 2**63 - 1
"""Integers beyond this, either way, are cut to it: no number of ours comes near."""

_SUSPICIOUS: Final = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")
_INSTANT: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])([01]\d|2[0-3]):([0-5]\d))", re.ASCII
)


class BodyDecoder(Generic[Record]):
    """Reads the bodies of one operation.

    Args:
        record: What they must be.
        form: ``json`` or ``form`` (``application/x-www-form-urlencoded``).
    """

    def __init__(self, record: type[Record], form: str) -> None:
        self._record = record
        self._is_json = form == "json"
        self._media_type = b"application/json" if self._is_json else b"application/x-www-form-urlencoded"
        self._read_fast = msgspec.json.Decoder(record).decode

    def decode(self, body: bytes, headers: Mapping[bytes, bytes]) -> Record:
        """Read a body.

        Raises:
            BadRequest: It is not what it must be; the message names the field.
        """
        if headers.get(b"content-type") != self._media_type:
            self._check_content_type(headers.get(b"content-type"))
        if b"content-encoding" in headers and headers[b"content-encoding"].strip().lower() not in (b"", b"identity"):
            raise errors.BadRequest("Content-Encoding: must be identity")
        if not self._is_json:
            return _convert(_read_form(body), self._record)
        if b"\\u" not in body or not _SUSPICIOUS.search(body):
            try:
                return self._read_fast(body)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                pass
        return _convert(_read_json(body), self._record)

    def _check_content_type(self, given: bytes | None) -> None:
        if given is None or given.partition(b";")[0].strip().lower() != self._media_type:
            raise errors.BadRequest(f"Content-Type: must be {self._media_type.decode()}")


class QueryDecoder(Generic[Record]):
    """Reads the queries of one operation.

    Args:
        record: What they must be. One that does not forbid unknown fields ignores them.
    """

    def __init__(self, record: type[Record]) -> None:
        self._record = record
        struct = inspect.type_info(record)
        assert isinstance(struct, inspect.StructType), record
        self._is_strict = struct.forbid_unknown_fields
        self._ignores_everything = not struct.fields and not self._is_strict
        self._readers = {field.encode_name: _reader(field) for field in struct.fields}
        is_empty_enough = not any(field.required for field in struct.fields)
        self._of_nothing = msgspec.convert({}, record) if is_empty_enough else None

    def decode(self, query: bytes) -> Record:
        """Read a query.

        Args:
            query: As it was sent, without the question mark. A plus is a plus, not a space: no value of ours has a
                space, and the offsets of instants have a plus that callers forget to encode.

        Raises:
            BadRequest: It is not what it must be; the message names the parameter.
        """
        if self._of_nothing is not None and (not query or self._ignores_everything):
            return self._of_nothing
        values: dict[str, object] = {}
        for part in query.split(b"&"):
            if part:
                raw_name, _, raw_value = part.partition(b"=")
                name = _text(raw_name, "query")
                self._take(values, name, raw_value)
        return _convert(values, self._record)

    def _take(self, values: dict[str, object], name: str, raw_value: bytes) -> None:
        read = self._readers.get(name)
        if read is None:
            if self._is_strict:
                raise errors.BadRequest(f"{show_name(name)}: unknown query parameter")
            return
        if name in values:
            raise errors.BadRequest(f"{name}: stands twice in the query")
        values[name] = read(name, _text(raw_value, name))


def read_integer(name: str, text: str) -> int:
    """An integer in a path or query, cut to ``HUGE``.

    Raises:
        BadRequest: It is none; the message names it.
    """
    if not _INTEGER.fullmatch(text):
        raise errors.BadRequest(f"{name}: must be an integer")
    return _cut(text)


def read_boolean(name: str, text: str) -> bool:
    """A boolean in a query.

    Raises:
        BadRequest: It is neither ``true`` nor ``false``.
    """
    if text not in ("true", "false"):
        raise errors.BadRequest(f"{name}: must be true or false")
    return text == "true"


def read_instant(name: str, text: str) -> datetime:
    """An instant as callers send it: any offset, any fraction (cut at microseconds).

    Raises:
        BadRequest: It has another form, lacks its offset, or names a day or time that does not exist.

    Example:
        >>> read_instant("final_date", "2026-01-31t21:00:00.1234567-03:00").isoformat()
        '2026-02-01T00:00:00.123456+00:00'
    """
    found = _INSTANT.fullmatch(text)
    if found is None:
        raise errors.BadRequest(f"{name}: must be an RFC 3339 date-time with an offset, like 2026-01-31T12:00:00Z")
    year, month, day, hour, minute, second, fraction, sign, offset_hours, offset_minutes = found.groups("0")
    try:
        offset = timedelta(hours=int(offset_hours), minutes=int(offset_minutes)) * (-1 if sign == "-" else 1)
        return datetime(
            *(int(year), int(month), int(day), int(hour), int(minute), int(second), int(f"{fraction:0<6}"[:6])),
            tzinfo=timezone(offset),
        ).astimezone(UTC)
    except (ValueError, OverflowError):
        raise errors.BadRequest(f"{name}: there is no such date and time") from None


def read_text(name: str, text: str, length_max: int | None = None) -> str:
    """A text in a path or query.

    Raises:
        BadRequest: It holds NUL, or is too long.
    """
    if "\0" in text:
        raise errors.BadRequest(f"{name}: must not contain NUL")
    if length_max is not None and len(text) > length_max:
        raise errors.BadRequest(f"{name}: must have at most {length_max} characters")
    return text


def decode_parameter(name: str, octets: bytes) -> str:
    """A path parameter as text.

    Raises:
        BadRequest: It is not UTF-8, or holds NUL.
    """
    try:
        return read_text(name, octets.decode())
    except UnicodeDecodeError:
        raise errors.BadRequest(f"{name}: must be percent-encoded UTF-8") from None


def _reader(field: inspect.Field) -> Callable[[str, str], object]:
    # ``None`` beside a type means that the parameter may be left out.
    (kind,) = (kind for kind in alternatives(field.type) if not isinstance(kind, inspect.NoneType))
    match kind:
        case inspect.IntType():
            return read_integer
        case inspect.BoolType():
            return read_boolean
        case inspect.DateTimeType():
            return read_instant
        case inspect.StrType() | inspect.LiteralType():
            return read_text
        case _:
            raise AssertionError(f"{field.name}: no query has a {kind}")


def _text(octets: bytes, name: str) -> str:
    try:
        return (unquote_to_bytes(octets) if b"%" in octets else octets).decode()
    except UnicodeDecodeError:
        raise errors.BadRequest(f"{name}: must be percent-encoded UTF-8") from None


def _read_form(body: bytes) -> dict[str, object]:
    """The fields of a form; empty ones count as left out (RFC 6749, 3.2)."""
    fields: dict[str, object] = {}
    for part in body.replace(b"+", b" ").split(b"&"):
        raw_name, _, raw_value = part.partition(b"=")
        name = _text(raw_name, "body")
        if name in fields:
            raise errors.BadRequest(f"{show_name(name)}: stands twice in the body")
        if raw_value:
            fields[name] = read_text(show_name(name), _text(raw_value, show_name(name)))
    return fields


def _read_json(body: bytes) -> object:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise errors.BadRequest("body: must be UTF-8") from None
    try:
        found = json.loads(text, parse_int=_cut, parse_constant=_refuse_constant)
        bad = _find_bad_text(found, "")
    except (ValueError, RecursionError):
        raise errors.BadRequest("body: must be valid JSON") from None
    if bad is not None:
        raise errors.BadRequest(f"{bad or 'body'}: must not contain NUL or half a surrogate pair")
    return found


def _cut(text: str) -> int:
    if len(text) > 20:  # more than 19 digits, of which int() must not even be asked to read thousands
        return -HUGE if text.startswith("-") else HUGE
    return max(-HUGE, min(int(text), HUGE))


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _find_bad_text(value: object, path: str) -> str | None:
    """The path of the first text, or name, that cannot be kept."""
    match value:
        case str():
            return path if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value) else None
        case list():
            parts = [(path, part) for part in cast(list[object], value)]
        case dict():
            fields = cast(dict[str, object], value)
            if any(_find_bad_text(name, "") is not None for name in fields):
                return path
            parts = [(f"{path}.{name}" if path else name, part) for name, part in fields.items()]
        case _:
            return None
    return next((bad for where, part in parts if (bad := _find_bad_text(part, where)) is not None), None)


def _convert(value: object, record: type[Record]) -> Record:
    try:
        return msgspec.convert(value, record)
    except msgspec.ValidationError:
        raise errors.BadRequest(find_violation(value, record) or "body: must have the declared form") from None
