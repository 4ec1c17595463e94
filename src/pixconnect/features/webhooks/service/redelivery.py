"""Sends one delivery again, or all events of an interval.

A repeated delivery keeps its id, by which receivers deduplicate it. Events are sent again by new deliveries, as long as they
are kept.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from pixconnect.features.webhooks.rules.delivery import Delivery
from pixconnect.features.webhooks.rules.endpoint import Endpoint
from pixconnect.features.webhooks.service.endpoint import read_delivery, read_endpoint, resume_backlog
from pixconnect.features.webhooks.tables import delivery_history as delivery_history_store
from pixconnect.features.webhooks.tables import endpoint as endpoint_store
from pixconnect.features.webhooks.tables import redelivery as redelivery_store
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.audit import Act
from pixconnect.kernel.flows.context import Context, Core, LoneWrite, Operator, writing
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.kernel.tables import listing as listing_store
from pixconnect.kernel.tables.clock import service_now, service_now_to_write
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection

BATCH_MAX: Final = 2_000  # deliveries that one transaction makes
_ARRIVING_MAX: Final = 1_000  # with this many due deliveries, a short wait would not see them sent, so it is skipped
_ARRIVING_LOOKS_MAX: Final = 20
_ARRIVING_LOOK_S: Final = 0.05


async def redeliver(context: Context, caller: Caller, delivery_id: int, act: Act | None = None) -> Delivery:
    """Restart a delivery's schedule of retries now; the count of its attempts continues."""
    await read_delivery(context, caller, delivery_id)
    async with writing(context.pool) as write:
        await redeliver_one(context, write, caller.holder_id, delivery_id, act)
        return await read_delivery(context, caller, delivery_id)


async def redeliver_one(context: Context, write: LoneWrite, holder_id: int, delivery_id: int, act: Act | None = None) -> None:
    async with write.transaction() as connection:
        now = await service_now_to_write(context.clock, connection)
        held_ids, ids = [], await redelivery_store.find_same_body(connection, holder_id, delivery_id)
        while ids != held_ids:
            # A worker may make a body meanwhile, so it is read again once all its deliveries are locked.
            await delivery_history_store.lock_deliveries(connection, ids)
            held_ids, ids = ids, await redelivery_store.find_same_body(connection, holder_id, delivery_id)
        if ids:
            await redelivery_store.restart(connection, ids, now)
        await audit.record_act(connection, act)
    context.wake_workers()


async def send_waiting(context: Context, caller: Caller, endpoint_id: int, act: Act) -> None:
    """Make all pending deliveries of an active endpoint due at once."""
    await read_endpoint(context, caller, endpoint_id)
    async with writing(context.pool) as write, write.transaction() as connection:
        endpoint = await endpoint_store.lock(connection, caller.holder_id, endpoint_id)
        if endpoint is None or endpoint.status != "active":
            raise errors.BadRequest("id: the endpoint is not active: activate it, and all that waits is sent")
        now = await service_now_to_write(context.clock, connection)
        await resume_backlog(connection, endpoint_id, now, now)
        await audit.record_act(connection, act)
    context.wake_workers()


async def redeliver_events(
    context: Context, caller: Caller, endpoint_id: int, initial_at: datetime, final_at: datetime, act: Act | None = None
) -> int:
    """Send an endpoint all events of an interval again, of its event types; while it is not active they wait.

    An event that waits for the endpoint already is neither sent twice nor counted; all that wait become due.
    """
    endpoint = await read_endpoint(context, caller, endpoint_id)
    return await redeliver_events_to(context, endpoint, initial_at, final_at, act=act, wake_workers=context.wake_workers)


