"""Decodes bytes into records (bodies, queries, path parameters), and describes what is malformed.

A body is first read by msgspec alone, which is fast, and right if the body is. A body that msgspec refuses, or that has an
escape which could hide a NUL or half a character, is read again, slowly, by the contract's rules:

- a member that occurs twice in an object is refused: of two amounts another reader would use the other one;
- an integer may have any length: it is cut to ``HUGE``, far outside of any range, so that it never has "the wrong type";
- NUL and lone surrogates, which PostgreSQL and UTF-8 cannot represent, are refused by name.

The slow reading takes fifty times as long, so bodies of ``READ_SLOWLY_MAX`` octets or more do not get it: if msgspec refuses
one, the message names the rule but no place. The fields of forms and queries are counted before they are split.
"""

import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Final, Generic, Literal, NoReturn, TypeVar, cast
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import inspect

from pixconnect.doors.api.violation import alternatives, find_violation, show_name
from pixconnect.platform.base import errors
from pixconnect.platform.json_members import count_elements, list_names, refuse_repeated, take_members

Record = TypeVar("Record")

BODY_MAX: Final = 64 * 1024  # in bytes; for operations without a limit in their row
FORM_MAX: Final = 4 * 1024  # in bytes
FORM_FIELDS_MAX: Final = 32
PARAMETERS_MAX: Final = 64  # the limit for a query
READ_SLOWLY_MAX: Final = 8 * 1024
ELEMENTS_MAX: Final = 256_000
"""Of a body that is larger than ``BODY_MAX``: a thousand charges with all permitted members have 191,000.

Commas in texts count too.
"""
ELEMENTS_SHORT_MAX: Final = 8192  # of any other body that is read as an object, without its texts

BodyForm = Literal["json", "form", "form or json"]
_JSON: Final = b"application/json"
_FORM: Final = b"application/x-www-form-urlencoded"
MEDIA_TYPES: Final[Mapping[BodyForm, tuple[bytes, ...]]] = {"json": (_JSON,), "form": (_FORM,), "form or json": (_FORM, _JSON)}

HUGE: Final = 2**63 - 1  # longer integers, negative ones too, are cut to this: it is far outside of every range

# An escaped NUL, or an escaped half of a surrogate pair, whether or not the other half follows.
_SUSPICIOUS: Final = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_NUL: Final = b"\\u0000"
# msgspec itself takes 16 us for a number near the largest or smallest one: a second for 400 KB of "1e308".
_read_any: Final = msgspec.json.Decoder(float_hook=float).decode
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
_UNREADABLE: Final = (
    "body: must be valid JSON of the declared form, without NUL and half surrogate pairs; bodies of less than "
    f"{READ_SLOWLY_MAX} bytes get the position of the fault"
)
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")
# ASCII, because \d matches the digits of every script otherwise.
_INSTANT: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])([01]\d|2[0-3]):([0-5]\d))", re.ASCII
)


class BodyDecoder(Generic[Record]):
    def __init__(self, record: type[Record], form: BodyForm) -> None:
        self._record = record
        self._media_types = MEDIA_TYPES[form]
        self._read_fast = msgspec.json.Decoder(record).decode
        self._names = list_names(record)

    def decode(self, body: bytes, headers: Mapping[bytes, bytes]) -> Record:
        # Most callers send exactly this type; any other is checked more closely.
        media_type = headers.get(b"content-type")
        if media_type not in self._media_types:
            # Parameters such as charset are allowed and ignored: JSON is UTF-8 in any case.
            media_type = (media_type or b"").partition(b";")[0].strip().lower()
            if media_type not in self._media_types:
                raise errors.BadRequest(f"Content-Type: must be {b' or '.join(self._media_types).decode()}")
        if b"content-encoding" in headers and headers[b"content-encoding"].strip().lower() not in (b"", b"identity"):
            raise errors.BadRequest("Content-Encoding: must be identity")
        if media_type == _FORM:
            return _convert(_read_form(body), self._record)
        # Readers may ignore it (RFC 8259, 8.1), and some programs write it.
        body = body.removeprefix(BOM_UTF8)
        is_long = len(body) >= READ_SLOWLY_MAX
        # msgspec refuses half a surrogate pair itself, though without naming it, and a long body's refusal names no field
        # anyway.
        if b"\\u" not in body or (_NUL not in body if is_long else not _SUSPICIOUS.search(body)):
            try:
                found = self._read_fast(body)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                pass  # it may still be valid; if not, the slow way finds a message
            else:
                refuse_repeated(body, self._names)
                return found
        if is_long:
            raise errors.BadRequest(_UNREADABLE)
        return _convert(_read_json(body), self._record)


