"""Verify the signature of a webhook. Pass the raw body, and do not use its contents before the check.

Each webhook has three signatures:

- ``verify_webhook`` checks the signature of the Standard Webhooks specification. It covers event id, timestamp and body.
- ``verify_webhook_body`` checks ``X-Webhook-Signature``. It covers the body only.
- ``verify_webhook_jws`` checks ``X-Webhook-Signature-JWS`` against the service's published keys. One key signs for all
  holders, so this function also needs your holder id.

``verify_notice`` checks the notices of the central bank's Pix API, and that the paid key is yours. No function falls back to
another signature, since an attacker would choose the weakest.

Header names are case-insensitive. While you rotate a secret pass both; one match is enough.
"""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, cast

import msgspec

from pixconnect_client.errors import InvalidWebhook, UnknownSigningKey
from pixconnect_client.events import Event, read_event
from pixconnect_client.records import KeySet

TOLERANCE_S = 300
"""Maximum difference between a webhook's timestamp and this machine's clock, in seconds."""

_ENCODED_PREFIX = "whsec_"
_VERSION = "v1"
_COORDINATE_OCTETS = 32
_INSTANT_DIGITS = 12
"""Enough until the year 30000; longer values are rejected without parsing them."""


class Headers(Protocol):
    """The headers of a request, as in any framework: a ``dict``, Flask's or Starlette's. The case of names does not matter."""

    def items(self) -> Iterable[tuple[str, str]]: ...


def verify_webhook(
    body: bytes,
    headers: Headers,
    secret: str | Sequence[str],
    *,
    tolerance_s: float = TOLERANCE_S,
    now: Callable[[], float] = time.time,
) -> Event:
    """Check ``webhook-signature`` and return the event.

    Args:
        body: The raw request body, neither decoded nor re-encoded.
        secret: The endpoint's secret, or several of which one must match.
        tolerance_s: Maximum age of ``webhook-timestamp``, in both directions.
        now: Returns the current Unix time in seconds.

    Raises:
        InvalidWebhook: A header is missing or malformed, the timestamp is too old or too new, or no signature matches.
        TypeError: The body is ``str``; the signature covers the raw bytes.
        ValueError: No secret was given, or an empty one.

    Source:
        Standard Webhooks specification 1.0, "Signature scheme".
    """
    _check_body(body)
    keys = [_standard_key(one) for one in _read_secrets(secret)]
    given = {name.lower(): value for name, value in headers.items()}
    name = _read_header(given, "webhook-id")
    timestamp = _read_header(given, "webhook-timestamp")
    signatures = _read_header(given, "webhook-signature").split(" ")
    _check_time(timestamp, now(), tolerance_s)
    # The raw bytes: JSON that was parsed and serialized again has another signature.
    message = _encode(f"{name}.{timestamp}.") + body
    expected = [f"{_VERSION},{base64.b64encode(hmac.digest(key, message, hashlib.sha256)).decode()}".encode() for key in keys]
    if not _any_fits([_encode(text) for text in signatures], expected):
        raise InvalidWebhook("webhook-signature: no signature fits the body, the id, the time and the secret")
    return _read_event(body)


def verify_webhook_body(body: bytes, headers: Headers, secret: str | Sequence[str]) -> Event:
    """Check ``X-Webhook-Signature`` and return the event. It covers no timestamp, so replayed webhooks are accepted.

    Args:
        body: The raw request body, neither decoded nor re-encoded.
        secret: The endpoint's secret, or several of which one must match.

    Raises:
        InvalidWebhook: The header is missing or does not match.
        TypeError: The body is ``str``; the signature covers the raw bytes.
        ValueError: No secret was given, or an empty one.
    """
    _check_body(body)
    secrets = _read_secrets(secret)
    given = {name.lower(): value for name, value in headers.items()}
    signature = _read_header(given, "x-webhook-signature")
    expected = [hmac.digest(one.encode(), body, hashlib.sha256).hex().encode() for one in secrets]
    if not _any_fits([_encode(signature)], expected):
        raise InvalidWebhook("X-Webhook-Signature: does not fit the body and the secret")
    return _read_event(body)


def verify_webhook_jws(
    body: bytes,
    headers: Headers,
    keys: KeySet | Mapping[str, object],
    holder_id: int | str,
    *,
    tolerance_s: float = TOLERANCE_S,
    now: Callable[[], float] = time.time,
) -> Event:
    """Check ``X-Webhook-Signature-JWS`` (signer, holder, time and event id) and return the event.

    Args:
        body: The raw request body, neither decoded nor re-encoded.
        keys: The result of ``client.identity.key_set()``, or ``/.well-known/jwks.json`` fetched over https. Cache it while it
            contains the key. An unknown ``kid`` can come from an attacker: fetch the keys again at most once a minute.
        holder_id: Your holder id, as in ``sandbox.json`` and in tokens. Webhooks for other holders are rejected.
        tolerance_s: Maximum age of ``iat``, in both directions.
        now: Returns the current Unix time in seconds.

    Raises:
        UnknownSigningKey: The key set has no webhook signing key with this ``kid``.
        InvalidWebhook: A header is missing or malformed, the signature does not match, or it is for another holder, another
            event or another time.
        TypeError: The body is ``str``; the signature covers the raw bytes.
        ValueError: The holder id is empty.

    Source:
        RFC 7515, appendix F; RFC 7518, section 3.4; RFC 7519, sections 4.1 and 5.3.
    """
    message = _check_jws(body, headers, keys, holder_id, tolerance_s, now)
    event = _read_event(body)
    if message != f"evt_{event.id}":
        raise InvalidWebhook("X-Webhook-Signature-JWS: jti: is of another event than the body")
    return event


