"""The header ``Idempotency-Key``: another place for a request's ``external_id``.

Its value is a string of structured fields (RFC 9651, 3.3.3), or, as many libraries send it, the same without quotes. It becomes
the request's ``external_id`` before anything else looks at it, so it is no part of the fingerprint, and a request that comes
again may use either place.

Source:
    draft-ietf-httpapi-idempotency-key-header-07.
"""

from __future__ import annotations

import re
from typing import Final, Protocol, TypeVar, cast

from msgspec import Struct, structs

from pixconnect.api.frame.operation import AnyOperation
from pixconnect.domain.frame import errors

NAME: Final = "Idempotency-Key"
HEADER: Final = NAME.lower().encode()
LENGTH_MAX: Final = 255
"""As many as an ``external_id`` has."""

# Printable ASCII, in which a backslash stands before each quote and each backslash.
_QUOTED: Final = re.compile(rb'"((?:[ !#-\[\]-~]|\\["\\])*)"')
_ESCAPED: Final = re.compile(rb"\\(.)")
# No blank, quote or comma: a header that came twice arrives here joined with a comma, and must not pass for one key.
_BARE: Final = re.compile(rb"[!#-+\--~]*")


class _HasExternalId(Protocol):
    @property
    def external_id(self) -> str | None: ...


BodyT = TypeVar("BodyT", bound=_HasExternalId)


def is_taken_by(row: AnyOperation) -> bool:
    """Whether the operation makes something that a caller names."""
    return "external_id" in row.body.__struct_fields__


def apply(value: bytes, body: BodyT) -> BodyT:
    """The body with the header's key as its ``external_id``."""
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
