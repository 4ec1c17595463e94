"""Names on the network: the institution that generated them, the minute, and random characters.

::

    E 99999003 202611200753 a1B2c3D4e3F     an EndToEndId: one transfer, for as long as it lives
    D 99999003 202611200753 f5E4d3C2bA0     a return id: one refund
      ISPB     UTC minute   random

They are generated before the first try and kept through every retry: a second name would be a second transfer. Case counts.

Source: SPI message catalogue 5.13.1, pacs.008 EndToEndId and pacs.004 RtrId; Pix API 2.9.0, TxId.

Fingerprints of requests: they distinguish a replay from a conflict under one ``external_id``.

Stored fingerprints outlive the program that wrote them. So only fields that differ from their defaults are hashed: a request
may gain an optional field, and older requests keep their fingerprints. Any other change of the bytes (a field's name, a
request's ``operation``, the encoding) needs a new version beside these; ``test_fingerprint.py`` pins them. Names of fields in
the API do not count: the API may name a request's fields differently.

- Version 1, 16 bytes: the hash of all fields that existed then, with the request's name in place of ``external_id``.
- Version 2, the byte ``02`` and 16 more: the hash of the request's operation and of the fields that differ from their defaults.
- Version 3, the byte ``03`` and 16 more, for a request whose row has all hashed fields: the same by SHA-256, with fields in
  their stored form. ``verify`` computes it again from the row.
"""

import re
import string
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from hashlib import blake2b, sha256
from typing import Any, ClassVar, Final, Protocol

import msgspec

from pixconnect.platform.base.entropy import Entropy

EndToEndId = str

ReturnId = str

Txid = str  # ``[a-zA-Z0-9]{26,35}``; ours have 32 characters

_DIGITS: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_PAIRS: Final = tuple(first + second for first in _DIGITS for second in _DIGITS)
"""Base 62 two digits at a time, in the order of ASCII, so that names sort as their numbers do."""

# The ISPB, the minute in UTC, and 11 random characters.
_NETWORK_ID: Final = r"[0-9A-Z]{8}[0-9]{4}[0-1][0-9][0-3][0-9][0-2][0-9][0-5][0-9][a-zA-Z0-9]{11}"
_END_TO_END_ID: Final = re.compile("E" + _NETWORK_ID)
_RETURN_ID: Final = re.compile("D" + _NETWORK_ID)
_TXID: Final = re.compile(r"[a-zA-Z0-9]{26,35}")


def make_end_to_end_id(ispb: str, instant: datetime, entropy: Entropy) -> EndToEndId:
    return f"E{ispb}{_minute(instant.replace(second=0, microsecond=0))}{entropy.token(11)}"


def make_return_id(ispb: str, instant: datetime, entropy: Entropy) -> ReturnId:
    return f"D{ispb}{_minute(instant.replace(second=0, microsecond=0))}{entropy.token(11)}"


@lru_cache(maxsize=4)
def _minute(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y%m%d%H%M}"


def make_txid(instant: datetime, entropy: Entropy) -> Txid:
    """Generate a txid: 8 characters that rise with time, then 24 with 142 random bits against guessing."""
    # Rising names go to one end of their index, so PostgreSQL touches, and writes in full, few of its pages.
    rest, fourth = divmod(int(instant.timestamp() * 1000), 3844)
    rest, third = divmod(rest, 3844)
    first, second = divmod(rest, 3844)
    return _PAIRS[first] + _PAIRS[second] + _PAIRS[third] + _PAIRS[fourth] + entropy.token(24)


def is_end_to_end_id(text: str) -> bool:
    return _END_TO_END_ID.fullmatch(text) is not None


def is_return_id(text: str) -> bool:
    return _RETURN_ID.fullmatch(text) is not None


def names_a_transfer(name: str) -> bool:
    """Whether the scheme's name of an order is a transfer's; otherwise it is a refund's.

    Only for known ids: for other texts use ``is_end_to_end_id``.
    """
    return name.startswith("E")


def is_of_another(text: str, ispb: str) -> bool:
    """Whether another institution generated this name; ``False`` for a text that is no name."""
    return (is_end_to_end_id(text) or is_return_id(text)) and text[1:9] != ispb


def minute_of_name(text: str) -> datetime | None:
    """Read the minute in a transfer's or refund's name; ``None`` for any other text."""
    if not is_end_to_end_id(text) and not is_return_id(text):
        return None
    try:
        # Not strptime, which takes eight times as long: each order is checked by this.
        return datetime(int(text[9:13]), int(text[13:15]), int(text[15:17]), int(text[17:19]), int(text[19:21]), tzinfo=UTC)
    except ValueError:
        # The pattern admits months and days that do not exist.
        return None


def is_txid(text: str) -> bool:
    # A static code carries a shorter txid, which is no charge's name.
    return _TXID.fullmatch(text) is not None


_VERSION, _KEPT_VERSION, _BOTH_VERSION = b"\x02", b"\x03", b"\x04"
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
    operation: ClassVar[str]

    @property
    def external_id(self) -> str | None: ...


def fingerprint(request: IdempotentRequest) -> bytes:
    """Hash a client's request: the operation, and its fields as stored, where ``verify`` needs them, and as sent."""
    contents = _describe(request)
    kept_forms: Mapping[str, Callable[[Any], Any]] | None = getattr(type(request), "kept_forms", None)
    if kept_forms is None:
        return _VERSION + _hash(contents)
    kept = contents | {name: keep(contents[name]) for name, keep in kept_forms.items()}
    digest = _BOTH_VERSION + sha256(_encode(kept)).digest()[:_HASH_SIZE]
    return digest if kept == contents else digest + _hash(contents)


def was_made_by(stored: bytes, request: IdempotentRequest) -> bool:
    """Whether a stored fingerprint, of any version, belongs to this request."""
    # Only version 1 has no version byte in front.
    if len(stored) == _HASH_SIZE:
        return stored == _first_fingerprint(request)
    if stored.startswith(_VERSION):
        return stored == _VERSION + _hash(_describe(request))
    if stored.startswith(_KEPT_VERSION):
        return stored[1:] == fingerprint(request)[1 : _HASH_SIZE + 1]
    return stored == fingerprint(request)


def _first_fingerprint(request: IdempotentRequest) -> bytes | None:
    name, fields = _FIRST_FIELDS[request.operation]
    # Version 1 does not cover later fields, so a request that sets one is another request.
    if not _describe(request).keys() <= fields | {"type"}:
        return None
    return _hash({field: getattr(request, field) for field in fields} | {"external_id": name})


def _describe(request: IdempotentRequest) -> dict[str, Any]:
    """The operation, and the fields that differ from their defaults, by our names for them."""
    contents: dict[str, Any] = {"type": request.operation}
    for name, default in _defaults(type(request)).items():
        if (value := getattr(request, name)) != default:
            contents[name] = value
    return contents


@cache
def _defaults(kind: type[Any]) -> dict[str, Any]:
    # Without the external_id: fingerprints are compared under it, and the service may have generated it.
    return {field.name: field.default for field in msgspec.structs.fields(kind) if field.name != "external_id"}


def _hash(contents: dict[str, Any]) -> bytes:
    return blake2b(_encode(contents), digest_size=_HASH_SIZE).digest()
