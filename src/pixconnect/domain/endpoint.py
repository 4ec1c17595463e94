"""Webhook endpoints: where a holder wants to be told, of what, and by whose secret that is signed.

What becomes of an endpoint that does not answer is decided with its deliveries (``domain/delivery.py``).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec
from msgspec import Struct

from pixconnect.domain import errors
from pixconnect.domain.event import EVENT_NAMES, EventName
from pixconnect.domain.webhook_signature import SECRET_PREFIX, decode_secret

EndpointStatus = Literal["active", "inactive", "disabled"]

ENDPOINTS_MAX = 20
"""Endpoints a holder can have."""
SECRET_LENGTH_MIN = 16
SECRET_LENGTH_MAX = 256
ENCODED_KEY_MIN = 24
ENCODED_KEY_MAX = 64
"""Bytes of the key in a secret that is encoded, by the Standard Webhooks specification."""
SECRET_OVERLAP = timedelta(hours=24)
"""How long the previous secret signs beside the new one."""


class EndpointRequest(Struct, frozen=True, kw_only=True):
    """An endpoint that a client asks for, as it was sent.

    Attributes:
        url: Not yet judged.
        secret: 16 to 256 characters.
        event_types: Not yet judged.
    """

    url: str
    secret: str
    event_types: Sequence[str]


class EndpointChange(Struct, frozen=True, kw_only=True):
    """What a client wants changed; ``None`` leaves it as it is.

    Attributes:
        url: Not yet judged.
        secret: 16 to 256 characters.
        event_types: Not yet judged.
        status: Pause or resume.
    """

    url: str | None = None
    secret: str | None = None
    event_types: Sequence[str] | None = None
    status: Literal["active", "inactive"] | None = None


class Endpoint(Struct, frozen=True, kw_only=True):
    """Where a holder wants to be told.

    Attributes:
        id: Below 2^53.
        holder_id: Whose it is.
        url: Where events are posted.
        event_types: Which ones.
        status: See ``domain/delivery.py``.
        status_reason: Why the service disabled it; otherwise ``None``.
        secret_sealed: Sealed about ``webhook_endpoint:<id>``.
        previous_secret_sealed: The one before; signs beside the new one for a day.
        previous_secret_until: Service time.
        first_failure_at: Of the failures since the last success.
        created_at: Service time.
        modified_at: Service time; of what its owner or the service changed, not of each delivery.
    """

    id: int
    holder_id: int
    url: str
    event_types: tuple[EventName, ...]
    status: EndpointStatus
    status_reason: str | None
    secret_sealed: bytes
    previous_secret_sealed: bytes | None
    previous_secret_until: datetime | None
    first_failure_at: datetime | None
    created_at: datetime
    modified_at: datetime


def endpoint_seal(endpoint_id: int) -> str:
    """What an endpoint's secrets are sealed about."""
    return f"webhook_endpoint:{endpoint_id}"


def parse_event_types(names: Sequence[str]) -> tuple[EventName, ...]:
    """Read which events an endpoint wants.

    Raises:
        BadRequest: None at all, one that does not exist, or one twice.
    """
    if not names:
        raise errors.BadRequest("event_types: name at least one event type")
    unknown = [name for name in names if name not in EVENT_NAMES]
    if unknown:
        shown = ", ".join(f'"{name[:64]}"' for name in unknown[:3])
        raise errors.BadRequest(f"event_types: there is no event type {shown}")
    if len(set(names)) < len(names):
        raise errors.BadRequest("event_types: each event type may be named once")
    return msgspec.convert(names, tuple[EventName, ...])


def check_secret(secret: str) -> None:
    """Judge a secret's length, and of one that is encoded as the Standard Webhooks specification has it, its key's.

    Raises:
        BadRequest: It is too short or too long, or encodes no key; the message does not show it.
    """
    if not SECRET_LENGTH_MIN <= len(secret) <= SECRET_LENGTH_MAX:
        raise errors.BadRequest(f"secret: must have {SECRET_LENGTH_MIN} to {SECRET_LENGTH_MAX} characters")
    if secret.startswith(SECRET_PREFIX):
        key = decode_secret(secret)
        if key is None or not ENCODED_KEY_MIN <= len(key) <= ENCODED_KEY_MAX:
            raise errors.BadRequest(
                f"secret: {SECRET_PREFIX} must be followed by the base64 of {ENCODED_KEY_MIN} to {ENCODED_KEY_MAX} bytes"
            )
