"""Deliveries of webhooks: the effect of an attempt on its delivery and its endpoint; and the port to receivers.

::

    endpoint   active ◄──owner──► inactive           delivery   pending ──2xx──► delivered
                 │                                                 └──15 attempts──► failed
                 └──410, or 5 days of failures──► disabled         (either ──redelivered──► pending)
                 ▲────────────owner────────────────┘

Deliveries are made for the endpoints that are active when the fact is written, and wait while their endpoint is not active.
Events of one resource reach an endpoint in order: the next is not sent before the previous one was delivered or failed. All
times are service time, which the sandbox can move, except where noted.

An implementation of the port bounds every exchange in time and size, connects only to addresses that it has checked, and
follows no redirects. An attempt never raises: any behaviour of a receiver is an outcome, in terms that its owner can act on.
"""

import email.utils
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, Protocol

from msgspec import Struct, structs

from pixconnect.features.webhooks.rules.endpoint import KEY_WEBHOOK_RESOURCE, Endpoint, message_id, notice_message_id
from pixconnect.platform.base.webhook_exchange import WebhookExchange


class Receivers(Protocol):
    async def check_url(self, url: str) -> None:
        """Check a URL before it is saved, by its form and by every address that its name resolves to now."""
        ...

    async def post(self, url: str, headers: Sequence[tuple[str, str]], body: bytes) -> WebhookExchange:
        """Post once, under the same rules, to an address that was just checked."""
        ...


DeliveryStatus = Literal["pending", "delivered", "failed"]

FAILING_MAX = timedelta(days=5)  # an endpoint that has only failed for this long is disabled
RETRY_AFTER_MAX = timedelta(hours=1)
JITTER = 0.2  # a retry comes up to this share of its wait later, never earlier
GONE = 410  # the receiver wants no further events
RESPONSE_KEPT_MAX = 1024  # bytes

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
"""The backoff after each failed attempt; after the last of them the delivery is given up if its attempt fails.

These depend on it: ``ATTEMPTS_LISTED_MAX`` on the number, the least ``event_retention_days`` on the sum, and the window in
which the clock is walked (``features/sandbox/service/clock.py``) on the first.
"""


class Attempt(Struct, frozen=True, kw_only=True):
    number: int  # from 1, counting on through redeliveries
    started_at: datetime
    status_code: int | None
    duration_us: int  # from the name look-up to the last byte
    response: str
    error: str | None  # why it failed, for the endpoint's owner


class Delivery(Struct, frozen=True, kw_only=True):
    id: int
    holder_id: int
    endpoint_id: int
    event_id: int
    status: DeliveryStatus
    due_at: datetime | None  # when the next attempt may start; ``None`` once delivered or given up
    attempts: tuple[Attempt, ...]
    created_at: datetime


class KeyDelivery(Struct, frozen=True, kw_only=True):
    """The contents of a key webhook for one Pix."""

    id: int
    notice_id: int  # the delivery that stores the body; before there is one, its own id
    end_to_end_id: str
    status: DeliveryStatus
    due_at: datetime | None
    attempts: tuple[Attempt, ...]  # the body's
    created_at: datetime


ResourceAt = tuple[int, str, int]  # an endpoint, and the kind and id of a resource, whose events it gets in order


class DueDelivery(Struct, frozen=True, kw_only=True):
    id: int
    holder_id: int
    endpoint_id: int
    event_id: int
    resource: str
    resource_id: int
    slot: int
    due_at: datetime
    attempts_count: int
    failures_count: int  # since it was last scheduled: a redelivery resets it
    body: str
    # Other deliveries to the key's webhook in the same body; ``None`` if no such body is stored.
    covers: tuple[int, ...] | None = None

    @property
    def at(self) -> ResourceAt:
        return self.endpoint_id, self.resource, self.resource_id

    @property
    def needs_notice(self) -> bool:
        """Whether it goes to the webhook of a key and has no body yet."""
        return self.covers is None and self.resource == KEY_WEBHOOK_RESOURCE

    @property
    def message_id(self) -> str:
        """Its id for the receiver's deduplication: the same on every attempt."""
        is_notice = self.resource == KEY_WEBHOOK_RESOURCE
        return notice_message_id(self.id) if is_notice else message_id(self.event_id)


