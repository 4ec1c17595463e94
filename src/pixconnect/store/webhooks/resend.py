"""Jobs that send deliveries again, and the batches in which they do."""

from __future__ import annotations

from datetime import datetime
from typing import Final, LiteralString

import asyncpg
from msgspec import Struct

from pixconnect.domain.webhooks.resend import ResendFilter, ResendJob
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame import listing as listing_store
from pixconnect.store.frame.table import Table

RESEND_JOB: Final = Table(
    "resend_job",
    ResendJob,
    """
    id bigint, holder_id bigint, asked_by text, endpoint_id bigint, statuses text[], event_types text[],
    initial_at timestamptz, final_at timestamptz, status text, expected_count bigint, looked_at_count bigint,
    resent_count bigint, at_endpoint_id bigint, at_instant timestamptz, at_id bigint, created_at timestamptz,
    ended_at timestamptz
    """,
    read={"statuses": (tuple, "statuses"), "event_types": (tuple, "event_types")},
)
_NEW: Final = RESEND_JOB.without("id")

_INSERT: Final[LiteralString] = f"""
    insert into resend_job ({_NEW.names}) values ({_NEW.parameters})
    on conflict (holder_id) where status = 'running' do nothing returning {RESEND_JOB.select}
"""


async def insert(connection: Connection, job: ResendJob) -> ResendJob | None:
    """Add a job, whose id is made here; ``None`` if one of its holder runs already."""
    return RESEND_JOB.read_found(await connection.fetchrow(_INSERT, *_NEW.values(job)))


_FIND: Final[LiteralString] = f"""
    select {RESEND_JOB.select} from resend_job where id = $1 and ($2::bigint is null or holder_id = $2)
"""


async def find(pool: Pool, job_id: int, holder_id: int | None) -> ResendJob | None:
    return RESEND_JOB.read_found(await pool.fetchrow(_FIND, job_id, holder_id))


_LIST: Final[LiteralString] = f"""
    select {RESEND_JOB.select} from resend_job where $1::bigint is null or holder_id = $1 order by id desc limit $2
"""


async def list_newest(pool: Pool, holder_id: int | None, count_max: int) -> list[ResendJob]:
    return [RESEND_JOB.read(row) for row in await pool.fetch(_LIST, holder_id, count_max)]


_LIST_RUNNING: Final[LiteralString] = "select id from resend_job where status = 'running' order by id limit $1"


async def list_running(pool: Pool, count_max: int) -> list[int]:
    return [row["id"] for row in await pool.fetch(_LIST_RUNNING, count_max)]


# Another worker is at it already: then this one leaves it.
_LOCK: Final[LiteralString] = f"""
    select {RESEND_JOB.select} from resend_job where id = $1 and status = 'running' for update skip locked
"""


async def lock_running(connection: Connection, job_id: int) -> ResendJob | None:
    return RESEND_JOB.read_found(await connection.fetchrow(_LOCK, job_id))


_MOVED: Final = RESEND_JOB.only(
    "id", "status", "looked_at_count", "resent_count", "at_endpoint_id", "at_instant", "at_id", "ended_at"
)
_UPDATE: Final[LiteralString] = f"""
    update resend_job set {_MOVED.assignments} from (select {_MOVED.parameters}) as new ({_MOVED.names})
    where resend_job.id = new.id
"""


async def update(connection: Connection, job: ResendJob) -> None:
    await connection.execute(_UPDATE, *_MOVED.values(job))


_CANCEL: Final[LiteralString] = f"""
    update resend_job set status = 'cancelled', ended_at = $3
    where id = $1 and ($2::bigint is null or holder_id = $2) and status = 'running' returning {RESEND_JOB.select}
"""


async def cancel(connection: Connection, job_id: int, holder_id: int | None, now: datetime) -> ResendJob | None:
    """End a job that runs, after the batch that is under way."""
    return RESEND_JOB.read_found(await connection.fetchrow(_CANCEL, job_id, holder_id, now))


class ResentBatch(Struct, frozen=True, kw_only=True):
    count: int
    """Of those that the filter matches."""
    looked_at_count: int
    end: tuple[datetime, int]
    """The last one that was looked at."""


# $1 endpoint, $2 its holder, $3 statuses, $4 types, $5 newest instant, $6 and $7 the place to go on after, $8 how many,
# $9 oldest instant, $10 now.
def _chosen(status: LiteralString) -> LiteralString:
    # In the order of the index; failed deliveries have an index of their own, if the text says so.
    return f"""
        select id, holder_id, event_id, status, created_at, covers, covered_by from delivery
        where endpoint_id = $1 {status} and created_at <= $5 and (created_at, id) > ($6, $7)
        order by created_at, id limit $8
    """