class QueryDecoder(Generic[Record]):
    """Reads the queries of one operation; a record that does not forbid unknown fields ignores them."""

    def __init__(self, record: type[Record]) -> None:
        self._record = record
        struct = inspect.type_info(record)
        if not isinstance(struct, inspect.StructType):
            raise errors.InvariantBroken(record)
        self._is_strict = struct.forbid_unknown_fields
        self._ignores_everything = not struct.fields and not self._is_strict
        self._readers = {field.encode_name: _reader(field) for field in struct.fields}
        # Most requests have no query: its parsed form is made once.
        needs_nothing = not any(field.required for field in struct.fields)
        self._of_nothing = msgspec.convert({}, record) if needs_nothing else None

    def decode(self, query: bytes) -> Record:
        """Read a query, as it was sent, without the question mark."""
        if self._of_nothing is not None and (not query or self._ignores_everything):
            return self._of_nothing
        if query.count(b"&") >= PARAMETERS_MAX:
            raise errors.BadRequest(f"query: must have at most {PARAMETERS_MAX} parameters")
        values: dict[str, object] = {}
        for part in filter(None, query.split(b"&")):
            raw_name, _, raw_value = part.partition(b"=")
            # A plus stays a plus: no value has a space, and callers forget to encode the plus of an instant's offset.
            name = _text(raw_name, "query")
            if (read := self._readers.get(name)) is None:
                if self._is_strict:
                    raise errors.BadRequest(f"{show_name(name)}: unknown query parameter")
                continue
            if name in values:
                raise errors.BadRequest(f"{name}: stands twice in the query")
            values[name] = read(name, _text(raw_value, name))
        return _convert(values, self._record)