async def redeliver_events_as_operator(
    context: Operator, endpoint_id: int, initial_at: datetime, final_at: datetime | None
) -> int:
    """As ``redeliver_events``, to any holder's endpoint; workers send the deliveries at their next poll.

    Args:
        final_at: ``None`` is now.

    Raises:
        OutcomeUnknown: The database was lost; finished parts stay, and repeating it does the rest.
    """
    async with context.pool.acquire() as connection:
        endpoint = (await endpoint_store.find_many(connection, [endpoint_id])).get(endpoint_id)
        until = final_at or await service_now(context.clock, connection)
    if endpoint is None:
        raise errors.NotFound(f"endpoint_id: there is no endpoint {endpoint_id}")
    if initial_at > until:
        raise errors.BadRequest("since: must not be after the end")
    act = Act(
        operator=context.operator,
        verb="operator endpoint replay",
        subject=f"endpoint {endpoint_id}",
        after={"since": initial_at, "until": until},
    )
    return await redeliver_events_to(context, endpoint, initial_at, until, act=act)


async def redeliver_events_to(
    context: Core,
    endpoint: Endpoint,
    initial_at: datetime,
    final_at: datetime,
    batch_max: int = BATCH_MAX,
    act: Act | None = None,
    wake_workers: Callable[[], None] = lambda: None,
) -> int:
    """As ``redeliver_events``, to an endpoint of either kind; wakes workers after each batch."""
    if endpoint.status == "active":
        await _await_pending(context, endpoint.id)
    oldest, newest = listing_store.bounds(initial_at, final_at)
    async with (
        writing(context.pool) as write,
        context.pool.acquire() as connection,
        redelivery_store.redelivering_events(connection, endpoint.id) as is_alone,
    ):
        if not is_alone:
            raise errors.LimitExceeded("a replay to this endpoint is under way: wait for its answer")
        # The endpoint also receives events of its holder's predecessors.
        holder_ids = await holder_store.list_family(connection, endpoint.holder_id)
        # One at a time: two that count concurrently would both find room.
        await _check_room(context, connection, endpoint, holder_ids, oldest, newest)
        # Each batch commits by itself, and the act with the first one. If the process dies in between, the same replay sends
        # the rest: it leaves out events that still wait.
        count, started_at = 0, await service_now_to_write(context.clock, connection)
        for holder_id in holder_ids:
            place, replayed = (oldest, 0), None
            while replayed is None or len(replayed) == batch_max:
                async with write.begin_on(connection):
                    now = await service_now_to_write(context.clock, connection)
                    # Its owner may change or delete it between two batches.
                    found = (await endpoint_store.find_many(connection, [endpoint.id])).get(endpoint.id)
                    replayed = []
                    if found is not None:
                        replayed = await redelivery_store.redeliver_events(
                            connection, found, holder_id, place, newest, now, batch_max
                        )
                    await audit.record_act(connection, act)
                wake_workers()
                count, act = count + len(replayed), None
                place = replayed[-1] if replayed else place
        # Afterwards: a later event of a resource then waits for its repeated one.
        async with write.begin_on(connection):
            now = await service_now_to_write(context.clock, connection)
            await resume_backlog(connection, endpoint.id, started_at, now)
        wake_workers()
        return count


async def _await_pending(context: Core, endpoint_id: int) -> None:
    # A delivery that is just being sent still counts as waiting, so its event would be left out.
    for _ in range(_ARRIVING_LOOKS_MAX):
        async with context.pool.acquire() as connection:
            now = await service_now_to_write(context.clock, connection)
            due_count = await delivery_history_store.count_pending(connection, endpoint_id, now, _ARRIVING_MAX)
        if not 0 < due_count < _ARRIVING_MAX:
            return
        await asyncio.sleep(_ARRIVING_LOOK_S)


async def _check_room(
    context: Core, connection: Connection, endpoint: Endpoint, holder_ids: Sequence[int], oldest: datetime, newest: datetime
) -> None:
    pending_max = context.policy.webhook_pending_max
    waiting_count = await delivery_history_store.count_pending(connection, endpoint.id, None, pending_max + 1)
    room = max(0, pending_max - waiting_count)
    wanted_count = 0
    for holder_id in holder_ids:
        wanted_count += await redelivery_store.count_events(connection, endpoint, holder_id, oldest, newest, room + 1)
    if wanted_count > room:
        raise errors.LimitExceeded(
            f"at most {pending_max} deliveries may wait for an endpoint, and {waiting_count} do: replay a shorter time"
        )
