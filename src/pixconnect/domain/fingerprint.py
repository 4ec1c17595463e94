"""Fingerprints of requests: they tell a replay from a conflict under one ``external_id``.

What is stored outlives the program that wrote it. So only what differs from its default is hashed: a request may gain
an optional field, and the requests of yesterday keep their fingerprints. Any other change of the bytes (a field's name,
a request's tag, the encoding) needs a new version beside these; ``test_fingerprint.py`` pins them.

- Version 1, 16 bytes: the hash of all fields that existed then, with the request's name in place of ``external_id``.
- Version 2, the byte ``02`` and 16 more: the hash of the request's tag and of its fields that differ from defaults.
"""

from hashlib import blake2b

import msgspec
from msgspec import Struct

_VERSION = b"\x02"
_HASH_SIZE = 16
_encode = msgspec.json.Encoder(order="sorted").encode

_FIRST_FIELDS: dict[str, frozenset[str]] = {
    "ChargeRequest": frozenset({"amount_cents", "key", "payer"}),
    "KeyTransferRequest": frozenset({"amount_cents", "key", "key_type"}),
    "AccountTransferRequest": frozenset({"amount_cents", "credit_party"}),
    "QrCodeTransferRequest": frozenset({"amount_cents", "br_code"}),
    "RefundRequest": frozenset({"end_to_end_id", "amount_cents", "reason", "description"}),
}
"""What version 1 hashed of each request."""


def fingerprint(request: Struct) -> bytes:
    """Hash a request: its tag, and its fields as they were sent, without those that have their default."""
    # Without the external_id: fingerprints are compared under it, and the service may have made it.
    return _VERSION + _hash(_encode(msgspec.structs.replace(request, external_id=None)))


def was_made_by(stored: bytes, request: Struct) -> bool:
    """Whether a stored fingerprint, of either version, is that of this request."""
    # Only version 1 has no version byte in front.
    if len(stored) == _HASH_SIZE:
        return stored == _first_fingerprint(request)
    return stored == fingerprint(request)


def _first_fingerprint(request: Struct) -> bytes | None:
    name = type(request).__name__
    fields = msgspec.structs.asdict(request)
    sent = msgspec.to_builtins(request).keys() - {"external_id", "type"}
    # Version 1 knew nothing of later fields, so a request that sets one is another request.
    if not sent <= _FIRST_FIELDS[name]:
        return None
    return _hash(_encode({field: fields[field] for field in _FIRST_FIELDS[name]} | {"external_id": name}))


def _hash(contents: bytes) -> bytes:
    return blake2b(contents, digest_size=_HASH_SIZE).digest()