def read_object(body: bytes, names: Sequence[bytes] | None = None) -> dict[str, object] | None:
    """Return the members of a JSON object, of any types; ``None`` if the body is none. Texts are not checked.

    Args:
        names: As of ``refuse_repeated``.
    """
    body = body.removeprefix(BOM_UTF8)
    size = len(body)
    # A shorter one cannot have so many.
    if size > ELEMENTS_SHORT_MAX:
        most = ELEMENTS_MAX if size > BODY_MAX else ELEMENTS_SHORT_MAX
        if count_elements(body) > most and (size > BODY_MAX or count_elements(_drop_texts(body)) > most):
            raise errors.PayloadTooLarge(f"body: must have at most {most} members and elements")
    try:
        found: object = _read_any(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        if size >= READ_SLOWLY_MAX:
            return None
        # Numbers out of range and half characters are JSON all the same: the reader of such a member refuses it.
        try:
            found = json.loads(body.decode(), parse_int=_cut, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            return None
    if size <= BODY_MAX:
        refuse_repeated(body, names)
    return cast("dict[str, object]", found) if isinstance(found, dict) else None


def _drop_texts(body: bytes) -> bytes:
    # Without escaped quotes every second part is a text. Elsewhere a backslash ends the parsing.
    return b"".join(body.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])


def read_integer(name: str, text: str) -> int:
    """Read an integer in a path or query, cut to ``HUGE``; raises ``BadRequest``."""
    if not _INTEGER.fullmatch(text):
        raise errors.BadRequest(f"{name}: must be an integer")
    return _cut(text)


def read_boolean(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise errors.BadRequest(f"{name}: must be true or false")
    return text == "true"


def read_instant(name: str, text: str) -> datetime:
    """Read an instant as callers send it: any offset, any fraction (cut at microseconds).

    Example:
        >>> read_instant("final_date", "2026-01-31t21:00:00.1234567-03:00").isoformat()
        '2026-02-01T00:00:00.123456+00:00'
    """
    found = _INSTANT.fullmatch(text)
    if found is None:
        raise errors.BadRequest(f"{name}: must be an RFC 3339 date-time with an offset, like 2026-01-31T12:00:00Z")
    year, month, day, hour, minute, second, fraction, sign, offset_hours, offset_minutes = found.groups("0")
    try:
        # The offset is checked by the pattern, so only the date and time themselves can be wrong from here on.
        offset = timedelta(hours=int(offset_hours), minutes=int(offset_minutes)) * (-1 if sign == "-" else 1)
        # A fraction is filled up or cut to microseconds, PostgreSQL's precision.
        return datetime(
            *(int(year), int(month), int(day), int(hour), int(minute), int(second), int(f"{fraction:0<6}"[:6])),
            tzinfo=timezone(offset),
        ).astimezone(UTC)
    except (ValueError, OverflowError):
        raise errors.BadRequest(f"{name}: there is no such date and time") from None


def read_text(name: str, text: str, length_max: int | None = None) -> str:
    """Read a text in a path or query; raises ``BadRequest`` for NUL and beyond the length."""
    # PostgreSQL cannot store NUL in a text, and would fail as if the service had a defect.
    if "\0" in text:
        raise errors.BadRequest(f"{name}: must not contain NUL")
    if length_max is not None and len(text) > length_max:
        raise errors.BadRequest(f"{name}: must have at most {length_max} characters")
    return text


def decode_parameter(name: str, octets: bytes) -> str:
    """Return a path parameter as text; raises ``BadRequest`` if it is not UTF-8, or has NUL."""
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
            raise errors.InvariantBroken(f"{field.name}: no query has a {kind}")


def _text(octets: bytes, name: str) -> str:
    try:
        return (unquote_to_bytes(octets) if b"%" in octets else octets).decode()
    except UnicodeDecodeError:
        raise errors.BadRequest(f"{name}: must be percent-encoded UTF-8") from None


def _read_form(body: bytes) -> dict[str, object]:
    # Unlike in a query, a plus is a space here, and an empty field counts as left out (RFC 6749, 3.2).
    if len(body) > FORM_MAX or body.count(b"&") >= FORM_FIELDS_MAX:
        raise errors.BadRequest(f"body: a form must have at most {FORM_MAX} bytes and {FORM_FIELDS_MAX} fields")
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
        found = json.loads(text, parse_int=_cut, parse_constant=_refuse_constant, object_pairs_hook=take_members)
    except json.JSONDecodeError as error:
        raise errors.BadRequest(f"body: must be valid JSON; the fault is at character {error.pos + 1}") from None
    except (ValueError, RecursionError):
        raise errors.BadRequest("body: must be valid JSON") from None
    # Texts without an escape of this kind have neither: UTF-8 has no halves, and NUL must be escaped.
    bad = _find_bad_text(found) if _SUSPICIOUS.search(body) else None
    if bad is not None:
        raise errors.BadRequest(f"{bad or 'body'}: must not contain NUL or half a surrogate pair")
    return found


def _cut(text: str) -> int:
    # More than 19 digits and a sign: beyond HUGE for certain, and int() refuses texts of thousands of digits.
    if len(text) > 20:
        return -HUGE if text.startswith("-") else HUGE
    return max(-HUGE, min(int(text), HUGE))


# JSON has no NaN and no Infinity, which Python's reader accepts.
def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _find_bad_text(value: object) -> str | None:
    """Find the path of the first text, or of the object with the first name, that has NUL or half a surrogate pair."""
    # Values still to check, the next one last; each with the names that lead to it, the last one first.
    waiting: list[tuple[object, _Names]] = [(value, None)]
    while waiting:
        found, names = waiting.pop()
        if isinstance(found, str):
            # Surrogates that are no pair come out of Python's reader alone.
            if _UNSTORABLE.search(found):
                return _show_path(names)
        elif isinstance(found, list):
            waiting += [(part, names) for part in reversed(cast("list[object]", found))]
        elif isinstance(found, dict):
            fields = cast("dict[str, object]", found)
            if any(map(_UNSTORABLE.search, fields)):
                return _show_path(names)
            waiting += [(part, (name, names)) for name, part in reversed(fields.items())]
    return None


_Names = tuple[str, "_Names"] | None


def _show_path(names: _Names) -> str:
    parts: list[str] = []
    while names is not None:
        name, names = names
        parts.append(name)
    return ".".join(reversed(parts))


def _convert(value: object, record: type[Record]) -> Record:
    try:
        return msgspec.convert(value, record)
    except msgspec.ValidationError:
        raise errors.BadRequest(find_violation(value, record) or "body: must have the declared form") from None
