"""Webhook endpoints: their URLs, event types and secrets; and the webhooks of Pix keys.

``features/webhooks/rules/delivery.py`` decides when failures disable an endpoint.

A key's webhook is an ``Endpoint`` with a ``pix_key``. It gets *notices*: each has the Pix of its key that were due together,
written once in their state at that time. A notice is stored before it is sent, so every attempt sends the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec
from msgspec import Struct, structs

from pixconnect.features.webhooks.rules.signature import SECRET_PREFIX, decode_secret
from pixconnect.kernel.rules.event import EVENT_NAMES, Event, EventName
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors

EndpointStatus = Literal["active", "inactive", "disabled"]

ENDPOINTS_MAX = 20  # of one holder
SECRET_LENGTH_MIN = 16
SECRET_LENGTH_MAX = 256
ENCODED_KEY_MIN = 24
ENCODED_KEY_MAX = 64
"""Bytes of the key in an encoded secret, by the Standard Webhooks specification."""
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
    secret_sealed: bytes
    """Bound by ``endpoint_seal``."""
    previous_secret_sealed: bytes | None = None
    """Signs beside the new one until ``previous_secret_until``."""
    previous_secret_until: datetime | None = None
    first_failure_at: datetime | None = None
    """The first failure since the last success."""
    created_at: datetime
    modified_at: datetime
    """The last change by its owner or the service; deliveries do not count."""
    pix_key: str | None = None
    """The key of a key webhook, which lists of endpoints leave out."""
    profile: str | None = None
    """The institution whose format a key's or an account's webhook uses; ``None`` is the central bank's API's or ours."""
    only_with_txid: bool = False
    """A key webhook that omits Pix without a txid."""
    name: str | None = None
    """Its owner's name for it, at institutions where webhooks have one."""
    authorization_sealed: bytes | None = None
    """Its ``Authorization`` header, if its owner set one; bound by ``endpoint_seal``."""


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
    since: datetime | None
    """``None`` if it is healthy."""
    next_at: datetime | None
    """Its next attempt; ``None`` if nothing waits for it, or it is not called."""
    pending_count: int
    reason: str | None
    """Why it was disabled."""


def describe_state(endpoint: Endpoint, pending_count: int, next_at: datetime | None) -> EndpointState:
    is_active = endpoint.status == "active"
    is_failing = is_active and endpoint.first_failure_at is not None
    return EndpointState(
        what=("failing" if is_failing else "fine") if endpoint.status == "active" else endpoint.status,
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
    unknown = [name for name in names if name not in EVENT_NAMES]
    if unknown:
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
    url: str
    """As it was set, without ``/pix``."""
    created_at: datetime
    """When it was last set."""


class KeyWebhookEvent(Struct, frozen=True, kw_only=True):
    """An event for the key's webhook, if the key has one."""

    event_id: int
    holder_id: int
    transfer_id: int
    """The Pix's id, also for an event of a refund."""
    pix_key: str | None
    """``None`` uses the existing Pix's."""
    has_txid: bool
    is_sent: bool
    """Set for a sent Pix, which only some webhooks receive."""
    announced_at: datetime

    @classmethod
    def of(cls, event: Event, transfer_id: int, transfer: Transfer | None) -> KeyWebhookEvent:
        return cls(
            event_id=event.id,
            holder_id=event.holder_id,
            transfer_id=transfer_id,
            pix_key=transfer and transfer.own_key,
            has_txid=transfer is not None and transfer.txid is not None,
            is_sent=transfer is not None and transfer.direction == "OUT",
            announced_at=event.created_at,
        )


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