class DueCursor(Struct, frozen=True, kw_only=True):
    due_at: datetime
    id: int = 0


class BacklogWalk(Struct, frozen=True, kw_only=True):
    """The progress through one endpoint's pending deliveries, in order of resources; and where the walk ends."""

    after_resource_id: int = 0
    until_resource_id: int = 2**63 - 1

    @property
    def is_at_start(self) -> bool:
        return self.after_resource_id == 0


class DueRead(Struct, frozen=True, kw_only=True):
    ready: list[DueDelivery]  # in the order in which they became due
    held_back: list[ResourceAt]  # of deliveries that wait for an earlier one, or for their endpoint
    unfinished: DueCursor | None  # where to continue; ``None`` if everything was read


class Conclusion(Struct, frozen=True, kw_only=True):
    delivery: DueDelivery  # its earlier state
    attempt: Attempt
    status: DeliveryStatus
    due_at: datetime | None
    failures_count: int
    is_gone: bool  # the receiver answered 410, so its endpoint is disabled
    ended_at: datetime
    detail: str | None = None  # why it failed, for the operator; the owner may see less


def conclude(
    delivery: DueDelivery,
    exchange: WebhookExchange,
    *,
    ended_at: datetime,
    real_now: datetime,
    chance: float,
    waits: Sequence[timedelta] | None = None,
) -> Conclusion:
    """Conclude an attempt; ``real_now`` is for a ``Retry-After`` that is a date, ``chance``, from 0 to 1, for the jitter."""
    status_code, error = exchange.status_code, exchange.error
    is_delivered = error is None and status_code is not None and 200 <= status_code <= 299
    is_gone = error is None and status_code == GONE
    status: DeliveryStatus = "delivered" if is_delivered else "pending"
    due_at, failures_count = None, delivery.failures_count
    if is_gone:
        # Still pending and due: if its owner activates the endpoint again, it continues at once.
        due_at = ended_at
    elif not is_delivered:
        failures_count += 1
        wait = retry_wait(failures_count, parse_retry_after(exchange.retry_after, real_now), chance, waits)
        due_at, status = (None, "failed") if wait is None else (ended_at + wait, "pending")
    return Conclusion(
        delivery=delivery,
        attempt=Attempt(
            number=delivery.attempts_count + 1,
            started_at=ended_at - timedelta(microseconds=exchange.duration_us),
            status_code=status_code,
            duration_us=exchange.duration_us,
            # Receivers send anything: characters that PostgreSQL rejects are replaced.
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
    """Determine since when an endpoint fails and whether that disables it, by attempts in order of their ends."""
    for conclusion in conclusions:
        ended_at = conclusion.ended_at
        if conclusion.status == "delivered":
            # One success of any delivery ends the run of failures.
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
    # An endpoint stopped by its owner stays so, although an attempt was still pending.
    if endpoint.status != "active":
        return endpoint
    return structs.replace(endpoint, status="disabled", status_reason=reason, modified_at=now)


def retry_wait(
    failures_count: int, retry_after: timedelta | None, chance: float, waits: Sequence[timedelta] | None = None
) -> timedelta | None:
    """Return the wait after an attempt; ``None`` to give up. Failures are those of this schedule, from 1."""
    waits = RETRY_WAITS if waits is None else waits
    if failures_count > len(waits):
        return None
    # Randomly later and never earlier, so that deliveries that failed together do not come back together.
    scheduled = waits[failures_count - 1] * (1 + JITTER * chance)
    # The longer of the two, but a receiver may request an hour at most.
    return max(scheduled, min(retry_after, RETRY_AFTER_MAX)) if retry_after is not None else scheduled


def parse_retry_after(text: str | None, real_now: datetime) -> timedelta | None:
    """Read the ``Retry-After`` header: whole seconds, or an HTTP date of real time; ``None`` if it is neither."""
    if text is None:
        return None
    text = text.strip()
    # `isdigit` alone accepts digits of other scripts, and a receiver may send any number of digits.
    if text.isascii() and text.isdigit():
        return timedelta(seconds=int(text)) if len(text) <= 9 else RETRY_AFTER_MAX
    try:
        instant = email.utils.parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        # No date, or one with a year, hour or zone out of our range.
        return None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return max(instant - real_now, timedelta(0))