def verify_notice(
    body: bytes,
    headers: Headers,
    keys: KeySet | Mapping[str, object],
    holder_id: int | str,
    pix_keys: str | Sequence[str],
    *,
    tolerance_s: float = TOLERANCE_S,
    now: Callable[[], float] = time.time,
) -> list[dict[str, Any]]:
    """Check a notice of the central bank's Pix API (``PUT /webhook/{chave}``) and return its Pix as that API defines them.

    Another holder can register your URL for one of their keys. The service then sends you valid notices about their money.
    So each ``chave`` must be one of your own. A notice can be outdated: call ``GET /pix/{e2eid}`` before you deliver goods.

    Args:
        body: The raw request body, neither decoded nor re-encoded.
        keys: As for ``verify_webhook_jws``.
        holder_id: Your holder id. Notices for other holders are rejected.
        pix_keys: Your keys with this URL in normalized form: ``+55...``, e-mail in lower case, no punctuation.
        tolerance_s: Maximum age of ``iat``, in both directions.
        now: Returns the current Unix time in seconds.

    Raises:
        UnknownSigningKey: The key set has no webhook signing key with this ``kid``.
        InvalidWebhook: A header is missing or malformed, the signature does not match, it is for another holder, from another
            time or not a notice, or the paid key is not yours.
        TypeError: The body is ``str``; the signature covers the raw bytes.
        ValueError: The holder id or the list of keys is empty.

    Source:
        RFC 7515, appendix F; Pix API 2.9.0, ``PixWebhook`` and ``Pix``.
    """
    own = [pix_keys] if isinstance(pix_keys, str) else list(pix_keys)
    if not own or not all(own):
        raise ValueError("pix_keys: must name at least one of your keys; without it Pix to other holders' keys would pass")
    message = _check_jws(body, headers, keys, holder_id, tolerance_s, now)
    if not message.startswith("pix_"):
        raise InvalidWebhook("X-Webhook-Signature-JWS: jti: is of no notice")
    try:
        told = msgspec.json.decode(body, type=_Notice).pix
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise InvalidWebhook("body: signed, but no notice of this service") from None
    for number, one in enumerate(told):
        paid_to = one.get("chave")
        if not isinstance(paid_to, str) or not _any_fits([paid_to.encode()], [key.encode() for key in own]):
            raise InvalidWebhook(f"body: pix[{number}].chave: is no key of yours")
    return told


class _Notice(msgspec.Struct):
    pix: list[dict[str, Any]]


def _check_jws(
    body: bytes,
    headers: Headers,
    keys: KeySet | Mapping[str, object],
    holder_id: int | str,
    tolerance_s: float,
    now: Callable[[], float],
) -> str:
    """Check signer, holder and time; return the id of the message."""
    _check_body(body)
    audience = str(holder_id)
    if not audience:
        raise ValueError("holder_id: must not be empty; without it webhooks for other holders would pass")
    given = {name.lower(): value for name, value in headers.items()}
    # Check the signature before using any field of the header.
    head, header, signature = _read_jws(_read_header(given, "x-webhook-signature-jws"))
    x, y = _find_key(keys, header.get("kid"))
    signed = head.encode() + b"." + base64.urlsafe_b64encode(body).rstrip(b"=")
    if not _is_signed(signed, signature, x, y):
        raise InvalidWebhook("X-Webhook-Signature-JWS: does not fit the body and the key")
    named = header.get("aud")
    if not isinstance(named, str) or not hmac.compare_digest(named.encode(), audience.encode()):
        raise InvalidWebhook("X-Webhook-Signature-JWS: aud: is for another holder")
    message = _read_header(given, "webhook-id")
    if header.get("jti") != message:
        raise InvalidWebhook("X-Webhook-Signature-JWS: jti: is of another event than webhook-id")
    _check_age("X-Webhook-Signature-JWS: iat", header.get("iat"), now(), tolerance_s)
    return message


