"""Signature headers, by which a webhook's receiver verifies the sender; and keys that sign callbacks as institutions do.

Three signatures over the same bytes serve different tools: ``X-Webhook-Signature`` (hex HMAC of the body), the three
``webhook-*`` headers of the Standard Webhooks specification, and ``X-Webhook-Signature-JWS`` (a detached JWS under the
published key). One key signs for all holders, so the last names the holder: a receiver that does not compare the name trusts
every holder of the service.

Source: Standard Webhooks specification 1.0, "Signature scheme"; RFC 7519, sections 4.1 and 5.3.
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

SECRET_PREFIX = "whsec_"  # noqa: S105  the prefix of an encoded one
SECRET_LENGTH = 32  # octets of our own secrets
USER_AGENT = "PixConnect-Webhooks/1.0"


def make_standard_secret(octets: bytes) -> str:
    """Make a secret as the Standard Webhooks specification defines it."""
    return SECRET_PREFIX + base64.b64encode(octets).decode()


def message_id(event_id: int) -> str:
    return f"evt_{event_id}"


def notice_message_id(delivery_id: int) -> str:
    """Return the message id of a key webhook's body, which belongs to no single event."""
    return f"pix_{delivery_id}"


def jws_header(holder_id: int, message: str, issued_s: int) -> dict[str, str | int]:
    """Make the protected header of ``X-Webhook-Signature-JWS`` without the key: the holder, the time, the message."""
    return {"aud": str(holder_id), "iat": issued_s, "jti": message}


def hex_signature(secret: str, body: bytes) -> str:
    return hmac.digest(secret.encode(), body, hashlib.sha256).hex()


def standard_signature(secrets: Sequence[str], name: str, timestamp_s: int, body: bytes) -> str:
    """Compute ``webhook-signature``: one signature for each valid secret, newest first."""
    # The specification joins `webhook-id`, `webhook-timestamp` and the body with dots.
    message = b"%b.%d.%b" % (name.encode(), timestamp_s, body)
    digests = (hmac.digest(_standard_key(secret), message, hashlib.sha256) for secret in secrets)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def _standard_key(secret: str) -> bytes:
    # A secret that only looks encoded is used as its own bytes, like any other text.
    decoded = decode_secret(secret) if secret.startswith(SECRET_PREFIX) else None
    return secret.encode() if decoded is None else decoded


def decode_secret(secret: str) -> bytes | None:
    """Decode the key in a secret that begins with ``whsec_``; ``None`` if the rest is no base64."""
    try:
        return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        return None


def request_headers(
    secrets: Sequence[str], message: str, body: bytes, *, jws: str, attempt_number: int, real_now: datetime
) -> list[tuple[str, str]]:
    """Write the headers of one attempt (from 1), without those of the transport."""
    # Real time, regardless of the sandbox clock: receivers compare it with their own.
    timestamp_s = int(real_now.timestamp())
    return [
        ("Content-Type", "application/json"),
        ("User-Agent", USER_AGENT),
        # This header has one signature, so only the newest secret makes it.
        ("X-Webhook-Signature", hex_signature(secrets[0], body)),
        ("X-Webhook-Signature-JWS", jws),
        ("X-Webhook-Attempt", str(attempt_number)),
        ("webhook-id", message),
        ("webhook-timestamp", str(timestamp_s)),
        ("webhook-signature", standard_signature(secrets, message, timestamp_s, body)),
    ]


class CallbackKey(Struct, frozen=True, kw_only=True):
    key_identifier: str
    """The SHA-256 of the public key in DER, in hexadecimal digits."""
    profile: str
    public_pem: str
    private_sealed: bytes
    """Bound by ``callback_key_seal``."""
    created_at: datetime


def callback_key_seal(key_identifier: str) -> str:
    return f"callback_key:{key_identifier}"
