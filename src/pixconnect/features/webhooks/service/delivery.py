"""A worker's steps with deliveries: post a due one, and record the attempt, in batches.

No transaction is open while we post to a receiver. A fence guards every record: a worker that lost its slot cannot write.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Final, Protocol

import structlog
from msgspec import Struct

from pixconnect.features.sandbox.rules import Message
from pixconnect.features.sandbox.service.sandbox import draw_fault
from pixconnect.features.webhooks.rules import delivery as delivery_rules
from pixconnect.features.webhooks.rules import endpoint as endpoint_rules
from pixconnect.features.webhooks.rules.delivery import Conclusion, DueDelivery
from pixconnect.features.webhooks.rules.endpoint import Endpoint
from pixconnect.features.webhooks.service.endpoint import RECEIVERS
from pixconnect.features.webhooks.tables import delivery as delivery_store
from pixconnect.features.webhooks.tables import delivery_history as delivery_history_store
from pixconnect.features.webhooks.tables import endpoint as endpoint_store
from pixconnect.kernel.feature import gather
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.tables import lease as lease_store
from pixconnect.kernel.writing.batch import Batch, WriteOperation
from pixconnect.platform.base import errors
from pixconnect.platform.base.entropy import SealBroken, SecretBox
from pixconnect.platform.base.webhook_exchange import WebhookExchange
from pixconnect.platform.flow.shares import current_party
from pixconnect.platform.pool import Connection

_WAIT_STEP_S = 0.02
_KEPT_BACK = b"a fault rule kept this callback back"
_OUR_DEFECT = "the service could not make or record this attempt, by an internal defect"

_log = structlog.get_logger(__name__)


class Recording(Struct, frozen=True, kw_only=True):
    conclusion: Conclusion
    epoch: int  # the epoch of its slot when this worker read the delivery

    @property
    def holder_id(self) -> int:
        return self.conclusion.delivery.holder_id


class Signatures(Protocol):
    """Signs events with the published key."""

    def sign(self, delivery: DueDelivery, real_now: datetime) -> str:
        """Return the detached JWS of an event for its holder, made at most a minute ago."""
        ...


class Format(Protocol):
    """How another interface than ours posts an endpoint's events."""

    url: str
    retry_waits: Sequence[timedelta] | None  # ``None`` is ours

    async def translate(self, context: Context, delivery: DueDelivery) -> DueDelivery:
        """Return the delivery with the body to post."""
        ...

    async def sign(self, context: Context, secret: str, body: bytes) -> list[tuple[str, str]] | None:
        """Return the headers of a post; ``None`` is ours."""
        ...

    async def make_notice(
        self, context: Context, delivery: DueDelivery, epoch: int, along_ids: Sequence[int]
    ) -> DueDelivery | None:
        """Write the body of a delivery that has none yet, which includes these other deliveries too.

        Args:
            epoch: The epoch of its slot when this worker read the delivery.
            along_ids: Due deliveries to the same endpoint; those in another body are omitted.

        Returns:
            The delivery with its body; ``None`` if the slot is another worker's by now, or the delivery has a body already.
        """
        ...


class Formats(Struct, frozen=True):
    """A feature's formats of webhooks. An endpoint has the format of the first feature that finds one, or else ours."""

    find: Callable[[Endpoint], Format | None]


@cache
def _list_formats() -> tuple[Formats, ...]:
    return gather("delivery_formats", Formats)


class Recipient:
    """An endpoint as read for concurrent attempts: its secrets are opened once for all of them."""

    __slots__ = ("_secrets", "endpoint", "format", "url")

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        # Most endpoints have ours, and need no search.
        has_ours = endpoint.pix_key is endpoint.profile is None
        self.format = None if has_ours else next(filter(None, (each.find(endpoint) for each in _list_formats())), None)
        self.url = endpoint.url if self.format is None else self.format.url
        self._secrets: list[str] | None = None

    @property
    def retry_waits(self) -> Sequence[timedelta] | None:
        return None if self.format is None else self.format.retry_waits

    def open_secrets(self, context: Context) -> list[str]:
        """Return the signing secrets; ``SealBroken`` if they were sealed with another secret key."""
        if self._secrets is None:
            self._secrets = open_secrets(context.secret_box, self.endpoint, context.clock.now())
        return self._secrets


