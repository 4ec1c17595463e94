"""Sending events again: one delivery, or whatever a filter matches, endpoint by endpoint and batch by batch.

Callers of the API and operators wait until their job is done; those that the console starts are kept, and workers do them
(``redelivery_job.py``). Both go on by ``advance``. A delivery that is sent again keeps its id, and so do receivers know it;
events are sent again by new deliveries of them, as long as they are kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Final, Protocol

from msgspec import Struct, structs

from pixconnect.domain.frame import errors
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.webhooks.delivery import Delivery
from pixconnect.domain.webhooks.endpoint import Endpoint
from pixconnect.domain.webhooks.redelivery import RedeliveryFilter, RedeliveryJob
from pixconnect.foundation.pool import Connection
from pixconnect.store.frame import listing as listing_store
from pixconnect.store.webhooks import delivery_history as delivery_history_store
from pixconnect.store.webhooks import endpoint as endpoint_store
from pixconnect.store.webhooks import notice as notice_store
from pixconnect.store.webhooks import redelivery as redelivery_store
from pixconnect.store.webhooks.redelivery import RedeliveryBatch
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.audit import Act
from pixconnect.usecases.frame.context import HasClock, HasPolicy, HasPool, HasWakeWorkers
from pixconnect.usecases.frame.lone_write import LoneWrite, writing
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.usecases.webhooks.endpoint import EndpointContext, read_delivery, read_endpoint
from pixconnect.writing.service_time import service_now_to_write

BATCH_MAX = 2_000
"""Deliveries that one transaction looks at, or makes."""
_ENDPOINTS_MAX: Final = 1_000
"""That one look finds at most."""
_ARRIVING_MAX: Final = 1_000
"""If this many deliveries are due, a moment's wait will not see them sent, and nobody waits."""
_ARRIVING_LOOKS_MAX: Final = 20
_ARRIVING_LOOK_S: Final = 0.05

Begin = Callable[[], AbstractAsyncContextManager[Connection]]
Redeliver = Callable[
    [Connection, Endpoint, RedeliveryJob, tuple[datetime, int], datetime, int], Awaitable[RedeliveryBatch | None]
]
"""What starts a batch for one endpoint: ``redeliver_some`` or ``redeliver_events`` of the store."""


class RedeliveryContext(HasPool, HasClock, HasPolicy, HasWakeWorkers, Protocol):
    """What sending again needs."""


class RedeliveredCounts(Struct, frozen=True, kw_only=True):
    deliveries_count: int
    endpoints_count: int


async def redeliver(context: EndpointContext, caller: Caller, delivery_id: int, act: Act | None = None) -> Delivery:
    """Start a delivery's schedule of retries again, now; the count of its attempts goes on."""
    await read_delivery(context, caller, delivery_id)
    async with writing(context.pool) as write:
        await redeliver_one(context, write, caller.holder_id, delivery_id, act)
        return await read_delivery(context, caller, delivery_id)


async def redeliver_one(
    context: RedeliveryContext, write: LoneWrite, holder_id: int, delivery_id: int, act: Act | None = None
) -> None:
    """Send again what one delivery was sent, with all that the same body tells."""
    async with write.transaction() as connection:
        now = await service_now_to_write(context.clock, connection)
        held_ids, ids = [], await redelivery_store.find_told_together(connection, holder_id, delivery_id)
        while ids != held_ids:
            # A worker may make a body meanwhile, so we look again once we hold all that it covers.
            await notice_store.lock(connection, ids)
            held_ids, ids = ids, await redelivery_store.find_told_together(connection, holder_id, delivery_id)
        if ids:
            await redelivery_store.restart(connection, ids, now)
        await audit.record_act(connection, act)
    context.wake_workers()


async def redeliver_unacknowledged(context: EndpointContext, caller: Caller, endpoint_id: int, since: datetime) -> int:
    """Send an endpoint again everything that it has not acknowledged since an instant, and count it."""
    await read_endpoint(context, caller, endpoint_id)
    count = 0
    async with writing(context.pool) as write:
        # One after another, for each has an index. Pending ones first: a failed one becomes pending when it is redelivered.
        for status in ("pending", "failed"):
            wanted = RedeliveryFilter(endpoint_id=endpoint_id, statuses=(status,), initial_at=since)
            job = make_job(caller.holder_id, wanted, context.clock.now())
            count += await _work_off(context, write.transaction, job, on_batch=context.wake_workers)
    return count


