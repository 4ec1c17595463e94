"""Deliveries of webhooks, attempt by attempt, and what attempts mean for their endpoint.

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

from msgspec import Struct, structs

from pixconnect.domain.endpoint import Endpoint
from pixconnect.domain.receivers import Exchange

DeliveryStatus = Literal["pending", "delivered", "failed"]

FAILING_MAX = timedelta(days=5)
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


class DueCursor(Struct, frozen=True, kw_only=True):
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
    unfinished: DueCursor | None


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


def judge_endpoint(endpoint: Endpoint, conclusions: Sequence[Conclusion]) -> Endpoint:
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
        elif ended_at - first_failure_at >= FAILING_MAX:
            endpoint = _disable(endpoint, f"no attempt has succeeded for {FAILING_MAX.days} days", ended_at)
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