async def attempt(context: Context, delivery: DueDelivery, recipient: Recipient, signatures: Signatures) -> Conclusion:
    """Post a delivery once; any failure becomes the conclusion. ``ServiceUnavailable`` without a key: nothing was sent."""
    try:
        exchange = await _post(context, delivery, recipient, signatures)
        return _conclude(context, delivery, exchange, recipient.retry_waits)
    except errors.ServiceUnavailable:
        raise
    except Exception:  # noqa: BLE001  an attempt that is not counted would be repeated for ever
        _log.exception("attempt failed by a defect", delivery_id=delivery.id)
        return conclude_defect(context, delivery)


def conclude_defect(context: Context, delivery: DueDelivery) -> Conclusion:
    """Make the conclusion of an attempt that failed by an internal defect; only the log has details."""
    return _conclude(context, delivery, _failed(_OUR_DEFECT))


async def _post(context: Context, delivery: DueDelivery, recipient: Recipient, signatures: Signatures) -> WebhookExchange:
    try:
        secrets = recipient.open_secrets(context)
    except SealBroken:
        return _failed("the endpoint's secret cannot be read here any more: set it again")
    real_now, headers = context.clock.real_now(), None
    if recipient.format is not None:
        delivery = await recipient.format.translate(context, delivery)
    body = delivery.body.encode()
    if recipient.format is not None:
        headers = await recipient.format.sign(context, secrets[0], body)
    if headers is None:
        headers = endpoint_rules.request_headers(
            secrets,
            delivery.message_id,
            body,
            jws=signatures.sign(delivery, real_now),
            attempt_number=delivery.attempts_count + 1,
            real_now=real_now,
        )
    # Outgoing connections are shared fairly among holders.
    whose = current_party.set(delivery.holder_id)
    try:
        effect, endpoint = "", recipient.endpoint
        # Our own webhooks have no fault rules.
        if endpoint.profile is not None:
            message = Message(operation="callback", id=delivery.message_id, key=endpoint.pix_key)
            effect = await draw_fault(context, message)
        if effect == "lost":
            # The sender counts it as delivered, so it never comes again.
            return WebhookExchange(status_code=200, retry_after=None, response=_KEPT_BACK, error=None, duration_us=0)
        if effect == "duplicate_answer":
            await context.port(RECEIVERS).post(recipient.url, headers, body)
        return await context.port(RECEIVERS).post(recipient.url, headers, body)
    finally:
        current_party.reset(whose)


def _failed(reason: str) -> WebhookExchange:
    return WebhookExchange(status_code=None, retry_after=None, response=b"", error=reason, duration_us=0)


def _conclude(
    context: Context, delivery: DueDelivery, exchange: WebhookExchange, waits: Sequence[timedelta] | None = None
) -> Conclusion:
    return delivery_rules.conclude(
        delivery,
        exchange,
        ended_at=context.clock.now(),
        real_now=context.clock.real_now(),
        chance=context.entropy.fraction(),
        waits=waits,
    )


def open_secrets(secret_box: SecretBox, endpoint: Endpoint, now: datetime) -> list[str]:
    """Return an endpoint's signing secrets, newest first: for a while after a change there are two."""
    about = endpoint_rules.endpoint_seal(endpoint.id)
    secrets = [secret_box.open(endpoint.secret_sealed, about).decode()]
    previous, until = endpoint.previous_secret_sealed, endpoint.previous_secret_until
    if previous is not None and until is not None and now < until:
        secrets.append(secret_box.open(previous, about).decode())
    return secrets


async def record(context: Context, conclusion: Conclusion, epoch: int) -> bool:
    """Record an attempt and its consequences; ``False`` if its slot belongs to another worker by now.

    After ``OutcomeUnknown`` it is safe to record it again.
    """
    return await context.writes.submit(RECORD, Recording(conclusion=conclusion, epoch=epoch))


def _latest_epochs(recordings: Sequence[Recording]) -> dict[int, int]:
    # One batch may have recordings of several epochs of a slot: only those of the latest may be written.
    epochs: dict[int, int] = {}
    for recording in recordings:
        slot = recording.conclusion.delivery.slot
        epochs[slot] = max(recording.epoch, epochs.get(slot, 0))
    return epochs


