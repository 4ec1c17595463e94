"""Webhooks: who wants to be told what, and the telling, attempt by attempt.

::

    endpoint   active ◄──owner──► inactive           delivery   pending ──2xx──► delivered
                 │                                                 └──15 attempts──► failed
                 └──410, or 5 days of failures──► disabled         (either ──redelivered──► pending)
                 ▲────────────owner────────────────┘

Only an active endpoint is delivered to. Deliveries are made for the endpoints that are active when the fact is written; what
is pending waits while its endpoint is not active. Of one resource, an endpoint is not sent the next event before the
previous one was delivered or given up. All times here are service time, which the sandbox can move, except where said.
"""

import email.utils
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import msgspec
from msgspec import Struct, structs

from pixconnect.domain import errors
from pixconnect.domain.event import EVENT_NAMES, EventName
from pixconnect.domain.receivers import Exchange
from pixconnect.domain.webhook_signature import SECRET_PREFIX, decode_secret

EndpointStatus = Literal["active", "inactive", "disabled"]
DeliveryStatus = Literal["pending", "delivered", "failed"]

ENDPOINTS_MAX = 20
"""Endpoints a holder can have."""
SECRET_LENGTH_MIN = 16
SECRET_LENGTH_MAX = 256
ENCODED_KEY_MIN = 24
ENCODED_KEY_MAX = 64
"""Bytes of the key in a secret that is encoded, by the Standard Webhooks specification."""
SECRET_OVERLAP = timedelta(hours=24)
"""How long the previous secret signs beside the new one."""
PATIENCE = timedelta(days=5)
"""An endpoint that has only failed for this long is disabled."""
RETRY_AFTER_MAX = timedelta(hours=1)
JITTER = 0.2
"""A retry comes up to this part of its wait later, never earlier."""
GONE = 410
"""The status by which a receiver says that it wants nothing more."""
RESPONSE_KEPT_MAX = 1024
"""Octets of an answer that are kept."""

RETRY_WAITS: Final = (
    timedelta(seconds=5),
    timedelta(seconds=30),
    timedelta(minutes=2),
    timedelta(minutes=5),
    timedelta(minutes=15),
    timedelta(minutes=30),
    timedelta(hours=1),
    timedelta(hours=2),
    timedelta(hours=4),
    timedelta(hours=8),
    timedelta(hours=8),
    timedelta(hours=12),
    timedelta(hours=12),
    timedelta(hours=24),
)
"""What is waited after each failed attempt; after the one that follows the last of them a delivery is given up."""
ATTEMPTS_MAX = len(RETRY_WAITS) + 1


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
        status: See the module.
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


class Attempt(Struct, frozen=True, kw_only=True):
    """One POST and what came of it.

    Attributes:
        number: Counts up from 1, through redeliveries too.
        started_at: Service time.
        status_code: Of the answer, if there was one.
        duration_us: From looking the name up to the last byte, in microseconds.
        response: The first KiB of the answer, as text.
        error: Why it failed, when it did: for the endpoint's owner to read.
    """

    number: int
    started_at: datetime
    status_code: int | None
    duration_us: int
    response: str
    error: str | None


class Delivery(Struct, frozen=True, kw_only=True):
    """One endpoint to be told of one event.

    Attributes:
        id: Below 2^53.
        holder_id: Whose it is.
        endpoint_id: Who is told.
        event_id: Of what.
        status: See the module.
        due_at: When the next attempt may start; ``None`` once delivered or given up.
        attempts: Those that were made, oldest first.
        created_at: Service time.
    """

    id: int
    holder_id: int
    endpoint_id: int
    event_id: int
    status: DeliveryStatus
    due_at: datetime | None
    attempts: tuple[Attempt, ...]
    created_at: datetime


class DueDelivery(Struct, frozen=True, kw_only=True):
    """What must be known to make an attempt.

    Attributes:
        id: Of the delivery.
        holder_id: Whose it is.
        endpoint_id: Who is told.
        event_id: Of what.
        resource: What the event is about...
        resource_id: ...and which one.
        slot: Whoever holds it makes the attempt.
        due_at: Since when it may be made.
        attempts_count: Those made before.
        failures_count: Those of them that belong to the present schedule.
        body: What is sent.
    """

    id: int
    holder_id: int
    endpoint_id: int
    event_id: int
    resource: str
    resource_id: int
    slot: int
    due_at: datetime
    attempts_count: int
    failures_count: int
    body: str


class Place(Struct, frozen=True, kw_only=True):
    """How far the due deliveries were read.

    Attributes:
        due_at: Of the last one read...
        id: ...and which one of this instant.
    """

    due_at: datetime
    id: int = 0


class DueRead(Struct, frozen=True, kw_only=True):
    """What a read found.

    Attributes:
        ready: Deliveries that can be tried, in the order in which they became due.
        unfinished: Where to go on; ``None`` if everything was read.
    """

    ready: list[DueDelivery]
    unfinished: Place | None


