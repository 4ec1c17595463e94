"""Check that a webhook came from the service: a receiver does so with the raw body, before it believes anything in it.

There are three signatures. ``verify_webhook`` checks that of the Standard Webhooks specification, which covers the event's id
and the time of the attempt. ``verify_webhook_body`` checks ``X-Webhook-Signature``, which covers the body alone.
``verify_webhook_jws`` checks ``X-Webhook-Signature-JWS`` with the service's published keys; one key signs for all holders, so
it must be told whose webhooks these are. ``verify_notice`` checks the same of what the webhook of a Pix key is told, and that
the key is the receiver's own. None falls back to another: an attacker would choose the weakest.

Names of headers may be in any case. While a secret is being changed give both; one that fits is enough.
"""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

import msgspec

from pixconnect_client.errors import InvalidWebhook, UnknownSigningKey
from pixconnect_client.events import Event, read_event
from pixconnect_client.records import KeySet

TOLERANCE_S = 300
"""Seconds that the time of an attempt may differ from this machine's."""

_ENCODED_PREFIX = "whsec_"
_VERSION = "v1"
_COORDINATE_OCTETS = 32
_INSTANT_DIGITS = 12
"""They reach beyond the year 30000; more would only cost time."""


def verify_webhook(
    body: bytes,
    headers: Mapping[str, str],
    secret: str | Sequence[str],
    *,
    tolerance_s: float = TOLERANCE_S,
    now: Callable[[], float] = time.time,
) -> Event:
    """Check ``webhook-signature``, and read the event.

    Args:
        body: The request's, as it came: not decoded, not written again.
        secret: The endpoint's, or several of which one must fit.
        tolerance_s: How far ``webhook-timestamp`` may be from now, before or after.
        now: Seconds since 1970.

    Raises:
        InvalidWebhook: A header is missing or unreadable, the time is too far off, or no signature fits.
        TypeError: The body is text: what was signed are the octets that came.
        ValueError: There is no secret, or an empty one.

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
    # The octets as they came: JSON that was parsed and written again would be signed differently.
    message = _encode(f"{name}.{timestamp}.") + body
    expected = [
        f"{_VERSION},{base64.b64encode(hmac.digest(key, message, hashlib.sha256)).decode()}".encode() for key in keys
    ]
    if not _any_fits([_encode(text) for text in signatures], expected):
        raise InvalidWebhook("webhook-signature: no signature fits the body, the id, the time and the secret")
    return _read_event(body)


def verify_webhook_body(body: bytes, headers: Mapping[str, str], secret: str | Sequence[str]) -> Event:
    """Check ``X-Webhook-Signature``, and read the event. It does not cover the time: an old webhook is accepted for ever.

    Args:
        body: The request's, as it came: not decoded, not written again.
        secret: The endpoint's, or several of which one must fit.

    Raises:
        InvalidWebhook: The header is missing, or does not fit.
        TypeError: The body is text: what was signed are the octets that came.
        ValueError: There is no secret, or an empty one.
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
    headers: Mapping[str, str],
    keys: KeySet | Mapping[str, object],
    holder_id: int | str,
    *,
    tolerance_s: float = TOLERANCE_S,
    now: Callable[[], float] = time.time,
) -> Event:
    """Check ``X-Webhook-Signature-JWS``: who signed, for whom, when and which event; and read the event.

    Args:
        body: The request's, as it came: not decoded, not written again.
        keys: What ``client.identity.key_set()`` answers, or ``/.well-known/jwks.json`` read over https; kept for as long as it
            has the key. Anybody can send you an unknown ``kid``: read them again at most once a minute.
        holder_id: Whose webhooks these are, as in ``sandbox.json`` and in tokens; what is for another holder is
            refused.
        tolerance_s: How far ``iat`` may be from now, before or after.
        now: Seconds since 1970.

    Raises:
        UnknownSigningKey: The keys have none of that name that can sign webhooks.
        InvalidWebhook: A header is missing or unreadable, the signature does not fit, or it is for another holder, of another
            event, or from another time.
        TypeError: The body is text: what was signed are the octets that came.
        ValueError: There is no holder's id.

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
    headers: Mapping[str, str],
    keys: KeySet | Mapping[str, object],
    holder_id: int | str,
    pix_keys: str | Sequence[str],
    *,
    tolerance_s: float = TOLERANCE_S,
    now: Callable[[], float] = time.time,
) -> list[dict[str, Any]]:
    """Check a notice of the central bank's Pix API (``PUT /webhook/{chave}``), and read its Pix, in that API's words.

    Anybody may name your URL for a key of theirs, and the service then tells you truthfully of money that is not yours. So each
    ``chave`` must be one of your own. Ask ``GET /pix/{e2eid}`` before you deliver: what a notice says may have changed.

    Args:
        body: The request's, as it came: not decoded, not written again.
        keys: As for ``verify_webhook_jws``.
        holder_id: Whose notices these are; what is for another holder is refused.
        pix_keys: Your keys that have this URL, as the service writes them: ``+55...``, e-mail in lower case, no mask.
        tolerance_s: How far ``iat`` may be from now, before or after.
        now: Seconds since 1970.

    Raises:
        UnknownSigningKey: The keys have none of that name that can sign webhooks.
        InvalidWebhook: A header is missing or unreadable, the signature does not fit, or it is for another holder, about a Pix
            that was paid to no key of yours, no notice, or from another time.
        TypeError: The body is text: what was signed are the octets that came.
        ValueError: There is no holder's id, or no key.

    Source:
        RFC 7515, appendix F; Pix API 2.9.0, ``PixWebhook`` and ``Pix``.
    """
    own = [pix_keys] if isinstance(pix_keys, str) else list(pix_keys)
    if not own or not all(own):
        raise ValueError("pix_keys: missing or empty; a Pix to somebody else's key would fit")
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
    headers: Mapping[str, str],
    keys: KeySet | Mapping[str, object],
    holder_id: int | str,
    tolerance_s: float,
    now: Callable[[], float],
) -> str:
    """Check who signed, for whom and when; the name of the message."""
    _check_body(body)
    audience = str(holder_id)
    if not audience:
        raise ValueError("holder_id: missing or empty; what is signed for somebody else would fit")
    given = {name.lower(): value for name, value in headers.items()}
    # The signature first: what the header says is believed only after that.
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
    """The protected header as it came and as it reads, and the signature of a detached JWS."""
    head, _, rest = text.partition(".")
    try:
        fields = msgspec.json.decode(_decode(head), type=dict[str, object])
        signature = _decode(rest.removeprefix("."))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        fields, signature = None, b""
    if not rest.startswith(".") or fields is None:
        raise InvalidWebhook("X-Webhook-Signature-JWS: must be a detached JWS")
    # One algorithm only, whatever the header asks for; and extensions that must be understood are not understood here.
    if fields.get("alg") != "ES256" or "crit" in fields:
        raise InvalidWebhook("X-Webhook-Signature-JWS: must be signed with ES256, and have nothing critical")
    return head, fields, signature


class _SigningKey(msgspec.Struct):
    """What a JWK must say to be a key that signs webhooks."""

    kid: str
    kty: Literal["EC"]
    crv: Literal["P-256"]
    x: str
    y: str
    alg: Literal["ES256"] = "ES256"
    use: Literal["sig"] = "sig"


def _find_key(keys: KeySet | Mapping[str, object], kid: object) -> tuple[int, int]:
    # Whatever was read from the network may be given here: what is no key of ours is passed over.
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
    """Whether the key (x, y) made this signature, r and s of 32 octets each, over the message: ES256 of RFC 7518."""
    # Only who checks this signature pays for loading it.
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
    """Base64url without padding, in its one right form; ``ValueError`` if it is not."""
    octets = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if base64.urlsafe_b64encode(octets).rstrip(b"=").decode() != text:
        raise ValueError("is no base64url")
    return octets


def _check_body(body: object) -> None:
    if not isinstance(body, bytes | bytearray):
        raise TypeError("body: give the octets that came, before they are decoded or parsed")


def _read_secrets(secret: str | Sequence[str]) -> list[str]:
    secrets = [secret] if isinstance(secret, str) else list(secret)
    if not secrets or not all(one.removeprefix(_ENCODED_PREFIX) for one in secrets):
        raise ValueError("secret: missing or empty; anybody could sign with it")
    return secrets


def _standard_key(secret: str) -> bytes:
    """``whsec_`` and base64 is decoded; any other secret is its own octets, which the service does in the same way."""
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
    # Some frameworks read octets that are no UTF-8 as half characters, which are refused like any other wrong ones.
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
    # Every pair is compared, so that the time it takes tells nothing.
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