async def _record_at_once(recordings: Batch[Recording]) -> Sequence[bool] | None:
    """Record successful attempts, which change nothing of an endpoint that has not failed before."""
    epochs, conclusions = _latest_epochs(recordings), [recording.conclusion for recording in recordings]
    for recording, conclusion in zip(recordings, conclusions, strict=True):
        is_plain = conclusion.status == "delivered" and not conclusion.delivery.covers
        if not is_plain or recording.epoch != epochs[conclusion.delivery.slot]:
            return None
    endpoint_ids = list({conclusion.delivery.endpoint_id for conclusion in conclusions})
    is_recorded = await delivery_store.record(recordings.connection, epochs, _in_order(conclusions), endpoint_ids)
    return [True] * len(recordings) if is_recorded else None


def _in_order(conclusions: Sequence[Conclusion]) -> list[Conclusion]:
    return sorted(conclusions, key=lambda conclusion: conclusion.delivery.id)


async def _record(recordings: Batch[Recording]) -> Sequence[bool]:
    epochs = _latest_epochs(recordings)
    # Locks are taken in the order slots, endpoints, deliveries, each ascending.
    held = await lease_store.fence(recordings.connection, epochs)
    answers = [
        recording.conclusion.delivery.slot in held and recording.epoch == epochs[recording.conclusion.delivery.slot]
        for recording in recordings
    ]
    fenced = [recording.conclusion for recording, is_held in zip(recordings, answers, strict=True) if is_held]
    if not fenced:
        return answers
    connection, epochs = recordings.connection, {slot: epoch for slot, epoch in epochs.items() if slot in held}
    await _update_endpoints(connection, fenced)
    ids = [conclusion.delivery.id for conclusion in fenced]
    covered_ids = [covered for conclusion in fenced for covered in conclusion.delivery.covers or ()]
    if covered_ids:
        await delivery_history_store.lock_deliveries(connection, [*ids, *covered_ids])
    await delivery_store.record(connection, epochs, _in_order(fenced))
    if covered_ids:
        await delivery_history_store.follow_notice(connection, ids, covered_ids)
    return answers


RECORD: Final = WriteOperation("record_attempts", _record, write_at_once=_record_at_once)


async def _update_endpoints(connection: Connection, conclusions: Sequence[Conclusion]) -> None:
    by_endpoint: dict[int, list[Conclusion]] = {}
    failing: set[int] = set()
    for conclusion in conclusions:
        endpoint_id = conclusion.delivery.endpoint_id
        by_endpoint.setdefault(endpoint_id, []).append(conclusion)
        if conclusion.status != "delivered":
            failing.add(endpoint_id)
    for before in await endpoint_store.lock_concerned(connection, sorted(by_endpoint), sorted(failing)):
        after = delivery_rules.judge_endpoint(before, by_endpoint[before.id])
        # Most deliveries change nothing of their endpoint.
        if after != before:
            await endpoint_store.update(connection, after)


# For a sandbox clock that walks from deadline to deadline.


async def wait_until_sent(
    context: Context, until: datetime, timeout_s: float, except_endpoint_ids: Collection[int] = ()
) -> bool:
    """Wait in real time until workers have tried every delivery that is due by then; return whether they have."""
    give_up_s = context.clock.monotonic_s() + timeout_s
    context.wake_workers()
    while await delivery_store.next_due_at(context.pool, until, except_endpoint_ids) is not None:
        if context.clock.monotonic_s() >= give_up_s:
            return False
        await asyncio.sleep(_WAIT_STEP_S)
    return True


async def read_oldest_due(context: Context) -> datetime | None:
    """Return since when the oldest delivery is due that neither its endpoint's limit nor an earlier event delays."""
    async with context.pool.acquire() as connection:
        # Workers record their oldest due, untried delivery.
        workers_count, oldest_due_at = await lease_store.read_lease_backlog(connection)
        # Without a worker, all due ones wait for one.
        if workers_count == 0:
            return await delivery_store.next_due_at(connection, context.clock.now())
    return None if oldest_due_at is None else oldest_due_at + context.clock.offset
