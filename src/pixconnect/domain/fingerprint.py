"""Tells a replay from a conflict: two requests of one ``external_id`` have the same contents or they do not.

What is stored outlives the program that wrote it. So only what differs from its default is hashed: a request may gain an
optional field, and the requests of yesterday keep their fingerprints. Anything else that would change the bytes (a field's
name, a request's tag, the encoding) needs a new version beside the ones that are here; ``test_fingerprint.py`` pins them.

- Version 1, 16 bytes: the hash of all the fields that there were then, with the request's name in place of ``external_id``.
- Version 2, the byte ``02`` and 16 more: the hash of the request's tag and of those fields that differ from their defaults.
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
"""By request: what version 1 hashed. It knows nothing of later fields, so a request that sets one is another request."""


def fingerprint(request: Struct) -> bytes:
    """What stands for the contents of a request, as it is stored now.

    The operation counts, defaults count as if they had been sent, the order of fields does not, and texts are taken as they
    were sent. ``external_id`` is left out: it is what the fingerprint is compared under, and the service may have made it.

    Args:
        request: One of the request records: tagged with its operation, and leaving out defaults when it is encoded.
    """
    return _VERSION + _hash(_encode(msgspec.structs.replace(request, external_id=None)))


def was_made_by(stored: bytes, request: Struct) -> bool:
    """Whether a stored fingerprint, of whichever version, is that of this request."""
    if len(stored) == _HASH_SIZE:  # without a version in front: the first
        return stored == _first_fingerprint(request)
    return stored == fingerprint(request)


def _first_fingerprint(request: Struct) -> bytes | None:
    name = type(request).__name__
    fields = msgspec.structs.asdict(request)
    sent = msgspec.to_builtins(request).keys() - {"external_id", "type"}
    if not sent <= _FIRST_FIELDS[name]:
        return None
    return _hash(_encode({field: fields[field] for field in _FIRST_FIELDS[name]} | {"external_id": name}))


def _hash(contents: bytes) -> bytes:
    return blake2b(contents, digest_size=_HASH_SIZE).digest()
