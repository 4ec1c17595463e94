"""Fingerprints of requests: they distinguish a replay from a conflict under one ``external_id``.

Stored fingerprints outlive the program that wrote them. So only fields that differ from their defaults are hashed: a request
may gain an optional field, and older requests keep their fingerprints. Any other change of the bytes (a field's name, a
request's ``operation``, the encoding) needs a new version beside these; ``test_fingerprint.py`` pins them. Names of fields in
the API do not count: the API may name a request's fields differently.

- Version 1, 16 bytes: the hash of all fields that existed then, with the request's name in place of ``external_id``.
- Version 2, the byte ``02`` and 16 more: the hash of the request's operation and of the fields that differ from their defaults.
- Version 3, the byte ``03`` and 16 more, for a request whose row has all hashed fields: the same by SHA-256, with fields in
  their stored form. ``verify`` computes it again from the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from hashlib import blake2b, sha256
from typing import Any, ClassVar, Protocol

import msgspec

_VERSION, _KEPT_VERSION = b"\x02", b"\x03"
_HASH_SIZE = 16
_encode = msgspec.json.Encoder(order="sorted").encode

_FIRST_FIELDS: dict[str, tuple[str, frozenset[str]]] = {
    "charge": ("ChargeRequest", frozenset({"amount_cents", "key", "payer"})),
    "transfer by key": ("KeyTransferRequest", frozenset({"amount_cents", "key", "key_type"})),
    "transfer by account": ("AccountTransferRequest", frozenset({"amount_cents", "credit_party"})),
    "transfer by QR code": ("QrCodeTransferRequest", frozenset({"amount_cents", "br_code"})),
    "refund": ("RefundRequest", frozenset({"end_to_end_id", "amount_cents", "reason", "description"})),
}
"""The name of each operation's request in version 1, and its hashed fields."""


class IdempotentRequest(Protocol):
    """A client's request, as it was sent."""

    operation: ClassVar[str]

    @property
    def external_id(self) -> str | None: ...


def fingerprint(request: IdempotentRequest) -> bytes:
    """Hash a client's request: the operation, and its fields as sent, or as stored."""
    contents = {"type": request.operation} | _sent(request)
    kept_forms: Mapping[str, Callable[[Any], Any]] | None = getattr(type(request), "kept_forms", None)
    if kept_forms is None:
        return _VERSION + _hash(contents)
    contents |= {name: keep(contents[name]) for name, keep in kept_forms.items()}
    return _KEPT_VERSION + sha256(_encode(contents)).digest()[:_HASH_SIZE]


def was_made_by(stored: bytes, request: IdempotentRequest) -> bool:
    """Whether a stored fingerprint, of any version, belongs to this request."""
    # Only version 1 has no version byte in front.
    if len(stored) == _HASH_SIZE:
        return stored == _first_fingerprint(request)
    if stored.startswith(_VERSION):
        return stored == _VERSION + _hash({"type": request.operation} | _sent(request))
    return stored == fingerprint(request)


def _first_fingerprint(request: IdempotentRequest) -> bytes | None:
    name, fields = _FIRST_FIELDS[request.operation]
    # Version 1 does not cover later fields, so a request that sets one is another request.
    if not _sent(request).keys() <= fields:
        return None
    return _hash({field: getattr(request, field) for field in fields} | {"external_id": name})


def _sent(request: IdempotentRequest) -> dict[str, Any]:
    """The fields that differ from their defaults, by our names for them."""
    # Without the external_id: fingerprints are compared under it, and the service may have generated it.
    return {
        name: value
        for name, default in _defaults(type(request)).items()
        if (value := getattr(request, name)) != default and name != "external_id"
    }


@cache
def _defaults(kind: type[Any]) -> dict[str, Any]:
    return {field.name: field.default for field in msgspec.structs.fields(kind)}


def _hash(contents: dict[str, Any]) -> bytes:
    return blake2b(_encode(contents), digest_size=_HASH_SIZE).digest()
