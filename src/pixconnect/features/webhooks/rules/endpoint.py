"""Webhook endpoints: their URLs, event types and secrets; and the webhooks of Pix keys.

``features/webhooks/rules/delivery.py`` decides when failures disable an endpoint.

A key's webhook is an ``Endpoint`` with a ``pix_key``. It gets *notices*: each has the Pix of its key that were due together,
written once in their state at that time. A notice is stored before it is sent, so every attempt sends the same bytes.

Three signatures over the same bytes serve different tools: ``X-Webhook-Signature`` (hex HMAC of the body), the three
``webhook-*`` headers of the Standard Webhooks specification, and ``X-Webhook-Signature-JWS`` (a detached JWS under the
published key). One key signs for all holders, so the last names the holder: a receiver that does not compare the name trusts
every holder of the service. Institutions sign callbacks with keys in the same way.

Source: Standard Webhooks specification 1.0, "Signature scheme"; RFC 7519, sections 4.1 and 5.3.
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec
from msgspec import Struct, structs

from pixconnect.kernel.rules.event import EVENT_NAMES, EventName
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors

EndpointStatus = Literal["active", "inactive", "disabled"]

ENDPOINTS_MAX = 20  # of one holder
SECRET_LENGTH_MIN = 16
SECRET_LENGTH_MAX = 256
ENCODED_KEY_MIN = 24
ENCODED_KEY_MAX = 64  # bytes of the key in an encoded secret, by the Standard Webhooks specification
SECRET_OVERLAP = timedelta(hours=24)


class EndpointRequest(Struct, frozen=True, kw_only=True):
    """A client's request as it was sent: not yet checked."""

    url: str
    secret: str
    event_types: Sequence[str]


class EndpointChange(Struct, frozen=True, kw_only=True):
    """A client's changes; ``None`` leaves a field unchanged."""

    url: str | None = None
    secret: str | None = None
    event_types: Sequence[str] | None = None
    status: Literal["active", "inactive"] | None = None


class Endpoint(Struct, frozen=True, kw_only=True):
    id: int
    holder_id: int
    url: str
    event_types: tuple[EventName, ...]
    status: EndpointStatus = "active"
    status_reason: str | None = None
    secret_sealed: bytes  # bound by ``endpoint_seal``
    previous_secret_sealed: bytes | None = None  # signs beside the new one until ``previous_secret_until``
    previous_secret_until: datetime | None = None
    first_failure_at: datetime | None = None  # the first failure since the last success
    created_at: datetime
    modified_at: datetime  # the last change by its owner or the service; deliveries do not count
    pix_key: str | None = None  # the key of a key webhook, which lists of endpoints leave out
    # The format of a key's or an account's webhook: an institution's name, or a feature's word for its own format. ``None`` is
    # the central bank's for a key's webhook, and else ours.
    profile: str | None = None
    only_with_txid: bool = False  # a key webhook that omits Pix without a txid
    name: str | None = None  # its owner's name for it, at institutions where webhooks have one
    # Its ``Authorization`` header, if its owner set one; bound by ``endpoint_seal``.
    authorization_sealed: bytes | None = None


def activate(endpoint: Endpoint) -> Endpoint:
    """Reactivate an endpoint; the failures of an active one are forgotten too.

    The five days restart: its owner may have repaired the cause of earlier failures.
    """
    return structs.replace(endpoint, status="active", status_reason=None, first_failure_at=None)


def deactivate(endpoint: Endpoint) -> Endpoint:
    """Stop sending to an endpoint at its owner's request; due deliveries wait."""
    return structs.replace(endpoint, status="inactive", status_reason=None, first_failure_at=None)


def replace_secret(endpoint: Endpoint, secret_sealed: bytes, now: datetime, *, keeps_previous: bool = True) -> Endpoint:
    """Sign with a new secret, and for a day with the earlier one too, unless that cannot be read any more."""
    return structs.replace(
        endpoint,
        secret_sealed=secret_sealed,
        previous_secret_sealed=endpoint.secret_sealed if keeps_previous else None,
        previous_secret_until=now + SECRET_OVERLAP if keeps_previous else None,
    )


class EndpointState(Struct, frozen=True, kw_only=True):
    what: Literal["fine", "failing", "inactive", "disabled"]
    since: datetime | None  # ``None`` if it is healthy
    next_at: datetime | None  # its next attempt; ``None`` if nothing waits for it, or it is not called
    pending_count: int
    reason: str | None  # why it was disabled


