"""Kept jobs that send deliveries of one holder again: people start them at the console, and workers do them.

A job's row says how far it is, and is written with each batch: a worker that is killed loses nothing and repeats nothing.
A job never leaves its holder: every statement names it. It waits while as many deliveries wait for an endpoint as may.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, get_args

from msgspec import Struct, structs

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.event import EVENT_NAMES
from pixconnect.domain.identity.console import Viewer
from pixconnect.domain.webhooks.delivery import DeliveryStatus
from pixconnect.domain.webhooks.endpoint import ENDPOINTS_MAX, Endpoint
from pixconnect.domain.webhooks.redelivery import RedeliveryFilter, RedeliveryJob
from pixconnect.foundation.pool import Connection
from pixconnect.store.frame import listing as listing_store
from pixconnect.store.webhooks import delivery_history as delivery_history_store
from pixconnect.store.webhooks import endpoint as endpoint_store
from pixconnect.store.webhooks import redelivery as redelivery_store
from pixconnect.store.webhooks import redelivery_job as redelivery_job_store
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.audit import Act
from pixconnect.usecases.frame.context import HasClock, HasPool
from pixconnect.usecases.frame.lone_write import write_alone
from pixconnect.usecases.webhooks.redelivery import BATCH_MAX, RedeliveryContext, advance, find_next, make_job
from pixconnect.writing.service_time import service_now_to_write

COUNTING_S: Final = 0.5
"""Counting ends then, and the page says "at least"."""
BATCHES_MAX: Final = 10
"""That one pass does for each job, so that others have their turn."""
RUNNING_MAX: Final = 100
LISTED_MAX: Final = 100


class CountingContext(HasPool, HasClock, Protocol): ...


class MatchCount(Struct, frozen=True, kw_only=True):
    count: int
    is_more: bool
    """There are at least so many: to count them all takes too long."""


async def count_matching(
    context: CountingContext, viewer: Viewer, wanted: RedeliveryFilter, batch_max: int = BATCH_MAX
) -> MatchCount:
    """How many deliveries a job would send again; refuses what ``start_redelivery`` refuses."""
    _check(viewer, wanted)
    began_s, count = context.clock.monotonic_s(), 0
    for endpoint in await _find_endpoints(context, wanted):
        after = (listing_store.bounds_of(wanted.initial_at, None)[0], 0)
        while batch := await redelivery_store.count_some(context.pool, endpoint, wanted, after, batch_max):
            count, after = count + batch.count, batch.end
            # Asked after a batch, so that something is counted however slow the database is.
            if context.clock.monotonic_s() - began_s > COUNTING_S:
                return MatchCount(count=count, is_more=True)
    return MatchCount(count=count, is_more=False)


async def start_redelivery(
    context: RedeliveryContext,
    viewer: Viewer,
    wanted: RedeliveryFilter,
    *,
    asked_by: str,
    expected_count: int,
    act: Act | None = None,
) -> RedeliveryJob:
    """Send again everything that a filter matches and that was made until now; ``act`` is recorded with it.

    Raises:
        BadRequest: The filter makes no sense.
        NotFound: The holder is not the viewer's, or has no such endpoint.
        LimitExceeded: Deliveries of the holder are being sent again already.
        Forbidden: The viewer may not.
    """
    holder_id = _check(viewer, wanted)
    await _find_endpoints(context, wanted)
    async with write_alone(context.pool) as connection:
        now = await service_now_to_write(context.clock, connection)
        # What is made from now on is none of the job's.
        until = min(wanted.final_at or now, now)
        made = make_job(
            holder_id, structs.replace(wanted, final_at=until), now, asked_by=asked_by, expected_count=expected_count
        )
        # A unique index lets one job of a holder run at a time: two would send the same deliveries twice.
        job = await redelivery_job_store.insert(connection, made)
        if job is None:
            raise errors.LimitExceeded(
                "deliveries of this holder are being sent again already: wait for the end of that"
            )
        await audit.record_act(connection, act)
    return job


async def read_redelivery(context: CountingContext, viewer: Viewer, job_id: int) -> RedeliveryJob:
    viewer.require("webhook.read")
    return _found(await redelivery_job_store.find(context.pool, job_id, viewer.holder_id))


async def list_redeliveries(context: CountingContext, viewer: Viewer) -> list[RedeliveryJob]:
    """The newest first."""
    viewer.require("webhook.read")
    return await redelivery_job_store.list_newest(context.pool, viewer.holder_id, LISTED_MAX)


async def cancel_redelivery(
    context: CountingContext, viewer: Viewer, job_id: int, act: Act | None = None
) -> RedeliveryJob:
    """End a job; it takes back nothing that it has sent again. One that has ended stays as it is, and nothing is recorded."""
    viewer.require("webhook.write")
    async with write_alone(context.pool) as connection:
        now = await service_now_to_write(context.clock, connection)
        cancelled = await redelivery_job_store.cancel(connection, job_id, viewer.holder_id, now)
        if cancelled is not None:
            await audit.record_act(connection, act)
    return cancelled or await read_redelivery(context, viewer, job_id)


def _check(viewer: Viewer, wanted: RedeliveryFilter) -> int:
    """Refuse what makes no sense; answers whose deliveries they are."""
    viewer.require("webhook.write")
    if wanted.holder_id is None:
        raise errors.BadRequest("holder: choose one first; you cannot resend for all holders at once")
    viewer.check_owner(wanted.holder_id)
    if not wanted.statuses or not set(wanted.statuses) <= set(get_args(DeliveryStatus)):
        raise errors.BadRequest(f"status: must be some of {', '.join(get_args(DeliveryStatus))}")
    if not EVENT_NAMES.issuperset(wanted.event_types):
        raise errors.BadRequest("event type: there is no such event type")
    initial_at, final_at = listing_store.bounds_of(wanted.initial_at, wanted.final_at)
    if initial_at > final_at:
        raise errors.BadRequest("instant: the time ends before it begins")
    return wanted.holder_id


async def _find_endpoints(context: CountingContext, wanted: RedeliveryFilter) -> Sequence[Endpoint]:
    async with context.pool.acquire() as connection:
        found = await endpoint_store.find_some(connection, wanted.holder_id, wanted.endpoint_id, 0, ENDPOINTS_MAX)
    if not found and wanted.endpoint_id is not None:
        raise errors.NotFound("endpoint: there is no such endpoint")
    return found


async def work_redeliveries(
    context: RedeliveryContext, *, batch_max: int = BATCH_MAX, batches_max: int = BATCHES_MAX
) -> int:
    """Do some batches of each job that runs, and count them; several workers may do so at once."""
    batches_count = 0
    for job_id in await redelivery_job_store.list_running(context.pool, RUNNING_MAX):
        for _ in range(batches_max):
            async with context.pool.acquire() as connection, connection.transaction():
                is_done = await _work_once(context, connection, job_id, batch_max)
            if not is_done:
                break
            batches_count += 1
            context.wake_workers()
    return batches_count


async def _work_once(context: RedeliveryContext, connection: Connection, job_id: int, batch_max: int) -> bool:
    """Do one batch of a job; false if there is nothing to do now."""
    job = await redelivery_job_store.lock_running(connection, job_id)
    if job is None:
        return False
    endpoint = await find_next(connection, job)
    # The row stays as it is: a later pass looks again, once some of what waits was delivered.
    if endpoint is not None and await _is_full(context, connection, endpoint, batch_max):
        return False
    now = await service_now_to_write(context.clock, connection)
    await redelivery_job_store.update(connection, await advance(connection, job, endpoint, now, batch_max=batch_max))
    return True


async def _is_full(context: RedeliveryContext, connection: Connection, endpoint: Endpoint, batch_max: int) -> bool:
    """Whether one more batch could make more deliveries wait for an endpoint than may."""
    pending_max = context.policy.webhook_pending_max
    waiting_count = await delivery_history_store.count_pending(connection, endpoint.id, None, pending_max)
    # Where less may wait than a batch has, the job goes on when nothing waits, and not never.
    return waiting_count > max(0, pending_max - batch_max)


def _found(job: RedeliveryJob | None) -> RedeliveryJob:
    if job is None:
        raise errors.NotFound("id: there is no such job")
    return job
