"""Webhook endpoints, their deliveries, and the events: what their owner can do with them.

A URL is judged, its name looked up, with no transaction open. Secrets go in and never come out again.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Final

from msgspec import structs

from pixconnect.domain import endpoint as endpoint_rules
from pixconnect.domain import errors
from pixconnect.domain.access import Caller
from pixconnect.domain.delivery import Delivery, DeliveryStatus
from pixconnect.domain.endpoint import Endpoint, EndpointChange, EndpointRequest
from pixconnect.domain.event import Event
from pixconnect.domain.listing import Page, Span
from pixconnect.domain.secret_box import SealBroken
from pixconnect.foundation.pool import Connection
from pixconnect.store import delivery_history as delivery_history_store
from pixconnect.store import endpoint as endpoint_store
from pixconnect.store import event as event_store
from pixconnect.usecases.context import Context
from pixconnect.usecases.lone_write import write_alone, writing
from pixconnect.writing.service_time import service_now_to_write

_BATCH_MAX = 5_000
"""Deliveries that one statement makes or changes at most."""
_ARRIVING_MAX: Final = 1_000
"""So many deliveries that are due are not just being sent: nobody waits for them."""
_ARRIVING_LOOKS_MAX: Final = 20
_ARRIVING_LOOK_S: Final = 0.05
_FIRST: Final = (0, 0, 0)
_RESUMED_MAX = 100
"""Endpoints that one look at those that were resumed finds at most."""


async def create_endpoint(context: Context, caller: Caller, request: EndpointRequest) -> Endpoint:
    """Register where a holder wants to be told.

    Raises:
        BadRequest: The event types or the secret.
        LimitExceeded: The holder has as many endpoints as it can.
        InvalidWebhookUrl: The URL.
    """
    event_types = endpoint_rules.parse_event_types(request.event_types)
    endpoint_rules.check_secret(request.secret)
    _check_count(await endpoint_store.count(context.pool, caller.holder_id))
    await context.receivers.check_url(request.url)
    endpoint_id = await endpoint_store.next_id(context.pool)
    sealed = _seal(context, endpoint_id, request.secret)
    async with write_alone(context.pool) as connection:
        await endpoint_store.lock_holder(connection, caller.holder_id)
        _check_count(await endpoint_store.count(connection, caller.holder_id))
        now = await service_now_to_write(context.clock, connection)
        endpoint = Endpoint(
            id=endpoint_id,
            holder_id=caller.holder_id,
            url=request.url,
            event_types=event_types,
            status="active",
            status_reason=None,
            secret_sealed=sealed,
            previous_secret_sealed=None,
            previous_secret_until=None,
            first_failure_at=None,
            created_at=now,
            modified_at=now,
        )
        await endpoint_store.insert(connection, endpoint)
    return endpoint


async def list_endpoints(context: Context, caller: Caller, span: Span) -> Page[Endpoint]:
    """The holder's endpoints, newest first."""
    return await endpoint_store.read_page(context.pool, caller.holder_id, span)


async def read_endpoint(context: Context, caller: Caller, endpoint_id: int) -> Endpoint:
    """One endpoint of the holder.

    Raises:
        NotFound: It has none of this id.
    """
    return _found(await endpoint_store.find(context.pool, caller.holder_id, endpoint_id))


async def change_endpoint(context: Context, caller: Caller, endpoint_id: int, change: EndpointChange) -> Endpoint:
    """Change an endpoint; from its next attempt on it counts.

    Raises:
        BadRequest: Nothing to change, the event types or the secret.
        NotFound: The holder has no endpoint of this id.
        InvalidWebhookUrl: The URL.
    """
    if change == EndpointChange():
        raise errors.BadRequest("body: name at least one of url, secret, event_types and status")
    if change.event_types is not None:
        endpoint_rules.parse_event_types(change.event_types)
    if change.secret is not None:
        endpoint_rules.check_secret(change.secret)
    await read_endpoint(context, caller, endpoint_id)
    if change.url is not None:
        await context.receivers.check_url(change.url)
    async with write_alone(context.pool) as connection:
        before = _found(await endpoint_store.lock(connection, caller.holder_id, endpoint_id))
        now = await service_now_to_write(context.clock, connection)
        after = _changed(context, before, change, now)
        if after == before:
            return before
        after = structs.replace(after, modified_at=now)
        await endpoint_store.update(connection, after)
        if after.status == "active" and before.status != "active":
            # What is more than a batch, or what a crash leaves over, is housekeeping's.
            await endpoint_store.set_resumed(connection, endpoint_id, now)
            if await delivery_history_store.resume(connection, endpoint_id, now, now, _FIRST, _BATCH_MAX) is None:
                await endpoint_store.forget_resumed(connection, endpoint_id, now)
    context.wake_workers()
    return after


