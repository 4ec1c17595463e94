"""Sends many deliveries of one holder again: all that a filter matches, as a job that workers do batch by batch.

Where a job is stands in its row, which is written with each batch: a worker that is killed loses nothing and repeats nothing.
It never leaves its holder: every statement names it. While as many deliveries wait for an endpoint as may, its job waits too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Protocol, get_args

from msgspec import Struct, structs

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.event import EVENT_NAMES
from pixconnect.domain.identity.console import Viewer
from pixconnect.domain.webhooks.delivery import DeliveryStatus
from pixconnect.domain.webhooks.endpoint import ENDPOINTS_MAX
from pixconnect.domain.webhooks.resend import ResendFilter, ResendJob
from pixconnect.foundation.pool import Connection
from pixconnect.store.frame import listing as listing_store
from pixconnect.store.webhooks import delivery_history
from pixconnect.store.webhooks import endpoint as endpoint_store
from pixconnect.store.webhooks import resend as resend_store
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.audit import Act
from pixconnect.usecases.frame.context import HasClock, HasPolicy, HasPool, HasWakeWorkers
from pixconnect.usecases.frame.lone_write import write_alone
from pixconnect.writing.service_time import service_now_to_write

BATCH_MAX: Final = 2_000
"""Deliveries that one transaction looks at."""
COUNTING_S: Final = 0.5
"""Counting ends then: what is counted by then is said to be the least."""
BATCHES_MAX: Final = 10
"""That one pass does for each job, so that others have their turn."""
RUNNING_MAX: Final = 100
LISTED_MAX: Final = 100


class CountingContext(HasPool, HasClock, Protocol): ...


class ResendContext(CountingContext, HasPolicy, HasWakeWorkers, Protocol): ...


class ResendCount(Struct, frozen=True, kw_only=True):
    count: int
    is_more: bool
    """There are at least so many: to count them all takes too long."""


async def count_resend(context: CountingContext, viewer: Viewer, wanted: ResendFilter) -> ResendCount:
    """How many deliveries a job would send again; refuses what ``start_resend`` refuses."""
    _check(viewer, wanted)
    began_s, count = context.clock.monotonic_s(), 0
    for endpoint_id in await _find_endpoints(context, wanted):
        after = (listing_store.bounds_of(wanted.initial_at, None)[0], 0)
        while (batch := await resend_store.count_some(context.pool, endpoint_id, wanted, after, BATCH_MAX)) is not None:
            count, after = count + batch.count, batch.end
            if context.clock.monotonic_s() - began_s > COUNTING_S:
                return ResendCount(count=count, is_more=True)
    return ResendCount(count=count, is_more=False)


async def start_resend(
    context: ResendContext,
    viewer: Viewer,
    wanted: ResendFilter,
    *,
    asked_by: str,
    expected_count: int,
    act: Act | None = None,
) -> ResendJob:
    """Send again everything that a filter matches and that was made until now; ``act`` is recorded with it.

    Raises:
        Forbidden: The viewer may not.
        BadRequest: The filter makes no sense.
        NotFound: The holder is not the viewer's, or has no such endpoint.
        LimitExceeded: A job of this holder runs already.
    """
    _check(viewer, wanted)
    await _find_endpoints(context, wanted)
    async with write_alone(context.pool) as connection:
        now = await service_now_to_write(context.clock, connection)
        oldest, newest = listing_store.bounds_of(wanted.initial_at, wanted.final_at)
        job = await resend_store.insert(
            connection,
            ResendJob(
                id=0,
                holder_id=wanted.holder_id,
                asked_by=asked_by,
                endpoint_id=wanted.endpoint_id,
                statuses=wanted.statuses,
                event_types=wanted.event_types,
                initial_at=oldest,
                final_at=min(newest, now),
                status="running",
                expected_count=expected_count,
                looked_at_count=0,
                resent_count=0,
                at_endpoint_id=0,
                at_instant=None,
                at_id=0,
                created_at=now,
                ended_at=None,
            ),
        )
        if job is None:
            raise errors.LimitExceeded(
                "deliveries of this holder are being sent again already: wait for the end of that"
            )
        await audit.record_act(connection, act)
    return job


async def read_resend(context: CountingContext, viewer: Viewer, job_id: int) -> ResendJob:
    viewer.require("webhook.read")
    return _found(await resend_store.find(context.pool, job_id, viewer.holder_id))


async def list_resends(context: CountingContext, viewer: Viewer) -> list[ResendJob]:
    """The newest first."""
    viewer.require("webhook.read")
    return await resend_store.list_newest(context.pool, viewer.holder_id, LISTED_MAX)


async def cancel_resend(context: CountingContext, viewer: Viewer, job_id: int, act: Act | None = None) -> ResendJob:
    """End a job; what it has sent again stays so. One that has ended stays as it is, and nothing is recorded."""
    viewer.require("webhook.write")
    async with write_alone(context.pool) as connection:
        now = await service_now_to_write(context.clock, connection)
        cancelled = await resend_store.cancel(connection, job_id, viewer.holder_id, now)
        if cancelled is not None:
            await audit.record_act(connection, act)
    return cancelled or await read_resend(context, viewer, job_id)


def _check(viewer: Viewer, wanted: ResendFilter) -> None:
    viewer.require("webhook.write")
    viewer.check_owner(wanted.holder_id)
    if not wanted.statuses or not set(wanted.statuses) <= set(get_args(DeliveryStatus)):
        raise errors.BadRequest(f"status: must be some of {', '.join(get_args(DeliveryStatus))}")
    if not EVENT_NAMES.issuperset(wanted.event_types):
        raise errors.BadRequest("event type: there is no such event type")
    initial_at, final_at = listing_store.bounds_of(wanted.initial_at, wanted.final_at)
    if initial_at > final_at:
        raise errors.BadRequest("instant: the time ends before it begins")


async def _find_endpoints(context: CountingContext, wanted: ResendFilter) -> Sequence[int]:
    async with context.pool.acquire() as connection:
        found = await endpoint_store.find_some(connection, wanted.holder_id, wanted.endpoint_id, 0, ENDPOINTS_MAX)
    if not found and wanted.endpoint_id is not None:
        raise errors.NotFound("endpoint: there is no such endpoint")
    return [endpoint.id for endpoint in found]


async def work_resends(context: ResendContext) -> int:
    """Do some batches of each job that runs, and count them; several workers may do so at once."""
    batches_count = 0
    for job_id in await resend_store.list_running(context.pool, RUNNING_MAX):
        for _ in range(BATCHES_MAX):
            async with context.pool.acquire() as connection, connection.transaction():
                is_done = await _work_once(context, connection, job_id)
            if is_done is None:
                break
            batches_count += 1
            context.wake_workers()
    return batches_count


async def _work_once(context: ResendContext, connection: Connection, job_id: int) -> bool | None:
    """Do one batch of a job; ``None`` if there is nothing to do now."""
    job = await resend_store.lock_running(connection, job_id)
    if job is None:
        return None
    now = await service_now_to_write(context.clock, connection)
    # At the endpoint where it is, which may have been deleted since, or else at the next one.
    found = await endpoint_store.find_some(connection, job.holder_id, job.endpoint_id, job.at_endpoint_id - 1, 1)
    if not found:
        await resend_store.update(connection, structs.replace(job, status="done", ended_at=now))
        return True
    endpoint_id = found[0].id
    pending_max = context.policy.webhook_pending_max
    waiting_count = await delivery_history.count_pending(connection, endpoint_id, None, pending_max)
    if waiting_count > max(0, pending_max - BATCH_MAX):
        return None
    is_same = endpoint_id == job.at_endpoint_id and job.at_instant is not None
    after: tuple[datetime, int] = (job.at_instant or job.initial_at, job.at_id) if is_same else (job.initial_at, 0)
    batch = await resend_store.resend_some(connection, endpoint_id, job, after, now, BATCH_MAX)
    if batch is None:
        # The next one begins at its oldest.
        job = structs.replace(job, at_endpoint_id=endpoint_id + 1, at_instant=None, at_id=0)
    else:
        job = structs.replace(
            job,
            at_endpoint_id=endpoint_id,
            at_instant=batch.end[0],
            at_id=batch.end[1],
            looked_at_count=job.looked_at_count + batch.looked_at_count,
            resent_count=job.resent_count + batch.count,
        )
    await resend_store.update(connection, job)
    return True


def _found(job: ResendJob | None) -> ResendJob:
    if job is None:
        raise errors.NotFound("id: there is no such job")
    return job