def _read_jws(text: str) -> tuple[str, Mapping[str, object], bytes]:
    """Split a detached JWS into its protected header (raw and decoded) and its signature."""
    head, _, rest = text.partition(".")
    try:
        fields = msgspec.json.decode(_decode(head), type=dict[str, object])
        signature = _decode(rest.removeprefix("."))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        fields, signature = None, b""
    if not rest.startswith(".") or fields is None:
        raise InvalidWebhook("X-Webhook-Signature-JWS: must be a detached JWS")
    # Accept ES256 only, regardless of the header. No critical extension is supported.
    if fields.get("alg") != "ES256" or "crit" in fields:
        raise InvalidWebhook("X-Webhook-Signature-JWS: must be signed with ES256, and have nothing critical")
    return head, fields, signature


class _SigningKey(msgspec.Struct):
    """The required fields of a JWK that signs webhooks."""

    kid: str
    kty: Literal["EC"]
    crv: Literal["P-256"]
    x: str
    y: str
    alg: Literal["ES256"] = "ES256"
    use: Literal["sig"] = "sig"


def _find_key(keys: KeySet | Mapping[str, object], kid: object) -> tuple[int, int]:
    # The key set may come from the network unchecked: skip entries that are not ES256 signing keys.
    found: object = msgspec.to_builtins(keys)
    listed = cast("dict[str, object]", found).get("keys") if isinstance(found, dict) else None
    for one in cast("list[object]", listed) if isinstance(listed, list) else ():
        try:
            key = msgspec.convert(one, _SigningKey)
            x, y = _decode(key.x), _decode(key.y)
        except (msgspec.ValidationError, ValueError):
            continue
        if key.kid == kid and len(x) == len(y) == _COORDINATE_OCTETS:
            return int.from_bytes(x, "big"), int.from_bytes(y, "big")
    raise UnknownSigningKey("X-Webhook-Signature-JWS: kid: is none of the keys that are known")


def _is_signed(message: bytes, signature: bytes, x: int, y: int) -> bool:
    """Verify an ES256 signature (RFC 7518): r and s of 32 bytes each, by the public key (x, y)."""
    # Imported here, so that only programs that check JWS pay for it.
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec, utils  # noqa: PLC0415

    if len(signature) != 2 * _COORDINATE_OCTETS:
        return False
    r, s = (int.from_bytes(part, "big") for part in (signature[:_COORDINATE_OCTETS], signature[_COORDINATE_OCTETS:]))
    try:
        key = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
        key.verify(utils.encode_dss_signature(r, s), message, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError):
        return False
    return True


def _decode(text: str) -> bytes:
    """Decode canonical base64url without padding; raise ``ValueError`` for any other form."""
    octets = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if base64.urlsafe_b64encode(octets).rstrip(b"=").decode() != text:
        raise ValueError("is no base64url")
    return octets


def _check_body(body: object) -> None:
    if not isinstance(body, bytes | bytearray):
        raise TypeError("body: must be the raw bytes of the request, before decoding or parsing")


def _read_secrets(secret: str | Sequence[str]) -> list[str]:
    # None comes of an environment variable that is not set.
    secrets = [secret] if isinstance(secret, str) else list(secret or ())
    if not secrets or not all(one and one.removeprefix(_ENCODED_PREFIX) for one in secrets):
        raise ValueError("secret: must not be empty; an empty secret would accept any sender")
    return secrets


def _standard_key(secret: str) -> bytes:
    """Decode a ``whsec_`` secret from base64; use any other secret as UTF-8. The service does the same."""
    if secret.startswith(_ENCODED_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(_ENCODED_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            return secret.encode()
    return secret.encode()


def _read_header(given: Mapping[str, str], name: str) -> str:
    value = given.get(name, "").strip()
    if not value:
        raise InvalidWebhook(f"{name}: missing")
    return value


def _encode(text: str) -> bytes:
    # Some frameworks decode invalid UTF-8 as surrogates; such a header is rejected like any other wrong one.
    return text.encode(errors="surrogatepass")


def _check_time(timestamp: str, now_s: float, tolerance_s: float) -> None:
    is_whole = timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= _INSTANT_DIGITS
    _check_age("webhook-timestamp", int(timestamp) if is_whole else None, now_s, tolerance_s)


def _check_age(name: str, sent_s: object, now_s: float, tolerance_s: float) -> None:
    if not isinstance(sent_s, int) or abs(sent_s) >= 10**_INSTANT_DIGITS:
        raise InvalidWebhook(f"{name}: must be whole seconds since 1970")
    age_s = now_s - sent_s
    if age_s > tolerance_s:
        raise InvalidWebhook(f"{name}: is older than {tolerance_s:g} s")
    if -age_s > tolerance_s:
        raise InvalidWebhook(f"{name}: is more than {tolerance_s:g} s ahead of this machine's clock")


def _any_fits(signatures: Sequence[bytes], expected: Sequence[bytes]) -> bool:
    # Compare every pair, so that the time does not depend on the result.
    fits = False
    for signature in signatures:
        for one in expected:
            fits |= hmac.compare_digest(signature, one)
    return fits


def _read_event(body: bytes) -> Event:
    try:
        return read_event(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise InvalidWebhook("body: signed, but not an event of this service") from None