class Conclusion(Struct, frozen=True, kw_only=True):
    """What an attempt means for its delivery.

    Attributes:
        delivery: As it was before.
        attempt: The attempt.
        status: Of the delivery now.
        due_at: Of its next attempt.
        failures_count: Of the present schedule.
        is_gone: The receiver said 410: its endpoint is disabled.
        ended_at: When the attempt ended, service time.
        detail: Why it failed, for the operator, where the owner is not told all of it.
    """

    delivery: DueDelivery
    attempt: Attempt
    status: DeliveryStatus
    due_at: datetime | None
    failures_count: int
    is_gone: bool
    ended_at: datetime
    detail: str | None = None


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


def conclude(
    delivery: DueDelivery, exchange: Exchange, *, ended_at: datetime, real_now: datetime, chance: float
) -> Conclusion:
    """Judge an attempt.

    Args:
        delivery: As it was before.
        exchange: What came of the POST.
        ended_at: Service time.
        real_now: For a ``Retry-After`` that is a date.
        chance: From 0 to 1, for the jitter.
    """
    status_code, error = exchange.status_code, exchange.error
    is_delivered = error is None and status_code is not None and 200 <= status_code <= 299
    is_gone = error is None and status_code == GONE
    status: DeliveryStatus = "delivered" if is_delivered else "pending"
    due_at, failures_count = None, delivery.failures_count
    if is_gone:
        due_at = ended_at
    elif not is_delivered:
        failures_count += 1
        wait = retry_wait(failures_count, parse_retry_after(exchange.retry_after, real_now), chance)
        due_at, status = (None, "failed") if wait is None else (ended_at + wait, "pending")
    return Conclusion(
        delivery=delivery,
        attempt=Attempt(
            number=delivery.attempts_count + 1,
            started_at=ended_at - timedelta(microseconds=exchange.duration_us),
            status_code=status_code,
            duration_us=exchange.duration_us,
            response=exchange.response[:RESPONSE_KEPT_MAX].decode(errors="replace").replace("\0", "\ufffd"),
            error=error or (None if is_delivered else f"the receiver answered {status_code}"),
        ),
        status=status,
        due_at=due_at,
        failures_count=failures_count,
        is_gone=is_gone,
        ended_at=ended_at,
        detail=exchange.detail,
    )


def learn(endpoint: Endpoint, conclusions: Sequence[Conclusion]) -> Endpoint:
    """What attempts mean for their endpoint: since when it fails, and whether it is disabled.

    Args:
        endpoint: As it is.
        conclusions: Of this endpoint, in the order in which the attempts ended.
    """
    for conclusion in conclusions:
        ended_at = conclusion.ended_at
        if conclusion.status == "delivered":
            endpoint = structs.replace(endpoint, first_failure_at=None)
            continue
        first_failure_at = endpoint.first_failure_at or ended_at
        endpoint = structs.replace(endpoint, first_failure_at=first_failure_at)
        if conclusion.is_gone:
            endpoint = _disable(endpoint, "the receiver answered 410 Gone", ended_at)
        elif ended_at - first_failure_at >= PATIENCE:
            endpoint = _disable(endpoint, f"no attempt has succeeded for {PATIENCE.days} days", ended_at)
    return endpoint


def _disable(endpoint: Endpoint, reason: str, now: datetime) -> Endpoint:
    if endpoint.status != "active":
        return endpoint
    return structs.replace(endpoint, status="disabled", status_reason=reason, modified_at=now)


def retry_wait(failures_count: int, retry_after: timedelta | None, chance: float) -> timedelta | None:
    """How long to wait after a failed attempt.

    Args:
        failures_count: Failed attempts of this schedule, the last one included; from 1.
        retry_after: What the receiver asked for; the longer of it and the schedule counts, at most an hour of it.
        chance: From 0 to 1, for the jitter.

    Returns:
        The wait, counted from the end of the attempt; ``None`` to give up.

    Example:
        >>> retry_wait(1, None, 0.5)
        datetime.timedelta(seconds=5, microseconds=500000)
    """
    if failures_count >= ATTEMPTS_MAX:
        return None
    scheduled = RETRY_WAITS[failures_count - 1] * (1 + JITTER * chance)
    return max(scheduled, min(retry_after, RETRY_AFTER_MAX)) if retry_after is not None else scheduled


def parse_retry_after(text: str | None, real_now: datetime) -> timedelta | None:
    """Read the ``Retry-After`` header: whole seconds or an HTTP date, which is of the machine's own time.

    Returns:
        The wait; ``None`` where there is no header, or none that can be read.
    """
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=int(text)) if len(text) <= 9 else RETRY_AFTER_MAX
    try:
        instant = email.utils.parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # no date, or one whose year, hour or zone no number of ours can hold
        return None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return max(instant - real_now, timedelta(0))