def _is_of_type(name: LiteralString) -> LiteralString:
    return f"""(
        select $4::text[] is null or event.name = any($4) from event
        where event.id = {name}.event_id and event.holder_id = {name}.holder_id
    )"""


_END: Final[LiteralString] = """
    (select count(*) from chosen) as looked_at_count, created_at, id
    from chosen order by created_at desc, id desc limit 1
"""
# What one body tells goes together if any of it matches: with the oldest of it that does, so that no later batch sends it once
# more. Its status is that of the delivery that holds the body. Where the event is no longer kept there is nothing to send.
_FOUND: Final[LiteralString] = f"""
    select alone.id as first_id, array[alone.id] as ids, 1 as count from chosen as alone
    where alone.covers is null and alone.covered_by is null and alone.holder_id = $2 and alone.status = any($3::text[])
        and {_is_of_type("alone")}
    union all
    select first.id, first.id || first.covers, matching.count from chosen as member
    cross join lateral (
        select id, covers, event_id from delivery
        where id = coalesce(member.covered_by, member.id) and holder_id = $2 and status = any($3::text[]) and covers is not null
    ) as first
    cross join lateral (
        select count(*), bool_or(told.id = member.id)
            and bool_and((told.created_at, told.id) >= (member.created_at, member.id)) as is_earliest
        from delivery as told
        where told.id = any(first.id || first.covers) and told.holder_id = $2 and told.created_at between $9 and $5
            and {_is_of_type("told")}
    ) as matching
    where (member.covers is not null or member.covered_by is not null) and member.holder_id = $2
        and matching.is_earliest
"""


def _resend(status: LiteralString) -> LiteralString:
    # Locked in order of id, as every process locks deliveries.
    return f"""
        with chosen as materialized ({_chosen(status)}),
        found as materialized ({_FOUND}),
        locked as (
            select delivery.id, delivery.holder_id, delivery.status, delivery.event_id from delivery
            where delivery.id = any(array(select unnest(ids) from found)) and delivery.holder_id = $2
            order by delivery.id for no key update
        ),
        started as (
            select found.ids, found.count from found join locked on locked.id = found.first_id
            where locked.status = any($3::text[])
                and exists (select from event where event.id = locked.event_id and event.holder_id = locked.holder_id)
        ),
        restarted as (
            update delivery set status = 'pending', due_at = $10, failures_count = 0, modified_at = $10 from locked
            where delivery.id = locked.id and delivery.holder_id = locked.holder_id
                and locked.id = any(array(select unnest(ids) from started))
        )
        select coalesce((select sum(count) from started), 0)::bigint as count, {_END}
    """


def _count(status: LiteralString) -> LiteralString:
    return f"""
        with chosen as materialized ({_chosen(status)}),
        found as materialized ({_FOUND})
        select coalesce((select sum(count) from found), 0)::bigint as count, {_END}
    """


_FAILED: Final[LiteralString] = "and status = 'failed'"
_RESEND, _RESEND_FAILED = _resend(""), _resend(_FAILED)
_COUNT, _COUNT_FAILED = _count(""), _count(_FAILED)


async def resend_some(
    connection: Connection, endpoint_id: int, job: ResendJob, after: tuple[datetime, int], now: datetime, count_max: int
) -> ResentBatch | None:
    """Start the schedules of some of a job's deliveries to an endpoint anew, the oldest first; ``None`` at the end."""
    is_failed = job.statuses == ("failed",)
    row = await connection.fetchrow(
        _RESEND_FAILED if is_failed else _RESEND,
        endpoint_id,
        job.holder_id,
        list(job.statuses),
        list(job.event_types) or None,
        job.final_at,
        *after,
        count_max,
        job.initial_at,
        now,
    )
    return None if row is None else _batch(row)


async def count_some(
    pool: Pool, endpoint_id: int, wanted: ResendFilter, after: tuple[datetime, int], count_max: int
) -> ResentBatch | None:
    """Count those that a filter matches among some of an endpoint's deliveries; ``None`` at the end."""
    oldest, newest = listing_store.bounds_of(wanted.initial_at, wanted.final_at)
    row = await pool.fetchrow(
        _COUNT_FAILED if wanted.statuses == ("failed",) else _COUNT,
        endpoint_id,
        wanted.holder_id,
        list(wanted.statuses),
        list(wanted.event_types) or None,
        newest,
        *after,
        count_max,
        oldest,
    )
    return None if row is None else _batch(row)


def _batch(row: asyncpg.Record) -> ResentBatch:
    return ResentBatch(count=row["count"], looked_at_count=row["looked_at_count"], end=(row["created_at"], row["id"]))