async def finish_resuming(context: Context) -> int:
    """Date anew what waits for endpoints that were resumed, batch by batch; each is a transaction of its own.

    Two processes that do it at once do the same.

    Returns:
        How many batches that was.
    """
    batches_count = 0
    for endpoint_id, resumed_at in await endpoint_store.find_resumed(context.pool, _RESUMED_MAX):
        place: delivery_history_store.BacklogCursor | None = _FIRST
        while place is not None:
            async with context.pool.acquire() as connection:
                now = await service_now_to_write(context.clock, connection)
                place = await delivery_history_store.resume(connection, endpoint_id, resumed_at, now, place, _BATCH_MAX)
            batches_count += 1
            context.wake_workers()
        await endpoint_store.forget_resumed(context.pool, endpoint_id, resumed_at)
    return batches_count


async def delete_endpoint(context: Context, caller: Caller, endpoint_id: int) -> Endpoint:
    """Forget an endpoint. What was pending for it is given up.

    Raises:
        NotFound: The holder has no endpoint of this id.
    """
    async with write_alone(context.pool) as connection:
        endpoint = _found(await endpoint_store.lock(connection, caller.holder_id, endpoint_id))
        await endpoint_store.delete(connection, caller.holder_id, endpoint_id)
    return endpoint


async def list_deliveries(
    context: Context, caller: Caller, endpoint_id: int, status: DeliveryStatus | None, span: Span
) -> Page[Delivery]:
    """An endpoint's deliveries with their attempts, newest first; of one status, or of all.

    Raises:
        NotFound: The holder has no endpoint of this id.
    """
    await read_endpoint(context, caller, endpoint_id)
    return await delivery_history_store.read_page(context.pool, endpoint_id, status, span)


async def read_delivery(context: Context, caller: Caller, delivery_id: int) -> Delivery:
    """One delivery of the holder with its attempts.

    Raises:
        NotFound: It has none of this id.
    """
    delivery = await delivery_history_store.find(context.pool, caller.holder_id, delivery_id)
    if delivery is None:
        raise errors.NotFound("id: there is no such delivery")
    return delivery


async def redeliver(context: Context, caller: Caller, delivery_id: int) -> Delivery:
    """Start a delivery's schedule again, now; its attempts go on counting.

    Raises:
        NotFound: The holder has no delivery of this id.
    """
    await read_delivery(context, caller, delivery_id)
    async with writing(context.pool) as write:
        async with write.transaction() as connection:
            now = await service_now_to_write(context.clock, connection)
            await delivery_history_store.redeliver(connection, caller.holder_id, delivery_id, now)
        context.wake_workers()
        return await read_delivery(context, caller, delivery_id)


async def redeliver_unacknowledged(context: Context, caller: Caller, endpoint_id: int, since: datetime) -> int:
    """Start the schedules of everything again that the endpoint has not acknowledged since an instant.

    Returns:
        How many deliveries.

    Raises:
        NotFound: The holder has no endpoint of this id.
    """
    await read_endpoint(context, caller, endpoint_id)
    total_count, after_id, count = 0, 0, _BATCH_MAX
    async with writing(context.pool) as write:
        while count >= _BATCH_MAX:
            async with write.transaction() as connection:
                now = await service_now_to_write(context.clock, connection)
                count, after_id = await delivery_history_store.redeliver_unacknowledged(
                    connection, endpoint_id, since, after_id, now, _BATCH_MAX
                )
            total_count += count
            context.wake_workers()
    return total_count


async def list_events(context: Context, caller: Caller, span: Span) -> Page[Event]:
    """The holder's events, newest first; kept whether or not anybody was told."""
    return await event_store.read_page(context.pool, caller.holder_id, span)