def describe_state(endpoint: Endpoint, pending_count: int, next_at: datetime | None) -> EndpointState:
    is_active = endpoint.status == "active"
    return EndpointState(
        what=endpoint.status if endpoint.status != "active" else "failing" if endpoint.first_failure_at else "fine",
        since=endpoint.first_failure_at if is_active else endpoint.modified_at,
        next_at=next_at if is_active else None,
        pending_count=pending_count,
        reason=endpoint.status_reason,
    )


def endpoint_seal(endpoint_id: int) -> str:
    return f"webhook_endpoint:{endpoint_id}"


def parse_event_types(names: Sequence[str]) -> tuple[EventName, ...]:
    """Read an endpoint's event types; at least one, and each once."""
    if not names:
        raise errors.BadRequest("event_types: name at least one event type")
    if unknown := [name for name in names if name not in EVENT_NAMES]:
        # Cut: the message stays short even if callers send many names.
        shown = ", ".join(f'"{name[:64]}"' for name in unknown[:3])
        raise errors.BadRequest(f"event_types: there is no event type {shown}")
    if len(set(names)) < len(names):
        raise errors.BadRequest("event_types: each event type may be named once")
    return msgspec.convert(names, tuple[EventName, ...])


def check_secret(secret: str) -> None:
    """Check a secret's length, and the length of its key if it is encoded (``whsec_``)."""
    if not SECRET_LENGTH_MIN <= len(secret) <= SECRET_LENGTH_MAX:
        raise errors.BadRequest(f"secret: must have {SECRET_LENGTH_MIN} to {SECRET_LENGTH_MAX} characters")
    if secret.startswith(SECRET_PREFIX):
        key = decode_secret(secret)
        if key is None or not ENCODED_KEY_MIN <= len(key) <= ENCODED_KEY_MAX:
            raise errors.BadRequest(
                f"secret: {SECRET_PREFIX} must be followed by the base64 of {ENCODED_KEY_MIN} to {ENCODED_KEY_MAX} bytes"
            )


KEY_WEBHOOK_RESOURCE: Final = "pix"
"""For a delivery to such a webhook; its resource id is the transfer's, for refunds of it too: so they keep their order."""

NOTICE_PIX_MAX: Final = 100

EVENT_TYPES: Final[tuple[EventName, ...]] = ("transfer.in.confirmed", "refund.out.returned", "refund.out.error")
"""The events of a key webhook: a settled Pix, and the end of a refund of one, in any state."""

URL_LENGTH_MAX: Final = 2000


class KeyWebhook(Struct, frozen=True, kw_only=True):
    pix_key: str
    holder_id: int
    endpoint_id: int
    url: str  # as it was set, without ``/pix``
    created_at: datetime  # when it was last set


class KeyWebhookEvent(Struct, frozen=True, kw_only=True):
    """An event for the key's webhook, if the key has one."""

    event_id: int
    holder_id: int
    transfer_id: int  # the Pix's id, also for an event of a refund
    pix_key: str | None  # ``None`` uses the existing Pix's
    has_txid: bool
    is_sent: bool  # set for a sent Pix, which only some webhooks receive
    announced_at: datetime


def notifies_key(happened: Transfer | Refund) -> bool:
    """Whether a key webhook announces the new state of a transfer or refund."""
    if isinstance(happened, Transfer):
        ends = ("CONFIRMED",) if happened.direction == "IN" else ("CONFIRMED", "ERROR", "CANCELLED")
        return happened.own_key is not None and happened.status in ends
    return happened.flow == "OUT" and happened.status != "PROCESSING"


def callback_url(url: str, *, is_appended: bool = False, name: str = "pix") -> str:
    """Return the URL of notices: ``/pix`` is joined to the path of the configured URL, before its query.

    Behind a query that ends in ``=`` it is appended unchanged: receivers use that for a path of their own.

    Args:
        is_appended: Always append it so.
        name: Instead of ``pix``.
    """
    path, mark, query = url.partition("?")
    return f"{url}/{name}" if is_appended or query.endswith("=") else f"{path.rstrip('/')}/{name}{mark}{query}"


SECRET_PREFIX = "whsec_"  # noqa: S105  the prefix of an encoded one
SECRET_LENGTH = 32  # octets of our own secrets
USER_AGENT = "PixConnect-Webhooks/1.0"


def make_standard_secret(octets: bytes) -> str:
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
    key_identifier: str  # the SHA-256 of the public key in DER, in hexadecimal digits
    profile: str
    public_pem: str
    private_sealed: bytes  # bound by ``callback_key_seal``
    created_at: datetime


def callback_key_seal(key_identifier: str) -> str:
    return f"callback_key:{key_identifier}"
