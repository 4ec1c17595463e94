"""A row of the operations table, prepared for serving; and the header ``Idempotency-Key``.

The header's value is a string of structured fields (RFC 9651, 3.3.3), or, as many libraries send it, the same without quotes.
It becomes the request's ``external_id`` before any other step, so it is no part of the fingerprint, and a repeated request may
use either place.

Source: draft-ietf-httpapi-idempotency-key-header-07.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar, cast
from urllib.parse import unquote_to_bytes

from msgspec import Struct, structs

from pixconnect.doors.api import decoding
from pixconnect.doors.api.decoding import BODY_MAX
from pixconnect.doors.api.operation import AnyOperation, Nothing, Reader
from pixconnect.platform.base import errors
from pixconnect.platform.http.exchange import Receive

NAME: Final = "Idempotency-Key"
HEADER: Final = NAME.lower().encode()
LENGTH_MAX: Final = 255  # the maximum of an ``external_id``

# Printable ASCII, in which a backslash precedes each quote and each backslash.
_QUOTED: Final = re.compile(rb'"((?:[ !#-\[\]-~]|\\["\\])*)"')
_ESCAPED: Final = re.compile(rb"\\(.)")
# No blank, quote or comma: a repeated header arrives here joined with a comma, and must not pass for one key.
_BARE: Final = re.compile(rb"[!#-+\--~]*")


class _HasExternalId(Protocol):
    @property
    def external_id(self) -> str | None: ...


BodyT = TypeVar("BodyT", bound=_HasExternalId)


def is_taken_by(row: AnyOperation) -> bool:
    """Whether the operation makes a resource that its caller names."""
    return "external_id" in row.body.__struct_fields__


def apply(value: bytes, body: BodyT) -> BodyT:
    """Return the body with the header's key as its ``external_id``."""
    key = read(value)
    if body.external_id is None:
        return cast(BodyT, structs.replace(cast(Struct, body), external_id=key))
    if body.external_id != key:
        raise errors.BadRequest(f"{NAME}: must be equal to external_id; or leave one of the two out")
    return body


def read(value: bytes) -> str:
    r"""The key in a header.

    Example:
        >>> read(rb'"order \"7\""'), read(b"order-7")
        ('order "7"', 'order-7')
    """
    value = value.strip(b" \t")
    if quoted := _QUOTED.fullmatch(value):
        key = _ESCAPED.sub(rb"\1", quoted[1])
    elif _BARE.fullmatch(value):
        key = value
    else:
        raise errors.BadRequest(
            f"{NAME}: must be one key of printable ASCII characters; "
            'one with blanks, commas or quotes stands between quotes, like "order 7"'
        )
    if not 1 <= len(key) <= LENGTH_MAX:
        raise errors.BadRequest(f"{NAME}: must have 1 to {LENGTH_MAX} characters")
    return key.decode("ascii")


_PAGE_SIZE_SHORT = 100
_REPLAY = "replay_events"
_NOTHING = Nothing()


class PreparedOperation(Struct, frozen=True, kw_only=True):
    operation: AnyOperation
    is_public: bool
    scope: str | None
    has_body: bool
    is_change: bool  # whether it may change something: then its origin is recorded
    is_always_long: bool
    is_paged: bool  # whether its query may name the size of a page
    takes_idempotency_key: bool
    read_path: Callable[[Sequence[bytes]], Any] | None  # ``None`` if the path has no parameter
    read_query: Callable[[bytes], Any]
    read_body: Callable[[bytes, Mapping[bytes, bytes]], Any]

    def decode(
        self, raw_parameters: Sequence[bytes], raw_query: bytes, raw_body: bytes, headers: Mapping[bytes, bytes]
    ) -> tuple[Any, Any, Any]:
        """Decode the parameter of the path, the query and the body; raises a ``Refusal`` for malformed ones."""
        parameter = None
        if self.read_path is not None:
            parameter = self.read_path([unquote_to_bytes(raw) for raw in raw_parameters])
        query = self.read_query(raw_query)
        body: Any = self.read_body(raw_body, headers) if self.has_body else _NOTHING
        if self.takes_idempotency_key and (key := headers.get(HEADER)) is not None:
            body = apply(key, body)
        return parameter, query, body

    def is_long(self, query: object) -> bool:
        """Whether a request takes as long as a hundred others."""
        return self.is_always_long or (self.is_paged and getattr(query, "page_size", 0) > _PAGE_SIZE_SHORT)


@functools.cache
def prepare(operation: AnyOperation) -> PreparedOperation:
    reader = operation.reader or _make_reader(operation)
    return PreparedOperation(
        operation=operation,
        is_public=operation.scope is None,
        scope=None if operation.scope == "any" else operation.scope,
        has_body=operation.body is not Nothing,
        is_change=operation.scope is not None and operation.method != "GET",
        is_always_long=operation.body_max > BODY_MAX or operation.id == _REPLAY,
        is_paged=hasattr(operation.query, "page_size"),
        takes_idempotency_key=is_taken_by(operation),
        read_path=reader.path if "{" in operation.path else None,
        read_query=reader.query,
        read_body=reader.body,
    )


def _make_reader(operation: AnyOperation) -> Reader:
    read, name = operation.parameter.read, operation.parameter.name
    return Reader(
        path=lambda raw: read(decoding.decode_parameter(name, raw[0])),
        query=decoding.QueryDecoder(operation.query).decode,
        body=decoding.BodyDecoder(operation.body, operation.body_form).decode,
    )


def read_headers(raw: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return the headers by name; values of a repeated one are joined with commas (RFC 9110, 5.3)."""
    headers = dict(raw)
    if len(headers) != len(raw):
        headers = {}
        for name, value in raw:
            headers[name] = headers[name] + b", " + value if name in headers else value
    return headers


async def receive_body(headers: Mapping[bytes, bytes], receive: Receive, octets_max: int) -> bytes:
    """The whole body; raises ``PayloadTooLarge``."""
    # A declared length that is too large is refused unread; chunks are counted as they come.
    if int(headers.get(b"content-length", b"0")) > octets_max:
        raise too_large(octets_max)
    message = await receive()
    first: bytes = message.get("body", b"")
    count = len(first)
    # Nearly every body comes whole.
    if not message.get("more_body") and count <= octets_max:
        return first
    parts = [first]
    while message.get("more_body") and count <= octets_max:
        message = await receive()
        parts.append(message.get("body", b""))
        count += len(parts[-1])
    if count > octets_max:
        raise too_large(octets_max)
    # Joined once: a long one comes in hundreds of parts.
    return b"".join(parts)


def too_large(octets_max: int) -> errors.PayloadTooLarge:
    return errors.PayloadTooLarge(f"body: must have at most {octets_max} bytes")