async def redeliver_matching(
    context: OperatorContext, wanted: RedeliveryFilter, batch_max: int = BATCH_MAX, endpoints_max: int = _ENDPOINTS_MAX
) -> RedeliveredCounts:
    """Send again what a filter matches, of one holder or of all, as operators do after an outage.

    To an endpoint that is not active it waits. Workers see it when they look next.

    Raises:
        OutcomeUnknown: The database was lost; what was done stays done, and the same again does the rest.
    """
    async with writing(context.pool) as write:
        async with write.transaction() as connection:
            now = await service_now_to_write(context.clock, connection)
            oldest, newest = listing_store.bounds_of(wanted.initial_at, wanted.final_at or now)
            if oldest > newest:
                raise errors.BadRequest("since: must not be after the end")
            endpoints = await _find_some(connection, wanted, 0, endpoints_max)
            if not endpoints and (wanted.holder_id, wanted.endpoint_id) != (None, None):
                raise errors.NotFound("there is no such webhook endpoint")
            # Kept before the first batch: a process may die between its many transactions.
            (status,) = wanted.statuses
            asked = {"status": status, "since": oldest, "until": newest}
            await audit.record(context, connection, "operator endpoint redeliver", _subject(wanted), after=asked)
        counts: list[int] = []
        while endpoints:
            for endpoint in endpoints:
                of_one = structs.replace(wanted, endpoint_id=endpoint.id, initial_at=oldest, final_at=newest)
                job = make_job(endpoint.holder_id, of_one, now)
                counts.append(await _work_off(context, write.transaction, job, batch_max=batch_max))
            async with context.pool.acquire() as connection:
                endpoints = await _find_some(connection, wanted, endpoints[-1].id, endpoints_max)
    return RedeliveredCounts(deliveries_count=sum(counts), endpoints_count=sum(count > 0 for count in counts))


async def _find_some(connection: Connection, wanted: RedeliveryFilter, after_id: int, limit: int) -> list[Endpoint]:
    return await endpoint_store.find_some(connection, wanted.holder_id, wanted.endpoint_id, after_id, limit)


async def redeliver_events(
    context: EndpointContext, caller: Caller, endpoint_id: int, initial_at: datetime, final_at: datetime
) -> int:
    """Send an endpoint all events of an interval again, of the types that it asks for; while it is not active they wait.

    An event that waits for the endpoint already is neither sent twice nor counted.
    """
    return await redeliver_events_to(context, await read_endpoint(context, caller, endpoint_id), initial_at, final_at)


async def redeliver_events_to(
    context: RedeliveryContext, endpoint: Endpoint, initial_at: datetime, final_at: datetime, batch_max: int = BATCH_MAX
) -> int:
    """The same, to an endpoint of either kind."""
    if endpoint.status == "active":
        await _let_arrive(context, endpoint.id)
    wanted = RedeliveryFilter(endpoint_id=endpoint.id, initial_at=initial_at, final_at=final_at)
    job = make_job(endpoint.holder_id, wanted, context.clock.now())
    async with (
        writing(context.pool) as write,
        context.pool.acquire() as connection,
        redelivery_store.redelivering_events(connection, endpoint.id) as is_alone,
    ):
        if not is_alone:
            raise errors.LimitExceeded("a replay to this endpoint is under way: wait for its answer")
        # Only one at a time: two that count at once would both find room.
        await _check_room(context, connection, endpoint, job)
        return await _work_off(
            context,
            lambda: write.begin_on(connection),
            job,
            take=redelivery_store.redeliver_events,
            batch_max=batch_max,
            on_batch=context.wake_workers,
        )


async def _let_arrive(context: RedeliveryContext, endpoint_id: int) -> None:
    # A delivery that is just being sent still counts as waiting, so its event would be left out.
    for _ in range(_ARRIVING_LOOKS_MAX):
        async with context.pool.acquire() as connection:
            now = await service_now_to_write(context.clock, connection)
            due_count = await delivery_history_store.count_pending(connection, endpoint_id, now, _ARRIVING_MAX)
        if not 0 < due_count < _ARRIVING_MAX:
            return
        await asyncio.sleep(_ARRIVING_LOOK_S)