async def replay_events(
    context: Context, caller: Caller, endpoint_id: int, initial_at: datetime, final_at: datetime
) -> int:
    """Tell an endpoint every event of a time again, of the types that it asks for; while it is not active they wait.

    What waits for the endpoint already is not made to wait twice.

    Returns:
        How many events.

    Raises:
        NotFound: The holder has no endpoint of this id.
        LimitExceeded: More would wait for the endpoint than may, or its last replay is still under way.
    """
    endpoint = await read_endpoint(context, caller, endpoint_id)
    if endpoint.status == "active":
        await _let_arrive(context, endpoint_id)
    async with (
        writing(context.pool) as write,
        context.pool.acquire() as connection,
        endpoint_store.replaying(connection, endpoint_id) as is_alone,
    ):
        if not is_alone:
            raise errors.LimitExceeded("a replay to this endpoint is under way: wait for its answer")
        await _check_room(context, connection, endpoint, initial_at, final_at)
        total_count, after = 0, (initial_at, 0)
        while True:
            now = await service_now_to_write(context.clock, connection)
            with write.committing():
                count, after = await delivery_history_store.replay(
                    connection, endpoint, after, final_at, now, _BATCH_MAX
                )
            total_count += count
            context.wake_workers()
            if count < _BATCH_MAX:
                return total_count


async def _let_arrive(context: Context, endpoint_id: int) -> None:
    """Give what is just being sent a moment to be recorded: until then it waits, and would not be sent again."""
    for _ in range(_ARRIVING_LOOKS_MAX):
        async with context.pool.acquire() as connection:
            now = await service_now_to_write(context.clock, connection)
            due_count = await delivery_history_store.count_pending(connection, endpoint_id, now, _ARRIVING_MAX)
        if not 0 < due_count < _ARRIVING_MAX:
            return
        await asyncio.sleep(_ARRIVING_LOOK_S)


async def _check_room(
    context: Context, connection: Connection, endpoint: Endpoint, initial_at: datetime, final_at: datetime
) -> None:
    pending_max = context.policy.webhook_pending_max
    waiting_count = await delivery_history_store.count_pending(connection, endpoint.id, None, pending_max + 1)
    room = max(0, pending_max - waiting_count)
    wanted_count = await delivery_history_store.count_replayable(connection, endpoint, initial_at, final_at, room + 1)
    if wanted_count > room:
        raise errors.LimitExceeded(
            f"at most {pending_max} deliveries may wait for an endpoint, and {waiting_count} do: replay a shorter time"
        )


def _changed(context: Context, before: Endpoint, change: EndpointChange, now: datetime) -> Endpoint:
    """The endpoint as its owner wants it, without the instant of the change."""
    after = before
    if change.url is not None:
        after = structs.replace(after, url=change.url)
    if change.event_types is not None:
        after = structs.replace(after, event_types=endpoint_rules.parse_event_types(change.event_types))
    current = None if change.secret is None else _open_secret(context, before)
    if change.secret is not None and change.secret != current:
        after = structs.replace(
            after,
            secret_sealed=_seal(context, before.id, change.secret),
            previous_secret_sealed=None if current is None else before.secret_sealed,
            previous_secret_until=None if current is None else now + endpoint_rules.SECRET_OVERLAP,
        )
    if change.status is not None and change.status != before.status:
        # The five days start anew: what failed before it was stopped says nothing about what its owner has mended since.
        after = structs.replace(after, status=change.status, status_reason=None, first_failure_at=None)
    return after


def _seal(context: Context, endpoint_id: int, secret: str) -> bytes:
    return context.secret_box.seal(secret.encode(), endpoint_rules.endpoint_seal(endpoint_id))


def _open_secret(context: Context, endpoint: Endpoint) -> str | None:
    """The secret as it is; ``None`` if it was sealed with a key that is gone."""
    try:
        return context.secret_box.open(endpoint.secret_sealed, endpoint_rules.endpoint_seal(endpoint.id)).decode()
    except SealBroken:
        return None


def _check_count(count: int) -> None:
    if count >= endpoint_rules.ENDPOINTS_MAX:
        raise errors.LimitExceeded(f"a holder can have {endpoint_rules.ENDPOINTS_MAX} webhook endpoints")


def _found(endpoint: Endpoint | None) -> Endpoint:
    if endpoint is None:
        raise errors.NotFound("id: there is no such webhook endpoint")
    return endpoint