async def _check_room(
    context: RedeliveryContext, connection: Connection, endpoint: Endpoint, job: RedeliveryJob
) -> None:
    pending_max = context.policy.webhook_pending_max
    waiting_count = await delivery_history_store.count_pending(connection, endpoint.id, None, pending_max + 1)
    room = max(0, pending_max - waiting_count)
    wanted_count = await redelivery_store.count_events(connection, endpoint, job.initial_at, job.final_at, room + 1)
    if wanted_count > room:
        raise errors.LimitExceeded(
            f"at most {pending_max} deliveries may wait for an endpoint, and {waiting_count} do: replay a shorter time"
        )


def make_job(
    holder_id: int, wanted: RedeliveryFilter, now: datetime, *, asked_by: str = "", expected_count: int = 0
) -> RedeliveryJob:
    """A job that has not begun."""
    oldest, newest = listing_store.bounds_of(wanted.initial_at, wanted.final_at)
    return RedeliveryJob(
        id=0,
        holder_id=holder_id,
        asked_by=asked_by,
        endpoint_id=wanted.endpoint_id,
        statuses=wanted.statuses,
        event_types=wanted.event_types,
        initial_at=oldest,
        final_at=newest,
        status="running",
        expected_count=expected_count,
        looked_at_count=0,
        redelivered_count=0,
        at_endpoint_id=0,
        at_instant=None,
        at_id=0,
        created_at=now,
        ended_at=None,
    )


async def _work_off(
    context: HasClock,
    begin: Begin,
    job: RedeliveryJob,
    *,
    take: Redeliver = redelivery_store.redeliver_some,
    batch_max: int = BATCH_MAX,
    on_batch: Callable[[], None] | None = None,
) -> int:
    """Do a job to its end, and count what was sent again; after each batch, which is committed by then, call ``on_batch``."""
    while job.status == "running":
        async with begin() as connection:
            now = await service_now_to_write(context.clock, connection)
            job = await advance(connection, job, await find_next(connection, job), now, take, batch_max)
        if on_batch is not None:
            on_batch()
    return job.redelivered_count


async def find_next(connection: Connection, job: RedeliveryJob) -> Endpoint | None:
    """The endpoint where a job is, which may have been deleted since, or else the next one."""
    found = await endpoint_store.find_some(connection, job.holder_id, job.endpoint_id, job.at_endpoint_id - 1, 1)
    return found[0] if found else None


async def advance(
    connection: Connection,
    job: RedeliveryJob,
    endpoint: Endpoint | None,
    now: datetime,
    take: Redeliver = redelivery_store.redeliver_some,
    batch_max: int = BATCH_MAX,
) -> RedeliveryJob:
    """Do one batch of a job, for the endpoint that ``find_next`` has found."""
    if endpoint is None:
        return structs.replace(job, status="done", ended_at=now)
    is_same = endpoint.id == job.at_endpoint_id and job.at_instant is not None
    after: tuple[datetime, int] = (job.at_instant or job.initial_at, job.at_id) if is_same else (job.initial_at, 0)
    batch = await take(connection, endpoint, job, after, now, batch_max)
    if batch is not None:
        job = structs.replace(
            job,
            at_endpoint_id=endpoint.id,
            at_instant=batch.end[0],
            at_id=batch.end[1],
            looked_at_count=job.looked_at_count + batch.looked_at_count,
            redelivered_count=job.redelivered_count + batch.count,
        )
    if batch is None or batch.looked_at_count < batch_max:
        # The next endpoint begins at its oldest.
        job = structs.replace(job, at_endpoint_id=endpoint.id + 1, at_instant=None, at_id=0)
    return job


def _subject(wanted: RedeliveryFilter) -> str:
    if wanted.endpoint_id is not None:
        return f"endpoint {wanted.endpoint_id}"
    return "all holders" if wanted.holder_id is None else f"holder {wanted.holder_id}"
